//! Defaults and validation of Endpoints and `EndpointSlices`.
//!
//! Called by the rows of [`super::table`].

use std::collections::BTreeSet;

use serde_json::Value;

use super::{
    address::{check_endpoint_ip, check_ip, parse},
    at::{At, Errors, same},
    container_rules::PROTOCOLS,
    edit::{default_to, default_zero, each, object},
};
use crate::{failure::FieldError, names};

const ENDPOINTS_MAX: usize = 1000;
const ADDRESSES_MAX: usize = 100;
const PORTS_MAX: usize = 20000;

pub(super) fn endpoints_defaults(endpoints: &mut Value) {
    each(endpoints, "subsets", |subset| {
        each(subset, "ports", |port| default_zero(port, "protocol", "TCP"));
    });
}

pub(super) fn slice_defaults(slice: &mut Value) {
    each(slice, "ports", |port| {
        default_to(port, "name", "");
        default_to(port, "protocol", "TCP");
    });
    each(slice, "endpoints", |endpoint| {
        object(endpoint, "conditions");
    });
    // Both are written even when empty.
    default_to(slice, "endpoints", Value::Null);
    default_to(slice, "ports", Value::Null);
}

pub(super) fn endpoints(object: &Value) -> Errors {
    let mut errors = Errors::new();
    for subset in At::root(object).get("subsets").items() {
        let (ready, not_ready) = (subset.get("addresses"), subset.get("notReadyAddresses"));
        if ready.is_empty() && not_ready.is_empty() {
            let text = "must specify `addresses` or `notReadyAddresses`";
            errors.push(subset.required(text));
        }
        for address in ready.items().chain(not_ready.items()) {
            check_address(&address, &mut errors);
        }
        let ports = subset.get("ports");
        for port in ports.items() {
            check_endpoints_port(&port, ports.len() > 1, &mut errors);
        }
    }
    errors
}

pub(super) fn endpoints_update(new: &Value, old: &Value) -> Errors {
    // Unchanged subsets are not validated again: an older version may have accepted them.
    if same(new.get("subsets"), old.get("subsets")) { Errors::new() } else { endpoints(new) }
}

fn check_address(address: &At<'_>, errors: &mut Errors) {
    let ip = address.get("ip");
    check_ip(&ip, errors);
    let host = address.get("hostname");
    if !host.text().is_empty() {
        host.complain(names::dns1123_label(host.text()), errors);
    }
    let node = address.get("nodeName");
    if node.is_set() {
        node.complain(names::dns1123_subdomain(node.text()), errors);
    }
    check_endpoint_ip(&ip, errors);
}

fn check_endpoints_port(port: &At<'_>, named: bool, errors: &mut Errors) {
    let name = port.get("name");
    if !name.text().is_empty() {
        name.complain(names::dns1123_label(name.text()), errors);
    } else if named {
        errors.push(name.required(""));
    }
    let number = port.get("port");
    let wrong = names::port_number(number.int_or_zero());
    errors.extend(wrong.into_iter().map(|text| number.invalid_int(text)));
    port.get("protocol").one_of(&PROTOCOLS, errors);
    check_app_protocol(port, errors);
}

fn check_app_protocol(port: &At<'_>, errors: &mut Errors) {
    let application = port.get("appProtocol");
    if application.is_set() {
        application.complain(names::qualified_name(application.text()), errors);
    }
}

pub(super) fn slice(object: &Value) -> Errors {
    let mut errors = slice_frame(object);
    check_slice_endpoints(object, &mut errors);
    errors
}

pub(super) fn slice_update(new: &Value, old: &Value) -> Errors {
    let mut errors = slice_frame(new);
    if !same(new.get("endpoints"), old.get("endpoints")) {
        check_slice_endpoints(new, &mut errors);
    }
    let kind = |object| At::root(object).get("addressType");
    kind(new).unchanged(&kind(old), &mut errors);
    errors
}

/// Checks all of a slice but the endpoints themselves.
fn slice_frame(object: &Value) -> Errors {
    let mut errors = Errors::new();
    let at = At::root(object);
    at.get("addressType").one_of(&["FQDN", "IPv4", "IPv6"], &mut errors);
    let ports = at.get("ports");
    if ports.len() > PORTS_MAX {
        errors.push(FieldError::too_many(ports.path(), ports.len(), PORTS_MAX));
        return errors;
    }
    let mut seen = BTreeSet::new();
    for port in ports.items() {
        let name = port.get("name");
        if !name.text().is_empty() {
            name.complain(names::dns1123_label(name.text()), &mut errors);
        }
        if !seen.insert(name.text()) {
            errors.push(name.duplicate());
        }
        port.get("protocol").one_of(&PROTOCOLS, &mut errors);
        check_app_protocol(&port, &mut errors);
    }
    errors
}

fn check_slice_endpoints(object: &Value, errors: &mut Errors) {
    let at = At::root(object);
    let (kind, endpoints) = (at.get("addressType"), at.get("endpoints"));
    if endpoints.len() > ENDPOINTS_MAX {
        errors.push(FieldError::too_many(endpoints.path(), endpoints.len(), ENDPOINTS_MAX));
        return;
    }
    for endpoint in endpoints.items() {
        let addresses = endpoint.get("addresses");
        if addresses.is_empty() {
            errors.push(addresses.required("must contain at least 1 address"));
        } else if addresses.len() > ADDRESSES_MAX {
            errors.push(FieldError::too_many(addresses.path(), addresses.len(), ADDRESSES_MAX));
        }
        for address in addresses.items() {
            check_slice_address(&address, &addresses, kind.text(), errors);
        }
        let node = endpoint.get("nodeName");
        if node.is_set() {
            node.complain(names::dns1123_subdomain(node.text()), errors);
        }
        let host = endpoint.get("hostname");
        if host.is_set() {
            host.complain(names::dns1123_label(host.text()), errors);
        }
        check_hints(&endpoint.get("hints.forZones"), errors);
    }
}

fn check_slice_address(address: &At<'_>, all: &At<'_>, kind: &str, errors: &mut Errors) {
    match kind {
        "IPv4" | "IPv6" => {}
        "FQDN" => return check_domain(address, errors),
        // An unknown type was refused already.
        _ => return,
    }
    let before = errors.len();
    check_ip(address, errors);
    if errors.len() > before {
        return;
    }
    let ip = parse(address.text());
    let plain = ip.map(|ip| ip.to_string()).unwrap_or_default();
    if kind == "IPv6" && plain != address.text() {
        errors.push(address.invalid(format!("must be in canonical form ({plain:?})")));
        return;
    }
    if ip.is_some_and(|ip| ip.is_ipv4()) != (kind == "IPv4") {
        let shown = Value::from(address.text());
        errors.push(all.invalid_as(&shown, format!("must be an {kind} address")));
    }
    check_endpoint_ip(address, errors);
}

fn check_domain(address: &At<'_>, errors: &mut Errors) {
    let name = address.text().strip_suffix('.').unwrap_or(address.text());
    let wrong = names::dns1123_subdomain(name);
    if name.is_empty() {
        errors.push(address.required(""));
    } else if !wrong.is_empty() {
        errors.push(address.invalid(wrong.join(",")));
    } else if !name.contains('.') {
        let text = "should be a domain with at least two segments separated by dots";
        errors.push(address.invalid(text));
    }
}

fn check_hints(zones: &At<'_>, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for zone in zones.items() {
        let name = zone.get("name");
        if !seen.insert(name.text()) {
            errors.push(name.duplicate());
        }
        name.complain(names::label_value(name.text()), errors);
    }
}

/// A change of labels, or of anything outside metadata, counts as a change of an EndpointSlice.
pub(super) fn slice_changed(new: &Value, old: &Value) -> bool {
    ["/addressType", "/endpoints", "/ports", "/metadata/labels"]
        .into_iter()
        .any(|pointer| !same(new.pointer(pointer), old.pointer(pointer)))
}
