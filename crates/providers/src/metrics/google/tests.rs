//! Statements against what OpenSSL makes of them; tokens.

use super::{
    super::testing::{NOW, answered},
    *,
};

const ACCOUNT: &str = include_str!("testdata/account.json");

/// Made with `openssl dgst -sha256 -sign` from the same key.
const STATEMENT: &str = include_str!("testdata/statement.jwt");

fn source(file: &str) -> Result<Source, BadKey> {
    Source::of_key(file, NOW.parse().unwrap())
}

#[test]
fn a_key_signs_a_statement_that_is_exchanged_for_a_token() {
    let call = source(ACCOUNT).unwrap().call();
    assert_eq!(call.request.method, Method::POST);
    assert_eq!(call.request.url, "https://oauth2.googleapis.com/token");
    assert!(!call.trusted && call.verify_tls);
    let body = String::from_utf8(call.request.body).unwrap();
    let want = format!(
        "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion={}",
        STATEMENT.trim()
    );
    assert_eq!(body, want);
}

#[test]
fn a_key_of_the_older_form_signs_alike() {
    let mut file: Value = serde_json::from_str(ACCOUNT).unwrap();
    file["private_key"] = include_str!("testdata/rsa.pem").into();
    let (old, new) = (source(&file.to_string()).unwrap(), source(ACCOUNT).unwrap());
    assert_eq!(old.call().request.body, new.call().request.body);
}

#[test]
fn a_key_that_is_none_is_refused() {
    let changed = |name: &str, value: Value| {
        let mut file: Value = serde_json::from_str(ACCOUNT).unwrap();
        file[name] = value;
        file.to_string()
    };
    let pem = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----";
    let cases = [
        ("no JSON", "hidden".to_owned()),
        ("another kind of file", r#"{"type":"authorized_user"}"#.to_owned()),
        ("no account", changed("client_email", Value::Null)),
        ("no key", changed("private_key", json!(""))),
        ("no base64", changed("private_key", json!("ü"))),
        ("no RSA", changed("private_key", json!(pem))),
        ("nowhere to go", changed("token_uri", json!("file:///etc/passwd"))),
        ("far too long", " ".repeat(100_000)),
    ];
    for (reason, file) in cases {
        assert_eq!(source(&file).err(), Some(BadKey), "{reason}");
    }
}

#[test]
fn without_a_key_the_node_is_asked() {
    let call = Source::of_metadata(None).unwrap().call();
    assert_eq!(
        call.request.url,
        "http://metadata.google.internal/computeMetadata/v1/instance/service-accounts/default/token"
    );
    assert_eq!(call.request.headers["metadata-flavor"], "Google");
    assert!(call.trusted);
    let other = Source::of_metadata(Some("localhost:8080")).unwrap().call();
    assert_eq!(other.request.url.authority().unwrap(), "localhost:8080");
}

#[test]
fn a_token_is_read_or_there_is_none() {
    let good = answered(200, r#"{"access_token":"t","expires_in":3599,"token_type":"Bearer"}"#);
    assert_eq!(token(&good).as_deref(), Ok("t"));
    let cases = [
        ("not allowed", answered(401, r#"{"access_token":"t"}"#)),
        ("none", answered(200, "{}")),
        ("an empty one", answered(200, r#"{"access_token":""}"#)),
        ("a page", answered(200, "<html>")),
    ];
    for (reason, reply) in cases {
        assert_eq!(token(&reply), Err(QueryError::Identity), "{reason}");
    }
    assert_eq!(token(&Reply::Lost), Err(QueryError::Unreachable));
    let lent = Surroundings { key: Some("hidden".into()), ..Surroundings::default() };
    assert_eq!(format!("{lent:?}"), "***");
}
