//! Flagger and Tidegate play the same scenarios, and their outcomes are compared.
//!
//! ```text
//! Scenario ──┬── namespace, hooks, metrics, Flagger  ──► Record ──┐
//!            └── namespace, hooks, metrics, Tidegate ──► Record ──┴── compare ──► differences
//!                                                                                 │ ACCEPTED, by the rows of
//!                                                                                 ▼ the page of differences
//! ```
//!
//! Each operator watches one namespace, so both play at the same time, and many scenarios side by side. A
//! [`Record`](record::Record) has the histories of fields, calls and queries, without times.

mod accepted;
mod compare;
mod play;
mod record;
mod scenario;
mod scenarios;
mod witness;

use std::path::{Path, PathBuf};

use anyhow::Result;
use kube::Client;
use tidegate_tests::providers::definitions;

pub use self::{
    accepted::ACCEPTED,
    compare::{Difference, Row},
    scenario::Scenario,
    scenarios::all,
};
use self::{record::Record, witness::Witness};
use crate::{
    ControlPlane, Installation, Node, NodeSettings, Operator, Options, apply_folder, objects,
    stage::cluster,
};

/// A node takes 110 pods; a namespace has four at a time.
const NODES: u8 = 4;

/// The operator of a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Flagger,
    Tidegate,
}

/// A cluster for many scenarios. Dropping it ends it.
pub struct Ground {
    client: Client,
    witness: Witness,
    flagger: Installation,
    tidegate: Installation,
    kubeconfig: PathBuf,
    _node: Node,
    _plane: ControlPlane,
}

// === impl Ground ===

impl Ground {
    /// A control plane with nodes and the kinds of all providers.
    pub async fn open() -> Result<Self> {
        let settings =
            NodeSettings { applications: false, count: NODES, ..NodeSettings::default() };
        let (plane, node) = cluster(&Options::default(), settings).await?;
        let (client, parts) = (plane.client(), plane.parts());
        for name in ["contour", "traefik", "knative", "keda"] {
            apply_folder(&client, &parts.folder("providers")?.join(name)).await?;
        }
        let ours = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/crds");
        apply_folder(&client, &ours).await?;
        let known = objects::discovered(&client).await?.unwrap_or_default();
        let mut others = definitions();
        let name = |it: &serde_json::Value| it["metadata"]["name"].as_str().map(str::to_owned);
        others.retain(|it| !name(it).is_some_and(|name| known.contains(&name)));
        objects::define(&client, &others).await?;
        let program = parts.program("flagger", "flagger")?;
        let flags = ["--control-loop-interval=1s", "--log-level=info"];
        let flagger = Installation::of_program(program, plane.folder(), &flags);
        let flags = ["operator", "--startup-spread=0s", "--allow-loopback-hooks"];
        let tidegate = Installation::of_program(crate::program()?, plane.folder(), &flags);
        let witness = Witness::start(&client).await?;
        let kubeconfig = plane.kubeconfig("admin")?;
        Ok(Self { client, witness, flagger, tidegate, kubeconfig, _node: node, _plane: plane })
    }

    async fn start(&self, side: Side, name: &str, flags: &[String]) -> Result<Operator> {
        let installation = match side {
            Side::Flagger => &self.flagger,
            Side::Tidegate => &self.tidegate,
        };
        installation.clone().with(flags).start_with(&self.kubeconfig, name).await
    }

    /// Plays a scenario with both, each in a namespace of its own, and returns all differences.
    pub async fn play(&self, scenario: &Scenario, id: &str) -> Vec<Difference> {
        // Of one length, so that names are cut at the same place, and without signs that queries replace.
        let (theirs, ours) = (format!("difference{id}f"), format!("difference{id}t"));
        let (flagger, tidegate) = tokio::join!(
            play::play(self, scenario, Side::Flagger, &theirs),
            play::play(self, scenario, Side::Tidegate, &ours),
        );
        // A manifest that is refused to one of them is a difference.
        let record = |played: Result<_>| played.unwrap_or_else(|error| Record::failed(&error));
        compare::compare(scenario.name, &record(flagger), &record(tidegate))
    }
}
