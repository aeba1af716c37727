//! The command line of `hey`.
//!
//! All its flags are known, written with one dash or two, with `=` or without. Differences: `-o csv`
//! and `-x` are refused, redirects are counted and not followed, `-h2c` and `-verify` are our own,
//! and flags may also stand behind the address.

use std::{
    num::NonZeroU32,
    path::{Path, PathBuf},
    time::Duration,
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, header};

use super::plan::{
    BodyFiles, Bounds, End, Output, Plan, PlanError, Protocol, Rate, Target, add_header, bad, host,
};
use crate::{duration, files::confine};

/// The flags as written.
struct Flags {
    requests: u64,
    connections: NonZeroU32,
    rate: Option<Rate>,
    duration: Option<Duration>,
    timeout: Option<Duration>,
    method: Method,
    headers: HeaderMap,
    body: Bytes,
    body_file: Option<String>,
    content_type: HeaderValue,
    user_agent: HeaderValue,
    host: Option<String>,
    protocol: Protocol,
    keep_alive: bool,
    compression: bool,
    verify_tls: bool,
    threads: Option<NonZeroU32>,
    output: Output,
}

/// Flags that take no value.
const SWITCHES: [&str; 6] =
    ["h2", "h2c", "verify", "disable-compression", "disable-keepalive", "disable-redirects"];
/// A body beyond this is no load test of a request any more, and every connection sends it.
const BODY_BYTES_MAX: u64 = 16 * 1024 * 1024;
pub(super) const USER_AGENT: &str = concat!("tidegate-loadtester/", env!("CARGO_PKG_VERSION"));

pub(super) fn parse(words: &[String], bounds: &Bounds) -> Result<Plan, PlanError> {
    let mut flags = Flags::default();
    let mut address = None;
    let mut words = words.iter().enumerate();
    while let Some((at, word)) = words.next() {
        let Some(flag) = word.strip_prefix("--").or_else(|| word.strip_prefix('-')) else {
            if address.replace(word).is_some() {
                return Err(PlanError::ExtraWord(at + 1));
            }
            continue;
        };
        let (name, value) = match flag.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (flag, None),
        };
        if SWITCHES.contains(&name) {
            let on = match value {
                None | Some("true" | "1" | "t" | "T" | "TRUE" | "True") => true,
                Some("false" | "0" | "f" | "F" | "FALSE" | "False") => false,
                Some(other) => return Err(bad("a switch", other)),
            };
            flags.switch(name, on);
            continue;
        }
        let is_known = KNOWN.contains(&name);
        if !is_known {
            return Err(PlanError::UnknownFlag(
                format!("-{}", name.chars().take(40).collect::<String>()),
                "hey",
            ));
        }
        let value = value.or_else(|| words.next().map(|(_, word)| word.as_str()));
        flags.set(name, value.ok_or_else(|| PlanError::NoValue(format!("-{name}")))?)?;
    }
    flags.plan(address.ok_or(PlanError::NoAddress)?, bounds)
}

/// Flags that take a value.
const KNOWN: [&str; 17] =
    ["n", "c", "q", "z", "o", "m", "H", "t", "A", "d", "D", "T", "U", "a", "x", "host", "cpus"];

// === impl Flags ===

impl Default for Flags {
    /// As hey's.
    fn default() -> Self {
        Self {
            requests: 200,
            connections: NonZeroU32::new(50).unwrap_or(NonZeroU32::MIN),
            rate: None,
            duration: None,
            timeout: Some(Duration::from_secs(20)),
            method: Method::GET,
            headers: HeaderMap::new(),
            body: Bytes::new(),
            body_file: None,
            content_type: HeaderValue::from_static("text/html"),
            user_agent: HeaderValue::from_static(USER_AGENT),
            host: None,
            protocol: Protocol::Http1,
            keep_alive: true,
            compression: true,
            verify_tls: false,
            threads: None,
            output: Output::Text,
        }
    }
}

impl Flags {
    fn switch(&mut self, name: &str, on: bool) {
        match name {
            "h2" if on => self.protocol = Protocol::Http2,
            "h2c" if on => self.protocol = Protocol::Http2PriorKnowledge,
            "h2" | "h2c" => self.protocol = Protocol::Http1,
            "verify" => self.verify_tls = on,
            "disable-compression" => self.compression = !on,
            "disable-keepalive" => self.keep_alive = !on,
            // Redirects are never followed.
            _ => {}
        }
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), PlanError> {
        match name {
            "n" => self.requests = value.parse().map_err(|_| bad("-n", value))?,
            "c" => self.connections = value.parse().map_err(|_| bad("-c", value))?,
            "q" => self.rate = Rate::parse("-q", value)?,
            "z" => {
                let duration = duration::parse(value).map_err(|_| bad("-z", value))?;
                self.duration = Some(duration).filter(|duration| !duration.is_zero());
            }
            "t" => {
                let seconds: u32 = value.parse().map_err(|_| bad("-t", value))?;
                self.timeout = (seconds > 0).then(|| Duration::from_secs(seconds.into()));
            }
            "m" => {
                let method = value.to_ascii_uppercase();
                self.method = method.parse().map_err(|_| bad("-m", value))?;
            }
            "H" => add_header("-H", value, &mut self.headers, &mut self.host)?,
            "A" => {
                self.headers.insert(header::ACCEPT, header_value("-A", value)?);
            }
            "T" => self.content_type = header_value("-T", value)?,
            "U" => self.user_agent = header_value("-U", value)?,
            "d" => self.body = Bytes::from(value.to_owned()),
            "D" => self.body_file = Some(value.to_owned()),
            "a" => {
                let credentials = format!("Basic {}", BASE64_STANDARD.encode(value));
                let mut credentials = header_value("-a", &credentials)?;
                credentials.set_sensitive(true);
                self.headers.insert(header::AUTHORIZATION, credentials);
            }
            "host" => self.host = Some(host("-host", value)?),
            // Zero is hey's own default: all of them.
            "cpus" => {
                self.threads = NonZeroU32::new(value.parse().map_err(|_| bad("-cpus", value))?);
            }
            "o" if value == "json" => self.output = Output::Json,
            "o" => return Err(PlanError::Unsupported("-o can be json, and nothing else")),
            _ => return Err(PlanError::Unsupported("-x: load does not go through proxies")),
        }
        Ok(())
    }

    fn plan(self, address: &str, bounds: &Bounds) -> Result<Plan, PlanError> {
        let mut target = Target::parse(address)?;
        if let Some(host) = self.host {
            target.authority = host;
        }
        let end = match self.duration {
            Some(duration) => End::After(duration),
            None if self.requests < self.connections.get().into() => {
                return Err(PlanError::Unsupported("-n cannot be less than -c"));
            }
            None => End::Requests(self.requests),
        };
        let body = match self.body_file {
            None => self.body,
            Some(path) => read_body(&path, &bounds.body_files)?,
        };
        let mut headers = self.headers;
        let mut default = |name: HeaderName, value: HeaderValue| {
            headers.entry(name).or_insert(value);
        };
        default(header::USER_AGENT, self.user_agent);
        default(header::CONTENT_TYPE, self.content_type);
        if self.compression {
            default(header::ACCEPT_ENCODING, HeaderValue::from_static("gzip"));
        }
        Ok(Plan {
            target,
            method: self.method,
            headers,
            body,
            connections: self.connections,
            end,
            rate: self.rate,
            timeout: self.timeout,
            keep_alive: self.keep_alive,
            protocol: self.protocol,
            threads: self.threads,
            verify_tls: self.verify_tls,
            output: self.output,
        })
    }
}

fn header_value(flag: &'static str, value: &str) -> Result<HeaderValue, PlanError> {
    HeaderValue::from_str(value).map_err(|_| bad(flag, "a value that is no header"))
}

fn read_body(path: &str, allowed: &BodyFiles) -> Result<Bytes, PlanError> {
    let path = match allowed {
        BodyFiles::Any => PathBuf::from(path),
        BodyFiles::Refused => {
            return Err(PlanError::Unsupported("-D: bodies are not read from files here; use -d"));
        }
        BodyFiles::Under(folder) => {
            confine(folder, Path::new(path)).map_err(PlanError::BodyFile)?.ok_or(
                PlanError::Unsupported("-D: the file is not in the folder that -body-dir names"),
            )?
        }
    };
    let length = std::fs::metadata(&path).map_err(PlanError::BodyFile)?.len();
    if length > BODY_BYTES_MAX {
        return Err(PlanError::Unsupported("the file of -D is larger than 16 MiB"));
    }
    std::fs::read(path).map(Bytes::from).map_err(PlanError::BodyFile)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::{Meta, split};

    const BOUNDS: Bounds = Bounds { connections_max: 1000, body_files: BodyFiles::Refused };

    fn plan(line: &str) -> Result<Plan, PlanError> {
        parse(&split(line, Meta::Refuse).unwrap(), &BOUNDS)
    }

    #[test]
    fn the_usual_line_is_understood() {
        let plan = plan("-z 1m -q 10 -c 2 http://podinfo-canary.test:9898/").unwrap();
        assert_eq!(plan.end, End::After(Duration::from_mins(1)));
        assert_eq!(plan.rate.unwrap().per_second().to_string(), "10");
        assert_eq!(plan.connections.get(), 2);
        assert_eq!(plan.target.host, "podinfo-canary.test");
        assert_eq!((plan.target.port, plan.target.path.as_str()), (9898, "/"));
        assert_eq!(plan.address(), "http://podinfo-canary.test:9898/");
    }

    #[test]
    fn flags_reach_the_plan() {
        let line = "-n 100 -c=10 -m post -H 'X-A: 1' -H 'X-A: 2' --H 'Cookie: a=b; c' -t 0 \
             -A application/json -d '{\"a\": 1}' -T application/json -U me -a 'joe:secret' \
             -host app.example.com -h2 -disable-keepalive -disable-compression \
             -disable-redirects -cpus 1 -o json 'https://[::1]/x?y=z&w=v'";
        let plan = plan(line).unwrap();
        assert_eq!(plan.end, End::Requests(100));
        assert_eq!(plan.method, Method::POST);
        let of = |name: &str| {
            let values = plan.headers.get_all(name).iter();
            values.map(|it| it.to_str().unwrap().to_owned()).collect::<Vec<_>>().join("|")
        };
        assert_eq!(of("x-a"), "1|2");
        assert_eq!(of("cookie"), "a=b; c");
        assert_eq!(of("accept"), "application/json");
        assert_eq!(of("content-type"), "application/json");
        assert_eq!(of("user-agent"), "me");
        assert_eq!(of("authorization"), "Basic am9lOnNlY3JldA==");
        assert_eq!(of("accept-encoding"), "");
        assert_eq!(plan.body, r#"{"a": 1}"#);
        assert_eq!(plan.timeout, None);
        assert_eq!(plan.protocol, Protocol::Http2);
        assert!(!plan.keep_alive);
        assert_eq!(plan.output, Output::Json);
        let Target { tls, host, port, authority, path } = &plan.target;
        assert!(*tls);
        assert_eq!((host.as_str(), *port, authority.as_str()), ("::1", 443, "app.example.com"));
        assert_eq!(path, "/x?y=z&w=v");
        assert_eq!(plan.address(), "https://[::1]/x", "a query may hold a token");
    }

    #[test]
    fn defaults_are_heys() {
        let plan = plan("http://a").unwrap();
        assert_eq!((plan.end, plan.connections.get()), (End::Requests(200), 50));
        assert_eq!(plan.timeout, Some(Duration::from_secs(20)));
        assert_eq!(plan.target.path, "/");
        assert_eq!(plan.headers["content-type"], "text/html");
        assert_eq!(plan.headers["accept-encoding"], "gzip");
        assert!(plan.rate.is_none() && plan.keep_alive && !plan.verify_tls);
    }

    #[test]
    fn requests_are_shared_out_without_a_rest() {
        let plan = plan("-n 10 -c 4 http://a").unwrap();
        let shares: Vec<_> = (0..4).filter_map(|it| plan.requests_of(it)).collect();
        assert_eq!(shares, [3, 3, 2, 2]);
    }

    #[test]
    fn errors_name_the_argument_and_no_secrets() {
        let cases = [
            ("", "an address to send requests to is missing"),
            ("-z", "-z needs a value"),
            ("-z 1 http://a", "`1` is no value for -z"),
            ("-c 0 http://a", "`0` is no value for -c"),
            ("-q -1 http://a", "`-1` is no value for -q"),
            ("-q NaN http://a", "`NaN` is no value for -q"),
            ("-bogus http://a", "-bogus is not a flag of hey that is understood"),
            ("-n 1 -c 2 http://a", "-n cannot be less than -c"),
            ("-bogus=secret http://a", "-bogus is not a flag of hey that is understood"),
            ("http://a http://b", "argument 2 is one too many; is a value with blanks not quoted?"),
            (
                "-H Authorization: Bearer secret http://a",
                "argument 4 is one too many; is a value with blanks not quoted?",
            ),
            ("-H Authorization: secret", "`***` is no http or https address"),
            ("http://[]", "`http://[]` is no http or https address"),
            ("http://[a]", "`http://[a]` is no http or https address"),
            ("ftp://a", "`ftp://a` is no http or https address"),
            ("http://joe:secret@a/?t=secret", "`http://***@a/` is no http or https address"),
            ("-H 'bad header: secret' http://a", "`bad header` is no value for -H"),
            ("-H secret http://a", "`a header without `:`` is no value for -H"),
            ("-host 'a b' http://a", "`a b` is no value for -host"),
            ("-D /etc/passwd http://a", "-D: bodies are not read from files here; use -d"),
            ("-H 'Content-Length: 1' http://a", "the length of the body is set by the body itself"),
            ("-x proxy:80 http://a", "-x: load does not go through proxies"),
            ("-o csv http://a", "-o can be json, and nothing else"),
        ];
        for (line, want) in cases {
            assert_eq!(plan(line).unwrap_err().to_string(), want, "{line}");
        }
        let too_many = Plan::parse(
            crate::load::Tool::Hey,
            &["-c".into(), "1001".into(), "-n".into(), "2000".into(), "http://a".into()],
            &BOUNDS,
        );
        let text = too_many.unwrap_err().to_string();
        assert_eq!(text, "1001 connections are asked for, and 1000 are allowed");
    }

    #[test]
    fn a_body_is_read_from_where_it_may_be() {
        let folder = std::env::temp_dir().join(format!("bodies-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("order.json"), "{}").unwrap();
        let plan = |file: &str, body_files: BodyFiles| {
            let words = ["-D", file, "http://a"].map(str::to_owned);
            parse(&words, &Bounds { connections_max: 100, body_files })
        };
        let under = || BodyFiles::Under(folder.clone());
        assert_eq!(plan("order.json", under()).unwrap().body, "{}");
        let file = folder.join("order.json").display().to_string();
        assert_eq!(plan(&file, under()).unwrap().body, "{}");
        assert_eq!(plan(&file, BodyFiles::Any).unwrap().body, "{}");
        let outside = plan("/etc/passwd", under()).unwrap_err().to_string();
        assert_eq!(outside, "-D: the file is not in the folder that -body-dir names");
        assert!(matches!(plan("none", under()), Err(PlanError::BodyFile(_))));
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn no_header_can_smuggle_another() {
        for line in
            ["-H 'A: b\r\nC: d' http://a", "-U 'a\nb' http://a", "-host 'a\r\nB: c' http://a"]
        {
            assert!(plan(line).is_err(), "{line:?}");
        }
    }
}
