//! One measurement of a hook: what to ask, and what the answer is worth.
//!
//! ```text
//! HookMetric, arguments ── question ──► Web(request) | Prometheus(request) | Object(read or write)
//!                                            │ status, body                     │ the object
//!                          judged ◄──────────┴──────────────────────────────────┘
//! ```

use std::{borrow::Cow, collections::BTreeMap, time::Duration};

use http::{HeaderName, HeaderValue};
use serde_json::{Value, json};
use tidegate_api::game::hook::{
    HookMetric, KubernetesField, KubernetesFunction, KubernetesProvider, PrometheusProvider,
    WebProvider,
};
use tidegate_engine::game::{
    HookPhase, JsonPath,
    arguments::{Argument, substitute},
    condition::{Condition, Kind, Matcher, Value as Measured, judge},
};

use super::engine_json;
use crate::{metrics::prometheus, request::Request};

/// What to ask.
#[derive(Debug)]
pub enum Question {
    /// A web server, for at most so long.
    Web {
        /// What to send.
        request: Request,
        /// How long to wait.
        timeout: Duration,
    },
    /// A Prometheus.
    Prometheus {
        /// What to send.
        request: Request,
    },
    /// The cluster.
    Object(ObjectQuestion),
}

/// What to ask the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectQuestion {
    /// API group; empty for the core.
    pub group: String,
    /// Version of the group.
    pub version: String,
    /// Kind of the object.
    pub kind: String,
    /// Where it is.
    pub namespace: String,
    /// What it is called.
    pub name: String,
    /// Fields by path, with what they should be.
    pub fields: Vec<(Vec<String>, String)>,
    /// The fields are set; otherwise they are compared.
    pub sets: bool,
}

/// What a measurement is worth.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Good, bad, neither, or an error.
    pub phase: HookPhase,
    /// What was measured, as a text.
    pub value: String,
    /// Why, if that needs words.
    pub message: Option<String>,
}

/// How long a web server has if nobody says.
const WEB_TIMEOUT_S: u64 = 10;
/// No measurement takes longer, whatever its metric says.
const WEB_TIMEOUT_MAX_S: u64 = 120;

/// What to ask for a metric. `Err` says what is wrong with it.
pub fn question(metric: &HookMetric, arguments: &[Argument]) -> Result<Question, String> {
    let provider = &metric.provider;
    match (&provider.web, &provider.prometheus, &provider.kubernetes) {
        (Some(web), None, None) => web_question(web, arguments),
        (None, Some(prometheus), None) => prometheus_question(prometheus, arguments),
        (None, None, Some(kubernetes)) => {
            object_question(kubernetes, arguments).map(Question::Object)
        }
        _ => Err("there must be exactly one provider".to_owned()),
    }
}

fn web_question(web: &WebProvider, arguments: &[Argument]) -> Result<Question, String> {
    let url = substitute(&web.url, arguments).map_err(text)?;
    let mut request = Request::get(&url).map_err(text)?;
    for header in &web.headers {
        let name = HeaderName::try_from(header.key.as_str());
        let name = name.map_err(|_| format!("header {:?} is not allowed by HTTP", header.key))?;
        let value = substitute(&header.value, arguments).map_err(text)?;
        let mut value = HeaderValue::try_from(value)
            .map_err(|_| format!("the value of header {name} is not allowed by HTTP"))?;
        value.set_sensitive(true);
        request.headers.append(name, value);
    }
    let asked = web.timeout_seconds.and_then(|seconds| u64::try_from(seconds).ok());
    let seconds = asked.filter(|seconds| *seconds > 0).unwrap_or(WEB_TIMEOUT_S);
    let timeout = Duration::from_secs(seconds.min(WEB_TIMEOUT_MAX_S));
    Ok(Question::Web { request, timeout })
}

fn prometheus_question(
    provider: &PrometheusProvider,
    arguments: &[Argument],
) -> Result<Question, String> {
    let address = substitute(&provider.address, arguments).map_err(text)?;
    let query = substitute(&provider.query, arguments).map_err(text)?;
    let credentials = prometheus::Credentials::None;
    let request = prometheus::request(&address, &query, &BTreeMap::new(), &credentials);
    Ok(Question::Prometheus { request: request.map_err(text)? })
}

fn object_question(
    provider: &KubernetesProvider,
    arguments: &[Argument],
) -> Result<ObjectQuestion, String> {
    let argument = |name: &str| {
        let found = arguments.iter().find(|argument| argument.name == name);
        found.map(|argument| argument.value.clone()).filter(|value| !value.is_empty())
    };
    let needed = |name: &str| argument(name).ok_or_else(|| format!("argument {name} is missing"));
    let (group, version, kind) = (argument("Group"), argument("Version"), argument("Kind"));
    let is_pod = group.is_none() && version.is_none() && kind.is_none();
    let field = |field: &KubernetesField| {
        let value = substitute(&field.value, arguments).map_err(text)?;
        Ok((path(&field.path)?, value))
    };
    if provider.fields.is_empty() {
        return Err("there are no fields".to_owned());
    }
    // The operator asks with its own rights, which whoever made the run may not have: what a Secret
    // holds must not be told by a measurement.
    let is_core = group.as_deref().unwrap_or_default().is_empty();
    if is_core && kind.as_deref().is_some_and(|kind| kind != "Pod") {
        return Err("of the core kinds a hook may look at Pods only".to_owned());
    }
    let sets = provider.function == KubernetesFunction::Patch;
    let is_mark = |field: &KubernetesField| {
        ["metadata.annotations.", "metadata.labels."].iter().any(|map| field.path.starts_with(map))
    };
    if sets && !provider.fields.iter().all(is_mark) {
        return Err("a hook may set annotations and labels only".to_owned());
    }
    Ok(ObjectQuestion {
        group: group.unwrap_or_default(),
        version: version
            .or_else(|| is_pod.then(|| "v1".to_owned()))
            .ok_or("argument Version is missing")?,
        kind: kind
            .or_else(|| is_pod.then(|| "Pod".to_owned()))
            .ok_or("argument Kind is missing")?,
        namespace: needed("PodNamespace")?,
        name: needed("PodName")?,
        fields: provider.fields.iter().map(field).collect::<Result<_, String>>()?,
        sets,
    })
}

/// The names on the way to a field. After `annotations` and `labels` comes a key, dots and all.
fn path(text: &str) -> Result<Vec<String>, String> {
    for map in ["metadata.annotations.", "metadata.labels."] {
        if let Some(key) = text.strip_prefix(map)
            && !key.is_empty()
        {
            let map = map.trim_end_matches('.').split('.');
            return Ok(map.chain([key]).map(str::to_owned).collect());
        }
    }
    let names: Vec<String> = text.split('.').map(str::to_owned).collect();
    if names.iter().any(String::is_empty) || names.len() < 2 {
        return Err(format!("{text:?} is no path of a field, such as metadata.annotations.ready"));
    }
    Ok(names)
}

/// What is wrong with a metric whatever the answer is, so that it need not be asked at all.
pub fn problem(metric: &HookMetric, arguments: &[Argument]) -> Option<String> {
    if let Err(why) = question(metric, arguments) {
        return Some(why);
    }
    let provider = &metric.provider;
    let kinds = if let Some(web) = &provider.web {
        if let Err(error) = JsonPath::parse(&wrapped(&web.json_path)) {
            return Some(format!("jsonPath: {error}"));
        }
        vec![Kind::Text]
    } else if provider.prometheus.is_some() {
        // Which of the two it is, only the answer tells.
        vec![Kind::Float, Kind::List(Box::new(Kind::Float))]
    } else {
        return None;
    };
    let mut problems = kinds.iter().map(|kind| conditions(metric, kind).err());
    let first = problems.next().flatten()?;
    problems.all(|problem| problem.is_some()).then_some(first)
}

/// A path without braces is one all the same.
fn wrapped(path: &str) -> Cow<'_, str> {
    if path.contains('{') { path.into() } else { format!("{{{path}}}").into() }
}

// === Answers ===

/// What a web server's answer is worth.
pub fn judge_web(metric: &HookMetric, status: u16, body: &[u8], matcher: &dyn Matcher) -> Verdict {
    let Some(web) = &metric.provider.web else { return Verdict::error("it is no web metric") };
    if !(200..300).contains(&status) {
        return Verdict::error(format!("received non 2xx response code: {status}"));
    }
    let Ok(answer) = serde_json::from_slice::<Value>(body) else {
        return Verdict::error("the answer is not JSON");
    };
    let value =
        JsonPath::parse(&wrapped(&web.json_path)).and_then(|path| path.read(&engine_json(&answer)));
    match value {
        Ok(value) => verdict(metric, &Measured::Text(value.clone()), value, matcher),
        Err(error) => Verdict::error(error.to_string()),
    }
}

/// What a Prometheus' answer is worth.
pub fn judge_prometheus(
    metric: &HookMetric,
    status: u16,
    body: &[u8],
    matcher: &dyn Matcher,
) -> Verdict {
    if !(200..300).contains(&status) {
        return Verdict::error(format!("received non 2xx response code: {status}"));
    }
    let Ok(answer) = serde_json::from_slice::<Value>(body) else {
        return Verdict::error("the answer is not JSON");
    };
    let data = &answer["data"];
    let number = |pair: &Value| {
        let text = pair[1].as_str()?;
        Some((text.to_owned(), text.parse::<f64>().ok()?))
    };
    let (texts, measured) = match data["resultType"].as_str() {
        Some("scalar") => match number(&data["result"]) {
            Some((text, number)) => (vec![text], Measured::Float(number)),
            None => return Verdict::error("the answer has no number"),
        },
        Some("vector") => {
            let series = data["result"].as_array().into_iter().flatten();
            let numbers: Option<Vec<_>> = series.map(|series| number(&series["value"])).collect();
            let Some(numbers) = numbers else {
                return Verdict::error("the answer has no number");
            };
            let (texts, values): (Vec<_>, Vec<_>) = numbers.into_iter().unzip();
            (texts, Measured::List(values.into_iter().map(Measured::Float).collect()))
        }
        Some(other) => {
            return Verdict::error(format!("a {other} is no result a condition can be asked of"));
        }
        None => return Verdict::error("the answer is not Prometheus'"),
    };
    let is_list = matches!(measured, Measured::List(_));
    let value = if is_list { format!("[{}]", texts.join(",")) } else { texts.concat() };
    let is_nan =
        |measured: &Measured| matches!(measured, Measured::Float(number) if number.is_nan());
    let has_nan = match &measured {
        Measured::List(items) => items.iter().any(is_nan),
        single => is_nan(single),
    };
    if has_nan {
        let message = Some("the result is not a number".to_owned());
        return Verdict { phase: HookPhase::Inconclusive, value, message };
    }
    let is_empty = matches!(&measured, Measured::List(items) if items.is_empty());
    let mut verdict = verdict(metric, &measured, value, matcher);
    if is_empty && verdict.message.is_some() {
        verdict.message = Some("the query has no result: there are no samples".to_owned());
    }
    verdict
}

/// What the fields of an object are worth. `None` is an object that is not there.
pub fn judge_object(question: &ObjectQuestion, object: Option<&Value>) -> Verdict {
    let Some(object) = object else {
        let ObjectQuestion { kind, namespace, name, .. } = question;
        return Verdict::error(format!("{kind} {namespace}/{name} does not exist"));
    };
    let mut seen = Vec::new();
    let mut differing = None;
    for (path, wanted) in &question.fields {
        let found = path.iter().try_fold(object, |value, name| value.get(name));
        let found =
            found.map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned));
        if found.as_ref() != Some(wanted) {
            let what = found.as_ref().map_or("absent".to_owned(), |it| format!("{it:?}"));
            differing.get_or_insert(format!("{} is {what}, not {wanted:?}", path.join(".")));
        }
        seen.push(found.unwrap_or_default());
    }
    let phase = if differing.is_some() { HookPhase::Failed } else { HookPhase::Successful };
    Verdict { phase, value: seen.join(","), message: differing }
}

/// The merge patch that sets the fields.
pub fn setting(question: &ObjectQuestion) -> Value {
    let mut patch = json!({});
    for (path, value) in &question.fields {
        let mut place = &mut patch;
        for name in path {
            place = &mut place[name.as_str()];
        }
        *place = value.as_str().into();
    }
    patch
}

/// What makes a result of this kind good, and what makes it bad.
fn conditions(
    metric: &HookMetric,
    kind: &Kind,
) -> Result<(Option<Condition>, Option<Condition>), String> {
    let compile = |member: &str, condition: &Option<String>| {
        let condition = condition.as_deref().filter(|condition| !condition.is_empty());
        let compiled = condition.map(|condition| Condition::compile(condition, kind)).transpose();
        compiled.map_err(|error| format!("{member}: {error}"))
    };
    Ok((
        compile("successCondition", &metric.success_condition)?,
        compile("failureCondition", &metric.failure_condition)?,
    ))
}

fn verdict(
    metric: &HookMetric,
    measured: &Measured,
    value: String,
    matcher: &dyn Matcher,
) -> Verdict {
    let kind = match measured {
        Measured::List(_) => Kind::List(Box::new(Kind::Float)),
        Measured::Float(_) => Kind::Float,
        _ => Kind::Text,
    };
    match conditions(metric, &kind) {
        Ok((success, failure)) => {
            let (phase, message) = judge(success.as_ref(), failure.as_ref(), measured, matcher);
            Verdict { phase, value, message }
        }
        Err(why) => Verdict { phase: HookPhase::Error, value, message: Some(why) },
    }
}

// === impl Verdict ===

impl Verdict {
    /// It could not be measured.
    pub fn error(why: impl Into<String>) -> Self {
        Self { phase: HookPhase::Error, value: String::new(), message: Some(why.into()) }
    }
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
