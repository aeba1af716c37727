//! The table of built-in kinds, one row per kind. [`super::strategy`] looks kinds up in it.
//!
//! A row names only what differs from [`NAMESPACED`] or [`CLUSTER_WIDE`].

use serde_json::Value;

use super::{
    Rules, Strategy, at::same, autoscaler, cluster_kinds, config, edit, endpoints, event, network,
    pod, policy, service, service_rules, warnings, workload, workload_rules,
};
use crate::{failure::FieldError, names::NameRule};

/// Steps of a kind about which nothing is special.
const PLAIN: Rules = Rules {
    defaults: |_| {},
    create: |_| {},
    update: |_, _| {},
    status_update: keep_spec,
    changed: spec_changed,
    validate: nothing,
    validate_update: nothing_new,
    validate_status: nothing_new,
    warnings: warnings::none,
};

const NAMESPACED: Strategy = Strategy {
    group: "",
    kind: "",
    namespaced: true,
    name_rule: NameRule::Subdomain,
    has_generation: false,
    status_subresource: false,
    graceful_delete: false,
    allow_create_on_update: false,
    allow_unconditional_update: true,
    rules: PLAIN,
};

const CLUSTER_WIDE: Strategy = Strategy { namespaced: false, ..NAMESPACED };

/// A kind with a generation and a status subresource.
const COUNTED: Strategy = Strategy { has_generation: true, status_subresource: true, ..NAMESPACED };

const RBAC: &str = "rbac.authorization.k8s.io";

pub(super) static STRATEGIES: [Strategy; 27] = [
    Strategy {
        kind: "Namespace",
        name_rule: NameRule::Label,
        status_subresource: true,
        rules: Rules {
            defaults: cluster_kinds::namespace_defaults,
            create: cluster_kinds::namespace_create,
            update: cluster_kinds::namespace_update,
            validate: cluster_kinds::namespace,
            validate_update: cluster_kinds::namespace_update_rules,
            validate_status: cluster_kinds::namespace_status,
            ..PLAIN
        },
        ..CLUSTER_WIDE
    },
    Strategy {
        kind: "Node",
        status_subresource: true,
        rules: Rules {
            defaults: cluster_kinds::node_defaults,
            validate: cluster_kinds::node,
            validate_update: cluster_kinds::node_update,
            validate_status: cluster_kinds::node_update,
            ..PLAIN
        },
        ..CLUSTER_WIDE
    },
    Strategy {
        kind: "Pod",
        graceful_delete: true,
        rules: Rules {
            defaults: pod::defaults,
            create: pod::prepare_create,
            update: pod::prepare_update,
            status_update: pod::prepare_status_update,
            validate: pod::validate,
            validate_update: pod::validate_update,
            validate_status: pod::validate_status,
            warnings: warnings::pod,
            ..PLAIN
        },
        ..COUNTED
    },
    Strategy {
        kind: "Service",
        // Since 1.36 a service's name need no longer start with a letter.
        name_rule: NameRule::Label,
        status_subresource: true,
        allow_create_on_update: true,
        rules: Rules {
            defaults: service::defaults,
            create: service::prepare_create,
            update: service::prepare_update,
            validate: service_rules::validate,
            validate_update: service_rules::validate_update,
            warnings: warnings::service,
            ..PLAIN
        },
        ..NAMESPACED
    },
    Strategy {
        kind: "Endpoints",
        allow_create_on_update: true,
        rules: Rules {
            defaults: endpoints::endpoints_defaults,
            validate: endpoints::endpoints,
            validate_update: endpoints::endpoints_update,
            ..PLAIN
        },
        ..NAMESPACED
    },
    Strategy {
        group: "discovery.k8s.io",
        kind: "EndpointSlice",
        has_generation: true,
        rules: Rules {
            defaults: endpoints::slice_defaults,
            changed: endpoints::slice_changed,
            validate: endpoints::slice,
            validate_update: endpoints::slice_update,
            ..PLAIN
        },
        ..NAMESPACED
    },
    Strategy {
        kind: "ConfigMap",
        rules: Rules {
            validate: config::config_map,
            validate_update: config::config_map_update,
            ..PLAIN
        },
        ..NAMESPACED
    },
    Strategy {
        kind: "Secret",
        rules: Rules {
            defaults: config::secret_defaults,
            update: config::secret_update,
            validate: config::secret,
            validate_update: config::secret_update_rules,
            ..PLAIN
        },
        ..NAMESPACED
    },
    Strategy { kind: "ServiceAccount", ..NAMESPACED },
    Strategy {
        kind: "PersistentVolumeClaim",
        status_subresource: true,
        rules: Rules {
            defaults: config::claim_defaults,
            create: config::claim_create,
            validate: config::claim,
            validate_update: config::claim_update,
            ..PLAIN
        },
        ..NAMESPACED
    },
    Strategy {
        kind: "Event",
        name_rule: NameRule::PathSegment,
        allow_create_on_update: true,
        rules: Rules {
            defaults: event::core_defaults,
            validate: event::core,
            validate_update: event::core_update,
            ..PLAIN
        },
        ..NAMESPACED
    },
    Strategy {
        group: "events.k8s.io",
        kind: "Event",
        allow_create_on_update: true,
        rules: Rules {
            defaults: event::new_defaults,
            validate: event::new,
            validate_update: event::new_update,
            ..PLAIN
        },
        ..NAMESPACED
    },
    Strategy {
        group: "coordination.k8s.io",
        kind: "Lease",
        allow_create_on_update: true,
        allow_unconditional_update: false,
        rules: Rules {
            defaults: policy::lease_defaults,
            validate: policy::lease,
            validate_update: policy::lease_update,
            ..PLAIN
        },
        ..NAMESPACED
    },
    Strategy {
        group: "apps",
        kind: "Deployment",
        rules: Rules {
            defaults: workload::deployment_defaults,
            status_update: workload::deployment_status_update,
            changed: workload::deployment_changed,
            validate: workload_rules::deployment,
            validate_update: workload_rules::deployment_update,
            validate_status: workload_rules::deployment_status,
            warnings: warnings::named_workload,
            ..PLAIN
        },
        ..COUNTED
    },
    Strategy {
        group: "apps",
        kind: "ReplicaSet",
        rules: Rules {
            defaults: workload::replica_set_defaults,
            status_update: workload::scaled_status_update,
            validate: workload_rules::replica_set,
            validate_update: workload_rules::replica_set_update,
            validate_status: workload_rules::replica_set_status,
            warnings: warnings::named_workload,
            ..PLAIN
        },
        ..COUNTED
    },
    Strategy {
        group: "apps",
        kind: "StatefulSet",
        name_rule: NameRule::Label,
        rules: Rules {
            defaults: workload::stateful_set_defaults,
            create: workload::stateful_set_create,
            update: workload::stateful_set_update,
            status_update: workload::scaled_status_update,
            validate: workload_rules::stateful_set,
            validate_update: workload_rules::stateful_set_update,
            validate_status: workload_rules::stateful_set_status,
            warnings: warnings::stateful_set,
            ..PLAIN
        },
        ..COUNTED
    },
    Strategy {
        group: "apps",
        kind: "DaemonSet",
        rules: Rules {
            defaults: workload::daemon_set_defaults,
            create: workload::daemon_set_create,
            update: workload::daemon_set_update,
            status_update: workload::daemon_set_status_update,
            validate: workload_rules::daemon_set,
            validate_update: workload_rules::daemon_set_update,
            validate_status: workload_rules::daemon_set_status,
            warnings: warnings::templated,
            ..PLAIN
        },
        ..COUNTED
    },
    Strategy {
        group: "apps",
        kind: "ControllerRevision",
        rules: Rules {
            defaults: workload::controller_revision_defaults,
            validate: workload_rules::controller_revision,
            validate_update: workload_rules::controller_revision_update,
            ..PLAIN
        },
        ..NAMESPACED
    },
    Strategy {
        group: "autoscaling",
        kind: "HorizontalPodAutoscaler",
        status_subresource: true,
        rules: Rules {
            defaults: autoscaler::defaults,
            validate: autoscaler::validate,
            validate_update: autoscaler::validate_update,
            validate_status: autoscaler::validate_status,
            ..PLAIN
        },
        ..NAMESPACED
    },
    Strategy {
        group: "networking.k8s.io",
        kind: "Ingress",
        rules: Rules {
            defaults: network::ingress_defaults,
            validate: network::ingress,
            validate_update: network::ingress_update,
            ..PLAIN
        },
        ..COUNTED
    },
    Strategy {
        group: "networking.k8s.io",
        kind: "IngressClass",
        has_generation: true,
        rules: Rules {
            defaults: network::class_defaults,
            validate: network::class,
            validate_update: network::class_update,
            ..PLAIN
        },
        ..CLUSTER_WIDE
    },
    Strategy {
        group: "networking.k8s.io",
        kind: "NetworkPolicy",
        has_generation: true,
        rules: Rules {
            defaults: network::policy_defaults,
            validate: network::policy,
            validate_update: network::policy_update,
            ..PLAIN
        },
        ..NAMESPACED
    },
    Strategy {
        group: "policy",
        kind: "PodDisruptionBudget",
        name_rule: NameRule::PathSegment,
        allow_unconditional_update: false,
        rules: Rules {
            defaults: policy::budget_defaults,
            validate: policy::budget,
            validate_update: policy::budget_update,
            validate_status: policy::budget_status,
            ..PLAIN
        },
        ..COUNTED
    },
    Strategy {
        group: RBAC,
        kind: "Role",
        name_rule: NameRule::PathSegment,
        allow_create_on_update: true,
        rules: Rules {
            defaults: policy::role_defaults,
            validate: policy::role,
            validate_update: policy::role_update,
            ..PLAIN
        },
        ..NAMESPACED
    },
    Strategy {
        group: RBAC,
        kind: "ClusterRole",
        name_rule: NameRule::PathSegment,
        allow_create_on_update: true,
        rules: Rules {
            defaults: policy::role_defaults,
            validate: policy::cluster_role,
            validate_update: policy::cluster_role_update,
            ..PLAIN
        },
        ..CLUSTER_WIDE
    },
    Strategy {
        group: RBAC,
        kind: "RoleBinding",
        name_rule: NameRule::PathSegment,
        allow_create_on_update: true,
        rules: Rules {
            defaults: policy::binding_defaults,
            validate: policy::role_binding,
            validate_update: policy::role_binding_update,
            ..PLAIN
        },
        ..NAMESPACED
    },
    Strategy {
        group: RBAC,
        kind: "ClusterRoleBinding",
        name_rule: NameRule::PathSegment,
        allow_create_on_update: true,
        rules: Rules {
            defaults: policy::binding_defaults,
            validate: policy::cluster_role_binding,
            validate_update: policy::cluster_role_binding_update,
            ..PLAIN
        },
        ..CLUSTER_WIDE
    },
];

fn keep_spec(new: &mut Value, old: &Value) {
    edit::carry(new, old, "spec");
}

fn spec_changed(new: &Value, old: &Value) -> bool {
    !same(new.get("spec"), old.get("spec"))
}

fn nothing(_: &Value) -> Vec<FieldError> {
    Vec::new()
}

fn nothing_new(_: &Value, _: &Value) -> Vec<FieldError> {
    Vec::new()
}
