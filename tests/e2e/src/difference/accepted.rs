//! The accepted differences, each with the row of the page of differences that it belongs to.
//!
//! A difference that no row here explains fails the suite. A row that explains nothing in a run of all
//! scenarios fails it too.

use super::compare::Row;

const ANY: [&str; 2] = ["*", "*"];

pub const ACCEPTED: &[Row] = &[
    Row {
        scenario: "*",
        subject: "Canary *",
        path: "/status/lastDecision*",
        values: ANY,
        page: "`status.lastDecision`",
    },
    Row {
        scenario: "*",
        subject: "Canary *",
        path: "/status/conditions/Ready|/status/conditions/Reconciling|/status/conditions/Stalled|/status/observedGeneration",
        values: ANY,
        page: "conditions `Ready`, `Reconciling`, `Stalled`; `observedGeneration`",
    },
];
