//! The primary's scaler: a copy of the target's that scales the primary.
//!
//! It is made whenever it is missing and follows the target's only on promotion: bounds and metrics
//! are part of a revision. Each kind of scaler has a file.

mod hpa;
mod keda;

use serde_json::{Map, Value, json};
use tidegate_api::canary::{AutoscalerKind, AutoscalerRef};

use super::{
    Cx, HORIZONTAL_POD_AUTOSCALER, SCALED_OBJECT, WorkloadError,
    hash::is_same,
    metadata::{is_owner, owners, with_version},
    name_of, require_owned,
};
use crate::object::{Change, Kind, exactly};

/// Every member of a copy's spec comes from the target's scaler.
const EXACT: &[&str] = &["/spec", "/metadata/ownerReferences"];

/// The kind of a target's autoscaler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scaler {
    /// Kubernetes' own.
    HorizontalPodAutoscaler,
    /// KEDA's.
    ScaledObject,
}

/// Name of the primary's scaler.
pub fn primary_name(autoscaler: &AutoscalerRef) -> String {
    format!("{}-primary", autoscaler.name)
}

// === impl Scaler ===

impl Scaler {
    /// The kind that the canary refers to.
    pub const fn of(autoscaler: &AutoscalerRef) -> Self {
        match autoscaler.kind {
            AutoscalerKind::HorizontalPodAutoscaler => Self::HorizontalPodAutoscaler,
            AutoscalerKind::ScaledObject => Self::ScaledObject,
        }
    }

    /// The kind of object.
    pub const fn kind(self) -> Kind {
        match self {
            Self::HorizontalPodAutoscaler => HORIZONTAL_POD_AUTOSCALER,
            Self::ScaledObject => SCALED_OBJECT,
        }
    }

    /// The fewest replicas a rollout starts with under such a scaler.
    pub fn min_replicas(self, scaler: &Value) -> i64 {
        match self {
            Self::HorizontalPodAutoscaler => hpa::min_replicas(scaler),
            Self::ScaledObject => keda::min_replicas(scaler),
        }
    }

    /// Whether it is set to keep the target at zero.
    pub fn is_paused(self, scaler: &Value) -> bool {
        match self {
            Self::HorizontalPodAutoscaler => false,
            Self::ScaledObject => keda::is_paused(scaler),
        }
    }

    /// The `kubectl` command that lets a paused one act again.
    pub fn wake_command(self, scaler: &Value) -> Option<String> {
        let namespace = scaler["metadata"]["namespace"].as_str().unwrap_or_default();
        let place = format!("{} -n {namespace}", name_of(scaler));
        self.is_paused(scaler)
            .then(|| format!("kubectl annotate scaledobject {place} {}-", keda::PAUSED_REPLICAS))
    }

    /// Keeps the target's scaler from acting, or lets it act again; `None` where it is so already.
    pub fn pause(self, scaler: &Value, is_wanted: bool) -> Option<Change> {
        match self {
            // A Deployment without replicas stops its autoscaler by itself.
            Self::HorizontalPodAutoscaler => None,
            Self::ScaledObject => keda::pause(scaler, is_wanted),
        }
    }

    /// Ends a pause that keeps the primary at zero, as copies of Flagger's may have: nothing else does.
    pub fn wake(self, primary: &Value) -> Option<Change> {
        self.is_paused(primary).then(|| self.pause(primary, false)).flatten()
    }

    /// Makes the primary's scaler, or brings it up to date with the target's; `None` where it is.
    pub fn sync(
        self,
        cx: &Cx<'_>,
        autoscaler: &AutoscalerRef,
        target: &Value,
        live: Option<&Value>,
    ) -> Result<Option<Change>, WorkloadError> {
        match self {
            Self::HorizontalPodAutoscaler => hpa::sync(cx, autoscaler, target, live),
            Self::ScaledObject => keda::sync(cx, autoscaler, target, live),
        }
    }
}

/// The primary's scaler as it should be.
struct Draft {
    kind: Kind,
    /// Labels, and annotations where they are copied.
    metadata: Map<String, Value>,
    spec: Value,
}

impl Draft {
    /// The change that makes it like this; `None` where it is, by the spec it has after defaults.
    ///
    /// Where it exists and is not the canary's, it is left alone. Labels and annotations of one that
    /// exists are not compared: no difference in them is worth a write, and others' stay.
    fn put(
        self,
        cx: &Cx<'_>,
        autoscaler: &AutoscalerRef,
        live: Option<(&Value, &Value)>,
    ) -> Result<Option<Change>, WorkloadError> {
        let Self { kind, mut metadata, spec } = self;
        if let Some((live, live_spec)) = live {
            require_owned(&cx.owner, kind, live)?;
            if is_same(live_spec, &spec) && is_owner(&cx.owner, live) {
                return Ok(None);
            }
        }
        let live = live.map(|(live, _)| live);
        metadata.insert("name".to_owned(), json!(primary_name(autoscaler)));
        metadata.insert("namespace".to_owned(), json!(cx.owner.namespace));
        metadata.insert("ownerReferences".to_owned(), json!(owners(&cx.owner, live)));
        let body = json!({
            "apiVersion": kind.api_version(),
            "kind": kind.kind,
            "metadata": with_version(Value::Object(metadata), live),
            "spec": spec,
        });
        Ok(Some(Change::Apply { body, exact: exactly(EXACT) }))
    }
}

/// Replica bounds of the primary's scaler: those the canary sets, else the target's.
///
/// `min` and `max` name the members of the scaler's spec. An absent minimum is `None`.
fn bounds(
    autoscaler: &AutoscalerRef,
    spec: &Value,
    (min, max): (&str, &str),
) -> (Option<i64>, Option<i64>) {
    let set = autoscaler.primary_scaler_replicas.as_ref();
    let set_min = set.and_then(|set| set.min_replicas).map(i64::from);
    let set_max = set.and_then(|set| set.max_replicas).map(i64::from);
    (set_min.or_else(|| spec[min].as_i64()), set_max.or_else(|| spec[max].as_i64()))
}
