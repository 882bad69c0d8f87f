//! Throughput and latency second by second, as bars.

use super::facts::tail;
use super::flow::{Field, flow};
use corelane_load::kinds::is_failure;
use corelane_load::report::{Progress, Second};
use corelane_load::text::figures::{count, quantile, rate, time};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Sparkline, SparklineBar, Widget};

/// The least height of [`draw`]: two headings, two rows of bars, and the line that tells which seconds are special.
pub const HEIGHT_MIN: u16 = 5;

/// Bars are no higher than this: more rows show nothing more.
const BARS_MAX: u16 = 8;

const WARM_UP: Color = Color::Yellow;
const MEASURED: Color = Color::Cyan;

/// Columns of a second in a short run.
const COLUMN_MAX: usize = 8;

/// The seconds that share a column.
#[derive(Clone)]
struct Column {
    /// Mean requests per second.
    rate: f64,
    /// The worst of the plotted quantile, microseconds.
    tail: f64,
    warm_up: bool,
    failed: bool,
}

/// How seconds become columns: so many share one, or one has so many. One of the two is 1.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Scale {
    seconds: usize,
    columns: usize,
}

impl Scale {
    /// A short run, of which so many seconds are left, gets columns as wide as the plot will have room for at its end.
    fn of(seen: usize, left_s: Option<f64>, width: usize) -> Self {
        let left = left_s.filter(|left| *left >= 0.0);
        let all = left.map_or(width, |left| (seen as f64 + left).ceil() as usize).max(seen).max(1);
        Self { seconds: seen.div_ceil(width).max(1), columns: (width / all).clamp(1, COLUMN_MAX) }
    }

    fn words(self, of: &str) -> String {
        match (self.seconds, self.columns) {
            (1, 1) => "1 s a column".to_owned(),
            (1, columns) => format!("1 s is {columns} columns"),
            (seconds, _) => format!("{} s a column, {of}", count(seconds as u64)),
        }
    }
}

/// Draws both plots, which share their columns.
pub fn draw(buffer: &mut Buffer, area: Rect, progress: &Progress) {
    if area.height < HEIGHT_MIN || area.width == 0 {
        return;
    }
    let series = &progress.series;
    let scale = Scale::of(series.len(), progress.left_s, usize::from(area.width));
    let key = tail(series);
    let columns: Vec<Column> =
        series.chunks(scale.seconds).flat_map(|seconds| vec![column(seconds, key); scale.columns]).collect();
    let bars = ((area.height - 3) / 2).min(BARS_MAX);
    let mut rest = area;
    let rates: Vec<f64> = columns.iter().map(|column| column.rate).collect();
    let top = top(&columns, &rates);
    heading(buffer, take(&mut rest, 1), "requests/s", top.map(rate), &scale.words("mean"), &[]);
    plot(buffer, take(&mut rest, bars), &columns, &rates, top);
    let tails: Vec<f64> = columns.iter().map(|column| column.tail).collect();
    let top = self::top(&columns, &tails);
    heading(buffer, take(&mut rest, 1), &format!("latency {}", quantile(key)), top.map(time), &scale.words("worst"), &columns);
    plot(buffer, take(&mut rest, bars), &columns, &tails, top);
    buffer.set_line(rest.x, rest.y, &marks(&columns), rest.width);
}

/// Cuts rows off the top.
fn take(rest: &mut Rect, height: u16) -> Rect {
    let taken = Rect { height, ..*rest };
    rest.y += height;
    rest.height -= height;
    taken
}

fn column(seconds: &[Second], key: &str) -> Column {
    let rates = seconds.iter().map(|second| second.requests_per_second).filter(|rate| rate.is_finite());
    let tails = seconds.iter().filter_map(|second| second.latency_us.get(key)).copied();
    let length = seconds.len().max(1) as f64;
    Column {
        rate: rates.map(|rate| rate / length).sum(),
        tail: tails.filter(|us| us.is_finite()).fold(0.0, f64::max),
        warm_up: seconds.iter().any(|second| second.at_s < 0.0),
        failed: seconds.iter().any(failed),
    }
}

fn failed(second: &Second) -> bool {
    second.errors.iter().any(|(name, &count)| count > 0 && is_failure(name))
}

/// The greatest value outside the warm-up, which would otherwise press the rest flat; of the warm-up if there is nothing else.
fn top(columns: &[Column], values: &[f64]) -> Option<f64> {
    let greatest = |warm_up: bool| {
        let some = columns.iter().zip(values).filter(|(column, _)| column.warm_up == warm_up);
        some.map(|(_, &value)| value).fold(0.0, f64::max)
    };
    [greatest(false), greatest(true)].into_iter().find(|&top| top > 0.0)
}

/// What is plotted, what the highest bar stands for, how many seconds make a column; and which marks the columns have.
fn heading(buffer: &mut Buffer, area: Rect, what: &str, top: Option<String>, scale: &str, columns: &[Column]) {
    let any = |is: fn(&Column) -> bool| columns.iter().any(is);
    let texts = [
        Some(what.to_owned()),
        Some(top.map_or_else(|| "none yet".to_owned(), |top| format!("up to {top}"))),
        Some(scale.to_owned()),
        any(|column| column.warm_up).then(|| "~ warm-up".to_owned()),
        any(|column| column.failed).then(|| "! failures".to_owned()),
    ];
    let fields: Vec<Field> = texts.into_iter().flatten().map(|text| Field::styled(text, Modifier::DIM)).collect();
    for line in flow("", &fields, usize::from(area.width), 1) {
        buffer.set_line(area.x, area.y, &line, area.width);
    }
}

fn plot(buffer: &mut Buffer, area: Rect, columns: &[Column], values: &[f64], top: Option<f64>) {
    let steps = u64::from(area.height) * 8;
    let bar = |(column, &value): (&Column, &f64)| {
        let colour = if column.warm_up { WARM_UP } else { MEASURED };
        SparklineBar::from(top.map_or(0, |top| level(value / top, steps))).style(Style::new().fg(colour))
    };
    let bars: Vec<SparklineBar> = columns.iter().zip(values).map(bar).collect();
    Sparkline::default().data(bars).max(steps).render(area, buffer);
}

/// A share of `steps`; whatever is more than nothing shows.
fn level(share: f64, steps: u64) -> u64 {
    if share > 0.0 { ((share * steps as f64).ceil() as u64).clamp(1, steps) } else { 0 }
}

/// What is to be known about each column: something failed, or it was warm-up.
fn marks(columns: &[Column]) -> Line<'static> {
    let mark = |column: &Column| match (column.failed, column.warm_up) {
        (true, _) => Span::styled("!", Style::new().fg(Color::Red)),
        (_, true) => Span::styled("~", Style::new().fg(WARM_UP)),
        _ => Span::styled("\u{2500}", Modifier::DIM),
    };
    columns.iter().map(mark).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_fills_the_width() {
        let scale = |seen, left_s, width| {
            let Scale { seconds, columns } = Scale::of(seen, left_s, width);
            (seconds, columns)
        };
        assert_eq!([scale(0, Some(3.0), 80), scale(2, Some(18.5), 80), scale(2, None, 80)], [(1, 8), (1, 3), (1, 1)]);
        assert_eq!([scale(80, Some(0.0), 80), scale(81, Some(0.0), 80), scale(3_600, None, 80)], [(1, 1), (2, 1), (45, 1)]);
        assert_eq!(
            [scale(1, Some(f64::MAX), 80), scale(1, Some(f64::NAN), 80), scale(9, Some(0.0), 1)],
            [(1, 1), (1, 1), (9, 1)]
        );
    }

    #[test]
    fn whatever_is_more_than_nothing_shows() {
        assert_eq!([level(0.0, 8), level(1e-300, 8), level(0.5, 8), level(1.0, 8), level(9.0, 8)], [0, 1, 4, 8, 8]);
        assert_eq!(level(f64::NAN, 8), 0);
    }

    #[test]
    fn a_column_tells_the_mean_rate_and_the_worst_time() {
        let second = |at_s: f64, requests_per_second: f64, us: f64| Second {
            at_s,
            requests_per_second,
            latency_us: [("99".to_owned(), us)].into(),
            errors: [("duplicate".to_owned(), 5)].into(),
            ..Second::default()
        };
        let mut seconds = [second(-1.0, 100.0, 7.0), second(0.0, 300.0, 9.0), second(1.0, f64::NAN, f64::NAN)];
        let both = column(&seconds[..2], "99");
        assert_eq!((both.rate, both.tail, both.warm_up, both.failed), (200.0, 9.0, true, false));
        seconds[2].errors.insert("reset".to_owned(), 1);
        let last = column(&seconds[2..], "99");
        assert_eq!((last.rate, last.tail, last.warm_up, last.failed), (0.0, 0.0, false, true));
    }

    #[test]
    fn the_warm_up_does_not_press_the_rest_flat() {
        let column = |warm_up: bool| Column { rate: 0.0, tail: 0.0, warm_up, failed: false };
        assert_eq!(top(&[column(true), column(false)], &[900.0, 3.0]), Some(3.0));
        assert_eq!(top(&[column(true)], &[900.0]), Some(900.0));
        assert_eq!(top(&[column(false)], &[0.0]), None);
    }
}
