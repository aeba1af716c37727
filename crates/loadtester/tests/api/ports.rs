//! The port, and callers that hold connections.

use std::{
    io::Write as _,
    net::TcpStream,
    time::{Duration, Instant},
};

use crate::support::Tester;

/// On a machine that takes longer to connect, the first callers are gone before the last one comes.
const HEAD_TIMEOUT: Duration = Duration::from_secs(4);
/// More than the load tester has places.
const CALLERS: usize = 1153;

#[test]
fn probes_are_answered_while_others_hold_all_connections() {
    let half_head = "GET /healthz HTTP/1.1\r\nHost: tester\r\n";
    let half_body = "POST / HTTP/1.1\r\nHost: tester\r\nContent-Length: 9\r\n\r\n{";
    for text in ["", half_head, half_body] {
        let tester = Tester::start(&[]);
        let (mut held, begun) = (Vec::new(), Instant::now());
        for _ in 0..CALLERS {
            let mut stream = TcpStream::connect(("127.0.0.1", tester.port)).unwrap();
            stream.write_all(text.as_bytes()).unwrap();
            held.push(stream);
        }
        let is_full = begun.elapsed() < HEAD_TIMEOUT;
        let start = Instant::now();
        assert_eq!(tester.get("/healthz").status, 200, "{text:?}");
        // Without a bound it would wait for the other callers, one after the other: half a minute.
        assert!(start.elapsed() < Duration::from_secs(15), "{text:?}: {:?}", start.elapsed());
        if is_full {
            tester.until_logged("All connections were taken");
        }
        drop(held);
    }
}
