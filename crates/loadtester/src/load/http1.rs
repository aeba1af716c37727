//! HTTP/1.1 on one connection, without an allocation for a request.
//!
//! The request is the same bytes every time. An answer is read into a buffer that is kept; its body
//! is counted and thrown away.
//!
//! ```text
//! write --> read until the head is whole --> skip the body: by length, by chunks, or to the end
//! ```

use std::{future::poll_fn, io, mem::MaybeUninit, pin::Pin, task::Poll};

use bytes::{BufMut, Bytes, BytesMut};
use http::Method;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};

use super::{plan::Plan, stats::Failure};

/// A connection to send the same request on again and again.
pub(super) struct Http1<S> {
    stream: S,
    buffer: Box<[u8]>,
    /// How much of the buffer holds bytes that are not used up.
    filled: usize,
}

/// An answer, read to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) status: u16,
    /// Of the body, as it came.
    pub(super) bytes: u64,
    /// Whether the connection can be used again.
    pub(super) reusable: bool,
    pub(super) http2: bool,
}

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExchangeError {
    /// Nothing of the request was sent.
    Unsent,
    /// Closed before the first byte of an answer, as servers close idle connections.
    ClosedUnanswered,
    Failed(Failure),
}

/// The request as it goes over the wire.
#[derive(Clone, Debug)]
pub(super) struct Wire {
    bytes: Bytes,
    /// Answers to `HEAD` have no body, even if their headers announce one.
    bodiless: bool,
}

/// The head of an answer.
#[derive(Debug, PartialEq, Eq)]
struct Head {
    status: u16,
    length: usize,
    framing: Framing,
    keeps_open: bool,
}

/// How the end of a body is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Framing {
    None,
    Length(u64),
    Chunked,
    ToTheEnd,
}

/// Where in a chunked body we are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Chunks {
    /// In the digits of a size.
    Size {
        size: u64,
        digits: u8,
    },
    /// Behind them, up to the end of the line.
    Extension {
        size: u64,
    },
    Data {
        left: u64,
    },
    /// The line end behind the data.
    DataEnd,
    /// A line of the trailer; empty if nothing was seen of it yet.
    Trailer {
        empty: bool,
    },
    Done,
}

/// Enough for the largest head we accept, and for few reads of large bodies.
const BUFFER_BYTES: usize = 32 * 1024;
/// More headers than this are no answer to a load test.
const HEADERS_MAX: usize = 96;

// === impl Wire ===

impl Wire {
    pub(super) fn of(plan: &Plan) -> Self {
        let mut bytes = BytesMut::new();
        let Plan { target, method, headers, body, keep_alive, .. } = plan;
        bytes.put_slice(method.as_str().as_bytes());
        bytes.put_slice(b" ");
        bytes.put_slice(target.path.as_bytes());
        bytes.put_slice(b" HTTP/1.1\r\nHost: ");
        bytes.put_slice(target.authority.as_bytes());
        bytes.put_slice(b"\r\n");
        for (name, value) in headers {
            bytes.put_slice(name.as_str().as_bytes());
            bytes.put_slice(b": ");
            bytes.put_slice(value.as_bytes());
            bytes.put_slice(b"\r\n");
        }
        if !keep_alive {
            bytes.put_slice(b"Connection: close\r\n");
        }
        let expects_body = matches!(*method, Method::POST | Method::PUT | Method::PATCH);
        if expects_body || !body.is_empty() {
            bytes.put_slice(format!("Content-Length: {}\r\n", body.len()).as_bytes());
        }
        bytes.put_slice(b"\r\n");
        bytes.put_slice(body);
        Self { bytes: bytes.freeze(), bodiless: *method == Method::HEAD }
    }
}

// === impl Http1 ===

impl<S: AsyncRead + AsyncWrite + Unpin> Http1<S> {
    pub(super) fn new(stream: S) -> Self {
        Self { stream, buffer: vec![0; BUFFER_BYTES].into_boxed_slice(), filled: 0 }
    }

    pub(super) fn stream(&self) -> &S {
        &self.stream
    }

    /// Whether a connection that idled has ended, or holds bytes without a request, such as a 408: either way
    /// it cannot be used. Only the runtime is queried, not the system.
    pub(super) async fn is_gone(&mut self) -> bool {
        poll_fn(|cx| {
            let mut room = ReadBuf::new(&mut self.buffer);
            Poll::Ready(Pin::new(&mut self.stream).poll_read(cx, &mut room).is_ready())
        })
        .await
    }

    /// Sends the request and reads the answer. After a failure the connection cannot be used again.
    pub(super) async fn exchange(&mut self, request: &Wire) -> Result<Answer, ExchangeError> {
        let sent = self.send(&request.bytes).await;
        // A server may answer and close before it has read everything: look before giving up.
        let unsent = sent.is_err();
        let head = loop {
            if let Some(head) = self.head(request.bodiless)? {
                // Interim answers announce the real one.
                if head.status >= 200 {
                    break head;
                }
                self.use_up(head.length);
                continue;
            }
            if self.filled == self.buffer.len() {
                return Err(ExchangeError::Failed(Failure::Protocol));
            }
            let is_first = self.filled == 0;
            match self.fill().await {
                Ok(0) | Err(_) if is_first => {
                    return Err(sent.err().unwrap_or(ExchangeError::ClosedUnanswered));
                }
                Ok(0) | Err(_) => return Err(ExchangeError::Failed(Failure::Broken)),
                Ok(_) => {}
            }
        };
        self.use_up(head.length);
        let (bytes, ended) = match head.framing {
            Framing::None => (0, false),
            Framing::Length(length) => (self.skip(length).await?, false),
            Framing::Chunked => (self.skip_chunks().await?, false),
            Framing::ToTheEnd => (self.skip_to_the_end().await?, true),
        };
        // Bytes without a request: the next answer could not be told from them.
        let reusable = head.keeps_open && !ended && !unsent && self.filled == 0;
        Ok(Answer { status: head.status, bytes, reusable, http2: false })
    }

    /// Sends all of it; the error says whether anything was sent.
    async fn send(&mut self, bytes: &[u8]) -> Result<(), ExchangeError> {
        let first = self.stream.write(bytes).await.unwrap_or_default();
        if first == 0 {
            return Err(ExchangeError::Unsent);
        }
        let rest = bytes.get(first..).unwrap_or_default();
        let sent = async {
            self.stream.write_all(rest).await?;
            self.stream.flush().await
        };
        sent.await.map_err(|_: io::Error| ExchangeError::ClosedUnanswered)
    }

    fn head(&self, bodiless: bool) -> Result<Option<Head>, ExchangeError> {
        let seen = self.buffer.get(..self.filled).unwrap_or_default();
        Head::parse(seen, bodiless).map_err(|()| ExchangeError::Failed(Failure::Protocol))
    }

    async fn fill(&mut self) -> io::Result<usize> {
        let room = self.buffer.get_mut(self.filled..).unwrap_or_default();
        let read = self.stream.read(room).await?;
        self.filled += read;
        Ok(read)
    }

    /// Drops bytes from the front, and moves those behind them; as a rule there are none.
    fn use_up(&mut self, length: usize) {
        let length = length.min(self.filled);
        if length < self.filled {
            self.buffer.copy_within(length..self.filled, 0);
        }
        self.filled -= length;
    }

    /// Reads more, once the buffer is used up.
    async fn refill(&mut self) -> Result<(), ExchangeError> {
        match self.fill().await {
            Ok(0) | Err(_) => Err(ExchangeError::Failed(Failure::Broken)),
            Ok(_) => Ok(()),
        }
    }

    async fn skip(&mut self, length: u64) -> Result<u64, ExchangeError> {
        let mut left = length;
        loop {
            let here = usize::try_from(left).unwrap_or(usize::MAX).min(self.filled);
            self.use_up(here);
            left -= here as u64;
            if left == 0 {
                return Ok(length);
            }
            self.refill().await?;
        }
    }

    async fn skip_chunks(&mut self) -> Result<u64, ExchangeError> {
        let mut chunks = Chunks::START;
        let mut bytes = 0;
        loop {
            let seen = self.buffer.get(..self.filled).unwrap_or_default();
            let used = chunks.advance(seen, &mut bytes);
            let used = used.map_err(|()| ExchangeError::Failed(Failure::Protocol))?;
            self.use_up(used);
            if chunks == Chunks::Done {
                return Ok(bytes);
            }
            self.refill().await?;
        }
    }

    async fn skip_to_the_end(&mut self) -> Result<u64, ExchangeError> {
        let mut bytes = 0;
        loop {
            bytes += self.filled as u64;
            self.filled = 0;
            match self.fill().await {
                Ok(0) => return Ok(bytes),
                Ok(_) => {}
                Err(_) => return Err(ExchangeError::Failed(Failure::Broken)),
            }
        }
    }
}

// === impl Head ===

impl Head {
    /// `None` if there must be more of it.
    fn parse(bytes: &[u8], bodiless: bool) -> Result<Option<Self>, ()> {
        if bytes.is_empty() {
            return Ok(None);
        }
        // Three kilobytes that need not be cleared for each answer.
        let mut headers = [const { MaybeUninit::uninit() }; HEADERS_MAX];
        let mut response = httparse::Response::new(&mut []);
        let parsed = httparse::ParserConfig::default().parse_response_with_uninit_headers(
            &mut response,
            bytes,
            &mut headers,
        );
        let httparse::Status::Complete(length) = parsed.map_err(drop)? else { return Ok(None) };
        let status = response.code.filter(|code| (100..600).contains(code)).ok_or(())?;
        let mut keeps_open = response.version == Some(1);
        let mut framing = None;
        for header in response.headers.iter() {
            let is = |name: &str| header.name.eq_ignore_ascii_case(name);
            if is("content-length") {
                let stated = number(header.value).ok_or(())?;
                match framing {
                    None => framing = Some(Framing::Length(stated)),
                    Some(Framing::Length(other)) if other != stated => return Err(()),
                    Some(_) => {}
                }
            } else if is("transfer-encoding") {
                let chunked = ends_with_word(header.value, b"chunked");
                framing = Some(if chunked { Framing::Chunked } else { Framing::ToTheEnd });
            } else if is("connection") {
                let value = header.value;
                let says = |word: &[u8]| {
                    value.split(|b| *b == b',').any(|it| it.trim_ascii().eq_ignore_ascii_case(word))
                };
                keeps_open = !says(b"close") && (keeps_open || says(b"keep-alive"));
            }
        }
        let framing = if bodiless || status < 200 || status == 204 || status == 304 {
            Framing::None
        } else {
            framing.unwrap_or(Framing::ToTheEnd)
        };
        Ok(Some(Self { status, length, framing, keeps_open }))
    }
}

/// Digits and nothing else, as the standard wants it.
fn number(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?.trim();
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

fn ends_with_word(value: &[u8], word: &[u8]) -> bool {
    let last = value.rsplit(|byte| *byte == b',').next().unwrap_or_default();
    last.trim_ascii().eq_ignore_ascii_case(word)
}

// === impl Chunks ===

impl Chunks {
    const START: Self = Self::Size { size: 0, digits: 0 };

    /// Uses up bytes from the front and adds those of the body to `body`. Returns how many were used.
    fn advance(&mut self, bytes: &[u8], body: &mut u64) -> Result<usize, ()> {
        let mut at = 0;
        while let Some(byte) = bytes.get(at).copied() {
            if let Self::Data { left } = self {
                let here = (bytes.len() - at).min(usize::try_from(*left).unwrap_or(usize::MAX));
                at += here;
                *body += here as u64;
                *left -= here as u64;
                if *left == 0 {
                    *self = Self::DataEnd;
                }
                continue;
            }
            if *self == Self::Done {
                break;
            }
            *self = self.after(byte)?;
            at += 1;
        }
        Ok(at)
    }

    /// The state after one byte that is not data.
    fn after(self, byte: u8) -> Result<Self, ()> {
        match (self, byte) {
            (Self::Size { digits: 1.., size } | Self::Extension { size }, b'\n') => {
                Ok(if size == 0 {
                    Self::Trailer { empty: true }
                } else {
                    Self::Data { left: size }
                })
            }
            (
                Self::Size { size, digits: digits @ 0..16 },
                b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F',
            ) => {
                let digit = char::from(byte).to_digit(16).unwrap_or_default();
                Ok(Self::Size { size: size << 4 | u64::from(digit), digits: digits + 1 })
            }
            (Self::Size { digits: 1.., size }, b'\r' | b';' | b' ' | b'\t')
            | (Self::Extension { size }, _) => Ok(Self::Extension { size }),
            (Self::DataEnd, b'\r') => Ok(Self::DataEnd),
            (Self::DataEnd, b'\n') => Ok(Self::START),
            (Self::Trailer { empty: true }, b'\n') => Ok(Self::Done),
            (Self::Trailer { .. }, b'\n') => Ok(Self::Trailer { empty: true }),
            (Self::Trailer { empty }, b'\r') => Ok(Self::Trailer { empty }),
            (Self::Trailer { .. }, _) => Ok(Self::Trailer { empty: false }),
            (Self::Size { .. } | Self::DataEnd | Self::Data { .. } | Self::Done, _) => Err(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tokio::io::duplex;

    use super::*;

    /// The result of an answer that arrives `step` bytes at a time, and of one more request.
    async fn answered(answer: &str, step: usize, closes: bool) -> Result<Answer, ExchangeError> {
        let (ours, mut theirs) = duplex(64);
        let answer = answer.as_bytes().to_vec();
        let server = tokio::spawn(async move {
            let mut asked = [0; 4];
            theirs.read_exact(&mut asked).await.unwrap();
            for piece in answer.chunks(step) {
                if theirs.write_all(piece).await.is_err() {
                    break;
                }
                tokio::task::yield_now().await;
            }
            if !closes {
                std::future::pending::<()>().await;
            }
        });
        let wire = Wire { bytes: Bytes::from_static(b"ask!"), bodiless: false };
        let mut connection = Http1::new(ours);
        let answer = connection.exchange(&wire).await;
        server.abort();
        answer
    }

    #[tokio::test]
    async fn answers_are_read_to_their_end_however_they_arrive() {
        let ok = |bytes, reusable| Ok(Answer { status: 200, bytes, reusable, http2: false });
        let cases = [
            ("a length", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", ok(5, true)),
            ("nothing", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", ok(0, true)),
            (
                "chunks",
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;x=y\r\nhello\r\nA\r\n0123456789\r\n0\r\nT: x\r\n\r\n",
                ok(15, true),
            ),
            (
                "the last word",
                "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok",
                ok(2, false),
            ),
            ("an older version", "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", ok(2, false)),
            (
                "an older version that stays",
                "HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 2\r\n\r\nok",
                ok(2, true),
            ),
            (
                "an interim answer",
                "HTTP/1.1 103 Early\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx",
                ok(1, true),
            ),
            (
                "no body by its status",
                "HTTP/1.1 304 No\r\nContent-Length: 9\r\n\r\n",
                Ok(Answer { status: 304, bytes: 0, reusable: true, http2: false }),
            ),
        ];
        for (reason, answer, want) in cases {
            for step in [1, 3, 1000] {
                assert_eq!(answered(answer, step, false).await, want, "{reason}, {step} at a time");
            }
        }
        let to_the_end = answered("HTTP/1.1 200 OK\r\n\r\nall of it", 3, true).await;
        assert_eq!(to_the_end, ok(9, false));
    }

    #[tokio::test]
    async fn answers_that_are_none_fail_by_their_kind() {
        let protocol = Err(ExchangeError::Failed(Failure::Protocol));
        let broken = Err(ExchangeError::Failed(Failure::Broken));
        let cases = [
            ("closed at once", "", Err(ExchangeError::ClosedUnanswered)),
            ("cut in the head", "HTTP/1.1 200 OK\r\nContent-", broken),
            ("cut in the body", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nab", broken),
            ("another protocol", "SSH-2.0-OpenSSH_9.9\r\n", protocol),
            ("a strange status", "HTTP/1.1 999 OK\r\n\r\n", protocol),
            (
                "two lengths",
                "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
                protocol,
            ),
            ("a signed length", "HTTP/1.1 200 OK\r\nContent-Length: +1\r\n\r\n", protocol),
            (
                "a chunk of no size",
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\r\nx",
                protocol,
            ),
            (
                "a chunk beyond all sizes",
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n11112222333344445\r\n",
                protocol,
            ),
        ];
        for (reason, answer, want) in cases {
            assert_eq!(answered(answer, 1000, true).await, want, "{reason}");
        }
        let endless = format!("HTTP/1.1 200 OK\r\nX: {}", "a".repeat(BUFFER_BYTES));
        assert_eq!(answered(&endless, 5000, false).await, protocol, "a head without end");
    }

    #[tokio::test]
    async fn a_connection_with_unexpected_bytes_is_not_used_again() {
        let answer = "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nxHTTP/1.1 200 OK\r\n";
        let got = answered(answer, 1000, false).await;
        assert_eq!(got, Ok(Answer { status: 200, bytes: 1, reusable: false, http2: false }));
    }

    proptest! {
        #[test]
        fn nothing_a_server_says_is_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _whatever = Head::parse(&bytes, false);
            let mut state = Chunks::START;
            let _whatever = state.advance(&bytes, &mut 0);
        }

        #[test]
        fn headers_of_any_kind_are_no_panic(lines in "([a-zA-Z-]{1,12}: [ -~]{0,20}\\r\\n){0,8}") {
            let head = format!("HTTP/1.1 200 OK\r\n{lines}\r\n");
            let _whatever = Head::parse(head.as_bytes(), false);
        }

        #[test]
        fn chunks_are_counted_however_they_are_cut(
            chunks in prop::collection::vec(1_usize..300, 0..6),
            cut in 1_usize..50,
        ) {
            let mut body = Vec::new();
            for length in &chunks {
                body.extend(format!("{length:x}\r\n{}\r\n", "x".repeat(*length)).into_bytes());
            }
            body.extend(b"0\r\n\r\n");
            let (mut state, mut bytes, mut used) = (Chunks::START, 0, 0);
            for piece in body.chunks(cut) {
                used += state.advance(piece, &mut bytes).unwrap();
            }
            prop_assert_eq!(state, Chunks::Done);
            prop_assert_eq!(bytes, chunks.iter().sum::<usize>() as u64);
            prop_assert_eq!(used, body.len());
        }
    }
}
