//! Reviews, which are queries in the form of objects: access, self subject and token reviews.
//!
//! Answers come from the authorizer and the known tokens; a review is never stored.

use serde_json::{Value, json};

use super::{
    Answer, Call, Server,
    users::{User, reviewed},
};
use crate::{
    failure::{Failure, FieldError, Outcome},
    rbac::Attributes,
};

// === impl Server ===

impl Server {
    /// Answers a review, or executes the legacy `POST bindings`.
    pub(super) fn review(&self, call: &Call<'_>) -> Outcome<Answer> {
        let (mut review, warnings) = call.body_object()?;
        if call.def.kind == "Binding" {
            return self.bind(call.namespace(), &review);
        }
        let status = self.review_status(call, &review)?;
        if !review["metadata"].is_object() {
            review["metadata"] = json!({});
        }
        review["status"] = status;
        let mut answer = Answer::object(201, review);
        answer.warnings = warnings;
        Ok(answer)
    }

    fn review_status(&self, call: &Call<'_>, review: &Value) -> Outcome<Value> {
        let info = &call.request.info;
        let asker = || User { name: info.user.clone(), groups: info.groups.clone() };
        let spec = &review["spec"];
        match call.def.kind.as_str() {
            "SelfSubjectReview" => Ok(json!({ "userInfo": user_info(&asker()) })),
            "TokenReview" => Ok(self.token_status(spec)),
            "SelfSubjectAccessReview" => {
                require_attributes(call, spec)?;
                Ok(self.access_status(spec, asker()))
            }
            "SubjectAccessReview" | "LocalSubjectAccessReview" => {
                require_attributes(call, spec)?;
                Ok(self.access_status(spec, subject(spec)))
            }
            "SelfSubjectRulesReview" => {
                let namespace = spec["namespace"].as_str().unwrap_or_default();
                if namespace.is_empty() {
                    return Err(Failure::bad_request("no namespace on request"));
                }
                Ok(self.rules_status(&asker(), namespace))
            }
            other => Err(Failure::internal(format!("no answer to a {other}"))),
        }
    }

    fn access_status(&self, spec: &Value, user: User) -> Value {
        if !self.settings.rbac {
            return json!({ "allowed": true, "reason": "the sandbox allows everything: RBAC is off" });
        }
        let info = reviewed(spec, user);
        let mut attributes = Attributes::from(&info);
        // A review may ask about verbs that no request has, such as `use` or `*`.
        let asked = if spec["resourceAttributes"].is_object() {
            &spec["resourceAttributes"]["verb"]
        } else {
            &spec["nonResourceAttributes"]["verb"]
        };
        attributes.verb = asked.as_str().unwrap_or_default();
        let decision = self.authorizer().allowed(&attributes);
        let mut status = json!({ "allowed": decision.allowed });
        if !decision.reason.is_empty() {
            status["reason"] = decision.reason.into();
        }
        status
    }

    fn rules_status(&self, user: &User, namespace: &str) -> Value {
        if self.settings.rbac {
            return self.authorizer().rules_for(&user.name, &user.groups, namespace);
        }
        json!({
            "resourceRules": [{ "verbs": ["*"], "apiGroups": ["*"], "resources": ["*"] }],
            "nonResourceRules": [{ "verbs": ["*"], "nonResourceURLs": ["*"] }],
            "incomplete": false,
        })
    }

    fn token_status(&self, spec: &Value) -> Value {
        let token = spec["token"].as_str().unwrap_or_default();
        match self.user_of_token(token) {
            Some(user) => json!({ "authenticated": true, "user": user_info(&user) }),
            None => json!({ "user": {}, "error": "invalid bearer token" }),
        }
    }
}

fn user_info(user: &User) -> Value {
    json!({ "username": user.name, "groups": user.groups })
}

fn subject(spec: &Value) -> User {
    let groups = spec["groups"].as_array().into_iter().flatten().filter_map(Value::as_str);
    User {
        name: spec["user"].as_str().unwrap_or_default().to_owned(),
        groups: groups.map(str::to_owned).collect(),
    }
}

fn require_attributes(call: &Call<'_>, spec: &Value) -> Outcome<()> {
    let resource = spec["resourceAttributes"].is_object();
    let other = spec["nonResourceAttributes"].is_object();
    let detail = match (resource, other) {
        (true, false) | (false, true) => return Ok(()),
        (true, true) => "cannot be specified in combination with resourceAttributes",
        (false, false) => {
            "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        }
    };
    let path = if resource { "spec.nonResourceAttributes" } else { "spec.resourceAttributes" };
    let error = FieldError::invalid(path, &Value::Null, detail);
    Err(Failure::invalid(&call.def.group, &call.def.kind, "", &[error]))
}
