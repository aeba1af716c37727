//! Host patterns of routes, and names of Services.
//!
//! Used by all routing kinds and by the resolver.

use std::{fmt, net::IpAddr};

/// Suffix of a Service's full name.
const CLUSTER_DOMAIN: &str = ".svc.cluster.local";

/// A host pattern of a route.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum HostPattern {
    Any,
    /// With the leading dot; something must precede it.
    Suffix(String),
    Exact(String),
}

/// The parts of a Service's name.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NameParts<'n> {
    pub(crate) service: &'n str,
    pub(crate) namespace: Option<&'n str>,
}

/// Lower case, without port and trailing dot.
pub(crate) fn normalise(host: &str) -> String {
    let bracketed = host.strip_prefix('[').and_then(|rest| rest.split_once(']'));
    let bare = match bracketed {
        Some((address, _)) => address,
        None => match host.rsplit_once(':') {
            Some((name, port)) if !name.contains(':') && is_number(port) => name,
            _ => host,
        },
    };
    bare.trim_end_matches('.').to_ascii_lowercase()
}

fn is_number(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

/// True for hosts that name a machine, not a service: empty, an address, `localhost`.
pub(crate) fn is_nameless(host: &str) -> bool {
    host.is_empty() || host == "localhost" || host.parse::<IpAddr>().is_ok()
}

/// `service`, `service.namespace`, `service.namespace.svc` or in full; `None` for other names.
pub(crate) fn service_parts(host: &str) -> Option<NameParts<'_>> {
    let short = host.strip_suffix(CLUSTER_DOMAIN).or_else(|| host.strip_suffix(".svc"));
    let is_qualified = short.is_some();
    let mut labels = short.unwrap_or(host).split('.');
    let service = labels.next().filter(|label| !label.is_empty())?;
    let namespace = labels.next();
    if labels.next().is_some() || (is_qualified && namespace.is_none()) {
        return None;
    }
    Some(NameParts { service, namespace })
}

/// Namespace and name of the Service that `host` names in an object of `namespace`.
pub(crate) fn service_key(host: &str, namespace: &str) -> Option<(String, String)> {
    let parts = service_parts(host)?;
    Some((parts.namespace.unwrap_or(namespace).to_owned(), parts.service.to_owned()))
}

// === impl HostPattern ===

impl HostPattern {
    /// `*`, `*.example.com` or a plain name.
    pub(crate) fn parse(text: &str) -> Self {
        let text = text.to_ascii_lowercase();
        match text.strip_prefix('*') {
            Some("") => Self::Any,
            Some(suffix) => Self::Suffix(suffix.to_owned()),
            None => Self::Exact(text),
        }
    }

    /// All names of a Service.
    pub(crate) fn of_service(namespace: &str, service: &str) -> Vec<Self> {
        let names = [
            service.to_owned(),
            format!("{service}.{namespace}"),
            format!("{service}.{namespace}.svc"),
            format!("{service}.{namespace}{CLUSTER_DOMAIN}"),
        ];
        names.into_iter().map(Self::Exact).collect()
    }

    pub(crate) fn covers(&self, host: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Suffix(suffix) => host.len() > suffix.len() && host.ends_with(suffix.as_str()),
            Self::Exact(name) => host == name,
        }
    }

    /// Greater is more specific.
    pub(crate) fn specificity(&self) -> (u8, usize) {
        match self {
            Self::Any => (0, 0),
            Self::Suffix(suffix) => (1, suffix.len()),
            Self::Exact(name) => (2, name.len()),
        }
    }
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("*"),
            Self::Suffix(suffix) => write!(f, "*{suffix}"),
            Self::Exact(name) => f.write_str(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_compared_without_port_case_and_final_dot() {
        let cases = [
            ("Shop.Example.com:8080", "shop.example.com"),
            ("shop.", "shop"),
            ("127.0.0.1:80", "127.0.0.1"),
            ("[::1]:80", "::1"),
            ("::1", "::1"),
            ("", ""),
        ];
        for (given, want) in cases {
            assert_eq!(normalise(given), want, "{given}");
        }
    }

    #[test]
    fn a_service_is_known_by_four_names() {
        let parts = |service, namespace| Some(NameParts { service, namespace });
        let cases = [
            ("shop", parts("shop", None)),
            ("shop.test", parts("shop", Some("test"))),
            ("shop.test.svc", parts("shop", Some("test"))),
            ("shop.test.svc.cluster.local", parts("shop", Some("test"))),
            ("shop.svc", None),
            ("shop.example.com", None),
            ("", None),
        ];
        for (host, want) in cases {
            assert_eq!(service_parts(host), want, "{host}");
        }
        for pattern in HostPattern::of_service("test", "shop") {
            let key = service_key(&pattern.to_string(), "test").unwrap();
            assert_eq!(key, ("test".to_owned(), "shop".to_owned()));
        }
    }

    #[test]
    fn a_wildcard_covers_what_is_below_it_and_not_itself() {
        let pattern = HostPattern::parse("*.Example.com");
        assert!(pattern.covers("a.example.com") && pattern.covers("a.b.example.com"));
        assert!(!pattern.covers("example.com") && !pattern.covers(".example.com"));
        assert!(HostPattern::parse("*").covers("anything"));
        assert!(HostPattern::Exact("a".into()).specificity() > pattern.specificity());
    }
}
