//! Validation of Services and of changes to them.
//!
//! Called by the rows of [`super::table`], before addresses are allocated.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{
    address::{check_cidr, check_endpoint_ip, check_ip},
    at::{At, Errors, same},
    container_rules::{PROTOCOLS, check_port},
    metadata::check_labels,
    service::{NODE_PORTS, is_reached_from_outside, wants_health_check},
};
use crate::{
    failure::{FieldError, FieldErrorKind},
    names,
};

const AFFINITY_TIMEOUT_S_MAX: i64 = 86400;
const ONLY_BALANCED: &str = "may only be used when `type` is 'LoadBalancer'";

pub(super) fn validate(service: &Value) -> Errors {
    let mut errors = Errors::new();
    let spec = At::root(service).get("spec");
    check_type(&spec, &mut errors);
    check_ports(&spec, &mut errors);
    check_labels(&spec.get("selector"), &mut errors);
    check_affinity(&spec, &mut errors);
    check_cluster_ips(&spec, &mut errors);
    for ip in spec.get("externalIPs").items() {
        let before = errors.len();
        check_ip(&ip, &mut errors);
        if errors.len() == before {
            check_endpoint_ip(&ip, &mut errors);
        }
    }
    spec.get("type")
        .one_of(&["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"], &mut errors);
    check_node_ports(&spec, &mut errors);
    check_duplicate_ports(&spec.get("ports"), &mut errors);
    check_balancer(&spec, &mut errors);
    check_traffic_policies(&spec, &mut errors);
    errors
}

pub(super) fn validate_update(new: &Value, old: &Value) -> Errors {
    let mut errors = Errors::new();
    let (spec, was) = (At::root(new).get("spec"), At::root(old).get("spec"));
    let external = |spec: &At<'_>| spec.get("type").text() == "ExternalName";
    if !external(&spec) && !external(&was) {
        check_addresses_kept(&spec, &was, &mut errors);
    }
    let class = spec.get("loadBalancerClass");
    let balanced = |spec: &At<'_>| spec.get("type").text() == "LoadBalancer";
    if balanced(&spec)
        && balanced(&was)
        && !same(class.value(), was.get("loadBalancerClass").value())
    {
        errors.push(
            class.invalid_as(class.value().unwrap_or(&Value::Null), "may not change once set"),
        );
    }
    let health = spec.get("healthCheckNodePort");
    let checked = |spec: &At<'_>| spec.value().is_some_and(wants_health_check);
    if checked(&spec) && checked(&was) && health.int() != was.get("healthCheckNodePort").int() {
        errors.push(health.forbidden("field is immutable"));
    }
    errors.extend(validate(new));
    errors
}

/// An allocated address cannot be removed; only a headless service has none.
fn check_addresses_kept(spec: &At<'_>, was: &At<'_>, errors: &mut Errors) {
    if is_headless(spec) && is_headless(was) {
        return;
    }
    let (ips, old_ips) = (spec.get("clusterIPs"), was.get("clusterIPs"));
    let shown = ips.value().unwrap_or(&Value::Null);
    for (index, (ip, old_ip)) in ips.items().zip(old_ips.items()).enumerate() {
        if ip.text() != old_ip.text() {
            let place = ip.called(format!("spec.clusterIPs[{index}]"));
            errors.push(place.invalid_as(shown, "may not change once set"));
        }
    }
    if ips.is_empty() && !old_ips.is_empty() {
        let place = ips.called("spec.clusterIPs[0]");
        errors.push(place.invalid_as(shown, "primary clusterIP can not be unset"));
    }
    if is_headless(spec) != is_headless(was) {
        return;
    }
    let (families, old_families) = (spec.get("ipFamilies"), was.get("ipFamilies"));
    let changed = families.items().zip(old_families.items()).any(|(a, b)| a.text() != b.text());
    if changed && let Some(ip) = ips.items().next().filter(|ip| ip.text() != "None") {
        // The error names the address that no longer fits.
        let family = families.items().next().map_or("", |family| family.text()).to_owned();
        let text = format!("expected an {family} value as indicated by `ipFamilies[0]`");
        errors.push(ip.called("spec.clusterIPs[0]").invalid(text));
    } else if changed {
        let place = families.called("spec.ipFamilies[0]");
        errors.push(place.invalid("may not change once set"));
    }
}

fn is_headless(spec: &At<'_>) -> bool {
    let ips = spec.get("clusterIPs");
    ips.len() == 1 && ips.items().all(|ip| ip.text() == "None")
}

fn check_type(spec: &At<'_>, errors: &mut Errors) {
    let headless = is_headless(spec);
    let kind = spec.get("type");
    let ports = spec.get("ports");
    if ports.is_empty() && !headless && kind.text() != "ExternalName" {
        errors.push(ports.required(""));
    }
    match kind.text() {
        "LoadBalancer" | "NodePort" if headless => {
            let place = spec.get("clusterIP").called("spec.clusterIPs[0]");
            let text = format!("may not be set to 'None' for {} services", kind.text());
            errors.push(place.invalid_as(&Value::from("None"), text));
        }
        "ExternalName" => {
            for key in ["clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
                let place = spec.get(key);
                if place.is_set() {
                    errors.push(place.forbidden("may not be set for ExternalName services"));
                }
            }
            let name = spec.get("externalName");
            let host = name.text().strip_suffix('.').unwrap_or(name.text());
            if host.is_empty() {
                errors.push(name.required(""));
            } else {
                name.complain(names::dns1123_subdomain(host), errors);
            }
        }
        _ => {}
    }
}

fn check_ports(spec: &At<'_>, errors: &mut Errors) {
    let ports = spec.get("ports");
    let mut seen = BTreeSet::new();
    for port in ports.items() {
        let name = port.get("name");
        if !name.text().is_empty() {
            name.complain(names::dns1123_label(name.text()), errors);
            if !seen.insert(name.text()) {
                errors.push(name.duplicate());
            }
        } else if ports.len() > 1 {
            errors.push(name.required(""));
        }
        let number = port.get("port");
        let wrong = names::port_number(number.int_or_zero());
        errors.extend(wrong.into_iter().map(|text| number.invalid_int(text)));
        port.get("protocol").one_of(&PROTOCOLS, errors);
        check_port(&port.get("targetPort"), errors);
        let application = port.get("appProtocol");
        if application.is_set() {
            application.complain(names::qualified_name(application.text()), errors);
        }
    }
}

fn check_affinity(spec: &At<'_>, errors: &mut Errors) {
    let affinity = spec.get("sessionAffinity");
    affinity.one_of(&["ClientIP", "None"], errors);
    let config = spec.get("sessionAffinityConfig");
    match affinity.text() {
        "None" if config.is_set() => {
            errors.push(config.forbidden("must not be set when session affinity is None"));
        }
        "ClientIP" => {
            let places = [config.clone(), config.get("clientIP")];
            let timeout = config.get("clientIP.timeoutSeconds");
            let needed = "when session affinity type is ClientIP";
            if let Some(missing) = places.iter().find(|place| !place.is_set()) {
                errors.push(missing.required(needed));
            } else if let Some(seconds) = timeout.int() {
                if !(1..=AFFINITY_TIMEOUT_S_MAX).contains(&seconds) {
                    let text =
                        format!("must be greater than 0 and less than {AFFINITY_TIMEOUT_S_MAX}");
                    errors.push(timeout.invalid(text));
                }
            } else {
                errors.push(timeout.required(needed));
            }
        }
        _ => {}
    }
}

fn check_cluster_ips(spec: &At<'_>, errors: &mut Errors) {
    if spec.get("type").text() == "ExternalName" {
        return;
    }
    let (ip, ips) = (spec.get("clusterIP"), spec.get("clusterIPs"));
    let first = ips.items().next();
    match (ip.text(), first) {
        ("", Some(_)) => {
            errors.push(ips.invalid("must be empty when `clusterIP` is not specified"));
        }
        ("", None) => {}
        (_, None) => errors.push(ips.required("")),
        (ip, Some(first)) if first.text() != ip => {
            errors.push(ips.invalid("first value must match `clusterIP`"));
        }
        _ => {}
    }
    let mut seen = BTreeSet::new();
    for family in spec.get("ipFamilies").items() {
        family.one_of_if_set(&["IPv4", "IPv6"], errors);
        if !seen.insert(family.text()) {
            errors.push(family.duplicate());
        }
    }
    let policies = ["PreferDualStack", "RequireDualStack", "SingleStack"];
    spec.get("ipFamilyPolicy").one_of_if_set(&policies, errors);
    for (index, ip) in ips.items().enumerate() {
        if index == 0 && ip.text() == "None" {
            if ips.len() > 1 {
                errors.push(ips.invalid("'None' must be the first and only value"));
            }
        } else {
            check_ip(&ip, errors);
        }
    }
    if ips.len() > 2 {
        errors.push(ips.invalid("may only hold up to 2 values"));
    }
}

fn check_node_ports(spec: &At<'_>, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for port in spec.get("ports").items() {
        let node_port = port.get("nodePort");
        if node_port.int_or_zero() == 0 {
            continue;
        }
        if spec.get("type").text() == "ClusterIP" {
            errors.push(node_port.forbidden("may not be used when `type` is 'ClusterIP'"));
        }
        if !seen.insert((port.get("protocol").text(), node_port.int_or_zero())) {
            errors.push(node_port.duplicate());
        }
        let (low, high) = (i64::from(*NODE_PORTS.start()), i64::from(*NODE_PORTS.end()));
        if !(low..=high).contains(&node_port.int_or_zero()) {
            errors.push(node_port.invalid(format!(
                "provided port is not in the valid range. The range of valid ports is {low}-{high}"
            )));
        }
    }
}

fn check_duplicate_ports(ports: &At<'_>, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for port in ports.items() {
        let (protocol, number) = (port.get("protocol").text(), port.get("port").int_or_zero());
        if seen.insert((protocol, number)) {
            continue;
        }
        // The API server prints its internal type here, whose fields have other names.
        let shown = format!(
            "{{\"Name\":\"\",\"Protocol\":{},\"AppProtocol\":null,\"Port\":{number},\
             \"TargetPort\":0,\"NodePort\":0}}",
            Value::from(protocol)
        );
        let kind = FieldErrorKind::Duplicate;
        let path = port.path().to_owned();
        errors.push(FieldError { kind, path, shown, detail: String::new() });
    }
}

fn check_balancer(spec: &At<'_>, errors: &mut Errors) {
    let balanced = spec.get("type").text() == "LoadBalancer";
    let ranges = spec.get("loadBalancerSourceRanges").called("spec.LoadBalancerSourceRanges");
    if !ranges.is_empty() && !balanced {
        errors.push(ranges.forbidden(ONLY_BALANCED));
    }
    for range in ranges.items() {
        check_cidr(&range, errors);
    }
    let allocates = spec.get("allocateLoadBalancerNodePorts");
    if allocates.is_set() && !balanced {
        errors.push(allocates.forbidden(ONLY_BALANCED));
    }
    let class = spec.get("loadBalancerClass");
    if class.is_set() {
        if balanced {
            class.complain(names::qualified_name(class.text()), errors);
        } else {
            errors.push(class.forbidden(ONLY_BALANCED));
        }
    }
}

fn check_traffic_policies(spec: &At<'_>, errors: &mut Errors) {
    let external = spec.get("externalTrafficPolicy");
    if spec.value().is_some_and(is_reached_from_outside) {
        external.one_of(&["Cluster", "Local"], errors);
    } else if !external.text().is_empty() {
        errors.push(external.invalid("may only be set for externally-accessible services"));
    }
    let health = spec.get("healthCheckNodePort");
    match (spec.value().is_some_and(wants_health_check), health.int_or_zero()) {
        (false, 0) => {}
        (false, _) => errors.push(health.invalid(
            "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'",
        )),
        (true, 0) => errors.push(health.required("")),
        (true, port) => health.complain(names::port_number(port), errors),
    }
    let internal = spec.get("internalTrafficPolicy");
    if !internal.is_set() {
        if matches!(spec.get("type").text(), "NodePort" | "LoadBalancer" | "ClusterIP") {
            errors.push(internal.required(""));
        }
    } else if !matches!(internal.text(), "Cluster" | "Local") {
        errors.push(internal.unsupported(&["Cluster", "Local"]));
    }
    let distribution = spec.get("trafficDistribution");
    distribution.one_of_if_set(&["PreferClose", "PreferSameZone", "PreferSameNode"], errors);
}
