//! The rounds of all cells of events, their tables, and what comes of the bars.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde::Serialize;

use super::cells::{ALL_ACTIVE, Cell, FEWEST, MORE, Work};
use super::programs::{Programs, System};
use crate::bars::Limit;
use crate::cpus::{GENERATOR_CPU, SERVER_CPU};
use crate::interrupt::Interrupt;
use crate::rounds::{Extent, Rounds, Verdict, divided};
use crate::server;
use crate::tables::{self, number};

/// What one window of one system showed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Sample {
    /// Events that were told.
    pub events: u64,
    /// Processor time of the process for each, in nanoseconds.
    pub cpu_ns_per_event: f64,
    /// By the time that they took.
    pub events_per_s: f64,
    /// Events by call that waits; 0 where nothing is waited for.
    pub events_per_wait: f64,
}

/// All that one cell showed.
pub type CellRounds = Rounds<System, Sample>;

/// Measures all cells, a round of each in turn, so that cells can be compared within a round.
///
/// # Errors
/// When a program fails, or a signal asks for the end.
pub fn run(cells: &[&Cell], programs: &Programs, extent: Extent, interrupt: &Interrupt) -> Result<Vec<CellRounds>> {
    let mut outcomes: Vec<_> = cells.iter().map(|cell| Rounds::new(cell.name, programs.systems.clone())).collect();
    for _ in 0..extent.rounds {
        for (cell, outcome) in cells.iter().zip(&mut outcomes) {
            outcome.add(interrupt, |place| measure(programs, programs.systems[place], cell.work, extent))?;
        }
    }
    Ok(outcomes)
}

fn measure(programs: &Programs, system: System, work: Work, extent: Extent) -> Result<Sample> {
    let (program, word) = programs.command(system);
    let mut command = server::on_cpus(&[SERVER_CPU], program)?;
    command.arg(word).args(work.words(extent.timing.window.as_millis(), GENERATOR_CPU));
    let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output().with_context(|| describe(&command))?;
    ensure!(output.status.success(), "{}: {}; its own message is above", describe(&command), output.status);
    read(&String::from_utf8_lossy(&output.stdout)).with_context(|| describe(&command))
}

fn describe(command: &Command) -> String {
    format!("{command:?}")
}

/// What the program prints: events, nanoseconds of CPU, nanoseconds, waits.
fn read(line: &str) -> Result<Sample> {
    let numbers: Vec<u64> = line.split_whitespace().map(str::parse).collect::<Result<_, _>>().with_context(|| line.to_owned())?;
    let [events, cpu_ns, wall_ns, waits] = numbers[..] else { anyhow::bail!("expected four numbers, got {line:?}") };
    ensure!(events > 0 && wall_ns > 0, "nothing happened within the window: {line}");
    let events_per_wait = if waits == 0 { 0.0 } else { events as f64 / waits as f64 };
    let (cpu_ns_per_event, events_per_s) = (cpu_ns as f64 / events as f64, events as f64 * 1e9 / wall_ns as f64);
    Ok(Sample { events, cpu_ns_per_event, events_per_s, events_per_wait })
}

/// The bars that can be judged with what was measured.
pub fn judge(cells: &[CellRounds]) -> Vec<Verdict> {
    let judged = |cell: &CellRounds, of, by, bar| cell.judge(of, by, "CPU per event", cost, Limit::AtMost(bar));
    let mut verdicts = Vec::new();
    for cell in cells {
        verdicts.extend(judged(cell, System::Kqueue, System::Libkqueue, 1.0));
        if cell.cell == ALL_ACTIVE {
            verdicts.extend(judged(cell, System::Kqueue, System::Epoll, 1.25));
            verdicts.extend(judged(cell, System::Ring, System::Epoll, 1.1));
        }
    }
    let by_epoll = |name: &str| cells.iter().find(|cell| cell.cell == name)?.ratios(System::Kqueue, System::Epoll, cost);
    verdicts.extend(MORE.into_iter().filter_map(|name| judge_growth(name, &by_epoll(FEWEST)?, &by_epoll(name)?)));
    verdicts
}

/// How the ratio to epoll is with many descriptors registered, beside what it is with ten.
fn judge_growth(cell: &'static str, few: &[f64], many: &[f64]) -> Option<Verdict> {
    let what = format!("kqueue / epoll, CPU per event, by that of {FEWEST}");
    Verdict::of_rounds(cell, what, &divided(many, few), Limit::AtMost(1.1))
}

fn cost(sample: &Sample) -> f64 {
    sample.cpu_ns_per_event
}

/// The medians over the rounds of one cell.
pub fn table(cell: &CellRounds) -> String {
    tables::of_rounds(cell, "system", |_, system| {
        vec![
            ("CPU ns/event", number(cell.median(system, cost), 0)),
            ("events/s", number(cell.median(system, |sample| sample.events_per_s), 0)),
            ("events/wait", number(cell.median(system, |sample| sample.events_per_wait), 1)),
        ]
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bars::Word;

    fn sample(cpu_ns_per_event: f64) -> Sample {
        Sample { events: 1, cpu_ns_per_event, events_per_s: 5.0, events_per_wait: 2.0 }
    }

    fn cell(name: &'static str, costs: [f64; 3]) -> CellRounds {
        let systems = vec![System::Kqueue, System::Libkqueue, System::Epoll];
        Rounds { cell: name, who: systems, rounds: vec![costs.map(sample).to_vec(); 5] }
    }

    #[test]
    fn a_line_of_the_program_becomes_a_sample() {
        let read_sample = read("1000 2500000 4000000 250\n").expect("four numbers");
        assert_eq!(
            read_sample,
            Sample { events: 1_000, cpu_ns_per_event: 2_500.0, events_per_s: 250_000.0, events_per_wait: 4.0 }
        );
        assert_eq!(read("10 1 1 0").expect("four numbers").events_per_wait, 0.0);
        for wrong in ["", "1 2 3", "1 2 3 x", "0 1 1 1", "1 2 3 4 5"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn each_cell_is_held_against_libkqueue_and_one_against_epoll() {
        let verdicts = judge(&[cell("event-1-of-10", [2.0, 4.0, 1.0]), cell(ALL_ACTIVE, [2.5, 2.0, 2.0])]);
        let found: Vec<_> = verdicts.iter().map(|verdict| (verdict.cell, verdict.value, verdict.word)).collect();
        let expected = [("event-1-of-10", 0.5, Word::Met), (ALL_ACTIVE, 1.25, Word::Missed), (ALL_ACTIVE, 1.25, Word::Met)];
        assert_eq!(found, expected);
    }

    #[test]
    fn the_ratio_to_epoll_is_held_against_that_of_few_descriptors() {
        let cells = [cell(FEWEST, [3.0, 9.0, 2.0]), cell(MORE[0], [3.0, 9.0, 2.0]), cell(MORE[1], [4.5, 9.0, 2.0])];
        let verdicts = judge(&cells);
        let growth: Vec<_> = verdicts.iter().filter(|one| one.what.contains("by that of")).collect();
        assert_eq!(growth.iter().map(|one| one.value).collect::<Vec<_>>(), [1.0, 1.5]);
        assert_eq!(growth.iter().map(|one| one.word).collect::<Vec<_>>(), [Word::Met, Word::Missed]);
    }

    #[test]
    fn what_did_not_take_part_is_not_judged() {
        let mut alone = cell(ALL_ACTIVE, [1.0, 1.0, 1.0]);
        alone.who = vec![System::Kqueue];
        assert!(judge(&[alone]).is_empty());
    }

    #[test]
    fn a_table_has_a_row_a_system() {
        let lines = table(&cell("a-cell", [2_000.4, 1.0, 1.0]));
        assert_eq!(lines.lines().nth(2).expect("a row").split_whitespace().collect::<Vec<_>>(), ["kqueue", "2000", "5", "2.0"]);
    }
}
