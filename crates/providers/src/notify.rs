//! Chat: a notice becomes a request in the format of the service it is for.
//!
//! | type | body | markup |
//! |---|---|---|
//! | `slack`, `discord`, `rocket` | one attachment with fields ([`slack`]) | `mrkdwn`, Markdown |
//! | `msteams` | a `MessageCard` with facts, or an Adaptive Card ([`teams`]) | Markdown and HTML |
//! | `gchat` | a card with sections ([`google_chat`]) | HTML |
//! | `webhook` | plain JSON of our own ([`webhook`]) | none |
//!
//! Texts hold names and errors from outside, so each format makes them harmless in its own markup:
//! no links, no mentions. Addresses and tokens are secret and appear in no error.

mod google_chat;
mod markup;
mod slack;
mod teams;
mod webhook;

use std::{collections::BTreeMap, fmt};

use jiff::Timestamp;
use serde_json::Value;
use tidegate_api::{
    alert_provider::{AlertProviderSpec, AlertProviderType},
    canary::{CanarySpec, Strategy, analysis::AlertSeverity},
};

use crate::request::{AddressError, Request, secret_text};

/// Something people should know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// How bad it is.
    pub severity: Severity,
    /// Name of the canary.
    pub canary: String,
    /// Namespace of the canary.
    pub namespace: String,
    /// The event.
    pub text: String,
    /// More to show, in order.
    pub fields: Vec<Field>,
}

/// How bad something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Good to know.
    Info,
    /// A person may have to act.
    Warn,
    /// Something failed.
    Error,
}

/// A name and a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// The name.
    pub name: String,
    /// The value.
    pub value: String,
}

/// A place notices can be sent to. Prints as its type only.
#[derive(Clone, PartialEq, Eq)]
pub struct Destination {
    /// The kind of service.
    pub service: AlertProviderType,
    /// The proxy to go through, if any.
    pub proxy: Option<String>,
    address: String,
    channel: String,
    username: String,
    token: Option<String>,
    card: Card,
}

/// The format for Teams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Card {
    /// The format of connectors, which Microsoft is retiring; as Flagger.
    #[default]
    Message,
    /// The format of workflows.
    Adaptive,
}

/// Why a notice cannot be sent, or was not delivered. Quotes neither address nor answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotifyError {
    /// The Secret has no usable key of this name.
    #[error("the Secret has no {0:?}")]
    MissingKey(&'static str),
    /// The service needs this and it is empty.
    #[error("{service} needs a {what}")]
    Empty {
        /// The kind of service.
        service: AlertProviderType,
        /// The missing setting.
        what: &'static str,
    },
    /// The address cannot be used.
    #[error("the chat cannot be reached")]
    Address(#[from] AddressError),
    /// A kind of card that Teams does not have.
    #[error("the format in the Secret is neither \"card\" nor \"adaptive\"")]
    Format,
    /// A token that no header can carry.
    #[error("the token is not allowed by HTTP")]
    Token,
    /// The service answered with a refusal.
    #[error("{service} answered {status}")]
    Refused {
        /// The kind of service.
        service: AlertProviderType,
        /// Status of the answer.
        status: u16,
    },
    /// Slack accepted the request and refused the message.
    #[error("slack refused the message: {0}")]
    SlackRefused(String),
}

/// Whether an alert that is set to `configured` reports this.
pub fn should_send(configured: AlertSeverity, severity: Severity) -> bool {
    let least = match configured {
        // As documented for Flagger, which itself sends nothing then.
        AlertSeverity::Unset | AlertSeverity::Info => Severity::Info,
        AlertSeverity::Warn => Severity::Warn,
        AlertSeverity::Error => Severity::Error,
    };
    severity >= least
}

/// The fields of a notice: the cluster if it has a name, and the plan of the rollout if the notice
/// is one that shows it.
pub fn fields(cluster_name: &str, namespace: &str, plan: Option<&CanarySpec>) -> Vec<Field> {
    let mut fields = Vec::new();
    let mut add = |name: &str, value: String| fields.push(Field { name: name.to_owned(), value });
    if !cluster_name.is_empty() {
        add("Cluster", cluster_name.to_owned());
    }
    let Some(spec) = plan else { return fields };
    let target = &spec.target_ref;
    add("Target", format!("{}/{}.{namespace}", target.kind, target.name));
    add("Failed checks threshold", spec.analysis.threshold().to_string());
    add("Progress deadline", format!("{}s", spec.progress_deadline_s()));
    if let Some(routing) = routing(spec) {
        add("Traffic routing", routing);
    }
    fields
}

/// How traffic gets to the canary, in words; nothing if no step is given.
fn routing(spec: &CanarySpec) -> Option<String> {
    let analysis = &spec.analysis;
    let most = analysis.max_weight.unwrap_or(0);
    match (analysis.strategy(), analysis.step_weight, analysis.step_weights.as_deref()) {
        (Strategy::AbTesting, ..) => Some("A/B Testing".to_owned()),
        (Strategy::BlueGreen, ..) => Some("Blue/Green".to_owned()),
        (Strategy::Canary, Some(step), _) if step > 0 => {
            Some(format!("Weight step: {step} max: {most}"))
        }
        (Strategy::Canary, _, Some(steps @ [_, ..])) => {
            let steps: Vec<_> = steps.iter().map(ToString::to_string).collect();
            Some(format!("Weight steps: {} max: {most}", steps.join(",")))
        }
        (Strategy::Canary, ..) => None,
    }
}

// === impl Destination ===

impl Destination {
    /// The place an `AlertProvider` names; `None` if it names none, which is no error.
    ///
    /// `secret` is what its `secretRef` refers to: `address`, which wins over that in the spec; for
    /// Slack and webhooks `token`; for Teams `format`, which is `card` or `adaptive`.
    pub fn of(
        spec: &AlertProviderSpec,
        secret: Option<&BTreeMap<String, Vec<u8>>>,
    ) -> Result<Option<Self>, NotifyError> {
        let key = |key| secret.and_then(|data| data.get(key)).and_then(|value| secret_text(value));
        let address = match &spec.secret_ref {
            Some(_) => Some(key("address").ok_or(NotifyError::MissingKey("address"))?),
            None => spec.address.as_deref().map(str::trim).filter(|address| !address.is_empty()),
        };
        let is_teams = spec.provider_type == AlertProviderType::MsTeams;
        let card = match key("format").filter(|_| is_teams) {
            None | Some("card") => Card::Message,
            Some("adaptive") => Card::Adaptive,
            Some(_) => return Err(NotifyError::Format),
        };
        let proxy = spec.proxy.clone().filter(|proxy| !proxy.is_empty());
        Ok(address.map(|address| Self {
            service: spec.provider_type,
            proxy,
            address: address.to_owned(),
            channel: spec.channel().to_owned(),
            username: spec.username().to_owned(),
            token: key("token").map(str::to_owned),
            card,
        }))
    }

    /// Slack, as the operator's own flags name it.
    pub fn slack(address: &str, channel: &str, username: &str, token: Option<&str>) -> Self {
        Self {
            service: AlertProviderType::Slack,
            proxy: None,
            address: address.to_owned(),
            channel: channel.to_owned(),
            username: username.to_owned(),
            token: token.filter(|token| !token.is_empty()).map(str::to_owned),
            card: Card::default(),
        }
    }

    /// Teams, as the operator's own flags name it.
    pub fn teams(address: &str) -> Self {
        let service = AlertProviderType::MsTeams;
        Self { service, ..Self::slack(address, "", "", None) }
    }

    /// The same through a proxy.
    #[must_use]
    pub fn through(self, proxy: Option<String>) -> Self {
        Self { proxy, ..self }
    }

    /// The request to send. `now` is for services that want the time of the notice.
    pub fn request(&self, notice: &Notice, now: Timestamp) -> Result<Request, NotifyError> {
        use AlertProviderType::{Discord, GoogleChat, MsTeams, Rocket, Slack, Webhook};
        let body = match self.service {
            Slack => self.attachment(notice, slack::Dialect::Slack)?,
            Discord => self.attachment(notice, slack::Dialect::Discord)?,
            Rocket => self.attachment(notice, slack::Dialect::Rocket)?,
            MsTeams => match self.card {
                Card::Message => teams::body(notice),
                Card::Adaptive => teams::adaptive(notice),
            },
            GoogleChat => google_chat::body(notice),
            Webhook => webhook::body(notice, now),
        };
        let mut request = Request::post_json(&self.address, body.to_string().into_bytes())?;
        if self.service == Discord {
            request = slack::for_discord(request)?;
        }
        // Only these two use a token.
        if let (Some(token), Slack | Webhook) = (&self.token, self.service)
            && !request.authorize_bearer(token)
        {
            return Err(NotifyError::Token);
        }
        Ok(request)
    }

    /// Whether the service took the notice.
    pub fn delivered(&self, status: u16, body: &[u8]) -> Result<(), NotifyError> {
        if !(200..300).contains(&status) {
            return Err(NotifyError::Refused { service: self.service, status });
        }
        match self.service {
            AlertProviderType::Slack => slack::taken(body),
            _ => Ok(()),
        }
    }

    fn attachment(&self, notice: &Notice, dialect: slack::Dialect) -> Result<Value, NotifyError> {
        for (what, text) in [("channel", &self.channel), ("username", &self.username)] {
            if text.is_empty() {
                return Err(NotifyError::Empty { service: self.service, what });
            }
        }
        Ok(slack::body(notice, dialect, &self.channel, &self.username))
    }
}

impl fmt::Debug for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Destination({})", self.service)
    }
}

// === impl NotifyError ===

impl NotifyError {
    /// Whether the same notice may be accepted a little later.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Refused { status, .. } => *status == 429 || *status >= 500 && *status != 501,
            Self::SlackRefused(word) => [
                "ratelimited",
                "rate_limited",
                "internal_error",
                "fatal_error",
                "service_unavailable",
            ]
            .contains(&word.as_str()),
            Self::MissingKey(_)
            | Self::Empty { .. }
            | Self::Address(_)
            | Self::Format
            | Self::Token => false,
        }
    }
}

// === impl Notice, Severity ===

impl Notice {
    /// The canary it is about: `podinfo.test`.
    pub fn sender(&self) -> String {
        format!("{}.{}", self.canary, self.namespace)
    }
}

impl Severity {
    /// The word for it, as in `spec.analysis.alerts`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warn => "warn",
            Self::Error => "error",
        }
    }
}

#[cfg(test)]
mod tests;
