//! The default roles of a cluster, as far as users and operators need them.
//!
//! A sandbox creates them at start; [`bootstrap_objects`] is the only entry point.

use serde_json::{Value, json};

use super::aggregated_rules;

const READ: &[&str] = &["get", "list", "watch"];
const CHANGE: &[&str] = &["create", "delete", "deletecollection", "patch", "update"];
const ALL: &[&str] =
    &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];

/// Groups, resources and verbs of a rule.
type Granted = (&'static [&'static str], &'static [&'static str], &'static [&'static str]);

const VIEW: &[Granted] = &[
    (
        &[""],
        &[
            "configmaps",
            "endpoints",
            "persistentvolumeclaims",
            "persistentvolumeclaims/status",
            "pods",
            "replicationcontrollers",
            "replicationcontrollers/scale",
            "serviceaccounts",
            "services",
            "services/status",
        ],
        READ,
    ),
    (
        &[""],
        &[
            "bindings",
            "limitranges",
            "namespaces/status",
            "pods/log",
            "pods/status",
            "replicationcontrollers/status",
            "resourcequotas",
            "resourcequotas/status",
        ],
        READ,
    ),
    (&[""], &["namespaces"], READ),
    (&["", "events.k8s.io"], &["events"], READ),
    (&["discovery.k8s.io"], &["endpointslices"], READ),
    (
        &["apps"],
        &[
            "controllerrevisions",
            "daemonsets",
            "daemonsets/status",
            "deployments",
            "deployments/scale",
            "deployments/status",
            "replicasets",
            "replicasets/scale",
            "replicasets/status",
            "statefulsets",
            "statefulsets/scale",
            "statefulsets/status",
        ],
        READ,
    ),
    (&["autoscaling"], &["horizontalpodautoscalers", "horizontalpodautoscalers/status"], READ),
    (&["batch"], &["cronjobs", "cronjobs/status", "jobs", "jobs/status"], READ),
    (&["policy"], &["poddisruptionbudgets", "poddisruptionbudgets/status"], READ),
    (&["networking.k8s.io"], &["ingresses", "ingresses/status", "networkpolicies"], READ),
];

const PODS_IN_USE: &[&str] =
    &["pods", "pods/attach", "pods/exec", "pods/portforward", "pods/proxy"];

const EDIT: &[Granted] = &[
    (
        &[""],
        &[
            "pods/attach",
            "pods/exec",
            "pods/portforward",
            "pods/proxy",
            "secrets",
            "services/proxy",
        ],
        READ,
    ),
    (&[""], &["serviceaccounts"], &["impersonate"]),
    (&[""], PODS_IN_USE, CHANGE),
    (&[""], &["pods/eviction"], &["create"]),
    (
        &[""],
        &[
            "configmaps",
            "persistentvolumeclaims",
            "replicationcontrollers",
            "replicationcontrollers/scale",
            "secrets",
            "serviceaccounts",
            "services",
            "services/proxy",
        ],
        CHANGE,
    ),
    (&[""], &["serviceaccounts/token"], &["create"]),
    (&["", "events.k8s.io"], &["events"], CHANGE),
    (
        &["apps"],
        &[
            "daemonsets",
            "deployments",
            "deployments/rollback",
            "deployments/scale",
            "replicasets",
            "replicasets/scale",
            "statefulsets",
            "statefulsets/scale",
        ],
        CHANGE,
    ),
    (&["autoscaling"], &["horizontalpodautoscalers"], CHANGE),
    (&["batch"], &["cronjobs", "jobs"], CHANGE),
    (&["policy"], &["poddisruptionbudgets"], CHANGE),
    (&["networking.k8s.io"], &["ingresses", "networkpolicies"], CHANGE),
    (&["coordination.k8s.io"], &["leases"], ALL),
];

const ADMIN: &[Granted] = &[
    (&["authorization.k8s.io"], &["localsubjectaccessreviews"], &["create"]),
    (&["rbac.authorization.k8s.io"], &["rolebindings", "roles"], ALL),
];

const BASIC_USER: &[Granted] = &[
    (
        &["authorization.k8s.io"],
        &["selfsubjectaccessreviews", "selfsubjectrulesreviews"],
        &["create"],
    ),
    (&["authentication.k8s.io"], &["selfsubjectreviews"], &["create"]),
];

const PUBLIC: &[&str] = &["/healthz", "/livez", "/readyz", "/version", "/version/"];
const DISCOVERY: &[&str] = &[
    "/api",
    "/api/*",
    "/apis",
    "/apis/*",
    "/healthz",
    "/livez",
    "/openapi",
    "/openapi/*",
    "/readyz",
    "/version",
    "/version/",
];

/// Cluster roles and cluster role bindings of a fresh cluster, without server-set metadata.
///
/// Roles made of others carry the gathered rules, as if the controller that does so had run.
pub(crate) fn bootstrap_objects() -> Vec<Value> {
    let everything = json!([
        { "apiGroups": ["*"], "resources": ["*"], "verbs": ["*"] },
        { "nonResourceURLs": ["*"], "verbs": ["*"] },
    ]);
    let mut roles = vec![
        role("cluster-admin", &[], &everything),
        role("system:aggregate-to-admin", &["admin"], &rules(ADMIN)),
        role("system:aggregate-to-edit", &["edit"], &rules(EDIT)),
        role("system:aggregate-to-view", &["view"], &rules(VIEW)),
        role("system:basic-user", &[], &rules(BASIC_USER)),
        role("system:discovery", &[], &paths(DISCOVERY)),
        role("system:public-info-viewer", &[], &paths(PUBLIC)),
        gathered("view", &["edit"]),
        gathered("edit", &["admin"]),
        gathered("admin", &[]),
    ];
    let sources = roles.clone();
    let sources: Vec<_> = sources.iter().collect();
    for role in &mut roles {
        if let Some(rules) = aggregated_rules(&sources, role) {
            role["rules"] = rules;
        }
    }
    let (known, unknown) = ("system:authenticated", "system:unauthenticated");
    roles.extend([
        binding("cluster-admin", &["system:masters"]),
        binding("system:basic-user", &[known]),
        binding("system:discovery", &[known]),
        binding("system:public-info-viewer", &[known, unknown]),
    ]);
    roles
}

fn rules(granted: &[Granted]) -> Value {
    let rule = |(groups, resources, verbs): &Granted| json!({ "apiGroups": groups, "resources": resources, "verbs": verbs });
    granted.iter().map(rule).collect()
}

fn paths(urls: &[&str]) -> Value {
    json!([{ "nonResourceURLs": urls, "verbs": ["get"] }])
}

fn metadata(name: &str) -> Value {
    json!({
        "name": name,
        "annotations": { "rbac.authorization.kubernetes.io/autoupdate": "true" },
        "labels": { "kubernetes.io/bootstrapping": "rbac-defaults" },
    })
}

/// A cluster role that is aggregated into the roles named in `parts_of`.
fn role(name: &str, parts_of: &[&str], rules: &Value) -> Value {
    let mut metadata = metadata(name);
    for whole in parts_of {
        metadata["labels"][aggregation_label(whole)] = "true".into();
    }
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": metadata, "rules": rules,
    })
}

/// A cluster role that aggregates the roles with its label.
fn gathered(name: &str, parts_of: &[&str]) -> Value {
    let mut role = role(name, parts_of, &Value::Null);
    let selector = json!({ "matchLabels": { (aggregation_label(name)): "true" } });
    role["aggregationRule"] = json!({ "clusterRoleSelectors": [selector] });
    role
}

fn aggregation_label(role: &str) -> String {
    format!("rbac.authorization.k8s.io/aggregate-to-{role}")
}

/// Binds the cluster role of the same name to groups.
fn binding(name: &str, groups: &[&str]) -> Value {
    let api_group = "rbac.authorization.k8s.io";
    let subject = |group: &&str| json!({ "apiGroup": api_group, "kind": "Group", "name": group });
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": metadata(name),
        "roleRef": { "apiGroup": api_group, "kind": "ClusterRole", "name": name },
        "subjects": groups.iter().map(subject).collect::<Vec<_>>(),
    })
}
