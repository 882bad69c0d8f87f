//! A running gateway, asked and told through its process's control socket: its rules, tables and routes, and what packets meet there. With the feature `packets`.
//!
//! A change is in force on all lanes or on none, and counters go on. Lists come in pages; a list that was changed between two pages is asked for anew, and if that does not help it is
//! said ([`Listed::has_changed`]).
//!
//! Each function has the errors of [`ControlError`]; [`ControlError::Refused`] has the words of the process, which may be no gateway.

mod followed;
mod lanes;
mod offloaded;
mod routes;
mod ruling;
mod words;

use crate::admin::control_client::{self, ControlError, GATEWAY};
use serde::de::DeserializeOwned;
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;
use words::{Page, Request, json};

#[cfg(test)]
pub(crate) use lanes::{Beside, Passed};
pub(crate) use lanes::{Counted, Found, InForce, Lanes, Seen, Sighted, add_row, add_totals};
pub(crate) use offloaded::Offloaded;
pub(crate) use ruling::Ruling;
pub use words::{
    Changed, FastPath, InterfaceRow, KeyRow, Losses, RouteRow, RoutesChanged, RuleRow, SHOWN_MAX, Sets, Shown, ShownTable,
    TableRow, Totals, Translated, Way,
};

/// How long an answer is waited for: longer than the process itself waits for its lanes.
const PATIENCE: Duration = Duration::from_secs(60);

/// How often a list is asked for that changes meanwhile.
const TRIES: usize = 4;

/// A list of a gateway's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed<T> {
    /// The rows on it.
    pub rows: Vec<T>,
    /// It was changed while it came: some of it may be missing, or there twice.
    pub has_changed: bool,
}

/// Has commands of ipfw(8) carried out, all of them or none: add, delete, flush, zero, resetlog, set and table, each in its own words.
///
/// # Errors
/// Every [`ControlError`].
pub fn change(page: &Path, commands: Vec<String>) -> Result<Changed, ControlError> {
    ask(page, &Request::Change { commands })
}

/// Has the commands of a shell script carried out, all of them or none; or only looks what would come of them. A fault is named with its line and column.
///
/// # Errors
/// Every [`ControlError`].
pub fn import(page: &Path, script: String, only_checks: bool) -> Result<Changed, ControlError> {
    ask(page, &Request::Import { script, only_checks })
}

/// The rules with numbers in these ranges, first and last, or all if there are none; with their counts.
///
/// # Errors
/// Every [`ControlError`].
pub fn rules(page: &Path, numbers: &[(u16, u16)]) -> Result<Listed<RuleRow>, ControlError> {
    list(page, |from| Request::Rules { numbers: numbers.to_vec(), from })
}

/// Which sets of rules are switched on.
///
/// # Errors
/// Every [`ControlError`].
pub fn sets(page: &Path) -> Result<Sets, ControlError> {
    ask(page, &Request::Sets {})
}

/// The tables.
///
/// # Errors
/// Every [`ControlError`].
pub fn tables(page: &Path) -> Result<Listed<TableRow>, ControlError> {
    list(page, |from| Request::Tables { from })
}

/// The keys of a table with their values.
///
/// # Errors
/// Every [`ControlError`].
pub fn keys(page: &Path, table: &str) -> Result<Listed<KeyRow>, ControlError> {
    list(page, |from| Request::Keys { table: table.to_owned(), from })
}

/// Has routes changed, all of them or none: `add PREFIX via ROUTER [interface NAME]` or `delete PREFIX [via ROUTER]`, each with the line that faults are named with, or 0.
///
/// # Errors
/// Every [`ControlError`].
pub fn change_routes(page: &Path, changes: Vec<(usize, String)>) -> Result<RoutesChanged, ControlError> {
    ask(page, &Request::ChangeRoutes { changes })
}

/// The routes to networks within that one, or all. Networks of the gateway's own are not among them.
///
/// # Errors
/// Every [`ControlError`].
pub fn routes(page: &Path, within: Option<&str>) -> Result<Listed<RouteRow>, ControlError> {
    list(page, |from| Request::Routes { within: within.map(str::to_owned), from })
}

/// How packets get to an address.
///
/// # Errors
/// Every [`ControlError`].
pub fn way(page: &Path, to: IpAddr) -> Result<Way, ControlError> {
    ask(page, &Request::Way { to })
}

/// The verdict of the rules on a packet, such as `in via vlan10 tcp 10.0.10.5:4000 > 192.0.2.1:80 syn`: a line for each rule that it comes to, and the verdict. Nothing is counted.
///
/// # Errors
/// Every [`ControlError`].
pub fn trace(page: &Path, packet: &str) -> Result<Listed<String>, ControlError> {
    list(page, |from| Request::Trace { packet: packet.to_owned(), from })
}

/// The packets forwarded at each interface.
///
/// # Errors
/// Every [`ControlError`].
pub fn interfaces(page: &Path) -> Result<Listed<InterfaceRow>, ControlError> {
    list(page, |from| Request::Interfaces { from })
}

/// The gateway's state, and what packets have left behind.
///
/// # Errors
/// Every [`ControlError`].
pub fn totals(page: &Path) -> Result<Totals, ControlError> {
    ask(page, &Request::Totals {})
}

/// The answer to one request.
fn ask<T: DeserializeOwned>(page: &Path, request: &Request) -> Result<T, ControlError> {
    let text = json(request).map_err(|why| ControlError::Refused { why })?;
    let answer = control_client::ask(page, &format!("{GATEWAY} {text}"), PATIENCE)?;
    let path = || page.with_extension(control_client::SUFFIX);
    serde_json::from_str(&answer).map_err(|_| ControlError::NoAnswer { path: path(), got_bytes: answer.len() })
}

/// All rows of a list, page by page.
fn list<T: DeserializeOwned>(page: &Path, request: impl Fn(usize) -> Request) -> Result<Listed<T>, ControlError> {
    listed(|from| ask(page, &request(from)))
}

fn listed<T, E>(mut ask: impl FnMut(usize) -> Result<Page<T>, E>) -> Result<Listed<T>, E> {
    let mut tries = 0;
    loop {
        tries += 1;
        let first = ask(0)?;
        let (version, mut next) = (first.version, first.next);
        let mut listed = Listed { rows: first.rows, has_changed: false };
        while let Some(from) = next.filter(|_| !listed.has_changed || tries == TRIES) {
            let more = ask(from)?;
            listed.has_changed |= more.version != version;
            // A row that is no further on would be asked for without end.
            next = more.next.filter(|next| *next > from);
            listed.rows.extend(more.rows);
        }
        if !listed.has_changed || tries == TRIES {
            return Ok(listed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A list of ten numbers in pages of three, which is changed before these questions.
    fn asked(changes: &[usize]) -> (Listed<usize>, usize) {
        let (mut questions, mut version) = (0, 0);
        let listed = listed(|from| {
            version += u64::from(changes.contains(&questions));
            questions += 1;
            let rows: Vec<usize> = (from..10).take(3).collect();
            Ok::<_, ControlError>(Page { version, next: (from + 3 < 10).then_some(from + 3), rows })
        });
        (listed.unwrap(), questions)
    }

    #[test]
    fn a_list_that_changes_is_asked_for_anew_and_at_last_it_is_said() {
        let all: Vec<usize> = (0..10).collect();
        assert_eq!(asked(&[]), (Listed { rows: all.clone(), has_changed: false }, 4));
        assert_eq!(asked(&[2]), (Listed { rows: all.clone(), has_changed: false }, 7), "three pages of the first try");
        let always: Vec<usize> = (0..100).collect();
        assert_eq!(asked(&always), (Listed { rows: all, has_changed: true }, 2 + 2 + 2 + 4));
    }
}
