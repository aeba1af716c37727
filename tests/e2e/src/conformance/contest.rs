//! Clients that write at the same moment. The winner is random on any server; the number of winners, the
//! answers to the others and the final object are not.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use futures::future::join_all;
use http::Request as HttpRequest;
use http_body_util::BodyExt as _;
use kube::{Client, client::Body};
use serde_json::{Value, json};

/// Clients of a contest.
const CLIENTS: usize = 16;

/// The result, without the winner's identity.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// How often each was answered: code and reason.
    answers: BTreeMap<String, usize>,
    /// How many different versions the winners got.
    versions: usize,
    /// The contents of the final object.
    left: String,
}

/// The request of each client, by its number, given the version that was stored before.
struct Contest {
    name: &'static str,
    /// Whether the object exists before.
    made: bool,
    sends: fn(usize, &str) -> Sent,
}

struct Sent {
    method: &'static str,
    /// After the path of the collection.
    path: String,
    media: &'static str,
    body: Value,
}

const CONTESTS: &[Contest] = &[
    Contest {
        name: "one name, many creators",
        made: false,
        sends: |number, _| Sent {
            method: "POST",
            path: String::new(),
            media: "application/json",
            body: object(number, ""),
        },
    },
    Contest {
        name: "updates of one version",
        made: true,
        sends: |number, version| Sent {
            method: "PUT",
            path: "/o".to_owned(),
            media: "application/json",
            body: object(number, version),
        },
    },
    Contest {
        name: "updates of any version",
        made: true,
        sends: |number, _| Sent {
            method: "PUT",
            path: "/o".to_owned(),
            media: "application/json",
            body: object(number, ""),
        },
    },
    Contest {
        name: "patches of one version",
        made: true,
        sends: |number, version| Sent {
            method: "PATCH",
            path: "/o".to_owned(),
            media: "application/merge-patch+json",
            body: json!({ "metadata": { "resourceVersion": version }, "data": { "n": number.to_string() } }),
        },
    },
    Contest {
        name: "patches, each of its own key",
        made: true,
        sends: |number, _| Sent {
            method: "PATCH",
            path: "/o".to_owned(),
            media: "application/merge-patch+json",
            body: json!({ "data": { format!("key-{number}"): "yes" } }),
        },
    },
    Contest {
        name: "owners of their own keys",
        made: true,
        sends: |number, _| Sent {
            method: "PATCH",
            path: format!("/o?fieldManager=client-{number}"),
            media: "application/apply-patch+yaml",
            body: json!({
                "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "o" },
                "data": { format!("key-{number}"): "yes" },
            }),
        },
    },
    Contest {
        name: "owners of one key",
        made: false,
        sends: |number, _| Sent {
            method: "PATCH",
            path: format!("/o?fieldManager=client-{number}"),
            media: "application/apply-patch+yaml",
            body: object(number, ""),
        },
    },
    Contest {
        name: "everybody deletes",
        made: true,
        sends: |_, _| Sent {
            method: "DELETE",
            path: "/o".to_owned(),
            media: "application/json",
            body: json!({}),
        },
    },
    Contest {
        name: "deletions of one version",
        made: true,
        sends: |_, version| Sent {
            method: "DELETE",
            path: "/o".to_owned(),
            media: "application/json",
            body: json!({ "preconditions": { "resourceVersion": version } }),
        },
    },
];

fn object(number: usize, version: &str) -> Value {
    let mut object = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "o" },
        "data": { "n": number.to_string() },
    });
    if !version.is_empty() {
        object["metadata"]["resourceVersion"] = json!(version);
    }
    object
}

/// Runs every contest on both servers, so often each. `Err` lists the differences.
pub async fn hold(real: &Client, ours: &Client, run: &str, rounds: usize) -> Result<usize> {
    let mut held = 0;
    for (number, contest) in CONTESTS.iter().enumerate() {
        let mut outcomes = Vec::new();
        for (client, server) in [(real, "real"), (ours, "sandbox")] {
            for round in 0..rounds {
                let namespace = format!("{run}-contest-{number}-{round}");
                outcomes.push((server, hold_one(client, contest, &namespace).await?));
                held += 1;
            }
        }
        let (_, first) = outcomes.first().expect("there are rounds");
        for (server, outcome) in &outcomes {
            ensure!(
                outcome == first,
                "{}: {server}: {outcome:?} instead of {first:?}",
                contest.name
            );
        }
    }
    Ok(held)
}

async fn hold_one(client: &Client, contest: &Contest, namespace: &str) -> Result<Outcome> {
    let space =
        json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": namespace } });
    send(client, "POST", "/api/v1/namespaces", "application/json", &space).await?;
    let all = format!("/api/v1/namespaces/{namespace}/configmaps");
    let mut version = String::new();
    if contest.made {
        let (_, made) = send(client, "POST", &all, "application/json", &object(99, "")).await?;
        made["metadata"]["resourceVersion"].as_str().unwrap_or_default().clone_into(&mut version);
    }
    let sent = (0..CLIENTS).map(|number| {
        let Sent { method, path, media, body } = (contest.sends)(number, &version);
        let path = format!("{all}{path}");
        let client = client.clone();
        // A task for each: they run on all cores.
        tokio::spawn(async move { send(&client, method, &path, media, &body).await })
    });
    let mut outcome = Outcome::default();
    let mut versions = std::collections::BTreeSet::new();
    for answer in join_all(sent).await {
        let (code, body) = answer??;
        let reason = body["reason"].as_str().unwrap_or_default();
        *outcome.answers.entry(format!("{code} {reason}")).or_default() += 1;
        versions.extend(body["metadata"]["resourceVersion"].as_str().map(str::to_owned));
    }
    outcome.versions = versions.len();
    let (code, left) = send(client, "GET", &format!("{all}/o"), "", &Value::Null).await?;
    let keys = left["data"].as_object().map_or(0, serde_json::Map::len);
    let managers = left["metadata"]["managedFields"].as_array().map_or(0, Vec::len);
    outcome.left = format!("{code}, {keys} keys, {managers} managers");
    Ok(outcome)
}

async fn send(
    client: &Client,
    method: &str,
    path: &str,
    media: &str,
    body: &Value,
) -> Result<(u16, Value)> {
    let mut request =
        HttpRequest::builder().method(method).uri(path).header("User-Agent", "contest/1.0");
    let mut bytes = Vec::new();
    if !media.is_empty() {
        request = request.header("Content-Type", media);
        bytes = body.to_string().into_bytes();
    }
    let response = client.send(request.body(Body::from(bytes))?).await?;
    let code = response.status().as_u16();
    let bytes = response.into_body().collect().await?.to_bytes();
    Ok((code, serde_json::from_slice(&bytes)?))
}
