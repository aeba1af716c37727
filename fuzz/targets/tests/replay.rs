//! Replays the corpus of every fuzz target, and edits of it that are the same each time.
//!
//! `FUZZ_ROUNDS` says how many edits are made of each input (200; 0 replays the corpus alone),
//! `FUZZ_SEED` which ones. An input that fails is printed, escaped, so that it can be added to the
//! corpus.

#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a corpus that cannot be read is a failed test"
)]

use std::{
    collections::BTreeSet,
    fs,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    path::{Path, PathBuf},
};

use serde_json::Value;
use tidegate_fuzz_targets::{TARGETS, input::parts};

/// Texts that parsers trip over, put in at random places.
const TOKENS: [&str; 24] = [
    "{",
    "}",
    "[",
    "]",
    "\"",
    "\\",
    "/",
    "~1",
    "-1",
    "0",
    "1e308",
    "9223372036854775808",
    "null",
    "\"$patch\":\"delete\",",
    "{{",
    "}}",
    "(",
    ")",
    "*",
    "..",
    "\n---\n",
    "\0",
    "\u{fe0f}",
    "NaN",
];

/// A generator that needs no crate; numbers of the same seed are the same on every machine.
struct Random(u64);

#[test]
fn every_target_has_a_corpus_and_a_program() {
    let names: BTreeSet<String> = TARGETS.iter().map(|(name, _)| (*name).to_owned()).collect();
    let folders: BTreeSet<String> = names_in(&fuzz().join("corpus"));
    let programs: BTreeSet<String> = names_in(&fuzz().join("fuzz_targets"))
        .into_iter()
        .map(|name| name.trim_end_matches(".rs").to_owned())
        .collect();
    assert_eq!(folders, names);
    assert_eq!(programs, names);
    for name in names {
        let inputs = corpus(&name).len();
        assert!(inputs >= 12, "{name} has {inputs} inputs");
    }
}

#[test]
fn an_input_is_divided_at_lines_of_dashes() {
    let parted = parts::<2>(b"{\"a\": \"---\"}\n---\n[]\n---\n1").unwrap();
    assert_eq!(parted, [&b"{\"a\": \"---\"}"[..], &b"[]\n---\n1"[..]]);
    assert_eq!(parts::<3>(b"{}\n---\n{}"), None);
}

macro_rules! replay {
    ($($test:ident: $target:literal,)*) => {
        $(
            #[test]
            fn $test() {
                replay($target);
            }
        )*
    };
}

replay! {
    flags_and_templates_hold: "flags_templates",
    json_patches_hold: "json_patch",
    json_paths_hold: "jsonpath",
    prometheus_queries_hold: "promql",
    protobuf_bodies_hold: "protobuf",
    schemas_and_rules_hold: "schema_cel",
    applied_configurations_hold: "server_side_apply",
    strategic_merges_hold: "strategic_merge",
}

fn replay(name: &str) {
    let (_, run) = TARGETS.iter().find(|(target, _)| *target == name).unwrap();
    let corpus = corpus(name);
    let rounds = number("FUZZ_ROUNDS", 200);
    let seed = number("FUZZ_SEED", 28);
    for (at, (file, input)) in corpus.iter().enumerate() {
        check(*run, file, input);
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9).wrapping_add(at as u64 + 1));
        for _ in 0..rounds {
            let (_, other) = &corpus[random.below(corpus.len())];
            let of_values = edit_values(input, other, &mut random);
            let edited = of_values.unwrap_or_else(|| edit_bytes(input, other, &mut random));
            check(*run, file, &edited);
        }
    }
}

fn check(run: fn(&[u8]), file: &Path, input: &[u8]) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| run(input))) {
        eprintln!("failed for {} as:\n{}", file.display(), input.escape_ascii());
        resume_unwind(panic);
    }
}

/// One to four edits of values in the parts that are JSON, which stay JSON; `None` for other inputs and for
/// half of these.
fn edit_values(input: &[u8], other: &[u8], random: &mut Random) -> Option<Vec<u8>> {
    let mut parts = all_parts(input);
    let donors: Vec<Value> =
        all_parts(other).iter().filter_map(|part| serde_json::from_slice(part).ok()).collect();
    if random.below(2) == 0 || donors.is_empty() {
        return None;
    }
    for _ in 0..=random.below(4) {
        let part = random.below(parts.len());
        let Ok(mut document) = serde_json::from_slice::<Value>(&parts[part]) else { continue };
        let donor = &donors[random.below(donors.len())];
        let given = pointers(donor);
        let given = donor.pointer(&given[random.below(given.len())])?.clone();
        let places = pointers(&document);
        let place = document.pointer_mut(&places[random.below(places.len())])?;
        edit_value(place, given, random);
        parts[part] = document.to_string().into_bytes();
    }
    Some(parts.join(&b"\n---\n"[..]))
}

fn edit_value(place: &mut Value, given: Value, random: &mut Random) {
    match (place, random.below(4)) {
        (Value::Array(items), 0) if !items.is_empty() => {
            items.remove(random.below(items.len()));
        }
        (Value::Array(items), 1) if !items.is_empty() => {
            items.push(items[random.below(items.len())].clone());
        }
        (Value::Array(items), 2) => items.insert(random.below(items.len() + 1), given),
        (Value::Object(members), 0 | 1) if !members.is_empty() => {
            let name = members.keys().nth(random.below(members.len())).cloned();
            members.remove(&name.unwrap_or_default());
        }
        (Value::Object(members), 2) => match given {
            Value::Object(others) => members.extend(others),
            given => drop(members.insert(String::new(), given)),
        },
        (place, 3) => *place = Value::Null,
        (place, _) => *place = given,
    }
}

/// The places of all values in a document.
fn pointers(document: &Value) -> Vec<String> {
    let mut found = vec![String::new()];
    let mut below = |name: &str, value: &Value| {
        let name = name.replace('~', "~0").replace('/', "~1");
        found.extend(pointers(value).iter().map(|rest| format!("/{name}{rest}")));
    };
    match document {
        Value::Object(members) => members.iter().for_each(|(name, value)| below(name, value)),
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(at, value)| below(&at.to_string(), value));
        }
        _ => {}
    }
    found
}

fn all_parts(input: &[u8]) -> Vec<Vec<u8>> {
    match parts::<2>(input) {
        Some([first, rest]) => [vec![first.to_vec()], all_parts(rest)].concat(),
        None => vec![input.to_vec()],
    }
}

/// One to four small edits of an input.
fn edit_bytes(input: &[u8], other: &[u8], random: &mut Random) -> Vec<u8> {
    let mut edited = input.to_vec();
    for _ in 0..=random.below(4) {
        let at = random.below(edited.len() + 1);
        let end = at + random.below((edited.len() - at).min(40) + 1);
        match random.below(6) {
            0 => drop(edited.drain(at..end)),
            1 => {
                let copied = edited[at..end].to_vec();
                drop(edited.splice(end..end, copied));
            }
            2 => {
                let token = TOKENS[random.below(TOKENS.len())];
                drop(edited.splice(at..at, token.bytes()));
            }
            3 => {
                let from = random.below(other.len() + 1);
                let to = from + random.below((other.len() - from).min(60) + 1);
                drop(edited.splice(at..end, other[from..to].iter().copied()));
            }
            4 => edited.truncate(at.max(1)),
            _ => {
                if let Some(byte) = edited.get_mut(at) {
                    *byte ^= 1 << random.below(8);
                }
            }
        }
    }
    edited
}

fn corpus(name: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = fuzz().join("corpus").join(name);
    let files = names_in(&folder).into_iter().map(|file| folder.join(file));
    files.map(|file| (file.clone(), fs::read(file).unwrap())).collect()
}

/// In the order of names, so that the edits are the same on every machine.
fn names_in(folder: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(folder).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

fn fuzz() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

// === impl Random ===

impl Random {
    /// A number below `bound`, or 0. This is xorshift64*.
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let mixed = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33;
        usize::try_from(mixed).unwrap_or(0) % bound.max(1)
    }
}
