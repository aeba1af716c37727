//! `JSONPath`, in both dialects: that of the API server, and that of hooks of game workloads.
//!
//! Laws: the first value found is the first of all; braces around a path do not change it.

use kube_sandbox::fuzzing::json_path;
use serde_json::Value;
use tidegate_providers::game::json_path::JsonPath;

use crate::input::parts;

/// As long as a path may be, without braces around it.
const PATH_BYTES_MAX: usize = 4094;

/// Input: the path, a divider, the document as JSON.
pub fn run(data: &[u8]) {
    let Some([path, document]) = parts::<2>(data) else { return };
    let Ok(text) = std::str::from_utf8(path) else { return };
    let Ok(document) = serde_json::from_slice::<Value>(document) else { return };
    if let Ok((all, first)) = json_path(text, &document) {
        assert_eq!(first, all.first().copied(), "the first is the first of all");
        if !text.trim().starts_with('{') && text.len() <= PATH_BYTES_MAX {
            let braced = json_path(&format!("{{{text}}}"), &document);
            assert_eq!(braced, Ok((all, first)), "braces change nothing");
        }
    }
    if let Ok(path) = JsonPath::parse(text) {
        assert_eq!(path.read(&document), path.read(&document), "the same each time");
    }
}
