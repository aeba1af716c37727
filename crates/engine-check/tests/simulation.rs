//! Rollouts in a world of counters, with everything that can go wrong.
//!
//! `SIMULATED_ROLLOUTS=1000000 cargo test -p tidegate-engine-check --release --test simulation` plays that
//! many. A failure prints the seed; `SIMULATED_SEED=<seed>` plays it again and tells the story.

use std::{fmt::Write as _, time::Duration};

use proptest::{collection::vec, prelude::*, test_runner::Config};
use tidegate_engine::{
    GateKind, Hooks, ManualStep, Percent, Plan, Steps, Stickiness, Strategy as Way, Traffic,
};
use tidegate_engine_check::simulate::{Cut, Event, Health, Report, Script, Timed, explain, run};

#[expect(clippy::disallowed_methods, reason = "how much to play is the business of who plays")]
fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// The events up to the violation, for people.
fn story(script: &Script) -> String {
    let Report { violation, log, ending, .. } = explain(script);
    let mut text = format!("{script:#?}\n");
    for (index, (at, event)) in log.iter().enumerate() {
        let _ = writeln!(text, "{index:4} {:>8}s {event:?}", at.0 / 1_000);
    }
    let _ = writeln!(text, "{ending:?}\n{violation:?}");
    text
}

#[test]
fn rollouts_keep_every_invariant_and_come_to_rest() {
    if let Some(seed) = number("SIMULATED_SEED") {
        panic!("{}", story(&Script::seeded(seed)));
    }
    let wanted = number("SIMULATED_ROLLOUTS").unwrap_or(20_000);
    let (mut rollouts, mut cuts, mut seed) = (0, 0, 0);
    while rollouts < wanted {
        let report = run(&Script::seeded(seed));
        if let Some(violation) = report.violation {
            panic!("SIMULATED_SEED={seed}: {violation}");
        }
        rollouts += report.rollouts;
        cuts += u64::from(report.cuts);
        seed += 1;
    }
    assert!(cuts > rollouts / 20, "only {cuts} writes were cut short: the faults do not bite");
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for seed in 0..200 {
        let script = Script::seeded(seed);
        assert_eq!(explain(&script), explain(&script), "seed {seed}");
    }
}

proptest! {
    #![proptest_config(Config { cases: 2_000, failure_persistence: None, ..Config::default() })]

    /// The same with lists of events that shrink to the few that matter.
    #[test]
    fn after_any_events_every_invariant_holds(script in scripts()) {
        let report = run(&script);
        prop_assert!(report.violation.is_none(), "{}", story(&script));
    }
}

fn scripts() -> impl Strategy<Value = Script> {
    let cuts = vec((0_u32..150, prop::sample::select(Cut::ALL.to_vec())), 0..4);
    (any::<u64>(), 1_i64..4, vec(timed(), 0..14), cuts).prop_map(
        |(seed, replicas, events, mut cuts)| {
            cuts.sort_by_key(|(write, _)| *write);
            Script { plan: Script::seeded(seed).plan, replicas, events, cuts }
        },
    )
}

fn timed() -> impl Strategy<Value = Timed> {
    (0_u8..12, event()).prop_map(|(after, event)| Timed { after, event })
}

fn event() -> impl Strategy<Value = Event> {
    let health = prop::sample::select(vec![
        Health::Good,
        Health::NeverReady,
        Health::FailsChecks,
        Health::NotAsPrimary,
    ]);
    let gate = prop::sample::select(vec![
        GateKind::ConfirmRollout,
        GateKind::PreRollout,
        GateKind::ConfirmTrafficIncrease,
        GateKind::ConfirmPromotion,
        GateKind::Rollback,
    ]);
    let others = prop::sample::select(vec![
        Event::Revert,
        Event::Reapply,
        Event::Configure,
        Event::Skip,
        Event::Suspend,
        Event::Resume,
        Event::Unhold,
        Event::Metrics,
        Event::Retry,
        Event::Apex,
        Event::DeletePrimary,
        Event::Target,
        Event::CanaryNodes,
        Event::PrimaryNodes,
        Event::Obstacle,
        Event::LoseStatus,
        Event::Delete,
        Event::Crash,
    ]);
    prop_oneof![
        4 => health.prop_map(Event::Push),
        2 => gate.prop_map(Event::Gate),
        1 => (0_i64..=100).prop_map(Event::Hold),
        1 => (0_i64..=100).prop_map(Event::Route),
        1 => (0_i64..4).prop_map(Event::ScaleTarget),
        1 => (1_i64..60).prop_map(Event::Replan),
        1 => (-7_200_i64..7_200).prop_map(Event::Clock),
        8 => others,
    ]
}

/// Cuts a script at every write it makes, in every way, and asks each run to end where the clean
/// one ended, having kept every invariant on the way. Returns how many runs that was.
fn sweep(name: &str, script: &Script) -> u32 {
    let clean = run(script);
    assert_eq!(clean.violation, None, "{name}, clean");
    assert!(clean.writes > 0, "{name}: a script that writes nothing sweeps nothing");
    let mut runs = 0;
    for write in 0..clean.writes {
        for cut in Cut::ALL {
            let cut_short = Script { cuts: vec![(write, cut)], ..script.clone() };
            let report = run(&cut_short);
            let about = || format!("{name}, write {write}, {cut:?}\n{}", story(&cut_short));
            assert_eq!(report.violation, None, "{}", about());
            assert_eq!(report.cuts, 1, "{name}: write {write} was not made");
            assert_eq!(report.ending, clean.ending, "{}", about());
            runs += 1;
        }
    }
    runs
}

fn at(after: u8, event: Event) -> Timed {
    Timed { after, event }
}

/// A plan of the plainest kind, changed a little.
fn plan(change: impl FnOnce(&mut Plan)) -> Plan {
    let mut plan = Plan {
        strategy: Way::Weighted,
        traffic: Traffic::Divisible,
        steps: Steps::By(20),
        max: Percent::clamped(60),
        promotion_step: 0,
        iterations: 2,
        mirror: false,
        threshold: 2,
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
    };
    change(&mut plan);
    plan
}

/// One rollout of each kind there is.
fn kinds() -> Vec<(&'static str, Script)> {
    let kind = |change: fn(&mut Plan)| Script::plain(plan(change));
    vec![
        ("by weight", kind(|_| {})),
        ("with a scaler", kind(|plan| plan.scaled = true)),
        ("stepped promotion", kind(|plan| plan.promotion_step = 25)),
        ("mirrored", kind(|plan| plan.mirror = true)),
        ("with cookies", kind(|plan| plan.stickiness = Stickiness::Both)),
        ("A/B", kind(|plan| plan.strategy = Way::AbTesting)),
        ("A/B, stepped promotion", {
            kind(|plan| (plan.strategy, plan.promotion_step) = (Way::AbTesting, 30))
        }),
        ("blue/green", kind(|plan| plan.strategy = Way::BlueGreen)),
        ("blue/green, mirrored", {
            kind(|plan| (plan.strategy, plan.mirror) = (Way::BlueGreen, true))
        }),
        ("plain Services", {
            kind(|plan| (plan.strategy, plan.traffic) = (Way::BlueGreen, Traffic::Whole))
        }),
        ("skipped", kind(|plan| plan.skip = true)),
        ("every hook", kind(every_hook)),
        ("every hook, blue/green", {
            kind(|plan| {
                every_hook(plan);
                plan.strategy = Way::BlueGreen;
            })
        }),
    ]
}

fn every_hook(plan: &mut Plan) {
    plan.hooks = Hooks {
        confirm_rollout: true,
        pre_rollout: true,
        confirm_traffic_increase: true,
        confirm_promotion: true,
        post_rollout: true,
        rollback: true,
    };
}

/// Rollouts by weight that something happens to.
fn mishaps() -> Vec<(&'static str, Script)> {
    let script = |change: fn(&mut Plan), events: &[Timed]| Script {
        events: events.to_vec(),
        ..Script::plain(plan(change))
    };
    let push = |health: Health| at(12, Event::Push(health));
    let good = push(Health::Good);
    let broken = push(Health::NotAsPrimary);
    let plain: fn(&mut Plan) = |_| {};
    let whole: fn(&mut Plan) =
        |plan| (plan.strategy, plan.traffic) = (Way::BlueGreen, Traffic::Whole);
    let reverted: fn(&mut Plan) = |plan| (plan.revert, plan.scaled) = (true, true);
    let held: fn(&mut Plan) = |plan| plan.manual = Some(ManualStep { weight: 30, resume: false });
    let mended = [broken, at(40, Event::Push(Health::Good))];
    vec![
        ("failed by checks", script(plain, &[push(Health::FailsChecks)])),
        ("failed by the deadline", script(plain, &[push(Health::NeverReady)])),
        ("failed in promotion", script(plain, &[broken])),
        ("mended after that", script(plain, &mended)),
        ("mended after that, plain Services", script(whole, &mended)),
        ("another revision", script(plain, &[good, at(6, Event::Push(Health::Good))])),
        ("gone back", script(plain, &[good, at(6, Event::Revert)])),
        ("another configuration", script(plain, &[good, at(6, Event::Configure)])),
        ("suspended", script(plain, &[good, at(6, Event::Suspend), at(4, Event::Suspend)])),
        ("held and resumed", script(held, &[good, at(20, Event::Resume)])),
        ("deleted in mid-flight", script(reverted, &[good, at(8, Event::Delete)])),
        ("deleted at rest", script(reverted, &[good, at(40, Event::Delete)])),
    ]
}

#[test]
fn a_run_that_is_cut_short_anywhere_ends_where_the_clean_one_does() {
    let mut runs = 0;
    for (name, script) in kinds().into_iter().chain(mishaps()) {
        runs += sweep(name, &script);
    }
    assert!(runs > 1_000, "only {runs} runs: the sweep is blind");
}
