//! The status screen: what a run is doing, on as many lines as there are.

use super::flow::{Field, flow};
use super::{facts, plot};
use crate::wrap::fit;
use corelane_load::report::Progress;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};

#[cfg(test)]
mod tests;

/// The narrowest bar that shows anything.
const BAR_MIN: usize = 5;

/// How to end, in the last line.
const HINT: &str = "q or Ctrl-C: end now, with what was measured so far";

/// Draws a run's progress. Figures are shown whole or not at all; in a small frame the less telling ones are left out.
pub fn draw(frame: &mut Frame, progress: &Progress) {
    let area = frame.area();
    let (mut groups, mut free) = groups(progress, area);
    let plotted = free > plot::HEIGHT_MIN;
    let hint = free > 0;
    free -= u16::from(hint);
    let needed = if plotted { plot::HEIGHT_MIN } else { 0 };
    for group in &mut groups {
        if free > needed && !group.is_empty() {
            group.push(Line::default());
            free -= 1;
        }
    }
    let mut y = area.y;
    for line in groups.iter().flatten() {
        frame.buffer_mut().set_line(area.x, y, line, area.width);
        y += 1;
    }
    if plotted {
        plot::draw(frame.buffer_mut(), Rect { y, height: free, ..area }, progress);
    }
    if hint {
        let text = fit(HINT, usize::from(area.width));
        frame.buffer_mut().set_line(area.x, area.bottom() - 1, &Line::styled(text, Modifier::DIM), area.width);
    }
}

/// Lines that belong together, from the top, and how many rows are left: what comes first in importance gets its lines first.
fn groups(progress: &Progress, area: Rect) -> ([Vec<Line<'static>>; 3], u16) {
    let width = usize::from(area.width);
    let mut free = area.height;
    let bar = claim(&mut free, |_| vec![bar(progress, width)]);
    let mut block = |label: &str, fields: &[Field]| claim(&mut free, |most| flow(label, fields, width, most));
    let rates = block("rate", &facts::rates(progress));
    let latency = block("latency", &facts::latency(progress));
    let errors = block("errors", &facts::failures(progress));
    let phase = block("", &facts::phase(progress));
    let state = block("done", &facts::state(progress));
    let title = claim(&mut free, |_| vec![Line::raw(fit(&progress.what, width))]);
    ([title, [phase, bar].concat(), [rates, state, latency, errors].concat()], free)
}

/// The lines made for as many rows as are free, which they then are no more.
fn claim(free: &mut u16, lines: impl FnOnce(usize) -> Vec<Line<'static>>) -> Vec<Line<'static>> {
    let mut lines = if *free == 0 { Vec::new() } else { lines(usize::from(*free)) };
    lines.truncate(usize::from(*free));
    *free -= lines.len() as u16;
    lines
}

/// How far the run is: a bar, the share, the time left.
fn bar(progress: &Progress, width: usize) -> Line<'static> {
    let done = if progress.done.is_nan() { 0.0 } else { progress.done.clamp(0.0, 1.0) };
    let left = facts::left(progress).map(Field::plain);
    let fields: Vec<Field> = std::iter::once(Field::plain(format!("{:3.0} %", done * 100.0))).chain(left).collect();
    let words = flow("", &fields, width, 1).pop().unwrap_or_default();
    let Some(room) = width.checked_sub(words.width() + 1).filter(|&room| room >= BAR_MIN) else { return words };
    let full = (done * room as f64) as usize;
    let mut line = Line::from(vec![
        Span::styled("\u{2588}".repeat(full), Style::new().fg(Color::Green)),
        Span::styled("\u{2591}".repeat(room - full), Modifier::DIM),
        Span::raw(" "),
    ]);
    line.spans.extend(words.spans);
    line
}
