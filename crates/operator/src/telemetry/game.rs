//! Series about game workloads and runs of hooks.
//!
//! Names and labels are those of the operators that these kinds come from, where dashboards were built on
//! them. Series of an object go when the object goes, so that their number is bounded.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use parking_lot::Mutex;
use prometheus_client::{
    metrics::{family::Family, histogram::Histogram},
    registry::Registry,
};

use super::series::{FloatGauge, IntGauge};

/// Upper bounds, in seconds.
const BUCKETS_S: [f64; 11] = [0.001, 0.01, 0.1, 0.5, 1.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0];

type Labels = Vec<(&'static str, String)>;

/// Which of the two kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum GameKind {
    Deployment,
    StatefulSet,
}

/// A workload, by name.
#[derive(Clone, Copy, Debug)]
pub struct GameWorkload<'a> {
    pub kind: GameKind,
    pub namespace: &'a str,
    pub name: &'a str,
}

/// An operation on a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodWork {
    Create,
    UpdateInPlace,
    HotPatch,
    Delete,
}

/// Numbers of pods, as its status has them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Replicas {
    pub all: usize,
    pub ready: usize,
    /// Ready for long enough, or for a set those of the old revision.
    pub available_or_current: usize,
    pub updated: usize,
    pub updated_ready: usize,
}

/// A run of a hook, and its workload.
#[derive(Clone, Copy, Debug)]
pub struct HookRun<'a> {
    pub namespace: &'a str,
    pub owner: &'a str,
    pub name: &'a str,
    pub uid: &'a str,
}

/// A histogram with the longest and the shortest time beside it.
#[derive(Clone)]
struct Times {
    all: Family<Labels, Histogram>,
    max: Family<Labels, FloatGauge>,
    min: Family<Labels, FloatGauge>,
}

/// The series of one kind of workload.
struct OfWorkloads {
    looks: Family<Labels, Histogram>,
    created: Times,
    updated: Times,
    deleted: Times,
    /// By the name of the gauge.
    replicas: [Family<Labels, IntGauge>; 5],
}

struct OfHooks {
    looks: Family<Labels, Histogram>,
    survived: Family<Labels, FloatGauge>,
    executed: Times,
    measured: Times,
    made: Family<Labels, Histogram>,
}

/// All series about game workloads.
pub struct GameSeries {
    deployments: OfWorkloads,
    sets: OfWorkloads,
    hooks: OfHooks,
    /// Label sets by object: kind, namespace and name.
    known: Mutex<BTreeMap<Subject, BTreeSet<Labels>>>,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Subject {
    /// None is a run.
    kind: Option<GameKind>,
    namespace: String,
    name: String,
}

// === impl Times ===

impl Times {
    fn new() -> Self {
        let all = Family::new_with_constructor(times as fn() -> Histogram);
        Self { all, max: Family::default(), min: Family::default() }
    }

    fn register(&self, registry: &mut Registry, name: &str, help: &str) {
        registry.register(name, help, self.all.clone());
        let kinds = [("max", "longest", &self.max), ("min", "shortest", &self.min)];
        for (suffix, which, family) in kinds {
            let help = format!("{help}: the {which}");
            registry.register(format!("{name}_{suffix}"), help, family.clone());
        }
    }

    fn observe(&self, labels: &Labels, time: Duration) {
        let seconds = time.as_secs_f64();
        self.all.get_or_create(labels).observe(seconds);
        let max = self.max.get_or_create(labels);
        max.set(max.get().max(seconds));
        // A gauge that was just made is zero, which no call takes.
        let min = self.min.get_or_create(labels);
        if min.get() <= 0.0 || seconds < min.get() {
            min.set(seconds);
        }
    }

    fn remove(&self, labels: &Labels) {
        self.all.remove(labels);
        self.max.remove(labels);
        self.min.remove(labels);
    }
}

/// A function and not a closure, so that the families have a type one can write down.
fn times() -> Histogram {
    Histogram::new(BUCKETS_S)
}

// === impl OfWorkloads ===

impl OfWorkloads {
    fn register(registry: &mut Registry, kind: GameKind, version: &str) -> Self {
        let registry = registry.sub_registry_with_prefix(kind.prefix());
        let version_of = Family::<Labels, IntGauge>::default();
        version_of.get_or_create(&vec![("version", version.to_owned())]).set(1);
        registry.register("operator_version", "1 for the version that runs", version_of);
        let own = Self {
            looks: Family::new_with_constructor(times as fn() -> Histogram),
            created: Times::new(),
            updated: Times::new(),
            deleted: Times::new(),
            replicas: Default::default(),
        };
        let (name, help) = ("reconcile_duration_seconds", "Time that a reconcile took");
        registry.register(name, help, own.looks.clone());
        let pods = [
            ("pod_create_duration_seconds", "Time to create a pod", &own.created),
            ("pod_update_duration_seconds", "Time to change a pod", &own.updated),
            ("pod_delete_duration_seconds", "Time to delete a pod", &own.deleted),
        ];
        for (name, help, times) in pods {
            times.register(registry, name, help);
        }
        for (gauge, (name, help)) in own.replicas.iter().zip(kind.gauges()) {
            registry.register(name, help, gauge.clone());
        }
        own
    }

    fn remove(&self, labels: &Labels) {
        self.looks.remove(labels);
        for times in [&self.created, &self.updated, &self.deleted] {
            times.remove(labels);
        }
        for gauge in &self.replicas {
            gauge.remove(labels);
        }
    }
}

// === impl OfHooks ===

impl OfHooks {
    fn register(registry: &mut Registry) -> Self {
        let own = Self {
            looks: Family::new_with_constructor(times as fn() -> Histogram),
            survived: Family::default(),
            executed: Times::new(),
            measured: Times::new(),
            made: Family::new_with_constructor(times as fn() -> Histogram),
        };
        let (name, help) =
            ("bkbcs_gameworkload_hookrun_create_duration_seconds", "Time to create a run");
        registry.register(name, help, own.made.clone());
        let registry = registry.sub_registry_with_prefix("bkbcs_hook");
        let (name, help) = ("reconcile_duration_seconds", "Time that a look at a run took");
        registry.register(name, help, own.looks.clone());
        let (name, help) = ("hookrun_survive_time_seconds", "Time since a run began, by phase");
        registry.register(name, help, own.survived.clone());
        let (name, help) = ("hookrun_exec_duration_seconds", "Time that measuring a run took");
        own.executed.register(registry, name, help);
        let (name, help) = ("metric_exec_duration_seconds", "Time that one measurement took");
        own.measured.register(registry, name, help);
        own
    }

    fn remove(&self, labels: &Labels) {
        self.looks.remove(labels);
        self.survived.remove(labels);
        self.executed.remove(labels);
        self.measured.remove(labels);
        self.made.remove(labels);
    }
}

// === impl GameSeries ===

impl GameSeries {
    pub(super) fn register(registry: &mut Registry, version: &str) -> Self {
        Self {
            deployments: OfWorkloads::register(registry, GameKind::Deployment, version),
            sets: OfWorkloads::register(registry, GameKind::StatefulSet, version),
            hooks: OfHooks::register(registry),
            known: Mutex::default(),
        }
    }

    /// A workload was looked at.
    pub fn observe_look(&self, who: GameWorkload<'_>, is_ok: bool, took: Duration) {
        let labels = self.labels(who, [("status", status(is_ok))]);
        self.of(who.kind).looks.get_or_create(&labels).observe(took.as_secs_f64());
    }

    /// A pod was written; `has_grace` if a hook comes before that.
    pub fn observe_pod(
        &self,
        who: GameWorkload<'_>,
        work: PodWork,
        has_grace: bool,
        is_ok: bool,
        took: Duration,
    ) {
        let own = self.of(who.kind);
        if work == PodWork::Create {
            own.created.observe(&self.labels(who, [("status", status(is_ok))]), took);
            return;
        }
        let (times, action) = match work {
            PodWork::HotPatch => (&own.updated, "hotPatchUpdate"),
            PodWork::UpdateInPlace => (&own.updated, "inplaceUpdate"),
            PodWork::Delete | PodWork::Create => (&own.deleted, "deletePod"),
        };
        let grace = if has_grace { "true" } else { "false" };
        let more = [("status", status(is_ok)), ("grace", grace), ("action", action)];
        times.observe(&self.labels(who, more), took);
    }

    pub fn set_replicas(&self, who: GameWorkload<'_>, replicas: Replicas) {
        let labels = self.labels(who, []);
        let Replicas { all, ready, available_or_current, updated, updated_ready } = replicas;
        let counts = [all, ready, available_or_current, updated, updated_ready];
        for (gauge, count) in self.of(who.kind).replicas.iter().zip(counts) {
            gauge.get_or_create(&labels).set(super::count(count));
        }
    }

    /// A run was made for a step or a pod of a workload.
    pub fn observe_run_made(
        &self,
        who: GameWorkload<'_>,
        action: &str,
        is_ok: bool,
        took: Duration,
    ) {
        let labels = vec![
            ("namespace", who.namespace.to_owned()),
            ("name", who.name.to_owned()),
            ("status", status(is_ok).to_owned()),
            ("action", action.to_owned()),
            ("objectKind", who.kind.as_str().to_owned()),
        ];
        self.remember(Subject::of(who), &labels);
        self.hooks.made.get_or_create(&labels).observe(took.as_secs_f64());
    }

    /// A run was looked at.
    pub fn observe_run_look(&self, run: HookRun<'_>, is_ok: bool, took: Duration) {
        let labels = self.run_labels(run, [("status", status(is_ok))]);
        self.hooks.looks.get_or_create(&labels).observe(took.as_secs_f64());
    }

    /// All that was due of a run was measured.
    pub fn observe_run(&self, run: HookRun<'_>, is_ok: bool, took: Duration) {
        let more = [("uid", run.uid), ("action", "measure"), ("status", status(is_ok))];
        self.hooks.executed.observe(&self.run_labels(run, more), took);
    }

    /// One metric of a run was measured.
    pub fn observe_measurement(&self, run: HookRun<'_>, metric: &str, phase: &str, took: Duration) {
        let labels = self.run_labels(run, [("metric", metric), ("phase", phase)]);
        self.hooks.measured.observe(&labels, took);
    }

    /// How long ago a run began that is in this phase now.
    pub fn set_survived(&self, run: HookRun<'_>, phase: &str, time: Duration) {
        let labels = self.run_labels(run, [("name", run.name), ("phase", phase)]);
        self.hooks.survived.get_or_create(&labels).set(time.as_secs_f64());
    }

    /// A workload is gone: so are its series.
    pub fn forget(&self, who: GameWorkload<'_>) {
        for labels in self.take(&Subject::of(who)) {
            self.of(who.kind).remove(&labels);
            self.hooks.remove(&labels);
        }
    }

    /// A run is gone: so are its series, but for those that others of the same owner still have.
    pub fn forget_run(&self, namespace: &str, name: &str) {
        let gone = self.take(&Subject::of_run(namespace, name));
        let known = self.known.lock();
        for labels in gone.iter().filter(|it| !known.values().any(|others| others.contains(*it))) {
            self.hooks.remove(labels);
        }
    }

    fn of(&self, kind: GameKind) -> &OfWorkloads {
        match kind {
            GameKind::Deployment => &self.deployments,
            GameKind::StatefulSet => &self.sets,
        }
    }

    fn labels<const N: usize>(
        &self,
        who: GameWorkload<'_>,
        more: [(&'static str, &str); N],
    ) -> Labels {
        let mut labels = match who.kind {
            GameKind::Deployment => vec![("gd", format!("{}/{}", who.namespace, who.name))],
            GameKind::StatefulSet => {
                vec![("namespace", who.namespace.to_owned()), ("name", who.name.to_owned())]
            }
        };
        labels.extend(more.map(|(name, value)| (name, value.to_owned())));
        self.remember(Subject::of(who), &labels);
        labels
    }

    fn run_labels<const N: usize>(
        &self,
        run: HookRun<'_>,
        more: [(&'static str, &str); N],
    ) -> Labels {
        let mut labels =
            vec![("namespace", run.namespace.to_owned()), ("owner", run.owner.to_owned())];
        labels.extend(more.map(|(name, value)| (name, value.to_owned())));
        self.remember(Subject::of_run(run.namespace, run.name), &labels);
        labels
    }

    fn remember(&self, subject: Subject, labels: &Labels) {
        let mut known = self.known.lock();
        let of_subject = known.entry(subject).or_default();
        if !of_subject.contains(labels) {
            of_subject.insert(labels.clone());
        }
    }

    fn take(&self, subject: &Subject) -> BTreeSet<Labels> {
        let mut known = self.known.lock();
        known.remove(subject).unwrap_or_default()
    }
}

// === impl Subject ===

impl Subject {
    fn of(who: GameWorkload<'_>) -> Self {
        let GameWorkload { kind, namespace, name } = who;
        Self { kind: Some(kind), namespace: namespace.to_owned(), name: name.to_owned() }
    }

    fn of_run(namespace: &str, name: &str) -> Self {
        Self { kind: None, namespace: namespace.to_owned(), name: name.to_owned() }
    }
}

// === impl GameKind ===

impl GameKind {
    fn as_str(self) -> &'static str {
        match self {
            Self::Deployment => "GameDeployment",
            Self::StatefulSet => "GameStatefulSet",
        }
    }

    fn prefix(self) -> &'static str {
        match self {
            Self::Deployment => "bkbcs_gamedeployment",
            Self::StatefulSet => "bkbcs_gamestatefulset",
        }
    }

    /// In the order of [`Replicas`].
    fn gauges(self) -> [(&'static str, &'static str); 5] {
        let third = match self {
            Self::Deployment => ("available_replicas", "Pods that are ready for long enough"),
            Self::StatefulSet => ("current_replicas", "Pods of the revision they come from"),
        };
        [
            ("replicas", "Pods"),
            ("ready_replicas", "Pods that are ready"),
            third,
            ("updated_replicas", "Pods of the revision of the template"),
            ("updated_ready_replicas", "Pods of the revision of the template that are ready"),
        ]
    }
}

fn status(is_ok: bool) -> &'static str {
    if is_ok { "success" } else { "failure" }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEPLOYMENT: GameWorkload<'_> =
        GameWorkload { kind: GameKind::Deployment, namespace: "play", name: "lobby" };
    const SET: GameWorkload<'_> =
        GameWorkload { kind: GameKind::StatefulSet, namespace: "play", name: "rooms" };

    fn run(name: &str) -> HookRun<'_> {
        HookRun { namespace: "play", owner: "lobby", name, uid: name }
    }

    fn page(registry: &Registry) -> Vec<String> {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, registry).unwrap();
        text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
    }

    #[test]
    fn names_and_labels_are_those_that_dashboards_know() {
        let mut registry = Registry::default();
        let series = GameSeries::register(&mut registry, "1.2.3");
        let second = Duration::from_secs(1);
        series.observe_look(DEPLOYMENT, true, second);
        series.observe_pod(DEPLOYMENT, PodWork::Create, true, false, second);
        series.observe_pod(DEPLOYMENT, PodWork::UpdateInPlace, true, true, second);
        series.observe_pod(DEPLOYMENT, PodWork::UpdateInPlace, true, true, 3 * second);
        series.observe_pod(SET, PodWork::Delete, false, true, second);
        let replicas =
            Replicas { all: 4, ready: 3, available_or_current: 2, ..Replicas::default() };
        series.set_replicas(DEPLOYMENT, replicas);
        series.set_replicas(SET, replicas);
        series.observe_run_made(SET, "canary-step", true, second);
        series.observe_run_look(run("a"), true, second);
        series.observe_run(run("a"), true, second);
        series.observe_measurement(run("a"), "age", "Failed", second);
        series.set_survived(run("a"), "Failed", 60 * second);
        let page = page(&registry);
        let update = r#"gd="play/lobby",status="success",grace="true",action="inplaceUpdate""#;
        for want in [
            r#"bkbcs_gamedeployment_operator_version{version="1.2.3"} 1"#.to_owned(),
            r#"bkbcs_gamedeployment_reconcile_duration_seconds_count{gd="play/lobby",status="success"} 1"#.to_owned(),
            r#"bkbcs_gamedeployment_pod_create_duration_seconds_count{gd="play/lobby",status="failure"} 1"#.to_owned(),
            format!("bkbcs_gamedeployment_pod_update_duration_seconds_count{{{update}}} 2"),
            format!("bkbcs_gamedeployment_pod_update_duration_seconds_max{{{update}}} 3.0"),
            format!("bkbcs_gamedeployment_pod_update_duration_seconds_min{{{update}}} 1.0"),
            r#"bkbcs_gamestatefulset_pod_delete_duration_seconds_count{namespace="play",name="rooms",status="success",grace="false",action="deletePod"} 1"#.to_owned(),
            r#"bkbcs_gamedeployment_replicas{gd="play/lobby"} 4"#.to_owned(),
            r#"bkbcs_gamedeployment_available_replicas{gd="play/lobby"} 2"#.to_owned(),
            r#"bkbcs_gamestatefulset_current_replicas{namespace="play",name="rooms"} 2"#.to_owned(),
            r#"bkbcs_gameworkload_hookrun_create_duration_seconds_count{namespace="play",name="rooms",status="success",action="canary-step",objectKind="GameStatefulSet"} 1"#.to_owned(),
            r#"bkbcs_hook_reconcile_duration_seconds_count{namespace="play",owner="lobby",status="success"} 1"#.to_owned(),
            r#"bkbcs_hook_hookrun_survive_time_seconds{namespace="play",owner="lobby",name="a",phase="Failed"} 60.0"#.to_owned(),
            r#"bkbcs_hook_metric_exec_duration_seconds_count{namespace="play",owner="lobby",metric="age",phase="Failed"} 1"#.to_owned(),
        ] {
            assert!(page.contains(&want), "{want} is not in\n{}", page.join("\n"));
        }
    }

    #[test]
    fn series_go_with_their_objects() {
        let mut registry = Registry::default();
        let series = GameSeries::register(&mut registry, "1.2.3");
        let second = Duration::from_secs(1);
        for work in [PodWork::Create, PodWork::UpdateInPlace, PodWork::HotPatch, PodWork::Delete] {
            series.observe_pod(DEPLOYMENT, work, true, true, second);
        }
        series.observe_look(DEPLOYMENT, false, second);
        series.observe_run_made(DEPLOYMENT, "canary-step", true, second);
        series.set_replicas(DEPLOYMENT, Replicas::default());
        for name in ["a", "b"] {
            series.observe_measurement(run(name), "age", "Failed", second);
            series.observe_run(run(name), true, second);
            series.set_survived(run(name), "Failed", second);
        }
        series.forget(DEPLOYMENT);
        series.forget_run("play", "a");
        let is_of = |word: &str| page(&registry).iter().any(|line| line.contains(word));
        assert!(!is_of("play/lobby") && !is_of("objectKind") && !is_of(r#"uid="a""#));
        assert!(is_of(r#"metric="age""#), "another run of that owner is still there");
        series.forget_run("play", "b");
        assert!(!is_of("play"), "{:?}", page(&registry));
    }
}
