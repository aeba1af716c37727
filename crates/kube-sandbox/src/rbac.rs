//! RBAC: authorizes requests by roles and bindings.
//!
//! [`Authorizer::replace`] builds an index by subject from all roles, cluster roles and bindings;
//! [`Authorizer::allowed`] queries it. Nothing is read from the store in between, so the index is
//! as fresh as the last `replace`.
//!
//! ```text
//! (Cluster)RoleBinding --roleRef--> (Cluster)Role --rules--> verbs x groups x resources x names
//!          \--subjects--> users, groups, service accounts
//! ```
//!
//! Implicit groups are not added here, because an access review may name a user without them; the
//! server adds [`groups_of`] during authentication.

mod bootstrap;
mod rules;

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use parking_lot::RwLock;
use serde_json::{Value, json};

pub(crate) use self::{bootstrap::bootstrap_objects, rules::aggregated_rules};

use self::rules::Rule;
use crate::{failure::Failure, request::RequestInfo};

const ALL_POWERFUL: &str = "system:masters";

/// The attributes of a request to authorize. Empty strings mean absent.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Attributes<'a> {
    pub user: &'a str,
    pub groups: &'a [String],
    pub verb: &'a str,
    pub group: &'a str,
    /// The plural; empty for a non-resource request.
    pub resource: &'a str,
    pub subresource: &'a str,
    pub name: &'a str,
    pub namespace: &'a str,
    /// The URL path of a non-resource request.
    pub path: &'a str,
}

/// The decision, and its reason. A refusal often has no reason: no rule allowed it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Decision {
    pub allowed: bool,
    pub reason: String,
}

/// Decides by the roles and bindings given last. Initially it allows only `system:masters`.
#[derive(Debug, Default)]
pub(crate) struct Authorizer {
    index: RwLock<Arc<Index>>,
}

/// Grants by namespace; `""` for cluster-wide ones.
type Index = HashMap<String, Scope>;

#[derive(Debug, Default)]
struct Scope {
    /// Service accounts are included under their user names.
    users: HashMap<String, Vec<Arc<Grant>>>,
    groups: HashMap<String, Vec<Arc<Grant>>>,
}

/// One binding, for one of its subjects.
#[derive(Debug)]
struct Grant {
    /// Bindings are checked in this order, so that reasons are reproducible.
    order: usize,
    /// `ClusterRoleBinding "x" of ClusterRole "y" to User "jane"`
    source: String,
    /// The rules of the role, or an error for a missing role.
    rules: Result<Arc<Vec<Rule>>, String>,
}

/// The groups of a user: those given, and those that come with being that user.
pub(crate) fn groups_of(user: &str, given: &[String]) -> Vec<String> {
    let mut groups = given.to_vec();
    let mut add = |group: String| {
        if !groups.contains(&group) {
            groups.push(group);
        }
    };
    let account = user.strip_prefix("system:serviceaccount:").and_then(|rest| rest.split_once(':'));
    if let Some((namespace, _)) = account {
        add("system:serviceaccounts".to_owned());
        add(format!("system:serviceaccounts:{namespace}"));
    }
    let anonymous = user == "system:anonymous";
    add(format!("system:{}", if anonymous { "unauthenticated" } else { "authenticated" }));
    groups
}

/// The 403 a refused request is answered with.
pub(crate) fn refusal(asked: &Attributes<'_>, decision: &Decision) -> Failure {
    let mut why = denial(asked);
    if !decision.reason.is_empty() {
        why.push_str(": ");
        why.push_str(&decision.reason);
    }
    if asked.resource.is_empty() && asked.group.is_empty() {
        return Failure::new(403, "Forbidden", format!("forbidden: {why}"));
    }
    Failure::forbidden(asked.group, asked.resource, asked.name, &why)
}

fn denial(asked: &Attributes<'_>) -> String {
    let Attributes { user, verb, group, resource, namespace, path, .. } = asked;
    let message = if resource.is_empty() {
        format!("User {user:?} cannot {verb} path {path:?}")
    } else {
        let target = asked.target();
        let scope = if namespace.is_empty() {
            "at the cluster scope".to_owned()
        } else {
            format!("in the namespace {namespace:?}")
        };
        format!("User {user:?} cannot {verb} resource {target:?} in API group {group:?} {scope}")
    };
    // As in Kubernetes, the message cannot be mistaken for HTML.
    message.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

// === impl Attributes ===

impl Attributes<'_> {
    /// `deployments`, or `deployments/status`.
    fn target(&self) -> String {
        match self.subresource {
            "" => self.resource.to_owned(),
            subresource => format!("{}/{subresource}", self.resource),
        }
    }
}

impl<'a> From<&'a RequestInfo> for Attributes<'a> {
    fn from(info: &'a RequestInfo) -> Self {
        Self {
            user: &info.user,
            groups: &info.groups,
            verb: info.verb.as_str(),
            group: &info.group,
            resource: &info.resource,
            subresource: &info.subresource,
            name: &info.name,
            namespace: &info.namespace,
            path: &info.path,
        }
    }
}

// === impl Authorizer ===

impl Authorizer {
    /// An authoriser over these objects.
    pub(crate) fn new<'a>(objects: impl IntoIterator<Item = &'a Value>) -> Self {
        let authorizer = Self::default();
        authorizer.replace(objects);
        authorizer
    }

    /// Forgets everything and knows these roles and bindings instead; other kinds are ignored.
    pub(crate) fn replace<'a>(&self, objects: impl IntoIterator<Item = &'a Value>) {
        let index = Arc::new(build(objects));
        *self.index.write() = index;
    }

    pub(crate) fn allowed(&self, asked: &Attributes<'_>) -> Decision {
        if asked.groups.iter().any(|group| group == ALL_POWERFUL) {
            return Decision { allowed: true, reason: String::new() };
        }
        let target = asked.target();
        let mut complaints = Vec::new();
        for grant in self.grants(asked.user, asked.groups, asked.namespace) {
            match &grant.rules {
                Ok(rules) if rules.iter().any(|rule| rule.allows(asked, &target)) => {
                    let reason = format!("RBAC: allowed by {}", grant.source);
                    return Decision { allowed: true, reason };
                }
                Ok(_) => {}
                Err(complaint) => complaints.push(complaint.clone()),
            }
        }
        let reason = match complaints.as_slice() {
            [] => String::new(),
            [only] => format!("RBAC: {only}"),
            many => format!("RBAC: [{}]", many.join(", ")),
        };
        Decision { allowed: false, reason }
    }

    /// The status of a `SelfSubjectRulesReview`: all rules that hold for a user in a namespace.
    pub(crate) fn rules_for(&self, user: &str, groups: &[String], namespace: &str) -> Value {
        let (mut resource, mut other, mut complaints) = (Vec::new(), Vec::new(), Vec::new());
        for grant in self.grants(user, groups, namespace) {
            match &grant.rules {
                Ok(rules) => {
                    resource.extend(rules.iter().filter_map(Rule::for_resources));
                    other.extend(rules.iter().filter_map(Rule::for_paths));
                }
                Err(complaint) => complaints.push(complaint.clone()),
            }
        }
        let mut status = json!({
            "resourceRules": resource, "nonResourceRules": other,
            "incomplete": !complaints.is_empty(),
        });
        if !complaints.is_empty() {
            status["evaluationError"] = complaints.join(", ").into();
        }
        status
    }

    /// The grants of a user: cluster-wide ones first, each group in the order of names.
    fn grants(&self, user: &str, groups: &[String], namespace: &str) -> Vec<Arc<Grant>> {
        let index = Arc::clone(&self.index.read());
        let mut reaching = Vec::new();
        let scopes = if namespace.is_empty() { &[""][..] } else { &["", namespace][..] };
        for scope in scopes.iter().filter_map(|name| index.get(*name)) {
            // A binding that names both the user and one of its groups is checked once.
            let mut found = BTreeMap::new();
            let by_group = groups.iter().filter_map(|group| scope.groups.get(group));
            for grant in scope.users.get(user).into_iter().chain(by_group).flatten() {
                found.entry(grant.order).or_insert_with(|| Arc::clone(grant));
            }
            reaching.extend(found.into_values());
        }
        reaching
    }
}

fn build<'a>(objects: impl IntoIterator<Item = &'a Value>) -> Index {
    let (mut local_roles, mut cluster_roles, mut bindings) = (Vec::new(), Vec::new(), Vec::new());
    for object in objects {
        match object["kind"].as_str() {
            Some("Role") => local_roles.push(object),
            Some("ClusterRole") => cluster_roles.push(object),
            Some("RoleBinding" | "ClusterRoleBinding") => bindings.push(object),
            _ => {}
        }
    }
    let text = |value: &'a Value| value.as_str().unwrap_or_default();
    let place = |object: &'a Value| {
        let metadata = &object["metadata"];
        (text(&metadata["namespace"]), text(&metadata["name"]))
    };
    let mut known: HashMap<(&str, &str), Arc<Vec<Rule>>> = HashMap::new();
    for role in local_roles {
        known.insert(place(role), Arc::new(Rule::all(&role["rules"])));
    }
    for role in &cluster_roles {
        let gathered = aggregated_rules(&cluster_roles, role);
        let rules = gathered.unwrap_or_else(|| role["rules"].clone());
        known.insert(("", place(role).1), Arc::new(Rule::all(&rules)));
    }
    bindings.sort_by_key(|binding| place(binding));
    let mut index = Index::new();
    for (order, binding) in bindings.into_iter().enumerate() {
        let (namespace, _) = place(binding);
        let (kind, name) = (text(&binding["roleRef"]["kind"]), text(&binding["roleRef"]["name"]));
        let home = if kind == "Role" { namespace } else { "" };
        let rules = known.get(&(home, name)).cloned().ok_or_else(|| {
            let kind = kind.to_lowercase();
            format!("{kind}.rbac.authorization.k8s.io {name:?} not found")
        });
        index.entry(namespace.to_owned()).or_default().bind(order, binding, &rules);
    }
    index
}

// === impl Scope ===

impl Scope {
    fn bind(&mut self, order: usize, binding: &Value, rules: &Result<Arc<Vec<Rule>>, String>) {
        let text = |value: &'_ Value| value.as_str().unwrap_or_default().to_owned();
        let namespace = text(&binding["metadata"]["namespace"]);
        let mut bound = text(&binding["metadata"]["name"]);
        if !namespace.is_empty() {
            bound = format!("{bound}/{namespace}");
        }
        let role = &binding["roleRef"];
        for subject in binding["subjects"].as_array().into_iter().flatten() {
            let (kind, name) = (text(&subject["kind"]), text(&subject["name"]));
            let (holders, key, shown) = match kind.as_str() {
                "User" => (&mut self.users, name.clone(), name),
                "Group" => (&mut self.groups, name.clone(), name),
                "ServiceAccount" => {
                    let given = text(&subject["namespace"]);
                    let home = if given.is_empty() { &namespace } else { &given };
                    if home.is_empty() {
                        continue;
                    }
                    let key = format!("system:serviceaccount:{home}:{name}");
                    (&mut self.users, key, format!("{name}/{home}"))
                }
                _ => continue,
            };
            let source = format!(
                "{} {bound:?} of {} {:?} to {kind} {shown:?}",
                text(&binding["kind"]),
                text(&role["kind"]),
                text(&role["name"]),
            );
            let grant = Grant { order, source, rules: rules.clone() };
            holders.entry(key).or_default().push(Arc::new(grant));
        }
    }
}

#[cfg(test)]
mod tests;
