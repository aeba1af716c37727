//! Defaults and validation of `ConfigMaps`, Secrets and `PersistentVolumeClaims`.
//!
//! Called by the rows of [`super::table`].

use serde_json::Value;

use super::{
    at::{At, Errors, same},
    container_rules::check_amount,
    edit::{carry, default_to, default_zero, object, remove, set, text},
    metadata::check_selector,
    pod_defaults::claim_spec,
};
use crate::{
    failure::FieldError,
    names,
    quantity::Quantity,
    types::{decode_base64, encode_base64},
};

/// Maximum data size of a ConfigMap or Secret: it has to fit into one entry of the store.
const DATA_BYTES_MAX: usize = 1024 * 1024;
const FROZEN: &str = "field is immutable when `immutable` is set";

pub(super) fn secret_defaults(secret: &mut Value) {
    default_zero(secret, "type", "Opaque");
    let Some(Value::Object(plain)) = remove(secret, "stringData") else { return };
    if plain.is_empty() {
        return;
    }
    let Some(data) = object(secret, "data") else { return };
    for (key, value) in plain {
        let encoded = encode_base64(value.as_str().unwrap_or_default().as_bytes());
        set(data, &key, encoded);
    }
}

pub(super) fn secret_update(new: &mut Value, old: &Value) {
    if text(new, "type").is_empty() {
        carry(new, old, "type");
    }
}

pub(super) fn claim_defaults(claim: &mut Value) {
    if let Some(spec) = object(claim, "spec") {
        claim_spec(spec);
    }
    if let Some(status) = object(claim, "status") {
        default_zero(status, "phase", "Pending");
    }
}

pub(super) fn claim_create(claim: &mut Value) {
    set(claim, "status", serde_json::json!({"phase": "Pending"}));
}

pub(super) fn config_map(object: &Value) -> Errors {
    let mut errors = Errors::new();
    let at = At::root(object);
    let (data, binary) = (at.get("data"), at.get("binaryData"));
    let mut bytes = 0;
    for (key, value) in data.entries() {
        check_key(key, &value, &mut errors);
        if binary.value().is_some_and(|binary| binary.get(key).is_some()) {
            let text = "duplicate of key present in binaryData";
            errors.push(value.invalid_as(&key.into(), text));
        }
        bytes += value.text().len();
    }
    for (key, value) in binary.entries() {
        check_key(key, &value, &mut errors);
        bytes += decode_base64(value.text()).unwrap_or_default().len();
    }
    if bytes > DATA_BYTES_MAX {
        errors.push(FieldError::too_long("", DATA_BYTES_MAX));
    }
    errors
}

fn check_key(key: &str, place: &At<'_>, errors: &mut Errors) {
    let wrong = names::config_key(key);
    errors.extend(wrong.into_iter().map(|text| place.invalid_as(&key.into(), text)));
}

pub(super) fn config_map_update(new: &Value, old: &Value) -> Errors {
    let mut errors = Errors::new();
    check_frozen(new, old, &["data", "binaryData"], &mut errors);
    errors.extend(config_map(new));
    errors
}

/// Once `immutable` is set, neither it nor the data changes.
fn check_frozen(new: &Value, old: &Value, keys: &[&str], errors: &mut Errors) {
    let (at, was) = (At::root(new), At::root(old));
    if !was.get("immutable").flag() {
        return;
    }
    if !at.get("immutable").flag() {
        errors.push(at.get("immutable").forbidden(FROZEN));
    }
    for key in keys {
        if !same(at.get(key).value(), was.get(key).value()) {
            errors.push(at.get(key).forbidden(FROZEN));
        }
    }
}

pub(super) fn secret(object: &Value) -> Errors {
    let mut errors = Errors::new();
    let at = At::root(object);
    let data = at.get("data");
    let mut bytes = 0;
    for (key, value) in data.entries() {
        check_key(key, &value, &mut errors);
        bytes += decode_base64(value.text()).unwrap_or_default().len();
    }
    if bytes > DATA_BYTES_MAX {
        errors.push(FieldError::too_long(data.path(), DATA_BYTES_MAX));
    }
    check_typed_keys(&at, &mut errors);
    errors
}

/// Checks the keys that some Secret types require.
fn check_typed_keys(at: &At<'_>, errors: &mut Errors) {
    let data = at.get("data");
    let entry = |key: &str| data.value().and_then(|data| data.get(key));
    let missing = |key: &str| FieldError::required(format!("data[{key}]"), "");
    match at.get("type").text() {
        "kubernetes.io/service-account-token" => {
            let key = "kubernetes.io/service-account.name";
            let annotations = at.get("metadata.annotations");
            let name = annotations.value().map(|annotations| text(annotations, key));
            if name.is_none_or(str::is_empty) {
                errors.push(FieldError::required(format!("metadata.annotations[{key}]"), ""));
            }
        }
        "kubernetes.io/dockercfg" => check_json(".dockercfg", entry(".dockercfg"), errors),
        "kubernetes.io/dockerconfigjson" => {
            check_json(".dockerconfigjson", entry(".dockerconfigjson"), errors);
        }
        "kubernetes.io/basic-auth" => {
            let keys = ["username", "password"];
            if keys.iter().all(|key| entry(key).is_none()) {
                errors.extend(keys.map(missing));
            }
        }
        "kubernetes.io/ssh-auth" => {
            let key = entry("ssh-privatekey").and_then(Value::as_str);
            if key.is_none_or(str::is_empty) {
                errors.push(missing("ssh-privatekey"));
            }
        }
        "kubernetes.io/tls" => {
            let keys = ["tls.crt", "tls.key"].into_iter().filter(|key| entry(key).is_none());
            errors.extend(keys.map(missing));
        }
        _ => {}
    }
}

fn check_json(key: &str, value: Option<&Value>, errors: &mut Errors) {
    let path = format!("data[{key}]");
    let Some(text) = value.and_then(Value::as_str) else {
        errors.push(FieldError::required(path, ""));
        return;
    };
    let bytes = decode_base64(text).unwrap_or_default();
    if let Err(error) = serde_json::from_slice::<serde_json::Map<String, Value>>(&bytes) {
        let shown = Value::from("<secret contents redacted>");
        errors.push(FieldError::invalid(path, &shown, error.to_string()));
    }
}

pub(super) fn secret_update_rules(new: &Value, old: &Value) -> Errors {
    let mut errors = Errors::new();
    let kind = |object| At::root(object).get("type");
    kind(new).unchanged(&kind(old), &mut errors);
    check_frozen(new, old, &["data"], &mut errors);
    errors.extend(secret(new));
    errors
}

pub(super) fn claim(object: &Value) -> Errors {
    let mut errors = Errors::new();
    let spec = At::root(object).get("spec");
    let modes = spec.get("accessModes");
    if modes.is_empty() {
        errors.push(modes.required("at least 1 access mode is required"));
    }
    let supported = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
    for mode in modes.items() {
        mode.called(modes.path()).one_of_if_set(&supported, &mut errors);
    }
    check_selector(&spec.get("selector"), &mut errors);
    let size = spec.get("resources.requests.storage").called("spec.resources[storage]");
    match size.value().and_then(Quantity::from_json) {
        None if !size.is_set() => errors.push(size.required("")),
        Some(amount) if !amount.is_positive() => {
            errors.push(size.invalid("must be greater than zero"));
        }
        _ => check_amount("storage", &size, &mut errors),
    }
    let class = spec.get("storageClassName");
    if !class.text().is_empty() {
        class.complain(names::dns1123_subdomain(class.text()), &mut errors);
    }
    spec.get("volumeMode").one_of_if_set(&["Block", "Filesystem"], &mut errors);
    errors
}

pub(super) fn claim_update(new: &Value, old: &Value) -> Errors {
    let mut errors = claim(new);
    let bound = At::root(new).get("status.phase").text() == "Bound";
    let unnamed = At::root(old).get("spec.volumeName").text().is_empty();
    let fixed = |object: &Value| {
        let mut spec = object.get("spec").cloned().unwrap_or_default();
        default_to(&mut spec, "storageClassName", Value::Null);
        if unnamed {
            remove(&mut spec, "volumeName");
        }
        if bound {
            remove(&mut spec, "volumeAttributesClassName");
            if let Some(requests) = spec.pointer_mut("/resources/requests") {
                remove(requests, "storage");
            }
        }
        spec
    };
    if fixed(new) != fixed(old) {
        errors.push(FieldError::forbidden(
            "spec",
            "spec is immutable after creation except resources.requests and \
             volumeAttributesClassName for bound claims",
        ));
    }
    errors
}
