//! Rows of access and leases.

use serde_json::Value;

use super::{
    AGE, Definition, NAME, Printer,
    read::{age, items, name, text},
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

pub(super) fn printer(group: &str, kind: &str) -> Option<&'static Printer> {
    Some(match (group, kind) {
        ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding") => &BINDING,
        ("coordination.k8s.io", "Lease") => &LEASE,
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
