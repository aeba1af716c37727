//! Requests along the objects of providers that the sandbox carries out: the split of a route is the split
//! of requests, and no request fails on the way.

use std::{sync::Arc, time::Duration};

use kube_sandbox::{
    clock::later,
    dataplane::{Simulation, Sink, Traffic},
};
use serde_json::{Value, json};
use tidegate_tests::{
    providers::{canary_for, furnish, promoted_image},
    rollout::World,
};

use crate::stage::{ab_test, blue_green, by_weight, measured, reach, release, with_canary};

const PROVIDERS: [&str; 4] = ["nginx", "traefik", "gatewayapi:v1", "istio"];
/// Enough to tell a share from the next one.
const REQUESTS_PER_SECOND: f64 = 200.0;

/// Metrics are scripted here; the requests are counted directly.
struct Nowhere;

impl Sink for Nowhere {
    fn append(&self, _: &str, _: &[(&str, &str)], _: i64, _: f64) {}
}

/// A cluster with simulated users.
struct Street {
    world: World,
    simulation: Simulation,
}

impl Street {
    /// With a canary that is set up; users with this header send requests as well.
    async fn new(provider: &str, analysis: Value, header: Option<(&str, &str)>) -> Self {
        let mut canary = canary_for(provider, measured(analysis));
        if matches!(provider, "gatewayapi:v1" | "istio") {
            canary["spec"]["service"]["hosts"] = json!(["web.test"]);
        }
        let mut world = with_canary(canary);
        furnish(&world, provider);
        world.start().await;
        reach(&world, "Initialized").await;
        let server = Arc::clone(world.sandbox.server());
        let mut simulation = Simulation::new(server, Arc::new(Nowhere), 7);
        let mut traffic = Traffic::new("web.test", REQUESTS_PER_SECOND);
        traffic.headers.extend(header.map(|(name, value)| (name.to_owned(), value.to_owned())));
        simulation.add(traffic);
        Self { world, simulation }
    }

    /// Lets a second pass, with its requests.
    async fn pass(&mut self) {
        let now = self.world.sandbox.server().clock.now();
        self.simulation.step(now, later(now, Duration::from_secs(1)));
        self.world.advance_s(1).await;
    }

    /// Requests to the canary and in total, until now.
    fn counted(&self) -> (u64, u64) {
        let backends = self.simulation.backends();
        let sum = |is_it: &dyn Fn(&str) -> bool| {
            let counts = backends.iter().filter(|((_, service), _)| is_it(service));
            counts.flat_map(|(_, counts)| counts.values()).sum()
        };
        (sum(&|service| service == "web-canary"), sum(&|_| true))
    }

    /// The part of the canary in the requests of the next seconds.
    async fn share(&mut self, seconds: usize) -> f64 {
        let before = self.counted();
        for _ in 0..seconds {
            self.pass().await;
        }
        let after = self.counted();
        let part = |number: u64| f64::from(u32::try_from(number).unwrap_or(u32::MAX));
        part(after.0 - before.0) / part(after.1 - before.1)
    }

    async fn until(&mut self, what: &str, is_so: impl Fn(&Value) -> bool) {
        let mut seconds = 0..300;
        while !is_so(&self.world.status("web")) {
            let is_in_time = seconds.next().is_some();
            assert!(is_in_time, "never {what}: {:#}", self.world.status("web"));
            self.pass().await;
        }
    }

    /// No request failed.
    fn assert_all_answered(&self, provider: &str) {
        let (_, answers) = self.simulation.answers().next().expect("somebody asks");
        let statuses: Vec<_> = answers.by_status.keys().copied().collect();
        assert_eq!((&statuses[..], answers.failed), (&[200][..], 0), "{provider}: {answers:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn users_are_divided_as_the_route_says_and_nobody_is_turned_away() {
    for provider in PROVIDERS {
        let mut street = Street::new(provider, by_weight(), None).await;
        assert!(street.share(2).await < f64::EPSILON, "{provider}: before a release");
        release(&street.world, "web:2.0");
        for percent in [20_u8, 40, 60] {
            street.until("at that share", |it| it["canaryWeight"] == percent).await;
            // One second for the change, eight of the ten of the step.
            street.pass().await;
            let share = street.share(7).await;
            let want = f64::from(percent) / 100.0;
            assert!((share - want).abs() < 0.06, "{provider}: {share} instead of {want}");
        }
        street.until("promoted", |it| it["phase"] == "Succeeded").await;
        street.pass().await;
        assert!(street.share(3).await < f64::EPSILON, "{provider}: after it");
        assert_eq!(promoted_image(&street.world), "web:2.0");
        street.assert_all_answered(provider);
    }
}

#[tokio::test(start_paused = true)]
async fn all_users_change_sides_at_once_and_nobody_is_turned_away() {
    for provider in PROVIDERS {
        let mut street = Street::new(provider, blue_green(), None).await;
        release(&street.world, "web:2.0");
        street.until("promoted", |it| it["phase"] == "Succeeded").await;
        let (canary, all) = street.counted();
        assert!(canary > 0 && canary < all, "{provider}: {canary} of {all}");
        street.assert_all_answered(provider);
    }
}

#[tokio::test(start_paused = true)]
async fn who_fits_a_test_meets_the_canary_and_nobody_else_does() {
    for provider in ["nginx", "gatewayapi:v1", "istio"] {
        for (header, want) in [(Some(("x-canary", "yes")), 1.0), (None, 0.0)] {
            let mut street = Street::new(provider, ab_test(), header).await;
            release(&street.world, "web:2.0");
            street.until("tested", |it| it["iterations"] == 1).await;
            street.pass().await;
            let share = street.share(5).await;
            assert!((share - want).abs() < f64::EPSILON, "{provider}, {header:?}: {share}");
            street.until("promoted", |it| it["phase"] == "Succeeded").await;
            street.assert_all_answered(provider);
        }
    }
}
