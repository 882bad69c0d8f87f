//! HTTP/1.1: hostile heads with other servers' verdicts, any split of any message, answers, and seeds.

mod answers;
mod bodies;
mod conditions;
pub mod samples;
mod splits;
mod table;
