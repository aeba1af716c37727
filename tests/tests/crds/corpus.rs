//! Reads the manifests under `testdata` and the CRDs they are compared with.

use std::{collections::BTreeMap, fs, path::PathBuf};

use kube_sandbox::schema::Schema;
use serde_json::Value;

/// A manifest and the file it stands in.
pub(crate) struct Manifest {
    pub(crate) file: String,
    pub(crate) object: Value,
}

/// The schemas of all kinds, compiled.
pub(crate) struct Kinds(BTreeMap<String, Schema>);

/// A path below the root of the repository.
pub(crate) fn repository(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}

/// All documents of all files in a folder under `testdata`, in order of file name.
pub(crate) fn documents(folder: &str) -> Vec<Manifest> {
    let folder = repository("testdata").join(folder);
    let mut files: Vec<_> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let mut documents = Vec::new();
    for path in files {
        let file = path.file_name().unwrap().to_string_lossy().into_owned();
        let text = fs::read_to_string(&path).unwrap();
        let parsed: Vec<Value> = serde_saphyr::from_multiple(&text)
            .unwrap_or_else(|error| panic!("{file} is no YAML: {error}"));
        documents.extend(parsed.into_iter().map(|object| Manifest { file: file.clone(), object }));
    }
    documents
}

/// The good manifests by `Kind/name`.
pub(crate) fn by_name() -> BTreeMap<String, Value> {
    let manifests = documents("manifests");
    let count = manifests.len();
    let named: BTreeMap<_, _> = manifests.into_iter().map(|m| (m.name(), m.object)).collect();
    assert_eq!(named.len(), count, "no two manifests share kind and name");
    named
}

/// The schema of a CRD of one version.
pub(crate) fn schema_of(crd: &Value) -> &Value {
    &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
}

// === impl Manifest ===

impl Manifest {
    pub(crate) fn kind(&self) -> &str {
        self.object["kind"].as_str().unwrap()
    }

    pub(crate) fn name(&self) -> String {
        format!("{}/{}", self.kind(), self.object["metadata"]["name"].as_str().unwrap())
    }
}

// === impl Kinds ===

impl Kinds {
    pub(crate) fn compile() -> Self {
        let compile = |crd: &Value| {
            let kind = crd["spec"]["names"]["kind"].as_str().unwrap().to_owned();
            let schema = Schema::compile(schema_of(crd))
                .unwrap_or_else(|errors| panic!("{kind} has no valid schema: {errors:?}"));
            (kind, schema)
        };
        Self(tidegate_api::crds().iter().map(compile).collect())
    }

    pub(crate) fn of(&self, object: &Value) -> &Schema {
        &self.0[object["kind"].as_str().unwrap()]
    }

    /// The API server's refusals of this object.
    pub(crate) fn refusals(&self, object: &Value, old: Option<&Value>) -> Vec<String> {
        let errors = self.of(object).validate(object, old);
        errors.iter().map(ToString::to_string).collect()
    }

    /// The object as the API server would store it, and the fields it dropped.
    pub(crate) fn stored(&self, object: &Value) -> (Value, Vec<String>) {
        let mut stored = object.clone();
        let dropped = self.of(object).prune(&mut stored);
        self.of(object).default(&mut stored);
        (stored, dropped)
    }
}

/// Decodes an object into the type of its kind and encodes it again.
pub(crate) fn through_types(object: &Value) -> serde_json::Result<Value> {
    macro_rules! through {
        ($($kind:ident),+) => {
            match object["kind"].as_str().unwrap() {
                $(stringify!($kind) => {
                    let typed: tidegate_api::$kind = serde_json::from_value(object.clone())?;
                    serde_json::to_value(typed)
                })+
                other => panic!("no type for kind {other}"),
            }
        };
    }
    through!(
        Canary,
        MetricTemplate,
        AlertProvider,
        GameDeployment,
        GameStatefulSet,
        HookTemplate,
        HookRun
    )
}

/// Applies a JSON merge patch (RFC 7386).
pub(crate) fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        target.clone_from(patch);
        return;
    };
    if !target.is_object() {
        *target = Value::Object(serde_json::Map::new());
    }
    for (key, value) in patch {
        if value.is_null() {
            target.as_object_mut().unwrap().remove(key);
        } else {
            merge(&mut target[key], value);
        }
    }
}
