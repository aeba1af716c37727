//! Server-side apply: a stored object, and two configurations that two managers apply to it.
//!
//! Laws: a configuration can be applied again without a conflict and without a change; the list of
//! owners survives its written form.

use kube_sandbox::fuzzing::{apply, created, owners};
use serde_json::Value;

use crate::input::documents;

/// Input: the stored object, a divider, a configuration, a divider, another configuration.
pub fn run(data: &[u8]) {
    let Some([stored, first, second]) = documents::<3>(data) else { return };
    let Some(mut live) = created(&stored, "creator") else { return };
    owners_survive(&live);
    for (manager, configuration) in [("first", first), ("second", second)] {
        let _ = apply(&live, &configuration, manager, false);
        let Ok(Some(applied)) = apply(&live, &configuration, manager, true) else { continue };
        owners_survive(&applied);
        // An empty list is a field of no manager. Without any field the next apply begins a list of owners.
        if managed_fields(&applied).is_some() {
            // A null that the server's normalisation drops is written, without a change of the object.
            let again = apply(&applied, &configuration, manager, false);
            let again = again.map(|object| object.unwrap_or_else(|| applied.clone()));
            assert_eq!(again, Ok(applied.clone()), "applying twice is applying once");
        }
        live = applied;
    }
}

fn owners_survive(object: &Value) {
    if let Ok(written) = owners(managed_fields(object)) {
        assert_eq!(owners(written.as_ref()), Ok(written), "owners survive: {object}");
    }
}

fn managed_fields(object: &Value) -> Option<&Value> {
    object.pointer("/metadata/managedFields")
}
