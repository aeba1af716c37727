//! Routing tables of all routing kinds: precedence, weights, filters, edits.

use std::collections::BTreeMap;

use http::HeaderMap;
use serde_json::{Value, json};

use super::*;

/// Services of `test` with one ready pod each.
const SERVICES: [&str; 4] = ["shop", "shop-primary", "shop-canary", "mirror"];

fn service(namespace: &str, name: &str) -> Value {
    json!({
        "metadata": { "name": name, "namespace": namespace },
        "spec": { "ports": [{ "port": 80 }] },
    })
}

fn endpoint(service: &str) -> Endpoint {
    Endpoint::Pod(PodName { namespace: "test".into(), name: format!("{service}-0") })
}

fn table(http_routes: &[Value], virtual_services: &[Value]) -> Table {
    table_of(Sources { http_routes, virtual_services, ..Sources::default() })
}

#[expect(clippy::needless_pass_by_value, reason = "callers make it in place")]
fn table_of(sources: Sources<'_>) -> Table {
    let mut services: Vec<_> = SERVICES.iter().map(|name| service("test", name)).collect();
    services.push(service("test", "idle"));
    services.push(service("default", "shop"));
    let key = |name: &str| ("test".to_owned(), name.to_owned());
    let endpoints = SERVICES.iter().map(|name| (key(name), vec![endpoint(name)])).collect();
    Table::new(Sources { services: &services, endpoints, ..sources })
}

#[expect(clippy::needless_pass_by_value, reason = "callers make it in place")]
fn http_route(name: &str, hosts: &[&str], rules: Value) -> Value {
    json!({
        "metadata": {
            "name": name, "namespace": "test", "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": { "parentRefs": [{ "kind": "Gateway", "name": "gw" }], "hostnames": hosts, "rules": rules },
    })
}

#[expect(clippy::needless_pass_by_value, reason = "callers make it in place")]
fn virtual_service(hosts: &[&str], http: Value) -> Value {
    json!({
        "metadata": { "name": "shop", "namespace": "test" },
        "spec": { "hosts": hosts, "http": http },
    })
}

/// A rule that leads to one Service.
#[expect(clippy::needless_pass_by_value, reason = "callers make it in place")]
fn to(service: &str, matches: Value) -> Value {
    json!({ "matches": matches, "backendRefs": [{ "name": service, "port": 80, "weight": 1 }] })
}

/// Asks for a URL such as `shop.example.com/cart?a=b` with headers like `cookie: x`.
struct Ask {
    host: String,
    path: String,
    query: String,
    method: &'static str,
    headers: HeaderMap,
}

impl Ask {
    fn get(url: &str) -> Self {
        let (host, rest) = url.split_once('/').unwrap();
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        Self {
            host: host.to_owned(),
            path: format!("/{path}"),
            query: query.to_owned(),
            method: "GET",
            headers: HeaderMap::new(),
        }
    }

    fn with(mut self, name: &'static str, value: &str) -> Self {
        self.headers.append(name, value.parse().unwrap());
        self
    }

    fn method(self, method: &'static str) -> Self {
        Self { method, ..self }
    }

    fn request(&self) -> Request<'_> {
        Request {
            host: &self.host,
            method: self.method,
            path: &self.path,
            query: &self.query,
            headers: &self.headers,
        }
    }

    fn choose<'t>(&self, table: &'t Table, random: u64) -> Choice<'t> {
        table.choose(&self.request(), random)
    }

    /// The chosen Service, or the error status.
    fn goes(&self, table: &Table) -> String {
        match self.choose(table, 1) {
            Choice::Forward(forward) => forward.backend.service.clone(),
            Choice::Redirect { location, .. } => location,
            Choice::Refuse(refusal) => refusal.status.to_string(),
        }
    }
}

/// Number of choices per Service.
fn draw(table: &Table, ask: &Ask, times: u64) -> BTreeMap<String, u64> {
    let random = Random::seeded(5);
    let mut drawn = BTreeMap::new();
    for _ in 0..times {
        let Choice::Forward(forward) = ask.choose(table, random.next_u64()) else { panic!() };
        *drawn.entry(forward.backend.service.clone()).or_default() += 1;
    }
    drawn
}

#[test]
fn the_most_particular_match_of_an_http_route_wins() {
    let path = |kind: &str, value: &str| json!([{ "path": { "type": kind, "value": value } }]);
    let header = json!([{ "headers": [{ "name": "X-Canary", "value": "yes" }] }]);
    let rules = json!([
        to("shop", path("PathPrefix", "/")),
        to("shop-primary", path("PathPrefix", "/cart")),
        to("shop-canary", path("PathPrefix", "/cart/items")),
        to("mirror", path("Exact", "/cart/items/one")),
        to("shop-primary", path("RegularExpression", "/[a-z]+/[0-9]+")),
        to("shop-canary", header),
        to("mirror", json!([{ "method": "DELETE" }])),
        to("mirror", json!([{ "queryParams": [{ "name": "debug", "value": "1 2" }] }])),
    ]);
    let table = table(&[http_route("shop", &["shop.example.com"], rules)], &[]);
    let ask = |path: &str| Ask::get(&format!("shop.example.com{path}"));
    let cases = [
        ("nothing in particular", ask("/"), "shop"),
        ("a prefix", ask("/cart"), "shop-primary"),
        ("a prefix with a slash", ask("/cart/"), "shop-primary"),
        ("not a prefix by letters", ask("/carton"), "shop"),
        ("the longer prefix", ask("/cart/items/two"), "shop-canary"),
        ("exact before prefix", ask("/cart/items/one"), "mirror"),
        ("an expression before a prefix", ask("/cart/17"), "shop-primary"),
        ("an expression matches all or nothing", ask("/a/17/b"), "shop"),
        ("a header", ask("/").with("x-canary", "yes"), "shop-canary"),
        ("a header of another value", ask("/").with("x-canary", "no"), "shop"),
        ("path length before headers", ask("/cart").with("x-canary", "yes"), "shop-primary"),
        ("a method", ask("/").method("DELETE"), "mirror"),
        ("a method before headers", ask("/").method("DELETE").with("x-canary", "yes"), "mirror"),
        ("a query parameter", ask("/?a=b&debug=1+2"), "mirror"),
        ("a query parameter, encoded", ask("/?debug=1%202"), "mirror"),
        ("the first value counts", ask("/?debug=0&debug=1%202"), "shop"),
        ("headers before query", ask("/?debug=1+2").with("x-canary", "yes"), "shop-canary"),
    ];
    for (reason, ask, want) in cases {
        assert_eq!(ask.goes(&table), want, "{reason}");
    }
}

#[test]
fn the_most_specific_host_wins_and_unknown_ones_are_services() {
    let all = json!([]);
    let routes = [
        http_route("exact", &["a.example.com"], json!([to("shop-primary", all.clone())])),
        http_route("wild", &["*.example.com"], json!([to("shop-canary", all.clone())])),
    ];
    let table = table(&routes, &[]);
    let cases = [
        ("a.example.com/", "shop-primary"),
        ("A.example.com:8080/", "shop-primary"),
        ("b.example.com/", "shop-canary"),
        ("b.c.example.com/", "shop-canary"),
        ("example.com/", "404"),
        ("mirror.test/", "mirror"),
        ("mirror.test.svc.cluster.local:80/", "mirror"),
        ("mirror/", "mirror"),
        ("mirror.other/", "404"),
        ("idle.test/", "503"),
        ("127.0.0.1:9999/", "404"),
    ];
    for (url, want) in cases {
        assert_eq!(Ask::get(url).goes(&table), want, "{url}");
    }
}

#[test]
fn the_only_route_takes_requests_that_name_no_host() {
    let route = http_route("shop", &["a.example.com"], json!([to("shop-canary", json!([]))]));
    let table = table(&[route], &[]);
    for url in ["127.0.0.1:8080/", "localhost/", "[::1]:80/", "/"] {
        assert_eq!(Ask::get(url).goes(&table), "shop-canary", "{url}");
    }
    assert_eq!(Ask::get("b.example.com/").goes(&table), "404", "a host that is named is not this");
}

#[test]
fn a_route_for_every_host_leaves_services_alone() {
    let route = http_route("all", &[], json!([to("shop-canary", json!([]))]));
    let table = table(&[route], &[]);
    assert_eq!(Ask::get("anything.example.com/").goes(&table), "shop-canary");
    assert_eq!(Ask::get("shop-primary.test/").goes(&table), "shop-primary");
    assert!(!table.claims("anything.example.com"), "it takes hosts, but names none");
}

#[test]
fn of_equal_matches_the_older_route_wins_then_the_first_by_name() {
    let route = |name: &str, to_service: &str, created: &str| {
        let mut route = http_route(name, &["a.com"], json!([to(to_service, json!([]))]));
        route["metadata"]["creationTimestamp"] = created.into();
        route
    };
    let newer = route("a", "shop-canary", "2026-01-02T00:00:00Z");
    let older = route("b", "shop-primary", "2026-01-01T00:00:00Z");
    let twin = route("c", "mirror", "2026-01-01T00:00:00Z");
    assert_eq!(Ask::get("a.com/").goes(&table(&[newer, twin, older], &[])), "shop-primary");
}

#[test]
fn a_route_that_every_parent_refused_carries_nothing() {
    let mut route = http_route("shop", &["a.com"], json!([to("shop-canary", json!([]))]));
    let parent = |controller: &str| {
        json!({
            "controllerName": controller,
            "conditions": [{ "type": "Accepted", "status": "False" }],
        })
    };
    route["status"] = json!({ "parents": [parent("someone.else/gateway")] });
    assert_eq!(Ask::get("a.com/").goes(&table(&[route.clone()], &[])), "shop-canary");
    route["status"] = json!({ "parents": [parent(crate::dataplane::CONTROLLER_NAME)] });
    assert_eq!(Ask::get("a.com/").goes(&table(&[route], &[])), "404");
}

#[test]
fn a_route_of_a_mesh_claims_the_names_of_its_service() {
    let mut route = http_route("shop", &["ignored.com"], json!([to("shop-canary", json!([]))]));
    route["spec"]["parentRefs"] = json!([{ "group": "core", "kind": "Service", "name": "shop" }]);
    let table = table(&[route], &[]);
    for host in ["shop.test/", "shop.test.svc.cluster.local:80/", "shop/"] {
        assert_eq!(Ask::get(host).goes(&table), "shop-canary", "{host}");
    }
    assert_eq!(Ask::get("ignored.com/").goes(&table), "404");
}

#[test]
fn backends_that_cannot_be_answer_as_gateway_api_says() {
    let rules = |backends: Value| json!([{ "backendRefs": backends }]);
    let cases = [
        ("none at all", json!([]), "500"),
        ("no weight", json!([{ "name": "shop", "weight": 0 }]), "500"),
        ("no such Service", json!([{ "name": "nobody", "port": 80 }]), "500"),
        ("no such port", json!([{ "name": "shop", "port": 81 }]), "500"),
        ("another kind", json!([{ "kind": "Bucket", "name": "shop" }]), "500"),
        ("another namespace", json!([{ "name": "shop", "namespace": "default" }]), "500"),
        ("no ready endpoint", json!([{ "name": "idle", "port": 80 }]), "503"),
        ("a weight by default", json!([{ "name": "shop", "port": 80 }]), "shop"),
    ];
    for (reason, backends, want) in cases {
        let table = table(&[http_route("shop", &["a.com"], rules(backends))], &[]);
        assert_eq!(Ask::get("a.com/").goes(&table), want, "{reason}");
    }
}

#[test]
fn a_grant_opens_another_namespace() {
    let backends = json!([{ "backendRefs": [{ "name": "shop", "namespace": "other" }] }]);
    let routes = [http_route("shop", &["a.com"], backends)];
    let grant = |from: &str, name: Option<&str>| {
        let mut to = json!({ "group": "", "kind": "Service" });
        if let Some(name) = name {
            to["name"] = name.into();
        }
        let from = json!({
            "group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "namespace": from,
        });
        json!({ "metadata": { "namespace": "other" }, "spec": { "from": [from], "to": [to] } })
    };
    let cases = [
        ("all Services", grant("test", None), "shop"),
        ("this Service", grant("test", Some("shop")), "shop"),
        ("another Service", grant("test", Some("cart")), "500"),
        ("to others", grant("elsewhere", None), "500"),
    ];
    for (reason, grant, want) in cases {
        let key = ("other".to_owned(), "shop".to_owned());
        let table = Table::new(Sources {
            http_routes: &routes,
            grpc_routes: &[],
            reference_grants: &[grant],
            services: &[service("other", "shop")],
            endpoints: BTreeMap::from([(key, vec![endpoint("shop")])]),
            ..Sources::default()
        });
        assert_eq!(Ask::get("a.com/").goes(&table), want, "{reason}");
    }
}

#[test]
fn weights_are_kept_over_many_draws() {
    for (primary, canary) in [(100_u32, 0_u32), (0, 100), (90, 10), (50, 50), (1, 2), (999_999, 1)]
    {
        let backends = json!([{ "backendRefs": [
            { "name": "shop-primary", "port": 80, "weight": primary },
            { "name": "shop-canary", "port": 80, "weight": canary },
        ] }]);
        let gateway_api = table(&[http_route("shop", &["a.com"], backends)], &[]);
        let istio = table(
            &[],
            &[virtual_service(
                &["a.com"],
                json!([{ "route": [
                    { "destination": { "host": "shop-primary" }, "weight": primary },
                    { "destination": { "host": "shop-canary" }, "weight": canary },
                ] }]),
            )],
        );
        for table in [gateway_api, istio] {
            let drawn = draw(&table, &Ask::get("a.com/"), 10_000);
            let got = *drawn.get("shop-canary").unwrap_or(&0);
            let share = f64::from(canary) / f64::from(primary + canary);
            let want = 10_000.0 * share;
            // Four standard deviations.
            let slack = 4.0 * (10_000.0 * share * (1.0 - share)).sqrt();
            let off = (f64::from(u32::try_from(got).unwrap()) - want).abs();
            assert!(off <= slack.max(0.1), "{primary}/{canary}: {got}");
        }
    }
}

#[test]
fn a_target_without_weight_is_kept_and_never_chosen() {
    let backends = json!([{ "backendRefs": [
        { "name": "shop-primary", "port": 80, "weight": 3 },
        { "name": "shop", "port": 80, "weight": 0 },
        { "name": "shop-canary", "port": 80, "weight": 1 },
    ] }]);
    let table = table(&[http_route("shop", &["a.com"], backends)], &[]);
    let ask = Ask::get("a.com/");
    let found = table.find(&ask.request()).unwrap();
    let drawn = draw(&table, &ask, 400);
    assert_eq!(drawn.keys().collect::<Vec<_>>(), ["shop-canary", "shop-primary"]);
    assert_eq!(found.rule.targets.len(), 3, "the one without weight is still there");
}

#[test]
fn a_cookie_sticks_to_the_canary_and_is_set_by_it() {
    let backends = |primary: u32, canary: u32, filters: Value| {
        json!([
            { "name": "shop-primary", "port": 80, "weight": primary },
            { "name": "shop-canary", "port": 80, "weight": canary, "filters": filters },
        ])
    };
    let cookie = "ck=abc; Max-Age=86400";
    let set = json!([{
        "type": "ResponseHeaderModifier",
        "responseHeaderModifier": { "add": [{ "name": "Set-Cookie", "value": cookie }] },
    }]);
    let sticky = json!([{ "headers": [
        { "name": "Cookie", "type": "RegularExpression", "value": ".*ck.*abc.*" },
    ] }]);
    let rules = json!([
        { "matches": sticky, "backendRefs": backends(0, 100, json!([])) },
        { "backendRefs": backends(50, 50, set) },
    ]);
    let table = table(&[http_route("shop", &["a.com"], rules)], &[]);
    let random = Random::seeded(1);
    for _ in 0..200 {
        let ask = Ask::get("a.com/").with("cookie", "other=1; ck=abc");
        let Choice::Forward(forward) = ask.choose(&table, random.next_u64()) else { panic!() };
        assert_eq!(forward.backend.service, "shop-canary");
        assert_eq!(forward.cookies().count(), 0);
        let ask = Ask::get("a.com/").with("cookie", "other=1").with("cookie", "ck=old");
        let Choice::Forward(forward) = ask.choose(&table, random.next_u64()) else { panic!() };
        let mut headers = HeaderMap::new();
        forward.edit_response(&mut headers);
        let is_canary = forward.backend.service == "shop-canary";
        assert_eq!(headers.get("set-cookie").is_some_and(|value| value == cookie), is_canary);
        assert_eq!(forward.cookies().count(), usize::from(is_canary));
    }
    let two = Ask::get("a.com/").with("cookie", "a=b").with("cookie", "ck=abc");
    assert_eq!(two.goes(&table), "shop-canary", "cookies in two headers are one");
}

#[test]
fn a_virtual_service_takes_the_first_rule_that_matches() {
    let route = |service: &str| json!([{ "destination": { "host": service } }]);
    let http = json!([
        { "match": [{ "uri": { "prefix": "/ca" } }], "route": route("shop-primary") },
        { "match": [{ "uri": { "exact": "/cart" } }], "route": route("mirror") },
        {
            "match": [
                { "headers": { "x-user": { "regex": "(?i)test.*" } }, "method": { "exact": "GET" } },
                { "queryParams": { "beta": { "exact": "1" } } },
            ],
            "route": route("shop-canary"),
        },
        { "match": [{ "headers": { "x-any": {} } }], "route": route("mirror") },
        { "match": [{ "withoutHeaders": { "x-none": {} }, "uri": { "exact": "/w" } }],
          "route": route("mirror") },
        { "match": [{ "ignoreUriCase": true, "uri": { "prefix": "/UP" } }],
          "route": route("mirror") },
        { "match": [{ "sourceLabels": { "app": "x" } }], "route": route("mirror") },
        { "match": [{ "headers": { "x-bad": { "regex": "(" } } }], "route": route("mirror") },
        { "match": [{ "uri": { "exact": "/far" } }], "route": route("shop.default.svc.cluster.local") },
        { "route": route("shop") },
    ]);
    let table = table(&[], &[virtual_service(&["shop", "a.com"], http)]);
    let ask = |path: &str| Ask::get(&format!("a.com{path}"));
    let cases = [
        ("a prefix by letters, and the first", ask("/cart"), "shop-primary"),
        ("no match at all", ask("/x"), "shop"),
        ("all conditions of one match", ask("/").with("x-user", "Tester"), "shop-canary"),
        ("not some of them", ask("/").with("x-user", "Tester").method("POST"), "shop"),
        ("or another match", ask("/?beta=1"), "shop-canary"),
        ("a header that is there", ask("/").with("x-any", ""), "mirror"),
        ("a header that is not", ask("/w"), "mirror"),
        ("a header that should not be", ask("/w").with("x-none", "1"), "shop"),
        ("whatever the case", ask("/up/x"), "mirror"),
        ("a broken pattern never matches", ask("/").with("x-bad", "("), "shop"),
        ("a Service elsewhere, without endpoints", ask("/far"), "503"),
        ("a short host is a Service of its namespace", Ask::get("shop.test/x"), "shop"),
    ];
    for (reason, ask, want) in cases {
        assert_eq!(ask.goes(&table), want, "{reason}");
    }
}

#[test]
fn a_lone_destination_takes_everything_whatever_its_weight() {
    let http = json!([{ "route": [{ "destination": { "host": "shop-primary" }, "weight": 0 }] }]);
    let lone = table(&[], &[virtual_service(&["a.com"], http)]);
    assert_eq!(Ask::get("a.com/").goes(&lone), "shop-primary");
    let http = json!([{ "route": [
        { "destination": { "host": "shop-primary" }, "weight": 0 },
        { "destination": { "host": "shop-canary" }, "weight": 0 },
    ] }]);
    assert_eq!(Ask::get("a.com/").goes(&table(&[], &[virtual_service(&["a.com"], http)])), "503");
}

#[test]
fn a_rule_can_delegate_to_an_object_without_hosts() {
    let root = virtual_service(
        &["a.com"],
        json!([
            { "match": [{ "uri": { "prefix": "/shop" } }], "delegate": { "name": "below" } },
            { "route": [{ "destination": { "host": "mirror" } }] },
        ]),
    );
    let mut below = virtual_service(
        &[],
        json!([
            { "match": [{ "headers": { "x-canary": { "exact": "1" } } }],
              "route": [{ "destination": { "host": "shop-canary" } }] },
            { "route": [{ "destination": { "host": "shop-primary" } }] },
        ]),
    );
    below["metadata"]["name"] = "below".into();
    let table = table(&[], &[root, below]);
    let cases = [
        (Ask::get("a.com/shop/1"), "shop-primary"),
        (Ask::get("a.com/shop/1").with("x-canary", "1"), "shop-canary"),
        (Ask::get("a.com/").with("x-canary", "1"), "mirror"),
    ];
    for (ask, want) in cases {
        assert_eq!(ask.goes(&table), want);
    }
}

#[test]
fn mirrors_get_their_share() {
    let filter = |percent: Option<u32>| {
        let mut mirror = json!({ "backendRef": { "name": "mirror", "port": 80 } });
        if let Some(percent) = percent {
            mirror["percent"] = percent.into();
        }
        json!([{ "type": "RequestMirror", "requestMirror": mirror }])
    };
    let gateway_api = |percent| {
        let backends = json!([{ "name": "shop", "port": 80 }]);
        let rules = json!([{ "filters": filter(percent), "backendRefs": backends }]);
        table(&[http_route("shop", &["a.com"], rules)], &[])
    };
    let istio = |percentage: Option<f64>| {
        let mut rule = json!({
            "route": [{ "destination": { "host": "shop" } }], "mirror": { "host": "mirror" },
        });
        if let Some(percentage) = percentage {
            rule["mirrorPercentage"] = json!({ "value": percentage });
        }
        table(&[], &[virtual_service(&["a.com"], json!([rule]))])
    };
    let cases = [
        ("everything, Gateway API", gateway_api(None), 10_000..=10_000),
        ("a quarter, Gateway API", gateway_api(Some(25)), 2_300..=2_700),
        ("nothing, Gateway API", gateway_api(Some(0)), 0..=0),
        ("everything, Istio", istio(None), 10_000..=10_000),
        ("a half of a percent, Istio", istio(Some(0.5)), 20..=85),
    ];
    for (reason, table, want) in cases {
        let random = Random::seeded(9);
        let ask = Ask::get("a.com/");
        let mirrored = (0..10_000).filter(|_| {
            let Choice::Forward(forward) = ask.choose(&table, random.next_u64()) else { panic!() };
            assert_eq!(forward.backend.service, "shop", "{reason}");
            forward.mirrors.iter().any(|(backend, _)| backend.service == "mirror")
        });
        let mirrored = mirrored.count();
        assert!(want.contains(&mirrored), "{reason}: {mirrored}");
    }
}

#[test]
fn headers_paths_and_timeouts_change_on_the_way() {
    let rules = json!([{
        "matches": [{ "path": { "type": "PathPrefix", "value": "/api" } }],
        "filters": [
            { "type": "RequestHeaderModifier", "requestHeaderModifier": {
                "set": [{ "name": "X-Set", "value": "new" }],
                "add": [{ "name": "X-Add", "value": "more" }], "remove": ["X-Gone"],
            } },
            { "type": "URLRewrite", "urlRewrite": {
                "hostname": "inner.example.com",
                "path": { "type": "ReplacePrefixMatch", "replacePrefixMatch": "/v2" },
            } },
        ],
        "timeouts": { "request": "10s", "backendRequest": "500ms" },
        "backendRefs": [{ "name": "shop", "port": 80 }],
    }]);
    let table = table(&[http_route("shop", &["a.com"], rules)], &[]);
    let ask = Ask::get("a.com/api/cart");
    let Choice::Forward(forward) = ask.choose(&table, 1) else { panic!() };
    assert_eq!(forward.path("/api/cart"), "/v2/cart");
    assert_eq!(forward.timeout, Some(Duration::from_millis(500)));
    let mut headers: HeaderMap =
        [("host", "a.com"), ("x-set", "old"), ("x-add", "some"), ("x-gone", "1")]
            .into_iter()
            .map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_static(value)))
            .collect::<HeaderMap>();
    forward.edit_request(&mut headers);
    let all =
        |name: &str| headers.get_all(name).iter().map(|v| v.to_str().unwrap()).collect::<Vec<_>>();
    assert_eq!(all("host"), ["inner.example.com"]);
    assert_eq!(all("x-set"), ["new"]);
    assert_eq!(all("x-add"), ["some", "more"]);
    assert!(all("x-gone").is_empty());
}

#[test]
fn redirects_say_where_to() {
    let gateway_api = |redirect: Value| {
        let filters = json!([{ "type": "RequestRedirect", "requestRedirect": redirect }]);
        let matches = json!([{ "path": { "type": "PathPrefix", "value": "/old" } }]);
        let rules = json!([{ "matches": matches, "filters": filters }]);
        table(&[http_route("shop", &["a.com"], rules)], &[])
    };
    let istio = |redirect: Value| {
        table(&[], &[virtual_service(&["a.com"], json!([{ "redirect": redirect }]))])
    };
    let prefix = json!({ "type": "ReplacePrefixMatch", "replacePrefixMatch": "/new" });
    let cases = [
        (gateway_api(json!({ "scheme": "https" })), 302, "https://a.com/old/x?q=1"),
        (
            gateway_api(json!({ "hostname": "b.com", "port": 8080, "statusCode": 301 })),
            301,
            "http://b.com:8080/old/x?q=1",
        ),
        (gateway_api(json!({ "path": prefix })), 302, "http://a.com/new/x?q=1"),
        (istio(json!({ "uri": "/new", "authority": "b.com" })), 301, "http://b.com/new?q=1"),
    ];
    for (table, want_status, want) in cases {
        let choice = Ask::get("a.com:8000/old/x?q=1").choose(&table, 1);
        let Choice::Redirect { status, location } = choice else { panic!("{choice:?}") };
        assert_eq!((status, location.as_str()), (want_status, want));
    }
}

#[test]
fn endpoints_share_requests_evenly() {
    let key = ("test".to_owned(), "shop".to_owned());
    let pods: Vec<_> = ["a", "b", "c"].map(endpoint).to_vec();
    let table = Table::new(Sources {
        services: &[service("test", "shop")],
        endpoints: BTreeMap::from([(key, pods.clone())]),
        ..Sources::default()
    });
    let random = Random::seeded(3);
    let mut counts = [0_u32; 3];
    for _ in 0..3_000 {
        let choice = Ask::get("shop.test/").choose(&table, random.next_u64());
        let Choice::Forward(forward) = choice else { panic!() };
        counts[pods.iter().position(|pod| pod == forward.endpoint).unwrap()] += 1;
    }
    assert!(counts.iter().all(|count| (880..=1_120).contains(count)), "{counts:?}");
}

#[test]
fn calls_are_told_apart_by_service_method_and_header() {
    let orders = json!({ "type": "Exact", "service": "shop.v1.Orders" });
    let list = json!({ "type": "Exact", "service": "shop.v1.Orders", "method": "List" });
    let beta = json!([{ "name": "x-beta", "value": "yes" }]);
    let rules = json!([
        to("shop-primary", json!([])),
        to("shop-canary", json!([{ "method": orders, "headers": beta }, { "method": list }])),
    ]);
    let route = http_route("shop", &["a.com"], rules);
    let services: Vec<_> = SERVICES.iter().map(|name| service("test", name)).collect();
    let key = |name: &str| ("test".to_owned(), name.to_owned());
    let endpoints = SERVICES.iter().map(|name| (key(name), vec![endpoint(name)])).collect();
    let table = Table::new(Sources {
        grpc_routes: &[route],
        services: &services,
        endpoints,
        ..Sources::default()
    });
    let call = |path: &str| Ask::get(&format!("a.com{path}")).method("POST");
    let cases = [
        ("another method", call("/shop.v1.Orders/Get"), "shop-primary"),
        ("its caller", call("/shop.v1.Orders/Get").with("x-beta", "yes"), "shop-canary"),
        ("the method", call("/shop.v1.Orders/List"), "shop-canary"),
        ("another service", call("/shop.v1.OrdersOld/List").with("x-beta", "yes"), "shop-primary"),
    ];
    for (reason, ask, want) in cases {
        assert_eq!(ask.goes(&table), want, "{reason}");
    }
    let get = Ask::get("a.com/shop.v1.Orders/List");
    assert_ne!(get.goes(&table), "shop-canary", "what is no call falls under no rule of calls");
}

// === Ingresses ===

#[expect(clippy::needless_pass_by_value, reason = "callers make it in place")]
fn ingress(name: &str, service: &str, annotations: Value) -> Value {
    let backend = json!({ "service": { "name": service, "port": { "number": 80 } } });
    json!({
        "metadata": { "name": name, "namespace": "test", "annotations": annotations },
        "spec": { "rules": [{ "host": "shop.example.com", "http": { "paths": [
            { "path": "/", "pathType": "Prefix", "backend": backend },
        ] } }] },
    })
}

/// Annotations of a canary of the NGINX ingress controller.
fn canary(settings: &[(&str, &str)]) -> Value {
    let own = [("canary", "true")];
    let all = own.iter().chain(settings);
    let key = |suffix: &str| format!("nginx.ingress.kubernetes.io/{suffix}");
    all.map(|(suffix, value)| (key(suffix), json!(value))).collect::<serde_json::Map<_, _>>().into()
}

fn beside(settings: &[(&str, &str)]) -> Table {
    let both =
        [ingress("front", "shop", json!({})), ingress("canary", "shop-canary", canary(settings))];
    table_of(Sources { ingresses: &both, ..Sources::default() })
}

#[test]
fn a_canary_ingress_takes_its_weight_of_the_one_beside_it() {
    let ask = Ask::get("shop.example.com/cart");
    let share = |settings: &[(&str, &str)]| {
        let drawn = draw(&beside(settings), &ask, 10_000);
        drawn.get("shop-canary").copied().unwrap_or_default()
    };
    assert_eq!(share(&[]), 0);
    assert_eq!(share(&[("canary-weight", "0")]), 0);
    assert_eq!(share(&[("canary-weight", "100")]), 10_000);
    assert!((2_800..3_200).contains(&share(&[("canary-weight", "30")])));
    let of_total = share(&[("canary-weight", "30"), ("canary-weight-total", "60")]);
    assert!((4_800..5_200).contains(&of_total), "{of_total}");
}

#[test]
fn a_header_goes_before_a_cookie_and_both_before_chance() {
    let exact = beside(&[
        ("canary-weight", "0"),
        ("canary-by-header", "x-beta"),
        ("canary-by-header-value", "yes"),
        ("canary-by-cookie", "beta"),
    ]);
    let ask = || Ask::get("shop.example.com/");
    assert_eq!(ask().goes(&exact), "shop");
    assert_eq!(ask().with("x-beta", "yes").goes(&exact), "shop-canary");
    assert_eq!(ask().with("x-beta", "no").goes(&exact), "shop");
    assert_eq!(ask().with("cookie", "a=b; beta=always").goes(&exact), "shop-canary");
    assert_eq!(ask().with("cookie", "xbeta=always").goes(&exact), "shop", "another cookie");
    let plain = beside(&[("canary-weight", "100"), ("canary-by-header", "x-beta")]);
    assert_eq!(ask().goes(&plain), "shop-canary");
    assert_eq!(ask().with("x-beta", "never").goes(&plain), "shop");
    let pattern =
        beside(&[("canary-by-header", "x-beta"), ("canary-by-header-pattern", "^v[12]$")]);
    assert_eq!(ask().with("x-beta", "v2").goes(&pattern), "shop-canary");
    assert_eq!(ask().with("x-beta", "v3").goes(&pattern), "shop");
}

#[test]
fn a_canary_ingress_beside_nobody_leads_nowhere() {
    let alone = [ingress("canary", "shop-canary", canary(&[("canary-weight", "100")]))];
    let table = table_of(Sources { ingresses: &alone, ..Sources::default() });
    assert_eq!(Ask::get("shop.example.com/").goes(&table), "404");
}

// === Traefik ===

#[expect(clippy::needless_pass_by_value, reason = "callers make it in place")]
fn ingress_route(rule: &str, services: Value) -> Value {
    json!({
        "metadata": { "name": "front", "namespace": "test" },
        "spec": { "routes": [{ "kind": "Rule", "match": rule, "services": services }] },
    })
}

#[expect(clippy::needless_pass_by_value, reason = "callers make it in place")]
fn traefik_service(name: &str, spec: Value) -> Value {
    json!({ "metadata": { "name": name, "namespace": "test" }, "spec": spec })
}

#[test]
fn a_traefik_service_divides_by_weight_and_a_missing_weight_is_one() {
    let lead = json!([{ "kind": "TraefikService", "name": "web" }]);
    let route = [ingress_route("Host(`shop.example.com`) && PathPrefix(`/cart`)", lead)];
    let share = |members: Value| {
        let service = [traefik_service("web", json!({ "weighted": { "services": members } }))];
        let table = table_of(Sources {
            ingress_routes: &route,
            traefik_services: &service,
            ..Sources::default()
        });
        assert_eq!(Ask::get("shop.example.com/").goes(&table), "404", "another path");
        let drawn = draw(&table, &Ask::get("shop.example.com/cart"), 10_000);
        drawn.get("shop-canary").copied().unwrap_or_default()
    };
    let primary = |weight: Value| json!({ "name": "shop-primary", "port": 80, "weight": weight });
    let canary = |weight: Value| json!({ "name": "shop-canary", "port": 80, "weight": weight });
    assert_eq!(share(json!([primary(json!(100))])), 0);
    let of_hundred = share(json!([primary(json!(70)), canary(json!(30))]));
    assert!((2_800..3_200).contains(&of_hundred), "{of_hundred}");
    assert_eq!(share(json!([primary(json!(0)), canary(json!(100))])), 10_000);
    let without = share(json!([primary(json!(3)), canary(Value::Null)]));
    assert!((2_300..2_700).contains(&without), "{without}");
}

#[test]
fn services_of_traefik_that_lead_in_a_circle_lead_nowhere() {
    let lead = json!([{ "kind": "TraefikService", "name": "web" }]);
    let route = [ingress_route("Host(`shop.example.com`)", lead.clone())];
    let circle = [traefik_service("web", json!({ "weighted": { "services": lead } }))];
    let table = table_of(Sources {
        ingress_routes: &route,
        traefik_services: &circle,
        ..Sources::default()
    });
    assert_eq!(Ask::get("shop.example.com/").goes(&table), "503");
    let mirrored = json!({ "mirroring": {
        "name": "shop", "port": 80, "mirrors": [{ "name": "mirror", "port": 80, "percent": 100 }],
    } });
    let mirrored = [traefik_service("web", mirrored)];
    let table = table_of(Sources {
        ingress_routes: &route,
        traefik_services: &mirrored,
        ..Sources::default()
    });
    let ask = Ask::get("shop.example.com/");
    let Choice::Forward(forward) = ask.choose(&table, 1) else { panic!() };
    assert_eq!(forward.backend.service, "shop");
    assert_eq!(forward.mirrors.len(), 1);
}
