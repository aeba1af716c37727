//! Webhooks: the requests of a canary, and the meaning of the answers.
//!
//! A hook gets a POST with the canary's name, namespace, phase and a checksum of the revision; any 2xx answer
//! passes. [`retry`] says when a call is repeated. Of an answer at most an [`excerpt`] is ever shown, since
//! it goes into events that all users may read.

mod fact;
pub mod retry;
pub mod sign;

use std::{collections::BTreeMap, fmt::Write as _};

use http::{HeaderValue, header::HeaderName};
use jiff::Timestamp;
use serde_json::json;
use sha2::{Digest, Sha256};
use tidegate_api::canary::{CanaryPhase, analysis::WebhookType};

use crate::request::{AddressError, Request};

pub use self::fact::{occasion, phase_of};

/// The canary a call is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subject<'a> {
    /// Name of the canary.
    pub name: &'a str,
    /// Namespace of the canary.
    pub namespace: &'a str,
    /// The phase to report; see [`phase_sent`].
    pub phase: CanaryPhase,
    /// [`checksum`] of the revision.
    pub checksum: &'a str,
}

/// Something that happened, for hooks of type `event`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report<'a> {
    /// The event, for people.
    pub message: &'a str,
    /// Whether it is a problem.
    pub kind: EventKind,
    /// When it happened.
    pub at: Timestamp,
    /// The occasion it was part of, where that is known.
    pub occasion: Option<Occasion>,
}

/// The types of Kubernetes events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// As it should be.
    Normal,
    /// A problem.
    Warning,
}

/// The part of a rollout that an event belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Occasion {
    /// The start of a rollout.
    Rollout,
    /// A rollout being rolled back.
    Rollback,
    /// A check that failed.
    Analysis,
}

/// One call, so that a hook can tell a repetition from a new call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallIdentity<'a> {
    /// Identity of the canary object.
    pub uid: &'a str,
    /// Hash of the revision that is rolled out.
    pub revision: &'a str,
    /// Name of the hook.
    pub hook: &'a str,
    /// Type of the hook.
    pub hook_type: WebhookType,
    /// Distinguishes this call from others of the same hook and revision: a weight, an iteration, a
    /// tick.
    pub step: &'a str,
}

/// Characters of an answer that are shown at most. An event has room for 1024; this leaves the rest
/// to our own words.
const EXCERPT_MAX: usize = 120;
/// Bytes of an answer that are looked at: enough for the excerpt even if most are blanks.
const EXCERPT_READ: usize = 2048;
/// Where the identity of a call is sent.
pub const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// The phase that a hook of this type is sent while the canary is in `current`.
///
/// As Flagger: hooks that run during the analysis are sent `Progressing`, also while promotion waits.
pub fn phase_sent(hook_type: WebhookType, current: CanaryPhase) -> CanaryPhase {
    match hook_type {
        WebhookType::Unset
        | WebhookType::Rollout
        | WebhookType::PreRollout
        | WebhookType::ConfirmTrafficIncrease
        | WebhookType::ConfirmPromotion => CanaryPhase::Progressing,
        WebhookType::ConfirmRollout
        | WebhookType::Rollback
        | WebhookType::PostRollout
        | WebhookType::Event => current,
    }
}

/// Ten characters that change with the revision and with the configuration it uses.
pub fn checksum(tracked_configs: Option<&BTreeMap<String, String>>, revision: &str) -> String {
    let mut parts = vec![revision];
    for (name, hash) in tracked_configs.into_iter().flatten() {
        parts.extend([name.as_str(), hash.as_str()]);
    }
    let mut text = digest(&parts);
    text.truncate(10);
    text
}

/// The body for every type of hook but `event`.
pub fn payload(subject: &Subject<'_>, metadata: &BTreeMap<String, String>) -> Vec<u8> {
    let Subject { name, namespace, phase, checksum } = subject;
    let mut body = json!({
        "name": name,
        "namespace": namespace,
        "phase": phase.as_str(),
        "checksum": checksum,
    });
    if !metadata.is_empty() {
        body["metadata"] = json!(metadata);
    }
    body.to_string().into_bytes()
}

/// The body for hooks of type `event`: the event is in the metadata, beside the hook's own.
///
/// The hook's own metadata cannot replace `eventMessage`, `eventType` and `timestamp`; its `type`,
/// if it has one, stays.
pub fn event_payload(
    subject: &Subject<'_>,
    metadata: &BTreeMap<String, String>,
    report: &Report<'_>,
) -> Vec<u8> {
    let Report { message, kind, at, occasion } = report;
    let mut all = metadata.clone();
    if let Some(occasion) = occasion {
        all.entry("type".to_owned()).or_insert_with(|| occasion.as_str().to_owned());
    }
    all.insert("eventMessage".to_owned(), (*message).to_owned());
    all.insert("eventType".to_owned(), kind.as_str().to_owned());
    all.insert("timestamp".to_owned(), at.as_millisecond().to_string());
    payload(subject, &all)
}

/// The call of a hook.
///
/// The key is the same for every repetition of one call, so that a hook that acts can act once.
pub fn request(
    address: &str,
    body: Vec<u8>,
    identity: &CallIdentity<'_>,
) -> Result<Request, AddressError> {
    let mut request = Request::post_json(address, body)?;
    if let Ok(key) = HeaderValue::from_str(&identity.key()) {
        request.headers.insert(IDEMPOTENCY_KEY, key);
    }
    Ok(request)
}

/// Whether this status passes. Flagger fails 203 to 299; its documentation does not, and we follow that.
pub fn accepts(status: u16) -> bool {
    (200..300).contains(&status)
}

/// The answer of a hook that failed, for events: `answered 403: not on a Friday`.
pub fn refusal(status: u16, body: &[u8]) -> String {
    match excerpt(body) {
        said if said.is_empty() => format!("answered {status}"),
        said => format!("answered {status}: {said}"),
    }
}

/// The beginning of a text from outside, on one line and without characters that are not text.
pub fn excerpt(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body.get(..EXCERPT_READ).unwrap_or(body));
    let mut shown = String::new();
    let mut length = 0;
    for word in text.split(|c: char| c.is_whitespace() || c.is_control()) {
        let word: String = word.chars().filter(|c| is_visible(*c)).collect();
        if word.is_empty() {
            continue;
        }
        if length > 0 {
            shown.push(' ');
            length += 1;
        }
        length += word.chars().count();
        shown.push_str(&word);
        if length > EXCERPT_MAX {
            shown = shown.chars().take(EXCERPT_MAX - 1).collect();
            shown.truncate(shown.trim_end().len());
            shown.push('\u{2026}');
            break;
        }
    }
    shown
}

/// False for characters that reorder or hide their neighbours, and for invalid UTF-8.
pub(crate) fn is_visible(c: char) -> bool {
    !matches!(
        c,
        '\u{ad}'
            | '\u{61c}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}'
            | '\u{fff9}'..='\u{fffd}'
            | '\u{e0000}'..='\u{e007f}'
    )
}

/// SHA-256 in hex over several texts. Each goes in with its length, so that moving a character from
/// one to the next is a different digest.
fn digest(parts: &[&str]) -> String {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update((part.len() as u64).to_be_bytes());
        hasher.update(part.as_bytes());
    }
    let mut hex = String::with_capacity(64);
    for byte in hasher.finalize() {
        // Writing into a text cannot fail.
        let _ = write!(hex, "{byte:02x}");
    }
    hex
}

// === impl CallIdentity ===

impl CallIdentity<'_> {
    /// The same for two calls exactly if they are the same call.
    pub fn key(&self) -> String {
        let Self { uid, revision, hook, hook_type, step } = self;
        digest(&[uid, revision, hook, hook_type.as_str(), step])
    }
}

// === impl EventKind, Occasion ===

impl EventKind {
    /// The word Kubernetes has for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

impl Occasion {
    /// The word hooks get.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Rollout => "rollout",
            Self::Rollback => "rollback",
            Self::Analysis => "analysis",
        }
    }
}

#[cfg(test)]
mod tests;
