use std::{sync::atomic::Ordering, time::Duration};

use serde_json::json;
use tidegate_engine::{Note, Percent};

use super::*;
use crate::canary::testing::{Called, Kit, Reply, in_analysis};

fn hooks(names: &[&str]) -> Value {
    let hooks: Vec<Value> = names
        .iter()
        .map(|name| {
            json!({ "name": name, "type": "event", "url": format!("http://{name}.example/"),
                "metadata": { "team": "shop" } })
        })
        .collect();
    json!({ "analysis": { "webhooks": hooks } })
}

fn kit(names: &[&str]) -> Kit {
    Kit::in_analysis(&hooks(names), &json!({}))
}

fn note(number: usize) -> Fact {
    Fact::Noted(Note::Other(format!("note {number}")))
}

async fn announce(kit: &Kit, recorder: &mut Recorder, fact: &Fact) {
    let observation = kit.observe();
    let memory = &observation.observed.memory;
    recorder.announce(&kit.canary(), &observation, fact, memory).await;
}

fn message(call: &Called) -> String {
    call.json()["metadata"]["eventMessage"].as_str().unwrap_or_default().to_owned()
}

#[tokio::test(start_paused = true)]
async fn a_fact_is_recorded_once_for_each_position() {
    let kit = kit(&["hook"]);
    let mut recorder = Recorder::new(&kit.cx, &Kit::key());
    let observation = kit.observe();
    let memory = &observation.observed.memory;
    let further = Memory { weight: Percent::clamped(60), ..memory.clone() };
    let canary = kit.canary();
    for memory in [memory, memory, &further, &further] {
        recorder.announce(&canary, &observation, &Fact::Mirroring, memory).await;
    }
    kit.settle().await;
    assert_eq!(kit.events().len(), 2);
    assert_eq!(kit.net.calls().len(), 2);
    let event = &kit.api.bodies("POST events")[0];
    assert_eq!(event["involvedObject"]["kind"], "Canary");
    assert_eq!(event["type"], "Normal");
}

#[tokio::test(start_paused = true)]
async fn event_hooks_are_called_in_order_with_the_fact() {
    let kit = kit(&["one", "two"]);
    kit.net.answer("one.example", &[Reply::After(Duration::from_secs(3))]);
    let mut recorder = Recorder::new(&kit.cx, &Kit::key());
    announce(&kit, &mut recorder, &note(1)).await;
    announce(&kit, &mut recorder, &Fact::Mirroring).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    let calls = kit.net.calls();
    let hosts: Vec<&str> = calls.iter().map(|it| it.url.as_str()).collect();
    let (one, two) = ("http://one.example/", "http://two.example/");
    assert_eq!(hosts, [one, two, one, two], "one after the other");
    assert_eq!(message(&calls[0]), "note 1");
    assert_eq!(message(&calls[0]), message(&calls[1]));
    let body = calls[2].json();
    assert_eq!(body["name"], "web");
    assert_eq!(body["namespace"], "shop");
    assert_eq!(body["phase"], "Progressing");
    assert_eq!(body["metadata"]["team"], "shop", "the hook's own");
    assert_eq!(body["metadata"]["eventType"], "Normal");
    assert_eq!(calls[0].json()["metadata"]["eventType"], "Warning");
    assert!(calls.iter().all(|it| !it.sent.trusted), "the address is a user's");
    assert_ne!(calls[0].header("idempotency-key"), calls[2].header("idempotency-key"));
    assert!(kit.has_metric(r#"tidegate_hooks_total{type="event",outcome="success"} 4"#));
}

#[tokio::test(start_paused = true)]
async fn the_global_hook_is_for_canaries_without_one() {
    let global = "http://global.example/";
    for (names, want) in [(&[][..], global), (&["own"][..], "http://own.example/")] {
        let mut bench = in_analysis("istio").spec(&hooks(names));
        bench.options.event_webhook = Some(global.to_owned());
        let kit = Kit::of(bench);
        let mut recorder = Recorder::new(&kit.cx, &Kit::key());
        announce(&kit, &mut recorder, &note(1)).await;
        kit.settle().await;
        let calls = kit.net.calls();
        assert_eq!(kit.net.urls(), [want]);
        assert_eq!(calls[0].sent.trusted, names.is_empty(), "an address of the administrator");
        assert_eq!(message(&calls[0]), "note 1");
    }
    let kit = kit(&[]);
    let mut recorder = Recorder::new(&kit.cx, &Kit::key());
    announce(&kit, &mut recorder, &note(1)).await;
    kit.settle().await;
    assert_eq!(kit.net.calls().len(), 0, "there is none");
}

#[tokio::test(start_paused = true)]
async fn the_oldest_of_too_many_calls_is_dropped_and_counted() {
    let kit = kit(&["slow"]);
    kit.net.answer("slow", &[Reply::After(Duration::from_secs(5))]);
    let mut recorder = Recorder::new(&kit.cx, &Kit::key());
    announce(&kit, &mut recorder, &note(0)).await;
    kit.settle().await;
    // The first is in progress; the queue is filled, and two more are added.
    for number in 1..=QUEUE_MAX + 2 {
        announce(&kit, &mut recorder, &note(number)).await;
    }
    assert!(kit.has_metric(r#"tidegate_hooks_total{type="event",outcome="full"} 2"#));
    tokio::time::sleep(Duration::from_secs(5 * 80)).await;
    let said: Vec<String> = kit.net.calls().iter().map(message).collect();
    assert_eq!(said.len(), QUEUE_MAX + 1);
    assert_eq!(said[..2], ["note 0", "note 3"], "the oldest of those that waited");
    assert_eq!(said.last().unwrap(), &format!("note {}", QUEUE_MAX + 2));
}

#[tokio::test(start_paused = true)]
async fn calls_go_on_when_the_canary_is_gone_and_then_the_sender_ends() {
    let kit = kit(&["slow"]);
    kit.net.answer("slow", &[Reply::After(Duration::from_secs(1))]);
    let mut recorder = Recorder::new(&kit.cx, &Kit::key());
    for number in 0..3 {
        announce(&kit, &mut recorder, &note(number)).await;
    }
    let waiting = Arc::downgrade(&recorder.queue.0);
    drop(recorder);
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(kit.net.calls().len(), 3);
    assert!(waiting.upgrade().is_none(), "nothing is left of it");
    let idle = Recorder::new(&kit.cx, &Kit::key());
    kit.settle().await;
    let waiting = Arc::downgrade(&idle.queue.0);
    drop(idle);
    kit.settle().await;
    assert!(waiting.upgrade().is_none(), "one that waits for calls ends too");
}

#[tokio::test(start_paused = true)]
async fn another_leader_calls_the_hooks() {
    let kit = kit(&["hook"]);
    let mut recorder = Recorder::new(&kit.cx, &Kit::key());
    kit.leads.store(false, Ordering::SeqCst);
    announce(&kit, &mut recorder, &note(1)).await;
    kit.settle().await;
    assert_eq!(kit.net.calls().len(), 0);
    assert_eq!(kit.events().len(), 0);
    kit.leads.store(true, Ordering::SeqCst);
    announce(&kit, &mut recorder, &note(2)).await;
    kit.settle().await;
    assert_eq!(kit.net.calls().len(), 1, "the one before is not called later");
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_fails_does_not_end_the_queue() {
    let kit = kit(&["bad", "good"]);
    kit.net.answer("bad", &[Reply::status(500)]);
    let mut recorder = Recorder::new(&kit.cx, &Kit::key());
    announce(&kit, &mut recorder, &note(1)).await;
    kit.settle().await;
    assert_eq!(kit.net.urls(), ["http://bad.example/", "http://good.example/"]);
    assert!(kit.has_metric(r#"tidegate_hooks_total{type="event",outcome="refused"} 1"#));
}
