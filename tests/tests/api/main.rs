//! The answers of the API server, request by request, compared with Kubernetes 1.36.
//!
//! Most tests call the service in the process; `sockets` does the same over HTTP/1.1 and HTTP/2. The
//! controllers do not run unless a test lets them: only the API server is tested.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a broken fixture is a failed test")]

mod access;
mod applies;
mod creates;
mod custom;
mod deletes;
mod discovery;
mod fields;
mod fixtures;
mod lists;
mod negotiation;
mod patches;
mod sockets;
mod updates;
mod watches;
