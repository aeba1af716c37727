//! Defaults and validation of Ingresses, `IngressClasses` and `NetworkPolicies`.
//!
//! Called by the rows of [`super::table`].

use serde_json::Value;

use super::{
    address::{check_cidr, is_strict_subset, parse, parse_cidr},
    at::{At, Errors},
    edit::{default_to, each, object, within},
    metadata::check_selector,
};
use crate::{failure::FieldError, names};

const CONTROLLER_LEN_MAX: usize = 250;
const CLASS_ANNOTATION: &str = "kubernetes.io/ingress.class";

pub(super) fn ingress_defaults(ingress: &mut Value) {
    if let Some(spec) = object(ingress, "spec") {
        within(spec, "defaultBackend", backend_defaults);
        each(spec, "rules", |rule| {
            within(rule, "http", |http| {
                each(http, "paths", |path| {
                    if let Some(backend) = object(path, "backend") {
                        backend_defaults(backend);
                    }
                });
            });
        });
    }
    if let Some(status) = object(ingress, "status") {
        object(status, "loadBalancer");
    }
}

fn backend_defaults(backend: &mut Value) {
    within(backend, "service", |service| {
        object(service, "port");
    });
}

pub(super) fn class_defaults(class: &mut Value) {
    if let Some(spec) = object(class, "spec") {
        within(spec, "parameters", |parameters| default_to(parameters, "scope", "Cluster"));
    }
}

pub(super) fn policy_defaults(policy: &mut Value) {
    let Some(spec) = object(policy, "spec") else { return };
    object(spec, "podSelector");
    let mut kinds = vec!["Ingress"];
    if !At::root(spec).get("egress").is_empty() {
        kinds.push("Egress");
    }
    default_to(spec, "policyTypes", kinds);
    for direction in ["ingress", "egress"] {
        each(spec, direction, |rule| {
            each(rule, "ports", |port| default_to(port, "protocol", "TCP"));
        });
    }
}

pub(super) fn ingress(object: &Value) -> Errors {
    let mut errors = ingress_spec(object);
    let at = At::root(object);
    let annotation = at.get("metadata.annotations");
    let annotated = annotation.entries().find(|(key, _)| *key == CLASS_ANNOTATION);
    let class = at.get("spec.ingressClassName");
    if let Some((_, value)) = annotated
        && class.is_set()
        && class.text() != value.text()
    {
        let place = value.called(format!("annotations.{CLASS_ANNOTATION}"));
        errors.push(place.invalid("must match `ingressClassName` when both are specified"));
    }
    errors
}

pub(super) fn ingress_update(new: &Value, _: &Value) -> Errors {
    ingress_spec(new)
}

fn ingress_spec(object: &Value) -> Errors {
    let mut errors = Errors::new();
    let spec = At::root(object).get("spec");
    let (rules, fallback) = (spec.get("rules"), spec.get("defaultBackend"));
    if rules.is_empty() && !fallback.is_set() {
        let text = "either `defaultBackend` or `rules` must be specified";
        errors.push(spec.invalid_as(rules.value().unwrap_or(&Value::Null), text));
    }
    if fallback.is_set() {
        check_backend(&fallback, &mut errors);
    }
    for rule in rules.items() {
        check_host(&rule.get("host"), &mut errors);
        let http = rule.get("http");
        let paths = http.get("paths");
        if http.is_set() && paths.is_empty() {
            errors.push(paths.required(""));
        }
        for path in paths.items() {
            check_path(&path, &mut errors);
        }
    }
    for tls in spec.get("tls").items() {
        for host in tls.get("hosts").items() {
            let rule = if host.text().contains('*') {
                names::wildcard_subdomain
            } else {
                names::dns1123_subdomain
            };
            host.complain(rule(host.text()), &mut errors);
        }
        let secret = tls.get("secretName");
        if !secret.text().is_empty() {
            secret.complain(names::dns1123_subdomain(secret.text()), &mut errors);
        }
    }
    let class = spec.get("ingressClassName");
    if class.is_set() {
        class.complain(names::dns1123_subdomain(class.text()), &mut errors);
    }
    errors
}

fn check_host(host: &At<'_>, errors: &mut Errors) {
    if host.text().is_empty() {
        return;
    }
    if parse(host.text()).is_some() {
        errors.push(host.invalid("must be a DNS name, not an IP address"));
    }
    let wild = host.text().contains('*');
    let rule = if wild { names::wildcard_subdomain } else { names::dns1123_subdomain };
    host.complain(rule(host.text()), errors);
}

fn check_path(at: &At<'_>, errors: &mut Errors) {
    let (path, kind) = (at.get("path"), at.get("pathType"));
    if !kind.is_set() {
        errors.push(kind.required("pathType must be specified"));
        return;
    }
    let absolute = path.text().starts_with('/');
    match kind.text() {
        "Exact" | "Prefix" => {
            if !absolute {
                errors.push(path.invalid("must be an absolute path"));
            }
            for part in ["//", "/./", "/../", "%2f", "%2F"] {
                if path.text().contains(part) {
                    errors.push(path.invalid(format!("must not contain '{part}'")));
                }
            }
            for end in ["/..", "/."] {
                if path.text().ends_with(end) {
                    errors.push(path.invalid(format!("cannot end with '{end}'")));
                }
            }
        }
        "ImplementationSpecific" => {
            if !path.text().is_empty() && !absolute {
                errors.push(path.invalid("must be an absolute path"));
            }
        }
        _ => errors.push(kind.unsupported(&["Exact", "ImplementationSpecific", "Prefix"])),
    }
    check_backend(&at.get("backend"), errors);
}

fn check_backend(backend: &At<'_>, errors: &mut Errors) {
    let (service, resource) = (backend.get("service"), backend.get("resource"));
    let empty = Value::from("");
    match (service.is_set(), resource.is_set()) {
        (true, true) => {
            let text = "cannot set both resource and service backends";
            errors.push(backend.invalid_as(&empty, text));
        }
        (false, false) => {
            let text = "resource or service backend is required";
            errors.push(backend.invalid_as(&empty, text));
        }
        (false, true) => {
            let group = resource.get("apiGroup");
            if group.is_set() {
                group.complain(names::dns1123_subdomain(group.text()), errors);
            }
            for key in ["kind", "name"] {
                let place = resource.get(key);
                if place.text().is_empty() {
                    errors.push(place.required(""));
                } else {
                    place.complain(names::path_segment_name(place.text()), errors);
                }
            }
        }
        (true, false) => check_service_backend(backend, &service, errors),
    }
}

fn check_service_backend(backend: &At<'_>, service: &At<'_>, errors: &mut Errors) {
    let name = service.get("name");
    if name.text().is_empty() {
        errors.push(name.required(""));
    } else {
        name.complain(names::dns1123_label(name.text()), errors);
    }
    let (port_name, number) = (service.get("port.name"), service.get("port.number"));
    match (!port_name.text().is_empty(), number.int_or_zero()) {
        (true, 0) => port_name.complain(names::port_name(port_name.text()), errors),
        (true, _) => {
            let text = "cannot set both port name & port number";
            errors.push(backend.invalid_as(&Value::from(""), text));
        }
        (false, 0) => errors.push(backend.required("port name or number is required")),
        (false, value) => number.complain(names::port_number(value), errors),
    }
}

pub(super) fn class(object: &Value) -> Errors {
    let mut errors = Errors::new();
    let controller = At::root(object).get("spec.controller");
    if controller.text().len() > CONTROLLER_LEN_MAX {
        errors.push(FieldError::too_long(controller.path(), CONTROLLER_LEN_MAX));
    }
    match controller.text().split_once('/') {
        _ if controller.text().is_empty() => errors.push(controller.required("")),
        Some((host, path)) if !host.is_empty() && !path.is_empty() => {
            let wrong = names::dns1123_subdomain(host);
            let shown = Value::from(host);
            errors.extend(wrong.into_iter().map(|text| controller.invalid_as(&shown, text)));
        }
        _ => {
            let text = "must be a domain-prefixed path (such as \"acme.io/foo\")";
            errors.push(controller.invalid(text));
        }
    }
    errors
}

pub(super) fn class_update(new: &Value, old: &Value) -> Errors {
    let mut errors = Errors::new();
    let controller = |object| At::root(object).get("spec.controller");
    controller(new).unchanged(&controller(old), &mut errors);
    errors.extend(class(new));
    errors
}

pub(super) fn policy(object: &Value) -> Errors {
    let mut errors = Errors::new();
    let spec = At::root(object).get("spec");
    check_selector(&spec.get("podSelector"), &mut errors);
    for (direction, peers) in [("ingress", "from"), ("egress", "to")] {
        for rule in spec.get(direction).items() {
            for port in rule.get("ports").items() {
                check_policy_port(&port, &mut errors);
            }
            for peer in rule.get(peers).items() {
                check_peer(&peer, &mut errors);
            }
        }
    }
    let kinds = spec.get("policyTypes");
    if kinds.len() > 2 {
        errors.push(kinds.invalid("may not specify more than two policyTypes"));
        return errors;
    }
    for kind in kinds.items() {
        kind.one_of_if_set(&["Ingress", "Egress"], &mut errors);
    }
    errors
}

pub(super) fn policy_update(new: &Value, _: &Value) -> Errors {
    policy(new)
}

fn check_policy_port(at: &At<'_>, errors: &mut Errors) {
    at.get("protocol").one_of_if_set(&["TCP", "UDP", "SCTP"], errors);
    let (port, end) = (at.get("port"), at.get("endPort"));
    match (port.value(), port.int()) {
        (None, _) if end.is_set() => {
            errors.push(end.invalid("may not be specified when `port` is not specified"));
        }
        (Some(Value::String(name)), _) => {
            if end.is_set() {
                errors.push(end.invalid("may not be specified when `port` is non-numeric"));
            }
            port.complain(names::port_name(name), errors);
        }
        (Some(_), Some(number)) => {
            port.complain(names::port_number(number), errors);
            if let Some(last) = end.int() {
                if last < number {
                    let text = "must be greater than or equal to `port`";
                    errors.push(end.invalid_as(&Value::from(number), text));
                }
                end.complain(names::port_number(last), errors);
            }
        }
        _ => {}
    }
}

fn check_peer(peer: &At<'_>, errors: &mut Errors) {
    let (pods, namespaces) = (peer.get("podSelector"), peer.get("namespaceSelector"));
    check_selector(&pods, errors);
    check_selector(&namespaces, errors);
    let block = peer.get("ipBlock");
    match (block.is_set(), pods.is_set() || namespaces.is_set()) {
        (false, false) => errors.push(peer.required("must specify a peer")),
        (true, true) => {
            errors.push(peer.forbidden("may not specify both ipBlock and another peer"));
        }
        _ => {}
    }
    let cidr = block.get("cidr");
    if !block.is_set() {
        return;
    }
    if cidr.text().is_empty() {
        errors.push(cidr.required(""));
        return;
    }
    check_cidr(&cidr, errors);
    let Some(outer) = parse_cidr(cidr.text()) else { return };
    for except in block.get("except").items() {
        check_cidr(&except, errors);
        let inner = parse_cidr(except.text());
        if inner.is_some_and(|inner| !is_strict_subset(inner, outer)) {
            errors.push(except.invalid("must be a strict subset of `cidr`"));
        }
    }
}
