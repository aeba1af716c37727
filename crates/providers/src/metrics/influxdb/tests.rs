//! Flux out, annotated CSV in.

use serde_json::{Value, json};

use super::super::{
    Outcome, ProviderError, QueryError,
    testing::{Asked, asked, of_several, value},
};

fn influxdb() -> Asked {
    asked("influxdb").at("http://influxdb:8086/").secret(&[("token", "t"), ("org", "my org")])
}

fn table(datatype: &str, values: &[&str]) -> String {
    let head = format!(
        "#datatype,string,long,dateTime:RFC3339,{datatype},string\r\n#group,false,false,false,false,true\r\n#default,_result,,,,\r\n,result,table,_time,_value,host\r\n"
    );
    let row = |value: &&str| format!(",,0,2026-03-01T12:00:00Z,{value},a\r\n");
    let rows: Vec<_> = values.iter().map(row).collect();
    format!("{head}{}", rows.concat())
}

#[test]
fn a_query_is_posted_with_its_dialect() {
    let call = influxdb().query("from(bucket: \"b\")").call();
    assert_eq!(call.request.method, http::Method::POST);
    assert_eq!(call.request.url, "http://influxdb:8086/api/v2/query?org=my%20org");
    assert_eq!(call.request.headers["authorization"], "Token t");
    assert!(call.request.headers["authorization"].is_sensitive());
    assert_eq!(call.request.headers["content-type"], "application/json");
    let body: Value = serde_json::from_slice(&call.request.body).unwrap();
    let want = json!({
        "query": "from(bucket: \"b\")",
        "type": "flux",
        "dialect": { "annotations": ["datatype", "group", "default"], "delimiter": ",", "header": true },
    });
    assert_eq!(body, want);
}

#[test]
fn with_a_secret_token_and_organisation_are_needed() {
    let missing = |key| ProviderError::MissingKey { provider: "influxdb", key };
    assert_eq!(influxdb().secret(&[("org", "o")]).refusal(), missing("token"));
    assert_eq!(influxdb().secret(&[("token", "t")]).refusal(), missing("org"));
    let open = asked("influxdb").at("http://influxdb:8086").call();
    assert_eq!(open.request.url, "http://influxdb:8086/api/v2/query?org=");
    assert!(!open.request.headers.contains_key("authorization"));
    assert_eq!(asked("influxdb").refusal().to_string(), "influxdb: the address is empty");
}

#[test]
fn influxdb_reads_the_first_row() {
    let malformed = Outcome::Failure(QueryError::Malformed);
    let refused = |status, reason| Outcome::Failure(QueryError::Refused { status, reason });
    let error = "#datatype,string,long\r\n#group,true,true\r\n#default,,\r\n,error,reference\r\n,marker,897\r\n";
    let two_tables = format!(
        "{}\r\n{}",
        table("double", &["1"]),
        table("double", &["2"]).replace(",,0,", ",,1,")
    );
    let late_error = format!("{}\r\n{error}", table("double", &["1"]));
    let of_user = table("double", &["1.4"]).replace("host", "error");
    let no_value = table("double", &["1"]).replace("_value", "_field");
    let cases = [
        ("two rows", 200, table("double", &["1.4", "6.6"]), value(1.4)),
        ("a count", 200, table("long", &["7"]), value(7.0)),
        ("a count without sign", 200, table("unsignedLong", &["7"]), value(7.0)),
        ("nothing at all", 200, String::new(), Outcome::NoData),
        ("an empty line", 200, "\r\n".to_owned(), Outcome::NoData),
        ("no row", 200, table("double", &[]), Outcome::NoData),
        ("an empty value", 200, table("double", &[""]), Outcome::NoData),
        ("NaN", 200, table("double", &["NaN"]), Outcome::NoData),
        ("endless", 200, table("double", &["+Inf"]), value(f64::INFINITY)),
        ("two tables, and it is told", 200, two_tables, of_several(1.0, 2)),
        ("an error for a row", 200, error.to_owned(), refused(200, None)),
        ("an error behind a row", 200, late_error, refused(200, None)),
        ("a column that is called error", 200, of_user, value(1.4)),
        ("a text", 200, table("string", &["5"]), malformed),
        ("a number that is none", 200, table("double", &["five"]), malformed),
        ("no such column", 200, no_value, malformed),
        ("no types", 200, ",result,table,_value\r\n,,0,1\r\n".to_owned(), malformed),
        ("cut in a row", 200, table("double", &["1.45"])[..150].to_owned(), malformed),
        ("a page", 200, "<html>marker</html>".to_owned(), malformed),
        ("a short row", 200, format!("{},,0\r\n", table("double", &[])), malformed),
        (
            "not allowed",
            401,
            r#"{"code":"unauthorized","message":"marker"}"#.to_owned(),
            refused(401, Some("unauthorized")),
        ),
        ("ill", 503, "marker".to_owned(), refused(503, None)),
    ];
    for (reason, status, body, want) in cases {
        assert_eq!(influxdb().outcome(status, &body), want, "{reason}");
    }
}

#[test]
fn it_is_online_if_it_takes_a_query() {
    let body: Value = serde_json::from_slice(&influxdb().probe_call().request.body).unwrap();
    assert_eq!(body["query"], r#"from(bucket: "default") |> range(start: -2h)"#);
    assert!(influxdb().is_online(200, ""));
    assert!(!influxdb().is_online(401, ""));
    assert!(!influxdb().is_online(500, ""));
}
