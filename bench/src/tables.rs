//! What cells showed, as tables.

use corelane_load::stats::median;

use super::counts::Counts;
use super::doubts;
use super::idle::IdleOutcome;
use super::load::{Asks, Load};
use super::open_loop::OpenOutcome;
use super::rounds::{CellResult, Measured};

const HEADS: &[&str] = &[
    "server",
    "driver",
    "buffer",
    "lanes",
    "bytes",
    "conns",
    "depth",
    "CPU us/req",
    "ksoftirqd",
    "gen. us/req",
    "req/s",
    "p50 us",
    "p99 us",
    "p99.9 us",
    "max us",
    "lost",
    "server CPU",
    "gen. CPU",
    "sends/req",
    "recvs/req",
    "seen/req",
    "B/send",
    "B/recv",
    "idle ms/s",
];

const IDLE_HEADS: &[&str] = &["server", "driver", "lanes", "conns", "RSS MiB", "RSS B/conn", "idle CPU ms/s", "opening CPU us"];

const OPEN_HEADS: &[&str] = &[
    "server",
    "saturation/s",
    "offered/s",
    "achieved/s",
    "lag p50 us",
    "lag p99 us",
    "p50 us",
    "p99 us",
    "CPU us/req",
    "server CPU",
    "stolen",
];

/// The table of one cell: of every figure the median over the rounds, of the longest latency the longest, of what was
/// lost the sum.
pub fn cell_table(outcome: &CellResult) -> String {
    let rows = (0..outcome.contenders.len()).map(|index| row(outcome, index));
    let title = format!("{}, {} rounds", outcome.cell, outcome.rounds.len());
    let samples = outcome.rounds.iter().flatten().map(|part| part.sample.doubts.as_slice());
    format!("{title}\n{}{}", table(HEADS, &rows.collect::<Vec<_>>()), doubts::tally(samples))
}

/// The table of the idle cell.
pub fn idle_table(cell: &str, outcomes: &[IdleOutcome]) -> String {
    let row = |outcome: &IdleOutcome| {
        vec![
            outcome.name.clone(),
            outcome.driver.clone(),
            "1".to_owned(),
            outcome.connections.to_string(),
            format!("{:.1}", outcome.rss_bytes as f64 / f64::from(1 << 20)),
            format!("{:.0}", outcome.rss_bytes_per_connection),
            format!("{:.2}", outcome.idle_cpu_ms_per_s),
            format!("{:.1}", outcome.opening_cpu_us),
        ]
    };
    let samples = outcomes.iter().map(|outcome| outcome.doubts.as_slice());
    format!("{cell}\n{}{}", table(IDLE_HEADS, &outcomes.iter().map(row).collect::<Vec<_>>()), doubts::tally(samples))
}

/// The table of the open loop.
pub fn open_table(cell: &str, outcome: &OpenOutcome) -> String {
    let row = vec![
        outcome.name.clone(),
        format!("{:.0}", outcome.saturation_per_s),
        format!("{:.1}", outcome.offered_per_s),
        format!("{:.1}", outcome.achieved_per_s),
        number(Some(outcome.lag_p50_us), 1),
        number(Some(outcome.lag_p99_us), 1),
        number(Some(outcome.p50_us), 0),
        number(Some(outcome.p99_us), 0),
        number(Some(outcome.cpu_us_per_request), 3),
        percent(Some(outcome.server_load)),
        percent(Some(outcome.stolen)),
    ];
    format!("{cell}\n{}{}", table(OPEN_HEADS, &[row]), doubts::tally([outcome.doubts.as_slice()].into_iter()))
}

fn row(outcome: &CellResult, index: usize) -> Vec<String> {
    let contender = &outcome.contenders[index];
    let load = &contender.load;
    let parts: Vec<&Measured> = outcome.rounds.iter().map(|round| &round[index]).collect();
    let mut row = vec![
        contender.name.clone(),
        contender.driver.clone(),
        contender.buffer.clone(),
        "1".to_owned(),
        load.bytes.to_string(),
        load.connections.to_string(),
        load.depth.to_string(),
    ];
    row.extend(timed_columns(&parts));
    row.extend(counted_columns(load, &parts));
    row.push(number(contender.idle_cpu_ms_per_s, 2));
    row
}

fn timed_columns(parts: &[&Measured]) -> Vec<String> {
    let middle = |of: fn(&Measured) -> f64| median(&parts.iter().map(|part| of(part)).collect::<Vec<_>>());
    let max_us = parts.iter().map(|part| part.sample.max_us).reduce(f64::max);
    vec![
        number(middle(Measured::cpu_us_per_request), 3),
        number(median(&parts.iter().filter_map(|part| part.softirq_us_per_request).collect::<Vec<_>>()), 3),
        number(middle(|part| part.sample.generator_us_per_request), 3),
        number(middle(|part| part.sample.requests_per_s), 0),
        number(middle(|part| part.sample.p50_us), 0),
        number(middle(|part| part.sample.p99_us), 0),
        number(middle(|part| part.sample.p999_us), 0),
        number(max_us, 0),
        parts.iter().map(|part| part.sample.lost).sum::<u64>().to_string(),
        percent(middle(|part| part.sample.server_load)),
        percent(middle(|part| part.sample.generator_load)),
    ]
}

/// Exact counts, by request that reached the server.
fn counted_columns(load: &Load, parts: &[&Measured]) -> Vec<String> {
    let middle = |of: &dyn Fn(&Counts, f64) -> Option<f64>| {
        let value = |part: &&Measured| {
            let counts = part.counts.as_ref()?;
            let requests = match load.asks {
                Asks::Get(_) => counts.requests?,
                _ => counts.bytes_received? / load.bytes as f64,
            };
            of(counts, requests)
        };
        median(&parts.iter().filter_map(value).collect::<Vec<_>>())
    };
    vec![
        number(middle(&|counts, requests| Some(counts.sends? / requests)), 4),
        number(middle(&|counts, requests| Some(counts.receives? / requests)), 4),
        number(middle(&|counts, requests| Some(counts.requests? / requests)), 4),
        number(middle(&|counts, _| Some(counts.bytes_sent? / counts.sends?)), 0),
        number(middle(&|counts, _| Some(counts.bytes_received? / counts.receives?)), 0),
    ]
}

fn number(value: Option<f64>, digits: usize) -> String {
    value.filter(|value| value.is_finite()).map_or_else(dash, |value| format!("{value:.digits$}"))
}

fn percent(share: Option<f64>) -> String {
    share.filter(|share| share.is_finite()).map_or_else(dash, |share| format!("{:.0} %", share * 100.0))
}

/// In place of a figure that there is not.
pub fn dash() -> String {
    "-".to_owned()
}

/// Lines of aligned columns: the first to the left, the others to the right.
pub fn table(heads: &[&str], rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([heads[column].len()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..heads.len()).map(width).collect();
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let padded = cells.zip(&widths).enumerate().map(|(column, (cell, &width))| match column {
            0 => format!("{cell:<width$}"),
            _ => format!("{cell:>width$}"),
        });
        padded.collect::<Vec<_>>().join("  ") + "\n"
    };
    let head = line(&mut heads.iter().copied());
    rows.iter().map(|row| line(&mut row.iter().map(String::as_str))).fold(head, |all, line| all + &line)
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::generator::Sample;
    use crate::load::Carrier;
    use crate::rounds::Contender;

    fn measured(cpu_us: f64, max_us: f64, counts: Option<Counts>) -> Measured {
        let sample = Sample {
            requests: 90,
            lost: 2,
            window_s: 1.0,
            cpu_us_per_request: cpu_us,
            generator_us_per_request: 1.5,
            requests_per_s: 90.0,
            server_load: 0.5,
            generator_load: 0.25,
            p50_us: 10.0,
            p99_us: 20.0,
            p999_us: 30.0,
            max_us,
            doubts: if max_us > 100.0 { vec![format!("waited {max_us} us")] } else { Vec::new() },
        };
        Measured { sample, softirq_us_per_request: Some(0.25), counts }
    }

    /// Three rounds of two servers.
    pub fn outcome() -> CellResult {
        let counts = Counts { sends: Some(25.0), bytes_sent: Some(6_400.0), bytes_received: Some(6_400.0), ..Counts::default() };
        let load = Load { asks: Asks::Echo, transport: Carrier::Tcp, bytes: 64, connections: 7, depth: 3, spin: false };
        let contender = |name: &str| Contender {
            name: name.to_owned(),
            driver: "epoll".to_owned(),
            buffer: "16K/conn".to_owned(),
            load,
            idle_cpu_ms_per_s: None,
        };
        CellResult {
            cell: "a-cell",
            contenders: vec![contender("one"), contender("two")],
            rounds: vec![
                vec![measured(3.0, 500.0, Some(counts)), measured(1.0, 1.0, None)],
                vec![measured(1.0, 900.0, Some(counts)), measured(1.0, 1.0, None)],
                vec![measured(2.0, 100.0, Some(counts)), measured(1.0, 1.0, None)],
            ],
            verdicts: Vec::new(),
        }
    }

    fn words(table: &str, line: usize) -> Vec<&str> {
        table.lines().nth(line).expect("the line").split_whitespace().collect()
    }

    #[test]
    fn a_row_holds_medians_the_longest_latency_and_all_that_was_lost() {
        let table = cell_table(&outcome());
        let expected = "one epoll 16K/conn 1 64 7 3 2.250 0.250 1.500 90 10 20 30 900 6 50 % 25 % 0.2500 - - 256 - -";
        assert_eq!(words(&table, 2).join(" "), expected);
        assert!(words(&table, 3).join(" ").ends_with("25 % - - - - - -"));
        assert_eq!(table.lines().last(), Some("2 of 6 samples: waited N us"));
    }

    #[test]
    fn an_open_loop_is_a_row_with_what_was_stolen() {
        let outcome = OpenOutcome {
            name: "one".to_owned(),
            saturation_per_s: 2_000.0,
            offered_per_s: 1_000.0,
            achieved_per_s: 999.5,
            lag_p50_us: 1.25,
            lag_p99_us: f64::NAN,
            p50_us: 20.0,
            p99_us: 30.0,
            cpu_us_per_request: 0.5,
            server_load: 0.25,
            stolen: 0.031,
            doubts: vec!["late".to_owned()],
        };
        let table = open_table("a-cell", &outcome);
        assert_eq!(words(&table, 2).join(" "), "one 2000 1000.0 999.5 1.2 - 20 30 0.500 25 % 3 %");
        assert_eq!(table.lines().last(), Some("1 of 1 samples: late"));
    }

    #[test]
    fn columns_are_aligned() {
        let rows = [vec!["a".to_owned(), "12345".to_owned()], vec!["bcd".to_owned(), "1".to_owned()]];
        assert_eq!(table(&["x", "y"], &rows), "x        y\na    12345\nbcd      1\n");
    }
}
