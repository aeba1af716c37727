//! workload.
