//! Observation of a game workload: a look at the cache, as one value that the engine decides upon.
//!
//! Nothing here waits, writes or asks the API server. Some things come before any decision: an orphan that is
//! selected is adopted, a pod that is selected no more is released, the revision of the template is created.
//! Those are [`NotYet`]s, which say what to write first.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use serde_json::Value;
use tidegate_engine::{
    Moment,
    game::{CanaryStep, HookKind, Observed, Plan, Refusal, RevisionChoice, SelectorClaim},
};
use tidegate_providers::{
    game::{
        CONTROLLER_REVISION, GAME_DEPLOYMENT, HOOK_RUN, HOOK_TEMPLATE, NODE, POD, is_selected,
        memory, names, plan,
        pod::{self, Identity, ordinal},
        revision, run,
    },
    object::Kind,
};

use crate::cluster::{
    Cluster,
    cache::{Key, TableState},
};

/// The context of one observation of a workload: the cache and the settings, to read only.
pub(super) struct Env<'a> {
    pub(super) kind: Kind,
    pub(super) key: &'a Key,
    pub(super) uid: &'a str,
    pub(super) cluster: &'a Cluster,
    pub(super) now: Moment,
    /// Writes that the API server rejected when they were last tried.
    pub(super) refusals: &'a [Refusal],
    /// Names of revisions that turned out to be taken.
    pub(super) collisions: u32,
}

/// Why there is no observation yet.
pub(super) enum NotYet {
    Gone,
    /// Kinds that the workload needs are being listed.
    Listing,
    /// The object cannot be read as a workload.
    Unreadable(Arc<Value>, String),
    /// An orphan is to be adopted first.
    Adopt(Kind, Arc<Value>),
    /// A pod that is not selected any more is to be released first.
    Release(Arc<Value>),
    /// The revision of the template is to be created, or to get the highest number, first.
    Revise(Box<Revise>),
}

/// A revision to be written.
pub(super) struct Revise {
    pub(super) workload: Arc<Value>,
    pub(super) choice: RevisionChoice,
    pub(super) data: String,
}

/// One look at a workload.
pub(super) struct Observation {
    pub(super) workload: Arc<Value>,
    /// The engine's part.
    pub(super) observed: Observed,
    /// By name, as the next two.
    pub(super) runs: BTreeMap<String, Arc<Value>>,
    pub(super) revisions: BTreeMap<String, Arc<Value>>,
    pub(super) templates: BTreeMap<String, Arc<Value>>,
    /// All objects that were looked at: a change of any of them wakes the workload.
    pub(super) dependencies: BTreeSet<(Kind, Key)>,
}

pub(super) fn observe(env: &Env<'_>) -> Result<Observation, NotYet> {
    let workload = env.cluster.cache.get(env.kind, env.key).ok_or(NotYet::Gone)?;
    if workload["metadata"]["uid"] != env.uid {
        return Err(NotYet::Gone);
    }
    if !is_listed(env.cluster) {
        return Err(NotYet::Listing);
    }
    let reading = match plan::read(env.kind, &workload) {
        Ok(reading) => reading,
        Err(why) => return Err(NotYet::Unreadable(workload, why)),
    };
    let memory = memory::read(env.kind, &workload);
    let rival = rival(env, &workload);
    let parts = Parts::gather(env, &workload, &reading.plan, rival.is_some())?;
    let dependencies = parts.dependencies(env, &reading.plan, rival.as_ref());
    let mut problems = reading.problems;
    problems.extend(rival.map(|rival| {
        format!("{} {} is older and selects the same pods", env.kind.kind, rival.name)
    }));
    let collisions = memory.collisions.max(env.collisions);
    let is_deleted = workload["metadata"]["deletionTimestamp"].is_string();
    let is_acted_upon = !is_deleted && problems.is_empty();
    let update = match update_revision(env, &workload, &parts, collisions, is_acted_upon) {
        Ok(update) => update,
        Err(revise) => return Err(NotYet::Revise(revise)),
    };
    let templates = parts.templates.iter();
    let observed = Observed {
        now: env.now,
        problems,
        refusals: env.refusals.to_vec(),
        is_deleted,
        update,
        collisions,
        revisions: parts.revisions.values().map(|object| revision::known(object)).collect(),
        pods: parts.read_pods(env),
        runs: parts.runs.values().filter_map(|object| run::read(object)).collect(),
        taken: parts.taken.clone(),
        templates: templates.map(|(name, object)| (name.clone(), run::template(object))).collect(),
        plan: reading.plan,
        memory,
    };
    let Parts { runs, revisions, templates, .. } = parts;
    Ok(Observation { workload, observed, runs, revisions, templates, dependencies })
}

/// Whether everything that decides about a workload was listed.
fn is_listed(cluster: &Cluster) -> bool {
    let needed = [POD, NODE, CONTROLLER_REVISION, HOOK_RUN, HOOK_TEMPLATE];
    needed.iter().all(|kind| cluster.cache.state(*kind) == TableState::Synced)
}

/// The name of the template's revision; `Err` if it has to be written first.
fn update_revision(
    env: &Env<'_>,
    workload: &Arc<Value>,
    parts: &Parts,
    collisions: u32,
    is_acted_upon: bool,
) -> Result<tidegate_engine::Revision, Box<Revise>> {
    let template = &workload["spec"]["template"];
    let revisions: Vec<&Value> = parts.revisions.values().map(|object| &**object).collect();
    match revision::choose(&env.key.name, template, &revisions, collisions) {
        RevisionChoice::Use(name) => Ok(name),
        // Nothing is created for a workload that is not acted upon.
        RevisionChoice::Renumber(name, _) | RevisionChoice::Create { name, .. }
            if !is_acted_upon =>
        {
            Ok(name)
        }
        choice @ (RevisionChoice::Renumber(..) | RevisionChoice::Create { .. }) => {
            let (workload, data) = (Arc::clone(workload), revision::data(template));
            Err(Box::new(Revise { workload, choice, data }))
        }
    }
}

/// The objects that belong to a workload.
struct Parts {
    pods: BTreeMap<String, Arc<Value>>,
    runs: BTreeMap<String, Arc<Value>>,
    taken: BTreeSet<String>,
    revisions: BTreeMap<String, Arc<Value>>,
    templates: BTreeMap<String, Arc<Value>>,
}

// === impl Parts ===

impl Parts {
    /// Everything that the workload owns; `Err` for an object to be adopted or released first.
    fn gather(
        env: &Env<'_>,
        workload: &Arc<Value>,
        plan: &Plan,
        has_rival: bool,
    ) -> Result<Self, NotYet> {
        let is_deleted = workload["metadata"]["deletionTimestamp"].is_string();
        let namespace = &*env.key.namespace;
        let cache = &env.cluster.cache;
        let name =
            |object: &Value| object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let selector = &workload["spec"]["selector"];
        let is_orphan = |object: &Value| {
            let metadata = &object["metadata"];
            let owners = metadata["ownerReferences"].as_array().into_iter().flatten();
            !is_deleted
                && !has_rival
                && !owners.into_iter().any(|owner| owner["controller"] == true)
                && metadata["deletionTimestamp"].is_null()
                && is_selected(selector, &metadata["labels"])
        };
        // A pod that ended is not adopted: its author may still want to read its log. A numbered pod is: its
        // number is taken.
        let is_of_use = |pod: &Value| {
            let phase = pod["status"]["phase"].as_str().unwrap_or_default();
            env.kind != GAME_DEPLOYMENT || !matches!(phase, "Succeeded" | "Failed")
        };
        let mut pods = BTreeMap::new();
        for pod in cache.list_controlled(POD, namespace, env.uid) {
            let uid = pod["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
            if is_owned(&pod, env.uid) {
                // A user who takes the labels off a pod wants to keep it, and another one in its place.
                // The number of a numbered pod cannot be given twice.
                let is_released = env.kind == GAME_DEPLOYMENT
                    && !is_deleted
                    && pod["metadata"]["deletionTimestamp"].is_null()
                    && !is_selected(selector, &pod["metadata"]["labels"]);
                if is_released {
                    return Err(NotYet::Release(pod));
                }
                if is_own_name(env, &name(&pod)) {
                    pods.insert(uid, pod);
                }
            } else if is_orphan(&pod) && is_own_name(env, &name(&pod)) && is_of_use(&pod) {
                return Err(NotYet::Adopt(POD, pod));
            }
        }
        let mut revisions = BTreeMap::new();
        for object in cache.list_controlled(CONTROLLER_REVISION, namespace, env.uid) {
            if is_owned(&object, env.uid) {
                revisions.insert(name(&object), object);
            } else if is_orphan(&object) {
                return Err(NotYet::Adopt(CONTROLLER_REVISION, object));
            }
        }
        let (mut runs, mut taken) = (BTreeMap::new(), BTreeSet::new());
        for object in cache.list_in(HOOK_RUN, namespace) {
            if is_owned(&object, env.uid) && run::read(&object).is_some() {
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
        Ok(Self { pods, runs, taken, revisions, templates })
    }

    /// The objects that the workload depends on, there or not.
    fn dependencies(
        &self,
        env: &Env<'_>,
        plan: &Plan,
        rival: Option<&SelectorClaim>,
    ) -> BTreeSet<(Kind, Key)> {
        let namespace = &*env.key.namespace;
        let key = |object: &Arc<Value>| Key::of(object);
        let mut found: BTreeSet<(Kind, Key)> = BTreeSet::new();
        found.extend(self.pods.values().map(|pod| (POD, key(pod))));
        found.extend(self.runs.values().map(|run| (HOOK_RUN, key(run))));
        found.extend(self.revisions.values().map(|it| (CONTROLLER_REVISION, key(it))));
        let templates = hook_templates(plan);
        found.extend(templates.iter().map(|name| (HOOK_TEMPLATE, Key::new(namespace, name))));
        // Once the rival is gone, the pods are this workload's.
        found.extend(rival.map(|rival| (env.kind, Key::new(namespace, &rival.name))));
        // A node is reported often; only pods that may be deleted from a lost node depend on it.
        let forced = self
            .pods
            .values()
            .filter(|pod| pod["metadata"]["annotations"][names::FORCE_DELETE] == "true");
        found.extend(forced.filter_map(|pod| Some((NODE, node_key(pod)?))));
        found
    }

    fn read_pods(&self, env: &Env<'_>) -> Vec<tidegate_engine::game::Pod> {
        let identity =
            if env.kind == GAME_DEPLOYMENT { Identity::Instance } else { Identity::Ordinal };
        let read = |object: &Arc<Value>| {
            let node = node_key(object).and_then(|key| env.cluster.cache.get(NODE, &key));
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

/// Whether a pod of that name can belong to this workload.
fn is_own_name(env: &Env<'_>, pod: &str) -> bool {
    env.kind == GAME_DEPLOYMENT
        || pod.rsplit_once('-').is_some_and(|(set, _)| *set == *env.key.name)
            && ordinal(pod).is_some()
}

/// Resolves overlapping selectors: the oldest workload has the pods.
fn rival(env: &Env<'_>, workload: &Value) -> Option<SelectorClaim> {
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
    let others = env.cluster.cache.list_in(env.kind, &env.key.namespace);
    let selecting = others.iter().filter(|other| is_selected(&other["spec"]["selector"], labels));
    claim(workload).yields_to(selecting.map(|other| claim(other)))
}

#[cfg(test)]
mod tests;
