//! One canary and the objects around it, as entries of a trace.

use std::{
    collections::{BTreeMap, VecDeque},
    fmt::Display,
    mem,
};

use jiff::Timestamp;
use kube_sandbox::{
    cluster::{EVENTS, Resource},
    controllers::KNATIVE_SERVICES,
};
use serde_json::Value;
use tidegate_api::canary::{Canary, CanaryPhase};
use tidegate_engine::{Configs, Fact, Note, Percent, Phase, Readiness, Revision, Side, Split};
use tidegate_engine_check::check::{Checker, Claims, Entry, Pods, Template, TraceEvent, Workload};
use tidegate_providers::{
    canary::understand,
    traffic::Mesh,
    workload::{
        WorkloadKind,
        config::{self, ConfigDigest, ConfigKind},
        primary::{self, Deadline},
    },
};

use super::{Change, Habits, Objects, is_ours, moment};
use crate::rollout::{CONFIG_MAPS, DAEMON_SETS, DEPLOYMENTS, SECRETS, SERVICES};

const FINALIZER: &str = "finalizer.flagger.app";
/// Entries that are shown with a violation.
const SHOWN: usize = 25;

/// A canary with the state needed to judge it.
#[derive(Clone)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(super) struct Watched {
    pub(super) canary: Canary,
    pub(super) mesh: Mesh,
    uid: String,
    /// No event since the operator's last opportunity to reconcile.
    is_quiet: bool,
    /// The objects existed before: their fields have no writer.
    is_beginning: bool,
    /// An older canary has the target.
    stands_back: bool,
    /// Several operators are at work.
    pub(super) is_shared: bool,
    habits: Habits,
    checker: Checker,
    phase: Phase,
    entries: usize,
    recent: VecDeque<String>,
    violations: Vec<String>,
    /// The template of each promotion, by its identifier.
    promotions: BTreeMap<String, Template>,
    target: Option<Template>,
    pods: [Option<Pods>; 2],
    /// The time since which each lacks pods.
    lacking: [Option<Timestamp>; 2],
    apex: Option<Side>,
    split: Option<Split>,
    /// The canary with its former routes, in this rollout.
    former: Vec<(Canary, Mesh)>,
    pub(super) calls: super::calls::Calls,
}

/// The target of a canary, and the canary's age: the oldest canary of a target acts.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Claim {
    pub(super) target: (String, String),
    pub(super) age: (Option<Timestamp>, String),
}

// === impl Watched ===

impl Watched {
    /// `None` for an object that is no canary.
    pub(super) fn new(object: &Value, habits: &Habits) -> Option<Self> {
        let canary: Canary = serde_json::from_value(object.clone()).ok()?;
        let (mesh, plan, _) = understand(&canary, &habits.mesh_provider)?;
        Some(Self {
            mesh,
            uid: canary.metadata.uid.clone().unwrap_or_default(),
            canary,
            is_quiet: false,
            is_beginning: false,
            stands_back: false,
            is_shared: false,
            habits: habits.clone(),
            checker: Checker::new(plan),
            phase: Phase::New,
            entries: 0,
            recent: VecDeque::new(),
            violations: Vec::new(),
            promotions: BTreeMap::new(),
            target: None,
            pods: [None; 2],
            lacking: [None; 2],
            apex: None,
            split: None,
            former: Vec::new(),
            calls: super::calls::Calls::default(),
        })
    }

    pub(super) fn uid(&self) -> &str {
        &self.uid
    }

    /// Several operators run: each may send events and messages.
    pub(super) fn share(&mut self) {
        self.is_shared = true;
    }

    pub(super) fn claim(&self) -> Claim {
        let metadata = &self.canary.metadata;
        let since = metadata.creation_timestamp.as_ref().map(|time| time.0);
        let target = self.canary.spec.target_ref.name.clone();
        Claim { target: (self.namespace().to_owned(), target), age: (since, self.uid.clone()) }
    }

    pub(super) fn stands_back(&self) -> bool {
        self.stands_back
    }

    /// While another canary has the target, this one must not write anything; its trace begins again
    /// afterwards.
    pub(super) fn stand_back(&mut self, is_so: bool, at: Timestamp, objects: &Objects) {
        if self.stands_back == is_so {
            return;
        }
        self.stands_back = is_so;
        self.see(at, TraceEvent::Refused(is_so));
        if !is_so {
            self.begin(at, objects);
        }
    }

    pub(super) fn entries(&self) -> usize {
        self.entries
    }

    pub(super) fn take_violations(&mut self) -> Vec<String> {
        std::mem::take(&mut self.violations)
    }

    /// Adds an entry and checks it.
    pub(super) fn see(&mut self, at: Timestamp, what: TraceEvent) {
        self.entries += 1;
        self.is_quiet = false;
        let text = format!("{at} {what:?}").chars().take(400).collect();
        self.recent.push_back(text);
        if self.recent.len() > SHOWN {
            self.recent.pop_front();
        }
        let violation = self.checker.see(&Entry { at: moment(at), event: what });
        if let Some(violation) = violation {
            self.report(&violation);
        }
    }

    /// Keeps a violation, with the entries before it.
    pub(super) fn report(&mut self, violation: &dyn Display) {
        let name = self.canary.metadata.name.as_deref().unwrap_or_default();
        let recent: Vec<_> = self.recent.iter().map(String::as_str).collect();
        self.violations.push(format!("{name}: {violation}; last:\n  {}", recent.join("\n  ")));
    }

    /// The state before the canary.
    pub(super) fn begin(&mut self, at: Timestamp, objects: &Objects) {
        let namespace = self.namespace().to_owned();
        let spec = &self.canary.spec;
        let names = spec.service_names();
        let here = |kind: Resource, name: String| (kind, namespace.clone(), name);
        let mut places = vec![
            here(self.table(), spec.target_ref.name.clone()),
            here(self.table(), spec.primary_name()),
            here(SERVICES, names.apex),
        ];
        let routes = super::route::places(&self.canary, self.mesh, objects, &namespace);
        places.extend(routes.into_iter().filter(|(table, ..)| *table != SERVICES));
        self.is_beginning = true;
        for (table, namespace, name) in places {
            let Some(object) = objects.get(table, &namespace, &name) else { continue };
            let key = (namespace.as_str().into(), name.as_str().into());
            let change = Change { table, key: &key, before: None, now: Some(object) };
            self.on_change(&change, at, objects);
        }
        self.is_beginning = false;
    }

    /// Whether the operator was the last to write this field since the trace began.
    fn is_ours(&self, object: &Value, path: &[&str]) -> bool {
        !self.is_beginning && is_ours(object, path)
    }

    /// No task can run at this moment: the operator has seen all changes.
    pub(super) fn rest(&mut self, at: Timestamp, objects: &Objects, is_at_work: bool) {
        if self.stands_back {
            return;
        }
        self.look_at_pods(at, objects);
        if !self.is_quiet {
            self.see(at, TraceEvent::Looked);
            if !self.says_what_it_waits_for() {
                self.see(at, TraceEvent::Waits(""));
            }
            if is_at_work {
                let claims = self.claims();
                self.see(at, TraceEvent::Says(claims));
            }
            self.is_quiet = true;
        }
    }

    /// Whether exactly one of the conditions of progress is true, with a reason and a message.
    fn says_what_it_waits_for(&self) -> bool {
        let status = self.canary.status.clone().unwrap_or_default();
        if status.last_decision.is_none() || self.canary.metadata.deletion_timestamp.is_some() {
            // Not reconciled yet, reconciled by another controller, or about to be deleted.
            return true;
        }
        let kinds = ["Ready", "Reconciling", "Stalled"];
        let holds = status
            .conditions
            .iter()
            .filter(|it| kinds.contains(&it.condition_type.as_str()) && it.status == "True");
        let holds: Vec<_> = holds.collect();
        let says = |message: Option<&str>| message.is_some_and(|text| !text.is_empty());
        matches!(&*holds, [one] if !one.reason.is_empty() && says(one.message.as_deref()))
    }

    /// What the conditions promise, of the canary's present generation.
    fn claims(&self) -> Claims {
        let status = self.canary.status.clone().unwrap_or_default();
        let is_ours = status.last_decision.is_some();
        let holds = |kind: &str| {
            let mut all = status.conditions.iter();
            is_ours && all.any(|it| it.condition_type == kind && it.status == "True")
        };
        Claims { ready: holds("Ready"), promoted: holds("Promoted") }
    }

    pub(super) fn on_canary(&mut self, change: &Change<'_>, at: Timestamp, objects: &Objects) {
        let held = |object: &Value| {
            object["metadata"]["finalizers"]
                .as_array()
                .is_some_and(|list| list.iter().any(|it| it == FINALIZER))
        };
        let was_held = change.before.is_some_and(held);
        let is_held = change.now.is_some_and(held);
        if was_held && !is_held {
            self.on_release(at, objects);
        } else if is_held && !was_held {
            self.see(at, TraceEvent::Held);
        }
        let Some(now) = change.now else { return };
        let field = |path: &str| {
            let before = change.before.and_then(|before| before.pointer(path));
            (before != now.pointer(path)).then_some(())
        };
        if field("/metadata/deletionTimestamp").is_some() {
            self.see(at, TraceEvent::Deleted);
        }
        if field("/metadata/annotations/flagger.app~1webhook-restart").is_some() {
            self.see(at, TraceEvent::Retried);
        }
        let Ok(mut canary) = serde_json::from_value::<Canary>(now.clone()) else { return };
        let phase = canary.status.as_ref().map_or(CanaryPhase::Unset, |status| status.phase);
        let is_anew = matches!(phase, CanaryPhase::Unset | CanaryPhase::Initializing);
        if self.phase != Phase::New && !is_anew {
            // The target of the setup stays the target, also when the spec names another, until the next
            // setup.
            canary.spec.target_ref = self.canary.spec.target_ref.clone();
        }
        let is_retargeted = canary.spec.target_ref != self.canary.spec.target_ref;
        let Some((mesh, plan, memory)) = understand(&canary, &self.habits.mesh_provider) else {
            return;
        };
        let before = (mem::replace(&mut self.canary, canary), mem::replace(&mut self.mesh, mesh));
        if memory.phase.is_idle() {
            self.former.clear();
        }
        if field("/spec").is_some() || is_retargeted {
            self.note_former_route(before, objects);
            self.see(at, TraceEvent::Planned(Box::new(plan)));
            self.on_target(at, objects);
        }
        let was = change.before.and_then(|it| it["status"]["phase"].as_str()).unwrap_or_default();
        if !was.is_empty() && memory.phase == Phase::New {
            // Only a user or a restore removes the phase.
            self.phase = Phase::New;
            self.see(at, TraceEvent::StatusLost);
        } else if field("/status").is_some() && !(self.stands_back && memory.phase == Phase::New) {
            if memory.phase == Phase::Promoting {
                self.pass_without_checks(at);
            }
            self.phase = memory.phase;
            self.see(at, TraceEvent::Remembered(Box::new(memory)));
        }
    }

    fn on_release(&mut self, at: Timestamp, objects: &Objects) {
        let apex = self.canary.spec.service_names().apex;
        let apex = objects.get(SERVICES, self.namespace(), &apex);
        let owners = apex.and_then(|apex| apex["metadata"]["ownerReferences"].as_array());
        if owners.is_some_and(|owners| owners.iter().any(|owner| owner["uid"] == self.uid.as_str()))
        {
            // A Service that was made for the canary is deleted with it: no client is left on it.
            self.see(at, TraceEvent::ApexEdited(Side::Canary));
        }
        self.see(at, TraceEvent::Released);
    }

    pub(super) fn on_change(&mut self, change: &Change<'_>, at: Timestamp, objects: &Objects) {
        let name = &*change.key.1;
        let spec = &self.canary.spec;
        let services = spec.service_names();
        if self.kind() == WorkloadKind::Knative && change.table == self.table() {
            if name == spec.target_ref.name {
                self.on_knative(change, at, objects);
            }
        } else if change.table == self.table() {
            if name == spec.target_ref.name {
                self.on_workload(Workload::Target, change, at, objects);
            } else if name == spec.primary_name() {
                self.on_workload(Workload::Primary, change, at, objects);
            }
        } else if change.table == SERVICES {
            if name == services.apex {
                self.on_apex(change, at, objects);
            } else if name == services.primary || name == services.canary {
                self.see(at, TraceEvent::Placed);
            }
        } else if change.table == EVENTS {
            self.on_event(change, at);
        } else if change.table == CONFIG_MAPS || change.table == SECRETS {
            self.on_target(at, objects);
        } else if self.is_route(change, objects) {
            self.on_route(change, at, objects);
        }
    }

    /// The kind of target and primary.
    fn kind(&self) -> WorkloadKind {
        let kind = WorkloadKind::of(&self.canary.spec.target_ref);
        kind.unwrap_or(WorkloadKind::Deployment)
    }

    fn table(&self) -> Resource {
        match self.kind() {
            WorkloadKind::Deployment => DEPLOYMENTS,
            WorkloadKind::DaemonSet => DAEMON_SETS,
            WorkloadKind::Service => SERVICES,
            WorkloadKind::Knative => KNATIVE_SERVICES,
        }
    }

    /// A Service of Knative is the target, the primary and the route in one, in this order: a revision is
    /// made the primary and given traffic in one write.
    fn on_knative(&mut self, change: &Change<'_>, at: Timestamp, objects: &Objects) {
        self.on_workload(Workload::Target, change, at, objects);
        let Some(now) = change.now else { return };
        let of_primary = |object: &Value| self.kind().revision_of_primary(object);
        let (before, primary) = (change.before.and_then(of_primary), of_primary(now));
        if primary.is_none() && before.is_some() {
            // It serves as before, but no object names the revision.
            self.see(at, TraceEvent::PrimaryGone);
        }
        if primary.is_some() && primary != before {
            let given = Box::new(self.promotion(now));
            let annotation = ["metadata", "annotations", "flagger.app/primary-revision"];
            let is_ours = self.is_ours(now, &annotation);
            self.see(
                at,
                if is_ours {
                    TraceEvent::Templated(given, None)
                } else {
                    TraceEvent::PrimaryIs(given)
                },
            );
            let serves = Pods { serving: true, ready: true, stuck: false };
            self.see(at, TraceEvent::Pods(Workload::Primary, serves));
        }
        self.on_route(change, at, objects);
    }

    /// Whether this is one of the objects that divide traffic.
    fn is_route(&self, change: &Change<'_>, objects: &Objects) -> bool {
        let (namespace, name) = change.key;
        let places = super::route::places(&self.canary, self.mesh, objects, self.namespace());
        places.iter().any(|(table, place, called)| {
            *table == change.table && **place == **namespace && **called == **name
        })
    }

    fn on_workload(
        &mut self,
        workload: Workload,
        change: &Change<'_>,
        at: Timestamp,
        objects: &Objects,
    ) {
        let Some(now) = change.now else {
            let is_target = workload == Workload::Target;
            self.see(at, if is_target { TraceEvent::TargetGone } else { TraceEvent::PrimaryGone });
            self.see(at, TraceEvent::Pods(workload, Pods::default()));
            if let Some(slot) = self.pods.get_mut(workload as usize) {
                *slot = None;
            }
            return;
        };
        let kind = self.kind();
        let replicas = kind.replicas(now);
        let scaled = change.before.map(|before| kind.replicas(before)) != Some(replicas);
        let field: &[&str] = match kind {
            WorkloadKind::Deployment => &["spec", "replicas"],
            // Owned as a whole, and without an owner once it is empty.
            WorkloadKind::DaemonSet => &["spec", "template", "spec", "nodeSelector"],
            WorkloadKind::Service => &["spec", "selector"],
            WorkloadKind::Knative => &["spec", "template"],
        };
        let is_ours_scaled = scaled && self.is_ours(now, field);
        match workload {
            Workload::Target => self.on_target(at, objects),
            Workload::Primary => {
                let template = |object: &Value| kind.template(object).into_owned();
                let made: &[&str] = match kind {
                    WorkloadKind::Service => &["spec", "selector"],
                    WorkloadKind::Deployment | WorkloadKind::DaemonSet | WorkloadKind::Knative => {
                        &["spec", "template"]
                    }
                };
                let is_new = change.before.map(template) != Some(template(now));
                if self.is_beginning {
                    let runs = self.promotion(now);
                    self.see(at, TraceEvent::PrimaryIs(Box::new(runs)));
                } else if is_new && is_ours(now, made) {
                    let given = self.promotion(now);
                    let count = is_ours_scaled.then_some(replicas);
                    self.see(at, TraceEvent::Templated(Box::new(given), count));
                }
            }
        }
        if is_ours_scaled && replicas == 0 {
            self.look_at_former_routes(at, objects);
        }
        if is_ours_scaled {
            self.see(at, TraceEvent::Scaled(workload, replicas));
        } else if scaled {
            self.see(at, TraceEvent::ScaledByOthers(workload, replicas));
        }
        self.on_pods(workload, now, at);
    }

    /// Records the target if it changed.
    fn on_target(&mut self, at: Timestamp, objects: &Objects) {
        let namespace = self.namespace().to_owned();
        let name = &self.canary.spec.target_ref.name;
        let Some(target) = objects.get(self.table(), &namespace, name) else { return };
        let tracks = self.kind() != WorkloadKind::Knative;
        let pods = tracks.then(|| &target["spec"]["template"]["spec"]);
        let references = pods.map(config::references).unwrap_or_default();
        let digests: BTreeMap<_, _> = references
            .iter()
            .filter_map(|reference| {
                let table = match reference.kind {
                    ConfigKind::ConfigMap => CONFIG_MAPS,
                    ConfigKind::Secret => SECRETS,
                };
                let object = objects.get(table, &namespace, &reference.name)?;
                let digest = ConfigDigest::of(reference.kind, object);
                Some(((reference.kind, reference.name.clone()), digest))
            })
            .collect();
        let tracked =
            config::track(&references, |kind, name| digests.get(&(kind, name.to_owned())));
        let Ok(tracked) = tracked else { return };
        let revision = self.kind().revision(target);
        let configs = self.habits.config_tracking.then(|| Configs::new(tracked.clone()));
        let template = Template { revision: Revision::new(&*revision), configs };
        if self.target.as_ref() == Some(&template) {
            return;
        }
        let tracked = if self.habits.config_tracking { tracked } else { config::Tracked::new() };
        let id = primary::flagger_id(&revision, &tracked);
        self.promotions.insert(id, template.clone());
        self.target = Some(template.clone());
        self.see(at, TraceEvent::TargetIs(Box::new(template)));
    }

    /// The template of the primary, by the identifier it carries.
    fn promotion(&self, primary: &Value) -> Template {
        if matches!(self.kind(), WorkloadKind::Service | WorkloadKind::Knative) {
            let of_primary = self.kind().revision_of_primary(primary);
            let revision = of_primary.unwrap_or_else(|| self.kind().revision(primary));
            let revision = Revision::new(revision);
            let configs = self.habits.config_tracking.then(|| Configs::new(BTreeMap::new()));
            return Template { revision, configs };
        }
        let annotations = &primary["spec"]["template"]["metadata"]["annotations"];
        let id = annotations["flagger-id"].as_str().unwrap_or_default();
        let known = self.promotions.get(id).cloned();
        known.unwrap_or_else(|| Template { revision: Revision::new(id), configs: None })
    }

    /// Deadlines pass also without changes.
    fn look_at_pods(&mut self, at: Timestamp, objects: &Objects) {
        let spec = &self.canary.spec;
        let names = [spec.target_ref.name.clone(), spec.primary_name()];
        for (workload, name) in [Workload::Target, Workload::Primary].into_iter().zip(names) {
            if let Some(object) = objects.get(self.table(), self.namespace(), &name) {
                self.on_pods(workload, object, at);
            }
        }
    }

    fn on_pods(&mut self, workload: Workload, object: &Value, at: Timestamp) {
        let analysis = &self.canary.spec.analysis;
        let threshold = match workload {
            Workload::Target => analysis.canary_ready_threshold(),
            Workload::Primary => analysis.primary_ready_threshold(),
        };
        let kind = self.kind();
        let is_lacking =
            kind.replicas(object) > 0 && kind.unready_reason(object, threshold).is_some();
        let Some(lacking) = self.lacking.get_mut(workload as usize) else { return };
        *lacking = is_lacking.then(|| lacking.unwrap_or(at));
        let unready_since = *lacking;
        let status = self.canary.status.as_ref();
        let deadline = Deadline {
            unready_since,
            seconds: i64::from(self.canary.spec.progress_deadline_s()),
            from: status.and_then(|it| it.last_transition_time.as_ref()).map(|time| time.0),
            now: at,
        };
        let readiness = kind.readiness(object, threshold, deadline);
        let ready = match kind {
            WorkloadKind::Deployment | WorkloadKind::Service | WorkloadKind::Knative => {
                "readyReplicas"
            }
            WorkloadKind::DaemonSet => "numberReady",
        };
        let pods = Pods {
            serving: kind == WorkloadKind::Service
                || object["status"]["latestReadyRevisionName"].is_string()
                || object["status"][ready].as_i64().unwrap_or(0) > 0,
            ready: readiness == Readiness::Ready,
            stuck: matches!(readiness, Readiness::Stuck(_)),
        };
        let Some(slot) = self.pods.get_mut(workload as usize) else { return };
        if slot.replace(pods) != Some(pods) {
            self.see(at, TraceEvent::Pods(workload, pods));
        }
    }

    fn on_apex(&mut self, change: &Change<'_>, at: Timestamp, objects: &Objects) {
        let selector = change.now.and_then(|now| now["spec"]["selector"].as_object());
        let side = selector.filter(|selector| !selector.is_empty()).map(|selector| {
            let is_primary =
                |value: &Value| value.as_str().is_some_and(|value| value.ends_with("-primary"));
            if selector.values().any(is_primary) { Side::Primary } else { Side::Canary }
        });
        if side == self.apex {
            return;
        }
        self.apex = side;
        let is_ours = change.now.is_some_and(|now| self.is_ours(now, &["spec", "selector"]));
        let can = self.mesh.capabilities(&self.canary.spec);
        // At the end the user's objects are restored, and they are the target.
        let is_ending = matches!(self.phase, Phase::Terminating | Phase::Terminated);
        let moves = can.switched && !can.weighted && !is_ending;
        if let Some(side) = side.filter(|_| moves && is_ours) {
            // On plain Services the selector is the whole of live traffic.
            self.look_at_pods(at, objects);
            let canary = if side == Side::Canary { 100 } else { 0 };
            self.split = Some(Split::canary(tidegate_engine::Percent::clamped(canary)));
            self.pass_without_checks(at);
            self.see(at, TraceEvent::Routed { primary: 100 - canary, canary, mirrored: false });
        }
        match side {
            Some(side) if is_ours => self.see(at, TraceEvent::ApexSelects(side)),
            Some(side) => self.see(at, TraceEvent::ApexEdited(side)),
            None => {}
        }
    }

    fn on_route(&mut self, change: &Change<'_>, at: Timestamp, objects: &Objects) {
        let Some(now) = change.now else { return };
        let says =
            |object: &Value| (object["spec"].clone(), super::route::settings(object).cloned());
        if change.before.is_some_and(|before| says(before) == says(now)) {
            return;
        }
        let is_ours = self.is_ours(now, super::route::divided(change.table, now));
        self.look_at_pods(at, objects);
        let names = self.canary.spec.service_names();
        if is_ours && let Some((primary, canary)) = super::route::wrong(now, &names) {
            self.see(at, TraceEvent::Routed { primary, canary, mirrored: false });
            return;
        }
        let namespace = self.namespace().to_owned();
        let split = super::route::split(&self.canary, self.mesh, objects, &namespace);
        let Some(split) = split.filter(|split| self.split != Some(*split)) else { return };
        self.split = Some(split);
        if matches!(self.phase, Phase::Terminating | Phase::Terminated) {
            // The user's objects are restored as they were.
            self.see(at, TraceEvent::Placed);
        } else if is_ours {
            self.pass_without_checks(at);
            let canary = i64::from(split.canary);
            let mirrored = split.mirrored;
            self.see(at, TraceEvent::Routed { primary: 100 - canary, canary, mirrored });
        } else {
            self.see(at, TraceEvent::RouteEdited(split));
        }
    }

    /// Remembers that other objects divided traffic until now.
    fn note_former_route(&mut self, before: (Canary, Mesh), objects: &Objects) {
        let namespace = self.namespace();
        let places =
            |canary: &Canary, mesh: Mesh| super::route::places(canary, mesh, objects, namespace);
        let former = places(&before.0, before.1);
        if !former.is_empty() && former != places(&self.canary, self.mesh) {
            self.former.push(before);
        }
    }

    /// Pods are removed: no former route of the canary may lead to them. Without a current route, the
    /// former ones are all there is to know about traffic.
    fn look_at_former_routes(&mut self, at: Timestamp, objects: &Objects) {
        let namespace = self.namespace().to_owned();
        let split = |(canary, mesh): &(Canary, Mesh)| {
            super::route::split(canary, *mesh, objects, &namespace)
        };
        let share = self.former.iter().filter_map(split).map(|split| split.canary).max();
        if let Some(share) = share.filter(|share| *share > Percent::ZERO) {
            self.report(&format!("parked with {share}% in a route that it had before"));
        }
        let now = super::route::split(&self.canary, self.mesh, objects, &namespace);
        if now.is_none() && !self.former.is_empty() {
            self.split = Some(Split::PRIMARY);
            self.see(at, TraceEvent::RouteEdited(Split::PRIMARY));
        }
    }

    fn on_event(&mut self, change: &Change<'_>, at: Timestamp) {
        let Some(event) = change.now.filter(|_| change.before.is_none()) else { return };
        let is_ours = event["source"]["component"] == "tidegate"
            && event["involvedObject"]["uid"] == self.uid.as_str();
        if is_ours && !self.is_shared {
            let text = |field: &str| event[field].as_str().unwrap_or_default();
            let told = format!("{}: {}", text("reason"), text("message"));
            // Equal texts count as the same fact.
            self.see(at, TraceEvent::Announced(Box::new(Fact::Noted(Note::Other(told)))));
        }
    }

    pub(super) fn namespace(&self) -> &str {
        self.canary.metadata.namespace.as_deref().unwrap_or_default()
    }
}
