//! Events, event hooks and chat messages.

use tidegate_sandbox::cluster::Resource;

pub(crate) const ALERT_PROVIDERS: Resource =
    Resource { group: "flagger.app", plural: "alertproviders" };
