//! TLS before services: what it promises, and whether clients that others wrote agree.
#![allow(missing_docs, clippy::unwrap_used)]

mod authority;
mod client;
mod files;
mod foreign;
mod server;
