//! Load, tests and gates for rollouts: Flagger's load tester, for callers that are not trusted.
//!
//! ```text
//! server --> auth --> payload --> gates            opened by people, checked by rollouts; a file
//!                            \--> task --> runner --> load       built in: hey's and wrk's command lines
//!                                 policy           \-> process    programs, in groups that end whole
//!                                                  \-> ngrinder, concord   over client
//! ```
//!
//! It runs commands for others, so it shares neither trust nor an image with the operator, which can write Secrets:
//! only `tidegate-runtime`, which has no client, and the durations of `tidegate-api`. Start reading at [`task`],
//! which decides which commands are allowed.

pub mod args;
pub mod auth;
pub mod client;
pub mod concord;
pub mod duration;
pub mod files;
pub mod gates;
pub mod load;
pub mod metrics;
pub mod ngrinder;
pub mod payload;
pub mod process;
mod redact;
pub mod run;
pub mod runner;
pub mod server;
pub mod task;
pub mod words;
