//! The figures of a cell of servers, and their table.

use corelane_load::stats::median;
use serde::Serialize;

use super::counts::Counts;
use super::doubts;
use super::entrants::Entrant;
use super::generator::Sample;
use super::load::{Asks, Load};
use super::rounds::Rounds;
use super::tables::{self, Column, number, percent};

/// One server's part of one round.
#[derive(Clone, Debug, Serialize)]
pub struct Measured {
    /// What the generator saw.
    #[serde(flatten)]
    pub sample: Sample,
    /// Processor time per answered request of the kernel's own thread of the server's CPU; `None` where it cannot be seen.
    pub softirq_us_per_request: Option<f64>,
    /// Processor time of the whole machine per answered request, as far as the load was the same all the time; `None` where nobody tells.
    pub machine_us_per_request: Option<f64>,
    /// What the server counted meanwhile, warm-up and draining included.
    pub counts: Option<Counts>,
}

/// What is known of a server beside its rounds.
#[derive(Clone, Debug, Serialize)]
pub struct Contender {
    /// What it asks the operating system through.
    pub driver: String,
    /// What it receives into.
    pub buffer: String,
    /// What it was loaded with.
    pub load: Load,
    /// CPU milliseconds a second without traffic, where the cell asks for it.
    pub idle_cpu_ms_per_s: Option<f64>,
}

/// All that one cell showed.
#[derive(Debug, Serialize)]
pub struct CellResult {
    /// Its rounds.
    #[serde(flatten)]
    pub rounds: Rounds<Entrant, Measured>,
    /// Its servers, in the order of the rounds.
    pub contenders: Vec<Contender>,
}

impl Measured {
    /// What a request cost the server's CPU.
    pub fn cpu_us_per_request(&self) -> f64 {
        self.sample.cpu_us_per_request + self.softirq_us_per_request.unwrap_or(0.0)
    }
}

/// What the columns do not say of themselves.
pub const NOTE: &str = "buffer: what a receive is into; of datagrams every server asks for queues of 4 MiB each way, of streams for none\n\
    CPU us/req: the server's threads, and beside them ksoftirqd of their CPU, whose part is shown; - where it cannot be seen\n\
    all us/req: all that the machine used meanwhile, the generator and threads of the kernel's included, and whatever else ran\n";

/// The table of one cell: of every figure the median over the rounds, of the longest latency the longest, of what was
/// lost the sum.
pub fn table(found: &CellResult) -> String {
    let table = tables::of_rounds(&found.rounds, "server", |place, _| columns(found, place));
    let samples = found.rounds.rounds.iter().flatten().map(|part| part.sample.doubts.as_slice());
    table + &doubts::tally(samples)
}

fn columns(found: &CellResult, place: usize) -> Vec<Column> {
    let contender = &found.contenders[place];
    let load = &contender.load;
    let parts: Vec<&Measured> = found.rounds.rounds.iter().map(|round| &round[place]).collect();
    let mut columns = vec![
        ("driver", contender.driver.clone()),
        ("buffer", contender.buffer.clone()),
        ("lanes", "1".to_owned()),
        ("bytes", load.bytes.to_string()),
        ("conns", load.connections.to_string()),
        ("depth", load.depth.to_string()),
    ];
    columns.extend(timed_columns(&parts));
    columns.extend(counted_columns(load, &parts));
    columns.push(("idle ms/s", number(contender.idle_cpu_ms_per_s, 2)));
    columns
}

fn timed_columns(parts: &[&Measured]) -> [Column; 12] {
    let middle = |of: fn(&Measured) -> f64| median(&parts.iter().map(|part| of(part)).collect::<Vec<_>>());
    let machine: Vec<f64> = parts.iter().filter_map(|part| part.machine_us_per_request).collect();
    let softirq: Vec<f64> = parts.iter().filter_map(|part| part.softirq_us_per_request).collect();
    [
        ("CPU us/req", number(middle(Measured::cpu_us_per_request), 3)),
        ("ksoftirqd", number(median(&softirq), 3)),
        ("gen. us/req", number(middle(|part| part.sample.generator_us_per_request), 3)),
        ("all us/req", number(median(&machine), 3)),
        ("req/s", number(middle(|part| part.sample.requests_per_s), 0)),
        ("p50 us", number(middle(|part| part.sample.p50_us), 0)),
        ("p99 us", number(middle(|part| part.sample.p99_us), 0)),
        ("p99.9 us", number(middle(|part| part.sample.p999_us), 0)),
        ("max us", number(parts.iter().map(|part| part.sample.max_us).reduce(f64::max), 0)),
        ("lost", parts.iter().map(|part| part.sample.lost).sum::<u64>().to_string()),
        ("server CPU", percent(middle(|part| part.sample.server_load))),
        ("gen. CPU", percent(middle(|part| part.sample.generator_load))),
    ]
}

/// Exact counts, by request that reached the server.
fn counted_columns(load: &Load, parts: &[&Measured]) -> [Column; 5] {
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
    [
        ("sends/req", number(middle(&|counts, requests| Some(counts.sends? / requests)), 4)),
        ("recvs/req", number(middle(&|counts, requests| Some(counts.receives? / requests)), 4)),
        ("seen/req", number(middle(&|counts, requests| Some(counts.requests? / requests)), 4)),
        ("B/send", number(middle(&|counts, _| Some(counts.bytes_sent? / counts.sends?)), 0)),
        ("B/recv", number(middle(&|counts, _| Some(counts.bytes_received? / counts.receives?)), 0)),
    ]
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::entrants::Peer;
    use crate::load::Carrier;

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
        Measured { sample, softirq_us_per_request: Some(0.25), machine_us_per_request: Some(9.0), counts }
    }

    /// Three rounds of two servers.
    pub fn outcome() -> CellResult {
        let counts = Counts { sends: Some(25.0), bytes_sent: Some(6_400.0), bytes_received: Some(6_400.0), ..Counts::default() };
        let load = Load { asks: Asks::Echo, transport: Carrier::Tcp, bytes: 64, connections: 7, depth: 3, spin: false };
        let contender = Contender { driver: "epoll".to_owned(), buffer: "16K/conn".to_owned(), load, idle_cpu_ms_per_s: None };
        let rounds = vec![
            vec![measured(3.0, 500.0, Some(counts)), measured(1.0, 1.0, None)],
            vec![measured(1.0, 900.0, Some(counts)), measured(1.0, 1.0, None)],
            vec![measured(2.0, 100.0, Some(counts)), measured(1.0, 1.0, None)],
        ];
        let who = vec![Entrant::Corelane, Entrant::Peer(Peer::Tokio)];
        CellResult { rounds: Rounds { cell: "a-cell", who, rounds }, contenders: vec![contender.clone(), contender] }
    }

    #[test]
    fn a_row_holds_medians_the_longest_latency_and_all_that_was_lost() {
        let table = table(&outcome());
        let words = |line: usize| table.lines().nth(line).expect("the line").split_whitespace().collect::<Vec<_>>().join(" ");
        let expected = "corelane epoll 16K/conn 1 64 7 3 2.250 0.250 1.500 9.000 90 10 20 30 900 6 50 % 25 % 0.2500 - - 256 - -";
        assert_eq!(words(2), expected);
        assert!(words(3).starts_with("tokio ") && words(3).ends_with("25 % - - - - - -"), "{table}");
        assert_eq!(table.lines().last(), Some("2 of 6 samples: waited N us"));
    }
}
