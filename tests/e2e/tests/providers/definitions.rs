//! The sandbox's definitions of routes and scalers, compared with the real ones: every field, type, pattern, length,
//! enum, default and rule. No control plane is needed.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, ensure};
use kube_sandbox::upstream_crds;
use serde_json::{Value, json};
use tidegate_e2e::Parts;

/// Differences with a reason: the definition, the beginning of the path, the reason. None so far.
const ACCEPTED: [(&str, &str, &str); 0] = [];

/// Sentences, which say nothing that a server enforces.
const SENTENCES: [&str; 4] = ["description", "title", "example", "externalDocs"];
const RULES: &str = "x-kubernetes-validations";

/// The facts that a definition enforces: by version, path and keyword.
type Facts = BTreeMap<String, Value>;

/// Fields of the experimental channel of Gateway API that the sandbox has too. The rest is the standard channel.
const EXPERIMENTAL: [&str; 2] = [".spec.rules[].retry", ".spec.rules[].sessionPersistence"];

/// The folders of real definitions, and that of the experimental channel.
fn folders() -> Result<(Vec<PathBuf>, PathBuf)> {
    let parts = Parts::named(&["gateway-api", "istio", "providers"])?;
    let gateway_api = parts.folder("gateway-api")?;
    let mut folders = vec![gateway_api.to_owned(), parts.folder("istio")?.to_owned()];
    for name in ["contour", "traefik", "knative", "keda"] {
        folders.push(parts.folder("providers")?.join(name));
    }
    Ok((folders, gateway_api.join("experimental")))
}

/// The facts of the real definitions, by name.
fn real() -> Result<BTreeMap<String, Facts>> {
    let mut found: BTreeMap<String, Facts> = BTreeMap::new();
    let (folders, experimental) = folders()?;
    let name = |it: &Value| it["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    for folder in folders {
        for definition in in_folder(&folder)? {
            found.insert(name(&definition), facts_of(&definition));
        }
    }
    for definition in in_folder(&experimental)? {
        let facts = facts_of(&definition).into_iter();
        let more = facts.filter(|(path, _)| EXPERIMENTAL.iter().any(|field| path.contains(field)));
        found.entry(name(&definition)).or_default().extend(more);
    }
    Ok(found)
}

fn in_folder(folder: &Path) -> Result<Vec<Value>> {
    let mut definitions = Vec::new();
    let entries = std::fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_some_and(|it| it == "yaml") {
            let text = std::fs::read_to_string(&path)?;
            let objects: Vec<Value> =
                serde_saphyr::from_multiple(&text).with_context(|| path.display().to_string())?;
            definitions.extend(objects.into_iter().filter(|it| !it.is_null()));
        }
    }
    Ok(definitions)
}

fn facts_of(definition: &Value) -> Facts {
    let mut facts = Facts::new();
    for key in ["group", "scope", "names"] {
        facts.insert(key.to_owned(), definition["spec"][key].clone());
    }
    for version in definition["spec"]["versions"].as_array().into_iter().flatten() {
        let name = version["name"].as_str().unwrap_or_default();
        for key in ["served", "storage"] {
            facts.insert(format!("{name} {key}"), version[key].clone());
        }
        let subresources = version["subresources"].as_object().cloned().unwrap_or_default();
        facts.insert(format!("{name} subresources"), json!(subresources));
        collect(&version["schema"]["openAPIV3Schema"], name, &mut facts);
    }
    facts
}

fn collect(schema: &Value, path: &str, facts: &mut Facts) {
    for (keyword, value) in schema.as_object().into_iter().flatten() {
        match keyword.as_str() {
            "properties" => {
                for (name, field) in value.as_object().into_iter().flatten() {
                    collect(field, &format!("{path}.{name}"), facts);
                }
            }
            "items" => collect(value, &format!("{path}[]"), facts),
            "additionalProperties" if value.is_object() => {
                collect(value, &format!("{path}{{}}"), facts);
            }
            RULES => {
                let rules = value.as_array().into_iter().flatten();
                let rules: Vec<_> =
                    rules.map(|rule| without(rule, &["message", "messageExpression"])).collect();
                facts.insert(format!("{path} {RULES}"), json!(rules));
            }
            "default" | "enum" => {
                facts.insert(format!("{path} {keyword}"), value.clone());
            }
            keyword if SENTENCES.contains(&keyword) => {}
            _ => {
                facts.insert(format!("{path} {keyword}"), without(value, &SENTENCES));
            }
        }
    }
}

/// A value without these members, at any depth.
fn without(value: &Value, members: &[&str]) -> Value {
    match value {
        Value::Object(found) => {
            let kept = found.iter().filter(|(key, _)| !members.contains(&key.as_str()));
            Value::Object(kept.map(|(key, value)| (key.clone(), without(value, members))).collect())
        }
        Value::Array(items) => items.iter().map(|item| without(item, members)).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

/// The differences of two definitions, each as its path and the two values.
fn differences(sandbox: &Facts, real: &Facts) -> Vec<(String, String)> {
    let paths: BTreeSet<_> = sandbox.keys().chain(real.keys()).collect();
    let differ = paths.into_iter().filter(|path| sandbox.get(*path) != real.get(*path));
    let told = |facts: &Facts, path: &String| {
        facts.get(path).map_or("nothing".to_owned(), ToString::to_string)
    };
    differ
        .map(|path| {
            (path.clone(), format!("sandbox {}, real {}", told(sandbox, path), told(real, path)))
        })
        .collect()
}

#[test]
fn the_sandbox_enforces_what_the_real_definitions_enforce() -> Result<()> {
    let real = real()?;
    let (mut unexplained, mut used, mut facts) = (Vec::new(), BTreeSet::new(), 0);
    for definition in upstream_crds() {
        let name = definition["metadata"]["name"].as_str().unwrap_or_default();
        let theirs = real.get(name);
        let theirs = theirs.with_context(|| format!("{name} is not among the real ones"))?;
        facts += theirs.len();
        for (path, values) in differences(&facts_of(&definition), theirs) {
            let row =
                ACCEPTED.iter().position(|(of, begin, _)| *of == name && path.starts_with(begin));
            match row {
                Some(row) => drop(used.insert(row)),
                None => unexplained.push(format!("{name} {path}: {values}")),
            }
        }
    }
    ensure!(
        unexplained.is_empty(),
        "run tools/route-definitions, or add a row with a reason; {} differences:\n{}",
        unexplained.len(),
        unexplained.join("\n")
    );
    ensure!(used.len() == ACCEPTED.len(), "rows that explain nothing: {ACCEPTED:?}, used {used:?}");
    println!("{facts} facts of {} definitions are the same", upstream_crds().len());
    ensure!(facts > 5000, "only {facts} facts were compared");
    Ok(())
}

#[test]
fn a_pattern_rule_or_field_less_is_a_difference() {
    let schema = |name: Value| {
        json!({ "spec": { "versions": [{ "name": "v1", "schema": { "openAPIV3Schema": {
            "type": "object", "properties": { "spec": { "type": "array", "items": name } },
        } } }] } })
    };
    let real = json!({ "type": "string", "description": "A name.", "pattern": "^a$", "maxLength": 3,
        "x-kubernetes-validations": [{ "rule": "self != ''", "message": "It is empty." }] });
    let mut told = real.clone();
    told["description"] = json!("Another sentence.");
    told[RULES][0]["message"] = json!("Another one.");
    let facts = |name: &Value| facts_of(&schema(name.clone()));
    assert_eq!(differences(&facts(&told), &facts(&real)), []);
    for keyword in ["pattern", "maxLength", RULES, "type"] {
        let mut less = real.clone();
        less.as_object_mut().unwrap().remove(keyword);
        let found = differences(&facts(&less), &facts(&real));
        let paths: Vec<_> = found.iter().map(|(path, _)| path.as_str()).collect();
        assert_eq!(paths, [format!("v1.spec[] {keyword}")]);
    }
}
