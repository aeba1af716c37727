//! Request filter of a fault rule.

use crate::request::{RequestInfo, Verb};

/// Matches requests that agree with all given fields. The default matches all requests.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Matcher {
    /// Any of these; all verbs if empty.
    pub verbs: Vec<Verb>,
    /// The API group.
    pub group: Option<String>,
    /// The plural of the resource.
    pub resource: Option<String>,
    /// `Some("")` matches only requests for the object itself.
    pub subresource: Option<String>,
    /// The namespace.
    pub namespace: Option<String>,
    /// The object's name.
    pub name: Option<String>,
    /// The user.
    pub user: Option<String>,
}

// === impl Matcher ===

impl Matcher {
    /// Every request.
    pub fn any() -> Self {
        Self::default()
    }

    /// Every request that changes objects.
    pub fn writes() -> Self {
        Self::any().verbs([
            Verb::Create,
            Verb::Update,
            Verb::Patch,
            Verb::Delete,
            Verb::DeleteCollection,
        ])
    }

    /// Only these verbs.
    #[must_use]
    pub fn verbs(mut self, verbs: impl IntoIterator<Item = Verb>) -> Self {
        self.verbs = verbs.into_iter().collect();
        self
    }

    /// Only this resource.
    #[must_use]
    pub fn resource(mut self, group: &str, resource: &str) -> Self {
        self.group = Some(group.to_owned());
        self.resource = Some(resource.to_owned());
        self
    }

    /// Only this subresource; `""` for the object itself.
    #[must_use]
    pub fn subresource(mut self, subresource: &str) -> Self {
        self.subresource = Some(subresource.to_owned());
        self
    }

    /// Only this namespace.
    #[must_use]
    pub fn namespace(mut self, namespace: &str) -> Self {
        self.namespace = Some(namespace.to_owned());
        self
    }

    /// Only this object.
    #[must_use]
    pub fn name(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    /// Only this user.
    #[must_use]
    pub fn user(mut self, user: &str) -> Self {
        self.user = Some(user.to_owned());
        self
    }

    /// Whether a request agrees with everything given.
    pub fn matches(&self, info: &RequestInfo) -> bool {
        let Self { verbs, group, resource, subresource, namespace, name, user } = self;
        let pairs = [
            (group, &info.group),
            (resource, &info.resource),
            (subresource, &info.subresource),
            (namespace, &info.namespace),
            (name, &info.name),
            (user, &info.user),
        ];
        (verbs.is_empty() || verbs.contains(&info.verb))
            && pairs.iter().all(|(wanted, met)| wanted.as_ref().is_none_or(|wanted| wanted == *met))
    }
}
