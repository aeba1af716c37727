//! The manifests of the operator: its account, its permissions, its Deployment.
//!
//! Permissions are those that are used, and a test that runs rollouts under them holds both ways:
//! nothing is denied, nothing is granted in vain, but for the permissions that an admission plugin asks for. The pod
//! meets the *restricted* Pod Security Standard.
//!
//! | object                            | for                                                     |
//! |-----------------------------------|---------------------------------------------------------|
//! | Namespace, ServiceAccount         | a home and a name                                       |
//! | ClusterRole, ClusterRoleBinding   | canaries and their objects, in every namespace          |
//! | the same, `tidegate-game`         | game workloads, their pods and hooks                    |
//! | Role, RoleBinding                 | the lease, in the operator's own namespace              |
//! | ClusterRole `tidegate-nodes`      | nodes, where all other roles are Roles of one namespace |
//! | Deployment, PodDisruptionBudget   | two replicas of which one acts                          |
//! | Service, NetworkPolicy            | `/metrics`, for every namespace or for those named      |

use serde_json::{Value, json};
use tidegate_providers::{
    game::{
        CONTROLLER_REVISION, GAME_DEPLOYMENT, GAME_STATEFUL_SET, HOOK_RUN, HOOK_TEMPLATE, NODE,
        POD, VOLUME_CLAIM,
    },
    object::Kind,
    traffic::{KNATIVE_SERVICE, Mesh},
    workload::{
        CONFIG_MAP, DAEMON_SET, DEPLOYMENT, HORIZONTAL_POD_AUTOSCALER, SCALED_OBJECT, SECRET,
        SERVICE,
    },
};

use crate::{
    cluster::{ALERT_PROVIDER, CANARY, ENDPOINT_SLICE, EVENT, METRIC_TEMPLATE},
    lease::LEASE_NAME,
};

/// The settings that differ between installations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Install {
    pub namespace: String,
    /// Prints the Namespace also if it is not [`NAMESPACE`].
    pub create_namespace: bool,
    pub image: String,
    /// Arguments of `tidegate operator`, besides those for electing a leader.
    pub arguments: Vec<String>,
    pub scope: Scope,
}

/// The extent of an installation. Roles grant no more, and flags tell the operator so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scope {
    /// Game workloads are rolled out too.
    pub game: bool,
    /// Changes of configuration are rolled out too.
    pub config_tracking: bool,
    /// Only the operator's own namespace is watched.
    pub namespaced: bool,
}

/// One line of a role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    pub group: &'static str,
    /// With the subresource, as in `canaries/status`.
    pub resource: String,
    pub verbs: &'static [&'static str],
}

/// The default namespace. The load tester's `NetworkPolicy` lets pods of this namespace in.
pub const NAMESPACE: &str = "tidegate-system";
/// The name of all our objects.
pub const NAME: &str = "tidegate";
/// The name of the role for game workloads.
const GAME_NAME: &str = "tidegate-game";
/// The name of the role for nodes, which are in no namespace.
const NODES_NAME: &str = "tidegate-nodes";

const READ: &[&str] = &["list", "watch"];
const READ_AND_CHANGE: &[&str] = &["get", "list", "patch", "watch"];
/// For objects that are created for a canary, and deleted with it because the canary owns them. Server-side apply asks
/// for `create` where nothing is there yet.
const KEEP: &[&str] = &["create", "get", "list", "patch", "watch"];
/// For objects that must also be recreated, as a Service that turns headless, or are deleted when the canary needs
/// them no longer: copies of configuration, Services and routes of a former name.
const REPLACE: &[&str] = &["create", "delete", "get", "list", "patch", "watch"];
/// For Secrets that are known by name: the promoted template is kept in one, others have logins.
const BY_NAME: &[&str] = &["create", "get", "patch"];
/// Where the secret for hooks is in the pod.
const HOOK_SECRET: &str = "hook-secret";
const HOOK_SECRET_DIR: &str = "/etc/tidegate/hooks";
/// The user and group of the pod; they own nothing.
const NOBODY: u32 = 65_532;

/// Environment variables of the operator about alerts.
pub const ALERT_KEYS: [&str; 6] = [
    "SLACK_URL",
    "SLACK_TOKEN",
    "SLACK_PROXY_URL",
    "MSTEAMS_URL",
    "MSTEAMS_PROXY_URL",
    "EVENT_WEBHOOK_URL",
];

/// Permissions in every namespace, or in one.
pub fn rules(scope: Scope) -> Vec<Rule> {
    let rule =
        |kind: Kind, verbs| Rule { group: kind.group, resource: kind.plural.to_owned(), verbs };
    let mut rules = vec![
        rule(CANARY, READ_AND_CHANGE),
        Rule {
            group: CANARY.group,
            resource: format!("{}/status", CANARY.plural),
            verbs: &["patch"],
        },
        finalizers(CANARY),
        rule(METRIC_TEMPLATE, READ),
        rule(ALERT_PROVIDER, READ),
        rule(DEPLOYMENT, KEEP),
        rule(DAEMON_SET, KEEP),
        rule(SERVICE, REPLACE),
        rule(HORIZONTAL_POD_AUTOSCALER, KEEP),
        rule(SCALED_OBJECT, KEEP),
        rule(SECRET, if scope.config_tracking { REPLACE } else { BY_NAME }),
        rule(EVENT, &["create"]),
        rule(ENDPOINT_SLICE, &["list"]),
        // For the cause of which pods do not become ready; without it only their number is known.
        rule(POD, &["list"]),
    ];
    if scope.config_tracking {
        rules.push(rule(CONFIG_MAP, REPLACE));
    }
    if !scope.namespaced {
        rules.extend(node_rules());
    }
    // A Role cannot grant kinds of the whole cluster, as Kuma has.
    let is_grantable =
        |mesh: &&Mesh| !scope.namespaced || mesh.kinds().iter().all(Kind::is_namespaced);
    for kind in Mesh::ALL.iter().filter(is_grantable).flat_map(|mesh| mesh.kinds()) {
        // A Service of Knative is the target itself: never made, never deleted.
        let verbs = if *kind == KNATIVE_SERVICE { READ_AND_CHANGE } else { REPLACE };
        let rule = rule(*kind, verbs);
        // Two versions of a kind are one resource.
        if !rules.contains(&rule) {
            rules.push(rule);
        }
    }
    rules
}

/// Permissions for nodes, which are in no namespace.
pub fn node_rules() -> Vec<Rule> {
    vec![Rule { group: NODE.group, resource: NODE.plural.to_owned(), verbs: READ }]
}

/// Permissions for game workloads, in every namespace or in one. A role of its own: clusters without them can leave it out.
pub fn game_rules() -> Vec<Rule> {
    let rule =
        |kind: Kind, verbs| Rule { group: kind.group, resource: kind.plural.to_owned(), verbs };
    let status = |kind: Kind| Rule {
        group: kind.group,
        resource: format!("{}/status", kind.plural),
        verbs: &["patch"],
    };
    vec![
        rule(GAME_DEPLOYMENT, READ_AND_CHANGE),
        status(GAME_DEPLOYMENT),
        finalizers(GAME_DEPLOYMENT),
        rule(GAME_STATEFUL_SET, READ_AND_CHANGE),
        status(GAME_STATEFUL_SET),
        finalizers(GAME_STATEFUL_SET),
        rule(HOOK_TEMPLATE, READ),
        rule(HOOK_RUN, REPLACE),
        status(HOOK_RUN),
        rule(POD, REPLACE),
        status(POD),
        rule(CONTROLLER_REVISION, REPLACE),
        rule(VOLUME_CLAIM, &["create", "get"]),
    ]
}

/// For the owners of created objects. No request uses it: the admission plugin `OwnerReferencesPermissionEnforcement`,
/// which some clusters turn on, asks for it where a reference has `blockOwnerDeletion`.
fn finalizers(kind: Kind) -> Rule {
    Rule { group: kind.group, resource: format!("{}/finalizers", kind.plural), verbs: &["update"] }
}

/// Permissions in its own namespace: hold the lease. `create` cannot be limited to a name.
pub fn own_rules() -> Vec<Value> {
    vec![
        json!({ "apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create"] }),
        json!({
            "apiGroups": ["coordination.k8s.io"], "resources": ["leases"],
            "resourceNames": [LEASE_NAME], "verbs": ["get", "update"],
        }),
    ]
}

/// The rules of a role, as manifests have them.
fn as_written(rules: Vec<Rule>) -> Vec<Value> {
    let written = rules.into_iter().map(
        |it| json!({ "apiGroups": [it.group], "resources": [it.resource], "verbs": it.verbs }),
    );
    written.collect()
}

/// The same with a Secret of the operator's namespace: calls of hooks are signed with its key `secret`.
#[must_use]
pub fn with_hook_secret(mut manifests: Vec<Value>, secret: &str) -> Vec<Value> {
    for deployment in manifests.iter_mut().filter(|it| it["kind"] == "Deployment") {
        let pod = &mut deployment["spec"]["template"]["spec"];
        // Readable for the group of the pod only.
        let source = json!({ "secretName": secret, "defaultMode": 0o440 });
        pod["securityContext"]["fsGroup"] = json!(NOBODY);
        pod["volumes"] = json!([{ "name": HOOK_SECRET, "secret": source }]);
        let container = &mut pod["containers"][0];
        container["volumeMounts"] =
            json!([{ "name": HOOK_SECRET, "mountPath": HOOK_SECRET_DIR, "readOnly": true }]);
        if let Some(arguments) = container["args"].as_array_mut() {
            arguments.push(json!(format!("--hook-secret-file={HOOK_SECRET_DIR}/secret")));
        }
    }
    manifests
}

/// The same with a Secret of the operator's namespace that says where alerts of all canaries go, and with which
/// token: any of [`ALERT_KEYS`]. None of it is then readable in the Deployment.
#[must_use]
pub fn with_alert_secret(mut manifests: Vec<Value>, secret: &str) -> Vec<Value> {
    for object in manifests.iter_mut().filter(|object| object["kind"] == "Deployment") {
        let from = |key: &str| {
            let source = json!({ "name": secret, "key": key, "optional": true });
            json!({ "name": key, "valueFrom": { "secretKeyRef": source } })
        };
        let container = &mut object["spec"]["template"]["spec"]["containers"][0];
        container["env"] = ALERT_KEYS.map(from).into_iter().collect();
    }
    manifests
}

/// The same with metrics for pods of these namespaces only.
#[must_use]
pub fn with_metrics_from(mut manifests: Vec<Value>, namespaces: &[String]) -> Vec<Value> {
    for policy in manifests.iter_mut().filter(|object| object["kind"] == "NetworkPolicy") {
        let from = |name: &String| {
            let labels = json!({ "kubernetes.io/metadata.name": name });
            json!({ "namespaceSelector": { "matchLabels": labels } })
        };
        policy["spec"]["ingress"][0]["from"] = namespaces.iter().map(from).collect();
    }
    manifests
}

// === impl Install ===

impl Install {
    /// Everything but the custom resource definitions, in an order in which it can be applied.
    pub fn manifests(&self) -> Vec<Value> {
        let mut objects: Vec<Value> = self.namespace().into_iter().collect();
        objects.push(self.object("v1", "ServiceAccount", json!({})));
        objects.extend(self.roles());
        objects.extend([self.deployment(), self.disruption_budget(), self.service()]);
        objects.push(self.network_policy());
        objects
    }

    /// Roles and their bindings.
    fn roles(&self) -> Vec<Value> {
        let is_namespaced = self.scope.namespaced;
        let kind = if is_namespaced { "Role" } else { "ClusterRole" };
        let mut canaries = as_written(rules(self.scope));
        let mut objects = Vec::new();
        if is_namespaced {
            canaries.extend(own_rules());
            // Installations in several namespaces share the role, and have bindings of their own.
            let binding = format!("{NODES_NAME}-{}", self.namespace);
            let nodes = as_written(node_rules());
            objects.extend(self.role("ClusterRole", NODES_NAME, &binding, &nodes));
        } else {
            objects.extend(self.role("Role", NAME, NAME, &own_rules()));
        }
        objects.extend(self.role(kind, NAME, NAME, &canaries));
        if self.scope.game {
            objects.extend(self.role(kind, GAME_NAME, GAME_NAME, &as_written(game_rules())));
        }
        objects
    }

    /// The Namespace. Only our own has labels: another one may exist, with pods that they would lock out.
    fn namespace(&self) -> Option<Value> {
        let is_own = self.namespace == NAMESPACE;
        let mut namespace = json!({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": { "name": self.namespace },
        });
        if is_own {
            namespace["metadata"]["labels"] = json!({
                "app.kubernetes.io/name": NAME,
                "pod-security.kubernetes.io/enforce": "restricted",
            });
        }
        (is_own || self.create_namespace).then_some(namespace)
    }

    /// A role of this kind, and what binds it to the operator's account.
    fn role(&self, kind: &str, name: &str, binding: &str, rules: &[Value]) -> [Value; 2] {
        let role = named(self.object(RBAC, kind, json!({ "rules": rules })), name);
        let body = json!({
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name },
            "subjects": [
                { "kind": "ServiceAccount", "name": NAME, "namespace": self.namespace },
            ],
        });
        [role, named(self.object(RBAC, &format!("{kind}Binding"), body), binding)]
    }

    fn deployment(&self) -> Value {
        let mut arguments = vec![
            "operator".to_owned(),
            "--enable-leader-election".to_owned(),
            format!("--leader-election-namespace={}", self.namespace),
            "--log-level=info".to_owned(),
            // Flagger's default is off. A canary must not use the templates, chats and Secrets of others;
            // `--no-cross-namespace-refs=false` allows it, and the last flag counts.
            "--no-cross-namespace-refs".to_owned(),
            // The same: a template must not send any Secret of its namespace anywhere.
            "--require-metric-secret-label".to_owned(),
        ];
        arguments.extend(self.arguments.iter().cloned());
        // The last ones: without these the operator would ask for what its roles deny.
        arguments.extend(self.scope.flags(&self.namespace));
        let probe = |path: &str| json!({ "httpGet": { "path": path, "port": "http" } });
        let container = json!({
            "name": NAME,
            "image": self.image,
            "args": arguments,
            "ports": [{ "name": "http", "containerPort": 8080 }],
            "livenessProbe": probe("/healthz"),
            "readinessProbe": probe("/healthz"),
            "resources": {
                "requests": { "cpu": "10m", "memory": "32Mi" }, "limits": { "memory": "512Mi" },
            },
            "securityContext": {
                "allowPrivilegeEscalation": false,
                "capabilities": { "drop": ["ALL"] },
                "readOnlyRootFilesystem": true,
            },
        });
        let spec = json!({
            "replicas": 2,
            "selector": { "matchLabels": { "app.kubernetes.io/name": NAME } },
            "template": {
                "metadata": {
                    "labels": { "app.kubernetes.io/name": NAME },
                    "annotations": { "prometheus.io/scrape": "true", "prometheus.io/port": "8080" },
                },
                "spec": {
                    "serviceAccountName": NAME,
                    "securityContext": {
                        "runAsNonRoot": true, "runAsUser": NOBODY, "runAsGroup": NOBODY,
                        "seccompProfile": { "type": "RuntimeDefault" },
                    },
                    "containers": [container],
                },
            },
        });
        self.object("apps/v1", "Deployment", json!({ "spec": spec }))
    }

    fn disruption_budget(&self) -> Value {
        let spec = json!({
            "minAvailable": 1,
            "selector": { "matchLabels": { "app.kubernetes.io/name": NAME } },
        });
        self.object("policy/v1", "PodDisruptionBudget", json!({ "spec": spec }))
    }

    fn service(&self) -> Value {
        let spec = json!({
            "selector": { "app.kubernetes.io/name": NAME },
            "ports": [{ "name": "http", "port": 8080, "targetPort": "http" }],
        });
        self.object("v1", "Service", json!({ "spec": spec }))
    }

    /// Only the port of metrics and probes. Probes of the kubelet come from the pod's node, which policies let in.
    fn network_policy(&self) -> Value {
        let spec = json!({
            "podSelector": { "matchLabels": { "app.kubernetes.io/name": NAME } },
            "policyTypes": ["Ingress"],
            "ingress": [{ "ports": [{ "protocol": "TCP", "port": "http" }] }],
        });
        self.object("networking.k8s.io/v1", "NetworkPolicy", json!({ "spec": spec }))
    }

    fn object(&self, version: &str, kind: &str, mut body: Value) -> Value {
        body["apiVersion"] = json!(version);
        body["kind"] = json!(kind);
        body["metadata"] = json!({ "name": NAME, "labels": { "app.kubernetes.io/name": NAME } });
        if !kind.starts_with("Cluster") {
            body["metadata"]["namespace"] = json!(self.namespace);
        }
        body
    }
}

// === impl Scope ===

impl Scope {
    fn flags(self, namespace: &str) -> Vec<String> {
        let game = (!self.game).then(|| "--enable-game-workloads=false".to_owned());
        let tracking = (!self.config_tracking).then(|| "--enable-config-tracking=false".to_owned());
        let namespace = self.namespaced.then(|| format!("--namespace={namespace}"));
        [game, tracking, namespace].into_iter().flatten().collect()
    }
}

impl Default for Scope {
    /// Everything, everywhere.
    fn default() -> Self {
        Self { game: true, config_tracking: true, namespaced: false }
    }
}

fn named(mut object: Value, name: &str) -> Value {
    object["metadata"]["name"] = json!(name);
    object
}

const RBAC: &str = "rbac.authorization.k8s.io/v1";
