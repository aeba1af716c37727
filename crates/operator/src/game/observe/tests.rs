use serde_json::json;
use tidegate_engine::game::ConditionKind;
use tidegate_providers::game::GAME_STATEFUL_SET;

use super::*;
use crate::game::testing::{
    Kit, LISTED, NAME, NAMESPACE, UID, deployment, hook_template, key, kind_of, node, own_pod,
    owned, pod, revision_name, revision_of, set, step_run, with,
};

fn look(kit: &Kit, kind: Kind) -> Result<Observation, NotYet> {
    let refusals = [Refusal { kind: ConditionKind::FailedScale, message: "quota".to_owned() }];
    observe(&Env {
        kind,
        key: &key(),
        uid: UID,
        cluster: kit.cluster(),
        now: kit.now(),
        refusals: &refusals,
        collisions: 0,
    })
}

fn observed(kit: &Kit, kind: Kind) -> Observation {
    look(kit, kind).unwrap_or_else(|not_yet| panic!("not yet: {}", word(&not_yet)))
}

/// The outcome of a look, as a word.
fn word(not_yet: &NotYet) -> String {
    let name = |object: &Value| object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    match not_yet {
        NotYet::Gone => "gone".to_owned(),
        NotYet::Listing => "listing".to_owned(),
        NotYet::Unreadable(object, why) => format!("{} is unreadable: {why}", name(object)),
        NotYet::Adopt(kind, object) => format!("adopt {} {}", kind.kind, name(object)),
        NotYet::Release(pod) => format!("release {}", name(pod)),
        NotYet::Revise(revise) => match &revise.choice {
            RevisionChoice::Use(_) => "use".to_owned(),
            RevisionChoice::Renumber(name, number) => format!("renumber {name} to {number}"),
            RevisionChoice::Create { name, number, collisions } => {
                format!("create {name} as {number} after {collisions}")
            }
        },
    }
}

fn said(kit: &Kit, kind: Kind) -> String {
    match look(kit, kind) {
        Ok(observation) => {
            let names = observation.observed.pods.iter().map(|pod| pod.name.as_str());
            format!("pods {}", names.collect::<Vec<_>>().join(" "))
        }
        Err(not_yet) => word(&not_yet),
    }
}

fn pod_key(name: &str) -> (Kind, Key) {
    (POD, Key::new(NAMESPACE, name))
}

#[tokio::test(start_paused = true)]
async fn a_workload_that_is_not_there_or_has_another_uid_is_gone() {
    let kit = Kit::new();
    kit.listed(&LISTED);
    assert_eq!(said(&kit, GAME_DEPLOYMENT), "gone");
    let kit = Kit::of(&with(deployment(), "/metadata/uid", json!("another")));
    assert_eq!(said(&kit, GAME_DEPLOYMENT), "gone");
    let kit = Kit::of(&deployment());
    assert_eq!(said(&kit, GAME_DEPLOYMENT), "pods ");
}

#[tokio::test(start_paused = true)]
async fn every_kind_that_decides_about_a_workload_must_be_listed_first() {
    for missing in LISTED {
        let kit = Kit::new();
        kit.has(GAME_DEPLOYMENT, deployment());
        let others: Vec<Kind> = LISTED.into_iter().filter(|kind| *kind != missing).collect();
        kit.listed(&others);
        assert_eq!(said(&kit, GAME_DEPLOYMENT), "listing", "without {}", missing.kind);
    }
}

#[tokio::test(start_paused = true)]
async fn a_spec_that_cannot_be_read_is_named() {
    let kit = Kit::of(&with(deployment(), "/spec/replicas", json!("two")));
    let said = said(&kit, GAME_DEPLOYMENT);
    assert!(said.starts_with("arena is unreadable: the spec cannot be read"), "{said}");
}

#[tokio::test(start_paused = true)]
async fn the_oldest_of_workloads_with_one_selector_has_the_pods() {
    let rival = |created: &str, uid: &str, app: &str| {
        let mut rival = with(deployment(), "/metadata/name", json!("rival"));
        rival["metadata"]["creationTimestamp"] = json!(created);
        rival["metadata"]["uid"] = json!(uid);
        with(rival, "/spec/selector/matchLabels/app", json!(app))
    };
    let (older, same, younger) =
        ("2025-12-31T00:00:00Z", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z");
    let cases = [
        ("older", rival(older, "z", NAME), true),
        ("older, other pods", rival(older, "z", "lobby"), false),
        ("as old, smaller uid", rival(same, "a", NAME), true),
        ("as old, greater uid", rival(same, "z", NAME), false),
        ("younger", rival(younger, "a", NAME), false),
    ];
    for (reason, rival, yields) in cases {
        let kit = Kit::of(&deployment());
        kit.has(GAME_DEPLOYMENT, rival);
        kit.has(POD, pod("orphan"));
        if !yields {
            assert_eq!(said(&kit, GAME_DEPLOYMENT), "adopt Pod orphan", "{reason}");
            continue;
        }
        let Observation { observed, dependencies, .. } = observed(&kit, GAME_DEPLOYMENT);
        let problem = "GameDeployment rival is older and selects the same pods";
        assert_eq!(observed.problems, [problem], "{reason}");
        assert!(observed.pods.is_empty(), "{reason}: nothing is adopted");
        let rival = (GAME_DEPLOYMENT, Key::new(NAMESPACE, "rival"));
        assert!(dependencies.contains(&rival), "{reason}: its end wakes the workload");
    }
}

#[tokio::test(start_paused = true)]
async fn pods_are_owned_adopted_released_or_left_alone() {
    let own = |name: &str| own_pod(&deployment(), name);
    let unlabelled = |object: Value| with(object, "/metadata/labels", json!({}));
    let leaving =
        |object: Value| with(object, "/metadata/deletionTimestamp", json!("2026-01-01T00:00:00Z"));
    let phase = |object: Value, phase: &str| with(object, "/status/phase", json!(phase));
    let foreign = |name: &str| owned(pod(name), GAME_DEPLOYMENT, "lobby", "lobby-uid");
    let mere_owner = |uid: &str| {
        let mut object = owned(pod("a"), GAME_DEPLOYMENT, NAME, uid);
        object["metadata"]["ownerReferences"][0]["controller"] = json!(false);
        object
    };
    let cases = [
        ("its own", own("a"), "pods a"),
        ("its own, on its way out", leaving(own("a")), "pods a"),
        ("its own, ended", phase(own("a"), "Failed"), "pods a"),
        ("its own, not selected any more", unlabelled(own("a")), "release a"),
        ("not selected, but on its way out", leaving(unlabelled(own("a"))), "pods a"),
        ("another workload's", foreign("a"), "pods "),
        ("an orphan", pod("a"), "adopt Pod a"),
        ("an orphan that is not selected", unlabelled(pod("a")), "pods "),
        ("an orphan on its way out", leaving(pod("a")), "pods "),
        ("an orphan that failed", phase(pod("a"), "Failed"), "pods "),
        ("an orphan that is done", phase(pod("a"), "Succeeded"), "pods "),
        ("owned, and controlled by none", mere_owner(UID), "adopt Pod a"),
    ];
    for (reason, object, want) in cases {
        let kit = Kit::of(&deployment());
        kit.has(POD, object);
        assert_eq!(said(&kit, GAME_DEPLOYMENT), want, "{reason}");
    }
}

#[tokio::test(start_paused = true)]
async fn pods_of_a_set_have_its_name_and_a_number() {
    let own = |name: &str| own_pod(&set(), name);
    let unlabelled = |object: Value| with(object, "/metadata/labels", json!({}));
    let cases = [
        ("numbered", own("arena-0"), "pods arena-0"),
        ("without a number", own("arena-x"), "pods "),
        ("of another set", own("lobby-0"), "pods "),
        ("without a hyphen", own("arena"), "pods "),
        ("numbered, not selected any more", unlabelled(own("arena-0")), "pods arena-0"),
        ("an orphan with a number", pod("arena-1"), "adopt Pod arena-1"),
        ("an orphan without", pod("arena-x"), "pods "),
        (
            "an ended orphan has a number",
            with(pod("arena-1"), "/status/phase", json!("Failed")),
            "adopt Pod arena-1",
        ),
    ];
    for (reason, object, want) in cases {
        let kit = Kit::of(&set());
        kit.has(POD, object);
        assert_eq!(said(&kit, GAME_STATEFUL_SET), want, "{reason}");
    }
}

#[tokio::test(start_paused = true)]
async fn pods_are_sorted_by_name_and_know_their_node() {
    let kit = Kit::of(&set());
    kit.has(NODE, node("one"));
    let forced = |object: Value| {
        with(object, "/metadata/annotations", json!({ names::FORCE_DELETE: "true" }))
    };
    let on = |object: Value, node: &str| with(object, "/spec/nodeName", json!(node));
    // Sorted by uid they are the other way round.
    kit.has(POD, with(on(own_pod(&set(), "arena-0"), "one"), "/metadata/uid", json!("z")));
    kit.has(POD, with(forced(on(own_pod(&set(), "arena-1"), "lost")), "/metadata/uid", json!("a")));
    let pods = observed(&kit, GAME_STATEFUL_SET).observed.pods;
    let seen: Vec<_> = pods.iter().map(|pod| (&*pod.name, pod.ordinal, pod.node_cost)).collect();
    assert_eq!(seen, [("arena-0", Some(0), Some(7.0)), ("arena-1", Some(1), None)]);
    assert_ne!(pods[0].node, pods[1].node, "a node that is gone is told apart");
    let kit = Kit::of(&deployment());
    kit.has(POD, own_pod(&deployment(), "arena-0"));
    assert_eq!(observed(&kit, GAME_DEPLOYMENT).observed.pods[0].ordinal, None);
}

#[tokio::test(start_paused = true)]
async fn a_deleted_workload_adopts_and_releases_and_creates_nothing() {
    let deleted = with(deployment(), "/metadata/deletionTimestamp", json!("2026-01-01T00:00:00Z"));
    let kit = Kit::new();
    kit.has(GAME_DEPLOYMENT, deleted.clone());
    kit.listed(&LISTED);
    kit.has(POD, pod("orphan"));
    kit.has(POD, with(own_pod(&deleted, "a"), "/metadata/labels", json!({})));
    let observation = observed(&kit, GAME_DEPLOYMENT);
    assert!(observation.observed.is_deleted);
    assert_eq!(observation.observed.update.as_str(), revision_name(&deleted));
    assert_eq!(said(&kit, GAME_DEPLOYMENT), "pods a");
}

#[tokio::test(start_paused = true)]
async fn the_revision_of_the_template_comes_first() {
    let (workload, name) = (deployment(), revision_name(&deployment()));
    let own = revision_of(&workload);
    let numbered = |number: i64| with(own.clone(), "/revision", json!(number));
    let newer = {
        let template = json!({ "metadata": { "labels": { "app": NAME } }, "spec": {} });
        let newer = revision_of(&with(workload.clone(), "/spec/template", template));
        with(newer, "/revision", json!(5))
    };
    let foreign = owned(numbered(1), GAME_DEPLOYMENT, "lobby", "lobby-uid");
    let orphan = with(numbered(1), "/metadata/ownerReferences", json!([]));
    let unselected = with(orphan.clone(), "/metadata/labels", json!({}));
    let create = format!("create {name} as 1 after 0");
    let cases = [
        ("it is the newest", vec![numbered(1)], "pods ".to_owned()),
        ("there is none", vec![], create.clone()),
        ("a newer one", vec![numbered(1), newer.clone()], format!("renumber {name} to 6")),
        ("another workload's", vec![foreign], create.clone()),
        ("an orphan", vec![orphan], format!("adopt ControllerRevision {name}")),
        ("an orphan that is not selected", vec![unselected], create),
    ];
    for (reason, revisions, want) in cases {
        let kit = Kit::new();
        kit.has(GAME_DEPLOYMENT, workload.clone());
        kit.listed(&LISTED);
        for revision in revisions {
            kit.has(CONTROLLER_REVISION, revision);
        }
        assert_eq!(said(&kit, GAME_DEPLOYMENT), want, "{reason}");
    }
    let invalid = with(workload, "/spec/updateStrategy/canary", json!({ "steps": [{}] }));
    let kit = Kit::new();
    kit.has(GAME_DEPLOYMENT, invalid);
    kit.listed(&LISTED);
    kit.has(CONTROLLER_REVISION, newer);
    let observation = observed(&kit, GAME_DEPLOYMENT);
    assert_eq!(observation.observed.problems.len(), 1, "a workload with problems gets none");
    assert_eq!(observation.observed.update.as_str(), name, "and is told its name all the same");
}

#[tokio::test(start_paused = true)]
async fn a_revision_to_be_written_comes_with_its_workload_and_data() {
    let kit = Kit::new();
    kit.has(GAME_DEPLOYMENT, deployment());
    kit.listed(&LISTED);
    let Err(NotYet::Revise(revise)) = look(&kit, GAME_DEPLOYMENT) else { panic!("no revision") };
    assert_eq!(revise.workload["metadata"]["uid"], UID);
    assert_eq!(revise.data, revision::data(&deployment()["spec"]["template"]));
}

#[tokio::test(start_paused = true)]
async fn the_larger_count_of_collisions_names_the_revision() {
    for (stored, met, want) in [(0, 0, 0), (2, 0, 2), (0, 3, 3), (2, 3, 3), (4, 3, 4)] {
        let kit = Kit::new();
        kit.has(GAME_DEPLOYMENT, with(deployment(), "/status/collisionCount", json!(stored)));
        kit.listed(&LISTED);
        let (key, cluster, now) = (key(), kit.cluster(), kit.now());
        let env = Env {
            kind: GAME_DEPLOYMENT,
            key: &key,
            uid: UID,
            cluster,
            now,
            refusals: &[],
            collisions: met,
        };
        let Err(NotYet::Revise(revise)) = observe(&env) else { panic!("no revision") };
        let RevisionChoice::Create { collisions, .. } = revise.choice else { panic!("not new") };
        assert_eq!(collisions, want, "{stored} stored, {met} met");
    }
}

#[tokio::test(start_paused = true)]
async fn runs_of_the_workload_are_its_own_and_all_other_names_are_taken() {
    let kit = Kit::of(&deployment());
    let of = |name: &str, uid: &str| owned(step_run(name), GAME_DEPLOYMENT, NAME, uid);
    kit.has(HOOK_RUN, of("own", UID));
    kit.has(HOOK_RUN, of("foreign", "lobby-uid"));
    kit.has(HOOK_RUN, step_run("orphan"));
    kit.has(HOOK_RUN, with(of("unlabelled", UID), "/metadata/labels", json!({})));
    let observation = observed(&kit, GAME_DEPLOYMENT);
    let runs: Vec<&String> = observation.runs.keys().collect();
    assert_eq!(runs, ["own"]);
    assert_eq!(observation.observed.runs.len(), 1);
    let taken: Vec<&String> = observation.observed.taken.iter().collect();
    assert_eq!(taken, ["foreign", "orphan", "unlabelled"]);
}

/// A workload whose steps and hooks of pods name these templates.
fn with_hooks(step: &str, pre_delete: &str) -> Value {
    let steps = json!({ "steps": [{ "partition": 1 }, { "hook": { "templateName": step } }] });
    let hooked = with(deployment(), "/spec/updateStrategy/canary", steps);
    let hook = json!({ "hook": { "templateName": pre_delete } });
    with(hooked, "/spec/preDeleteUpdateStrategy", hook)
}

#[tokio::test(start_paused = true)]
async fn templates_that_the_plan_names_are_observed() {
    let kit = Kit::of(&with_hooks("check", "drain"));
    for name in ["check", "drain", "other"] {
        kit.has(HOOK_TEMPLATE, hook_template(name));
    }
    let observation = observed(&kit, GAME_DEPLOYMENT);
    let names: Vec<&String> = observation.templates.keys().collect();
    assert_eq!(names, ["check", "drain"]);
    let known: Vec<&String> = observation.observed.templates.keys().collect();
    assert_eq!(known, ["check", "drain"]);
    assert_eq!(observation.observed.refusals.len(), 1, "refusals are passed on");
    assert_eq!(observation.observed.now, kit.now());
}

#[tokio::test(start_paused = true)]
async fn a_workload_depends_on_all_that_was_looked_at() {
    let workload = with_hooks("check", "missing");
    let kit = Kit::of(&workload);
    kit.has(HOOK_TEMPLATE, hook_template("check"));
    let on_node = |name: &str| with(own_pod(&workload, name), "/spec/nodeName", json!("one"));
    let forced = |object: Value, answer: &str| {
        with(object, "/metadata/annotations", json!({ names::FORCE_DELETE: answer }))
    };
    kit.has(POD, on_node("a"));
    let of_object = |kind: Kind, name: &str| (kind, Key::new(NAMESPACE, name));
    let run = owned(step_run("run"), kind_of(&workload), NAME, UID);
    kit.has(HOOK_RUN, run);
    let mut want = BTreeSet::from([
        pod_key("a"),
        of_object(HOOK_RUN, "run"),
        of_object(CONTROLLER_REVISION, &revision_name(&workload)),
        of_object(HOOK_TEMPLATE, "check"),
        of_object(HOOK_TEMPLATE, "missing"),
    ]);
    assert_eq!(observed(&kit, GAME_DEPLOYMENT).dependencies, want, "no node");
    kit.has(POD, forced(on_node("b"), "false"));
    want.insert(pod_key("b"));
    assert_eq!(observed(&kit, GAME_DEPLOYMENT).dependencies, want, "no node either");
    kit.has(POD, forced(with(on_node("c"), "/spec/nodeName", json!("")), "true"));
    want.insert(pod_key("c"));
    assert_eq!(observed(&kit, GAME_DEPLOYMENT).dependencies, want, "on no node yet");
    kit.has(POD, forced(on_node("d"), "true"));
    want.extend([pod_key("d"), (NODE, Key::new("", "one"))]);
    assert_eq!(observed(&kit, GAME_DEPLOYMENT).dependencies, want, "a pod that may be forced");
}
