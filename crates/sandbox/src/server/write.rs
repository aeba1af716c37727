//! Create and update: one object, one transaction, all the rules.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{
    Answer, Call, Content, Server, convert, crd_table,
    decode::invalid,
    options::WriteOptions,
    rules::{self, WriteTo},
};
use crate::{
    crd,
    failure::{Cause, Failure, FieldError, Outcome},
    managed, names,
    registry::ResourceDef,
    store::{ObjectKey, Stored, TableKey, Transaction, to_bytes},
};

/// etcd refuses requests above 1.5 MiB, and so the real server does.
const OBJECT_BYTES_MAX: usize = 1_572_864;

/// Names made from `generateName` that are taken are made anew this often.
const GENERATE_TRIES: usize = 8;

/// Who will own the fields that a write sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ownership {
    /// The manager named in the options, for what it changed.
    Track,
    /// Already settled by server-side apply.
    Settled,
}

/// A write about to happen to objects of one kind.
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
            let info = &request.info;
            return Err(Failure::method_not_supported(&info.group, &info.resource, "create"));
        }
        let (mut object, warnings) = call.body_object_with(&options)?;
        place_in_namespace(call, &mut object)?;
        let def = convert::working_def(&call.registry, &call.def);
        let write = Write {
            def: &def,
            options: &options,
            to: WriteTo::Object,
            ownership: Ownership::Track,
        };
        let tx = self.store.begin();
        let (created, more) = self.create_object(&tx, &write, object)?;
        Ok(finish(call, 201, created, warnings, more))
    }

    /// Stores a new object, decoded and in its namespace, and returns it with warnings.
    pub(super) fn create_object(
        &self,
        tx: &Transaction<'_>,
        write: &Write<'_>,
        mut object: Value,
    ) -> Outcome<(Value, Vec<String>)> {
        let Write { def, options, .. } = *write;
        if object["metadata"]["resourceVersion"].as_str().is_some_and(|text| !text.is_empty()) {
            let why = "resourceVersion should not be set on objects to be created";
            return Err(Failure::new(500, "", why));
        }
        self.check_namespace(def, &object)?;
        self.name_object(tx, def, &mut object)?;
        rules::default(def, &mut object);
        rules::prepare_create(def, &mut object);
        let meta = rules::metadata(&mut object);
        for stale in ["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"] {
            meta.remove(stale);
        }
        meta.insert("uid".into(), self.new_uid().into());
        meta.insert("creationTimestamp".into(), self.now_text().into());
        if write.ownership == Ownership::Track {
            self.track(write, None, &mut object);
        }
        self.allocate(def, None, &mut object, options.dry_run)?;
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let errors = rules::validate(def, &object);
        if !errors.is_empty() {
            return Err(invalid(def, &name, &errors));
        }
        let key = ObjectKey::of(&object);
        if tx.get(&def.table, &key).is_some() {
            return Err(Failure::already_exists(&def.group, &def.plural, &name));
        }
        let warnings = rules::warnings(def, &object);
        let created = self.commit(tx, def, object, options.dry_run)?;
        Ok((created, warnings))
    }

    pub(super) fn update(&self, call: &Call<'_>) -> Outcome<Answer> {
        let request = call.request;
        let options = WriteOptions::parse(&request.query, "UpdateOptions", &request.agent)?;
        let (mut object, warnings) = call.body_object_with(&options)?;
        place_in_namespace(call, &mut object)?;
        check_name(call, &mut object)?;
        let def = convert::working_def(&call.registry, &call.def);
        let to = WriteTo::of(&request.info.subresource);
        let write = Write { def: &def, options: &options, to, ownership: Ownership::Track };
        let tx = self.store.begin();
        let key = ObjectKey::new(call.namespace(), &request.info.name);
        let Some(old) = tx.get(&def.table, &key) else {
            if to == WriteTo::Object && rules::creates_on_update(&def) {
                let (created, more) = self.create_object(&tx, &write, object)?;
                return Ok(finish(call, 201, created, warnings, more));
            }
            return Err(call.not_found());
        };
        let (updated, more) = self.update_object(&tx, &write, &old, object)?;
        Ok(finish(call, 200, updated, warnings, more))
    }

    /// Replaces `old` by `new` as far as the kind's rules let it, and returns what is stored then.
    pub(super) fn update_object(
        &self,
        tx: &Transaction<'_>,
        write: &Write<'_>,
        old: &Stored,
        mut new: Value,
    ) -> Outcome<(Value, Vec<String>)> {
        let Write { def, options, .. } = *write;
        let mut live = convert::to_version(def, old.value());
        check_preconditions(write, &live, &new)?;
        rules::default(def, &mut new);
        rules::prepare_update(def, write.to, &mut new, &live);
        keep_metadata(&mut new, &live);
        if write.ownership == Ownership::Track {
            self.track(write, Some(&live), &mut new);
        }
        self.allocate(def, Some(&live), &mut new, options.dry_run)?;
        rules::bump_generation(def, write.to, &mut new, &live);
        let errors = rules::validate_update(def, write.to, &new, &live);
        if !errors.is_empty() {
            return Err(invalid(def, &old.key.name, &errors));
        }
        let warnings = rules::warnings(def, &new);
        rules::metadata(&mut new).insert("resourceVersion".into(), old.revision.to_string().into());
        if rules::is_done_deleting(&new) {
            return Ok((self.remove(tx, def, new, options.dry_run), warnings));
        }
        rules::metadata(&mut live)
            .insert("resourceVersion".into(), old.revision.to_string().into());
        if managed::is_same_but_for_times(&live, &new) {
            return Ok((live, warnings));
        }
        Ok((self.commit(tx, def, new, options.dry_run)?, warnings))
    }

    /// Writes, or for a dry run only says what would be.
    fn commit(
        &self,
        tx: &Transaction<'_>,
        def: &ResourceDef,
        mut object: Value,
        dry_run: bool,
    ) -> Outcome<Value> {
        convert::to_storage(def, &mut object);
        let too_large = || Failure::too_large("etcdserver: request is too large");
        if dry_run {
            let fits = to_bytes(&object).len() <= OBJECT_BYTES_MAX;
            return if fits { Ok(convert::to_version(def, object)) } else { Err(too_large()) };
        }
        let stored = tx.put_within(&def.table, &mut object, OBJECT_BYTES_MAX);
        let stored = stored.ok_or_else(too_large)?;
        if def.table == crd_table() {
            return Ok(self.settle_crd(tx, &stored).value());
        }
        self.after_write(&def.table);
        Ok(convert::to_version(def, object))
    }

    /// Takes an object out of the store for good.
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
        let stored = tx.remove(&def.table, last);
        self.after_write(&def.table);
        convert::to_version(def, stored.value())
    }

    /// Gives a CRD the status that the API machinery would write a moment later.
    fn settle_crd(&self, tx: &Transaction<'_>, stored: &Arc<Stored>) -> Arc<Stored> {
        let mut object = stored.value();
        let others: Vec<Value> = tx
            .list(&crd_table(), None)
            .iter()
            .filter(|other| other.uid != stored.uid)
            .map(|other| other.value())
            .collect();
        let conflicts = crd::conflicts(&object, &others);
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
        let change = managed::Write {
            manager: &write.options.field_manager,
            api_version: &def.api_version(),
            kind: &def.kind,
            subresource,
            now: self.clock.now(),
            reset: rules::reset_fields(def, write.to),
        };
        let skeleton = if live.is_none() { rules::skeleton(def) } else { None };
        managed::on_update(live.or(skeleton.as_ref()), new, &rules::shape(def), &change);
    }

    /// New objects need a namespace, and a kind, that exists and is not going away.
    fn check_namespace(&self, def: &ResourceDef, object: &Value) -> Outcome<()> {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        if def.is_custom() {
            let crd = ObjectKey::new("", &format!("{}.{}", def.plural, def.group));
            if self.store.get(&crd_table(), &crd).is_some_and(|crd| crd.deleting) {
                let why = "create not allowed while custom resource definition is terminating";
                return Err(Failure::forbidden(&def.group, &def.plural, name, why));
            }
        }
        if !def.namespaced {
            return Ok(());
        }
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
        let key = ObjectKey::new("", namespace);
        let Some(found) = self.store.get(&TableKey::new("", "namespaces"), &key) else {
            return Err(Failure::not_found("", "namespaces", namespace));
        };
        if !found.deleting {
            return Ok(());
        }
        let why = format!(
            "unable to create new content in namespace {namespace} because it is being terminated"
        );
        let mut failure = Failure::forbidden(&def.group, &def.plural, name, &why);
        failure.causes.push(Cause {
            reason: "NamespaceTerminating".into(),
            message: format!("namespace {namespace} is being terminated"),
            field: "metadata.namespace".into(),
        });
        Err(failure)
    }

    /// Makes a name from `generateName` if there is none.
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
            if name.is_empty() {
                let error =
                    FieldError::required("metadata.name", "name or generateName is required");
                return Err(invalid(def, "", &[error]));
            }
            return Ok(());
        }
        for _ in 0..GENERATE_TRIES {
            let made = names::generate(&prefix, self.random.next_u64());
            if tx.get(&def.table, &ObjectKey::new(&namespace, &made)).is_none() {
                meta.insert("name".into(), made.into());
                return Ok(());
            }
        }
        Err(Failure::already_exists(&def.group, &def.plural, &prefix))
    }
}

/// The answer to a write: the object at the version asked for.
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

/// The namespace in the body is the one in the path, or missing.
fn place_in_namespace(call: &Call<'_>, object: &mut Value) -> Outcome<()> {
    let namespace = call.namespace().to_owned();
    if object.get("metadata").is_some_and(|meta| !meta.is_object() && !meta.is_null()) {
        let error = FieldError::type_invalid("metadata", "string", "must be an object");
        return Err(invalid(&call.def, "", &[error]));
    }
    let meta = rules::metadata(object);
    let given = meta.get("namespace").and_then(Value::as_str).unwrap_or_default();
    if !given.is_empty() && given != namespace {
        return Err(Failure::bad_request(format!(
            "the namespace of the provided object does not match the namespace sent on the request \
             ({given:?} is not {namespace:?})"
        )));
    }
    if namespace.is_empty() {
        meta.remove("namespace");
    } else {
        meta.insert("namespace".into(), namespace.into());
    }
    Ok(())
}

fn check_name(call: &Call<'_>, object: &mut Value) -> Outcome<()> {
    let want = &call.request.info.name;
    let meta = rules::metadata(object);
    match meta.get("name").and_then(Value::as_str).unwrap_or_default() {
        "" => {
            meta.insert("name".into(), want.as_str().into());
            Ok(())
        }
        given if given == want => Ok(()),
        given => Err(Failure::bad_request(format!(
            "the name of the object ({given}) does not match the name on the URL ({want})"
        ))),
    }
}

/// A version or uid in the body must be the current one.
fn check_preconditions(write: &Write<'_>, live: &Value, new: &Value) -> Outcome<()> {
    let def = write.def;
    let name = live["metadata"]["name"].as_str().unwrap_or_default();
    let (old_meta, new_meta) = (&live["metadata"], &new["metadata"]);
    if let Some(uid) = new_meta["uid"].as_str().filter(|uid| !uid.is_empty())
        && Some(uid) != old_meta["uid"].as_str()
    {
        let why = format!(
            "Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
            old_meta["uid"].as_str().unwrap_or_default()
        );
        return Err(Failure::conflict(&def.group, &def.plural, name, &why));
    }
    match new_meta["resourceVersion"].as_str().unwrap_or_default() {
        "" | "0" if rules::allows_unconditional_update(def) => Ok(()),
        "" | "0" => {
            let path = "metadata.resourceVersion";
            let error = FieldError::invalid(path, &json!(0), "must be specified for an update");
            Err(invalid(def, name, &[error]))
        }
        given if Some(given) == old_meta["resourceVersion"].as_str() => Ok(()),
        _ => Err(Failure::stale(&def.group, &def.plural, name)),
    }
}

/// What only the server may set stays as it was.
fn keep_metadata(new: &mut Value, live: &Value) {
    let meta = rules::metadata(new);
    let kept = ["uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"];
    for key in kept.into_iter().chain(["generation", "selfLink"]) {
        match live["metadata"].get(key) {
            Some(value) => meta.insert(key.into(), value.clone()),
            None => meta.remove(key),
        };
    }
    if !meta.contains_key("generateName")
        && let Some(prefix) = live["metadata"].get("generateName")
    {
        meta.insert("generateName".into(), prefix.clone());
    }
}
