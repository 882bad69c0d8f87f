//! The rounds of all cells of events, their tables, and what comes of the bars.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use corelane_load::stats::median;
use serde::Serialize;

use super::cells::{ALL_ACTIVE, Cell, FEWEST, MORE, Work};
use super::programs::{Programs, System};
use crate::bars::Limit;
use crate::cpus::{GENERATOR_CPU, SERVER_CPU};
use crate::interrupt::Interrupt;
use crate::rounds::{Extent, Verdict};
use crate::server;

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
#[derive(Debug, Serialize)]
pub struct CellRounds {
    /// The cell's name.
    pub cell: &'static str,
    /// Its work.
    pub work: Work,
    /// Who took part.
    pub systems: Vec<System>,
    /// By round, then in the order of the systems.
    pub rounds: Vec<Vec<Sample>>,
}

/// Measures all cells, a round of each in turn, so that cells can be compared within a round.
///
/// # Errors
/// When a program fails, or a signal asks for the end.
pub fn run(cells: &[&Cell], programs: &Programs, extent: Extent, interrupt: &Interrupt) -> Result<Vec<CellRounds>> {
    let begun =
        |cell: &&Cell| CellRounds { cell: cell.name, work: cell.work, systems: programs.systems.clone(), rounds: Vec::new() };
    let mut outcomes: Vec<_> = cells.iter().map(begun).collect();
    for number in 0..extent.rounds {
        for outcome in &mut outcomes {
            eprintln!("{}, round {} ...", outcome.cell, number + 1);
            outcome.rounds.push(round(outcome, programs, number, extent, interrupt)?);
        }
    }
    Ok(outcomes)
}

fn round(cell: &CellRounds, programs: &Programs, number: usize, extent: Extent, interrupt: &Interrupt) -> Result<Vec<Sample>> {
    let mut order: Vec<usize> = (0..cell.systems.len()).collect();
    if number % 2 == 1 {
        order.reverse();
    }
    let mut samples = vec![None; order.len()];
    for place in order {
        interrupt.check()?;
        let system = cell.systems[place];
        let measured = measure(programs, system, cell.work, extent);
        samples[place] = Some(measured.with_context(|| format!("{}, {system}, round {}", cell.cell, number + 1))?);
    }
    Ok(samples.into_iter().flatten().collect())
}

fn measure(programs: &Programs, system: System, work: Work, extent: Extent) -> Result<Sample> {
    let (program, word) = programs.command(system);
    let mut command = server::on_cpu(SERVER_CPU, program)?;
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
    let mut verdicts = Vec::new();
    for cell in cells {
        verdicts.extend(judge_one(cell, System::Libkqueue, Limit::AtMost(1.0)));
        if cell.cell == ALL_ACTIVE {
            verdicts.extend(judge_one(cell, System::Epoll, Limit::AtMost(1.25)));
            verdicts.extend(judge_ring(cell));
        }
    }
    let named = |name: &str| cells.iter().find(|cell| cell.cell == name);
    let few = named(FEWEST).and_then(|cell| ratios(cell, System::Epoll));
    for name in MORE {
        let many = named(name).and_then(|cell| Some((cell.cell, ratios(cell, System::Epoll)?)));
        verdicts.extend(few.as_ref().zip(many).and_then(|(few, (cell, many))| judge_growth(cell, few, &many)));
    }
    verdicts
}

fn judge_one(cell: &CellRounds, by: System, limit: Limit) -> Option<Verdict> {
    Verdict::of_rounds(cell.cell, format!("kqueue / {by}, CPU per event"), &ratios(cell, by)?, limit)
}

fn judge_ring(cell: &CellRounds) -> Option<Verdict> {
    let ratios = divided(cell, System::Ring, System::Epoll)?;
    Verdict::of_rounds(cell.cell, "ring / epoll, CPU per event".to_owned(), &ratios, Limit::AtMost(1.1))
}

/// How the ratio to epoll is with many descriptors registered, beside what it is with ten.
fn judge_growth(cell: &'static str, few: &[f64], many: &[f64]) -> Option<Verdict> {
    let growth: Vec<f64> = many.iter().zip(few).map(|(many, few)| many / few).collect();
    Verdict::of_rounds(cell, format!("kqueue / epoll, CPU per event, by that of {FEWEST}"), &growth, Limit::AtMost(1.1))
}

/// CPU per event of our kqueue by that of another, round by round.
fn ratios(cell: &CellRounds, by: System) -> Option<Vec<f64>> {
    divided(cell, System::Kqueue, by)
}

fn divided(cell: &CellRounds, of: System, by: System) -> Option<Vec<f64>> {
    let place = |system| cell.systems.iter().position(|&one| one == system);
    let (ours, theirs) = (place(of)?, place(by)?);
    Some(cell.rounds.iter().map(|round| round[ours].cpu_ns_per_event / round[theirs].cpu_ns_per_event).collect())
}

/// The medians over the rounds of one cell.
pub fn table(cell: &CellRounds) -> String {
    let row = |(place, system): (usize, &System)| {
        let middle = |of: fn(&Sample) -> f64| {
            let values: Vec<f64> = cell.rounds.iter().map(|round| of(&round[place])).collect();
            median(&values).unwrap_or(f64::NAN)
        };
        let (cpu, rate) = (middle(|sample| sample.cpu_ns_per_event), middle(|sample| sample.events_per_s));
        format!("{:<10}  {cpu:>12.0}  {rate:>9.0}  {:>11.1}\n", system.to_string(), middle(|sample| sample.events_per_wait))
    };
    let rows: String = cell.systems.iter().enumerate().map(row).collect();
    format!("{}, {} rounds\nsystem      CPU ns/event   events/s  events/wait\n{rows}", cell.cell, cell.rounds.len())
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
        CellRounds { cell: name, work: Work::Changes(1), systems, rounds: vec![costs.map(sample).to_vec(); 5] }
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
        alone.systems = vec![System::Kqueue];
        assert!(judge(&[alone]).is_empty());
    }

    #[test]
    fn a_table_has_a_row_a_system() {
        let lines = table(&cell("a-cell", [2_000.4, 1.0, 1.0]));
        assert_eq!(lines.lines().nth(2).expect("a row").split_whitespace().collect::<Vec<_>>(), ["kqueue", "2000", "5", "2.0"]);
    }
}
