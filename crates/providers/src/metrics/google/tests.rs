//! Statements compared with OpenSSL's; tokens.

use super::{
    super::testing::{NOW, answered, asked, sent},
    *,
};
use serde_json::json;

const ACCOUNT: &str = include_str!("testdata/account.json");

/// Made with `openssl dgst -sha256 -sign` from the same key.
const STATEMENT: &str = include_str!("testdata/statement.jwt");

const USER: &str = r#"{"type":"authorized_user","client_id":"i","client_secret":"s","refresh_token":"r","quota_project_id":"paid"}"#;

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
        ("a login without its secret", r#"{"type":"authorized_user"}"#.to_owned()),
        ("no account", changed("client_email", Value::Null)),
        ("no key", changed("private_key", json!(""))),
        ("no base64", changed("private_key", json!("ü"))),
        ("no RSA", changed("private_key", json!(pem))),
        ("nowhere to go", changed("token_uri", json!("file:///etc/passwd"))),
        ("far too long", " ".repeat(100_000)),
    ];
    for (reason, file) in cases {
        assert_eq!(source(&file).err(), Some(BadKey::Unreadable), "{reason}");
    }
}

#[test]
fn the_login_of_a_person_is_exchanged_for_a_token_as_it_is() {
    let source = source(USER).unwrap();
    let call = source.call();
    assert_eq!(call.request.url, "https://oauth2.googleapis.com/token");
    let body = String::from_utf8(call.request.body).unwrap();
    assert_eq!(body, "grant_type=refresh_token&client_id=i&client_secret=s&refresh_token=r");
    assert_eq!(source.quota_project.as_deref(), Some("paid"));
    let mut asked = asked("stackdriver").secret(&[("project", "p")]);
    asked.environment.google.key = Some(USER.into());
    let replies = [answered(200, r#"{"access_token":"t","expires_in":3599}"#)];
    let call = sent(&asked.machine().unwrap(), &replies);
    assert_eq!(call.request.headers["x-goog-user-project"], "paid");
    assert_eq!(call.request.headers["authorization"], "Bearer t");
}

#[test]
fn credentials_of_another_type_are_refused_by_name() {
    for kind in ["external_account", "impersonated_service_account"] {
        let file = format!(r#"{{"type":"{kind}","audience":"hidden"}}"#);
        assert_eq!(source(&file).err(), Some(BadKey::Type(kind.into())));
        let asked = asked("stackdriver").secret(&[("project", "p"), ("serviceAccountKey", &file)]);
        let text = asked.refusal().to_string();
        assert!(text.contains(kind) && text.contains("authorized_user"), "{text}");
        assert!(!text.contains("hidden"), "{text}");
    }
}

#[test]
fn prv_sd_1_credentials_are_found_in_the_order_of_googles_libraries() {
    let found = |pairs: &[(&str, &str)]| {
        let variable = |name: &str| {
            pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
        };
        let file = |path: &str| (!path.contains("nowhere")).then(|| path.to_owned());
        Environment::from_environment(variable, file).key
    };
    let (home, named) = (("HOME", "/home"), ("GOOGLE_APPLICATION_CREDENTIALS", "/key"));
    let cases = [
        ("the one that is named", vec![named, home], Some("/key")),
        (
            "the one that gcloud keeps",
            vec![home],
            Some("/home/.config/gcloud/application_default_credentials.json"),
        ),
        (
            "wherever that is",
            vec![home, ("CLOUDSDK_CONFIG", "/etc/gcloud")],
            Some("/etc/gcloud/application_default_credentials.json"),
        ),
        (
            "one that is named and not there is not replaced by another",
            vec![home, ("GOOGLE_APPLICATION_CREDENTIALS", "/nowhere")],
            Some(""),
        ),
        ("none", vec![("HOME", "/nowhere")], None),
        ("no home", vec![], None),
    ];
    for (reason, pairs, want) in cases {
        assert_eq!(found(&pairs).as_deref(), want, "{reason}");
    }
}

#[test]
fn a_token_is_used_again_until_shortly_before_it_ends() {
    let mut asked = asked("stackdriver").secret(&[("project", "p")]);
    let of_node = asked.machine().unwrap();
    let replies = [answered(200, r#"{"access_token":"t","expires_in":3600}"#), answered(200, "{}")];
    let (reused, until) = of_node.reusable_replies(&replies).unwrap();
    assert_eq!((reused.len(), until.to_string().as_str()), (1, "2026-03-01T12:59:00Z"));
    assert_eq!(of_node.next(reused), of_node.next(&replies[..1]), "another one begins with it");
    for body in [r#"{"access_token":"t"}"#, r#"{"access_token":"t","expires_in":-1}"#] {
        assert!(of_node.reusable_replies(&[answered(200, body)]).is_none(), "{body}");
    }
    asked.environment.google.key = Some(USER.into());
    let of_user = asked.machine().unwrap();
    assert_ne!(of_user.identity(), of_node.identity());
    assert_eq!(of_user.identity(), asked.machine().unwrap().identity());
}

#[test]
fn without_a_key_the_node_is_asked() {
    let call = Source::of_metadata(None).unwrap().call();
    assert_eq!(
        call.request.url,
        "http://metadata.google.internal/computeMetadata/v1/instance/service-accounts/default/token"
    );
    assert_eq!(call.request.headers["metadata-flavor"], "Google");
    assert!(call.trusted && call.direct);
    let other = Source::of_metadata(Some("localhost:8080")).unwrap().call();
    assert_eq!(other.request.url.authority().unwrap(), "localhost:8080");
}

#[test]
fn a_token_is_read_or_there_is_none() {
    let good = answered(200, r#"{"access_token":"t","expires_in":3599,"token_type":"Bearer"}"#);
    let now: Timestamp = NOW.parse().unwrap();
    let token = |reply: &Reply| token(reply, now).map(|token| token.text);
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
    let found = Environment { key: Some("hidden".into()), ..Environment::default() };
    assert_eq!(format!("{found:?}"), "***");
}
