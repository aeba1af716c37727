//! Where keys come from, request by request.

use super::{
    super::testing::{Asked, answered, asked, sent},
    *,
};

fn cloudwatch(source: Source) -> Asked {
    let mut asked = asked("cloudwatch").region("eu-west-1").query(r#"[{"Id":"a"}]"#);
    asked.environment.aws = source;
    asked
}

fn signed_by(call: &Call) -> String {
    let signing = call.signing.as_ref().unwrap();
    assert_eq!((signing.region.as_str(), signing.service), ("eu-west-1", "monitoring"));
    signing.keys.id.clone()
}

fn session_of(call: &Call) -> Option<&str> {
    call.signing.as_ref().and_then(|it| it.keys.session.as_deref())
}

#[test]
fn keys_that_are_there_need_no_request() {
    let keys = Keys { id: "AKID".into(), secret: "s".into(), session: Some("x".into()) };
    let call = cloudwatch(Source::Keys(keys)).call();
    assert_eq!(signed_by(&call), "AKID");
    assert_eq!(session_of(&call), Some("x"));
    assert_eq!(call.request.url, "https://monitoring.eu-west-1.amazonaws.com/");
}

#[test]
fn a_token_is_exchanged_for_keys_of_a_role() {
    let source = Source::WebIdentity {
        role: "arn:aws:iam::1:role/r".into(),
        token: "hidden".into(),
        session: "tidegate".into(),
    };
    assert_eq!(format!("{source:?}"), "WebIdentity");
    let machine = cloudwatch(source).machine().unwrap();
    let first = sent(&machine, &[]);
    assert_eq!(first.request.url, "https://sts.eu-west-1.amazonaws.com/");
    assert_eq!(first.request.method, Method::POST);
    assert!(!first.trusted && first.verify_tls);
    assert!(!first.request.headers.contains_key("authorization"));
    let body = String::from_utf8(first.request.body).unwrap();
    assert_eq!(
        body,
        "Action=AssumeRoleWithWebIdentity&Version=2011-06-15&RoleArn=arn%3Aaws%3Aiam%3A%3A1%3Arole%2Fr&RoleSessionName=tidegate&WebIdentityToken=hidden"
    );
    let json = r#"{"AssumeRoleWithWebIdentityResponse":{"AssumeRoleWithWebIdentityResult":{"Credentials":{"AccessKeyId":"ASIA","SecretAccessKey":"s","SessionToken":"t","Expiration":1.7e9}}}}"#;
    let xml = "<AssumeRoleWithWebIdentityResponse><Credentials><AccessKeyId>ASIA</AccessKeyId><SecretAccessKey>s</SecretAccessKey><SessionToken>t</SessionToken></Credentials></AssumeRoleWithWebIdentityResponse>";
    for body in [json, xml] {
        let second = sent(&machine, &[answered(200, body)]);
        assert_eq!(signed_by(&second), "ASIA", "{body}");
        assert_eq!(session_of(&second), Some("t"));
    }
}

#[test]
fn a_server_for_containers_gives_keys_out() {
    let address = "http://169.254.170.23/v1/credentials".to_owned();
    let machine = cloudwatch(Source::Container { address, authorization: Some("a".into()) })
        .machine()
        .unwrap();
    let first = sent(&machine, &[]);
    assert_eq!(first.request.url, "http://169.254.170.23/v1/credentials");
    assert_eq!(first.request.headers["authorization"], "a");
    assert!(first.trusted, "it is on the node, where nothing else may be asked");
    assert!(first.direct, "and no proxy leads there");
    let keys = r#"{"AccessKeyId":"ASIA","SecretAccessKey":"s","Token":"t"}"#;
    let second = sent(&machine, &[answered(200, keys)]);
    assert_eq!(signed_by(&second), "ASIA");
    assert!(!second.trusted);
}

#[test]
fn an_instance_is_asked_for_a_session_a_role_and_keys() {
    let machine = cloudwatch(Source::Instance).machine().unwrap();
    let first = sent(&machine, &[]);
    assert_eq!(first.request.method, Method::PUT);
    assert_eq!(first.request.url, "http://169.254.169.254/latest/api/token");
    assert!(first.trusted && first.direct);
    let mut replies = vec![answered(200, "session")];
    let second = sent(&machine, &replies);
    assert_eq!(second.request.headers["x-aws-ec2-metadata-token"], "session");
    assert!(second.request.url.path().ends_with("/iam/security-credentials/"));
    replies.push(answered(200, "my-role\n"));
    let third = sent(&machine, &replies);
    assert!(third.request.url.path().ends_with("/iam/security-credentials/my-role"));
    replies.push(answered(200, r#"{"AccessKeyId":"ASIA","SecretAccessKey":"s","Token":"t"}"#));
    let fourth = sent(&machine, &replies);
    assert_eq!(signed_by(&fourth), "ASIA");

    let odd = [answered(200, "session"), answered(200, "../../user-data")];
    assert_eq!(machine.next(&odd), super::super::Step::done(Err(QueryError::Identity)));
}

#[test]
fn without_keys_there_is_no_telling() {
    let failed = super::super::Step::done(Err(QueryError::Identity));
    assert_eq!(cloudwatch(Source::None).machine().unwrap().next(&[]), failed);
    let role = Source::WebIdentity { role: "r".into(), token: "t".into(), session: "s".into() };
    let machine = cloudwatch(role).machine().unwrap();
    let replies = [
        ("not allowed", answered(403, r#"{"Error":{"Code":"AccessDenied"}}"#)),
        ("no keys", answered(200, "{}")),
        ("empty ones", answered(200, r#"{"AccessKeyId":"","SecretAccessKey":""}"#)),
        ("a page", answered(200, "<html></html>")),
    ];
    for (reason, reply) in replies {
        assert_eq!(machine.next(&[reply]), failed, "{reason}");
    }
    let lost = super::super::Step::done(Err(QueryError::Unreachable));
    assert_eq!(machine.next(&[Reply::Lost]), lost);
    let keys = Keys { id: "hidden".into(), secret: "hidden".into(), session: None };
    assert_eq!(format!("{keys:?} {:?}", Source::Keys(keys.clone())), "*** Keys");
}

#[test]
fn keys_that_no_header_can_carry_are_none() {
    for (id, session) in [("A\r\nB", "s"), ("AKID", "a\r\nb")] {
        let keys = Keys { id: id.into(), secret: "s".into(), session: Some(session.into()) };
        let failed = super::super::Step::done(Err(QueryError::Identity));
        assert_eq!(cloudwatch(Source::Keys(keys)).machine().unwrap().next(&[]), failed);
    }
}

#[test]
fn keys_are_used_again_until_shortly_before_they_end() {
    let role = |token: &str| Source::WebIdentity {
        role: "r".into(),
        token: token.into(),
        session: "s".into(),
    };
    let machine = cloudwatch(role("t")).machine().unwrap();
    let json = r#"{"AccessKeyId":"ASIA","SecretAccessKey":"s","SessionToken":"t","Expiration":"2026-03-01T13:00:00Z"}"#;
    let epoch = json.replace(r#""2026-03-01T13:00:00Z""#, "1772370000");
    let xml = "<C><AccessKeyId>ASIA</AccessKeyId><SecretAccessKey>s</SecretAccessKey><Expiration>2026-03-01T13:00:00Z</Expiration></C>";
    for body in [json, &epoch, xml] {
        let replies = [answered(200, body), answered(200, "{}")];
        let (reused, until) = machine.reusable_replies(&replies).unwrap();
        assert_eq!(
            (reused.len(), until.to_string().as_str()),
            (1, "2026-03-01T12:59:00Z"),
            "{body}"
        );
        assert_eq!(signed_by(&sent(&machine, reused)), "ASIA", "another one begins with them");
    }
    let forever = json.replace("Expiration", "Else");
    assert!(
        machine.reusable_replies(&[answered(200, &forever)]).is_none(),
        "nobody says until when"
    );
    assert!(machine.reusable_replies(&[answered(403, json)]).is_none());
    let identity = |source| cloudwatch(source).machine().unwrap().identity();
    assert_eq!(identity(role("t")), identity(role("t")));
    assert_ne!(identity(role("t")), identity(role("u")), "a new token is another identity");
    assert_ne!(identity(role("t")), identity(Source::Instance));
    let keys = Keys { id: "a".into(), secret: "b".into(), session: None };
    assert_eq!(identity(Source::Keys(keys)), None, "nothing to find out");
}
