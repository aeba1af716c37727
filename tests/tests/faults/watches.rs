//! Faults along a watch.

use std::time::Duration;

use kube_sandbox::{
    Sandbox,
    faults::{Effect, Interruption, Matcher, WatchFault, When},
};
use serde_json::json;
use tidegate_tests::wire::{Event, Watch, Wire, brief, config_map, revision};

use super::{MAPS, at, sandbox};

fn arm(sandbox: &Sandbox, fault: WatchFault) {
    let maps = Matcher::any().resource("", "configmaps");
    sandbox.server().faults.add(maps, When::First(1), Effect::Watch(fault));
}

/// A watch from now on.
fn watch(wire: &Wire) -> Watch {
    let from = wire.get(MAPS).revision();
    from_revision(wire, from)
}

fn from_revision(wire: &Wire, from: u64) -> Watch {
    let path = format!("{MAPS}?watch=true&allowWatchBookmarks=true&resourceVersion={from}");
    wire.watch(&path).ok().unwrap()
}

fn create(wire: &Wire, names: &[&str]) {
    for name in names {
        wire.post(MAPS, &config_map(name, "1")).ok();
    }
}

fn is_gone(event: &Event) -> bool {
    event.kind == "ERROR" && event.object["code"] == 410 && event.object["reason"] == "Expired"
}

#[test]
fn a_watch_may_be_gone_at_the_start() {
    for how in ["resourceVersion=0", "", "resourceVersion=1"] {
        let (sandbox, wire) = sandbox();
        create(&wire, &["a"]);
        arm(&sandbox, WatchFault::GoneAtStart);
        let mut watch = wire.watch(&format!("{MAPS}?watch=true&{how}")).ok().unwrap();
        let events = watch.drain();
        assert!(matches!(events.as_slice(), [only] if is_gone(only)), "{how}: {events:?}");
        assert!(watch.is_over, "{how}");
        let mut second = wire.watch(&format!("{MAPS}?watch=true&{how}")).ok().unwrap();
        assert_eq!(brief(&second.drain()), ["ADDED a"], "{how}: only the first");
        assert_eq!(sandbox.server().faults.injected().of("watch-gone"), 1);
    }
}

#[test]
fn a_watch_may_end_after_so_many_events() {
    let cases = [
        ("gone", WatchFault::GoneAfter { events: 2 }, vec!["ADDED a", "ADDED b", "ERROR"]),
        ("closed", WatchFault::CloseAfter { events: 2 }, vec!["ADDED a", "ADDED b"]),
    ];
    for (reason, fault, want) in cases {
        for existing in 0..3 {
            let (sandbox, wire) = sandbox();
            let names = ["a", "b", "c", "d"];
            let (before, after) = names.split_at(existing);
            create(&wire, before);
            arm(&sandbox, fault.clone());
            let mut watch = wire.watch(&format!("{MAPS}?watch=true")).ok().unwrap();
            let mut events = watch.drain();
            create(&wire, after);
            events.extend(watch.drain());
            assert_eq!(brief(&events), want, "{reason}, {existing} of them at the start");
            assert!(watch.is_over, "{reason}");
            assert_eq!(events.last().is_some_and(is_gone), reason == "gone");
        }
    }
}

#[test]
fn a_closed_watch_resumes_where_it_ended() {
    let (sandbox, wire) = sandbox();
    arm(&sandbox, WatchFault::CloseAfter { events: 1 });
    let mut first = watch(&wire);
    create(&wire, &["a", "b", "c"]);
    let seen = first.drain();
    assert_eq!(brief(&seen), ["ADDED a"]);
    let mut second = from_revision(&wire, seen[0].revision());
    assert_eq!(brief(&second.drain()), ["ADDED b", "ADDED c"]);
}

#[test]
fn a_silent_watch_stays_open_until_its_time_is_up() {
    let (sandbox, wire) = sandbox();
    arm(&sandbox, WatchFault::SilenceAfter { events: 1, lasting: None });
    let from = wire.get(MAPS).revision();
    let path = format!(
        "{MAPS}?watch=true&allowWatchBookmarks=true&timeoutSeconds=300&resourceVersion={from}"
    );
    let mut watch = wire.watch(&path).ok().unwrap();
    create(&wire, &["a", "b"]);
    assert_eq!(brief(&watch.drain()), ["ADDED a"]);
    sandbox.advance(Duration::from_secs(299));
    assert!(watch.drain().is_empty(), "not even a bookmark");
    assert!(!watch.is_over);
    sandbox.advance(Duration::from_secs(1));
    assert!(watch.drain().is_empty());
    assert!(watch.is_over);
}

#[test]
fn a_pause_holds_everything_back_and_then_lets_it_through() {
    let (sandbox, wire) = sandbox();
    sandbox.settle();
    let lasting = Some(Duration::from_secs(30));
    arm(&sandbox, WatchFault::SilenceAfter { events: 1, lasting });
    let mut watch = watch(&wire);
    create(&wire, &["a", "b"]);
    assert_eq!(brief(&watch.drain()), ["ADDED a"]);
    sandbox.advance(Duration::from_secs(29));
    create(&wire, &["c"]);
    assert!(watch.drain().is_empty());
    sandbox.advance(Duration::from_secs(1));
    assert_eq!(brief(&watch.drain()), ["ADDED b", "ADDED c"]);
    assert!(!watch.is_over);
}

#[test]
fn a_pause_ends_with_the_watch() {
    let (sandbox, wire) = sandbox();
    let lasting = Some(Duration::from_hours(10));
    let faults = &sandbox.server().faults;
    let silence = Effect::Watch(WatchFault::SilenceAfter { events: 0, lasting });
    faults.add(Matcher::any().resource("", "configmaps"), When::Always, silence);
    let mut timed =
        wire.watch(&format!("{MAPS}?watch=true&timeoutSeconds=60&resourceVersion=1")).ok().unwrap();
    let mut cut = watch(&wire);
    create(&wire, &["a"]);
    assert!(timed.drain().is_empty() && cut.drain().is_empty());
    faults.interrupt_watches(Matcher::any(), Interruption::Close);
    assert!(cut.drain().is_empty() && cut.is_over, "interrupted while it paused");
    assert!(timed.drain().is_empty() && timed.is_over, "so was the other");
    let mut timed =
        wire.watch(&format!("{MAPS}?watch=true&timeoutSeconds=60&resourceVersion=1")).ok().unwrap();
    assert!(timed.drain().is_empty() && !timed.is_over);
    sandbox.advance(Duration::from_mins(1));
    assert!(timed.drain().is_empty() && timed.is_over, "its time was up while it paused");
}

#[test]
fn a_doubling_watch_sends_everything_twice() {
    let (sandbox, wire) = sandbox();
    create(&wire, &["a"]);
    arm(&sandbox, WatchFault::Duplicate);
    let mut watch = wire.watch(&format!("{MAPS}?watch=true")).ok().unwrap();
    wire.merge(&at("a"), &json!({ "data": { "value": "2" } })).ok();
    wire.delete(&at("a"), &json!({})).ok();
    let want = ["ADDED a", "ADDED a", "MODIFIED a", "MODIFIED a", "DELETED a", "DELETED a"];
    assert_eq!(brief(&watch.drain()), want);
}

#[test]
fn bookmarks_without_events_claim_nothing_that_was_not_sent() {
    let (sandbox, wire) = sandbox();
    create(&wire, &["a"]);
    let list = wire.get(MAPS).ok();
    arm(&sandbox, WatchFault::BookmarksOnly);
    let mut watch = from_revision(&wire, revision(&list));
    create(&wire, &["b"]);
    assert!(watch.drain().is_empty());
    sandbox.advance(Duration::from_mins(1));
    let events = watch.drain();
    assert_eq!(brief(&events), ["BOOKMARK"]);
    assert_eq!(events[0].revision(), revision(&list));
    let mut next = from_revision(&wire, events[0].revision());
    let missed = brief(&next.drain());
    assert!(missed.contains(&"ADDED b".to_owned()), "{missed:?}");
}

#[test]
fn a_streamed_list_is_whole_even_where_later_events_are_withheld() {
    let (sandbox, wire) = sandbox();
    create(&wire, &["a", "b"]);
    arm(&sandbox, WatchFault::BookmarksOnly);
    let path = format!(
        "{MAPS}?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan\
         &allowWatchBookmarks=true"
    );
    let mut watch = wire.watch(&path).ok().unwrap();
    assert_eq!(brief(&watch.drain()), ["ADDED a", "ADDED b", "BOOKMARK"]);
    create(&wire, &["c"]);
    assert!(watch.drain().is_empty());
}

#[test]
fn open_watches_can_be_interrupted_at_any_time() {
    let cases = [(Interruption::Close, vec![]), (Interruption::Gone, vec!["ERROR"])];
    for (how, want) in cases {
        let (sandbox, wire) = sandbox();
        let mut hit = watch(&wire);
        let mut spared = wire.watch("/api/v1/pods?watch=true&resourceVersion=1").ok().unwrap();
        assert!(hit.drain().is_empty());
        let maps = Matcher::any().resource("", "configmaps");
        sandbox.server().faults.interrupt_watches(maps, how);
        assert_eq!(brief(&hit.drain()), want, "{how:?}");
        assert!(hit.is_over);
        spared.drain();
        assert!(!spared.is_over);
        let mut later = watch(&wire);
        create(&wire, &["a"]);
        assert_eq!(brief(&later.drain()), ["ADDED a"], "{how:?}: those that come later are fine");
    }
}

#[test]
fn a_request_fault_hits_the_start_of_a_watch() {
    let (sandbox, wire) = sandbox();
    let maps = Matcher::any().resource("", "configmaps");
    let busy = Effect::TooManyRequests { retry_after_s: Some(1) };
    sandbox.server().faults.add(maps.clone(), When::First(1), busy);
    let refused = wire.watch(&format!("{MAPS}?watch=true")).err().unwrap();
    assert_eq!((refused.code, refused.header("retry-after")), (429, Some("1")));
    sandbox.server().faults.clear();
    sandbox.server().faults.add(maps, When::First(1), Effect::LoseAnswer);
    let path = format!("{MAPS}?watch=true");
    let lost = wire.try_send("GET", &path, "", &serde_json::Value::Null);
    assert!(lost.is_err());
}
