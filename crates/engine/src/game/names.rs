//! Names of revisions and hashes of lists of steps.
//!
//! The name of a revision is a hash of its template as the user stored it, with two members that are
//! added in a fixed way. Nothing else about it may ever change: a new name is a new revision, and a
//! new revision rolls every workload.

use crate::{Revision, game::Json};

/// Digits are written as these letters, so that no name reads as a word.
const LETTERS: [char; 10] = ['4', '5', '6', '7', '8', '9', 'b', 'c', 'd', 'f'];
/// Bytes of a workload's name that a revision's name keeps: 223, a hyphen and a hash are less than
/// the 253 that any name may have.
const WORKLOAD_BYTES_MAX: usize = 223;

/// The data of a revision: all of the template, which replaces the one that is there.
pub fn revision_data(template: &Json) -> String {
    let mut template = template.clone();
    if let Json::Object(members) = &mut template {
        members.insert("$patch".to_owned(), Json::text("replace"));
        let metadata = members.entry("metadata".to_owned()).or_insert_with(|| Json::object([]));
        set_absent(metadata, "creationTimestamp", &Json::Null);
        if let Some(Json::Object(spec)) = members.get_mut("spec") {
            for list in ["containers", "initContainers"] {
                if let Some(Json::List(containers)) = spec.get_mut(list) {
                    for container in containers {
                        set_absent(container, "resources", &Json::object([]));
                    }
                }
            }
        }
    }
    Json::object([("spec", Json::object([("template", template)]))]).compact()
}

/// The name of the revision with this data, if so many others had its name already.
pub fn revision_name(workload: &str, data: &str, collisions: u32) -> Revision {
    let hash = letters(fnv1(data.bytes().chain(collisions.to_string().bytes())));
    let mut end = workload.len().min(WORKLOAD_BYTES_MAX);
    while !workload.is_char_boundary(end) {
        end -= 1;
    }
    let kept = workload.get(..end).unwrap_or(workload);
    Revision::new(format!("{kept}-{hash}"))
}

/// A revision there is, by its data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredRevision {
    /// Its name.
    pub name: Revision,
    /// Newer ones have larger numbers.
    pub number: i64,
    /// Its data.
    pub data: String,
}

/// How the revision of a template comes about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RevisionChoice {
    /// It is the newest already.
    Use(Revision),
    /// It exists and is an older one: it becomes the newest again, as in a rollback.
    Renumber(Revision, i64),
    /// It is made, after so many others had its name.
    Create {
        /// Its name.
        name: Revision,
        /// Its number.
        number: i64,
        /// Times its name was taken by another template.
        collisions: u32,
    },
}

/// Which revision a template is. Data is compared byte by byte.
pub fn choose_revision(
    workload: &str,
    data: &str,
    stored: &[StoredRevision],
    collisions: u32,
) -> RevisionChoice {
    let newest = stored.iter().map(|known| known.number).max().unwrap_or(0);
    // Of several with the same data the newest counts.
    let same = stored.iter().filter(|known| known.data == data).max_by_key(|known| known.number);
    if let Some(same) = same {
        if same.number == newest {
            return RevisionChoice::Use(same.name.clone());
        }
        return RevisionChoice::Renumber(same.name.clone(), newest.saturating_add(1));
    }
    let mut collisions = collisions;
    loop {
        let name = revision_name(workload, data, collisions);
        if !stored.iter().any(|known| known.name == name) {
            return RevisionChoice::Create { name, number: newest.saturating_add(1), collisions };
        }
        collisions = collisions.wrapping_add(1);
    }
}

/// A hash of the steps, without anything that is a default: the same however they were written.
pub fn steps_hash(steps: &Json) -> String {
    letters(fnv1a(steps.compact().bytes()))
}

fn set_absent(object: &mut Json, name: &str, value: &Json) {
    if let Json::Object(members) = object {
        members.entry(name.to_owned()).or_insert_with(|| value.clone());
    }
}

fn letters(hash: u32) -> String {
    let digits = hash.to_string();
    digits.bytes().filter_map(|digit| LETTERS.get(usize::from(digit - b'0'))).collect()
}

const FNV_OFFSET: u32 = 2_166_136_261;
const FNV_PRIME: u32 = 16_777_619;

fn fnv1(bytes: impl Iterator<Item = u8>) -> u32 {
    bytes.fold(FNV_OFFSET, |hash, byte| hash.wrapping_mul(FNV_PRIME) ^ u32::from(byte))
}

fn fnv1a(bytes: impl Iterator<Item = u8>) -> u32 {
    bytes.fold(FNV_OFFSET, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(FNV_PRIME))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seed(image: &str) -> Json {
        let port = Json::object([("containerPort", Json::Int(8000)), ("name", Json::text("http"))]);
        let args = ["-m", "http.server", "8000"].map(Json::text).to_vec();
        let container = Json::object([
            ("name", Json::text("python")),
            ("image", Json::text(image)),
            ("imagePullPolicy", Json::text("IfNotPresent")),
            ("command", Json::List(vec![Json::text("python")])),
            ("args", Json::List(args)),
            ("ports", Json::List(vec![port])),
        ]);
        let labels = Json::object([("app", Json::text("test-gamedeployment"))]);
        Json::object([
            ("metadata", Json::object([("labels", labels)])),
            ("spec", Json::object([("containers", Json::List(vec![container]))])),
        ])
    }

    fn name(template: &Json) -> String {
        revision_name("test-gamedeployment", &revision_data(template), 0).to_string()
    }

    #[test]
    fn revisions_are_called_as_in_the_documentation() {
        assert_eq!(name(&seed("python:latest")), "test-gamedeployment-67864c6f65");
        assert_eq!(name(&seed("python:3.5")), "test-gamedeployment-9d78dd5db");
    }

    #[test]
    fn the_documented_sample_of_a_hook_is_called_as_in_the_documentation() {
        let port = Json::object([("containerPort", Json::Int(9091)), ("name", Json::text("http"))]);
        let container = Json::object([
            ("name", Json::text("pre-delete-hook")),
            ("image", Json::text("canary-hook:test")),
            ("imagePullPolicy", Json::text("IfNotPresent")),
            ("ports", Json::List(vec![port])),
        ]);
        let labels = Json::object([("app", Json::text("test-gamedeployment"))]);
        let template = Json::object([
            ("metadata", Json::object([("labels", labels)])),
            ("spec", Json::object([("containers", Json::List(vec![container]))])),
        ]);
        assert_eq!(name(&template), "test-gamedeployment-767bfd8bcc");
    }

    // Game workloads, mistake 40: docs/mistakes.md.
    #[test]
    fn an_added_member_may_as_well_be_written_out() {
        let mut written = seed("python:3.5");
        if let Json::Object(members) = &mut written
            && let Some(Json::Object(spec)) = members.get_mut("spec")
            && let Some(Json::List(containers)) = spec.get_mut("containers")
        {
            set_absent(&mut containers[0], "resources", &Json::object([]));
        }
        assert_eq!(name(&written), name(&seed("python:3.5")));
    }

    #[test]
    fn a_collision_gives_another_name_and_a_long_workload_a_shorter_one() {
        let data = revision_data(&seed("a"));
        assert_ne!(revision_name("w", &data, 0), revision_name("w", &data, 1));
        let long = "x".repeat(300);
        assert!(revision_name(&long, &data, 0).as_str().len() <= 223 + 11);
    }

    #[test]
    fn a_template_is_used_renumbered_or_made() {
        let stored = |name: &Revision, number, data: &str| StoredRevision {
            name: name.clone(),
            number,
            data: data.to_owned(),
        };
        let (one, two) = (revision_data(&seed("a")), revision_data(&seed("b")));
        let first =
            RevisionChoice::Create { name: revision_name("w", &one, 0), number: 1, collisions: 0 };
        assert_eq!(choose_revision("w", &one, &[], 0), first);
        let (a, b) = (revision_name("w", &one, 0), revision_name("w", &two, 0));
        let both = [stored(&a, 1, &one), stored(&b, 2, &two)];
        assert_eq!(choose_revision("w", &two, &both, 0), RevisionChoice::Use(b));
        assert_eq!(choose_revision("w", &one, &both, 0), RevisionChoice::Renumber(a.clone(), 3));
        let clash = [stored(&a, 1, "something else")];
        let RevisionChoice::Create { name, collisions, .. } = choose_revision("w", &one, &clash, 0)
        else {
            panic!("it is not there yet");
        };
        assert_eq!((collisions, name == a), (1, false));
    }

    #[test]
    fn steps_in_another_order_have_another_hash() {
        let step = |count| Json::object([("partition", Json::Int(count))]);
        assert_ne!(
            steps_hash(&Json::List(vec![step(3), step(2)])),
            steps_hash(&Json::List(vec![step(2), step(3)]))
        );
    }
}
