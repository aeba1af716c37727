use proptest::prelude::*;

use super::*;
use crate::{
    object::Owner,
    workload::{
        LabelPrefixes,
        config::references,
        testing::{applied, applied_all},
    },
};

const OWNER: Owner<'static> =
    Owner { name: "shop", namespace: "test", uid: "u-shop", can_own: true };

/// Calls `run` with the inputs of a canary of `shop`.
fn with_cx<T>(prefixes: &str, run: impl FnOnce(&Cx<'_>) -> T) -> T {
    let keys = ["app", "name", "app.kubernetes.io/name"].map(str::to_owned);
    let included = LabelPrefixes::parse(prefixes);
    run(&Cx {
        owner: OWNER,
        workload: WorkloadKind::Deployment,
        target: "shop",
        selector_labels: &keys,
        included: &included,
    })
}

fn target() -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {
            "name": "shop", "namespace": "test", "uid": "u-1", "resourceVersion": "10",
            "labels": { "app": "shop", "team.io/name": "checkout",
                "kustomize.toolkit.fluxcd.io/name": "apps" },
            "annotations": { "team.io/pager": "on", "note": "mine",
                "kubectl.kubernetes.io/last-applied-configuration": "{}",
                "deployment.kubernetes.io/revision": "4" },
        },
        "spec": {
            "replicas": 3, "progressDeadlineSeconds": 60, "revisionHistoryLimit": 10,
            "minReadySeconds": 5, "paused": true,
            "strategy": { "type": "RollingUpdate", "rollingUpdate": { "maxSurge": 1 } },
            "selector": { "matchLabels": { "app": "shop", "tier": "web" } },
            "template": {
                "metadata": { "creationTimestamp": null,
                    "labels": { "app": "shop", "tier": "web" },
                    "annotations": { "scrape": "true" } },
                "spec": {
                    "containers": [{ "name": "app", "image": "shop:1", "envFrom": [
                        { "configMapRef": { "name": "settings" } },
                        { "secretRef": { "name": "key" } },
                    ] }],
                    "topologySpreadConstraints": [
                        { "labelSelector": { "matchLabels": { "app": "shop" } } },
                    ],
                },
            },
        },
    })
}

fn tracked() -> Tracked {
    Tracked::from([("configmap/settings".to_owned(), "0011223344556677".to_owned())])
}

fn body(change: &Change) -> &Value {
    match change {
        Change::Apply { body, .. } => body,
        other => panic!("an apply, not {other:?}"),
    }
}

/// The primary as it is after the canary was initialized.
fn primary() -> Value {
    let made = with_cx("", |cx| create_primary(cx, &target(), &tracked())).unwrap();
    applied(None, &made).unwrap()
}

fn newer_target() -> Value {
    let mut target = target();
    target["spec"]["template"]["spec"]["containers"][0]["image"] = json!("shop:2");
    target
}

fn promoted(prefixes: &str, target: &Value, live: &Value, has_scaler: bool) -> Option<Change> {
    let revision = WorkloadKind::Deployment.revision(target);
    let promotion = Promotion { revision: &revision, tracked: &tracked(), has_scaler };
    with_cx(prefixes, |cx| promote(cx, target, live, &promotion)).unwrap()
}

#[test]
fn the_selector_label_is_the_first_known_one() {
    let cases = [
        ("by the first", json!({ "app": "a", "name": "b" }), Some(("app", "a"))),
        (
            "by the last",
            json!({ "app.kubernetes.io/name": "c", "x": "y" }),
            Some(("app.kubernetes.io/name", "c")),
        ),
        ("by none", json!({ "x": "y" }), None),
        ("by nothing", Value::Null, None),
    ];
    for (reason, labels, want) in cases {
        let target = json!({ "spec": { "selector": { "matchLabels": labels } } });
        let found = with_cx("", |cx| SelectorLabel::of(cx, &target));
        let want = want.map(|(key, value)| (key.to_owned(), value.to_owned()));
        assert_eq!(found.ok().map(|label| (label.key, label.value)), want, "{reason}");
    }
    let error = with_cx("", |cx| SelectorLabel::of(cx, &json!({}))).unwrap_err().to_string();
    assert!(
        error.contains("`shop`") && error.contains("app, name, app.kubernetes.io/name"),
        "{error}"
    );
}

#[test]
fn the_primary_is_a_copy_that_is_told_apart_by_one_label() {
    let change = with_cx("team.io/", |cx| create_primary(cx, &target(), &tracked())).unwrap();
    let id = flagger_id(&WorkloadKind::Deployment.revision(&target()), &tracked());
    let want = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {
            "name": "shop-primary", "namespace": "test",
            "labels": { "app": "shop-primary", "team.io/name": "checkout" },
            "annotations": { "team.io/pager": "on", "note": "mine" },
            "ownerReferences": OWNER.references(),
        },
        "spec": {
            "replicas": 3, "progressDeadlineSeconds": 60, "revisionHistoryLimit": 10,
            "minReadySeconds": 5,
            "strategy": { "type": "RollingUpdate", "rollingUpdate": { "maxSurge": 1 } },
            "selector": { "matchLabels": { "app": "shop-primary" } },
            "template": {
                "metadata": {
                    "labels": { "app": "shop-primary", "tier": "web" },
                    "annotations": { "scrape": "true", "flagger-id": id },
                },
                "spec": {
                    "containers": [{ "name": "app", "image": "shop:1", "envFrom": [
                        { "configMapRef": { "name": "settings-primary" } },
                        { "secretRef": { "name": "key" } },
                    ] }],
                    "topologySpreadConstraints": [
                        { "labelSelector": { "matchLabels": { "app": "shop-primary" } } },
                    ],
                },
            },
        },
    });
    assert_eq!(*body(&change), want);
    let mut parked = target();
    parked["spec"]["replicas"] = json!(0);
    let change = with_cx("", |cx| create_primary(cx, &parked, &tracked())).unwrap();
    assert_eq!(body(&change)["spec"]["replicas"], 1, "never made with none");
}

#[test]
fn identifiers_are_uuids_that_follow_revision_and_configuration() {
    let id = flagger_id("v1-0", &tracked());
    let lengths: Vec<_> = id.split('-').map(str::len).collect();
    assert_eq!(lengths, [8, 4, 4, 4, 12]);
    assert!(id.bytes().all(|byte| byte == b'-' || byte.is_ascii_hexdigit()), "{id}");
    assert_eq!(id.as_bytes()[14], b'8', "version 8: {id}");
    assert_eq!(id, flagger_id("v1-0", &tracked()), "the same again");
    assert_ne!(id, flagger_id("v1-1", &tracked()), "another revision");
    assert_ne!(id, flagger_id("v1-0", &Tracked::new()), "other configuration");
}

#[test]
fn promotion_replaces_the_template_and_the_metadata() {
    let mut live = primary();
    live["spec"]["template"]["spec"]["hostNetwork"] = json!(true);
    live["metadata"]["annotations"]["deployment.kubernetes.io/revision"] = json!("9");
    let change = promoted("team.io/", &newer_target(), &live, false).unwrap();
    let Change::Apply { body, exact } = &change else { panic!("an apply") };
    assert_eq!(
        body["metadata"]["labels"],
        json!({ "app": "shop-primary", "team.io/name": "checkout" })
    );
    assert_eq!(body["metadata"]["annotations"], json!({ "team.io/pager": "on" }));
    assert_eq!(body["metadata"]["resourceVersion"], live["metadata"]["resourceVersion"]);
    assert!(exact.contains(&"/spec/template".into()));
    let after = applied(Some(&live), &change).unwrap();
    assert_eq!(after["spec"]["template"]["spec"].get("hostNetwork"), None, "never analysed");
    assert_eq!(after["spec"]["template"]["spec"]["containers"][0]["image"], "shop:2");
    let foreign = &after["metadata"]["annotations"]["deployment.kubernetes.io/revision"];
    assert_eq!(foreign, "9", "what others wrote survives");
}

#[test]
fn promotion_does_not_copy_replicas_from_a_parked_target_or_against_a_scaler() {
    let cases = [
        ("the target's", 5, false, 5),
        ("a parked target says nothing", 0, false, 7),
        ("a scaler decides", 5, true, 7),
        ("a scaler decides, whatever the target", 0, true, 7),
    ];
    for (reason, replicas, has_scaler, want) in cases {
        let (mut target, mut live) = (newer_target(), primary());
        target["spec"]["replicas"] = json!(replicas);
        live["spec"]["replicas"] = json!(7);
        let change = promoted("", &target, &live, has_scaler).unwrap();
        assert_eq!(applied(Some(&live), &change).unwrap()["spec"]["replicas"], want, "{reason}");
    }
}

#[test]
fn promoting_twice_restarts_nothing() {
    let target = newer_target();
    let live = applied(Some(&primary()), &promoted("*", &target, &primary(), false).unwrap());
    let mut live = live.unwrap();
    assert_eq!(promoted("*", &target, &live, false), None);
    // As the API server returns it.
    live["spec"].as_object_mut().unwrap().remove("minReadySeconds");
    let mut unset = target.clone();
    unset["spec"].as_object_mut().unwrap().remove("minReadySeconds");
    assert_eq!(promoted("*", &unset, &live, false), None, "0 and nothing are the same");
}

#[test]
fn an_unanalysed_revision_is_not_promoted() {
    let analysed = WorkloadKind::Deployment.revision(&target());
    let promotion = Promotion { revision: &analysed, tracked: &tracked(), has_scaler: false };
    let refused = with_cx("", |cx| promote(cx, &newer_target(), &primary(), &promotion));
    assert_eq!(refused.unwrap_err().label(), "TargetMoved");
    let refused = with_cx("", |cx| Snapshot::of(cx, &newer_target(), &promotion, 3));
    assert_eq!(refused.unwrap_err().label(), "TargetMoved");
}

#[test]
fn a_users_deployment_of_the_name_is_not_overwritten() {
    let cases = [
        ("nobody's", json!([]), "NotOurs"),
        (
            "another kind's",
            json!([{ "kind": "App", "name": "shop", "controller": true }]),
            "NotOurs",
        ),
        (
            "another canary's",
            json!([{ "kind": "Canary", "name": "cart", "controller": true }]),
            "OfAnotherCanary",
        ),
    ];
    let revision = WorkloadKind::Deployment.revision(&target());
    let promotion = Promotion { revision: &revision, tracked: &tracked(), has_scaler: false };
    for (reason, owners, want) in cases {
        let mut live = primary();
        live["metadata"]["ownerReferences"] = owners;
        let refused = with_cx("", |cx| promote(cx, &target(), &live, &promotion)).unwrap_err();
        assert_eq!(refused.label(), want, "{reason}");
        assert!(refused.to_string().contains("Deployment `shop-primary`"), "{refused}");
    }
}

#[test]
fn a_canary_made_again_takes_its_primary_back() {
    let mut live = primary();
    live["metadata"]["ownerReferences"][0]["uid"] = json!("u-earlier");
    let change = promoted("", &target(), &live, false).unwrap();
    let after = applied(Some(&live), &change).unwrap();
    assert_eq!(after["metadata"]["ownerReferences"], json!(OWNER.references()));
}

#[test]
fn a_primary_that_would_lose_its_pods_is_not_promoted() {
    let mut live = primary();
    live["spec"]["selector"] = json!({ "matchLabels": { "app": "old-primary" } });
    let revision = WorkloadKind::Deployment.revision(&target());
    let promotion = Promotion { revision: &revision, tracked: &tracked(), has_scaler: false };
    let refused = with_cx("", |cx| promote(cx, &target(), &live, &promotion));
    assert_eq!(refused.unwrap_err().label(), "SelectorChanged");
}

#[test]
fn a_primary_runs_the_same_with_any_identifier() {
    let template = with_cx("", |cx| primary_template(cx, &target(), &tracked())).unwrap();
    let mut live = primary();
    assert!(runs_same(&live, &template));
    live["spec"]["template"]["metadata"]["annotations"][FLAGGER_ID] = json!("flaggers-own");
    live["spec"]["template"]["spec"]["nodeSelector"] = json!({});
    assert!(runs_same(&live, &template));
    let newer = with_cx("", |cx| primary_template(cx, &newer_target(), &tracked())).unwrap();
    assert!(!runs_same(&live, &newer));
    let untracked = with_cx("", |cx| primary_template(cx, &target(), &Tracked::new())).unwrap();
    assert!(!runs_same(&live, &untracked), "it reads other configuration");
    assert_eq!(references(&untracked["spec"]), references(&target()["spec"]["template"]["spec"]));
}

#[test]
fn a_parked_target_starts_with_as_many_as_the_primary_or_its_scaler_has() {
    let replicas = |count: i64| json!({ "spec": { "replicas": count } });
    let cases = [
        ("it was not parked", 4, Some(7), None, 4),
        ("as the primary", 0, Some(7), None, 7),
        ("the primary is parked, too", 0, Some(0), None, 1),
        ("no primary", 0, None, None, 1),
        ("as its scaler allows", 0, Some(7), Some(3), 3),
        ("a scaler that allows none", 0, Some(7), Some(0), 1),
    ];
    for (reason, target, primary, scaler_min, want) in cases {
        let primary = primary.map(replicas);
        let found = WorkloadKind::Deployment.scale_from_zero(
            &replicas(target),
            primary.as_ref(),
            scaler_min,
        );
        assert_eq!(found, want, "{reason}");
    }
}

#[test]
fn scaling_writes_replicas_and_nothing_else() {
    let change = WorkloadKind::Deployment.scale(&target(), 0).unwrap();
    let after = applied(Some(&target()), &change).unwrap();
    assert_eq!(after["spec"]["replicas"], 0);
    assert_eq!(after["spec"]["template"], target()["spec"]["template"]);
    assert_eq!(WorkloadKind::Deployment.scale(&after, 0), None);
}

#[test]
fn names_that_are_too_long_are_refused_once_and_clearly() {
    let long = "a".repeat(56);
    let label = |value: &str| SelectorLabel { key: "app".to_owned(), value: value.to_owned() };
    let cases = [
        ("fits", "shop", "a-service-name", None),
        ("a Service", "shop", long.as_str(), Some("Service")),
        ("a label", long.as_str(), "shop", Some("the label of the primary's pods")),
    ];
    for (reason, value, apex, want) in cases {
        let found = with_cx("", |cx| check_names(cx, &label(value), apex)).err();
        let what = found.as_ref().map(|error| match error {
            WorkloadError::NameTooLong { what, length: 64, most: 63, .. } => *what,
            other => panic!("{other}"),
        });
        assert_eq!(what, want, "{reason}");
    }
    let error = with_cx("", |cx| check_names(cx, &label("shop"), &long)).unwrap_err();
    assert!(error.to_string().ends_with("that is 1 shorter"), "{error}");
}

#[test]
fn a_deleted_primary_is_not_made_of_an_unpromoted_template() {
    let promoted_revision = WorkloadKind::Deployment.revision(&target());
    let promotion =
        Promotion { revision: &promoted_revision, tracked: &tracked(), has_scaler: false };
    let snapshot = with_cx("", |cx| Snapshot::of(cx, &target(), &promotion, 6)).unwrap();
    let made = |target: &Value, promoted: &str, snapshot: Option<&Snapshot>| {
        let made = with_cx("", |cx| recreate(cx, target, &tracked(), promoted, snapshot));
        made.map(|change| {
            let spec = &body(&change)["spec"];
            let image = spec["template"]["spec"]["containers"][0]["image"].clone();
            (image.as_str().unwrap().to_owned(), spec["replicas"].as_i64().unwrap())
        })
    };
    let failed = newer_target();
    let one = |image: &str, replicas| Ok((image.to_owned(), replicas));
    assert_eq!(made(&failed, &promoted_revision, Some(&snapshot)), one("shop:1", 6));
    assert_eq!(made(&target(), &promoted_revision, Some(&snapshot)), one("shop:1", 6), "as it was");
    assert_eq!(made(&target(), &promoted_revision, None), one("shop:1", 3), "not failed");
    assert_eq!(made(&failed, "", Some(&snapshot)), one("shop:1", 6), "the status was lost");
    let newer = WorkloadKind::Deployment.revision(&failed);
    assert_eq!(made(&failed, &newer, Some(&snapshot)), one("shop:2", 3), "promoted since");
    assert_eq!(made(&target(), "", None), one("shop:1", 3), "never promoted");
    assert_eq!(made(&failed, &promoted_revision, None).unwrap_err().label(), "PromotedUnknown");
}

#[test]
fn a_snapshot_is_saved_once_and_read_back() {
    let revision = WorkloadKind::Deployment.revision(&target());
    let promotion = Promotion { revision: &revision, tracked: &tracked(), has_scaler: false };
    with_cx("", |cx| {
        let snapshot = Snapshot::of(cx, &target(), &promotion, 0).unwrap();
        assert_eq!(snapshot.replicas, 1, "a primary is never rebuilt with none");
        let saved = applied(None, &snapshot.save(cx, None).unwrap().unwrap()).unwrap();
        assert_eq!(saved["metadata"]["name"], Snapshot::name("shop"));
        assert_eq!(Snapshot::read(&OWNER, &saved).unwrap(), snapshot);
        assert_eq!(snapshot.save(cx, Some(&saved)).unwrap(), None);

        let mut users = saved.clone();
        users["metadata"]["ownerReferences"] = json!([]);
        assert_eq!(Snapshot::read(&OWNER, &users).unwrap_err().label(), "NotOurs");
        assert_eq!(snapshot.save(cx, Some(&users)).unwrap_err().label(), "NotOurs");

        for text in ["", "e30=", "!", "bnVsbA=="] {
            let mut broken = saved.clone();
            broken["data"]["promoted.json"] = json!(text);
            let unread = Snapshot::read(&OWNER, &broken).unwrap_err();
            assert_eq!(unread.label(), "SnapshotUnreadable", "{text}");
            assert!(snapshot.save(cx, Some(&broken)).unwrap().is_some(), "written anew");
        }
    });
}

#[test]
fn a_primary_made_again_is_what_promotion_had_made() {
    let target = newer_target();
    let revision = WorkloadKind::Deployment.revision(&target);
    let promotion = Promotion { revision: &revision, tracked: &tracked(), has_scaler: true };
    let snapshot = with_cx("*", |cx| Snapshot::of(cx, &target, &promotion, 4)).unwrap();
    let made = with_cx("*", |cx| recreate(cx, &target, &tracked(), &revision, Some(&snapshot)));
    let live = applied_all(None, &[made.unwrap()]).unwrap();
    assert_eq!(promoted("*", &target, &live, true), None);
}

#[test]
fn a_trimmed_deployment_says_all_the_whole_one_does() {
    let whole = newer_target();
    let small = WorkloadKind::Deployment.trim(whole.clone());
    with_cx("*", |cx| {
        assert_eq!(create_primary(cx, &small, &tracked()), create_primary(cx, &whole, &tracked()));
    });
    assert_eq!(
        promoted("*", &small, &WorkloadKind::Deployment.trim(primary()), false),
        promoted("*", &whole, &primary(), false)
    );
    assert_eq!(
        WorkloadKind::Deployment.scale(&small, 0),
        WorkloadKind::Deployment.scale(&whole, 0)
    );
}

proptest! {
    #[test]
    fn any_promotion_needs_no_second_one(
        replicas in 0_i64..4,
        live_replicas in 0_i64..4,
        has_scaler: bool,
        image in "[a-z]{1,4}",
        min_ready in prop::option::of(0_i64..3),
        recreate_strategy: bool,
        prefixes in "(\\*|team\\.io/|)",
    ) {
        let (mut target, mut live) = (target(), primary());
        target["spec"]["replicas"] = json!(replicas);
        target["spec"]["template"]["spec"]["containers"][0]["image"] = json!(image);
        target["spec"]["minReadySeconds"] = json!(min_ready);
        if recreate_strategy {
            target["spec"]["strategy"] = json!({ "type": "Recreate" });
        }
        live["spec"]["replicas"] = json!(live_replicas);
        live["metadata"]["labels"]["theirs"] = json!("kept");
        if let Some(change) = promoted(&prefixes, &target, &live, has_scaler) {
            let after = applied(Some(&live), &change).unwrap();
            prop_assert_eq!(promoted(&prefixes, &target, &after, has_scaler), None);
            prop_assert_eq!(&after["metadata"]["labels"]["theirs"], "kept");
            prop_assert_eq!(&after["spec"]["strategy"], &target["spec"]["strategy"]);
            prop_assert!(live_replicas == 0 || after["spec"]["replicas"] != 0);
        }
    }

    #[test]
    fn no_object_is_too_strange(text in "[a-z]{0,3}", at in 0_usize..6) {
        let pointers = ["/spec", "/spec/template", "/spec/template/spec", "/metadata",
            "/spec/template/metadata", "/spec/selector"];
        let mut target = target();
        *target.pointer_mut(pointers[at]).unwrap() = json!(text);
        with_cx("*", |cx| {
            let _ = create_primary(cx, &target, &tracked());
            let promotion = Promotion {
                revision: &WorkloadKind::Deployment.revision(&target),
                tracked: &tracked(),
                has_scaler: false,
            };
            let _ = promote(cx, &target, &primary(), &promotion);
            let _ = promote(cx, &target, &target, &promotion);
        });
        let _ = (WorkloadKind::Deployment.scale(&target, 0), WorkloadKind::Deployment.trim(target.clone()), runs_same(&target, &target));
        let deadline = Deadline {
            seconds: 1,
            from: None,
            unready_since: None,
            now: jiff::Timestamp::UNIX_EPOCH,
        };
        let _ = WorkloadKind::Deployment.readiness(&target, 100, deadline);
    }
}
