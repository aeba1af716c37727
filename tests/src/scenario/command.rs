//! The commands of scripts, as sentences. They are listed in `tests/scenarios/README.md`.

use std::time::Duration;

use crate::network::{Metric, PROBE, Reply};

/// One command of a script.
pub(super) enum Command {
    GivenDeployment {
        image: String,
        replicas: u32,
        reads: Vec<Config>,
    },
    GivenDaemonSet {
        image: String,
        reads: Vec<Config>,
    },
    GivenConfig {
        config: Config,
        data: (String, String),
    },
    GivenAutoscaler {
        min: i64,
        max: i64,
    },
    GivenScaledObject {
        min: i64,
        max: i64,
    },
    GivenService(String),
    GivenVirtualService(String),
    GivenTemplate(String),
    GivenCanary(String),
    /// A canary that is set up already; its setup is tested elsewhere.
    GivenInitialized(String),
    Start,
    Kill,
    Release(String),
    SetConfig {
        config: Config,
        data: (String, String),
    },
    SetAutoscaler {
        min: i64,
        max: i64,
    },
    SetScaledObject {
        min: i64,
        max: i64,
    },
    /// As a tool would that applies what it once exported.
    PauseScaledObject,
    /// Makes the Service `web` select other pods.
    Point(String),
    Edit(String),
    Annotate(String, String),
    Scale(String, i64),
    Delete(Thing, String),
    SetRoute {
        primary: i64,
        canary: i64,
    },
    Gateway {
        accepts: bool,
    },
    /// Whether the operator may write anything of a canary but its status.
    Permit(bool),
    /// As older definitions without the fields of holds would.
    ForgetHold,
    Measure(String, Metric),
    Answer {
        hook: String,
        reply: Reply,
        once: bool,
    },
    Become {
        image: String,
        behaviour: String,
    },
    Die(String),
    Wait(Duration),
    WaitUntil(String),
    Show(Sight),
}

/// A ConfigMap or a Secret.
#[derive(Clone)]
pub(super) struct Config {
    pub(super) is_secret: bool,
    pub(super) name: String,
}

/// The objects that can be deleted.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Thing {
    Canary,
    Deployment,
    Service,
    Route,
    ConfigMap,
    Autoscaler,
    DaemonSet,
    ScaledObject,
}

/// The objects that can be shown.
#[derive(Clone, Copy)]
pub(super) enum Sight {
    Status,
    Cluster,
    Metrics,
}

type Parsed<T> = Result<T, String>;

/// The words of a line.
pub(super) fn parse(line: &str) -> Parsed<Command> {
    if let Some(rest) = line.strip_prefix("given ") {
        return given(rest);
    }
    let words: Vec<&str> = line.split_whitespace().collect();
    Ok(match words.as_slice() {
        ["start", "the", "operator"] => Command::Start,
        ["kill", "the", "operator"] => Command::Kill,
        ["release", image] => Command::Release((*image).to_owned()),
        ["change", "the", "canary:", ..] => Command::Edit(after(line, "canary: ")?),
        ["annotate", "the", "canary", pair] => {
            let (key, value) = pair_of(pair)?;
            Command::Annotate(key, value)
        }
        ["set", "config", "map", name, pair] => {
            Command::SetConfig { config: Config::map(name), data: pair_of(pair)? }
        }
        ["set", "secret", name, pair] => {
            Command::SetConfig { config: Config::secret(name), data: pair_of(pair)? }
        }
        ["set", "the", "autoscaler", "to", min, "to", max] => {
            Command::SetAutoscaler { min: number(min)?, max: number(max)? }
        }
        ["set", "the", "scaled", "object", "to", min, "to", max] => {
            Command::SetScaledObject { min: number(min)?, max: number(max)? }
        }
        ["point", "the", "service", "at", app] => Command::Point((*app).to_owned()),
        ["pause", "the", "scaled", "object"] => Command::PauseScaledObject,
        ["set", "the", "route", "to", split] => {
            let (primary, canary) = split.split_once('/').ok_or("a split is like 80/20")?;
            Command::SetRoute { primary: number(primary)?, canary: number(canary)? }
        }
        ["scale", name, "to", replicas] => Command::Scale((*name).to_owned(), number(replicas)?),
        ["delete", "the", things @ ..] => delete(things)?,
        ["the", "gateway", "accepts", "the", "route"] => Command::Gateway { accepts: true },
        ["the", "gateway", "refuses", "the", "route"] => Command::Gateway { accepts: false },
        ["the", "operator", "may", "edit", "the", "canary"] => Command::Permit(true),
        ["the", "operator", "may", "not", "edit", "the", "canary"] => Command::Permit(false),
        ["forget", "the", "hold"] => Command::ForgetHold,
        ["metric", name, rest @ ..] => Command::Measure((*name).to_owned(), measured(rest)?),
        ["the", "metrics", "server", rest @ ..] => {
            Command::Measure(PROBE.to_owned(), measured(rest)?)
        }
        ["hook", name, rest @ ..] => answer(name, rest)?,
        ["pods", "of", image, "become", behaviour] => {
            Command::Become { image: (*image).to_owned(), behaviour: (*behaviour).to_owned() }
        }
        ["the", "pods", "of", app, "die"] => Command::Die((*app).to_owned()),
        ["wait", "until", phase] => Command::WaitUntil((*phase).to_owned()),
        ["wait", time] => Command::Wait(duration(time)?),
        ["show", "the", "status"] => Command::Show(Sight::Status),
        ["show", "the", "cluster"] => Command::Show(Sight::Cluster),
        ["show", "the", "metrics"] => Command::Show(Sight::Metrics),
        _ => return Err("no such command".to_owned()),
    })
}

fn given(rest: &str) -> Parsed<Command> {
    let words: Vec<&str> = rest.split_whitespace().collect();
    Ok(match words.as_slice() {
        ["a", "deployment", image, "with", replicas, "replicas" | "replica", reads @ ..] => {
            Command::GivenDeployment {
                image: (*image).to_owned(),
                replicas: number(replicas)?,
                reads: reading(reads)?,
            }
        }
        ["a", "daemon", "set", image, reads @ ..] => {
            Command::GivenDaemonSet { image: (*image).to_owned(), reads: reading(reads)? }
        }
        ["a", "scaled", "object", "of", min, "to", max, "replicas"] => {
            Command::GivenScaledObject { min: number(min)?, max: number(max)? }
        }
        ["a", "config", "map", name, "with", pair] => {
            Command::GivenConfig { config: Config::map(name), data: pair_of(pair)? }
        }
        ["a", "secret", name, "with", pair] => {
            Command::GivenConfig { config: Config::secret(name), data: pair_of(pair)? }
        }
        ["an", "autoscaler", "of", min, "to", max, "replicas"] => {
            Command::GivenAutoscaler { min: number(min)?, max: number(max)? }
        }
        ["a", "service", name] => Command::GivenService((*name).to_owned()),
        ["a", "virtual", "service", name] => Command::GivenVirtualService((*name).to_owned()),
        ["a", "metric", "template", name] => Command::GivenTemplate((*name).to_owned()),
        ["an", "initialized", "canary", "with", ..] => {
            Command::GivenInitialized(after(rest, "canary with ")?)
        }
        ["a", "canary", "with", ..] => Command::GivenCanary(after(rest, "canary with ")?),
        _ => return Err("nothing can be given like that".to_owned()),
    })
}

/// `that reads config map settings and secret token`
fn reading(words: &[&str]) -> Parsed<Vec<Config>> {
    let Some((["that", "reads"], configs)) = words.split_at_checked(2) else {
        return if words.is_empty() { Ok(Vec::new()) } else { Err("that reads what?".to_owned()) };
    };
    let config = |words: &[&str]| match words {
        ["config", "map", name] => Ok(Config::map(name)),
        ["secret", name] => Ok(Config::secret(name)),
        _ => Err("pods read `config map x` or `secret x`".to_owned()),
    };
    configs.split(|word| *word == "and").map(config).collect()
}

fn delete(words: &[&str]) -> Parsed<Command> {
    let (thing, name) = match words {
        ["canary"] => (Thing::Canary, "web"),
        ["deployment", name] => (Thing::Deployment, *name),
        ["service", name] => (Thing::Service, *name),
        ["route"] => (Thing::Route, "web"),
        ["config", "map", name] => (Thing::ConfigMap, *name),
        ["autoscaler", name] => (Thing::Autoscaler, *name),
        ["daemon", "set", name] => (Thing::DaemonSet, *name),
        ["scaled", "object", name] => (Thing::ScaledObject, *name),
        _ => return Err("that cannot be deleted".to_owned()),
    };
    Ok(Command::Delete(thing, name.to_owned()))
}

fn measured(words: &[&str]) -> Parsed<Metric> {
    Ok(match words {
        ["is", value] => Metric::Value(value.parse().map_err(|_| "not a number")?),
        ["has", "no", "data"] => Metric::Nothing,
        ["cannot", "be", "asked"] => Metric::Reply(Reply::Refuse),
        ["hangs"] => Metric::Reply(Reply::Hang),
        _ => return Err("a metric `is 99`, `has no data`, `hangs` or `cannot be asked`".to_owned()),
    })
}

fn answer(hook: &str, words: &[&str]) -> Parsed<Command> {
    let (words, once) = match words {
        [words @ .., "once"] => (words, true),
        words => (words, false),
    };
    let reply = match words {
        ["says", "yes"] => Reply::Status(200, "ok".to_owned()),
        ["says", "no"] => Reply::Status(403, "not yet".to_owned()),
        ["says", status] => Reply::Status(number(status)?, "oh no".to_owned()),
        ["hangs"] => Reply::Hang,
        ["is", "not", "there"] => Reply::Refuse,
        _ => return Err("a hook `says yes|no|500`, `hangs` or `is not there`".to_owned()),
    };
    Ok(Command::Answer { hook: hook.to_owned(), reply, once })
}

fn after(line: &str, words: &str) -> Parsed<String> {
    let (_, rest) = line.split_once(words).ok_or_else(|| format!("`{words}` is missing"))?;
    Ok(rest.to_owned())
}

fn pair_of(text: &str) -> Parsed<(String, String)> {
    let (key, value) = text.split_once('=').ok_or("a pair is like key=value")?;
    Ok((key.to_owned(), value.to_owned()))
}

pub(super) fn number<T: std::str::FromStr>(text: &str) -> Parsed<T> {
    text.parse().map_err(|_| format!("`{text}` is no number"))
}

/// `90s`, `5m`.
fn duration(text: &str) -> Parsed<Duration> {
    let (number, factor) = match (text.strip_suffix('s'), text.strip_suffix('m')) {
        (Some(seconds), _) => (seconds, 1),
        (None, Some(minutes)) => (minutes, 60),
        (None, None) => return Err("times are like 90s or 5m".to_owned()),
    };
    Ok(Duration::from_secs(self::number::<u64>(number)? * factor))
}

// === impl Config ===

impl Config {
    fn map(name: &str) -> Self {
        Self { is_secret: false, name: name.to_owned() }
    }

    fn secret(name: &str) -> Self {
        Self { is_secret: true, name: name.to_owned() }
    }
}
