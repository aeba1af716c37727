//! The table of built-in resources.

use super::{Backing, ResourceDef};
use crate::store::TableKey;

/// Group-version, kind, plural, short names, category `all`, namespaced, subresources.
type Row = (&'static str, &'static str, &'static str, &'static str, bool, bool, &'static str);

const STORED: &[Row] = &[
    ("v1", "ConfigMap", "configmaps", "cm", false, true, ""),
    ("v1", "Endpoints", "endpoints", "ep", false, true, ""),
    ("v1", "Event", "events", "ev", false, true, ""),
    ("v1", "Namespace", "namespaces", "ns", false, false, "status finalize"),
    ("v1", "Node", "nodes", "no", false, false, "status"),
    ("v1", "PersistentVolumeClaim", "persistentvolumeclaims", "pvc", false, true, "status"),
    ("v1", "Pod", "pods", "po", true, true, "binding eviction log status"),
    ("v1", "Secret", "secrets", "", false, true, ""),
    ("v1", "ServiceAccount", "serviceaccounts", "sa", false, true, "token"),
    ("v1", "Service", "services", "svc", true, true, "status"),
    ("apps/v1", "ControllerRevision", "controllerrevisions", "", false, true, ""),
    ("apps/v1", "DaemonSet", "daemonsets", "ds", true, true, "status"),
    ("apps/v1", "Deployment", "deployments", "deploy", true, true, "scale status"),
    ("apps/v1", "ReplicaSet", "replicasets", "rs", true, true, "scale status"),
    ("apps/v1", "StatefulSet", "statefulsets", "sts", true, true, "scale status"),
    ("events.k8s.io/v1", "Event", "events", "ev", false, true, ""),
    ("autoscaling/v2", "HorizontalPodAutoscaler", HPA, "hpa", true, true, "status"),
    ("autoscaling/v1", "HorizontalPodAutoscaler", HPA, "hpa", true, true, "status"),
    ("networking.k8s.io/v1", "IngressClass", "ingressclasses", "", false, false, ""),
    ("networking.k8s.io/v1", "Ingress", "ingresses", "ing", false, true, "status"),
    ("networking.k8s.io/v1", "NetworkPolicy", "networkpolicies", "netpol", false, true, ""),
    ("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets", "pdb", false, true, "status"),
    (RBAC, "ClusterRoleBinding", "clusterrolebindings", "", false, false, ""),
    (RBAC, "ClusterRole", "clusterroles", "", false, false, ""),
    (RBAC, "RoleBinding", "rolebindings", "", false, true, ""),
    (RBAC, "Role", "roles", "", false, true, ""),
    (
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
        CRDS,
        "crd crds",
        false,
        false,
        "status",
    ),
    ("coordination.k8s.io/v1", "Lease", "leases", "", false, true, ""),
    ("discovery.k8s.io/v1", "EndpointSlice", "endpointslices", "", false, true, ""),
];

const HPA: &str = "horizontalpodautoscalers";
const CRDS: &str = "customresourcedefinitions";
const RBAC: &str = "rbac.authorization.k8s.io/v1";

/// Reviews, which are never stored: group-version, kind, plural, namespaced.
const REVIEWS: &[(&str, &str, &str, bool)] = &[
    ("v1", "Binding", "bindings", true),
    ("authentication.k8s.io/v1", "SelfSubjectReview", "selfsubjectreviews", false),
    ("authentication.k8s.io/v1", "TokenReview", "tokenreviews", false),
    ("authorization.k8s.io/v1", "LocalSubjectAccessReview", "localsubjectaccessreviews", true),
    ("authorization.k8s.io/v1", "SelfSubjectAccessReview", "selfsubjectaccessreviews", false),
    ("authorization.k8s.io/v1", "SelfSubjectRulesReview", "selfsubjectrulesreviews", false),
    ("authorization.k8s.io/v1", "SubjectAccessReview", "subjectaccessreviews", false),
];

/// All built-in resources, ordered by plural within each group-version.
pub(super) fn resources() -> Vec<ResourceDef> {
    let stored = STORED.iter().map(|&(gv, kind, plural, short, all, namespaced, subresources)| {
        let mut def = plain(gv, kind, plural, namespaced);
        def.short_names = short.split_whitespace().map(str::to_owned).collect();
        def.categories = match (all, kind) {
            (true, _) => vec!["all".to_owned()],
            (false, "CustomResourceDefinition") => vec!["api-extensions".to_owned()],
            (false, _) => Vec::new(),
        };
        def.subresources = subresources.split_whitespace().map(str::to_owned).collect();
        def
    });
    let reviews = REVIEWS.iter().map(|&(gv, kind, plural, namespaced)| {
        let mut def = plain(gv, kind, plural, namespaced);
        def.backing = Backing::Review;
        def
    });
    let mut all: Vec<_> = stored.chain(reviews).collect();
    // Stable: groups keep their order, resources are sorted inside them.
    let order: Vec<String> = all.iter().map(ResourceDef::api_version).collect();
    let place = |def: &ResourceDef| order.iter().position(|gv| *gv == def.api_version());
    all.sort_by(|a, b| (place(a), &a.plural).cmp(&(place(b), &b.plural)));
    all
}

fn plain(gv: &str, kind: &str, plural: &str, namespaced: bool) -> ResourceDef {
    let (group, version) = gv.split_once('/').unwrap_or(("", gv));
    // Both kinds of Event are one object, stored in the form of the core group.
    let home = if plural == "events" { "" } else { group };
    ResourceDef {
        group: group.to_owned(),
        version: version.to_owned(),
        kind: kind.to_owned(),
        list_kind: format!("{kind}List"),
        plural: plural.to_owned(),
        singular: kind.to_lowercase(),
        short_names: Vec::new(),
        categories: Vec::new(),
        namespaced,
        subresources: Vec::new(),
        table: TableKey::new(home, plural),
        defaults_on_read: false,
        backing: Backing::Builtin,
    }
}
