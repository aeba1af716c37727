use std::{collections::BTreeMap, sync::Arc};

use serde_json::{Value, json};
use tidegate_engine::{
    Again, Moment, Revision,
    game::{
        Command, Fact, HookKind, HookStart, Memory, NewPod, PauseReason, PodChange, PodRef, Purpose,
    },
};
use tidegate_providers::{
    game::{CONTROLLER_REVISION, GAME_DEPLOYMENT, HOOK_RUN, POD, VOLUME_CLAIM, names},
    object::Kind,
};

use super::*;
use crate::game::{
    observe::{Env, observe},
    testing::{
        Kit, NAME, NAMESPACE, UID, deployment, hook_template, key, kind_of, own_pod, owned, pod,
        revision_name, set, step_run, with,
    },
};

/// A workload that may call hooks before pods go.
fn hooked(mut workload: Value) -> Value {
    let hook = json!({ "hook": { "templateName": "check" } });
    for member in ["preDeleteUpdateStrategy", "preInplaceUpdateStrategy"] {
        workload["spec"][member] = hook.clone();
    }
    workload
}

/// A kit with pods `a` and `b`, a run and a template.
fn stage(workload: &Value) -> Kit {
    let kit = Kit::of(workload);
    kit.has(POD, own_pod(workload, "arena-a"));
    kit.has(POD, own_pod(workload, "arena-b"));
    kit.has(HOOK_RUN, owned(step_run("run"), kind_of(workload), NAME, UID));
    kit.has(tidegate_providers::game::HOOK_TEMPLATE, hook_template("check"));
    kit
}

fn workload_ref(kit: &Kit, kind: Kind) -> WorkloadRef {
    WorkloadRef { cx: Arc::clone(&kit.cx), kind, key: key(), uid: UID.to_owned() }
}

fn observation(workload: &WorkloadRef) -> Observation {
    let env = Env {
        kind: workload.kind,
        key: &workload.key,
        uid: &workload.uid,
        cluster: &workload.cx.cluster,
        now: workload.now(),
        refusals: &[],
        collisions: 0,
    };
    observe(&env).unwrap_or_else(|_| panic!("everything is there"))
}

async fn act(kit: &Kit, kind: Kind, actions: Vec<Action>) -> Result<Acted, WriteError> {
    act_as(&mut Actor::default(), kit, kind, actions).await
}

async fn act_as(
    actor: &mut Actor,
    kit: &Kit,
    kind: Kind,
    actions: Vec<Action>,
) -> Result<Acted, WriteError> {
    let workload = workload_ref(kit, kind);
    let observation = observation(&workload);
    let decision = Decision { why: Fact::AtRest, actions, again: Again::OnChange };
    actor.act(&workload, &observation, &decision).await
}

fn pod_ref(name: &str) -> PodRef {
    PodRef { name: name.to_owned(), uid: format!("{name}-uid") }
}

fn change(name: &str) -> Box<PodChange> {
    Box::new(PodChange {
        pod: pod_ref(name),
        revision: Revision::new("arena-2"),
        from: None,
        images: BTreeMap::from([("game".to_owned(), "game:2".to_owned())]),
        labels: BTreeMap::new(),
        annotations: BTreeMap::new(),
        image_ids: BTreeMap::new(),
        images_before: BTreeMap::new(),
        restarts_before: BTreeMap::new(),
        at: Moment(0),
        grace: None,
        owes_post_hook: false,
    })
}

fn new_pod(ordinal: Option<usize>) -> Action {
    let workload = if ordinal.is_some() { set() } else { deployment() };
    let revision = Revision::new(revision_name(&workload));
    Action::Create(NewPod { revision, ordinal, index: None })
}

fn step_hook(name: &str) -> Action {
    Action::StartHook(Box::new(HookStart {
        name: name.to_owned(),
        purpose: Purpose::Step { revision: Revision::new("arena-1"), index: 0 },
        template: "check".to_owned(),
        arguments: Vec::new(),
    }))
}

fn pod_hook(name: &str, pod: &str) -> Action {
    Action::StartHook(Box::new(HookStart {
        name: name.to_owned(),
        purpose: Purpose::Pod {
            kind: HookKind::PreDelete,
            pod: pod.to_owned(),
            uid: format!("{pod}-uid"),
            target: None,
        },
        template: "check".to_owned(),
        arguments: Vec::new(),
    }))
}

fn remember(message: &str) -> Action {
    Action::Remember(Box::new(Memory { message: message.to_owned(), ..Memory::default() }))
}

/// Every kind of action, once.
fn all_actions() -> Vec<Action> {
    let name = || Revision::new(revision_name(&deployment()));
    let a = || pod_ref("arena-a");
    vec![
        new_pod(None),
        Action::Delete(a(), Departure::Surplus),
        Action::Delete(a(), Departure::Replaced),
        Action::ForceDelete(a()),
        Action::Mark(a()),
        Action::Unmark(a()),
        Action::SetGate(a(), true),
        Action::UpdateInPlace(change("arena-a")),
        Action::ApplyGrace(change("arena-a")),
        Action::DropGrace(a()),
        Action::HotPatch(change("arena-a")),
        Action::ClearPostHook(a()),
        Action::Identify(a()),
        pod_hook("new", "arena-a"),
        Action::TerminateHook("run".to_owned()),
        Action::DeleteHook("run".to_owned()),
        Action::SetPaused(true),
        Action::ResumeAndClear(Command::Resume),
        Action::ClearCommand,
        Action::RestoreTemplate { to: name(), from: Revision::new("x") },
        Action::ResetRetry(HookKind::PreDelete),
        Action::PrunePodsToDelete(vec!["gone".to_owned()]),
        remember("hello"),
        Action::DropRevisions(vec![name()]),
    ]
}

#[tokio::test(start_paused = true)]
async fn every_action_is_one_write_of_the_right_object() {
    let revision = format!("controllerrevisions/{}", revision_name(&deployment()));
    let delete_revision = format!("DELETE {revision}");
    let marked =
        |value: Value| json!({ "metadata": { "annotations": { names::DELETING: value } } });
    let paused = |value: bool| json!({ "spec": { "updateStrategy": { "paused": value } } });
    let asked = json!({ "metadata": { "annotations": { names::ASK: null } } });
    let mut lifted = paused(false);
    lifted["metadata"] = asked["metadata"].clone();
    let images = json!({ "spec": { "containers": [{ "name": "game", "image": "game:2" }] } });
    let uid = json!({ "preconditions": { "uid": "arena-a-uid" } });
    let retry = json!({ "spec": { "preDeleteUpdateStrategy": { "retry": false } } });
    let a = "PATCH pods/arena-a";
    let arena = "PATCH gamedeployments/arena";
    let wants = [
        ("POST pods", json!({ "kind": "Pod" })),
        ("DELETE pods/arena-a", uid.clone()),
        ("DELETE pods/arena-a", uid.clone()),
        ("DELETE pods/arena-a", with(uid, "/gracePeriodSeconds", json!(0))),
        (a, marked(json!("true"))),
        (a, marked(Value::Null)),
        ("PATCH pods/arena-a/status", json!({ "metadata": { "uid": "arena-a-uid" } })),
        (a, images.clone()),
        (a, images.clone()),
        (a, json!({ "metadata": { "annotations": { names::UPDATE_GRACE: null } } })),
        (a, images),
        (a, json!({ "metadata": { "annotations": { names::OWES_POST_HOOK: null } } })),
        (a, json!({ "metadata": { "uid": "arena-a-uid" } })),
        ("POST hookruns", json!({ "kind": "HookRun", "metadata": { "name": "new" } })),
        ("PATCH hookruns/run", json!({ "spec": { "terminate": true } })),
        ("DELETE hookruns/run", json!({ "preconditions": { "uid": "run-uid" } })),
        (arena, paused(true)),
        (arena, lifted),
        (arena, asked.clone()),
        (arena, asked),
        (arena, retry),
        (arena, json!({ "spec": { "scaleStrategy": { "podsToDelete": [] } } })),
        ("PATCH gamedeployments/arena/status", json!({ "status": { "message": "hello" } })),
        (&*delete_revision, json!({ "kind": "DeleteOptions" })),
    ];
    let actions = all_actions();
    assert_eq!(actions.len(), wants.len());
    for (action, (line, body)) in actions.into_iter().zip(wants) {
        let kit = stage(&hooked(deployment()));
        let name = format!("{action:?}");
        let acted = act(&kit, GAME_DEPLOYMENT, vec![action]).await.unwrap();
        assert!(!acted.is_stale && acted.refusals.is_empty(), "{name}");
        let writes: Vec<String> =
            kit.api.lines().into_iter().filter(|it| !it.starts_with("GET")).collect();
        assert_eq!(writes, [line], "{name}");
        let sent = kit.api.calls().pop().unwrap().body;
        assert!(is_within(&body, &sent), "{name}: {body} is not in {sent}");
        let has_version = sent["metadata"]["resourceVersion"].is_string();
        assert_eq!(has_version, line.starts_with("PATCH"), "{name}: {sent}");
    }
}

/// Whether everything in `part` is in `whole`.
fn is_within(part: &Value, whole: &Value) -> bool {
    match (part, whole) {
        (Value::Object(part), Value::Object(whole)) => part
            .iter()
            .all(|(name, part)| whole.get(name).is_some_and(|whole| is_within(part, whole))),
        _ => part == whole,
    }
}

#[tokio::test(start_paused = true)]
async fn events_follow_writes_to_pods_and_facts_that_are_announced() {
    let a = || pod_ref("arena-a");
    let gone = |why: Departure| Action::Delete(a(), why);
    let pause = Fact::Paused(PauseReason::Step);
    let cases = [
        (new_pod(None), "SuccessfulCreate", "is created."),
        (gone(Departure::Surplus), "SuccessfulDelete", "there is one more than spec.replicas."),
        (gone(Departure::Named), "SuccessfulDelete", "podsToDelete names it."),
        (gone(Departure::Failed), "SuccessfulDelete", "it ended."),
        (gone(Departure::Replaced), "SuccessfulUpdatePodReCreate", "replaces it."),
        (Action::ForceDelete(a()), "SuccessfulForceDelete", "as its node is lost."),
        (Action::UpdateInPlace(change("arena-a")), "SuccessfulUpdatePodInPlace", "arena-2."),
        (Action::HotPatch(change("arena-a")), "SuccessfulUpdatePodHotPatch", "arena-2."),
        (Action::Announce(pause.clone()), pause.reason(), &*pause.text()),
    ];
    for (action, reason, end) in cases {
        let kit = stage(&deployment());
        act(&kit, GAME_DEPLOYMENT, vec![action]).await.unwrap();
        let events = kit.api.events();
        assert_eq!(events.len(), 1, "{reason}");
        assert_eq!((&*events[0].0, &*events[0].1), (reason, "Normal"));
        assert!(events[0].2.ends_with(end), "{}", events[0].2);
    }
    let kit = Kit::of(&set());
    kit.has(POD, own_pod(&set(), "arena-0"));
    let replaced = Action::Delete(pod_ref("arena-0"), Departure::Replaced);
    act(&kit, tidegate_providers::game::GAME_STATEFUL_SET, vec![replaced]).await.unwrap();
    assert_eq!(kit.api.events()[0].0, "SuccessfulDelete", "of a set");
}

#[tokio::test(start_paused = true)]
async fn a_refused_write_is_recorded_and_becomes_a_refusal_of_its_kind() {
    let (scale, update) = (ConditionKind::FailedScale, ConditionKind::FailedUpdate);
    for action in all_actions() {
        let (kind, reason) = match &action {
            Action::Create(_) => (scale, "FailedCreate"),
            Action::Delete(_, Departure::Replaced) => (scale, "FailedUpdatePodReCreate"),
            Action::Delete(..) | Action::ForceDelete(_) => (scale, "FailedDelete"),
            Action::UpdateInPlace(_) | Action::ApplyGrace(_) | Action::SetGate(..) => {
                (update, "FailedUpdatePodInPlace")
            }
            Action::HotPatch(_) => (update, "FailedUpdatePodHotPatch"),
            _ => (update, "FailedUpdate"),
        };
        let kit = stage(&hooked(deployment()));
        for method in ["PATCH", "DELETE"] {
            kit.api.fail(method, "", 403);
        }
        for plural in ["/pods", "/hookruns"] {
            kit.api.fail("POST", plural, 403);
        }
        let name = format!("{action:?}");
        let acted = act(&kit, GAME_DEPLOYMENT, vec![action]).await.unwrap();
        assert!(!acted.is_stale, "{name}");
        assert_eq!(acted.refusals.len(), 1, "{name}");
        assert_eq!(acted.refusals[0].kind, kind, "{name}");
        let events = kit.api.events();
        assert_eq!(events.len(), 1, "{name}");
        assert_eq!((&*events[0].0, &*events[0].1), (reason, "Warning"), "{name}");
        assert_eq!(events[0].2, acted.refusals[0].message, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_rejection_is_recorded_once_and_one_refusal_of_a_kind_is_enough() {
    let kit = stage(&deployment());
    kit.api.fail("DELETE", "/pods", 403);
    let deletions = || {
        ["arena-a", "arena-b"]
            .map(|name| Action::Delete(pod_ref(name), Departure::Surplus))
            .into_iter()
            .collect()
    };
    let mut actor = Actor::default();
    for _ in 0..2 {
        let acted = act_as(&mut actor, &kit, GAME_DEPLOYMENT, deletions()).await.unwrap();
        assert_eq!(acted.refusals.len(), 1);
        assert!(acted.refusals[0].message.contains("arena-a was refused: as the test wants it"));
    }
    assert_eq!(kit.api.count_events("FailedDelete"), 2, "one for each pod, once");
    kit.api.fail("POST", "/pods", 403);
    let acted = act(&kit, GAME_DEPLOYMENT, vec![new_pod(None)]).await.unwrap();
    let message = &acted.refusals[0].message;
    assert!(message.contains("arena-* was refused"), "a made-up name is not told: {message}");
}

#[tokio::test(start_paused = true)]
async fn a_conflict_reads_the_object_again_and_says_stale() {
    let revision = format!("GET controllerrevisions/{}", revision_name(&deployment()));
    for action in all_actions() {
        let want = match &action {
            Action::Create(_) => None,
            Action::StartHook(start) => Some(format!("GET hookruns/{}", start.name)),
            Action::TerminateHook(_) | Action::DeleteHook(_) => Some("GET hookruns/run".to_owned()),
            Action::DropRevisions(_) => Some(revision.clone()),
            action => match action.scope() {
                Scope::Pod(_) => Some("GET pods/arena-a".to_owned()),
                Scope::Pods | Scope::Hooks | Scope::Release => {
                    Some("GET gamedeployments/arena".to_owned())
                }
            },
        };
        let kit = stage(&hooked(deployment()));
        for method in ["PATCH", "DELETE"] {
            kit.api.fail(method, "", 409);
        }
        for plural in ["/pods", "/hookruns"] {
            kit.api.fail("POST", plural, 409);
        }
        let name = format!("{action:?}");
        let acted = act(&kit, GAME_DEPLOYMENT, vec![action]).await.unwrap();
        assert!(acted.is_stale && acted.refusals.is_empty(), "{name}");
        assert!(kit.api.events().is_empty(), "{name}: a conflict is no event");
        let lines = kit.api.lines();
        let write = lines.iter().position(|line| !line.starts_with("GET")).unwrap();
        assert_eq!(lines.get(write + 1), want.as_ref(), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_in_trouble_and_a_lost_lease_end_it() {
    let actions = || vec![Action::Mark(pod_ref("arena-a")), Action::Mark(pod_ref("arena-b"))];
    let kit = stage(&deployment());
    kit.api.fail("PATCH", "/pods", 503);
    let outcome = act(&kit, GAME_DEPLOYMENT, actions()).await;
    assert!(matches!(outcome, Err(WriteError::Unavailable { .. })));
    assert_eq!(kit.api.lines(), ["PATCH pods/arena-a"], "nothing on top of it");
    let kit = stage(&deployment());
    kit.lose_lease();
    let outcome = act(&kit, GAME_DEPLOYMENT, actions()).await;
    assert!(matches!(outcome, Err(WriteError::NotLeading)));
    assert!(kit.api.calls().is_empty());
}

#[tokio::test(start_paused = true)]
async fn actions_that_depend_on_a_failed_one_are_left_out_and_others_go_on() {
    let announce = || Action::Announce(Fact::StepsChanged);
    let mark = |name: &str| Action::Mark(pod_ref(name));
    let unmark = |name: &str| Action::Unmark(pod_ref(name));
    let cases = [
        (
            "a pod: all that is left to do to it, and what is told of it",
            ("PATCH", "arena-a"),
            vec![mark("arena-a"), announce(), unmark("arena-a"), announce(), mark("arena-b")],
            vec!["PATCH pods/arena-a", "PATCH pods/arena-b"],
            0,
        ),
        (
            "an announcement about another pod is made",
            ("PATCH", "arena-a"),
            vec![mark("arena-a"), mark("arena-b"), announce()],
            vec!["PATCH pods/arena-a", "PATCH pods/arena-b"],
            1,
        ),
        (
            "only the announcement that comes next is left out",
            ("PATCH", "arena-a"),
            vec![mark("arena-a"), announce(), announce()],
            vec!["PATCH pods/arena-a"],
            1,
        ),
        (
            "new pods",
            ("POST", "/pods"),
            vec![new_pod(None), new_pod(None), mark("arena-b")],
            vec!["POST pods", "PATCH pods/arena-b"],
            0,
        ),
        (
            "runs",
            ("PATCH", "/hookruns"),
            vec![
                Action::TerminateHook("run".to_owned()),
                Action::DeleteHook("run".to_owned()),
                Action::SetPaused(true),
            ],
            vec!["PATCH hookruns/run", "PATCH gamedeployments/arena"],
            0,
        ),
        (
            "the release: everything",
            ("PATCH", "/gamedeployments"),
            vec![Action::SetPaused(true), announce(), mark("arena-a"), new_pod(None), announce()],
            vec!["PATCH gamedeployments/arena"],
            0,
        ),
    ];
    for (reason, (method, part), actions, want, told) in cases {
        let kit = stage(&deployment());
        kit.api.fail(method, part, 403);
        act(&kit, GAME_DEPLOYMENT, actions).await.unwrap();
        assert_eq!(kit.api.lines(), want, "{reason}");
        assert_eq!(kit.api.count_events("StepsChanged"), told, "{reason}");
    }
}

#[tokio::test(start_paused = true)]
async fn new_pods_have_different_names_that_no_pod_has_or_had() {
    let kit = stage(&deployment());
    act(&kit, GAME_DEPLOYMENT, vec![new_pod(None), new_pod(None), new_pod(None)]).await.unwrap();
    let posts = kit.api.calls();
    let names: BTreeSet<&str> =
        posts.iter().map(|it| it.body["metadata"]["name"].as_str().unwrap()).collect();
    assert_eq!(names.len(), 3, "{names:?}");
    for name in &names {
        let id = name.strip_prefix("arena-").unwrap();
        assert_eq!(id.len(), 5);
        assert!(id.bytes().all(|byte| new_pod::ID_LETTERS.contains(&byte)), "{id}");
    }
    act(&kit, GAME_DEPLOYMENT, (0..20).map(|_| new_pod(None)).collect()).await.unwrap();
    let late = |pod: &Value| {
        let name = pod["metadata"]["name"].as_str().unwrap_or_default();
        name.strip_prefix("arena-")
            .unwrap()
            .bytes()
            .any(|it| new_pod::ID_LETTERS[10..].contains(&it))
    };
    assert!(kit.api.list(POD).iter().any(late), "all letters are used");
    let workload = workload_ref(&kit, GAME_DEPLOYMENT);
    let mut observation = observation(&workload);
    let free = |observation: &Observation, created: BTreeSet<String>| {
        new_pod::free_name(&workload, observation, &created)
    };
    let first = free(&observation, BTreeSet::new());
    assert!(!names.contains(&*first), "the cache has those");
    let second = free(&observation, BTreeSet::from([first.clone()]));
    assert_ne!(first, second, "created by this decision");
    observation.observed.pods[0].name.clone_from(&first);
    assert_eq!(free(&observation, BTreeSet::new()), second, "seen by this look");
    kit.has(POD, pod(&second));
    let third = free(&observation, BTreeSet::new());
    assert!(third != first && third != second);
}

fn set_with_claims() -> Value {
    let claim = json!({ "metadata": { "name": "data" }, "spec": { "accessModes": [] } });
    with(set(), "/spec/volumeClaimTemplates", json!([claim]))
}

async fn create_numbered(kit: &Kit) -> Acted {
    act(kit, kind_of(&set()), vec![new_pod(Some(0))]).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn claims_are_created_before_the_pod() {
    let kit = Kit::of(&set_with_claims());
    create_numbered(&kit).await;
    assert_eq!(kit.api.lines(), ["POST persistentvolumeclaims", "POST pods"]);
    assert_eq!(kit.api.calls()[1].body["metadata"]["name"], "arena-0");
    let kit = Kit::of(&set_with_claims());
    kit.api.fail("POST", "/persistentvolumeclaims", 403);
    let acted = create_numbered(&kit).await;
    assert_eq!(acted.refusals[0].kind, ConditionKind::FailedScale);
    assert_eq!(kit.api.lines(), ["POST persistentvolumeclaims"], "no pod without its claim");
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_exists_stays_unless_it_is_being_deleted() {
    let claim = json!({ "metadata": { "name": "data-arena-0", "namespace": NAMESPACE } });
    let leaving = with(claim.clone(), "/metadata/deletionTimestamp", json!("2026-01-01T00:00:00Z"));
    let kit = Kit::of(&set_with_claims());
    kit.api.put(VOLUME_CLAIM, claim);
    let acted = create_numbered(&kit).await;
    assert!(!acted.is_stale && acted.refusals.is_empty());
    assert!(kit.cached(POD, "arena-0").is_some());
    let kit = Kit::of(&set_with_claims());
    kit.api.put(VOLUME_CLAIM, leaving);
    let acted = create_numbered(&kit).await;
    assert!(acted.refusals[0].message.contains("data-arena-0 is being deleted"));
    assert!(kit.cached(POD, "arena-0").is_none());
    let kit = Kit::of(&set_with_claims());
    kit.api.fail("POST", "/persistentvolumeclaims", 409);
    assert!(create_numbered(&kit).await.is_stale, "gone again");
}

#[tokio::test(start_paused = true)]
async fn a_taken_pod_name_is_refused_with_its_owner() {
    let deployed = |name: &str| owned(pod("arena-0"), GAME_DEPLOYMENT, name, "other-uid");
    let own = |name: &str| owned(pod("arena-0"), kind_of(&set()), name, "former-uid");
    let unlabelled = with(pod("arena-0"), "/metadata/labels", json!({}));
    let cases = [
        ("of another kind", deployed(NAME), Some("belongs to GameDeployment arena")),
        ("of another set", own("lobby"), Some("belongs to GameStatefulSet lobby")),
        ("of a former set of this name", own(NAME), None),
        ("an orphan that will be adopted", pod("arena-0"), None),
        ("an orphan that is not selected", unlabelled, Some("other labels than the selector")),
    ];
    for (reason, existing, want) in cases {
        let kit = Kit::of(&set());
        kit.api.put(POD, existing);
        let acted = create_numbered(&kit).await;
        assert_eq!(acted.is_stale, want.is_none(), "{reason}");
        if let Some(want) = want {
            let message = &acted.refusals[0].message;
            assert!(message.contains(want), "{reason}: {message}");
        } else {
            assert!(acted.refusals.is_empty(), "{reason}");
            assert!(kit.cached(POD, "arena-0").is_some(), "{reason}: it is read");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_of_an_unknown_revision_is_not_created() {
    let kit = stage(&deployment());
    let pod = NewPod { revision: Revision::new("gone"), ordinal: None, index: None };
    let acted = act(&kit, GAME_DEPLOYMENT, vec![Action::Create(pod)]).await.unwrap();
    assert!(acted.is_stale);
    assert!(kit.api.calls().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_has_another_uid_now_is_not_changed() {
    let kit = stage(&deployment());
    let other = PodRef { name: "arena-a".to_owned(), uid: "former".to_owned() };
    let acted = act(&kit, GAME_DEPLOYMENT, vec![Action::Mark(other)]).await.unwrap();
    assert!(acted.is_stale);
    assert_eq!(kit.api.lines(), ["GET pods/arena-a"]);
}

#[tokio::test(start_paused = true)]
async fn going_back_patches_only_the_differences() {
    let old = deployment();
    let mut new = with(old.clone(), "/spec/template/spec/hostNetwork", json!(true));
    new["spec"]["template"]["spec"]["containers"][0]["image"] = json!("game:2");
    let kit = Kit::of(&new);
    let former = with(crate::game::testing::revision_of(&old), "/revision", json!(0));
    kit.has(CONTROLLER_REVISION, former);
    let to = Revision::new(revision_name(&old));
    let back = Action::RestoreTemplate { to, from: Revision::new(revision_name(&new)) };
    act(&kit, GAME_DEPLOYMENT, vec![back]).await.unwrap();
    let body = kit.api.calls().pop().unwrap().body;
    let template = &body["spec"]["template"];
    assert_eq!(template["spec"]["hostNetwork"], Value::Null);
    assert!(template["spec"].as_object().unwrap().contains_key("hostNetwork"), "it is removed");
    assert_eq!(template["spec"]["containers"][0]["image"], "game:1");
    assert!(template["metadata"].get("labels").is_none(), "they are the same: {template}");
    let unknown = Action::RestoreTemplate { to: Revision::new("gone"), from: Revision::new("x") };
    let kit = Kit::of(&new);
    act(&kit, GAME_DEPLOYMENT, vec![unknown]).await.unwrap();
    assert!(kit.api.calls().is_empty());
}

#[test]
fn a_difference_is_the_merge_patch_from_one_value_to_the_other() {
    let cases = [
        (json!({ "a": 1 }), json!({ "a": 1 }), json!({})),
        (json!({ "a": 1 }), json!({ "a": 2 }), json!({ "a": 2 })),
        (json!({ "a": 1 }), json!({ "b": 1 }), json!({ "a": null, "b": 1 })),
        (
            json!({ "a": { "b": 1, "c": 2 } }),
            json!({ "a": { "b": 3, "c": 2 } }),
            json!({ "a": { "b": 3 } }),
        ),
        (json!({ "a": [1] }), json!({ "a": [2] }), json!({ "a": [2] })),
        (json!(null), json!({ "a": 1 }), json!({ "a": 1 })),
    ];
    for (old, new, want) in cases {
        assert_eq!(writer::difference(&old, &new), want, "{old} to {new}");
    }
}

#[tokio::test(start_paused = true)]
async fn pods_to_delete_lose_the_names_that_are_gone() {
    let listed = json!({ "podsToDelete": ["gone", "stays", "too"] });
    let kit = stage(&with(deployment(), "/spec/scaleStrategy", listed));
    let prune = Action::PrunePodsToDelete(vec!["gone".to_owned(), "too".to_owned()]);
    act(&kit, GAME_DEPLOYMENT, vec![prune]).await.unwrap();
    let left = kit.api.get(GAME_DEPLOYMENT, NAME)["spec"]["scaleStrategy"]["podsToDelete"].clone();
    assert_eq!(left, json!(["stays"]));
}

#[tokio::test(start_paused = true)]
async fn each_hook_has_its_own_retry() {
    for (kind, member) in [
        (HookKind::PreDelete, "preDeleteUpdateStrategy"),
        (HookKind::PreInPlace, "preInplaceUpdateStrategy"),
        (HookKind::PostInPlace, "postInplaceUpdateStrategy"),
    ] {
        let kit = stage(&deployment());
        act(&kit, GAME_DEPLOYMENT, vec![Action::ResetRetry(kind)]).await.unwrap();
        let want = json!({ member: { "retry": false } });
        assert_eq!(kit.api.calls()[0].body["spec"], want);
    }
}

#[tokio::test(start_paused = true)]
async fn writes_of_the_workload_build_on_each_other() {
    let kit = stage(&deployment());
    let actions = vec![Action::SetPaused(true), remember("paused"), Action::SetPaused(false)];
    let acted = act(&kit, GAME_DEPLOYMENT, actions).await.unwrap();
    assert!(!acted.is_stale, "each at the version of the one before");
    let object = kit.api.get(GAME_DEPLOYMENT, NAME);
    assert_eq!(object["spec"]["updateStrategy"]["paused"], false);
    assert_eq!(object["status"]["message"], "paused");
}

#[tokio::test(start_paused = true)]
async fn a_run_is_made_once() {
    let kit = stage(&deployment());
    let acted = act(&kit, GAME_DEPLOYMENT, vec![step_hook("run")]).await.unwrap();
    assert!(!acted.is_stale);
    assert_eq!(kit.api.lines(), ["GET hookruns/run"], "it is there and known");
    let kit = stage(&deployment());
    kit.api.put(HOOK_RUN, step_run("late"));
    let acted = act(&kit, GAME_DEPLOYMENT, vec![step_hook("late")]).await.unwrap();
    assert!(acted.is_stale, "it is there and was not known");
    assert!(kit.cached(HOOK_RUN, "late").is_some());
    assert!(!kit.api.lines().iter().any(|line| line.starts_with("POST")));
    let kit = stage(&deployment());
    kit.api.fail("POST", "/x", 500);
    let mut start = pod_hook("new", "arena-b");
    if let Action::StartHook(start) = &mut start {
        start.template = "missing".to_owned();
    }
    assert!(act(&kit, GAME_DEPLOYMENT, vec![start]).await.unwrap().is_stale, "no template");
}

#[tokio::test(start_paused = true)]
async fn a_run_for_a_pod_names_the_pod_and_its_revision() {
    let workload = hooked(deployment());
    let kit = stage(&workload);
    act(&kit, GAME_DEPLOYMENT, vec![pod_hook("new", "arena-b")]).await.unwrap();
    let metadata = kit.api.get(HOOK_RUN, "new")["metadata"].clone();
    assert_eq!(metadata["annotations"][names::RUN_POD], "arena-b");
    assert_eq!(metadata["labels"][names::RUN_REVISION], revision_name(&workload));
    assert_eq!(metadata["labels"][names::RUN_INSTANCE], "arena-b");
    kit.api.forget_calls();
    act(&kit, GAME_DEPLOYMENT, vec![step_hook("step")]).await.unwrap();
    let labels = kit.api.get(HOOK_RUN, "step")["metadata"]["labels"].clone();
    assert!(labels[names::RUN_INSTANCE].is_null());
}

#[tokio::test(start_paused = true)]
async fn runs_and_revisions_that_are_not_known_need_no_write() {
    let kit = stage(&deployment());
    let actions = vec![
        Action::TerminateHook("gone".to_owned()),
        Action::DeleteHook("gone".to_owned()),
        Action::DropRevisions(vec![Revision::new("gone")]),
    ];
    let acted = act(&kit, GAME_DEPLOYMENT, actions).await.unwrap();
    assert!(!acted.is_stale);
    assert!(kit.api.calls().is_empty());
}

#[tokio::test(start_paused = true)]
async fn writes_of_pods_and_runs_are_measured() {
    let a = || pod_ref("arena-a");
    let pods = "bkbcs_gamedeployment_pod";
    let cases: [(Action, bool, &str, &[&str]); 7] = [
        (new_pod(None), false, "_create_duration_seconds_count", &["status=\"success\""]),
        (
            Action::Delete(a(), Departure::Surplus),
            false,
            "_delete_duration_seconds_count",
            &["grace=\"false\""],
        ),
        (
            Action::Delete(a(), Departure::Surplus),
            true,
            "_delete_duration_seconds_count",
            &["grace=\"true\""],
        ),
        (Action::ForceDelete(a()), true, "_delete_duration_seconds_count", &["grace=\"true\""]),
        (
            Action::UpdateInPlace(change("arena-a")),
            true,
            "_update_duration_seconds_count",
            &["inplaceUpdate", "grace=\"true\""],
        ),
        (
            Action::HotPatch(change("arena-a")),
            false,
            "_update_duration_seconds_count",
            &["hotPatchUpdate", "grace=\"false\""],
        ),
        (Action::Mark(a()), true, "", &[]),
    ];
    for (action, has_hook, series, labels) in cases {
        let workload = if has_hook { hooked(deployment()) } else { deployment() };
        let kit = stage(&workload);
        let name = format!("{action:?}");
        act(&kit, GAME_DEPLOYMENT, vec![action]).await.unwrap();
        let found: Vec<String> =
            kit.metrics(pods).into_iter().filter(|line| line.contains("_count{")).collect();
        assert_eq!(found.len(), usize::from(!series.is_empty()), "{name}: {found:?}");
        for text in labels.iter().chain([&series]).filter(|_| !series.is_empty()) {
            assert!(found[0].contains(text), "{name}: {found:?}");
        }
    }
    let kit = stage(&deployment());
    kit.api.fail("POST", "/pods", 403);
    act(&kit, GAME_DEPLOYMENT, vec![new_pod(None)]).await.unwrap();
    let found = kit.metrics("bkbcs_gamedeployment_pod_create_duration_seconds_count");
    assert!(found[0].contains("status=\"failure\""), "{found:?}");
    let kit = stage(&deployment());
    act(&kit, GAME_DEPLOYMENT, vec![pod_hook("new", "arena-a")]).await.unwrap();
    let found = kit.metrics("bkbcs_gameworkload_hookrun_create_duration_seconds_count");
    assert!(found[0].contains("action=\"pre-delete-step\""), "{found:?}");
}

#[tokio::test(start_paused = true)]
async fn numbered_pods_in_conflict_are_read_by_their_number() {
    let kit = Kit::of(&set());
    kit.api.put(POD, own_pod(&set(), "arena-0"));
    let acted = create_numbered(&kit).await;
    assert!(acted.is_stale);
    assert_eq!(kit.api.lines(), ["POST pods", "GET pods/arena-0", "GET pods/arena-0"]);
}
