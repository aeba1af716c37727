//! Memory of a rollout and the fields of status that hold it, both ways.
//!
//! The status is the only memory that survives a restart. Fields of other versions are kept: a patch
//! names ours alone.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use tidegate_api::canary::{
    CanaryPhase, CanaryStatus, TargetRef,
    status::{RouteMemory, TargetMemory},
};
use tidegate_engine::{Configs, Memory, Moment, Pause, Percent, Phase, Revision};

use crate::traffic::{self, Cookies, Mesh};

/// A status as it was read, parsed once for everything that looks at it.
#[derive(Clone, Debug)]
pub struct Remembered {
    /// The status itself.
    pub status: CanaryStatus,
    /// The engine's memory in it.
    pub memory: Memory,
    /// Session cookies that the route was given.
    pub cookies: Cookies,
}

// === impl Remembered ===

impl Remembered {
    /// Reads a status; `is_manual` says whether the spec has a `manualStep`.
    pub fn of(status: CanaryStatus, is_manual: bool) -> Self {
        let mut memory = memory(&status);
        // Older versions write no pause marker, and older definitions drop it: a weight without one is a pause.
        let is_unmarked = memory.phase == Phase::Waiting && memory.pause.is_none();
        if is_unmarked
            && is_manual
            && status.canary_weight > 0
            && !memory.replaces_broken_primary
            && memory.weight < Percent::ALL
        {
            let since = memory.since.unwrap_or_default();
            memory.pause = Some(Pause { weight: memory.weight, since });
        }
        let cookies = cookies(&status);
        Self { status, memory, cookies }
    }

    /// The route that may have the canary's share.
    pub fn route(&self) -> Option<&RouteMemory> {
        self.status.rollout.as_ref()?.route.as_ref()
    }

    /// The provider whose routing objects there may be.
    pub fn provider(&self) -> Option<&str> {
        self.status.rollout.as_ref()?.provider.as_deref()
    }

    /// The workload that the primary was made for.
    pub fn target(&self) -> Option<&TargetMemory> {
        self.status.rollout.as_ref()?.target.as_ref()
    }

    /// The revision of Knative that is the primary.
    pub fn primary_revision(&self) -> Option<&str> {
        self.status.rollout.as_ref()?.primary_revision.as_deref()
    }

    /// The provider of the route that divides traffic, or of the last one that did.
    pub fn mesh(&self) -> Option<Mesh> {
        let of_route = self.route().map(|route| route.provider.as_str());
        traffic::select(of_route.or(self.provider())?).ok()
    }

    /// Whether a primary was set up.
    pub fn is_set_up(&self) -> bool {
        !matches!(self.memory.phase, Phase::New | Phase::Initializing)
    }
}

/// The engine's memory, from status.
pub fn memory(status: &CanaryStatus) -> Memory {
    let rollout = status.rollout.clone().unwrap_or_default();
    let count = |number: i64| u32::try_from(number.max(0)).unwrap_or(u32::MAX);
    let revision =
        |text: &Option<String>| text.as_deref().filter(|text| !text.is_empty()).map(Revision::new);
    Memory {
        phase: phase(status.phase),
        failed_checks: count(status.failed_checks),
        weight: Percent::clamped(status.canary_weight),
        iterations: count(status.iterations),
        applied: revision(&status.last_applied_spec),
        promoted: revision(&status.last_promoted_spec),
        configs: status.tracked_configs.clone().map(Configs::from),
        pause: status.manual_pause.as_ref().map(|pause| Pause {
            weight: Percent::clamped(pause.weight),
            since: pause.since.as_ref().map_or(Moment::default(), |time| moment(time.0)),
        }),
        since: status.last_transition_time.as_ref().map(|time| moment(time.0)),
        prepared: rollout.prepared,
        replaces_broken_primary: rollout.rescue,
        untold: rollout.untold.as_deref().and_then(ended),
        blocked_since: rollout.trouble_since.as_ref().map(|time| moment(time.0)),
        no_data_since: rollout.no_data_since.as_ref().map(|time| moment(time.0)),
    }
}

fn ended(text: &str) -> Option<Phase> {
    [Phase::Succeeded, Phase::Failed].into_iter().find(|phase| phase.as_str() == text)
}

fn phase(phase: CanaryPhase) -> Phase {
    match phase {
        CanaryPhase::Unset => Phase::New,
        CanaryPhase::Initializing => Phase::Initializing,
        CanaryPhase::Initialized => Phase::Initialized,
        CanaryPhase::Waiting => Phase::Waiting,
        CanaryPhase::Progressing => Phase::Progressing,
        CanaryPhase::WaitingPromotion => Phase::WaitingPromotion,
        CanaryPhase::Promoting => Phase::Promoting,
        CanaryPhase::Finalising => Phase::Finalising,
        CanaryPhase::Succeeded => Phase::Succeeded,
        CanaryPhase::Failed => Phase::Failed,
        CanaryPhase::Terminating => Phase::Terminating,
        CanaryPhase::Terminated => Phase::Terminated,
    }
}

/// The engine's phase in the API's words.
pub fn api_phase(phase: Phase) -> CanaryPhase {
    match phase {
        Phase::New => CanaryPhase::Unset,
        Phase::Initializing => CanaryPhase::Initializing,
        Phase::Initialized => CanaryPhase::Initialized,
        Phase::Waiting => CanaryPhase::Waiting,
        Phase::Progressing => CanaryPhase::Progressing,
        Phase::WaitingPromotion => CanaryPhase::WaitingPromotion,
        Phase::Promoting => CanaryPhase::Promoting,
        Phase::Finalising => CanaryPhase::Finalising,
        Phase::Succeeded => CanaryPhase::Succeeded,
        Phase::Failed => CanaryPhase::Failed,
        Phase::Terminating => CanaryPhase::Terminating,
        Phase::Terminated => CanaryPhase::Terminated,
    }
}

/// Session cookies, from status.
pub fn cookies(status: &CanaryStatus) -> Cookies {
    let said = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    Cookies {
        canary: said(&status.session_affinity_cookie),
        previous: said(&status.previous_session_affinity_cookie),
        primary: said(&status.primary_session_affinity_cookie),
    }
}

/// A time of the API as the engine has it.
pub fn moment(time: Timestamp) -> Moment {
    Moment(time.as_millisecond())
}

/// A moment of the engine as the API has it.
pub fn timestamp(moment: Moment) -> Timestamp {
    Timestamp::from_millisecond(moment.0).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// A moment as status has it: in whole seconds, as Kubernetes writes times.
pub(super) fn time(moment: Moment) -> Value {
    let seconds = timestamp(moment).as_second();
    json!(Timestamp::from_second(seconds).unwrap_or(Timestamp::UNIX_EPOCH).to_string())
}

/// Fields that the status remembers and the engine does not know.
#[derive(Clone, Copy, Debug)]
pub struct StatusExtras<'a> {
    /// The revision of Knative that is the primary.
    pub primary: Option<&'a str>,
    /// The target, as the spec has it.
    pub target: &'a TargetRef,
    /// The target that the primary was made for, as the status has it.
    pub known_target: Option<&'a TargetMemory>,
    /// The provider whose routing objects there may be.
    pub provider: &'a str,
    /// The routing object that may have a share.
    pub route: Option<&'a RouteMemory>,
    /// Whether the previous route gives the canary no traffic.
    pub is_previous_route_retired: bool,
    /// Since when target and primary have been below their ready threshold, where their status has no time.
    pub unready_since: [Option<Timestamp>; 2],
}

/// The fields of status as they should be; a `null` is one that should not be there.
pub fn fields(memory: &Memory, extras: &StatusExtras<'_>) -> Map<String, Value> {
    let Memory {
        phase,
        failed_checks,
        weight,
        iterations,
        applied,
        promoted,
        configs,
        pause,
        since,
        prepared: _,
        replaces_broken_primary: _,
        untold: _,
        blocked_since: _,
        no_data_since: _,
    } = memory;
    let pause = pause
        .map(|Pause { weight, since }| json!({ "weight": weight.get(), "since": time(since) }));
    let fields = [
        ("phase", json!(phase.as_str())),
        ("failedChecks", json!(failed_checks)),
        ("canaryWeight", json!(weight.get())),
        ("iterations", json!(iterations)),
        ("lastAppliedSpec", json!(applied.as_ref().map(Revision::as_str))),
        ("lastPromotedSpec", json!(promoted.as_ref().map(Revision::as_str))),
        ("trackedConfigs", json!(configs.as_ref().map(Arc::as_ref))),
        ("manualPause", json!(pause)),
        ("lastTransitionTime", json!(since.map(time))),
        ("rollout", Value::Object(rollout(memory, extras))),
    ];
    fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// The fields of `status.rollout`, which Flagger does not have.
fn rollout(memory: &Memory, extras: &StatusExtras<'_>) -> Map<String, Value> {
    let StatusExtras {
        primary,
        target,
        known_target,
        provider,
        route,
        is_previous_route_retired,
        unready_since,
    } = *extras;
    // Only a rollout has deadlines: while idle a pod that is missing for a moment is no reason to write.
    let is_under_way = memory.phase.is_under_way();
    let [canary, primary_unready] =
        unready_since.map(|since| since.filter(|_| is_under_way).map(moment));
    let route = route.filter(|_| may_have_share(memory) || !is_previous_route_retired);
    let fields = [
        ("prepared", memory.prepared.then_some(json!(true))),
        ("rescue", memory.replaces_broken_primary.then_some(json!(true))),
        ("untold", memory.untold.map(|phase| json!(phase.as_str()))),
        ("troubleSince", memory.blocked_since.map(time)),
        ("noDataSince", memory.no_data_since.map(time)),
        ("canaryLackingSince", canary.map(time)),
        ("primaryLackingSince", primary_unready.map(time)),
        ("primaryRevision", primary.map(|revision| json!(revision))),
        ("target", Some(json!(made_for(memory.phase, target, known_target)))),
        ("provider", Some(json!(provider))),
        ("route", route.map(|route| json!(route))),
    ];
    fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

/// The workload that the primary is made for: the target while the primary is set up. After that it stays
/// the same, even if the spec names another target, until the primary is set up anew.
fn made_for(phase: Phase, target: &TargetRef, known: Option<&TargetMemory>) -> TargetMemory {
    let is_made = !matches!(phase, Phase::New | Phase::Initializing);
    match known.filter(|_| is_made) {
        Some(known) => known.clone(),
        None => TargetMemory {
            api_version: target.api_version.clone(),
            kind: target.kind.as_str().to_owned(),
            name: target.name.clone(),
        },
    }
}

/// Whether the canary may have a share: outside a rollout only where a failed promotion left traffic on it.
fn may_have_share(memory: &Memory) -> bool {
    match memory.phase {
        Phase::New | Phase::Initializing => false,
        Phase::Initialized | Phase::Succeeded | Phase::Failed => memory.serves_from_canary(),
        Phase::Waiting
        | Phase::Progressing
        | Phase::WaitingPromotion
        | Phase::Promoting
        | Phase::Finalising
        | Phase::Terminating
        | Phase::Terminated => true,
    }
}

/// The fields of a status that remembers another route and is the same otherwise.
pub fn rerouted(rollout: &Value, route: Option<&RouteMemory>) -> Map<String, Value> {
    let mut rollout = rollout.as_object().cloned().unwrap_or_default();
    rollout.insert("route".to_owned(), json!(route));
    Map::from_iter([("rollout".to_owned(), Value::Object(rollout))])
}
