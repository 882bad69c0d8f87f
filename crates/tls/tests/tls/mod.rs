//! TLS before services: what it promises, and whether clients that others wrote agree.

mod authority;
mod client;
mod files;
mod foreign;
mod moving;
mod server;
