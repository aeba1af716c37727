use serde_json::json;
use tidegate_engine::State;
use tidegate_providers::{
    traffic::{DESTINATION_RULE, VIRTUAL_SERVICE},
    workload::{CONFIG_MAP, DEPLOYMENT},
};

use super::*;
use crate::canary::{
    env::ManagedWrite,
    observe::testing::{Bench, owned},
};

/// The names of orphans, sorted.
fn orphans(bench: &Bench) -> Vec<String> {
    let observation = bench.observe();
    let finding = &observation.findings[&ManagedWrite::Prune];
    assert_eq!(finding.state == State::OutOfSync, observation.observed.objects.orphans);
    let mut names: Vec<String> = finding
        .changes
        .iter()
        .map(|change| match change {
            Change::Delete { name, .. } => name.clone(),
            Change::Apply { .. } | Change::Merge { .. } => panic!("not a deletion: {change:?}"),
        })
        .collect();
    names.sort();
    names
}

fn service(name: &str) -> Value {
    owned(json!({
        "apiVersion": "v1", "kind": "Service", "metadata": { "name": name },
        "spec": { "selector": { "app": "web-primary" }, "ports": [{ "port": 80 }] },
    }))
}

#[test]
fn objects_of_a_previous_name_are_orphans_once_the_new_ones_are_there() {
    let bench = Bench::new("istio").set_up();
    assert_eq!(orphans(&bench), Vec::<String>::new());
    bench.put(SERVICE, service("old"));
    bench.put(SERVICE, service("old-canary"));
    let mut route = Value::clone(&bench.get(VIRTUAL_SERVICE, "web").unwrap());
    route["metadata"]["name"] = json!("old");
    route["metadata"]["uid"] = json!("uid-old");
    bench.put(VIRTUAL_SERVICE, route);
    assert_eq!(orphans(&bench), ["old", "old", "old-canary"]);
    bench.remove(SERVICE, "web");
    assert_eq!(orphans(&bench), ["old"], "until the new apex is there clients have the old one");
}

#[test]
fn objects_of_others_are_no_orphans() {
    let bench = Bench::new("istio").set_up();
    let mut foreign = service("old");
    foreign["metadata"]["ownerReferences"] = json!([]);
    bench.put(SERVICE, foreign);
    let mut other = service("other");
    other["metadata"]["ownerReferences"][0]["name"] = json!("other");
    bench.put(SERVICE, other);
    assert_eq!(orphans(&bench), Vec::<String>::new());
}

#[test]
fn copies_of_configuration_that_the_primary_does_not_mount_are_orphans() {
    let bench = Bench::new("istio").set_up();
    let copy = |name: &str| {
        owned(json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name },
                      "data": { "a": "1" } }))
    };
    bench.put(CONFIG_MAP, copy("used-primary"));
    bench.put(CONFIG_MAP, copy("old-primary"));
    bench.edit(DEPLOYMENT, "web-primary", |primary| {
        primary["spec"]["template"]["spec"]["volumes"] =
            json!([{ "name": "c", "configMap": { "name": "used-primary" } }]);
    });
    assert_eq!(orphans(&bench), ["old-primary"]);
}

#[test]
fn orphans_are_looked_for_only_at_rest() {
    let with_orphan = || {
        let bench = Bench::new("istio").set_up();
        bench.put(SERVICE, service("old"));
        bench
    };
    assert_eq!(orphans(&with_orphan()), ["old"]);
    let rolling = with_orphan().remembering(&json!({ "phase": "Progressing" }));
    assert_eq!(orphans(&rolling), Vec::<String>::new(), "a rollout is under way");
    assert_eq!(orphans(&with_orphan().deleted()), Vec::<String>::new(), "it is deleted");
    let bench = with_orphan();
    bench.edit(DEPLOYMENT, "web-primary", |primary| {
        primary["status"]["availableReplicas"] = json!(0);
        primary["status"]["readyReplicas"] = json!(0);
    });
    assert_eq!(orphans(&bench), Vec::<String>::new(), "the primary is not ready");
    let bench = with_orphan();
    bench.remove(VIRTUAL_SERVICE, "web");
    assert_eq!(orphans(&bench), ["old"], "Services do not depend on the route");
}

#[test]
fn a_previous_provider_is_remembered_until_nothing_of_it_is_left() {
    let moved = |bench: Bench| bench.remembering(&json!({ "rollout": { "provider": "istio" } }));
    let provider = |bench: &Bench| bench.observe().provider;
    assert_eq!(provider(&Bench::new("linkerd").set_up()), "linkerd");
    let bench = moved(Bench::new("contour").set_up());
    assert_eq!(provider(&bench), "contour", "nothing of Istio is there");
    bench.put(
        DESTINATION_RULE,
        owned(json!({
            "apiVersion": "networking.istio.io/v1beta1", "kind": "DestinationRule",
            "metadata": { "name": "web-canary" }, "spec": { "host": "web-canary" },
        })),
    );
    assert_eq!(orphans(&bench), ["web-canary"]);
    assert_eq!(provider(&bench), "istio", "there is an orphan of it");

    let rolling = moved(Bench::new("contour").set_up());
    let rolling = rolling.remembering(&json!({ "phase": "Progressing" }));
    assert_eq!(provider(&rolling), "istio", "nothing is looked for during a rollout");
    let mut failed = moved(Bench::new("contour").set_up());
    failed.fail(DESTINATION_RULE, TableState::Failed("forbidden".to_owned()));
    assert_eq!(provider(&failed), "istio", "there may be some");
    let mut gone = moved(Bench::new("contour").set_up());
    gone.fail(DESTINATION_RULE, TableState::NotServed("no such kind".to_owned()));
    assert_eq!(provider(&gone), "contour", "there can be none");
}
