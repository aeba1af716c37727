//! Session cookies: the engine's decision about them, as the cookies themselves.
//!
//! A cookie is derived from the identity of the canary, the revision and the time of the last step: the
//! same step makes the same cookie, also after a crash, and the next step another one.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use tidegate_engine::{Cookie, CookieChange, Revision};
use tidegate_providers::traffic::Cookies;

use super::inputs::Inputs;

/// The cookies after a change.
pub(super) fn after(inputs: &Inputs, uid: &str, change: CookieChange, now: &Cookies) -> Cookies {
    let affinity = inputs.canary.spec.analysis.session_affinity.as_ref();
    let memory = &inputs.remembered.memory;
    let applied = memory.applied.as_ref().map_or("", Revision::as_str);
    let since = memory.since.unwrap_or_default().0;
    let make = |name: Option<&str>, side: &str| {
        let name = name.filter(|name| !name.is_empty())?;
        Some(format!("{name}={}", letters(&format!("{uid}/{applied}/{since}/{side}"))))
    };
    let mut cookies = now.clone();
    match change.canary {
        Cookie::Keep => {}
        Cookie::Fresh => {
            cookies.canary = make(affinity.map(|it| it.cookie_name.as_str()), "canary");
        }
        // Browsers that have it drop it, until the next cookie replaces it.
        Cookie::Retire => cookies.previous = cookies.canary.take().or(cookies.previous),
    }
    match change.primary {
        Cookie::Keep => {}
        Cookie::Fresh => {
            cookies.primary =
                make(affinity.and_then(|it| it.primary_cookie_name.as_deref()), "primary");
        }
        Cookie::Retire => cookies.primary = None,
    }
    cookies
}

/// The fields of status that hold cookies.
pub(super) fn fields(cookies: &Cookies) -> Map<String, Value> {
    let fields = BTreeMap::from([
        ("sessionAffinityCookie", &cookies.canary),
        ("previousSessionAffinityCookie", &cookies.previous),
        ("primarySessionAffinityCookie", &cookies.primary),
    ]);
    fields.into_iter().map(|(name, cookie)| (name.to_owned(), json!(cookie))).collect()
}

/// Ten letters derived from a text.
fn letters(text: &str) -> String {
    const ALPHABET: &[u8; 52] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    let digest = Sha256::digest(text.as_bytes());
    let letter = |byte: &u8| ALPHABET.get(usize::from(*byte) % ALPHABET.len()).copied();
    digest.iter().take(10).filter_map(letter).map(char::from).collect()
}

#[cfg(test)]
mod tests;
