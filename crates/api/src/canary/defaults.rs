//! Values of a `Canary` that its spec leaves out: defaults, derived names, the strategy.
//!
//! The rules are Flagger's unless a comment says otherwise. Nothing here is stored.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::{
    Analysis, CanarySpec, Service, TargetKind, TargetRef,
    analysis::{Alert, AlertSeverity, AnalysisMetric, SessionAffinity, Webhook, WebhookType},
};
use crate::duration::{DurationError, GoDuration};

/// How traffic gets to a new revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Strategy {
    /// A share of all traffic that grows step by step.
    Canary,
    /// The traffic of matching requests, for a number of checks.
    AbTesting,
    /// No traffic until all checks passed, then all of it.
    BlueGreen,
}

/// The three Services of a canary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceNames {
    /// The one clients use.
    pub apex: String,
    /// The one in front of the primary.
    pub primary: String,
    /// The one in front of the new revision.
    pub canary: String,
}

/// Stands in for an interval that cannot be read.
const INTERVAL_DEFAULT: Duration = Duration::from_mins(1);
/// No canary is looked at more often than this.
const INTERVAL_MIN: Duration = Duration::from_secs(10);
const WEBHOOK_TIMEOUT_DEFAULT: &str = "10s";
const COOKIE_MAX_AGE_DEFAULT_S: i64 = 86_400;
const PROGRESS_DEADLINE_DEFAULT_S: i32 = 600;

/// All traffic, in percent.
pub const TOTAL_WEIGHT: i64 = 100;

// === impl CanarySpec ===

impl CanarySpec {
    /// Names of the Services, from `service.name` or else the target.
    pub fn service_names(&self) -> ServiceNames {
        let apex = self.apex_name();
        ServiceNames {
            primary: format!("{apex}-primary"),
            canary: format!("{apex}-canary"),
            apex: apex.to_owned(),
        }
    }

    /// Name of the Service clients use.
    pub fn apex_name(&self) -> &str {
        let named = self.service.as_ref().and_then(|service| service.name.as_deref());
        named.filter(|name| !name.is_empty()).unwrap_or(&self.target_ref.name)
    }

    /// Name of the primary copy of the workload; never taken from `service.name`.
    pub fn primary_name(&self) -> String {
        format!("{}-primary", self.target_ref.name)
    }

    /// Name of the primary copy of the scaler, if there is a scaler.
    pub fn primary_scaler_name(&self) -> Option<String> {
        self.autoscaler_ref.as_ref().map(|scaler| format!("{}-primary", scaler.name))
    }

    /// Seconds a rollout may go without progress.
    pub fn progress_deadline_s(&self) -> i32 {
        self.progress_deadline_seconds.unwrap_or(PROGRESS_DEADLINE_DEFAULT_S)
    }

    /// Whether new revisions are promoted without analysis.
    pub fn skips_analysis(&self) -> bool {
        self.skip_analysis == Some(true)
    }

    /// Whether the canary is frozen.
    pub fn is_suspended(&self) -> bool {
        self.suspend == Some(true)
    }
}

// === impl TargetRef ===

impl TargetRef {
    /// Whether the target is a Knative service rather than a Kubernetes one.
    pub fn is_knative(&self) -> bool {
        self.kind == TargetKind::Service && self.api_version == "serving.knative.dev/v1"
    }
}

// === impl Service ===

impl Service {
    /// Name of the port of the generated Services.
    pub fn port_name(&self) -> &str {
        self.port_name.as_deref().filter(|name| !name.is_empty()).unwrap_or("http")
    }

    /// Port of the containers: `targetPort`, or `port` when that is absent or 0 in any spelling.
    pub fn target_port(&self) -> IntOrString {
        match &self.target_port {
            Some(IntOrString::Int(number)) if *number != 0 => IntOrString::Int(*number),
            Some(IntOrString::String(name)) if name != "0" => IntOrString::String(name.clone()),
            _ => IntOrString::Int(self.port),
        }
    }
}

// === impl Analysis ===

impl Analysis {
    /// Time between two ticks: one minute if the text is no duration, ten seconds at least.
    pub fn interval(&self) -> Duration {
        let text = self.interval.as_deref().unwrap_or_default();
        match text.parse::<GoDuration>() {
            Ok(interval) => interval.to_std().unwrap_or_default().max(INTERVAL_MIN),
            Err(_) => INTERVAL_DEFAULT,
        }
    }

    /// Failed checks that take a rollout back; at least one.
    pub fn threshold(&self) -> i64 {
        self.threshold.filter(|threshold| *threshold > 0).unwrap_or(1)
    }

    /// Share of traffic at which promotion starts.
    pub fn max_weight(&self) -> i64 {
        match self.step_weights.as_deref() {
            Some([.., last]) => (*last).min(TOTAL_WEIGHT),
            _ => self.max_weight.filter(|weight| *weight > 0).unwrap_or(TOTAL_WEIGHT),
        }
    }

    /// Percentage of available pods that makes the primary ready. An explicit 0 is 0.
    pub fn primary_ready_threshold(&self) -> i64 {
        self.primary_ready_threshold.unwrap_or(100)
    }

    /// Percentage of available pods that makes the canary ready. An explicit 0 is 0.
    pub fn canary_ready_threshold(&self) -> i64 {
        self.canary_ready_threshold.unwrap_or(100)
    }

    /// `match` without iterations is still a weighted canary.
    pub fn strategy(&self) -> Strategy {
        match (self.iterations.unwrap_or(0) > 0, self.matches.is_empty()) {
            (true, false) => Strategy::AbTesting,
            (true, true) => Strategy::BlueGreen,
            (false, _) => Strategy::Canary,
        }
    }
}

// === impl Strategy ===

impl Strategy {
    /// The word used as a metric label.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Canary => "canary",
            Self::AbTesting => "ab-testing",
            Self::BlueGreen => "blue-green",
        }
    }
}

// === impl AnalysisMetric, Alert, Webhook, SessionAffinity ===

impl AnalysisMetric {
    /// Time span of the query. Flagger forgets the default where a template is used; we do not.
    pub fn interval(&self) -> &str {
        self.interval.as_deref().filter(|interval| !interval.is_empty()).unwrap_or("1m")
    }
}

impl Alert {
    /// Least severity that is reported; never `Unset`. Flagger drops such alerts in spite of its
    /// own documentation; we follow the documentation.
    pub fn severity(&self) -> AlertSeverity {
        match self.severity {
            None | Some(AlertSeverity::Unset) => AlertSeverity::Info,
            Some(severity) => severity,
        }
    }
}

impl Webhook {
    /// When the hook is called; never `Unset`.
    pub fn hook_type(&self) -> WebhookType {
        match self.hook_type {
            None | Some(WebhookType::Unset) => WebhookType::Rollout,
            Some(hook_type) => hook_type,
        }
    }

    /// Longest time of one call. A text of less than two characters counts as unset; one that is
    /// no duration makes every call of the hook fail.
    pub fn timeout(&self) -> Result<GoDuration, DurationError> {
        let text = self.timeout.as_deref().filter(|timeout| timeout.len() >= 2);
        text.unwrap_or(WEBHOOK_TIMEOUT_DEFAULT).parse()
    }
}

impl SessionAffinity {
    /// Lifetime of the canary cookie in seconds.
    pub fn max_age_s(&self) -> i64 {
        self.max_age.filter(|age| *age != 0).unwrap_or(COOKIE_MAX_AGE_DEFAULT_S)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::canary::analysis::AnalysisMatch;

    fn spec() -> CanarySpec {
        serde_json::from_value(json!({
            "targetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "api" },
            "autoscalerRef": { "apiVersion": "v1", "kind": "ScaledObject", "name": "scaler" },
            "service": { "port": 80 },
            "analysis": { "interval": "1m", "threshold": 5, "stepWeight": 10 },
        }))
        .unwrap()
    }

    #[test]
    fn names_come_from_the_service_or_else_the_target() {
        let names = |apex: &str| ServiceNames {
            apex: apex.to_owned(),
            primary: format!("{apex}-primary"),
            canary: format!("{apex}-canary"),
        };
        let with_name = |name: Option<&str>| {
            let mut spec = spec();
            spec.service.as_mut().unwrap().name = name.map(str::to_owned);
            spec
        };
        assert_eq!(with_name(Some("front")).service_names(), names("front"));
        assert_eq!(with_name(Some("")).service_names(), names("api"), "an empty name is none");
        assert_eq!(with_name(None).service_names(), names("api"));
        assert_eq!(CanarySpec { service: None, ..spec() }.service_names(), names("api"));
        assert_eq!(
            with_name(Some("front")).primary_name(),
            "api-primary",
            "never from the service"
        );
        assert_eq!(spec().primary_scaler_name().as_deref(), Some("scaler-primary"));
    }

    #[test]
    fn intervals_have_a_floor_and_a_fallback() {
        let cases = [
            ("as written", Some("1m30s"), 90),
            ("nothing runs more often than this", Some("1s"), 10),
            ("milliseconds pass the schema", Some("10ms"), 10),
            ("so does a tail", Some("5mx"), 60),
            ("nothing", Some(""), 60),
            ("absent", None, 60),
        ];
        for (reason, interval, want) in cases {
            let analysis =
                Analysis { interval: interval.map(str::to_owned), ..Analysis::default() };
            assert_eq!(analysis.interval(), Duration::from_secs(want), "{reason}");
        }
    }

    #[test]
    fn weights_and_thresholds_fall_back() {
        let weights = |step_weights: Option<Vec<i64>>, max_weight| {
            Analysis { max_weight, step_weights, ..Analysis::default() }.max_weight()
        };
        assert_eq!(weights(Some(vec![1, 80]), Some(50)), 80, "the list wins over the maximum");
        assert_eq!(weights(Some(vec![1, 180]), None), 100, "no more than all traffic");
        assert_eq!(weights(Some(vec![]), Some(50)), 50, "an empty list says nothing");
        assert_eq!(weights(None, Some(0)), 100, "zero is no maximum");
        assert_eq!(weights(None, None), 100);

        let threshold = |threshold| Analysis { threshold, ..Analysis::default() }.threshold();
        assert_eq!([threshold(Some(5)), threshold(Some(0)), threshold(None)], [5, 1, 1]);

        let ready = Analysis { canary_ready_threshold: Some(0), ..Analysis::default() };
        assert_eq!((ready.canary_ready_threshold(), ready.primary_ready_threshold()), (0, 100));
    }

    #[test]
    fn the_strategy_follows_from_iterations_and_matches() {
        let strategy = |iterations, matches: usize| {
            let matches = vec![AnalysisMatch::default(); matches];
            Analysis { iterations, matches, ..Analysis::default() }.strategy().as_str()
        };
        assert_eq!(strategy(Some(5), 1), "ab-testing");
        assert_eq!(strategy(Some(5), 0), "blue-green");
        assert_eq!(strategy(Some(0), 1), "canary");
        assert_eq!(strategy(None, 1), "canary");
    }

    #[test]
    fn a_target_port_of_zero_is_none_in_any_spelling() {
        let port =
            |target_port| Service { port: 80, target_port, ..Service::default() }.target_port();
        let name = IntOrString::String("http".to_owned());
        assert_eq!(port(None), IntOrString::Int(80));
        assert_eq!(port(Some(IntOrString::Int(0))), IntOrString::Int(80));
        assert_eq!(port(Some(IntOrString::String("0".to_owned()))), IntOrString::Int(80));
        assert_eq!(port(Some(IntOrString::Int(8080))), IntOrString::Int(8080));
        assert_eq!(port(Some(name.clone())), name);
    }

    #[test]
    fn hooks_alerts_and_cookies_have_defaults() {
        let timeout = |text: Option<&str>| {
            Webhook { timeout: text.map(str::to_owned), ..Webhook::default() }.timeout()
        };
        assert_eq!(timeout(None), "10s".parse());
        assert_eq!(timeout(Some("5")), "10s".parse(), "too short to be meant");
        assert_eq!(timeout(Some("1m")), "1m".parse());
        assert!(timeout(Some("10sx")).is_err());
        assert_eq!(Webhook::default().hook_type(), WebhookType::Rollout);
        assert_eq!(Alert::default().severity(), AlertSeverity::Info);
        assert_eq!(AnalysisMetric::default().interval(), "1m");
        let age = |max_age| SessionAffinity { max_age, ..SessionAffinity::default() }.max_age_s();
        assert_eq!([age(None), age(Some(0)), age(Some(60))], [86_400, 86_400, 60]);
        assert_eq!(spec().progress_deadline_s(), 600);
    }
}
