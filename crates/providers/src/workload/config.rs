//! The `ConfigMap`s and Secrets the target's pods read, and the primary's own copies of them.
//!
//! Configuration is rolled out like code: the target reads the user's objects, the primary reads
//! `<name>-primary`, and a change of the objects that the target reads is a new revision. [`references`]
//! finds them, [`track`] fingerprints them, [`rewrite`] points the primary to the copies and [`copy()`] makes
//! them.

mod checksum;
mod copy;

use std::collections::BTreeMap;

use serde_json::{Value, json};

pub use self::{
    checksum::checksum,
    copy::{Copied, copy, prune},
};
use super::{CONFIG_MAP, SECRET, WorkloadError, name_of, uid_of};
use crate::object::{Kind, controller_of};

/// The two kinds of configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ConfigKind {
    /// A `ConfigMap`.
    ConfigMap,
    /// A Secret.
    Secret,
}

/// One object the pods read.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConfigRef {
    /// Its kind.
    pub kind: ConfigKind,
    /// Its name.
    pub name: String,
    /// Whether the pods start without it, too.
    pub optional: bool,
}

/// The cached facts about a `ConfigMap` or Secret, without its contents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigDigest {
    /// Its kind.
    pub kind: ConfigKind,
    /// Its name.
    pub name: String,
    /// A fingerprint of its contents, as in `status.trackedConfigs`.
    pub checksum: String,
    /// Whether the primary gets a copy of its own.
    pub tracked: bool,
    /// Version of the object this was made from.
    pub resource_version: String,
    /// Its canary, if it was made for one canary only.
    pub made_for: Option<Box<MadeFor>>,
}

/// The one canary that a copy was made for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MadeFor {
    /// Name of the canary.
    pub canary: String,
    /// Identity of the copy.
    pub uid: String,
}

/// Checksums of tracked configuration by `configmap/<name>` and `secret/<name>`, as in
/// `status.trackedConfigs`.
pub type Tracked = BTreeMap<String, String>;

/// Opts an object out with any value that begins with `disable`.
const TRACKING: &str = "flagger.app/config-tracking";
/// Secrets of other types belong to some controller, which would not use a copy.
const TRACKED_SECRET_TYPES: [&str; 4] =
    ["Opaque", "kubernetes.io/basic-auth", "kubernetes.io/ssh-auth", "kubernetes.io/tls"];

/// Every `ConfigMap` and Secret the containers and volumes of a pod name, each once, sorted.
///
/// One that is named both as optional and as mandatory is mandatory: the pod does not start
/// without it.
pub fn references(pod_spec: &Value) -> Vec<ConfigRef> {
    let mut found = BTreeMap::new();
    for place in places(pod_spec) {
        let Some(holder) = pod_spec.pointer(&place.holder) else { continue };
        let Some(name) = holder[place.field].as_str().filter(|name| !name.is_empty()) else {
            continue;
        };
        let optional = holder["optional"] == true;
        let entry = found.entry((place.kind, name.to_owned())).or_insert(optional);
        *entry = *entry && optional;
    }
    found.into_iter().map(|((kind, name), optional)| ConfigRef { kind, name, optional }).collect()
}

/// The state of everything that is referenced and tracked.
///
/// `find` returns the object as it is known, `None` only if it does not exist: a failed read must not look
/// like deleted configuration.
pub fn track<'d>(
    references: &[ConfigRef],
    find: impl Fn(ConfigKind, &str) -> Option<&'d ConfigDigest>,
) -> Result<Tracked, WorkloadError> {
    let mut tracked = Tracked::new();
    for reference in references {
        match find(reference.kind, &reference.name) {
            Some(digest) if digest.tracked => {
                tracked.insert(digest.key(), digest.checksum.clone());
            }
            None if !reference.optional => {
                let (kind, name) = (reference.kind.kind().kind, reference.name.clone());
                return Err(WorkloadError::ConfigMissing { kind, name });
            }
            Some(_) | None => {}
        }
    }
    Ok(tracked)
}

/// Whether configuration differs from the record in the status.
pub fn is_changed(tracked: &Tracked, remembered: Option<&Tracked>) -> bool {
    remembered.map_or(!tracked.is_empty(), |remembered| remembered != tracked)
}

/// Whether the primary gets a copy of the object, rather than reading the user's.
pub fn is_tracked(kind: ConfigKind, object: &Value) -> bool {
    let opted_out = object["metadata"]["annotations"][TRACKING]
        .as_str()
        .is_some_and(|value| value.starts_with("disable"));
    let of_a_controller =
        kind == ConfigKind::Secret && !TRACKED_SECRET_TYPES.contains(&secret_type(object));
    !opted_out && !of_a_controller
}

/// Points a pod to the primary's copies of tracked objects.
pub fn rewrite(pod_spec: &mut Value, tracked: &Tracked) {
    for place in places(pod_spec) {
        let Some(holder) = pod_spec.pointer_mut(&place.holder) else { continue };
        let Some(name) = holder.get_mut(place.field) else { continue };
        let Some(text) = name.as_str() else { continue };
        if tracked.contains_key(&place.kind.key(text)) {
            *name = json!(copy_name(text));
        }
    }
}

/// Name of the primary's copy.
pub fn copy_name(name: &str) -> String {
    format!("{name}-primary")
}

/// The type of a Secret; the API server fills in `Opaque`.
fn secret_type(secret: &Value) -> &str {
    secret["type"].as_str().filter(|text| !text.is_empty()).unwrap_or("Opaque")
}

/// Where a pod may name configuration.
struct Place {
    kind: ConfigKind,
    /// JSON pointer of the object that has the name, within the pod's spec.
    holder: String,
    /// Member that is the name.
    field: &'static str,
}

/// The places that are filled in. Neither image pull secrets nor ephemeral containers nor CSI
/// volumes count, as in Flagger.
fn places(pod_spec: &Value) -> Vec<Place> {
    use ConfigKind::{ConfigMap, Secret};
    let mut places = Vec::new();
    let mut add = |kind, holder: String, field| {
        if pod_spec.pointer(&holder).is_some_and(Value::is_object) {
            places.push(Place { kind, holder, field });
        }
    };
    for volume in items(pod_spec, "/volumes") {
        add(ConfigMap, format!("{volume}/configMap"), "name");
        add(Secret, format!("{volume}/secret"), "secretName");
        for source in items(pod_spec, &format!("{volume}/projected/sources")) {
            add(ConfigMap, format!("{source}/configMap"), "name");
            add(Secret, format!("{source}/secret"), "name");
        }
    }
    for containers in ["/containers", "/initContainers"] {
        for container in items(pod_spec, containers) {
            for variable in items(pod_spec, &format!("{container}/env")) {
                add(ConfigMap, format!("{variable}/valueFrom/configMapKeyRef"), "name");
                add(Secret, format!("{variable}/valueFrom/secretKeyRef"), "name");
            }
            for source in items(pod_spec, &format!("{container}/envFrom")) {
                add(ConfigMap, format!("{source}/configMapRef"), "name");
                add(Secret, format!("{source}/secretRef"), "name");
            }
        }
    }
    places
}

/// JSON pointers of the items of the list at `pointer`.
fn items(value: &Value, pointer: &str) -> Vec<String> {
    let count = value.pointer(pointer).and_then(Value::as_array).map_or(0, Vec::len);
    (0..count).map(|at| format!("{pointer}/{at}")).collect()
}

// === impl ConfigKind ===

impl ConfigKind {
    /// The kind in the API.
    pub const fn kind(self) -> Kind {
        match self {
            Self::ConfigMap => CONFIG_MAP,
            Self::Secret => SECRET,
        }
    }

    /// The key in `status.trackedConfigs`.
    pub fn key(self, name: &str) -> String {
        match self {
            Self::ConfigMap => format!("configmap/{name}"),
            Self::Secret => format!("secret/{name}"),
        }
    }
}

// === impl MadeFor ===

impl MadeFor {
    fn of(object: &Value) -> Option<Self> {
        let (kind, canary) = controller_of(object)?;
        let is_shared = !copy::other_canaries(canary, object).is_empty();
        let is_of_one = kind == "Canary" && !is_shared;
        is_of_one.then(|| Self { canary: canary.to_owned(), uid: uid_of(object).to_owned() })
    }
}

// === impl ConfigDigest ===

impl ConfigDigest {
    /// Reads the facts from an object; its contents can be dropped then.
    pub fn of(kind: ConfigKind, object: &Value) -> Self {
        let version = object["metadata"]["resourceVersion"].as_str().unwrap_or_default();
        Self {
            kind,
            name: name_of(object).to_owned(),
            checksum: checksum(kind, object),
            tracked: is_tracked(kind, object),
            resource_version: version.to_owned(),
            made_for: MadeFor::of(object).map(Box::new),
        }
    }

    /// The key in `status.trackedConfigs`.
    pub fn key(&self) -> String {
        self.kind.key(&self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pod that reads something in every place, tracked or not.
    fn pod() -> Value {
        json!({
            "volumes": [
                { "name": "a", "configMap": { "name": "in-volume" } },
                { "name": "b", "secret": { "secretName": "in-volume", "optional": true } },
                { "name": "c", "projected": { "sources": [
                    { "configMap": { "name": "in-projection", "optional": true } },
                    { "secret": { "name": "in-projection" } },
                    { "serviceAccountToken": { "path": "token" } },
                ] } },
                { "name": "d", "emptyDir": {} },
                { "name": "e", "csi": { "nodePublishSecretRef": { "name": "of-a-driver" } } },
            ],
            "containers": [{ "name": "app", "env": [
                { "name": "A", "value": "plain" },
                { "name": "B", "valueFrom": { "configMapKeyRef": { "name": "in-env" } } },
                { "name": "C", "valueFrom": { "secretKeyRef": { "name": "in-env", "key": "k" } } },
                { "name": "D", "valueFrom": { "fieldRef": { "fieldPath": "metadata.name" } } },
            ], "envFrom": [
                { "configMapRef": { "name": "in-env-from" } },
                { "secretRef": { "name": "in-env-from", "optional": true } },
            ] }],
            "initContainers": [{ "name": "init", "envFrom": [
                { "configMapRef": { "name": "in-init" } },
                { "secretRef": { "name": "in-env-from" } },
            ] }],
            "ephemeralContainers": [{ "envFrom": [{ "configMapRef": { "name": "in-debugger" } }] }],
            "imagePullSecrets": [{ "name": "of-the-registry" }],
        })
    }

    fn digest(kind: ConfigKind, name: &str) -> ConfigDigest {
        ConfigDigest::of(kind, &json!({ "metadata": { "name": name, "resourceVersion": "7" } }))
    }

    #[test]
    fn every_place_that_reads_configuration_is_found() {
        let found: Vec<_> = references(&pod())
            .iter()
            .map(|reference| (reference.kind.key(&reference.name), reference.optional))
            .collect();
        let want = [
            ("configmap/in-env", false),
            ("configmap/in-env-from", false),
            ("configmap/in-init", false),
            ("configmap/in-projection", true),
            ("configmap/in-volume", false),
            ("secret/in-env", false),
            ("secret/in-env-from", false),
            ("secret/in-projection", false),
            ("secret/in-volume", true),
        ];
        assert_eq!(found, want.map(|(key, optional)| (key.to_owned(), optional)));
    }

    #[test]
    fn a_mandatory_mention_wins_in_any_order() {
        for order in [[true, false], [false, true]] {
            let mentions = order
                .map(|optional| json!({ "configMapRef": { "name": "c", "optional": optional } }));
            let pod = json!({ "containers": [{ "envFrom": mentions }] });
            assert!(!references(&pod).first().unwrap().optional, "{order:?}");
        }
    }

    #[test]
    fn a_pod_that_is_no_pod_reads_nothing() {
        for pod in [json!(null), json!("text"), json!({ "volumes": { "0": 1 }, "containers": [7] })]
        {
            assert_eq!(references(&pod), [], "{pod}");
        }
        let unnamed =
            json!({ "containers": [{ "envFrom": [{ "configMapRef": { "name": "" } }] }] });
        assert_eq!(references(&unnamed), []);
    }

    #[test]
    fn tracked_references_are_rewritten_and_no_others() {
        let mut rewritten = pod();
        let mut tracked: Tracked = references(&pod())
            .iter()
            .map(|reference| (reference.kind.key(&reference.name), String::new()))
            .collect();
        tracked.remove("secret/in-env");
        rewrite(&mut rewritten, &tracked);
        let names: Vec<_> = references(&rewritten)
            .iter()
            .map(|reference| reference.kind.key(&reference.name))
            .collect();
        let mut want: Vec<_> = tracked.keys().map(|key| copy_name(key)).collect();
        want.push("secret/in-env".to_owned());
        want.sort();
        assert_eq!(names, want);
        assert_eq!(rewritten["imagePullSecrets"], pod()["imagePullSecrets"]);
        assert_eq!(rewritten["ephemeralContainers"], pod()["ephemeralContainers"]);
        assert_eq!(rewritten["volumes"][1]["secret"]["secretName"], "in-volume-primary");
        assert_eq!(rewritten["volumes"][1]["secret"].get("name"), None, "no member is added");
    }

    #[test]
    fn objects_can_be_left_out_of_tracking() {
        use ConfigKind::{ConfigMap, Secret};
        let annotated = |value: &str| json!({ "metadata": { "annotations": { TRACKING: value } } });
        let cases = [
            ("a plain ConfigMap", ConfigMap, json!({}), true),
            ("opted out", ConfigMap, annotated("disabled"), false),
            ("opted out in short", Secret, annotated("disable"), false),
            ("anything else means nothing", ConfigMap, annotated("enabled"), true),
            ("a Secret without a type", Secret, json!({}), true),
            ("certificates", Secret, json!({ "type": "kubernetes.io/tls" }), true),
            ("tokens", Secret, json!({ "type": "kubernetes.io/service-account-token" }), false),
            ("Helm's", Secret, json!({ "type": "helm.sh/release.v1" }), false),
            ("types are for Secrets", ConfigMap, json!({ "type": "helm.sh/release.v1" }), true),
        ];
        for (reason, kind, object, want) in cases {
            assert_eq!(is_tracked(kind, &object), want, "{reason}");
        }
    }

    #[test]
    fn missing_configuration_is_an_error_unless_it_is_optional() {
        let map = digest(ConfigKind::ConfigMap, "here");
        let find = |kind, name: &str| (kind == map.kind && name == map.name).then_some(&map);
        let reference = |name: &str, optional| ConfigRef {
            kind: ConfigKind::ConfigMap,
            name: name.to_owned(),
            optional,
        };
        let tracked = track(&[reference("here", false), reference("gone", true)], find).unwrap();
        assert_eq!(tracked.keys().collect::<Vec<_>>(), ["configmap/here"]);
        let error = track(&[reference("gone", false)], find).unwrap_err();
        assert_eq!(error.label(), "ConfigMissing");
        assert!(error.to_string().contains("ConfigMap `gone`"), "{error}");
    }

    #[test]
    fn configuration_changes_when_entries_come_go_or_differ() {
        let one = Tracked::from([("configmap/a".to_owned(), "1".to_owned())]);
        let other = Tracked::from([("configmap/a".to_owned(), "2".to_owned())]);
        let none = Tracked::new();
        let cases = [
            ("tracking was just turned on", &one, None, true),
            ("tracking was turned on and nothing is read", &none, None, false),
            ("as it was", &one, Some(&one), false),
            ("other contents", &other, Some(&one), true),
            ("nothing is read any more", &none, Some(&one), true),
        ];
        for (reason, tracked, remembered, want) in cases {
            assert_eq!(is_changed(tracked, remembered), want, "{reason}");
        }
    }
}
