//! The sample application that runs in every ready pod.
//!
//! It answers with its version, with a configured latency and error rate. The configuration comes
//! from the pod's first container (or the one named by the annotation
//! `kubectl.kubernetes.io/default-container`): words in its image tag, overridden by its
//! environment.
//!
//! | tag | environment | effect |
//! |---|---|---|
//! | `shop:2.0.0` | `VERSION=2.0.0` | reports this version |
//! | `shop:2.0.0-errors-20` | `ERROR_RATE=20` | answers 500 to this percentage of requests |
//! | `shop:2.0.0-slow-800ms` | `LATENCY=800ms` | answers after about this time |
//! | `shop:2.0.0-errors-5-slow-1s` | | both |
//!
//! `/healthz`, `/readyz` and `/version` always answer at once, `/status/<code>` with that code,
//! `/delay/<seconds>` with that additional delay.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{
    controllers::object::{annotation, items, text},
    dataplane::duration,
    random::Random,
};

/// Default latency: enough to show in a histogram.
const LATENCY: Duration = Duration::from_millis(5);
/// Maximum latency, for every tag, environment and path.
const LATENCY_MAX: Duration = Duration::from_mins(1);

/// Behaviour of one pod.
#[derive(Debug, Clone, PartialEq)]
pub struct App {
    /// The version that its answers name.
    pub version: String,
    /// Share of requests answered 500, from 0 to 1.
    pub errors: f64,
    /// Mean latency; a tenth of it is random.
    pub latency: Duration,
}

/// Status and latency of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    /// The HTTP status.
    pub status: u16,
    /// How long the answer takes.
    pub latency: Duration,
}

// === impl App ===

impl App {
    /// Reads the application's configuration from a pod.
    pub fn of(pod: &Value) -> Self {
        let containers = items(pod, "/spec/containers");
        let named = annotation(pod, "kubectl.kubernetes.io/default-container");
        let chosen = containers.iter().find(|container| Some(text(container, "/name")) == named);
        let Some(container) = chosen.or(containers.first()) else { return Self::from_tag("") };
        let mut app = Self::from_tag(tag(text(container, "/image")));
        for variable in items(container, "/env") {
            app.take_variable(text(variable, "/name"), text(variable, "/value"));
        }
        app
    }

    fn from_tag(tag: &str) -> Self {
        let mut app = Self { version: String::new(), errors: 0.0, latency: LATENCY };
        let mut version = Vec::new();
        let mut words = tag.split('-').peekable();
        while let Some(word) = words.next() {
            let argument = words.peek().copied().unwrap_or_default();
            let is_taken = match word {
                "errors" => app.take_errors(argument),
                "slow" => app.take_latency(argument),
                _ => false,
            };
            if is_taken {
                words.next();
            } else {
                version.push(word);
            }
        }
        app.version = version.join("-");
        if app.version.is_empty() {
            "latest".clone_into(&mut app.version);
        }
        app
    }

    fn take_variable(&mut self, name: &str, value: &str) {
        match name {
            "VERSION" if !value.is_empty() => value.clone_into(&mut self.version),
            "ERROR_RATE" => {
                self.take_errors(value);
            }
            "LATENCY" => {
                self.take_latency(value);
            }
            _ => {}
        }
    }

    fn take_errors(&mut self, percent: &str) -> bool {
        let percent = percent.trim().trim_end_matches('%').parse::<f64>();
        let share = percent.ok().map(|percent| percent / 100.0);
        let share = share.filter(|share| (0.0..=1.0).contains(share));
        self.errors = share.unwrap_or(self.errors);
        share.is_some()
    }

    fn take_latency(&mut self, text: &str) -> bool {
        let latency = duration::parse(text).map(|latency| latency.min(LATENCY_MAX));
        self.latency = latency.unwrap_or(self.latency);
        latency.is_some()
    }

    /// Status and latency for a request to `path`. The same number gives the same outcome.
    pub fn answer(&self, path: &str, random: u64) -> Outcome {
        let path = path.split('?').next().unwrap_or_default();
        if matches!(path, "/healthz" | "/readyz" | "/version") {
            return Outcome { status: 200, latency: Duration::from_millis(1) };
        }
        let random = Random::seeded(random);
        let latency = self.latency.mul_f64(0.9 + 0.2 * random.unit());
        let is_error = random.chance(self.errors);
        let status = path.strip_prefix("/status/").and_then(|code| code.parse().ok());
        let status = status.filter(|code| (200..600).contains(code));
        let delay = path.strip_prefix("/delay/").and_then(|seconds| seconds.parse().ok());
        let delay = Duration::from_secs(delay.unwrap_or_default());
        Outcome {
            status: status.unwrap_or(if is_error { 500 } else { 200 }),
            latency: latency.saturating_add(delay).min(LATENCY_MAX),
        }
    }

    /// The body of an answer.
    pub fn body(&self, pod: &str, path: &str, status: u16) -> Value {
        match path {
            "/healthz" | "/readyz" => json!({ "status": "OK" }),
            "/version" => json!({ "version": self.version }),
            _ if status >= 500 => {
                let error = "told to fail";
                json!({ "version": self.version, "pod": pod, "path": path, "error": error })
            }
            _ => json!({ "version": self.version, "pod": pod, "path": path }),
        }
    }
}

/// The tag of an image, without a digest; `""` if it has none.
fn tag(image: &str) -> &str {
    let name = image.split('@').next().unwrap_or_default();
    let tag = name.rsplit_once(':').map(|(_, tag)| tag).filter(|tag| !tag.contains('/'));
    tag.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(image: &str, env: &Value) -> Value {
        let container = json!({ "name": "web", "image": image, "env": env });
        json!({ "spec": { "containers": [container] } })
    }

    fn app(version: &str, errors: f64, latency_ms: u64) -> App {
        let latency = Duration::from_millis(latency_ms);
        App { version: version.to_owned(), errors, latency }
    }

    #[test]
    fn tags_and_environment_say_how_an_application_answers() {
        let none = json!([]);
        let cases = [
            ("a plain tag is the version", "shop:1.2.3", &none, app("1.2.3", 0.0, 5)),
            ("no tag", "shop", &none, app("latest", 0.0, 5)),
            ("a registry's port is no tag", "host:5000/shop", &none, app("latest", 0.0, 5)),
            ("a digest is no tag", "shop:1@sha256:00ff", &none, app("1", 0.0, 5)),
            ("errors", "shop:2.0.0-errors-20", &none, app("2.0.0", 0.2, 5)),
            ("a part of a percent", "shop:2-errors-0.5", &none, app("2", 0.005, 5)),
            ("latency", "shop:2.0.0-slow-800ms", &none, app("2.0.0", 0.0, 800)),
            ("both", "shop:2-slow-1s-errors-100", &none, app("2", 1.0, 1000)),
            ("the kubelet's words are not ours", "shop:2-slow-start-30s", &none, {
                app("2-slow-start-30s", 0.0, 5)
            }),
            ("too many errors are a version", "shop:2-errors-101", &none, {
                app("2-errors-101", 0.0, 5)
            }),
            ("a pre-release keeps its dash", "shop:2.0.0-rc.1-errors-1", &none, {
                app("2.0.0-rc.1", 0.01, 5)
            }),
        ];
        for (reason, image, env, want) in cases {
            assert_eq!(App::of(&pod(image, env)), want, "{reason}");
        }
        let env = json!([
            { "name": "VERSION", "value": "3" }, { "name": "ERROR_RATE", "value": "50%" },
            { "name": "LATENCY", "value": "1m30s" }, { "name": "OTHER" },
        ]);
        let got = App::of(&pod("shop:2-errors-20", &env));
        assert_eq!(got, app("3", 0.5, 60_000), "the environment wins, within limits");
        assert_eq!(App::of(&json!({})), app("latest", 0.0, 5), "a pod of nothing");
    }

    #[test]
    fn the_default_container_is_asked_when_it_is_named() {
        let mut pod = pod("proxy:9", &json!([]));
        let containers = pod["spec"]["containers"].as_array_mut().unwrap();
        containers.push(json!({ "name": "shop", "image": "shop:2" }));
        assert_eq!(App::of(&pod).version, "9");
        pod["metadata"]["annotations"] =
            json!({ "kubectl.kubernetes.io/default-container": "shop" });
        assert_eq!(App::of(&pod).version, "2");
    }

    #[test]
    fn some_paths_answer_in_their_own_way() {
        let broken = app("1", 1.0, 100);
        for (path, want) in [
            ("/", 500),
            ("/healthz", 200),
            ("/version", 200),
            ("/status/404", 404),
            ("/status/7", 500),
        ] {
            assert_eq!(broken.answer(path, 1).status, want, "{path}");
        }
        assert!(broken.answer("/delay/2", 1).latency >= Duration::from_secs(2));
        assert!(broken.answer("/delay/999999", 1).latency <= LATENCY_MAX);
        assert_eq!(broken.body("shop-1", "/version", 200), json!({ "version": "1" }));
        let body = broken.body("shop-1", "/cart", 200);
        assert_eq!(body, json!({ "version": "1", "pod": "shop-1", "path": "/cart" }));
    }

    #[test]
    fn errors_come_at_their_rate_and_latency_within_a_tenth() {
        let app = app("1", 0.2, 100);
        let outcomes: Vec<_> = (0..10_000).map(|seed| app.answer("/", seed)).collect();
        let errors = outcomes.iter().filter(|outcome| outcome.status == 500).count();
        assert!((1_850..2_150).contains(&errors), "{errors}");
        let range = Duration::from_millis(90)..=Duration::from_millis(110);
        assert!(outcomes.iter().all(|outcome| range.contains(&outcome.latency)));
        assert_eq!(app.answer("/", 7), app.answer("/", 7));
    }
}
