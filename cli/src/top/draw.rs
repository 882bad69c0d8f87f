//! The screen: a line a lane, a line a service, a cell a bucket, and what is wrong, on as many lines as there are.

use super::looks::Crowd;
use super::state::{Face, Sort, State};
use crate::stat::figures::{amount, latency, time};
use crate::stat::{text, wrong};
use crate::wrap::fit;
use corelane::admin::watch::{LaneCounter, LaneHistogram, LaneState, Liveness, ServiceCounter, Snapshot};
use ratatui::Frame;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};

mod buckets;
mod connections;
mod edges;
#[cfg(test)]
mod tests;

pub use connections::wanted;
use edges::{bold, foot, title};

/// The smallest screen that has room for all parts.
const COLUMNS_MIN: u16 = 80;
const ROWS_MIN: u16 = 24;
/// The most lines of what is wrong. More are counted.
const WRONG_MAX: usize = 4;
/// Lines of lanes and services beside a line for each: the headings, and what of them is not shown.
const AROUND_LANES_AND_SERVICES: usize = 5;

/// Draws what was chosen of what there is.
pub fn draw(frame: &mut Frame, state: &State, shown: &[&Snapshot], crowd: &Crowd) {
    let area = frame.area();
    let lines = if area.width < COLUMNS_MIN || area.height < ROWS_MIN {
        too_small(area.width, area.height)
    } else {
        match (state.face, state.process(shown)) {
            (Face::Help, _) => help(),
            (Face::Process, Some(snapshot)) => process(state, snapshot, usize::from(area.height)),
            (Face::Connections, Some(snapshot)) => connections::lines(state, snapshot, crowd, usize::from(area.height)),
            (Face::Choice(marked), _) => choice(marked, shown, usize::from(area.height)),
            (Face::Process | Face::Connections, None) => vec![Line::raw("no process is chosen yet")],
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
  q, Ctrl-C    end
  s            sort lanes by the next column: the one that is marked
  /            show services whose name or URL contains a text; lanes count
               those alone. Enter keeps the text, Esc clears it
  space        pause, and go on
  c            the connections, and back: strays, those that queue, the oldest
  up, down     scroll the lanes, or the connections
  n            the next process
  p            the list of processes: up, down, Enter
  h, ?         this

Columns
  WORK EMPTY SLEEP  shares of the last second in which the lane worked, looked
                    for work in vain, and slept
  LAST TURN         when its last turn began; a lane is stalled that has been in
                    one turn for a second
  P99               the time that 99 of 100 turns did not exceed
  R/SEND, LIMITS    requests for each send; limits that were hit
  imbalance         requests of the busiest lane, divided by the mean of all
  BUCKETS           for each bucket of the table the lane that serves it, from
                    0 to z, then #; the warmer its colour, the more it works

Any key goes back.";
    lines.lines().map(Line::raw).collect()
}

fn choice(marked: usize, shown: &[&Snapshot], rows: usize) -> Vec<Line<'static>> {
    let mut lines = vec![bold("Several processes run: choose one by up, down and Enter; q ends".to_owned()), Line::default()];
    let skipped = (marked + 4).saturating_sub(rows);
    for (number, snapshot) in shown.iter().enumerate().skip(skipped) {
        let services: Vec<&str> = snapshot.services.iter().map(|one| one.name.name.as_str()).collect();
        let (pid, alive) = (snapshot.process.pid, snapshot.liveness.name());
        let words = format!("  {pid:>10}  {alive:<8} {:>3}  {}", text::plural(snapshot.lanes.len(), "lane"), services.join(" "));
        let style = if number == marked { Style::new().add_modifier(Modifier::REVERSED) } else { Style::new() };
        lines.push(Line::styled(fit(&words, 80), style));
    }
    lines
}

fn process(state: &State, snapshot: &Snapshot, rows: usize) -> Vec<Line<'static>> {
    let (mut lines, buckets, wrongs) = (head(state, snapshot), buckets::lines(snapshot), wrongs(snapshot));
    let free = (rows - 1).saturating_sub(lines.len() + buckets.len() + wrongs.len() + AROUND_LANES_AND_SERVICES);
    let for_services = state.services(snapshot).len().clamp(1, (free / 3).max(1));
    lines.extend(lanes(state, snapshot, free.saturating_sub(for_services).max(1)));
    lines.extend([services(state, snapshot, for_services), buckets, wrongs].concat());
    assert!(lines.len() < rows, "what is wrong is never cut: {} lines of {rows}", lines.len());
    lines.resize(rows - 1, Line::default());
    lines.push(foot(state));
    lines
}

fn head(state: &State, snapshot: &Snapshot) -> Vec<Line<'static>> {
    let Snapshot { process, liveness, program, lanes, services, .. } = snapshot;
    let words = format!("process {} ({}), {program}", process.pid, liveness.name());
    let first = lanes.first().map(|lane| &lane.name);
    let (driver, steering) = first.map_or(("", ""), |name| (&name.driver, &name.steering));
    let (services, lanes) = (text::plural(services.len(), "service"), text::plural(lanes.len(), "lane"));
    let span = snapshot.span_nanoseconds.map_or("since its start".to_owned(), |span| format!("rates over {}", time(span)));
    vec![
        title(state, words),
        Line::raw(fit(&format!("{services}, {lanes}, driver {driver}, steering {steering}; {span}"), 80)),
        Line::raw(totals(state, snapshot)),
        Line::raw(latency(&snapshot.histogram(LaneHistogram::RequestNanoseconds)).unwrap_or_default()),
        Line::default(),
    ]
}

fn totals(state: &State, snapshot: &Snapshot) -> String {
    use ServiceCounter as C;
    let wanted = state.services(snapshot);
    let all =
        |counter| wanted.iter().fold(0, |sum: u64, &service| sum.saturating_add(snapshot.services[service].values.get(counter)));
    let rate = |counter| counted(snapshot, all(counter));
    let imbalance = snapshot.imbalance(C::Requests).map_or("-".to_owned(), |times| format!("{times:.2}"));
    format!(
        "requests {}  in {}B  out {}B  open {}  strays {}  imbalance {imbalance}",
        rate(C::Requests),
        rate(C::BytesIn),
        rate(C::BytesOut),
        amount(all(C::ConnectionsOpen) as f64),
        rate(C::Strays),
    )
}

/// What was counted: for each second of the span, if there is one.
fn counted(snapshot: &Snapshot, count: u64) -> String {
    amount(snapshot.per_second(count).unwrap_or(count as f64))
}

/// The heading of the lanes: its column by which they are sorted is marked.
fn columns(sort: Sort) -> Line<'static> {
    let heading = "LANE CPU STATE   LAST TURN WORK EMPTY SLEEP REQUESTS  OPEN STRAYS     P99 MEMORY";
    let at = heading.find(sort.name()).unwrap_or(0);
    let (before, rest) = heading.split_at(at);
    let (name, after) = rest.split_at(sort.name().len());
    let style = Style::new().add_modifier(Modifier::BOLD);
    let spans = [
        Span::styled(before.to_owned(), style),
        Span::styled(name.to_owned(), style.add_modifier(Modifier::REVERSED)),
        Span::styled(after.to_owned(), style),
    ];
    Line::from(spans.to_vec())
}

fn lanes(state: &State, snapshot: &Snapshot, rows: usize) -> Vec<Line<'static>> {
    let mut lines = vec![columns(state.sort)];
    let numbers = state.lanes(snapshot);
    let services = state.services(snapshot);
    lines.extend(numbers.iter().skip(state.scrolled).take(rows).map(|&number| lane(snapshot, number, &services)));
    let after = numbers.len().saturating_sub(state.scrolled + rows);
    if after + state.scrolled > 0 {
        lines.push(Line::styled(format!("     {} above, {after} below: up and down", state.scrolled), Modifier::DIM));
    }
    lines
}

fn lane(snapshot: &Snapshot, number: usize, services: &[usize]) -> Line<'static> {
    let lane = &snapshot.lanes[number];
    let none = || "-".to_owned();
    let all = |counter| services.iter().fold(0, |sum: u64, &service| sum.saturating_add(lane.services[service].get(counter)));
    let shares = snapshot.shares(lane);
    let share = |of: Option<f64>| of.map_or_else(none, |share| format!("{:.0}%", share * 100.0));
    let p99 = lane.histogram(LaneHistogram::TurnNanoseconds).quantile(990);
    let words = format!(
        "{number:>4} {:>3} {:<8} {:>8} {:>4} {:>5} {:>5} {:>8} {:>5} {:>6} {:>7} {:>6}",
        lane.name.cpu.map_or_else(none, |cpu| cpu.to_string()),
        lane.state().map_or("unknown", LaneState::name),
        snapshot.age(lane).map_or_else(none, time),
        share(shares.map(|shares| shares.productive)),
        share(shares.map(|shares| shares.empty)),
        share(shares.map(|shares| shares.asleep)),
        counted(snapshot, all(ServiceCounter::Requests)),
        amount(all(ServiceCounter::ConnectionsOpen) as f64),
        counted(snapshot, all(ServiceCounter::Strays)),
        p99.map_or_else(none, time),
        amount(lane.values.get(LaneCounter::MemoryUsed) as f64),
    );
    let style = if snapshot.stalled(lane).is_some() { Style::new().fg(Color::Red) } else { Style::new() };
    Line::styled(words, style)
}

fn services(state: &State, snapshot: &Snapshot, rows: usize) -> Vec<Line<'static>> {
    let wanted = state.services(snapshot);
    let mut lines = vec![Line::default(), bold("SERVICE   OPEN REQUESTS   IN B  OUT B R/SEND STRAYS LIMITS URL".to_owned())];
    lines.extend(wanted.iter().take(rows).map(|&number| service(snapshot, number)));
    match wanted.len() {
        0 => lines.push(Line::styled("  none with this text in its name or URL", Modifier::DIM)),
        count if count > rows => {
            lines.push(Line::styled(format!("  and {} more: / filters", count - rows), Modifier::DIM));
        }
        _ => {}
    }
    lines
}

fn service(snapshot: &Snapshot, number: usize) -> Line<'static> {
    use ServiceCounter as C;
    let service = &snapshot.services[number];
    let of = |counter| counted(snapshot, service.values.get(counter));
    let sends = service.values.get(C::Sends).saturating_add(service.values.get(C::DatagramSends));
    let gathered = if sends == 0 { "-".to_owned() } else { amount(service.values.get(C::Requests) as f64 / sends as f64) };
    let hits =
        service.values.all().filter(|one| one.name.ends_with("_hits")).fold(0, |sum: u64, one| sum.saturating_add(one.value));
    let words = format!(
        "{:<8} {:>5} {:>8} {:>6} {:>6} {gathered:>6} {:>6} {:>6} {}",
        fit(&service.name.name, 8),
        amount(service.values.get(C::ConnectionsOpen) as f64),
        of(C::Requests),
        of(C::BytesIn),
        of(C::BytesOut),
        of(C::Strays),
        counted(snapshot, hits),
        service.name.url,
    );
    Line::raw(fit(&words, 80))
}

fn wrongs(snapshot: &Snapshot) -> Vec<Line<'static>> {
    let all = wrong::lines(snapshot);
    if all.is_empty() {
        return Vec::new();
    }
    let worst = |text: &String| {
        let is_grave = text.contains("stalled") || snapshot.liveness == Liveness::Dead;
        let style =
            if is_grave { Style::new().fg(Color::Red).add_modifier(Modifier::BOLD) } else { Style::new().fg(Color::Yellow) };
        Line::styled(fit(&format!("! {text}"), 80), style)
    };
    let mut lines = vec![Line::default()];
    lines.extend(all.iter().take(WRONG_MAX).map(worst));
    if all.len() > WRONG_MAX {
        lines.push(Line::styled(format!("  and {} more such lines: corelane stat", all.len() - WRONG_MAX), Modifier::DIM));
    }
    lines
}
