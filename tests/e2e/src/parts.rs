//! The folders of the programs that `tests/e2e/get` obtained.
//!
//! The script alone knows the names in its cache; it is queried, and obtains nothing.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, bail};

/// The folders of all parts, by name: `kubernetes`, `etcd`, `traefik`, ...
#[derive(Debug, Clone)]
pub struct Parts(BTreeMap<String, PathBuf>);

// === impl Parts ===

impl Parts {
    /// All parts, or an error with the missing one and the command that obtains it.
    pub fn find() -> Result<Self> {
        Self::named(&[])
    }

    /// Only these, for a suite that runs without the others.
    pub fn named(parts: &[&str]) -> Result<Self> {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("get");
        let output = Command::new(&script).arg("--paths").args(parts).output();
        let output = output.with_context(|| format!("{} does not run", script.display()))?;
        if !output.status.success() {
            bail!("{}", String::from_utf8_lossy(&output.stderr).trim());
        }
        let text = String::from_utf8(output.stdout).context("a path is not UTF-8")?;
        let part = |line: &str| {
            let mut fields = line.split('\t');
            let (name, folder) = (fields.next()?, fields.nth(1)?);
            Some((name.to_owned(), PathBuf::from(folder)))
        };
        Ok(Self(text.lines().filter_map(part).collect()))
    }

    /// The folder of one part.
    pub fn folder(&self, part: &str) -> Result<&Path> {
        self.0.get(part).map(PathBuf::as_path).with_context(|| format!("no part is called {part}"))
    }

    /// A program of one part.
    pub fn program(&self, part: &str, program: &str) -> Result<PathBuf> {
        Ok(self.folder(part)?.join(program))
    }

    pub fn kubectl(&self) -> Result<PathBuf> {
        self.program("kubernetes", "kubectl")
    }
}
