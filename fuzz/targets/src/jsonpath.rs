//! JSONPath, in both dialects: that of the API server, and that of hooks of game workloads.
//!
//! Laws: the first value found is the first of all; braces around a path do not change it; a path of
//! names finds the value at the end of the names.

use kube_sandbox::jsonpath::Path;
use serde_json::Value;
// The merger changes these lines when the path of hooks has moved to the providers.
use tidegate_engine::game::JsonPath;
use tidegate_providers::game::engine_json;

use crate::input::parts;

/// Input: the path, a divider, the document as JSON.
pub fn run(data: &[u8]) {
    let Some([path, document]) = parts::<2>(data) else { return };
    let Ok(text) = std::str::from_utf8(path) else { return };
    let Ok(document) = serde_json::from_slice::<Value>(document) else { return };
    server_path(text, &document);
    if let Ok(path) = JsonPath::parse(text) {
        let document = engine_json(&document);
        assert_eq!(path.read(&document), path.read(&document), "the same each time");
    }
}

fn server_path(text: &str, document: &Value) {
    let Ok(path) = Path::parse(text) else { return };
    let all = path.all(document);
    assert_eq!(path.first(document), all.first().copied(), "the first is the first of all");
    if !text.trim().starts_with('{') && text.len() < 4_000 {
        assert_eq!(Path::parse(&format!("{{{text}}}")), Ok(path.clone()), "braces change nothing");
    }
    if let Some(names) = path.fields() {
        let walked = names.iter().try_fold(document, |value, name| value.get(name));
        assert_eq!(path.first(document), walked, "names lead where they lead");
    }
}
