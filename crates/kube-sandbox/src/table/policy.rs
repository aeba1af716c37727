//! Rows of RBAC, classes, Leases and admission kinds.

use serde_json::Value;

use super::{
    AGE, Definition, NAME, Printer,
    read::{age, int, items, name, text, text_or},
};

static BINDING: Printer = Printer {
    columns: &[
        NAME,
        Definition("Role", "string", 0, "The role that is granted."),
        AGE,
        Definition("Users", "string", 1, "Users it is granted to."),
        Definition("Groups", "string", 1, "Groups it is granted to."),
        Definition("ServiceAccounts", "string", 1, "Service accounts it is granted to."),
    ],
    cells: |object, now| {
        let role = &object["roleRef"];
        let granted = format!("{}/{}", text(&role["kind"]), text(&role["name"])).into();
        let [users, groups, accounts] =
            ["User", "Group", "ServiceAccount"].map(|kind| Value::from(subjects(object, kind)));
        vec![name(object), granted, age(object, now), users, groups, accounts]
    },
};

static LEASE: Printer = Printer {
    columns: &[NAME, Definition("Holder", "string", 0, "Who holds the lease."), AGE],
    cells: |object, now| {
        vec![name(object), text(&object["spec"]["holderIdentity"]).into(), age(object, now)]
    },
};

static STORAGE_CLASS: Printer = Printer {
    columns: &[
        NAME,
        Definition("Provisioner", "string", 0, "Who makes its volumes."),
        Definition("ReclaimPolicy", "string", 0, "What becomes of released volumes."),
        Definition("VolumeBindingMode", "string", 0, "When volumes are bound."),
        Definition("AllowVolumeExpansion", "string", 0, "Whether volumes may grow."),
        AGE,
    ],
    cells: |object, now| {
        let default = "storageclass.kubernetes.io/is-default-class";
        let is_default = object["metadata"]["annotations"][default] == "true";
        let suffix = if is_default { " (default)" } else { "" };
        vec![
            format!("{}{suffix}", text(&object["metadata"]["name"])).into(),
            text(&object["provisioner"]).into(),
            text_or(&object["reclaimPolicy"], "Delete").into(),
            text_or(&object["volumeBindingMode"], "Immediate").into(),
            object["allowVolumeExpansion"].as_bool().unwrap_or_default().into(),
            age(object, now),
        ]
    },
};

static PRIORITY_CLASS: Printer = Printer {
    columns: &[
        NAME,
        Definition("Value", "integer", 0, "The priority."),
        Definition("Global-Default", "boolean", 0, "Whether pods without a class get it."),
        AGE,
        Definition("PreemptionPolicy", "string", 0, "Whether its pods may displace others."),
    ],
    cells: |object, now| {
        let default = object["globalDefault"].as_bool().unwrap_or_default();
        let policy = text(&object["preemptionPolicy"]).into();
        vec![name(object), int(&object["value"]).into(), default.into(), age(object, now), policy]
    },
};

static WEBHOOKS: Printer = Printer {
    columns: &[NAME, Definition("Webhooks", "integer", 0, "How many webhooks it has."), AGE],
    cells: |object, now| {
        vec![name(object), items(&object["webhooks"]).len().into(), age(object, now)]
    },
};

pub(super) fn printer(group: &str, kind: &str) -> Option<&'static Printer> {
    Some(match (group, kind) {
        ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding") => &BINDING,
        ("coordination.k8s.io", "Lease") => &LEASE,
        ("storage.k8s.io", "StorageClass") => &STORAGE_CLASS,
        ("scheduling.k8s.io", "PriorityClass") => &PRIORITY_CLASS,
        (
            "admissionregistration.k8s.io",
            "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration",
        ) => &WEBHOOKS,
        _ => return None,
    })
}

fn subjects(binding: &Value, kind: &str) -> String {
    let wanted = items(&binding["subjects"]).iter().filter(|subject| subject["kind"] == *kind);
    let shown = wanted.map(|subject| match kind {
        "ServiceAccount" => format!("{}/{}", text(&subject["namespace"]), text(&subject["name"])),
        _ => text(&subject["name"]).to_owned(),
    });
    shown.collect::<Vec<_>>().join(", ")
}
