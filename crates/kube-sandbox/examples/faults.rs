//! A bad day in virtual time: writes fail, the scheduler hangs, and two hours pass in a moment.
//!
//! ```text
//! cargo run -p kube-sandbox --example faults
//! ```

#![expect(clippy::print_stdout, reason = "it shows what happened")]

use std::{error::Error, time::Duration};

use kube_sandbox::{
    Sandbox, Settings,
    cluster::{Cluster as _, DEPLOYMENTS},
    faults::{Effect, Matcher, When},
    request::Verb,
    server::User,
};
use serde_json::{Value, json};

const MINUTE: Duration = Duration::from_mins(1);

fn web() -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "web" },
        "spec": {
            "replicas": 2,
            "selector": { "matchLabels": { "app": "web" } },
            "template": {
                "metadata": { "labels": { "app": "web" } },
                // Ready half a minute after its start: the tag says so.
                "spec": { "containers": [{ "name": "app", "image": "web:1-slow-start-30s" }] },
            },
        },
    })
}

fn ready(sandbox: &Sandbox) -> i64 {
    let web = sandbox.local(User::admin()).get(DEPLOYMENTS, "default", "web");
    web.and_then(|web| web["status"]["readyReplicas"].as_i64()).unwrap_or_default()
}

fn bad_day() -> Result<(), Box<dyn Error>> {
    let sandbox = Sandbox::new(Settings::for_tests().seed(7));
    let faults = &sandbox.server().faults;
    let creating_pods = Matcher::any().verbs([Verb::Create]).resource("", "pods");
    faults.add(creating_pods, When::First(3), Effect::ServerError { code: 503 });
    sandbox.runtime().pause("scheduler");

    sandbox.load(vec![web()])?;
    sandbox.advance(MINUTE);
    println!("after a minute: {} ready, injected: {}", ready(&sandbox), faults.injected());
    assert_eq!(ready(&sandbox), 0, "nothing has a node");
    assert_eq!(faults.injected().total(), 3, "and the controller tried again");

    sandbox.runtime().resume("scheduler");
    let is_up = sandbox.advance_until(2 * MINUTE, |sandbox| ready(sandbox) == 2);
    println!("after the scheduler came back: {} ready", ready(&sandbox));
    assert!(is_up);

    // Every timer on the way fires.
    sandbox.advance(120 * MINUTE);
    assert_eq!(ready(&sandbox), 2);
    println!("two hours later, {}: {} ready", sandbox.server().clock.now(), ready(&sandbox));
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    bad_day()
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_bad_day_ends_well() {
        super::bad_day().unwrap();
    }
}
