//! The operator's own cloud credentials, read from environment variables and files.
//!
//! The caller passes functions that read both, so that this crate does no I/O.

use super::{aws, google};

/// Credentials that are the operator's own. Used only towards their clouds, never towards
/// an address of a template.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CloudEnvironment {
    /// Amazon's.
    pub aws: aws::Source,
    /// Where `CloudWatch` is, if not at the usual place.
    pub aws_endpoint: Option<String>,
    /// Where STS is, if not at the usual place.
    pub aws_sts_endpoint: Option<String>,
    /// Google's.
    pub google: google::Environment,
}

// === impl CloudEnvironment ===

impl CloudEnvironment {
    /// Reads the environment. `variable` looks up a variable, `file` reads a file.
    ///
    /// Tokens in files are replaced while we run, so this is to be done anew for each check.
    pub fn from_environment(
        variable: impl Fn(&str) -> Option<String>,
        file: impl Fn(&str) -> Option<String>,
    ) -> Self {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        let endpoint = |name: &str| set(name).or_else(|| set("AWS_ENDPOINT_URL"));
        Self {
            aws: aws::Source::from_environment(&variable, &file),
            aws_endpoint: endpoint("AWS_ENDPOINT_URL_CLOUDWATCH"),
            aws_sts_endpoint: endpoint("AWS_ENDPOINT_URL_STS"),
            google: google::Environment::from_environment(&variable, &file),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pairs: &[(&str, &str)]) -> CloudEnvironment {
        let find = |name: &str| {
            pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
        };
        CloudEnvironment::from_environment(find, |path| Some(format!("contents of {path}\n")))
    }

    #[test]
    fn identities_are_found_in_the_order_of_amazons_libraries() {
        let keys = [("AWS_ACCESS_KEY_ID", "a"), ("AWS_SECRET_ACCESS_KEY", "b")];
        let role = [("AWS_ROLE_ARN", "r"), ("AWS_WEB_IDENTITY_TOKEN_FILE", "/t")];
        let full = [
            ("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://169.254.170.23/v1/credentials"),
            ("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", "/c"),
        ];
        let relative = [("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "/v2/x")];
        let keys_found =
            aws::Source::Keys(aws::Keys { id: "a".into(), secret: "b".into(), session: None });
        let role_found = aws::Source::WebIdentity {
            role: "r".into(),
            token: "contents of /t".into(),
            session: "tidegate".into(),
        };
        let cases = [
            ("keys first", [&keys[..], &role, &full].concat(), keys_found),
            ("then a role", [&role[..], &full].concat(), role_found),
            (
                "then a server for containers",
                full.to_vec(),
                aws::Source::Container {
                    address: "http://169.254.170.23/v1/credentials".into(),
                    authorization: Some("contents of /c".into()),
                },
            ),
            (
                "by its short address",
                relative.to_vec(),
                aws::Source::Container {
                    address: "http://169.254.170.2/v2/x".into(),
                    authorization: None,
                },
            ),
            ("then the instance", vec![("AWS_ACCESS_KEY_ID", "a")], aws::Source::Instance),
            ("unless it is off", vec![("AWS_EC2_METADATA_DISABLED", "true")], aws::Source::None),
        ];
        for (reason, pairs, want) in cases {
            assert!(of(&pairs).aws == want, "{reason}");
        }
    }

    #[test]
    fn credentials_of_the_environment_are_not_printed() {
        let found = of(&[
            ("AWS_ACCESS_KEY_ID", "hidden"),
            ("AWS_SECRET_ACCESS_KEY", "hidden"),
            ("GOOGLE_APPLICATION_CREDENTIALS", "/hidden"),
            ("AWS_ENDPOINT_URL", "http://localhost:4566"),
        ]);
        assert!(!format!("{found:?}").contains("hidden"), "{found:?}");
        assert_eq!(found.google.key.as_deref(), Some("contents of /hidden\n"));
        assert_eq!(found.aws_sts_endpoint.as_deref(), Some("http://localhost:4566"));
    }
}
