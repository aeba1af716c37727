//! The same API over a socket: HTTP/1.1 and HTTP/2.

use std::net::SocketAddr;

use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::{
    body::Incoming,
    client::conn::{http1, http2},
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};
use tidegate_tests::api::Api;
use tokio::net::TcpStream;

use super::fixtures::{CONFIG_MAPS, cluster, config_map};

fn any_port() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

fn request(method: Method, path: &str, body: &Value) -> Request<Full<Bytes>> {
    let body = if body.is_null() { Bytes::new() } else { body.to_string().into() };
    Request::builder()
        .method(method)
        .uri(format!("http://sandbox{path}"))
        .header("host", "sandbox")
        .header("content-type", "application/json")
        .body(Full::new(body))
        .unwrap()
}

async fn json(response: Response<Incoming>) -> Value {
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    serde_json::from_slice(&bytes).unwrap()
}

async fn event(body: &mut Incoming) -> Value {
    let frame = body.frame().await.unwrap().unwrap().into_data().unwrap();
    serde_json::from_slice(&frame).unwrap()
}

#[tokio::test]
async fn http_1_serves_requests_and_watches() {
    let (sandbox, api) = cluster();
    let listener = sandbox.listen(any_port()).await.unwrap();
    let connect = async || {
        let stream = TcpStream::connect(listener.address).await.unwrap();
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        sender
    };
    let mut sender = connect().await;
    let made = sender.send_request(request(Method::POST, CONFIG_MAPS, &config_map("a"))).await;
    let made = made.unwrap();
    assert_eq!(made.status(), 201);
    assert_eq!(json(made).await["metadata"]["name"], "a");
    let list = sender.send_request(request(Method::GET, CONFIG_MAPS, &Value::Null)).await.unwrap();
    assert!(list.headers().contains_key("content-length"));
    assert_eq!(json(list).await["kind"], "ConfigMapList");
    let mut second = connect().await;
    let path = format!("{CONFIG_MAPS}?watch=1");
    let watch = second.send_request(request(Method::GET, &path, &Value::Null)).await.unwrap();
    assert_eq!(watch.headers()["transfer-encoding"], "chunked");
    let mut body = watch.into_body();
    assert_eq!(event(&mut body).await["type"], "ADDED");
    api.delete(&format!("{CONFIG_MAPS}/a")).await.expect(200);
    assert_eq!(event(&mut body).await["type"], "DELETED");
    let head = sender.send_request(request(Method::HEAD, "/healthz", &Value::Null)).await.unwrap();
    assert_eq!(head.status(), 200);
    listener.stop().await;
}

#[tokio::test]
async fn http_2_carries_many_watches_on_one_connection() {
    let (sandbox, api) = cluster();
    let listener = sandbox.listen(any_port()).await.unwrap();
    let stream = TcpStream::connect(listener.address).await.unwrap();
    let handshake = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await;
    let (mut sender, connection) = handshake.unwrap();
    tokio::spawn(connection);
    let mut bodies = Vec::new();
    for _ in 0..20 {
        let path = format!("{CONFIG_MAPS}?watch=1");
        let watch = sender.send_request(request(Method::GET, &path, &Value::Null)).await.unwrap();
        assert_eq!((watch.status().as_u16(), watch.version()), (200, http::Version::HTTP_2));
        bodies.push(watch.into_body());
    }
    let made = sender.send_request(request(Method::POST, CONFIG_MAPS, &config_map("a"))).await;
    assert_eq!(made.unwrap().status(), 201);
    for body in &mut bodies {
        assert_eq!(event(body).await["object"]["metadata"]["name"], "a");
    }
    let mut large = config_map("large");
    large["data"]["key"] = "x".repeat(900_000).into();
    let made = sender.send_request(request(Method::POST, CONFIG_MAPS, &large)).await.unwrap();
    assert_eq!(made.status(), 201);
    let got = api.get(&format!("{CONFIG_MAPS}/large")).await.expect(200);
    assert_eq!(got["data"]["key"].as_str().unwrap().len(), 900_000);
    listener.stop().await;
}

#[tokio::test]
async fn strangers_on_the_socket_are_nobody_when_permissions_count() {
    let sandbox = kube_sandbox::Sandbox::new(kube_sandbox::Settings::for_tests().rbac());
    let listener = sandbox.listen(any_port()).await.unwrap();
    let stream = TcpStream::connect(listener.address).await.unwrap();
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let refused = sender.send_request(request(Method::GET, CONFIG_MAPS, &Value::Null)).await;
    let refused = refused.unwrap();
    assert_eq!(refused.status(), 403);
    let message = json(refused).await["message"].clone();
    assert!(message.as_str().unwrap().contains("system:anonymous"), "{message}");
    let admin = Api::of(&sandbox);
    admin.post(CONFIG_MAPS, config_map("a")).await.expect(201);
    let healthy = sender.send_request(request(Method::GET, "/healthz", &json!(null))).await;
    assert_eq!(healthy.unwrap().status(), 200);
    listener.stop().await;
}
