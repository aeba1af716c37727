//! RBAC rules, and aggregation of cluster roles.
//!
//! [`super::Authorizer`] evaluates the rules of its roles, and resolves aggregation when its
//! objects are replaced.

use serde_json::{Value, json};

use super::Attributes;

/// One `PolicyRule`.
#[derive(Debug)]
pub(super) struct Rule {
    verbs: Vec<String>,
    groups: Vec<String>,
    resources: Vec<String>,
    names: Vec<String>,
    urls: Vec<String>,
}

/// The rules of an aggregated cluster role: those of its parts in the order of names, without
/// duplicates. `None` if `role` has rules of its own.
///
/// Chains are followed (`admin` is made of `edit`, `edit` of `view`), rings are not: a role takes no
/// part in itself.
pub(crate) fn aggregated_rules(cluster_roles: &[&Value], role: &Value) -> Option<Value> {
    let mut above = Vec::new();
    gather(cluster_roles, role, &mut above).map(Value::Array)
}

fn gather<'a>(
    cluster_roles: &[&'a Value],
    role: &'a Value,
    above: &mut Vec<&'a Value>,
) -> Option<Vec<Value>> {
    let selectors = role["aggregationRule"]["clusterRoleSelectors"].as_array()?;
    let mut rules: Vec<Value> = Vec::new();
    above.push(&role["metadata"]["name"]);
    for selector in selectors {
        let mut chosen: Vec<_> = cluster_roles
            .iter()
            .copied()
            .filter(|other| selects(selector, &other["metadata"]["labels"]))
            .filter(|other| !above.contains(&&other["metadata"]["name"]))
            .collect();
        chosen.sort_by_key(|other| other["metadata"]["name"].as_str());
        for other in chosen {
            let part = gather(cluster_roles, other, above)
                .or_else(|| other["rules"].as_array().cloned())
                .unwrap_or_default();
            for rule in part {
                if !rules.contains(&rule) {
                    rules.push(rule);
                }
            }
        }
    }
    above.pop();
    Some(rules)
}

fn selects(selector: &Value, labels: &Value) -> bool {
    let text = |value: &'_ Value| value.as_str().unwrap_or_default().to_owned();
    let mut equal = selector["matchLabels"].as_object().into_iter().flatten();
    let mut expressions = selector["matchExpressions"].as_array().into_iter().flatten();
    equal.all(|(key, value)| labels[key] == *value)
        && expressions.all(|expression| {
            let held = &labels[text(&expression["key"])];
            let listed = expression["values"].as_array().is_some_and(|some| some.contains(held));
            match expression["operator"].as_str() {
                Some("In") => listed,
                Some("NotIn") => !listed,
                Some("Exists") => !held.is_null(),
                Some("DoesNotExist") => held.is_null(),
                _ => false,
            }
        })
}

// === impl Rule ===

impl Rule {
    pub(super) fn all(rules: &Value) -> Vec<Self> {
        rules.as_array().into_iter().flatten().map(Self::read).collect()
    }

    fn read(rule: &Value) -> Self {
        let texts = |key: &str| {
            let values = rule[key].as_array().into_iter().flatten();
            values.filter_map(|value| value.as_str().map(ToOwned::to_owned)).collect()
        };
        Self {
            verbs: texts("verbs"),
            groups: texts("apiGroups"),
            resources: texts("resources"),
            names: texts("resourceNames"),
            urls: texts("nonResourceURLs"),
        }
    }

    /// `target` is the resource with its subresource, if any.
    pub(super) fn allows(&self, asked: &Attributes<'_>, target: &str) -> bool {
        if !has(&self.verbs, asked.verb) {
            return false;
        }
        if asked.resource.is_empty() {
            return self.urls.iter().any(|url| covers_path(url, asked.path));
        }
        has(&self.groups, asked.group)
            && self.resources.iter().any(|covered| covers(covered, target, asked.subresource))
            && (self.names.is_empty() || self.names.iter().any(|name| name == asked.name))
    }

    /// The resource part of this rule in a rules review.
    pub(super) fn for_resources(&self) -> Option<Value> {
        if self.resources.is_empty() {
            return None;
        }
        let mut rule = json!({
            "verbs": self.verbs, "apiGroups": self.groups, "resources": self.resources,
        });
        if !self.names.is_empty() {
            rule["resourceNames"] = json!(self.names);
        }
        Some(rule)
    }

    /// The path part of this rule in a rules review.
    pub(super) fn for_paths(&self) -> Option<Value> {
        let rule = || json!({ "verbs": self.verbs, "nonResourceURLs": self.urls });
        (!self.urls.is_empty()).then(rule)
    }
}

fn has(allowed: &[String], asked: &str) -> bool {
    allowed.iter().any(|one| one == "*" || one == asked)
}

/// `*` covers everything, `*/scale` every `scale` subresource, anything else itself. `pods` alone
/// does not cover `pods/log`.
fn covers(covered: &str, target: &str, subresource: &str) -> bool {
    let everywhere = covered.strip_prefix("*/");
    covered == "*"
        || covered == target
        || everywhere.is_some_and(|covered| !covered.is_empty() && covered == subresource)
}

fn covers_path(url: &str, path: &str) -> bool {
    let beginning = url.ends_with('*').then(|| url.trim_end_matches('*'));
    url == path || beginning.is_some_and(|beginning| path.starts_with(beginning))
}
