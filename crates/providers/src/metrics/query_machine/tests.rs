//! Laws for every provider.

use proptest::prelude::*;
use serde_json::Value;

use super::{
    super::testing::{Asked, answered, asked, done, sent, value},
    *,
};

/// One honest question for each type, with an answer that has the value 5.
fn all() -> Vec<(Asked, Vec<Reply>, String)> {
    let aws = [("aws_access_key_id", "k"), ("aws_secret_access_key", "s")];
    let datadog = [("datadog_api_key", "k"), ("datadog_application_key", "k")];
    let newrelic = [("newrelic_account_id", "1"), ("newrelic_query_key", "k")];
    let vector =
        r#"{"status":"success","data":{"resultType":"vector","result":[{"value":[1,"5"]}]}}"#;
    let csv = "#datatype,string,long,double\n#default,,,\n,result,table,_value\n,,0,5\n";
    let stream = "event: data\ndata: {\"data\":[{\"tsId\":\"A\",\"value\":5}]}\n\nevent: control-message\ndata: {\"event\":\"END_OF_CHANNEL\"}\n\n";
    let token = vec![answered(200, r#"{"access_token":"t"}"#)];
    let none = Vec::new;
    vec![
        (asked("prometheus").at("http://p"), none(), vector.to_owned()),
        (asked("influxdb").at("http://i"), none(), csv.to_owned()),
        (
            asked("datadog").secret(&datadog),
            none(),
            r#"{"series":[{"pointlist":[[1,5]]}]}"#.to_owned(),
        ),
        (asked("externalmetrics").query("m"), none(), r#"{"items":[{"value":"5"}]}"#.to_owned()),
        (
            asked("stackdriver").secret(&[("project", "p")]),
            token,
            r#"{"timeSeriesData":[{"pointData":[{"values":[{"doubleValue":5}]}]}]}"#.to_owned(),
        ),
        (
            asked("cloudwatch").secret(&aws).region("eu-west-1").query(r#"[{"Id":"a"}]"#),
            none(),
            r#"{"MetricDataResults":[{"Values":[5]}]}"#.to_owned(),
        ),
        (asked("newrelic").secret(&newrelic), none(), r#"{"results":[{"result":5}]}"#.to_owned()),
        (
            asked("graphite").at("http://g").query("target=a"),
            none(),
            r#"[{"datapoints":[[5,1]]}]"#.to_owned(),
        ),
        (
            asked("dynatrace").at("http://d").secret(&[("dynatrace_token", "k")]),
            none(),
            r#"{"result":[{"data":[{"values":[5]}]}]}"#.to_owned(),
        ),
        (asked("keptn").query("keptnmetric/a/b"), none(), r#"{"status":{"value":"5"}}"#.to_owned()),
        (
            asked("splunk").at("https://api.x").secret(&[("sf_token_key", "k")]),
            none(),
            stream.to_owned(),
        ),
    ]
}

fn with(replies: &[Reply], last: Reply) -> Vec<Reply> {
    replies.iter().cloned().chain([last]).collect()
}

#[test]
fn every_type_of_the_schema_is_known_and_every_other_one_is_not() {
    assert_eq!(all().len(), PROVIDERS.len());
    for (asked, replies, body) in all() {
        let machine = asked.machine().unwrap();
        assert_eq!(machine.provider(), asked.provider.provider_type.as_str());
        assert_eq!(format!("{machine:?}"), format!("QueryMachine({})", machine.provider()));
        assert_eq!(
            done(&machine, &with(&replies, answered(200, &body))),
            value(5.0),
            "{machine:?}"
        );
        assert!(asked.probe().is_ok(), "{machine:?}");
    }
    let error = asked("zabbix").refusal();
    assert_eq!(
        error.to_string(),
        "there is no metric provider \"zabbix\"; there are cloudwatch, datadog, dynatrace, externalmetrics, graphite, influxdb, keptn, newrelic, prometheus, splunk, stackdriver"
    );
    assert_eq!(asked("zabbix").probe().unwrap_err(), error);
}

#[test]
fn no_data_is_told_apart_from_a_failure_by_every_provider() {
    let empty = [
        ("prometheus", r#"{"data":{"result":[]}}"#),
        ("influxdb", ""),
        ("datadog", r#"{"series":[]}"#),
        ("externalmetrics", r#"{"items":[]}"#),
        ("stackdriver", "{}"),
        ("cloudwatch", r#"{"MetricDataResults":[]}"#),
        ("newrelic", r#"{"results":[]}"#),
        ("graphite", "[]"),
        ("dynatrace", r#"{"result":[]}"#),
        ("keptn", r#"{"status":{"value":"NaN"}}"#),
        ("splunk", "event: control-message\ndata: {\"event\":\"END_OF_CHANNEL\"}\n\n"),
    ];
    for (asked, replies, _) in all() {
        let machine = asked.machine().unwrap();
        let (_, body) = empty.iter().find(|(name, _)| *name == machine.provider()).unwrap();
        let of = |reply| done(&machine, &with(&replies, reply));
        assert_eq!(of(answered(200, body)), Outcome::NoData, "{machine:?}");
        assert!(matches!(of(answered(500, body)), Outcome::Failure(_)), "{machine:?}");
        assert!(matches!(of(answered(302, body)), Outcome::Failure(_)), "{machine:?}");
        assert_eq!(of(Reply::Lost), Outcome::Failure(QueryError::Unreachable), "{machine:?}");
    }
}

#[test]
fn an_answer_that_was_cut_is_no_answer() {
    for (asked, replies, body) in all() {
        let machine = asked.machine().unwrap();
        let body = body.as_bytes();
        let cut = Reply::Answered { status: 200, body: body.to_vec(), truncated: true };
        let outcome = done(&machine, &with(&replies, cut));
        assert_eq!(outcome, Outcome::Failure(QueryError::TooLong), "{machine:?}");
        for length in 0..body.len() {
            let body = body.get(..length).unwrap().to_vec();
            let reply = Reply::Answered { status: 200, body, truncated: false };
            let outcome = done(&machine, &with(&replies, reply));
            let is_right = !matches!(outcome, Outcome::Value(_)) || outcome == value(5.0);
            assert!(is_right, "{machine:?} reads {outcome:?} from {length} bytes");
        }
    }
}

#[test]
fn texts_of_a_server_are_not_repeated() {
    let bodies = [
        "marker",
        r#"{"error":"marker","errors":["marker"],"status":"error","errorType":"marker"}"#,
        r#"{"__type":"marker","code":"marker","error":{"status":"marker"}}"#,
        "event: error\ndata: {\"message\":\"marker\"}\n\n",
        "#datatype,string\n#default,\n,error\n,marker\n",
    ];
    for (asked, replies, _) in all() {
        let machine = asked.machine().unwrap();
        for (status, body) in bodies.iter().flat_map(|body| [(200, body), (400, body), (503, body)])
        {
            let outcome = done(&machine, &with(&replies, answered(status, body)));
            if let Outcome::Failure(error) = outcome {
                let shown = format!("{error} {error:?} {}", error.label());
                assert!(!shown.contains("marker"), "{machine:?}: {shown}");
            }
        }
    }
}

#[test]
fn an_interval_that_is_none_is_refused_before_anything_is_sent() {
    let parsed = ["datadog", "cloudwatch", "newrelic", "dynatrace", "splunk"];
    for (asked, ..) in all() {
        let name = asked.provider.provider_type.as_str().to_owned();
        for interval in ["", "1min", "0s", "-1m", "60", "1ns"] {
            let refusal = asked.clone().interval(interval).machine().err();
            assert_eq!(refusal.is_some(), parsed.contains(&name.as_str()), "{name} {interval:?}");
            if let Some(error) = refusal {
                assert!(error.to_string().starts_with("error parsing metric interval"), "{error}");
            }
        }
        let long = asked.clone().interval("2562047h").machine();
        assert!(long.is_ok(), "{name}: the window starts with the epoch");
    }
}

#[test]
fn headers_of_a_template_go_to_its_address_and_cannot_break_out() {
    for (asked, ..) in all() {
        let name = asked.provider.provider_type.as_str().to_owned();
        let split = asked.clone().header("X-A", "hidden\r\nX-Evil: 1").machine();
        let ignores = ["cloudwatch", "stackdriver", "keptn", "externalmetrics"];
        match split {
            Ok(_) => assert!(ignores.contains(&name.as_str()), "{name}"),
            Err(error) => assert!(!error.to_string().contains("hidden"), "{error}"),
        }
    }
}

#[test]
fn amazons_prometheus_gets_signed_requests() {
    let address = "https://aps-workspaces.eu-west-1.amazonaws.com/workspaces/ws-1";
    let aws = [("aws_access_key_id", "AKID"), ("aws_secret_access_key", "s")];
    let call = asked("prometheus").at(address).secret(&aws).call();
    assert_eq!(call.request.url.to_string(), format!("{address}/api/v1/query?query=up"));
    let signing = call.signing.unwrap();
    assert_eq!(signing.keys.id, "AKID");
    assert_eq!((signing.region.as_str(), signing.service), ("eu-west-1", "aps"));
    let in_china = "https://aps-workspaces.cn-north-1.amazonaws.com.cn/workspaces/ws-1";
    let call = asked("prometheus").at(in_china).secret(&aws).call();
    assert_eq!(call.signing.unwrap().region, "cn-north-1");
    let mut lax = asked("prometheus").at(address).secret(&aws);
    lax.provider.insecure_skip_verify = Some(true);
    assert!(lax.call().verify_tls, "a signature of the operator's is shown to Amazon alone");
    for other in [
        "http://aps-workspaces.eu-west-1.amazonaws.com/",
        "https://aps-workspaces.eu-west-1.amazonaws.com.evil.example/",
        "https://evil.example/aps-workspaces.eu-west-1.amazonaws.com",
        "https://aps-workspaces.eu-west-1.amazonaws.cn/",
    ] {
        let mut asked = asked("prometheus").at(other);
        asked.environment.aws = super::super::aws::Source::Instance;
        let call = asked.call();
        assert_eq!(call.signing, None, "{other}");
        assert!(!call.trusted, "{other}");
    }
}

#[test]
fn a_certificate_of_a_secret_is_shown() {
    let both = [("tls.crt", "chain"), ("tls.key", "key"), ("ca.crt", "authority")];
    let call = asked("prometheus").at("https://p").secret(&both).call();
    let certificate = call.certificate.unwrap();
    assert_eq!((&*certificate.chain_pem, &*certificate.key_pem), (&b"chain"[..], &b"key"[..]));
    assert_eq!(format!("{certificate:?}"), "***");
    assert!(!call.request.headers.contains_key("authorization"), "that says who asks");
    assert_eq!(call.ca_pem.as_deref(), Some(&b"authority"[..]));
    for half in &both[..2] {
        let refused = asked("prometheus").at("https://p").secret(&[*half]).refusal().to_string();
        assert!(refused.contains("credentials do not contain tls."), "{refused}");
    }
    let login = [both[0], both[1], ("username", "u"), ("password", "p")];
    let call = asked("graphite").at("https://g").query("target=a").secret(&login).call();
    assert!(call.certificate.is_some() && call.request.headers.contains_key("authorization"));
}

#[test]
fn a_secret_that_is_referred_to_must_be_there() {
    for (asked, ..) in all() {
        let mut lost = asked.clone().secret(&[]);
        lost.secret = None;
        let provider = lost.provider.provider_type.as_str();
        let error = lost.refusal().to_string();
        assert_eq!(error, format!("{provider} needs the Secret it refers to"));
        assert!(lost.probe().is_err(), "{provider}");
    }
}

#[test]
fn headers_are_the_same_at_every_query() {
    let asked =
        asked("prometheus").at("http://p").secret(&[("token", "t")]).header("X-Scope-OrgID", "a");
    let machine = asked.machine().unwrap();
    let first = sent(&machine, &[]);
    assert_eq!(first, sent(&machine, &[]));
    assert_eq!(first, asked.call());
    assert_eq!(first.request.headers.get_all("authorization").iter().count(), 1);
}

#[test]
fn prometheus_is_asked_and_probed() {
    let basic = asked("prometheus")
        .at("http://p:9090")
        .header("X-Scope-OrgID", "tenant1")
        .secret(&[("username", "me"), ("password", "p")]);
    let call = basic.call();
    assert_eq!(call.request.headers["x-scope-orgid"], "tenant1");
    assert_eq!(call.request.headers["authorization"], "Basic bWU6cA==");
    assert_eq!(basic.probe_call().request.url, "http://p:9090/api/v1/query?query=vector%281%29");
    let one = |value: &str| format!(r#"{{"data":{{"result":[{{"value":[1,"{value}"]}}]}}}}"#);
    assert!(basic.is_online(200, &one("1")));
    assert!(!basic.is_online(200, &one("2")));
    assert!(!basic.is_online(502, &one("1")));
    assert_eq!(basic.outcome(200, &one("100")), value(100.0));
    assert_eq!(basic.outcome(200, &one("NaN")), Outcome::NoData);
    let matrix = r#"{"data":{"result":[{"values":[[1,"1"]]}]}}"#;
    assert_eq!(basic.outcome(200, matrix), Outcome::Failure(QueryError::ManyValues));
    let bare = r#"{"data":{"result":[{}]}}"#;
    assert_eq!(basic.outcome(200, bare), Outcome::Failure(QueryError::Malformed));
    let missing = |key| ProviderError::MissingKey { provider: "prometheus", key };
    let empty = asked("prometheus").at("http://p").secret(&[]);
    assert_eq!(empty.refusal(), missing("username"));
}

/// JSON with the members of real answers in wrong places.
fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "(NaN|1|5m|\\+Inf|Completed|error|\\PC{0,3})".prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 40, 4, |inner| {
        let key = "(series|pointlist|result|results|data|datapoints|value|values|items|status|interval|timeSeriesData|pointData|doubleValue|MetricDataResults|Values)";
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map(key, inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// Every provider with this as its last answer; none may be NaN, panic or go on.
fn survive(status: u16, body: &[u8]) -> Result<(), TestCaseError> {
    for (asked, replies, _) in all() {
        let body = body.to_vec();
        let replies = with(&replies, Reply::Answered { status, body, truncated: false });
        for machine in [asked.machine().unwrap(), asked.probe().unwrap()] {
            match machine.next(&replies) {
                Step::Done(Outcome::Value(reading)) => {
                    prop_assert!(!reading.sample.get().is_nan());
                    prop_assert!(status == 200 || status == 204 || reading == Reading::ONLINE);
                }
                Step::Done(_) => {}
                other => prop_assert!(false, "{machine:?}: {other:?}"),
            }
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn no_json_makes_a_provider_panic(body in json(), status in prop_oneof![Just(200_u16), Just(400), Just(500)]) {
        survive(status, body.to_string().as_bytes())?;
    }

    #[test]
    fn no_bytes_make_a_provider_panic(body in proptest::collection::vec(any::<u8>(), 0..200)) {
        survive(200, &body)?;
    }

    #[test]
    fn no_table_makes_a_provider_panic(body in "(#datatype|#default|#group|,|double|long|_value|table|error|1|\"|\r\n|\n|x){0,40}") {
        survive(200, body.as_bytes())?;
    }

    #[test]
    fn no_events_make_a_provider_panic(body in "(event: |data: |control-message|data|error|\\{|\\}|\\[|\\]|\"data\":|\"tsId\":\"A\"|\"value\":1|,|\n|\n\n|\"event\":\"END_OF_CHANNEL\"){0,40}") {
        survive(200, body.as_bytes())?;
    }

    #[test]
    fn any_query_is_sent_or_refused(query in "\\PC{0,60}", address in "\\PC{0,30}") {
        for (asked, ..) in all() {
            let _ = asked.clone().query(&query).machine();
            let _ = asked.at(&address).machine();
        }
    }

    #[test]
    fn any_secret_is_used_or_refused_and_never_shown(text in "\\PC{0,30}|[\r\n\0]{1,3}") {
        for (mut asked, ..) in all() {
            for value in asked.secret.iter_mut().flat_map(BTreeMap::values_mut) {
                *value = format!("hidden{text}").into_bytes();
            }
            let shown = match asked.machine() {
                Ok(machine) => format!("{:?}", machine.next(&[])),
                Err(error) => format!("{error} {error:?}"),
            };
            prop_assert!(!shown.contains("hidden"), "{shown}");
        }
    }
}

#[test]
fn a_query_may_hold_anything_a_form_may() {
    let nasty = "a&b=c#d%e+f\"g\\h\ni/../j?k";
    let call = asked("prometheus").at("http://p").query(nasty).call();
    let query = call.request.url.query().unwrap();
    assert!(!query.contains(['&', '#', '+', '"', '\\', '/']), "{query}");
}

#[test]
fn the_receiver_of_a_secret_is_the_host_that_is_asked() {
    let want = [
        Some("p"),
        Some("i"),
        Some("api.datadoghq.com"),
        None,
        Some("monitoring.googleapis.com"),
        Some("monitoring.eu-west-1.amazonaws.com"),
        Some("insights-api.newrelic.com"),
        Some("g"),
        Some("d"),
        None,
        Some("stream.x"),
    ];
    for ((asked, before, _), want) in all().into_iter().zip(want) {
        let machine = asked.machine().unwrap();
        assert_eq!(machine.receiver(), want, "{machine:?}");
        match machine.next(&before) {
            Step::Send(call) => assert_eq!(call.request.url.host(), want, "{machine:?}"),
            _ => assert_eq!(want, None, "{machine:?}: the cluster is asked as the operator"),
        }
    }
    let with_token = asked("externalmetrics").query("m").secret(&[("token", "t")]);
    assert_eq!(with_token.machine().unwrap().receiver(), Some("kubernetes.default.svc"));
    let elsewhere = with_token.at("https://metrics.example");
    assert_eq!(elsewhere.machine().unwrap().receiver(), Some("metrics.example"));
    let spoofed =
        asked("prometheus").at("http://trusted.example@other.example:9090/trusted.example");
    assert_eq!(spoofed.machine().unwrap().receiver(), Some("other.example"));
}
