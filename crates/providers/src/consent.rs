//! Consent of a Secret's owner to its use: a label for the purpose, an annotation for the hosts.
//!
//! A user who may write a `MetricTemplate` or start a hook run names a Secret and the address that it is sent to.
//! Without consent that user reads every Secret of the namespace.

use serde_json::Value;

/// Label of a Secret, with the value `true`: metric templates may send its contents.
pub const FOR_METRICS: &str = "tidegate.dev/for-metrics";
/// Annotation of a Secret: the host names that its contents may be sent to, with commas between them.
pub const FOR_HOSTS: &str = "tidegate.dev/for-hosts";

/// The consent that a Secret gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Consent {
    namespace: String,
    name: String,
    is_for_metrics: bool,
    hosts: Option<String>,
}

/// Why a Secret is not sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConsentError {
    /// It lacks the label.
    #[error(
        "Secret {secret} is not for metrics: it lacks the label {FOR_METRICS}: \"true\"; add it: {command}"
    )]
    Unlabelled {
        /// Namespace and name.
        secret: String,
        /// The command that adds the label.
        command: String,
    },
    /// Its annotation does not list the host.
    #[error(
        "Secret {secret} is not for {host}: its annotation {FOR_HOSTS} does not list that host; add it there, or use another Secret"
    )]
    Host {
        /// Namespace and name.
        secret: String,
        /// The host that it would be sent to.
        host: String,
    },
}

// === impl Consent ===

impl Consent {
    /// The consent of a Secret, by its metadata.
    pub fn of(namespace: &str, name: &str, secret: &Value) -> Self {
        let metadata = &secret["metadata"];
        // An annotation that is no text lists no host.
        let hosts = Some(&metadata["annotations"][FOR_HOSTS]).filter(|hosts| !hosts.is_null());
        Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            is_for_metrics: metadata["labels"][FOR_METRICS] == "true",
            hosts: hosts.map(|hosts| hosts.as_str().unwrap_or_default().to_owned()),
        }
    }

    /// Whether it has the label for metrics.
    pub fn check_label(&self) -> Result<(), ConsentError> {
        if self.is_for_metrics {
            return Ok(());
        }
        Err(ConsentError::Unlabelled { secret: self.secret(), command: self.command() })
    }

    /// Whether it may be sent to a host: to any, unless it lists some.
    pub fn check_host(&self, host: &str) -> Result<(), ConsentError> {
        let Some(hosts) = &self.hosts else { return Ok(()) };
        let is_it = |listed: &str| canonical(listed).eq_ignore_ascii_case(canonical(host));
        if hosts.split(',').filter(|listed| !listed.trim().is_empty()).any(is_it) {
            return Ok(());
        }
        Err(ConsentError::Host { secret: self.secret(), host: host.to_owned() })
    }

    /// A warning about a Secret that is sent without the label; nothing if it has it.
    pub fn warning(&self, provider: &str, host: &str) -> Option<String> {
        let (secret, command) = (self.secret(), self.command());
        (!self.is_for_metrics).then(|| {
            format!(
                "Secret {secret} is sent to {host} ({provider}) without the label {FOR_METRICS}, which may be required later; add it: {command}"
            )
        })
    }

    fn secret(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    fn command(&self) -> String {
        let Self { namespace, name, .. } = self;
        format!("kubectl label secret {name} --namespace {namespace} {FOR_METRICS}=true")
    }
}

/// A host without the dot of a full name and the brackets of an address.
fn canonical(host: &str) -> &str {
    let host = host.trim();
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    bare.strip_suffix('.').unwrap_or(bare)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn consent(metadata: &Value) -> Consent {
        Consent::of("shop", "login", &json!({ "metadata": metadata }))
    }

    #[test]
    fn only_the_value_true_of_the_label_is_consent() {
        let labelled = |value: Value| consent(&json!({ "labels": { FOR_METRICS: value } }));
        assert_eq!(labelled(json!("true")).check_label(), Ok(()));
        assert_eq!(labelled(json!("true")).warning("datadog", "a.example"), None);
        let for_hooks = consent(&json!({ "labels": { "tidegate.dev/for-hooks": "true" } }));
        for refused in
            [labelled(json!("false")), labelled(json!("")), labelled(json!(true)), for_hooks]
        {
            assert_eq!(
                refused.check_label().unwrap_err().to_string(),
                "Secret shop/login is not for metrics: it lacks the label tidegate.dev/for-metrics: \"true\"; \
                 add it: kubectl label secret login --namespace shop tidegate.dev/for-metrics=true"
            );
            let warning = refused.warning("datadog", "a.example").unwrap();
            let want = "Secret shop/login is sent to a.example (datadog) without the label";
            assert!(warning.starts_with(want), "{warning}");
        }
    }

    #[test]
    fn a_secret_goes_to_the_hosts_that_it_lists() {
        let cases = [
            ("a.example", "a.example", true),
            ("a.example,b.example", "b.example", true),
            (" a.example ,\nb.example.", "B.Example", true),
            ("10.0.0.1,::1", "[::1]", true),
            ("a.example", "a.example.", true),
            ("a.example", "b.example", false),
            ("a.example", "x.a.example", false),
            ("example", "a.example", false),
            ("*", "a.example", false),
            ("", "a.example", false),
            (" , ", "", false),
        ];
        for (hosts, host, want) in cases {
            let listed = consent(&json!({ "annotations": { FOR_HOSTS: hosts } }));
            assert_eq!(listed.check_host(host).is_ok(), want, "{hosts:?}: {host}");
        }
        let unlisted = consent(&json!({ "annotations": { "a": "b" } }));
        assert_eq!(unlisted.check_host("a.example"), Ok(()));
        let malformed = consent(&json!({ "annotations": { FOR_HOSTS: 7 } }));
        assert_eq!(
            malformed.check_host("a.example").unwrap_err().to_string(),
            "Secret shop/login is not for a.example: its annotation tidegate.dev/for-hosts does not list that \
             host; add it there, or use another Secret"
        );
    }
}
