//! Scripts: events with their times, made from a seed or by a test.

use std::time::Duration;

use crate::simulate::{Event, Health, Random};
use tidegate_engine::{
    GateKind, Hooks, ManualStep, Percent, Plan, Steps, Stickiness, Strategy, Traffic,
};

/// A run, before it is played.
#[derive(Clone, Debug, PartialEq)]
pub struct Script {
    /// The plan at first.
    pub plan: Plan,
    /// Replicas of the target.
    pub replicas: i64,
    /// Events, one after the other.
    pub events: Vec<Timed>,
    /// Which writes are cut short, counted from 0, in rising order.
    pub cuts: Vec<(u32, Cut)>,
}

/// An event, so many rounds after the previous one. A round is half an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timed {
    /// Rounds to wait.
    pub after: u8,
    /// The event.
    pub event: Event,
}

/// How a write is cut short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// It is refused, as by a conflict.
    Refused,
    /// It lands, and the answer is lost.
    AnswerLost,
    /// The process crashes before it.
    DiesBefore,
    /// The process crashes after it.
    DiesAfter,
}

const GATES: [GateKind; 5] = [
    GateKind::ConfirmRollout,
    GateKind::PreRollout,
    GateKind::ConfirmTrafficIncrease,
    GateKind::ConfirmPromotion,
    GateKind::Rollback,
];

// === impl Script ===

impl Script {
    /// One clean rollout of a healthy revision.
    pub fn plain(plan: Plan) -> Self {
        let push = Timed { after: 12, event: Event::Push(Health::Good) };
        Self { plan, replicas: 2, events: vec![push], cuts: Vec::new() }
    }

    /// A run with faults: a few rollouts, among everything that can go wrong.
    pub fn seeded(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let plan = plan(&mut random);
        let replicas = 1 + i64::from(random.one_in(2)) + i64::from(random.one_in(3));
        let mut events = Vec::new();
        let troubles = match random.below(9) {
            0..=2 => 0,
            3 => 12,
            _ => random.below(5),
        };
        for _ in 0..=random.below(3) {
            let after = 4 + small(&mut random, 8);
            events.push(Timed { after, event: Event::Push(health(&mut random)) });
        }
        for _ in 0..troubles {
            let after = small(&mut random, 7);
            let event = trouble(&mut random);
            let at = usize::try_from(random.below(events.len() as u64 + 1)).unwrap_or_default();
            events.insert(at.min(events.len()), Timed { after, event });
        }
        let mut cuts: Vec<(u32, Cut)> = Vec::new();
        if random.one_in(2) {
            for _ in 0..=random.below(if troubles > 5 { 12 } else { 4 }) {
                let write = u32::try_from(random.below(120)).unwrap_or_default();
                cuts.push((write, cut(&mut random)));
            }
            cuts.sort_by_key(|(write, _)| *write);
        }
        Self { plan, replicas, events, cuts }
    }
}

// === impl Cut ===

impl Cut {
    /// All ways.
    pub const ALL: [Self; 4] = [Self::Refused, Self::AnswerLost, Self::DiesBefore, Self::DiesAfter];
}

fn small(random: &mut Random, bound: u64) -> u8 {
    u8::try_from(random.below(bound)).unwrap_or_default()
}

fn cut(random: &mut Random) -> Cut {
    random.pick(Cut::Refused, &[Cut::AnswerLost, Cut::DiesBefore, Cut::DiesAfter])
}

fn health(random: &mut Random) -> Health {
    random.pick(
        Health::Good,
        &[
            Health::Good,
            Health::Good,
            Health::Good,
            Health::FailsChecks,
            Health::NeverReady,
            Health::NotAsPrimary,
        ],
    )
}

fn plan(random: &mut Random) -> Plan {
    let strategy = random
        .pick(Strategy::Weighted, &[Strategy::Weighted, Strategy::AbTesting, Strategy::BlueGreen]);
    let is_whole = strategy == Strategy::BlueGreen && random.one_in(2);
    let list = vec![5, 20, 60];
    Plan {
        strategy,
        traffic: if is_whole { Traffic::Whole } else { Traffic::Divisible },
        steps: match random.below(4) {
            0 => Steps::List(list),
            1 => Steps::By(100),
            2 => Steps::By(30),
            _ => Steps::By(20),
        },
        max: Percent::clamped(random.pick(50, &[60, 100])),
        promotion_step: random.pick(0, &[0, 25, 50]),
        iterations: 1 + u32::from(random.one_in(2)) + u32::from(random.one_in(2)),
        mirror: random.one_in(4) && !is_whole,
        threshold: 1 + u32::from(random.one_in(2)),
        interval: Duration::from_mins(1),
        deadline: Duration::from_mins(5),
        skip: random.one_in(12),
        suspended: false,
        revert: random.one_in(3),
        manual: random.one_in(8).then_some(ManualStep { weight: 30, resume: false }),
        hooks: hooks(random),
        stickiness: stickiness(random, strategy),
        scaled: random.one_in(3),
        notes: Vec::new(),
    }
}

fn stickiness(random: &mut Random, strategy: Strategy) -> Stickiness {
    let chosen = random.pick(Stickiness::None, &[Stickiness::Canary, Stickiness::Both]);
    if strategy == Strategy::Weighted { chosen } else { Stickiness::None }
}

fn hooks(random: &mut Random) -> Hooks {
    Hooks {
        confirm_rollout: random.one_in(4),
        pre_rollout: random.one_in(3),
        confirm_traffic_increase: random.one_in(4),
        confirm_promotion: random.one_in(4),
        post_rollout: random.one_in(3),
        rollback: random.one_in(4),
    }
}

fn trouble(random: &mut Random) -> Event {
    let gate = random.pick(GateKind::Rollback, &GATES);
    match random.below(26) {
        0 => Event::Revert,
        1 => Event::Reapply,
        2 => Event::Configure,
        3 => Event::Skip,
        4 => Event::Suspend,
        5 => Event::Hold(random.pick(0, &[10, 40, 100])),
        6 | 7 => Event::Resume,
        8 => Event::Unhold,
        9 => Event::Replan(random.pick(10, &[40])),
        10 | 11 => Event::Gate(gate),
        12 => Event::Metrics,
        13 => Event::Retry,
        14 => Event::ScaleTarget(random.pick(0, &[1, 3])),
        15 => Event::Route(random.pick(0, &[50, 100])),
        16 => Event::Apex,
        17 => Event::DeletePrimary,
        18 => Event::Target,
        19 => Event::CanaryNodes,
        20 => Event::PrimaryNodes,
        21 => Event::Obstacle,
        22 => Event::LoseStatus,
        23 => Event::Delete,
        24 => Event::Clock(random.pick(3_600, &[-3_600, 30, -30])),
        _ => Event::Crash,
    }
}
