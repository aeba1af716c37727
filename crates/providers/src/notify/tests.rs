//! Bodies as the services get them.

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn field(name: &str, value: &str) -> Field {
    Field { name: name.into(), value: value.into() }
}

fn notice(severity: Severity) -> Notice {
    Notice {
        severity,
        canary: "podinfo".into(),
        namespace: "test".into(),
        text: "5 checks failed, no more are allowed".into(),
        fields: vec![field("Cluster", "eu-1"), field("Target", "Deployment/podinfo.test")],
    }
}

fn provider(service: AlertProviderType) -> Destination {
    let spec = AlertProviderSpec {
        provider_type: service,
        channel: Some("on-call".into()),
        username: None,
        address: Some("https://chat.example/hooks/hidden?thread=1".into()),
        proxy: None,
        secret_ref: None,
    };
    Destination::of(&spec, None).unwrap().unwrap()
}

fn now() -> Timestamp {
    "2026-03-01T12:00:00Z".parse().unwrap()
}

fn sent(service: AlertProviderType, notice: &Notice) -> Value {
    let request = provider(service).request(notice, now()).unwrap();
    assert_eq!(request.method, http::Method::POST);
    assert_eq!(request.headers["content-type"], "application/json");
    serde_json::from_slice(&request.body).unwrap()
}

fn attachment(color: &str) -> Value {
    json!({
        "channel": "on-call",
        "username": "flagger",
        "icon_url": "",
        "icon_emoji": ":rocket:",
        "attachments": [{
            "color": color,
            "author_name": "podinfo.test",
            "text": "5 checks failed, no more are allowed",
            "mrkdwn_in": ["text"],
            "fields": [
                { "title": "Cluster", "value": "eu-1", "short": false },
                { "title": "Target", "value": "Deployment/podinfo.test", "short": false },
            ],
        }],
    })
}

#[test]
fn three_services_take_attachments() {
    use AlertProviderType::{Discord, Rocket, Slack};
    let cases = [
        (Slack, Severity::Info, "good"),
        (Slack, Severity::Warn, "good"),
        (Slack, Severity::Error, "danger"),
        (Discord, Severity::Info, "good"),
        (Discord, Severity::Error, "danger"),
        (Rocket, Severity::Warn, "#0076D7"),
        (Rocket, Severity::Error, "#FF0000"),
    ];
    for (service, severity, color) in cases {
        assert_eq!(sent(service, &notice(severity)), attachment(color), "{service} {severity:?}");
    }
    let bare = Notice { fields: Vec::new(), ..notice(Severity::Info) };
    assert_eq!(sent(Slack, &bare)["attachments"][0]["fields"], json!([]));
}

#[test]
fn teams_takes_a_card_with_facts() {
    let want = json!({
        "@type": "MessageCard",
        "@context": "http://schema.org/extensions",
        "themeColor": "FF0000",
        "summary": "podinfo.test",
        "sections": [{
            "activityTitle": "5 checks failed, no more are allowed",
            "activitySubtitle": "podinfo.test",
            "facts": [
                { "name": "Cluster", "value": "eu-1" },
                { "name": "Target", "value": "Deployment/podinfo.test" },
            ],
        }],
    });
    assert_eq!(sent(AlertProviderType::MsTeams, &notice(Severity::Error)), want);
    let info = sent(AlertProviderType::MsTeams, &notice(Severity::Info));
    assert_eq!(info["themeColor"], "0076D7");
}

#[test]
fn google_chat_takes_a_card_with_sections() {
    let paragraph = |text: &str| json!({ "widgets": [{ "textParagraph": { "text": text } }] });
    let want = json!({
        "cards": [{
            "header": {
                "title": "Flagger",
                "subtitle": "podinfo.test",
                "imageUrl": "https://flagger.app/favicon.png",
            },
            "sections": [
                paragraph("<font color=#848484><strong>5 checks failed, no more are allowed</strong></font>"),
                paragraph("Cluster<br><font color=#848484><strong>eu-1</strong></font>"),
                paragraph("Target<br><font color=#848484><strong>Deployment/podinfo.test</strong></font>"),
            ],
        }],
    });
    assert_eq!(sent(AlertProviderType::GoogleChat, &notice(Severity::Warn)), want);
}

#[test]
fn a_webhook_takes_plain_json() {
    let want = json!({
        "severity": "warn",
        "canary": "podinfo",
        "namespace": "test",
        "text": "5 checks failed, no more are allowed",
        "fields": { "Cluster": "eu-1", "Target": "Deployment/podinfo.test" },
        "time": "2026-03-01T12:00:00Z",
    });
    assert_eq!(sent(AlertProviderType::Webhook, &notice(Severity::Warn)), want);
}

#[test]
fn markup_from_outside_loses_its_powers() {
    use AlertProviderType::{Discord, GoogleChat, MsTeams, Rocket, Slack, Webhook};
    let text = "<!channel> [x](http://evil) @everyone <b>&\u{202e}\u{7}";
    let cases = [
        (
            Slack,
            "/attachments/0/text",
            "&lt;!channel&gt; [x](http://evil) @everyone &lt;b&gt;&amp;",
        ),
        (
            Discord,
            "/attachments/0/text",
            "\\<!channel\\> \\[x\\](http://evil) @\u{200b}everyone \\<b\\>&",
        ),
        (
            Rocket,
            "/attachments/0/text",
            "\\<!channel\\> \\[x\\](http://evil) @\u{200b}everyone \\<b\\>&",
        ),
        (
            MsTeams,
            "/sections/0/activityTitle",
            "&lt;!channel&gt; \\[x\\](http://evil) @everyone &lt;b&gt;&amp;",
        ),
        (
            GoogleChat,
            "/cards/0/sections/0/widgets/0/textParagraph/text",
            "<font color=#848484><strong>&lt;!channel&gt; [x](http://evil) @everyone &lt;b&gt;&amp;</strong></font>",
        ),
        (Webhook, "/text", "<!channel> [x](http://evil) @everyone <b>&"),
    ];
    for (service, pointer, want) in cases {
        let body = sent(service, &Notice { text: text.into(), ..notice(Severity::Info) });
        assert_eq!(body.pointer(pointer).unwrap(), want, "{service}");
    }
    let long = Notice { text: "x".repeat(100_000), ..notice(Severity::Info) };
    assert_eq!(sent(Webhook, &long)["text"].as_str().unwrap().chars().count(), 1001);
}

#[test]
fn discord_is_reached_where_it_takes_such_messages() {
    let cases = [
        ("https://discord.com/api/webhooks/1/x", "https://discord.com/api/webhooks/1/x/slack"),
        ("https://discord.com/api/webhooks/1/x/", "https://discord.com/api/webhooks/1/x/slack"),
        (
            "https://discord.com/api/webhooks/1/x/slack",
            "https://discord.com/api/webhooks/1/x/slack",
        ),
        ("https://discord.com/1/x?wait=1", "https://discord.com/1/x/slack?wait=1"),
        ("https://discord.com/1/x/slack?wait=1", "https://discord.com/1/x/slack?wait=1"),
    ];
    for (address, want) in cases {
        let mut discord = provider(AlertProviderType::Discord);
        discord.address = address.into();
        assert_eq!(discord.request(&notice(Severity::Info), now()).unwrap().url, want);
    }
}

#[test]
fn teams_takes_an_adaptive_card_where_the_secret_says_so() {
    let spec = spec(json!({ "type": "msteams", "secretRef": { "name": "s" } }));
    let of = |format: &str| {
        let data = secret(&[("address", "https://x.logic.azure.com/hidden"), ("format", format)]);
        Destination::of(&spec, Some(&data)).map(Option::unwrap)
    };
    let body = |teams: &Destination, severity| {
        let request = teams.request(&notice(severity), now()).unwrap();
        serde_json::from_slice::<Value>(&request.body).unwrap()
    };
    let adaptive = of("adaptive").unwrap();
    let want = json!({
        "type": "message",
        "attachments": [{
            "contentType": "application/vnd.microsoft.card.adaptive",
            "content": {
                "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
                "type": "AdaptiveCard",
                "version": "1.4",
                "body": [
                    { "type": "TextBlock", "text": "podinfo.test", "weight": "Bolder", "wrap": true },
                    {
                        "type": "TextBlock",
                        "text": "5 checks failed, no more are allowed",
                        "color": "Attention",
                        "wrap": true,
                    },
                    {
                        "type": "FactSet",
                        "facts": [
                            { "title": "Cluster", "value": "eu-1" },
                            { "title": "Target", "value": "Deployment/podinfo.test" },
                        ],
                    },
                ],
            },
        }],
    });
    assert_eq!(body(&adaptive, Severity::Error), want);
    let color = |severity| {
        body(&adaptive, severity)["attachments"][0]["content"]["body"][1]["color"].clone()
    };
    assert_eq!((color(Severity::Info), color(Severity::Warn)), (json!("Good"), json!("Warning")));
    assert_eq!(body(&of("card").unwrap(), Severity::Info)["@type"], "MessageCard");
    assert_eq!(of("postcard"), Err(NotifyError::Format));
    let rocket = self::spec(json!({ "type": "rocket", "secretRef": { "name": "s" } }));
    let data = secret(&[("address", "https://rocket/"), ("format", "postcard")]);
    assert!(Destination::of(&rocket, Some(&data)).is_ok(), "no business of any other service");

    let bare =
        Notice { fields: Vec::new(), text: "[x](http://evil)".into(), ..notice(Severity::Info) };
    let request = adaptive.request(&bare, now()).unwrap();
    let sent: Value = serde_json::from_slice(&request.body).unwrap();
    let blocks = &sent["attachments"][0]["content"]["body"];
    assert_eq!(blocks.as_array().unwrap().len(), 2, "no facts, no place for them");
    assert_eq!(blocks[1]["text"], "\\[x\\](http://evil)");
}

#[test]
fn retryable_answers_are_distinguished_from_final_ones() {
    let refused = |status| NotifyError::Refused { service: AlertProviderType::Slack, status };
    let slack = |word: &str| NotifyError::SlackRefused(word.to_owned());
    for error in
        [refused(429), refused(500), refused(503), slack("ratelimited"), slack("internal_error")]
    {
        assert!(error.may_pass(), "{error}");
    }
    for error in [refused(404), refused(501), slack("channel_not_found"), NotifyError::Token] {
        assert!(!error.may_pass(), "{error}");
    }
}

fn secret(pairs: &[(&str, &str)]) -> BTreeMap<String, Vec<u8>> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), value.as_bytes().to_vec())).collect()
}

fn spec(value: Value) -> AlertProviderSpec {
    serde_json::from_value(value).unwrap()
}

#[test]
fn an_address_comes_from_the_secret_or_else_the_spec() {
    let both = json!({ "type": "slack", "address": "http://spec/", "secretRef": { "name": "s" } });
    let data =
        secret(&[("address", "https://slack.com/api/chat.postMessage\n"), ("token", "xoxb\n")]);
    let slack = Destination::of(&spec(both), Some(&data)).unwrap().unwrap();
    let request = slack.request(&notice(Severity::Info), now()).unwrap();
    assert_eq!(request.url, "https://slack.com/api/chat.postMessage");
    assert_eq!(request.headers["authorization"], "Bearer xoxb");
    assert!(request.headers["authorization"].is_sensitive());
    assert_eq!(format!("{slack:?}"), "Destination(slack)");

    let teams = spec(json!({ "type": "msteams", "secretRef": { "name": "s" } }));
    let teams = Destination::of(&teams, Some(&data)).unwrap().unwrap();
    let request = teams.request(&notice(Severity::Info), now()).unwrap();
    assert!(!request.headers.contains_key("authorization"), "only slack knows tokens");

    let missing = |data| {
        Destination::of(&spec(json!({ "type": "slack", "secretRef": { "name": "s" } })), data)
    };
    assert_eq!(missing(None), Err(NotifyError::MissingKey("address")));
    assert_eq!(missing(Some(&secret(&[("token", "x")]))), Err(NotifyError::MissingKey("address")));
    assert_eq!(Destination::of(&spec(json!({ "type": "slack", "address": "" })), None), Ok(None));
}

#[test]
fn a_service_without_its_settings_is_not_asked() {
    let no_channel = Destination::slack("http://slack/", "", "flagger", None);
    let want = NotifyError::Empty { service: AlertProviderType::Slack, what: "channel" };
    assert_eq!(no_channel.request(&notice(Severity::Info), now()), Err(want));
    let no_name = Destination::slack("http://slack/", "general", "", None);
    assert!(no_name.request(&notice(Severity::Info), now()).is_err());
    assert!(Destination::teams("http://teams/").request(&notice(Severity::Info), now()).is_ok());
    let nowhere = Destination::teams("hidden").request(&notice(Severity::Info), now()).unwrap_err();
    assert!(!format!("{nowhere} {nowhere:?}").contains("hidden"));
    let proxied = Destination::teams("http://teams/").through(Some("http://proxy".into()));
    assert_eq!(proxied.proxy.as_deref(), Some("http://proxy"));
}

#[test]
fn slack_may_say_yes_and_mean_no() {
    let slack = provider(AlertProviderType::Slack);
    let refused = |reason: &str| Err(NotifyError::SlackRefused(reason.to_owned()));
    let status = |status| Err(NotifyError::Refused { service: AlertProviderType::Slack, status });
    let cases = [
        ("a hook", 200, "ok", Ok(())),
        ("the API", 200, r#"{"ok":true,"channel":"C1"}"#, Ok(())),
        ("a no", 200, r#"{"ok":false,"error":"channel_not_found"}"#, refused("channel_not_found")),
        ("a no without words", 200, r#"{"ok":false}"#, refused("no reason given")),
        ("a no with markup", 200, r#"{"ok":false,"error":"<b>"}"#, refused("no reason given")),
        ("nothing", 204, "", Ok(())),
        ("gone", 404, "no_service", status(404)),
        ("too fast", 429, "", status(429)),
    ];
    for (reason, code, body, want) in cases {
        assert_eq!(slack.delivered(code, body.as_bytes()), want, "{reason}");
    }
    let rocket = provider(AlertProviderType::Rocket);
    assert_eq!(rocket.delivered(200, br#"{"ok":false}"#), Ok(()), "a rule of Slack's alone");
}

#[test]
fn an_alert_reports_its_severity_and_worse() {
    use Severity::{Error, Info, Warn};
    let cases = [
        (AlertSeverity::Unset, vec![Info, Warn, Error]),
        (AlertSeverity::Info, vec![Info, Warn, Error]),
        (AlertSeverity::Warn, vec![Warn, Error]),
        (AlertSeverity::Error, vec![Error]),
    ];
    for (configured, want) in cases {
        let sent: Vec<_> =
            [Info, Warn, Error].into_iter().filter(|s| should_send(configured, *s)).collect();
        assert_eq!(sent, want, "{configured:?}");
    }
}

fn plan(analysis: &Value) -> CanarySpec {
    serde_json::from_value(json!({
        "targetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "podinfo" },
        "analysis": analysis,
    }))
    .unwrap()
}

#[test]
fn the_plan_of_a_rollout_is_told_in_fields() {
    let cases = [
        (json!({ "stepWeight": 10, "maxWeight": 50 }), Some("Weight step: 10 max: 50")),
        (json!({ "stepWeight": 10 }), Some("Weight step: 10 max: 0")),
        (
            json!({ "stepWeights": [1, 10, 80], "maxWeight": 50 }),
            Some("Weight steps: 1,10,80 max: 50"),
        ),
        (json!({ "iterations": 5 }), Some("Blue/Green")),
        (json!({ "iterations": 5, "match": [{}] }), Some("A/B Testing")),
        (json!({}), None),
    ];
    for (analysis, want) in cases {
        let fields = fields("", "test", Some(&plan(&analysis)));
        let routing = fields.iter().find(|field| field.name == "Traffic routing");
        assert_eq!(routing.map(|field| field.value.as_str()), want, "{analysis}");
    }
    let all = fields("eu-1", "test", Some(&plan(&json!({ "threshold": 5, "stepWeight": 10 }))));
    let all: Vec<_> = all.iter().map(|f| format!("{}: {}", f.name, f.value)).collect();
    let want = [
        "Cluster: eu-1",
        "Target: Deployment/podinfo.test",
        "Failed checks threshold: 5",
        "Progress deadline: 600s",
        "Traffic routing: Weight step: 10 max: 0",
    ];
    assert_eq!(all, want);
    assert_eq!(fields("eu-1", "test", None), [field("Cluster", "eu-1")]);
    assert_eq!(fields("", "test", None), []);
}

proptest! {
    #[test]
    fn nothing_from_outside_acts_in_slack(text in "\\PC{0,200}") {
        let safe = markup::mrkdwn(&text);
        prop_assert!(!safe.contains(['<', '>']));
        prop_assert_eq!(safe.matches('&').count(), safe.matches("&lt;").count() + safe.matches("&gt;").count() + safe.matches("&amp;").count());
    }
}
