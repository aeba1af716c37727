//! The status of a definition: name conflicts, and whether the kind is served.
//!
//! Called by the server in the write of a definition. A definition keeps the names that it has
//! already; others are accepted only if no other definition of the group has them.

use serde_json::{Map, Value, json};

use super::{list, text, texts};

/// A name that another definition of the group already has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Conflict {
    Plural(String),
    Singular(String),
    ShortNames(Vec<String>),
    Kind(String),
    ListKind(String),
}

/// The names of `crd` that other definitions of its group hold. A name it holds itself is its own.
pub(crate) fn conflicts<'a>(
    crd: &Value,
    others: impl IntoIterator<Item = &'a Value>,
) -> Vec<Conflict> {
    let group = crd.pointer("/spec/group");
    let own = crd.pointer("/metadata/name");
    let mut resources = Vec::new();
    let mut kinds = Vec::new();
    for other in others {
        if other.pointer("/spec/group") != group || other.pointer("/metadata/name") == own {
            continue;
        }
        let names = other.pointer("/status/acceptedNames").filter(|names| names.is_object());
        let Some(names) = names else { continue };
        resources.extend([text(names, "plural"), text(names, "singular")].map(ToOwned::to_owned));
        resources.extend(texts(names, "shortNames"));
        kinds.extend([text(names, "kind"), text(names, "listKind")].map(ToOwned::to_owned));
    }
    let null = Value::Null;
    let wanted = crd.pointer("/spec/names").unwrap_or(&null);
    let accepted = crd.pointer("/status/acceptedNames").unwrap_or(&null);
    let taken = |name: &str, used: &[String]| {
        let wanted = text(wanted, name);
        let is_taken = wanted != text(accepted, name) && used.iter().any(|used| used == wanted);
        is_taken.then(|| wanted.to_owned())
    };
    let held = texts(accepted, "shortNames");
    let short_names: Vec<String> = texts(wanted, "shortNames")
        .into_iter()
        .filter(|name| !held.contains(name) && resources.contains(name))
        .collect();
    [
        taken("plural", &resources).map(Conflict::Plural),
        taken("singular", &resources).map(Conflict::Singular),
        (!short_names.is_empty()).then_some(Conflict::ShortNames(short_names)),
        taken("kind", &kinds).map(Conflict::Kind),
        taken("listKind", &kinds).map(Conflict::ListKind),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// The status to write: accepted names, conditions `NamesAccepted` and `Established`, and what was
/// stored. A condition keeps its time while its verdict stays.
pub(crate) fn accepted_status(crd: &Value, now: &str, conflicts: &[Conflict]) -> Value {
    let null = Value::Null;
    let old = crd.get("status").unwrap_or(&null);
    let mut status = old.as_object().cloned().unwrap_or_default();
    status.insert("acceptedNames".to_owned(), accepted_names(crd, old, conflicts));
    let (reason, message) = match conflicts.last() {
        None => ("NoConflicts", "no conflicts found".to_owned()),
        Some(conflict) => conflict.words(),
    };
    let names_accepted = conflicts.is_empty();
    let mut conditions =
        vec![condition(old, "NamesAccepted", names_accepted, reason, &message, now)];
    let was_established =
        find(old, "Established").is_some_and(|condition| text(condition, "status") == "True");
    // An established definition stays established, even when its names conflict.
    conditions.push(if names_accepted || was_established {
        let message = "the initial names have been accepted";
        condition(old, "Established", true, "InitialNamesAccepted", message, now)
    } else {
        let message = "not all names are accepted";
        condition(old, "Established", false, "NotAccepted", message, now)
    });
    for other in list(old, "conditions") {
        if !matches!(text(other, "type"), "NamesAccepted" | "Established") {
            conditions.push(other.clone());
        }
    }
    status.insert("conditions".to_owned(), conditions.into());
    status.entry("storedVersions").or_insert_with(|| json!([]));
    status.into()
}

fn accepted_names(crd: &Value, old: &Value, conflicts: &[Conflict]) -> Value {
    let wanted = crd.pointer("/spec/names").and_then(Value::as_object).cloned().unwrap_or_default();
    let held = old.get("acceptedNames").and_then(Value::as_object).cloned().unwrap_or_default();
    let mut names = Map::new();
    for (name, value) in wanted {
        if !conflicts.iter().any(|conflict| conflict.field() == name) {
            names.insert(name, value);
        }
    }
    for conflict in conflicts {
        if let Some(value) = held.get(conflict.field()) {
            names.insert(conflict.field().to_owned(), value.clone());
        }
    }
    // These two are always written, even when empty.
    for name in ["plural", "kind"] {
        names.entry(name).or_insert_with(|| "".into());
    }
    names.into()
}

fn find<'a>(status: &'a Value, kind: &str) -> Option<&'a Value> {
    list(status, "conditions").iter().find(|condition| text(condition, "type") == kind)
}

fn condition(
    old: &Value,
    kind: &str,
    holds: bool,
    reason: &str,
    message: &str,
    now: &str,
) -> Value {
    let verdict = if holds { "True" } else { "False" };
    let since = find(old, kind)
        .filter(|old| text(old, "status") == verdict)
        .map_or("", |old| text(old, "lastTransitionTime"));
    let since = if since.is_empty() { now } else { since };
    json!({
        "type": kind, "status": verdict, "reason": reason, "message": message,
        "lastTransitionTime": since,
    })
}

// === impl Conflict ===

impl Conflict {
    const fn field(&self) -> &'static str {
        match self {
            Self::Plural(_) => "plural",
            Self::Singular(_) => "singular",
            Self::ShortNames(_) => "shortNames",
            Self::Kind(_) => "kind",
            Self::ListKind(_) => "listKind",
        }
    }

    /// Reason and message of the condition.
    fn words(&self) -> (&'static str, String) {
        let in_use = |name: &String| format!("{name:?} is already in use");
        match self {
            Self::Plural(name) => ("PluralConflict", in_use(name)),
            Self::Singular(name) => ("SingularConflict", in_use(name)),
            Self::Kind(name) => ("KindConflict", in_use(name)),
            Self::ListKind(name) => ("ListKindConflict", in_use(name)),
            Self::ShortNames(names) => {
                let each: Vec<String> = names.iter().map(in_use).collect();
                let message = match each.as_slice() {
                    [only] => only.clone(),
                    many => format!("[{}]", many.join(", ")),
                };
                ("ShortNamesConflict", message)
            }
        }
    }
}
