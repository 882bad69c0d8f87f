//! The table as a strip: a cell for each bucket, its letter the lane that serves it, its colour how much that lane works.

use corelane::admin::watch::{LaneFigures, Snapshot};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};

/// The most lines, and the columns before their cells.
const LINES_MAX: usize = 2;
const LABEL: usize = 8;

/// From idle to full.
const HEAT: [Color; 5] = [Color::DarkGray, Color::Cyan, Color::Green, Color::Yellow, Color::Red];

/// The strip with its heading; nothing where no table is told.
pub fn lines(snapshot: &Snapshot, figures: &[LaneFigures], width: usize) -> Vec<Line<'static>> {
    let buckets = &snapshot.steering.lanes;
    if buckets.is_empty() {
        return Vec::new();
    }
    // Tables and lines have a power of two, so that lines begin at round numbers.
    let in_line = 1 << (width - LABEL).ilog2();
    // Of a large table several buckets share a cell.
    let shared = buckets.len().div_ceil(in_line * LINES_MAX).max(1);
    let each = if shared == 1 { String::new() } else { format!(", {shared} a cell, * of several lanes") };
    let heading = format!("BUCKETS  {} by lane{each}", buckets.len());
    let mut lines = vec![Line::default(), Line::styled(heading, Modifier::BOLD)];
    let cells: Vec<&[u16]> = buckets.chunks(shared).collect();
    for (number, cells) in cells.chunks(in_line).enumerate() {
        let label = Span::raw(format!("{:>6}  ", number * in_line * shared));
        lines.push(Line::from_iter(std::iter::once(label).chain(cells.iter().map(|lanes| cell(figures, lanes)))));
    }
    lines
}

fn cell(figures: &[LaneFigures], lanes: &[u16]) -> Span<'static> {
    let lane = usize::from(lanes[0]);
    if lanes.iter().any(|other| usize::from(*other) != lane) {
        return Span::raw("*");
    }
    let letter = u32::try_from(lane).ok().filter(|lane| *lane < 36).and_then(|lane| char::from_digit(lane, 36)).unwrap_or('#');
    Span::styled(letter.to_string(), heat(figures, lane))
}

fn heat(figures: &[LaneFigures], lane: usize) -> Style {
    let works = figures.get(lane).and_then(|lane| lane.shares).map_or(0.0, |shares| shares.productive);
    let step = ((works * HEAT.len() as f64) as usize).min(HEAT.len() - 1);
    Style::new().fg(HEAT[step])
}
