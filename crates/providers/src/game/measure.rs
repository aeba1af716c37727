//! One measurement of a hook: the request, and the judgement of the answer.
//!
//! ```text
//! HookMetric, arguments ── question ──► Server(request, its bounds) | Object(read or write)
//!                                            │ status, body                     │ the object
//!                          judged ◄──────────┴──────────────────────────────────┘
//! ```

use std::{borrow::Cow, collections::BTreeMap, time::Duration};

use http::{
    HeaderName, HeaderValue, Method,
    header::{CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HOST, TRANSFER_ENCODING},
};
use serde_json::{Value, json};
use tidegate_api::game::hook::{
    HookMetric, HookProvider, KubernetesField, KubernetesFunction, KubernetesProvider,
    PrometheusProvider, WebHeader, WebMethod, WebProvider,
};
use tidegate_engine::game::{
    HookPhase,
    arguments::{Argument, asked_for, describes_a_pod, substitute},
};

use super::{
    condition::{Condition, Kind, Matcher, Value as Measured, judge},
    json_path::JsonPath,
};
use crate::{
    metrics::prometheus::{self, Credentials},
    request::Request,
};

/// The request of a measurement.
#[derive(Debug)]
pub enum Question {
    /// A web server or a Prometheus.
    Server(Box<ServerQuestion>),
    /// The cluster.
    Object(ObjectQuestion),
}

/// A request to a server.
#[derive(Debug)]
pub struct ServerQuestion {
    /// The request to send.
    pub request: Request,
    /// How long to wait.
    pub timeout: Duration,
    /// The certificate of the server must be good.
    pub verify_tls: bool,
    /// Name of the Secret with the login for the server; see [`ServerQuestion::authorize`].
    pub secret: Option<String>,
    /// Which of the two it is.
    pub is_web: bool,
}

/// A request to the cluster.
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
    /// Its name.
    pub name: String,
    /// Fields by path, with their wanted values.
    pub fields: Vec<(Vec<String>, String)>,
    /// The fields are set; otherwise they are compared.
    pub sets: bool,
}

/// The verdict on a measurement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Good, bad, neither, or an error.
    pub phase: HookPhase,
    /// The measured value, as a text.
    pub value: String,
    /// Why, if that needs words.
    pub message: Option<String>,
}

/// The time a web server has by default.
const WEB_TIMEOUT_S: u64 = 10;
/// The time a Prometheus has by default.
const QUERY_TIMEOUT_S: u64 = 30;
/// No measurement takes longer, with any metric.
const TIMEOUT_MAX_S: u64 = 120;
/// The message about a query whose answer is empty.
const NO_SAMPLES: &str = "the query has no result: there are no samples";
/// Key of a Secret: authorities to trust.
const AUTHORITIES: &str = "ca.crt";

/// The request for a metric. `Err` says what is wrong with it.
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
    request.method = match web.method {
        None | Some(WebMethod::Get) => Method::GET,
        Some(WebMethod::Post) => Method::POST,
        Some(WebMethod::Put) => Method::PUT,
    };
    add_headers(&mut request, &web.headers, arguments)?;
    if let Some(body) = web.body.as_deref().filter(|body| !body.is_empty()) {
        if request.method == Method::GET {
            return Err("a body is sent with POST and PUT only".to_owned());
        }
        request.body = substitute(body, arguments).map_err(text)?.into_bytes();
        let json = HeaderValue::from_static("application/json");
        request.headers.entry(CONTENT_TYPE).or_insert(json);
    }
    Ok(Question::Server(Box::new(ServerQuestion {
        request,
        timeout: timeout(web.timeout_seconds, WEB_TIMEOUT_S),
        verify_tls: web.insecure_skip_verify != Some(true),
        secret: web.secret_ref.as_ref().map(|secret| secret.name.clone()),
        is_web: true,
    })))
}

fn timeout(asked: Option<i32>, default_s: u64) -> Duration {
    let asked = asked.and_then(|seconds| u64::try_from(seconds).ok()).filter(|it| *it > 0);
    Duration::from_secs(asked.unwrap_or(default_s).min(TIMEOUT_MAX_S))
}

/// Headers that HTTP itself decides, such as the host, cannot be set.
fn add_headers(
    request: &mut Request,
    headers: &[WebHeader],
    arguments: &[Argument],
) -> Result<(), String> {
    for header in headers {
        let name = HeaderName::try_from(header.key.as_str());
        let name = name.map_err(|_| format!("header {:?} is not allowed by HTTP", header.key))?;
        if [HOST, CONTENT_LENGTH, TRANSFER_ENCODING, CONNECTION].contains(&name) {
            continue;
        }
        let value = substitute(&header.value, arguments).map_err(text)?;
        let mut value = HeaderValue::try_from(value)
            .map_err(|_| format!("the value of header {name} is not allowed by HTTP"))?;
        value.set_sensitive(true);
        request.headers.append(name, value);
    }
    Ok(())
}

fn prometheus_question(
    provider: &PrometheusProvider,
    arguments: &[Argument],
) -> Result<Question, String> {
    let address = substitute(&provider.address, arguments).map_err(text)?;
    let query = substitute(&provider.query, arguments).map_err(text)?;
    let credentials = Credentials::None;
    let request = prometheus::request(&address, &query, &BTreeMap::new(), &credentials);
    let mut request = request.map_err(text)?;
    add_headers(&mut request, &provider.headers, arguments)?;
    Ok(Question::Server(Box::new(ServerQuestion {
        request,
        timeout: timeout(provider.timeout_seconds, QUERY_TIMEOUT_S),
        verify_tls: provider.insecure_skip_verify != Some(true),
        secret: provider.secret_ref.as_ref().map(|secret| secret.name.clone()),
        is_web: false,
    })))
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
    // The request has the operator's rights, which the author of the run may not have: a measurement must not
    // reveal the contents of a Secret.
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

/// The problem of a metric with any answer, so that it need not be measured at all.
pub fn problem(metric: &HookMetric, arguments: &[Argument]) -> Option<String> {
    question(metric, arguments).err().or_else(|| unreadable(metric))
}

/// The same of a metric of a template, whose arguments are not given yet: they are those that it declares and
/// those that describe a pod.
pub fn doubt(metric: &HookMetric, declared: &[Argument]) -> Option<String> {
    let texts = texts(metric);
    for filled in &texts {
        let names = match asked_for(filled) {
            Ok(names) => names,
            Err(error) => return Some(error.to_string()),
        };
        let is_known =
            |name: &String| describes_a_pod(name) || declared.iter().any(|it| it.name == *name);
        if let Some(unknown) = names.iter().find(|name| !is_known(name)) {
            return Some(format!("{{{{ args.{unknown} }}}} is not declared"));
        }
    }
    // An address that is made of arguments cannot be judged before they are there.
    let is_fixed = !texts.iter().any(|text| text.contains("{{"));
    let is_object = metric.provider.kubernetes.is_some();
    let trouble = (is_fixed && !is_object).then(|| question(metric, &[]).err()).flatten();
    trouble.or_else(|| unreadable(metric))
}

/// Where arguments are filled in.
fn texts(metric: &HookMetric) -> Vec<&str> {
    let HookProvider { web, prometheus, kubernetes } = &metric.provider;
    let mut texts = Vec::new();
    let mut headers = Vec::new();
    if let Some(web) = web {
        texts.push(web.url.as_str());
        texts.extend(web.body.as_deref());
        headers.extend(&web.headers);
    }
    if let Some(prometheus) = prometheus {
        texts.extend([prometheus.address.as_str(), prometheus.query.as_str()]);
        headers.extend(&prometheus.headers);
    }
    texts.extend(headers.into_iter().map(|header: &WebHeader| header.value.as_str()));
    let fields = kubernetes.iter().flat_map(|kubernetes| &kubernetes.fields);
    texts.extend(fields.map(|field| field.value.as_str()));
    texts
}

/// A path or a condition that cannot be used.
fn unreadable(metric: &HookMetric) -> Option<String> {
    let provider = &metric.provider;
    let kinds = if let Some(web) = &provider.web {
        if let Err(error) = JsonPath::parse(&wrapped(&web.json_path)) {
            return Some(format!("jsonPath: {error}"));
        }
        vec![Kind::Text]
    } else if provider.prometheus.is_some() {
        // Only the answer shows which of the two it is.
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

/// The verdict on a web server's answer.
pub fn judge_web(metric: &HookMetric, status: u16, body: &[u8], matcher: &dyn Matcher) -> Verdict {
    let Some(web) = &metric.provider.web else { return Verdict::error("it is no web metric") };
    if !(200..300).contains(&status) {
        return Verdict::error(format!("received non 2xx response code: {status}"));
    }
    let Ok(answer) = serde_json::from_slice::<Value>(body) else {
        return Verdict::error("the answer is not JSON");
    };
    let value = JsonPath::parse(&wrapped(&web.json_path)).and_then(|path| path.read(&answer));
    match value {
        Ok(value) => verdict(metric, &Measured::Text(value.clone()), value, matcher),
        Err(error) => Verdict::error(error.to_string()),
    }
}

/// The verdict on a Prometheus' answer.
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
    // Nothing passes without data, unless a condition accepts no data.
    let is_judged = metric.success_condition.as_deref().is_some_and(|text| !text.is_empty());
    if is_empty && verdict.phase == HookPhase::Successful && !is_judged {
        verdict.phase = HookPhase::Inconclusive;
        verdict.message = Some(NO_SAMPLES.to_owned());
    }
    if is_empty && verdict.message.is_some() {
        verdict.message = Some(NO_SAMPLES.to_owned());
    }
    verdict
}

/// The verdict on the fields of an object. `None` is an object that is not there.
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

/// The conditions for a good and for a bad result of this kind.
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

// === impl ServerQuestion ===

impl ServerQuestion {
    /// Sends the contents of a Secret along, and returns the authorities to trust.
    pub fn authorize(
        &mut self,
        data: &BTreeMap<String, Vec<u8>>,
    ) -> Result<Option<Vec<u8>>, String> {
        let authorities = data.get(AUTHORITIES).cloned();
        let is_carried = match &Credentials::from_secret(data) {
            Ok(Credentials::Bearer(token)) => self.request.authorize_bearer(token),
            Ok(Credentials::Basic { username, password }) => {
                self.request.authorize_basic(username, password)
            }
            Ok(Credentials::None) => true,
            Err(_) if authorities.is_some() => true,
            Err(_) => {
                return Err(format!(
                    "the Secret has neither token, nor username and password, nor {AUTHORITIES}"
                ));
            }
        };
        if is_carried { Ok(authorities) } else { Err("no header can hold the Secret".to_owned()) }
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
