//! The kinds of the corpus and the samples of them.

use serde_json::Value;

/// The path of a kind.
#[derive(Debug, Clone, Copy)]
pub struct Kind {
    pub api_version: &'static str,
    pub kind: &'static str,
    pub plural: &'static str,
    pub is_namespaced: bool,
    pub has_status: bool,
    pub has_scale: bool,
}

/// An object to start from.
#[derive(Debug, Clone)]
pub struct Sample {
    pub kind: Kind,
    pub object: Value,
}

const SAMPLES: &str = include_str!("samples.yaml");
const DEFINITIONS: &str = include_str!("definitions.yaml");

/// API version, kind, plural, and the initials of those of `namespaced`, `status`, `scale` that it has.
const KINDS: &[(&str, &str, &str, &str)] = &[
    ("v1", "ConfigMap", "configmaps", "n"),
    ("v1", "Secret", "secrets", "n"),
    ("v1", "Service", "services", "nt"),
    ("v1", "Pod", "pods", "nt"),
    ("v1", "Event", "events", "n"),
    ("v1", "Namespace", "namespaces", "t"),
    ("v1", "ServiceAccount", "serviceaccounts", "n"),
    ("v1", "Endpoints", "endpoints", "n"),
    ("v1", "PersistentVolumeClaim", "persistentvolumeclaims", "nt"),
    ("apps/v1", "Deployment", "deployments", "nts"),
    ("apps/v1", "ReplicaSet", "replicasets", "nts"),
    ("apps/v1", "DaemonSet", "daemonsets", "nt"),
    ("apps/v1", "StatefulSet", "statefulsets", "nts"),
    ("apps/v1", "ControllerRevision", "controllerrevisions", "n"),
    ("autoscaling/v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers", "nt"),
    ("events.k8s.io/v1", "Event", "events", "n"),
    ("rbac.authorization.k8s.io/v1", "Role", "roles", "n"),
    ("rbac.authorization.k8s.io/v1", "RoleBinding", "rolebindings", "n"),
    ("rbac.authorization.k8s.io/v1", "ClusterRole", "clusterroles", ""),
    ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "clusterrolebindings", ""),
    ("coordination.k8s.io/v1", "Lease", "leases", "n"),
    ("discovery.k8s.io/v1", "EndpointSlice", "endpointslices", "n"),
    ("networking.k8s.io/v1", "Ingress", "ingresses", "nt"),
    ("networking.k8s.io/v1", "NetworkPolicy", "networkpolicies", "n"),
    ("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets", "nt"),
    ("apiextensions.k8s.io/v1", "CustomResourceDefinition", "customresourcedefinitions", "t"),
    ("example.com/v1", "Widget", "widgets", "nts"),
    ("example.com/v1", "Planet", "planets", ""),
    ("flagger.app/v1beta1", "Canary", "canaries", "nt"),
    ("flagger.app/v1beta1", "MetricTemplate", "metrictemplates", "nt"),
    ("flagger.app/v1beta1", "AlertProvider", "alertproviders", "nt"),
    ("tkex.tencent.com/v1alpha1", "GameDeployment", "gamedeployments", "nts"),
    ("tkex.tencent.com/v1alpha1", "GameStatefulSet", "gamestatefulsets", "nts"),
    ("tkex.tencent.com/v1alpha1", "HookTemplate", "hooktemplates", "n"),
    ("tkex.tencent.com/v1alpha1", "HookRun", "hookruns", "nt"),
];

/// All samples, in the order of their file.
pub fn samples() -> Vec<Sample> {
    parsed(SAMPLES).into_iter().map(Sample::new).collect()
}

/// The custom resources that the samples are of.
pub(super) fn definitions() -> Vec<Value> {
    parsed(DEFINITIONS)
}

/// All documents of a text.
pub(super) fn parsed(text: &str) -> Vec<Value> {
    serde_saphyr::from_multiple(text).expect("the corpus is YAML")
}

/// `target` changed by a JSON merge patch.
#[must_use]
pub fn merged(target: &Value, patch: &Value) -> Value {
    let Value::Object(patch) = patch else { return patch.clone() };
    let mut members = target.as_object().cloned().unwrap_or_default();
    for (key, value) in patch {
        if value.is_null() {
            members.remove(key);
        } else {
            let old = members.get(key).cloned().unwrap_or_default();
            members.insert(key.clone(), merged(&old, value));
        }
    }
    Value::Object(members)
}

// === impl Kind ===

impl Kind {
    /// The kind of this name. The corpus names no others than it lists.
    pub fn named(api_version: &str, kind: &str) -> Self {
        let row = KINDS.iter().find(|row| (row.0, row.1) == (api_version, kind));
        let &(api_version, kind, plural, flags) =
            row.unwrap_or_else(|| unreachable!("{api_version} {kind} is not among the kinds"));
        Self {
            api_version,
            kind,
            plural,
            is_namespaced: flags.contains('n'),
            has_status: flags.contains('t'),
            has_scale: flags.contains('s'),
        }
    }

    /// The path of its collection, in the story's namespace.
    pub fn path(&self) -> String {
        let root = if self.api_version.contains('/') { "/apis" } else { "/api" };
        let namespace = if self.is_namespaced { "/namespaces/${ns}" } else { "" };
        format!("{root}/{}{namespace}/{}", self.api_version, self.plural)
    }

    pub fn is_custom(&self) -> bool {
        ["example.com", "flagger.app", "tkex.tencent.com"]
            .iter()
            .any(|group| self.api_version.starts_with(group))
    }
}

// === impl Sample ===

impl Sample {
    pub fn new(object: Value) -> Self {
        let text = |key: &str| object[key].as_str().unwrap_or_default();
        Self { kind: Kind::named(text("apiVersion"), text("kind")), object }
    }

    pub fn name(&self) -> &str {
        self.object["metadata"]["name"].as_str().unwrap_or_default()
    }

    /// The path of its collection.
    pub fn collection(&self) -> String {
        self.kind.path()
    }

    /// The path of the object itself.
    pub fn path(&self) -> String {
        format!("{}/{}", self.kind.path(), self.name())
    }

    /// The sample changed by a merge patch.
    pub fn with(&self, patch: &Value) -> Value {
        merged(&self.object, patch)
    }

    /// The name of a story about it.
    pub fn title(&self, about: &str) -> String {
        format!("{about}: {} {}", self.kind.kind, self.name().trim_start_matches("${ns}-"))
    }
}
