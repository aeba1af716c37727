//! Manifests from files and folders.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::Context;
use serde_json::Value;

use crate::error::hinted;

/// A manifest file above this is a mistake; the largest CRD bundles are a few megabytes.
const FILE_BYTES_MAX: u64 = 32 * 1024 * 1024;

/// All objects in `path`: a file, or every `.yaml`, `.yml` and `.json` below a folder, by name.
pub(crate) fn read(path: &Path) -> anyhow::Result<Vec<Value>> {
    let mut files = Vec::new();
    collect(path, &mut files)?;
    if files.is_empty() {
        return Err(hinted(
            format!("`{}` holds no manifests", path.display()),
            "files must end in .yaml, .yml or .json",
        ));
    }
    let mut objects = Vec::new();
    for file in files {
        objects.extend(read_file(&file)?);
    }
    Ok(objects)
}

fn collect(path: &Path, files: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    let about = || format!("failed to read `{}`", path.display());
    if !fs::metadata(path).with_context(about)?.is_dir() {
        files.push(path.to_owned());
        return Ok(());
    }
    let entries = fs::read_dir(path).with_context(about)?;
    let mut entries: Vec<PathBuf> =
        entries.map(|entry| entry.map(|entry| entry.path())).collect::<Result<_, _>>()?;
    entries.sort();
    for entry in entries {
        let extension = entry.extension().and_then(|text| text.to_str()).unwrap_or_default();
        if entry.is_dir() || matches!(extension, "yaml" | "yml" | "json") {
            collect(&entry, files)?;
        }
    }
    Ok(())
}

fn read_file(file: &Path) -> anyhow::Result<Vec<Value>> {
    let about = || format!("failed to read `{}`", file.display());
    let size = fs::metadata(file).with_context(about)?.len();
    if size > FILE_BYTES_MAX {
        anyhow::bail!("`{}` is {size} bytes; the limit is {FILE_BYTES_MAX}", file.display());
    }
    let text = fs::read_to_string(file).with_context(about)?;
    kube_sandbox::manifests::parse(&text)
        .map_err(|error| anyhow::anyhow!("`{}` is no manifest: {error}", file.display()))
}
