//! One look at a game workload: everything the engine may ask about, from the cache.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use serde_json::Value;
use tidegate_engine::{
    Moment,
    game::{CanaryStep, HookKind, Memory, Observed, Plan, RevisionChoice, SelectorClaim},
};
use tidegate_providers::{
    game::{
        CONTROLLER_REVISION, GAME_DEPLOYMENT, HOOK_RUN, HOOK_TEMPLATE, NODE, POD, is_selected,
        memory, names, plan,
        pod::{self, Identity},
        revision, run,
    },
    object::Kind,
};

use super::{life::follower, manager::is_listed, workload::Workload};
use crate::cluster::cache::Key;

/// What a look came to.
pub(super) enum Look {
    Gone,
    /// Not everything was listed yet.
    Listing,
    /// The object cannot be understood.
    Unreadable(Arc<Value>, String),
    /// Something of nobody's is to be taken in first.
    Adopt(Kind, Arc<Value>),
    /// A pod that is not selected any more is to be let go first.
    Release(Arc<Value>),
    /// The revision of the template is to be made or brought to the front first.
    Revise(Box<Revise>),
    Seen(Box<Seen>),
}

/// A revision that is not as it should be.
pub(super) struct Revise {
    pub(super) workload: Arc<Value>,
    pub(super) choice: RevisionChoice,
    pub(super) data: String,
}

/// What was seen.
pub(super) struct Seen {
    pub(super) workload: Arc<Value>,
    pub(super) observed: Observed,
    /// By name.
    pub(super) runs: BTreeMap<String, Arc<Value>>,
    pub(super) revisions: BTreeMap<String, Arc<Value>>,
    pub(super) templates: BTreeMap<String, Arc<Value>>,
}

/// Looks.
pub(super) fn look(task: &Workload) -> Look {
    let (kind, key) = (task.kind, &task.key);
    let cache = &task.cx.cluster.cache;
    let Some(workload) = cache.get(kind, key) else { return Look::Gone };
    if workload["metadata"]["uid"] != task.uid.as_str() {
        return Look::Gone;
    }
    if !is_listed(&task.cx.cluster) {
        return Look::Listing;
    }
    let reading = match plan::read(kind, &workload) {
        Ok(reading) => reading,
        Err(why) => return Look::Unreadable(workload, why),
    };
    let is_deleted = workload["metadata"]["deletionTimestamp"].is_string();
    let memory = memory::read(kind, &workload);
    let rival = rival(task, &workload);
    let parts = match Parts::gather(task, &workload, &reading.plan, rival.as_ref()) {
        Ok(parts) => parts,
        Err(look) => return look,
    };
    let mut problems = reading.problems;
    problems.extend(
        rival.map(|rival| {
            format!("{} {} is older and selects the same pods", kind.kind, rival.name)
        }),
    );
    let collisions = memory.collisions.max(task.collisions);
    let template = &workload["spec"]["template"];
    let revisions: Vec<&Value> = parts.revisions.values().map(|object| &**object).collect();
    let choice = revision::choose(&key.name, template, &revisions, collisions);
    let update = match choice {
        RevisionChoice::Use(name) => name,
        // Nothing is made for a workload that is not acted upon.
        RevisionChoice::Renumber(ref name, _) | RevisionChoice::Create { ref name, .. }
            if is_deleted || !problems.is_empty() =>
        {
            name.clone()
        }
        choice => {
            let data = revision::data(template);
            return Look::Revise(Box::new(Revise { workload, choice, data }));
        }
    };
    let observed = Observed {
        now: Moment(task.cx.clock.now().as_millisecond()),
        problems,
        refusals: task.refusals.clone(),
        is_deleted,
        update,
        collisions,
        revisions: parts.revisions.values().map(|object| revision::known(object)).collect(),
        pods: parts.read_pods(task),
        runs: parts.runs.values().filter_map(|object| run::read(object)).collect(),
        taken: parts.taken.clone(),
        templates: parts
            .templates
            .iter()
            .map(|(name, object)| (name.clone(), run::template(object)))
            .collect(),
        plan: reading.plan,
        memory,
    };
    let Parts { runs, revisions, templates, .. } = parts;
    Look::Seen(Box::new(Seen { workload, observed, runs, revisions, templates }))
}

/// What belongs to a workload.
struct Parts {
    pods: BTreeMap<String, Arc<Value>>,
    runs: BTreeMap<String, Arc<Value>>,
    taken: BTreeSet<String>,
    revisions: BTreeMap<String, Arc<Value>>,
    templates: BTreeMap<String, Arc<Value>>,
}

// === impl Parts ===

impl Parts {
    /// Everything that is owned, which is followed from now on. `Err` is something to be taken in first.
    fn gather(
        task: &Workload,
        workload: &Arc<Value>,
        plan: &Plan,
        rival: Option<&SelectorClaim>,
    ) -> Result<Self, Look> {
        let is_deleted = workload["metadata"]["deletionTimestamp"].is_string();
        let namespace = &*task.key.namespace;
        let cache = &task.cx.cluster.cache;
        let name =
            |object: &Value| object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let selector = &workload["spec"]["selector"];
        let is_orphan = |object: &Value| {
            let metadata = &object["metadata"];
            let owners = metadata["ownerReferences"].as_array().into_iter().flatten();
            !is_deleted
                && rival.is_none()
                && !owners.into_iter().any(|owner| owner["controller"] == true)
                && metadata["deletionTimestamp"].is_null()
                && is_selected(selector, &metadata["labels"])
        };
        // One that ended is of no use to anybody, and whoever made it may still want to read what it said.
        // The number of a numbered pod is taken all the same.
        let is_of_use = |pod: &Value| {
            let phase = pod["status"]["phase"].as_str().unwrap_or_default();
            task.kind != GAME_DEPLOYMENT || !matches!(phase, "Succeeded" | "Failed")
        };
        let mut pods = BTreeMap::new();
        for pod in cache.list_controlled(POD, namespace, &task.uid) {
            let uid = pod["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
            if is_owned(&pod, &task.uid) {
                // Whoever takes the labels off a pod wants to keep it as it is, and another in its place.
                // The number of a numbered pod cannot be given twice.
                let is_let_go = task.kind == GAME_DEPLOYMENT
                    && !is_deleted
                    && pod["metadata"]["deletionTimestamp"].is_null()
                    && !is_selected(selector, &pod["metadata"]["labels"]);
                if is_let_go {
                    return Err(Look::Release(pod));
                }
                if task.is_own_name(&name(&pod)) {
                    pods.insert(uid, pod);
                }
            } else if is_orphan(&pod) && task.is_own_name(&name(&pod)) && is_of_use(&pod) {
                return Err(Look::Adopt(POD, pod));
            }
        }
        let mut revisions = BTreeMap::new();
        for object in cache.list_controlled(CONTROLLER_REVISION, namespace, &task.uid) {
            if is_owned(&object, &task.uid) {
                revisions.insert(name(&object), object);
            } else if is_orphan(&object) {
                return Err(Look::Adopt(CONTROLLER_REVISION, object));
            }
        }
        let (mut runs, mut taken) = (BTreeMap::new(), BTreeSet::new());
        for object in cache.list_in(HOOK_RUN, namespace) {
            if is_owned(&object, &task.uid) && run::read(&object).is_some() {
                runs.insert(name(&object), object);
            } else {
                taken.insert(name(&object));
            }
        }
        let mut templates = BTreeMap::new();
        for template in hook_templates(plan) {
            if let Some(object) = cache.get(HOOK_TEMPLATE, &Key::new(namespace, &template)) {
                templates.insert(template, object);
            }
        }
        let parts = Self { pods, runs, taken, revisions, templates };
        parts.follow(task, plan, rival);
        Ok(parts)
    }

    /// Says what this workload depends on, there or not.
    fn follow(&self, task: &Workload, plan: &Plan, rival: Option<&SelectorClaim>) {
        let namespace = &*task.key.namespace;
        let key = |object: &Arc<Value>| Key::of(object);
        let mut followed: BTreeSet<(Kind, Key)> = BTreeSet::new();
        followed.extend(self.pods.values().map(|pod| (POD, key(pod))));
        followed.extend(self.runs.values().map(|run| (HOOK_RUN, key(run))));
        followed.extend(self.revisions.values().map(|it| (CONTROLLER_REVISION, key(it))));
        let templates = hook_templates(plan);
        followed.extend(templates.iter().map(|name| (HOOK_TEMPLATE, Key::new(namespace, name))));
        // Whoever has the pods instead may go.
        followed.extend(rival.map(|rival| (task.kind, Key::new(namespace, &rival.name))));
        // A node says little and often; only pods that may be taken from it need to hear.
        let forced = self
            .pods
            .values()
            .filter(|pod| pod["metadata"]["annotations"][names::FORCE_DELETE] == "true");
        followed.extend(forced.filter_map(|pod| Some((NODE, node_key(pod)?))));
        let who = follower(task.kind.plural, &task.key);
        task.cx.cluster.cache.follow(&who, followed);
    }

    fn read_pods(&self, task: &Workload) -> Vec<tidegate_engine::game::Pod> {
        let identity =
            if task.kind == GAME_DEPLOYMENT { Identity::Instance } else { Identity::Ordinal };
        let read = |object: &Arc<Value>| {
            let node = node_key(object).and_then(|key| task.cx.cluster.cache.get(NODE, &key));
            pod::read(object, node.as_deref(), identity)
        };
        let mut pods: Vec<_> = self.pods.values().map(read).collect();
        pods.sort_by(|one, other| one.name.cmp(&other.name));
        pods
    }
}

fn node_key(pod: &Value) -> Option<Key> {
    Some(Key::new("", pod["spec"]["nodeName"].as_str().filter(|name| !name.is_empty())?))
}

fn is_owned(object: &Value, uid: &str) -> bool {
    let owners = object["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    owners.into_iter().any(|owner| owner["controller"] == true && owner["uid"] == uid)
}

/// Names of all hook templates that a plan may run.
fn hook_templates(plan: &Plan) -> BTreeSet<String> {
    let steps = plan.steps().iter().filter_map(|step| match step {
        CanaryStep::Hook(hook) => Some(hook.call.template.clone()),
        CanaryStep::Partition(_) | CanaryStep::Pause(_) => None,
    });
    let pods = HookKind::ALL
        .into_iter()
        .filter_map(|kind| plan.hooks.of(kind).call.as_ref().map(|call| call.template.clone()));
    steps.chain(pods).collect()
}

/// The workload that has the pods of this one instead.
fn rival(task: &Workload, workload: &Value) -> Option<SelectorClaim> {
    let labels = &workload["spec"]["template"]["metadata"]["labels"];
    let claim = |object: &Value| {
        let metadata = &object["metadata"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let created = text(&metadata["creationTimestamp"]).parse::<jiff::Timestamp>();
        SelectorClaim {
            created: Moment(created.map_or(0, jiff::Timestamp::as_millisecond)),
            uid: text(&metadata["uid"]),
            name: text(&metadata["name"]),
        }
    };
    let others = task.cx.cluster.cache.list_in(task.kind, &task.key.namespace);
    let selecting = others.iter().filter(|other| is_selected(&other["spec"]["selector"], labels));
    claim(workload).yields_to(selecting.map(|other| claim(other)))
}

/// What status says, of an object whose spec cannot be read.
pub(super) fn memory_of(kind: Kind, object: &Value) -> Memory {
    memory::read(kind, object)
}
