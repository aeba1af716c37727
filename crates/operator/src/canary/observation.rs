//! The observation of a canary: the engine's input, and the findings that acting needs.

use std::{collections::BTreeSet, sync::Arc};

use serde_json::Value;
use tidegate_api::canary::CanaryPhase;
use tidegate_engine::{
    Answers, Cookies, Lifecycle, ManagedObject, Memory, Names, Objects, Observed, Obstacle,
    Readiness, Revision, State,
};
use tidegate_providers::{
    canary::{api_phase, moment},
    hook,
    object::Kind,
    workload::{
        SERVICE, WorkloadKind,
        config::{self, Tracked},
        scaler::{self, Scaler},
    },
};

use super::{
    env::{Env, Finding, Findings, ManagedWrite},
    inputs::Inputs,
    observe::{orphans::Orphans, routes::Routes, services::Services, workloads::Workloads},
    unready_pods::UnreadyWorkload,
};
use crate::{cluster::cache::Key, telemetry};

pub(super) const FINALIZER: &str = "finalizer.flagger.app";

/// One look at a canary.
pub(super) struct Observation {
    /// The engine's part.
    pub(super) observed: Observed,
    pub(super) inputs: Inputs,
    pub(super) names: Names,
    /// The labels of its metrics.
    pub(super) labels: telemetry::Target,
    /// Fingerprints of the configuration that the target's pods mount.
    pub(super) tracked: Tracked,
    /// Where traffic goes, and the previous route.
    pub(super) routes: Routes,
    /// The managed objects.
    pub(super) findings: Findings,
    /// The provider to remember.
    pub(super) provider: String,
}

// === impl Observation ===

impl Observation {
    /// The target and the primary, each only while it has pods that are not ready.
    pub(super) fn unready_workloads(&self) -> [Option<UnreadyWorkload<'_>>; 2] {
        let Observed { target, primary, .. } = &self.observed;
        let target = target.as_ref().ok().map(|it| (&it.readiness, it.replicas));
        let primary = Some((&primary.readiness, primary.replicas));
        let Inputs { target: of_target, primary: of_primary, .. } = &self.inputs;
        [(target, of_target), (primary, of_primary)].map(|(state, object)| {
            let (readiness, _) =
                state.filter(|(readiness, replicas)| *replicas > 0 && !readiness.is_ready())?;
            let is_stuck = matches!(readiness, Readiness::Stuck(_));
            Some(UnreadyWorkload { object: object.as_deref()?, is_stuck })
        })
    }

    pub(super) fn of(
        env: &Env<'_>,
        inputs: Inputs,
        workloads: Workloads,
        services: Services,
        routes: Routes,
        orphans: Orphans,
        answers: &Answers,
    ) -> Self {
        let lifecycle = lifecycle(&inputs);
        let mut plan = inputs.plan.clone();
        // Its owner lent it, and gets it back.
        plan.revert |= services.apex_handed_over;
        // It would lead to Services that are deleted with the canary.
        plan.revert |= lifecycle.has_finalizer
            && routes.previous.as_ref().is_some_and(|previous| previous.outlives_canary);
        let previous_route =
            routes.previous.as_ref().map_or_else(Finding::default, |it| it.finding(env));
        let spec_error =
            (!inputs.spec_errors.is_empty()).then(|| Obstacle(inputs.spec_errors.join("; ")));
        let objects = Objects {
            canary_service: services.canary.state.clone(),
            primary_service: services.primary.state.clone(),
            primary_service_moves: services.primary_moves,
            previous_target: workloads.previous_target,
            primary: workloads.primary_object.state.clone(),
            primary_scaler: services.primary_scaler.state.clone(),
            apex_service: services.apex.state.clone(),
            route: routes.route.state.clone(),
            previous_route: previous_route.state.clone(),
            takes_over: routes.previous.is_some(),
            spec_error,
            shift_refused: env.rejected.last(&ManagedWrite::Shift),
            orphans: orphans.finding.state == State::OutOfSync,
            apex_restored: services.apex_restored.state.clone(),
            route_restored: routes.restored.state.clone(),
        };
        let findings = [
            (ManagedWrite::Ensure(ManagedObject::CanaryService), services.canary),
            (ManagedWrite::Ensure(ManagedObject::PrimaryService), services.primary),
            (ManagedWrite::Ensure(ManagedObject::PrimaryScaler), services.primary_scaler),
            (ManagedWrite::Ensure(ManagedObject::ApexService), services.apex),
            (ManagedWrite::Ensure(ManagedObject::Route), routes.route.clone()),
            (ManagedWrite::RetirePreviousRoute, previous_route),
            (ManagedWrite::RestoreApex, services.apex_restored),
            (ManagedWrite::RestoreRoute, routes.restored.clone()),
            (ManagedWrite::Prune, orphans.finding),
        ];
        let cookies = &inputs.remembered.cookies;
        let observed = Observed {
            now: moment(env.clocks.wall),
            plan,
            memory: inputs.remembered.memory.clone(),
            blockers: inputs.blockers.clone(),
            target: workloads.target,
            primary: workloads.primary,
            objects,
            routes: routes.split.clone(),
            cookies: Cookies {
                canary: cookies.canary.is_some(),
                primary: cookies.primary.is_some(),
            },
            interval_state: inputs.interval_state,
            lifecycle,
            answers: answers.clone(),
        };
        let target = &inputs.canary.spec.target_ref.name;
        Self {
            names: names(env.key, &inputs),
            labels: telemetry::Target::new(env.key.namespace.to_string(), target.clone()),
            observed,
            tracked: workloads.tracked,
            routes,
            findings: findings.into(),
            provider: orphans.provider,
            inputs,
        }
    }

    /// The revision in calls of hooks: the pending one, if none was started yet.
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

    pub(super) fn phase(&self) -> CanaryPhase {
        api_phase(self.observed.memory.phase)
    }

    /// The position in the rollout at which a hook is called; a repeated call has the same.
    pub(super) fn step(&self) -> String {
        let memory = &self.observed.memory;
        let Memory { phase, weight, iterations, failed_checks, .. } = memory;
        // With the revision: one that waits to be started is not in the status yet.
        format!("{phase}/{weight}/{iterations}/{failed_checks}/{}", self.checksum())
    }

    /// Whether the previous route, if there is one, gives the canary no traffic.
    pub(super) fn is_previous_route_retired(&self) -> bool {
        self.routes.previous.is_none() || self.observed.objects.previous_route == State::InSync
    }

    /// Workloads, Services, scalers, configuration and routes: a change of any of them wakes the canary.
    pub(super) fn dependencies(&self) -> BTreeSet<(Kind, Key)> {
        let Inputs { canary, mesh, workload, target, .. } = &self.inputs;
        let spec = &canary.spec;
        let namespace = canary.metadata.namespace.as_deref().unwrap_or_default();
        let key = |name: &str| Key::new(namespace, name);
        let names = spec.service_names();
        let mut found: BTreeSet<(Kind, Key)> = [
            (workload.kind(), key(&spec.target_ref.name)),
            (workload.kind(), key(&spec.primary_name())),
            (SERVICE, key(&names.apex)),
            (SERVICE, key(&names.primary)),
            (SERVICE, key(&names.canary)),
        ]
        .into();
        if let Some(scaler) = &spec.autoscaler_ref {
            let kind = Scaler::of(scaler).kind();
            found.insert((kind, key(&scaler.name)));
            found.insert((kind, key(&scaler::primary_name(scaler))));
        }
        let is_tracked = *workload != WorkloadKind::Knative;
        for target in target.iter().filter(|_| is_tracked) {
            let references = config::references(&target["spec"]["template"]["spec"]);
            let references = references.into_iter();
            found.extend(references.map(|it| (it.kind.kind(), key(&it.name))));
        }
        let cx = self.inputs.route_cx(self.routes.inherited);
        let routes = mesh.names(&cx).into_iter();
        found.extend(routes.map(|(kind, name)| (kind, Key::of_kind(kind, namespace, &name))));
        let elsewhere = mesh.elsewhere(&cx).into_iter();
        found.extend(elsewhere.map(|(kind, namespace, name)| (kind, Key::new(&namespace, &name))));
        // As they are written: in the usable spec, refused hosts are replaced.
        let hosts = self.inputs.raw["spec"]["service"]["hosts"].as_array().into_iter().flatten();
        let services = mesh.services_by_host(hosts.filter_map(Value::as_str));
        found.extend(services.map(|(namespace, name)| (SERVICE, Key::new(namespace, name))));
        found.extend(self.routes.previous.as_ref().and_then(|previous| previous.place.clone()));
        found
    }

    pub(super) fn raw(&self) -> &Arc<Value> {
        &self.inputs.raw
    }

    /// Generation of the canary's spec.
    pub(super) fn generation(&self) -> i64 {
        self.inputs.canary.metadata.generation.unwrap_or(0)
    }
}

fn names(key: &Key, inputs: &Inputs) -> Names {
    let target = &inputs.canary.spec.target_ref.name;
    Names::of(&key.namespace, &key.name, target, inputs.workload.form())
}

fn lifecycle(inputs: &Inputs) -> Lifecycle {
    let metadata = &inputs.canary.metadata;
    Lifecycle {
        has_finalizer: metadata.finalizers.iter().flatten().any(|it| it == FINALIZER),
        deleted_at: metadata.deletion_timestamp.as_ref().map(|time| moment(time.0)),
    }
}
