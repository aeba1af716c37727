//! Bodies, keys and excerpts.

use proptest::prelude::*;
use serde_json::Value;

use super::*;

fn subject() -> Subject<'static> {
    Subject {
        name: "podinfo",
        namespace: "test",
        phase: CanaryPhase::Progressing,
        checksum: "85d557f47b",
    }
}

fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn read(body: &[u8]) -> Value {
    serde_json::from_slice(body).unwrap()
}

#[test]
fn a_hook_gets_the_canary_its_namespace_and_its_progress() {
    let want = json!({
        "name": "podinfo",
        "namespace": "test",
        "phase": "Progressing",
        "checksum": "85d557f47b",
        "metadata": { "type": "bash", "cmd": "curl -s http://podinfo-canary/ | grep \"ok\"" },
    });
    let metadata =
        map(&[("type", "bash"), ("cmd", "curl -s http://podinfo-canary/ | grep \"ok\"")]);
    assert_eq!(read(&payload(&subject(), &metadata)), want);
    let bare = read(&payload(&subject(), &BTreeMap::new()));
    assert!(bare.get("metadata").is_none(), "nothing to say is not said");
}

#[test]
fn an_event_hook_gets_the_event_and_its_own_metadata() {
    let report = Report {
        message: "10% of the traffic of podinfo.test goes to the canary.",
        kind: EventKind::Normal,
        at: "2026-03-01T12:00:00.250Z".parse().unwrap(),
        occasion: Some(Occasion::Rollout),
    };
    let metadata = map(&[("team", "web"), ("eventType", "Bogus"), ("timestamp", "0")]);
    let want = json!({
        "name": "podinfo",
        "namespace": "test",
        "phase": "Progressing",
        "checksum": "85d557f47b",
        "metadata": {
            "eventMessage": "10% of the traffic of podinfo.test goes to the canary.",
            "eventType": "Normal",
            "timestamp": "1772366400250",
            "type": "rollout",
            "team": "web",
        },
    });
    assert_eq!(read(&event_payload(&subject(), &metadata, &report)), want);

    let own = read(&event_payload(&subject(), &map(&[("type", "mine")]), &report));
    assert_eq!(own["metadata"]["type"], "mine", "a hook's own type stays");
    let plain = Report { occasion: None, kind: EventKind::Warning, ..report };
    let plain = read(&event_payload(&subject(), &BTreeMap::new(), &plain));
    assert_eq!(plain["metadata"].get("type"), None);
    assert_eq!(plain["metadata"]["eventType"], "Warning");
}

#[test]
fn hooks_of_the_analysis_hear_progressing_in_every_phase() {
    use CanaryPhase::{Failed, Progressing, Waiting, WaitingPromotion};
    let cases = [
        (WebhookType::Unset, WaitingPromotion, Progressing),
        (WebhookType::Rollout, WaitingPromotion, Progressing),
        (WebhookType::PreRollout, Progressing, Progressing),
        (WebhookType::ConfirmTrafficIncrease, Progressing, Progressing),
        (WebhookType::ConfirmPromotion, WaitingPromotion, Progressing),
        (WebhookType::ConfirmRollout, Waiting, Waiting),
        (WebhookType::Rollback, WaitingPromotion, WaitingPromotion),
        (WebhookType::PostRollout, Failed, Failed),
        (WebhookType::Event, Waiting, Waiting),
    ];
    for (hook_type, current, want) in cases {
        assert_eq!(phase_sent(hook_type, current), want, "{hook_type}");
    }
}

#[test]
fn a_checksum_changes_with_the_revision_and_with_each_config() {
    let configs = map(&[("configmap/a", "1"), ("secret/b", "2")]);
    let sum = checksum(Some(&configs), "5d4f");
    assert_eq!(sum.len(), 10);
    assert!(sum.bytes().all(|byte| byte.is_ascii_hexdigit()), "{sum}");
    assert_eq!(sum, checksum(Some(&configs.clone()), "5d4f"), "it is stable");
    let others = [
        checksum(Some(&configs), "5d50"),
        checksum(Some(&map(&[("configmap/a", "1")])), "5d4f"),
        checksum(Some(&map(&[("configmap/a", "1"), ("secret/b", "3")])), "5d4f"),
        checksum(Some(&map(&[("configmap/a", "1s"), ("ecret/b", "2")])), "5d4f"),
    ];
    assert!(!others.contains(&sum));
    assert_eq!(checksum(None, "5d4f"), checksum(Some(&BTreeMap::new()), "5d4f"));
}

#[test]
fn a_repetition_has_the_key_of_the_call_it_repeats() {
    let identity = CallIdentity {
        uid: "0d1e",
        revision: "5d4f",
        hook: "smoke",
        hook_type: WebhookType::PreRollout,
        step: "0",
    };
    let key = |identity: &CallIdentity<'_>| {
        let request = request("http://tester/", b"{}".to_vec(), identity).unwrap();
        request.headers["idempotency-key"].to_str().unwrap().to_owned()
    };
    assert_eq!(key(&identity), key(&identity.clone()));
    assert_eq!(key(&identity).len(), 64);
    let others = [
        CallIdentity { uid: "0d1f", ..identity },
        CallIdentity { revision: "5d50", ..identity },
        CallIdentity { hook: "smoke2", ..identity },
        CallIdentity { hook_type: WebhookType::PostRollout, ..identity },
        CallIdentity { step: "10", ..identity },
        CallIdentity { hook: "smok", step: "e0", ..identity },
    ];
    for other in others {
        assert_ne!(key(&other), key(&identity), "{other:?}");
    }
}

#[test]
fn a_call_is_a_post_of_json() {
    let identity = CallIdentity {
        uid: "u",
        revision: "r",
        hook: "h",
        hook_type: WebhookType::Rollout,
        step: "1",
    };
    let request = request("http://tester.test/?key=1", b"{}".to_vec(), &identity).unwrap();
    assert_eq!(request.method, http::Method::POST);
    assert_eq!(request.url, "http://tester.test/?key=1");
    assert_eq!(request.headers["content-type"], "application/json");
    assert_eq!(request.body, b"{}");
    assert_eq!(super::request("tester", Vec::new(), &identity), Err(AddressError::Invalid));
}

#[test]
fn every_2xx_is_a_yes() {
    let yes: Vec<u16> = (100..600).filter(|status| accepts(*status)).collect();
    assert_eq!(yes, (200..300).collect::<Vec<_>>());
}

#[test]
fn of_an_answer_a_short_clean_line_is_shown() {
    let long = "word ".repeat(100);
    let cases = [
        ("one line", "not on a Friday", "not on a Friday"),
        ("several lines become one", " closed\r\n\tby ops \n", "closed by ops"),
        ("terminal escapes lose their lead", "\u{1b}[31mred\u{1b}[0m\u{7}", "[31mred [0m"),
        ("nothing that turns text around", "abc\u{202e}cba\u{feff}", "abccba"),
        ("nothing", "", ""),
        ("only blanks", " \n\n ", ""),
    ];
    for (reason, body, want) in cases {
        assert_eq!(excerpt(body.as_bytes()), want, "{reason}");
    }
    let cut = excerpt(long.as_bytes());
    assert!(cut.starts_with("word word") && cut.ends_with('\u{2026}'), "{cut}");
    assert_eq!(excerpt(b"\xff\xfeok\xff"), "ok", "what is no text is left out");
    assert_eq!(refusal(403, b"closed"), "answered 403: closed");
    assert_eq!(refusal(502, b""), "answered 502");
}

proptest! {
    #[test]
    fn an_excerpt_is_one_short_line_whatever_was_answered(body in proptest::collection::vec(any::<u8>(), 0..4000)) {
        let shown = excerpt(&body);
        prop_assert!(shown.chars().count() <= EXCERPT_MAX);
        prop_assert!(!shown.chars().any(char::is_control));
    }

    #[test]
    fn an_excerpt_of_any_text_is_visible(body in "\\PC{0,400}") {
        let shown = excerpt(body.as_bytes());
        prop_assert!(shown.chars().count() <= EXCERPT_MAX);
        prop_assert!(shown.chars().all(|c| is_visible(c) && (c == ' ' || !c.is_whitespace())));
    }
}
