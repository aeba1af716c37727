//! The `AlertProvider` kind: a chat service that rollouts report to.
//!
//! The schema refuses an object with both `address` and `secretRef`, as Flagger's does; an object
//! that has both anyway decodes, and the Secret wins.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{metric_template::SecretRef, schema::one_set_of};

custom_resource! {
    /// A chat service that rollouts report to, shared by canaries.
    AlertProvider {
        group: "flagger.app",
        version: "v1beta1",
        plural: "alertproviders",
        spec: AlertProviderSpec,
    }
}

/// A chat service and how to reach it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("oneOf" = one_set_of(&[&["type", "address"], &["type", "secretRef"]])))]
pub struct AlertProviderSpec {
    /// The kind of service.
    #[serde(rename = "type")]
    pub provider_type: AlertProviderType,
    /// Channel to write to, for `slack`, `discord` and `rocket`. Default `general`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub channel: Option<String>,
    /// Name to write under, for `slack`, `discord` and `rocket`. Default `flagger`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub username: Option<String>,
    /// URL of the hook. Excludes `secretRef`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// URL of the HTTP proxy to go through.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proxy: Option<String>,
    /// Secret in the namespace of the provider with the key `address` and, for `slack` and
    /// `webhook`, the key `token`. Excludes `address`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<SecretRef>,
}

text_enum! {
    /// The kinds of chat service.
    closed AlertProviderType {
        /// Slack, or anything with its hooks.
        Slack = "slack",
        /// Microsoft Teams.
        MsTeams = "msteams",
        /// Discord.
        Discord = "discord",
        /// Rocket.Chat.
        Rocket = "rocket",
        /// Google Chat.
        GoogleChat = "gchat",
        /// Any HTTP server: it is sent plain JSON. Not a value of Flagger's.
        Webhook = "webhook",
    }
}

// === impl AlertProviderSpec ===

impl AlertProviderSpec {
    /// Channel to write to.
    pub fn channel(&self) -> &str {
        self.channel.as_deref().filter(|channel| !channel.is_empty()).unwrap_or("general")
    }

    /// Name to write under.
    pub fn username(&self) -> &str {
        self.username.as_deref().filter(|username| !username.is_empty()).unwrap_or("flagger")
    }
}
