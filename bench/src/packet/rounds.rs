//! The rounds of a cell, their table, and what comes of the bars.

use anyhow::{Context, Result};
use corelane_load::stats::median;
use serde::Serialize;

use super::cells::{BESIDE, Cell, Echo, GOAL};
use super::programs;
use super::servers::Echoing;
use super::wire::End;
use crate::bars::Limit;
use crate::generator::{self, Sample};
use crate::interrupt::Interrupt;
use crate::rounds::{Extent, Verdict};
use crate::server::Server;
use crate::softirq;
use crate::stage::Stage;

/// What one window of one echo showed.
#[derive(Clone, Debug, Serialize)]
pub struct Measured {
    /// What the generator saw; its cost is that of the server's threads, 0 where the kernel's thread is the server.
    #[serde(flatten)]
    pub sample: Sample,
    /// What the kernel's thread that receives for the server cost for each request beside it: what it used from before the generator to after
    /// it, shared out as the server's own time is; where there is no server, by answer.
    pub receiver_us_per_request: f64,
    /// What ksoftirqd of the server's CPU cost for each request; not part of the cost. `None` where it cannot be seen.
    pub softirq_us_per_request: Option<f64>,
}

impl Measured {
    /// Processor time of the server and of the thread that receives for it, by request.
    pub fn cpu_us_per_request(&self) -> f64 {
        self.sample.cpu_us_per_request + self.receiver_us_per_request
    }
}

/// All that one cell showed.
#[derive(Debug, Serialize)]
pub struct CellRounds {
    /// The cell's name.
    pub cell: &'static str,
    /// Who took part.
    pub echoes: Vec<Echo>,
    /// By round, then in the order of the echoes.
    pub rounds: Vec<Vec<Measured>>,
}

/// Measures one cell: every echo on a wire of its own, in rounds whose order alternates.
///
/// # Errors
/// When somebody does not start or answers wrongly, or a signal asks for the end.
pub fn run(cell: &Cell, echoes: &[Echo], stage: &Stage, extent: Extent, interrupt: &Interrupt) -> Result<CellRounds> {
    let start = |&echo: &Echo| Echoing::start(echo, stage.build(echo.is_beside()));
    let running: Vec<Echoing> = echoes.iter().map(start).collect::<Result<_>>()?;
    let mut rounds = Vec::new();
    for number in 0..extent.rounds {
        eprintln!("{}, round {} ...", cell.name, number + 1);
        rounds.push(round(cell, &running, number, stage, extent, interrupt)?);
    }
    Ok(CellRounds { cell: cell.name, echoes: echoes.to_vec(), rounds })
}

fn round(
    cell: &Cell,
    running: &[Echoing],
    number: usize,
    stage: &Stage,
    extent: Extent,
    interrupt: &Interrupt,
) -> Result<Vec<Measured>> {
    let mut order: Vec<usize> = (0..running.len()).collect();
    if number % 2 == 1 {
        order.reverse();
    }
    let mut samples = vec![None; order.len()];
    for place in order {
        interrupt.check()?;
        let echoing = &running[place];
        let measured = echoing.awake(|| measure(cell, echoing, stage, extent));
        samples[place] = Some(measured.with_context(|| format!("{}, {}, round {}", cell.name, echoing.echo, number + 1))?);
    }
    Ok(samples.into_iter().flatten().collect())
}

fn measure(cell: &Cell, echoing: &Echoing, stage: &Stage, extent: Extent) -> Result<Measured> {
    let used = || Ok::<_, anyhow::Error>((echoing.cpu_ns()?, stage.softirq_ns(), echoing.answers()?));
    let (before, softirq_before, answers_before) = used()?;
    let url = format!("udp://{}:{}", echoing.address(), programs::PORT);
    let (load, pid) = (echoing.echo.load(cell), echoing.server.as_ref().map(Server::pid));
    let command = || echoing.wire.command(End::Near, &stage.corelane);
    let sample = generator::measure_by(command, load, &url, pid, extent.timing)?;
    let (after, softirq_after, answers_after) = used()?;
    let [server_ns, receiver_ns] = [0, 1].map(|index: usize| after[index] - before[index]);
    let answers = answers_after - answers_before;
    let beside = |ns: u64| match pid {
        Some(_) => softirq::us_per_request(sample.cpu_us_per_request, server_ns, ns),
        None => ns as f64 / 1e3 / answers.max(1) as f64,
    };
    let softirq_us_per_request = softirq_before.zip(softirq_after).map(|(before, after)| beside(after - before));
    Ok(Measured { receiver_us_per_request: beside(receiver_ns), sample, softirq_us_per_request })
}

/// The bars that can be judged with what was measured; what has none is shown.
pub fn judge(cell: &Cell, found: &CellRounds) -> Vec<Verdict> {
    let by_sockets = Echo::BUILDS.into_iter().flat_map(|[lane, _]| judge_by_sockets(cell, found, lane));
    by_sockets.chain(Echo::BUILDS.into_iter().flat_map(|builds| judge_builds(cell, found, builds))).collect()
}

/// A lane over frames against the build beside it: what an answer costs, and how long the median one takes.
fn judge_builds(cell: &Cell, found: &CellRounds, [ours, beside]: [Echo; 2]) -> Vec<Verdict> {
    let judged = |what: &str, figure: fn(&Measured) -> f64| {
        let ratios = ratios(found, ours, beside, figure)?;
        Verdict::of_rounds(cell.name, format!("{ours} / {beside}, {what}"), &ratios, BESIDE)
    };
    let cost = judged("CPU per request", Measured::cpu_us_per_request);
    let latency = judged("p50 latency", |part| part.sample.p50_us);
    cost.into_iter().chain(latency).collect()
}

/// A packet lane, that which somebody gets who asks for nothing else or one that polls, against the socket that is asked one by one.
fn judge_by_sockets(cell: &Cell, found: &CellRounds, lane: Echo) -> Vec<Verdict> {
    let judged = |bar: Limit| {
        let ratios = ratios(found, lane, Echo::Sockets, Measured::cpu_us_per_request)?;
        let of = |what: &str, limit| {
            Verdict::of_rounds(cell.name, format!("{lane} / {}, CPU per request{what}", Echo::Sockets), &ratios, limit)
        };
        Some([of("", bar), of(" (goal)", GOAL)])
    };
    cell.bar.and_then(judged).into_iter().flatten().flatten().collect()
}

fn ratios(found: &CellRounds, of: Echo, by: Echo, figure: fn(&Measured) -> f64) -> Option<Vec<f64>> {
    let place = |echo| found.echoes.iter().position(|&one| one == echo);
    let (ours, theirs) = (place(of)?, place(by)?);
    Some(found.rounds.iter().map(|round| figure(&round[ours]) / figure(&round[theirs])).collect())
}

/// The medians over the rounds of one cell.
pub fn table(found: &CellRounds) -> String {
    let row = |(place, echo): (usize, &Echo)| {
        let middle = |of: fn(&Measured) -> f64| {
            let values: Vec<f64> = found.rounds.iter().map(|round| of(&round[place])).collect();
            median(&values).unwrap_or(f64::NAN)
        };
        let [all, lane, receiver, softirq, rate, p50, p99, lost] = [
            middle(Measured::cpu_us_per_request),
            middle(|part| part.sample.cpu_us_per_request),
            middle(|part| part.receiver_us_per_request),
            middle(|part| part.softirq_us_per_request.unwrap_or(f64::NAN)),
            middle(|part| part.sample.requests_per_s),
            middle(|part| part.sample.p50_us),
            middle(|part| part.sample.p99_us),
            middle(|part| part.sample.lost as f64),
        ];
        let ratio = ratios(found, found.echoes[place], Echo::Sockets, Measured::cpu_us_per_request);
        let ratio = ratio.and_then(|ratios| median(&ratios)).unwrap_or(f64::NAN);
        format!(
            "{echo:<36} {all:>10.3} {lane:>8.3} {receiver:>9.3} {softirq:>9.3} {ratio:>12.3} {rate:>9.0} {p50:>7.0} {p99:>7.0} {lost:>6.0}\n"
        )
    };
    let rows: String = found.echoes.iter().enumerate().map(row).collect();
    let head = format!(
        "{:<36} {:>10} {:>8} {:>9} {:>9} {:>12} {:>9} {:>7} {:>7} {:>6}\n",
        "echo", "CPU us/req", "server", "receiver", "ksoftirqd", "of sockets'", "req/s", "p50 us", "p99 us", "lost"
    );
    format!("{}, {} rounds\n{head}{rows}", found.cell, found.rounds.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bars::Word;
    use crate::packet::cells::CELLS;

    fn measured(server: f64, receiver: f64) -> Measured {
        let sample = Sample { cpu_us_per_request: server, ..Sample::default() };
        Measured { sample, receiver_us_per_request: receiver, softirq_us_per_request: None }
    }

    fn found(parts: [[f64; 2]; 3]) -> CellRounds {
        let round = parts.map(|[server, receiver]| measured(server, receiver)).to_vec();
        let echoes = vec![Echo::Packet, Echo::Polling, Echo::Sockets];
        CellRounds { cell: "packet-510", echoes, rounds: vec![round; 5] }
    }

    #[test]
    fn what_receives_counts_on_both_sides_of_the_ratio() {
        let verdicts = judge(&CELLS[2], &found([[1.0, 1.0], [2.0, 1.0], [3.0, 1.0]]));
        let words: Vec<_> = verdicts.iter().map(|verdict| (verdict.value, verdict.word)).collect();
        assert_eq!(words, [(0.5, Word::Met), (0.5, Word::Met), (0.75, Word::Met), (0.75, Word::Missed)]);
        assert!(verdicts[2..].iter().all(|verdict| verdict.what.starts_with("packet lane, polls / sockets")), "each by its name");
    }

    #[test]
    fn other_sizes_are_shown_and_not_judged() {
        assert!(judge(&CELLS[1], &found([[1.0, 1.0], [1.0, 1.0], [3.0, 1.0]])).is_empty());
    }

    #[test]
    fn a_build_beside_is_what_this_one_is_divided_by() {
        let part = |server, p50_us| {
            let sample = Sample { cpu_us_per_request: server, p50_us, ..Sample::default() };
            Measured { sample, receiver_us_per_request: 1.0, softirq_us_per_request: None }
        };
        let round = vec![part(2.0, 30.0), part(3.0, 20.0)];
        let echoes = vec![Echo::Packet, Echo::PacketBeside];
        let verdicts = judge(&CELLS[0], &CellRounds { cell: "packet-lone", echoes, rounds: vec![round; 5] });
        let words: Vec<_> = verdicts.iter().map(|verdict| (verdict.value, verdict.word)).collect();
        assert_eq!(words, [(0.75, Word::Met), (1.5, Word::Missed)]);
        assert_eq!(verdicts[1].what, "packet lane / packet lane, the build beside, p50 latency");
    }

    #[test]
    fn a_table_has_a_row_an_echo_with_its_ratio() {
        let lines = table(&found([[2.0, 1.0], [1.0, 1.0], [3.0, 1.0]]));
        let row: Vec<_> = lines.lines().nth(2).expect("a row").split_whitespace().collect();
        assert_eq!(row[..7], ["packet", "lane", "3.000", "2.000", "1.000", "NaN", "0.750"]);
    }
}
