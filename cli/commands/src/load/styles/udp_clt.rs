//! `udp-clt`: a flood of equal datagrams, and what came of it.

use super::measure::{checked, failures, measure};
use super::style::{Style, options};
use crate::exit::Exit;
use crate::load::watch::Watcher;
use crate::print::print;
use anyhow::{Result, bail};
use clap::Parser;
use corelane_load::plan::{Extent, Mode, Plan};
use corelane_load::report::Report;
use corelane_load::text::figures::{bytes, count, percent, rate, time};
use corelane_load::workloads::flood::ENTRY;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

pub const STYLE: Style = Style { name: "udp-clt", about: "equal datagrams, as fast as the system takes them", run };

/// After this time the last answers are no longer waited for.
const PATIENCE: Duration = Duration::from_millis(200);

const HOUR: Duration = Duration::from_secs(3600);

/// Sends equal datagrams as fast as the system takes them, whether they are answered or not, and counts what comes back
///
/// Understands the options of the udp-clt program. One lane with one socket sends bursts of up to 128, each datagram by itself; byte i of each datagram is i
/// modulo 256. It says what it was told, and in the end what was sent, refused by the system, and received back.
/// SIGINT ends it early. It ends with 0 when it has run, with 1 if nobody listens there.
#[derive(Parser, Debug)]
#[command(name = "corelane load --style udp-clt", no_binary_name = true, max_term_width = 100)]
struct Options {
    /// Address of this machine to send from, IPv4 or IPv6
    #[arg(short = 'l', value_name = "ADDRESS")]
    local: IpAddr,
    /// Address to send to
    #[arg(short = 'r', value_name = "ADDRESS")]
    remote: IpAddr,
    /// Port to send to
    #[arg(short = 'p', value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    port: u16,
    /// Datagrams to send; 0 goes on until SIGINT, or the end of --duration
    #[arg(short = 'n', value_name = "COUNT")]
    count: u64,
    /// Payload bytes of each
    #[arg(short = 's', value_name = "BYTES")]
    size: usize,
    /// With -n 0: how long to go on at the most, up to 24h [default: 1h]
    #[arg(long, value_name = "TIME", value_parser = corelane_load::amounts::time)]
    duration: Option<Duration>,
}

fn run(words: &[String]) -> Result<Exit> {
    let options: Options = options(words);
    let plan = options.plan()?;
    let watcher = Watcher::open(true)?;
    print(options.settings())?;
    let report = measure(&ENTRY, plan, &watcher)?;
    print(statistics(&report))?;
    Ok(Exit::Done)
}

impl Options {
    fn plan(&self) -> Result<Plan> {
        let target = SocketAddr::new(self.remote, self.port);
        if self.local.is_ipv4() != self.remote.is_ipv4() {
            bail!("-l {} and -r {}: both must be of the same IP version", self.local, self.remote);
        }
        if self.count > 0 && self.duration.is_some() {
            bail!("--duration is for -n 0: {} datagrams end by themselves", self.count);
        }
        let extent = match self.count {
            0 => Extent::For(self.duration.unwrap_or(HOUR)),
            count => Extent::Requests(count),
        };
        let plan = Plan::new(ENTRY.name, &format!("udp://{target}"), target);
        let sources = vec![self.local];
        // Each by itself, as the program sends them: whoever receives them is to have the work of each.
        let plan = Plan { mode: Mode::Flood, size: self.size, extent, sources, timeout: PATIENCE, trains: false, ..plan };
        checked(&ENTRY, plan)
    }

    fn settings(&self) -> String {
        let much = match self.count {
            0 => format!("for {}", humantime::format_duration(self.duration.unwrap_or(HOUR))),
            count => format!("{count} times"),
        };
        let Self { local, remote, port, size, .. } = self;
        format!("local         {local}\nremote        {remote}\nport          {port}\ndatagrams     {size} bytes, {much}\n")
    }
}

/// What came of it. Rates are over the time from the first datagram to the last one, in either direction.
fn statistics(report: &Report) -> String {
    let refused = report.generator.datagrams_refused.min(report.sent);
    let (sent, back) = (report.sent - refused, report.requests);
    let changed = report.errors.get("mismatch").copied().unwrap_or(0);
    let size = report.settings.size as f64;
    let per_second = |datagrams: u64| if report.seconds > 0.0 { datagrams as f64 / report.seconds } else { 0.0 };
    let flow = |datagrams: u64| format!("{}, {}/s", rate(per_second(datagrams)), bytes(per_second(datagrams) * size));
    let share = if sent > 0 { back as f64 / sent as f64 } else { 0.0 };
    let mut text = format!("sent          {} in {}: {}\n", count(sent), time(report.seconds * 1e6), flow(sent));
    text += &format!("refused       {} by the system\n", count(refused));
    text += &format!("received back {}, {}: {}\n", count(back), percent(share), flow(back));
    if changed > 0 {
        text += &format!("changed       {} came back with other bytes\n", count(changed));
    }
    if let Some(faults) = failures(report).filter(|_| report.errors.iter().any(|(kind, &count)| count > 0 && kind != "mismatch"))
    {
        text += &format!("told          {faults}\n");
    }
    text + &format!("CPU           {} per datagram\n", time(report.generator.us_per_request))
}

#[cfg(test)]
mod tests {
    use super::*;
    use corelane_load::report::{Generator, Settings};

    fn parsed(words: &str) -> Result<Options, clap::Error> {
        Options::try_parse_from(words.split_whitespace())
    }

    #[test]
    fn a_count_has_64_bits_and_zero_has_a_bound() {
        let options = parsed("-l 127.0.0.1 -r 127.0.0.1 -p 60007 -n 10000000000 -s 510").unwrap();
        let plan = options.plan().unwrap();
        assert_eq!((plan.extent, plan.size, plan.lanes), (Extent::Requests(10_000_000_000), 510, 1));
        assert_eq!(plan.sources, ["127.0.0.1".parse::<IpAddr>().unwrap()]);
        assert!(options.settings().contains("510 bytes, 10000000000 times"));
        let endless = parsed("-l ::1 -r ::1 -p 9 -n 0 -s 1").unwrap();
        assert_eq!(endless.plan().unwrap().extent, Extent::For(HOUR));
        assert!(endless.settings().contains("for 1h"));
        let bounded = parsed("-l ::1 -r ::1 -p 9 -n 0 -s 1 --duration 90s").unwrap();
        assert_eq!(bounded.plan().unwrap().extent, Extent::For(Duration::from_secs(90)));
    }

    #[test]
    fn every_option_is_mandatory() {
        let all = ["-l ::1", "-r ::1", "-p 9", "-n 1", "-s 1"];
        for left_out in 0..all.len() {
            let words: Vec<&str> = all.iter().enumerate().filter(|&(at, _)| at != left_out).map(|(_, word)| *word).collect();
            let error = parsed(&words.join(" ")).unwrap_err().to_string();
            assert!(error.contains(&all[left_out][..2]), "{error}");
        }
        assert!(parsed(&all.join(" ")).is_ok());
    }

    #[test]
    fn what_does_not_go_together_is_refused() {
        let other = parsed("-l 127.0.0.1 -r ::1 -p 9 -n 1 -s 1").unwrap().plan().unwrap_err().to_string();
        assert!(other.contains("same IP version"), "{other}");
        let twice = parsed("-l ::1 -r ::1 -p 9 -n 5 -s 1 --duration 1s").unwrap().plan().unwrap_err().to_string();
        assert!(twice.contains("-n 0"), "{twice}");
        for size in ["0", "65508"] {
            let options = parsed(&format!("-l ::1 -r ::1 -p 9 -n 5 -s {size}")).unwrap();
            let error = options.plan().unwrap_err().to_string();
            assert!(error.contains("from 1 to 65507"), "{error}");
        }
        assert!(parsed("-l ::1 -r ::1 -p 0 -n 5 -s 1").is_err());
        assert!(parsed("-l ::1 -r ::1 -p 9 -n -5 -s 1").is_err());
    }

    #[test]
    fn the_figures_are_those_of_the_report() {
        let mut report = Report {
            sent: 1_000_100,
            requests: 900_000,
            seconds: 2.0,
            settings: Settings { size: 512, ..Settings::default() },
            generator: Generator { datagrams_refused: 100, us_per_request: 0.75, ..Generator::default() },
            ..Report::default()
        };
        let expected = "sent          1,000,000 in 2.00 s: 500,000/s, 244 MiB/s\n\
                        refused       100 by the system\n\
                        received back 900,000, 90.0 %: 450,000/s, 220 MiB/s\n\
                        CPU           750 ns per datagram\n";
        assert_eq!(statistics(&report), expected);
        report.errors = [("mismatch".to_owned(), 3), ("refused".to_owned(), 2)].into();
        let text = statistics(&report);
        assert!(text.contains("\nchanged       3 came") && text.contains("\ntold          refused 2, mismatch 3\n"), "{text}");
        assert!(!statistics(&Report::default()).contains("NaN"));
    }
}
