//! The API server without a socket: executes requests synchronously.
//!
//! A [`Request`] is who asks for what, with a body; [`Server::execute`] checks permission, carries it
//! out in one transaction of the store, and writes the request log. The control loops ([`local`]) and
//! HTTP ([`crate::http`], by way of `Server::admit`) both come through here, so they meet the same rules.
//!
//! ```text
//! http ──► Request ──► execute ──► read | write | patching | delete | scale | pods | review
//!                         │                 │
//!   rbac, request log ◄───┘                 └──► rules (builtin strategies, CRD schemas) ──► store
//! ```

use std::{
    collections::BTreeMap,
    sync::{Arc, atomic::AtomicU64},
};

use bytes::Bytes;
use parking_lot::{Mutex, RwLock};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::{
    clock::Clock,
    crd::{self, Crd},
    failure::{Failure, Outcome},
    faults::Faults,
    random::Random,
    rbac::Authorizer,
    registry::{Registry, ResourceDef},
    request::{RequestInfo, Verb},
    request_log::RequestLog,
    server::{addresses::Addresses, options::Query},
    store::{Store, Stored, TableKey},
};

mod addresses;
mod convert;
mod decode;
pub(crate) mod delete;
mod eviction;
mod execute;
mod internal;
pub mod local;
pub mod options;
mod patching;
mod pods;
pub(crate) mod read;
mod review;
pub(crate) mod rules;
mod scale;
mod slim;
mod snapshot;
mod users;
mod write;

pub(crate) use self::read::Selection;
pub(crate) use self::{
    convert::bytes as version_bytes,
    execute::{LogEntry, Logged},
    rules::{deprecation, empty_object},
};
pub use self::{snapshot::Snapshot, users::User};
pub(crate) use crate::types::format_time as timestamp_text;

/// Settings that a cluster's administrator would choose.
#[derive(Debug, Clone)]
pub struct ServerSettings {
    /// Enforce Roles and Bindings. Off: every request is allowed.
    pub rbac: bool,
    /// Seed of names, UIDs and addresses.
    pub seed: u64,
    /// Events kept per kind for watches that resume.
    pub history_max: usize,
}

/// One API server and its storage.
pub struct Server {
    /// The objects.
    pub store: Store,
    /// The time in the cluster.
    pub clock: Clock,
    /// Fault injection.
    pub faults: Faults,
    /// The request log.
    pub log: RequestLog,
    /// The settings it was made with.
    pub settings: ServerSettings,
    pub(crate) random: Random,
    registry: RwLock<Arc<Registry>>,
    authorizer: RwLock<Arc<Authorizer>>,
    addresses: Mutex<Addresses>,
    tokens: Mutex<BTreeMap<String, User>>,
    interrupts: Arc<watch::Sender<u64>>,
    definitions: Mutex<Definitions>,
    /// How often it was put back to a snapshot.
    restores: AtomicU64,
}

/// Cache of parsed CRDs by UID and revision: each is large, and all are needed when one changes.
type Definitions = BTreeMap<(Arc<str>, u64), Arc<Definition>>;

/// The parts of a stored CRD that the registry and other CRDs need.
pub(crate) struct Definition {
    generation: i64,
    is_established: bool,
    /// The CRD with its name, group and accepted names only.
    pub(crate) claims: Value,
    /// `None` if it does not parse.
    crd: Option<Arc<Crd>>,
}

/// A client's request.
#[derive(Debug, Clone)]
pub struct Request {
    /// Verb, resource and user.
    pub info: RequestInfo,
    /// The query string.
    pub query: Query,
    /// The body.
    pub body: Body,
    /// The client's `User-Agent`: the field manager of requests without one.
    pub agent: String,
    /// Fault injection: answer a read as of this revision.
    pub stale_at: Option<u64>,
}

/// A request's body, raw or (from within the process) already parsed.
#[derive(Debug, Clone, Default)]
pub enum Body {
    /// No body.
    #[default]
    Empty,
    /// Bytes, as they came.
    Raw {
        /// The media type.
        content_type: String,
        /// The bytes.
        bytes: Bytes,
    },
    /// An object, from within the process.
    Object(Value),
}

/// Result of a request.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The HTTP status.
    pub code: u16,
    /// The body, before it is rendered.
    pub content: Content,
    /// Texts of the header `Warning`.
    pub warnings: Vec<String>,
}

/// The content of an answer, before it is rendered as JSON, YAML, Table or protobuf.
#[derive(Debug, Clone)]
pub enum Content {
    /// One object.
    Object(Value),
    /// An object exactly as stored, in the requested version.
    Stored(Arc<Stored>),
    /// Many objects.
    List(Box<read::ListAnswer>),
    /// Plain text: a log.
    Text(String),
}

/// A request with its resolved resource.
pub(crate) struct Call<'r> {
    pub request: &'r Request,
    pub def: Arc<ResourceDef>,
    pub registry: Arc<Registry>,
}

// === impl ServerSettings ===

impl Default for ServerSettings {
    fn default() -> Self {
        // Ten thousand events cover minutes of a busy cluster and, at 1 KiB each, take 10 MiB at
        // most.
        Self { rbac: false, seed: 1, history_max: 10_000 }
    }
}

// === impl Server ===

impl Server {
    /// An empty server.
    pub fn new(clock: Clock, settings: ServerSettings) -> Self {
        let random = Random::seeded(settings.seed);
        let store = Store::new(settings.history_max);
        Self::over(store, random, clock, settings)
    }

    /// An independent server with copies of this one's objects, definitions and permissions.
    #[must_use]
    pub fn fork(&self, clock: Clock, settings: ServerSettings) -> Self {
        // Names and UIDs must not repeat.
        let random = self.random.branch(settings.seed);
        let store = self.store.fork(settings.history_max);
        let forked = Self::over(store, random, clock, settings);
        let authorizer = self.authorizer.read();
        Self {
            registry: RwLock::new(self.registry()),
            authorizer: RwLock::new(Arc::clone(&authorizer)),
            addresses: Mutex::new(self.addresses.lock().clone()),
            tokens: Mutex::new(self.tokens.lock().clone()),
            definitions: Mutex::new(self.definitions.lock().clone()),
            ..forked
        }
    }

    fn over(store: Store, random: Random, clock: Clock, settings: ServerSettings) -> Self {
        let faults = Faults::seeded(random.next_u64());
        let interrupts = Arc::new(watch::Sender::new(0));
        let waker = Arc::downgrade(&interrupts);
        faults.on_interruption(move || {
            if let Some(interrupts) = waker.upgrade() {
                interrupts.send_modify(|count| *count += 1);
            }
        });
        Self {
            store,
            clock,
            faults,
            interrupts,
            definitions: Mutex::default(),
            restores: AtomicU64::default(),
            log: RequestLog::new(),
            random,
            registry: RwLock::new(Arc::new(Registry::builtin())),
            authorizer: RwLock::new(Arc::new(Authorizer::default())),
            addresses: Mutex::new(Addresses::default()),
            tokens: Mutex::new(BTreeMap::new()),
            settings,
        }
    }

    /// The resources it serves at the moment.
    pub fn registry(&self) -> Arc<Registry> {
        Arc::clone(&self.registry.read())
    }

    /// The resource of a request, or the 404 of an unknown path.
    pub fn resolve(&self, info: &RequestInfo) -> Outcome<Arc<ResourceDef>> {
        let found = self.registry().find(&info.group, &info.version, &info.resource);
        let def = found.ok_or_else(Failure::no_such_path)?;
        let is_everywhere = matches!(info.verb, Verb::List | Verb::Watch);
        let own_namespace = info.resource == "namespaces";
        if def.namespaced && info.namespace.is_empty() && !is_everywhere {
            // `POST /api/v1/pods` lacks a namespace for the pod, but the path exists for `GET`.
            let has_path = info.name.is_empty() && !def.is_custom() && !def.is_review();
            return Err(if has_path {
                Failure::method_not_allowed()
            } else {
                Failure::no_such_path()
            });
        }
        if !def.namespaced && !info.namespace.is_empty() && !own_namespace {
            return Err(Failure::no_such_path());
        }
        if !info.subresource.is_empty() && !def.has(&info.subresource) {
            return Err(if def.is_custom() {
                Failure::not_found(&info.group, &info.resource, &info.name)
            } else {
                Failure::no_such_path()
            });
        }
        Ok(def)
    }

    /// Executes an authorized request without logging it.
    pub(crate) fn perform(&self, request: &Request) -> Outcome<Answer> {
        let def = self.resolve(&request.info)?;
        let deprecation = rules::deprecation(&def);
        let mut answer = self.dispatch(request, def)?;
        answer.warnings.splice(0..0, deprecation);
        Ok(answer)
    }

    fn dispatch(&self, request: &Request, def: Arc<ResourceDef>) -> Outcome<Answer> {
        let call = Call { request, def, registry: self.registry() };
        let info = &request.info;
        if call.def.is_review() && info.verb == Verb::Create {
            return self.review(&call);
        }
        if !call.allows(info.verb) {
            return Err(call.method_not_allowed());
        }
        if info.name.is_empty() && matches!(info.verb, Verb::Update | Verb::Patch) {
            return Err(if call.def.is_custom() {
                Failure::bad_request("name must be provided")
            } else {
                Failure::method_not_allowed()
            });
        }
        match (info.subresource.as_str(), info.verb) {
            ("scale", _) => self.scale(&call),
            ("log", Verb::Get) => self.pod_log(&call),
            ("binding", _) => self.bind_pod(&call),
            ("eviction", _) => self.evict_pod(&call),
            ("token", _) => self.issue_token(&call),
            (_, Verb::Get) => self.get(&call),
            (_, Verb::List) => self.list(&call),
            (_, Verb::Create) => self.create(&call),
            (_, Verb::Update) => self.update(&call),
            (_, Verb::Patch) => self.patch(&call),
            (_, Verb::Delete) => self.delete(&call),
            (_, Verb::DeleteCollection) => self.delete_collection(&call),
            _ => Err(call.method_not_allowed()),
        }
    }

    /// Updates registry and authorizer after a change in a table.
    pub(crate) fn after_write(&self, table: &TableKey) {
        match (&*table.group, &*table.plural) {
            ("apiextensions.k8s.io", "customresourcedefinitions") => self.reload_registry(),
            ("rbac.authorization.k8s.io", _) => self.reload_authorizer(),
            _ => {}
        }
    }

    fn reload_registry(&self) {
        let (_, stored) = self.store.list(&crd_table(), None);
        let mut crds = Vec::new();
        let mut kept = BTreeMap::new();
        for stored in stored {
            let definition = self.definition(&stored);
            if let Some(crd) = definition.crd.as_ref().filter(|_| definition.is_established) {
                crds.push((Arc::clone(crd), definition.generation > 1));
            }
            kept.insert((Arc::clone(&stored.uid), stored.revision), definition);
        }
        *self.definitions.lock() = kept;
        let registry = Arc::new(Registry::with_crds(&crds));
        *self.registry.write() = registry;
        // Watches of a kind that is no longer served look up and end.
        self.interrupts.send_modify(|count| *count += 1);
    }

    /// The parsed form of a stored CRD, cached.
    pub(crate) fn definition(&self, stored: &Stored) -> Arc<Definition> {
        let mut known = self.definitions.lock();
        let key = (Arc::clone(&stored.uid), stored.revision);
        if let Some(definition) = known.get(&key) {
            return Arc::clone(definition);
        }
        let object = stored.value();
        let generation = object["metadata"]["generation"].as_i64().unwrap_or_default();
        // A change of status leaves the rules as they are, and compiling them is slow.
        let revisions = (Arc::clone(&stored.uid), 0)..=(Arc::clone(&stored.uid), u64::MAX);
        let mut compiled = known.range(revisions).map(|(_, definition)| definition);
        let crd = match compiled.find(|before| before.generation == generation) {
            Some(before) => before.crd.clone(),
            None => crd::parse(&object).ok().map(Arc::new),
        };
        let claims = json!({
            "metadata": { "name": object["metadata"]["name"] },
            "spec": { "group": object["spec"]["group"] },
            "status": { "acceptedNames": object["status"]["acceptedNames"] },
        });
        let is_established = is_established(&object);
        let definition = Arc::new(Definition { generation, is_established, claims, crd });
        known.insert(key, Arc::clone(&definition));
        definition
    }

    /// Whether objects of `def` are still served.
    pub(crate) fn serves(&self, def: &ResourceDef) -> bool {
        !def.is_custom() || self.registry().find(&def.group, &def.version, &def.plural).is_some()
    }

    fn reload_authorizer(&self) {
        let kinds = ["roles", "rolebindings", "clusterroles", "clusterrolebindings"];
        let tables = kinds.map(|kind| TableKey::new("rbac.authorization.k8s.io", kind));
        let objects: Vec<Value> = tables
            .iter()
            .flat_map(|table| self.store.list(table, None).1)
            .map(|stored| stored.value())
            .collect();
        let authorizer = Arc::new(Authorizer::new(&objects));
        *self.authorizer.write() = authorizer;
    }

    /// A random identifier in the form of an RFC 4122 UUID, from the sandbox's seed.
    pub(crate) fn new_uid(&self) -> String {
        let (high, low) = (self.random.next_u64(), self.random.next_u64());
        format!(
            "{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
            high >> 32,
            (high >> 16) & 0xffff,
            high & 0xfff,
            0x8000 | ((low >> 48) & 0x3fff),
            low & 0xffff_ffff_ffff,
        )
    }

    /// The current time as stored in objects: RFC 3339 in whole seconds.
    pub(crate) fn now_text(&self) -> String {
        timestamp_text(self.clock.now())
    }
}

pub(crate) fn crd_table() -> TableKey {
    TableKey::new("apiextensions.k8s.io", "customresourcedefinitions")
}

/// False for a CRD whose names conflict with another's; it serves nothing.
fn is_established(crd: &Value) -> bool {
    let conditions = crd["status"]["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().any(|c| c["type"] == "Established" && c["status"] == "True")
}

// === impl Call ===

impl Call<'_> {
    fn allows(&self, verb: Verb) -> bool {
        let subresource = self.request.info.subresource.as_str();
        let verbs = if subresource.is_empty() {
            self.def.verbs()
        } else {
            ResourceDef::subresource_verbs(subresource)
        };
        verbs.contains(&verb.as_str())
    }

    /// The error of the router for built-in resources, and one that names the resource for custom
    /// ones.
    pub(crate) fn method_not_allowed(&self) -> Failure {
        let info = &self.request.info;
        if self.def.is_custom() {
            Failure::method_not_supported(&info.group, &info.resource, info.verb.as_str())
        } else {
            Failure::method_not_allowed()
        }
    }

    pub(crate) fn not_found(&self) -> Failure {
        let info = &self.request.info;
        Failure::not_found(&info.group, &info.resource, &info.name)
    }

    /// Namespace of the addressed object; `""` for a namespace itself.
    pub(crate) fn namespace(&self) -> &str {
        if self.def.namespaced { &self.request.info.namespace } else { "" }
    }
}

// === impl Answer ===

impl Answer {
    pub(crate) fn new(code: u16, content: Content) -> Self {
        Self { code, content, warnings: Vec::new() }
    }

    pub(crate) fn object(code: u16, object: Value) -> Self {
        Self::new(code, Content::Object(object))
    }

    /// The `Status` of a success without an object.
    pub(crate) fn success(code: u16, details: &Value) -> Self {
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
        });
        if details.is_null() {
            status["code"] = code.into();
        } else {
            status["details"] = details.clone();
        }
        Self::object(code, status)
    }

    /// The object in the answer, parsed.
    pub fn into_value(self) -> Value {
        match self.content {
            Content::Object(object) => object,
            Content::Stored(stored) => stored.value(),
            Content::List(list) => list.to_value(),
            Content::Text(text) => Value::String(text),
        }
    }
}
