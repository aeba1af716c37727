//! The port, and callers that hold connections.

use std::{
    io::Write as _,
    net::TcpStream,
    time::{Duration, Instant},
};

use crate::support::Tester;

/// More than the load tester has places.
const CALLERS: usize = 1153;
/// A busy machine connects slowly, and the first callers are closed before the last one comes.
const WAVES: usize = 10;

#[test]
fn probes_are_answered_while_others_hold_all_connections() {
    let half_head = "GET /healthz HTTP/1.1\r\nHost: tester\r\n";
    let half_body = "POST / HTTP/1.1\r\nHost: tester\r\nContent-Length: 9\r\n\r\n{";
    // Half bodies give way to each other before all places are taken.
    for (text, fills) in [("", true), (half_head, true), (half_body, false)] {
        let tester = Tester::start(&[]);
        let is_full = || tester.has_logged("All connections were taken");
        let mut held = Vec::new();
        for _ in 0..WAVES {
            for _ in 0..CALLERS {
                let mut stream = TcpStream::connect(("127.0.0.1", tester.port)).unwrap();
                // One that was closed for others does not take it.
                let _closed = stream.write_all(text.as_bytes());
                held.push(stream);
            }
            let start = Instant::now();
            assert_eq!(tester.get("/healthz").status, 200, "{text:?}");
            // Without a bound it would wait until bodies are given up, after ten seconds.
            assert!(start.elapsed() < Duration::from_secs(8), "{text:?}: {:?}", start.elapsed());
            if is_full() || !fills {
                break;
            }
        }
        assert!(is_full() || !fills, "{text:?}");
        drop(held);
    }
}
