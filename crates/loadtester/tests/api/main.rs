//! The program as callers see it: started, asked over HTTP, and ended.

#![expect(clippy::unwrap_used, clippy::panic, reason = "all of this file is tests")]

mod access;
mod command;
mod gates;
mod ports;
mod remote;
mod support;
mod tasks;
