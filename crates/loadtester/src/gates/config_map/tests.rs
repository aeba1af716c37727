//! Gates, and an API server that fails or hangs.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use http_body_util::{BodyExt as _, Full};
use hyper::{
    Request, Response,
    body::{Bytes, Incoming},
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::{net::TcpListener, sync::Notify, task::spawn_blocking};

use super::*;
use crate::{
    auth::CallSignature,
    gates::{GateCall, GateError, Gates, Kind},
};

/// One ConfigMap, with versions as the API server has them.
#[derive(Default)]
struct Server {
    object: Mutex<Option<Value>>,
    calls: AtomicU32,
    /// So many calls from the first on are not answered.
    hangs: u32,
    hung: Notify,
}

impl Server {
    /// Gates in its ConfigMap.
    async fn start(self: &Arc<Self>) -> Arc<Gates> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = Arc::clone(self);
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let server = Arc::clone(&server);
                let service = service_fn(move |request| Arc::clone(&server).answer(request));
                let serving = hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), service);
                tokio::spawn(serving);
            }
        });
        let config = kube::Config::new(format!("http://{address}/").parse().unwrap());
        let client = Client::try_from(config).unwrap();
        Arc::new(Gates::in_config_map(ConfigMapStore::new(client, "test/gates")))
    }

    async fn answer(
        self: Arc<Self>,
        request: Request<Incoming>,
    ) -> Result<Response<Full<Bytes>>, std::convert::Infallible> {
        if self.calls.fetch_add(1, Ordering::Relaxed) < self.hangs {
            self.hung.notify_one();
            std::future::pending::<()>().await;
        }
        let writes = request.method() != http::Method::GET;
        let body = request.into_body().collect().await.unwrap().to_bytes();
        let mut kept = self.object.lock();
        let (status, answer) = if writes {
            let mut object: Value = serde_json::from_slice(&body).unwrap();
            let version = |object: &Value| object["metadata"]["resourceVersion"].clone();
            if kept.as_ref().map(version).unwrap_or_default() == version(&object) {
                let next = self.calls.load(Ordering::Relaxed).to_string();
                object["metadata"]["resourceVersion"] = next.into();
                *kept = Some(object.clone());
                (200, object)
            } else {
                (409, json!({ "status": "Failure", "reason": "Conflict", "code": 409 }))
            }
        } else {
            match &*kept {
                Some(object) => (200, object.clone()),
                None => (404, json!({ "status": "Failure", "reason": "NotFound", "code": 404 })),
            }
        };
        let answer = Response::builder().status(status).body(answer.to_string().into());
        Ok(answer.unwrap())
    }
}

fn key(canary: &str) -> Key {
    let (namespace, canary) = ("test".to_owned(), canary.to_owned());
    Key { namespace, canary, kind: Kind::Advance, gate: String::new() }
}

async fn check(gates: &Arc<Gates>) -> bool {
    let gates = Arc::clone(gates);
    let asker = GateCall { checksum: "", call: None };
    spawn_blocking(move || gates.check(&key("app"), asker, 0).unwrap()).await.unwrap()
}

#[tokio::test]
async fn a_call_that_hangs_delays_its_own_caller_only() {
    let server = Arc::new(Server { hangs: 1, ..Server::default() });
    let gates = server.start().await;
    let hanging = {
        let gates = Arc::clone(&gates);
        spawn_blocking(move || gates.list(0))
    };
    server.hung.notified().await;
    // Before the other is given up, which takes five seconds.
    let answered = tokio::time::timeout(Duration::from_secs(4), check(&gates)).await;
    assert_eq!(answered, Ok(false));
    assert!(!hanging.is_finished());
    assert!(hanging.await.unwrap().is_err(), "the API server did not answer in time");
}

#[tokio::test]
async fn of_many_that_ask_at_once_as_many_get_a_step_as_there_are() {
    let server = Arc::new(Server::default());
    let gates = server.start().await;
    let opening = Opening { steps: Some(3), ..Opening::default() };
    let opened = Arc::clone(&gates);
    spawn_blocking(move || opened.open(&key("app"), &opening, None, 0).unwrap()).await.unwrap();
    let asked: Vec<_> = (0..12)
        .map(|_| {
            let gates = Arc::clone(&gates);
            tokio::spawn(async move { check(&gates).await })
        })
        .collect();
    let mut granted = BTreeMap::new();
    for asked in asked {
        *granted.entry(asked.await.unwrap()).or_insert(0) += 1;
    }
    assert_eq!(granted, BTreeMap::from([(true, 3), (false, 9)]));
}

#[tokio::test]
async fn a_call_that_one_has_carried_out_is_refused_by_all_once_another_closed_the_gate() {
    let server = Arc::new(Server::default());
    let (one, other) = (server.start().await, server.start().await);
    let change = async |gates: &Arc<Gates>, opens: bool, at| {
        let gates = Arc::clone(gates);
        let call = CallSignature { at, mark: at.to_string() };
        let changes = move || {
            if opens {
                gates.open(&key("app"), &Opening::default(), Some(&call), 0)
            } else {
                gates.close(&key("app"), Some(&call), 0)
            }
        };
        spawn_blocking(changes).await.unwrap()
    };
    change(&one, true, 1).await.unwrap();
    assert!(check(&other).await);
    change(&other, false, 2).await.unwrap();
    for gates in [&one, &other] {
        let again = change(gates, true, 1).await;
        assert!(matches!(again, Err(GateError::Outdated(_))), "{again:?}");
        assert!(!check(gates).await);
    }
}
