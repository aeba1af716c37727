//! Conditions of a rule on requests, as Gateway API writes them.
//!
//! The canary's conditions are Istio's. A path, a method, headers and query parameters have an equivalent
//! here; other members of the service's are ignored, as in Flagger. Conditions of the analysis without an
//! equivalent are refused: a dropped condition would send more requests to the canary than intended.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tidegate_api::canary::{
    analysis::{AnalysisMatch, HeaderMatch},
    service::{HttpMatch, StringMatch},
};

use crate::traffic::{RouteCase, RouteError, cookie, non_empty, plan::Requests};

/// One item of `matches`. Lists are kept as maps, so that their order never changes.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Condition {
    path: Option<(&'static str, String)>,
    method: Option<String>,
    /// By name in lower case: header names have no case.
    headers: BTreeMap<String, Value>,
    query_params: BTreeMap<String, Value>,
}

pub(super) const EXACT: &str = "Exact";
pub(super) const PREFIX: &str = "PathPrefix";
const ONLY_EXACT_OR_REGEX: &str = "Gateway API can compare with exact and regex only";

/// The conditions for these requests; at least one.
pub(super) fn conditions(
    case: &RouteCase<'_>,
    requests: &Requests,
) -> Result<Vec<Condition>, RouteError> {
    let mut all = Vec::new();
    for (index, condition) in case.service.matches.iter().enumerate() {
        all.push(of_service(case, index, condition)?);
    }
    // As Flagger: an item without any equivalent here is dropped.
    all.retain(|condition| *condition != Condition::default());
    if all.is_empty() {
        all.push(Condition::default());
    }
    let narrower = match requests {
        Requests::All => return Ok(all),
        Requests::Matched => of_analysis(case)?,
        Requests::WithCookie(pattern) => vec![with_cookie(pattern)],
    };
    let pairs = narrower.iter().flat_map(|narrower| all.iter().map(move |wide| (narrower, wide)));
    Ok(pairs.map(|(narrower, wide)| wide.and(narrower)).collect())
}

fn of_service(
    case: &RouteCase<'_>,
    index: usize,
    condition: &HttpMatch,
) -> Result<Condition, RouteError> {
    let field = format!("spec.service.match[{index}]");
    let path = condition.uri.as_ref().map(|uri| {
        let kinds = [("RegularExpression", &uri.regex), (EXACT, &uri.exact), (PREFIX, &uri.prefix)];
        let found =
            kinds.into_iter().find_map(|(kind, text)| Some((kind, non_empty(text.as_ref())?)));
        let (kind, text) = found.ok_or_else(|| {
            case.refuse(format!("{field}.uri"), "needs one of exact, prefix and regex")
        })?;
        Ok((kind, text.to_owned()))
    });
    let method = condition.method.as_ref().map(|method| {
        let exact = non_empty(method.exact.as_ref()).map(str::to_owned);
        let why = "Gateway API can compare a method with exact only";
        exact.ok_or_else(|| case.refuse(format!("{field}.method"), why))
    });
    let mut converted =
        Condition { path: path.transpose()?, method: method.transpose()?, ..Condition::default() };
    for (name, text) in &condition.headers {
        let value = comparison(case, &format!("{field}.headers.{name}"), name, text)?;
        converted.headers.insert(name.to_ascii_lowercase(), value);
    }
    for (name, text) in &condition.query_params {
        let value = comparison(case, &format!("{field}.queryParams.{name}"), name, text)?;
        converted.query_params.insert(name.clone(), value);
    }
    Ok(converted)
}

fn of_analysis(case: &RouteCase<'_>) -> Result<Vec<Condition>, RouteError> {
    let conditions = case.cx.spec.analysis.matches.iter().enumerate();
    conditions
        .map(|(index, condition)| {
            let field = format!("spec.analysis.match[{index}]");
            let AnalysisMatch { headers, query_params, source_labels } = condition;
            if !source_labels.is_empty() {
                let why = "Gateway API cannot tell callers apart by their labels";
                return Err(case.refuse(format!("{field}.sourceLabels"), why));
            }
            let mut converted = Condition::default();
            for (name, header) in headers {
                let HeaderMatch { exact, prefix: _, suffix: _, regex } = header.clone();
                let text = StringMatch { exact, prefix: None, regex };
                let value = comparison(case, &format!("{field}.headers.{name}"), name, &text)?;
                converted.headers.insert(name.to_ascii_lowercase(), value);
            }
            for (name, text) in query_params {
                let value = comparison(case, &format!("{field}.queryParams.{name}"), name, text)?;
                converted.query_params.insert(name.clone(), value);
            }
            if converted == Condition::default() {
                let why = "has nothing Gateway API can match, and would fit every request";
                return Err(case.refuse(field, why));
            }
            Ok(converted)
        })
        .collect()
}

fn with_cookie(pattern: &str) -> Condition {
    let header = json!({ "type": "RegularExpression", "name": cookie::COOKIE, "value": pattern });
    let headers = BTreeMap::from([(cookie::COOKIE.to_ascii_lowercase(), header)]);
    Condition { headers, ..Condition::default() }
}

/// A header or query parameter with the value it must have.
fn comparison(
    case: &RouteCase<'_>,
    field: &str,
    name: &str,
    text: &StringMatch,
) -> Result<Value, RouteError> {
    let (kind, value) = match (non_empty(text.exact.as_ref()), non_empty(text.regex.as_ref())) {
        (Some(exact), _) => (EXACT, exact),
        (None, Some(regex)) => ("RegularExpression", regex),
        (None, None) => return Err(case.refuse(field, ONLY_EXACT_OR_REGEX)),
    };
    Ok(json!({ "type": kind, "name": name, "value": value }))
}

// === impl Condition ===

impl Condition {
    /// A condition that holds where both do. A header can be named once only: where both name one, the
    /// narrower counts.
    fn and(&self, narrower: &Self) -> Self {
        let mut both = self.clone();
        both.headers.extend(narrower.headers.clone());
        both.query_params.extend(narrower.query_params.clone());
        both
    }

    /// How the path is compared, and the text it is compared with.
    pub(super) fn path(&self) -> Option<(&'static str, &str)> {
        self.path.as_ref().map(|(kind, path)| (*kind, path.as_str()))
    }

    /// The items of `headers`.
    pub(super) fn headers(&self) -> Vec<Value> {
        self.headers.values().cloned().collect()
    }

    /// Whether the path is compared by its beginning; a missing path is, with `/`.
    pub(super) fn is_prefix(&self) -> bool {
        self.path.as_ref().is_none_or(|(kind, _)| *kind == PREFIX)
    }

    /// The item, with the path the API server would fill in.
    pub(super) fn render(&self) -> Value {
        let (kind, path) = self.path.clone().unwrap_or((PREFIX, "/".to_owned()));
        let mut item = json!({ "path": { "type": kind, "value": path } });
        if let Some(method) = &self.method {
            item["method"] = json!(method);
        }
        if !self.headers.is_empty() {
            item["headers"] = Value::Array(self.headers());
        }
        if !self.query_params.is_empty() {
            item["queryParams"] = self.query_params.values().cloned().collect();
        }
        item
    }
}
