//! Slack's attachments, and the services that take them too.

use http::uri::PathAndQuery;
use serde_json::{Value, json};

use super::{Field, Notice, NotifyError, Severity, markup};
use crate::request::{AddressError, Request};

/// The service that reads the attachment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    /// Slack itself.
    Slack,
    /// Discord, at the address it has for messages meant for Slack.
    Discord,
    /// Rocket.Chat.
    Rocket,
}

/// Longest word of Slack's that is repeated to people.
const REASON_MAX: usize = 64;

/// The message.
pub(super) fn body(notice: &Notice, dialect: Dialect, channel: &str, username: &str) -> Value {
    let safe = match dialect {
        Dialect::Slack => markup::mrkdwn,
        Dialect::Discord | Dialect::Rocket => markup::markdown,
    };
    let fields: Vec<_> = notice
        .fields
        .iter()
        .map(|Field { name, value }| {
            json!({ "title": safe(name), "value": safe(value), "short": false })
        })
        .collect();
    json!({
        "channel": channel,
        "username": username,
        "icon_url": "",
        "icon_emoji": ":rocket:",
        "attachments": [{
            "color": dialect.color(notice.severity),
            "author_name": notice.sender(),
            "text": safe(&notice.text),
            "mrkdwn_in": ["text"],
            "fields": fields,
        }],
    })
}

/// Discord takes such messages below the address of the hook.
pub(super) fn for_discord(request: Request) -> Result<Request, AddressError> {
    let path = request.url.path().trim_end_matches('/');
    let query = request.url.path_and_query().and_then(PathAndQuery::query);
    let query = query.map(|query| format!("?{query}")).unwrap_or_default();
    let suffix = if path.ends_with("/slack") { "" } else { "/slack" };
    let path = format!("{path}{suffix}{query}");
    request.with_path(&path)
}

/// Slack answers 200 also when it refuses: then the body is JSON with `ok` false. A hook answers with a plain
/// `ok`, which is no JSON and passes.
pub(super) fn taken(body: &[u8]) -> Result<(), NotifyError> {
    let Ok(answer) = serde_json::from_slice::<Value>(body) else { return Ok(()) };
    if answer["ok"] != false {
        return Ok(());
    }
    let is_word = |word: &&str| {
        word.len() <= REASON_MAX
            && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
    };
    let reason = answer["error"].as_str().filter(is_word).unwrap_or("no reason given");
    Err(NotifyError::SlackRefused(reason.to_owned()))
}

// === impl Dialect ===

impl Dialect {
    fn color(self, severity: Severity) -> &'static str {
        match (self, severity) {
            (Self::Slack | Self::Discord, Severity::Info | Severity::Warn) => "good",
            (Self::Slack | Self::Discord, Severity::Error) => "danger",
            (Self::Rocket, Severity::Info | Severity::Warn) => "#0076D7",
            (Self::Rocket, Severity::Error) => "#FF0000",
        }
    }
}
