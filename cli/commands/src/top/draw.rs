//! The screen: a line a lane, a line a service, a cell a bucket, and what is wrong, on as many lines as there are.

use super::behind::Behind;
use super::looks::Crowd;
use super::record::Record;
use super::state::{Face, Sort, State};
use crate::stat::figures::{amount, latency, or_none, percent, time};
use crate::stat::polled;
use crate::stat::text;
use crate::wrap::fit;
use corelane::admin::watch::{LaneFigures, ProcessFigures, ServiceFigures, ServiceName, Shares, Snapshot};
use corelane::admin::wrong::{Finding, Grade, findings};
use ratatui::Frame;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};

mod area;
mod buckets;
mod connections;
mod edges;
mod graphs;
#[cfg(test)]
mod tests;
pub mod upstreams;

use area::Area;
pub use connections::wanted;
use edges::{bold, foot, heading, title};

/// The smallest screen that has room for all parts.
const COLUMNS_MIN: u16 = 80;
const ROWS_MIN: u16 = 24;
/// The most lines of what is wrong on the smallest screen, and one of how many lines that are more are for it on a larger one. More are counted.
const WRONG_MAX: usize = 4;
/// Lines of the head, where no lane polls.
const HEAD_LINES: usize = 5;
const WRONG_PART: usize = 4;
/// Lines of lanes and services beside a line for each: the headings, with an empty line before each.
const AROUND_LANES_AND_SERVICES: usize = 4;
/// Columns of a lane, and between lanes that stand side by side.
const LANE_COLUMNS: usize = 80;
const LANE_GAP: &str = "   ";

/// What is drawn beside pages.
pub struct Beside<'a> {
    /// The connections of the chosen process.
    pub crowd: &'a Crowd,
    /// Its upstreams.
    pub behind: &'a Behind,
    /// What is kept of it.
    pub record: Option<&'a Record>,
}

/// Draws what was chosen of what there is.
pub fn draw(frame: &mut Frame, state: &State, shown: &[&Snapshot], beside: &Beside<'_>) {
    let area = frame.area();
    let room = Area { width: usize::from(area.width), rows: usize::from(area.height) };
    let lines = if area.width < COLUMNS_MIN || area.height < ROWS_MIN {
        too_small(area.width, area.height)
    } else {
        match (state.face, state.process(shown)) {
            (Face::Help, _) => help(),
            (Face::Process, Some(snapshot)) => process(state, snapshot, beside.record, room),
            (Face::Connections, Some(snapshot)) => connections::lines(state, snapshot, beside.crowd, room),
            (Face::Upstreams, Some(snapshot)) => upstreams::lines(state, snapshot, beside.behind, room),
            (Face::Choice(marked), _) => choice(marked, shown, room),
            (Face::Process | Face::Connections | Face::Upstreams, None) => vec![Line::raw("no process is chosen yet")],
        }
    };
    for (y, line) in (area.y..area.bottom()).zip(&lines) {
        frame.buffer_mut().set_line(area.x, y, line, area.width);
    }
}

fn too_small(width: u16, height: u16) -> Vec<Line<'static>> {
    vec![
        Line::raw(format!("This terminal has {width} by {height}.")),
        Line::raw(format!("top needs {COLUMNS_MIN} by {ROWS_MIN}: please")),
        Line::raw("make it larger, or use"),
        Line::raw("`corelane stat`."),
        Line::raw("q ends."),
    ]
}

fn help() -> Vec<Line<'static>> {
    let lines = "\
Keys
  q, Ctrl-C      end
  s              sort by the next column: the one that is marked
  /              show services (or connections) with a text in their name or
                 URL (or addresses). Enter keeps the text, Esc clears it
  space          pause, and go on
  c              the connections: strays, those that queue, the oldest; and back
  u              the upstreams, those out of rotation first; and back
  up, down, ...  scroll; page up, page down, home and end, too
  n              the next process
  p              the list of processes: up, down, Enter
  h, ?           this

What is shown
  WORK EMPTY SLEEP  shares of the last second in which the lane worked, looked
                    for work in vain, and slept
  TURN P99          the time that 99 of 100 turns did not exceed
  ERRORS, LIMITS    answers that were errors (of HTTP: 4xx and 5xx), and limits
                    that were hit
  imbalance         requests of the busiest lane, divided by the mean of all
  BUCKETS           for each bucket the lane that serves it, from 0 to z, then #

Any key goes back.";
    lines.lines().map(Line::raw).collect()
}

fn choice(marked: usize, shown: &[&Snapshot], Area { width, rows }: Area) -> Vec<Line<'static>> {
    let mut lines = vec![bold("Several processes run: choose one by up, down and Enter; q ends".to_owned()), Line::default()];
    let skipped = (marked + 4).saturating_sub(rows);
    for (number, snapshot) in shown.iter().enumerate().skip(skipped) {
        let services: Vec<&str> = snapshot.services.iter().map(|one| one.name.name.as_str()).collect();
        let (pid, alive) = (snapshot.process.pid, snapshot.liveness.name());
        let words = format!("  {pid:>10}  {alive:<8} {:>3}  {}", text::plural(snapshot.lanes.len(), "lane"), services.join(" "));
        let style = if number == marked { Style::new().add_modifier(Modifier::REVERSED) } else { Style::new() };
        lines.push(Line::styled(fit(&words, width), style));
    }
    lines
}

fn process(state: &State, snapshot: &Snapshot, record: Option<&Record>, area: Area) -> Vec<Line<'static>> {
    let Area { width, rows } = area;
    let (grave, others): (Vec<_>, Vec<_>) = findings(snapshot).into_iter().partition(|one| one.grade == Grade::Grave);
    let figures = state.figures(snapshot);
    let (mut lines, buckets) = (head(state, snapshot, &figures, record, width), buckets::lines(snapshot, &figures.lanes, width));
    // What keeps somebody from being served comes first, and leaves a line for the rest.
    // A line that says how lanes poll takes the place of one.
    let most = WRONG_MAX + (rows - usize::from(ROWS_MIN)) / WRONG_PART - (lines.len() - HEAD_LINES);
    let first = grave.len().min(if others.is_empty() { most } else { most - 1 });
    lines.extend(grave[..first].iter().map(|one| wrong(one, width)));
    let wrongs = wrongs(&others, most - first, grave.len() - first, width);
    let room = (rows - 1).saturating_sub(lines.len() + buckets.len() + wrongs.len() + AROUND_LANES_AND_SERVICES);
    let (of_lanes, of_services) = (snapshot.lanes.len(), state.services(snapshot).len().max(1));
    let (of_lanes, for_services) = if of_lanes + of_services + usize::from(state.scrolled > 0) <= room {
        (of_lanes.max(1), of_services)
    } else {
        // A line each says what is not shown.
        let free = room.saturating_sub(2);
        let for_services = of_services.clamp(1, (free / 3).max(1));
        (free.saturating_sub(for_services).max(1), for_services)
    };
    let for_lanes = Area { width, rows: of_lanes };
    lines.push(Line::default());
    lines.extend(lanes(state, &figures, for_lanes));
    lines.extend([services(state, snapshot, &figures, Area { width, rows: for_services }), buckets, wrongs].concat());
    assert!(lines.len() < rows, "what is wrong is never cut: {} lines of {rows}", lines.len());
    lines.extend(record.map_or_else(Vec::new, |record| graphs::lines(record, width, rows - 1 - lines.len())));
    lines.resize(rows - 1, Line::default());
    lines.push(foot(state));
    lines
}

fn head(
    state: &State,
    snapshot: &Snapshot,
    figures: &ProcessFigures<'_>,
    record: Option<&Record>,
    width: usize,
) -> Vec<Line<'static>> {
    let Snapshot { process, liveness, program, lanes, services, .. } = snapshot;
    let words = format!("process {} ({}), {program}", process.pid, liveness.name());
    let ProcessFigures { driver, steering, request_nanoseconds, .. } = figures;
    let (services, lanes) = (text::plural(services.len(), "service"), text::plural(lanes.len(), "lane"));
    let span = snapshot.span_nanoseconds.map_or("since its start".to_owned(), |span| format!("rates over {}", time(span)));
    let polling = polled::words(snapshot, figures, width).map(|words| Line::raw(fit(&words, width)));
    let mut lines = vec![
        title(state, words, width),
        Line::raw(fit(&format!("{services}, {lanes}, driver {driver}, steering {steering}; {span}"), width)),
        Line::raw(fit(&totals(figures), width)),
        Line::raw(fit(&usage(figures, record), width)),
        Line::raw(latency(*request_nanoseconds).unwrap_or_default()),
    ];
    lines.extend(polling);
    lines
}

fn totals(figures: &ProcessFigures<'_>) -> String {
    let ProcessFigures { requests, errors, bytes_in, bytes_out, strays, connections_open, imbalance, .. } = figures;
    format!(
        "requests {}  errors {}  in {}B  out {}B  open {}  strays {}  imbalance {}",
        amount(requests.shown()),
        amount(errors.shown()),
        amount(bytes_in.shown()),
        amount(bytes_out.shown()),
        amount(*connections_open as f64),
        amount(strays.shown()),
        or_none(*imbalance, |times| format!("{times:.2}")),
    )
}

/// What the process uses of the machine, as far as that is for this user to know.
fn usage(figures: &ProcessFigures<'_>, record: Option<&Record>) -> String {
    let cpus = or_none(record.and_then(|record| record.cpus), |cpus| format!("{cpus:.2} CPUs"));
    let resident = or_none(record.and_then(|record| record.resident_bytes), |bytes| format!("{}B", amount(bytes as f64)));
    let (lanes, lent) = (text::plural(figures.lanes.len(), "lane"), amount(figures.memory_used_bytes as f64));
    format!("uses {cpus}, for {lanes}; memory {resident}, of which lanes lend {lent}B")
}

/// The heading of the lanes: its column by which they are sorted is marked.
fn columns(sort: Sort) -> Vec<Span<'static>> {
    heading("LANE CPU STATE  LAST TURN WORK EMPTY SLEEP REQUESTS  OPEN STRAYS TURN P99 MEMORY", Some(sort.name()))
}

/// A line a lane; side by side where there are more than lines, and room for that.
fn lanes(state: &State, figures: &ProcessFigures<'_>, Area { width, rows }: Area) -> Vec<Line<'static>> {
    let numbers = state.lanes(&figures.lanes);
    let beside = if numbers.len() > rows { (width + LANE_GAP.len()) / (LANE_COLUMNS + LANE_GAP.len()) } else { 1 };
    let gap = || Span::raw(LANE_GAP);
    let mut lines = vec![joined((0..beside).map(|_| columns(state.sort)), gap)];
    let shown: Vec<usize> = numbers.iter().skip(state.scrolled).take(rows * beside).copied().collect();
    for row in 0..rows.min(shown.len()) {
        let lanes = shown.iter().skip(row).step_by(rows).map(|&number| vec![lane(number, &figures.lanes[number])]);
        lines.push(joined(lanes, gap));
    }
    let after = numbers.len().saturating_sub(state.scrolled + rows * beside);
    if after + state.scrolled > 0 {
        lines.push(Line::styled(format!("     {} above, {after} below: up and down", state.scrolled), Modifier::DIM));
    }
    lines
}

fn joined(parts: impl Iterator<Item = Vec<Span<'static>>>, gap: impl Fn() -> Span<'static>) -> Line<'static> {
    let parts = parts.enumerate().flat_map(|(at, spans)| (at > 0).then(&gap).into_iter().chain(spans));
    Line::from_iter(parts)
}

fn lane(number: usize, lane: &LaneFigures) -> Span<'static> {
    let share = |of: fn(Shares) -> f64| or_none(lane.shares, |shares| percent(of(shares)));
    let words = format!(
        "{number:>4} {:>3} {:<8} {:>7} {:>4} {:>5} {:>5} {:>8} {:>5} {:>6} {:>8} {:>6}",
        or_none(lane.cpu, |cpu| cpu.to_string()),
        lane.state,
        or_none(lane.last_turn_age_nanoseconds, time),
        share(|shares| shares.productive),
        share(|shares| shares.empty),
        share(|shares| shares.asleep),
        amount(lane.requests.shown()),
        amount(lane.connections_open as f64),
        amount(lane.strays.shown()),
        or_none(lane.turn_nanoseconds.p99, time),
        amount(lane.memory_used_bytes as f64),
    );
    let style = if lane.stalled_nanoseconds.is_some() { Style::new().fg(Color::Red) } else { Style::new() };
    Span::styled(words, style)
}

fn services(state: &State, snapshot: &Snapshot, figures: &ProcessFigures<'_>, Area { width, rows }: Area) -> Vec<Line<'static>> {
    let wanted = state.services(snapshot);
    let mut lines = vec![Line::default(), bold("SERVICE   OPEN REQUESTS ERRORS   IN B  OUT B STRAYS LIMITS URL".to_owned())];
    let shown = wanted.iter().take(rows).map(|&number| (&snapshot.services[number].name, &figures.services[number]));
    lines.extend(shown.map(|(name, figures)| service(name, figures, width)));
    match wanted.len() {
        0 => lines.push(Line::styled("  none with this text in its name or URL", Modifier::DIM)),
        count if count > rows => {
            lines.push(Line::styled(format!("  and {} more: / filters", count - rows), Modifier::DIM));
        }
        _ => {}
    }
    lines
}

fn service(ServiceName { name, url, .. }: &ServiceName, figures: &ServiceFigures, width: usize) -> Line<'static> {
    let words = format!(
        "{:<8} {:>5} {:>8} {:>6} {:>6} {:>6} {:>6} {:>6} {url}",
        fit(name, 8),
        amount(figures.connections_open as f64),
        amount(figures.requests.shown()),
        or_none(figures.all_errors(), |errors| amount(errors.shown())),
        amount(figures.bytes_in.shown()),
        amount(figures.bytes_out.shown()),
        amount(figures.strays.shown()),
        amount(figures.limit_hits.shown()),
    );
    Line::raw(fit(&words, width))
}

/// Lines of what is wrong behind an empty one, and how many more there are, with so many of which no line is said before; nothing where nothing is.
fn wrongs(all: &[Finding], most: usize, unsaid: usize, width: usize) -> Vec<Line<'static>> {
    if all.len() + unsaid == 0 {
        return Vec::new();
    }
    let mut lines = vec![Line::default()];
    lines.extend(all.iter().take(most).map(|one| wrong(one, width)));
    let more = all.len().saturating_sub(most) + unsaid;
    if more > 0 {
        lines.push(Line::styled(format!("  and {more} more such lines: corelane stat"), Modifier::DIM));
    }
    lines
}

fn wrong(Finding { grade, text }: &Finding, width: usize) -> Line<'static> {
    let style = match grade {
        Grade::Grave => Style::new().fg(Color::Red).add_modifier(Modifier::BOLD),
        Grade::Counted => Style::new().fg(Color::Yellow),
        Grade::Note => Style::new(),
    };
    Line::styled(fit(&format!("! {text}"), width), style)
}
