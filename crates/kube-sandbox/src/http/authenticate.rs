//! Authentication: the user of a bearer token, or else of the handle, with impersonation.

use http::HeaderMap;

use super::{ApiService, text};
use crate::{
    failure::{Failure, Outcome},
    rbac::{self, Attributes},
    server::User,
};

const KNOWN: &str = "system:authenticated";
const UNKNOWN: &str = "system:unauthenticated";

// === impl ApiService ===

impl ApiService {
    pub(super) fn user_of(&self, headers: &HeaderMap) -> Outcome<User> {
        let credentials = text(headers, "authorization");
        let user = match credentials.split_once(' ') {
            Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => {
                let known = self.server.user_of_token(token.trim());
                known.ok_or_else(|| Failure::new(401, "Unauthorized", "Unauthorized"))?
            }
            _ => self.user.clone(),
        };
        self.impersonated(headers, user)
    }

    /// The impersonated user of `kubectl --as`, if the user may impersonate.
    fn impersonated(&self, headers: &HeaderMap, user: User) -> Outcome<User> {
        let name = text(headers, "impersonate-user");
        let given = headers.get_all("impersonate-group").iter();
        let given: Vec<String> =
            given.filter_map(|value| value.to_str().ok()).map(str::to_owned).collect();
        if name.is_empty() {
            if given.is_empty() {
                return Ok(user);
            }
            let groups: Vec<String> =
                given.iter().map(|group| format!("{{Group  {group}    }}")).collect();
            return Err(Failure::bad_request(format!(
                "requested [{}] without impersonating a user",
                groups.join(" ")
            )));
        }
        let account = name.strip_prefix("system:serviceaccount:");
        match account.and_then(|rest| rest.split_once(':')) {
            Some((namespace, account)) => {
                self.may_impersonate(&user, "serviceaccounts", namespace, account)?;
            }
            None => self.may_impersonate(&user, "users", "", name)?,
        }
        for group in &given {
            self.may_impersonate(&user, "groups", "", group)?;
        }
        Ok(User { name: name.to_owned(), groups: groups_of(name, given) })
    }

    fn may_impersonate(
        &self,
        user: &User,
        resource: &str,
        namespace: &str,
        name: &str,
    ) -> Outcome<()> {
        if !self.server.settings.rbac {
            return Ok(());
        }
        let asked = Attributes {
            user: &user.name,
            groups: &user.groups,
            verb: "impersonate",
            resource,
            namespace,
            name,
            ..Attributes::default()
        };
        let decision = self.server.authorizer().allowed(&asked);
        if decision.allowed { Ok(()) } else { Err(rbac::refusal(&asked, &decision)) }
    }
}

/// The groups of an impersonated user: the given ones, plus `system:authenticated` or
/// `system:unauthenticated`.
fn groups_of(name: &str, given: Vec<String>) -> Vec<String> {
    if given.is_empty() {
        return rbac::groups_of(name, &given);
    }
    let mut groups = given;
    let is_in = |group: &str| groups.iter().any(|given| given == group);
    let (expected, is_settled) = if name == "system:anonymous" {
        (UNKNOWN, is_in(UNKNOWN))
    } else {
        (KNOWN, is_in(KNOWN) || is_in(UNKNOWN))
    };
    if !is_settled {
        groups.push(expected.to_owned());
    }
    groups
}
