//! The requests of one user to the API server, from the server's audit log.

use std::{collections::BTreeSet, path::Path};

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

pub(crate) const POLICY: &str = "audit.json";
const LOG: &str = "audit.log";

/// One answered request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// As in a role: `patch`, `watch`. A patch that created its object used the right to do so.
    pub verb: String,
    pub group: String,
    /// With its subresource; empty for paths that are no resource.
    pub resource: String,
    pub namespace: String,
    pub name: String,
    pub code: u64,
    /// When the answer was given: RFC 3339.
    pub at: String,
    /// The login of the user that sent it.
    pub login: String,
}

/// An audit policy that logs one user's requests, without their bodies.
pub(crate) fn policy(user: &str) -> String {
    json!({
        "apiVersion": "audit.k8s.io/v1", "kind": "Policy",
        // A watch is answered when it begins; every other request when it is done.
        "omitStages": ["RequestReceived"],
        "rules": [{ "level": "Metadata", "users": [user] }, { "level": "None" }],
    })
    .to_string()
}

pub(crate) fn flags() -> [String; 3] {
    [
        format!("--audit-policy-file={POLICY}"),
        format!("--audit-log-path={LOG}"),
        // A reader of the log finds a request there once it is answered.
        "--audit-log-mode=blocking".to_owned(),
    ]
}

pub(crate) fn read(folder: &Path) -> Result<Vec<Asked>> {
    let text = std::fs::read_to_string(folder.join(LOG)).context("nobody is audited")?;
    let entries = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    // A watch is logged twice: when it begins, and when it ends.
    let begun = |entry: &Value| entry["stage"] == "ResponseComplete" || entry["verb"] == "watch";
    Ok(entries.filter(begun).map(|entry| Asked::of(&entry)).collect())
}

/// Requests that were denied.
pub fn denied(asked: &[Asked]) -> BTreeSet<String> {
    asked.iter().filter(|it| it.code == 403).map(Asked::line).collect()
}

// === impl Asked ===

impl Asked {
    fn of(entry: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let object = &entry["objectRef"];
        let mut resource = text(&object["resource"]);
        if let Some(subresource) = object["subresource"].as_str() {
            resource = format!("{resource}/{subresource}");
        }
        let code = entry["responseStatus"]["code"].as_u64().unwrap_or_default();
        let verb = text(&entry["verb"]);
        let made = verb == "patch" && code == 201;
        Self {
            verb: if made { "create".to_owned() } else { verb },
            group: text(&object["apiGroup"]),
            resource,
            namespace: text(&object["namespace"]),
            name: text(&object["name"]),
            code,
            at: text(&entry["stageTimestamp"]),
            login: text(&entry["user"]["extra"]["authentication.kubernetes.io/credential-id"][0]),
        }
    }

    /// `group/resource verb`.
    pub fn line(&self) -> String {
        format!("{}/{} {}", self.group, self.resource, self.verb)
    }

    pub fn is_write(&self) -> bool {
        matches!(self.verb.as_str(), "create" | "update" | "patch" | "delete")
    }
}
