//! Invariants and simulation for game workloads: invariants over traces, and the model cluster of the tests.

pub mod check;

#[cfg(test)]
mod simulate;
#[cfg(test)]
mod tests;
