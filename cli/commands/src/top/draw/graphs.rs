//! The seconds before as graphs: as many columns as there is room for, the last second at the right.

use crate::stat::figures::{amount, time};
use crate::top::record::{Moment, Record};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};

/// Columns of a graph's words: its name, what is now, and the most that it shows.
const WORDS: usize = 33;

/// The most lines of a graph.
const HEIGHT_MAX: usize = 8;

/// From nothing to a full cell.
const CELLS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// What is drawn.
struct Graph {
    name: &'static str,
    value: fn(&Moment) -> Option<f64>,
    words: fn(f64) -> String,
    color: Color,
}

/// The first of these stay where there is no room for all.
const GRAPHS: [Graph; 4] = [
    Graph { name: "requests", value: |moment| Some(moment.requests), words: amount, color: Color::Green },
    Graph {
        name: "request p99",
        value: |moment| moment.request_p99_nanoseconds.map(|nanoseconds| nanoseconds as f64),
        words: |value| time(value as u64),
        color: Color::Cyan,
    },
    Graph { name: "errors", value: |moment| Some(moment.errors), words: amount, color: Color::Red },
    Graph { name: "cpu", value: |moment| moment.cpus, words: |value| format!("{value:.2}"), color: Color::Yellow },
];

/// The graphs in so many lines, with an empty one before them; nothing where two lines are too many.
pub fn lines(record: &Record, width: usize, rows: usize) -> Vec<Line<'static>> {
    let columns = width.saturating_sub(WORDS).min(record.past.len());
    if rows < 2 || columns == 0 {
        return Vec::new();
    }
    let shown = &GRAPHS[..GRAPHS.len().min(rows - 1)];
    let height = ((rows - 1) / shown.len()).clamp(1, HEIGHT_MAX);
    let past: Vec<Moment> = record.past.iter().skip(record.past.len() - columns).copied().collect();
    let graphs = shown.iter().flat_map(|graph| of(graph, &past, height));
    std::iter::once(Line::default()).chain(graphs).collect()
}

fn of(graph: &Graph, past: &[Moment], height: usize) -> Vec<Line<'static>> {
    let values: Vec<Option<f64>> = past.iter().map(graph.value).collect();
    let most = values.iter().flatten().copied().fold(0.0, f64::max);
    let now = values.last().copied().flatten().map_or("-".to_owned(), graph.words);
    let words = format!("{:<11}{now:>7} most {:>7}  ", graph.name, (graph.words)(most));
    (0..height)
        .map(|row| {
            let words = if row == 0 { words.clone() } else { " ".repeat(WORDS) };
            let cells: String = values.iter().map(|value| cell(value.unwrap_or(0.0), most, height, height - 1 - row)).collect();
            Line::from_iter([Span::styled(words, Modifier::BOLD), Span::styled(cells, Style::new().fg(graph.color))])
        })
        .collect()
}

/// What a value fills of the cell that has so many below it.
fn cell(value: f64, most: f64, height: usize, below: usize) -> char {
    let full = CELLS.len() - 1;
    let eighths = if most > 0.0 { (value / most * (height * full) as f64).ceil() as usize } else { 0 };
    CELLS[eighths.saturating_sub(below * full).min(full)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(line: &Line<'_>) -> String {
        line.spans.iter().map(|span| span.content.as_ref()).collect()
    }

    #[test]
    fn the_last_second_stands_at_the_right_and_the_most_is_full() {
        let moment = |requests| Moment { requests, ..Moment::default() };
        let past = [500.0, 0.0, 1000.0, 1.0].map(moment);
        let record = Record { past: past.into(), ..Record::default() };
        let shown: Vec<String> = lines(&record, 36, 3).iter().map(|line| text(line).trim_end().to_owned()).collect();
        assert_eq!(shown[1], "requests         1 most   1.00k   █▁");
        assert_eq!(shown[2], "request p99      - most     0ns");
        let tall: Vec<String> = lines(&record, 80, 9).iter().map(text).collect();
        assert_eq!(tall.len(), 1 + 4 * 2);
        assert_eq!((&tall[1][33..], &tall[2][33..]), ("  █ ", "█ █▁"));
        assert!(lines(&record, 80, 1).is_empty() && lines(&Record::default(), 80, 9).is_empty());
        assert!(lines(&record, 200, 100).len() <= 1 + GRAPHS.len() * HEIGHT_MAX);
    }
}
