//! The process's connections, one a line.

use super::edges::{bold, foot, title};
use crate::connections::Told;
use crate::stat::figures::{amount, time};
use crate::stat::text;
use crate::top::looks::Crowd;
use crate::top::state::State;
use crate::wrap::fit;
use corelane::admin::watch::Snapshot;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;

const HEADING: &str = "REMOTE                FLOW     BUCKET  OF  ON RECV-Q SEND-Q    AGE ENDING";
/// Lines around the connections: the title, the heading, and what of them is not shown.
const AROUND: usize = 6;

/// Those whose addresses contain the text that is filtered by.
pub fn wanted<'a>(state: &State, crowd: &'a Crowd) -> impl Iterator<Item = &'a Told> {
    let is_wanted =
        |one: &&Told| state.is_wanted(&one.connection.remote.to_string()) || state.is_wanted(&one.connection.local.to_string());
    crowd.told.iter().filter(is_wanted)
}

/// The whole screen.
pub fn lines(state: &State, snapshot: &Snapshot, crowd: &Crowd, rows: usize) -> Vec<Line<'static>> {
    let count = wanted(state, crowd).count();
    let strays = wanted(state, crowd).filter(|one| one.alignment.is_stray()).count();
    let (connections, strays) = (text::plural(count, "TCP connection"), text::plural(strays, "stray"));
    let words = format!("process {}: {connections}, {strays}", snapshot.process.pid);
    let mut lines = vec![title(state, words), Line::default(), bold(HEADING.to_owned())];
    let room = rows.saturating_sub(AROUND);
    lines.extend(crowd.why_not.iter().map(|why| Line::raw(fit(why, 80))));
    lines.extend(wanted(state, crowd).skip(state.scrolled).take(room).map(|one| line(one, crowd.at_nanoseconds)));
    let after = count.saturating_sub(state.scrolled + room);
    if after + state.scrolled > 0 {
        lines.push(Line::styled(format!("     {} above, {after} below: up and down", state.scrolled), Modifier::DIM));
    }
    lines.resize(rows - 1, Line::default());
    lines.push(foot(state));
    lines
}

fn line(one: &Told, now: u64) -> Line<'static> {
    let Told { connection, alignment, .. } = one;
    let number = |number: Option<usize>| number.map_or("-".to_owned(), |number| number.to_string());
    let words = format!(
        "{:<21} {:<8} {:>6} {:>3} {:>3} {:>6} {:>6} {:>6} {}",
        fit(&connection.remote.to_string(), 21),
        alignment.flow.map_or("-".to_owned(), |flow| format!("{flow:08x}")),
        number(alignment.bucket),
        number(alignment.of_lane),
        number(alignment.on_lane),
        amount(connection.receive_queue.into()),
        amount(connection.send_queue.into()),
        one.age(now).map_or("-".to_owned(), |seconds| time(seconds.saturating_mul(1_000_000_000))),
        one.ending().unwrap_or("-"),
    );
    let style = if alignment.is_stray() { Style::new().fg(Color::Yellow) } else { Style::new() };
    Line::styled(words, style)
}
