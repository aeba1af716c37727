//! Gates in a `ConfigMap`, which several load testers may share.
//!
//! It is read before every answer and written with the version it was read at: of two writes at once
//! one is repeated after another read, so a step is granted once, by any of the load testers.

use std::{
    collections::BTreeMap,
    future::Future,
    time::{Duration, Instant},
};

use k8s_openapi::{api::core::v1::ConfigMap, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::{Api, Client, api::PostParams};
use tokio::runtime::Handle;

use super::{Key, Opening, entries, of_entries};

/// Where gates are kept.
#[derive(Clone)]
pub struct ConfigMapStore {
    api: Api<ConfigMap>,
    name: String,
    handle: Handle,
}

/// Gates as they were read, with their ConfigMap.
pub(super) struct Loaded {
    pub(super) gates: BTreeMap<Key, Opening>,
    /// Nothing if there is none yet.
    object: Option<ConfigMap>,
}

/// Errors of a `ConfigMap`.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("the API server does not give it, or does not take it")]
    Server(#[source] Box<kube::Error>),
    #[error("the API server did not answer in time")]
    Late,
    #[error("its key `{DATA}` does not hold gates")]
    Malformed(#[source] serde_json::Error),
    #[error("others changed it each time")]
    Contended,
}

/// The key of its data that gates are in.
const DATA: &str = "gates.json";
/// For one call, if there is so much left.
const PATIENCE: Duration = Duration::from_secs(5);

// === impl ConfigMapStore ===

impl ConfigMapStore {
    /// The `ConfigMap` called `place`, `namespace/name` or a name in the namespace of the client. Must be
    /// called in a runtime, and used outside of its tasks: it waits for the server.
    pub fn new(client: Client, place: &str) -> Self {
        let (namespace, name) = match place.split_once('/') {
            Some((namespace, name)) => (namespace.to_owned(), name.to_owned()),
            None => (client.default_namespace().to_owned(), place.to_owned()),
        };
        Self { api: Api::namespaced(client, &namespace), name, handle: Handle::current() }
    }

    pub(super) fn load(&self, deadline: Instant) -> Result<Loaded, StoreError> {
        let object = self.wait(self.api.get_opt(&self.name), deadline)?;
        let text = object.as_ref().and_then(|it| it.data.as_ref()?.get(DATA));
        let gates = match text {
            Some(text) => serde_json::from_str(text).map_err(StoreError::Malformed)?,
            None => Vec::new(),
        };
        Ok(Loaded { gates: of_entries(gates), object })
    }

    /// Whether it was written. If not, another client changed it since it was read.
    pub(super) fn save(
        &self,
        read: Option<ConfigMap>,
        gates: &BTreeMap<Key, Opening>,
        deadline: Instant,
    ) -> Result<bool, StoreError> {
        let text = serde_json::to_string_pretty(&entries(gates)).map_err(StoreError::Malformed)?;
        let params = PostParams::default();
        let outcome = if let Some(mut object) = read {
            object.data.get_or_insert_default().insert(DATA.to_owned(), text);
            self.wait(self.api.replace(&self.name, &params, &object), deadline)
        } else {
            let object = ConfigMap {
                metadata: ObjectMeta { name: Some(self.name.clone()), ..ObjectMeta::default() },
                data: Some(BTreeMap::from([(DATA.to_owned(), text)])),
                ..ConfigMap::default()
            };
            self.wait(self.api.create(&params, &object), deadline)
        };
        match outcome {
            Ok(_) => Ok(true),
            // It was changed, made or deleted meanwhile.
            Err(StoreError::Server(error)) if is_race(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn wait<T>(
        &self,
        asked: impl Future<Output = Result<T, kube::Error>>,
        deadline: Instant,
    ) -> Result<T, StoreError> {
        let patience = PATIENCE.min(deadline.saturating_duration_since(Instant::now()));
        let answer = self.handle.block_on(async { tokio::time::timeout(patience, asked).await });
        answer.map_err(|_| StoreError::Late)?.map_err(|error| StoreError::Server(Box::new(error)))
    }
}

impl std::fmt::Debug for ConfigMapStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ConfigMapStore").field("name", &self.name).finish_non_exhaustive()
    }
}

// === impl Loaded ===

impl Loaded {
    pub(super) fn into_parts(self) -> (BTreeMap<Key, Opening>, Option<ConfigMap>) {
        (self.gates, self.object)
    }
}

fn is_race(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 409 || status.code == 404)
}

#[cfg(test)]
mod tests;
