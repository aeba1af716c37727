//! Gates that a person opens and a rollout checks.
//!
//! A gate belongs to a canary and is closed unless it was opened; a check neither opens nor creates one. It
//! can be opened without a bound, for a time, for a number of steps, or for one revision only. Gates outlive
//! the process if they are kept: in a file, which is replaced whole, or in a [`config_map`], which several
//! processes may share. A change is written before it is answered. A signed change is carried
//! out once, see [`signed_changes`].

pub mod config_map;
pub mod signed_changes;

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, Write as _},
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use self::{
    config_map::{ConfigMapStore, StoreError},
    signed_changes::SignedChanges,
};
use crate::auth::CallSignature;

/// All gates that are open.
#[derive(Debug)]
pub struct Gates {
    kept: Kept,
    /// Not used where they are in a `ConfigMap`, which is read anew for each answer.
    open: Mutex<BTreeMap<Key, Opening>>,
    /// Changes before this time are not known. Seconds since 1970.
    known_since: i64,
}

/// Storage of gates beyond the process.
#[derive(Debug)]
enum Kept {
    Nowhere,
    File(PathBuf),
    ConfigMap(Box<ConfigMapStore>),
}

/// The identity of a gate.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Key {
    pub namespace: String,
    /// Of the canary.
    pub canary: String,
    pub kind: Kind,
    /// Its name, where a canary has several.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub gate: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Lets a rollout go on.
    Advance,
    /// Rolls back.
    Rollback,
}

/// The bounds within which a gate is open.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Opening {
    /// Seconds since 1970.
    pub opened_at: i64,
    /// Closes by itself then. Seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<i64>,
    /// Approvals that are left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps: Option<u32>,
    /// The only revision it is open for, by the checksum that hooks send.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checksum: Option<String>,
    /// The last call that a step was used up for. A call that is repeated gets the same answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered: Option<String>,
    /// Signed calls that opened or closed it. They are kept when it is closed, for as long as they could be repeated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signed: Option<SignedChanges>,
}

/// The call that checks a gate.
#[derive(Clone, Copy, Debug)]
pub struct GateCall<'a> {
    pub checksum: &'a str,
    /// Distinguishes a repeated call from a new one.
    pub call: Option<&'a str>,
}

/// Why a gate could not be opened, closed or checked.
#[derive(Debug, thiserror::Error)]
pub enum GateError {
    #[error("failed to write gates to `{}`", .path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("failed to keep gates in the ConfigMap")]
    ConfigMap(#[from] StoreError),
    #[error("{0} gates are kept, and there is no room for another")]
    TooMany(usize),
    #[error(
        "the gate of {0} was changed after this call was signed: sign it again, or compare the clocks"
    )]
    Outdated(String),
    #[error(
        "the load tester started after this call was signed: sign it again, or compare the clocks"
    )]
    BeforeStart,
}

/// Why gates could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("failed to read gates from `{}`", .path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("`{}` does not hold gates", .path.display())]
    Malformed { path: PathBuf, source: serde_json::Error },
}

/// A gate and its opening, as they are kept and listed.
#[derive(Debug, Serialize, Deserialize)]
pub struct Entry {
    #[serde(flatten)]
    pub key: Key,
    #[serde(flatten)]
    pub opening: Opening,
}

/// An entry is a name of 253 bytes, five shorter ones, a few numbers and eight signatures, 1.7 KB in all: ten
/// thousand are 17 MB, which a disk still takes in a moment.
const GATES_MAX: usize = 10_000;
/// A ConfigMap takes 1 MiB.
const GATES_MAX_IN_CONFIG_MAP: usize = 600;
/// No caller repeats a call for longer than this.
const REPEATED_WITHIN_S: i64 = 3600;
/// Attempts at a change after conflicts: of writers at the same moment one succeeds each time, and fewer
/// hooks than this call at once.
const ATTEMPTS_MAX: u32 = 32;
/// Between attempts, times their number: 32 of them pause for two and a half seconds in all.
const PAUSE: Duration = Duration::from_millis(5);
/// For all calls to the API server that an answer takes. Hooks wait ten seconds.
const PATIENCE: Duration = Duration::from_secs(8);

// === impl Gates ===

impl Gates {
    /// Gates in memory, lost with the process.
    pub fn in_memory(now: i64) -> Self {
        Self { kept: Kept::Nowhere, open: Mutex::default(), known_since: now }
    }

    /// Gates that are kept in `file`; those it holds are open.
    pub fn in_file(file: PathBuf, now: i64) -> Result<Self, ReadError> {
        let (entries, known_since): (Vec<Entry>, _) = match fs::read(&file) {
            Ok(bytes) => {
                let entries = serde_json::from_slice(&bytes)
                    .map_err(|source| ReadError::Malformed { path: file.clone(), source })?;
                (entries, i64::MIN)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => (Vec::new(), now),
            Err(source) => return Err(ReadError::Read { path: file, source }),
        };
        let open = Mutex::new(of_entries(entries));
        Ok(Self { kept: Kept::File(file), open, known_since })
    }

    /// Gates that are kept in a `ConfigMap`, and opened and checked by others as well. It is first read at a
    /// request: an API server that is unreachable for a moment must not prevent the start.
    pub fn in_config_map(store: ConfigMapStore) -> Self {
        let kept = Kept::ConfigMap(Box::new(store));
        Self { kept, open: Mutex::default(), known_since: i64::MIN }
    }

    /// Whether the gate is open for this call. Uses up a step if it is bounded by steps. Blocks.
    pub fn check(&self, key: &Key, asker: GateCall<'_>, now: i64) -> Result<bool, GateError> {
        self.act(now, |open| {
            let Some(opening) = open.get(key) else { return Ok((false, None)) };
            if opening.until.is_some_and(|until| until <= now) {
                return Ok((false, None));
            }
            if opening.checksum.as_deref().is_some_and(|only| only != asker.checksum) {
                return Ok((false, None));
            }
            let Some(steps) = opening.steps else { return Ok((true, None)) };
            if asker.call.is_some() && opening.answered.as_deref() == asker.call {
                return Ok((true, None));
            }
            let Some(left) = steps.checked_sub(1) else { return Ok((false, None)) };
            let answered = asker.call.map(str::to_owned);
            let used = Opening { steps: Some(left), answered, ..opening.clone() };
            // One that is used up is closed; only the call that it approved last is kept.
            let used = match (left, asker.call) {
                (0, None) => Opening { until: Some(now), ..used },
                (0, Some(_)) => {
                    let over = now.saturating_add(REPEATED_WITHIN_S);
                    Opening { until: Some(used.until.map_or(over, |it| it.min(over))), ..used }
                }
                (1.., _) => used,
            };
            Ok((true, Some((key.clone(), used))))
        })
    }

    /// Opens a gate, or opens it anew. Blocks.
    pub fn open(
        &self,
        key: &Key,
        opening: &Opening,
        call: Option<&CallSignature>,
        now: i64,
    ) -> Result<(), GateError> {
        self.change(key, opening, call, now)
    }

    /// Blocks.
    pub fn close(
        &self,
        key: &Key,
        call: Option<&CallSignature>,
        now: i64,
    ) -> Result<(), GateError> {
        let closed = Opening { until: Some(now), steps: Some(0), ..Opening::default() };
        self.change(key, &closed, call, now)
    }

    /// A call that is repeated, as its answer was lost, changes nothing.
    fn change(
        &self,
        key: &Key,
        opening: &Opening,
        call: Option<&CallSignature>,
        now: i64,
    ) -> Result<(), GateError> {
        if call.is_some_and(|call| call.at < self.known_since) {
            return Err(GateError::BeforeStart);
        }
        let most = match &self.kept {
            Kept::ConfigMap(_) => GATES_MAX_IN_CONFIG_MAP,
            Kept::Nowhere | Kept::File(_) => GATES_MAX,
        };
        self.act(now, |open| {
            let known = open.get(key);
            let mut signed = known.and_then(|it| it.signed.clone());
            if let Some(call) = call {
                let changes = signed.get_or_insert_default();
                if changes.is_last(call) {
                    return Ok(((), None));
                }
                if !changes.add(call, now) {
                    return Err(GateError::Outdated(format!("{}.{}", key.canary, key.namespace)));
                }
            }
            let changed = Opening { signed, ..opening.clone() };
            if known.is_none() {
                if !changed.is_needed(now) {
                    return Ok(((), None));
                }
                if open.values().filter(|it| it.is_needed(now)).count() >= most {
                    return Err(GateError::TooMany(most));
                }
            }
            Ok(((), Some((key.clone(), changed))))
        })
    }

    /// Gates that would approve some call. Blocks.
    pub fn list(&self, now: i64) -> Result<Vec<Entry>, GateError> {
        self.act(now, |open| {
            let open = open.iter().filter(|(_, opening)| opening.is_open(now));
            let listed = |opening: &Opening| Opening { signed: None, ..opening.clone() };
            Ok((open.map(|(key, opening)| Entry::of(key, &listed(opening))).collect(), None))
        })
    }

    /// Reads the gates, and changes one if `decide` says so. A change that could not be written did not happen.
    fn act<T>(
        &self,
        now: i64,
        decide: impl Fn(&BTreeMap<Key, Opening>) -> Result<(T, Option<Change>), GateError>,
    ) -> Result<T, GateError> {
        let file = match &self.kept {
            Kept::ConfigMap(store) => return act_shared(store, now, decide),
            Kept::File(file) => Some(file),
            Kept::Nowhere => None,
        };
        let mut open = self.open.lock();
        let (answer, change) = decide(&open)?;
        let Some(change) = change else { return Ok(answer) };
        let changed = after(&open, change, now);
        if let Some(file) = file {
            let wrong = |source| GateError::Write { path: file.clone(), source };
            write(file, &changed).map_err(wrong)?;
        }
        *open = changed;
        Ok(answer)
    }
}

/// As [`Gates::act`], where others change gates too: it may have to decide again. No lock is held, so that a
/// call that hangs delays its own caller only; of two writes at once the API server refuses one.
fn act_shared<T>(
    store: &ConfigMapStore,
    now: i64,
    decide: impl Fn(&BTreeMap<Key, Opening>) -> Result<(T, Option<Change>), GateError>,
) -> Result<T, GateError> {
    let deadline = Instant::now() + PATIENCE;
    for attempt in 0..ATTEMPTS_MAX {
        let (open, read) = store.load(deadline)?.into_parts();
        let (answer, change) = decide(&open)?;
        let Some(change) = change else { return Ok(answer) };
        if store.save(read, &after(&open, change, now), deadline)? {
            return Ok(answer);
        }
        // The pause grows with each attempt, so that writers meet less often.
        thread::sleep(PAUSE * attempt);
    }
    Err(StoreError::Contended.into())
}

/// Gates as they are after a change, without those of which nothing must be known any more.
fn after(
    open: &BTreeMap<Key, Opening>,
    (key, opening): Change,
    now: i64,
) -> BTreeMap<Key, Opening> {
    let mut changed = open.clone();
    changed.insert(key, opening);
    changed.retain(|_, opening| opening.is_needed(now));
    changed
}

/// A gate, and how far it is open now.
type Change = (Key, Opening);

fn entries(gates: &BTreeMap<Key, Opening>) -> Vec<Entry> {
    gates.iter().map(|(key, opening)| Entry::of(key, opening)).collect()
}

fn of_entries(entries: Vec<Entry>) -> BTreeMap<Key, Opening> {
    entries.into_iter().map(|entry| (entry.key, entry.opening)).collect()
}

/// Writes a second file and renames it: after a crash at any moment the file is whole.
fn write(file: &Path, gates: &BTreeMap<Key, Opening>) -> io::Result<()> {
    let text = serde_json::to_vec_pretty(&entries(gates))?;
    let folder = file.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let beside = file.with_extension("new");
    let mut new = File::create(&beside)?;
    new.write_all(&text)?;
    new.sync_all()?;
    fs::rename(&beside, file)?;
    File::open(folder)?.sync_all()
}

// === impl Entry ===

impl Entry {
    fn of(key: &Key, opening: &Opening) -> Self {
        Self { key: key.clone(), opening: opening.clone() }
    }
}

// === impl Opening ===

impl Opening {
    fn is_open(&self, now: i64) -> bool {
        self.until.is_none_or(|until| until > now) && self.steps != Some(0)
    }

    /// Whether answers depend on it.
    fn is_needed(&self, now: i64) -> bool {
        self.until.is_none_or(|until| until > now)
            || self.signed.as_ref().is_some_and(|signed| signed.is_needed(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(canary: &str) -> Key {
        let (namespace, canary) = ("test".to_owned(), canary.to_owned());
        Key { namespace, canary, kind: Kind::Advance, gate: String::new() }
    }

    fn asker(checksum: &'static str, call: Option<&'static str>) -> GateCall<'static> {
        GateCall { checksum, call }
    }

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("gates-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    const ANY_CALLER: GateCall<'static> = GateCall { checksum: "abc", call: None };

    #[test]
    fn a_gate_is_closed_until_it_is_opened_and_after_it_is_closed() {
        let gates = Gates::in_memory(0);
        let app = key("app");
        assert!(!gates.check(&app, ANY_CALLER, 0).unwrap());
        assert!(gates.list(0).unwrap().is_empty(), "asking makes no gate");
        gates.open(&app, &Opening::default(), None, 0).unwrap();
        assert!(gates.check(&app, ANY_CALLER, 0).unwrap());
        assert!(gates.check(&app, ANY_CALLER, 0).unwrap(), "for good");
        assert!(!gates.check(&key("other"), ANY_CALLER, 0).unwrap());
        let rollback = Key { kind: Kind::Rollback, ..app.clone() };
        assert!(!gates.check(&rollback, ANY_CALLER, 0).unwrap());
        let named = Key { gate: "promotion".to_owned(), ..app.clone() };
        assert!(!gates.check(&named, ANY_CALLER, 0).unwrap());
        gates.close(&app, None, 0).unwrap();
        assert!(!gates.check(&app, ANY_CALLER, 0).unwrap());
    }

    #[test]
    fn an_opening_can_be_bounded() {
        let gates = Gates::in_memory(0);
        let app = key("app");
        gates.open(&app, &Opening { until: Some(10), ..Opening::default() }, None, 0).unwrap();
        assert!(gates.check(&app, ANY_CALLER, 9).unwrap());
        assert!(!gates.check(&app, ANY_CALLER, 10).unwrap(), "its time is over");
        assert!(gates.list(10).unwrap().is_empty());

        let only = Opening { checksum: Some("abc".to_owned()), ..Opening::default() };
        gates.open(&app, &only, None, 0).unwrap();
        assert!(gates.check(&app, asker("abc", None), 0).unwrap());
        assert!(!gates.check(&app, asker("def", None), 0).unwrap(), "the next rollout asks anew");
    }

    #[test]
    fn a_gate_that_is_used_up_is_not_kept() {
        let gates = Gates::in_memory(0);
        let (one, other) = (key("one"), key("other"));
        for key in [&one, &other] {
            gates.open(key, &Opening { steps: Some(1), ..Opening::default() }, None, 0).unwrap();
        }
        assert!(gates.check(&one, ANY_CALLER, 1).unwrap());
        assert!(!gates.open.lock().contains_key(&one), "nothing to remember of it");
        let call = asker("abc", Some("20%"));
        assert!(gates.check(&other, call, 1).unwrap());
        assert!(gates.check(&other, call, 2).unwrap(), "the same call again");
        assert_eq!(gates.list(2).unwrap().len(), 0);
        let later = 2 + REPEATED_WITHIN_S;
        assert!(!gates.check(&other, call, later).unwrap());
        gates.open(&one, &Opening::default(), None, later).unwrap();
        assert_eq!(
            gates.open.lock().keys().collect::<Vec<_>>(),
            [&one],
            "forgotten with the next change"
        );
    }

    #[test]
    fn a_gate_opened_for_two_steps_says_yes_to_two_calls_and_their_repetitions() {
        let gates = Gates::in_memory(0);
        let app = key("app");
        gates.open(&app, &Opening { steps: Some(2), ..Opening::default() }, None, 0).unwrap();
        let yes = |call| gates.check(&app, asker("abc", Some(call)), 0).unwrap();
        assert!(yes("10%") && yes("10%"), "an answer that was lost is given again");
        assert!(yes("20%") && yes("20%"));
        assert!(!yes("30%"));
        assert!(gates.list(0).unwrap().is_empty());
        gates.open(&app, &Opening { steps: Some(1), ..Opening::default() }, None, 0).unwrap();
        assert!(gates.check(&app, ANY_CALLER, 0).unwrap());
        assert!(
            !gates.check(&app, ANY_CALLER, 0).unwrap(),
            "calls that cannot be told apart are new"
        );
    }

    #[test]
    fn a_gate_that_closed_by_itself_is_not_opened_by_the_same_call() {
        let gates = Gates::in_memory(0);
        let (timed, counted) = (key("timed"), key("counted"));
        let call = CallSignature { at: 1, mark: "a".to_owned() };
        let short = Opening { until: Some(5), ..Opening::default() };
        let once = Opening { steps: Some(1), ..Opening::default() };
        gates.open(&timed, &short, Some(&call), 1).unwrap();
        gates.open(&counted, &once, Some(&call), 1).unwrap();
        assert!(gates.check(&counted, ANY_CALLER, 2).unwrap());
        gates.open(&timed, &short, Some(&call), 10).unwrap();
        gates.open(&counted, &once, Some(&call), 10).unwrap();
        for key in [&timed, &counted] {
            assert!(!gates.check(key, ANY_CALLER, 10).unwrap());
        }
        assert!(gates.list(10).unwrap().is_empty());
        assert_eq!(gates.open.lock().len(), 2, "remembered while the signature is valid");
        gates.open(&key("other"), &Opening::default(), None, 302).unwrap();
        assert_eq!(gates.open.lock().len(), 1);
    }

    #[test]
    fn gates_outlive_the_process() {
        let folder = folder("kept");
        let file = folder.join("gates.json");
        let gates = Gates::in_file(file.clone(), 0).unwrap();
        let app = key("app");
        let opening = Opening {
            opened_at: 5,
            until: Some(100),
            steps: Some(2),
            checksum: Some("abc".to_owned()),
            answered: None,
            signed: None,
        };
        gates.open(&app, &opening, None, 5).unwrap();
        gates
            .open(&key("gone"), &Opening { until: Some(6), ..Opening::default() }, None, 5)
            .unwrap();
        assert!(gates.check(&app, asker("abc", Some("10%")), 7).unwrap());
        drop(gates);

        let gates = Gates::in_file(file.clone(), 0).unwrap();
        assert_eq!(gates.list(7).unwrap().len(), 1);
        assert!(gates.check(&app, asker("abc", Some("10%")), 7).unwrap(), "asked again");
        assert!(gates.check(&app, asker("abc", Some("20%")), 7).unwrap());
        assert!(!gates.check(&app, asker("abc", Some("30%")), 7).unwrap(), "two steps, no more");
        gates.close(&app, None, 8).unwrap();
        assert!(Gates::in_file(file, 0).unwrap().list(0).unwrap().is_empty());
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_file_that_holds_no_gates_is_not_taken_for_none() {
        let folder = folder("broken");
        let file = folder.join("gates.json");
        fs::write(&file, "[{\"names").unwrap();
        assert!(matches!(Gates::in_file(file, 0), Err(ReadError::Malformed { .. })));
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_change_that_cannot_be_written_did_not_happen() {
        let folder = folder("unwritable");
        let gates = Gates::in_file(folder.join("no/such/folder/gates.json"), 0).unwrap();
        let app = key("app");
        let refused = gates.open(&app, &Opening::default(), None, 0);
        assert!(matches!(refused, Err(GateError::Write { .. })));
        assert!(!gates.check(&app, ANY_CALLER, 0).unwrap());
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn the_number_of_gates_is_bounded() {
        let gates = Gates::in_memory(0);
        {
            let mut open = gates.open.lock();
            open.extend((0..GATES_MAX).map(|it| (key(&it.to_string()), Opening::default())));
        }
        let refused = gates.open(&key("app"), &Opening::default(), None, 0);
        assert!(matches!(refused, Err(GateError::TooMany(_))));
        assert!(
            gates.open(&key("7"), &Opening::default(), None, 0).is_ok(),
            "one that is open already"
        );
    }
}
