//! Faults of containers: crashes, failed pulls, slow or flapping readiness.
//!
//! The behaviour of a container is the first one found in
//!
//! 1. the pod's annotation `sandbox.tidegate.dev/behaviour.<container>`, then
//!    `sandbox.tidegate.dev/behaviour` for all its containers;
//! 2. the shared [`Behaviours`], by image: exact names before patterns with `*`, later patterns
//!    before earlier ones;
//! 3. the end of the image's tag, for use with nothing but `kubectl`: `nginx:1.27-crash-loop`.
//!
//! | annotation | tag | effect |
//! |---|---|---|
//! | `never-ready` | `never-ready` | runs, but is never ready |
//! | `crash-loop`, `crash-loop=2s` | `crash-loop`, `crash-loop-2s` | exits with 1 that long after
//! each start (1 s) |
//! | `slow-start=30s` | `slow-start-30s` | ready only after that long |
//! | `flapping=5s/5s` | `flapping-5s-5s` | alternately ready and unready |
//! | `image-pull-error` | `image-pull-error` | its image cannot be pulled |
//! | `ready-then-dies=30s` | `ready-then-dies-30s` | healthy until it exits with 1 |
//! | `completes=0/5s` | `completes-0-5s` | exits with that code after that long |
//! | `normal` | | starts and stays up |
//!
//! A change takes effect when the pod is next reconciled: at once for annotations, at the next
//! change or timer of the pod for [`Behaviours`].

use std::{sync::Arc, time::Duration};

use parking_lot::{Mutex, MutexGuard};
use serde_json::Value;

use crate::controllers::object::annotation;

const ANNOTATION: &str = "sandbox.tidegate.dev/behaviour";

/// Behaviour of a container once its pod is bound to a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Behaviour {
    /// Starts and stays up.
    #[default]
    Normal,
    /// Runs, but is never ready.
    NeverReady,
    /// Never ready, and exits this long after each start. Restarts back off from 10 s to 5 min.
    CrashLoop {
        /// How long each run lasts.
        after: Duration,
    },
    /// Ready only after a while.
    SlowStart {
        /// How long that is.
        delay: Duration,
    },
    /// Ready and unready by turns.
    Flapping {
        /// How long it is ready.
        up: Duration,
        /// How long it is not.
        down: Duration,
    },
    /// Its image cannot be pulled.
    ImagePullError,
    /// As a healthy one, until it exits with 1.
    ReadyThenDies {
        /// How long each run lasts.
        after: Duration,
    },
    /// Exits by itself.
    Completes {
        /// The exit code.
        exit_code: i64,
        /// How long it runs.
        after: Duration,
    },
}

/// Behaviours by image, shared between the test and the kubelet.
#[derive(Debug, Clone, Default)]
pub struct Behaviours(Arc<Mutex<Vec<(String, Behaviour)>>>);

// === impl Behaviours ===

impl Behaviours {
    /// Sets the behaviour of images that match `pattern` (a name, or one with `*` in it).
    pub fn set(&self, pattern: &str, behaviour: Behaviour) {
        let mut rules = self.rules();
        rules.retain(|(known, _)| known != pattern);
        rules.push((pattern.to_owned(), behaviour));
    }

    /// Forgets what was set for `pattern`.
    pub fn clear(&self, pattern: &str) {
        self.rules().retain(|(known, _)| known != pattern);
    }

    /// The behaviour of `container` in `pod` with `image`.
    pub fn of(&self, pod: &Value, container: &str, image: &str) -> Behaviour {
        let own = annotation(pod, &format!("{ANNOTATION}.{container}"));
        let said = own.or_else(|| annotation(pod, ANNOTATION)).and_then(Behaviour::parse);
        said.or_else(|| self.of_image(image)).or_else(|| from_tag(image)).unwrap_or_default()
    }

    fn of_image(&self, image: &str) -> Option<Behaviour> {
        let rules = self.rules();
        let exact = rules.iter().find(|(pattern, _)| pattern == image);
        let found = exact.or_else(|| rules.iter().rfind(|(pattern, _)| glob(pattern, image)));
        found.map(|(_, behaviour)| *behaviour)
    }

    fn rules(&self) -> MutexGuard<'_, Vec<(String, Behaviour)>> {
        self.0.lock()
    }
}

// === impl Behaviour ===

impl Behaviour {
    /// Parses the annotation form; `None` for anything else.
    pub fn parse(text: &str) -> Option<Self> {
        let (word, arguments) = text.split_once('=').unwrap_or((text, ""));
        Self::from_parts(word.trim(), arguments.trim())
    }

    fn from_parts(word: &str, arguments: &str) -> Option<Self> {
        let (first, second) = arguments.split_once('/').unwrap_or((arguments, ""));
        let or = |text: &str, default: u64| match text {
            "" => Some(Duration::from_secs(default)),
            text => duration(text),
        };
        Some(match word {
            "normal" => Self::Normal,
            "never-ready" => Self::NeverReady,
            "crash-loop" => Self::CrashLoop { after: or(first, 1)? },
            "slow-start" => Self::SlowStart { delay: or(first, 30)? },
            "flapping" => Self::Flapping { up: or(first, 5)?, down: or(second, 5)? },
            "image-pull-error" => Self::ImagePullError,
            "ready-then-dies" => Self::ReadyThenDies { after: or(first, 30)? },
            "completes" => {
                let exit_code = if first.is_empty() { 0 } else { first.parse().ok()? };
                Self::Completes { exit_code, after: or(second, 0)? }
            }
            _ => return None,
        })
    }

    /// Time from start to exit, and exit code.
    pub(super) fn death(self) -> Option<(Duration, i64)> {
        match self {
            Self::CrashLoop { after } | Self::ReadyThenDies { after } => Some((after, 1)),
            Self::Completes { exit_code, after } => Some((after, exit_code)),
            Self::Normal
            | Self::NeverReady
            | Self::SlowStart { .. }
            | Self::Flapping { .. }
            | Self::ImagePullError => None,
        }
    }
}

/// The behaviour at the end of an image tag: `1.27-slow-start-30s`.
fn from_tag(image: &str) -> Option<Behaviour> {
    const WORDS: [&str; 7] = [
        "never-ready",
        "crash-loop",
        "slow-start",
        "flapping",
        "image-pull-error",
        "ready-then-dies",
        "completes",
    ];
    let image = image.split('@').next().unwrap_or_default();
    let (_, tag) = image.rsplit_once(':').filter(|(_, tag)| !tag.contains('/'))?;
    WORDS.iter().find_map(|word| {
        let at = tag.rfind(word)?;
        let (before, rest) = (tag.get(..at)?, tag.get(at + word.len()..)?);
        let separate = before.is_empty() || before.ends_with(['-', '.', '_']);
        let arguments = if rest.is_empty() { rest } else { rest.strip_prefix('-')? };
        let behaviour = Behaviour::from_parts(word, &arguments.replacen('-', "/", 1))?;
        separate.then_some(behaviour)
    })
}

/// `*` stands for any number of characters.
fn glob(pattern: &str, text: &str) -> bool {
    let Some((head, tail)) = pattern.split_once('*') else { return pattern == text };
    let Some(rest) = text.strip_prefix(head) else { return false };
    let mut ends = rest.char_indices().map(|(at, _)| at).chain([rest.len()]);
    ends.any(|at| rest.get(at..).is_some_and(|rest| glob(tail, rest)))
}

/// `500ms`, `30s`, `2m`, `1h`; a bare number is seconds.
fn duration(text: &str) -> Option<Duration> {
    let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text.get(..split)?.parse().ok()?;
    match text.get(split..)? {
        "ms" => Some(Duration::from_millis(number)),
        "" | "s" => Some(Duration::from_secs(number)),
        "m" => Some(Duration::from_secs(number.checked_mul(60)?)),
        "h" => Some(Duration::from_secs(number.checked_mul(3600)?)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_tag_can_say_how_its_container_behaves() {
        let flapping = Behaviour::Flapping { up: secs(5), down: Duration::from_millis(500) };
        let cases = [
            ("nginx:1.27", Behaviour::Normal),
            ("nginx", Behaviour::Normal),
            ("host:5000/never-ready", Behaviour::Normal),
            ("nginx:never-ready", Behaviour::NeverReady),
            ("nginx:1.27-crash-loop", Behaviour::CrashLoop { after: secs(1) }),
            ("nginx:1.27-crash-loop-3s", Behaviour::CrashLoop { after: secs(3) }),
            ("host:5000/web:v2.slow-start-2m", Behaviour::SlowStart { delay: secs(120) }),
            ("web:flapping-5s-500ms", flapping),
            ("web:completes-3-1s", Behaviour::Completes { exit_code: 3, after: secs(1) }),
            ("web:unflapping", Behaviour::Normal),
        ];
        for (image, want) in cases {
            let behaviours = Behaviours::default();
            assert_eq!(behaviours.of(&json!({}), "web", image), want, "{image}");
        }
    }

    #[test]
    fn annotations_win_over_the_knob_and_the_knob_over_tags() {
        let behaviours = Behaviours::default();
        behaviours.set("*/web:*", Behaviour::ImagePullError);
        behaviours.set("a/web:never-ready", Behaviour::Normal);
        let plain = json!({});
        assert_eq!(behaviours.of(&plain, "web", "a/web:1"), Behaviour::ImagePullError);
        assert_eq!(behaviours.of(&plain, "web", "a/web:never-ready"), Behaviour::Normal);
        let annotated = json!({ "metadata": { "annotations": {
            "sandbox.tidegate.dev/behaviour": "never-ready",
            "sandbox.tidegate.dev/behaviour.side": "slow-start=3s",
        } } });
        assert_eq!(behaviours.of(&annotated, "web", "a/web:1"), Behaviour::NeverReady);
        let slow = Behaviour::SlowStart { delay: secs(3) };
        assert_eq!(behaviours.of(&annotated, "side", "a/web:1"), slow);
        behaviours.clear("*/web:*");
        assert_eq!(behaviours.of(&plain, "web", "a/web:1"), Behaviour::Normal);
    }
}
