//! Validation of definitions, with the error texts of Kubernetes.
//!
//! Kubernetes internally moves parts that all versions share to the top of the spec, so errors in a
//! schema that all versions have point to `spec.validation`, not into a version. So do these.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{flag, list, raw_versions, text};
use crate::{
    failure::FieldError,
    names,
    schema::{FieldPath, Schema},
};

const APPROVAL: &str = "api-approved.kubernetes.io";
const COLUMN_TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
const COLUMN_FORMATS: [&str; 8] =
    ["byte", "date", "date-time", "double", "float", "int32", "int64", "password"];
const MAX_SELECTABLE_FIELDS: usize = 8;

/// Keywords allowed at the root of a schema with a status subresource, with their Go names.
const ROOT_KEYWORDS: [(&str, &str); 22] = [
    ("description", "Description"),
    ("type", "Type"),
    ("format", "Format"),
    ("title", "Title"),
    ("maximum", "Maximum"),
    ("exclusiveMaximum", "ExclusiveMaximum"),
    ("minimum", "Minimum"),
    ("exclusiveMinimum", "ExclusiveMinimum"),
    ("maxLength", "MaxLength"),
    ("minLength", "MinLength"),
    ("pattern", "Pattern"),
    ("maxItems", "MaxItems"),
    ("minItems", "MinItems"),
    ("uniqueItems", "UniqueItems"),
    ("multipleOf", "MultipleOf"),
    ("required", "Required"),
    ("items", "Items"),
    ("properties", "Properties"),
    ("externalDocs", "ExternalDocs"),
    ("example", "Example"),
    ("x-kubernetes-preserve-unknown-fields", "XPreserveUnknownFields"),
    ("x-kubernetes-validations", "XValidations"),
];

/// All that is wrong with a definition, defaulted before. `old` is the stored one on update.
pub(crate) fn validate(crd: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let null = Value::Null;
    let spec = crd.get("spec").unwrap_or(&null);
    let mut errors = Vec::new();
    // A stored name was valid; an update that breaks it is refused as a change of an immutable
    // field.
    if old.is_none() {
        check_name(crd, spec, &mut errors);
    }
    check_group(text(spec, "group"), &mut errors);
    check_option("spec.scope", text(spec, "scope"), &["Cluster", "Namespaced"], &mut errors);
    check_versions(crd, spec, &mut errors);
    check_names(spec.get("names").unwrap_or(&null), "spec.names", true, &mut errors);
    check_conversion(spec, &mut errors);
    if let Some(old) = old {
        check_immutable(spec, old, &mut errors);
    }
    check_stored_versions(crd, &mut errors);
    check_approval(crd, old, &mut errors);
    let preserves =
        |crd: &Value| flag(crd.get("spec").unwrap_or(&Value::Null), "preserveUnknownFields");
    if preserves(crd) && !old.is_some_and(preserves) {
        let detail = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in \
                      spec.versions[*].schema instead";
        errors.push(FieldError::invalid("spec.preserveUnknownFields", &true.into(), detail));
    }
    errors
}

fn check_name(crd: &Value, spec: &Value, errors: &mut Vec<FieldError>) {
    let name = crd.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
    if name.is_empty() {
        let detail = "name or generateName is required";
        errors.push(FieldError::required("metadata.name", detail));
        return;
    }
    let plural = spec.get("names").map_or("", |names| text(names, "plural"));
    let fits = name == format!("{plural}.{}", text(spec, "group"));
    let wrong = (!fits).then(|| r#"must be spec.names.plural+"."+spec.group"#.to_owned());
    for detail in refuse_subdomain(name).into_iter().chain(wrong) {
        errors.push(FieldError::invalid("metadata.name", &name.into(), detail));
    }
}

fn check_group(group: &str, errors: &mut Vec<FieldError>) {
    if group.is_empty() {
        errors.push(FieldError::required("spec.group", ""));
    } else if let Some(detail) = refuse_subdomain(group) {
        errors.push(FieldError::invalid("spec.group", &group.into(), detail));
    } else if !group.contains('.') {
        let detail = "should be a domain with at least one dot";
        errors.push(FieldError::invalid("spec.group", &group.into(), detail));
    }
}

fn check_option(path: &str, value: &str, options: &[&str], errors: &mut Vec<FieldError>) {
    if value.is_empty() {
        errors.push(FieldError::required(path, ""));
    } else if !options.contains(&value) {
        errors.push(FieldError::not_supported(path, &value.into(), options));
    }
}

/// Path of a version's part in Kubernetes' internal form of the definition: at the top, and checked
/// once, if all versions have the same.
fn place(versions: &[Value], index: usize, part: &str, top: &str) -> Option<String> {
    let of = |version: &Value| version.get(part).cloned().unwrap_or_default();
    let first = versions.first().map(of);
    let shared = versions.iter().all(|version| Some(of(version)) == first);
    match (shared, index) {
        (true, 0) => Some(format!("spec.{top}")),
        (true, _) => None,
        (false, index) => Some(format!("spec.versions[{index}].{part}")),
    }
}

fn check_versions(crd: &Value, spec: &Value, errors: &mut Vec<FieldError>) {
    let versions = raw_versions(crd);
    for (index, version) in versions.iter().enumerate() {
        if version.pointer("/schema/openAPIV3Schema").is_none_or(Value::is_null) {
            let path = format!("spec.versions[{index}].schema.openAPIV3Schema");
            errors.push(FieldError::required(path, ""));
        }
    }
    let any_status = versions.iter().any(has_status);
    for (index, version) in versions.iter().enumerate() {
        let path = format!("spec.versions[{index}]");
        if let Some(detail) = refuse_label(text(version, "name")) {
            let name = text(version, "name").into();
            errors.push(FieldError::invalid(format!("{path}.name"), &name, detail));
        }
        check_deprecation(version, &path, errors);
        if let Some(path) = place(versions, index, "schema", "validation") {
            let with_status =
                if path == "spec.validation" { any_status } else { has_status(version) };
            check_schema(version, with_status, &path, errors);
        }
        if let Some(path) = place(versions, index, "subresources", "subresources") {
            check_scale(version, &path, errors);
        }
        let columns = "additionalPrinterColumns";
        if let Some(path) = place(versions, index, columns, columns) {
            for (at, column) in list(version, columns).iter().enumerate() {
                check_column(column, &format!("{path}[{at}]"), errors);
            }
        }
    }
    // Kubernetes copies the name of the first version into a field of its own, and checks it again.
    let first = versions.first().map_or("", |version| text(version, "name"));
    if let Some(detail) = refuse_label(first).filter(|_| !first.is_empty()) {
        errors.push(FieldError::invalid("spec.version", &first.into(), detail));
    }
    let shown = spec.get("versions").cloned().unwrap_or_default();
    let names: BTreeSet<&str> = versions.iter().map(|version| text(version, "name")).collect();
    if names.len() != versions.len() {
        let detail = "must contain unique version names";
        errors.push(FieldError::invalid("spec.versions", &shown, detail));
    }
    if versions.iter().filter(|version| flag(version, "storage")).count() != 1 {
        let detail = "must have exactly one version marked as storage version";
        errors.push(FieldError::invalid("spec.versions", &shown, detail));
    }
}

fn has_status(version: &Value) -> bool {
    version.pointer("/subresources/status").is_some_and(Value::is_object)
}

fn check_deprecation(version: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let Some(warning) = version.get("deprecationWarning").and_then(Value::as_str) else { return };
    let mut refuse = |detail: &str| {
        let path = format!("{path}.deprecationWarning");
        errors.push(FieldError::invalid(path, &warning.into(), detail));
    };
    if !flag(version, "deprecated") {
        refuse("can only be set for deprecated versions");
        return;
    }
    if warning.len() > 256 {
        refuse("must be <= 256 characters long");
    }
    if warning.is_empty() {
        refuse("must not be an empty string");
    }
    if let Some((index, _)) = warning.char_indices().find(|(_, character)| character.is_control()) {
        refuse(&format!(
            "must only contain printable UTF-8 characters; non-printable character found at index \
             {index}"
        ));
    }
}

fn check_schema(version: &Value, with_status: bool, path: &str, errors: &mut Vec<FieldError>) {
    let Some(raw) = version.pointer("/schema/openAPIV3Schema").filter(|raw| !raw.is_null()) else {
        return;
    };
    let path = format!("{path}.openAPIV3Schema");
    if with_status && let Some(fields) = raw.as_object() {
        let is_allowed = |name: &String| ROOT_KEYWORDS.iter().any(|(keyword, _)| keyword == name);
        if text(raw, "type") != "object" && !text(raw, "type").is_empty() {
            let detail = "only \"object\" is allowed as the type at the root of the schema if the \
                          status subresource is enabled";
            let kind = text(raw, "type").into();
            errors.push(FieldError::invalid(format!("{path}.type"), &kind, detail));
        }
        if !fields.keys().all(is_allowed) {
            let names: Vec<&str> = ROOT_KEYWORDS.iter().map(|(_, name)| *name).collect();
            let detail = format!(
                "only [{}] fields are allowed at the root of the schema if the status subresource \
                 is enabled",
                names.join(" ")
            );
            errors.push(FieldError::invalid(&path, raw, detail));
        }
    }
    match super::compiled::compile(raw, &path) {
        Ok(schema) => check_selectable(version, &schema, errors),
        Err(found) => errors.extend(found),
    }
}

fn check_selectable(version: &Value, schema: &Schema, errors: &mut Vec<FieldError>) {
    let fields = list(version, "selectableFields");
    let mut seen = BTreeSet::new();
    for (index, field) in fields.iter().enumerate() {
        let path = format!("spec.selectableFields[{index}].jsonPath");
        let json_path = text(field, "jsonPath");
        let shown = Value::from(json_path);
        if json_path.is_empty() {
            errors.push(FieldError::required(path, ""));
            continue;
        }
        let parsed = FieldPath::parse(json_path).and_then(|parsed| {
            if parsed.uses_brackets() {
                Err("array notation is not allowed".to_owned())
            } else if schema.declares(&parsed) {
                Ok(parsed)
            } else {
                Err("does not refer to a valid field".to_owned())
            }
        });
        let parsed = match parsed {
            Ok(parsed) => parsed,
            Err(why) => {
                let detail = format!("is an invalid path: {why}");
                errors.push(FieldError::invalid(path, &shown, detail));
                continue;
            }
        };
        if parsed.first() == Some("metadata") {
            let detail = "must not point to fields in metadata";
            errors.push(FieldError::invalid(&path, &shown, detail));
        }
        if !matches!(schema.scalar_type_at(&parsed), Some("string" | "boolean" | "integer")) {
            let detail = "must point to a field of type string, boolean or integer. Enum string \
                          fields and strings with formats are allowed.";
            errors.push(FieldError::invalid(&path, &shown, detail));
        }
        if !seen.insert(json_path) {
            errors.push(FieldError::duplicate(path, &shown));
        }
    }
    if seen.len() > MAX_SELECTABLE_FIELDS {
        let error =
            FieldError::too_many("spec.selectableFields", seen.len(), MAX_SELECTABLE_FIELDS);
        errors.push(error);
    }
}

fn check_scale(version: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let Some(scale) = version.pointer("/subresources/scale").filter(|scale| !scale.is_null())
    else {
        return;
    };
    let rows: [(&str, bool, &[&str], &str); 3] = [
        ("specReplicasPath", true, &[".spec."], "should be a json path under .spec"),
        ("statusReplicasPath", true, &[".status."], "should be a json path under .status"),
        (
            "labelSelectorPath",
            false,
            &[".spec.", ".status."],
            "should be a json path under either .spec or .status",
        ),
    ];
    for (name, is_required, prefixes, detail) in rows {
        let json_path = text(scale, name);
        let path = format!("{path}.scale.{name}");
        if json_path.is_empty() {
            if is_required {
                errors.push(FieldError::required(path, ""));
            }
        } else if !json_path.starts_with('.') {
            let detail = "must be a simple json path starting with .";
            errors.push(FieldError::invalid(path, &json_path.into(), detail));
        } else if !prefixes.iter().any(|prefix| json_path.starts_with(prefix)) {
            errors.push(FieldError::invalid(path, &json_path.into(), detail));
        }
    }
}

fn check_column(column: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let (kind, format, json_path) =
        (text(column, "type"), text(column, "format"), text(column, "jsonPath"));
    if text(column, "name").is_empty() {
        errors.push(FieldError::required(format!("{path}.name"), ""));
    }
    let types = format!("must be one of {}", COLUMN_TYPES.join(","));
    if kind.is_empty() {
        errors.push(FieldError::required(format!("{path}.type"), types));
    } else if !COLUMN_TYPES.contains(&kind) {
        errors.push(FieldError::invalid(format!("{path}.type"), &kind.into(), types));
    }
    if !format.is_empty() && !COLUMN_FORMATS.contains(&format) {
        let detail = format!("must be one of {}", COLUMN_FORMATS.join(","));
        errors.push(FieldError::invalid(format!("{path}.format"), &format.into(), detail));
    }
    // Kubernetes prints the path in the capitals of its Go field.
    if json_path.is_empty() {
        errors.push(FieldError::required(format!("{path}.JSONPath"), ""));
    } else if !json_path.starts_with('.') {
        let detail = "must be a simple json path starting with .";
        errors.push(FieldError::invalid(format!("{path}.JSONPath"), &json_path.into(), detail));
    }
}

fn check_names(names: &Value, path: &str, are_required: bool, errors: &mut Vec<FieldError>) {
    let fields = ["plural", "singular", "kind", "listKind"];
    for name in fields {
        if are_required && text(names, name).is_empty() {
            errors.push(FieldError::required(format!("{path}.{name}"), ""));
        }
    }
    for name in fields {
        let value = text(names, name);
        let is_kind = name == "kind" || name == "listKind";
        let label = if is_kind { value.to_lowercase() } else { value.to_owned() };
        if let Some(why) = refuse_label(&label).filter(|_| !value.is_empty()) {
            let detail = if is_kind {
                format!("may have mixed case, but should otherwise match: {why}")
            } else {
                why
            };
            errors.push(FieldError::invalid(format!("{path}.{name}"), &value.into(), detail));
        }
    }
    for plural in ["shortNames", "categories"] {
        for (index, value) in list(names, plural).iter().enumerate() {
            if let Some(detail) = refuse_label(value.as_str().unwrap_or_default()) {
                errors.push(FieldError::invalid(
                    format!("{path}.{plural}[{index}]"),
                    value,
                    detail,
                ));
            }
        }
    }
    let (kind, list_kind) = (text(names, "kind"), text(names, "listKind"));
    if !kind.is_empty() && kind == list_kind {
        let detail = "kind and listKind may not be the same";
        errors.push(FieldError::invalid(format!("{path}.listKind"), &list_kind.into(), detail));
    }
}

fn check_conversion(spec: &Value, errors: &mut Vec<FieldError>) {
    let Some(conversion) = spec.get("conversion").filter(|each| !each.is_null()) else { return };
    let path = "spec.conversion.strategy";
    let strategy = text(conversion, "strategy");
    check_option(path, strategy, &["None", "Webhook"], errors);
    if strategy == "Webhook" {
        let detail = "the sandbox calls no conversion webhooks: it serves every version of an \
                      object with the same content, which is strategy None";
        errors.push(FieldError::forbidden(path, detail));
    } else if conversion.get("webhook").is_some_and(|webhook| !webhook.is_null()) {
        let detail = "should not be set when strategy is not set to Webhook";
        errors.push(FieldError::forbidden("spec.conversion.webhookClientConfig", detail));
    }
}

fn check_immutable(spec: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    let null = Value::Null;
    let old_spec = old.get("spec").unwrap_or(&null);
    let is_established = old.get("status").is_some_and(|status| {
        list(status, "conditions").iter().any(|condition| {
            text(condition, "type") == "Established" && text(condition, "status") == "True"
        })
    });
    // The first two are immutable only once objects may exist.
    let rows = [
        ("/scope", "spec.scope", is_established),
        ("/names/kind", "spec.names.kind", is_established),
        ("/group", "spec.group", true),
        ("/names/plural", "spec.names.plural", true),
    ];
    for (pointer, path, is_immutable) in rows {
        let value = spec.pointer(pointer).unwrap_or(&null);
        if is_immutable && Some(value) != old_spec.pointer(pointer) {
            errors.push(FieldError::invalid(path, value, "field is immutable"));
        }
    }
}

fn check_stored_versions(crd: &Value, errors: &mut Vec<FieldError>) {
    let path = "status.storedVersions";
    let stored = crd.get("status").map_or(&[] as &[Value], |status| list(status, "storedVersions"));
    let shown = Value::from(stored.to_vec());
    if stored.is_empty() {
        let detail = "must have at least one stored version";
        errors.push(FieldError::invalid(path, &shown, detail));
        return;
    }
    let versions = raw_versions(crd);
    for version in versions {
        let name = text(version, "name");
        if flag(version, "storage") && !stored.iter().any(|stored| stored == name) {
            let detail = format!("must have the storage version {name}");
            errors.push(FieldError::invalid(path, &shown, detail));
        }
    }
    for (index, stored) in stored.iter().enumerate() {
        let name = stored.as_str().unwrap_or_default();
        if !versions.iter().any(|version| text(version, "name") == name) {
            let detail = format!(
                "missing from spec.versions; {name} was previously a storage version, and must \
                 remain in spec.versions until a storage migration ensures no data remains \
                 persisted in {name} and removes {name} from status.storedVersions"
            );
            errors.push(FieldError::invalid(format!("{path}[{index}]"), stored, detail));
        }
    }
}

/// Groups of the Kubernetes community need a link to their API review.
fn check_approval(crd: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    let group = crd.pointer("/spec/group").and_then(Value::as_str).unwrap_or_default();
    let is_protected = ["k8s.io", "kubernetes.io"].iter().any(|domain| {
        group.strip_suffix(domain).is_some_and(|sub| sub.is_empty() || sub.ends_with('.'))
    });
    let approval = Approval::of(crd);
    if !is_protected || old.map(Approval::of) == Some(approval) {
        return;
    }
    let path = format!("metadata.annotations[{APPROVAL}]");
    let link = "see https://github.com/kubernetes/enhancements/pull/1111";
    match approval {
        Approval::Given => {}
        Approval::Missing => {
            let detail =
                format!("protected groups must have approval annotation {APPROVAL:?}, {link}");
            errors.push(FieldError::required(path, detail));
        }
        Approval::Malformed => {
            let detail = format!(
                "protected groups must have approval annotation {APPROVAL:?} with either a URL or \
                 a reason starting with \"unapproved\", {link}"
            );
            errors.push(FieldError::invalid(path, &Approval::text(crd).into(), detail));
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Approval {
    Given,
    Missing,
    Malformed,
}

impl Approval {
    fn text(crd: &Value) -> &str {
        crd.pointer("/metadata/annotations").map_or("", |annotations| text(annotations, APPROVAL))
    }

    fn of(crd: &Value) -> Self {
        let annotation = Self::text(crd);
        let is_url = annotation
            .split_once("://")
            .is_some_and(|(scheme, rest)| !scheme.is_empty() && !rest.is_empty());
        match annotation {
            "" => Self::Missing,
            text if text.starts_with("unapproved") || is_url => Self::Given,
            _ => Self::Malformed,
        }
    }
}

/// The error for a text that is no DNS-1035 label (`my-name`), if it is none.
fn refuse_label(text: &str) -> Option<String> {
    joined(&names::dns1035_label(text))
}

/// The error for a text that is no DNS-1123 subdomain (`example.com`), if it is none.
fn refuse_subdomain(text: &str) -> Option<String> {
    joined(&names::dns1123_subdomain(text))
}

fn joined(complaints: &[String]) -> Option<String> {
    (!complaints.is_empty()).then(|| complaints.join(","))
}
