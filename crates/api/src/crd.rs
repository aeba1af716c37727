//! The seven CRDs, put together from the types.
//!
//! Properties of a kind that its type cannot carry (printer columns, categories, subresources) are
//! in the table below; schemas come from the types by way of [`structural`]. The order of [`crds`]
//! is fixed, and the files under `deploy/crds` are these values, written by [`to_yaml`].

mod structural;
mod yaml;

use kube::Resource;
use schemars::JsonSchema;
use serde_json::{Map, Value, json};

use crate::{
    AlertProvider, Canary, GameDeployment, GameStatefulSet, HookRun, HookTemplate, MetricTemplate,
    alert_provider::AlertProviderSpec,
    canary::{CanarySpec, CanaryStatus},
    game::{
        GameDeploymentSpec, GameDeploymentStatus, GameStatefulSetSpec, GameStatefulSetStatus,
        HookRunSpec, HookRunStatus, HookTemplateSpec,
    },
    metric_template::MetricTemplateSpec,
    schema::rule,
};

pub use self::yaml::to_yaml;

/// The longest name a game workload may have. The name of a revision is `<name>-<ten characters>`
/// and travels as a label value, which has 63 characters at most.
const WORKLOAD_NAME_MAX: usize = 63 - 1 - 10;

/// One printer column: name, type, path and priority (0 is always shown, 1 with `-o wide`).
struct Column(&'static str, &'static str, &'static str, u8);

/// A CRD in the making.
struct Definition {
    group: &'static str,
    kind: String,
    plural: String,
    version: String,
    short_names: &'static [&'static str],
    description: &'static str,
    /// Members of the root next to `apiVersion`, `kind` and `metadata`.
    parts: Vec<(&'static str, Value)>,
    rules: Vec<Value>,
    columns: &'static [Column],
    subresources: Value,
}

/// The CRDs of all kinds, in a fixed order, as JSON.
pub fn crds() -> Vec<Value> {
    let definitions = [
        canary(),
        metric_template(),
        alert_provider(),
        game_deployment(),
        game_stateful_set(),
        hook_template(),
        hook_run(),
    ];
    definitions.into_iter().map(Definition::into_crd).collect()
}

fn canary() -> Definition {
    let mut crd = Definition::new::<Canary>(
        FLAGGER,
        "A workload whose new revisions are rolled out step by step, checked on the way, and \
         rolled back when a check fails.",
    );
    crd.part::<CanarySpec>("spec", "The workload to roll out, and how.");
    crd.part::<CanaryStatus>("status", "Where the rollout stands. Written by the controller.");
    crd.columns = &[
        Column("Status", "string", ".status.phase", 0),
        Column("Weight", "string", ".status.canaryWeight", 0),
        Column("Suspended", "boolean", ".spec.suspend", 1),
        Column("FailedChecks", "string", ".status.failedChecks", 1),
        Column("Interval", "string", ".spec.analysis.interval", 1),
        Column("Mirror", "boolean", ".spec.analysis.mirror", 1),
        Column("StepWeight", "string", ".spec.analysis.stepWeight", 1),
        Column("StepWeights", "string", ".spec.analysis.stepWeights", 1),
        Column("MaxWeight", "string", ".spec.analysis.maxWeight", 1),
        Column("LastTransitionTime", "string", ".status.lastTransitionTime", 0),
    ];
    crd
}

fn metric_template() -> Definition {
    let mut crd =
        Definition::new::<MetricTemplate>(FLAGGER, "A query for a metric, shared by canaries.");
    crd.part::<MetricTemplateSpec>("spec", "A query and who answers it.");
    crd.columns = &[Column("Provider", "string", ".spec.provider.type", 0)];
    crd
}

fn alert_provider() -> Definition {
    let mut crd = Definition::new::<AlertProvider>(
        FLAGGER,
        "A chat service that rollouts report to, shared by canaries.",
    );
    crd.part::<AlertProviderSpec>("spec", "A chat service and how to reach it.");
    crd.columns = &[Column("Type", "string", ".spec.type", 0)];
    crd
}

fn game_deployment() -> Definition {
    let mut crd = Definition::new::<GameDeployment>(
        GAME,
        "Stateless pods that are released step by step and can be updated in place.",
    );
    crd.part::<GameDeploymentSpec>("spec", "The pods to run, and how to update them.");
    crd.part::<GameDeploymentStatus>(
        "status",
        "Where the workload stands. Written by the controller.",
    );
    crd.short_names = &["gd"];
    crd.columns = &[
        Column("DESIRED", "integer", ".spec.replicas", 0),
        Column("UPDATED", "integer", ".status.updatedReplicas", 0),
        Column("UPDATED_READY", "integer", ".status.updatedReadyReplicas", 0),
        Column("READY", "integer", ".status.readyReplicas", 0),
        Column("TOTAL", "integer", ".status.replicas", 0),
        Column("STEP", "integer", ".status.currentStepIndex", 0),
        Column("PAUSE", "string", ".status.pauseConditions[*].reason", 0),
        Column("Age", "date", ".metadata.creationTimestamp", 0),
    ];
    crd.make_workload();
    crd
}

fn game_stateful_set() -> Definition {
    let mut crd = Definition::new::<GameStatefulSet>(
        GAME,
        "Numbered pods that are released step by step and can be updated in place.",
    );
    crd.part::<GameStatefulSetSpec>("spec", "The pods to run, and how to update them.");
    crd.part::<GameStatefulSetStatus>(
        "status",
        "Where the workload stands. Written by the controller.",
    );
    crd.short_names = &["gsts"];
    crd.columns = &[
        Column("Replicas", "integer", ".spec.replicas", 0),
        Column("ReadyReplicas", "integer", ".status.readyReplicas", 0),
        Column("CurrentReplicas", "integer", ".status.currentReplicas", 0),
        Column("UpdatedReplicas", "integer", ".status.updatedReplicas", 0),
        Column("UpdatedReady_Replicas", "integer", ".status.updatedReadyReplicas", 0),
        Column("Step", "integer", ".status.currentStepIndex", 0),
        Column("Pause", "string", ".status.pauseConditions[*].reason", 0),
        Column("Age", "date", ".metadata.creationTimestamp", 0),
    ];
    crd.make_workload();
    crd
}

fn hook_template() -> Definition {
    let mut crd = Definition::new::<HookTemplate>(
        GAME,
        "Measurements to take before a release or a pod may continue.",
    );
    crd.part::<HookTemplateSpec>("spec", "Measurements and their arguments.");
    crd.short_names = &["ht"];
    crd.subresources = Value::Null;
    crd
}

fn hook_run() -> Definition {
    let mut crd =
        Definition::new::<HookRun>(GAME, "One execution of a hook, with what was measured.");
    crd.part::<HookRunSpec>("spec", "The metrics to measure.");
    crd.part::<HookRunStatus>("status", "The measurements. Written by the controller.");
    crd.short_names = &["hr"];
    crd.columns = &[
        Column("PHASE", "string", ".status.phase", 0),
        Column("AGE", "date", ".metadata.creationTimestamp", 0),
    ];
    crd
}

const FLAGGER: &str = "flagger.app";
const GAME: &str = "tkex.tencent.com";

// === impl Definition ===

impl Definition {
    fn new<K: Resource<DynamicType = ()>>(group: &'static str, description: &'static str) -> Self {
        Self {
            group,
            kind: K::kind(&()).into_owned(),
            plural: K::plural(&()).into_owned(),
            version: K::version(&()).into_owned(),
            short_names: &[],
            description,
            parts: Vec::new(),
            rules: Vec::new(),
            columns: &[],
            subresources: json!({ "status": {} }),
        }
    }

    fn part<T: JsonSchema>(&mut self, name: &'static str, description: &str) {
        self.parts.push((name, structural::of::<T>(description)));
    }

    /// Adds the parts that both workloads have: the scale subresource and a bound on the name.
    fn make_workload(&mut self) {
        self.subresources = json!({
            "status": {},
            "scale": {
                "specReplicasPath": ".spec.replicas",
                "statusReplicasPath": ".status.replicas",
                "labelSelectorPath": ".status.labelSelector",
            },
        });
        self.rules.push(rule(
            &format!("size(self.metadata.name) <= {WORKLOAD_NAME_MAX}"),
            &format!(
                "metadata.name must have at most {WORKLOAD_NAME_MAX} characters: the name of a \
                 revision is made from it and must fit a label"
            ),
        ));
    }

    /// The root of the schema. It requires nothing: an object without a spec is accepted, as by
    /// Flagger's schema, and refused when it is decoded.
    fn root(&mut self) -> Value {
        let mut properties = Map::new();
        properties.insert(
            "apiVersion".to_owned(),
            json!({
                "description": "Version of the schema of this object.",
                "type": "string",
            }),
        );
        properties.insert(
            "kind".to_owned(),
            json!({
                "description": "Kind of this object.",
                "type": "string",
            }),
        );
        properties.insert("metadata".to_owned(), json!({ "type": "object" }));
        for (name, schema) in std::mem::take(&mut self.parts) {
            properties.insert(name.to_owned(), schema);
        }
        let mut root = json!({
            "description": self.description,
            "type": "object",
            "properties": properties,
        });
        if !self.rules.is_empty() {
            root["x-kubernetes-validations"] = json!(self.rules);
        }
        root
    }

    fn into_crd(mut self) -> Value {
        let mut version = json!({
            "name": self.version,
            "served": true,
            "storage": true,
            "schema": { "openAPIV3Schema": self.root() },
        });
        if !self.columns.is_empty() {
            version["additionalPrinterColumns"] =
                self.columns.iter().map(Column::to_json).collect();
        }
        if !self.subresources.is_null() {
            version["subresources"] = self.subresources;
        }
        let mut names = json!({
            "kind": self.kind,
            "listKind": format!("{}List", self.kind),
            "plural": self.plural,
            "singular": self.kind.to_lowercase(),
        });
        let mut metadata = json!({ "name": format!("{}.{}", self.plural, self.group) });
        if self.group == FLAGGER {
            names["categories"] = json!(["all"]);
            // Uninstalling the chart must not delete every canary.
            metadata["annotations"] = json!({ "helm.sh/resource-policy": "keep" });
        }
        if !self.short_names.is_empty() {
            names["shortNames"] = json!(self.short_names);
        }
        json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": metadata,
            "spec": {
                "group": self.group,
                "names": names,
                "scope": "Namespaced",
                "versions": [version],
            },
        })
    }
}

// === impl Column ===

impl Column {
    fn to_json(&self) -> Value {
        let Self(name, column_type, path, priority) = self;
        let mut column = json!({ "name": name, "type": column_type, "jsonPath": path });
        if *priority > 0 {
            column["priority"] = json!(priority);
        }
        column
    }
}
