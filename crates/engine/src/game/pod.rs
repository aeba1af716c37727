//! A pod as it was observed, and facts derived from it alone: readiness, revision, updates in place.

use std::{collections::BTreeMap, time::Duration};

use crate::{Moment, Revision};

/// A pod of a game workload.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a yes or no of its own")]
pub struct Pod {
    /// Its name.
    pub name: String,
    /// Which of all that ever had this name.
    pub uid: String,
    /// Its instance id, or its number as a text.
    pub id: String,
    /// Its number, in a set.
    pub ordinal: Option<usize>,
    /// The revision its label names.
    pub revision: Option<Revision>,
    /// Where it stands.
    pub phase: PodPhase,
    /// It has a node.
    pub is_assigned: bool,
    /// Its Ready condition.
    pub ready: Ready,
    /// Most restarts of one of its containers.
    pub restarts: u32,
    /// When it was made.
    pub created: Option<Moment>,
    /// It is being deleted.
    pub is_terminating: bool,
    /// The cost of its deletion, if it is given.
    pub cost: Option<f64>,
    /// The cost of a deletion on its node, if it is given.
    pub node_cost: Option<f64>,
    /// It is marked as about to be deleted: an annotation that gateways read.
    pub is_marked: bool,
    /// Its readiness gate.
    pub gate: ReadinessGate,
    /// The update in place that was last begun: annotation `inplace-update-state`. Nothing if
    /// `hotpatch-update-state` is about the revision of the label and this is not: others leave it
    /// behind.
    pub update: Option<InPlaceState>,
    /// A change of images that waits for the end of its grace period.
    pub grace: Option<Grace>,
    /// A hook is to be run once its update in place is over.
    pub owes_post_hook: bool,
    /// Its containers, in order.
    pub containers: Vec<Container>,
    /// Its own address.
    pub ip: String,
    /// The address of its node.
    pub host_ip: String,
    /// Its number in the range of indexes, where that is on.
    pub index: Option<i64>,
    /// Whether it may be taken from a lost node by force.
    pub node: NodeState,
    /// Its labels and volumes fit its number.
    pub is_identified: bool,
}

/// Where a pod stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PodPhase {
    /// Not started.
    Pending,
    /// Its node does not report.
    Unknown,
    /// Started.
    Running,
    /// All containers ended well.
    Succeeded,
    /// A container ended badly, or the pod was evicted.
    Failed,
}

/// The Ready condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ready {
    /// Not ready.
    No,
    /// Ready, since then if that is known.
    Since(Option<Moment>),
}

/// The condition `InPlaceUpdateReady`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadinessGate {
    /// The pod does not have this gate.
    Absent,
    /// Not set yet.
    Unset,
    /// An update holds it out of service.
    Closed,
    /// As far as updates go it may serve.
    Open,
}

/// The note that was written when an update in place began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InPlaceState {
    /// The revision it leads to.
    pub revision: Revision,
    /// When it began, and once its grace period is over when the images were changed.
    pub since: Moment,
    /// The image ids of the containers that change, as they were before.
    pub image_ids: BTreeMap<String, String>,
    /// The images those ids are of, as far as that was written down.
    pub images: BTreeMap<String, String>,
    /// How often those containers had been restarted, as far as that was written down.
    pub restarts: BTreeMap<String, u32>,
}

/// A change that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grace {
    /// The revision it leads to.
    pub revision: Revision,
    /// The revision whose template the pod really has. Others do not write it.
    pub from: Option<Revision>,
    /// Labels and annotations to set or remove, as they were written down with the change. They count
    /// where the revision that the change comes from is unknown.
    pub metadata: Metadata,
    /// How long it waits.
    pub period: Duration,
}

/// Labels and annotations to set, or to remove.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metadata {
    /// Labels.
    pub labels: BTreeMap<String, Option<String>>,
    /// Annotations.
    pub annotations: BTreeMap<String, Option<String>>,
}

/// A container of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Container {
    /// Its name.
    pub name: String,
    /// The image it is to run.
    pub image: String,
    /// The id of the image it runs. A container that waits for its image has none, or an empty one,
    /// which is none.
    pub image_id: Option<String>,
    /// When it was last started, by the clock of its node.
    pub started: Option<Moment>,
    /// How often it was restarted.
    pub restarts: u32,
}

/// The state of a pod's node, for those that may be taken from it by force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeState {
    /// The pod is not to be taken by force.
    Kept,
    /// The node is there and well.
    Well,
    /// The node is not ready, or gone.
    Lost,
}

// === impl Pod ===

impl Pod {
    /// It counts: neither ended nor being deleted.
    pub fn is_active(&self) -> bool {
        let is_over = matches!(self.phase, PodPhase::Failed | PodPhase::Succeeded);
        !is_over && !self.is_terminating
    }

    /// It carries this revision.
    pub fn is_of(&self, revision: &Revision) -> bool {
        self.revision.as_ref() == Some(revision)
    }

    /// Running and ready.
    pub fn is_ready(&self) -> bool {
        self.phase == PodPhase::Running && self.ready != Ready::No
    }

    /// Ready for at least this long. With an unknown beginning, only if the wait is zero.
    pub fn is_available(&self, now: Moment, min_ready: Duration) -> bool {
        self.is_ready()
            && match self.ready {
                Ready::No => false,
                Ready::Since(since) => {
                    min_ready.is_zero() || since.is_some_and(|since| now.since(since) >= min_ready)
                }
            }
    }

    /// When it becomes available if nothing happens to it.
    pub fn available_at(&self, min_ready: Duration) -> Option<Moment> {
        match self.ready {
            Ready::Since(Some(since)) if self.is_ready() => Some(since.after(min_ready)),
            Ready::Since(_) | Ready::No => None,
        }
    }

    /// Its last update in place is over, as far as can be seen from its containers.
    ///
    /// An image of another name may be the same image: then a restart since is proof enough. A container that
    /// is reverted before its node took notice is never restarted: its image is right.
    pub fn is_update_complete(&self, images: &BTreeMap<String, String>) -> bool {
        let Some(update) = &self.update else { return true };
        if self.grace.is_some() || !self.is_of(&update.revision) {
            return false;
        }
        update.image_ids.iter().all(|(name, before)| {
            let Some(container) = self.containers.iter().find(|found| found.name == *name) else {
                return false;
            };
            let Some(image_id) = &container.image_id else { return false };
            let is_asked_for = images.get(name).is_none_or(|image| *image == container.image);
            let is_back = update.images.get(name).is_some_and(|image| *image == container.image);
            let is_restarted = update.is_restarted(container);
            image_id != before || (is_asked_for && (is_restarted || is_back))
        })
    }

    /// No update is in progress: it may count as updated and ready.
    pub fn is_settled(&self, images: &BTreeMap<String, String>) -> bool {
        let is_open = matches!(self.gate, ReadinessGate::Absent | ReadinessGate::Open);
        is_open && self.is_update_complete(images)
    }

    /// It serves as far as the budget of an update goes. A pod whose images are being changed does
    /// not, also where no gate holds it out of service and its node has not noticed yet.
    pub fn is_update_ready(
        &self,
        now: Moment,
        min_ready: Duration,
        images: &BTreeMap<String, String>,
    ) -> bool {
        self.is_settled(images) && self.is_active() && self.is_available(now, min_ready)
    }
}

// === impl InPlaceState ===

impl InPlaceState {
    /// The container was started since, by its own count. The clock of its node may be ahead of ours,
    /// and then it would look started since before anything was changed.
    ///
    /// Without that count there are only the clocks. Times of containers have whole
    /// seconds: one that was started in the same second counts, or a quick node would never be done.
    pub fn is_restarted(&self, container: &Container) -> bool {
        let second = self.since.0.div_euclid(1_000) * 1_000;
        container.started.is_some_and(|started| match self.restarts.get(&container.name) {
            Some(before) => container.restarts != *before,
            None => started.0 >= second,
        })
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A pod that runs, is ready and was never updated.
    pub(in crate::game) fn pod(name: &str, revision: &str) -> Pod {
        Pod {
            name: name.to_owned(),
            uid: format!("uid-{name}"),
            id: name.rsplit('-').next().unwrap_or_default().to_owned(),
            ordinal: None,
            revision: Some(Revision::new(revision)),
            phase: PodPhase::Running,
            is_assigned: true,
            ready: Ready::Since(Some(Moment(0))),
            restarts: 0,
            created: Some(Moment(0)),
            is_terminating: false,
            cost: None,
            node_cost: None,
            is_marked: false,
            gate: ReadinessGate::Open,
            update: None,
            grace: None,
            owes_post_hook: false,
            containers: vec![Container {
                name: "main".to_owned(),
                image: format!("image:{revision}"),
                image_id: Some(format!("id:{revision}")),
                started: Some(Moment(0)),
                restarts: 0,
            }],
            ip: "10.0.0.1".to_owned(),
            host_ip: "10.1.0.1".to_owned(),
            index: None,
            node: NodeState::Kept,
            is_identified: true,
        }
    }

    fn updated(image_id: &str, started: i64) -> Pod {
        let mut pod = pod("a", "r2");
        pod.update = Some(InPlaceState {
            revision: Revision::new("r2"),
            since: Moment(1_000),
            image_ids: BTreeMap::from([("main".to_owned(), "id:r1".to_owned())]),
            images: BTreeMap::from([("main".to_owned(), "image:r1".to_owned())]),
            restarts: BTreeMap::new(),
        });
        pod.containers[0].image_id = Some(image_id.to_owned());
        pod.containers[0].started = Some(Moment(started));
        pod
    }

    fn images() -> BTreeMap<String, String> {
        BTreeMap::from([("main".to_owned(), "image:r2".to_owned())])
    }

    #[test]
    fn an_update_in_place_is_over_when_another_image_runs() {
        assert!(updated("id:r2", 0).is_update_complete(&images()));
        assert!(!updated("id:r1", 0).is_update_complete(&images()));
    }

    #[test]
    fn a_container_that_goes_back_before_its_node_noticed_runs_what_it_should() {
        let mut back = updated("id:r1", 0);
        back.revision = Some(Revision::new("r1"));
        back.containers[0].image = "image:r1".to_owned();
        let update = back.update.as_mut().unwrap();
        update.revision = Revision::new("r1");
        let images = BTreeMap::from([("main".to_owned(), "image:r1".to_owned())]);
        assert!(back.is_update_complete(&images));
        back.update.as_mut().unwrap().images.clear();
        assert!(!back.is_update_complete(&images), "nobody wrote down what it ran");
    }

    #[test]
    fn a_container_that_was_started_in_the_same_second_was_started_since() {
        let mut pod = updated("id:r1", 1_000);
        pod.update.as_mut().unwrap().since = Moment(1_700);
        assert!(pod.is_update_complete(&images()));
        pod.update.as_mut().unwrap().since = Moment(2_000);
        assert!(!pod.is_update_complete(&images()));
    }

    #[test]
    fn a_pod_without_a_gate_whose_images_change_does_not_serve() {
        let mut pod = updated("id:r1", 0);
        pod.gate = ReadinessGate::Absent;
        assert!(pod.is_ready(), "its node has not noticed yet");
        assert!(!pod.is_update_ready(Moment(9_000), Duration::ZERO, &images()));
        pod.containers[0].image_id = Some("id:r2".to_owned());
        assert!(pod.is_update_ready(Moment(9_000), Duration::ZERO, &images()));
    }

    #[test]
    fn a_tag_of_the_same_image_is_over_once_the_container_restarted() {
        assert!(updated("id:r1", 1_001).is_update_complete(&images()));
        let mut other = updated("id:r1", 1_001);
        other.containers[0].image = "image:r1".to_owned();
        assert!(!other.is_update_complete(&images()), "it restarted with the old image");
    }

    #[test]
    fn a_node_whose_clock_is_ahead_is_believed_by_its_count_of_restarts() {
        let mut pod = updated("id:r1", 60_000);
        assert!(pod.is_update_complete(&images()), "there is only the clock");
        let update = pod.update.as_mut().unwrap();
        update.restarts.insert("main".to_owned(), 3);
        pod.containers[0].restarts = 3;
        assert!(!pod.is_update_complete(&images()), "it was started a minute from now, and before");
        pod.containers[0].restarts = 4;
        assert!(pod.is_update_complete(&images()));
        pod.containers[0].started = None;
        assert!(!pod.is_update_complete(&images()), "it does not run");
    }

    #[test]
    fn a_change_that_still_waits_is_not_over() {
        let mut pod = updated("id:r2", 2_000);
        pod.grace = Some(Grace {
            revision: Revision::new("r2"),
            from: None,
            metadata: Metadata::default(),
            period: Duration::from_secs(30),
        });
        assert!(!pod.is_update_complete(&images()));
        assert!(!pod.is_settled(&images()));
    }

    #[test]
    fn a_pod_is_available_once_it_was_ready_for_long_enough() {
        let wait = Duration::from_secs(10);
        let mut pod = pod("a", "r1");
        assert!(!pod.is_available(Moment(9_999), wait));
        assert!(pod.is_available(Moment(10_000), wait));
        pod.ready = Ready::Since(None);
        assert!(!pod.is_available(Moment(10_000), wait), "nobody knows since when");
        assert!(pod.is_available(Moment(10_000), Duration::ZERO));
    }
}
