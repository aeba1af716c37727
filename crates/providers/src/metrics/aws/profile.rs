//! Profiles: the files that `aws configure` writes.
//!
//! ```text
//! ~/.aws/credentials     [name]            keys
//! ~/.aws/config          [profile name]    keys, or a role and a file with a token
//! ```
//!
//! Profiles that take keys from elsewhere (another profile, a program, a login in a browser) are not
//! followed: an operator has a role of its own for that.

use std::collections::BTreeMap;

use super::{Keys, SESSION_NAME, Source};

/// Members of a profile that gets its keys elsewhere.
const ELSEWHERE: [&str; 5] =
    ["role_arn", "credential_process", "sso_session", "sso_start_url", "credential_source"];

/// The source of keys in the chosen profile; nothing if there is no profile, or none of its members is about
/// keys.
pub(super) fn source(
    variable: impl Fn(&str) -> Option<String>,
    file: impl Fn(&str) -> Option<String>,
) -> Option<Source> {
    let name = variable("AWS_PROFILE").or_else(|| variable("AWS_DEFAULT_PROFILE"));
    let name = name.unwrap_or_else(|| "default".to_owned());
    let path = |named: &str, usual: &str| {
        variable(named).or_else(|| Some(format!("{}/.aws/{usual}", variable("HOME")?)))
    };
    let read = |named: &str, usual: &str| path(named, usual).and_then(|path| file(&path));
    let mut members = BTreeMap::new();
    if let Some(text) = read("AWS_CONFIG_FILE", "config") {
        members.extend(section(&text, &|it| {
            it == name && name == "default"
                || it.strip_prefix("profile ").map(str::trim) == Some(name.as_str())
        }));
    }
    if let Some(text) = read("AWS_SHARED_CREDENTIALS_FILE", "credentials") {
        members.extend(section(&text, &|it| it == name));
    }
    let member = |name: &str| members.get(name).filter(|value| !value.is_empty()).cloned();
    if let (Some(id), Some(secret)) = (member("aws_access_key_id"), member("aws_secret_access_key"))
    {
        return Some(Source::Keys(Keys { id, secret, session: member("aws_session_token") }));
    }
    if let (Some(role), Some(path)) = (member("role_arn"), member("web_identity_token_file")) {
        let token = file(&path).map(|token| token.trim().to_owned());
        let session = member("role_session_name").unwrap_or_else(|| SESSION_NAME.to_owned());
        return Some(token.map_or(Source::None, |token| Source::WebIdentity {
            role,
            token,
            session,
        }));
    }
    // In each of these cases the node's identity was not meant.
    ELSEWHERE.iter().any(|name| members.contains_key(*name)).then_some(Source::None)
}

/// The members of the sections with such a name; of several of one name the last one counts.
fn section(text: &str, is_it: &dyn Fn(&str) -> bool) -> BTreeMap<String, String> {
    let mut members = BTreeMap::new();
    let mut inside = false;
    for line in text.lines() {
        let trimmed = line.trim();
        if trimmed.is_empty() || trimmed.starts_with(['#', ';']) {
            continue;
        }
        if let Some(head) = trimmed.strip_prefix('[') {
            inside = head.split(']').next().is_some_and(|name| is_it(name.trim()));
        } else if inside
            && !line.starts_with([' ', '\t'])
            && let Some((name, value)) = trimmed.split_once('=')
        {
            members.insert(name.trim().to_ascii_lowercase(), value.trim().to_owned());
        }
    }
    members
}

#[cfg(test)]
mod tests {
    use super::*;

    const CREDENTIALS: &str = "\
# by hand
[default]
aws_access_key_id = AKIA
aws_secret_access_key=a=b

[other]
aws_access_key_id = OTHER
aws_secret_access_key = secret
aws_session_token = session
[half]
aws_access_key_id = HALF
";
    const CONFIG: &str = "\
[default]
region = eu-west-1
s3 =
  aws_access_key_id = NESTED
[profile irsa]
role_arn = arn:aws:iam::1:role/r
web_identity_token_file = /token
[profile assumed]
role_arn = arn:aws:iam::1:role/r
source_profile = default
[profile other]
aws_access_key_id = LESS
";

    fn found(pairs: &[(&str, &str)]) -> Option<Source> {
        let variable = |name: &str| {
            pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
        };
        let file = |path: &str| match path {
            "/home/.aws/credentials" | "/elsewhere" => Some(CREDENTIALS.to_owned()),
            "/home/.aws/config" => Some(CONFIG.to_owned()),
            "/token" => Some("token\n".to_owned()),
            _ => None,
        };
        source(variable, file)
    }

    #[test]
    fn prv_cw_2_keys_of_a_profile_are_used() {
        let keys = |id: &str, secret: &str, session: Option<&str>| {
            let session = session.map(str::to_owned);
            Some(Source::Keys(Keys { id: id.into(), secret: secret.into(), session }))
        };
        let home = ("HOME", "/home");
        let role = Source::WebIdentity {
            role: "arn:aws:iam::1:role/r".into(),
            token: "token".into(),
            session: "tidegate".into(),
        };
        let cases = [
            ("the usual one", vec![home], keys("AKIA", "a=b", None)),
            (
                "the one that is named; the file for keys wins",
                vec![home, ("AWS_PROFILE", "other")],
                keys("OTHER", "secret", Some("session")),
            ),
            (
                "in a file that is named",
                vec![("AWS_SHARED_CREDENTIALS_FILE", "/elsewhere")],
                keys("AKIA", "a=b", None),
            ),
            ("a role and a token", vec![home, ("AWS_PROFILE", "irsa")], Some(role)),
            ("keys from elsewhere", vec![home, ("AWS_PROFILE", "assumed")], Some(Source::None)),
            ("half a pair", vec![home, ("AWS_PROFILE", "half")], None),
            ("nobody", vec![home, ("AWS_PROFILE", "nobody")], None),
            ("no home", vec![], None),
            ("no file", vec![("HOME", "/nowhere")], None),
        ];
        for (reason, pairs, want) in cases {
            assert!(found(&pairs) == want, "{reason}");
        }
    }
}
