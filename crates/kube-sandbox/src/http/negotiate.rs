//! Content negotiation: selects the answer format from the `Accept` header.
//!
//! Called before a request is executed, so that an unacceptable format fails without side effects.

use http::{HeaderMap, header};

use crate::{
    failure::{Failure, FieldError, Outcome},
    server::options::Query,
    table::IncludeObject,
};

/// Format of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    Json,
    Yaml,
    /// Protobuf where the kind has it; JSON otherwise.
    Protobuf,
    Table(IncludeObject),
    /// Only the metadata of an object.
    Metadata,
    /// Only the metadata of each object of a list.
    MetadataList,
}

/// One clause of an `Accept` header.
struct Wish<'h> {
    media: &'h str,
    parameters: Vec<(&'h str, &'h str)>,
    weight: f32,
}

const JSON: &str = "application/json";
const YAML: &str = "application/yaml";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

// === impl Format ===

impl Format {
    /// The first accepted format that the kind has, or 406 if there is none.
    pub(super) fn of(headers: &HeaderMap, query: &Query, is_custom: bool) -> Outcome<Self> {
        let wishes = wishes(headers);
        if wishes.is_empty() {
            return Ok(Self::Json);
        }
        let found = wishes.iter().find_map(|wish| wish.format(is_custom)).ok_or_else(|| {
            let accepted = [JSON, YAML, PROTOBUF].join(", ");
            Failure::not_acceptable(format!(
                "only the following media types are accepted: {accepted}"
            ))
        })?;
        let Self::Table(_) = found else { return Ok(found) };
        let include = query.get("includeObject");
        let parsed = IncludeObject::from_query(include).ok_or_else(|| {
            let why = "must be 'Metadata', 'Object', 'None', or empty";
            let error = FieldError::invalid("includeObject", &include.into(), why);
            Failure::bad_request(format!("Unable to convert to Table as requested: {error}"))
        })?;
        Ok(Self::Table(parsed))
    }

    /// Whether the header accepts no known media type in any form.
    pub(super) fn is_unheard_of(headers: &HeaderMap) -> bool {
        let known = [JSON, YAML, PROTOBUF, "*/*", "application/*"];
        !wishes(headers).iter().any(|wish| known.contains(&wish.media))
    }

    /// The format of an error: plain, and JSON if no plain format is accepted.
    pub(super) fn of_failure(headers: &HeaderMap) -> Self {
        let found = wishes(headers).iter().find_map(|wish| wish.format(false));
        match found {
            Some(plain @ (Self::Yaml | Self::Protobuf)) => plain,
            Some(Self::Json | Self::Table(_) | Self::Metadata | Self::MetadataList) | None => {
                Self::Json
            }
        }
    }
}

/// The clauses of the `Accept` header, the highest quality first.
fn wishes(headers: &HeaderMap) -> Vec<Wish<'_>> {
    let accepted = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let clauses = accepted.flat_map(|value| value.split(',')).map(str::trim);
    let mut wishes: Vec<Wish<'_>> =
        clauses.filter(|clause| !clause.is_empty()).map(Wish::parse).collect();
    wishes.sort_by(|left, right| right.weight.total_cmp(&left.weight));
    wishes
}

// === impl Wish ===

impl<'h> Wish<'h> {
    fn parse(clause: &'h str) -> Self {
        let mut parts = clause.split(';').map(str::trim);
        let media = parts.next().unwrap_or_default();
        let parameters: Vec<(&str, &str)> = parts.filter_map(|part| part.split_once('=')).collect();
        let weight = parameters.iter().find(|(key, _)| *key == "q");
        let weight = weight.and_then(|(_, text)| text.parse().ok()).unwrap_or(1.0);
        Self { media, parameters, weight }
    }

    fn parameter(&self, name: &str) -> &str {
        let found = self.parameters.iter().find(|(key, _)| *key == name);
        found.map_or("", |(_, value)| *value)
    }

    fn format(&self, is_custom: bool) -> Option<Format> {
        let media = match self.media {
            "*/*" | "application/*" => JSON,
            other => other,
        };
        let is_meta_v1 = self.parameter("g") == "meta.k8s.io" && self.parameter("v") == "v1";
        match (media, self.parameter("as")) {
            (JSON, "") => Some(Format::Json),
            (YAML, "") => Some(Format::Yaml),
            // Custom resources have no protobuf form.
            (PROTOBUF, "") if !is_custom => Some(Format::Protobuf),
            (JSON, "Table") if is_meta_v1 => Some(Format::Table(IncludeObject::default())),
            (JSON, "PartialObjectMetadata") if is_meta_v1 => Some(Format::Metadata),
            (JSON, "PartialObjectMetadataList") if is_meta_v1 => Some(Format::MetadataList),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_wish_that_can_be_met_is() {
        let cases = [
            ("", Format::Json, "nothing asked"),
            ("application/vnd.kubernetes.protobuf,application/json", Format::Protobuf, "client-go"),
            ("application/cbor, application/json", Format::Json, "an unknown form first"),
            (
                "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
                Format::Table(IncludeObject::Metadata),
                "kubectl get",
            ),
            (
                "application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json",
                Format::Json,
                "an old table",
            ),
            (
                "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
                Format::MetadataList,
                "kube-rs metadata",
            ),
            ("application/yaml", Format::Yaml, "yaml"),
            ("application/yaml;q=0.5, application/json", Format::Json, "the dearest wish first"),
            ("*/*", Format::Json, "anything"),
        ];
        for (accept, want, reason) in cases {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT, accept.parse().unwrap());
            let format = Format::of(&headers, &Query::default(), false).unwrap();
            assert_eq!(format, want, "{reason}");
        }
    }

    #[test]
    fn what_cannot_be_met_is_not_acceptable() {
        let cases = [
            ("text/html", false, "no such form"),
            ("application/json;as=Table;v=v1", false, "a table of no group"),
            ("application/json;as=Thing;v=v1;g=meta.k8s.io", false, "no such conversion"),
            (PROTOBUF, true, "custom resources have no protobuf form"),
        ];
        for (accept, is_custom, reason) in cases {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT, accept.parse().unwrap());
            let failure = Format::of(&headers, &Query::default(), is_custom).unwrap_err();
            assert_eq!((failure.code, failure.reason), (406, "NotAcceptable"), "{reason}");
        }
    }
}
