//! The manifests of Flagger's documentation, examples, chart and end-to-end tests, as its users copy them.
//!
//! They are read out of the part `flagger`: YAML files, fenced blocks of Markdown, documents that shell
//! scripts pass to `kubectl`. An excerpt of a Canary, which is most of the documentation, is completed.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use serde_json::{Map, Value, json};

/// An object and its origin.
#[derive(Debug, Clone)]
pub struct Manifest {
    /// File and line, below the folder of the part.
    pub place: String,
    pub object: Value,
}

/// The folders with manifests.
const FOLDERS: [&str; 5] = ["artifacts", "charts", "docs", "kustomize", "test"];

/// The value of `-mesh-provider` with which a file is used, by a part of its path: that of the page or
/// of the script that installs Flagger. For other files it is the default.
const PROVIDERS: [(&str, &str); 12] = [
    ("apisix", "apisix"),
    ("contour", "contour"),
    ("gatewayapi", "gatewayapi:v1"),
    ("gloo", "gloo"),
    ("keda", "kubernetes"),
    ("kubernetes", "kubernetes"),
    ("kuma", "kuma"),
    ("linkerd", "gatewayapi:v1beta1"),
    ("nginx", "nginx"),
    ("prometheus-operator", "kubernetes"),
    ("skipper", "skipper"),
    ("traefik", "traefik"),
];

/// Top-level fields of excerpts, and where they stand in a Canary.
const EXCERPTS: [(&str, &str); 4] =
    [("spec", ""), ("analysis", "spec"), ("match", "analysis"), ("webhooks", "analysis")];

/// All manifests below the folder of the part.
pub fn manifests(part: &Path) -> Result<Vec<Manifest>> {
    let mut files = Vec::new();
    for folder in FOLDERS {
        walk(&part.join(folder), &mut files)?;
    }
    files.sort();
    let mut all = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        let path = file.strip_prefix(part)?;
        let text = match path.components().nth(1) {
            Some(chart) if path.starts_with("charts") => {
                let values = part.join("charts").join(chart).join("values.yaml");
                let values = serde_saphyr::from_str(&fs::read_to_string(values)?)?;
                rendered(&text, &values)
            }
            _ => text,
        };
        let file = path.display().to_string();
        for (line, yaml) in documents(&file, &text) {
            // Templates of charts, and commands in blocks that claim to be YAML, are none.
            let parsed = serde_saphyr::from_multiple::<Value>(&yaml).unwrap_or_default();
            let place = format!("{file}:{line}");
            let objects = parsed.into_iter().filter(Value::is_object);
            all.extend(objects.map(|object| Manifest { place: place.clone(), object }));
        }
    }
    Ok(all)
}

/// The operator's provider with which this file is used.
pub fn provider_of(place: &str) -> &'static str {
    let page = place
        .rsplit_once('/')
        .map_or(place, |(folder, page)| if folder.starts_with("test/") { folder } else { page });
    let found = PROVIDERS.iter().find(|(name, _)| page.contains(name));
    found.map_or("istio", |(_, provider)| provider)
}

fn walk(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        if path.is_dir() {
            walk(&path, files)?;
            continue;
        }
        let extension = path.extension().and_then(|extension| extension.to_str());
        if matches!(extension, Some("md" | "sh" | "yaml" | "yml")) {
            files.push(path);
        }
    }
    Ok(())
}

/// The YAML texts of a file, with the lines that they begin at.
fn documents(file: &str, text: &str) -> Vec<(usize, String)> {
    if let Some((_, extension)) = file.rsplit_once('.') {
        match extension {
            "md" => return blocks(text),
            "sh" => return heredocs(text, 0),
            _ => {}
        }
    }
    vec![(1, text.to_owned())]
}

/// The fenced blocks of YAML, and the documents in those of commands.
fn blocks(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut open: Option<(usize, &str, usize)> = None;
    let mut body = String::new();
    for (index, line) in text.lines().enumerate() {
        let indent = line.len() - line.trim_start().len();
        match (line.trim_start().strip_prefix("```"), open) {
            (Some(language), None) => {
                open = Some((index + 1, language.trim(), indent));
                body.clear();
            }
            (Some(_), Some((begin, language, _))) => {
                match language {
                    "yaml" => found.push((begin, body.clone())),
                    _ => found.extend(heredocs(&body, begin)),
                }
                open = None;
            }
            (None, Some((_, _, indent))) => {
                let is_indented = line.get(..indent).is_some_and(|it| it.trim().is_empty());
                let line = if is_indented { line.get(indent..).unwrap_or(line) } else { line };
                body.push_str(line);
                body.push('\n');
            }
            (None, None) => {}
        }
    }
    found
}

/// The documents between `<<EOF` and `EOF`.
fn heredocs(text: &str, above: usize) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut lines = text.lines().enumerate();
    while let Some((index, line)) = lines.next() {
        let Some((_, rest)) = line.split_once("<<") else { continue };
        let word = rest.trim_start_matches('-').split_whitespace().next().unwrap_or_default();
        let end = word.trim_matches(['"', '\'']);
        let body: Vec<_> =
            lines.by_ref().map(|(_, line)| line).take_while(|line| line.trim() != end).collect();
        found.push((above + index + 1, body.join("\n")));
    }
    found
}

/// A template of a chart with its default values, and every condition true. Enough for a Canary.
fn rendered(template: &str, values: &Value) -> String {
    let is_control = |line: &&str| {
        let inner = line.trim().strip_prefix("{{").unwrap_or_default().trim_start_matches('-');
        inner.trim_start().starts_with("if ") || inner.trim_start().starts_with("end")
    };
    let mut text = String::new();
    for line in template.lines().filter(|line| !is_control(line)) {
        let mut rest = line;
        while let Some((before, after)) = rest.split_once("{{") {
            let (expression, after) = after.split_once("}}").unwrap_or((after, ""));
            text.push_str(before);
            match expression.trim().strip_prefix(".Values") {
                Some(path) => match values.pointer(&path.replace('.', "/")) {
                    Some(Value::String(value)) => text.push_str(value),
                    Some(value) => text.push_str(&value.to_string()),
                    None => {}
                },
                None => text.push_str("podinfo"),
            }
            rest = after;
        }
        text.push_str(rest);
        text.push('\n');
    }
    text
}

// === impl Manifest ===

impl Manifest {
    /// The Canary, completed if the manifest is an excerpt; `None` for other objects.
    pub fn canary(&self) -> Option<Value> {
        let is_canary = self.object["kind"] == "Canary"
            && self.object["apiVersion"].as_str()?.starts_with("flagger.app/");
        let mut canary = if is_canary { self.object.clone() } else { excerpt(&self.object)? };
        drop_empty(&mut canary);
        let spec = &canary["spec"];
        if spec["targetRef"].is_null() || spec["analysis"].is_null() {
            complete(&mut canary, provider_of(&self.place));
        }
        Some(canary)
    }
}

/// A Canary with the fields of an excerpt.
fn excerpt(object: &Value) -> Option<Value> {
    let fields = object.as_object()?;
    let mut spec = Value::Null;
    for (field, value) in fields {
        // `skipAnalysis` and the like stand beside `analysis`.
        let of = EXCERPTS.iter().find(|(name, _)| name == field).map(|(_, of)| *of);
        let has_analysis = fields.contains_key("analysis");
        match of {
            Some("") if value["containers"].is_null() && value["template"].is_null() => {
                spec = value.clone();
            }
            Some("spec") => spec[field] = value.clone(),
            Some("analysis") => spec["analysis"][field] = value.clone(),
            None if has_analysis => spec[field] = value.clone(),
            Some(_) | None => return None,
        }
    }
    spec.is_object().then(|| {
        json!({
            "apiVersion": "flagger.app/v1beta1", "kind": "Canary",
            "metadata": { "name": "podinfo" }, "spec": spec,
        })
    })
}

/// Removes fields and items that have a comment instead of a value.
fn drop_empty(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, value| !value.is_null());
            fields.values_mut().for_each(drop_empty);
        }
        Value::Array(items) => {
            items.retain(|item| !item.is_null());
            items.iter_mut().for_each(drop_empty);
        }
        _ => {}
    }
}

/// Adds the parts that the documentation leaves out.
fn complete(canary: &mut Value, provider: &str) {
    let analysis = &canary["spec"]["analysis"];
    let has_strategy = ["stepWeight", "stepWeights", "maxWeight", "iterations"]
        .iter()
        .any(|field| !analysis[field].is_null());
    let strategy = match (has_strategy, analysis["match"].is_null()) {
        (true, _) => json!({}),
        (false, true) => json!({ "stepWeight": 10, "maxWeight": 50 }),
        (false, false) => json!({ "iterations": 3 }),
    };
    let mut rest = json!({
        "metadata": { "name": "podinfo" },
        "spec": {
            "targetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "podinfo" },
            "service": { "port": 9898 },
            "analysis": { "interval": "1m", "threshold": 5 },
        },
    });
    fill(&mut rest["spec"]["analysis"], &strategy);
    match provider {
        "nginx" | "skipper" => {
            rest["spec"]["ingressRef"] = json!({
                "apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "name": "podinfo",
            });
        }
        "apisix" => {
            rest["spec"]["routeRef"] = json!({
                "apiVersion": "apisix.apache.org/v2", "kind": "ApisixRoute", "name": "podinfo",
            });
        }
        "gatewayapi:v1" | "gatewayapi:v1beta1" => {
            rest["spec"]["service"]["gatewayRefs"] = json!([{ "name": "gateway" }]);
        }
        _ => {}
    }
    fill(canary, &rest);
}

/// Adds fields that are missing.
fn fill(object: &mut Value, from: &Value) {
    let Value::Object(from) = from else { return };
    if object.is_null() {
        *object = Value::Object(Map::new());
    }
    let Value::Object(fields) = object else { return };
    for (field, value) in from {
        match fields.get_mut(field) {
            Some(there) if !there.is_null() => fill(there, value),
            _ => {
                fields.insert(field.clone(), value.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_and_documents_of_commands_are_found_with_their_lines() {
        let page = "text\n```yaml\na: 1\n```\n\n  ```bash\n  cat <<EOF | kubectl apply -f -\n  b: 2\n  EOF\n  ```\n";
        assert_eq!(blocks(page), [(2, "a: 1\n".to_owned()), (7, "b: 2".to_owned())]);
    }

    #[test]
    fn an_excerpt_becomes_a_canary_and_other_yaml_does_not() {
        let of = |object: Value| Manifest { place: "docs/faq.md:1".to_owned(), object }.canary();
        let made = of(json!({ "analysis": { "iterations": 2 } })).expect("a canary");
        let analysis = json!({ "iterations": 2, "interval": "1m", "threshold": 5 });
        assert_eq!(made["spec"]["analysis"], analysis);
        assert_eq!(made["spec"]["targetRef"]["name"], "podinfo");
        assert_eq!(of(json!({ "livenessProbe": {} })), None);
        assert_eq!(of(json!({ "kind": "Service", "spec": {} })), None);
    }

    #[test]
    fn a_template_of_a_chart_has_its_values() {
        let template =
            "{{- if .Values.on }}\na: {{ .Values.b.c }}\nd: {{ template \"x\" . }}-x\n{{- end }}\n";
        let values = json!({ "b": { "c": 5 } });
        assert_eq!(rendered(template, &values), "a: 5\nd: podinfo-x\n");
    }

    #[test]
    fn the_provider_is_that_of_the_page() {
        assert_eq!(provider_of("test/linkerd/test-canary.sh:3"), "gatewayapi:v1beta1");
        assert_eq!(provider_of("docs/gitbook/faq.md:3"), "istio");
        assert_eq!(provider_of("docs/gitbook/tutorials/kuma-progressive-delivery.md:9"), "kuma");
    }
}
