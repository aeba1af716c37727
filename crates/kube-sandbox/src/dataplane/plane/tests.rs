//! The data plane on real sockets: routing, mirrors, timeouts, name resolution, counters.

use std::net::Ipv4Addr;

use bytes::Bytes;
use http::{Request, Response, header::HOST};
use serde_json::{Value, json};

use super::*;
use crate::{
    Sandbox, Settings,
    clock::{Clock, later},
    cluster::{Cluster, DEPLOYMENTS, PODS},
    dataplane::{
        Simulation, Traffic, client, routing_crds,
        testing::{Samples, shop, split, workload},
    },
    server::User,
};

/// A cluster on real sockets.
struct Rig {
    sandbox: Sandbox,
    plane: DataPlane,
    samples: Arc<Samples>,
}

impl Rig {
    async fn new(canary: &str) -> Self {
        // The cluster's clock stands still; sockets use real time.
        let sandbox = shop(Settings::for_tests(), canary);
        sandbox.advance(Duration::from_secs(30));
        let samples = Arc::<Samples>::default();
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let sink = Arc::<Samples>::clone(&samples);
        let server = Arc::clone(sandbox.server());
        let plane = DataPlane::start(server, any, sink).await.unwrap();
        plane.caught_up().await;
        Self { sandbox, plane, samples }
    }

    async fn load(&self, object: Value) {
        self.sandbox.load(vec![object]).unwrap();
        self.sandbox.settle();
        self.plane.caught_up().await;
    }

    async fn get(&self, host: &str, path: &str, headers: &[(&str, &str)]) -> Response<Bytes> {
        let mut request = Request::builder().uri(path).header(HOST, host);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Bytes::new()).unwrap();
        client::send(self.plane.address(), request).await.unwrap()
    }

    /// Status and version of an answer.
    async fn version(&self, host: &str, path: &str) -> (u16, String) {
        let response = self.get(host, path, &[]).await;
        let body: Value = serde_json::from_slice(response.body()).unwrap_or_default();
        (response.status().as_u16(), body["version"].as_str().unwrap_or_default().to_owned())
    }
}

const HOST_NAME: &str = "shop.example.com";

#[tokio::test]
async fn requests_go_where_the_route_says_and_move_with_it() {
    let rig = Rig::new("2").await;
    for (weights, want) in [((100, 0), "1"), ((0, 100), "2"), ((100, 0), "1")] {
        rig.load(split(weights.0, weights.1)).await;
        for _ in 0..5 {
            assert_eq!(rig.version(HOST_NAME, "/").await, (200, want.to_owned()));
        }
    }
    let response = rig.get(HOST_NAME, "/cart?x=1", &[]).await;
    let body: Value = serde_json::from_slice(response.body()).unwrap();
    assert_eq!(body["path"], "/cart");
    let pod = body["pod"].as_str().unwrap();
    let admin = rig.sandbox.local(User::admin());
    assert!(admin.get(PODS, "test", pod).is_some(), "the pod that says it answered exists: {pod}");
}

#[tokio::test]
async fn a_service_is_reached_by_its_name_and_a_stranger_is_not() {
    let rig = Rig::new("2").await;
    let cases = [
        ("shop-canary.test", 200, "2"),
        ("shop-primary.test.svc.cluster.local:80", 200, "1"),
        ("nobody.example.com", 404, ""),
    ];
    for (host, status, version) in cases {
        assert_eq!(rig.version(host, "/").await, (status, version.to_owned()), "{host}");
    }
    let address = rig.plane.address().to_string();
    assert_eq!(rig.version(&address, "/").await.0, 200, "the only route takes what names no host");
    let page = rig.get("nobody.example.com", "/", &[]).await;
    let text = String::from_utf8_lossy(page.body()).into_owned();
    assert!(text.contains(HOST_NAME), "it says which hosts there are: {text}");
}

#[tokio::test]
async fn pods_come_and_go_with_their_servers() {
    let rig = Rig::new("2").await;
    rig.load(split(0, 100)).await;
    let admin = rig.sandbox.local(User::admin());
    let scale = |replicas: u32| {
        let patch = json!({ "spec": { "replicas": replicas } });
        admin.patch(DEPLOYMENTS, "test", "shop-canary", "", &patch).unwrap();
        rig.sandbox.advance(Duration::from_mins(2));
    };
    scale(0);
    rig.plane.caught_up().await;
    assert_eq!(rig.version(HOST_NAME, "/").await.0, 503);
    scale(3);
    rig.plane.caught_up().await;
    assert_eq!(rig.plane.shared.published().addresses.len(), 5);
    assert_eq!(rig.version(HOST_NAME, "/").await, (200, "2".to_owned()));
    rig.load(workload("shop-canary", "shop:3", 3).remove(0)).await;
    rig.sandbox.advance(Duration::from_mins(2));
    rig.plane.caught_up().await;
    assert_eq!(rig.version(HOST_NAME, "/").await, (200, "3".to_owned()));
    let key = ("test".to_owned(), "shop-canary".to_owned());
    let counts = rig.plane.backends()[&key].clone();
    assert_eq!(counts, BTreeMap::from([(200, 2), (503, 1)]));
}

#[tokio::test]
async fn cookies_are_set_and_obeyed() {
    let rig = Rig::new("2").await;
    let mut route = split(0, 100);
    let set = json!({ "add": [{ "name": "Set-Cookie", "value": "ck=abc; Max-Age=86400" }] });
    let rules = &mut route["spec"]["rules"];
    rules[0]["backendRefs"][1]["filters"] =
        json!([{ "type": "ResponseHeaderModifier", "responseHeaderModifier": set }]);
    rules.as_array_mut().unwrap().push(json!({
        "matches": [{ "headers": [
            { "type": "RegularExpression", "name": "Cookie", "value": ".*ck.*abc.*" },
        ] }],
        "backendRefs": [{ "name": "shop-primary", "port": 80 }],
    }));
    rig.load(route).await;
    let first = rig.get(HOST_NAME, "/", &[]).await;
    assert_eq!(first.headers()["set-cookie"], "ck=abc; Max-Age=86400");
    let second = rig.get(HOST_NAME, "/", &[("cookie", "ck=abc")]).await;
    assert!(!second.headers().contains_key("set-cookie"));
    assert!(String::from_utf8_lossy(second.body()).contains("\"version\":\"1\""));
}

#[tokio::test]
async fn a_mirror_gets_a_copy_and_the_client_does_not_notice() {
    let rig = Rig::new("2-errors-100").await;
    let mut route = split(100, 0);
    let canary = json!({ "name": "shop-canary", "port": 80 });
    route["spec"]["rules"][0]["filters"] =
        json!([{ "type": "RequestMirror", "requestMirror": { "backendRef": canary } }]);
    rig.load(route).await;
    for _ in 0..10 {
        assert_eq!(rig.version(HOST_NAME, "/").await, (200, "1".to_owned()));
    }
    let mirrored = || {
        let samples = Samples::default();
        let published = rig.plane.shared.published();
        rig.plane.shared.meter.scrape(&published.snapshot.pods, 0, &samples);
        samples.last("http_request_duration_seconds_count", &["shop-canary-", "status=\"500\""])
    };
    let deadline = std::time::Instant::now() + Duration::from_secs(10);
    while mirrored() < 10 {
        assert!(std::time::Instant::now() < deadline, "{} copies arrived", mirrored());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(!rig.plane.backends().contains_key(&("test".into(), "shop-canary".into())));
}

#[tokio::test]
async fn a_timeout_is_a_504_and_a_redirect_is_passed_on() {
    let rig = Rig::new("2-slow-5s").await;
    let mut route = split(0, 100);
    route["spec"]["rules"][0]["timeouts"] = json!({ "request": "50ms" });
    let redirect = json!({ "scheme": "https", "statusCode": 301 });
    route["spec"]["rules"].as_array_mut().unwrap().push(json!({
        "matches": [{ "path": { "type": "Exact", "value": "/moved" } }],
        "filters": [{ "type": "RequestRedirect", "requestRedirect": redirect }],
    }));
    rig.load(route).await;
    let started = std::time::Instant::now();
    assert_eq!(rig.version(HOST_NAME, "/").await.0, 504);
    assert!(started.elapsed() < Duration::from_secs(4));
    let moved = rig.get(HOST_NAME, "/moved", &[]).await;
    assert_eq!(moved.status(), 301);
    assert_eq!(moved.headers()["location"], "https://shop.example.com/moved");
}

#[tokio::test]
async fn names_of_the_cluster_resolve_to_where_they_are_served() {
    let rig = Rig::new("2").await;
    let resolver = rig.plane.resolver();
    let gateway = Some(rig.plane.address());
    let cases = [
        ("shop-canary.test", 80, gateway),
        ("shop-canary.test.svc.cluster.local", 80, gateway),
        ("shop-canary.test", 81, None),
        (HOST_NAME, 80, gateway),
        ("hooks.example.org", 443, None),
        ("127.0.0.1", 80, None),
        ("loadtester.test", 80, None),
    ];
    for (host, port, want) in cases {
        assert_eq!(resolver.resolve(host, port), want, "{host}:{port}");
    }
    let stand_in = rig.plane.address();
    rig.plane.attach("test", "loadtester", stand_in);
    rig.plane.caught_up().await;
    assert_eq!(resolver.resolve("loadtester.test", 80), Some(stand_in));
    assert_eq!(resolver.resolve("loadtester.test.svc", 9090), Some(stand_in));
}

#[tokio::test]
async fn what_stands_in_for_a_service_is_served_through_the_gateway_too() {
    let rig = Rig::new("2").await;
    let other = Rig::new("7").await;
    other.load(split(0, 100)).await;
    // The other cluster's gateway, for a host that only it has.
    rig.plane.attach("test", "shop-canary", other.plane.address());
    rig.load(split(0, 100)).await;
    assert_eq!(rig.version(HOST_NAME, "/").await, (200, "7".to_owned()));
}

#[tokio::test]
async fn a_load_counts_what_comes_back_and_agrees_with_the_simulation() {
    let rig = Rig::new("2-errors-25").await;
    rig.load(split(70, 30)).await;
    let traffic = Traffic::new(HOST_NAME, 400.0);
    let load = traffic.start(rig.plane.address());
    let deadline = std::time::Instant::now() + Duration::from_mins(1);
    while load.answers().total() < 1_000 {
        assert!(std::time::Instant::now() < deadline, "{:?}", load.answers());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let real = load.stop().await;
    assert_eq!(real.failed, 0, "{real:?}");

    let server = Arc::clone(rig.sandbox.server());
    let mut simulation = Simulation::new(server, Arc::<Samples>::default(), 1);
    simulation.add(traffic);
    let now = rig.sandbox.server().clock.now();
    simulation.step(now, later(now, Duration::from_secs(100)));
    let simulated = simulation.answers().next().unwrap().1.clone();

    let share = |part: u64, all: u64| {
        f64::from(u32::try_from(part).unwrap()) / f64::from(u32::try_from(all).unwrap())
    };
    for (what, part) in [("canary", 0.30), ("errors", 0.075)] {
        for answers in [&real, &simulated] {
            let count = if what == "canary" {
                answers.by_version["2"]
            } else {
                answers.by_status.get(&500).copied().unwrap_or_default()
            };
            let got = share(count, answers.total());
            // More than four standard deviations of a thousand draws.
            assert!((got - part).abs() < 0.06, "{what}: {got} of {answers:?}");
        }
    }
}

#[tokio::test]
async fn what_was_counted_is_reported_at_once_and_with_the_clusters_time() {
    let rig = Rig::new("2").await;
    assert_eq!(rig.version(HOST_NAME, "/").await.0, 200);
    let published = rig.plane.shared.published();
    let at_ms = rig.sandbox.server().clock.now().as_millisecond();
    rig.plane.shared.meter.scrape(&published.snapshot.pods, at_ms, &*rig.samples);
    let series = rig.samples.matching("istio_requests_total", &["reporter=\"destination\""]);
    assert_eq!(series, [vec![(at_ms, 1.0)]]);
}

#[tokio::test]
async fn stopping_the_plane_stops_listening() {
    let rig = Rig::new("2").await;
    let pods: Vec<_> = rig.plane.shared.published().addresses.values().copied().collect();
    let addresses: Vec<_> = pods.into_iter().chain([rig.plane.address()]).collect();
    drop(rig.plane);
    let deadline = std::time::Instant::now() + Duration::from_secs(10);
    for address in addresses {
        while tokio::net::TcpStream::connect(address).await.is_ok() {
            assert!(std::time::Instant::now() < deadline, "{address} still listens");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

#[tokio::test]
async fn a_cluster_in_real_time_gets_traffic_as_soon_as_its_pods_are_ready() {
    let settings = Settings { clock: Clock::real(), ..Settings::for_tests() };
    let sandbox = Sandbox::new(settings);
    sandbox.run();
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let sink = Arc::<Samples>::default();
    let plane = DataPlane::start(Arc::clone(sandbox.server()), any, sink).await.unwrap();
    let namespace =
        json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "test" } });
    let mut objects = vec![namespace];
    objects.extend(routing_crds());
    objects.extend(workload("shop-primary", "shop:1", 1));
    sandbox.load(objects).unwrap();
    let load = Traffic::new("shop-primary.test", 100.0).start(plane.address());
    let deadline = std::time::Instant::now() + Duration::from_secs(20);
    while load.answers().by_version.get("1").is_none_or(|count| *count < 5) {
        assert!(std::time::Instant::now() < deadline, "{:?}", load.answers());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
