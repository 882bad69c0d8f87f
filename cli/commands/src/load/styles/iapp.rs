//! `iapp-clt` and `iapp-udp-clt`: clients that take what a server pushes, or burst datagrams at one that drops them, with a line for each thread and second.

use super::measure::{checked, failures};
use super::style::{Style, exit_of, options, with_codes};
use crate::exit::Exit;
use crate::load::rounds::failed;
use crate::load::watch::Watcher;
use crate::print::{print, print_some};
use anyhow::{Result, bail};
use clap::Parser;
use corelane::admin::watch::LANES_MAX;
use corelane_load::plan::{Extent, Mode, Plan};
use corelane_load::report::{LaneFlow, Progress, Report, Second};
use corelane_load::text::figures::{bytes, number};
use corelane_load::workloads::burst::Burst;
use corelane_load::workloads::{Particulars, WorkloadEntry, burst, sink};
use corelane_load::{Beside, Watched};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

pub const CLT: Style = Style { name: "iapp-clt", about: "takes what is pushed, a line a thread and second", run: run_clt };
pub const UDP_CLT: Style = Style { name: "iapp-udp-clt", about: "bursts of datagrams, a line a thread and second", run: run_udp };

const HOUR: Duration = Duration::from_secs(3600);

/// Time in which each thread opens so many connections, as a part of a second.
const OPENINGS_PER_SECOND: f64 = 10.0;

/// Takes what a server pushes, drops it, and prints what came on each thread each second
///
/// Understands the arguments of libiapp's clt program. Each thread is a lane. What comes is checked on a sample where `corelane serve push` sends it; --unchecked is for
/// another server. SIGINT ends it. It ends with 3 if connections failed.
#[derive(Parser, Debug)]
#[command(name = "corelane load --style iapp-clt", no_binary_name = true, max_term_width = 100, after_help = with_codes(""))]
struct Clt {
    /// Threads
    #[arg(value_name = "THREADS", value_parser = clap::value_parser!(u32).range(1..=LANES_MAX as i64))]
    threads: u32,
    /// Connections of each thread
    #[arg(value_name = "CONNECTIONS", value_parser = clap::value_parser!(u32).range(1..))]
    connections: u32,
    /// Connections that each thread opens in 100 ms
    #[arg(value_name = "OPENED", value_parser = clap::value_parser!(u32).range(1..))]
    opened: u32,
    /// Bytes of a buffer: what counts as one
    #[arg(value_name = "BYTES", value_parser = clap::value_parser!(u32).range(1..))]
    size: u32,
    #[command(flatten)]
    target: Target,
    /// Whatever comes is right
    #[arg(long)]
    unchecked: bool,
}

/// Sends bursts of datagrams which nobody answers, and prints what each thread sent each second
///
/// Understands the arguments of libiapp's udp_clt program. Each thread is a lane with one socket. A burst goes as one train where the kernel can. SIGINT ends it.
#[derive(Parser, Debug)]
#[command(name = "corelane load --style iapp-udp-clt", no_binary_name = true, max_term_width = 100, after_help = with_codes(""))]
struct UdpClt {
    /// Threads
    #[arg(value_name = "THREADS", value_parser = clap::value_parser!(u32).range(1..=LANES_MAX as i64))]
    threads: u32,
    /// Datagrams that may wait to be sent on each thread, a burst at least
    #[arg(value_name = "DEPTH", value_parser = clap::value_parser!(u32).range(1..))]
    depth: u32,
    /// Datagrams of a burst, up to 128
    #[arg(value_name = "BURST", value_parser = clap::value_parser!(u16).range(1..=128))]
    burst: u16,
    /// Bytes of a datagram
    #[arg(value_name = "BYTES")]
    size: u32,
    #[command(flatten)]
    target: Target,
}

#[derive(clap::Args, Debug)]
struct Target {
    /// Address of the server, IPv4 or IPv6
    #[arg(value_name = "ADDRESS")]
    address: IpAddr,
    /// Its port
    #[arg(value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    port: u16,
    /// How long to go on at the most, up to 24h [default: 1h]
    #[arg(long, value_name = "TIME", value_parser = corelane_load::amounts::time)]
    duration: Option<Duration>,
}

fn run_clt(words: &[String]) -> Result<Exit> {
    carry_out(&sink::ENTRY, options::<Clt>(words).plan()?)
}

fn run_udp(words: &[String]) -> Result<Exit> {
    carry_out(&burst::ENTRY, options::<UdpClt>(words).plan()?)
}

impl Target {
    fn plan(&self, entry: &WorkloadEntry, scheme: &str) -> Plan {
        let target = SocketAddr::new(self.address, self.port);
        let plan = Plan::new(entry.name, &format!("{scheme}://{target}"), target);
        Plan { extent: Extent::For(self.duration.unwrap_or(HOUR)), ..plan }
    }
}

impl Clt {
    fn plan(&self) -> Result<Plan> {
        let Some(connections) = self.threads.checked_mul(self.connections) else {
            bail!("{} threads with {} connections each are too many: take fewer", self.threads, self.connections);
        };
        let default = self.target.plan(&sink::ENTRY, "tcp");
        let particulars = if self.unchecked { Particulars::of(sink::Sample(0)) } else { default.particulars.clone() };
        let plan = Plan {
            mode: Mode::Sink,
            lanes: self.threads as usize,
            connections,
            opening_rate: Some(f64::from(self.opened) * OPENINGS_PER_SECOND * f64::from(self.threads)),
            size: self.size as usize,
            particulars,
            ..default
        };
        checked(&sink::ENTRY, plan)
    }
}

impl UdpClt {
    fn plan(&self) -> Result<Plan> {
        let plan = Plan {
            mode: Mode::Flood,
            lanes: self.threads as usize,
            connections: self.threads,
            depth: self.depth,
            size: self.size as usize,
            timeout: Duration::from_millis(200),
            particulars: Particulars::of(Burst(self.burst.into())),
            ..self.target.plan(&burst::ENTRY, "udp")
        };
        checked(&burst::ENTRY, plan)
    }
}

fn carry_out(entry: &WorkloadEntry, plan: Plan) -> Result<Exit> {
    let (size, watcher, mut told) = (plan.size as u64, Watcher::open(true)?, Printed::default());
    let mut written = Ok(());
    let mut show = |progress: &Progress| {
        let text = told.next(progress, size);
        // Where nobody reads any more there is nobody to go on for.
        let goes_on = text.is_empty()
            || print_some(text).map(|flow| flow.is_continue()).unwrap_or_else(|error| {
                written = Err(error);
                false
            });
        goes_on && !watcher.wants_end()
    };
    let report =
        corelane_load::run(entry, plan, Beside { watched: Watched::Nobody, hdr: None, show: &mut show }).map_err(failed)?;
    written?;
    print(total(&report))?;
    Ok(exit_of(failures(&report).is_some()))
}

/// What was printed before.
#[derive(Default)]
struct Printed {
    seconds: usize,
    connections: u64,
}

impl Printed {
    /// What there is to print now.
    fn next(&mut self, progress: &Progress, size: u64) -> String {
        let (open, all) = progress.connections;
        if progress.phase == "connecting" {
            let is_new = open != std::mem::replace(&mut self.connections, open);
            return if is_new { format!("opening: {open} of {all} clients\n") } else { String::new() };
        }
        let first = std::mem::replace(&mut self.seconds, progress.series.len());
        progress.series.iter().skip(first).map(|second| lines(second, size)).collect()
    }
}

/// A line for each thread.
fn lines(second: &Second, size: u64) -> String {
    let line = |(thread, flow): (usize, &LaneFlow)| {
        let LaneFlow { connections, opened, closed, bytes_sent, bytes_received } = flow;
        let packets = if *bytes_sent > 0 { format!(" ({} packets)", bytes_sent / size.max(1)) } else { String::new() };
        format!(
            "thread {thread}: clients {connections}, new {opened}, closed {closed}, TX {bytes_sent}{packets}, RX {bytes_received}\n"
        )
    };
    second.flows.iter().enumerate().map(line).collect()
}

fn total(report: &Report) -> String {
    let flow = report.flow.clone().unwrap_or_default();
    let all = bytes((report.bytes_sent + report.bytes_received) as f64);
    let cost = flow.generator_s_per_gib.map_or_else(String::new, |cost| format!(", CPU {} s/GiB", number(cost)));
    let faults = failures(report).map_or_else(String::new, |faults| format!("; failed: {faults}"));
    format!("total: {all} in {} s, {} Gb/s{cost}{faults}\n", number(report.seconds), number(flow.gigabits_per_second))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> impl Iterator<Item = &str> {
        text.split_whitespace()
    }

    #[test]
    fn arguments_are_the_programs() {
        let plan = Clt::try_parse_from(words("4 500 10 16384 10.0.0.7 1667")).unwrap().plan().unwrap();
        assert_eq!((plan.lanes, plan.connections, plan.size, plan.mode), (4, 2_000, 16_384, Mode::Sink));
        assert_eq!((plan.opening_rate, plan.extent), (Some(400.0), Extent::For(HOUR)));
        assert_eq!(plan.target, "10.0.0.7:1667".parse::<corelane::Address>().unwrap());
        let plan = UdpClt::try_parse_from(words("2 256 64 510 ::1 1667 --duration 3s")).unwrap().plan().unwrap();
        assert_eq!((plan.lanes, plan.connections, plan.depth, plan.size), (2, 2, 256, 510));
        assert_eq!(
            (plan.mode, plan.extent, plan.particulars.get::<Burst>().0),
            (Mode::Flood, Extent::For(Duration::from_secs(3)), 64)
        );
        let unchecked = Clt::try_parse_from(words("1 1 1 1 ::1 9 --unchecked")).unwrap().plan().unwrap();
        assert_eq!((plan.particulars.get::<sink::Sample>().0, unchecked.particulars.get::<sink::Sample>().0), (16, 0));
    }

    #[test]
    fn what_cannot_be_is_refused() {
        for text in ["0 1 1 1 ::1 9", "1 0 1 1 ::1 9", "1 1 0 1 ::1 9", "1 1 1 0 ::1 9", "1 1 1 1 ::1 0", "1 1 1 1 ::1"] {
            assert!(Clt::try_parse_from(words(text)).is_err(), "{text}");
        }
        let error = |text| Clt::try_parse_from(words(text)).unwrap().plan().unwrap_err().to_string();
        assert!(error("1000 4294968 1 1 ::1 9").contains("too many"));
        assert!(error("2 4000000 1 1 ::1 9").contains("connections"));
        assert!(UdpClt::try_parse_from(words("1 1 129 1 ::1 9")).is_err());
        assert!(UdpClt::try_parse_from(words("1 1 1 65508 ::1 9")).unwrap().plan().is_err());
    }

    #[test]
    fn each_second_is_told_once_with_a_line_for_each_thread() {
        let flow = LaneFlow { connections: 3, opened: 1, closed: 2, bytes_sent: 0, bytes_received: 700 };
        let sent = LaneFlow { bytes_sent: 1_020, bytes_received: 0, ..LaneFlow::default() };
        let second = Second { flows: vec![flow, sent], ..Second::default() };
        let (mut told, mut progress) = (Printed::default(), Progress { connections: (256, 1_000), ..Progress::default() });
        progress.phase = "connecting".to_owned();
        assert_eq!([told.next(&progress, 510), told.next(&progress, 510)], ["opening: 256 of 1000 clients\n", ""]);
        (progress.phase, progress.series) = ("measuring".to_owned(), vec![second]);
        let expected = "thread 0: clients 3, new 1, closed 2, TX 0, RX 700\n\
                        thread 1: clients 0, new 0, closed 0, TX 1020 (2 packets), RX 0\n";
        assert_eq!([told.next(&progress, 510), told.next(&progress, 510)], [expected, ""]);
    }
}
