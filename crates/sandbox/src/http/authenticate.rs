//! Who a request comes from: a token, or whoever the handle stands for, or whom they impersonate.

use http::HeaderMap;

use super::{ApiService, text};
use crate::{
    failure::{Failure, Outcome},
    rbac::{self, Attributes},
    server::User,
};

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

    /// `kubectl --as`: another user, if this one may.
    fn impersonated(&self, headers: &HeaderMap, user: User) -> Outcome<User> {
        let name = text(headers, "impersonate-user");
        let given = headers.get_all("impersonate-group").iter();
        let given: Vec<String> =
            given.filter_map(|value| value.to_str().ok()).map(str::to_owned).collect();
        if name.is_empty() {
            if given.is_empty() {
                return Ok(user);
            }
            let why = "requested groups to be impersonated without impersonating a user";
            return Err(Failure::new(500, "InternalError", why));
        }
        self.may_impersonate(&user, "users", name)?;
        for group in &given {
            self.may_impersonate(&user, "groups", group)?;
        }
        let groups = rbac::groups_of(name, &given);
        Ok(User { name: name.to_owned(), groups })
    }

    fn may_impersonate(&self, user: &User, resource: &str, name: &str) -> Outcome<()> {
        if !self.server.settings.rbac {
            return Ok(());
        }
        let asked = Attributes {
            user: &user.name,
            groups: &user.groups,
            verb: "impersonate",
            resource,
            name,
            ..Attributes::default()
        };
        let decision = self.server.authorizer().allowed(&asked);
        if decision.allowed { Ok(()) } else { Err(rbac::refusal(&asked, &decision)) }
    }
}
