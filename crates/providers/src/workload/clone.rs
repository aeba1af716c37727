//! A Service as target: two copies of it, in front of pods that no workload here manages.
//!
//! ```text
//! <target>            the user's, and the apex; never written
//! ├─> <target>-canary   a copy of it now
//! └─> <target>-primary  a copy of it at the last promotion
//! ```
//!
//! Addresses are no part of a copy, and no part of a revision: every Service has its own. Access
//! rules are part: a copy of a load balancer is another load balancer, which must not be open to
//! more than the target is. Whether a copy is headless, and of which class a load balancer is, is
//! settled when it is made: the API server allows no change of that. The canary owns both copies
//! for as long as they are there; finalizers of the target are the target's.

use std::borrow::Cow;

use serde_json::{Map, Value, json};

use super::{
    Cx, SERVICE, WorkloadError,
    hash::is_same,
    metadata::{copied, included, is_contained, is_owner, owners, with_version},
    primary::require_revision,
    require_owned,
};
use crate::object::{Change, exactly};

/// Fields that belong to one Service alone.
const OWN: [&str; 7] = [
    "clusterIP",
    "clusterIPs",
    "externalIPs",
    "healthCheckNodePort",
    LOAD_BALANCER_CLASS,
    "loadBalancerIP",
    DISTRIBUTION,
];
/// The class of the controller that makes the load balancer.
const LOAD_BALANCER_CLASS: &str = "loadBalancerClass";
/// Whether ports of nodes lead to it as well. The server's default is `true`.
const NODE_PORTS: &str = "allocateLoadBalancerNodePorts";
/// A hint to the network, which the canary may set for the copies.
const DISTRIBUTION: &str = "trafficDistribution";
/// The selector is one value: keys of others must not stay in it.
const EXACT: &[&str] = &["/spec/selector"];
/// Longest name of a Service.
const NAME_LENGTH_MAX: usize = 63;

/// The part of a Service's spec that a copy has.
pub(super) fn spec_of(service: &Value) -> Cow<'_, Value> {
    let mut spec = service["spec"].as_object().cloned().unwrap_or_default();
    spec.retain(|field, value| {
        !OWN.contains(&field.as_str()) && (field != NODE_PORTS || *value == json!(false))
    });
    let ports = spec.get_mut("ports").and_then(Value::as_array_mut);
    for port in ports.into_iter().flatten() {
        if let Some(port) = port.as_object_mut() {
            port.remove("nodePort");
        }
    }
    Cow::Owned(Value::Object(spec))
}

/// Makes the canary's copy, or updates it to the target; `None` where it is up to date.
pub fn sync_canary(
    cx: &Cx<'_>,
    target: &Value,
    distribution: Option<&str>,
    live: Option<&Value>,
) -> Result<Option<Change>, WorkloadError> {
    let labels = copied(&target["metadata"]["labels"]);
    let annotations = copied(&target["metadata"]["annotations"]);
    let name = format!("{}-canary", cx.target);
    sync(cx, &name, (labels, annotations), (target, distribution), live)
}

/// Makes the primary's copy of the target as it is.
pub fn create_primary(
    cx: &Cx<'_>,
    target: &Value,
    distribution: Option<&str>,
) -> Result<Option<Change>, WorkloadError> {
    let labels = copied(&target["metadata"]["labels"]);
    let annotations = copied(&target["metadata"]["annotations"]);
    let name = cx.primary_name();
    sync(cx, &name, (labels, annotations), (target, distribution), None)
}

/// Brings the primary's copy to the revision that was analysed; `None` where it is there already.
pub fn promote(
    cx: &Cx<'_>,
    target: &Value,
    live: &Value,
    distribution: Option<&str>,
    revision: &str,
) -> Result<Option<Change>, WorkloadError> {
    require_revision(cx, target, revision)?;
    let labels = included(&target["metadata"]["labels"], cx.included);
    let annotations = if is_load_balancer(target) {
        // They restrict access, such as whether it is an internal one.
        copied(&target["metadata"]["annotations"])
    } else {
        included(&target["metadata"]["annotations"], cx.included)
    };
    let name = cx.primary_name();
    sync(cx, &name, (labels, annotations), (target, distribution), Some(live))
}

fn is_load_balancer(service: &Value) -> bool {
    service["spec"]["type"] == "LoadBalancer"
}

/// Restores the canary's ownership of a primary's copy that Flagger left; `None` where it is not one.
///
/// Each promotion of Flagger gives the copy the owners of the target and removes the canary, so that it would
/// be orphaned. Nothing else shows which canary it belongs to: call this only once the canary is set up.
pub fn adopt(cx: &Cx<'_>, target: &Value, live: &Value) -> Option<Change> {
    let owners_of = |service: &Value| {
        let references = service["metadata"]["ownerReferences"].as_array();
        references.cloned().unwrap_or_default()
    };
    if cx.owner.owns(live) || owners_of(live) != owners_of(target) {
        return None;
    }
    let metadata = json!({ "ownerReferences": owners(&cx.owner, None) });
    let patch = json!({ "metadata": with_version(metadata, Some(live)) });
    Some(Change::Merge { kind: SERVICE, name: cx.primary_name(), patch })
}

/// Refuses a name from which no copies can be named.
pub fn check_names(cx: &Cx<'_>) -> Result<(), WorkloadError> {
    let name = cx.primary_name();
    let (length, most) = (name.len(), NAME_LENGTH_MAX);
    if length > most {
        return Err(WorkloadError::NameTooLong { what: SERVICE.kind, name, length, most });
    }
    Ok(())
}

/// The spec of a copy.
fn spec(target: &Value, distribution: Option<&str>) -> Value {
    let mut spec = spec_of(target).into_owned();
    let distribution = distribution.or_else(|| target["spec"][DISTRIBUTION].as_str());
    if let Some(distribution) = distribution {
        spec[DISTRIBUTION] = json!(distribution);
    }
    spec
}

fn sync(
    cx: &Cx<'_>,
    name: &str,
    (labels, annotations): (Map<String, Value>, Map<String, Value>),
    (target, distribution): (&Value, Option<&str>),
    live: Option<&Value>,
) -> Result<Option<Change>, WorkloadError> {
    let mut spec = spec(target, distribution);
    if let Some(live) = live {
        require_owned(&cx.owner, SERVICE, live)?;
        let mut live_spec = spec_of(live).into_owned();
        if let Some(distribution) = live["spec"].get(DISTRIBUTION) {
            live_spec[DISTRIBUTION] = distribution.clone();
        }
        let is_in_place = is_same(&live_spec, &spec)
            && is_contained(&labels, &live["metadata"]["labels"])
            && is_contained(&annotations, &live["metadata"]["annotations"])
            && is_owner(&cx.owner, live);
        if is_in_place {
            return Ok(None);
        }
    }
    if live.unwrap_or(target)["spec"]["clusterIP"] == "None" {
        spec["clusterIP"] = json!("None");
    }
    if is_load_balancer(target) {
        let settled = live.filter(|live| is_load_balancer(live)).unwrap_or(target);
        let class = settled["spec"].get(LOAD_BALANCER_CLASS);
        spec.as_object_mut().into_iter().for_each(|spec| {
            spec.extend(class.map(|class| (LOAD_BALANCER_CLASS.to_owned(), class.clone())));
        });
    }
    let metadata = json!({
        "name": name,
        "namespace": cx.owner.namespace,
        "labels": labels,
        "annotations": annotations,
        "ownerReferences": owners(&cx.owner, live),
    });
    let body = json!({
        "apiVersion": SERVICE.api_version(),
        "kind": SERVICE.kind,
        "metadata": with_version(metadata, live),
        "spec": spec,
    });
    let exact = if body["spec"]["selector"].is_object() { EXACT } else { &[] };
    Ok(Some(Change::Apply { body, exact: exactly(exact) }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        object::Owner,
        workload::{LabelPrefixes, WorkloadKind, testing::applied},
    };

    fn with_cx<T>(run: impl FnOnce(&Cx<'_>) -> T) -> T {
        run(&Cx {
            owner: Owner { name: "shop", namespace: "test", uid: "u-shop", can_own: true },
            workload: WorkloadKind::Service,
            target: "shop",
            selector_labels: &[],
            included: &LabelPrefixes::parse("team"),
        })
    }

    fn target() -> Value {
        json!({
            "metadata": {
                "name": "shop", "uid": "u-1", "resourceVersion": "3",
                "finalizers": ["service.kubernetes.io/load-balancer-cleanup"],
                "ownerReferences": [{ "kind": "App", "name": "shop", "uid": "a", "controller": true }],
                "labels": { "team": "a", "app": "shop" },
                "annotations": { "kubectl.kubernetes.io/last-applied-configuration": "{}" },
            },
            "spec": {
                "type": "NodePort", "clusterIP": "10.0.0.7", "clusterIPs": ["10.0.0.7"],
                "ports": [{ "port": 80, "targetPort": 8080, "protocol": "TCP", "nodePort": 30080 }],
                "selector": { "app": "shop", "version": "1" },
            },
        })
    }

    fn primary() -> Value {
        let change = with_cx(|cx| create_primary(cx, &target(), None)).unwrap().unwrap();
        applied(None, &change).unwrap()
    }

    fn newer() -> Value {
        let mut target = target();
        target["spec"]["selector"]["version"] = json!("2");
        target
    }

    #[test]
    fn a_copy_has_no_address_and_no_owner_of_the_targets() {
        let copy = primary();
        let want = json!({
            "type": "NodePort", "selector": { "app": "shop", "version": "1" },
            "ports": [{ "port": 80, "targetPort": 8080, "protocol": "TCP" }],
        });
        assert_eq!(copy["spec"], want);
        assert_eq!(copy["metadata"]["name"], "shop-primary");
        assert_eq!(copy["metadata"].get("finalizers"), None);
        assert_eq!(copy["metadata"]["annotations"], json!({}));
        assert_eq!(copy["metadata"]["ownerReferences"][0]["kind"], "Canary");
    }

    /// A load balancer inside the company.
    fn internal() -> Value {
        let mut target = target();
        let spec = json!({
            "type": "LoadBalancer", "loadBalancerClass": "example.com/internal",
            "loadBalancerSourceRanges": ["10.0.0.0/8"], "loadBalancerIP": "10.1.2.3",
            "allocateLoadBalancerNodePorts": false, "externalTrafficPolicy": "Local",
            "healthCheckNodePort": 31000, "clusterIP": "10.0.0.7",
            "ports": [{ "port": 80, "targetPort": 8080, "protocol": "TCP" }],
            "selector": { "app": "shop", "version": "1" },
        });
        target["spec"] = spec;
        target["metadata"]["annotations"]["lb.example.com/internal"] = json!("true");
        target
    }

    #[test]
    fn a_copy_of_a_load_balancer_is_open_to_no_others() {
        let change = with_cx(|cx| create_primary(cx, &internal(), None)).unwrap().unwrap();
        let copy = applied(None, &change).unwrap();
        let want = json!({
            "type": "LoadBalancer", "loadBalancerClass": "example.com/internal",
            "loadBalancerSourceRanges": ["10.0.0.0/8"],
            "allocateLoadBalancerNodePorts": false, "externalTrafficPolicy": "Local",
            "ports": [{ "port": 80, "targetPort": 8080, "protocol": "TCP" }],
            "selector": { "app": "shop", "version": "1" },
        });
        assert_eq!(copy["spec"], want);
        let internal_too = &copy["metadata"]["annotations"]["lb.example.com/internal"];
        assert_eq!(internal_too, "true");

        let mut next = internal();
        next["spec"]["loadBalancerSourceRanges"] = json!(["10.9.0.0/16"]);
        let revision = WorkloadKind::Service.revision(&next);
        assert_ne!(revision, WorkloadKind::Service.revision(&internal()), "it is a change");
        let change = with_cx(|cx| promote(cx, &next, &copy, None, &revision)).unwrap().unwrap();
        let after = applied(Some(&copy), &change).unwrap();
        assert_eq!(after["spec"]["loadBalancerSourceRanges"], json!(["10.9.0.0/16"]));
        assert_eq!(after["spec"]["loadBalancerClass"], "example.com/internal", "it stays");
        let internal_too = &after["metadata"]["annotations"]["lb.example.com/internal"];
        assert_eq!(internal_too, "true", "also once promoted");
        assert_eq!(with_cx(|cx| promote(cx, &next, &after, None, &revision)).unwrap(), None);
    }

    #[test]
    fn the_class_of_a_load_balancer_is_settled_when_it_is_made() {
        let class = |live: &Value| {
            let change = with_cx(|cx| sync_canary(cx, &internal(), None, Some(live))).unwrap();
            applied(Some(live), &change.unwrap()).unwrap()["spec"]["loadBalancerClass"].clone()
        };
        // Made by a version that left it out: no server takes another one.
        let mut older = primary();
        older["spec"]["type"] = json!("LoadBalancer");
        assert_eq!(class(&older), Value::Null);
        assert_eq!(class(&primary()), "example.com/internal", "it becomes one");
        let mut usual = internal();
        usual["spec"]["allocateLoadBalancerNodePorts"] = json!(true);
        let mut silent = internal();
        silent["spec"].as_object_mut().unwrap().remove("allocateLoadBalancerNodePorts");
        let revision = |service: &Value| WorkloadKind::Service.revision(service);
        assert_eq!(revision(&usual), revision(&silent), "what the server adds is no change");
    }

    #[test]
    fn a_copy_is_the_same_revision_with_any_address() {
        let mut copy = primary();
        copy["spec"]["clusterIP"] = json!("10.0.0.9");
        copy["spec"]["ports"][0]["nodePort"] = json!(30099);
        let revision = |service: &Value| WorkloadKind::Service.revision(service);
        assert_eq!(revision(&copy), revision(&target()));
        assert_ne!(revision(&copy), revision(&newer()));
        let mut headless = target();
        headless["spec"]["clusterIP"] = json!("None");
        assert_eq!(revision(&headless), revision(&target()), "nor if it got none");
    }

    #[test]
    fn a_copy_stays_headless_or_not_when_its_target_changes() {
        for (was, becomes) in [("None", "10.0.0.7"), ("10.0.0.7", "None")] {
            let with = |mut target: Value, address: &str| {
                target["spec"]["clusterIP"] = json!(address);
                target
            };
            let follow = |target: &Value, live: Option<&Value>| {
                with_cx(|cx| sync_canary(cx, target, None, live)).unwrap()
            };
            let made = follow(&with(target(), was), None).unwrap();
            let mut copy = applied(None, &made).unwrap();
            assert_eq!(copy["spec"]["clusterIP"] == "None", was == "None");
            if was != "None" {
                copy["spec"]["clusterIP"] = json!("10.0.0.9");
            }
            let address = copy["spec"]["clusterIP"].clone();
            assert_eq!(follow(&with(target(), becomes), Some(&copy)), None, "{was}: no difference");
            let target = with(newer(), becomes);
            let after = applied(Some(&copy), &follow(&target, Some(&copy)).unwrap()).unwrap();
            assert_eq!(after["spec"]["clusterIP"], address, "{was}");
            assert_eq!(after["spec"]["selector"]["version"], "2", "{was}");

            let revision = WorkloadKind::Service.revision(&target);
            copy["metadata"]["name"] = json!("shop-primary");
            let given = with_cx(|cx| promote(cx, &target, &copy, None, &revision)).unwrap();
            let after = applied(Some(&copy), &given.unwrap()).unwrap();
            assert_eq!(after["spec"]["clusterIP"], address, "{was}");
            assert_eq!(after["spec"]["selector"]["version"], "2", "{was}");
        }
    }

    #[test]
    fn the_canarys_copy_follows_and_the_primarys_is_promoted() {
        let follow = |target: &Value, live: Option<&Value>| {
            with_cx(|cx| sync_canary(cx, target, None, live)).unwrap()
        };
        let canary = applied(None, &follow(&target(), None).unwrap()).unwrap();
        assert_eq!(canary["metadata"]["name"], "shop-canary");
        assert_eq!(follow(&target(), Some(&canary)), None, "written on difference alone");
        let after = applied(Some(&canary), &follow(&newer(), Some(&canary)).unwrap()).unwrap();
        assert_eq!(after["spec"]["selector"]["version"], "2");

        let revision = WorkloadKind::Service.revision(&newer());
        let give = |target: &Value, live: &Value| {
            with_cx(|cx| promote(cx, target, live, Some("PreferClose"), &revision))
        };
        assert_eq!(give(&target(), &primary()).unwrap_err().label(), "TargetMoved");
        let promoted = applied(Some(&primary()), &give(&newer(), &primary()).unwrap().unwrap());
        let promoted = promoted.unwrap();
        assert_eq!(promoted["spec"]["selector"]["version"], "2");
        assert_eq!(promoted["spec"]["trafficDistribution"], "PreferClose", "the canary's");
        assert_eq!(promoted["metadata"]["ownerReferences"][0]["kind"], "Canary", "kept");
        assert_eq!(give(&newer(), &promoted).unwrap(), None, "once");
    }

    #[test]
    fn a_copy_that_flagger_left_without_its_owner_is_taken_back() {
        let adopted = |live: &Value| with_cx(|cx| adopt(cx, &target(), live));
        let mut left = primary();
        left["metadata"]["ownerReferences"] = target()["metadata"]["ownerReferences"].clone();
        let after = applied(Some(&left), &adopted(&left).unwrap()).unwrap();
        assert_eq!(after["metadata"]["ownerReferences"][0]["kind"], "Canary");
        assert_eq!(after["metadata"]["ownerReferences"].as_array().unwrap().len(), 1);
        assert_eq!(adopted(&after), None, "once");
        left["metadata"]["ownerReferences"] = json!([]);
        assert_eq!(adopted(&left), None, "somebody else's");
    }

    #[test]
    fn a_users_service_of_the_name_is_left_alone() {
        let mut users = primary();
        users["metadata"]["ownerReferences"] = json!([]);
        let refused = with_cx(|cx| sync_canary(cx, &newer(), None, Some(&users))).unwrap_err();
        assert_eq!(refused.label(), "NotOurs");
    }

    #[test]
    fn no_object_is_too_strange() {
        for odd in [Value::Null, json!([]), json!({ "spec": 1 }), json!({ "spec": { "ports": 2 } })]
        {
            let _ = with_cx(|cx| sync_canary(cx, &odd, None, Some(&odd)));
            let _ = with_cx(|cx| create_primary(cx, &odd, Some("x")));
        }
    }
}
