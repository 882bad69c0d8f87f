//! The rounds of a cell, their table, and what comes of the bars.

use anyhow::Result;
use corelane_load::stats::median;
use serde::Serialize;

use super::cells::{BESIDE, Cell, Echo, GOAL, GOVERNED};
use super::programs;
use super::servers::Echoing;
use super::wire::End;
use crate::generator::{self, Sample};
use crate::interrupt::Interrupt;
use crate::rounds::{Extent, Rounds, Verdict};
use crate::server::Server;
use crate::softirq;
use crate::stage::Stage;
use crate::tables::{self, number};

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
pub type CellRounds = Rounds<Echo, Measured>;

/// Measures one cell: every echo on a wire of its own, started anew for each round. The same program costs up to an eighth more or less from one start to
/// the next, and within one start a hundredth.
///
/// # Errors
/// When somebody does not start or answers wrongly, or a signal asks for the end.
pub fn run(cell: &Cell, echoes: &[Echo], stage: &Stage, extent: Extent, interrupt: &Interrupt) -> Result<CellRounds> {
    let echoes: Vec<_> = echoes.iter().copied().filter(|&echo| cell.has(echo)).collect();
    let one = |echo: Echo, rate| measure(cell, &Echoing::start(echo, stage.build(echo.is_beside()))?, rate, stage, extent);
    let mut rate = None;
    if let Some(part) = cell.part {
        for &echo in &echoes {
            interrupt.check()?;
            rate = Some(f64::max(part * one(echo, None)?.sample.requests_per_s, rate.unwrap_or_default()));
        }
    }
    Rounds::take(cell.name, echoes.clone(), extent.rounds, interrupt, |place| one(echoes[place], rate))
}

fn measure(cell: &Cell, echoing: &Echoing, rate: Option<f64>, stage: &Stage, extent: Extent) -> Result<Measured> {
    let used = || Ok::<_, anyhow::Error>((echoing.cpu_ns()?, echoing.softirq.cpu_ns(), echoing.answers()?));
    let (before, softirq_before, answers_before) = used()?;
    let url = format!("udp://{}:{}", echoing.address(), programs::PORT);
    let (load, pid) = (echoing.echo.load(cell), echoing.server.as_ref().map(Server::pid));
    let command = || echoing.wire.command(End::Near, &stage.corelane);
    let sample = generator::measure_by(command, load, &url, pid, rate, extent.timing)?;
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
    let [lanes, beside] = [0, 1].map(|build| Echo::BUILDS.map(|builds| builds[build]));
    let by_sockets = lanes.into_iter().flat_map(|lane| judge_by_sockets(cell, found, lane));
    let by_beside = lanes.into_iter().zip(beside).flat_map(|(ours, beside)| {
        let cost = found.judge(ours, beside, COST, Measured::cpu_us_per_request, BESIDE);
        [cost, found.judge(ours, beside, "p50 latency", |part| part.sample.p50_us, BESIDE)]
    });
    let governed = found.judge(Echo::Polling, Echo::Ungoverned, COST, Measured::cpu_us_per_request, GOVERNED);
    by_sockets.chain(by_beside).chain([governed]).flatten().collect()
}

/// A packet lane, that which somebody gets who asks for nothing else or one that polls, against the socket that is asked one by one.
fn judge_by_sockets(cell: &Cell, found: &CellRounds, lane: Echo) -> [Option<Verdict>; 2] {
    let judged = |what: String, bar| found.judge(lane, Echo::Sockets, &what, Measured::cpu_us_per_request, bar);
    cell.bar.map_or([None, None], |bar| [judged(COST.to_owned(), bar), judged(format!("{COST} (goal)"), GOAL)])
}

const COST: &str = "CPU per request";

/// What the columns do not say of themselves.
pub const NOTE: &str = "CPU us/req: the server's threads, and the thread that receives for it; what ksoftirqd of their CPU took is shown, and no part of it\n";

/// The medians over the rounds of one cell.
pub fn table(found: &CellRounds) -> String {
    tables::of_rounds(found, "echo", |_, echo| {
        let middle = |of: fn(&Measured) -> f64, digits| number(found.median(echo, of), digits);
        let ratios = found.ratios(echo, Echo::Sockets, Measured::cpu_us_per_request);
        vec![
            ("CPU us/req", middle(Measured::cpu_us_per_request, 3)),
            ("server", middle(|part| part.sample.cpu_us_per_request, 3)),
            ("receiver", middle(|part| part.receiver_us_per_request, 3)),
            ("ksoftirqd", middle(|part| part.softirq_us_per_request.unwrap_or(f64::NAN), 3)),
            ("of sockets'", number(ratios.and_then(|ratios| median(&ratios)), 3)),
            ("req/s", middle(|part| part.sample.requests_per_s, 0)),
            ("p50 us", middle(|part| part.sample.p50_us, 0)),
            ("p99 us", middle(|part| part.sample.p99_us, 0)),
            ("lost", middle(|part| part.sample.lost as f64, 0)),
        ]
    })
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
        Rounds { cell: "packet-510", who: echoes, rounds: vec![round; 5] }
    }

    #[test]
    fn what_receives_counts_on_both_sides_of_the_ratio() {
        let verdicts = judge(&CELLS[2], &found([[1.0, 1.0], [2.0, 1.0], [3.0, 1.0]]));
        let words: Vec<_> = verdicts.iter().map(|verdict| (verdict.value, verdict.word)).collect();
        assert_eq!(words, [(0.5, Word::Met), (0.5, Word::Met), (0.75, Word::Met), (0.75, Word::Missed)]);
        assert!(verdicts[2..].iter().all(|verdict| verdict.what.starts_with("packet lane, polls / sockets")), "each by its name");
    }

    #[test]
    fn a_controller_is_judged_by_a_lane_without_one() {
        let echoes = vec![Echo::Polling, Echo::Ungoverned];
        let round = [[3.0, 2.0], [3.0, 1.0]].map(|[server, receiver]| measured(server, receiver)).to_vec();
        let verdicts = judge(&CELLS[1], &Rounds { cell: "packet-64", who: echoes, rounds: vec![round; 5] });
        assert_eq!(verdicts.len(), 1);
        assert_eq!((verdicts[0].value, verdicts[0].word), (1.25, Word::Missed));
    }

    #[test]
    fn half_a_load_is_asked_of_lanes_that_poll_alone() {
        let half = CELLS.iter().find(|cell| cell.part == Some(0.5)).expect("a cell of half the load");
        let who: Vec<_> = Echo::ALL.into_iter().filter(|&echo| half.has(echo)).collect();
        assert_eq!(who, [Echo::Polling, Echo::Ungoverned], "so that the bar of both is judged");
        assert!(CELLS.iter().all(|cell| cell.part.is_some() || Echo::ALL.into_iter().all(|echo| cell.has(echo))));
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
        let verdicts = judge(&CELLS[0], &Rounds { cell: "packet-lone", who: echoes, rounds: vec![round; 5] });
        let words: Vec<_> = verdicts.iter().map(|verdict| (verdict.value, verdict.word)).collect();
        assert_eq!(words, [(0.75, Word::Met), (1.5, Word::Missed)]);
        assert_eq!(verdicts[1].what, "packet lane / packet lane, the build beside, p50 latency");
    }

    #[test]
    fn a_table_has_a_row_an_echo_with_its_ratio() {
        let lines = table(&found([[2.0, 1.0], [1.0, 1.0], [3.0, 1.0]]));
        let row: Vec<_> = lines.lines().nth(2).expect("a row").split_whitespace().collect();
        assert_eq!(row[..7], ["packet", "lane", "3.000", "2.000", "1.000", "-", "0.750"]);
    }
}
