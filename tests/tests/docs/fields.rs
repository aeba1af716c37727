//! `canary-fields.md`: every field of the three `flagger.app` kinds, from their definitions; and
//! `game-fields.md`: the same of the four `tkex.tencent.com` kinds.

use std::fmt::Write as _;

use serde_json::Value;

use crate::markdown::{cell, code, table};

const INTRO: &str = "\
# Fields of Canary, MetricTemplate and AlertProvider

All fields of `flagger.app/v1beta1`. A name with `[]` stands for each item of a list, one with `.*`
for each value of a map. **Bold** fields are required if their parent object is given.
`kubectl explain canary.spec` shows the same in a terminal. The fields of `status` are on [their own
page](status.md).

Every field of Flagger 1.44 is accepted. [Differences from
Flagger](differences-from-flagger.md#not-yet) lists what is not supported yet.
";

const GAME_INTRO: &str = "\
# Fields of GameDeployment, GameStatefulSet, HookTemplate and HookRun

All fields of `tkex.tencent.com/v1alpha1`. A name with `[]` stands for each item of a list, one with
`.*` for each value of a map. **Bold** fields are required if their parent object is given.
`kubectl explain gamedeployment.spec` shows the same in a terminal. [The
guide](../guide/game-workloads.md) explains how they work together.
";

const KINDS: [&str; 3] = ["Canary", "MetricTemplate", "AlertProvider"];
const GAME_KINDS: [&str; 4] = ["GameDeployment", "GameStatefulSet", "HookTemplate", "HookRun"];

/// Bounds of values in a schema, and their description.
const BOUNDS: [(&str, &str); 4] = [
    ("default", "default"),
    ("minimum", "least"),
    ("maximum", "most"),
    ("maxItems", "items, most"),
];

pub(crate) fn page() -> String {
    let mut text = INTRO.to_owned();
    for (kind, crd) in definitions(&KINDS) {
        text.push_str(&chapter(kind, schema_of(&crd)));
    }
    text
}

pub(crate) fn game_page() -> String {
    let mut text = GAME_INTRO.to_owned();
    for (kind, crd) in definitions(&GAME_KINDS) {
        let schema = schema_of(&crd);
        text.push_str(&chapter(kind, schema));
        let status = fields("status", &schema["properties"]["status"]);
        if schema["properties"]["status"]["properties"].is_object() {
            write!(text, "\n### {kind} `status`\n\n{status}").unwrap();
        }
    }
    text
}

fn definitions(kinds: &'static [&str]) -> impl Iterator<Item = (&'static str, Value)> {
    kinds.iter().map(|kind| {
        let mut crds = tidegate_api::crds().into_iter();
        let found = crds.find(|crd| crd["spec"]["names"]["kind"] == *kind);
        (*kind, found.unwrap_or_else(|| panic!("no definition of {kind}")))
    })
}

/// The fields below a schema as a table, with `path` before their names.
pub(crate) fn fields(path: &str, schema: &Value) -> String {
    let mut rows = Vec::new();
    walk(path, schema, &mut rows);
    table(["Field", "Type", "Meaning"], &rows)
}

pub(crate) fn schema_of(crd: &Value) -> &Value {
    &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
}

/// A section for each member of the spec that has members of its own, so that one can link to it.
fn chapter(kind: &str, schema: &Value) -> String {
    let spec = &schema["properties"]["spec"];
    let mut text =
        format!("\n## {kind}\n\n{}\n\n", cell(schema["description"].as_str().unwrap_or_default()));
    let mut plain = Vec::new();
    let mut sections = String::new();
    for (name, member) in members(spec) {
        let path = format!("spec.{name}");
        plain.push(row(&path, member, is_required(spec, name)));
        let mut rows = Vec::new();
        walk(&path, member, &mut rows);
        if !rows.is_empty() {
            let rows = table(["Field", "Type", "Meaning"], &rows);
            write!(sections, "\n### {kind} `{path}`\n\n{rows}").unwrap();
        }
    }
    text.push_str(&table(["Field", "Type", "Meaning"], &plain));
    text + &sections
}

fn walk(path: &str, schema: &Value, rows: &mut Vec<[String; 3]>) {
    for (name, member) in members(schema) {
        let below = format!("{path}.{name}");
        rows.push(row(&below, member, is_required(schema, name)));
        walk(&below, member, rows);
    }
    if schema["items"].is_object() {
        walk(&format!("{path}[]"), &schema["items"], rows);
    }
    if schema["additionalProperties"].is_object() {
        walk(&format!("{path}.*"), &schema["additionalProperties"], rows);
    }
}

fn members(schema: &Value) -> impl Iterator<Item = (&String, &Value)> {
    schema["properties"].as_object().into_iter().flatten()
}

fn is_required(schema: &Value, name: &str) -> bool {
    schema["required"].as_array().is_some_and(|names| names.iter().any(|it| it == name))
}

fn row(path: &str, schema: &Value, required: bool) -> [String; 3] {
    let name = if required { format!("**{}**", code(path)) } else { code(path) };
    let mut meaning = cell(schema["description"].as_str().unwrap_or_default());
    if let Some(values) = schema["enum"].as_array() {
        let values = values.iter().filter_map(Value::as_str).filter(|value| !value.is_empty());
        let values: Vec<String> = values.map(code).collect();
        write!(meaning, " One of {}.", values.join(", ")).unwrap();
    }
    let bound = |(key, word): (&str, &str)| {
        let value = schema.get(key)?;
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let value = if value.is_empty() { "empty".to_owned() } else { code(&value) };
        Some(format!("{word} {value}"))
    };
    let bounds: Vec<String> = BOUNDS.into_iter().filter_map(bound).collect();
    if !bounds.is_empty() {
        write!(meaning, " ({})", bounds.join(", ")).unwrap();
    }
    [name, kind_of(schema), meaning.trim().to_owned()]
}

fn kind_of(schema: &Value) -> String {
    if schema["x-kubernetes-int-or-string"] == true {
        return "integer or string".to_owned();
    }
    match schema["type"].as_str() {
        Some("array") => format!("list of {}", kind_of(&schema["items"])),
        Some("object") if schema["additionalProperties"].is_object() => {
            format!("map of {}", kind_of(&schema["additionalProperties"]))
        }
        Some("string") if schema["format"] == "date-time" => "time".to_owned(),
        Some(kind) => kind.to_owned(),
        None => "any".to_owned(),
    }
}
