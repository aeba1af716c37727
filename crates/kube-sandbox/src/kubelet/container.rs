//! The life cycle of one container: waiting, running, terminated, restarted.
//!
//! [`ContainerRun::advance`] carries out every due step and returns the time of the next one. Steps
//! are dated when they were due, not when they were noticed, so a coarse clock gives the same
//! history as a fine one.

use std::time::Duration;

use jiff::Timestamp;

use super::{Behaviour, Notice, image};
use crate::clock::later;

/// First back-off of a container that keeps exiting; each further one is twice as long, up to
/// [`BACK_OFF_MAX`].
const BACK_OFF: Duration = Duration::from_secs(10);
const BACK_OFF_MAX: Duration = Duration::from_mins(5);
/// A container that ran this long starts again with the first back-off.
const BACK_OFF_RESET: Duration = Duration::from_mins(10);
/// How long a failed pull shows as `ErrImagePull` before it shows as `ImagePullBackOff`.
const PULL_ERROR_SHOWN: Duration = Duration::from_secs(1);

/// State of a container.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ContainerRun {
    pub(super) name: String,
    /// The image that it runs or is about to run.
    pub(super) image: String,
    pub(super) state: State,
    /// How its previous instance ended.
    pub(super) last: Option<Ended>,
    pub(super) restarts: i64,
    /// Number of exits in a row, which determines the back-off.
    crashes: u32,
    failed_pulls: u32,
    /// The image of the container that ran last, reported until the next one runs.
    pub(super) shown_image: String,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum State {
    /// Waits until the pod unblocks it.
    Blocked,
    Creating {
        until: Timestamp,
    },
    PullFailed {
        until: Timestamp,
    },
    PullBackOff {
        until: Timestamp,
    },
    CrashBackOff {
        until: Timestamp,
        delay: Duration,
    },
    Running {
        since: Timestamp,
    },
    Ended(Ended),
}

/// Result of a terminated container.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Ended {
    pub(super) started: Timestamp,
    pub(super) finished: Timestamp,
    pub(super) exit_code: i64,
    pub(super) incarnation: i64,
}

/// When an exited container is started again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Restart {
    Always,
    OnFailure,
    Never,
}

/// Facts about pod and node that a container's steps depend on.
pub(super) struct Circumstances<'a> {
    pub(super) behaviour: Behaviour,
    pub(super) restart: Restart,
    /// Whether the image is on the node and need not be pulled.
    pub(super) image_present: bool,
    pub(super) pull_delay: Duration,
    pub(super) start_delay: Duration,
    pub(super) pod: &'a str,
    pub(super) namespace: &'a str,
    pub(super) uid: &'a str,
    /// `spec.containers{web}`
    pub(super) field: &'a str,
    pub(super) now: Timestamp,
}

// === impl Restart ===

impl Restart {
    pub(super) fn parse(policy: &str) -> Self {
        match policy {
            "Never" => Self::Never,
            "OnFailure" => Self::OnFailure,
            _ => Self::Always,
        }
    }

    fn wants(self, exit_code: i64) -> bool {
        match self {
            Self::Always => true,
            Self::OnFailure => exit_code != 0,
            Self::Never => false,
        }
    }
}

// === impl ContainerRun ===

impl ContainerRun {
    pub(super) fn new(name: &str, image: &str) -> Self {
        Self {
            name: name.to_owned(),
            image: image.to_owned(),
            state: State::Blocked,
            last: None,
            restarts: 0,
            crashes: 0,
            failed_pulls: 0,
            shown_image: String::new(),
        }
    }

    pub(super) fn running_since(&self) -> Option<Timestamp> {
        match self.state {
            State::Running { since } => Some(since),
            _ => None,
        }
    }

    pub(super) fn ended(&self) -> Option<&Ended> {
        match &self.state {
            State::Ended(ended) => Some(ended),
            _ => None,
        }
    }

    /// True if it has run at least once.
    pub(super) fn has_started(&self) -> bool {
        self.last.is_some() || matches!(self.state, State::Running { .. } | State::Ended(_))
    }

    /// Allows the container to start, at `at`.
    pub(super) fn unblock(&mut self, at: Timestamp, facts: &Circumstances<'_>) -> Vec<Notice> {
        if self.state != State::Blocked {
            return Vec::new();
        }
        self.create(at, facts)
    }

    /// Replaces the container by one with the new image of the pod's spec.
    pub(super) fn change_image(&mut self, image: &str, facts: &Circumstances<'_>) -> Vec<Notice> {
        let mut notices = Vec::new();
        if let State::Running { since } = self.state {
            let message = format!("Container {} definition changed, will be restarted", self.name);
            notices.push(facts.notice("Normal", "Killing", message));
            self.last = Some(self.end_of(since, facts.now, 0));
            self.restarts += 1;
        } else if let State::Ended(ended) = &self.state {
            self.last = Some(ended.clone());
            self.restarts += 1;
        } else if matches!(self.state, State::CrashBackOff { .. }) {
            self.restarts += 1;
        }
        image.clone_into(&mut self.image);
        (self.crashes, self.failed_pulls) = (0, 0);
        if self.state != State::Blocked {
            notices.extend(self.create(facts.now, facts));
        }
        notices
    }

    /// Carries out due steps; `Some` is the time of the next one.
    pub(super) fn advance(
        &mut self,
        facts: &Circumstances<'_>,
        notices: &mut Vec<Notice>,
    ) -> Option<Timestamp> {
        loop {
            let due = self.due(facts.behaviour)?;
            if due > facts.now {
                return Some(due);
            }
            self.step(due, facts, notices);
        }
    }

    /// Stops the container from outside; no effect unless it runs.
    pub(super) fn stop(&mut self, at: Timestamp) {
        match self.state {
            State::Running { since } => self.state = State::Ended(self.end_of(since, at, 0)),
            State::CrashBackOff { .. } => {
                if let Some(last) = self.last.clone() {
                    self.state = State::Ended(last);
                }
            }
            _ => {}
        }
    }

    fn due(&self, behaviour: Behaviour) -> Option<Timestamp> {
        match self.state {
            State::Blocked | State::Ended(_) => None,
            State::Creating { until }
            | State::PullFailed { until }
            | State::PullBackOff { until }
            | State::CrashBackOff { until, .. } => Some(until),
            State::Running { since } => behaviour.death().map(|(after, _)| later(since, after)),
        }
    }

    fn step(&mut self, at: Timestamp, facts: &Circumstances<'_>, notices: &mut Vec<Notice>) {
        match self.state {
            State::Blocked | State::Ended(_) => {}
            State::Creating { .. } if facts.behaviour == Behaviour::ImagePullError => {
                self.fail_pull(at, facts, notices);
            }
            State::Creating { .. } => {
                if !facts.image_present {
                    notices.push(self.pulled(facts));
                }
                self.start(at, facts, notices);
            }
            State::PullFailed { .. } => {
                let delay = back_off(self.failed_pulls);
                let message = format!("Back-off pulling image {:?}", self.image);
                notices.push(facts.notice("Normal", "BackOff", message));
                notices.push(facts.notice("Warning", "Failed", "Error: ImagePullBackOff".into()));
                self.state = State::PullBackOff { until: later(at, delay) };
            }
            State::PullBackOff { .. } => notices.extend(self.create(at, facts)),
            State::CrashBackOff { .. } => {
                self.restarts += 1;
                notices.push(self.present(facts));
                self.start(at, facts, notices);
            }
            State::Running { since } => self.exit(since, at, facts, notices),
        }
    }

    fn create(&mut self, at: Timestamp, facts: &Circumstances<'_>) -> Vec<Notice> {
        let present = facts.image_present && facts.behaviour != Behaviour::ImagePullError;
        let pull = if present { Duration::ZERO } else { facts.pull_delay };
        self.state = State::Creating { until: later(later(at, pull), facts.start_delay) };
        if present {
            return vec![self.present(facts)];
        }
        vec![facts.notice("Normal", "Pulling", format!("Pulling image {:?}", self.image))]
    }

    fn start(&mut self, at: Timestamp, facts: &Circumstances<'_>, notices: &mut Vec<Notice>) {
        notices.push(facts.notice("Normal", "Created", "Container created".to_owned()));
        notices.push(facts.notice("Normal", "Started", "Container started".to_owned()));
        self.failed_pulls = 0;
        self.shown_image.clone_from(&self.image);
        self.state = State::Running { since: at };
    }

    fn fail_pull(&mut self, at: Timestamp, facts: &Circumstances<'_>, notices: &mut Vec<Notice>) {
        let message = format!("Failed to pull image {:?}: {}", self.image, pull_error(&self.image));
        notices.push(facts.notice("Warning", "Failed", message));
        notices.push(facts.notice("Warning", "Failed", "Error: ErrImagePull".to_owned()));
        self.failed_pulls += 1;
        self.state = State::PullFailed { until: later(at, PULL_ERROR_SHOWN) };
    }

    fn exit(
        &mut self,
        since: Timestamp,
        at: Timestamp,
        facts: &Circumstances<'_>,
        notices: &mut Vec<Notice>,
    ) {
        let exit_code = facts.behaviour.death().map_or(0, |(_, exit_code)| exit_code);
        let ended = self.end_of(since, at, exit_code);
        if !facts.restart.wants(exit_code) {
            self.state = State::Ended(ended);
            return;
        }
        if at.duration_since(since).unsigned_abs() >= BACK_OFF_RESET {
            self.crashes = 0;
        }
        self.crashes += 1;
        self.last = Some(ended);
        // After the first exit the container restarts without back-off.
        let delay = if self.crashes == 1 { Duration::ZERO } else { back_off(self.crashes - 1) };
        if !delay.is_zero() {
            let message =
                format!("Back-off restarting failed container {} {}", self.name, facts.whose());
            notices.push(facts.notice("Warning", "BackOff", message));
        }
        self.state = State::CrashBackOff { until: later(at, delay), delay };
    }

    fn end_of(&self, started: Timestamp, finished: Timestamp, exit_code: i64) -> Ended {
        Ended { started, finished, exit_code, incarnation: self.restarts }
    }

    fn pulled(&self, facts: &Circumstances<'_>) -> Notice {
        let took = format!("{}ms", facts.pull_delay.as_millis());
        // A size of tens of megabytes that depends on the name alone.
        let size = 20_000_000 + 1000 * self.image.bytes().map(u64::from).sum::<u64>();
        let message = format!(
            "Successfully pulled image {:?} in {took} ({took} including waiting). \
             Image size: {size} bytes.",
            self.image
        );
        facts.notice("Normal", "Pulled", message)
    }

    fn present(&self, facts: &Circumstances<'_>) -> Notice {
        let message = format!(
            "Container image {:?} already present on machine and can be accessed by the pod",
            self.image
        );
        facts.notice("Normal", "Pulled", message)
    }
}

/// The error of a failed pull, in the words of a registry without the image.
pub(super) fn pull_error(image: &str) -> String {
    let full = image::full_name(image);
    format!("failed to pull and unpack image {full:?}: failed to resolve image: {full}: not found")
}

/// Back-off before retry number `attempt` after the first failure.
pub(super) fn back_off(attempt: u32) -> Duration {
    let factor = 2_u32.saturating_pow(attempt.saturating_sub(1));
    BACK_OFF.saturating_mul(factor).min(BACK_OFF_MAX)
}

// === impl Circumstances ===

impl Circumstances<'_> {
    fn notice(&self, severity: &'static str, reason: &'static str, message: String) -> Notice {
        Notice { severity, reason, message, field: self.field.to_owned() }
    }

    /// The pod's name in messages of the container runtime.
    fn whose(&self) -> String {
        format!("in pod {}_{}({})", self.pod, self.namespace, self.uid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn restarts_back_off_from_ten_seconds_to_five_minutes() {
        let waits: Vec<_> = (1..8).map(|attempt| back_off(attempt).as_secs()).collect();
        assert_eq!(waits, [10, 20, 40, 80, 160, 300, 300]);
    }

    #[test]
    fn a_crashing_container_is_restarted_at_once_and_then_ever_later() {
        let facts = |now| Circumstances {
            behaviour: Behaviour::CrashLoop { after: Duration::from_secs(1) },
            restart: Restart::Always,
            image_present: false,
            pull_delay: Duration::ZERO,
            start_delay: Duration::ZERO,
            pod: "web-1",
            namespace: "default",
            uid: "u",
            field: "spec.containers{web}",
            now,
        };
        let start = Timestamp::UNIX_EPOCH;
        let mut run = ContainerRun::new("web", "nginx:1");
        run.unblock(start, &facts(start));
        let mut notices = Vec::new();
        let mut moments = Vec::new();
        let mut now = start;
        for _ in 0..5 {
            let Some(next) = run.advance(&facts(now), &mut notices) else { break };
            now = next;
            moments.push(now.as_second());
        }
        assert_eq!(moments, [1, 2, 12, 13, 33], "die, die again, wait 10 s, die, wait 20 s");
        let back_offs = notices.iter().filter(|notice| notice.reason == "BackOff").count();
        assert_eq!((run.restarts, back_offs), (2, 2));
    }
}
