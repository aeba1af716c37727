//! Rules on a `Canary` that its schema does not enforce.
//!
//! Flagger's schema accepts objects that break them, and so does ours: a cluster may already hold
//! some. The controller asks here on every tick, refuses to act on what is named, and says so.

use super::{Canary, Provider};

/// Why a canary cannot be acted upon.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// A reference leaves the namespace although that was forbidden.
    #[error(
        "{field}: {namespace}/{name} is in another namespace than the canary, and references to others are off; --no-cross-namespace-refs=false allows them"
    )]
    OtherNamespace {
        /// Path of the namespace.
        field: String,
        /// The namespace in it.
        namespace: String,
        /// The object that is referred to there.
        name: String,
    },
    /// A Knative target with another provider.
    #[error("spec.provider: a Knative target needs the provider \"knative\"")]
    KnativeNeedsProvider,
    /// The Knative provider with another target.
    #[error(
        "spec.targetRef: the provider \"knative\" needs a target of kind Service in serving.knative.dev/v1"
    )]
    ProviderNeedsKnative,
    /// A scaler for a workload that scales itself.
    #[error("spec.autoscalerRef: not possible for a Knative target, which scales itself")]
    KnativeScaler,
    /// One cookie for two purposes.
    #[error("spec.analysis.sessionAffinity.primaryCookieName: must differ from cookieName {0:?}")]
    SameCookie(String),
}

/// Whether references may point to other namespaces (`-no-cross-namespace-refs`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrossNamespace {
    /// They may.
    Allowed,
    /// They may not.
    Forbidden,
}

// === impl Canary ===

impl Canary {
    /// Everything that keeps this canary from being acted upon.
    ///
    /// `usual` is the provider of canaries that name none, where that is one of the definition.
    pub fn problems(
        &self,
        usual: Option<Provider>,
        cross_namespace: CrossNamespace,
    ) -> Vec<Problem> {
        let mut problems = Vec::new();
        if cross_namespace == CrossNamespace::Forbidden {
            self.find_other_namespaces(&mut problems);
        }
        let knative_provider = self.spec.provider.or(usual) == Some(Provider::Knative);
        match (self.spec.target_ref.is_knative(), knative_provider) {
            (true, false) => problems.push(Problem::KnativeNeedsProvider),
            (false, true) => problems.push(Problem::ProviderNeedsKnative),
            (true, true) | (false, false) => {}
        }
        if self.spec.target_ref.is_knative() && self.spec.autoscaler_ref.is_some() {
            problems.push(Problem::KnativeScaler);
        }
        if let Some(affinity) = &self.spec.analysis.session_affinity
            && affinity.primary_cookie_name.as_ref() == Some(&affinity.cookie_name)
        {
            problems.push(Problem::SameCookie(affinity.cookie_name.clone()));
        }
        problems
    }

    fn find_other_namespaces(&self, problems: &mut Vec<Problem>) {
        let own = self.metadata.namespace.as_deref();
        let mut check = |field: String, namespace: Option<&str>, name: &str| {
            if let Some(namespace) = namespace.filter(|n| !n.is_empty() && Some(*n) != own) {
                let (namespace, name) = (namespace.to_owned(), name.to_owned());
                problems.push(Problem::OtherNamespace { field, namespace, name });
            }
        };
        if let Some(upstream) = &self.spec.upstream_ref {
            let field = "spec.upstreamRef.namespace".to_owned();
            check(field, upstream.namespace.as_deref(), &upstream.name);
        }
        for (index, metric) in self.spec.analysis.metrics.iter().enumerate() {
            let Some(template) = &metric.template_ref else { continue };
            let field = format!("spec.analysis.metrics[{index}].templateRef.namespace");
            check(field, template.namespace.as_deref(), &template.name);
        }
        for (index, alert) in self.spec.analysis.alerts.iter().enumerate() {
            let provider = &alert.provider_ref;
            let field = format!("spec.analysis.alerts[{index}].providerRef.namespace");
            check(field, provider.namespace.as_deref(), &provider.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn problems(spec: &Value, cross_namespace: CrossNamespace) -> Vec<String> {
        let canary: Canary = serde_json::from_value(json!({
            "metadata": { "name": "api", "namespace": "web" },
            "spec": spec,
        }))
        .unwrap();
        canary.problems(None, cross_namespace).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_knative_target_and_the_knative_provider_need_each_other() {
        let analysis = json!({ "interval": "1m", "threshold": 1, "stepWeight": 10 });
        let target =
            |version: &str| json!({ "apiVersion": version, "kind": "Service", "name": "a" });
        let knative = target("serving.knative.dev/v1");
        let scaler = json!({ "apiVersion": "v1", "kind": "ScaledObject", "name": "a" });
        let find = |spec: Value| problems(&spec, CrossNamespace::Allowed);
        assert_eq!(
            find(json!({ "provider": "knative", "targetRef": knative, "analysis": analysis })),
            Vec::<String>::new()
        );
        assert_eq!(
            find(json!({ "targetRef": knative, "analysis": analysis, "autoscalerRef": scaler })),
            [
                "spec.provider: a Knative target needs the provider \"knative\"",
                "spec.autoscalerRef: not possible for a Knative target, which scales itself",
            ]
        );
        assert_eq!(
            find(json!({ "provider": "knative", "targetRef": target("v1"), "analysis": analysis })),
            ["spec.targetRef: the provider \"knative\" needs a target of kind Service in \
              serving.knative.dev/v1"]
        );
    }

    #[test]
    fn a_canary_that_names_no_provider_has_the_usual_one() {
        let spec = |provider: Option<&str>, version: &str| {
            let canary: Canary = serde_json::from_value(json!({
                "metadata": { "name": "api", "namespace": "web" },
                "spec": {
                    "provider": provider,
                    "targetRef": { "apiVersion": version, "kind": "Service", "name": "a" },
                    "analysis": { "interval": "1m", "threshold": 1, "stepWeight": 10 },
                },
            }))
            .unwrap();
            canary
        };
        let knative = "serving.knative.dev/v1";
        let (usual, allowed) = (Some(Provider::Knative), CrossNamespace::Allowed);
        let cases = [
            ("the usual one fits", None, knative, vec![]),
            ("the usual one needs its target", None, "v1", vec![Problem::ProviderNeedsKnative]),
            ("its own goes first", Some("istio"), knative, vec![Problem::KnativeNeedsProvider]),
            ("whatever the usual one is", Some("istio"), "v1", vec![]),
        ];
        for (reason, provider, version, want) in cases {
            assert_eq!(spec(provider, version).problems(usual, allowed), want, "{reason}");
        }
    }

    #[test]
    fn references_leave_the_namespace_only_where_that_is_allowed() {
        let spec = json!({
            "targetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "api" },
            "upstreamRef": { "apiVersion": "v1", "kind": "Upstream", "name": "a", "namespace": "gloo" },
            "analysis": {
                "interval": "1m", "threshold": 1, "stepWeight": 10,
                "metrics": [
                    { "name": "own", "templateRef": { "name": "a", "namespace": "web" } },
                    { "name": "other", "templateRef": { "name": "a", "namespace": "ops" } },
                ],
                "alerts": [{ "name": "a", "providerRef": { "name": "a", "namespace": "chat" } }],
            },
        });
        assert_eq!(problems(&spec, CrossNamespace::Allowed), Vec::<String>::new());
        let found = problems(&spec, CrossNamespace::Forbidden);
        assert!(found.iter().any(|text| text.contains(": ops/a is in")), "{found:?}");
        let fields: Vec<_> = found.iter().filter_map(|text| text.split(':').next()).collect();
        assert_eq!(
            fields,
            [
                "spec.upstreamRef.namespace",
                "spec.analysis.metrics[1].templateRef.namespace",
                "spec.analysis.alerts[0].providerRef.namespace",
            ]
        );
    }

    #[test]
    fn one_cookie_cannot_serve_two_purposes() {
        let spec = |primary: &str| {
            json!({
                "targetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "api" },
                "analysis": {
                    "interval": "1m", "threshold": 1, "stepWeight": 10,
                    "sessionAffinity": { "cookieName": "a", "primaryCookieName": primary },
                },
            })
        };
        assert_eq!(problems(&spec("b"), CrossNamespace::Allowed), Vec::<String>::new());
        assert_eq!(
            problems(&spec("a"), CrossNamespace::Allowed),
            ["spec.analysis.sessionAffinity.primaryCookieName: must differ from cookieName \"a\""]
        );
    }
}
