//! A folder for the files of one control plane: removed with it, unless the test failed.
//!
//! A test's error is known only when its control plane is already gone, so [`crate::inside`] calls
//! [`keep_all`] to keep the folders, and then removes them or prints their paths.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    thread,
};

const PREFIX: &str = "tidegate-e2e-";

/// Folders of ended control planes, once they are to be kept.
static KEPT: Mutex<Option<Vec<PathBuf>>> = Mutex::new(None);

/// A folder that is removed when dropped, but not in a panic: then its logs are needed.
#[derive(Debug)]
pub(crate) struct Scratch(PathBuf);

/// From now on folders are kept, and returned by [`take_kept`].
pub(crate) fn keep_all() {
    KEPT.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_default();
}

/// The folders that were kept.
pub(crate) fn take_kept() -> Vec<PathBuf> {
    KEPT.lock().unwrap_or_else(PoisonError::into_inner).take().unwrap_or_default()
}

// === impl Scratch ===

impl Scratch {
    pub(crate) fn new() -> io::Result<Self> {
        static SERIAL: AtomicU32 = AtomicU32::new(0);
        sweep(&std::env::temp_dir());
        loop {
            let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
            let name = format!("{PREFIX}{}-{serial}", process::id());
            let folder = std::env::temp_dir().join(name);
            match fs::create_dir(&folder) {
                // Left by an earlier process with this id.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
                Ok(()) => return Ok(Self(folder)),
            }
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Writes a file that only its owner may read.
    pub(crate) fn write(&self, name: &str, text: &str) -> io::Result<PathBuf> {
        use std::{io::Write as _, os::unix::fs::OpenOptionsExt as _};
        let path = self.0.join(name);
        let mut file = fs::OpenOptions::new()
            .create(true)
            .write(true)
            .truncate(true)
            .mode(0o600)
            .open(&path)?;
        file.write_all(text.as_bytes())?;
        Ok(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *kept {
            Some(kept) => kept.push(self.0.clone()),
            None if thread::panicking() => {}
            None => {
                let _ = fs::remove_dir_all(&self.0);
            }
        }
    }
}

/// Removes folders of runs that were killed, or failed, more than an hour ago.
fn sweep(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.filter_map(Result::ok) {
        let name = entry.file_name();
        let owner = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.split('-').next());
        let Some(owner) = owner else { continue };
        let age = entry.metadata().and_then(|data| data.modified()).ok();
        let age = age.and_then(|at| at.elapsed().ok()).unwrap_or_default();
        let is_running = Path::new("/proc").join(owner).exists();
        if !is_running && age.as_secs() > 3600 {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}
