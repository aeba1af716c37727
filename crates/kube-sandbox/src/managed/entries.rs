//! `metadata.managedFields`: one entry per manager and operation.
//!
//! Entries are identified by manager, operation and subresource, and those of updates also by the
//! API version of the write. Their order in the object is fixed, and the number of updaters is
//! limited: past [`UPDATERS_MAX`] the oldest are merged into `ancient-changes`.

use jiff::Timestamp;
use serde_json::{Map, Value};

use super::fields::FieldSet;
use crate::types::format_time;

/// Maximum number of updating (not applying) managers of an object.
const UPDATERS_MAX: usize = 10;

const ANCIENT: &str = "ancient-changes";

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Operation {
    Apply,
    Update,
}

/// Identity of an entry. The order is the one of conflict messages.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Owner {
    pub manager: String,
    pub operation: Operation,
    /// Empty for appliers, whose entry is the same for all versions.
    pub api_version: String,
    pub subresource: String,
}

/// One item of `metadata.managedFields`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub owner: Owner,
    pub api_version: String,
    pub time: Option<Timestamp>,
    pub fields: FieldSet,
}

/// All of `metadata.managedFields`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ManagedFields(pub Vec<Entry>);

// === impl ManagedFields ===

impl ManagedFields {
    /// Reads the list of an object; nothing is no entries.
    pub(crate) fn decode(list: Option<&Value>) -> Result<Self, String> {
        let mut managed = Self::default();
        let entries = match list {
            None | Some(Value::Null) => return Ok(managed),
            Some(Value::Array(entries)) => entries,
            Some(_) => return Err("managedFields must be a list".to_owned()),
        };
        for (place, entry) in entries.iter().enumerate() {
            managed.put(Entry::decode(entry, place)?);
        }
        Ok(managed)
    }

    /// The list as it stands in an object, or nothing when there is no entry.
    pub(crate) fn encode(mut self) -> Option<Value> {
        self.0.sort_by(|left, right| left.place().cmp(&right.place()));
        (!self.0.is_empty()).then(|| self.0.iter().map(Entry::encode).collect())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn take(&mut self, owner: &Owner) -> Option<Entry> {
        let at = self.0.iter().position(|entry| entry.owner == *owner)?;
        Some(self.0.swap_remove(at))
    }

    /// Inserts an entry, replacing the one of the same owner.
    pub(super) fn put(&mut self, entry: Entry) {
        match self.0.iter_mut().find(|present| present.owner == entry.owner) {
            Some(present) => *present = entry,
            None => self.0.push(entry),
        }
    }

    /// Removes `fields` from all owners. An entry without fields is dropped.
    pub(super) fn disown(&mut self, fields: &FieldSet) {
        if fields.is_empty() {
            return;
        }
        self.0.retain_mut(|entry| {
            entry.fields.subtract(fields);
            !entry.fields.is_empty()
        });
    }

    /// Merges the oldest updaters of each version until the limit is met.
    pub(super) fn forget_ancient(&mut self) {
        let is_updater = |entry: &Entry| entry.owner.operation == Operation::Update;
        let mut count = self.0.iter().filter(|entry| is_updater(entry)).count();
        if count <= UPDATERS_MAX {
            return;
        }
        let mut oldest: Vec<_> = self.0.iter().filter(|entry| is_updater(entry)).collect();
        oldest.sort_by_key(|entry| (entry.seconds(), &entry.owner));
        let oldest: Vec<_> = oldest.into_iter().map(|entry| entry.owner.clone()).collect();

        // The first entry of a version becomes the bucket once there is a second one to merge.
        let mut firsts: Vec<Owner> = Vec::new();
        for owner in oldest {
            if count <= UPDATERS_MAX {
                return;
            }
            let Some(at) = firsts.iter().position(|it| it.api_version == owner.api_version) else {
                firsts.push(owner);
                continue;
            };
            let bucket = Owner {
                manager: ANCIENT.to_owned(),
                operation: Operation::Update,
                api_version: owner.api_version.clone(),
                subresource: String::new(),
            };
            let first = firsts.get(at).cloned();
            for merged in first.into_iter().chain([owner]) {
                count -= usize::from(self.pour(&merged, &bucket));
            }
            firsts.retain(|it| it.api_version != bucket.api_version);
            firsts.push(bucket);
        }
    }

    /// Moves the fields of `from` into the entry of `into`; true if that removed an entry.
    fn pour(&mut self, from: &Owner, into: &Owner) -> bool {
        if from == into {
            return false;
        }
        let Some(poured) = self.take(from) else { return false };
        if let Some(bucket) = self.0.iter_mut().find(|entry| entry.owner == *into) {
            bucket.fields = std::mem::take(&mut bucket.fields).union(poured.fields);
            bucket.time = bucket.time.max(poured.time);
            return true;
        }
        self.0.push(Entry { owner: into.clone(), ..poured });
        false
    }
}

// === impl Entry ===

impl Entry {
    fn decode(entry: &Value, place: usize) -> Result<Self, String> {
        let text = |name: &str| entry.get(name).and_then(Value::as_str).unwrap_or_default();
        let operation = match text("operation") {
            "Apply" => Operation::Apply,
            "Update" => Operation::Update,
            _ => return Err("operation must be `Apply` or `Update`".to_owned()),
        };
        let api_version = text("apiVersion");
        if api_version.is_empty() {
            return Err("apiVersion must not be empty".to_owned());
        }
        match text("fieldsType") {
            "FieldsV1" => {}
            "" => return Err(format!("missing fieldsType in managed fields entry {place}")),
            other => {
                return Err(format!(
                    "invalid fieldsType {other:?} in managed fields entry {place}"
                ));
            }
        }
        let time = match entry.get("time") {
            None | Some(Value::Null) => None,
            Some(time) => {
                let time = time.as_str().and_then(|time| time.parse().ok());
                Some(time.ok_or_else(|| format!("invalid time in managed fields entry {place}"))?)
            }
        };
        let fields = match entry.get("fieldsV1") {
            None | Some(Value::Null) => FieldSet::default(),
            Some(fields) => FieldSet::from_json(fields)?,
        };
        let owner = Owner::new(text("manager"), operation, api_version, text("subresource"));
        Ok(Self { owner, api_version: api_version.to_owned(), time, fields })
    }

    fn encode(&self) -> Value {
        let mut entry = Map::new();
        let operation = match self.owner.operation {
            Operation::Apply => "Apply",
            Operation::Update => "Update",
        };
        let mut put = |name: &str, value: Value| entry.insert(name.to_owned(), value);
        put("apiVersion", self.api_version.as_str().into());
        put("fieldsType", "FieldsV1".into());
        put("fieldsV1", self.fields.to_json());
        put("manager", self.owner.manager.as_str().into());
        put("operation", operation.into());
        if !self.owner.subresource.is_empty() {
            put("subresource", self.owner.subresource.as_str().into());
        }
        if let Some(time) = self.time {
            put("time", format_time(time).into());
        }
        Value::Object(entry)
    }

    /// Stored times have whole seconds.
    fn seconds(&self) -> i64 {
        self.time.map_or(0, Timestamp::as_second)
    }

    fn place(&self) -> (Operation, i64, &str, &str, &str) {
        let Owner { manager, operation, subresource, .. } = &self.owner;
        (*operation, self.seconds(), manager, &self.api_version, subresource)
    }
}

// === impl Owner ===

impl Owner {
    pub(super) fn new(
        manager: &str,
        operation: Operation,
        api_version: &str,
        subresource: &str,
    ) -> Self {
        let api_version = match operation {
            Operation::Apply => String::new(),
            Operation::Update => api_version.to_owned(),
        };
        let (manager, subresource) = (manager.to_owned(), subresource.to_owned());
        Self { manager, operation, api_version, subresource }
    }
}

/// Manager in a conflict message: `"kubectl-edit" with subresource "status" using apps/v1`.
impl std::fmt::Display for Owner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.manager)?;
        if !self.subresource.is_empty() {
            write!(f, " with subresource {:?}", self.subresource)?;
        }
        match self.operation {
            Operation::Apply => Ok(()),
            Operation::Update => write!(f, " using {}", self.api_version),
        }
    }
}
