//! The process' own series, under the names that every Prometheus client uses. Read when scraped; a value that cannot be
//! read is left out.

use jiff::Timestamp;
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::{counter::ConstCounter, gauge::ConstGauge},
};
use tidegate_runtime::process;

#[derive(Debug)]
pub(super) struct Process {
    start: Timestamp,
}

// === impl Process ===

impl Process {
    pub(super) fn started(start: Timestamp) -> Self {
        Self { start }
    }
}

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let now = process::Process::read();
        let mut gauge = |name: &str, help: &str, value: Option<f64>| {
            let Some(value) = value else { return Ok(()) };
            let metric = ConstGauge::new(value);
            metric.encode(encoder.encode_descriptor(name, help, None, metric.metric_type())?)
        };
        let start_s = self.start.as_duration().as_secs_f64();
        gauge("process_start_time_seconds", "When the process began", Some(start_s))?;
        gauge("process_resident_memory_bytes", "Memory in use", now.resident_bytes)?;
        gauge("process_virtual_memory_bytes", "Memory reserved", now.virtual_bytes)?;
        gauge("process_open_fds", "Open files", now.open_files)?;
        gauge("process_max_fds", "Files that may be open", now.open_files_max)?;
        if let Some(seconds) = now.processor_seconds {
            let metric = ConstCounter::new(seconds);
            let (name, help) = ("process_cpu_seconds", "Processor time used");
            metric.encode(encoder.encode_descriptor(name, help, None, metric.metric_type())?)?;
        }
        Ok(())
    }
}
