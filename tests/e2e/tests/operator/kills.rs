//! An operator that is killed again and again, while its users go on as if nothing were.
//!
//! ```text
//! operator  ──alive 2 to 9 s──╳ ··down 0 to 5 s·· ──alive──╳ ··· ──
//! users     ─── release ─── edit ─── resume ─── delete ───────────
//! ```
//!
//! Kills come at random moments. A rollout that has seen none when it is well under way asks for one, and so does
//! whoever wants to do something while nobody looks after it.

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

/// How long an operator lives: from, and up to how much longer.
const LIFE_MIN_MS: u64 = 2000;
const LIFE_SPAN_MS: u64 = 7000;
/// How long there is none after it: up to.
const PAUSE_MAX_MS: u64 = 5000;
/// How much longer one lives whose end somebody asked for: up to. Less than the ten seconds that the shortest rollout
/// has before it when it asks.
const RESPITE_MAX_MS: u64 = 3000;

/// A stage on which the operator is killed.
pub(crate) struct Trial<'s> {
    pub(crate) stage: &'s Stage,
    random: Random,
    kills: watch::Sender<u32>,
    wanted: Notify,
}

/// A rollout that was begun.
#[must_use]
pub(crate) struct Begun {
    name: &'static str,
    /// How many kills there were before it.
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

    /// Runs operators, one after the other and none of them for long. Ends only if one does not start.
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

    /// How many there were.
    pub(crate) fn kills(&self) -> u32 {
        *self.kills.borrow()
    }

    /// Has the operator killed, and waits until it is gone.
    pub(crate) async fn killed(&self) -> Result<()> {
        let mut kills = self.kills.subscribe();
        let before = self.kills();
        self.wanted.notify_one();
        kills.wait_for(|kills| *kills > before).await?;
        Ok(())
    }

    /// Begins a rollout by a change of something, and sees to it that the operator does not live to its end.
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

    /// How many kills there were during a rollout that is over now.
    pub(crate) fn during(&self, Begun { name, before }: Begun) -> Result<u32> {
        let kills = self.kills() - before;
        ensure!(kills > 0, "{name}: the operator lived from its beginning to its end");
        Ok(kills)
    }
}
