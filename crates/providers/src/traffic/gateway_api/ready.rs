//! Whether a route is in effect, by the conditions of its parents in its status.
//!
//! A parent without conditions does not hold anything up: some implementations write no status. A
//! parent with conditions must have accepted the route as it is now, with all its references
//! resolved.

use serde_json::Value;

use super::HTTP_ROUTE_V1;

/// The conditions that hold a route up.
const REQUIRED: [&str; 2] = ["Accepted", "ResolvedRefs"];

/// The first parent of the route that is not ready, and why not.
pub(super) fn obstacle(route: &Value, namespace: &str) -> Option<(String, String)> {
    let generation = route["metadata"]["generation"].as_i64().unwrap_or_default();
    let asked = route["spec"]["parentRefs"].as_array()?;
    let told = route["status"]["parents"].as_array()?;
    asked.iter().find_map(|reference| {
        let wanted = Parent::of(reference, namespace);
        let mut same =
            told.iter().filter(|parent| Parent::of(&parent["parentRef"], namespace) == wanted);
        let why = same.find_map(|parent| unmet(parent, generation))?;
        Some((wanted.to_string(), why))
    })
}

/// A parent reference with defaults applied, so that two spellings of one parent are the same.
#[derive(PartialEq, Eq)]
struct Parent<'a> {
    group: &'a str,
    kind: &'a str,
    namespace: &'a str,
    name: &'a str,
    section: Option<&'a str>,
    port: Option<i64>,
}

// === impl Parent ===

impl<'a> Parent<'a> {
    fn of(reference: &'a Value, namespace: &'a str) -> Self {
        Self {
            group: reference["group"].as_str().unwrap_or(HTTP_ROUTE_V1.group),
            kind: reference["kind"].as_str().unwrap_or("Gateway"),
            namespace: reference["namespace"].as_str().unwrap_or(namespace),
            name: reference["name"].as_str().unwrap_or_default(),
            section: reference["sectionName"].as_str(),
            port: reference["port"].as_i64(),
        }
    }
}

impl std::fmt::Display for Parent<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}/{}", self.kind, self.namespace, self.name)
    }
}

fn unmet(parent: &Value, generation: i64) -> Option<String> {
    let conditions = parent["conditions"].as_array()?;
    conditions.iter().find_map(|condition| {
        let kind = condition["type"].as_str().filter(|kind| REQUIRED.contains(kind))?;
        if condition["observedGeneration"].as_i64().is_some_and(|seen| seen < generation) {
            return Some(format!("{kind} is about an earlier version of the route"));
        }
        if condition["status"] == "True" {
            return None;
        }
        let reason = condition["reason"].as_str().unwrap_or("no reason given");
        Some(format!("{kind} is not true ({reason})"))
    })
}
