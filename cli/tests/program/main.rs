//! The whole program, as its users meet it: started as a process, spoken to over the network, ended by signals.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod clients;
mod common;
mod configuration;
mod confined;
mod drain;
mod echo;
mod faults;
mod generate;
mod http_hosts;
mod http_log;
mod load;
mod outside;
mod packet;
mod plan;
mod proxied;
mod refusals;
mod rpc;
mod rpc_clients;
mod rpcbind;
mod rss;
mod rss_check;
mod rss_table;
mod spread;
mod start;
mod stat;
mod steering;
mod tls;
mod unix;
