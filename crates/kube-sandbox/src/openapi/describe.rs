//! Descriptions of types and fields, from the Kubernetes documentation in `k8s-openapi`.

use std::{collections::BTreeMap, sync::LazyLock};

use k8s_openapi::{
    api::{
        apps::v1 as apps, authentication::v1 as authentication, authorization::v1 as authorization,
        autoscaling::v1 as autoscaling_v1, autoscaling::v2 as autoscaling_v2, batch::v1 as batch,
        coordination::v1 as coordination, core::v1 as core, discovery::v1 as discovery,
        events::v1 as events, networking::v1 as networking, policy::v1 as policy, rbac::v1 as rbac,
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1 as apiextensions,
    apimachinery::pkg::{apis::meta::v1 as meta, runtime},
    schemars::{JsonSchema, SchemaGenerator, generate::SchemaSettings},
};
use serde_json::{Map, Value};

/// By OpenAPI name.
static DEFINITIONS: LazyLock<BTreeMap<String, Value>> = LazyLock::new(|| {
    let mut generator = SchemaSettings::draft07().into_generator();
    visit_roots(&mut generator);
    let definitions: Map<String, Value> = generator.take_definitions(false);
    definitions.into_iter().collect()
});

/// The description of a type.
pub(super) fn of_type(name: &str) -> Option<&'static Value> {
    DEFINITIONS.get(name)?.get("description")
}

/// The description of a type's field.
pub(super) fn of_field(name: &str, field: &str) -> Option<&'static Value> {
    DEFINITIONS.get(name)?.get("properties")?.get(field)?.get("description")
}

fn visit_roots(generator: &mut SchemaGenerator) {
    macro_rules! visit {
        ($($module:ident: $($kind:ident)+;)+) => {
            $($(visit::<$module::$kind>(generator);)+)+
        };
    }
    visit! {
        core: Binding ConfigMap Endpoints Event Namespace Node PersistentVolumeClaim Pod Secret
            Service ServiceAccount;
        apps: ControllerRevision DaemonSet Deployment ReplicaSet StatefulSet;
        authentication: SelfSubjectReview TokenRequest TokenReview;
        authorization: LocalSubjectAccessReview SelfSubjectAccessReview SelfSubjectRulesReview
            SubjectAccessReview;
        autoscaling_v1: HorizontalPodAutoscaler Scale;
        autoscaling_v2: HorizontalPodAutoscaler;
        batch: CronJob Job;
        coordination: Lease;
        discovery: EndpointSlice;
        events: Event;
        networking: Ingress IngressClass NetworkPolicy;
        policy: Eviction PodDisruptionBudget;
        rbac: ClusterRole ClusterRoleBinding Role RoleBinding;
        apiextensions: CustomResourceDefinition;
        meta: APIGroup APIResourceList APIVersions DeleteOptions Status;
        runtime: RawExtension;
    }
}

fn visit<T: JsonSchema>(generator: &mut SchemaGenerator) {
    generator.subschema_for::<T>();
}
