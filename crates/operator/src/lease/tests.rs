//! Elections between candidates on one sandbox, in virtual time.

use kube_sandbox::{
    Sandbox, Settings,
    cluster::{Cluster as _, Deletion, Resource},
    faults::{Effect, Matcher, RuleId, When},
    server::User,
};
use tokio::{sync::oneshot, task::JoinHandle};

use super::*;
use crate::clock::testing::VirtualClock;

const LEASES: Resource = Resource { group: "coordination.k8s.io", plural: "leases" };

/// A candidate at work.
struct Candidate {
    leadership: Leadership,
    task: JoinHandle<Ended>,
    stop: oneshot::Sender<()>,
}

struct World {
    sandbox: Sandbox,
}

impl World {
    fn new() -> Self {
        Self { sandbox: Sandbox::new(Settings::for_tests()) }
    }

    fn candidate(&self, name: &str) -> Candidate {
        self.skewed_candidate(name, 0)
    }

    fn skewed_candidate(&self, name: &str, skew_s: i64) -> Candidate {
        let user = User::new(name, &["system:masters"]);
        let client = kube::Client::new(self.sandbox.service_as(user), "default");
        let clock = VirtualClock { cluster: self.sandbox.server().clock.clone(), skew_s };
        let settings = LeaseSettings::new("kube-system", name);
        let election = Election::new(client, settings, Arc::new(clock));
        let leadership = election.leadership();
        let (stop, stopped) = oneshot::channel();
        let stopped = async { drop(stopped.await) };
        Candidate { leadership, task: tokio::spawn(election.run(stopped)), stop }
    }

    /// Lets time pass, a second at a time, and all tasks run meanwhile.
    async fn pass(&self, seconds: u64) {
        self.quiet().await;
        for _ in 0..seconds {
            self.sandbox.advance(Duration::from_secs(1));
            self.quiet().await;
        }
    }

    /// Lets all tasks run until none has anything to do now.
    async fn quiet(&self) {
        for _ in 0..200 {
            tokio::task::yield_now().await;
        }
    }

    fn break_for(&self, user: &str, effect: Effect) -> RuleId {
        self.sandbox.server().faults.add(Matcher::any().user(user), When::Always, effect)
    }

    fn lease(&self) -> serde_json::Value {
        let local = self.sandbox.local(User::admin());
        local.get(LEASES, "kube-system", LEASE_NAME).unwrap()
    }
}

#[tokio::test]
async fn of_two_candidates_one_leads_and_keeps_leading() {
    let world = World::new();
    let (a, b) = (world.candidate("a"), world.candidate("b"));
    world.pass(0).await;
    assert!(a.leadership.is_leader_now() ^ b.leadership.is_leader_now());
    let a_leads = a.leadership.is_leader_now();
    for _ in 0..300 {
        world.pass(1).await;
        assert_eq!(a.leadership.is_leader_now(), a_leads);
        assert_eq!(b.leadership.is_leader_now(), !a_leads);
    }
    assert_eq!(world.lease()["spec"]["leaseTransitions"], 0);
}

#[tokio::test]
async fn the_lease_is_written_as_client_go_would() {
    let world = World::new();
    let a = world.candidate("a");
    world.pass(7).await;
    let spec = &world.lease()["spec"];
    assert_eq!(spec["holderIdentity"], "a");
    assert_eq!(spec["leaseDurationSeconds"], 60);
    assert_eq!(spec["acquireTime"], "2026-01-01T00:00:00.000000Z");
    assert_eq!(spec["renewTime"], "2026-01-01T00:00:05.000000Z");
    drop(a.stop);
    world.pass(0).await;
    assert_eq!(a.task.await.unwrap(), Ended::Released);
    assert_eq!(world.lease()["spec"]["holderIdentity"], "");
}

#[tokio::test]
async fn a_lease_given_back_is_taken_at_the_next_look() {
    let world = World::new();
    let a = world.candidate("a");
    world.pass(0).await;
    let b = world.candidate("b");
    world.pass(20).await;
    let mut changes = a.leadership.changes();
    assert!(*changes.borrow_and_update());
    drop(a.stop);
    world.pass(0).await;
    assert!(!a.leadership.is_leader_now());
    assert!(changes.has_changed().unwrap() && !*changes.borrow());
    world.pass(5).await;
    assert!(b.leadership.is_leader_now());
    assert_eq!(world.lease()["spec"]["leaseTransitions"], 1);
}

#[tokio::test]
async fn a_leader_cut_off_stops_long_before_the_next_one_starts() {
    let cuts = [
        Effect::ServerError { code: 500 },
        Effect::FailBefore { code: 403, reason: "Forbidden" },
        Effect::Timeout { after: Duration::from_hours(1) },
        Effect::Delay { by: Duration::from_hours(1) },
    ];
    for cut in cuts {
        let world = World::new();
        let a = world.candidate("a");
        world.pass(0).await;
        let b = world.candidate("b");
        world.pass(10).await;
        world.break_for("a", cut.clone());
        let (mut a_last, mut b_first) = (0, 0);
        for second in 1..=80 {
            world.pass(1).await;
            if a.leadership.is_leader_now() {
                a_last = second;
            }
            if b.leadership.is_leader_now() && b_first == 0 {
                b_first = second;
            }
        }
        assert!((10..=15).contains(&a_last), "{cut:?}: a led for {a_last} s");
        assert!((55..=65).contains(&b_first), "{cut:?}: b led after {b_first} s");
        assert_eq!(a.task.await.unwrap(), Ended::Lost, "{cut:?}");
        assert_eq!(world.lease()["spec"]["holderIdentity"], "b");
    }
}

#[tokio::test]
async fn leadership_ends_by_the_clock_even_if_the_renewing_task_hangs() {
    let world = World::new();
    let a = world.candidate("a");
    world.pass(0).await;
    a.task.abort();
    world.quiet().await;
    world.sandbox.advance(Duration::from_secs(14));
    assert!(a.leadership.is_leader_now());
    world.sandbox.advance(Duration::from_secs(1));
    assert!(!a.leadership.is_leader_now());
}

#[tokio::test]
async fn short_trouble_does_not_cost_leadership() {
    let troubles = [
        Effect::ServerError { code: 503 },
        Effect::Conflict,
        Effect::LoseAnswer,
        Effect::TooManyRequests { retry_after_s: None },
        Effect::Delay { by: Duration::from_secs(7) },
    ];
    for trouble in troubles {
        let world = World::new();
        let a = world.candidate("a");
        world.pass(6).await;
        let rule = world.break_for("a", trouble.clone());
        for _ in 0..6 {
            world.pass(1).await;
            assert!(a.leadership.is_leader_now(), "{trouble:?}");
        }
        world.sandbox.server().faults.remove(rule);
        for _ in 0..30 {
            world.pass(1).await;
            assert!(a.leadership.is_leader_now(), "{trouble:?}");
        }
        assert!(world.sandbox.server().faults.injected().total() > 0, "{trouble:?}");
    }
}

#[tokio::test]
async fn clocks_that_disagree_make_no_two_leaders() {
    for skew_s in [-7200, -61, 61, 7200] {
        let world = World::new();
        let a = world.candidate("a");
        world.pass(0).await;
        let b = world.skewed_candidate("b", skew_s);
        for _ in 0..200 {
            world.pass(1).await;
            assert!(a.leadership.is_leader_now(), "skew {skew_s}");
            assert!(!b.leadership.is_leader_now(), "skew {skew_s}");
        }
    }
}

#[tokio::test]
async fn a_clock_put_back_neither_ends_nor_prolongs_leadership() {
    let world = World::new();
    let a = world.candidate("a");
    world.pass(3).await;
    world.sandbox.server().clock.jump_to(Timestamp::UNIX_EPOCH);
    world.pass(30).await;
    assert!(a.leadership.is_leader_now());
    world.break_for("a", Effect::ServerError { code: 500 });
    world.sandbox.server().clock.jump_to(Timestamp::UNIX_EPOCH);
    world.pass(15).await;
    assert!(!a.leadership.is_leader_now());
}

#[tokio::test]
async fn a_lease_taken_by_someone_else_is_given_up_at_once() {
    let world = World::new();
    let a = world.candidate("a");
    world.pass(1).await;
    let local = world.sandbox.local(User::admin());
    let theirs = serde_json::json!({ "spec": { "holderIdentity": "flagger-7d_x" } });
    local.patch(LEASES, "kube-system", LEASE_NAME, "", &theirs).unwrap();
    world.pass(5).await;
    assert!(!a.leadership.is_leader_now());
    assert_eq!(a.task.await.unwrap(), Ended::Lost);
    assert_eq!(world.lease()["spec"]["holderIdentity"], "flagger-7d_x");
}

#[tokio::test]
async fn a_lease_deleted_is_made_again() {
    let world = World::new();
    let a = world.candidate("a");
    world.pass(1).await;
    let local = world.sandbox.local(User::admin());
    local.delete(LEASES, "kube-system", LEASE_NAME, &Deletion::default()).unwrap();
    world.pass(5).await;
    assert!(a.leadership.is_leader_now());
    assert_eq!(world.lease()["spec"]["holderIdentity"], "a");
}

#[tokio::test]
async fn many_candidates_never_lead_together_on_a_faulty_server() {
    let world = World::new();
    let mut candidates = ["a", "b", "c", "d"].map(|name| world.candidate(name));
    let faults = &world.sandbox.server().faults;
    faults.add(Matcher::any(), When::Share(0.3), Effect::ServerError { code: 500 });
    faults.add(Matcher::writes(), When::Share(0.3), Effect::LoseAnswer);
    faults.add(Matcher::writes(), When::Share(0.2), Effect::Conflict);
    faults.add(Matcher::any(), When::Share(0.2), Effect::Delay { by: Duration::from_secs(4) });
    let mut led = 0;
    for second in 0..900 {
        world.pass(1).await;
        let leaders = candidates.iter().filter(|one| one.leadership.is_leader_now()).count();
        assert!(leaders <= 1, "{leaders} lead at second {second}");
        led += leaders;
        for (index, candidate) in candidates.iter_mut().enumerate() {
            if candidate.task.is_finished() {
                *candidate = world.candidate(&format!("{index}-from-{second}"));
            }
        }
    }
    assert!(led > 100, "some candidate should lead for some of the time, but did only for {led} s");
}

#[tokio::test]
async fn an_operator_alone_always_leads() {
    let world = World::new();
    let clock = Arc::new(VirtualClock::of(&world.sandbox.server().clock));
    let leadership = Leadership::without_election(clock);
    world.sandbox.advance(Duration::from_hours(24 * 365));
    assert!(leadership.is_leader_now());
    assert!(*leadership.changes().borrow());
}

#[test]
fn identities_differ_and_name_the_host() {
    let (a, b) = (identity(), identity());
    assert_ne!(a, b);
    let (host, uuid) = a.rsplit_once('_').unwrap();
    assert!(!host.is_empty());
    let lengths: Vec<usize> = uuid.split('-').map(str::len).collect();
    assert_eq!(lengths, [8, 4, 4, 4, 12]);
    assert_eq!(uuid.as_bytes()[14], b'4');
}
