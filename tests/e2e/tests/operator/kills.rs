//! An operator that is killed again and again while its users go on.
//!
//! ```text
//! operator  ──alive 2 to 9 s──╳ ··down 0 to 5 s·· ──alive──╳ ··· ──
//! users     ─── release ─── edit ─── resume ─── delete ───────────
//! ```
//!
//! Kills come at random moments. A rollout without a kill requests one when it is well under way, and so
//! does a test that needs a moment without an operator.

use std::{convert::Infallible, time::Duration};

use anyhow::{Result, ensure};
use kube_sandbox::random::Random;
use serde_json::Value;
use tidegate_e2e::stage::Stage;
use tokio::{
    sync::{Notify, watch},
    time::sleep,
};

use crate::passes;

/// The life of an operator: from, and up to how much longer.
const LIFE_MIN_MS: u64 = 2000;
const LIFE_SPAN_MS: u64 = 7000;
/// The longest time without an operator.
const PAUSE_MAX_MS: u64 = 5000;
/// The longest life after a requested kill. Less than the ten seconds that the shortest rollout has left at
/// the request.
const RESPITE_MAX_MS: u64 = 3000;

/// A stage on which the operator is killed.
pub(crate) struct Trial<'s> {
    pub(crate) stage: &'s Stage,
    random: Random,
    kills: watch::Sender<u32>,
    wanted: Notify,
}

/// A rollout that has begun.
#[must_use]
pub(crate) struct Begun {
    name: &'static str,
    /// The number of kills before it.
    before: u32,
}

// === impl Trial ===

impl<'s> Trial<'s> {
    pub(crate) fn new(stage: &'s Stage, seed: u64) -> Self {
        Self {
            stage,
            random: Random::seeded(seed),
            kills: watch::Sender::new(0),
            wanted: Notify::new(),
        }
    }

    /// Runs operators one after the other, none for long. Ends only if one does not start.
    pub(crate) async fn kill_again_and_again(&self) -> Result<Infallible> {
        let installation = self.stage.installation.without_election();
        loop {
            let name = format!("operator-{}", self.kills());
            let operator = installation.start(&self.stage.plane, &name).await?;
            tokio::select! {
                () = sleep(self.up_to(LIFE_SPAN_MS) + Duration::from_millis(LIFE_MIN_MS)) => {}
                () = self.wanted.notified() => sleep(self.up_to(RESPITE_MAX_MS)).await,
            }
            operator.kill();
            self.kills.send_modify(|kills| *kills += 1);
            sleep(self.up_to(PAUSE_MAX_MS)).await;
        }
    }

    fn up_to(&self, milliseconds: u64) -> Duration {
        Duration::from_millis(self.random.below(milliseconds))
    }

    /// The number of kills.
    pub(crate) fn kills(&self) -> u32 {
        *self.kills.borrow()
    }

    /// Kills the operator, and waits until it is gone.
    pub(crate) async fn killed(&self) -> Result<()> {
        let mut kills = self.kills.subscribe();
        let before = self.kills();
        self.wanted.notify_one();
        kills.wait_for(|kills| *kills > before).await?;
        Ok(())
    }

    /// Begins a rollout by a change, and makes sure that the operator is killed before its end.
    pub(crate) async fn begin(
        &self,
        name: &'static str,
        change: impl Future<Output = Result<()>>,
    ) -> Result<Begun> {
        let before = self.kills();
        change.await?;
        let is_under_way = |status: &Value| {
            let phases = ["Waiting", "Progressing", "WaitingPromotion", "Promoting", "Finalising"];
            phases.iter().any(|phase| status["phase"] == *phase)
        };
        passes(self.stage, name, "a rollout begins", is_under_way).await?;
        if self.kills() == before {
            self.wanted.notify_one();
        }
        Ok(Begun { name, before })
    }

    /// The same with another image.
    pub(crate) async fn release(&self, name: &'static str, image: &str) -> Result<Begun> {
        self.begin(name, self.stage.release(name, image)).await
    }

    /// The number of kills during a rollout that is over.
    pub(crate) fn during(&self, Begun { name, before }: Begun) -> Result<u32> {
        let kills = self.kills() - before;
        ensure!(kills > 0, "{name}: the operator lived from its beginning to its end");
        Ok(kills)
    }
}
