//! The process's connections, one a line.

use super::area::Area;
use super::edges::{foot, heading, title};
use crate::connections::KernelConnection;
use crate::stat::figures::{amount, time};
use crate::stat::text;
use crate::top::looks::Crowd;
use crate::top::state::{CrowdSort, State};
use crate::wrap::fit;
use corelane::admin::watch::Snapshot;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;
use std::cmp::Reverse;

/// Lines around the connections: the title, the heading, and what of them is not shown.
const AROUND: usize = 6;

/// Columns of an address: at least those of IPv4, and at most those of IPv6, with a port.
const ADDRESS: (usize, usize) = (21, 47);
/// Columns of all else, and what a wide terminal has beside: the end here, the state and how long nothing came or went.
const REST: usize = 59;
const WIDE: usize = ADDRESS.1 + REST + 2 + ADDRESS.1 + 1 + 12 + 1 + 7;

/// Those whose addresses contain the text that is filtered by, sorted.
pub fn wanted<'a>(state: &State, crowd: &'a Crowd) -> Vec<&'a KernelConnection> {
    let is_wanted = |one: &&KernelConnection| {
        state.is_wanted(&one.connection.remote.to_string()) || state.is_wanted(&one.connection.local.to_string())
    };
    let mut told: Vec<&KernelConnection> = crowd.told.iter().filter(is_wanted).collect();
    match state.crowd_sort {
        CrowdSort::Need => {}
        CrowdSort::Remote => told.sort_by_key(|one| one.connection.remote),
        CrowdSort::ReceiveQueue => told.sort_by_key(|one| Reverse(one.connection.receive_queue)),
        CrowdSort::SendQueue => told.sort_by_key(|one| Reverse(one.connection.send_queue)),
        CrowdSort::Age => told.sort_by_key(|one| Reverse(one.age(crowd.at_nanoseconds))),
    }
    told
}

/// The whole screen.
pub fn lines(state: &State, snapshot: &Snapshot, crowd: &Crowd, Area { width, rows }: Area) -> Vec<Line<'static>> {
    let wanted = wanted(state, crowd);
    let strays = wanted.iter().filter(|one| one.alignment.is_stray()).count();
    let (connections, strays) = (text::plural(wanted.len(), "TCP connection"), text::plural(strays, "stray"));
    let words = format!("process {}: {connections}, {strays}", snapshot.process.pid);
    let columns = Columns::of(width);
    let marked = heading(&columns.heading(), state.crowd_sort.name());
    let mut lines = vec![title(state, words, width), Line::default(), Line::from(marked)];
    let room = rows.saturating_sub(AROUND);
    lines.extend(crowd.why_not.iter().map(|why| Line::raw(fit(why, width))));
    lines.extend(wanted.iter().skip(state.scrolled).take(room).map(|one| columns.line(one, crowd.at_nanoseconds)));
    let after = wanted.len().saturating_sub(state.scrolled + room);
    if after + state.scrolled > 0 {
        lines.push(Line::styled(format!("     {} above, {after} below: up and down", state.scrolled), Modifier::DIM));
    }
    lines.resize(rows - 1, Line::default());
    lines.push(foot(state));
    lines
}

/// The columns that a terminal has room for.
struct Columns {
    /// Of the remote address.
    remote: usize,
    is_wide: bool,
}

impl Columns {
    fn of(width: usize) -> Self {
        Self { remote: width.saturating_sub(REST).clamp(ADDRESS.0, ADDRESS.1), is_wide: width >= WIDE }
    }

    fn heading(&self) -> String {
        let first = format!("{:<1$} FLOW     BUCKET  OF  ON RECV-Q SEND-Q    AGE ENDING", "REMOTE", self.remote);
        match self.is_wide {
            true => format!("{first:<0$}  {1:<2$} STATE           IDLE", self.remote + REST, "LOCAL", ADDRESS.1),
            false => first,
        }
    }

    fn line(&self, one: &KernelConnection, now: u64) -> Line<'static> {
        let KernelConnection { connection, alignment, .. } = one;
        let number = |number: Option<usize>| number.map_or("-".to_owned(), |number| number.to_string());
        let first = format!(
            "{} {:<8} {:>6} {:>3} {:>3} {:>6} {:>6} {:>6} {}",
            padded(&connection.remote.to_string(), self.remote),
            alignment.flow.map_or("-".to_owned(), |flow| format!("{flow:08x}")),
            number(alignment.bucket),
            number(alignment.of_lane),
            number(alignment.on_lane),
            amount(connection.receive_queue.into()),
            amount(connection.send_queue.into()),
            one.age(now).map_or("-".to_owned(), |seconds| time(seconds.saturating_mul(1_000_000_000))),
            one.ending().unwrap_or("-"),
        );
        let words = match self.is_wide {
            true => format!("{}  {}", padded(&first, self.remote + REST), beside(connection)),
            false => first,
        };
        let style = if alignment.is_stray() { Style::new().fg(Color::Yellow) } else { Style::new() };
        Line::styled(words, style)
    }
}

/// The end here, the state, and how long nothing came or went.
fn beside(connection: &corelane::admin::machine::Connection) -> String {
    let idle = connection.idle.map_or("-".to_owned(), |idle| time(idle.as_nanos() as u64));
    format!("{} {:<12} {idle:>7}", padded(&connection.local.to_string(), ADDRESS.1), connection.state)
}

/// A text in exactly so many columns.
fn padded(text: &str, columns: usize) -> String {
    format!("{:<columns$}", fit(text, columns))
}
