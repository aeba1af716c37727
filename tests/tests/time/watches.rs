//! Watches on a virtual clock.

use std::time::Duration;

use kube_sandbox::Sandbox;
use tidegate_tests::wire::{Event, Watch, brief, config_map};

use super::{MAPS, sandbox};

/// The events of each of the next minutes.
fn minutes(sandbox: &Sandbox, watch: &mut Watch, count: u32) -> Vec<Vec<Event>> {
    let mut minute = || {
        sandbox.advance(Duration::from_mins(1));
        watch.drain()
    };
    (0..count).map(|_| minute()).collect()
}

#[test]
fn a_bookmark_comes_every_minute_to_those_who_asked() {
    let (sandbox, wire) = sandbox();
    let from = wire.get(MAPS).revision();
    let path = format!("{MAPS}?watch=true&resourceVersion={from}");
    let others = "/api/v1/namespaces/default/secrets";
    let mut plain = wire.watch(&path).ok().unwrap();
    let mut marked = wire.watch(&format!("{path}&allowWatchBookmarks=true")).ok().unwrap();
    plain.drain();
    marked.drain();
    wire.post(others, &serde_json::json!({ "metadata": { "name": "other" } })).ok();
    let now = wire.get(MAPS).revision();
    assert!(now > from);
    for events in minutes(&sandbox, &mut marked, 5) {
        assert_eq!(brief(&events), ["BOOKMARK"]);
        assert!(events[0].revision() >= now, "a bookmark is up to date");
        assert_eq!(events[0].object["kind"], "ConfigMap");
    }
    assert!(plain.drain().is_empty());
}

#[test]
fn a_watch_ends_when_its_time_is_up() {
    let (sandbox, wire) = sandbox();
    let from = wire.get(MAPS).revision();
    let path = format!("{MAPS}?watch=true&resourceVersion={from}&timeoutSeconds=90");
    let mut watch = wire.watch(&path).ok().unwrap();
    wire.post(MAPS, &config_map("a", "1")).ok();
    sandbox.server().clock.advance(Duration::from_secs(89));
    assert_eq!(brief(&watch.drain()), ["ADDED a"]);
    assert!(!watch.is_over);
    sandbox.server().clock.advance(Duration::from_secs(1));
    assert!(watch.drain().is_empty());
    assert!(watch.is_over);
}

#[test]
fn a_watch_with_no_end_of_events_ends_on_time_too() {
    let (sandbox, wire) = sandbox();
    let path = format!("{MAPS}?watch=true&resourceVersion=1&timeoutSeconds=90");
    let mut watch = wire.watch(&path).ok().unwrap();
    let mut passed = 0;
    while !watch.is_over {
        wire.post(MAPS, &config_map(&format!("m{passed}"), "1")).ok();
        sandbox.server().clock.advance(Duration::from_secs(1));
        passed += 1;
        watch.drain();
        assert!(passed <= 90, "still open after {passed} s");
    }
    assert_eq!(passed, 90);
}

#[test]
fn a_watch_without_a_limit_of_its_own_lives_half_an_hour_to_an_hour() {
    let (sandbox, wire) = sandbox();
    let mut watches: Vec<_> = (0..20)
        .map(|_| wire.watch(&format!("{MAPS}?watch=true&resourceVersion=1")).ok().unwrap())
        .collect();
    let open = |watches: &mut Vec<Watch>| {
        for watch in &mut *watches {
            watch.drain();
        }
        watches.iter().filter(|watch| !watch.is_over).count()
    };
    sandbox.advance(Duration::from_secs(30 * 60 - 1));
    assert_eq!(open(&mut watches), 20);
    sandbox.advance(Duration::from_mins(15));
    assert!((1..20).contains(&open(&mut watches)), "they end at different times");
    sandbox.advance(Duration::from_mins(16));
    assert_eq!(open(&mut watches), 0);
}

#[test]
fn a_watch_from_a_version_to_come_waits_for_it() {
    let (_sandbox, wire) = sandbox();
    let now = wire.get(MAPS).revision();
    let mut watch =
        wire.watch(&format!("{MAPS}?watch=true&resourceVersion={}", now + 1)).ok().unwrap();
    wire.post(MAPS, &config_map("a", "1")).ok();
    wire.post(MAPS, &config_map("b", "1")).ok();
    assert_eq!(brief(&watch.drain()), ["ADDED b"]);
    let list = wire.get(&format!("{MAPS}?resourceVersion={}", now + 1_000));
    assert_eq!((list.code, list.reason()), (504, "Timeout"));
}

#[test]
fn a_watch_that_wants_no_state_starts_with_what_is_new() {
    let (_sandbox, wire) = sandbox();
    wire.post(MAPS, &config_map("a", "1")).ok();
    let path =
        format!("{MAPS}?watch=true&sendInitialEvents=false&resourceVersionMatch=NotOlderThan");
    for version in ["", "&resourceVersion=0"] {
        let mut watch = wire.watch(&format!("{path}{version}")).ok().unwrap();
        assert!(watch.drain().is_empty(), "{version}");
        wire.post(MAPS, &config_map(&format!("b{}", version.len()), "1")).ok();
        assert_eq!(watch.drain().len(), 1, "{version}");
    }
}
