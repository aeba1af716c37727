//! Reads `Ingress` objects into rules, with the canary annotations of the NGINX ingress controller.
//!
//! An Ingress annotated as a canary has no rules of its own: where another Ingress of its namespace
//! has the same host and path, it takes a part of its requests. Requests with the canary header
//! come first, then those with the canary cookie, then a random part by weight. A canary without a
//! matching Ingress has no effect.

use std::sync::Arc;

use http::header::COOKIE;
use serde_json::Value;

use super::{
    Backend, Draft, Rule, Source, Target, created,
    host::HostPattern,
    matching::{Condition, Path, Precedence, Text},
};
use crate::controllers::object::{annotation, int, items, name, namespace, text};

const PREFIX: &str = "nginx.ingress.kubernetes.io";

/// Precedence of the path types.
const EXACT: u8 = 2;
const BY_SEGMENTS: u8 = 1;

/// One path of one host.
struct Way<'i> {
    host: &'i str,
    path: &'i str,
    kind: &'i str,
    backend: Backend,
}

/// The requests that a rule applies to, the most specific last.
#[derive(Clone, Copy)]
enum Who {
    Everybody,
    WithCookie,
    WithHeader,
}

pub(super) fn read(objects: &[Value], drafts: &mut Vec<Draft>) {
    let (canaries, others): (Vec<_>, Vec<_>) =
        objects.iter().partition(|object| setting(object, "canary") == Some("true"));
    for object in others {
        for (index, way) in ways(object).into_iter().enumerate() {
            let is_beside = |canary: &&&Value| namespace(canary) == namespace(object);
            let same = |it: &Way<'_>| (it.host, it.path, it.kind) == (way.host, way.path, way.kind);
            let canary = canaries
                .iter()
                .filter(is_beside)
                .find_map(|canary| Some((*canary, ways(canary).into_iter().find(same)?.backend)));
            for (who, condition, targets) in divided(&way.backend, canary) {
                drafts.push(draft(object, index, &way, (who, condition), targets));
            }
        }
    }
}

fn setting<'o>(object: &'o Value, suffix: &str) -> Option<&'o str> {
    annotation(object, &format!("{PREFIX}/{suffix}"))
}

/// Every path of every host; the default backend last.
fn ways(object: &Value) -> Vec<Way<'_>> {
    let mut ways = Vec::new();
    for rule in items(object, "/spec/rules") {
        for path in items(rule, "/http/paths") {
            let Some(backend) = path.get("backend").and_then(|it| backend(object, it)) else {
                continue;
            };
            let (host, kind) = (text(rule, "/host"), text(path, "/pathType"));
            ways.push(Way { host, path: text(path, "/path"), kind, backend });
        }
    }
    let default = object.pointer("/spec/defaultBackend").and_then(|it| backend(object, it));
    ways.extend(default.map(|backend| Way { host: "", path: "/", kind: "Prefix", backend }));
    ways
}

/// A named port is replaced by the Service's first one.
fn backend(object: &Value, backend: &Value) -> Option<Backend> {
    let service = text(backend, "/service/name");
    let port = int(backend, "/service/port/number").and_then(|port| u16::try_from(port).ok());
    let namespace = namespace(object).to_owned();
    (!service.is_empty()).then(|| Backend { namespace, service: service.to_owned(), port })
}

/// Splits the requests for one path between the Ingress and its canary.
fn divided(
    own: &Backend,
    canary: Option<(&Value, Backend)>,
) -> Vec<(Who, Option<Condition>, Vec<Target>)> {
    let only = |backend: &Backend| vec![Target::plain(backend.clone())];
    let Some((object, backend)) = canary else {
        return vec![(Who::Everybody, None, only(own))];
    };
    let mut parts = Vec::new();
    if let Some(header) = setting(object, "canary-by-header") {
        let value = setting(object, "canary-by-header-value");
        let pattern = setting(object, "canary-by-header-pattern");
        let exactly = |text: &str| Some(Text::Exact(text.to_owned()));
        let wanted = match (value, pattern) {
            (Some(value), _) => exactly(value),
            (None, Some(pattern)) => Text::regex(&format!(".*(?:{pattern}).*")),
            (None, None) => exactly("always"),
        };
        parts.push((Who::WithHeader, Some(Condition::header(header, wanted)), only(&backend)));
        if value.is_none() && pattern.is_none() {
            let never = Condition::header(header, exactly("never"));
            parts.push((Who::WithHeader, Some(never), only(own)));
        }
    }
    if let Some(cookie) = setting(object, "canary-by-cookie") {
        for (value, to) in [("always", &backend), ("never", own)] {
            let pair = format!(r"(?:.*;\s*)?{}={value}(?:;.*)?", regex::escape(cookie));
            let condition = Text::regex(&pair).map(|text| Condition::Header(COOKIE, text));
            let condition = condition.unwrap_or(Condition::Never);
            parts.push((Who::WithCookie, Some(condition), only(to)));
        }
    }
    let number = |suffix: &str| setting(object, suffix).and_then(|it| it.parse::<u32>().ok());
    let total = number("canary-weight-total").unwrap_or(100);
    let weight = number("canary-weight").unwrap_or(0).min(total);
    let part = |backend: &Backend, weight| Target { weight, ..Target::plain(backend.clone()) };
    let both = vec![part(own, total - weight), part(&backend, weight)];
    parts.push((Who::Everybody, None, both));
    parts
}

fn draft(
    object: &Value,
    index: usize,
    way: &Way<'_>,
    (who, condition): (Who, Option<Condition>),
    targets: Vec<Target>,
) -> Draft {
    let source = Source {
        kind: "Ingress",
        namespace: namespace(object).to_owned(),
        name: name(object).to_owned(),
    };
    let is_exact = way.kind == "Exact";
    let path = if is_exact {
        Path::Text(Text::Exact(way.path.to_owned()))
    } else {
        Path::Segments(way.path.to_owned())
    };
    let host = match way.host {
        "" => HostPattern::Any,
        host => HostPattern::parse(host),
    };
    Draft {
        precedence: Precedence {
            path_kind: if is_exact { EXACT } else { BY_SEGMENTS },
            path_length: way.path.len(),
            headers: match who {
                Who::Everybody => 0,
                Who::WithCookie => 1,
                Who::WithHeader => 2,
            },
            ..Precedence::default()
        },
        created: created(object),
        rule_index: index,
        match_index: 0,
        hosts: vec![host],
        conditions: [Condition::Path(path)].into_iter().chain(condition).collect(),
        prefix: None,
        rule: Arc::new(Rule {
            targets,
            without_target: 503,
            without_service: 503,
            ..Rule::empty(source)
        }),
    }
}
