//! One canary, the objects around it, and the actions of its owner.
//!
//! An action comes when the canary has reached a state, and not at a time: the two operators react after
//! different delays.

use serde_json::{Value, json};
use tidegate_tests::{
    network::{Metric, Reply},
    providers::{canary_for, users_objects},
    rollout,
};

use crate::stage::{CANARY, DEPLOYMENT, Kind};

/// A scenario: what there is at the beginning, and what happens then.
pub struct Scenario {
    pub name: &'static str,
    /// Flags that both operators know.
    pub(super) flags: Vec<String>,
    /// Created before the operator starts, in this order. `NAMESPACE` in them is the scenario's.
    pub(super) objects: Vec<Value>,
    pub(super) canary: Value,
    pub(super) steps: Vec<Step>,
    pub(super) hooks: Vec<(&'static str, Reply)>,
}

pub(super) enum Step {
    /// Waits until the canary's status is so.
    Until(String, Box<dyn Fn(&Value) -> bool + Send + Sync>),
    /// Waits until an object is gone.
    Gone(Kind, &'static str),
    /// A merge patch.
    Patch(Kind, &'static str, Value),
    Delete(Kind, &'static str),
    /// Sets the answer to queries with this text.
    Metric(&'static str, Metric),
    /// Sets the answer of a hook.
    Hook(&'static str, Reply),
    /// So many seconds in which nothing need happen.
    Rest(u64),
}

// === impl Scenario ===

impl Scenario {
    /// A canary of a Deployment `web`, as a user of that provider writes it.
    pub fn new(name: &'static str, provider: &str, analysis: Value) -> Self {
        let mut canary = canary_for(provider, json!({ "interval": "10s", "threshold": 2 }));
        merge(&mut canary["spec"]["analysis"], analysis);
        if let Some(spec) = canary["spec"].as_object_mut() {
            spec.retain(|_, value| !value.is_null());
        }
        let mut objects = users_objects(provider);
        let is_workload = canary["spec"]["targetRef"]["kind"] == DEPLOYMENT.1;
        if is_workload {
            objects.insert(0, rollout::deployment("web", "web:1.0", 1));
        }
        Self {
            name,
            flags: vec!["--mesh-provider=kubernetes".to_owned()],
            objects,
            canary,
            steps: Vec::new(),
            hooks: Vec::new(),
        }
    }

    /// Merges this into the spec of the canary.
    #[must_use]
    pub(super) fn spec(mut self, patch: Value) -> Self {
        merge(&mut self.canary["spec"], patch);
        self
    }

    /// One more object, or one instead of that of the same kind and name.
    #[must_use]
    pub(super) fn with(mut self, object: Value) -> Self {
        let key = |it: &Value| (it["kind"].clone(), it["metadata"]["name"].clone());
        self.objects.retain(|it| key(it) != key(&object));
        self.objects.push(object);
        self
    }

    /// Merges this into the Deployment `web`.
    #[must_use]
    pub(super) fn target(mut self, patch: Value) -> Self {
        merge(&mut self.objects[0], patch);
        self
    }

    /// One more flag, or another value of one.
    #[must_use]
    pub(super) fn flag(mut self, flag: &str) -> Self {
        let name = |flag: &str| flag.split('=').next().map(str::to_owned);
        self.flags.retain(|it| name(it) != name(flag));
        self.flags.push(flag.to_owned());
        self
    }

    /// The answer of a hook from the beginning.
    #[must_use]
    pub(super) fn answers(mut self, path: &'static str, reply: Reply) -> Self {
        self.hooks.push((path, reply));
        self
    }

    fn step(mut self, step: Step) -> Self {
        self.steps.push(step);
        self
    }

    fn until(
        self,
        what: impl Into<String>,
        is_so: impl Fn(&Value) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.step(Step::Until(what.into(), Box::new(is_so)))
    }

    #[must_use]
    pub(super) fn phase(self, phase: &'static str) -> Self {
        self.until(format!("phase {phase}"), move |status| status["phase"] == phase)
    }

    #[must_use]
    pub(super) fn weight(self, weight: i64) -> Self {
        self.until(format!("weight {weight}"), move |status| {
            status["phase"] == "Progressing" && status["canaryWeight"] == weight
        })
    }

    #[must_use]
    pub(super) fn failed_checks(self, number: i64) -> Self {
        self.until(format!("{number} failed checks"), move |status| {
            status["failedChecks"] == number
        })
    }

    #[must_use]
    pub(super) fn gone(self, kind: Kind, name: &'static str) -> Self {
        self.step(Step::Gone(kind, name))
    }

    #[must_use]
    pub(super) fn patch(self, kind: Kind, name: &'static str, patch: Value) -> Self {
        self.step(Step::Patch(kind, name, patch))
    }

    #[must_use]
    pub(super) fn edit(self, spec: &Value) -> Self {
        self.patch(CANARY, "web", json!({ "spec": spec }))
    }

    #[must_use]
    pub(super) fn delete(self, kind: Kind, name: &'static str) -> Self {
        self.step(Step::Delete(kind, name))
    }

    #[must_use]
    pub(super) fn measure(self, part: &'static str, value: Metric) -> Self {
        self.step(Step::Metric(part, value))
    }

    #[must_use]
    pub(super) fn answer(self, path: &'static str, reply: Reply) -> Self {
        self.step(Step::Hook(path, reply))
    }

    #[must_use]
    pub(super) fn rest(self, seconds: u64) -> Self {
        self.step(Step::Rest(seconds))
    }

    /// Another image for the target.
    #[must_use]
    pub(super) fn release(self, image: &str) -> Self {
        self.release_of(DEPLOYMENT, image)
    }

    #[must_use]
    pub(super) fn release_of(self, kind: Kind, image: &str) -> Self {
        let mut template = rollout::deployment("web", image, 1)["spec"]["template"].take();
        if let Some(template) = template.as_object_mut() {
            template.remove("metadata");
        }
        self.patch(kind, "web", json!({ "spec": { "template": template } }))
    }

    /// The first release after the initialization, up to its end.
    #[must_use]
    pub(super) fn released(self) -> Self {
        self.phase("Initialized").release("web:2.0").phase("Progressing").phase("Succeeded")
    }
}

/// A merge patch.
pub(super) fn merge(into: &mut Value, patch: Value) {
    let Value::Object(patch) = patch else {
        *into = patch;
        return;
    };
    if !into.is_object() {
        *into = json!({});
    }
    for (name, value) in patch {
        if value.is_null() {
            if let Some(members) = into.as_object_mut() {
                members.remove(&name);
            }
        } else {
            merge(&mut into[name], value);
        }
    }
}
