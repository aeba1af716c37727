//! An operator that is stopped: started effects are finished, new ones are not begun.

use std::{
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use kube_sandbox::faults::{Effect, Matcher, When};
use serde_json::Value;
use tidegate_tests::{
    network::Reply,
    rollout::{OPERATOR, World},
};
use tokio::{sync::oneshot, task::JoinHandle};

use crate::stage::{
    GATEWAY_API, by_weight, canary_of, canary_share, hooked, mark, reach, release, with_canary,
    writes_since,
};

/// An operator at 20%, as the program runs it, and its stop signal.
async fn at_20(analysis: Value) -> (World, oneshot::Sender<()>, JoinHandle<()>) {
    let world = with_canary(canary_of("web", GATEWAY_API, analysis));
    let (mut supervisor, _) = world.supervisor(Arc::new(AtomicBool::new(true)));
    let (stop, stopped) = oneshot::channel();
    let operator = tokio::spawn(async move {
        tokio::select! {
            biased;
            _ = stopped => {}
            () = supervisor.run() => {}
        }
        supervisor.drain(Duration::from_secs(30)).await;
    });
    reach(&world, "Initialized").await;
    release(&world, "web:2.0");
    assert!(world.until(60, |world| canary_share(world) == 20).await);
    world.settle().await;
    (world, stop, operator)
}

fn slow_routes(world: &World, by: Duration) {
    let routes =
        Matcher::writes().user(OPERATOR).resource("gateway.networking.k8s.io", "httproutes");
    world.sandbox.server().faults.add(routes, When::First(1), Effect::Delay { by });
}

#[tokio::test(start_paused = true)]
async fn a_step_that_is_being_written_is_finished_first() {
    let (world, stop, operator) = at_20(by_weight()).await;
    slow_routes(&world, Duration::from_secs(5));
    world.advance_s(11).await;
    assert_eq!(canary_share(&world), 20, "the write is on its way");
    stop.send(()).expect("it listens");
    world.settle().await;
    assert!(!operator.is_finished(), "half a step is none");
    world.advance_s(5).await;
    assert!(operator.is_finished(), "and a whole one is enough");
    let status = world.status("web");
    assert_eq!((canary_share(&world), &status["canaryWeight"]), (40, &Value::from(40)));
    let before = mark(&world);
    world.advance_s(120).await;
    assert_eq!(writes_since(&world, before), Vec::<String>::new(), "nothing after that");
}

#[tokio::test(start_paused = true)]
async fn a_question_is_not_waited_for() {
    let (world, stop, operator) = at_20(hooked(by_weight(), "rollout")).await;
    let (slow, hold) = Reply::yes().held();
    world.network.hook("hooks/rollout", slow);
    world.advance_s(11).await;
    let before = mark(&world);
    stop.send(()).expect("it listens");
    world.settle().await;
    assert!(operator.is_finished(), "whoever comes next asks again");
    hold.release();
    world.advance_s(60).await;
    assert_eq!(writes_since(&world, before), Vec::<String>::new());
    assert_eq!(canary_share(&world), 20);
}

#[tokio::test(start_paused = true)]
async fn patience_ends() {
    let (world, stop, operator) = at_20(by_weight()).await;
    slow_routes(&world, Duration::from_mins(2));
    world.advance_s(11).await;
    stop.send(()).expect("it listens");
    world.advance_s(29).await;
    assert!(!operator.is_finished());
    world.advance_s(2).await;
    assert!(operator.is_finished(), "the grace period is not for ever");
}
