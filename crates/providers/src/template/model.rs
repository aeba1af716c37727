//! The values that a template can use, checked.
//!
//! Names end up between quotes and in regular expressions of query languages. They are those of
//! Kubernetes objects, but a spec may say anything; a text that is no name is refused here and
//! needs no escaping anywhere else.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::Arc,
};

use gotmpl::{FuncMap, TemplateError, Value};
use tidegate_api::canary::{Canary, analysis::AnalysisMetric};

use super::budget::VALUE_MAX;
use crate::hook::excerpt;

/// The values of one metric of one canary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Model {
    name: String,
    namespace: String,
    target: String,
    service: String,
    ingress: String,
    route: String,
    interval: String,
    variables: BTreeMap<String, String>,
    addresses: BTreeSet<IpAddr>,
}

/// A value that must not get into a query.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    /// Not the name of any object.
    #[error("the name of the {0} is not a name")]
    Name(&'static str),
    /// Not a span of time, such as `1m` or `90s`.
    #[error("the interval is not a span of time")]
    Interval,
    /// Too many variables, or too long ones.
    #[error("the template variables are too large")]
    Variables,
    /// A variable for a template of another namespace that could end a literal there.
    #[error(
        "the template variable {0:?} has a quote, a backslash, a line end or, where a query is part of an address, a mark of addresses, which a template of another namespace does not take"
    )]
    Foreign(String),
}

/// Longest name of a Kubernetes object.
const NAME_MAX: usize = 253;
/// Longest interval; `23h59m59s999ms` has fourteen characters.
const INTERVAL_MAX: usize = 32;
/// Begin, end or escape strings of query languages.
const ENDS: &str = "\"'`\\";
/// Most variables of one metric.
const VARIABLES_MAX: usize = 256;
/// Units of time of Prometheus, longer ones first where one begins another.
const UNITS: [&str; 7] = ["ms", "s", "m", "h", "d", "w", "y"];

// === impl Model ===

impl Model {
    /// The values for a metric of this canary.
    pub fn of(canary: &Canary, metric: &AnalysisMetric) -> Result<Self, ModelError> {
        let spec = &canary.spec;
        let target = spec.target_ref.name.as_str();
        let or_target =
            |name: Option<&str>| name.filter(|name| !name.is_empty()).unwrap_or(target).to_owned();
        let model = Self {
            name: canary.metadata.name.clone().unwrap_or_default(),
            namespace: canary.metadata.namespace.clone().unwrap_or_default(),
            target: target.to_owned(),
            service: spec.apex_name().to_owned(),
            ingress: or_target(spec.ingress_ref.as_ref().map(|ingress| ingress.name.as_str())),
            route: or_target(spec.route_ref.as_ref().map(|route| route.name.as_str())),
            interval: metric.interval().to_owned(),
            variables: metric.template_variables.clone(),
            addresses: BTreeSet::new(),
        };
        model.checked()
    }

    /// The same with another route: for Knative, the latest created revision.
    pub fn with_route(self, route: &str) -> Result<Self, ModelError> {
        Self { route: route.to_owned(), ..self }.checked()
    }

    /// The same with the addresses of the canary; texts that are no address are left out.
    #[must_use]
    pub fn with_addresses<'a>(mut self, addresses: impl IntoIterator<Item = &'a str>) -> Self {
        let parsed = addresses.into_iter().filter_map(|address| address.parse().ok());
        self.addresses = parsed.collect();
        self
    }

    /// The same, for a template of another namespace: it is queried with a login that is not the canary's, so
    /// a variable may be a value in its query and no more of it.
    ///
    /// Values are put in as they are, as in Flagger: those that would end a value in the provider's
    /// language are refused instead.
    pub fn for_foreign_template(self, provider: &str) -> Result<Self, ModelError> {
        let ends = match provider {
            // The query is part of an address: another parameter would be another query.
            "graphite" => "\"'`\\&;#%+?",
            "keptn" | "externalmetrics" => "\"'`\\&;#%+?/",
            _ => ENDS,
        };
        match self.variables.iter().find(|(_, value)| !is_tame(value, ends)) {
            Some((key, _)) => Err(ModelError::Foreign(excerpt(key.as_bytes()))),
            None => Ok(self),
        }
    }

    /// Whether the names of variables could be values of them for any foreign template: a loop can print them.
    pub(super) fn has_tame_keys(&self) -> bool {
        self.variables.keys().all(|key| is_tame(key, ENDS))
    }

    /// Addresses of the canary, if they were looked up.
    pub fn addresses(&self) -> &BTreeSet<IpAddr> {
        &self.addresses
    }

    /// Namespace of the canary.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Name of the workload.
    pub fn target(&self) -> &str {
        &self.target
    }

    /// Name of the Service clients use.
    pub fn service(&self) -> &str {
        &self.service
    }

    /// Name of the Ingress, or else of the workload.
    pub fn ingress(&self) -> &str {
        &self.ingress
    }

    /// Name of the route, or else of the workload; for Knative, of the revision.
    pub fn route(&self) -> &str {
        &self.route
    }

    /// Span of time the query looks back over.
    pub fn interval(&self) -> &str {
        &self.interval
    }

    /// A variable of the metric.
    pub fn variable(&self, key: &str) -> Option<&str> {
        self.variables.get(key).map(String::as_str)
    }

    /// The functions of templates.
    pub(super) fn functions(&self) -> FuncMap {
        let texts = [
            ("name", &self.name),
            ("namespace", &self.namespace),
            ("target", &self.target),
            ("service", &self.service),
            ("ingress", &self.ingress),
            ("route", &self.route),
            ("interval", &self.interval),
        ];
        let text = |text: &String| Value::String(Arc::from(text.as_str()));
        let mut functions: FuncMap =
            texts.into_iter().map(|(name, value)| constant(name, text(value))).collect();
        let variables =
            self.variables.iter().map(|(key, value)| (Arc::from(key.as_str()), text(value)));
        functions.extend([constant("variables", Value::Map(Arc::new(variables.collect())))]);
        functions
    }

    fn checked(self) -> Result<Self, ModelError> {
        let names = [
            ("canary", &self.name),
            ("namespace", &self.namespace),
            ("target", &self.target),
            ("service", &self.service),
            ("ingress", &self.ingress),
            ("route", &self.route),
        ];
        for (what, name) in names {
            if !is_name(name) {
                return Err(ModelError::Name(what));
            }
        }
        if !is_interval(&self.interval) {
            return Err(ModelError::Interval);
        }
        let large = |text: &String| text.len() > VALUE_MAX;
        let too_large = self.variables.iter().any(|(key, value)| large(key) || large(value));
        if too_large || self.variables.len() > VARIABLES_MAX {
            return Err(ModelError::Variables);
        }
        Ok(self)
    }
}

/// Without line ends, other control characters and these.
fn is_tame(text: &str, ends: &str) -> bool {
    !text.chars().any(|it| it.is_control() || ends.contains(it))
}

/// Letters, digits and the marks that names of objects may have; none of them ends a literal.
fn is_name(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:".contains(&byte);
    (1..=NAME_MAX).contains(&text.len()) && text.bytes().all(fits)
}

/// A span of time as Prometheus writes it, or a range with a resolution, `5m:30s`.
///
/// The schema looks at the beginning of the text only, so anything may follow.
pub(crate) fn is_interval(text: &str) -> bool {
    let (span, resolution) = text.split_once(':').unwrap_or((text, ""));
    text.len() <= INTERVAL_MAX && is_span(span) && (resolution.is_empty() || is_span(resolution))
}

fn is_span(text: &str) -> bool {
    let mut rest = text;
    let mut some = false;
    while !rest.is_empty() {
        let unit_onward = rest.trim_start_matches(|c: char| c.is_ascii_digit());
        let Some((digits, _)) = rest.split_at_checked(rest.len() - unit_onward.len()) else {
            return false;
        };
        let Some(after) = UNITS.iter().find_map(|unit| unit_onward.strip_prefix(unit)) else {
            return false;
        };
        if digits.is_empty() {
            return false;
        }
        some |= digits.bytes().any(|digit| digit != b'0');
        rest = after;
    }
    some
}

fn constant(name: &str, value: Value) -> (String, gotmpl::ValueFunc) {
    let owned = name.to_owned();
    let function = move |arguments: &[Value]| match arguments.len() {
        0 => Ok(value.clone()),
        got => Err(TemplateError::ArgCount { name: owned.clone(), expected: 0, got }),
    };
    (name.to_owned(), Arc::new(function))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_intervals_cannot_end_a_literal() {
        let names = [
            ("podinfo", true),
            ("podinfo-v1.2_x", true),
            ("default/podinfo", false),
            ("", false),
            ("a\"} or vector(1) #", false),
            ("a\\", false),
            ("a b", false),
            ("a\nb", false),
            ("a|b", false),
            ("a*", false),
        ];
        for (name, want) in names {
            assert_eq!(is_name(name), want, "{name:?}");
        }
        assert!(!is_name(&"a".repeat(254)));
    }

    #[test]
    fn a_variable_cannot_end_a_literal_of_another_namespaces_template() {
        let model = |value: &str| Model {
            name: "podinfo".into(),
            namespace: "test".into(),
            target: "podinfo".into(),
            service: "podinfo".into(),
            ingress: "podinfo".into(),
            route: "podinfo".into(),
            interval: "1m".into(),
            variables: BTreeMap::from([("shop".into(), value.into())]),
            addresses: BTreeSet::new(),
        };
        for value in ["front", "a.b-c_d:8080/e", "web|api.*", "", "sum(x{}) + 1"] {
            assert!(model(value).for_foreign_template("prometheus").is_ok(), "{value:?}");
        }
        for value in ["web&target=secret", "a;b", "a#b", "a%26b", "a+b"] {
            assert!(model(value).for_foreign_template("influxdb").is_ok(), "{value:?}");
            for provider in ["graphite", "keptn", "externalmetrics"] {
                let refusal = model(value).for_foreign_template(provider).unwrap_err();
                assert_eq!(refusal, ModelError::Foreign("shop".into()), "{provider} {value:?}");
            }
        }
        for value in ["x\"} or secret #", "a\\", "a\nb", "it's", "`"] {
            let refusal = model(value).for_foreign_template("prometheus").unwrap_err();
            assert_eq!(refusal, ModelError::Foreign("shop".into()), "{value:?}");
        }
    }

    #[test]
    fn an_interval_is_a_span_of_time_to_its_end() {
        let cases = [
            ("1m", true),
            ("90s", true),
            ("1h30m", true),
            ("250ms", true),
            ("5m:30s", true),
            ("5m:", true),
            ("", false),
            ("0s", false),
            ("60", false),
            ("m", false),
            ("1min", false),
            ("1m]) or vector(100) #", false),
            ("1m\n", false),
            ("-1m", false),
            ("1.5m", false),
            (":1m", false),
            ("1m:0s", false),
        ];
        for (text, want) in cases {
            assert_eq!(is_interval(text), want, "{text:?}");
        }
    }
}
