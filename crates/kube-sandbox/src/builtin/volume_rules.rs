//! Validation of a pod's volumes.

use std::collections::BTreeSet;

use super::{
    at::{At, Errors},
    container_rules::check_descending,
};
use crate::names;

/// Every volume source, in the order in which the API server looks.
const SOURCES: [&str; 30] = [
    "emptyDir",
    "hostPath",
    "gitRepo",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "flocker",
    "persistentVolumeClaim",
    "rbd",
    "cinder",
    "cephfs",
    "quobyte",
    "downwardAPI",
    "fc",
    "flexVolume",
    "configMap",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "storageos",
    "scaleIO",
    "projected",
    "csi",
    "ephemeral",
    "image",
];

const FILE_MODE: &str = "must be a number between 0 and 0777 (octal), both inclusive";

/// Checks the volumes and returns the names that mounts may refer to.
pub(crate) fn check_volumes(volumes: &At<'_>, errors: &mut Errors) -> BTreeSet<String> {
    let mut seen = BTreeSet::new();
    for volume in volumes.items() {
        let mut found = Errors::new();
        check_source(&volume, &mut found);
        let name = volume.get("name");
        if name.text().is_empty() {
            found.push(name.required(""));
        } else {
            name.complain(names::dns1123_label(name.text()), &mut found);
        }
        if seen.contains(name.text()) {
            found.push(name.duplicate());
        }
        // A mount of an invalid volume is reported too, as missing.
        if found.is_empty() {
            seen.insert(name.text().to_owned());
        }
        errors.append(&mut found);
    }
    seen
}

fn check_source(volume: &At<'_>, errors: &mut Errors) {
    let mut sources = 0;
    for kind in SOURCES {
        let source = volume.get(kind);
        if !source.is_set() {
            continue;
        }
        sources += 1;
        if sources > 1 {
            errors.push(source.forbidden("may not specify more than 1 volume type"));
            continue;
        }
        match kind {
            "secret" => check_files(&source, "secretName", errors),
            "configMap" => check_files(&source, "name", errors),
            "hostPath" => {
                check_required(&source.get("path"), errors);
                if source.get("path").text().split('/').any(|part| part == "..") {
                    errors.push(source.get("path").invalid("must not contain '..'"));
                }
            }
            "persistentVolumeClaim" => check_required(&source.get("claimName"), errors),
            "nfs" => {
                check_required(&source.get("server"), errors);
                check_required(&source.get("path"), errors);
            }
            "csi" => check_required(&source.get("driver"), errors),
            "projected" => check_mode(&source.get("defaultMode"), errors),
            _ => {}
        }
    }
    if sources == 0 {
        errors.push(volume.required("must specify a volume type"));
    }
}

/// Checks a Secret or ConfigMap volume.
fn check_files(source: &At<'_>, name: &str, errors: &mut Errors) {
    check_required(&source.get(name), errors);
    check_mode(&source.get("defaultMode"), errors);
    for item in source.get("items").items() {
        check_required(&item.get("key"), errors);
        let path = item.get("path");
        check_required(&path, errors);
        check_descending(&path, errors);
        if path.text().starts_with("..") && !path.text().starts_with("../") {
            errors.push(path.invalid("must not start with '..'"));
        }
        check_mode(&item.get("mode"), errors);
    }
}

fn check_required(place: &At<'_>, errors: &mut Errors) {
    if place.text().is_empty() {
        errors.push(place.required(""));
    }
}

fn check_mode(mode: &At<'_>, errors: &mut Errors) {
    if mode.int().is_some_and(|mode| !(0..=0o777).contains(&mode)) {
        errors.push(mode.invalid(FILE_MODE));
    }
}
