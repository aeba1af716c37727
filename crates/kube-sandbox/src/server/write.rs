//! POST and PUT requests: one object in one transaction, with all rules of its kind.
//!
//! The server calls it for both verbs, and `patching` and `scale` for the updates that they
//! compute. Order of a create: defaults, name, field ownership, system fields, validation,
//! allocation, store. A failed write leaves no trace, and a dry run returns the result without
//! storing it.

use std::{collections::BTreeSet, sync::Arc};

use serde_json::Value;

use super::{
    Answer, Call, Content, Definition, Server, convert, crd_table,
    decode::invalid,
    options::WriteOptions,
    rules::{self, WriteTo},
};
use crate::{
    builtin, crd,
    failure::{Cause, Failure, FieldError, Outcome},
    managed, names,
    registry::ResourceDef,
    request::{RequestInfo, Verb},
    store::{ObjectKey, Stored, TableKey, Transaction, to_bytes},
};

/// As in the real server: etcd refuses requests above 1.5 MiB.
const OBJECT_BYTES_MAX: usize = 1_572_864;

/// Maximum number of attempts to generate a free name from `generateName`.
const GENERATE_TRIES: usize = 8;

/// Ownership of the fields that a write sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ownership {
    /// The manager in the options owns its changes.
    Track,
    /// Already computed by server-side apply.
    Settled,
}

/// The context of a write to objects of one kind.
pub(super) struct Write<'a> {
    pub def: &'a Arc<ResourceDef>,
    pub options: &'a WriteOptions,
    pub to: WriteTo,
    pub ownership: Ownership,
}

// === impl Server ===

impl Server {
    pub(super) fn create(&self, call: &Call<'_>) -> Outcome<Answer> {
        let request = call.request;
        let options = WriteOptions::parse(&request.query, "CreateOptions", &request.agent)?;
        if !request.info.name.is_empty() {
            return Err(call.method_not_allowed());
        }
        let (mut object, mut warnings) = call.body_object_with(&options)?;
        warnings.extend(drop_repeated_owners(&mut object));
        let def = convert::working_def(&call.registry, &call.def);
        let write = Write {
            def: &def,
            options: &options,
            to: WriteTo::Object,
            ownership: Ownership::Track,
        };
        let tx = self.store.begin();
        let created = place_in_namespace(call, &mut object)
            .and_then(|()| self.create_object(&tx, &write, object));
        let (created, more) = created.map_err(|failure| failure.warning_of(&warnings))?;
        Ok(finish(call, 201, created, warnings, more))
    }

    /// Stores a new object, already decoded and in its namespace, and returns it with warnings.
    pub(super) fn create_object(
        &self,
        tx: &Transaction<'_>,
        write: &Write<'_>,
        mut object: Value,
    ) -> Outcome<(Value, Vec<String>)> {
        let Write { def, options, .. } = *write;
        self.check_admission(def, &object)?;
        check_priority(def, &object)?;
        // Defaults derived from a generated name are not set yet.
        rules::default(def, &mut object, write.ownership);
        self.name_object(tx, def, &mut object)?;
        let meta = rules::metadata(&mut object);
        for stale in ["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"] {
            meta.remove(stale);
        }
        // Ownership is computed before admission and the kind's preparations: fields set by those
        // have no owner.
        if write.ownership == Ownership::Track {
            self.track(write, None, &mut object);
        }
        rules::prepare_create(def, &mut object);
        let meta = rules::metadata(&mut object);
        meta.insert("uid".into(), self.new_uid().into());
        meta.insert("creationTimestamp".into(), self.now_text().into());
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let errors = rules::validate(def, &object);
        if !errors.is_empty() {
            return Err(invalid(def, &name, &errors));
        }
        if !matches!(object["metadata"]["resourceVersion"].as_str(), None | Some("" | "0")) {
            let why = "resourceVersion should not be set on objects to be created";
            return Err(Failure::unclassified(why));
        }
        let key = ObjectKey::of(&object);
        if let Some(old) = tx.get(&def.table, &key) {
            let mut failure = Failure::already_exists(&def.group, &def.plural, &name);
            if !old.value()["metadata"]["deletionTimestamp"].is_null() {
                failure.message = format!("object is being deleted: {}", failure.message);
            }
            return Err(failure);
        }
        let warnings = rules::warnings(def, None, &object);
        let before = self.allocate(def, None, &mut object, options.dry_run)?;
        let created = self.commit(tx, write, object).inspect_err(|_| self.restore(before))?;
        Ok((created, warnings))
    }

    /// Creates the missing object of a PUT or an apply. This requires the permission to create.
    pub(super) fn create_absent(
        &self,
        tx: &Transaction<'_>,
        call: &Call<'_>,
        write: &Write<'_>,
        mut object: Value,
    ) -> Outcome<(Value, Vec<String>)> {
        let info = RequestInfo { verb: Verb::Create, ..call.request.info.clone() };
        self.authorize(&info)?;
        rules::metadata(&mut object).remove("resourceVersion");
        self.create_object(tx, write, object)
    }

    pub(super) fn update(&self, call: &Call<'_>) -> Outcome<Answer> {
        let request = call.request;
        let options = WriteOptions::parse(&request.query, "UpdateOptions", &request.agent)?;
        let (mut object, mut warnings) = call.body_object_with(&options)?;
        warnings.extend(drop_repeated_owners(&mut object));
        let updated = self.update_decoded(call, &options, object);
        let (code, updated, more) = updated.map_err(|failure| failure.warning_of(&warnings))?;
        Ok(finish(call, code, updated, warnings, more))
    }

    /// Status code, stored object and warnings.
    fn update_decoded(
        &self,
        call: &Call<'_>,
        options: &WriteOptions,
        mut object: Value,
    ) -> Outcome<(u16, Value, Vec<String>)> {
        let request = call.request;
        place_in_namespace(call, &mut object)?;
        check_name(&request.info.name, &object)?;
        let def = convert::working_def(&call.registry, &call.def);
        let to = WriteTo::of(&request.info.subresource);
        let write = Write { def: &def, options, to, ownership: Ownership::Track };
        let tx = self.store.begin();
        let key = ObjectKey::new(call.namespace(), &request.info.name);
        let Some(old) = tx.get(&def.table, &key) else {
            if to == WriteTo::Object && rules::creates_on_update(&def) {
                check_uid(&def, &key, "", &object)?;
                let (created, more) = self.create_absent(&tx, call, &write, object)?;
                return Ok((201, created, more));
            }
            return Err(call.not_found());
        };
        check_uid(&def, &key, &old.uid, &object)?;
        let (updated, more) = self.update_object(&tx, &write, &old, object)?;
        Ok((200, updated, more))
    }

    /// Replaces `old` by `new` as far as the kind's rules allow, and returns the stored object.
    pub(super) fn update_object(
        &self,
        tx: &Transaction<'_>,
        write: &Write<'_>,
        old: &Stored,
        mut new: Value,
    ) -> Outcome<(Value, Vec<String>)> {
        let Write { def, options, .. } = *write;
        let mut live = convert::to_version(def, old.value());
        check_revision(def, old, &new)?;
        rules::default(def, &mut new, write.ownership);
        if write.ownership == Ownership::Track {
            self.track(write, Some(&live), &mut new);
        }
        rules::prepare_update(def, write.to, &mut new, &live);
        builtin::keep_system_metadata(&mut new, &live);
        rules::bump_generation(def, write.to, &mut new, &live);
        refuse_repeated_port(def, &new)?;
        let errors = rules::validate_update(def, write.to, &new, &live);
        if !errors.is_empty() {
            return Err(invalid(def, &old.key.name, &errors));
        }
        // A write to a subresource gets no warnings about the rest of the object.
        let warnings = match write.to {
            rules::WriteTo::Object => rules::warnings(def, Some(&live), &new),
            _ => Vec::new(),
        };
        rules::metadata(&mut new).insert("resourceVersion".into(), old.revision.to_string().into());
        if rules::is_done_deleting(&new) {
            // The client that removed the last finalizer gets the object as it wrote it.
            self.remove(tx, def, new.clone(), options.dry_run);
            return Ok((new, warnings));
        }
        let before = self.allocate(def, Some(&live), &mut new, options.dry_run)?;
        rules::metadata(&mut live)
            .insert("resourceVersion".into(), old.revision.to_string().into());
        if managed::is_same_but_for_times(&live, &new) {
            return Ok((live, warnings));
        }
        let updated = self.commit(tx, write, new).inspect_err(|_| self.restore(before))?;
        Ok((updated, warnings))
    }

    /// Writes the object, or returns the result of a dry run.
    fn commit(&self, tx: &Transaction<'_>, write: &Write<'_>, mut object: Value) -> Outcome<Value> {
        let def = write.def;
        convert::to_storage(def, &mut object);
        let too_large = || Failure::unclassified("etcdserver: request is too large");
        // An object that is too large is stored without its field ownership.
        let may_forget = write.ownership == Ownership::Track;
        if write.options.dry_run {
            let fits = |object: &Value| to_bytes(object).len() <= OBJECT_BYTES_MAX;
            if !fits(&object) && may_forget {
                rules::metadata(&mut object).remove("managedFields");
            }
            let answer = fits(&object).then(|| convert::to_version(def, object));
            return answer.ok_or_else(too_large);
        }
        let mut stored = tx.put_within(&def.table, &mut object, OBJECT_BYTES_MAX);
        if stored.is_none() && may_forget {
            rules::metadata(&mut object).remove("managedFields");
            stored = tx.put_within(&def.table, &mut object, OBJECT_BYTES_MAX);
        }
        let stored = stored.ok_or_else(too_large)?;
        if def.table == crd_table() {
            return Ok(self.settle_crd(tx, &stored).value());
        }
        self.after_write(&def.table);
        Ok(convert::to_version(def, object))
    }

    /// Removes an object from the store.
    pub(super) fn remove(
        &self,
        tx: &Transaction<'_>,
        def: &ResourceDef,
        mut last: Value,
        dry_run: bool,
    ) -> Value {
        convert::to_storage(def, &mut last);
        if dry_run {
            return convert::to_version(def, last);
        }
        self.release(def, &last);
        // Watchers get the stored state, not the one in the removing request.
        let stored = tx.get(&def.table, &ObjectKey::of(&last)).map(|stored| stored.value());
        let stored = tx.remove(&def.table, stored.unwrap_or(last));
        self.after_write(&def.table);
        convert::to_version(def, stored.value())
    }

    /// Sets the status of a CRD, which the API machinery would write a moment later.
    fn settle_crd(&self, tx: &Transaction<'_>, stored: &Arc<Stored>) -> Arc<Stored> {
        let mut object = stored.value();
        let others: Vec<Arc<Definition>> = tx
            .list(&crd_table(), None)
            .iter()
            .filter(|other| other.uid != stored.uid)
            .map(|other| self.definition(other))
            .collect();
        let conflicts = crd::conflicts(&object, others.iter().map(|other| &other.claims));
        let status = crd::accepted_status(&object, &self.now_text(), &conflicts);
        if object["status"] == status {
            self.after_write(&crd_table());
            return Arc::clone(stored);
        }
        object["status"] = status;
        let settled = tx.put(&crd_table(), object);
        self.after_write(&crd_table());
        settled
    }

    fn track(&self, write: &Write<'_>, live: Option<&Value>, new: &mut Value) {
        let def = write.def;
        let subresource = write.to.subresource();
        let empty = if live.is_none() { rules::skeleton(def) } else { None };
        let change = managed::Write {
            manager: &write.options.field_manager,
            api_version: &def.api_version(),
            kind: &def.kind,
            subresource,
            now: self.clock.now(),
            reset: rules::reset_fields(def, write.to),
            empty: empty.as_ref(),
        };
        managed::on_update(live, new, &rules::shape(def), &change);
    }

    /// A new object needs an existing namespace and definition that are not being deleted.
    fn check_admission(&self, def: &ResourceDef, object: &Value) -> Outcome<()> {
        let text = |key: &str| object["metadata"][key].as_str().filter(|text| !text.is_empty());
        // The name is not generated yet.
        let name = text("name").or_else(|| text("generateName")).unwrap_or("Unknown");
        let is_going = |table: &TableKey, name: &str| {
            let found = self.store.get(table, &ObjectKey::new("", name))?;
            Some(found.deleting)
        };
        if let Some((crd, _)) = def.custom()
            && is_going(&crd_table(), &format!("{}.{}", def.plural, crd.group)) == Some(true)
        {
            let why = "create not allowed while custom resource definition is terminating";
            return Err(Failure::forbidden(&def.group, &def.plural, name, why));
        }
        if !def.namespaced {
            return Ok(());
        }
        let namespace = text("namespace").unwrap_or_default();
        match is_going(&TableKey::new("", "namespaces"), namespace) {
            None => Err(Failure::not_found("", "namespaces", namespace)),
            Some(false) => Ok(()),
            Some(true) => {
                let why = format!(
                    "unable to create new content in namespace {namespace} because it is being \
                     terminated"
                );
                let mut failure = Failure::forbidden(&def.group, &def.plural, name, &why);
                failure.causes.push(Cause {
                    reason: "NamespaceTerminating".into(),
                    message: format!("namespace {namespace} is being terminated"),
                    field: "metadata.namespace".into(),
                });
                Err(failure)
            }
        }
    }

    /// Generates a name from `generateName` if there is none.
    fn name_object(
        &self,
        tx: &Transaction<'_>,
        def: &ResourceDef,
        object: &mut Value,
    ) -> Outcome<()> {
        let meta = rules::metadata(object);
        let text = |key: &str| meta.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (name, prefix, namespace) = (text("name"), text("generateName"), text("namespace"));
        if !name.is_empty() || prefix.is_empty() {
            return Ok(());
        }
        let mut made = String::new();
        for _ in 0..GENERATE_TRIES {
            made = names::generate(&prefix, self.random.next_u64());
            if tx.get(&def.table, &ObjectKey::new(&namespace, &made)).is_none() {
                meta.insert("name".into(), made.into());
                return Ok(());
            }
        }
        let mut failure = Failure::already_exists(&def.group, &def.plural, &made);
        failure
            .message
            .push_str(", the server was not able to generate a unique name for the object");
        failure.retry_after_s = Some(1);
        Err(failure)
    }
}

/// The answer to a write: the object in the requested version.
pub(super) fn finish(
    call: &Call<'_>,
    code: u16,
    object: Value,
    mut warnings: Vec<String>,
    more: Vec<String>,
) -> Answer {
    warnings.extend(more);
    let object = convert::to_version(&call.def, object);
    Answer { code, content: Content::Object(object), warnings }
}

/// The namespace in the body must be the one in the path, or missing.
pub(super) fn place_in_namespace(call: &Call<'_>, object: &mut Value) -> Outcome<()> {
    let namespace = call.namespace().to_owned();
    if object.get("metadata").is_some_and(|meta| !meta.is_object() && !meta.is_null()) {
        let error = FieldError::type_invalid("metadata", "string", "must be an object");
        return Err(invalid(&call.def, "", &[error]));
    }
    let meta = rules::metadata(object);
    let given = meta.get("namespace").and_then(Value::as_str).unwrap_or_default();
    if namespace.is_empty() {
        meta.remove("namespace");
        return Ok(());
    }
    if !given.is_empty() && given != namespace {
        let why = "the namespace of the provided object does not match the namespace sent on the \
                   request";
        return Err(Failure::bad_request(why));
    }
    meta.insert("namespace".into(), namespace.into());
    Ok(())
}

pub(super) fn check_name(want: &str, object: &Value) -> Outcome<()> {
    match object["metadata"]["name"].as_str().unwrap_or_default() {
        "" => Err(Failure::bad_request(format!(
            "the name of the object ({want} based on URL) was undeterminable: name must be provided"
        ))),
        given if given == want => Ok(()),
        given => Err(Failure::bad_request(format!(
            "the name of the object ({given}) does not match the name on the URL ({want})"
        ))),
    }
}

/// A pod's priority must be that of its class.
fn check_priority(def: &ResourceDef, object: &Value) -> Outcome<()> {
    let given = object["spec"]["priority"].as_i64();
    let class = object["spec"]["priorityClassName"].as_str().unwrap_or_default();
    if def.kind != "Pod" || given.is_none_or(|given| given == builtin::pod_priority(class)) {
        return Ok(());
    }
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let why = "spec.priority is not what the priority class of the pod amounts to";
    Err(Failure::forbidden(&def.group, &def.plural, name, why))
}

/// The node port allocator checks a changed Service first, and its error has no reason.
fn refuse_repeated_port(def: &ResourceDef, new: &Value) -> Outcome<()> {
    if !def.group.is_empty() || def.kind != "Service" {
        return Ok(());
    }
    let mut seen = BTreeSet::new();
    for slot in builtin::service_node_port_slots(new) {
        let (Some(_), Some(port)) = (slot.index, slot.wanted) else { continue };
        if !seen.insert((slot.protocol.clone(), port)) {
            let why = format!("duplicate nodePort: {{{} {port}}}", slot.protocol);
            return Err(Failure::unclassified(why));
        }
    }
    Ok(())
}

/// Removes duplicate owner references, with a warning.
fn drop_repeated_owners(object: &mut Value) -> Option<String> {
    let owners = object["metadata"].get_mut("ownerReferences")?.as_array_mut()?;
    let mut seen: Vec<Value> = Vec::new();
    let mut repeated = Vec::new();
    for owner in owners.drain(..) {
        if seen.contains(&owner) {
            repeated.push(owner["uid"].as_str().unwrap_or_default().to_owned());
        } else {
            seen.push(owner);
        }
    }
    *owners = seen;
    (!repeated.is_empty()).then(|| {
        format!(
            ".metadata.ownerReferences contains duplicate entries; API server dedups owner \
             references in 1.20+, and may reject such requests as early as 1.24; please fix your \
             requests; duplicate UID(s) observed: {}",
            repeated.join(", ")
        )
    })
}

/// A PUT with a UID applies to that object only. The error text is that of the storage layer.
fn check_uid(def: &ResourceDef, key: &ObjectKey, have: &str, new: &Value) -> Outcome<()> {
    let uid = new["metadata"]["uid"].as_str().unwrap_or_default();
    if uid.is_empty() || uid == have {
        return Ok(());
    }
    let why = format!(
        "StorageError: invalid object, Code: 4, Key: {}, ResourceVersion: 0, AdditionalErrorMsg: \
         Precondition failed: UID in precondition: {uid}, UID in object meta: {have}",
        storage_key(def, key)
    );
    Err(Failure::conflict(&def.group, &def.plural, &key.name, &why))
}

/// The etcd key of an object in a real server.
fn storage_key(def: &ResourceDef, key: &ObjectKey) -> String {
    let place = match (def.group.as_str(), def.plural.as_str()) {
        ("", "endpoints") => "services/endpoints".to_owned(),
        ("", "nodes") => "minions".to_owned(),
        ("", "services") => "services/specs".to_owned(),
        ("networking.k8s.io", "ingresses") => "ingress".to_owned(),
        (group, plural) if def.is_custom() => format!("{group}/{plural}"),
        (_, plural) => plural.to_owned(),
    };
    match &*key.namespace {
        "" => format!("/registry/{place}/{}", key.name),
        namespace => format!("/registry/{place}/{namespace}/{}", key.name),
    }
}

/// A resource version in the body must be the current one; some kinds require one.
fn check_revision(def: &ResourceDef, old: &Stored, new: &Value) -> Outcome<()> {
    let name = &old.key.name;
    let text = new["metadata"]["resourceVersion"].as_str().unwrap_or_default();
    let given: u64 = match text {
        "" => 0,
        text => text.parse().map_err(|_| {
            Failure::unclassified(format!("strconv.ParseUint: parsing {text:?}: invalid syntax"))
        })?,
    };
    if given == 0 && rules::allows_unconditional_update(def) {
        return Ok(());
    }
    if given == 0 {
        let path = "metadata.resourceVersion";
        let error = FieldError::invalid(path, &0.into(), "must be specified for an update");
        return Err(Failure::invalid(&def.group, &def.plural, name, &[error]));
    }
    if given == old.revision {
        return Ok(());
    }
    Err(Failure::stale(&def.group, &def.plural, name))
}
