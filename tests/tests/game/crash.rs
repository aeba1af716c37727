//! Crash safety of game workloads: stories cut at every write, in every way.
//!
//! A story runs once undisturbed, which counts its writes, and then once per write and cut. Invariants are
//! checked on the way by counting pods; at the end the workload must be in the state of the story and at
//! rest, with no more pods and hook runs created on the way.
//!
//! `cargo test` takes a sample; `SWEEP=essential` takes every cut, `SWEEP=3` every third.

use std::{cell::RefCell, collections::BTreeSet};

use kube_sandbox::{
    cluster::{Cluster as _, PODS, Resource},
    faults::Cut,
    request::Verb,
    request_log::{Entry, Mark, RequestLog},
};
use serde_json::{Value, json};
use tidegate_tests::{
    network::Reply,
    rollout::{OPERATOR, World},
};

use crate::rig::{GAME_DEPLOYMENTS, HOOK_RUNS, HOOK_TEMPLATES};

/// One of so many cuts is tried with every `cargo test`.
const SAMPLE: usize = 23;
/// The longest wait of a story, with pauses after trouble in it.
const PATIENCE_S: u64 = 600;

const GAME_STATEFUL_SETS: Resource =
    Resource { group: "tkex.tencent.com", plural: "gamestatefulsets" };
const NAME: &str = "arena";

/// A step of a story.
#[derive(Clone, Copy, Debug)]
enum Act {
    Image(&'static str),
    Replicas(i64),
    Resume,
    /// Until the release is paused at this step.
    PausedAt(i64),
    /// Until the first pod has the new revision.
    Begun,
    /// Until all pods are of the template and ready.
    Settled,
    /// The new answer of the hook.
    Age(i64),
    /// `retry` of the hook before deletion.
    Retry,
    /// The workload is deleted, with everything it owns.
    Deleted,
}

struct Story {
    name: &'static str,
    kind: Resource,
    strategy: Value,
    /// Further members of the spec.
    more: Value,
    acts: Vec<Act>,
    /// Pods that may be out of service.
    unavailable: i64,
    /// Pods are never replaced.
    keeps_pods: bool,
    makes: Makes,
}

/// How the created objects compare with the run without a cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Makes {
    /// As many of each.
    TheSame,
    /// As many pods and no more runs. An operator that dies with an answer asks again later and may get
    /// another one: a hook that failed may pass without being tried again.
    NoMoreRuns,
    /// The progress before a user ends it depends on the moment.
    WhatItCan,
}

/// The operator's creations: requests that were applied, whether it got the answer or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Made {
    runs: usize,
    pods: usize,
}

/// The result of a run.
struct Outcome {
    writes: u64,
    /// `None` if the cut was never reached: such a run proves nothing.
    made: Option<Made>,
    violations: Vec<String>,
}

/// Observations and violations so far.
#[derive(Default)]
struct Watched {
    violations: Vec<String>,
    uids: BTreeSet<String>,
    /// All pods were ready once.
    is_up: bool,
    /// Pods of the new revision when the pause began.
    paused_with: Option<i64>,
}

fn rolling() -> Value {
    json!({ "type": "RollingUpdate", "maxUnavailable": 1 })
}

fn in_place() -> Value {
    json!({
        "type": "InplaceUpdate", "maxUnavailable": 1,
        "inPlaceUpdateStrategy": { "gracePeriodSeconds": 10 },
    })
}

/// The same in steps, with each kind of step.
fn in_steps(mut strategy: Value) -> Value {
    strategy["canary"] = json!({ "steps": [
        { "partition": 2 }, { "pause": {} }, { "partition": 1 }, { "pause": { "duration": 20 } },
        { "hook": { "templateName": "check" } },
    ] });
    strategy
}

/// Sets limit unavailable pods in another field.
fn of_sets(mut strategy: Value) -> Value {
    if let Some(members) = strategy.as_object_mut()
        && let Some(unavailable) = members.remove("maxUnavailable")
    {
        members.insert("rollingUpdate".to_owned(), json!({ "maxUnavailable": unavailable }));
    }
    strategy
}

fn story(name: &'static str, kind: Resource, strategy: Value, acts: &[Act]) -> Story {
    Story {
        name,
        kind,
        keeps_pods: strategy["type"] == "InplaceUpdate",
        strategy,
        more: json!({}),
        acts: acts.to_vec(),
        unavailable: 1,
        makes: Makes::TheSame,
    }
}

fn stories() -> Vec<Story> {
    use Act::{Age, Begun, Deleted, Image, PausedAt, Replicas, Resume, Retry, Settled};
    let (one, two) = (GAME_DEPLOYMENTS, GAME_STATEFUL_SETS);
    let surge = json!({ "type": "RollingUpdate", "maxUnavailable": 0, "maxSurge": 1 });
    let update = [Image("game:2"), Settled];
    let through = [Image("game:2"), PausedAt(1), Resume, Age(20), Settled];
    let failing = [Image("game:2"), PausedAt(1), Resume, Age(45), PausedAt(4), Resume, Settled];
    let back = [Image("game:2"), PausedAt(1), Image("game:1"), Settled];
    let another = [Image("game:2"), Begun, Image("game:3"), Settled];
    let scale = [Replicas(5), Settled, Replicas(2), Settled];
    let hooked = [Age(45), Replicas(2), Age(20), Retry, Settled];
    let deleted = [Image("game:2-slow-start-15s"), Begun, Deleted];
    let pre_delete = json!({ "preDeleteUpdateStrategy": { "hook": { "templateName": "check" } } });
    vec![
        story("rolling", one, rolling(), &update),
        Story { unavailable: 0, ..story("rolling with surge", one, surge, &update) },
        story("in place with grace", one, in_place(), &update),
        story("steps in place", one, in_steps(in_place()), &through),
        story("steps, rolling", one, in_steps(rolling()), &through),
        story("a hook that fails", one, in_steps(in_place()), &failing),
        story("back half-way", one, in_steps(in_place()), &back),
        story("another template half-way", one, in_place(), &another),
        story("scale", one, rolling(), &scale),
        Story {
            more: pre_delete,
            makes: Makes::NoMoreRuns,
            ..story("scale in by hook", one, rolling(), &hooked)
        },
        Story { makes: Makes::WhatItCan, ..story("deleted half-way", one, rolling(), &deleted) },
        story("a set, rolling", two, of_sets(rolling()), &update),
        story("a set in place", two, of_sets(in_place()), &update),
        story("a set in steps", two, of_sets(in_steps(in_place())), &through),
        story("a set scales", two, of_sets(rolling()), &scale),
    ]
}

// === impl Story ===

impl Story {
    fn object(&self) -> Value {
        let mut object = json!({
            "apiVersion": "tkex.tencent.com/v1alpha1",
            "kind": if self.kind == GAME_DEPLOYMENTS { "GameDeployment" } else { "GameStatefulSet" },
            "metadata": { "name": NAME },
            "spec": {
                "replicas": 3, "selector": { "matchLabels": { "app": NAME } },
                "template": {
                    "metadata": { "labels": { "app": NAME } },
                    "spec": { "containers": [{ "name": "game", "image": "game:1" }] },
                },
                "updateStrategy": self.strategy,
            },
        });
        if self.kind == GAME_STATEFUL_SETS {
            object["spec"]["serviceName"] = json!(NAME);
        }
        for (name, value) in self.more.as_object().into_iter().flatten() {
            object["spec"][name] = value.clone();
        }
        object
    }

    async fn prepared(&self) -> World {
        let mut world = World::of_games();
        world.create(
            HOOK_TEMPLATES,
            json!({
                "apiVersion": "tkex.tencent.com/v1alpha1", "kind": "HookTemplate",
                "metadata": { "name": "check" },
                "spec": { "metrics": [{
                    "name": "age", "successCondition": "asInt(result) < 30",
                    "provider": { "web": { "url": "http://1.1.1.1:9091", "jsonPath": "{$.age}" } },
                }] },
            }),
        );
        age(&world, 20);
        world.create(self.kind, self.object());
        world.start().await;
        let watched = RefCell::new(Watched::default());
        let is_up = world.until_seen(PATIENCE_S, |world| self.is_settled(world)).await;
        assert!(is_up, "{}: it never comes up: {:#}", self.name, self.get(&world));
        drop(watched);
        world.kill();
        world
    }

    fn get(&self, world: &World) -> Value {
        world.get(self.kind, NAME).unwrap_or_default()
    }

    fn is_settled(&self, world: &World) -> bool {
        let object = self.get(world);
        let (spec, status) = (&object["spec"], &object["status"]);
        let replicas = spec["replicas"].as_i64().unwrap_or(0);
        let image = &spec["template"]["spec"]["containers"][0]["image"];
        let pods = pods(world);
        let is_done = |pod: &Value| is_ready(pod) && runs(pod, image);
        status["observedGeneration"] == object["metadata"]["generation"]
            && i64::try_from(pods.len()) == Ok(replicas)
            && pods.iter().all(is_done)
            && status["updatedReadyReplicas"] == replicas
            && status["readyReplicas"] == replicas
            && spec["updateStrategy"]["paused"] != true
    }

    /// True once the act is complete.
    async fn perform(&self, world: &World, act: Act, watched: &RefCell<Watched>) -> bool {
        let patch = |patch: Value| drop(world.patch(self.kind, NAME, &patch));
        let wait = async |is_so: &dyn Fn(&World) -> bool| {
            world
                .until_seen(PATIENCE_S, |world| {
                    self.watch(world, &mut watched.borrow_mut());
                    is_so(world)
                })
                .await
        };
        match act {
            Act::Image(image) => {
                let container = json!({ "name": "game", "image": image });
                patch(json!({ "spec": { "template": { "spec": { "containers": [container] } } } }));
                true
            }
            Act::Replicas(replicas) => {
                watched.borrow_mut().is_up = false;
                patch(json!({ "spec": { "replicas": replicas } }));
                let counted = |world: &World| {
                    self.get(world)["status"]["observedGeneration"].as_i64()
                        == self.get(world)["metadata"]["generation"].as_i64()
                };
                wait(&counted).await
            }
            Act::Resume => {
                watched.borrow_mut().paused_with = None;
                patch(json!({ "spec": { "updateStrategy": { "paused": false } } }));
                true
            }
            Act::PausedAt(step) => {
                let is_there = |world: &World| {
                    let object = self.get(world);
                    object["spec"]["updateStrategy"]["paused"] == true
                        && object["status"]["currentStepIndex"] == step
                        && !object["status"]["pauseConditions"][0].is_null()
                };
                wait(&is_there).await
            }
            Act::Begun => {
                let has_begun = |world: &World| {
                    self.get(world)["status"]["updatedReplicas"].as_i64() >= Some(1)
                        && self.get(world)["status"]["updatedReplicas"].as_i64() < Some(3)
                };
                wait(&has_begun).await
            }
            Act::Settled => wait(&|world| self.is_settled(world)).await,
            Act::Age(years) => {
                age(world, years);
                // A request that is due is sent once more.
                world.advance_s(15).await;
                true
            }
            Act::Retry => {
                patch(json!({ "spec": { "preDeleteUpdateStrategy": { "retry": true } } }));
                true
            }
            Act::Deleted => {
                world.delete(self.kind, NAME);
                wait(&|world| pods(world).is_empty()).await
            }
        }
    }

    /// Invariants of every moment.
    fn watch(&self, world: &World, watched: &mut Watched) {
        let object = self.get(world);
        if object.is_null() {
            return;
        }
        let replicas = object["spec"]["replicas"].as_i64().unwrap_or(0);
        let pods = pods(world);
        let ready = i64::try_from(pods.iter().filter(|pod| is_ready(pod)).count()).unwrap_or(0);
        if watched.is_up && ready < replicas - self.unavailable {
            watched.violations.push(format!("{ready} of {replicas} pods are ready"));
        }
        watched.is_up |= ready >= replicas;
        let uids: BTreeSet<String> = pods
            .iter()
            .filter_map(|pod| pod["metadata"]["uid"].as_str().map(str::to_owned))
            .collect();
        if self.keeps_pods && !watched.uids.is_empty() && watched.uids != uids {
            watched.violations.push("a pod was replaced that could be updated in place".to_owned());
        }
        watched.uids = uids;
        let is_paused =
            object["status"]["pauseConditions"].as_array().is_some_and(|it| !it.is_empty());
        let updated = object["status"]["updatedReplicas"].as_i64().unwrap_or(0);
        match watched.paused_with {
            Some(with) if is_paused && updated > with => {
                watched.violations.push(format!("updated from {with} to {updated} while paused"));
            }
            _ if !is_paused => watched.paused_with = None,
            None => watched.paused_with = Some(updated),
            Some(_) => {}
        }
    }

    /// The differences in created objects from the run without a cut.
    fn compare(&self, made: Made, uncut: Made) -> Option<String> {
        let is_same = match self.makes {
            Makes::TheSame => made == uncut,
            Makes::NoMoreRuns => made.pods == uncut.pods && made.runs <= uncut.runs,
            Makes::WhatItCan => true,
        };
        (!is_same).then(|| format!("it made {made:?}, and without the cut {uncut:?}"))
    }

    /// Runs it, and returns the number of its writes, the created objects and the violations.
    async fn run(&self, fault: Option<(u64, Cut)>) -> Outcome {
        let mut world = self.prepared().await;
        let log = world.sandbox.server().log.clone();
        let mark = log.mark();
        world.restarts = true;
        let faults = world.sandbox.server().faults.clone();
        faults.count_only(World::operators());
        if let Some((at, cut)) = fault {
            faults.crash_at(at, cut);
        }
        world.start().await;
        let watched = RefCell::new(Watched::default());
        let mut stuck = Vec::new();
        for act in &self.acts {
            if !self.perform(&world, *act, &watched).await {
                stuck.push(format!("{act:?} never came to an end: {:#}", self.get(&world)));
                break;
            }
        }
        world.advance_s(90).await;
        let (writes, made) = (faults.writes(), Made::since(&log, mark));
        let mut violations = watched.into_inner().violations;
        violations.append(&mut stuck);
        if !self.more["preDeleteUpdateStrategy"].is_null() {
            violations.extend(unasked(&log.since(mark)));
        }
        violations.extend(self.restless(&mut world).await);
        let is_missed = fault.is_some_and(|_| faults.injected().total() == 0);
        if is_missed {
            violations.clear();
        }
        Outcome { writes, made: (!is_missed).then_some(made), violations }
    }

    /// The writes of a new operator that is started after the end.
    async fn restless(&self, world: &mut World) -> Vec<String> {
        let log = world.sandbox.server().log.clone();
        world.sandbox.server().faults.clear();
        let mark = log.mark();
        world.start().await;
        world.advance_s(90).await;
        let ours = log.writes_since(mark).into_iter().filter(|it| &*it.user == OPERATOR);
        ours.map(|it| format!("at rest it writes {:?} {} {}", it.verb, it.target(), it.name))
            .collect()
    }
}

// === impl Made ===

impl Made {
    /// A name that was taken is answered with 409 and makes nothing.
    fn since(log: &RequestLog, mark: Mark) -> Self {
        let made = |group: &str, resource: &str| {
            let is_made = |it: &Entry| {
                &*it.user == OPERATOR
                    && it.verb == Verb::Create
                    && it.code == 201
                    && it.concerns(group, resource)
            };
            log.matching_since(mark, is_made).len()
        };
        Self { runs: made(HOOK_RUNS.group, HOOK_RUNS.plural), pods: made(PODS.group, PODS.plural) }
    }
}

/// Pods that the operator deleted before the run of their hook was created and had a result.
fn unasked(entries: &[Entry]) -> Vec<String> {
    let is_done = |it: &&Entry| &*it.user == OPERATOR && it.code < 300 && !it.dry_run;
    let mut violations = Vec::new();
    let mut told: Vec<&str> = Vec::new();
    for entry in entries.iter().filter(is_done) {
        let name = &*entry.name;
        let is_run = entry.concerns(HOOK_RUNS.group, HOOK_RUNS.plural);
        if is_run && &*entry.subresource == "status" && name.starts_with("predelete-") {
            told.push(name);
        }
        if entry.verb == Verb::Delete && entry.concerns(PODS.group, PODS.plural) {
            let id = format!("-{}-", name.rsplit('-').next().unwrap_or_default());
            // Once that it runs, and once that it passed.
            if told.iter().filter(|run| run.contains(&id)).count() < 2 {
                violations.push(format!("pod {name} was deleted before its hook was over"));
            }
        }
    }
    violations
}

fn age(world: &World, years: i64) {
    let body = json!({ "age": years }).to_string();
    world.network.hook("1.1.1.1/", Reply::Status(200, body));
}

/// Pods that are not being deleted.
fn pods(world: &World) -> Vec<Value> {
    let mut pods = world.admin.list(PODS, Some("default"));
    pods.retain(|pod| pod["metadata"]["deletionTimestamp"].is_null());
    pods
}

fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().any(|it| it["type"] == "Ready" && it["status"] == "True")
}

/// Whether the running container and the desired one have this image.
fn runs(pod: &Value, image: &Value) -> bool {
    pod["spec"]["containers"][0]["image"] == *image
        && pod["status"]["containerStatuses"][0]["image"]
            .as_str()
            .is_some_and(|it| image.as_str().is_some_and(|image| it.ends_with(image)))
}

fn play(story: &Story, fault: Option<(u64, Cut)>) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime without sockets can be made");
    runtime.block_on(story.run(fault))
}

#[test]
fn a_story_cut_at_any_write_ends_as_if_it_had_not_been() {
    let every = match std::env::var("SWEEP").as_deref() {
        Ok("all" | "essential") => 1,
        Ok(nth) => nth.parse().expect("`essential`, `all` or a number"),
        Err(_) => SAMPLE,
    };
    let only = std::env::var("SWEEP_ONLY").unwrap_or_default();
    let mut jobs = Vec::new();
    let mut findings = Vec::new();
    let stories: Vec<Story> = stories().into_iter().filter(|it| it.name.contains(&only)).collect();
    let mut uncut = Vec::new();
    for (index, story) in stories.iter().enumerate() {
        let Outcome { writes, made, violations } = play(story, None);
        findings.extend(violations.into_iter().map(|it| format!("{}: {it}", story.name)));
        uncut.push(made.expect("nothing was to be cut"));
        let cuts = (0..writes).flat_map(|at| Cut::ALL.map(|cut| (at, cut))).enumerate();
        let chosen = cuts.filter(|(number, _)| (number + index).is_multiple_of(every));
        jobs.extend(chosen.map(|(_, fault)| (index, fault)));
    }
    let counts = |of: fn(&Made) -> usize| uncut.iter().map(of).sum::<usize>() > 0;
    let is_blind = !(counts(|made| made.runs) && counts(|made| made.pods));
    assert!(!is_blind || !only.is_empty(), "nothing is made: {uncut:?}");
    let next = std::sync::atomic::AtomicUsize::new(0);
    let missed = std::sync::atomic::AtomicUsize::new(0);
    let found = std::sync::Mutex::new(findings);
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    let Some((index, fault)) = jobs.get(at) else { return };
                    let story = &stories[*index];
                    let Outcome { made, mut violations, .. } = play(story, Some(*fault));
                    if made.is_none() {
                        missed.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    }
                    violations.extend(made.and_then(|made| story.compare(made, uncut[*index])));
                    let about = violations
                        .iter()
                        .map(|it| format!("{} cut at {fault:?}: {it}", story.name));
                    found.lock().unwrap().extend(about);
                }
            });
        }
    });
    let found = found.into_inner().unwrap();
    let missed = missed.into_inner();
    println!(
        "{} stories, {} runs cut short, {missed} ended before their cut, {} findings",
        stories.len(),
        jobs.len() - missed,
        found.len()
    );
    assert!(missed * 5 <= jobs.len(), "{missed} of {} cuts never came", jobs.len());
    for one in &found {
        println!("{}", one.lines().next().unwrap_or_default());
    }
    assert!(found.is_empty(), "{} findings, the first: {}", found.len(), found[0]);
}

#[test]
fn runs_of_hooks_are_not_left_behind() {
    let story = stories().into_iter().find(|story| story.name == "back half-way").unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(async {
        let mut world = story.prepared().await;
        world.start().await;
        let watched = RefCell::new(Watched::default());
        for act in &story.acts {
            assert!(story.perform(&world, *act, &watched).await, "{act:?}");
        }
        world.advance_s(60).await;
        assert_eq!(world.admin.list(HOOK_RUNS, Some("default")).len(), 0);
    });
}
