//! Upstreams on a screen: a line for each, those that need to be looked at first.

use super::figures::{amount, or_none, time};
use crate::upstreams::Beside;
use crate::wrap::fit;
use corelane_upstreams::{Row, Shown, State};

/// What is said where nobody answers.
pub const SILENT: &str = "upstreams are not shown: a lane does not answer at once; `corelane proxy show` waits for it";

/// Columns behind the name, and the least and the most of that.
const REST: usize = 54;
const NAME: (usize, usize) = (24, 70);

/// Above the lines, on a screen of so many columns.
pub fn heading(columns: usize) -> String {
    format!("{:<1$} STATE       OPEN   USES FAILED   IN B  OUT B BYTE P99", "UPSTREAM", name_columns(columns))
}

/// A line for each of those that are wanted. Counts are of each second where they are of so many, else all that there were.
pub fn lines(behind: &Beside, wanted: impl Fn(&Shown) -> bool, seconds: Option<f64>, columns: usize) -> Vec<(State, String)> {
    let seconds = seconds.filter(|seconds| *seconds > 0.0);
    let mut shown: Vec<&Shown> = behind.shown().iter().filter(|one| wanted(one)).collect();
    shown.sort_by_key(|one| is_well(one.row.state));
    shown.iter().map(|one| (one.row.state, line(&one.row, seconds, columns))).collect()
}

/// Whether clients are sent there.
pub fn is_well(state: State) -> bool {
    matches!(state, State::Up | State::Rising)
}

fn name_columns(columns: usize) -> usize {
    columns.saturating_sub(REST).clamp(NAME.0, NAME.1)
}

/// An address, and the name that has it, or the one that is both.
fn name(row: &Row) -> String {
    match row.address.as_ref().map(ToString::to_string) {
        Some(address) if address != row.name => format!("{address} {}", row.name),
        _ => row.name.clone(),
    }
}

fn line(row: &Row, seconds: Option<f64>, columns: usize) -> String {
    let counts = &row.counts;
    let shown = |count: u64| amount(seconds.map_or(count as f64, |seconds| count as f64 / seconds));
    let width = name_columns(columns);
    format!(
        "{:<width$} {:<10} {:>5} {:>6} {:>6} {:>6} {:>6} {:>8}",
        fit(&name(row), width),
        row.state.word(),
        amount(row.uses.into()),
        shown(counts.uses),
        shown(counts.failures()),
        shown(counts.bytes_from),
        shown(counts.bytes_to),
        or_none(row.times.within(0.99), |found| time(found.as_nanos() as u64)),
    )
}
