use std::collections::BTreeSet;

use tidegate_providers::game::NODE;

use super::*;
use crate::{
    game::testing::{
        Kit, NAME, NAMESPACE, UID, deployment, kind_of, node, own_pod, owned, pod, set, step_run,
        with,
    },
    supervisor::Supervisor,
    telemetry::Replicas,
};

fn game(kit: &Kit) -> GameWorkloads {
    GameWorkloads::new(Arc::clone(&kit.cx))
}

fn id(kind: Kind, name: &str) -> Id {
    (kind, Key::new(NAMESPACE, name))
}

/// Whether the loop of a workload is woken when this pod changes.
async fn is_woken(kit: &Kit, workload: Kind, name: &str) -> bool {
    let bell = kit.cluster().cache.wakeup(&follower(workload, &Key::new(NAMESPACE, NAME)));
    Owners(POD, kit.cluster().clone()).changed(&Key::new(NAMESPACE, name));
    tokio::time::timeout(Duration::from_millis(1), bell.notified()).await.is_ok()
}

#[tokio::test(start_paused = true)]
async fn a_pod_wakes_the_workload_that_has_it_or_may_adopt_it() {
    let unlabelled = with(pod("orphan"), "/metadata/labels", json!({}));
    let foreign = |kind: Kind, name: &str| owned(pod("foreign"), kind, name, "other");
    let other = Kind { kind: "ReplicaSet", ..POD };
    for workload in [deployment(), set()] {
        let kind = kind_of(&workload);
        let another = if kind == GAME_DEPLOYMENT { GAME_STATEFUL_SET } else { GAME_DEPLOYMENT };
        let cases = [
            ("its own", own_pod(&workload, "arena-0"), true),
            ("of a workload of another kind", foreign(another, NAME), false),
            ("of another workload", foreign(kind, "lobby"), false),
            ("of something else", foreign(other, NAME), false),
            ("an orphan that is selected", pod("orphan"), true),
            ("an orphan that is not", unlabelled.clone(), false),
        ];
        for (reason, object, want) in cases {
            let kit = Kit::new();
            kit.has(kind, workload.clone());
            let name = object["metadata"]["name"].as_str().unwrap().to_owned();
            kit.has(POD, object);
            assert_eq!(is_woken(&kit, kind, &name).await, want, "{}: {reason}", kind.kind);
        }
        let kit = Kit::new();
        kit.has(kind, workload);
        assert!(!is_woken(&kit, kind, "gone").await);
    }
}

#[tokio::test(start_paused = true)]
async fn a_change_of_the_spec_the_annotations_a_deletion_or_our_pause_wakes() {
    let kit = Kit::new();
    let game = game(&kit);
    let fields = |path: &str| game.wake_fields(&with(deployment(), path, json!("changed")));
    let before = game.wake_fields(&deployment());
    for field in ["generation", "deletionTimestamp", "annotations"] {
        assert_ne!(fields(&format!("/metadata/{field}")), before, "{field}");
    }
    assert_ne!(fields("/pausedByUs"), before);
    for path in ["/status", "/metadata/resourceVersion", "/metadata/managedFields"] {
        assert_eq!(fields(path), before, "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn workloads_and_runs_have_loops_of_their_own_name_that_start_at_once() {
    let kit = Kit::new();
    let game = game(&kit);
    assert_eq!(game.kinds(), [GAME_DEPLOYMENT, GAME_STATEFUL_SET, HOOK_RUN]);
    let names: Vec<String> =
        game.kinds().iter().map(|kind| game.follower(&id(*kind, NAME)).to_string()).collect();
    let want = ["play/gamedeployments/arena", "play/gamestatefulsets/arena", "play/hookruns/arena"];
    assert_eq!(names, want);
    assert_eq!(game.delay(&deployment(), true), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn series_of_an_object_end_with_its_loop() {
    let kit = Kit::new();
    let series = &kit.cx.telemetry.game;
    let replicas = Replicas { all: 3, ..Replicas::default() };
    series.set_replicas(labels_of(GAME_DEPLOYMENT, NAMESPACE, NAME), replicas);
    series.set_replicas(labels_of(GAME_STATEFUL_SET, NAMESPACE, NAME), replicas);
    let run =
        crate::telemetry::HookRun { namespace: NAMESPACE, owner: "", name: NAME, uid: "run-uid" };
    series.set_survived(run, "Running", Duration::from_secs(5));
    let known = || {
        let of =
            |start: &str| kit.metrics(start).iter().filter(|line| line.contains(NAMESPACE)).count();
        ["bkbcs_gamedeployment_", "bkbcs_gamestatefulset_", "bkbcs_hook_"].map(of)
    };
    let mut game = game(&kit);
    assert_eq!(known(), [1, 1, 1]);
    game.ended(&id(HOOK_RUN, NAME));
    assert_eq!(known(), [1, 1, 0]);
    game.ended(&id(GAME_DEPLOYMENT, NAME));
    assert_eq!(known(), [0, 1, 0]);
    game.ended(&id(GAME_STATEFUL_SET, NAME));
    assert_eq!(known(), [0, 0, 0]);
}

/// Runs an operator for so long, and returns what it lists of the whole cluster.
async fn operate(kit: &Kit, supervisor: &mut Supervisor, seconds: u64) -> BTreeSet<String> {
    let ended = tokio::time::timeout(Duration::from_secs(seconds), supervisor.run()).await;
    assert!(ended.is_err(), "the supervisor ended");
    let calls = kit.api.calls();
    let lists = calls.iter().filter(|it| it.method == "GET" && !it.path.contains("/namespaces/"));
    lists.filter_map(|it| Some(it.path.rsplit_once('/')?.1.to_owned())).collect()
}

/// The cluster serves game workloads.
fn serve_kinds(kit: &Kit) {
    let list = json!({
        "kind": "APIResourceList", "apiVersion": "v1",
        "groupVersion": GAME_DEPLOYMENT.api_version(), "resources": [],
    });
    kit.api.serve(&format!("/apis/{}", GAME_DEPLOYMENT.api_version()), list);
}

#[tokio::test(start_paused = true)]
async fn workloads_are_reconciled_once_the_cluster_serves_their_kinds() {
    let kit = Kit::new();
    kit.api.put(NODE, node("one"));
    kit.api.put(GAME_DEPLOYMENT, deployment());
    kit.api.put(GAME_STATEFUL_SET, set());
    let mut supervisor = Supervisor::start(Arc::clone(&kit.cx));
    let lists = operate(&kit, &mut supervisor, 30).await;
    assert!(!lists.contains("gamedeployments"), "{lists:?}");
    serve_kinds(&kit);
    let lists = operate(&kit, &mut supervisor, 29).await;
    assert!(!lists.contains("gamedeployments"), "it is tried once a minute: {lists:?}");
    let lists = operate(&kit, &mut supervisor, 10).await;
    for plural in [
        "gamedeployments",
        "gamestatefulsets",
        "hookruns",
        "hooktemplates",
        "pods",
        "controllerrevisions",
    ] {
        assert!(lists.contains(plural), "{plural}: {lists:?}");
    }
    assert_eq!(kit.api.get(GAME_DEPLOYMENT, NAME)["status"]["replicas"], 2);
    let calls = kit.api.calls();
    let count = |path: &str| calls.iter().filter(|it| it.path == path).count();
    let lists = (count("/api/v1/pods"), count("/apis/apps/v1/controllerrevisions"));
    assert_eq!(lists, (1, 1), "watched once for all workloads");
}

#[tokio::test(start_paused = true)]
async fn pods_are_not_watched_for_runs_alone() {
    let kit = Kit::new();
    serve_kinds(&kit);
    kit.api.put(NODE, node("one"));
    kit.api.put(HOOK_RUN, step_run("run"));
    let mut supervisor = Supervisor::start(Arc::clone(&kit.cx));
    let lists = operate(&kit, &mut supervisor, 10).await;
    assert!(lists.contains("hookruns") && !lists.contains("pods"), "{lists:?}");
    assert_eq!(kit.api.get(HOOK_RUN, "run")["status"]["phase"], "Successful");
}

#[tokio::test(start_paused = true)]
async fn no_hook_is_called_before_the_addresses_of_nodes_are_known() {
    let kit = Kit::new();
    serve_kinds(&kit);
    kit.api.fail("GET", "/nodes", 500);
    kit.api.put(HOOK_RUN, owned(step_run("run"), GAME_DEPLOYMENT, NAME, UID));
    let mut supervisor = Supervisor::start(Arc::clone(&kit.cx));
    operate(&kit, &mut supervisor, 10).await;
    assert!(kit.web.calls().is_empty());
    kit.api.repair();
    operate(&kit, &mut supervisor, 100).await;
    assert_eq!(kit.web.calls().len(), 1);
}
