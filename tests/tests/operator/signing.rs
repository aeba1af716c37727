//! Signed calls: the load tester accepts the operator's signature, and nothing else.

use std::{fs, path::PathBuf};

use http::HeaderMap;
use serde_json::json;
use tidegate_loadtester::auth::{Auth, AuthError, Signed};
use tidegate_tests::{
    network::{Call, Reply},
    rollout::World,
};

use crate::stage::{
    GATEWAY_API, by_weight, canary_of, edit_analysis, hooked, reach, release, with_canary,
};

/// A file that is removed with the test.
pub(crate) struct SecretFile(pub(crate) PathBuf);

impl SecretFile {
    pub(crate) fn new(name: &str, text: &str) -> Self {
        let path = std::env::temp_dir().join(format!("hook-{name}-{}", std::process::id()));
        fs::write(&path, text).expect("a file for the secret");
        Self(path)
    }
}

impl Drop for SecretFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// The load tester's answer to a call that arrived unaltered.
fn checked(file: &SecretFile, call: &Call, path: &str, body: &[u8]) -> Result<(), AuthError> {
    let auth = Auth { secret_file: Some(file.0.clone()), ..Auth::default() };
    let time = call.headers.get("x-tidegate-timestamp").and_then(|it| it.to_str().ok());
    let now = time.and_then(|time| time.parse().ok()).unwrap_or_default();
    auth.check(&call.headers, Signed { path, body }, Some("default"), now).map(|_| ())
}

fn path(call: &Call) -> String {
    call.to.split_once('/').map(|(_, path)| format!("/{path}")).unwrap_or_default()
}

async fn signing(file: &SecretFile) -> World {
    let analysis = hooked(hooked(by_weight(), "rollout"), "confirm-promotion");
    let mut world = with_canary(canary_of("web", GATEWAY_API, analysis));
    world.options.hook_secret_file = Some(file.0.clone());
    world.options.event_webhook = Some("http://global/events?to=all".to_owned());
    world.network.hook("global/events", Reply::yes());
    world.start().await;
    reach(&world, "Initialized").await;
    world
}

#[tokio::test(start_paused = true)]
async fn the_load_tester_takes_what_the_operator_signs() {
    let file = SecretFile::new("good", "new-secret\nold-secret\n");
    let world = signing(&file).await;
    release(&world, "web:2.0");
    reach(&world, "Succeeded").await;
    for to in ["hooks/rollout", "hooks/confirm-promotion", "global/events"] {
        let calls = world.network.calls_to(to);
        assert!(!calls.is_empty(), "{to}");
        for call in &calls {
            assert_eq!(checked(&file, call, &path(call), &call.sent), Ok(()), "{to}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_load_tester_refuses_what_was_altered() {
    let file = SecretFile::new("altered", "secret");
    let world = signing(&file).await;
    release(&world, "web:2.0");
    reach(&world, "Succeeded").await;
    let call = world.network.calls_to("hooks/rollout").remove(0);
    let sent = String::from_utf8(call.sent.clone()).expect("JSON");
    let other = sent.replace("\"default\"", "\"other\"");
    assert_ne!(sent, other);
    let wrong = Err(AuthError::Wrong);
    assert_eq!(checked(&file, &call, &path(&call), other.as_bytes()), wrong, "another body");
    assert_eq!(checked(&file, &call, "/gate/open", &call.sent), wrong, "another path");
    let later = |name: &str, value: &str| {
        let mut headers: HeaderMap = call.headers.clone();
        let name: http::HeaderName = name.parse().expect("a name");
        headers.insert(name, value.parse().expect("a value"));
        Call { headers, ..call.clone() }
    };
    let later = later("x-tidegate-timestamp", "1800000000");
    assert_eq!(checked(&file, &later, &path(&call), &call.sent), wrong, "another time");
    let other = SecretFile::new("other", "another secret");
    assert_eq!(checked(&other, &call, &path(&call), &call.sent), wrong, "another secret");
}

#[tokio::test(start_paused = true)]
async fn each_attempt_is_signed_anew_and_a_new_secret_is_used_at_once() {
    let file = SecretFile::new("anew", "first");
    let world = signing(&file).await;
    let hook = json!({ "name": "rollout", "type": "rollout", "url": "http://hooks/rollout",
                       "retries": 2 });
    edit_analysis(&world, json!({ "webhooks": [hook] }));
    world.network.hook_once("hooks/rollout", Reply::Status(503, String::new()));
    release(&world, "web:2.0");
    assert!(world.until(60, |world| world.network.calls_to("hooks/rollout").len() >= 2).await);
    let calls = world.network.calls_to("hooks/rollout");
    let time = |call: &Call| call.headers["x-tidegate-timestamp"].clone();
    assert_ne!(time(&calls[0]), time(&calls[1]), "a second later");
    assert_eq!(
        calls[0].headers["idempotency-key"], calls[1].headers["idempotency-key"],
        "and the same call"
    );
    fs::write(&file.0, "second").expect("a new secret");
    let before = calls.len();
    assert!(world.until(60, |world| world.network.calls_to("hooks/rollout").len() > before).await);
    let call = world.network.calls_to("hooks/rollout").pop().expect("one more");
    assert_eq!(checked(&file, &call, &path(&call), &call.sent), Ok(()));
}

#[tokio::test(start_paused = true)]
async fn without_a_secret_nothing_is_signed_and_without_its_file_hooks_go_on() {
    let gone = SecretFile::new("gone", "secret");
    let world = signing(&gone).await;
    drop(gone);
    world.network.forget_calls();
    release(&world, "web:2.0");
    reach(&world, "Succeeded").await;
    let calls = world.network.calls_to("hooks/rollout");
    assert!(!calls.is_empty());
    assert!(calls.iter().all(|call| !call.headers.contains_key("x-tidegate-signature")));
}
