//! Traffic in virtual time: reproducible counts, weights, samples, timeouts, mirrors.

use std::time::Duration;

use serde_json::json;

use super::*;
use crate::{
    Sandbox, Settings,
    clock::later,
    cluster::{Cluster, DEPLOYMENTS},
    dataplane::{
        crds::HTTP_ROUTES,
        testing::{Samples, shop, split},
    },
    server::User,
};

/// A cluster in virtual time with traffic to `shop.example.com`.
struct Rig {
    sandbox: Sandbox,
    simulation: Simulation,
    samples: Arc<Samples>,
}

impl Rig {
    fn new(canary: &str, traffic: Traffic, seed: u64) -> Self {
        let sandbox = shop(Settings::for_tests(), canary);
        sandbox.advance(Duration::from_secs(30));
        let samples = Arc::<Samples>::default();
        let sink = Arc::<Samples>::clone(&samples);
        let mut simulation = Simulation::new(Arc::clone(sandbox.server()), sink, seed);
        simulation.add(traffic);
        Self { sandbox, simulation, samples }
    }

    /// Advances cluster and traffic together, in steps.
    fn pass(&mut self, seconds: u64, step: Duration) {
        let end = later(self.now(), Duration::from_secs(seconds));
        while self.now() < end {
            let from = self.now();
            self.simulation.step(from, later(from, step).min(end));
            self.sandbox.advance(step.min(between(from, end)));
        }
    }

    fn now(&self) -> Timestamp {
        self.sandbox.server().clock.now()
    }

    fn answers(&self) -> Answers {
        self.simulation.answers().next().unwrap().1.clone()
    }
}

fn traffic() -> Traffic {
    Traffic::new("shop.example.com", 50.0)
}

const STEP: Duration = Duration::from_secs(5);

#[test]
fn a_seed_gives_the_same_numbers_however_time_is_cut() {
    let mut one = Rig::new("2-errors-10", traffic(), 7);
    one.pass(120, STEP);
    for step in [Duration::from_mins(2), Duration::from_secs(1), Duration::from_millis(1700)] {
        let mut other = Rig::new("2-errors-10", traffic(), 7);
        other.pass(120, step);
        assert_eq!(one.answers(), other.answers(), "{step:?}");
        assert_eq!(one.samples.all(), other.samples.all(), "{step:?}");
    }
    let mut again = Rig::new("2-errors-10", traffic(), 7);
    again.pass(120, STEP);
    assert_eq!(one.samples.all(), again.samples.all());
    let mut different = Rig::new("2-errors-10", traffic(), 8);
    different.pass(120, STEP);
    assert_ne!(one.answers(), different.answers());
    assert_eq!(one.answers().total(), 6_000, "the number of requests is not left to chance");
}

#[test]
fn requests_are_split_by_weight_and_fail_at_their_rate() {
    let mut rig = Rig::new("2-errors-20", traffic(), 1);
    rig.sandbox.load(vec![split(90, 10)]).unwrap();
    rig.pass(600, STEP);
    let answers = rig.answers();
    assert_eq!(answers.total(), 30_000);
    let canary = answers.by_version["2"];
    assert!((2_800..=3_200).contains(&canary), "{canary}");
    let errors = answers.by_status[&500];
    assert!((500..=700).contains(&errors), "{errors}");
    let key = ("test".to_owned(), "shop-canary".to_owned());
    assert_eq!(rig.simulation.backends()[&key].values().sum::<u64>(), canary);
}

#[test]
fn samples_have_the_labels_that_queries_ask_for() {
    let mut rig = Rig::new("2-errors-20", traffic(), 1);
    rig.pass(60, STEP);
    let workload = [
        "reporter=\"destination\"",
        "destination_workload=\"shop-canary\"",
        "destination_workload_namespace=\"test\"",
    ];
    let all = rig.samples.last("istio_requests_total", &workload);
    let failed = [&workload[..], &["response_code=\"500\""]].concat();
    let failed = rig.samples.last("istio_requests_total", &failed);
    assert!(all > 1_000 && failed > 100 && failed < all, "{failed} of {all}");
    let bucket = |le: &str| {
        let parts = [&workload[..], &[le]].concat();
        rig.samples.last("istio_request_duration_milliseconds_bucket", &parts)
    };
    let fast = bucket("le=\"1\"");
    assert_eq!((fast, bucket("le=\"10\""), bucket("le=\"+Inf\"")), (0, all, all));
    let pod = ["kubernetes_namespace=\"test\"", "kubernetes_pod_name=\"shop-canary-"];
    let counted = rig.samples.last("http_request_duration_seconds_count", &pod);
    let slowest = [&pod[..], &["le=\"0.01\""]].concat();
    assert_eq!(counted, all);
    assert_eq!(rig.samples.last("http_request_duration_seconds_bucket", &slowest), all);
    let sent = ["reporter=\"source\"", "destination_service_name=\"shop-canary\""];
    assert_eq!(rig.samples.last("istio_requests_total", &sent), all);
}

#[test]
fn samples_come_every_five_seconds_and_only_grow() {
    let mut rig = Rig::new("2", traffic(), 1);
    rig.pass(60, Duration::from_millis(700));
    let series = rig.samples.matching("http_request_duration_seconds_count", &[]);
    assert_eq!(series.len(), 3, "one for each pod");
    for samples in series {
        assert_eq!(samples.len(), 12);
        assert!(samples.iter().all(|(at_ms, _)| at_ms % 5_000 == 0));
        assert!(samples.windows(2).all(|two| two[1].0 - two[0].0 == 5_000 && two[1].1 > two[0].1));
    }
}

#[test]
fn a_pod_that_went_away_stops_reporting() {
    let mut rig = Rig::new("2", traffic(), 1);
    rig.pass(30, STEP);
    let admin = rig.sandbox.local(User::admin());
    let none = json!({ "spec": { "replicas": 0 } });
    admin.patch(DEPLOYMENTS, "test", "shop-canary", "", &none).unwrap();
    rig.sandbox.advance(Duration::from_mins(1));
    let gone_ms = rig.now().as_millisecond();
    let before = rig.answers();
    rig.pass(30, STEP);
    let canary = rig
        .samples
        .matching("http_request_duration_seconds_count", &["kubernetes_pod_name=\"shop-canary-"]);
    assert!(canary.iter().flatten().all(|(at_ms, _)| *at_ms <= gone_ms));
    let refused = rig.answers().by_status[&503] - before.by_status.get(&503).unwrap_or(&0);
    assert!((600..=900).contains(&refused), "half of them found no endpoint: {refused}");
    let sent = ["destination_service_name=\"shop-canary\"", "response_code=\"503\""];
    assert_eq!(rig.samples.last("istio_requests_total", &sent), refused);
}

#[test]
fn a_slow_backend_meets_the_timeout_of_its_route() {
    let mut rig = Rig::new("2-slow-2s", traffic(), 1);
    let mut route = split(0, 100);
    route["spec"]["rules"][0]["timeouts"] = json!({ "request": "1s" });
    rig.sandbox.load(vec![route]).unwrap();
    rig.pass(10, STEP);
    assert_eq!(rig.answers().by_status, BTreeMap::from([(504, 500)]));
    let own = ["kubernetes_pod_name=\"shop-canary-", "status=\"200\""];
    assert_eq!(rig.samples.last("http_request_duration_seconds_count", &own), 500);
}

#[test]
fn mirrored_requests_reach_the_canary_and_no_client() {
    let mut rig = Rig::new("2", traffic(), 1);
    let mut route = split(100, 0);
    let canary = json!({ "name": "shop-canary", "port": 80 });
    route["spec"]["rules"][0]["filters"] =
        json!([{ "type": "RequestMirror", "requestMirror": { "backendRef": canary } }]);
    rig.sandbox.load(vec![route]).unwrap();
    rig.pass(10, STEP);
    assert_eq!(rig.answers().by_version, BTreeMap::from([("1".to_owned(), 500)]));
    let canary = ["destination_workload=\"shop-canary\"", "reporter=\"destination\""];
    assert_eq!(rig.samples.last("istio_requests_total", &canary), 500);
}

#[test]
fn clients_with_a_cookie_stay_with_the_canary() {
    let mut rig = Rig::new("2", traffic().clients(20), 1);
    let mut route = split(50, 50);
    let set = json!({ "add": [{ "name": "Set-Cookie", "value": "ck=abc; Max-Age=86400" }] });
    let rules = &mut route["spec"]["rules"];
    rules[0]["backendRefs"][1]["filters"] =
        json!([{ "type": "ResponseHeaderModifier", "responseHeaderModifier": set }]);
    rules.as_array_mut().unwrap().push(json!({
        "matches": [{ "headers": [
            { "type": "RegularExpression", "name": "Cookie", "value": ".*ck.*abc.*" },
        ] }],
        "backendRefs": [{ "name": "shop-canary", "port": 80 }],
    }));
    rig.sandbox.load(vec![route]).unwrap();
    rig.pass(60, STEP);
    let before = rig.answers().by_version["1"];
    rig.pass(60, STEP);
    assert_eq!(rig.answers().by_version["1"], before, "by now everyone has met the canary once");
}

#[test]
fn ten_minutes_cost_little() {
    let mut rig = Rig::new("2-errors-1", traffic(), 1);
    let started = std::time::Instant::now();
    let from = rig.now();
    rig.simulation.step(from, later(from, Duration::from_mins(10)));
    let took = started.elapsed();
    assert_eq!(rig.answers().total(), 30_000);
    // Measured at 130 ms without optimisation; the bound leaves room for busy machines.
    assert!(took < Duration::from_secs(3), "{took:?}");
}

#[test]
fn nothing_is_read_again_while_nothing_was_written() {
    let mut rig = Rig::new("2", traffic(), 1);
    let mut view = View::new(Arc::clone(rig.sandbox.server()));
    assert!(view.refresh());
    assert!(!view.refresh());
    rig.pass(10, STEP);
    assert!(!view.refresh(), "traffic writes nothing to the store");
    rig.sandbox.load(vec![split(1, 99)]).unwrap();
    assert!(view.refresh());
    assert!(rig.sandbox.local(User::admin()).get(HTTP_ROUTES, "test", "shop").is_some());
}
