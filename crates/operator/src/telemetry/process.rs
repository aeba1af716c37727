//! The process itself: memory, processor time, open files. Names are those every Prometheus client
//! uses. Read from `/proc` when scraped; what cannot be read is left out.

use std::fs;

use jiff::Timestamp;
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::{counter::ConstCounter, gauge::ConstGauge},
};

#[derive(Debug)]
pub(super) struct Process {
    start: Timestamp,
}

/// What `/proc/self/stat` counts processor time in: 100 a second on every Linux there is.
const TICKS_PER_SECOND: f64 = 100.0;

// === impl Process ===

impl Process {
    pub(super) fn started(start: Timestamp) -> Self {
        Self { start }
    }
}

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let mut gauge = |name: &str, help: &str, value: Option<f64>| {
            let Some(value) = value else { return Ok(()) };
            let metric = ConstGauge::new(value);
            metric.encode(encoder.encode_descriptor(name, help, None, metric.metric_type())?)
        };
        let start_s = self.start.as_duration().as_secs_f64();
        gauge("process_start_time_seconds", "When the process began", Some(start_s))?;
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let resident = bytes(&status, "VmRSS:");
        gauge("process_resident_memory_bytes", "Memory in use", resident)?;
        let reserved = bytes(&status, "VmSize:");
        gauge("process_virtual_memory_bytes", "Memory reserved", reserved)?;
        let files = fs::read_dir("/proc/self/fd").ok().and_then(|files| number(files.count()));
        gauge("process_open_fds", "Open files", files)?;
        let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
        gauge("process_max_fds", "Files that may be open", files_max(&limits))?;
        let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
        if let Some(seconds) = processor_seconds(&stat) {
            let metric = ConstCounter::new(seconds);
            let (name, help) = ("process_cpu_seconds", "Processor time used");
            metric.encode(encoder.encode_descriptor(name, help, None, metric.metric_type())?)?;
        }
        Ok(())
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

fn number(things: usize) -> Option<f64> {
    u32::try_from(things).ok().map(f64::from)
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
