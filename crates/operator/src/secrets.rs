//! Reads Secrets when they are needed, past the cache, which does not keep their contents.

use std::{collections::BTreeMap, ops::Deref};

use serde_json::Value;
use tidegate_providers::workload::SECRET;

use crate::cluster::{
    Cluster,
    write::{Place, WriteError},
};

/// The contents of a Secret. Never printed, and overwritten in memory when dropped.
pub(crate) struct SecretData(BTreeMap<String, Vec<u8>>);

/// A Secret as the API server has it.
pub(crate) async fn read(cluster: &Cluster, namespace: &str, name: &str) -> Result<Value, String> {
    let place = Place { kind: SECRET, namespace, name, subresource: "" };
    match cluster.read(place).await {
        Ok(Some(secret)) => Ok(secret),
        Ok(None) => Err(format!("Secret {namespace}/{name} does not exist")),
        Err(WriteError::Refused { .. }) => {
            Err(format!("Secret {namespace}/{name} may not be read"))
        }
        Err(_) => Err(format!("Secret {namespace}/{name} cannot be read now")),
    }
}

// === impl SecretData ===

impl SecretData {
    /// The contents of a Secret.
    pub(crate) async fn read(
        cluster: &Cluster,
        namespace: &str,
        name: &str,
    ) -> Result<Self, String> {
        Ok(Self::of(&read(cluster, namespace, name).await?))
    }

    /// Entries that cannot be decoded are left out.
    pub(crate) fn of(secret: &Value) -> Self {
        let entries = secret["data"].as_object().into_iter().flatten();
        let decoded = entries.filter_map(|(name, value)| {
            let bytes: k8s_openapi::ByteString = serde_json::from_value(value.clone()).ok()?;
            Some((name.clone(), bytes.0))
        });
        Self(decoded.collect())
    }
}

impl Deref for SecretData {
    type Target = BTreeMap<String, Vec<u8>>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl Drop for SecretData {
    fn drop(&mut self) {
        self.0.values_mut().for_each(zeroize::Zeroize::zeroize);
    }
}
