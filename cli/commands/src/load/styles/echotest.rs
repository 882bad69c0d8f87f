//! `echotest`: messages that come back, a line of totals for each run.

use super::measure::{checked, comment, measure, of_threads};
use super::style::{Style, exit_of, options, with_codes};
use super::suffix::suffixed;
use crate::exit::Exit;
use crate::load::reach::{CONNECT, reached};
use crate::load::watch::Watcher;
use crate::print::{print, print_some};
use anyhow::{Context, Result};
use clap::Parser;
use corelane_load::plan::{Extent, Plan};
use corelane_load::report::Report;
use corelane_load::workloads::{WorkloadEntry, echo, udp};

pub const STYLE: Style = Style { name: "echotest", about: "messages that come back, a line of totals for each run", run };

/// Most messages in flight on a connection.
const IN_FLIGHT_MAX: u64 = 1_024;

/// Sends messages to an echo server, and prints a line of totals for each run
///
/// Understands the options of the echotest program. Numbers may end in K, M, G, T (1000 each) or k, m, g, t (1024 each).
/// Each thread is a lane with a connection of its own. SIGINT ends it with the line of the run that is under way.
#[derive(Parser, Debug)]
#[command(name = "corelane load --style echotest", no_binary_name = true, version, max_term_width = 100, after_help = with_codes(AFTER_HELP))]
struct Options {
    /// The server; a user before it is ignored
    #[arg(value_name = "[USER@]HOST[:PORT]")]
    host: String,
    /// Messages in flight of each thread, up to 1024; 0 waits for each answer, as 1 does
    #[arg(short = 'a', value_name = "N", default_value = "1", value_parser = suffixed)]
    in_flight: u64,
    /// Messages of each thread in each run
    #[arg(short = 'c', value_name = "N", default_value = "1M", value_parser = suffixed)]
    messages: u64,
    /// Print no line of headings
    #[arg(short = 'H')]
    no_headings: bool,
    /// Runs
    #[arg(short = 'i', value_name = "N", default_value = "1000", value_parser = suffixed)]
    runs: u64,
    /// Threads; more than there are CPUs take turns
    #[arg(short = 'j', value_name = "N", default_value = "1", value_parser = suffixed)]
    threads: u64,
    /// Bytes of a message
    #[arg(short = 'l', value_name = "BYTES", default_value = "1", value_parser = suffixed)]
    length: u64,
    /// The port where HOST names none
    #[arg(short = 'p', value_name = "PORT", default_value_t = echo::DEFAULT_PORT)]
    port: u16,
    /// Over UDP
    #[arg(short = 'u')]
    udp: bool,
    /// Say on standard error what casts doubt on a run
    #[arg(short = 'v')]
    verbose: bool,
}

const AFTER_HELP: &str = "Columns:
  totmsgs   messages that came back, of all threads
  totusecs  microseconds from the start to a thread's last message, the mean over the threads
  msgs/sec  totmsgs by totusecs
  avglat    microseconds from sending a message to its answer, the mean over all of them
  Mbps      payload in one direction, in 10^6 bits a second
  cpu/msg   microseconds of CPU time of all threads together, for each message
";

fn run(words: &[String]) -> Result<Exit> {
    let options: Options = options(words);
    let plan = options.plan()?;
    let watcher = Watcher::open(true)?;
    if !options.no_headings {
        print(line(HEADINGS))?;
    }
    let mut has_failures = false;
    for number in 1..=options.runs {
        let report = measure(options.entry(), plan.clone(), &watcher)?;
        let flow = print_some(line(columns(&report).cells()))?;
        has_failures |= comment("messages", number, &report, options.verbose);
        if flow.is_break() || watcher.wants_end() {
            break;
        }
    }
    Ok(exit_of(has_failures))
}

impl Options {
    fn entry(&self) -> &'static WorkloadEntry {
        if self.udp { &udp::ENTRY } else { &echo::ENTRY }
    }

    fn plan(&self) -> Result<Plan> {
        let scheme = if self.udp { "udp" } else { "tcp" };
        let host = self.host.rsplit_once('@').map_or(&*self.host, |(_user, host)| host);
        let with_port = format!("{scheme}://{host}");
        let entry = WorkloadEntry { default_port: self.port, ..*self.entry() };
        let place = reached(entry.place(Some(&with_port))?, &[], CONNECT)?;
        let all = of_threads(self.messages, self.threads)?;
        let size = usize::try_from(self.length).with_context(|| format!("-l: {} is too large: take fewer bytes", self.length))?;
        let plan = Plan {
            connections: self.threads as u32,
            lanes: self.threads as usize,
            depth: self.in_flight.clamp(1, IN_FLIGHT_MAX) as u32,
            size,
            extent: Extent::Requests(all),
            ..Plan::new(entry.name, &place.url, place.address)
        };
        checked(&entry, plan)
    }
}

const HEADINGS: [&str; 6] = ["totmsgs", "totusecs", "msgs/sec", "avglat", "Mbps", "cpu/msg"];

/// A run's figures; AFTER_HELP says what they are.
#[derive(Debug, PartialEq)]
struct Columns {
    messages: u64,
    elapsed_us: f64,
    per_second: f64,
    latency_us: f64,
    megabits: f64,
    cpu_us: f64,
}

fn columns(report: &Report) -> Columns {
    let lanes = &report.generator.lanes;
    let elapsed = lanes.iter().fold(0.0, |sum, lane| sum + lane.seconds);
    let elapsed_us = elapsed / lanes.len().max(1) as f64 * 1e6;
    let per_second = if elapsed_us > 0.0 { report.requests as f64 / elapsed_us * 1e6 } else { 0.0 };
    Columns {
        messages: report.requests,
        elapsed_us,
        per_second,
        latency_us: report.latency_us.get("mean").copied().unwrap_or(0.0),
        megabits: per_second * report.settings.size as f64 * 8.0 / 1e6,
        cpu_us: report.generator.us_per_request,
    }
}

impl Columns {
    fn cells(&self) -> [String; 6] {
        let Self { messages, elapsed_us, per_second, latency_us, megabits, cpu_us } = self;
        [
            messages.to_string(),
            format!("{elapsed_us:.0}"),
            format!("{per_second:.0}"),
            format!("{latency_us:.2}"),
            format!("{megabits:.2}"),
            format!("{cpu_us:.2}"),
        ]
    }
}

fn line(cells: [impl std::fmt::Display; 6]) -> String {
    cells.map(|cell| format!("{cell:>12}")).concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use corelane_load::report::{Generator, Lane, Settings};

    fn parsed(words: &str) -> Options {
        Options::try_parse_from(words.split_whitespace()).unwrap()
    }

    fn plan(words: &str) -> Plan {
        parsed(words).plan().unwrap()
    }

    #[test]
    fn the_defaults_are_the_programs() {
        let plan = plan("127.0.0.1");
        assert_eq!((plan.connections, plan.lanes, plan.depth, plan.size), (1, 1, 1, 1));
        assert_eq!(plan.extent, Extent::Requests(1_000_000));
        assert_eq!(plan.target, "127.0.0.1:60007".parse::<corelane::Address>().unwrap());
        assert_eq!(parsed("127.0.0.1").runs, 1_000);
    }

    #[test]
    fn every_option_has_its_effect() {
        let plan = plan("-a 8 -c 2k -j 3 -l 1K -p 7 -u nobody@[::1]");
        assert_eq!((plan.connections, plan.lanes, plan.depth, plan.size), (3, 3, 8, 1_000));
        assert_eq!(plan.extent, Extent::Requests(3 * 2_048));
        assert_eq!((plan.workload.as_str(), plan.target), ("udp", "[::1]:7".parse().unwrap()));
        let options = parsed("-H -v -i 5 127.0.0.1");
        assert!(options.no_headings && options.verbose && options.runs == 5);
    }

    #[test]
    fn a_port_at_the_host_goes_before_the_option() {
        assert_eq!(plan("-p 7 me@127.0.0.1:8").target.port(), 8);
        assert_eq!(plan("-p 7 a@b@127.0.0.1").target, "127.0.0.1:7".parse::<corelane::Address>().unwrap());
    }

    #[test]
    fn in_flight_has_its_bounds() {
        let depth = |words: &str| plan(words).depth;
        assert_eq!([depth("-a 0 127.0.0.1"), depth("-a 1024 127.0.0.1"), depth("-a 9M 127.0.0.1")], [1, 1_024, 1_024]);
    }

    #[test]
    fn what_cannot_be_met_is_refused() {
        for (words, why) in [
            ("-j 5G 127.0.0.1", "too many"),
            ("-c 18446744073709551615 -j 2 127.0.0.1", "too many"),
            ("-c 0 127.0.0.1", "requests"),
            ("-j 0 127.0.0.1", "connections"),
            ("-l 0 127.0.0.1", "size"),
            ("-l 1g 127.0.0.1", "size"),
            ("-u -l 1 -a 129 127.0.0.1", "told apart"),
        ] {
            let error = parsed(words).plan().unwrap_err().to_string();
            assert!(error.contains(why), "{words}: {error}");
        }
        assert!(Options::try_parse_from(["-c", "many", "127.0.0.1"]).is_err());
        assert!(Options::try_parse_from(["-c", "1"]).is_err(), "there is no host");
    }

    #[test]
    fn each_column_is_recomputed_from_the_report() {
        let lane = |seconds| Lane { seconds, ..Lane::default() };
        let report = Report {
            requests: 2_000_000,
            settings: Settings { size: 100, ..Settings::default() },
            latency_us: [("50".to_owned(), 7.0), ("mean".to_owned(), 9.5)].into(),
            generator: Generator { us_per_request: 2.25, lanes: vec![lane(1.5), lane(2.5)], ..Generator::default() },
            ..Report::default()
        };
        let cells = columns(&report).cells();
        // 2,000,000 in the mean of 1.5 and 2.5 s; 100 bytes each.
        assert_eq!(cells, ["2000000", "2000000", "1000000", "9.50", "800.00", "2.25"]);
        assert_eq!(line(HEADINGS).len(), line(cells).len());
        assert_eq!(columns(&Report::default()).cells(), ["0", "0", "0", "0.00", "0.00", "0.00"]);
    }
}
