//! Decisions about canaries, row by row.
//!
//! A [`Scene`] starts from one honest default, an idle canary whose target and primary are ready, and changes
//! one thing a call. [`Scene::does`] says in a line what is decided: `shift 30 · remember weight=30`, with
//! only those fields of the memory that change. Announcements are checked apart, with [`Scene::announces`].

mod cookies;
mod deletion;
mod ending;
mod gates;
mod idle;
mod manual;
mod mistakes;
mod progressing;
mod promoting;
mod rerouted;
mod setting_up;
mod take_over;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use super::*;
use crate::{
    Answers, Checks, Cookie, CookieChange, Cookies, Form, Gate, Hooks, IntervalState, Lifecycle,
    ManualStep, Missing, Moment, Objects, Primary, Question, Readiness, Refusal, Revision, Split,
    Steps, Stickiness, Unready, Verdict,
};

/// The time of every scene; an interval is a minute, the deadline five.
const NOW: Moment = Moment(1_000_000);
const MINUTE: i64 = 60_000;

/// An observation in the making.
#[derive(Clone)]
struct Scene(Observed);

fn pct(share: i64) -> Percent {
    Percent::clamped(share)
}

fn rev(text: &str) -> Revision {
    Revision::new(text)
}

fn configs(checksum: &str) -> crate::Configs {
    Arc::new(BTreeMap::from([("configmap/settings".to_owned(), checksum.to_owned())]))
}

fn waiting(serving: bool) -> Readiness {
    Readiness::Waiting(Unready::new("1 of 2", serving))
}

fn stuck(serving: bool) -> Readiness {
    Readiness::Stuck(Unready::new("1 of 2", serving))
}

fn open() -> Gate {
    Gate { passed: vec!["gate".to_owned()], refused: Vec::new() }
}

fn closed() -> Gate {
    let refusal = Refusal { hook: "gate".to_owned(), why: "no".to_owned(), muted: false };
    Gate { passed: Vec::new(), refused: vec![refusal] }
}

fn plan() -> Plan {
    Plan {
        strategy: Strategy::Weighted,
        traffic: Traffic::Divisible,
        steps: Steps::By(10),
        max: pct(50),
        promotion_step: 0,
        iterations: 0,
        mirror: false,
        threshold: 3,
        interval: Duration::from_mins(1),
        deadline: Duration::from_mins(5),
        skip: false,
        suspended: false,
        revert: false,
        manual: None,
        hooks: Hooks::default(),
        stickiness: Stickiness::None,
        scaled: false,
        notes: Vec::new(),
    }
}

/// Idle: the primary runs `v1-a`, and the target asks for it, with no pods of its own.
fn at_rest() -> Scene {
    Scene(Observed {
        now: NOW,
        plan: plan(),
        memory: Memory {
            phase: Phase::Succeeded,
            applied: Some(rev("v1-a")),
            promoted: Some(rev("v1-a")),
            since: Some(Moment(NOW.0 - MINUTE)),
            ..Memory::default()
        },
        blockers: Vec::new(),
        target: Ok(Target {
            revision: rev("v1-a"),
            configs: None,
            replicas: 0,
            readiness: waiting(false),
            same_as_primary: true,
            edited_since: false,
            form: Form::Replicas,
            scaler_paused: false,
            replicas_to_run: 2,
        }),
        primary: Primary {
            exists: true,
            readiness: Readiness::Ready,
            is_updated: true,
            replicas: 2,
        },
        objects: Objects::default(),
        routes: Ok(Split::PRIMARY),
        cookies: Cookies::default(),
        interval_state: IntervalState { due: true, next: NOW, retry: false },
        lifecycle: Lifecycle::default(),
        answers: Answers::default(),
    })
}

/// `v1-b` is analysed and has this share. Its pods are ready, and the first gate has passed.
fn progressing(share: i64) -> Scene {
    let mut scene = at_rest().target("v1-b").replicas(2).canary(Readiness::Ready);
    let memory = &mut scene.0.memory;
    memory.phase = Phase::Progressing;
    memory.applied = Some(rev("v1-b"));
    memory.weight = pct(share);
    memory.prepared = true;
    scene.0.primary.is_updated = false;
    scene.routed(share)
}

/// `v1-b` was just started.
fn started() -> Scene {
    progressing(0).remembering(|memory| memory.prepared = false)
}

/// `v1-b` was copied to the primary, which is ready; the canary still has this share.
fn promoting(share: i64) -> Scene {
    let mut scene = progressing(share).phase(Phase::Promoting);
    scene.0.primary.is_updated = true;
    scene.0.target.as_mut().unwrap().same_as_primary = true;
    scene
}

/// The promotion of `v1-b` failed: the primary is broken, and everything is on the canary.
fn stranded() -> Scene {
    let scene = promoting(100).phase(Phase::Failed).primary(stuck(false));
    scene.remembering(|memory| {
        memory.promoted = Some(rev("v1-b"));
        memory.prepared = false;
    })
}

/// `v1-c` is analysed to replace the broken `v1-b`.
fn rescuing() -> Scene {
    let mut scene = stranded().phase(Phase::Progressing).target("v1-c");
    scene.0.memory.applied = Some(rev("v1-c"));
    scene.0.memory.replaces_broken_primary = true;
    scene.0.primary.is_updated = false;
    scene
}

// === impl Scene ===

impl Scene {
    // --- Changing one thing ---

    fn with(mut self, change: impl FnOnce(&mut Observed)) -> Self {
        change(&mut self.0);
        self
    }

    fn planning(self, change: impl FnOnce(&mut Plan)) -> Self {
        self.with(|seen| change(&mut seen.plan))
    }

    fn remembering(self, change: impl FnOnce(&mut Memory)) -> Self {
        self.with(|seen| change(&mut seen.memory))
    }

    fn answering(self, change: impl FnOnce(&mut Answers)) -> Self {
        self.with(|seen| change(&mut seen.answers))
    }

    fn hooks(self, change: impl FnOnce(&mut Hooks)) -> Self {
        self.planning(|plan| change(&mut plan.hooks))
    }

    fn phase(self, phase: Phase) -> Self {
        self.remembering(|memory| memory.phase = phase)
    }

    /// The target asks for another revision than before.
    fn target(self, revision: &str) -> Self {
        self.with(|seen| {
            let target = seen.target.as_mut().unwrap();
            target.same_as_primary = seen.memory.promoted == Some(rev(revision));
            target.revision = rev(revision);
        })
    }

    fn gone(self) -> Self {
        self.with(|seen| seen.target = Err(Missing::Gone("Deployment web".to_owned())))
    }

    fn replicas(self, replicas: i64) -> Self {
        self.with(|seen| seen.target.as_mut().unwrap().replicas = replicas)
    }

    fn canary(self, readiness: Readiness) -> Self {
        self.with(|seen| seen.target.as_mut().unwrap().readiness = readiness)
    }

    fn primary(self, readiness: Readiness) -> Self {
        self.with(|seen| seen.primary.readiness = readiness)
    }

    fn routed(self, share: i64) -> Self {
        self.with(|seen| seen.routes = Ok(Split::canary(pct(share))))
    }

    fn mirrored(self) -> Self {
        self.with(|seen| seen.routes = Ok(Split { canary: Percent::ZERO, mirrored: true }))
    }

    fn unrouted(self) -> Self {
        self.with(|seen| seen.routes = Err(Obstacle("no route".to_owned())))
    }

    fn failing(self, checks: u32) -> Self {
        self.remembering(|memory| memory.failed_checks = checks)
    }

    fn early(self) -> Self {
        self.with(|seen| {
            seen.interval_state = IntervalState {
                due: false,
                next: NOW.after(Duration::from_secs(30)),
                retry: false,
            };
        })
    }

    fn retrying(self) -> Self {
        self.early().with(|seen| seen.interval_state.retry = true)
    }

    fn checked(self, passed: bool) -> Self {
        let failed = || Verdict::Failed("too slow".to_owned());
        self.judged(if passed { Verdict::Passed } else { failed() })
    }

    fn judged(self, verdict: Verdict) -> Self {
        self.answering(|answers| {
            answers.checks = Some(Checks { verdict, ..Checks::default() });
        })
    }

    fn skipping(self) -> Self {
        self.planning(|plan| plan.skip = true)
    }

    fn whole(self) -> Self {
        self.planning(|plan| {
            plan.strategy = Strategy::BlueGreen;
            plan.traffic = Traffic::Whole;
            plan.iterations = 3;
        })
        .routed(0)
    }

    fn strategy(self, strategy: Strategy, iterations: u32) -> Self {
        self.planning(|plan| {
            plan.strategy = strategy;
            plan.iterations = iterations;
        })
    }

    fn iterated(self, iterations: u32) -> Self {
        self.remembering(|memory| {
            memory.iterations = iterations;
            memory.weight = Percent::ZERO;
        })
    }

    fn holding(self, weight: i64, resume: bool) -> Self {
        self.planning(|plan| plan.manual = Some(ManualStep { weight, resume }))
    }

    fn paused(self, weight: i64) -> Self {
        self.phase(Phase::Waiting).remembering(|memory| {
            memory.pause = Some(Pause { weight: pct(weight), since: Moment(7) });
        })
    }

    // --- The outcome ---

    fn step(&self) -> Step {
        decide(&self.0)
    }

    fn decision(&self) -> Decision {
        match self.step() {
            Step::Do(decision) => decision,
            Step::Ask(question) => panic!("asks {question:?}"),
        }
    }

    /// The decision, in a line.
    fn does(&self) -> String {
        match self.step() {
            Step::Ask(Question::Gate(kind)) => format!("ask {}", kind.as_str()),
            Step::Ask(Question::Checks) => "check".to_owned(),
            Step::Ask(Question::Backends) => "ask backends".to_owned(),
            Step::Do(decision) => {
                let effects = decision.actions.iter().filter_map(|it| effect(&self.0.memory, it));
                effects.collect::<Vec<_>>().join(" · ")
            }
        }
    }

    /// Why, for machines.
    fn why(&self) -> &'static str {
        self.decision().why.reason()
    }

    /// The reasons of announced facts.
    fn announces(&self) -> Vec<&'static str> {
        let decision = self.decision();
        let facts = decision.actions.iter().filter_map(|action| {
            if let Action::Announce(fact) | Action::DropManualStep(Some(fact)) = action {
                Some(fact.reason())
            } else {
                None
            }
        });
        facts.collect()
    }

    fn alerts(&self) -> Vec<String> {
        let decision = self.decision();
        let alerts = decision.actions.iter().filter_map(|action| {
            if let Action::Alert(alert) = action {
                Some(format!("{:?} {:?}", alert.severity, alert.about))
            } else {
                None
            }
        });
        alerts.collect()
    }
}

/// An effect in a few words, without announcements and counters.
fn effect(before: &Memory, action: &Action) -> Option<String> {
    Some(match action {
        Action::Announce(_) | Action::Alert(_) | Action::Count(_) => return None,
        Action::Shift(split) if split.mirrored => format!("shift {} mirrored", split.canary),
        Action::Shift(split) => format!("shift {}", split.canary),
        Action::Cookies(change) => format!("cookies {}", cookies(*change)),
        Action::Remember(next) => format!("remember {}", difference(before, next)),
        Action::Ensure(piece) => format!("put {}", piece.as_str()),
        Action::ScaleTarget(replicas) => format!("scale {replicas}"),
        Action::Promote(revision) => format!("promote {revision}"),
        Action::Park => "park".to_owned(),
        Action::ResumeScaler => "resume scaler".to_owned(),
        Action::PauseScaler => "pause scaler".to_owned(),
        Action::RefreshPrimaryScaler => "refresh scaler".to_owned(),
        Action::DropManualStep(_) => "drop manual step".to_owned(),
        Action::ResetResume => "take resume back".to_owned(),
        Action::ClearRetry => "clear retry".to_owned(),
        Action::AddFinalizer => "hold".to_owned(),
        Action::RemoveFinalizer => "release".to_owned(),
        Action::RestoreApex => "give apex back".to_owned(),
        Action::RestoreRoute => "give route back".to_owned(),
        Action::RetirePreviousRoute => "leave route".to_owned(),
        Action::Prune => "prune".to_owned(),
    })
}

/// Only those that change.
fn cookies(CookieChange { canary, primary }: CookieChange) -> String {
    let sides = [("canary", canary), ("primary", primary)];
    let changes = sides.into_iter().filter(|(_, cookie)| *cookie != Cookie::Keep);
    let words = changes.map(|(side, cookie)| format!("{side}={cookie:?}").to_lowercase());
    words.collect::<Vec<_>>().join(" ")
}

/// Fields of the memory that change, but for the time.
fn difference(before: &Memory, next: &Memory) -> String {
    let text =
        |revision: &Option<Revision>| revision.as_ref().map_or("-".to_owned(), ToString::to_string);
    let fields = |memory: &Memory| {
        [
            ("phase", memory.phase.to_string()),
            ("failed", memory.failed_checks.to_string()),
            ("weight", memory.weight.to_string()),
            ("iterations", memory.iterations.to_string()),
            ("applied", text(&memory.applied)),
            ("promoted", text(&memory.promoted)),
            (
                "configs",
                format!(
                    "{:?}",
                    memory.configs.as_ref().map(|it| it.values().cloned().collect::<String>())
                ),
            ),
            ("pause", memory.pause.map_or("-".to_owned(), |pause| pause.weight.to_string())),
            ("prepared", memory.prepared.to_string()),
            ("replaces_broken_primary", memory.replaces_broken_primary.to_string()),
            ("untold", format!("{:?}", memory.untold)),
            (
                "trouble",
                memory.blocked_since.map_or("-".to_owned(), |since| (since.0 - NOW.0).to_string()),
            ),
            (
                "without data",
                memory.no_data_since.map_or("-".to_owned(), |since| (since.0 - NOW.0).to_string()),
            ),
        ]
    };
    let changes = fields(before).into_iter().zip(fields(next)).filter(|(old, new)| old != new);
    changes.map(|(_, (name, value))| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
}

/// Runs a table: a reason, a scene, and what is decided.
#[track_caller]
fn table(rows: impl IntoIterator<Item = (&'static str, Scene, &'static str)>) {
    for (reason, scene, want) in rows {
        assert_eq!(scene.does(), want, "{reason}");
    }
}
