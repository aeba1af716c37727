//! Every leaf and every branch of every sample, made invalid in turn.
//!
//! Each is sent as a dry run of a create, so that nothing depends on earlier requests. Refusals compare
//! decoding and validation; accepted requests compare the defaults.

use serde_json::{Value, json};

use super::kinds::{Sample, samples};
use crate::conformance::request::Story;

/// So many requests make a story.
const CHAPTER: usize = 60;

pub(super) fn stories() -> Vec<Story> {
    samples().iter().flat_map(chapters).collect()
}

fn chapters(sample: &Sample) -> Vec<Story> {
    let path = format!("{}?dryRun=All", sample.collection());
    let spoiled = spoiled(&sample.object);
    let mut stories = Vec::new();
    for chapter in spoiled.chunks(CHAPTER) {
        let mut story = Story::new(sample.title("spoiling"));
        for (note, object) in chapter {
            story.post(note, path.clone(), object);
        }
        stories.push(story);
    }
    stories
}

/// The object with one error, in all variants.
fn spoiled(object: &Value) -> Vec<(String, Value)> {
    let mut pointers = Vec::new();
    collect(object, "", &mut pointers);
    let mut all = Vec::new();
    for pointer in pointers {
        let Some(old) = object.pointer(&pointer) else { continue };
        for value in replacements(old) {
            let mut object = object.clone();
            if let Some(place) = object.pointer_mut(&pointer) {
                place.clone_from(&value);
            }
            all.push((format!("{pointer} = {value}"), object));
        }
        all.push((format!("{pointer} removed"), removed(object, &pointer)));
        if let Some(twice) = doubled(object, &pointer) {
            all.push((format!("{pointer} twice"), twice));
        }
    }
    all
}

/// All places below the root, without those of `life`.
fn collect(value: &Value, pointer: &str, pointers: &mut Vec<String>) {
    let children: Vec<(String, &Value)> = match value {
        Value::Object(members) => members
            .iter()
            .map(|(key, value)| (key.replace('~', "~0").replace('/', "~1"), value))
            .collect(),
        Value::Array(items) => {
            items.iter().enumerate().map(|(index, value)| (index.to_string(), value)).collect()
        }
        _ => Vec::new(),
    };
    for (key, child) in children {
        let pointer = format!("{pointer}/{key}");
        let is_told_elsewhere = ["/apiVersion", "/kind", "/metadata"].contains(&pointer.as_str());
        if !is_told_elsewhere {
            pointers.push(pointer.clone());
            collect(child, &pointer, pointers);
        }
    }
}

/// Replacements of a value, by its type.
fn replacements(old: &Value) -> Vec<Value> {
    match old {
        Value::String(_) => {
            vec![json!(""), json!(7), json!("Not_valid!"), json!(null), json!("x".repeat(300))]
        }
        Value::Number(_) => vec![
            json!(-1),
            json!(0),
            json!(70_000),
            json!("7"),
            json!(1.5),
            json!(4_294_967_296_u64),
        ],
        Value::Bool(_) => vec![json!("true"), json!(null), json!(1)],
        Value::Array(_) => vec![json!([]), json!({}), json!([null]), json!("a")],
        Value::Object(_) => vec![json!({}), json!([]), json!({ "un known": "x" }), json!("a")],
        Value::Null => vec![json!({})],
    }
}

fn removed(object: &Value, pointer: &str) -> Value {
    let mut object = object.clone();
    let (parent, key) = pointer.rsplit_once('/').unwrap_or(("", pointer));
    let key = key.replace("~1", "/").replace("~0", "~");
    match object.pointer_mut(parent) {
        Some(Value::Object(members)) => drop(members.remove(&key)),
        Some(Value::Array(items)) => {
            if let Some(index) = key.parse().ok().filter(|index| *index < items.len()) {
                items.remove(index);
            }
        }
        _ => {}
    }
    object
}

/// The object with an item of a list in it twice.
fn doubled(object: &Value, pointer: &str) -> Option<Value> {
    let (parent, _) = pointer.rsplit_once('/')?;
    let item = object.pointer(pointer)?.clone();
    let mut object = object.clone();
    object.pointer_mut(parent)?.as_array_mut()?.push(item);
    Some(object)
}
