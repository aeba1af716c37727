//! A saved copy of the promoted workload, to rebuild the primary from.
//!
//! The target may be at a revision that failed when the primary is deleted: copying the target
//! then would put the failed revision into production. The copy is a Secret, because a template may
//! hold passwords, and is written before the primary it describes.

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use serde_json::{Value, json};

use super::{Promotion, create_primary, make, primary_object, promoted_metadata, require_revision};
use crate::{
    object::{Change, Owner, exactly},
    workload::{
        Cx, SECRET, WorkloadError,
        config::Tracked,
        metadata::{is_owner, owners, with_version},
        name_of, require_owned,
    },
};

/// The last promotion.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    /// The revision.
    pub revision: String,
    /// How many replicas the primary had.
    pub replicas: i64,
    /// The primary, without its owners and replicas.
    primary: Value,
}

/// Type of the Secret: one that configuration tracking and other tools pass by.
const TYPE: &str = "flagger.app/promoted";
/// The one key of the Secret.
const KEY: &str = "promoted.json";
const EXACT: &[&str] = &["/data", "/metadata/ownerReferences"];

/// Makes a primary that is gone again, only from a promoted template.
///
/// `promoted` is the revision the status remembers, empty if there never was one. The snapshot
/// knows the replicas, too, and comes first, unless it is of an earlier promotion and the target is
/// at `promoted`. If neither is known, nothing is made.
pub fn recreate(
    cx: &Cx<'_>,
    target: &Value,
    tracked: &Tracked,
    promoted: &str,
    snapshot: Option<&Snapshot>,
) -> Result<Change, WorkloadError> {
    let is_at_promoted = promoted == cx.workload.revision(target);
    // One of another kind is of a target the canary had before.
    match snapshot.filter(|snapshot| snapshot.primary["kind"] == cx.workload.kind().kind) {
        Some(snapshot) if snapshot.revision == promoted || !is_at_promoted => {
            Ok(make(cx, snapshot.primary.clone(), snapshot.replicas))
        }
        _ if is_at_promoted || promoted.is_empty() => create_primary(cx, target, tracked),
        _ => Err(WorkloadError::PromotedUnknown {
            kind: cx.workload.kind().kind,
            name: cx.primary_name(),
            promoted: promoted.to_owned(),
        }),
    }
}

// === impl Snapshot ===

impl Snapshot {
    /// The result of [`super::promote`] on the target, with the replicas the primary then has.
    pub fn of(
        cx: &Cx<'_>,
        target: &Value,
        promotion: &Promotion<'_>,
        replicas: i64,
    ) -> Result<Self, WorkloadError> {
        require_revision(cx, target, promotion.revision)?;
        let (labels, annotations) = promoted_metadata(cx, target);
        Ok(Self {
            revision: promotion.revision.to_owned(),
            replicas: replicas.max(1),
            primary: primary_object(cx, target, promotion.tracked, labels, &annotations)?,
        })
    }

    /// Name of the Secret for a target.
    pub fn name(target: &str) -> String {
        format!("{target}-primary-promoted")
    }

    /// Reads the Secret back. One that the canary does not own is refused: any user with write access to
    /// Secrets could choose the template that runs in production.
    pub fn read(owner: &Owner<'_>, secret: &Value) -> Result<Self, WorkloadError> {
        require_owned(owner, SECRET, secret)?;
        Self::decode(secret)
            .ok_or_else(|| WorkloadError::SnapshotUnreadable { name: name_of(secret).to_owned() })
    }

    /// Saves the snapshot; `None` where it is saved already.
    pub fn save(
        &self,
        cx: &Cx<'_>,
        existing: Option<&Value>,
    ) -> Result<Option<Change>, WorkloadError> {
        if let Some(existing) = existing {
            require_owned(&cx.owner, SECRET, existing)?;
            let is_saved = Self::decode(existing).as_ref() == Some(self);
            if is_saved && is_owner(&cx.owner, existing) {
                return Ok(None);
            }
        }
        let metadata = json!({
            "name": Self::name(cx.target),
            "namespace": cx.owner.namespace,
            "ownerReferences": owners(&cx.owner, existing),
        });
        let content = json!({
            "revision": self.revision,
            "replicas": self.replicas,
            "primary": self.primary,
        });
        let body = json!({
            "apiVersion": SECRET.api_version(),
            "kind": SECRET.kind,
            "metadata": with_version(metadata, existing),
            "type": TYPE,
            "data": { KEY: BASE64.encode(content.to_string()) },
        });
        Ok(Some(Change::Apply { body, exact: exactly(EXACT) }))
    }

    fn decode(secret: &Value) -> Option<Self> {
        let bytes = BASE64.decode(secret["data"][KEY].as_str()?).ok()?;
        let mut content: Value = serde_json::from_slice(&bytes).ok()?;
        let primary = content["primary"].take();
        // The fields that changes are built on have to be there.
        let needed = ["/metadata/name", "/spec/template/spec", "/spec/selector"];
        let is_whole = needed.iter().all(|pointer| primary.pointer(pointer).is_some())
            && ["strategy", "updateStrategy"].iter().any(|it| primary["spec"].get(it).is_some());
        is_whole.then_some(Self {
            revision: content["revision"].as_str()?.to_owned(),
            replicas: content["replicas"].as_i64()?.max(1),
            primary,
        })
    }
}
