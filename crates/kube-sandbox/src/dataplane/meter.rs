//! Request counters, and their series for a metrics server.
//!
//! Two sides count. Each pod counts its answers, under the names of an application
//! (`http_request_duration_seconds`) and of its sidecar (`istio_*` with `reporter="destination"`).
//! The gateway counts all answers to its clients, with `reporter="source"`, even when no pod was
//! reached. All series are cumulative, and those of a pod end with it.

use std::{collections::BTreeMap, time::Duration};

use parking_lot::{Mutex, MutexGuard};

use super::{
    Sink,
    app::Outcome,
    route::Backend,
    snapshot::{Pod, PodName},
};

/// Bucket bounds of an application's histogram, with the text of their labels.
const SECONDS: [(f64, &str); 11] = [
    (0.005, "0.005"),
    (0.01, "0.01"),
    (0.025, "0.025"),
    (0.05, "0.05"),
    (0.1, "0.1"),
    (0.25, "0.25"),
    (0.5, "0.5"),
    (1.0, "1"),
    (2.5, "2.5"),
    (5.0, "5"),
    (10.0, "10"),
];

/// Bucket bounds of a sidecar's histogram.
const MILLISECONDS: [(f64, &str); 14] = [
    (0.5, "0.5"),
    (1.0, "1"),
    (5.0, "5"),
    (10.0, "10"),
    (25.0, "25"),
    (50.0, "50"),
    (100.0, "100"),
    (250.0, "250"),
    (500.0, "500"),
    (1_000.0, "1000"),
    (2_500.0, "2500"),
    (5_000.0, "5000"),
    (10_000.0, "10000"),
    (60_000.0, "60000"),
];

/// Workload name of the gateway in its metrics.
const GATEWAY: &str = "sandbox-gateway";
/// Istio's label value for an unknown workload.
const UNKNOWN: &str = "unknown";

/// Answers by requested Service (namespace, name) and status.
pub type BackendCounts = BTreeMap<(String, String), BTreeMap<u16, u64>>;

/// Counts of a whole cluster. Shared by reference.
#[derive(Debug, Default)]
pub struct Meter(Mutex<Counts>);

#[derive(Debug, Default)]
struct Counts {
    /// By UID: a new pod with the same name starts at zero, like a new process.
    pods: BTreeMap<String, PodCounts>,
    /// By namespace, Service and workload.
    sent: BTreeMap<String, BTreeMap<String, BTreeMap<String, ByStatus>>>,
}

type ByStatus = BTreeMap<u16, Times>;

#[derive(Debug, Default)]
struct PodCounts {
    workload: String,
    by_status: ByStatus,
}

/// Labels by which the gateway counts answers.
#[derive(Debug, Clone, Copy)]
struct Sent<'s> {
    namespace: &'s str,
    service: &'s str,
    workload: &'s str,
    status: u16,
}

/// Number of answers, and a histogram of their latencies.
#[derive(Debug, Default, Clone)]
struct Times {
    count: u64,
    sum_s: f64,
    /// Number of answers per bucket, not cumulative.
    seconds: [u64; SECONDS.len()],
    milliseconds: [u64; MILLISECONDS.len()],
}

// === impl Meter ===

impl Meter {
    /// Counts an answer of a pod.
    pub fn served(&self, pod: &Pod, outcome: Outcome) {
        let mut counts = self.lock();
        let counted = slot(&mut counts.pods, &pod.uid);
        if counted.by_status.is_empty() {
            pod.workload.clone_into(&mut counted.workload);
        }
        counted.by_status.entry(outcome.status).or_default().add(outcome.latency);
    }

    /// Counts an answer of the gateway to a request for `backend`; `pod` if one was reached.
    pub fn sent(&self, backend: &Backend, pod: Option<&Pod>, outcome: Outcome) {
        let mut counts = self.lock();
        let services = slot(&mut counts.sent, &backend.namespace);
        let workloads = slot(services, &backend.service);
        let by_status = slot(workloads, pod.map_or(UNKNOWN, |pod| &pod.workload));
        by_status.entry(outcome.status).or_default().add(outcome.latency);
    }

    /// The gateway's answers so far.
    pub fn backends(&self) -> BackendCounts {
        let mut backends = BackendCounts::new();
        self.lock().each_sent(|sent, times| {
            let key = (sent.namespace.to_owned(), sent.service.to_owned());
            *backends.entry(key).or_default().entry(sent.status).or_default() += times.count;
        });
        backends
    }

    /// Reports everything as of `at_ms`, and drops the pods that are not in `pods`.
    pub fn scrape(&self, pods: &BTreeMap<PodName, Pod>, at_ms: i64, sink: &dyn Sink) {
        let names: BTreeMap<&str, &PodName> =
            pods.values().map(|pod| (pod.uid.as_str(), &pod.name)).collect();
        let mut counts = self.lock();
        counts.pods.retain(|uid, _| names.contains_key(uid.as_str()));
        for (uid, counted) in &counts.pods {
            let Some(name) = names.get(uid.as_str()) else { continue };
            for (status, times) in &counted.by_status {
                report_pod(name, &counted.workload, *status, times, at_ms, sink);
            }
        }
        counts.each_sent(|sent, times| report_sent(sent, times, at_ms, sink));
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.0.lock()
    }
}

/// The value of a key, created if missing. Only new keys are copied, which are rare.
fn slot<'m, V: Default>(map: &'m mut BTreeMap<String, V>, key: &str) -> &'m mut V {
    if !map.contains_key(key) {
        map.insert(key.to_owned(), V::default());
    }
    map.get_mut(key).expect("it was there, or was put there")
}

// === impl Counts ===

impl Counts {
    fn each_sent(&self, mut act: impl FnMut(Sent<'_>, &Times)) {
        for (namespace, services) in &self.sent {
            for (service, workloads) in services {
                for (workload, by_status) in workloads {
                    for (status, times) in by_status {
                        act(Sent { namespace, service, workload, status: *status }, times);
                    }
                }
            }
        }
    }
}

fn report_pod(
    pod: &PodName,
    workload: &str,
    status: u16,
    times: &Times,
    at_ms: i64,
    sink: &dyn Sink,
) {
    let status = status.to_string();
    let place = ("kubernetes_namespace", pod.namespace.as_str());
    let name = ("kubernetes_pod_name", pod.name.as_str());
    let application = [place, name, ("status", status.as_str())];
    times.report_seconds("http_request_duration_seconds", &application, at_ms, sink);
    let sidecar = [
        ("reporter", "destination"),
        ("destination_workload", workload),
        ("destination_workload_namespace", pod.namespace.as_str()),
        ("response_code", status.as_str()),
        place,
        name,
    ];
    times.report_requests(&sidecar, at_ms, sink);
}

fn report_sent(sent: Sent<'_>, times: &Times, at_ms: i64, sink: &dyn Sink) {
    let Sent { namespace, service, workload, status } = sent;
    let status = status.to_string();
    let host = format!("{service}.{namespace}.svc.cluster.local");
    let labels = [
        ("reporter", "source"),
        ("source_workload", GATEWAY),
        ("destination_service", host.as_str()),
        ("destination_service_name", service),
        ("destination_service_namespace", namespace),
        ("destination_workload", workload),
        ("destination_workload_namespace", namespace),
        ("response_code", status.as_str()),
    ];
    times.report_requests(&labels, at_ms, sink);
}

// === impl Times ===

impl Times {
    fn add(&mut self, latency: Duration) {
        let seconds = latency.as_secs_f64();
        self.count += 1;
        self.sum_s += seconds;
        raise(&mut self.seconds, &SECONDS, seconds);
        raise(&mut self.milliseconds, &MILLISECONDS, seconds * 1000.0);
    }

    fn report_requests(&self, labels: &[(&str, &str)], at_ms: i64, sink: &dyn Sink) {
        sink.append("istio_requests_total", labels, at_ms, float(self.count));
        let histogram = Histogram {
            name: "istio_request_duration_milliseconds",
            counts: &self.milliseconds,
            bounds: &MILLISECONDS,
            count: self.count,
            sum: self.sum_s * 1000.0,
        };
        histogram.report(labels, at_ms, sink);
    }

    fn report_seconds(&self, name: &str, labels: &[(&str, &str)], at_ms: i64, sink: &dyn Sink) {
        let (counts, bounds) = (&self.seconds, &SECONDS);
        let histogram = Histogram { name, counts, bounds, count: self.count, sum: self.sum_s };
        histogram.report(labels, at_ms, sink);
    }
}

/// Counts `value` in its histogram bucket.
fn raise(counts: &mut [u64], bounds: &[(f64, &str)], value: f64) {
    let index = bounds.partition_point(|(bound, _)| *bound < value);
    if let Some(count) = counts.get_mut(index) {
        *count += 1;
    }
}

struct Histogram<'h> {
    name: &'h str,
    counts: &'h [u64],
    bounds: &'h [(f64, &'h str)],
    count: u64,
    sum: f64,
}

impl Histogram<'_> {
    fn report(&self, labels: &[(&str, &str)], at_ms: i64, sink: &dyn Sink) {
        let bucket = format!("{}_bucket", self.name);
        let mut below = 0;
        let mut labelled = labels.to_vec();
        labelled.push(("le", "+Inf"));
        sink.append(&bucket, &labelled, at_ms, float(self.count));
        for (count, (_, bound)) in self.counts.iter().zip(self.bounds) {
            below += count;
            labelled.pop();
            labelled.push(("le", bound));
            sink.append(&bucket, &labelled, at_ms, float(below));
        }
        sink.append(&format!("{}_sum", self.name), labels, at_ms, self.sum);
        sink.append(&format!("{}_count", self.name), labels, at_ms, float(self.count));
    }
}

#[expect(clippy::cast_precision_loss, reason = "exact up to 2^53 requests")]
fn float(count: u64) -> f64 {
    count as f64
}
