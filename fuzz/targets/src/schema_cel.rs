//! Structural schemas with CEL rules: a schema, an object and the object before it.
//!
//! Law: an object that was admitted is admitted again, and nothing is dropped or filled in then.

use kube_sandbox::schema::{Schema, admit};

use crate::input::documents;

/// Input: the schema, a divider, the object, a divider, the stored object.
pub fn run(data: &[u8]) {
    let Some([schema, object, stored]) = documents::<3>(data) else { return };
    let Ok(schema) = Schema::compile(&schema) else { return };
    let mut updated = object.clone();
    let _ = admit(&schema, &mut updated, Some(&stored));
    let _ = schema.validate_status(&object, Some(&stored));

    let mut created = object;
    if admit(&schema, &mut created, None).is_ok() {
        let mut again = created.clone();
        assert_eq!(admit(&schema, &mut again, None), Ok(Vec::new()), "admitted again: {created}");
        assert_eq!(again, created, "nothing is filled in the second time");
    }
}
