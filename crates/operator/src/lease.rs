//! Leader election on a Lease, so that of several operators one acts.
//!
//! The Lease is read, and written back with its resource version: of two candidates that claim it at once, one
//! gets a conflict. The silence of a holder is measured on our monotonic clock from the moment its last write was
//! *seen*; its own timestamps do not matter.
//!
//! ```text
//! holder     renews every 5 s; stops acting 15 s after the start of its last successful renewal
//! others     look every 5 s; take over 60 s after they last saw the Lease change
//! ```
//!
//! The 45 s between the two keep two operators from acting at once. [`Leadership::is_leader_now`]
//! must be asked before each write: it turns false by the clock, even if the task that renews hangs.
//! Name, times and format are Flagger's, so both operators exclude each other.

use std::{
    fmt,
    future::Future,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use jiff::Timestamp;
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta},
};
use kube::api::{Api, PostParams};
use tokio::sync::watch;
use tracing::{debug, info, warn};

use crate::clock::Clock;

/// The Lease that Flagger uses too.
pub const LEASE_NAME: &str = "flagger-leader-election";

/// The Lease, the candidate and the intervals of an election.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseSettings {
    pub namespace: String,
    pub name: String,
    /// Unique to this process: a restarted one waits like any other.
    pub identity: String,
    /// How long others wait after our last renewal.
    pub lease_duration: Duration,
    /// How long we act after our last renewal. Less than `lease_duration`.
    pub renew_deadline: Duration,
    /// Between two attempts, and for each of them.
    pub retry_period: Duration,
}

/// One candidate. [`Election::run`] does all there is to do.
pub struct Election {
    api: Api<Lease>,
    settings: LeaseSettings,
    clock: Arc<dyn Clock>,
    leadership: Leadership,
    seen: Option<Seen>,
}

/// Whether we lead. Cheap to clone; all clones are one.
#[derive(Clone)]
pub struct Leadership(Arc<Inner>);

struct Inner {
    clock: Arc<dyn Clock>,
    /// In nanoseconds of monotonic time; 0 while we do not lead.
    valid_until_ns: AtomicU64,
    changes: watch::Sender<bool>,
}

/// How a candidacy ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// The candidate was stopped. The Lease was released if it was ours.
    Released,
    /// We led and could not renew in time, or another candidate took the Lease. The process must exit.
    Lost,
}

/// The Lease as last seen to change, and when that was in monotonic time.
struct Seen {
    lease: Lease,
    at: Duration,
}

/// `<hostname>_<uuid>`, as client-go's users make it.
pub fn identity() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let host = host.or_else(|| std::env::var("HOSTNAME").ok()).unwrap_or_default();
    let host = if host.trim().is_empty() { "tidegate" } else { host.trim() };
    format!("{host}_{}", random_uuid())
}

/// Random, version 4.
fn random_uuid() -> String {
    let mut bytes = [0_u8; 16];
    let random = rustls::crypto::ring::default_provider().secure_random;
    if random.fill(&mut bytes).is_err() {
        warn!("No randomness for an identity, falling back to the process id");
        bytes[..4].copy_from_slice(&std::process::id().to_be_bytes());
    }
    let mut bits = u128::from_be_bytes(bytes);
    bits = bits & !(0xf << 76) | 4 << 76;
    bits = bits & !(0b11 << 62) | 0b10 << 62;
    let hex = format!("{bits:032x}");
    let part = |from, to| hex.get(from..to).unwrap_or_default();
    format!("{}-{}-{}-{}-{}", part(0, 8), part(8, 12), part(12, 16), part(16, 20), part(20, 32))
}

// === impl LeaseSettings ===

impl LeaseSettings {
    /// Flagger's Lease and times: 60 s, 15 s, 5 s.
    pub fn new(namespace: impl Into<String>, identity: impl Into<String>) -> Self {
        Self {
            namespace: namespace.into(),
            name: LEASE_NAME.to_owned(),
            identity: identity.into(),
            lease_duration: Duration::from_mins(1),
            renew_deadline: Duration::from_secs(15),
            retry_period: Duration::from_secs(5),
        }
    }
}

// === impl Election ===

impl Election {
    pub fn new(client: kube::Client, settings: LeaseSettings, clock: Arc<dyn Clock>) -> Self {
        let api = Api::namespaced(client, &settings.namespace);
        let leadership = Leadership::new(Arc::clone(&clock));
        Self { api, settings, clock, leadership, seen: None }
    }

    /// A handle for writers.
    pub fn leadership(&self) -> Leadership {
        self.leadership.clone()
    }

    /// Waits for the Lease, holds it, and releases it when `stop` resolves.
    ///
    /// `stop` must resolve only once no write is in progress any more: the next leader may begin the moment
    /// the Lease is released.
    pub async fn run(mut self, stop: impl Future<Output = ()>) -> Ended {
        let mut stop = pin!(stop);
        let ended = tokio::select! {
            biased;
            () = &mut stop => Ended::Released,
            ended = self.stand() => ended,
        };
        let was_leader = self.leadership.is_leader_now();
        self.leadership.end();
        if ended == Ended::Released && was_leader {
            self.release().await;
        }
        ended
    }

    /// Tries until we lead, then renews until we no longer do.
    async fn stand(&mut self) -> Ended {
        while !self.attempt(self.settings.retry_period).await {
            self.clock.sleep(self.settings.retry_period).await;
        }
        info!(identity = %self.settings.identity, "Leading");
        let mut last_attempt = self.clock.monotonic();
        loop {
            // From attempt to attempt: one that was slow to fail is followed by the next at once.
            let spent = self.clock.monotonic().saturating_sub(last_attempt);
            let pause = self.settings.retry_period.saturating_sub(spent);
            self.clock.sleep(pause.min(self.leadership.time_left())).await;
            last_attempt = self.clock.monotonic();
            let left = self.leadership.time_left();
            if left.is_zero() {
                warn!("Leadership lost: the lease could not be renewed in time");
                return Ended::Lost;
            }
            let renewed = self.attempt(self.settings.retry_period.min(left)).await;
            if !renewed && self.is_taken() {
                warn!(holder = self.holder(), "Leadership lost: someone else holds the lease");
                return Ended::Lost;
            }
        }
    }

    /// One attempt to take or renew the Lease. Leadership counts from before the request was made,
    /// since that is the earliest moment others can have begun to wait from.
    async fn attempt(&mut self, time: Duration) -> bool {
        let start = self.clock.monotonic();
        let too_late = self.clock.sleep(time);
        let outcome = tokio::select! {
            biased;
            outcome = self.take_or_renew() => outcome,
            () = too_late => {
                warn!("The lease did not answer in time");
                return false;
            }
        };
        match &outcome {
            Ok(true) => self.leadership.extend(start + self.settings.renew_deadline),
            Ok(false) => debug!(holder = self.holder(), "The lease is held"),
            Err(error) => warn!(%error, "The lease could not be read or written"),
        }
        matches!(outcome, Ok(true))
    }

    async fn take_or_renew(&mut self) -> kube::Result<bool> {
        let params = PostParams::default();
        // While it is ours and unchanged, our copy is as good as a fresh one.
        if self.holder() == self.settings.identity
            && let Some(seen) = &self.seen
        {
            let lease = self.claim(seen.lease.clone());
            match self.api.replace(&self.settings.name, &params, &lease).await {
                Ok(lease) => return Ok(self.see(lease, true)),
                Err(kube::Error::Api(status)) if status.is_conflict() || status.is_not_found() => {}
                Err(error) => return Err(error),
            }
        }
        let written = match self.api.get_opt(&self.settings.name).await? {
            None => self.api.create(&params, &self.claim(self.blank())).await,
            Some(lease) => {
                self.see(lease, false);
                match &self.seen {
                    Some(seen) if self.may_take(seen) => {
                        let lease = self.claim(seen.lease.clone());
                        self.api.replace(&self.settings.name, &params, &lease).await
                    }
                    _ => return Ok(false),
                }
            }
        };
        match written {
            Ok(lease) => Ok(self.see(lease, true)),
            // Another candidate was faster; the next attempt sees it.
            Err(kube::Error::Api(status)) if status.is_conflict() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Notes the present state of the Lease. A Lease that did not change is not seen anew.
    fn see(&mut self, lease: Lease, is_ours: bool) -> bool {
        let is_same =
            |seen: &Seen| seen.lease.metadata.resource_version == lease.metadata.resource_version;
        if !self.seen.as_ref().is_some_and(is_same) {
            self.seen = Some(Seen { lease, at: self.clock.monotonic() });
        }
        is_ours
    }

    /// True if the Lease has no holder, is ours, or its holder has been silent for the duration it claims.
    fn may_take(&self, seen: &Seen) -> bool {
        let holder = holder_of(&seen.lease);
        if holder.is_empty() || holder == self.settings.identity {
            return true;
        }
        let seconds = seen.lease.spec.as_ref().and_then(|spec| spec.lease_duration_seconds);
        let seconds = seconds.and_then(|seconds| u64::try_from(seconds).ok());
        let duration = seconds.map_or(self.settings.lease_duration, Duration::from_secs);
        self.clock.monotonic() >= seen.at.saturating_add(duration)
    }

    fn holder(&self) -> &str {
        self.seen.as_ref().map_or("", |seen| holder_of(&seen.lease))
    }

    fn is_taken(&self) -> bool {
        self.seen.is_some() && self.holder() != self.settings.identity
    }

    fn blank(&self) -> Lease {
        let metadata = ObjectMeta {
            name: Some(self.settings.name.clone()),
            namespace: Some(self.settings.namespace.clone()),
            ..ObjectMeta::default()
        };
        Lease { metadata, spec: None }
    }

    /// The Lease with us as its holder as of now. Fields of others stay.
    fn claim(&self, mut lease: Lease) -> Lease {
        let now = MicroTime(micros(self.clock.now()));
        let is_new = lease.metadata.resource_version.is_none();
        let spec = lease.spec.get_or_insert_with(LeaseSpec::default);
        let is_ours = spec.holder_identity.as_ref() == Some(&self.settings.identity);
        if !is_ours {
            let transitions = spec.lease_transitions.unwrap_or(0);
            spec.lease_transitions = Some(if is_new { 0 } else { transitions.saturating_add(1) });
            spec.acquire_time = Some(now.clone());
        }
        spec.holder_identity = Some(self.settings.identity.clone());
        spec.lease_duration_seconds = i32::try_from(self.settings.lease_duration.as_secs()).ok();
        spec.renew_time = Some(now);
        lease
    }

    /// Releases the Lease, so that the next leader need not wait. A Lease that cannot be released in time
    /// expires.
    async fn release(&self) {
        let too_late = self.clock.sleep(self.settings.retry_period);
        let given_back = async {
            // Read again: the last renewal may have succeeded without an answer.
            let Some(mut lease) = self.api.get_opt(&self.settings.name).await? else {
                return Ok(());
            };
            if holder_of(&lease) != self.settings.identity {
                return Ok(());
            }
            let now = MicroTime(micros(self.clock.now()));
            let spec = lease.spec.get_or_insert_with(LeaseSpec::default);
            spec.holder_identity = Some(String::new());
            // As client-go leaves it: some readers look at times and not at holders.
            spec.lease_duration_seconds = Some(1);
            spec.renew_time = Some(now.clone());
            spec.acquire_time = Some(now);
            self.api.replace(&self.settings.name, &PostParams::default(), &lease).await.map(drop)
        };
        let outcome: Option<kube::Result<()>> = tokio::select! {
            biased;
            outcome = given_back => Some(outcome),
            () = too_late => None,
        };
        match outcome {
            Some(Ok(())) => info!("Lease given back"),
            Some(Err(error)) => warn!(%error, "The lease could not be released"),
            None => warn!("The lease could not be released in time"),
        }
    }
}

fn holder_of(lease: &Lease) -> &str {
    lease.spec.as_ref().and_then(|spec| spec.holder_identity.as_deref()).unwrap_or_default()
}

/// Cut to the resolution of a Lease, so that it is read back as it was written.
fn micros(at: Timestamp) -> Timestamp {
    Timestamp::from_microsecond(at.as_microsecond()).unwrap_or(at)
}

// === impl Leadership ===

impl Leadership {
    fn new(clock: Arc<dyn Clock>) -> Self {
        let (changes, _) = watch::channel(false);
        Self(Arc::new(Inner { clock, valid_until_ns: AtomicU64::new(0), changes }))
    }

    /// For an operator that runs alone: leads for ever.
    pub fn without_election(clock: Arc<dyn Clock>) -> Self {
        let leadership = Self::new(clock);
        leadership.extend(Duration::MAX);
        leadership
    }

    /// Whether we may write at this moment. To be checked before each write, and not to be kept.
    pub fn is_leader_now(&self) -> bool {
        !self.time_left().is_zero()
    }

    /// Follows the outcome of the election: true once we lead, false once that is over.
    ///
    /// It lags behind [`Leadership::is_leader_now`] when the task that renews is stuck.
    pub fn changes(&self) -> watch::Receiver<bool> {
        self.0.changes.subscribe()
    }

    fn time_left(&self) -> Duration {
        let until = Duration::from_nanos(self.0.valid_until_ns.load(Ordering::Acquire));
        until.saturating_sub(self.0.clock.monotonic())
    }

    fn extend(&self, until: Duration) {
        let nanos = u64::try_from(until.as_nanos()).unwrap_or(u64::MAX);
        self.0.valid_until_ns.store(nanos, Ordering::Release);
        self.0.changes.send_if_modified(|leads| !std::mem::replace(leads, true));
    }

    fn end(&self) {
        self.0.valid_until_ns.store(0, Ordering::Release);
        self.0.changes.send_if_modified(|leads| std::mem::replace(leads, false));
    }
}

impl fmt::Debug for Leadership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Leadership").field(&self.is_leader_now()).finish()
    }
}

#[cfg(test)]
mod tests;
