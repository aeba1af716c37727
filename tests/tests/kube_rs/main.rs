//! kube-rs as a client, in the process: the behaviour that operators written with it rely on.
//!
//! `objects` reads and writes, typed and not; `watching` is watchers, stores and waiting; `controllers` is
//! a reconciler, with finalizers and events.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a broken rig is a failed test")]

mod controllers;
mod objects;
mod watching;

use std::{fmt::Debug, future::Future, time::Duration};

use kube::Client;
use kube_sandbox::{Sandbox, Settings, clock::Clock};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// A cluster without controllers, and its client.
fn still() -> (Sandbox, Client) {
    let sandbox = Sandbox::new(Settings::for_tests());
    sandbox.settle();
    let client = Client::new(sandbox.service(), "default");
    (sandbox, client)
}

/// A cluster in real time, with pods that need none.
fn running() -> (Sandbox, Client) {
    let sandbox = Sandbox::new(Settings { clock: Clock::real(), ..Settings::for_tests() });
    sandbox.run();
    let client = Client::new(sandbox.service(), "default");
    (sandbox, client)
}

/// An object of a type, from its JSON.
fn made<K: DeserializeOwned>(object: Value) -> K {
    serde_json::from_value(object).unwrap()
}

/// Fails instead of hanging. Nothing here takes a second, unless the machine is very busy.
async fn soon<T>(future: impl Future<Output = T>) -> T {
    let limited = tokio::time::timeout(Duration::from_secs(30), Box::pin(future));
    limited.await.expect("it should not take long")
}

/// The status of a request that must fail.
#[track_caller]
fn refused<T: Debug>(result: kube::Result<T>) -> Box<kube::core::Status> {
    match result {
        Err(kube::Error::Api(status)) => status,
        other => panic!("{other:?}"),
    }
}
