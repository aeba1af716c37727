//! Conflicts of an apply with the owners of fields, and the resulting error.

use super::{
    entries::Owner,
    fields::{FieldSet, Path},
};
use crate::failure::{Cause, Failure};

/// The fields in conflict, by their current owners.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Conflicts(Vec<(Owner, FieldSet)>);

// === impl Conflicts ===

impl Conflicts {
    pub(super) fn add(&mut self, owner: &Owner, fields: FieldSet) {
        if !fields.is_empty() {
            self.0.push((owner.clone(), fields));
            self.0.sort_by(|(left, _), (right, _)| left.cmp(right));
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Removes the conflicts about `allowed` fields.
    pub(super) fn excuse(&mut self, allowed: &FieldSet) {
        self.0.retain_mut(|(_, fields)| {
            fields.subtract(allowed);
            !fields.is_empty()
        });
    }

    /// `Apply failed with ...`, with one cause per field.
    pub(super) fn into_failure(self) -> Failure {
        let by_owner: Vec<(Owner, Vec<Path>)> =
            self.0.into_iter().map(|(owner, fields)| (owner, fields.paths())).collect();
        let causes = by_owner.iter().flat_map(|(owner, paths)| {
            paths.iter().map(move |path| Cause {
                reason: "FieldManagerConflict".to_owned(),
                message: format!("conflict with {owner}"),
                field: path.to_string(),
            })
        });
        let causes: Vec<_> = causes.collect();
        let message = match causes.as_slice() {
            [only] => {
                format!("Apply failed with 1 conflict: {}: {}", only.message, only.field)
            }
            many => {
                let mut lines = Vec::new();
                for (owner, paths) in &by_owner {
                    lines.push(format!("conflicts with {owner}:"));
                    lines.extend(paths.iter().map(|path| format!("- {path}")));
                }
                format!("Apply failed with {} conflicts: {}", many.len(), lines.join("\n"))
            }
        };
        Failure { causes, ..Failure::new(409, "Conflict", message) }
    }
}
