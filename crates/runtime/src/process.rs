//! Measurements of this process for Prometheus: memory, processor time, open files.
//!
//! Read from `/proc` on demand; a value that cannot be read is `None`. The programs encode them under the
//! names that every Prometheus client uses.

use std::fs;

/// One reading.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Process {
    pub resident_bytes: Option<f64>,
    pub virtual_bytes: Option<f64>,
    pub open_files: Option<f64>,
    pub open_files_max: Option<f64>,
    pub processor_seconds: Option<f64>,
}

/// The unit of processor time in `/proc/self/stat`: 100 a second on every Linux there is.
const TICKS_PER_SECOND: f64 = 100.0;

// === impl Process ===

impl Process {
    pub fn read() -> Self {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
        let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
        let files = fs::read_dir("/proc/self/fd").ok().map(Iterator::count);
        Self {
            resident_bytes: bytes(&status, "VmRSS:"),
            virtual_bytes: bytes(&status, "VmSize:"),
            open_files: files.and_then(|files| u32::try_from(files).ok()).map(f64::from),
            open_files_max: files_max(&limits),
            processor_seconds: processor_seconds(&stat),
        }
    }
}

/// A line of `/proc/self/status`, which counts in kB.
fn bytes(status: &str, name: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    let kilobytes: f64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kilobytes * 1024.0)
}

fn files_max(limits: &str) -> Option<f64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// User and system time: the 12th and 13th word after the name in brackets, which may have spaces.
fn processor_seconds(stat: &str) -> Option<f64> {
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut words = after_name.split_whitespace().skip(11);
    let user: f64 = words.next()?.parse().ok()?;
    let system: f64 = words.next()?.parse().ok()?;
    Some((user + system) / TICKS_PER_SECOND)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proc_files_are_read() {
        let status = "Name:\ttidegate\nVmSize:\t   10 kB\nVmRSS:\t    2048 kB\n";
        assert_eq!(bytes(status, "VmRSS:"), Some(2_097_152.0));
        assert_eq!(bytes("", "VmRSS:"), None);
        let limits = "Limit  Soft  Hard\nMax open files            1024    4096    files\n";
        assert_eq!(files_max(limits), Some(1024.0));
        let stat = "7 (a (strange) name) S 1 2 3 4 5 6 7 8 9 10 250 50 0 0";
        assert_eq!(processor_seconds(stat), Some(3.0));
        assert_eq!(processor_seconds("7 (cut"), None);
    }
}
