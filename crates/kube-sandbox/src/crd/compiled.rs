//! Cache of compiled schemas, shared by validation, storage and serving of a definition.
//!
//! Compiling a rule takes about a millisecond, and every write of a definition needs its schemas
//! twice. The last ones are kept by content, so the second time costs a comparison, also in another
//! sandbox of the same process.

use std::{collections::VecDeque, sync::Arc};

use parking_lot::Mutex;
use serde_json::Value;

use crate::{failure::FieldError, schema::Schema};

/// Enough for the schemas of all definitions that tests load: ours, those of routes and those of scalers.
const REMEMBERED: usize = 48;

static RECENT: Mutex<VecDeque<(Value, Arc<Schema>)>> = Mutex::new(VecDeque::new());

/// The compiled schema of `raw`; errors name fields below `path`.
pub(super) fn compile(raw: &Value, path: &str) -> Result<Arc<Schema>, Vec<FieldError>> {
    let recent = || RECENT.lock();
    if let Some((_, schema)) = recent().iter().find(|(known, _)| known == raw) {
        return Ok(Arc::clone(schema));
    }
    let schema = Arc::new(Schema::compile_at(raw, path)?);
    let mut recent = recent();
    recent.push_front((raw.clone(), Arc::clone(&schema)));
    recent.truncate(REMEMBERED);
    Ok(schema)
}
