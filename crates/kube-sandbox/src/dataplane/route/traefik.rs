//! Reads `IngressRoute` objects into rules, with their `TraefikService` objects.
//!
//! Supported in rules are `Host`, `Path`, `PathPrefix`, `Method` and `Header`, joined by `&&`;
//! anything else never matches. As in Traefik the longer rule is tried first, and a missing weight
//! is 1. `TraefikService` objects may refer to each other up to a depth; a reference cycle leads
//! nowhere.

use std::sync::Arc;

use serde_json::Value;

use super::{
    Backend, Draft, Mirror, Rule, Source, Target, created,
    host::HostPattern,
    matching::{Condition, Path, Precedence, Text},
};
use crate::controllers::object::{int, items, name, namespace, text};

/// Maximum depth of nested `TraefikService` objects.
const DEPTH_MAX: usize = 4;
/// Sum of the weights of a rule's targets, large enough for fractions of fractions.
const WHOLE: f64 = 1_000_000.0;

/// Targets with their shares, and mirrors.
#[derive(Default)]
struct Flow {
    targets: Vec<(Backend, f64)>,
    mirrors: Vec<(Backend, f64)>,
}

pub(super) fn read(routes: &[Value], services: &[Value], drafts: &mut Vec<Draft>) {
    for object in routes {
        for (index, route) in items(object, "/spec/routes").iter().enumerate() {
            let (hosts, conditions) = conditions(text(route, "/match"));
            let mut flow = Flow::default();
            shared(items(route, "/services"), namespace(object), services, 1.0, 0, &mut flow);
            let source = Source {
                kind: "IngressRoute",
                namespace: namespace(object).to_owned(),
                name: name(object).to_owned(),
            };
            drafts.push(Draft {
                precedence: Precedence {
                    path_length: text(route, "/match").len(),
                    ..Precedence::default()
                },
                created: created(object),
                rule_index: index,
                match_index: 0,
                hosts,
                conditions,
                prefix: None,
                rule: Arc::new(flow.into_rule(source)),
            });
        }
    }
}

/// The hosts and other conditions of a rule.
fn conditions(rule: &str) -> (Vec<HostPattern>, Vec<Condition>) {
    let (mut hosts, mut conditions) = (Vec::new(), Vec::new());
    for part in rule.split("&&").map(str::trim) {
        let Some((function, rest)) = part.split_once('(') else {
            conditions.push(Condition::Never);
            continue;
        };
        let inner = rest.strip_suffix(')').unwrap_or_default();
        let arguments: Vec<_> =
            inner.split(',').map(|it| it.trim().trim_matches(['`', '"'])).collect();
        let condition = match (function, arguments.as_slice()) {
            ("Host", names) => {
                hosts.extend(names.iter().map(|host| HostPattern::parse(host)));
                continue;
            }
            ("Path", [path]) => Condition::Path(Path::Text(Text::Exact((*path).to_owned()))),
            ("PathPrefix", [path]) => Condition::Path(Path::Text(Text::Prefix((*path).to_owned()))),
            ("Method", [method]) => Condition::Method(Text::Exact((*method).to_owned())),
            ("Header", [name, value]) => {
                Condition::header(name, Some(Text::Exact((*value).to_owned())))
            }
            _ => Condition::Never,
        };
        conditions.push(condition);
    }
    if hosts.is_empty() {
        hosts.push(HostPattern::Any);
    }
    (hosts, conditions)
}

/// Divides a share between members by their weights.
fn shared(
    members: &[Value],
    home: &str,
    services: &[Value],
    share: f64,
    depth: usize,
    flow: &mut Flow,
) {
    let weight = |member: &Value| {
        let weight = int(member, "/weight").unwrap_or(1).clamp(0, i64::from(u16::MAX));
        f64::from(u16::try_from(weight).unwrap_or_default())
    };
    let total: f64 = members.iter().map(weight).sum();
    for member in members.iter().filter(|member| weight(member) > 0.0) {
        follow(member, home, services, share * weight(member) / total, depth, flow);
    }
}

/// Adds one member: a Service, or a `TraefikService` with several.
fn follow(
    member: &Value,
    home: &str,
    services: &[Value],
    share: f64,
    depth: usize,
    flow: &mut Flow,
) {
    let place = match text(member, "/namespace") {
        "" => home,
        place => place,
    };
    if text(member, "/kind") != "TraefikService" {
        flow.targets.push((backend(member, place), share));
        return;
    }
    let is_it = |it: &&Value| namespace(it) == place && name(it) == text(member, "/name");
    let Some(service) = services.iter().find(is_it).filter(|_| depth < DEPTH_MAX) else { return };
    shared(items(service, "/spec/weighted/services"), place, services, share, depth + 1, flow);
    if let Some(mirrored) = service.pointer("/spec/mirroring") {
        follow(mirrored, place, services, share, depth + 1, flow);
        for mirror in items(mirrored, "/mirrors") {
            let percent = int(mirror, "/percent").unwrap_or(0).clamp(0, 100);
            let percent = f64::from(u8::try_from(percent).unwrap_or_default());
            flow.mirrors.push((backend(mirror, place), share * percent / 100.0));
        }
    }
}

/// A named port is replaced by the Service's first one.
fn backend(member: &Value, namespace: &str) -> Backend {
    let port = int(member, "/port").and_then(|port| u16::try_from(port).ok());
    let service = text(member, "/name").to_owned();
    Backend { namespace: namespace.to_owned(), service, port }
}

// === impl Flow ===

impl Flow {
    fn into_rule(self, source: Source) -> Rule {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a share is between 0 and 1"
        )]
        let parts = |share: f64| (share * WHOLE).round() as u32;
        let target = |(backend, share): (Backend, f64)| Target {
            weight: parts(share),
            ..Target::plain(backend)
        };
        let mirror =
            |(backend, share): (Backend, f64)| Mirror { backend, share, is_forbidden: false };
        Rule {
            targets: self.targets.into_iter().map(target).collect(),
            mirrors: self.mirrors.into_iter().map(mirror).collect(),
            without_target: 503,
            without_service: 503,
            ..Rule::empty(source)
        }
    }
}
