//! The process's upstreams, one a line.

use super::area::Area;
use super::edges::{bold, foot, title};
use crate::stat::behind::{SILENT, heading, is_well, lines as rows};
use crate::stat::text;
use crate::top::behind::Behind;
use crate::top::state::State;
use crate::upstreams::Beside;
use crate::wrap::fit;
use corelane::admin::watch::Snapshot;
use corelane_upstreams::{Shown, State as Stands};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;

/// Lines around the upstreams: the title, the heading, and what of them is not shown.
const AROUND: usize = 6;

/// How many are not filtered away.
pub fn count(state: &State, behind: &Behind) -> usize {
    behind.beside.shown().iter().filter(|one| is_wanted(state, one)).count()
}

fn is_wanted(state: &State, Shown { service, row, .. }: &Shown) -> bool {
    let has = |text: &str| state.is_wanted(text);
    has(service) || has(&row.name) || row.address.as_ref().is_some_and(|address| has(&address.to_string()))
}

/// The whole screen.
pub fn lines(state: &State, snapshot: &Snapshot, behind: &Behind, Area { width, rows: height }: Area) -> Vec<Line<'static>> {
    let found = rows(&behind.beside, |one| is_wanted(state, one), behind.seconds, width);
    let out = found.iter().filter(|(stands, _)| !is_well(*stands)).count();
    let words = format!("process {}: {}, {out} out of rotation", snapshot.process.pid, text::plural(found.len(), "upstream"));
    let mut lines = vec![title(state, words, width), Line::default(), bold(heading(width))];
    match &behind.beside {
        Beside::Silent => lines.push(Line::raw(fit(SILENT, width))),
        Beside::None => lines.push(Line::raw("no service of this process has upstreams")),
        Beside::Shown { .. } => {}
    }
    let room = height.saturating_sub(AROUND);
    let after = found.len().saturating_sub(state.scrolled + room);
    lines.extend(found.into_iter().skip(state.scrolled).take(room).map(|(stands, words)| Line::styled(words, style(stands))));
    if after + state.scrolled > 0 {
        lines.push(Line::styled(format!("     {} above, {after} below: up and down", state.scrolled), Modifier::DIM));
    }
    lines.resize(height - 1, Line::default());
    lines.push(foot(state));
    lines
}

fn style(stands: Stands) -> Style {
    if is_well(stands) { Style::new() } else { Style::new().fg(Color::Yellow) }
}
