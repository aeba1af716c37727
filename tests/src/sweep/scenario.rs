//! The scenarios of the sweep: rollouts of every kind with every end, and deletion in every phase.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use kube_sandbox::{
    Sandbox, Settings,
    clock::Clock,
    cluster::Resource,
    controllers::keda_crds,
    kubelet::{Behaviour, KubeletSettings},
};
use serde_json::{Value, json};

use crate::{
    network::{Metric, Reply},
    providers::{self, ISTIO_TCP, KNATIVE, canary_for, foreign, target_table},
    rollout::{
        AUTOSCALERS, CANARIES, CONFIG_MAPS, DAEMON_SETS, DEPLOYMENTS, HTTP_ROUTES, SCALED_OBJECTS,
        SERVICES, World, daemon_set, deployment, scaled_object,
    },
};

/// The longest wait of a scenario.
pub(super) const PATIENCE_S: u64 = 400;
/// The gate of scenarios that have one.
const GATE: &str = "gate/confirm";

const GATEWAY_API: &str = "gatewayapi:v1";
const ISTIO: &str = "istio";
const KUBERNETES: &str = "kubernetes";

/// A sequence of steps with a canary.
#[derive(Clone)]
#[expect(clippy::struct_excessive_bools, reason = "what there is at the beginning, one thing each")]
pub struct Scenario {
    pub name: String,
    /// The provider of the routes.
    provider: &'static str,
    /// The canary, as it is created.
    pub canary: Value,
    /// A merge patch of the target, as it is created.
    pub target: Value,
    /// Whether the target has an autoscaler.
    pub scaled: bool,
    /// Whether the target is a `DaemonSet`.
    pub daemons: bool,
    /// Whether the target has a `ScaledObject` of KEDA.
    pub keda: bool,
    /// Whether it begins with the canary set up.
    pub is_set_up: bool,
    /// Whether the user has a Service for the target already.
    pub has_service: bool,
    /// Whether the user has routes of their own, to one of which the canary refers.
    pub has_route: bool,
    pub steps: Vec<Step>,
    /// The cluster with the canary set up, made at the first use.
    prepared: Arc<OnceLock<Sandbox>>,
    /// The time without any write at the end.
    pub rest: Duration,
}

/// A user's action, or a wait.
#[derive(Clone, Debug)]
pub enum Step {
    /// Until the canary is in this phase.
    Phase(&'static str),
    /// Until the status has this weight, or a larger one.
    Weight(i64),
    /// Until the status has this number of iterations.
    Iterations(i64),
    /// Another image.
    Image(&'static str),
    /// The share of requests that succeed, in percent.
    Success(f64),
    /// The Service that is the target selects other pods.
    Lead(&'static str),
    /// Another value in the ConfigMap the workload reads.
    Config(&'static str),
    /// A merge patch of the canary.
    Edit(Value),
    /// Another workload becomes the target.
    Retarget(&'static str),
    /// A merge patch of the target's container.
    Container(Value),
    /// The new answer of the gate.
    Gate(u16),
    /// New pods of this image are never ready; running ones are left alone.
    Spoil(&'static str),
    /// Time passes.
    Pass(u64),
    Delete,
    /// The target is deleted, and the canary does not know yet.
    DeleteTarget,
    /// Until the canary is gone.
    Gone,
}

/// All scenarios.
pub fn scenarios() -> Vec<Scenario> {
    let mut all = Vec::new();
    for scaled in [false, true] {
        for provider in [GATEWAY_API, ISTIO] {
            all.extend(rollouts(provider).into_iter().map(|it| it.scaled(scaled)));
            all.extend(deletions(provider).into_iter().map(|it| it.scaled(scaled)));
        }
        all.extend(blue_green_only().into_iter().map(|it| it.scaled(scaled)));
    }
    all.extend(referred());
    let plain = |it: &Scenario| !it.has_route && !it.scaled;
    let of_pods = |name: &str| WITH_OTHER_PODS.iter().any(|it| name.ends_with(it));
    let rollouts = rollouts(GATEWAY_API).into_iter().chain(deletions(GATEWAY_API));
    let some: Vec<_> = rollouts.filter(|it| plain(it) && of_pods(&it.name)).collect();
    all.extend(some.iter().cloned().map(Scenario::of_daemons));
    all.extend(some.into_iter().map(Scenario::of_keda));
    all.extend(of_services());
    let known = ["gatewayapi:v1beta1", ISTIO_TCP, KNATIVE];
    all.extend(foreign().into_iter().chain(known).flat_map(over_other_kinds));
    all.extend(after_the_target());
    all
}

/// A Service of the core as target, of which only the copies are ours.
fn of_services() -> Vec<Scenario> {
    use Step::{Delete, Gone, Lead, Phase, Success, Weight};
    let target = json!({ "apiVersion": "v1", "kind": "Service", "name": "web" });
    let target = json!({ "spec": { "targetRef": target, "revertOnDeletion": true } });
    let of_service = || Scenario::new(GATEWAY_API, weights()).with(target.clone()).with_service();
    vec![
        of_service().called("init of a Service").untouched().then([Phase("Initialized")]),
        of_service()
            .called("fail half-way with a Service, then mend")
            .then([Lead("2"), Weight(40), Success(50.0), Phase("Failed")])
            .and([Success(100.0), Lead("3"), Phase("Succeeded")]),
        of_service().called("delete with a Service in Progressing").then([
            Lead("2"),
            Weight(40),
            Delete,
            Gone,
        ]),
    ]
}

/// Deletion of the target first, where another object outlives the canary.
fn after_the_target() -> Vec<Scenario> {
    use Step::{Delete, DeleteTarget, Gone, Image, Weight};
    let own = Scenario::new(GATEWAY_API, weights()).with_service().with_route();
    let all = [own, Scenario::new("kuma", weights())];
    let deleted = all.into_iter().map(|it| {
        it.called("delete after the target").then([
            Image("web:2.0"),
            Weight(40),
            DeleteTarget,
            Delete,
            Gone,
        ])
    });
    deleted.collect()
}

/// Run for every provider that has its own kinds or form: one rollout by weight that fails and then
/// succeeds, one that moves traffic as a whole.
fn over_other_kinds(provider: &'static str) -> Vec<Scenario> {
    use Step::{Image, Iterations, Phase, Success, Weight};
    vec![
        Scenario::new(provider, weights())
            .called("fail half-way, then mend")
            .then([Image("web:2.0"), Weight(40), Success(50.0), Phase("Failed")])
            .and([Success(100.0), Image("web:3.0"), Phase("Succeeded")]),
        Scenario::new(provider, json!({ "iterations": 3 })).called("blue/green").then([
            Image("web:2.0"),
            Iterations(2),
            Phase("Succeeded"),
        ]),
    ]
}

/// Run for other workloads and scalers as well: everything that creates, parks, starts, promotes or
/// restores.
const WITH_OTHER_PODS: [&str; 8] = [
    ": init",
    ": promote",
    ": fail half-way, then mend",
    ": fail by deadline",
    ": new revision half-way",
    ": new configuration",
    ": delete in Progressing",
    ": delete in Failed",
];

/// The full sweep of every change: each kind of rollout and each end, with and without an autoscaler, and
/// deletion in each phase. The rest is the same over other routes.
pub fn essential() -> Vec<Scenario> {
    scenarios().into_iter().filter(|it| !it.uses_other_routes()).collect()
}

/// The scenarios that [`essential`] leaves out.
pub fn others() -> Vec<Scenario> {
    scenarios().into_iter().filter(Scenario::uses_other_routes).collect()
}

/// A few that differ in their writes, for every `cargo test`.
pub fn sample() -> Vec<Scenario> {
    const NAMES: [&str; 8] = [
        "gatewayapi:v1: promote",
        "gatewayapi:v1: new revision half-way, scaled",
        "istio: fail by metric",
        "istio: mend a failed promotion",
        "istio: delete in Progressing",
        "kubernetes: promote",
        "nginx: fail half-way, then mend",
        "contour: blue/green",
    ];
    let mut all = scenarios();
    all.retain(|scenario| NAMES.contains(&scenario.name.as_str()));
    all
}

#[expect(clippy::too_many_lines, reason = "a list")]
fn rollouts(provider: &'static str) -> Vec<Scenario> {
    use Step::{
        Config, Container, Edit, Image, Iterations, Pass, Phase, Retarget, Spoil, Success, Weight,
    };
    let by_weight = || Scenario::new(provider, weights());
    let manual = |weight: i64, resume: bool| json!({ "spec": { "manualStep": { "weight": weight, "resume": resume } } });
    let suspend = |suspend: bool| json!({ "spec": { "suspend": suspend } });
    vec![
        by_weight().called("init").untouched().then([Phase("Initialized")]),
        by_weight().called("promote").then([Image("web:2.0"), Phase("Succeeded")]),
        by_weight().called("fail by metric").then([
            Success(50.0),
            Image("web:2.0"),
            Phase("Failed"),
        ]),
        by_weight()
            .called("fail half-way, then mend")
            .then([Image("web:2.0"), Weight(40), Success(50.0), Phase("Failed")])
            .and([Success(100.0), Image("web:3.0"), Phase("Succeeded")]),
        by_weight()
            .called("fail by deadline")
            .then([Image("web:2.0-never-ready"), Phase("Failed")]),
        by_weight().called("new revision half-way").then([
            Image("web:2.0"),
            Weight(40),
            Image("web:3.0"),
            Phase("Succeeded"),
        ]),
        by_weight().called("back half-way").then([
            Image("web:2.0"),
            Weight(40),
            Image("web:1.0"),
            Phase("Succeeded"),
        ]),
        recreated(by_weight())
            .called("mend a failed promotion")
            .then([Image("web:2.0"), Weight(40), Spoil("web:2.0"), Phase("Failed")])
            .and([Image("web:3.0"), Phase("Progressing"), Phase("Succeeded")]),
        recreated(by_weight())
            .called("go back after a failed promotion")
            .then([Image("web:2.0"), Weight(40), Spoil("web:2.0"), Phase("Failed")])
            .and([Image("web:1.0"), Phase("Progressing"), Phase("Succeeded")]),
        by_weight().called("new configuration").then([
            Config("blue"),
            Phase("Progressing"),
            Phase("Succeeded"),
        ]),
        by_weight().called("configuration nobody reads any more").then([
            Container(json!({ "envFrom": null })),
            Phase("Progressing"),
            Phase("Succeeded"),
            Pass(30),
        ]),
        by_weight().called("another name").then([
            Image("web:2.0"),
            Weight(40),
            Edit(json!({ "spec": { "service": { "name": "shop" } } })),
            Phase("Succeeded"),
            Pass(30),
        ]),
        by_weight()
            .called("another target")
            .with(json!({ "spec": { "service": { "name": "front" } } }))
            .then([Retarget("shop"), Phase("Initializing"), Phase("Initialized"), Pass(30)]),
        by_weight().called("skip").with(json!({ "spec": { "skipAnalysis": true } })).then([
            Image("web:2.0"),
            Phase("Progressing"),
            Phase("Succeeded"),
        ]),
        by_weight()
            .called("manual step")
            .with(manual(40, false))
            .then([Image("web:2.0"), Phase("Waiting"), Pass(30)])
            .and([Edit(manual(40, true)), Phase("Succeeded")]),
        by_weight()
            .called("suspend")
            .then([Image("web:2.0"), Weight(40), Edit(suspend(true)), Pass(30)])
            .and([Edit(suspend(false)), Phase("Succeeded")]),
        Scenario::new(provider, json!({ "iterations": 3, "match": [insider()] }))
            .called("A/B")
            .then([Image("web:2.0"), Iterations(2), Phase("Succeeded")]),
        Scenario::new(provider, json!({ "iterations": 3 })).called("blue/green").then([
            Image("web:2.0"),
            Iterations(2),
            Phase("Succeeded"),
        ]),
        Scenario::new(provider, json!({ "iterations": 2, "mirror": true }))
            .called("blue/green with mirror")
            .then([Image("web:2.0"), Iterations(2), Phase("Succeeded")]),
        by_weight().called("mirror").analysed(json!({ "mirror": true })).then([
            Image("web:2.0"),
            Weight(40),
            Phase("Succeeded"),
        ]),
        by_weight()
            .called("stepped promotion")
            .analysed(json!({ "stepWeightPromotion": 40 }))
            .then([Image("web:2.0"), Phase("Succeeded")]),
        by_weight()
            .called("sessions")
            .analysed(json!({ "sessionAffinity": { "cookieName": "side" } }))
            .then([Image("web:2.0"), Phase("Succeeded")]),
        gated(provider)
            .called("gates")
            .then([Step::Gate(403), Image("web:2.0"), Phase("Waiting"), Pass(20)])
            .and([Step::Gate(200), Phase("Progressing"), Step::Gate(403)])
            .and([Phase("WaitingPromotion"), Step::Gate(200), Phase("Succeeded")]),
    ]
}

/// For providers that cannot divide traffic.
fn blue_green_only() -> Vec<Scenario> {
    use Step::{Image, Iterations, Phase, Spoil, Success};
    let plain = || Scenario::new(KUBERNETES, json!({ "iterations": 3 }));
    let switched = || plain().with(json!({ "spec": { "service": { "switchApex": true } } }));
    vec![
        switched().called("switch").then([Image("web:2.0"), Phase("Succeeded")]),
        switched()
            .called("delete a switched apex")
            .with(json!({ "spec": { "revertOnDeletion": true } }))
            .with_service()
            .then([Image("web:2.0-slow-start-15s"), Phase("Promoting"), Step::Delete, Step::Gone]),
        switched().called("switch, then another").then([
            Image("web:2.0"),
            Phase("Promoting"),
            Image("web:3.0"),
            Phase("Progressing"),
            Phase("Succeeded"),
        ]),
        plain().called("init").untouched().then([Phase("Initialized")]),
        plain().called("promote").then([Image("web:2.0"), Phase("Succeeded")]),
        plain().called("fail by metric").then([
            Image("web:2.0"),
            Iterations(1),
            Success(50.0),
            Phase("Failed"),
        ]),
        plain().called("fail by deadline").then([Image("web:2.0-never-ready"), Phase("Failed")]),
        plain().called("new revision half-way").then([
            Image("web:2.0"),
            Iterations(2),
            Image("web:3.0"),
            Phase("Succeeded"),
        ]),
        recreated(plain())
            .called("mend a failed promotion")
            .then([Image("web:2.0"), Iterations(1), Spoil("web:2.0"), Phase("Failed")])
            .and([Image("web:3.0"), Phase("Progressing"), Phase("Succeeded")]),
        plain().called("skip").with(json!({ "spec": { "skipAnalysis": true } })).then([
            Image("web:2.0"),
            Phase("Progressing"),
            Phase("Succeeded"),
        ]),
    ]
}

/// With a reference to the user's route.
fn referred() -> Vec<Scenario> {
    use Step::{Delete, Edit, Gone, Image, Pass, Phase, Success, Weight};
    let own = || Scenario::new(GATEWAY_API, weights()).with_service().with_route();
    let refer = |name: &str| Edit(json!({ "spec": { "routeRef": { "name": name } } }));
    vec![
        own().called("another route half-way").then([
            Image("web:2.0"),
            Weight(40),
            refer("back"),
            Phase("Succeeded"),
            Pass(30),
        ]),
        own()
            .called("a route that is not there half-way, then mend")
            .then([Image("web:2.0"), Weight(40), refer("nowhere"), Phase("Failed")])
            .and([refer("front"), Image("web:3.0"), Phase("Succeeded")]),
        own().called("promote over a route that is referred to").then([
            Image("web:2.0"),
            Weight(40),
            Phase("Succeeded"),
        ]),
        own().called("fail over a route that is referred to").then([
            Image("web:2.0"),
            Weight(40),
            Success(50.0),
            Phase("Failed"),
        ]),
        own().called("delete over a route that is referred to").then([
            Image("web:2.0"),
            Weight(40),
            Delete,
            Gone,
        ]),
    ]
}

/// Deletion that restores everything, from every phase.
fn deletions(provider: &'static str) -> Vec<Scenario> {
    use Step::{Delete, Gone, Image, Phase, Success, Weight};
    let revert = json!({ "spec": { "revertOnDeletion": true } });
    let kept = || Scenario::new(provider, weights()).with(revert.clone()).with_service();
    let gated = || gated(provider).with(revert.clone()).with_service();
    let slow = "web:2.0-slow-start-15s";
    let all = vec![
        kept().called("delete in Initializing").untouched().then([Phase("Initializing")]),
        kept().called("delete in Initialized").then([]),
        kept().called("delete in Progressing").then([Image("web:2.0"), Weight(40)]),
        kept()
            .called("delete in Waiting")
            .with(json!({ "spec": { "manualStep": { "weight": 40 } } }))
            .then([Image("web:2.0"), Phase("Waiting")]),
        gated()
            .called("delete in WaitingPromotion")
            .then([Image("web:2.0"), Phase("Progressing"), Step::Gate(403)])
            .and([Phase("WaitingPromotion")]),
        kept().called("delete in Promoting").then([Image(slow), Phase("Promoting")]),
        kept().called("delete in Finalising").then([Image("web:2.0"), Phase("Finalising")]),
        kept().called("delete in Succeeded").then([Image("web:2.0"), Phase("Succeeded")]),
        kept().called("delete in Failed").then([Success(50.0), Image("web:2.0"), Phase("Failed")]),
    ];
    all.into_iter().map(|it| it.and([Delete, Gone])).collect()
}

/// With the update strategy `Recreate`: a primary that breaks has no pods at all.
fn recreated(scenario: Scenario) -> Scenario {
    let strategy = json!({ "type": "Recreate", "rollingUpdate": null });
    let spec = json!({ "strategy": strategy, "progressDeadlineSeconds": 60 });
    Scenario { target: json!({ "spec": spec }), ..scenario }
}

fn weights() -> Value {
    json!({ "stepWeight": 40, "maxWeight": 80 })
}

fn insider() -> Value {
    json!({ "headers": { "x-insider": { "exact": "true" } } })
}

fn gated(provider: &'static str) -> Scenario {
    let hook = |name: &str, kind: &str| json!({ "name": name, "type": kind, "url": "http://gate/confirm" });
    let hooks = [
        hook("may it start", "confirm-rollout"),
        hook("may it end", "confirm-promotion"),
        json!({ "name": "before", "type": "pre-rollout", "url": "http://hooks/before" }),
        json!({ "name": "after", "type": "post-rollout", "url": "http://hooks/after" }),
    ];
    Scenario::new(provider, weights()).analysed(json!({ "webhooks": hooks }))
}

// === impl Scenario ===

impl Scenario {
    /// A canary with this analysis, added to what all have.
    fn new(provider: &'static str, analysis: Value) -> Self {
        let base = json!({
            "interval": "10s", "threshold": 2,
            "metrics": [{ "name": "request-success-rate", "thresholdRange": { "min": 99 } }],
        });
        let mut canary = canary_for(provider, base);
        canary["spec"]["progressDeadlineSeconds"] = json!(40);
        let name = provider.to_owned();
        let rest = Duration::from_secs(35);
        let new = Self {
            name,
            provider,
            canary,
            target: json!({}),
            scaled: false,
            daemons: false,
            keda: false,
            is_set_up: true,
            has_service: false,
            has_route: false,
            steps: Vec::new(),
            prepared: Arc::default(),
            rest,
        };
        new.analysed(analysis)
    }

    /// Whether it differs from another one only in the objects that carry its traffic.
    fn uses_other_routes(&self) -> bool {
        ![GATEWAY_API, KUBERNETES].contains(&self.provider)
    }

    fn called(mut self, name: &str) -> Self {
        self.name = format!("{}: {name}", self.name);
        self
    }

    fn scaled(mut self, scaled: bool) -> Self {
        if scaled {
            self.scaled = true;
            self.name += ", scaled";
            self.canary["spec"]["autoscalerRef"] = json!({
                "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "name": "web",
            });
        }
        self
    }

    fn of_daemons(mut self) -> Self {
        self.daemons = true;
        self.name += ", daemons";
        self.canary["spec"]["targetRef"]["kind"] = json!("DaemonSet");
        self.prepared = Arc::default();
        self
    }

    fn of_keda(mut self) -> Self {
        self.keda = true;
        self.name += ", keda";
        self.canary["spec"]["autoscalerRef"] =
            json!({ "apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "name": "web" });
        self.prepared = Arc::default();
        self
    }

    fn with_service(mut self) -> Self {
        self.has_service = true;
        self
    }

    fn with_route(mut self) -> Self {
        self.has_route = true;
        self.canary["spec"]["routeRef"] = json!({
            "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute", "name": "front",
        });
        self
    }

    fn analysed(mut self, analysis: Value) -> Self {
        merge(&mut self.canary["spec"]["analysis"], analysis);
        self
    }

    fn with(mut self, patch: Value) -> Self {
        merge(&mut self.canary, patch);
        self
    }

    /// Begins before the setup of the canary.
    fn untouched(mut self) -> Self {
        self.is_set_up = false;
        self
    }

    /// The steps.
    fn then<const N: usize>(mut self, steps: [Step; N]) -> Self {
        self.steps = steps.into();
        self
    }

    fn and<const N: usize>(mut self, steps: [Step; N]) -> Self {
        self.steps.extend(steps);
        self
    }

    /// The cluster for it, before the operator starts.
    pub(super) async fn prepared(&self) -> World {
        if !self.is_set_up {
            return self.world();
        }
        if let Some(sandbox) = self.prepared.get() {
            return furnished(World::over(fork(sandbox)));
        }
        let mut world = self.world();
        world.start().await;
        let is_set_up = world.until(PATIENCE_S, |it| it.phase("web") == "Initialized").await;
        assert!(is_set_up, "{}: never set up: {:#}", self.name, world.status("web"));
        world.advance_s(2).await;
        world.kill();
        world.settle().await;
        let sandbox = self.prepared.get_or_init(|| fork(&world.sandbox));
        furnished(World::over(fork(sandbox)))
    }

    /// The same, before the setup.
    fn world(&self) -> World {
        let world = furnished(World::with(settings(Settings::for_tests())));
        if self.provider == KNATIVE || foreign().contains(&self.provider) {
            providers::furnish(&world, self.provider);
        }
        if self.provider == KNATIVE {
            world.create(CANARIES, self.canary.clone());
            return world;
        }
        world.create(CONFIG_MAPS, settings_of("green"));
        let mut target = if self.daemons {
            daemon_set("web", "web:1.0")
        } else {
            deployment("web", "web:1.0", 2)
        };
        target["spec"]["template"]["spec"]["containers"][0]["envFrom"] =
            json!([{ "configMapRef": { "name": "web" } }]);
        merge(&mut target, self.target.clone());
        world.create(if self.daemons { DAEMON_SETS } else { DEPLOYMENTS }, target);
        if self.keda {
            let loaded = world.sandbox.load(keda_crds());
            assert!(loaded.is_ok(), "definitions are refused: {loaded:?}");
            world.create(SCALED_OBJECTS, scaled_object("web", 2, 4));
        }
        if self.scaled {
            world.create(AUTOSCALERS, autoscaler());
        }
        if self.has_service {
            world.create(SERVICES, service());
        }
        if self.has_route {
            world.create(HTTP_ROUTES, route("front"));
            world.create(HTTP_ROUTES, route("back"));
        }
        world.create(CANARIES, self.canary.clone());
        world
    }
}

/// A copy of the cluster that goes on from here, now.
fn fork(sandbox: &Sandbox) -> Sandbox {
    let now = sandbox.server().clock.now();
    let there = Settings { clock: Clock::virtual_from(now), ..Settings::for_tests() };
    sandbox.fork(settings(there).routing().rbac())
}

/// Pods start and stop with delays.
fn settings(mut settings: Settings) -> Settings {
    settings.controllers.kubelet = KubeletSettings::default();
    settings
}

/// With hooks that pass and good metrics.
fn furnished(world: World) -> World {
    world.network.metric("", Metric::Value(100.0));
    for hook in [GATE, "hooks/before", "hooks/after"] {
        world.network.hook(hook, Reply::Status(200, String::new()));
    }
    world
}

/// A merge patch.
fn merge(into: &mut Value, patch: Value) {
    match (into, patch) {
        (Value::Object(into), Value::Object(patch)) => {
            for (key, value) in patch {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, patch) => *into = patch,
    }
}

fn settings_of(colour: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "web" },
        "data": { "COLOUR": colour },
    })
}

fn service() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": { "name": "web" },
        "spec": { "selector": { "app": "web" }, "ports": [{ "name": "http", "port": 80, "targetPort": 8080 }] },
    })
}

fn route(name: &str) -> Value {
    json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
        "metadata": { "name": name },
        "spec": {
            "parentRefs": [{ "name": "edge" }],
            "rules": [{ "backendRefs": [{ "name": "web", "port": 80 }] }],
        },
    })
}

fn autoscaler() -> Value {
    json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
        "metadata": { "name": "web" },
        "spec": {
            "scaleTargetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" },
            "minReplicas": 2, "maxReplicas": 4,
            "metrics": [{ "type": "Resource", "resource": {
                "name": "cpu", "target": { "type": "Utilization", "averageUtilization": 99 },
            } }],
        },
    })
}

// === impl Step ===

impl Step {
    /// False if a wait timed out.
    pub(super) async fn take(&self, world: &World) -> bool {
        if let Self::Pass(seconds) = self {
            world.advance_s(*seconds).await;
            return true;
        }
        if self.act(world) {
            return true;
        }
        world.until_seen(PATIENCE_S, |world| self.is_reached(world)).await
    }

    /// Whether a wait is over.
    pub(super) fn is_reached(&self, world: &World) -> bool {
        let has =
            |field: &str, least: i64| world.status("web")[field].as_i64().unwrap_or(0) >= least;
        match self {
            Self::Phase(phase) => world.phase("web") == *phase,
            Self::Weight(weight) => has("canaryWeight", *weight),
            Self::Iterations(count) => has("iterations", *count),
            Self::Gone => world.get(CANARIES, "web").is_none(),
            Self::Pass(_)
            | Self::Image(_)
            | Self::Success(_)
            | Self::Lead(_)
            | Self::Config(_)
            | Self::Edit(_)
            | Self::Retarget(_)
            | Self::Container(_)
            | Self::Gate(_)
            | Self::Spoil(_)
            | Self::Delete
            | Self::DeleteTarget => true,
        }
    }

    /// Does what the user does; false for a wait.
    pub(super) fn act(&self, world: &World) -> bool {
        match self {
            Self::Image(image) => patch_container(world, json!({ "image": image })),
            Self::Container(patch) => patch_container(world, patch.clone()),
            Self::Success(percent) => {
                // Every provider has a query of its own, and there is no other metric.
                world.network.metric("", Metric::Value(*percent));
            }
            Self::Lead(version) => {
                let selector = json!({ "app": "web", "version": version });
                world.patch(SERVICES, "web", &json!({ "spec": { "selector": selector } }));
            }
            Self::Config(colour) => {
                world.patch(CONFIG_MAPS, "web", &json!({ "data": { "COLOUR": colour } }));
            }
            Self::Edit(patch) => {
                world.patch(CANARIES, "web", patch);
            }
            Self::Retarget(name) => {
                world.create(DEPLOYMENTS, deployment(name, "web:1.0", 2));
                let target = json!({ "targetRef": { "name": name } });
                world.patch(CANARIES, "web", &json!({ "spec": target }));
            }
            Self::Gate(code) => world.network.hook(GATE, Reply::Status(*code, String::new())),
            Self::Spoil(image) => {
                let behaviours = &world.sandbox.controllers().kubelet.behaviours;
                behaviours.set(image, Behaviour::NeverReady);
            }
            Self::Delete => world.delete(CANARIES, "web"),
            Self::DeleteTarget => world.delete(target_table(world), "web"),
            Self::Phase(_) | Self::Weight(_) | Self::Iterations(_) | Self::Pass(_) | Self::Gone => {
                return false;
            }
        }
        true
    }
}

/// A strategic merge would need the container's name only; a merge patch needs all of the list.
fn patch_container(world: &World, patch: Value) {
    let is_there = |kind: &Resource| world.get(*kind, "web").is_some();
    let kinds = [target_table(world), DAEMON_SETS];
    let kind = kinds.into_iter().find(is_there).unwrap_or(DEPLOYMENTS);
    let target = world.get(kind, "web").unwrap_or_default();
    let mut containers = target["spec"]["template"]["spec"]["containers"].clone();
    merge(&mut containers[0], patch);
    let spec = json!({ "template": { "spec": { "containers": containers } } });
    world.patch(kind, "web", &json!({ "spec": spec }));
}
