//! The `scale` subresource of workloads and custom resources.
//!
//! GET, PUT and PATCH of a Scale are mapped to the replica count of the workload, so its rules and
//! field ownership apply.

use serde_json::{Value, json};

use super::{
    Answer, Call, Server, convert,
    options::WriteOptions,
    patching::{PatchType, patch_body},
    rules::WriteTo,
    write::{Ownership, Write, check_name, place_in_namespace},
};
use crate::{
    failure::{Failure, FieldError, Outcome},
    jsonpath::Path,
    patch,
    registry::ResourceDef,
    request::Verb,
    selector::LabelSelector,
    store::ObjectKey,
};

// === impl Server ===

impl Server {
    pub(super) fn scale(&self, call: &Call<'_>) -> Outcome<Answer> {
        if call.request.info.verb == Verb::Get {
            let object = convert::to_version(&call.def, self.stored(call)?.value());
            check_has_replicas(&call.def, &object)?;
            return Ok(Answer::object(200, scale_of(&call.def, &object)));
        }
        self.rescale(call)
    }

    fn rescale(&self, call: &Call<'_>) -> Outcome<Answer> {
        let request = call.request;
        let kind = if request.info.verb == Verb::Patch { "PatchOptions" } else { "UpdateOptions" };
        let options = WriteOptions::parse(&request.query, kind, &request.agent)?;
        let tx = self.store.begin();
        let key = ObjectKey::new(call.namespace(), &request.info.name);
        let old = tx.get(&call.def.table, &key).ok_or_else(|| call.not_found())?;
        let mut object = convert::to_version(&call.def, old.value());
        let before = scale_of(&call.def, &object);
        let scale = if request.info.verb == Verb::Patch {
            let (content_type, bytes) = patch_body(&request.body)?;
            match PatchType::parse(&content_type, &call.def)? {
                // Only `spec.replicas` of a Scale can be set, so an apply is a merge.
                PatchType::Apply => {
                    let applied = super::decode::yaml(&bytes)
                        .map_err(|why| Failure::bad_request(format!("error decoding YAML: {why}")))?
                        .object;
                    patch::merge_patch(&before, &applied)
                }
                PatchType::Json => patch::json_patch(&before, &bytes)?,
                PatchType::Merge | PatchType::Strategic => {
                    PatchType::Merge.apply_to(&before, &bytes, &call.def)?
                }
            }
        } else {
            let mut scale = call.body_object_with(&options)?.0;
            place_in_namespace(call, &mut scale)?;
            check_name(&request.info.name, &scale)?;
            scale
        };
        let replicas = check(call, &before, &scale)?;
        let path = paths(&call.def).spec;
        // A count without an owner stays without one after scaling.
        let ownership =
            if is_owned(&object, &path) { Ownership::Track } else { Ownership::Settled };
        set(&mut object, &path, replicas.into());
        let write = Write { def: &call.def, options: &options, to: WriteTo::Scale, ownership };
        let (updated, warnings) = self.update_object(&tx, &write, &old, object)?;
        let mut answer = Answer::object(200, scale_of(&call.def, &updated));
        answer.warnings = warnings;
        Ok(answer)
    }
}

struct Paths {
    spec: String,
    status: String,
    selector: Option<String>,
}

fn paths(def: &ResourceDef) -> Paths {
    match def.custom().and_then(|(_, version)| version.scale.as_ref()) {
        Some(scale) => Paths {
            spec: scale.spec_replicas.clone(),
            status: scale.status_replicas.clone(),
            selector: scale.label_selector.clone(),
        },
        None => Paths {
            spec: ".spec.replicas".into(),
            status: ".status.replicas".into(),
            selector: None,
        },
    }
}

/// A custom resource without a replica count has no scale.
fn check_has_replicas(def: &ResourceDef, object: &Value) -> Outcome<()> {
    let path = paths(def).spec;
    let found = Path::parse(&path).ok().is_some_and(|path| path.first(object).is_some());
    if found || !def.is_custom() {
        return Ok(());
    }
    Err(Failure::internal(format!("the spec replicas field {path:?} does not exist")))
}

/// The `autoscaling/v1` Scale of a workload.
pub(super) fn scale_of(def: &ResourceDef, object: &Value) -> Value {
    let Paths { spec, status, selector } = paths(def);
    let number = |path: &str| {
        let found = Path::parse(path).ok().and_then(|path| path.first(object)?.as_i64());
        found.unwrap_or_default()
    };
    let mut seen = json!({ "replicas": number(&status) });
    let selector = match selector {
        Some(path) => {
            Path::parse(&path).ok().and_then(|path| Some(path.first(object)?.as_str()?.to_owned()))
        }
        None => LabelSelector::from_json(object["spec"].get("selector"))
            .ok()
            .map(|selector| selector.to_string()),
    };
    if let Some(selector) = selector.filter(|text| !text.is_empty()) {
        seen["selector"] = selector.into();
    }
    let mut meta = json!({});
    for key in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(value) = object["metadata"].get(key) {
            meta[key] = value.clone();
        }
    }
    let replicas = number(&spec);
    let spec = if replicas == 0 { json!({}) } else { json!({ "replicas": replicas }) };
    json!({
        "kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": meta,
        "spec": spec, "status": seen,
    })
}

fn check(call: &Call<'_>, before: &Value, scale: &Value) -> Outcome<i64> {
    let name = &call.request.info.name;
    let given = scale["metadata"]["resourceVersion"].as_str().unwrap_or_default();
    let current = before["metadata"]["resourceVersion"].as_str().unwrap_or_default();
    if !given.is_empty() && given != current {
        return Err(Failure::stale(&call.def.group, &call.def.plural, name));
    }
    let replicas = &scale["spec"]["replicas"];
    let refuse = |why: &str| {
        let error = FieldError::invalid("spec.replicas", replicas, why);
        Err(Failure::invalid("autoscaling", "Scale", name, &[error]))
    };
    match replicas.as_i64() {
        None if replicas.is_null() => Ok(0),
        None if call.request.info.verb == Verb::Patch => {
            let error = FieldError::invalid("patch", &scale.to_string().into(), "not a Scale");
            Err(Failure::invalid("", "", "", &[error]))
        }
        None => refuse("must be an integer"),
        // For custom resources its own validation refuses it.
        Some(count) if count < 0 && !call.def.is_custom() => {
            refuse("must be greater than or equal to 0")
        }
        Some(count) if count > i64::from(i32::MAX) => refuse("must be a 32-bit integer"),
        Some(count) => Ok(count),
    }
}

/// Whether a manager owns the field at a dotted path.
fn is_owned(object: &Value, path: &str) -> bool {
    let names = path.split('.').filter(|name| !name.is_empty());
    let pointer: String = names.flat_map(|name| ["/f:", name]).collect();
    let entries = object["metadata"]["managedFields"].as_array();
    entries.into_iter().flatten().any(|entry| entry["fieldsV1"].pointer(&pointer).is_some())
}

/// Sets a dotted path, the only form of scale paths in CRDs.
fn set(object: &mut Value, path: &str, value: Value) {
    let mut place = object;
    let names: Vec<&str> = path.split('.').filter(|name| !name.is_empty()).collect();
    for name in names {
        if !place.is_object() {
            *place = json!({});
        }
        place = &mut place[name];
    }
    *place = value;
}
