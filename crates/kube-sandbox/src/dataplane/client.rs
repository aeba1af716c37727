//! A minimal HTTP/1.1 client: one request per connection, to a server on this machine.
//!
//! Gateway and traffic generator use it. Answers are read whole, up to a size limit. The caller
//! sets the time limit: dropping the future closes the connection.

use std::{io, net::SocketAddr};

use bytes::{Bytes, BytesMut};
use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode,
    header::{CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// A sample application sends a few hundred bytes; a metrics page a few hundred thousand.
const ANSWER_BYTES_MAX: usize = 8 * 1024 * 1024;
/// As most servers limit the head of a request.
const HEAD_BYTES_MAX: usize = 64 * 1024;

/// Headers of one connection, which a proxy does not pass on.
const HOP_BY_HOP: [&str; 8] = [
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Errors of a request.
#[derive(Debug, thiserror::Error)]
pub(super) enum ClientError {
    #[error("failed to exchange bytes with {address}")]
    Io { address: SocketAddr, source: io::Error },
    #[error("the answer of {address} is not HTTP, or ends early, or is too long")]
    Malformed { address: SocketAddr },
}

/// The head of an answer, and the offset of its body.
struct Head {
    status: StatusCode,
    headers: HeaderMap,
    body_at: usize,
}

/// Framing of an answer's body.
#[derive(Clone, Copy)]
enum Length {
    Known(usize),
    Chunked,
    UntilClose,
}

/// Sends a request whose target is its URI's path and query.
pub(super) async fn send(
    address: SocketAddr,
    request: Request<Bytes>,
) -> Result<Response<Bytes>, ClientError> {
    let is_head = request.method() == Method::HEAD;
    let exchange = exchange(address, &request, is_head);
    match exchange.await {
        Ok(Some(response)) => Ok(response),
        Ok(None) => Err(ClientError::Malformed { address }),
        Err(source) => Err(ClientError::Io { address, source }),
    }
}

/// Removes headers of one connection.
pub(super) fn strip_hop_by_hop(headers: &mut HeaderMap) {
    for name in HOP_BY_HOP {
        headers.remove(name);
    }
}

async fn exchange(
    address: SocketAddr,
    request: &Request<Bytes>,
    is_head: bool,
) -> io::Result<Option<Response<Bytes>>> {
    let mut stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    stream.write_all(&render(request)).await?;
    let mut bytes = BytesMut::with_capacity(4096);
    let head = loop {
        if let Some(head) = parse_head(&bytes) {
            break head;
        }
        if bytes.len() > HEAD_BYTES_MAX || stream.read_buf(&mut bytes).await? == 0 {
            return Ok(None);
        }
    };
    let length = if is_head { Length::Known(0) } else { length(&head) };
    let want = match length {
        Length::Known(length) => head.body_at.saturating_add(length),
        Length::Chunked | Length::UntilClose => usize::MAX,
    };
    while bytes.len() < want {
        if bytes.len() > ANSWER_BYTES_MAX {
            return Ok(None);
        }
        if stream.read_buf(&mut bytes).await? == 0 {
            break;
        }
    }
    Ok(finish(head, length, &bytes))
}

fn render(request: &Request<Bytes>) -> Vec<u8> {
    let target = request.uri().path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
    let mut head = format!("{} {target} HTTP/1.1\r\n", request.method()).into_bytes();
    let mut line = |name: &HeaderName, value: &[u8]| {
        head.extend_from_slice(name.as_str().as_bytes());
        head.extend_from_slice(b": ");
        head.extend_from_slice(value);
        head.extend_from_slice(b"\r\n");
    };
    for (name, value) in request.headers() {
        if name != CONTENT_LENGTH && !HOP_BY_HOP.contains(&name.as_str()) {
            line(name, value.as_bytes());
        }
    }
    line(&CONNECTION, b"close");
    line(&CONTENT_LENGTH, request.body().len().to_string().as_bytes());
    head.extend_from_slice(b"\r\n");
    head.extend_from_slice(request.body());
    head
}

/// `None` while the head is incomplete, or if it is malformed.
fn parse_head(bytes: &[u8]) -> Option<Head> {
    const END: &[u8] = b"\r\n\r\n";
    let end = bytes.windows(END.len()).position(|window| window == END)?;
    let text = std::str::from_utf8(bytes.get(..end)?).ok()?;
    let mut lines = text.split("\r\n");
    let mut first = lines.next()?.splitn(3, ' ');
    first.next().filter(|version| version.starts_with("HTTP/1."))?;
    let status = first.next()?.parse().ok()?;
    let mut headers = HeaderMap::new();
    for line in lines {
        let (name, value) = line.split_once(':')?;
        headers.append(name.parse::<HeaderName>().ok()?, HeaderValue::from_str(value.trim()).ok()?);
    }
    Some(Head { status, headers, body_at: end + END.len() })
}

fn length(head: &Head) -> Length {
    let text = |name: &HeaderName| head.headers.get(name).and_then(|value| value.to_str().ok());
    if text(&TRANSFER_ENCODING).is_some_and(|coding| coding.eq_ignore_ascii_case("chunked")) {
        return Length::Chunked;
    }
    let known = text(&CONTENT_LENGTH).and_then(|length| length.parse().ok());
    known.map_or(Length::UntilClose, Length::Known)
}

fn finish(head: Head, length: Length, bytes: &[u8]) -> Option<Response<Bytes>> {
    let body = bytes.get(head.body_at..)?;
    let body = match length {
        Length::Known(length) => Bytes::copy_from_slice(body.get(..length)?),
        Length::UntilClose => Bytes::copy_from_slice(body),
        Length::Chunked => join_chunks(body)?,
    };
    let mut response = Response::new(body);
    *response.status_mut() = head.status;
    *response.headers_mut() = head.headers;
    strip_hop_by_hop(response.headers_mut());
    Some(response)
}

/// Joins the chunks of a body; `None` if the last one is missing.
fn join_chunks(mut bytes: &[u8]) -> Option<Bytes> {
    let mut body = BytesMut::new();
    loop {
        let line = bytes.windows(2).position(|window| window == b"\r\n")?;
        let size = std::str::from_utf8(bytes.get(..line)?).ok()?;
        let size = size.split(';').next().unwrap_or_default().trim();
        let size = usize::from_str_radix(size, 16).ok()?;
        if size == 0 {
            return Some(body.freeze());
        }
        let start = line + 2;
        let end = start.checked_add(size)?;
        body.extend_from_slice(bytes.get(start..end)?);
        bytes = bytes.get(end..)?.strip_prefix(b"\r\n")?;
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    type Case = (&'static str, &'static [u8], Option<&'static [u8]>);

    /// Sends a request to a server that writes `answer` and closes the connection.
    async fn ask(answer: &'static [u8]) -> Option<Response<Bytes>> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut asked = [0; 1024];
            let _ = stream.read(&mut asked).await.unwrap();
            stream.write_all(answer).await.unwrap();
        });
        let request = Request::builder().uri("/a?b=c").body(Bytes::new()).unwrap();
        let response = send(address, request).await.ok();
        server.await.unwrap();
        response
    }

    #[tokio::test]
    async fn answers_are_read_however_they_end() {
        let cases: [Case; 8] = [
            ("of a known length", b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok", Some(b"ok")),
            ("longer than said", b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nokay", Some(b"ok")),
            ("shorter than said", b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nok", None),
            ("until the end", b"HTTP/1.0 200 OK\r\n\r\nok", Some(b"ok")),
            (
                "in chunks",
                b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\no\r\n1;x=y\r\nk\r\n0\r\n\r\n",
                Some(b"ok"),
            ),
            (
                "in chunks without a last",
                b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\no\r\n",
                None,
            ),
            ("not HTTP", b"hello\r\n\r\n", None),
            ("nothing", b"", None),
        ];
        for (reason, answer, want) in cases {
            let got = ask(answer).await.map(Response::into_body);
            assert_eq!(got.as_deref(), want, "{reason}");
        }
    }

    #[test]
    fn a_request_is_rendered_for_one_exchange() {
        let request = Request::builder()
            .method("POST")
            .uri("http://ignored/a?b=c")
            .header("host", "shop")
            .header("connection", "keep-alive")
            .header("content-length", "77")
            .body(Bytes::from_static(b"hello"))
            .unwrap();
        let want = "POST /a?b=c HTTP/1.1\r\nhost: shop\r\nconnection: close\r\n\
                    content-length: 5\r\n\r\nhello";
        assert_eq!(String::from_utf8(render(&request)).unwrap(), want);
    }
}
