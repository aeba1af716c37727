//! The command line of `wrk`, and the rate of `wrk2`.
//!
//! Flags are written as getopt reads them: `-c10`, `-c 10`, `--connections=10`. Scripts are refused:
//! they are programs. Unlike wrk, a request that takes longer than the timeout is given up.

use std::{num::NonZeroU32, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, header};

use super::{
    hey::USER_AGENT,
    plan::{End, Output, Plan, PlanError, Protocol, Rate, Target, add_header, bad},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flag {
    Connections,
    Duration,
    Threads,
    Header,
    Timeout,
    Rate,
    Script,
    /// Selects the output; we print everything.
    Ignored,
}

/// Short and long name, meaning, and whether a value follows.
const FLAGS: [(char, &str, Flag, bool); 10] = [
    ('c', "connections", Flag::Connections, true),
    ('d', "duration", Flag::Duration, true),
    ('t', "threads", Flag::Threads, true),
    ('H', "header", Flag::Header, true),
    ('T', "timeout", Flag::Timeout, true),
    ('R', "rate", Flag::Rate, true),
    ('s', "script", Flag::Script, true),
    ('L', "latency", Flag::Ignored, false),
    ('U', "u_latency", Flag::Ignored, false),
    ('B', "batch_latency", Flag::Ignored, false),
];

/// The flags as written.
struct Written {
    connections: NonZeroU32,
    threads: NonZeroU32,
    duration: Duration,
    timeout: Duration,
    rate: Option<Rate>,
    headers: HeaderMap,
    host: Option<String>,
}

pub(super) fn parse(words: &[String]) -> Result<Plan, PlanError> {
    let mut written = Written::default();
    let mut address = None;
    let mut words = words.iter().enumerate();
    while let Some((at, word)) = words.next() {
        let unknown = || {
            // Behind a letter stands its value, which may be a secret.
            let shown = if word.starts_with("--") { 40 } else { 2 };
            let name = word.split('=').next().unwrap_or_default();
            PlanError::UnknownFlag(name.chars().take(shown).collect(), "wrk")
        };
        let (found, value) = if let Some(long) = word.strip_prefix("--") {
            let (name, value) = match long.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (long, None),
            };
            (FLAGS.iter().find(|(_, long, ..)| *long == name), value)
        } else if let Some(short) = word.strip_prefix('-') {
            let mut letters = short.chars();
            let letter = letters.next().ok_or_else(unknown)?;
            let value = Some(letters.as_str()).filter(|value| !value.is_empty());
            (FLAGS.iter().find(|(short, ..)| *short == letter), value)
        } else {
            if address.replace(word).is_some() {
                return Err(PlanError::ExtraWord(at + 1));
            }
            continue;
        };
        let (_, name, flag, takes_value) = found.ok_or_else(unknown)?;
        if *takes_value {
            let value = value.or_else(|| words.next().map(|(_, word)| word.as_str()));
            written.set(*flag, value.ok_or_else(|| PlanError::NoValue(format!("--{name}")))?)?;
        }
    }
    written.plan(address.ok_or(PlanError::NoAddress)?)
}

// === impl Written ===

impl Default for Written {
    /// As wrk's.
    fn default() -> Self {
        Self {
            connections: NonZeroU32::new(10).unwrap_or(NonZeroU32::MIN),
            threads: NonZeroU32::new(2).unwrap_or(NonZeroU32::MIN),
            duration: Duration::from_secs(10),
            timeout: Duration::from_secs(2),
            rate: None,
            headers: HeaderMap::new(),
            host: None,
        }
    }
}

impl Written {
    fn set(&mut self, flag: Flag, value: &str) -> Result<(), PlanError> {
        match flag {
            Flag::Connections => self.connections = count("-c", value)?,
            Flag::Threads => self.threads = count("-t", value)?,
            Flag::Duration => self.duration = time("-d", value)?,
            Flag::Timeout => self.timeout = time("--timeout", value)?,
            Flag::Rate => self.rate = Rate::parse("-R", &scaled("-R", value)?.to_string())?,
            Flag::Header => add_header("-H", value, &mut self.headers, &mut self.host)?,
            Flag::Script => {
                return Err(PlanError::Unsupported("-s: scripts are programs, and are not run"));
            }
            Flag::Ignored => {}
        }
        Ok(())
    }

    fn plan(self, address: &str) -> Result<Plan, PlanError> {
        let Self { connections, threads, duration, timeout, rate, mut headers, host } = self;
        let mut target = Target::parse(address)?;
        if let Some(host) = host {
            target.authority = host;
        }
        if connections < threads {
            return Err(PlanError::Unsupported("-c cannot be less than -t"));
        }
        headers.entry(header::USER_AGENT).or_insert(HeaderValue::from_static(USER_AGENT));
        Ok(Plan {
            target,
            method: Method::GET,
            headers,
            body: Bytes::new(),
            connections,
            end: End::After(duration),
            rate: rate.map(|rate| rate.shared_by(connections)),
            timeout: Some(timeout),
            keep_alive: true,
            protocol: Protocol::Http1,
            threads: Some(threads),
            verify_tls: false,
            output: Output::Text,
        })
    }
}

/// A number with wrk's `k`, `M` or `G`.
fn scaled(flag: &'static str, text: &str) -> Result<u64, PlanError> {
    let (digits, scale) = match text.char_indices().next_back() {
        Some((at, 'k' | 'K')) => (&text[..at], 1_000),
        Some((at, 'm' | 'M')) => (&text[..at], 1_000_000),
        Some((at, 'g' | 'G')) => (&text[..at], 1_000_000_000),
        _ => (text, 1),
    };
    let number: u32 = digits.parse().map_err(|_| bad(flag, text))?;
    Ok(u64::from(number) * scale)
}

fn count(flag: &'static str, text: &str) -> Result<NonZeroU32, PlanError> {
    let number = u32::try_from(scaled(flag, text)?).ok();
    number.and_then(NonZeroU32::new).ok_or_else(|| bad(flag, text))
}

/// A number of seconds, or with `s`, `m` or `h`.
fn time(flag: &'static str, text: &str) -> Result<Duration, PlanError> {
    let (digits, scale) = match text.char_indices().next_back() {
        Some((at, 's' | 'S')) => (&text[..at], 1),
        Some((at, 'm' | 'M')) => (&text[..at], 60),
        Some((at, 'h' | 'H')) => (&text[..at], 3600),
        _ => (text, 1),
    };
    let number: u32 = digits.parse().map_err(|_| bad(flag, text))?;
    let seconds = u64::from(number) * scale;
    // A year, as everywhere.
    if seconds == 0 || seconds > 366 * 24 * 3600 {
        return Err(bad(flag, text));
    }
    Ok(Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::{Meta, split};

    fn plan(line: &str) -> Result<Plan, PlanError> {
        parse(&split(line, Meta::Refuse).unwrap())
    }

    #[test]
    fn flags_are_read_as_getopt_does() {
        for line in [
            "-t2 -c100 -d30s --latency http://app:8080/x",
            "-t 2 -c 100 -d 30 -L http://app:8080/x",
            "--threads=2 --connections 100 --duration=30s http://app:8080/x",
        ] {
            let plan = plan(line).unwrap();
            assert_eq!(plan.connections.get(), 100, "{line}");
            assert_eq!(plan.threads.unwrap().get(), 2, "{line}");
            assert_eq!(plan.end, End::After(Duration::from_secs(30)), "{line}");
            assert_eq!((plan.target.port, plan.target.path.as_str()), (8080, "/x"));
        }
    }

    #[test]
    fn a_total_rate_is_shared_by_the_connections() {
        let plan = plan("-c 4 -R 2k --timeout 5 -H 'Host: app.test' -H 'A: b' http://a").unwrap();
        assert_eq!(plan.rate.unwrap().per_second().to_string(), "500");
        assert_eq!(plan.timeout, Some(Duration::from_secs(5)));
        assert_eq!(plan.target.authority, "app.test");
        assert_eq!(plan.headers["a"], "b");
        assert!(!plan.headers.contains_key("host"));
    }

    #[test]
    fn errors_name_the_argument() {
        let cases = [
            ("-c", "--connections needs a value"),
            ("-c 1 -t 2 http://a", "-c cannot be less than -t"),
            ("-d 0 http://a", "`0` is no value for -d"),
            ("-c 99999999k http://a", "`99999999k` is no value for -c"),
            ("-d é http://a", "`é` is no value for -d"),
            ("-s evil.lua http://a", "-s: scripts are programs, and are not run"),
            ("-x http://a", "-x is not a flag of wrk that is understood"),
            ("-xsecret http://a", "-x is not a flag of wrk that is understood"),
            ("--x=secret http://a", "--x is not a flag of wrk that is understood"),
            (
                "-H Authorization: Bearer secret http://a",
                "argument 4 is one too many; is a value with blanks not quoted?",
            ),
            ("- http://a", "- is not a flag of wrk that is understood"),
            ("-c 10", "an address to send requests to is missing"),
        ];
        for (line, want) in cases {
            assert_eq!(plan(line).unwrap_err().to_string(), want, "{line}");
        }
    }
}
