//! The kubeconfig of a sandbox.

use std::{
    fs::{self, OpenOptions},
    io::Write,
    net::SocketAddr,
    path::{Path, PathBuf},
};

use anyhow::Context;

use crate::error::hinted;

/// Every kubeconfig we write names this context, and only those are overwritten.
const CONTEXT: &str = "tidegate-sandbox";

/// Written on start, removed on exit.
pub(crate) struct Kubeconfig {
    path: PathBuf,
    text: String,
    /// The folder, if we made it: it goes too, once it is empty.
    made_folder: Option<PathBuf>,
}

// === impl Kubeconfig ===

impl Kubeconfig {
    /// Writes the file in one move; a file that is not ours is left alone.
    pub(crate) fn write(path: &Path, server: SocketAddr, token: &str) -> anyhow::Result<Self> {
        if let Ok(present) = fs::read_to_string(path)
            && !present.contains(&format!("current-context: {CONTEXT}"))
        {
            return Err(hinted(
                format!("`{}` exists and was not written by tidegate", path.display()),
                "choose another file with --kubeconfig; yours was not touched",
            ));
        }
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let made_folder = folder.filter(|folder| !folder.exists()).map(Path::to_owned);
        if let Some(folder) = folder {
            fs::create_dir_all(folder)
                .with_context(|| format!("failed to make folder `{}`", folder.display()))?;
        }
        let text = render(server, token);
        let draft = path.with_extension("tmp");
        let written = write_private(&draft, &text).and_then(|()| fs::rename(&draft, path));
        written.with_context(|| format!("failed to write `{}`", path.display()))?;
        Ok(Self { path: path.to_owned(), text, made_folder })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Kubeconfig {
    fn drop(&mut self) {
        // Another sandbox may have taken the file over; then it is not ours to remove.
        let is_ours = fs::read_to_string(&self.path).is_ok_and(|text| text == self.text);
        if is_ours {
            let _ = fs::remove_file(&self.path);
            if let Some(folder) = &self.made_folder {
                // Fails when something else was put there, and then it stays.
                let _ = fs::remove_dir(folder);
            }
        }
    }
}

fn render(server: SocketAddr, token: &str) -> String {
    format!(
        "apiVersion: v1\n\
         kind: Config\n\
         clusters:\n\
         - name: {CONTEXT}\n\
         \x20 cluster:\n\
         \x20   server: http://{server}\n\
         users:\n\
         - name: {CONTEXT}\n\
         \x20 user:\n\
         \x20   token: {token}\n\
         contexts:\n\
         - name: {CONTEXT}\n\
         \x20 context:\n\
         \x20   cluster: {CONTEXT}\n\
         \x20   user: {CONTEXT}\n\
         current-context: {CONTEXT}\n"
    )
}

fn write_private(path: &Path, text: &str) -> std::io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)?.write_all(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scratch(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("tidegate-{}-{name}", std::process::id()))
    }

    fn server() -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], 4321))
    }

    #[test]
    fn a_foreign_kubeconfig_is_never_overwritten() {
        let path = scratch("foreign");
        fs::write(&path, "current-context: production\n").unwrap();
        assert!(Kubeconfig::write(&path, server(), "t").is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), "current-context: production\n");
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn our_own_file_is_replaced_and_goes_with_us() {
        let path = scratch("own");
        let first = Kubeconfig::write(&path, server(), "one").unwrap();
        let second = Kubeconfig::write(&path, server(), "two").unwrap();
        drop(first);
        assert!(fs::read_to_string(&path).unwrap().contains("token: two"));
        drop(second);
        assert!(!path.exists());
    }
}
