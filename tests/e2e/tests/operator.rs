//! The shipped program on a real control plane: with its own account, killed at random moments, and with a
//! second replica beside one that is stopped.

use std::{collections::BTreeSet, time::Duration};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use tidegate_e2e::{
    Asked, Installation, eventually, inside,
    stage::{HTTP_ROUTE, Stage, canary, metric},
};
use tokio::time::Instant;

use self::operator::{
    kills::Trial,
    lives::{Life, furnish_kuma, furnish_providers, live_with_knative},
    rollouts,
};

/// In a folder of their own, as each file beside this one is a suite.
mod operator {
    pub(crate) mod kills;
    pub(crate) mod lives;
    pub(crate) mod rollouts;
}

const GATEWAY_API: &str = "gatewayapi:v1";
const GOOD: &str = "vector(100)";
const BAD: &str = "vector(50)";
const PATIENCE: Duration = Duration::from_mins(3);
/// Between two attempts of a wait.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

fn judged(mut analysis: Value) -> Value {
    analysis["interval"] = json!("10s");
    // One check may fail for want of an answer in time.
    analysis["threshold"] = json!(2);
    analysis["metrics"] = json!([{
        "name": "success", "templateRef": { "name": "success" }, "interval": "1m",
        "thresholdRange": { "min": 99 },
    }]);
    analysis
}

fn by_weight() -> Value {
    judged(json!({ "stepWeight": 40, "maxWeight": 80 }))
}

/// `web` at 1.0.0 with a canary, set up.
async fn initialized(stage: &Stage, name: &str, canary: Value, query: &str) -> Result<()> {
    stage.furnish(name, "shop:1.0.0").await?;
    stage.apply(name, metric(stage, query)).await?;
    stage.apply(name, canary).await?;
    stage.reach(name, "Initialized").await?;
    Ok(())
}

/// Waits for an intermediate state of a rollout; after the promotion it cannot be seen any more.
async fn passes(
    stage: &Stage,
    name: &str,
    what: &str,
    is_so: impl Fn(&Value) -> bool,
) -> Result<Value> {
    let wanted = stage.revision(name).await?;
    let is_over =
        |status: &Value| status["phase"] == "Succeeded" && status["lastPromotedSpec"] == wanted;
    let what = format!("{name}: {what}");
    let status = stage.until(name, &what, |status| is_so(status) || is_over(status)).await?;
    ensure!(is_so(&status), "{what}: it was promoted instead: {:#}", status["lastDecision"]);
    Ok(status)
}

async fn gets_a_share(stage: &Stage, name: &str) -> Result<()> {
    let has_share = |status: &Value| status["canaryWeight"].as_i64() > Some(0);
    passes(stage, name, "it gets a share", has_share).await?;
    Ok(())
}

/// The expected end of a rollout.
#[derive(Debug, Clone, Copy)]
struct End {
    phase: &'static str,
    /// The image of the primary.
    image: &'static str,
    /// The canary's weight in the route, where there is a route.
    share: Option<i64>,
}

// === impl End ===

impl End {
    const PROMOTED: Self = Self { phase: "Succeeded", image: "shop:2.0.0", share: Some(0) };
    const TAKEN_BACK: Self = Self { phase: "Failed", image: "shop:1.0.0", share: Some(0) };

    /// Waits for the end, and checks the objects of the rollout.
    async fn is_of(self, stage: &Stage, name: &str) -> Result<()> {
        stage.reach(name, self.phase).await?;
        settles(&format!("{name} is {}", self.phase), async || {
            let (image, replicas) = stage.runs(name, "web-primary").await?;
            let target = stage.runs(name, "web").await?.1;
            ensure!(image == self.image, "the primary runs {image}");
            ensure!(
                replicas > 0 && target == 0,
                "{replicas} of the primary, {target} of the target"
            );
            if let Some(share) = self.share {
                let route = stage.get(HTTP_ROUTE, name, "web").await?.unwrap_or_default();
                ensure!(weight_of(&route, "web-canary") == share, "{:#}", route["spec"]);
            }
            let phase = stage.status(name).await?["phase"].take();
            ensure!(phase == self.phase, "its phase is {phase}");
            Ok(())
        })
        .await
    }
}

/// Repeats until all is as expected. At this point all programs only have to finish: an error after all
/// this time stays, and is reported in other words than those of `eventually`.
async fn settles(what: &str, mut look: impl AsyncFnMut() -> Result<()>) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match look().await {
            Ok(()) => return Ok(()),
            Err(error) if Instant::now() > deadline => {
                return Err(error.context(format!("{what}, and something is wrong for good")));
            }
            Err(_) => tokio::time::sleep(LOOK_AGAIN).await,
        }
    }
}

/// The largest weight that a route gives to a Service.
fn weight_of(route: &Value, service: &str) -> i64 {
    let rules = route["spec"]["rules"].as_array().into_iter().flatten();
    let backends = rules.flat_map(|rule| rule["backendRefs"].as_array().into_iter().flatten());
    let of_it = backends.filter(|backend| backend["name"] == service);
    of_it.filter_map(|backend| backend["weight"].as_i64()).max().unwrap_or(0)
}

#[test]
fn rollouts_end_as_they_should_whenever_the_operator_is_killed() {
    inside("rollouts_end_as_they_should_whenever_the_operator_is_killed", async || {
        let stage = Stage::start().await?;
        let seed = std::env::var("E2E_SEED").ok().and_then(|it| it.parse().ok()).unwrap_or(7);
        let trial = Trial::new(&stage, seed);
        let outcome = tokio::select! {
            outcome = rollouts::all(&trial) => outcome,
            outcome = trial.kill_again_and_again() => match outcome {
                Ok(never) => match never {},
                Err(error) => Err(error),
            },
        };
        let kills = trial.kills();
        let during = outcome.with_context(|| format!("E2E_SEED={seed}, killed {kills} times"))?;
        let fewest = during.iter().min().context("nothing was rolled out")?;
        println!(
            "{} rollouts, {kills} kills, seed {seed}, each saw {fewest} or more",
            during.len()
        );
        ensure!(kills >= 5, "killed {kills} times only");
        stage.nothing_was_denied()
    });
}

#[test]
fn another_replica_goes_on_when_the_leader_stands_still() {
    inside("another_replica_goes_on_when_the_leader_stands_still", async || {
        let stage = Stage::start().await?;
        let one = stage.installation.start(&stage.plane, "one").await?;
        let holder = leader(&stage, "").await?;
        let two = stage.installation.start(&stage.plane, "two").await?;
        let name = "handed-over";
        initialized(&stage, name, canary(GATEWAY_API, "over.test", &by_weight()), GOOD).await?;
        stage.release(name, "shop:2.0.0").await?;
        gets_a_share(&stage, name).await?;
        let before = logins(&stage)?;
        ensure!(before.len() == 1, "only the leader writes: {before:?}");
        one.process().signal("STOP")?;
        let next = leader(&stage, &holder).await?;
        End::PROMOTED.is_of(&stage, name).await?;
        // It wakes up as the leader in its own view, and must check that before it writes.
        let mark = stage.plane.asked()?.len();
        one.process().signal("CONT")?;
        println!("1 times frozen and woken");
        stage.release(name, "shop:3.0.0").await?;
        gets_a_share(&stage, name).await?;
        End { image: "shop:3.0.0", ..End::PROMOTED }.is_of(&stage, name).await?;
        let asked = stage.plane.asked()?;
        let since = asked.get(mark..).unwrap_or_default();
        let late = since.iter().filter(|it| before.contains(&it.login) && is_of_rollouts(it));
        let late: Vec<_> = late.collect();
        ensure!(late.is_empty(), "the former leader wrote: {late:?}");
        ensure!(leader(&stage, "").await? == next, "and did not take the lease back");
        drop((one, two));
        stage.nothing_was_denied()
    });
}

fn is_of_rollouts(asked: &Asked) -> bool {
    asked.is_write() && asked.resource != "leases"
}

/// The logins that wrote something other than the lease.
fn logins(stage: &Stage) -> Result<BTreeSet<String>> {
    let asked = stage.plane.asked()?;
    Ok(asked.into_iter().filter(is_of_rollouts).map(|it| it.login).collect())
}

/// The holder of the lease, once it is another than `former`.
async fn leader(stage: &Stage, former: &str) -> Result<String> {
    let lease = ("coordination.k8s.io/v1", "Lease");
    eventually("somebody leads", PATIENCE, async || {
        let found = stage.get(lease, Installation::NAMESPACE, "flagger-leader-election").await?;
        let found = found.unwrap_or_default();
        let holder = found["spec"]["holderIdentity"].as_str().unwrap_or_default().to_owned();
        Ok((!holder.is_empty() && holder != former).then_some(holder))
    })
    .await
}

/// Permissions that no request uses, and their purpose.
const BY_NO_REQUEST: [(&str, &str); 1] = [(
    "flagger.app/canaries/finalizers update",
    "the server's own plugin OwnerReferencesPermissionEnforcement, which is on here, asks for it when an object gets \
     a canary as its owner, and writes nothing down",
)];

/// The permissions of the shipped roles: `group/resource verb`.
async fn granted(stage: &Stage) -> Result<BTreeSet<String>> {
    const GROUP: &str = "rbac.authorization.k8s.io/v1";
    let cluster = stage.get((GROUP, "ClusterRole"), "", "tidegate").await?.context("no role")?;
    let own = stage.get((GROUP, "Role"), Installation::NAMESPACE, "tidegate").await?;
    let own = own.context("no role in its own namespace")?;
    let mut lines = BTreeSet::new();
    for rule in [&cluster, &own].iter().filter_map(|role| role["rules"].as_array()).flatten() {
        for group in texts(&rule["apiGroups"]) {
            for resource in texts(&rule["resources"]) {
                let verbs = texts(&rule["verbs"]);
                lines.extend(verbs.map(|verb| format!("{group}/{resource} {verb}")));
            }
        }
    }
    Ok(lines)
}

fn texts(list: &Value) -> impl Iterator<Item = &str> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str)
}

/// The operator's requests, and the number of permissions they used: all that are meant, or this fails.
async fn used(stage: &Stage, is_meant: impl Fn(&str) -> bool) -> Result<(Vec<Asked>, usize)> {
    stage.nothing_was_denied()?;
    let asked = stage.plane.asked()?;
    // A failed request, perhaps of a kind that is not there, proves no permission.
    let used: BTreeSet<_> = asked.iter().filter(|it| it.code < 400).map(Asked::line).collect();
    let mut granted = granted(stage).await?;
    for (line, reason) in BY_NO_REQUEST {
        ensure!(granted.remove(line), "excepted, and not granted: {line} ({reason})");
        ensure!(!used.contains(line), "excepted, and used: {line} ({reason})");
    }
    granted.retain(|line| is_meant(line));
    ensure!(!granted.is_empty(), "nothing is granted");
    let vain: Vec<_> = granted.difference(&used).collect();
    ensure!(vain.is_empty(), "granted, and never used: {vain:#?}");
    Ok((asked, granted.len()))
}

/// Whether a permission is for the newer policies of Kuma. That takes a cluster without the older one.
fn is_of_newer_kuma(line: &str) -> bool {
    line.starts_with("kuma.io/meshhttproutes ")
}

#[test]
fn the_shipped_role_is_enough_and_grants_nothing_in_vain() {
    inside("the_shipped_role_is_enough_and_grants_nothing_in_vain", async || {
        let stage = Stage::start().await?;
        furnish_providers(&stage).await?;
        let _operator = stage.installation.start(&stage.plane, "operator").await?;
        // Finds the lease of the other.
        let _replica = stage.installation.start(&stage.plane, "replica").await?;
        let lives: Vec<_> = Life::usual(&stage).into_iter().chain(Life::others(&stage)).collect();
        tokio::try_join!(
            futures::future::try_join_all(lives.iter().map(Life::live)),
            live_with_knative(&stage),
        )?;
        let (asked, rights) = used(&stage, |line| !is_of_newer_kuma(line)).await?;
        println!("{} requests, {rights} rights granted and used", asked.len());
        let conflicts = asked.iter().filter(|it| it.code == 409).count();
        println!("{conflicts} conflicts, of writes that somebody else came before");
        ensure!(conflicts > 0, "nobody came before any write");
        Ok(())
    });
}

#[test]
fn the_shipped_role_is_enough_for_kuma_without_its_older_policies() {
    inside("the_shipped_role_is_enough_for_kuma_without_its_older_policies", async || {
        let stage = Stage::start().await?;
        furnish_kuma(&stage).await?;
        let _operator = stage.installation.start(&stage.plane, "operator").await?;
        Life::kuma(&stage).live().await?;
        let (asked, rights) = used(&stage, is_of_newer_kuma).await?;
        println!("{} requests, {rights} rights granted and used", asked.len());
        Ok(())
    });
}
