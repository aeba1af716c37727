//! Translations between Tidegate's decisions and the objects, requests and answers of other
//! systems. Pure functions; the operator calls them and does all I/O.
//!
//! [`traffic`] turns a share of traffic into routing objects and back, [`workload`] derives the
//! objects in production from the user's, [`metrics`] turns a check into a request and an answer
//! into a number, [`notify`] and [`hook`] write messages to chats and webhooks, [`game`] reads and
//! writes game workloads, [`consent`] says where Secrets may be sent. Objects are JSON as the API server sends it, so that fields unknown to us
//! survive.

#![warn(missing_docs)]

pub mod canary;
pub mod consent;
pub mod game;
pub mod hook;
pub mod metrics;
pub mod notify;
pub mod object;
pub mod request;
pub mod template;
pub mod traffic;
pub mod workload;
