//! How a routing object divides traffic, as a line of text.
//!
//! ```text
//! 80/20                                primary 80, canary 20
//! 100/0 and copies                     requests are mirrored to the canary
//! x-canary: 0/100, else 100/0          an A/B test
//! Cookie: 0/100, else 80/20 cookie     sessions stay where they are
//! ```

use serde_json::Value;

/// The rules of a route, in order.
pub(super) fn text(route: &Value) -> String {
    let rules: Vec<String> = rules(route).iter().map(Rule::text).collect();
    match rules.as_slice() {
        [] => "nothing".to_owned(),
        [only] => only.clone(),
        [first @ .., last] => format!("{}, else {last}", first.join(", ")),
    }
}

/// The weights of every rule add up to 100 %.
pub(super) fn adds_up(route: &Value) -> Result<(), String> {
    for rule in rules(route) {
        let sum: i64 = rule.primary + rule.canary;
        if rule.is_ours && sum != 100 {
            return Err(format!("a rule of the route divides {}/{}", rule.primary, rule.canary));
        }
    }
    Ok(())
}

struct Rule {
    matches: Vec<String>,
    primary: i64,
    canary: i64,
    is_ours: bool,
    copies: bool,
    sets_cookie: bool,
}

fn rules(route: &Value) -> Vec<Rule> {
    let spec = &route["spec"];
    let lists = [&spec["rules"], &spec["http"], &spec["tcp"]];
    lists.into_iter().flat_map(each).map(Rule::of).collect()
}

// === impl Rule ===

impl Rule {
    fn of(rule: &Value) -> Self {
        let backends: Vec<&Value> =
            each(&rule["backendRefs"]).chain(each(&rule["route"])).collect();
        let whole = if backends.len() == 1 { 100 } else { 0 };
        let share = |side: &str| {
            let of_side = backends.iter().filter(|backend| host(backend).ends_with(side));
            of_side.map(|backend| backend["weight"].as_i64().unwrap_or(whole)).sum::<i64>()
        };
        let mut matches: Vec<String> = each(&rule["matches"])
            .flat_map(|condition| each(&condition["headers"]))
            .filter_map(|header| header["name"].as_str().map(str::to_owned))
            .collect();
        for condition in each(&rule["match"]) {
            matches.extend(
                condition["headers"].as_object().into_iter().flatten().map(|it| it.0.clone()),
            );
        }
        matches.dedup();
        let text = rule.to_string();
        let is_side = |backend: &&Value| {
            let host = host(backend);
            host.ends_with("-primary") || host.ends_with("-canary")
        };
        Self {
            matches,
            primary: share("-primary"),
            canary: share("-canary"),
            is_ours: !backends.is_empty() && backends.iter().all(is_side),
            copies: text.contains("requestMirror") || !rule["mirror"].is_null(),
            sets_cookie: text.contains("Set-Cookie"),
        }
    }

    fn text(&self) -> String {
        let Self { primary, canary, .. } = self;
        let mut text = format!("{primary}/{canary}");
        if !self.is_ours {
            "somewhere else".clone_into(&mut text);
        }
        if !self.matches.is_empty() {
            text = format!("{}: {text}", self.matches.join("+"));
        }
        if self.copies {
            text.push_str(" and copies");
        }
        if self.sets_cookie {
            text.push_str(" cookie");
        }
        text
    }
}

/// Of a backend of either kind.
fn host(backend: &Value) -> &str {
    let host = backend["name"].as_str().or_else(|| backend["destination"]["host"].as_str());
    host.unwrap_or_default()
}

fn each(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}
