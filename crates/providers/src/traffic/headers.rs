//! `analysis.match` where a provider can compare headers and nothing else.
//!
//! Items are alternatives, headers of one item hold together. Other conditions are refused: a dropped
//! condition would send more users to the canary than intended, or all of them.

use tidegate_api::canary::analysis::{AnalysisMatch, HeaderMatch};

use super::{RouteCase, RouteError, non_empty};

/// How a header is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    Exact,
    Prefix,
    Suffix,
    Regex,
}

/// One header with the value it must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header<'a> {
    pub(super) name: &'a str,
    pub(super) how: How,
    pub(super) value: &'a str,
}

/// The conditions, item by item, in the order of the spec; headers of an item by name, so that their
/// order never changes.
pub(super) fn conditions<'a>(
    case: &RouteCase<'a>,
    can: &[How],
) -> Result<Vec<Vec<Header<'a>>>, RouteError> {
    let items = case.cx.spec.analysis.matches.iter().enumerate();
    items.map(|(index, item)| of_item(case, can, index, item)).collect()
}

fn of_item<'a>(
    case: &RouteCase<'a>,
    can: &[How],
    index: usize,
    item: &'a AnalysisMatch,
) -> Result<Vec<Header<'a>>, RouteError> {
    let field = format!("spec.analysis.match[{index}]");
    let AnalysisMatch { headers, query_params, source_labels } = item;
    let provider = case.mesh.as_str();
    let only_headers = format!("the provider \"{provider}\" can compare headers only");
    for (member, is_empty) in
        [("queryParams", query_params.is_empty()), ("sourceLabels", source_labels.is_empty())]
    {
        if !is_empty {
            return Err(case.refuse(format!("{field}.{member}"), only_headers));
        }
    }
    if headers.is_empty() {
        return Err(case.refuse(field, "an empty condition fits every request"));
    }
    let found = headers.iter().map(|(name, header)| {
        let known = of_header(header).filter(|(how, _)| can.contains(how));
        let (how, value) = known.ok_or_else(|| {
            let words: Vec<_> = can.iter().map(|how| how.as_str()).collect();
            let why = format!("needs {}, with the provider \"{provider}\"", words.join(" or "));
            case.refuse(format!("{field}.headers.{name}"), why)
        })?;
        Ok(Header { name, how, value })
    });
    found.collect()
}

fn of_header(header: &HeaderMatch) -> Option<(How, &str)> {
    let HeaderMatch { exact, prefix, suffix, regex } = header;
    let all =
        [(How::Exact, exact), (How::Prefix, prefix), (How::Suffix, suffix), (How::Regex, regex)];
    all.into_iter().find_map(|(how, text)| Some((how, non_empty(text.as_ref())?)))
}

// === impl How ===

impl How {
    /// As in the spec, and in the words of most providers.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Prefix => "prefix",
            Self::Suffix => "suffix",
            Self::Regex => "regex",
        }
    }
}
