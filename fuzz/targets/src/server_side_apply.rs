//! Server-side apply: a stored object, and two configurations that two managers apply to it.
//!
//! Laws: a configuration can be applied again without a conflict and without a change; the list
//! of owners survives its written form.

use jiff::Timestamp;
use kube_sandbox::{
    managed::{FieldSet, ManagedFields, Write, apply, on_update},
    shape::{Shape, Unknown},
    types::{BuiltinShape, by_api_version, check},
};
use serde_json::Value;

use crate::input::documents;

/// Input: the stored object, a divider, a configuration, a divider, another configuration.
pub fn run(data: &[u8]) {
    let Some([stored, first, second]) = documents::<3>(data) else { return };
    let text = |name: &str| stored.get(name).and_then(Value::as_str).unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    // These are parts of a request's path.
    if api_version.is_empty() || kind.is_empty() {
        return;
    }
    let Some(definition) = by_api_version(api_version, kind) else {
        story(stored.clone(), &first, &second, &Unknown, api_version, kind);
        return;
    };
    // The server refuses such objects before it looks at their owners.
    if check(definition, &stored).is_ok() {
        let shape = BuiltinShape::new(definition);
        story(stored.clone(), &first, &second, &shape, api_version, kind);
    }
}

fn story<S: Shape>(
    mut live: Value,
    first: &Value,
    second: &Value,
    shape: &S,
    api_version: &str,
    kind: &str,
) {
    let reset = FieldSet::default();
    let by = |manager| Write {
        manager,
        api_version,
        kind,
        subresource: "",
        now: Timestamp::UNIX_EPOCH,
        reset: &reset,
        empty: None,
    };
    on_update(None, &mut live, shape, &by("creator"));
    owners_survive(&live);
    for (manager, configuration) in [("first", first), ("second", second)] {
        let _ = apply(Some(&live), configuration, shape, &by(manager), false);
        let Ok(Some(applied)) = apply(Some(&live), configuration, shape, &by(manager), true) else {
            continue;
        };
        owners_survive(&applied);
        if applied.pointer("/metadata/managedFields").is_none() {
            // An empty list is a field of no manager. Without any the next apply begins a list of owners.
            live = applied;
            continue;
        }
        // A null that the server's normalisation drops is written, without a change of the object.
        let again = apply(Some(&applied), configuration, shape, &by(manager), false);
        let again = again.map(|object| object.unwrap_or_else(|| applied.clone()));
        assert_eq!(again, Ok(applied.clone()), "applying twice is applying once");
        live = applied;
    }
}

fn owners_survive(object: &Value) {
    let listed = object.pointer("/metadata/managedFields");
    let Ok(owners) = ManagedFields::decode(listed) else { return };
    let written = owners.clone().encode();
    let read = ManagedFields::decode(written.as_ref());
    assert_eq!(read.map(ManagedFields::encode), Ok(written), "owners survive: {object}");
}
