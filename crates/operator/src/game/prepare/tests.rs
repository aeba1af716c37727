use std::sync::Arc;

use serde_json::json;
use tidegate_engine::Revision;
use tidegate_providers::game::GAME_DEPLOYMENT;

use super::*;
use crate::game::testing::{
    Kit, NAME, NAMESPACE, UID, deployment, key, own_pod, owned, pod, revision_of, step_run, with,
};

fn workload(kit: &Kit) -> WorkloadRef {
    let (cx, uid) = (Arc::clone(&kit.cx), UID.to_owned());
    WorkloadRef { cx, kind: GAME_DEPLOYMENT, key: key(), uid }
}

#[tokio::test(start_paused = true)]
async fn an_orphan_gets_the_workload_as_its_controller_beside_its_other_owners() {
    let kit = Kit::of(&deployment());
    let other = json!({ "uid": "other", "kind": "Match", "name": "m", "apiVersion": "v1" });
    kit.has(POD, with(pod("a"), "/metadata/ownerReferences", json!([other])));
    let orphan = kit.cached(POD, "a").unwrap();
    adopt(&workload(&kit), POD, &orphan).await.unwrap();
    assert_eq!(kit.api.lines(), ["GET gamedeployments/arena", "PATCH pods/a"]);
    let patch = &kit.api.calls()[1].body["metadata"];
    assert_eq!(patch["uid"], "a-uid");
    assert_eq!(patch["resourceVersion"], orphan["metadata"]["resourceVersion"]);
    assert_eq!(patch["ownerReferences"][0], other);
    let owner = &patch["ownerReferences"][1];
    assert_eq!((&owner["uid"], &owner["controller"]), (&json!(UID), &json!(true)));
    assert_eq!(owner["kind"], "GameDeployment");
}

#[tokio::test(start_paused = true)]
async fn a_workload_that_is_gone_or_going_adopts_nothing() {
    let deleted = json!("2026-01-01T00:00:00Z");
    let cases = [
        ("gone", None),
        ("another of its name", Some(with(deployment(), "/metadata/uid", json!("another")))),
        ("on its way out", Some(with(deployment(), "/metadata/deletionTimestamp", deleted))),
    ];
    for (reason, live) in cases {
        let kit = Kit::of(&deployment());
        kit.has(POD, pod("a"));
        match live {
            Some(live) => drop(kit.api.put(GAME_DEPLOYMENT, live)),
            None => kit.api.remove(GAME_DEPLOYMENT, NAME),
        }
        let outcome = adopt(&workload(&kit), POD, &kit.cached(POD, "a").unwrap()).await;
        assert!(matches!(outcome, Err(WriteError::Missing { .. })), "{reason}");
        assert_eq!(kit.api.lines(), ["GET gamedeployments/arena"], "{reason}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_released_pod_keeps_its_other_owners() {
    let kit = Kit::of(&deployment());
    let mut object = own_pod(&deployment(), "a");
    let other = json!({ "uid": "other", "kind": "Match", "name": "m", "apiVersion": "v1" });
    object["metadata"]["ownerReferences"].as_array_mut().unwrap().push(other.clone());
    kit.has(POD, object);
    release(&workload(&kit), &kit.cached(POD, "a").unwrap()).await.unwrap();
    assert_eq!(kit.api.lines(), ["PATCH pods/a"]);
    assert_eq!(kit.api.get(POD, "a")["metadata"]["ownerReferences"], json!([other]));
}

fn revise_to(choice: RevisionChoice) -> Revise {
    let data = revision::data(&deployment()["spec"]["template"]);
    Revise { workload: Arc::new(deployment()), choice, data }
}

#[tokio::test(start_paused = true)]
async fn a_revision_is_renumbered_at_the_version_that_was_seen() {
    let kit = Kit::of(&deployment());
    let known = revision_of(&deployment());
    let name = known["metadata"]["name"].as_str().unwrap();
    let choice = RevisionChoice::Renumber(Revision::new(name), 7);
    assert_eq!(revise(&workload(&kit), &revise_to(choice.clone())).await.unwrap(), None);
    assert_eq!(kit.api.lines(), [format!("PATCH controllerrevisions/{name}")]);
    let body = &kit.api.calls()[0].body;
    assert_eq!(body["revision"], 7);
    assert!(body["metadata"]["resourceVersion"].is_string());
    let other = with(known.clone(), "/metadata/resourceVersion", json!("9999"));
    kit.api.put(CONTROLLER_REVISION, other);
    let outcome = revise(&workload(&kit), &revise_to(choice)).await;
    assert!(matches!(outcome, Err(WriteError::Conflict { .. })), "changed in the meantime");
}

#[tokio::test(start_paused = true)]
async fn a_revision_that_is_in_use_is_not_written() {
    let kit = Kit::of(&deployment());
    let choice = RevisionChoice::Use(Revision::new("arena-1"));
    assert_eq!(revise(&workload(&kit), &revise_to(choice)).await.unwrap(), None);
    assert!(kit.api.calls().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_new_revision_is_created_and_a_taken_name_counts_as_a_collision() {
    let choice =
        || RevisionChoice::Create { name: Revision::new("arena-1"), number: 3, collisions: 4 };
    let taken = |uid: &str| {
        let object = with(revision_of(&deployment()), "/metadata/name", json!("arena-1"));
        owned(object, GAME_DEPLOYMENT, NAME, uid)
    };
    let cases = [
        ("a free name", None, None, 1),
        ("a name of another workload", Some(taken("lobby-uid")), Some(5), 2),
        ("a name of its own that was not in the cache", Some(taken(UID)), None, 2),
    ];
    for (reason, existing, want, requests) in cases {
        let kit = Kit::new();
        if let Some(existing) = existing {
            kit.api.put(CONTROLLER_REVISION, existing);
        }
        let collisions = revise(&workload(&kit), &revise_to(choice())).await.unwrap();
        assert_eq!(collisions, want, "{reason}");
        assert_eq!(kit.api.calls().len(), requests, "{reason}");
        assert!(kit.cached(CONTROLLER_REVISION, "arena-1").is_some(), "{reason}");
        let body = &kit.api.calls()[0].body;
        assert_eq!((&body["revision"], &body["kind"]), (&json!(3), &json!("ControllerRevision")));
    }
    let kit = Kit::new();
    kit.api.fail("POST", "/controllerrevisions", 409);
    let outcome = revise(&workload(&kit), &revise_to(choice())).await;
    assert_eq!(outcome.unwrap(), None, "the other one is gone again");
    kit.api.repair();
    kit.api.fail("POST", "/controllerrevisions", 403);
    let outcome = revise(&workload(&kit), &revise_to(choice())).await;
    assert!(matches!(outcome, Err(WriteError::Refused { .. })));
}

#[tokio::test(start_paused = true)]
async fn a_refresh_learns_what_is_there_and_forgets_own_objects_that_are_not() {
    let kit = Kit::of(&deployment());
    let own = |name: &str| own_pod(&deployment(), name);
    kit.has(POD, own("stays"));
    kit.has(POD, own("went"));
    kit.has(POD, owned(pod("foreign"), GAME_DEPLOYMENT, "lobby", "lobby-uid"));
    kit.has(POD, pod("orphan"));
    for name in ["went", "foreign", "orphan"] {
        kit.api.remove(POD, name);
    }
    kit.api.put(POD, own("new"));
    kit.api.put(HOOK_RUN, step_run("run"));
    refresh(&workload(&kit)).await.unwrap();
    for (name, is_known) in
        [("stays", true), ("new", true), ("went", false), ("foreign", true), ("orphan", true)]
    {
        assert_eq!(kit.cached(POD, name).is_some(), is_known, "{name}");
    }
    assert!(kit.cached(HOOK_RUN, "run").is_some());
    let queries: Vec<String> =
        kit.api.calls().iter().map(|call| format!("{}?{}", call.path, call.query)).collect();
    let namespace = format!("/namespaces/{NAMESPACE}");
    assert_eq!(queries.len(), 4);
    assert!(queries[0].ends_with("/gamedeployments/arena?"), "{queries:?}");
    assert_eq!(queries[1], format!("/api/v1{namespace}/pods?labelSelector=app%3Darena"));
    assert!(queries[2].ends_with("/controllerrevisions?labelSelector=app%3Darena"), "{queries:?}");
    assert!(queries[3].ends_with("/hookruns?labelSelector=hookrun%2Dtype"), "{queries:?}");
}

#[tokio::test(start_paused = true)]
async fn a_workload_that_is_gone_is_forgotten_by_a_refresh() {
    let kit = Kit::of(&deployment());
    kit.api.remove(GAME_DEPLOYMENT, NAME);
    refresh(&workload(&kit)).await.unwrap();
    assert!(kit.cached(GAME_DEPLOYMENT, NAME).is_none());
    assert_eq!(kit.api.lines(), ["GET gamedeployments/arena"]);
}
