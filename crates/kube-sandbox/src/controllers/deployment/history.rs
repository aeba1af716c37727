//! The ReplicaSet of the current template: finds, creates and numbers it.
//!
//! A rollback to an earlier template finds that template's ReplicaSet and gives it the next
//! revision number; this is how `kubectl rollout undo` works.

use serde_json::{Value, json};

use super::{
    DEPLOYMENT, DESIRED_REPLICAS, MAX_REPLICAS, REVISION, REVISION_HISTORY, Rollout, TEMPLATE_HASH,
    status::{Progress, has_deadline},
};
use crate::{
    cluster::{DEPLOYMENTS, REPLICA_SETS},
    controllers::{
        events::warning,
        hash::{canonical, name_hash},
        object::{
            annotation, condition, controller_of, count, int, name, namespace, owner_reference,
            set_at, strings, uid, unset,
        },
        pods::is_namespace_terminating,
    },
    failure::{Failure, Outcome},
};

/// The longest `revision-history`, about a hundred numbers.
const HISTORY_LENGTH_MAX: usize = 2000;

/// Annotations of a Deployment that are not copied to its `ReplicaSets`.
const NOT_COPIED: [&str; 6] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    REVISION,
    REVISION_HISTORY,
    DESIRED_REPLICAS,
    MAX_REPLICAS,
    "deprecated.deployment.rollback.to",
];

/// True if two templates are equal apart from the `pod-template-hash` label.
pub(super) fn same_template(one: &Value, other: &Value) -> bool {
    let plain = |template: &Value| {
        let mut template = template.clone();
        unset(&mut template, "/metadata/labels", TEMPLATE_HASH);
        canonical(&template)
    };
    plain(one) == plain(other)
}

pub(super) fn revision(set: &Value) -> i64 {
    annotation(set, REVISION).and_then(|number| number.parse().ok()).unwrap_or_default()
}

impl Rollout<'_> {
    /// Updates the annotations of the new set, if it exists, and of the Deployment.
    pub(super) fn find_new(&mut self) -> Outcome<()> {
        let Some(mut new) = self.new.clone() else { return Ok(()) };
        let min_ready_s = count(&self.deployment, "/spec/minReadySeconds");
        let mut changed = self.annotate(&mut new);
        if count(&new, "/spec/minReadySeconds") != min_ready_s {
            set_at(&mut new, &["spec", "minReadySeconds"], min_ready_s);
            changed = true;
        }
        if changed {
            new = self.cluster.update(REPLICA_SETS, "", new)?;
        }
        let number = revision(&new);
        let found = format!("Found new replica set {:?}", name(&new));
        self.new = Some(new);
        self.set_revision(number)?;
        if has_deadline(&self.deployment) && condition(&self.deployment, "Progressing").is_none() {
            self.note_progress(&Progress::new("True", "FoundNewReplicaSet", found))?;
        }
        Ok(())
    }

    /// Like [`Self::find_new`], but creates a missing set.
    pub(super) fn ensure_new(&mut self) -> Outcome<()> {
        self.find_new()?;
        if self.new.is_some() {
            return Ok(());
        }
        let set = self.new_set();
        let (set_name, replicas) = (name(&set).to_owned(), count(&set, "/spec/replicas"));
        let number = revision(&set);
        match self.cluster.create(REPLICA_SETS, namespace(&self.deployment), set) {
            Ok(created) => self.new = Some(created),
            Err(failure) if failure.is_already_exists() => {
                self.resolve_collision(&set_name, failure)?;
            }
            Err(failure) => return Err(self.creation_failed(&set_name, failure)),
        }
        if replicas > 0 {
            let message = format!("Scaled up replica set {set_name} from 0 to {replicas}");
            self.record("ScalingReplicaSet", &message);
        }
        self.set_revision(number)?;
        if has_deadline(&self.deployment) {
            let message = format!("Created new replica set {set_name:?}");
            self.note_progress(&Progress::new("True", "NewReplicaSetCreated", message))?;
        }
        Ok(())
    }

    fn new_set(&self) -> Value {
        let deployment = &self.deployment;
        let mut template = deployment.pointer("/spec/template").cloned().unwrap_or_default();
        let hash = name_hash(&template, int(deployment, "/status/collisionCount"));
        set_at(&mut template, &["metadata", "labels", TEMPLATE_HASH], hash.as_str());
        let mut selector = deployment.pointer("/spec/selector").cloned().unwrap_or_default();
        set_at(&mut selector, &["matchLabels", TEMPLATE_HASH], hash.as_str());
        let room = 253 - 1 - hash.len();
        let prefix: String = name(deployment).chars().take(room).collect();
        let mut set = json!({
            "apiVersion": "apps/v1", "kind": "ReplicaSet",
            "metadata": {
                "name": format!("{prefix}-{hash}"), "namespace": namespace(deployment),
                "labels": template.pointer("/metadata/labels"),
                "ownerReferences": [owner_reference(DEPLOYMENT, deployment)],
            },
            "spec": { "replicas": 0, "selector": selector, "template": template },
        });
        let min_ready_s = count(deployment, "/spec/minReadySeconds");
        if min_ready_s > 0 {
            set_at(&mut set, &["spec", "minReadySeconds"], min_ready_s);
        }
        set_at(&mut set, &["spec", "replicas"], self.new_size(0));
        self.annotate(&mut set);
        self.annotate_sizes(&mut set);
        set
    }

    /// The name is taken: by this Deployment's own set, or by a template with the same hash.
    fn resolve_collision(&mut self, set_name: &str, failure: Failure) -> Outcome<()> {
        let place = namespace(&self.deployment).to_owned();
        let Some(existing) = self.cluster.get(REPLICA_SETS, &place, set_name) else {
            return Err(failure);
        };
        let template = self.deployment.pointer("/spec/template").cloned().unwrap_or_default();
        let own = existing.pointer("/spec/template").cloned().unwrap_or_default();
        let ours = controller_of(&existing).is_some_and(|o| o.uid == uid(&self.deployment));
        if ours && same_template(&own, &template) {
            self.new = Some(existing);
            return Ok(());
        }
        let mut bumped = self.deployment.clone();
        let collisions = count(&bumped, "/status/collisionCount") + 1;
        set_at(&mut bumped, &["status", "collisionCount"], collisions);
        self.cluster.update(DEPLOYMENTS, "status", bumped)?;
        Err(failure)
    }

    fn creation_failed(&mut self, set_name: &str, failure: Failure) -> Failure {
        if is_namespace_terminating(&failure) {
            return failure;
        }
        let message = format!("Failed to create new replica set {set_name:?}: {failure}");
        if has_deadline(&self.deployment) {
            // The original failure is reported; a failure of this write is ignored.
            let progress = Progress::new("False", "ReplicaSetCreateError", message.clone());
            drop(self.note_progress(&progress));
        }
        let what = warning("ReplicaSetCreateError", &message);
        self.recorder.record(self.cluster, DEPLOYMENT, &self.deployment, what);
        failure
    }

    /// Copies the Deployment's annotations to the set and gives it the highest revision.
    fn annotate(&self, set: &mut Value) -> bool {
        let before = set.pointer("/metadata/annotations").cloned();
        for (key, value) in strings(self.deployment.pointer("/metadata/annotations")) {
            if !NOT_COPIED.contains(&key) {
                set_at(set, &["metadata", "annotations", key], value);
            }
        }
        let number = self.old.iter().map(revision).max().unwrap_or_default() + 1;
        let earlier = annotation(set, REVISION).map(str::to_owned);
        if revision(set) < number {
            set_at(set, &["metadata", "annotations", REVISION], number.to_string());
            if let Some(earlier) = earlier {
                let history = lengthen(annotation(set, REVISION_HISTORY), &earlier);
                set_at(set, &["metadata", "annotations", REVISION_HISTORY], history);
            }
        }
        set.pointer("/metadata/annotations") != before.as_ref()
    }

    /// Records the Deployment's size, by which a later scaling is detected.
    pub(super) fn annotate_sizes(&self, set: &mut Value) -> bool {
        let before = set.pointer("/metadata/annotations").cloned();
        let (desired, max) = (self.replicas(), self.replicas() + self.max_surge());
        set_at(set, &["metadata", "annotations", DESIRED_REPLICAS], desired.to_string());
        set_at(set, &["metadata", "annotations", MAX_REPLICAS], max.to_string());
        set.pointer("/metadata/annotations") != before.as_ref()
    }

    fn set_revision(&mut self, number: i64) -> Outcome<()> {
        let number = number.to_string();
        if annotation(&self.deployment, REVISION) == Some(number.as_str()) {
            return Ok(());
        }
        let patch = json!({ "metadata": { "annotations": { REVISION: number } } });
        let (place, deployment) = (namespace(&self.deployment), name(&self.deployment));
        // Written through the status, which accepts annotations and does not increment the
        // generation.
        self.deployment = self.cluster.patch(DEPLOYMENTS, place, deployment, "status", &patch)?;
        Ok(())
    }
}

/// Appends a revision number to the history, dropping the oldest when it grows too long.
fn lengthen(history: Option<&str>, number: &str) -> String {
    let mut numbers: Vec<_> = history.into_iter().flat_map(|h| h.split(',')).collect();
    numbers.retain(|number| !number.is_empty());
    numbers.push(number);
    while numbers.iter().map(|number| number.len() + 1).sum::<usize>() > HISTORY_LENGTH_MAX {
        numbers.remove(0);
    }
    numbers.join(",")
}
