//! [`RouteCase`]: one canary's case, as every provider's rendering gets it.

use std::sync::LazyLock;

use tidegate_api::canary::{Service, ServiceNames};
use tidegate_engine::Percent;

use super::{Capabilities, Mesh, Place, RouteCx, RouteError};
use crate::object::Kind;

/// One canary's case, with everything looked up that rendering needs.
pub(super) struct RouteCase<'a> {
    pub(super) mesh: Mesh,
    pub(super) cx: &'a RouteCx<'a>,
    pub(super) service: &'a Service,
    pub(super) names: ServiceNames,
    pub(super) capabilities: Capabilities,
}

/// The settings of a canary that has none: those of Knative need none, and a rollback must not.
static NO_SERVICE: LazyLock<Service> = LazyLock::new(Service::default);

// === impl Mesh ===

impl Mesh {
    pub(super) fn case<'a>(self, cx: &'a RouteCx<'a>) -> Result<RouteCase<'a>, RouteError> {
        if cx.spec.service.is_none() && self != Self::Knative {
            return Err(RouteError::Spec {
                canary: Place::canary(&cx.owner),
                field: "spec.service".to_owned(),
                why: format!("the provider \"{}\" needs it", self.as_str()),
            });
        }
        Ok(self.lenient_case(cx))
    }

    /// The same, where a missing service is no reason to stop.
    pub(super) fn lenient_case<'a>(self, cx: &'a RouteCx<'a>) -> RouteCase<'a> {
        RouteCase {
            mesh: self,
            cx,
            service: cx.spec.service.as_ref().unwrap_or(&NO_SERVICE),
            names: cx.spec.service_names(),
            capabilities: self.capabilities(cx.spec),
        }
    }
}

// === impl RouteCase ===

impl RouteCase<'_> {
    pub(super) fn canary(&self) -> Place {
        Place::canary(&self.cx.owner)
    }

    pub(super) fn place(&self, kind: Kind) -> Place {
        Place::new(kind, self.cx.owner.namespace, &self.names.apex)
    }

    /// Why something in the canary's spec cannot be done.
    pub(super) fn refuse(&self, field: impl Into<String>, why: impl Into<String>) -> RouteError {
        RouteError::Spec { canary: self.canary(), field: field.into(), why: why.into() }
    }

    /// Whether only requests that fit `analysis.match` are divided.
    pub(super) fn is_scoped(&self) -> bool {
        self.capabilities.ab && !self.cx.spec.analysis.matches.is_empty()
    }

    /// The prefix of every request's path, where a provider knows no other condition: that of the
    /// first `match`, as with Flagger.
    pub(super) fn path_prefix(&self) -> &str {
        let first = self.service.matches.first();
        let prefix = first.and_then(|it| it.uri.as_ref()?.prefix.as_deref());
        prefix.filter(|prefix| !prefix.is_empty()).unwrap_or("/")
    }

    /// Percentage of requests that are mirrored, where the spec has one; all of them otherwise.
    pub(super) fn mirror_percent(&self) -> Option<u8> {
        let percent = Percent::new(self.cx.spec.analysis.mirror_weight?)?;
        Some(percent.get()).filter(|percent| *percent > 0)
    }
}
