//! A running gateway, asked and told through its process's control socket: its rules, tables and routes, and what packets meet there. With the feature `packets`.

#[allow(dead_code)] // whoever starts a gateway makes one
mod ruling;

#[allow(unused_imports)] // likewise
pub(crate) use ruling::Ruling;
