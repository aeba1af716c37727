//! Equal seeds lead to equal histories.

use std::{collections::BTreeMap, time::Duration};

use kube_sandbox::{
    Sandbox, Settings,
    faults::{Effect, Matcher, When},
};
use serde_json::json;
use tidegate_tests::wire::{Wire, config_map, contents, deployment, trace};

use super::{MAPS, at};

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";

/// The result of a run with faults: every request with its answer, and every object.
#[derive(PartialEq)]
struct Outcome {
    trace: String,
    objects: BTreeMap<String, String>,
    injected: String,
}

fn bad_day(seed: u64) -> Outcome {
    let sandbox = Sandbox::new(Settings::for_tests().seed(seed).shuffled());
    let faults = &sandbox.server().faults;
    let effects = [
        (0.10, Effect::Conflict),
        (0.10, Effect::ServerError { code: 500 }),
        (0.05, Effect::TooManyRequests { retry_after_s: Some(1) }),
        (0.05, Effect::LoseAnswer),
    ];
    for (share, effect) in effects {
        faults.add(Matcher::writes(), When::Share(share), effect);
    }
    let wire = Wire::new(&sandbox);
    for index in 0..20 {
        let name = format!("m{}", index % 7);
        let map = config_map(&name, &index.to_string());
        let _ = wire.try_send("POST", MAPS, "application/json", &map);
        let patch = json!({ "data": { "value": format!("{index}+") } });
        let _ = wire.try_send("PATCH", &at(&name), "application/merge-patch+json", &patch);
        let web = deployment(&format!("web{}", index % 3), index % 4, "x:1");
        let _ = wire.try_send("POST", DEPLOYMENTS, "application/json", &web);
        sandbox.advance(Duration::from_secs(5));
    }
    sandbox.advance(Duration::from_mins(10));
    Outcome {
        trace: trace(&sandbox),
        objects: contents(&sandbox),
        injected: faults.injected().to_string(),
    }
}

/// The first line in which two texts differ.
fn first_difference<'t>(one: &'t str, two: &'t str) -> Option<(&'t str, &'t str)> {
    one.lines().zip(two.lines()).find(|(one, two)| one != two)
}

#[test]
fn a_seed_replays_every_answer_and_every_object() {
    let (one, two) = (bad_day(42), bad_day(42));
    assert_ne!(one.injected, "nothing");
    assert_eq!(one.injected, two.injected);
    assert_eq!(first_difference(&one.trace, &two.trace), None);
    assert_eq!(one.trace.len(), two.trace.len());
    for (place, object) in &one.objects {
        assert_eq!(Some(object), two.objects.get(place), "{place}");
    }
    assert!(one == two);
}

#[test]
fn another_seed_is_another_day() {
    let (one, two) = (bad_day(42), bad_day(43));
    assert_ne!(one.trace, two.trace);
    assert!(one.objects != two.objects);
}
