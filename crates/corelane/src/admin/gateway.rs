//! A running gateway, asked and told through its process's control socket: its rules, tables and routes, and what packets meet there. With the feature `packets`.

mod lanes;
mod looks;
mod routes;
#[allow(dead_code)] // whoever starts a gateway makes one
mod ruling;
mod words;

#[allow(unused_imports)] // likewise
pub(crate) use lanes::Counting;
pub(crate) use lanes::InForce;
#[allow(unused_imports)] // likewise
pub(crate) use ruling::Ruling;
pub use words::{Changed, InterfaceRow, KeyRow, RouteRow, RoutesChanged, RuleRow, Sets, TableRow, Totals, Translated, Way};
