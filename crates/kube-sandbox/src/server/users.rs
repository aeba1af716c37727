//! Users: tokens and authorization.
//!
//! HTTP requests and in-process clients pass [`Server::authorize`]; access reviews evaluate the
//! same rules.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{Answer, Call, Server};
use crate::{
    failure::Outcome,
    rbac::{self, Attributes},
    request::{RequestInfo, Verb},
};

/// A name and its groups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// The name: that of an account is `system:serviceaccount:NAMESPACE:NAME`.
    pub name: String,
    /// The groups it belongs to.
    pub groups: Vec<String>,
}

// === impl User ===

impl User {
    /// An administrator, with all permissions in RBAC mode too.
    pub fn admin() -> Self {
        Self::new("kubernetes-admin", &["system:masters", "system:authenticated"])
    }

    /// A client without credentials, in RBAC mode.
    pub fn anonymous() -> Self {
        Self::new("system:anonymous", &["system:unauthenticated"])
    }

    /// An authenticated user without other groups.
    pub fn named(name: &str) -> Self {
        Self::new(name, &["system:authenticated"])
    }

    /// The account of a namespace.
    pub fn service_account(namespace: &str, name: &str) -> Self {
        let own = format!("system:serviceaccounts:{namespace}");
        let groups = ["system:serviceaccounts", &own, "system:authenticated"];
        Self::new(&format!("system:serviceaccount:{namespace}:{name}"), &groups)
    }

    /// A user with these groups and no others.
    pub fn new(name: &str, groups: &[&str]) -> Self {
        let groups = groups.iter().map(|&group| group.to_owned()).collect();
        Self { name: name.to_owned(), groups }
    }
}

// === impl Server ===

impl Server {
    /// Registers `token` for `user`.
    pub fn add_token(&self, token: &str, user: User) {
        let mut tokens = self.tokens.lock();
        tokens.insert(token.to_owned(), user);
    }

    /// The user that a token stands for.
    pub fn user_of_token(&self, token: &str) -> Option<User> {
        self.tokens.lock().get(token).cloned()
    }

    /// Refuses a request that its user may not make. Outside RBAC mode everything is allowed.
    pub fn authorize(&self, info: &RequestInfo) -> Outcome<()> {
        if !self.settings.rbac {
            return Ok(());
        }
        let asked = Attributes::from(info);
        let decision = self.authorizer().allowed(&asked);
        if decision.allowed { Ok(()) } else { Err(rbac::refusal(&asked, &decision)) }
    }

    pub(crate) fn authorizer(&self) -> Arc<crate::rbac::Authorizer> {
        Arc::clone(&self.authorizer.read())
    }

    /// `POST serviceaccounts/NAME/token`: issues a token for the account, valid until the sandbox
    /// ends.
    pub(crate) fn issue_token(&self, call: &Call<'_>) -> Outcome<Answer> {
        let info = &call.request.info;
        self.stored(call)?;
        let mut review = match call.body_object() {
            Ok((object, _)) => object,
            Err(_) => json!({}),
        };
        let token =
            format!("sandbox-{:016x}{:016x}", self.random.next_u64(), self.random.next_u64());
        self.add_token(&token, User::service_account(&info.namespace, &info.name));
        let seconds = review["spec"]["expirationSeconds"].as_i64().unwrap_or(3600);
        let until = self.clock.now().checked_add(jiff::SignedDuration::from_secs(seconds));
        let until = super::timestamp_text(until.unwrap_or(jiff::Timestamp::MAX));
        review["apiVersion"] = "authentication.k8s.io/v1".into();
        review["kind"] = "TokenRequest".into();
        review["metadata"] = json!({ "name": info.name, "namespace": info.namespace });
        review["status"] = json!({ "token": token, "expirationTimestamp": until });
        Ok(Answer::object(201, review))
    }
}

/// The request described in a review, as `user`.
pub(super) fn reviewed(spec: &Value, user: User) -> RequestInfo {
    let resource = &spec["resourceAttributes"];
    let text = |value: &Value, key: &str| value[key].as_str().unwrap_or_default().to_owned();
    let mut info = RequestInfo { user: user.name, groups: user.groups, ..RequestInfo::default() };
    if resource.is_object() {
        info.verb = verb_named(&text(resource, "verb"));
        info.group = text(resource, "group");
        info.version = text(resource, "version");
        info.resource = text(resource, "resource");
        info.subresource = text(resource, "subresource");
        info.namespace = text(resource, "namespace");
        info.name = text(resource, "name");
    } else {
        let other = &spec["nonResourceAttributes"];
        info.verb = verb_named(&text(other, "verb"));
        info.path = text(other, "path");
    }
    info
}

fn verb_named(name: &str) -> Verb {
    use Verb::{Create, Delete, DeleteCollection, Get, Head, List, Options, Patch, Post, Put};
    let all = [Get, List, Verb::Watch, Create, Verb::Update, Patch, Delete, DeleteCollection];
    let all = all.into_iter().chain([Head, Options, Post, Put]);
    all.into_iter().find(|verb| verb.as_str() == name).unwrap_or(Get)
}
