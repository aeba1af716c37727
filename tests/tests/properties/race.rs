//! Real races of clients: threads, sockets, retries.

use std::{net::SocketAddr, sync::Arc};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use kube_sandbox::{Sandbox, Settings, clock::Clock};
use serde_json::{Value, json};
use tidegate_tests::wire::config_map;

const TASKS: u32 = 8;
const ROUNDS: u32 = 25;

type Http = Client<hyper_util::client::legacy::connect::HttpConnector, Full<Bytes>>;

async fn send(http: &Http, method: &str, uri: &str, body: &Value) -> (u16, Value) {
    let request = http::Request::builder()
        .method(method)
        .uri(uri)
        .header("content-type", "application/json")
        .body(Full::new(Bytes::from(body.to_string())))
        .unwrap();
    let response = http.request(request).await.unwrap();
    let code = response.status().as_u16();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (code, serde_json::from_slice(&bytes).unwrap())
}

/// Adds one, `ROUNDS` times, each with as many retries as it takes. Returns the number of conflicts.
async fn add(http: Http, uri: String) -> u32 {
    let mut lost = 0;
    for _ in 0..ROUNDS {
        loop {
            let (_, mut map) = send(&http, "GET", &uri, &Value::Null).await;
            let count: u32 = map["data"]["value"].as_str().unwrap().parse().unwrap();
            map["data"]["value"] = (count + 1).to_string().into();
            let (code, answer) = send(&http, "PUT", &uri, &map).await;
            match code {
                200 => break,
                409 => lost += 1,
                other => panic!("{other}: {answer}"),
            }
        }
    }
    lost
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn racing_clients_lose_no_update() {
    let settings = Settings { clock: Clock::real(), ..Settings::for_tests() };
    let sandbox = Arc::new(Sandbox::new(settings));
    let listener = sandbox.listen(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
    let maps = format!("http://{}/api/v1/namespaces/default/configmaps", listener.address);
    let http: Http = Client::builder(TokioExecutor::new()).build_http();
    let (code, first) = send(&http, "POST", &maps, &config_map("counter", "0")).await;
    assert_eq!(code, 201);
    let uri = format!("{maps}/counter");
    let tasks: Vec<_> = (0..TASKS).map(|_| tokio::spawn(add(http.clone(), uri.clone()))).collect();
    for task in tasks {
        task.await.unwrap();
    }
    let (_, last) = send(&http, "GET", &uri, &Value::Null).await;
    assert_eq!(last["data"]["value"], (TASKS * ROUNDS).to_string());
    let version = |object: &Value| tidegate_tests::wire::revision(object);
    assert_eq!(version(&last), version(&first) + u64::from(TASKS * ROUNDS), "one version a write");
    listener.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_racing_creates_of_one_name_one_wins() {
    let settings = Settings { clock: Clock::real(), ..Settings::for_tests() };
    let sandbox = Sandbox::new(settings);
    let listener = sandbox.listen(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
    let maps = format!("http://{}/api/v1/namespaces/default/configmaps", listener.address);
    let http: Http = Client::builder(TokioExecutor::new()).build_http();
    for round in 0..10 {
        let create = |task: u32| {
            let (http, maps) = (http.clone(), maps.clone());
            let map = config_map(&format!("m{round}"), &task.to_string());
            tokio::spawn(async move { send(&http, "POST", &maps, &map).await.0 })
        };
        let tasks: Vec<_> = (0..TASKS).map(create).collect();
        let mut codes = Vec::new();
        for task in tasks {
            codes.push(task.await.unwrap());
        }
        codes.sort_unstable();
        assert_eq!(codes[0], 201);
        assert!(codes[1..].iter().all(|code| *code == 409), "{codes:?}");
    }
    let generated = json!({ "metadata": { "generateName": "g-" } });
    let tasks: Vec<_> = (0..50)
        .map(|_| {
            let (http, maps, map) = (http.clone(), maps.clone(), generated.clone());
            tokio::spawn(async move { send(&http, "POST", &maps, &map).await })
        })
        .collect();
    let mut names = std::collections::BTreeSet::new();
    for task in tasks {
        let (code, map) = task.await.unwrap();
        assert_eq!(code, 201, "{map}");
        names.insert(map["metadata"]["name"].as_str().unwrap().to_owned());
    }
    assert_eq!(names.len(), 50);
    listener.stop().await;
}
