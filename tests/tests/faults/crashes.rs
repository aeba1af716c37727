//! Crash points: a client cut at every write, in every way, must finish after a restart.

use kube_sandbox::{
    Sandbox, Settings,
    faults::{Cut, Matcher},
};
use serde_json::{Value, json};
use tidegate_tests::wire::{Broken, Reply, Wire, config_map};

use super::{MAPS, at, sandbox};

const CLIENT: &str = "careful";

/// The reason for an early end of the script.
#[derive(Debug)]
enum Ended {
    Broken,
    Refused,
}

impl From<Broken> for Ended {
    fn from(_: Broken) -> Self {
        Self::Broken
    }
}

/// Three writes, each of which needs the one before it: a claim, a child that names the claim's uid, and
/// the child's uid on the claim. A write that is already done is not repeated.
fn script(wire: &Wire) -> Result<(), Ended> {
    let claim = ensure(wire, &config_map("claim", "1"))?;
    let mut child = config_map("child", "1");
    child["metadata"]["annotations"] = json!({ "claim": claim["metadata"]["uid"] });
    let child = ensure(wire, &child)?;
    let uid = &child["metadata"]["uid"];
    if claim["data"]["child"] == *uid {
        return Ok(());
    }
    let mut claim = claim;
    claim["data"]["child"] = uid.clone();
    accept(wire.try_send("PUT", &at("claim"), "application/json", &claim)?)?;
    Ok(())
}

fn ensure(wire: &Wire, object: &Value) -> Result<Value, Ended> {
    let name = object["metadata"]["name"].as_str().unwrap();
    let found = wire.try_send("GET", &at(name), "", &Value::Null)?;
    if found.is_success() {
        return Ok(found.body);
    }
    accept(wire.try_send("POST", MAPS, "application/json", object)?)
}

fn accept(reply: Reply) -> Result<Value, Ended> {
    if reply.is_success() { Ok(reply.body) } else { Err(Ended::Refused) }
}

/// The result of the script, without the fields that differ from run to run.
fn outcome(wire: &Wire) -> Value {
    let (claim, child) = (wire.get(&at("claim")).ok(), wire.get(&at("child")).ok());
    json!({
        "claimed": child["metadata"]["annotations"]["claim"] == claim["metadata"]["uid"],
        "linked": claim["data"]["child"] == child["metadata"]["uid"],
        "maps": wire.get(MAPS).ok()["items"].as_array().unwrap().len(),
        "values": [claim["data"]["value"], child["data"]["value"]],
    })
}

fn begin() -> (Sandbox, Wire) {
    let (sandbox, _) = sandbox();
    let wire = Wire::in_the_name_of(&sandbox, CLIENT);
    sandbox.server().faults.count_only(Matcher::any().user(CLIENT));
    (sandbox, wire)
}

#[test]
fn a_client_cut_at_every_write_in_every_way_ends_the_same() {
    let (sandbox, wire) = begin();
    script(&wire).unwrap();
    let writes = sandbox.server().faults.writes();
    assert_eq!(writes, 3, "reads are not counted");
    let want = outcome(&wire);
    assert_eq!(want["linked"], true);
    for index in 0..writes {
        for cut in Cut::ALL {
            let (sandbox, wire) = begin();
            let faults = &sandbox.server().faults;
            faults.crash_at(index, cut);
            let ended = script(&wire);
            assert!(ended.is_err(), "write {index}, {cut:?}: the cut must show");
            let crash = faults.crashed().unwrap();
            assert_eq!((crash.index, crash.cut), (index, cut));
            let is_dead = wire.try_send("GET", MAPS, "", &Value::Null).is_err();
            assert_eq!(is_dead, cut.kills(), "write {index}, {cut:?}");
            faults.revive();
            script(&wire).unwrap_or_else(|ended| panic!("write {index}, {cut:?}: {ended:?}"));
            assert_eq!(outcome(&wire), want, "write {index}, {cut:?}");
            assert!(faults.crashed().is_none());
        }
    }
}

#[test]
fn a_cut_applies_the_write_or_does_not_as_it_says() {
    for cut in Cut::ALL {
        let (sandbox, wire) = begin();
        sandbox.server().faults.crash_at(0, cut);
        let _ = script(&wire);
        let landed = Wire::new(&sandbox).get(&at("claim")).is_success();
        assert_eq!(landed, matches!(cut, Cut::AfterApply | Cut::LostAnswer), "{cut:?}");
    }
}

#[test]
fn a_dead_client_is_dead_alone_and_its_watches_close() {
    let (sandbox, wire) = begin();
    let faults = &sandbox.server().faults;
    let other = Wire::in_the_name_of(&sandbox, "other");
    let mut mine = wire.watch(&format!("{MAPS}?watch=true")).ok().unwrap();
    let mut theirs = other.watch(&format!("{MAPS}?watch=true")).ok().unwrap();
    mine.drain();
    faults.crash_at(0, Cut::BeforeSend);
    let _ = script(&wire);
    assert!(faults.crashed().is_some());
    assert_eq!(other.post(MAPS, &config_map("theirs", "1")).code, 201);
    assert!(mine.drain().is_empty() && mine.is_over);
    assert_eq!(theirs.drain().len(), 1);
    assert!(!theirs.is_over);
    assert!(wire.try_send("GET", MAPS, "", &Value::Null).is_err());
    faults.revive();
    assert!(wire.try_send("GET", MAPS, "", &Value::Null).is_ok());
}

#[test]
fn only_what_is_to_be_counted_is_counted() {
    let (sandbox, _) = sandbox();
    let faults = &sandbox.server().faults;
    let wire = Wire::in_the_name_of(&sandbox, CLIENT);
    faults.count_only(Matcher::any().user(CLIENT));
    Wire::new(&sandbox).post(MAPS, &config_map("other", "1")).ok();
    sandbox.settle();
    wire.get(MAPS).ok();
    assert_eq!(faults.writes(), 0, "others' writes and own reads");
    let dry = format!("{MAPS}?dryRun=All");
    wire.post(&dry, &config_map("dry", "1")).ok();
    assert_eq!(faults.writes(), 0, "a dry run writes nothing");
    wire.post(MAPS, &config_map("mine", "1")).ok();
    wire.post(MAPS, &config_map("mine", "1"));
    assert_eq!(faults.writes(), 2, "refused attempts count");
    faults.crash_at(2, Cut::BeforeSend);
    wire.get(MAPS).ok();
    assert!(wire.try_send("DELETE", &at("mine"), "", &Value::Null).is_err());
    assert_eq!(Wire::new(&sandbox).get(&at("mine")).code, 200);
}

#[test]
fn a_crash_point_beyond_the_end_is_never_reached() {
    let sandbox = Sandbox::new(Settings::for_tests());
    let wire = Wire::new(&sandbox);
    sandbox.server().faults.crash_at(1_000, Cut::BeforeSend);
    script(&wire).unwrap();
    assert!(sandbox.server().faults.crashed().is_none());
    assert_eq!(sandbox.server().faults.injected().total(), 0);
}
