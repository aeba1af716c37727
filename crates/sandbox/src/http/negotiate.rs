//! Which form of an answer a client accepts.

use http::{HeaderMap, header};

use crate::{server::options::Query, table::IncludeObject};

/// How an answer is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    Json,
    Yaml,
    /// Where the kind has such a form; JSON otherwise.
    Protobuf,
    Table(IncludeObject),
    /// Only the metadata of objects.
    Metadata,
}

// === impl Format ===

impl Format {
    /// The first of the client's wishes that can be met. Nobody is refused: JSON always can.
    pub(super) fn of(headers: &HeaderMap, query: &str) -> Self {
        let accepted =
            headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
        let include = Query::parse(query);
        let include = IncludeObject::from_query(include.get("includeObject")).unwrap_or_default();
        accepted
            .flat_map(|value| value.split(','))
            .find_map(|wish| Self::parse(wish, include))
            .unwrap_or(Self::Json)
    }

    fn parse(wish: &str, include: IncludeObject) -> Option<Self> {
        let mut parts = wish.split(';').map(str::trim);
        let media = parts.next().unwrap_or_default();
        let parameters: Vec<(&str, &str)> = parts.filter_map(|part| part.split_once('=')).collect();
        let parameter = |name: &str| {
            let found = parameters.iter().find(|(key, _)| *key == name);
            found.map_or("", |(_, value)| *value)
        };
        match (media, parameter("as")) {
            ("application/json" | "*/*" | "application/*", "") => Some(Self::Json),
            ("application/yaml", "") => Some(Self::Yaml),
            ("application/vnd.kubernetes.protobuf", "") => Some(Self::Protobuf),
            ("application/json", "Table") if parameter("v") == "v1" => Some(Self::Table(include)),
            ("application/json", "PartialObjectMetadata" | "PartialObjectMetadataList")
                if parameter("v") == "v1" =>
            {
                Some(Self::Metadata)
            }
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
                Format::Metadata,
                "kube-rs metadata",
            ),
            ("application/yaml", Format::Yaml, "yaml"),
        ];
        for (accept, want, reason) in cases {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT, accept.parse().unwrap());
            assert_eq!(Format::of(&headers, ""), want, "{reason}");
        }
    }
}
