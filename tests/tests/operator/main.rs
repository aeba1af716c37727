//! The operator on the embedded cluster, in virtual time: what it costs, what it survives, what it
//! says, and what must never happen.

mod cost;
mod outages;
mod stage;
mod takeover;
mod telling;
