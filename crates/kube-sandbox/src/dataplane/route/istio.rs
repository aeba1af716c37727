//! Reads `VirtualService` objects into rules.
//!
//! Hosts and destinations without a dot are Services of the object's own namespace. A rule that
//! delegates is replaced by the rules of the other object, under the conditions of both. Conditions
//! on the sender's labels or namespace never match: requests come from outside.

use std::sync::Arc;

use serde_json::Value;

use super::{
    Backend, Draft, Mirror, Rule, Source, Target, created,
    edit::{self, PathEdit, Redirect},
    host::{self, HostPattern},
    matching::{Condition, Path, Precedence, Text},
};
use crate::{
    controllers::object::{flag, int, items, name, namespace, text},
    dataplane::duration,
};

/// Builds a condition from its text.
type Make = fn(Text) -> Condition;

/// One alternative of a rule's conditions, and the path prefix it matches.
#[derive(Debug, Clone, Default)]
struct Way {
    conditions: Vec<Condition>,
    prefix: Option<String>,
}

pub(super) fn read(objects: &[Value], drafts: &mut Vec<Draft>) {
    for object in objects {
        let hosts = hosts(object);
        if hosts.is_empty() {
            // An object without hosts is used by delegation only.
            continue;
        }
        for (rule_index, (ways, rule)) in rules(object, objects).into_iter().enumerate() {
            for (match_index, way) in ways.into_iter().enumerate() {
                drafts.push(Draft {
                    precedence: Precedence::default(),
                    created: created(object),
                    rule_index,
                    match_index,
                    hosts: hosts.clone(),
                    conditions: way.conditions,
                    prefix: way.prefix,
                    rule: Arc::clone(&rule),
                });
            }
        }
    }
}

fn hosts(object: &Value) -> Vec<HostPattern> {
    let mut hosts = Vec::new();
    for host in items(object, "/spec/hosts").iter().filter_map(Value::as_str) {
        let is_service = !host.contains(['.', '*']) || host.ends_with(".svc.cluster.local");
        match host::service_key(host, namespace(object)).filter(|_| is_service) {
            Some((namespace, service)) => {
                hosts.extend(HostPattern::of_service(&namespace, &service));
            }
            None => hosts.push(HostPattern::parse(host)),
        }
    }
    hosts
}

/// The rules of an object in order, with delegation resolved. One level, as in Istio.
fn rules(object: &Value, objects: &[Value]) -> Vec<(Vec<Way>, Arc<Rule>)> {
    let source = Source {
        kind: "VirtualService",
        namespace: namespace(object).to_owned(),
        name: name(object).to_owned(),
    };
    let mut rules = Vec::new();
    for http in items(object, "/spec/http") {
        let ways = ways(http);
        let Some(delegate) = http.get("delegate") else {
            rules.push((ways, Arc::new(rule(source.clone(), namespace(object), http))));
            continue;
        };
        let place = match text(delegate, "/namespace") {
            "" => namespace(object),
            place => place,
        };
        let is_it = |other: &&Value| {
            namespace(other) == place
                && name(other) == text(delegate, "/name")
                && items(other, "/spec/hosts").is_empty()
        };
        for http in objects.iter().find(is_it).map_or(&[][..], |other| items(other, "/spec/http")) {
            let both = ways.iter().flat_map(|root| ways_below(root, http)).collect();
            rules.push((both, Arc::new(rule(source.clone(), place, http))));
        }
    }
    rules
}

/// The alternatives of a delegate's rule, each combined with the conditions of its root.
fn ways_below(root: &Way, http: &Value) -> Vec<Way> {
    let join = |way: Way| Way {
        conditions: root.conditions.iter().cloned().chain(way.conditions).collect(),
        prefix: way.prefix.or_else(|| root.prefix.clone()),
    };
    ways(http).into_iter().map(join).collect()
}

fn ways(http: &Value) -> Vec<Way> {
    match items(http, "/match") {
        [] => vec![Way::default()],
        matches => matches.iter().map(way).collect(),
    }
}

fn way(object: &Value) -> Way {
    let mut way = Way::default();
    let or_never = |condition: Option<Condition>| condition.unwrap_or(Condition::Never);
    if let Some(uri) = object.get("uri") {
        let wanted = wanted(uri);
        if let Some(Text::Prefix(prefix)) = &wanted {
            way.prefix = Some(prefix.clone());
        }
        let ignoring_case = flag(object, "/ignoreUriCase");
        let path = wanted.map(|text| {
            if ignoring_case {
                Path::TextIgnoringCase(text.to_lowercase())
            } else {
                Path::Text(text)
            }
        });
        way.conditions.push(or_never(path.map(Condition::Path)));
    }
    let plain: [(&str, Make); 3] = [
        ("method", Condition::Method),
        ("authority", Condition::Authority),
        ("scheme", Condition::Scheme),
    ];
    for (key, make) in plain {
        if let Some(value) = object.get(key) {
            way.conditions.push(or_never(wanted(value).map(make)));
        }
    }
    for (name, value) in members(object, "headers") {
        way.conditions.push(Condition::header(name, wanted(value)));
    }
    for (name, value) in members(object, "withoutHeaders") {
        let condition = match Condition::header(name, wanted(value)) {
            Condition::Header(name, text) => Condition::WithoutHeader(name, text),
            other => other,
        };
        way.conditions.push(condition);
    }
    for (name, value) in members(object, "queryParams") {
        let condition = wanted(value).map(|text| Condition::Query(name.clone(), text));
        way.conditions.push(or_never(condition));
    }
    let is_about_sender = object.get("sourceLabels").is_some_and(|labels| labels != &Value::Null)
        || !text(object, "/sourceNamespace").is_empty();
    if is_about_sender {
        way.conditions.push(Condition::Never);
    }
    way
}

fn members<'o>(object: &'o Value, key: &str) -> impl Iterator<Item = (&'o String, &'o Value)> {
    object.get(key).and_then(Value::as_object).into_iter().flatten()
}

/// A string match; an empty one asks for presence only. `None` for an invalid pattern.
fn wanted(object: &Value) -> Option<Text> {
    let given = |key: &str| object.get(key).and_then(Value::as_str);
    if let Some(text) = given("exact") {
        return Some(Text::Exact(text.to_owned()));
    }
    if let Some(text) = given("prefix") {
        return Some(Text::Prefix(text.to_owned()));
    }
    given("regex").map_or(Some(Text::Present), Text::regex)
}

fn rule(source: Source, home: &str, http: &Value) -> Rule {
    let mut targets: Vec<_> =
        items(http, "/route").iter().filter_map(|route| target(route, home)).collect();
    if let [only] = targets.as_mut_slice() {
        // A single target takes everything, regardless of its weight.
        only.weight = 1;
    }
    let rewrite = |key: &str| {
        http.get("rewrite").and_then(|rewrite| rewrite.get(key)).and_then(Value::as_str)
    };
    let timeout = duration::parse(text(http, "/timeout")).filter(|timeout| !timeout.is_zero());
    Rule {
        targets,
        mirrors: mirrors(http, home),
        request: edit::from_maps(http.pointer("/headers/request")),
        response: edit::from_maps(http.pointer("/headers/response")),
        rewrite_host: rewrite("authority").and_then(|host| host.parse().ok()),
        rewrite_path: rewrite("uri").map(|uri| PathEdit::Letters(uri.to_owned())),
        redirect: http.get("redirect").map(Redirect::from_istio),
        timeout,
        without_target: 503,
        without_service: 503,
        ..Rule::empty(source)
    }
}

fn target(route: &Value, home: &str) -> Option<Target> {
    Some(Target {
        weight: u32::try_from(int(route, "/weight").unwrap_or_default()).unwrap_or_default(),
        request: edit::from_maps(route.pointer("/headers/request")),
        response: edit::from_maps(route.pointer("/headers/response")),
        ..Target::plain(destination(route.get("destination")?, home)?)
    })
}

fn destination(object: &Value, home: &str) -> Option<Backend> {
    let (namespace, service) = host::service_key(text(object, "/host"), home)?;
    let port = int(object, "/port/number").and_then(|port| u16::try_from(port).ok());
    Some(Backend { namespace, service, port })
}

fn mirrors(http: &Value, home: &str) -> Vec<Mirror> {
    let share = |percentage: Option<&Value>| {
        percentage.and_then(Value::as_f64).map_or(1.0, |percent| percent / 100.0)
    };
    let mirror = |object: Option<&Value>, share: f64| {
        let backend = destination(object?, home)?;
        Some(Mirror { backend, share, is_forbidden: false })
    };
    let percentage = http.pointer("/mirrorPercentage/value").or_else(|| http.get("mirrorPercent"));
    let single = mirror(http.get("mirror"), share(percentage));
    let many = items(http, "/mirrors").iter().filter_map(|object| {
        mirror(object.get("destination"), share(object.pointer("/percentage/value")))
    });
    single.into_iter().chain(many).collect()
}
