//! `rpctest`: null calls of ONC RPC, a line for each run with medians over the runs and quantiles of the latency.

mod columns;
mod files;

use super::measure::{checked, comment, of_threads};
use super::style::{Style, exit_of, options, with_codes};
use super::suffix::suffixed;
use crate::exit::Exit;
use crate::load::reach::{CONNECT, reached};
use crate::load::rounds;
use crate::load::watch::Watcher;
use crate::print::{print, print_some};
use anyhow::{Result, bail};
use clap::{Parser, ValueEnum};
use columns::{Columns, History, Run, headings};
use corelane_load::plan::{Extent, Plan};
use corelane_load::workloads::Particulars;
use corelane_load::workloads::rpc::{self, Caller, RpcSettings, Split};
use corelane_load::{Beside, Watched, buckets, curve, measure};
use std::path::PathBuf;

pub const STYLE: Style = Style { name: "rpctest", about: "null calls of ONC RPC, medians over runs and quantiles", run };

/// Most calls in flight on a connection.
const IN_FLIGHT_MAX: u64 = 1_023;

/// Most quantiles.
const QUANTILES_MAX: usize = 16;

/// Who calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Authentication {
    /// Nobody: AUTH_NONE
    None,
    /// This user of this machine: AUTH_SYS
    #[value(alias = "unix")]
    Sys,
}

/// Calls the null procedure of NFS version 3, and prints a line of figures for each run
///
/// Understands the options of the rpctest program. Numbers may end in K, M, G, T (1000 each) or k, m, g, t (1024 each).
/// Each thread is a lane with a connection of its own. SIGINT ends it with the line of the run that is under way.
#[derive(Parser, Debug)]
#[command(name = "corelane load --style rpctest", no_binary_name = true, version, max_term_width = 100, after_help = with_codes(AFTER_HELP))]
struct Options {
    /// The server; a user before it is ignored
    #[arg(value_name = "[USER@]HOST[:PORT]")]
    host: String,
    /// Who calls; unix is sys
    #[arg(short = 'A', value_enum, default_value = "none")]
    authentication: Authentication,
    /// Calls in flight of each thread, up to 1023; 0 waits for each reply, as 1 does
    #[arg(short = 'a', value_name = "N", default_value = "1", value_parser = suffixed)]
    in_flight: u64,
    /// Calls of each thread in each run
    #[arg(short = 'c', value_name = "N", default_value = "1M", value_parser = suffixed)]
    calls: u64,
    /// Send each call as three fragments: one byte, all but two, one byte
    #[arg(short = 'f', conflicts_with = "udp")]
    fragments: bool,
    /// Write a histogram and an HTML report with plots of each run into this folder
    #[arg(short = 'd', value_name = "DIR")]
    folder: Option<PathBuf>,
    /// Print no line of headings
    #[arg(short = 'H')]
    no_headings: bool,
    /// Runs
    #[arg(short = 'i', value_name = "N", default_value = "99", value_parser = suffixed)]
    runs: u64,
    /// Threads; more than there are CPUs take turns
    #[arg(short = 'j', value_name = "N", default_value = "1", value_parser = suffixed)]
    threads: u64,
    /// Print the rate by the average over the runs instead of the median
    #[arg(short = 'm')]
    average: bool,
    /// Quantiles of the latency, in percent, up to 16
    #[arg(short = 'q', value_name = "LIST", default_value = ".3,4.6,31.7,50,68.3,95.4,99.7")]
    quantiles: String,
    /// Over UDP
    #[arg(short = 'u')]
    udp: bool,
    /// Print the times and rates of this run's threads, too
    #[arg(short = 'x')]
    extended: bool,
    /// Say on standard error what casts doubt on a run
    #[arg(short = 'v')]
    verbose: bool,
}

const AFTER_HELP: &str = "Columns:
  Date      when the run began, in seconds since 1970
  TD, INF   threads, and calls in flight of each
  MedRPC    calls a second: those of this run by the median of every thread's time in all runs so far (AvgRPC: by the average)
  MedLat    microseconds: the median over the runs of each run's median latency
  Mbps      bytes of calls and replies, in 10^6 bits a second, by the median of this run's threads' times
  MinLat    microseconds of the fastest call of this run; then a column for each quantile, and MaxLat of the slowest
  *         behind it, in milliseconds: the longest latency of each thread whose longest is over what the original's
            histogram holds: 8,388,608 buckets of 32 ns, or of 64 ns with more than two threads
With -x also, of this run alone:
  TotalRPC  calls answered
  MinTime, MedTime, MaxTime   seconds that the fastest, the median and the slowest thread took
  MinRPC, MedRPC, MaxRPC      TotalRPC by each of these, so that MinRPC is the highest rate
A time is the upper end of its bucket of the histogram that -d writes, from which all columns can be computed.
";

fn run(words: &[String]) -> Result<Exit> {
    let options: Options = options(words);
    let plan = options.plan()?;
    let folder = options.folder.as_deref().map(files::Folder::create).transpose()?;
    let watcher = Watcher::open(true)?;
    if !options.no_headings {
        print(headings(&plan.quantiles, options.average, options.extended))?;
    }
    let (mut history, mut has_failures) = (History::default(), false);
    for number in 1..=options.runs {
        let beside = Beside { watched: Watched::Nobody, hdr: None, show: &mut |_| !watcher.wants_end() };
        let (report, measured) = measure(&rpc::ENTRY, plan.clone(), beside).map_err(rounds::failed)?;
        let run = Run::new(&report, buckets::buckets(&measured.latency));
        if let Some(folder) = &folder {
            folder.write(number, &run, &report)?;
        }
        history.add(&run);
        let columns = Columns::new(&run, &history, &plan.quantiles, options.average);
        let flow = print_some(columns.line(options.extended))?;
        has_failures |= comment("calls", number, &report, options.verbose);
        if flow.is_break() || watcher.wants_end() {
            break;
        }
    }
    Ok(exit_of(has_failures))
}

impl Options {
    fn plan(&self) -> Result<Plan> {
        let scheme = if self.udp { "udp" } else { "tcp" };
        let host = self.host.rsplit_once('@').map_or(&*self.host, |(_user, host)| host);
        let place = reached(rpc::ENTRY.place(Some(&format!("{scheme}://{host}")))?, &[], CONNECT)?;
        let all = of_threads(self.calls, self.threads)?;
        let quantiles = curve::parse_quantiles(&self.quantiles).map_err(|why| anyhow::anyhow!("-q: {why}"))?;
        if quantiles.len() > QUANTILES_MAX {
            bail!("-q: {} quantiles are too many: take at most {QUANTILES_MAX}", quantiles.len());
        }
        let plan = Plan {
            connections: self.threads as u32,
            lanes: self.threads as usize,
            depth: self.in_flight.clamp(1, IN_FLIGHT_MAX) as u32,
            size: 0,
            extent: Extent::Requests(all),
            quantiles,
            particulars: Particulars::of(self.settings()),
            ..Plan::new(rpc::ENTRY.name, &place.url, place.address)
        };
        checked(&rpc::ENTRY, plan)
    }

    fn settings(&self) -> RpcSettings {
        RpcSettings {
            program: Some(rpc::NULL_PROGRAM),
            caller: if self.authentication == Authentication::Sys { this_user() } else { Caller::Nobody },
            split: if self.fragments { Split::Fragments(3) } else { Split::Whole },
        }
    }
}

/// Who runs this program, as the system says it: the owner of its own entry (proc_pid(5)), and the machine's name.
fn this_user() -> Caller {
    use std::os::unix::fs::MetadataExt;
    let (uid, gid) = std::fs::metadata("/proc/self").map_or((0, 0), |own| (own.uid(), own.gid()));
    let machine = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_owned();
    Caller::User { machine, uid, gid }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(words: &str) -> Options {
        Options::try_parse_from(words.split_whitespace()).unwrap()
    }

    fn plan(words: &str) -> Plan {
        parsed(words).plan().unwrap()
    }

    #[test]
    fn the_defaults_are_the_programs() {
        let plan = plan("127.0.0.1");
        assert_eq!((plan.connections, plan.lanes, plan.depth, plan.size), (1, 1, 1, 0));
        assert_eq!((plan.extent, plan.quantiles.len()), (Extent::Requests(1_000_000), 7));
        assert_eq!(plan.target, "127.0.0.1:62049".parse::<corelane::Address>().unwrap());
        let settings = RpcSettings::in_plan(&plan);
        assert_eq!((settings.split, &settings.caller), (Split::Whole, &Caller::Nobody));
        assert_eq!(parsed("127.0.0.1").runs, 99);
    }

    #[test]
    fn every_option_has_its_effect() {
        let plan = plan("-A unix -a 8 -c 2k -f -j 3 -q 1,99 nobody@[::1]:2049");
        assert_eq!((plan.connections, plan.lanes, plan.depth), (3, 3, 8));
        assert_eq!((plan.extent, &plan.quantiles[..]), (Extent::Requests(3 * 2_048), &[1.0, 99.0][..]));
        let settings = RpcSettings::in_plan(&plan);
        assert_eq!((settings.split, plan.target), (Split::Fragments(3), "[::1]:2049".parse().unwrap()));
        assert!(matches!(settings.caller, Caller::User { .. }));
        assert_eq!(parsed("-A sys h").authentication, parsed("-A unix h").authentication);
        let options = parsed("-H -v -x -m -i 5 -d there 127.0.0.1");
        assert!(options.no_headings && options.verbose && options.extended && options.average && options.runs == 5);
        assert_eq!(options.folder, Some("there".into()));
        assert!(parsed("-u 127.0.0.1").plan().unwrap().url.starts_with("udp://"));
    }

    #[test]
    fn in_flight_has_its_bounds() {
        let depth = |words: &str| plan(words).depth;
        assert_eq!([depth("-a 0 127.0.0.1"), depth("-a 1024 127.0.0.1"), depth("-a 9M 127.0.0.1")], [1, 1_023, 1_023]);
    }

    #[test]
    fn what_cannot_be_met_is_refused() {
        let many = (1..=17).map(|number| number.to_string()).collect::<Vec<_>>().join(",");
        for (words, why) in [
            ("-j 5G 127.0.0.1", "too many"),
            ("-c 18446744073709551615 -j 2 127.0.0.1", "too many"),
            ("-c 0 127.0.0.1", "requests"),
            ("-j 0 127.0.0.1", "connections"),
            ("-q 101 127.0.0.1", "outside"),
            (&format!("-q {many} 127.0.0.1"), "too many"),
        ] {
            let error = parsed(words).plan().unwrap_err().to_string();
            assert!(error.contains(why), "{words}: {error}");
        }
        for words in ["-c many h", "-c 1", "-A gss h", "-u -f h"] {
            assert!(Options::try_parse_from(words.split_whitespace()).is_err(), "{words}");
        }
    }
}
