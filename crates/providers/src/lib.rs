//! Translations: objects, requests and answers in the languages of others. Pure functions.
//!
//! [`traffic`] turns a share of traffic into routing objects and back, [`workload`] derives what runs
//! in production from what the user wrote, [`metrics`] turns a check into a request and an answer into
//! a number, [`notify`] and [`hook`] write messages to chats and webhooks. Objects are JSON as the API
//! server sends it, so that fields unknown to us survive.

#![warn(missing_docs)]

mod base64;
pub mod canary;
pub mod game;
pub mod hook;
pub mod metrics;
pub mod notify;
pub mod object;
pub mod request;
pub mod template;
pub mod traffic;
pub mod workload;
