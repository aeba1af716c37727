//! Looking: what the cache knows of a canary, as the engine's observation.
//!
//! Nothing here waits or asks the API server. What is found to differ comes with the changes that
//! would mend it, so that acting needs no second thought. Untrusted input is refused here.

use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
    sync::Arc,
};

use serde_json::Value;
use tidegate_api::canary::{
    AutoscalerRef, Canary, CanaryPhase, CanarySpec, CanaryStatus, analysis::ObjectRef,
};
use tidegate_engine::{
    Answers, Configs, Fact, Lifecycle, ManagedObject, Memory, Missing, Names, Objects, Observed,
    Obstacle, Phase, Plan, Primary, Readiness, Revision, Side, State, Target, Unready, apex_side,
};
use tidegate_providers::{
    hook,
    object::{Change, Kind, Live, Owner},
    traffic::{Cookies, IngressOptions, Mesh, RouteCx, RouteFields, knative_primary},
    workload::{
        Cx, SERVICE, WorkloadError, WorkloadKind, clone,
        config::{self, ConfigDigest, ConfigRef, Tracked},
        primary::{self, Deadline, SelectorLabel, Snapshot},
        require_owned,
        scaler::{self, Scaler},
        services::{self, Role, Services},
    },
};

use super::{
    derived::Derived,
    former::{self, Former},
    lacking::{Clocks, Since},
    mend::{self, Mended},
    plan,
    refusals::Attempt,
    roads, status,
    task::Task,
};
use crate::cluster::{
    CANARY, METRIC_TEMPLATE,
    cache::{Cache, Key, TableState},
};

/// What asks for gates to be tried again.
pub(super) const RETRY: &str = "flagger.app/webhook-restart";
pub(super) const FINALIZER: &str = "finalizer.flagger.app";

/// The outcome of a look.
pub(super) enum Look {
    Seen(Box<Seen>),
    /// The canary is not there any more, or it is another one.
    Gone,
    /// Routing objects are being listed; that takes a moment.
    Listing,
    /// The object is not what a canary must be.
    Unreadable(String),
}

/// An observation, and what acting on it needs.
pub(super) struct Seen {
    pub(super) observed: Observed,
    pub(super) canary: Arc<Canary>,
    pub(super) raw: Arc<Value>,
    pub(super) status: CanaryStatus,
    pub(super) names: Names,
    pub(super) mesh: Mesh,
    pub(super) cookies: Cookies,
    /// What the cluster's definition of the route knows.
    fields: RouteFields,
    /// Settings of the operator.
    context: Arc<super::Context>,
    annotations: BTreeMap<String, String>,
    /// Whether the canary can be the owner of its routes.
    owns_routes: bool,
    pub(super) live: Live,
    /// What target and primary are.
    pub(super) workload: WorkloadKind,
    pub(super) target: Option<Arc<Value>>,
    pub(super) primary: Option<Arc<Value>>,
    pub(super) tracked: Tracked,
    /// What would put each piece in place.
    pub(super) changes: BTreeMap<ManagedObject, Vec<Change>>,
    /// What people are told once a piece is in place.
    pub(super) notes: BTreeMap<ManagedObject, Fact>,
    pub(super) apex_back: Vec<Change>,
    pub(super) route_back: Vec<Change>,
    /// What deletes objects that are of no more use.
    pub(super) leftovers: Vec<Change>,
    /// The provider to remember: a former one for as long as there may be something of it.
    pub(super) provider: String,
    /// The route before the one that the spec leads to, for as long as the status remembers it.
    pub(super) former: Option<Former>,
    /// Why kinds of route were never listed, if they were not.
    pub(super) unlisted: Option<TableState>,
    pub(super) gauge: crate::telemetry::Target,
}

pub(super) fn look(task: &mut Task, answers: &Answers) -> Look {
    let cache = Arc::clone(&task.cx.cluster.cache);
    let Some(raw) = cache.get(CANARY, &task.key) else { return Look::Gone };
    if raw["metadata"]["uid"] != task.uid.as_str() {
        return Look::Gone;
    }
    let canary = match task.derived.canary(&raw) {
        Ok(canary) => canary,
        Err(error) => return Look::Unreadable(error.to_string()),
    };
    let mut status = canary.status.clone().unwrap_or_default();
    if let Some(shadow) = &task.shadow {
        fill_pruned(&mut status, shadow);
    }
    let Some(mut mended) = mend::judge(task, canary, &status) else { return Look::Listing };
    // An error that passes says nothing about what is served: who believed it would write another route.
    let serves = |kind| !matches!(cache.state(kind), TableState::NotServed(_));
    mended.mesh = mended.mesh.served(serves);
    let (mesh, canary) = (mended.mesh, &mended.canary);
    let are_known = roads::are_workloads_known(&task.cx, &canary.spec)
        & roads::are_known(&task.cx, mesh, &canary.spec)
        & roads::is_former_known(&task.cx, mesh, &status)
        & former::is_known(&task.cx, &status);
    if !are_known {
        return Look::Listing;
    }
    let rival = rival(task, canary, &raw);
    mended.problems.extend(rival);
    let seen = gather(task, mended, raw, status, answers);
    cache.follow(&task.key, follows(&seen));
    Look::Seen(Box::new(seen))
}

/// Definitions of another version drop what they do not know; we remember it meanwhile.
fn fill_pruned(status: &mut CanaryStatus, shadow: &CanaryStatus) {
    let is_pruned = status.observed_generation.is_none() && status.phase == shadow.phase;
    if is_pruned {
        status.observed_generation = shadow.observed_generation;
        status.last_decision.clone_from(&shadow.last_decision);
        status.rollout.clone_from(&shadow.rollout);
        status.manual_pause.clone_from(&shadow.manual_pause);
    }
}

/// Of two canaries of one target the older acts. So it does where the targets are of two kinds and have one name:
/// what is made for the two would have the same names.
fn rival(task: &Task, canary: &Canary, raw: &Value) -> Option<String> {
    let age = |object: &Value| {
        let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
        (text("creationTimestamp"), text("uid"))
    };
    let target = canary.spec.target_ref.name.as_str();
    let others = task.cx.cluster.cache.list(CANARY);
    let older = others.iter().find(|other| {
        other["metadata"]["namespace"] == *task.key.namespace
            && other["metadata"]["uid"] != task.uid.as_str()
            && other["spec"]["targetRef"]["name"] == target
            && age(other) < age(raw)
    })?;
    let name = older["metadata"]["name"].as_str().unwrap_or_default();
    let kind = older["spec"]["targetRef"]["kind"].as_str().unwrap_or_default();
    Some(if kind == canary.spec.target_ref.kind.as_str() {
        format!("spec.targetRef: `{target}` is the target of the older canary `{name}` already")
    } else {
        format!(
            "spec.targetRef.name: the older canary `{name}` has the {kind} `{target}` as its target, and what is \
             made for the two would have the same names; name one of them otherwise"
        )
    })
}

/// Everything that is looked at, for waking up when it changes.
fn follows(seen: &Seen) -> BTreeSet<(Kind, Key)> {
    let spec = &seen.canary.spec;
    let namespace = seen.canary.metadata.namespace.as_deref().unwrap_or_default();
    let key = |name: &str| Key::new(namespace, name);
    let names = spec.service_names();
    let mut follows: BTreeSet<(Kind, Key)> = [
        (seen.workload.kind(), key(&spec.target_ref.name)),
        (seen.workload.kind(), key(&spec.primary_name())),
        (SERVICE, key(&names.apex)),
        (SERVICE, key(&names.primary)),
        (SERVICE, key(&names.canary)),
    ]
    .into();
    if let Some(scaler) = &spec.autoscaler_ref {
        let kind = Scaler::of(scaler).kind();
        follows.insert((kind, key(&scaler.name)));
        follows.insert((kind, key(&scaler::primary_name(scaler))));
    }
    if let Some(target) = &seen.target {
        let is_tracked = seen.workload != WorkloadKind::Knative;
        let pods = is_tracked.then(|| &target["spec"]["template"]["spec"]);
        for reference in pods.map(config::references).into_iter().flatten() {
            follows.insert((reference.kind.kind(), key(&reference.name)));
        }
    }
    let cx = seen.route_cx(namespace);
    let routes = seen.mesh.names(&cx).into_iter();
    follows.extend(routes.map(|(kind, name)| (kind, Key::of_kind(kind, namespace, &name))));
    let elsewhere = seen.mesh.elsewhere(&cx).into_iter();
    follows.extend(elsewhere.map(|(kind, namespace, name)| (kind, Key::new(&namespace, &name))));
    follows.extend(seen.former.as_ref().and_then(|former| former.place.clone()));
    follows
}

fn gather(
    task: &mut Task,
    mended: Mended,
    raw: Arc<Value>,
    status: CanaryStatus,
    answers: &Answers,
) -> Seen {
    let Mended { canary, mesh, flaws, problems } = mended;
    let spec = &canary.spec;
    let namespace = task.key.namespace.to_string();
    let cache = Arc::clone(&task.cx.cluster.cache);
    let plan = planned(spec, mesh, &cache, &namespace);
    let memory = recall(&status, &plan);
    let get = |kind: Kind, name: &str| cache.get(kind, &Key::of_kind(kind, &namespace, name));
    // What is none of these is refused elsewhere, and nothing is done about it.
    let workload = WorkloadKind::of(&spec.target_ref).unwrap_or(WorkloadKind::Deployment);
    let target = get(workload.kind(), &spec.target_ref.name);
    let primary = match workload {
        // One of its revisions, once that is chosen.
        WorkloadKind::Knative => target.clone().filter(|it| knative_primary(it).is_some()),
        workload => get(workload.kind(), &spec.primary_name()),
    };
    let cookies = status::cookies(&status);
    let (both, clocks) = ([target.as_deref(), primary.as_deref()], Clocks::now(&*task.cx.clock));
    task.lacking.note(spec, workload, both, status.rollout.as_ref(), clocks);
    let mut seen = Seen {
        names: names(spec, workload, &task.key),
        gauge: crate::telemetry::Target::new(namespace.clone(), spec.target_ref.name.clone()),
        observed: Observed {
            now: status::moment(task.cx.clock.now()),
            interval_state: {
                let retry = raw["metadata"]["annotations"][RETRY].as_str().unwrap_or_default();
                task.tempo(&memory, plan.interval, !retry.is_empty())
            },
            cookies: tidegate_engine::Cookies {
                canary: cookies.canary.is_some(),
                primary: cookies.primary.is_some(),
            },
            lifecycle: life(&canary),
            blockers: problems,
            target: Err(Missing::Gone),
            primary: absent_primary(),
            objects: Objects { spec_error: joined(&flaws), ..Objects::default() },
            routes: Err(Obstacle("routes were not looked at".to_owned())),
            answers: answers.clone(),
            plan,
            memory,
        },
        provider: roads::remembered(&status).unwrap_or(mesh.as_str()).to_owned(),
        status,
        mesh,
        cookies,
        workload,
        target,
        primary,
        tracked: Tracked::new(),
        changes: BTreeMap::new(),
        notes: BTreeMap::new(),
        apex_back: Vec::new(),
        route_back: Vec::new(),
        leftovers: Vec::new(),
        former: None,
        unlisted: None,
        fields: roads::fields(&task.cx.cluster, mesh, &canary.spec),
        context: Arc::clone(&task.cx),
        annotations: canary.metadata.annotations.clone().unwrap_or_default(),
        owns_routes: task.cx.cluster.owns_routes(),
        live: Live::default(),
        raw,
        canary,
    };
    seen.gather_routes(task);
    let mut derived = mem::take(&mut task.derived);
    seen.look_at_workloads(task, &mut derived);
    seen.look_at_routes(task);
    seen.note_refusals(task);
    task.derived = derived;
    seen.look_at_leftovers(task);
    seen
}

fn joined(flaws: &[String]) -> Option<Obstacle> {
    (!flaws.is_empty()).then(|| Obstacle(flaws.join("; ")))
}

/// The plan, with what its templates say about it.
fn planned(spec: &CanarySpec, mesh: Mesh, cache: &Cache, namespace: &str) -> Plan {
    let mut plan = plan::plan(spec, mesh);
    plan.notes.extend(plan::unverified_templates(spec, |reference| {
        let template = cache.get(METRIC_TEMPLATE, &reference_key(namespace, reference));
        template.is_some_and(|it| it["spec"]["provider"]["insecureSkipVerify"] == true)
    }));
    plan
}

/// The object that a reference of a canary in this namespace means.
pub(super) fn reference_key(own: &str, reference: &ObjectRef) -> Key {
    let namespace = reference.namespace.as_deref().filter(|it| !it.is_empty());
    Key::new(namespace.unwrap_or(own), &reference.name)
}

/// What the status says was remembered.
fn recall(status: &CanaryStatus, plan: &Plan) -> Memory {
    let mut memory = status::memory(status);
    // Written by a version without the marker, or the marker was dropped: what it stands for remains.
    let is_held = memory.phase == Phase::Waiting && memory.pause.is_none();
    if is_held
        && plan.manual.is_some()
        && status.canary_weight > 0
        && !memory.replaces_broken_primary
        && memory.weight < tidegate_engine::Percent::ALL
    {
        let since = memory.since.unwrap_or_default();
        memory.pause = Some(tidegate_engine::Pause { weight: memory.weight, since });
    }
    memory
}

fn names(spec: &CanarySpec, workload: WorkloadKind, key: &Key) -> Names {
    let Key { namespace, name } = key;
    let target = &spec.target_ref.name;
    Names {
        canary: format!("{name}.{namespace}"),
        target: format!("{target}.{namespace}"),
        primary: format!("{target}-primary.{namespace}"),
        form: workload.form(),
    }
}

fn life(canary: &Canary) -> Lifecycle {
    let metadata = &canary.metadata;
    let held = metadata.finalizers.iter().flatten().any(|finalizer| finalizer == FINALIZER);
    let deleted = metadata.deletion_timestamp.as_ref().map(|time| status::moment(time.0));
    Lifecycle { has_finalizer: held, deleted_at: deleted }
}

fn absent_primary() -> Primary {
    let unready = Unready { why: "it does not exist".to_owned(), serving: false };
    let readiness = Readiness::Waiting(unready);
    Primary { exists: false, readiness, is_updated: false, replicas: 1 }
}

// === impl Seen ===

impl Seen {
    /// Takes what there is of the routes out of the cache, those of other namespaces too, and the one before.
    fn gather_routes(&mut self, task: &Task) {
        let (cache, namespace) = (&task.cx.cluster.cache, &*task.key.namespace);
        for (kind, name) in self.mesh.names(&self.route_cx(namespace)) {
            if let Some(object) = cache.get(kind, &Key::of_kind(kind, namespace, &name)) {
                self.live.insert(kind, object);
            }
        }
        for (kind, place, name) in self.mesh.elsewhere(&self.route_cx(namespace)) {
            if let Some(object) = cache.get(kind, &Key::new(&place, &name)) {
                self.live.insert_from(kind, &place, object);
            }
        }
        self.look_at_former(task);
    }

    pub(super) fn owner(&self) -> Owner<'_> {
        let metadata = &self.canary.metadata;
        Owner {
            name: metadata.name.as_deref().unwrap_or_default(),
            namespace: metadata.namespace.as_deref().unwrap_or_default(),
            uid: metadata.uid.as_deref().unwrap_or_default(),
            can_own: true,
        }
    }

    pub(super) fn cx<'a>(&'a self, task: &'a Task) -> Cx<'a> {
        let options = &task.cx.options;
        Cx {
            owner: self.owner(),
            workload: self.workload,
            target: &self.canary.spec.target_ref.name,
            selector_labels: &options.selector_labels,
            included: &options.included,
        }
    }

    pub(super) fn route_cx(&self, _namespace: &str) -> RouteCx<'_> {
        self.route_cx_with(&self.cookies)
    }

    pub(super) fn route_cx_with<'a>(&'a self, cookies: &'a Cookies) -> RouteCx<'a> {
        RouteCx {
            owner: Owner { can_own: self.owns_routes, ..self.owner() },
            spec: &self.canary.spec,
            cookies,
            primary: self.primary_revision().filter(|_| self.is_set_up()),
            iterating: self.observed.memory.iterations > 0,
            inherited: self.inherited(),
            fields: self.fields,
            annotations: &self.annotations,
            ingress: IngressOptions {
                annotation_prefix: &self.context.options.ingress_annotations_prefix,
                class: &self.context.options.ingress_class,
            },
        }
    }

    /// Whether there has been a primary.
    fn is_set_up(&self) -> bool {
        !matches!(self.observed.memory.phase, Phase::New | Phase::Initializing)
    }

    /// The revision of Knative that is the primary, or was when anything said so.
    pub(super) fn primary_revision(&self) -> Option<&str> {
        if self.workload != WorkloadKind::Knative {
            return None;
        }
        let written = || self.status.rollout.as_ref()?.primary_revision.as_deref();
        self.target.as_deref().and_then(knative_primary).or_else(written)
    }

    /// What hooks are told about the revision: the one that waits, where none was started yet.
    pub(super) fn checksum(&self) -> String {
        let memory = &self.observed.memory;
        let is_pending = memory.phase.is_idle() || memory.is_gated();
        let pending = self.observed.target.as_ref().ok().filter(|_| is_pending);
        let applied = memory.applied.as_ref().map_or("", Revision::as_str);
        match pending {
            Some(target) => hook::checksum(target.configs.as_deref(), target.revision.as_str()),
            None => hook::checksum(memory.configs.as_deref(), applied),
        }
    }

    /// Of the canary's spec.
    pub(super) fn generation(&self) -> i64 {
        self.canary.metadata.generation.unwrap_or(0)
    }

    pub(super) fn phase(&self) -> CanaryPhase {
        status::api_phase(self.observed.memory.phase)
    }

    /// Where in the rollout a hook is called; a repeated call has the same.
    pub(super) fn step(&self) -> String {
        let memory = &self.observed.memory;
        let Memory { phase, weight, iterations, failed_checks, .. } = memory;
        // With the revision it is about: one that waits to be started is not written down yet.
        format!("{phase}/{weight}/{iterations}/{failed_checks}/{}", self.checksum())
    }

    fn look_at_workloads(&mut self, task: &Task, derived: &mut Derived) {
        self.observed.objects.previous_target = mend::previous_target(&self.canary, &self.status);
        let Some(target) = self.target.clone() else {
            self.look_at_primary(task, None);
            self.look_at_apex_without_target(task);
            if let Some(why) = task.cx.cluster.cache.state(self.workload.kind()).failure() {
                // Nobody looked: it may well be there.
                self.observed.target = Err(Missing::Unusable(why.to_owned()));
            }
            return;
        };
        match self.look_at_target(task, &target, derived) {
            Ok((observed, tracked)) => {
                self.tracked = tracked;
                self.look_at_primary(task, Some(&observed));
                self.observed.target = Ok(observed);
            }
            Err(error) => {
                self.look_at_primary(task, None);
                self.observed.target = Err(Missing::Unusable(error.to_string()));
            }
        }
        if let Err(error) = self.look_at_setup(task, &target) {
            self.observed.objects.canary_service = State::Blocked(Obstacle(error.to_string()));
        }
    }

    fn look_at_target(
        &self,
        task: &Task,
        target: &Value,
        derived: &mut Derived,
    ) -> Result<(Target, Tracked), WorkloadError> {
        let cx = self.cx(task);
        let analysis = &self.canary.spec.analysis;
        self.workload.require_rolling(target)?;
        let of_target = derived.of_target(self.workload, target);
        let tracked = Self::track(task, &of_target.references)?;
        let same_as_primary = derived.is_same(&cx, target, &tracked, self.primary.as_deref())?;
        let threshold = analysis.canary_ready_threshold();
        let since = self.status.last_transition_time.as_ref().map(|time| time.0);
        let ours = [crate::cluster::write::FIELD_MANAGER, "flagger"];
        let edited_since = since.is_some_and(|since| {
            let fields = &target["metadata"]["managedFields"];
            primary::template_writers_after(fields, &ours, since)
        });
        let observed = Target {
            revision: of_target.revision.clone(),
            configs: task.cx.options.config_tracking.then(|| Configs::new(tracked.clone())),
            replicas: self.workload.replicas(target),
            form: self.workload.form(),
            scaler_paused: self.is_scaler_paused(task),
            readiness: self.workload.readiness(
                target,
                threshold,
                self.deadline(task, task.lacking.target),
            ),
            same_as_primary,
            edited_since,
            replicas_to_run: self.replicas_to_run(task, target),
        };
        Ok((observed, tracked))
    }

    fn track(task: &Task, references: &[ConfigRef]) -> Result<Tracked, WorkloadError> {
        if !task.cx.options.config_tracking {
            return Ok(Tracked::new());
        }
        let mut digests: BTreeMap<_, Arc<ConfigDigest>> = BTreeMap::new();
        for reference in references {
            let key = Key::new(&task.key.namespace, &reference.name);
            if let Some(digest) = task.cx.cluster.cache.digest(reference.kind, &key) {
                digests.insert((reference.kind, reference.name.clone()), digest);
            }
        }
        config::track(references, |kind, name| {
            digests.get(&(kind, name.to_owned())).map(Arc::as_ref)
        })
    }

    /// Of a workload, from where the rollout came to where it stands.
    fn deadline(&self, task: &Task, lacking_since: Option<Since>) -> Deadline {
        let clocks = Clocks::now(&*task.cx.clock);
        Deadline {
            seconds: i64::from(self.canary.spec.progress_deadline_s()),
            from: self.status.last_transition_time.as_ref().map(|time| time.0),
            lacking_since: lacking_since.and_then(|since| clocks.on_the_wall(since)),
            now: clocks.wall,
        }
    }

    fn replicas_to_run(&self, task: &Task, target: &Value) -> i64 {
        let spec = &self.canary.spec;
        let minimum = spec.autoscaler_ref.as_ref().map(|scaler| {
            let object = Self::scaler_object(task, scaler, &scaler.name);
            object.map_or(1, |object| Scaler::of(scaler).min_replicas(&object))
        });
        self.workload.scale_from_zero(target, self.primary.as_deref(), minimum)
    }

    fn is_scaler_paused(&self, task: &Task) -> bool {
        self.canary.spec.autoscaler_ref.as_ref().is_some_and(|scaler| {
            let object = Self::scaler_object(task, scaler, &scaler.name);
            object.is_some_and(|object| Scaler::of(scaler).is_paused(&object))
        })
    }

    /// What lets the target's scaler act again, or keeps it from acting.
    pub(super) fn pause_scaler(&self, task: &Task, is_paused: bool) -> Option<Change> {
        let scaler = self.canary.spec.autoscaler_ref.as_ref()?;
        let object = Self::scaler_object(task, scaler, &scaler.name)?;
        Scaler::of(scaler).pause(&object, is_paused)
    }

    fn look_at_primary(&mut self, task: &Task, target: Option<&Target>) {
        let Some(primary) = self.primary.clone() else {
            self.observed.objects.primary = self.missing_primary(task, target);
            return;
        };
        let memory = &self.observed.memory;
        let analysis = &self.canary.spec.analysis;
        let threshold = analysis.primary_ready_threshold();
        let none = Tracked::new();
        let configs = memory.configs.as_deref().unwrap_or(&none);
        let applied = memory.applied.as_ref().map_or("", Revision::as_str);
        let id = primary["spec"]["template"]["metadata"]["annotations"]["flagger-id"].as_str();
        let id = id.unwrap_or_default();
        let is_given = match self.workload {
            WorkloadKind::Service => self.workload.revision(&primary) == applied,
            WorkloadKind::Knative => {
                self.workload.revision_of_primary(&primary).as_deref() == Some(applied)
            }
            WorkloadKind::Deployment | WorkloadKind::DaemonSet => {
                id == primary::flagger_id(applied, configs)
            }
        };
        // An identifier of another controller says nothing; what runs does.
        let is_foreign = id.get(14..15).is_none_or(|version| version != "8");
        let is_same = target.is_some_and(|target| target.same_as_primary);
        self.observed.primary = Primary {
            exists: true,
            readiness: match self.workload {
                // It served before it was made the primary, and Knative keeps it.
                WorkloadKind::Knative => Readiness::Ready,
                kind => {
                    kind.readiness(&primary, threshold, self.deadline(task, task.lacking.primary))
                }
            },
            is_updated: is_given || (is_foreign && is_same),
            replicas: self.workload.replicas(&primary),
        };
        if self.workload == WorkloadKind::Knative {
            // The user's own, and it stays so.
            self.observed.objects.primary = State::InSync;
            return;
        }
        let owned = require_owned(&self.owner(), self.workload.kind(), &primary);
        self.observed.objects.primary = match owned {
            Ok(()) => State::InSync,
            Err(_) if self.left_by_flagger(task).is_some() => State::InSync,
            Err(error) => State::Blocked(Obstacle(error.to_string())),
        };
    }

    /// A primary that is not there can be made from the target, or made again from what was promoted.
    fn missing_primary(&self, task: &Task, target: Option<&Target>) -> State {
        let memory = &self.observed.memory;
        let is_first = !self.is_set_up();
        let is_target = target.is_some_and(|it| memory.promoted.as_ref() == Some(&it.revision));
        let is_known =
            is_first || is_target || self.is_pinned() || self.primary_revision().is_some();
        if self.workload == WorkloadKind::Knative && is_known {
            // To choose it is to pin traffic to it: one write, which the router knows.
            let choice = self.mesh.reconcile(&self.route_cx(&task.key.namespace), &self.live);
            return state_of(choice).0;
        }
        if is_first {
            return State::OutOfSync;
        }
        let name = Snapshot::name(&self.canary.spec.target_ref.name);
        let key = Key::new(&task.key.namespace, &name);
        let kind = config::ConfigKind::Secret;
        let is_kept = task.cx.cluster.cache.digest(kind, &key).is_some();
        if is_kept && self.target.is_none() {
            // What else it is made of, its names and settings, is the target's.
            let why =
                "the primary is gone, and so is the target, without which it is not made again";
            return State::Blocked(Obstacle(why.to_owned()));
        }
        if is_kept || is_target {
            return State::OutOfSync;
        }
        let why = match self.workload {
            WorkloadKind::Knative => {
                "annotation flagger.app/primary-revision is gone and no traffic is pinned; name in \
                 it the revision that was promoted"
            }
            WorkloadKind::Deployment | WorkloadKind::DaemonSet | WorkloadKind::Service => {
                "the primary is gone and what it ran is not known; revert the target to what was \
                 promoted"
            }
        };
        State::Blocked(Obstacle(why.to_owned()))
    }

    /// Whether traffic of a Service of Knative is divided by the names of revisions: one of them is the
    /// primary, although nothing else says so. A preview, which has a tag, is none of them.
    fn is_pinned(&self) -> bool {
        let target = self.target.as_ref();
        let entries = target.and_then(|target| target["spec"]["traffic"].as_array());
        let is_named = |it: &Value| it["revisionName"].is_string() && it["tag"].is_null();
        entries.is_some_and(|entries| entries.iter().any(is_named))
    }

    fn look_at_setup(&mut self, task: &Task, target: &Value) -> Result<(), WorkloadError> {
        if self.workload == WorkloadKind::Knative {
            // Knative has Services of its own.
            return Ok(());
        }
        let Some(service) = self.canary.spec.service.clone() else { return Ok(()) };
        if self.workload == WorkloadKind::Service {
            return self.look_at_copies(task, target);
        }
        let cx = self.cx(task);
        let selector = SelectorLabel::of(&cx, target)?;
        let names = self.canary.spec.service_names();
        primary::check_names(&cx, &selector, &names.apex)?;
        let services = Services::new(self.owner(), &service, names, selector, target);
        let side = match apex_side(&self.observed.plan, &self.observed.memory) {
            // A switched apex is where it is: moving it is a shift of traffic.
            Side::Primary if self.apex_is_switched(task) => services::Side::Canary,
            Side::Primary => services::Side::Primary,
            Side::Canary => services::Side::Canary,
        };
        let before = Self::service(task, services.name(Role::Primary));
        let moves = services.leads_elsewhere(Role::Primary, before.as_deref());
        let (mut found, mut notes) = (Vec::new(), BTreeMap::new());
        for (piece, role) in [
            (ManagedObject::CanaryService, Role::Canary),
            (ManagedObject::PrimaryService, Role::Primary),
            (ManagedObject::ApexService, Role::Apex(side)),
        ] {
            let live = Self::service(task, services.name(role));
            let sync = services.sync(role, live.as_deref()).map_err(|error| error.to_string());
            let note = sync.as_ref().ok().and_then(|sync| sync.note.clone());
            notes.extend(note.map(|note| (piece, fact_of(note))));
            let sync = sync.map(|sync| sync.changes);
            let is_primary = piece == ManagedObject::PrimaryService;
            let is_in_place = sync.as_ref().is_ok_and(Vec::is_empty);
            found.push((piece, if is_primary && is_in_place { self.prepared(task) } else { sync }));
        }
        let back =
            services.finalize(Self::service(task, services.name(Role::Apex(side))).as_deref());
        self.note_way_back(back);
        self.notes = notes;
        self.observed.objects.primary_service_moves = moves;
        let scaler = self.scaler(task);
        found.push((ManagedObject::PrimaryScaler, scaler));
        for (piece, sync) in found {
            let (state, changes) = state_of(sync);
            self.changes.insert(piece, changes);
            match piece {
                ManagedObject::CanaryService => self.observed.objects.canary_service = state,
                ManagedObject::PrimaryService => self.observed.objects.primary_service = state,
                ManagedObject::ApexService => self.observed.objects.apex_service = state,
                ManagedObject::PrimaryScaler => self.observed.objects.primary_scaler = state,
                ManagedObject::Primary | ManagedObject::Route => {}
            }
        }
        Ok(())
    }

    /// A target that is gone says nothing about its pods. A Service that was taken over is given back
    /// by what was written down of it: it must not lead to a primary that goes with the canary.
    fn look_at_apex_without_target(&mut self, task: &Task) {
        let is_made_here =
            matches!(self.workload, WorkloadKind::Deployment | WorkloadKind::DaemonSet);
        let Some(service) = self.canary.spec.service.clone().filter(|_| is_made_here) else {
            return;
        };
        let names = self.canary.spec.service_names();
        let apex = Self::service(task, &names.apex);
        let back = services::give_back(self.owner(), &service, names, apex.as_deref());
        self.note_way_back(back);
    }

    fn note_way_back(&mut self, back: Result<Option<Change>, WorkloadError>) {
        if self.observed.lifecycle.deleted_at.is_none() {
            return;
        }
        let (state, changes) = state_of(back.map(|change| change.into_iter().collect()));
        self.observed.objects.apex_restored = state;
        self.apex_back = changes;
    }

    /// Of a Service the target itself is what clients use, and only its copy follows it.
    fn look_at_copies(&mut self, task: &Task, target: &Value) -> Result<(), WorkloadError> {
        let cx = self.cx(task);
        clone::check_names(&cx)?;
        let live = Self::service(task, &format!("{}-canary", cx.target));
        let change = clone::sync_canary(&cx, target, self.distribution(), live.as_deref());
        let (state, changes) = state_of(change.map(|change| change.into_iter().collect()));
        let back = self.left_by_flagger(task).map(|change| Ok(vec![change]));
        let (prepared, others) = state_of(back.unwrap_or_else(|| self.prepared(task)));
        self.observed.objects.canary_service = state;
        self.observed.objects.primary_service = prepared;
        self.changes.insert(ManagedObject::CanaryService, changes);
        self.changes.insert(ManagedObject::PrimaryService, others);
        Ok(())
    }

    /// What makes a primary's copy the canary's own again that lost its owner to Flagger.
    fn left_by_flagger(&self, task: &Task) -> Option<Change> {
        let (target, primary) = (self.target.as_ref()?, self.primary.as_ref()?);
        let can_be = self.is_set_up() && self.workload == WorkloadKind::Service;
        can_be.then(|| clone::adopt(&self.cx(task), target, primary)).flatten()
    }

    /// The hint to the network that the canary has for Services made for it.
    pub(super) fn distribution(&self) -> Option<&'static str> {
        let service = self.canary.spec.service.as_ref()?;
        Some(service.traffic_distribution?.as_str())
    }

    /// What pods of the primary need beside their Service, if that can be written.
    fn prepared(&self, task: &Task) -> Result<Vec<Change>, String> {
        let kinds = self.mesh.kinds_for(&self.canary.spec);
        let is_listed = |kind: &Kind| task.cx.cluster.cache.state(*kind) == TableState::Synced;
        // What was wrong with the spec is left out of it: what is there was written by a better one.
        if !kinds.iter().all(is_listed) || self.observed.objects.spec_error.is_some() {
            return Ok(Vec::new());
        }
        let changes = self.mesh.prepare(&self.route_cx(&task.key.namespace), &self.live);
        changes.map_err(|error| error.to_string())
    }

    pub(super) fn service(task: &Task, name: &str) -> Option<Arc<Value>> {
        task.cx.cluster.cache.get(SERVICE, &Key::new(&task.key.namespace, name))
    }

    /// The primary's scaler is made when it is missing; it is kept up to date by promotions alone.
    fn scaler(&self, task: &Task) -> Result<Vec<Change>, String> {
        let Some(scaler) = &self.canary.spec.autoscaler_ref else { return Ok(Vec::new()) };
        let kind = Scaler::of(scaler).kind();
        if let Some(why) = task.cx.cluster.cache.state(kind).failure() {
            return Err(why.to_owned());
        }
        let changes = match Self::scaler_object(task, scaler, &scaler::primary_name(scaler)) {
            Some(primary) => {
                let owned = require_owned(&self.owner(), kind, &primary);
                owned.map(|()| Scaler::of(scaler).wake(&primary).into_iter().collect())
            }
            None => self.refreshed_scaler(task),
        };
        changes.map_err(|error| error.to_string())
    }

    /// What brings the primary's scaler to the target's settings.
    pub(super) fn refreshed_scaler(&self, task: &Task) -> Result<Vec<Change>, WorkloadError> {
        let Some(scaler) = &self.canary.spec.autoscaler_ref else { return Ok(Vec::new()) };
        let kind = Scaler::of(scaler);
        let primary = Self::scaler_object(task, scaler, &scaler::primary_name(scaler));
        let Some(target) = Self::scaler_object(task, scaler, &scaler.name) else {
            if primary.is_some() {
                // Deleted since: the primary keeps the settings it has. A promotion that waits for
                // new ones would leave traffic divided for as long as they do not come.
                return Ok(Vec::new());
            }
            let (kind, name) = (kind.kind().kind, scaler.name.clone());
            return Err(WorkloadError::ScalerMissing { kind, name });
        };
        let change = kind.sync(&self.cx(task), scaler, &target, primary.as_deref())?;
        Ok(change.into_iter().collect())
    }

    fn scaler_object(task: &Task, scaler: &AutoscalerRef, name: &str) -> Option<Arc<Value>> {
        let key = Key::new(&task.key.namespace, name);
        task.cx.cluster.cache.get(Scaler::of(scaler).kind(), &key)
    }

    /// What the server refused is not tried again for a while, and the engine decides upon that.
    fn note_refusals(&mut self, task: &Task) {
        let now = task.cx.clock.monotonic();
        let generation = self.generation();
        let objects = &mut self.observed.objects;
        objects.shift_refused = task.refusals.last(Attempt::Divide);
        let pieces: [(&[Attempt], &mut State); 9] = [
            (&[Attempt::Place(ManagedObject::CanaryService)], &mut objects.canary_service),
            (&[Attempt::Place(ManagedObject::PrimaryService)], &mut objects.primary_service),
            (&[Attempt::Place(ManagedObject::Primary)], &mut objects.primary),
            (&[Attempt::Place(ManagedObject::PrimaryScaler)], &mut objects.primary_scaler),
            (&[Attempt::Place(ManagedObject::ApexService)], &mut objects.apex_service),
            (&[Attempt::Place(ManagedObject::Route), Attempt::Divide], &mut objects.route),
            (&[Attempt::RetirePreviousRoute], &mut objects.previous_route),
            (&[Attempt::RestoreApex], &mut objects.apex_restored),
            (&[Attempt::RestoreRoute], &mut objects.route_restored),
        ];
        for (attempts, state) in pieces {
            let refused = |it: &Attempt| task.refusals.obstacle(*it, now, generation);
            if let Some(obstacle) = attempts.iter().find_map(refused) {
                *state = State::Blocked(obstacle);
            }
        }
    }
}

fn fact_of(note: services::Note) -> Fact {
    match note {
        services::Note::TakenOver { name } => Fact::ServiceTakenOver(name),
        services::Note::Recreated { name, headless } => {
            Fact::ServiceRecreated { service: name, headless }
        }
    }
}

pub(super) fn state_of(
    outcome: Result<Vec<Change>, impl std::fmt::Display>,
) -> (State, Vec<Change>) {
    match outcome {
        Ok(changes) if changes.is_empty() => (State::InSync, changes),
        Ok(changes) => (State::OutOfSync, changes),
        Err(error) => (State::Blocked(Obstacle(error.to_string())), Vec::new()),
    }
}
