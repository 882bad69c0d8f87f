//! `corelane dispatch`: shows and changes when packets are handled on the packet lanes of a running process.

use crate::exit::Late;
use crate::print::print;
use crate::rss::page;
use crate::stat;
use anyhow::{Result, anyhow};
use corelane::admin::control::ControlError;
use corelane::admin::dispatch::{Change, change};
use corelane::admin::watch::Reader;

/// Shows when packets are handled on the lanes of a running process (`serve --packet`), or changes it on all of them
///
/// Prints what `stat -Q` does, as it is then. A change is in force when it is printed, and no flow is reordered by it. It lasts as long as
/// the process. Protocols are ip, arp, ether, ip6, ip_direct and ip6_direct, the last two for what was put together from fragments or taken
/// out of tunnels. FreeBSD has the same as sysctl net.isr.dispatch, net.inet.ip.intr_queue_maxlen and net.inet.ip.intr_queue_drops.
#[derive(clap::Args)]
pub struct Arguments {
    /// The process; need not be named where only one serves
    #[arg(long, value_parser = crate::stat::process_number)]
    pid: Option<u32>,
    /// When packets are handled: direct, hybrid or deferred; for one protocol as ip=deferred. May be repeated
    ///
    /// direct is at once, on the lane they came to; hybrid at once if that is their flow's lane and nothing waits; deferred later, on their flow's lane. A
    /// policy alone holds for all protocols without one of their own; ip=default takes a protocol's own away.
    #[arg(long = "set", value_name = "[PROTOCOL=]POLICY")]
    policies: Vec<String>,
    /// Packets that each queue of a protocol holds, 10240 at most: ip=512. May be repeated
    #[arg(long = "limit", value_name = "PROTOCOL=PACKETS")]
    limits: Vec<String>,
    /// Count a protocol's drops from 0 again. May be repeated
    #[arg(long = "clear-drops", value_name = "PROTOCOL")]
    cleared: Vec<String>,
    /// As JSON
    #[arg(long)]
    json: bool,
}

impl Arguments {
    /// What is to be changed, in this order; nothing is if one of it cannot be read.
    fn changes(&self) -> Result<Vec<Change>> {
        let of_policy = |text: &String| read("--set", format!("packets dispatch {}", text.replacen('=', " ", 1)));
        let of_limit = |text: &String| match text.split_once('=') {
            Some((protocol, packets)) => read("--limit", format!("packets limit {protocol} {packets}")),
            None => Err(anyhow!("--limit: {text:?}: write a protocol and its packets, as in ip=512")),
        };
        let of_cleared = |text: &String| read("--clear-drops", format!("packets clear {text}"));
        let policies = self.policies.iter().map(of_policy);
        policies.chain(self.limits.iter().map(of_limit)).chain(self.cleared.iter().map(of_cleared)).collect()
    }
}

fn read(option: &str, request: String) -> Result<Change> {
    request.parse().map_err(|why| anyhow!("{option}: {why}"))
}

/// Has the process carry it out, and prints its queues and dispatch.
pub fn run(arguments: &Arguments) -> Result<()> {
    let changes = arguments.changes()?;
    let page = page(arguments.pid)?;
    for wanted in changes {
        change(&page.path, wanted).map_err(|error| match error {
            ControlError::Refused { .. } | ControlError::Request { .. } => anyhow!(error),
            error => Late::of("asking process", format!("{}: {error}", page.process.pid)).into(),
        })?;
    }
    let snapshot = Reader::open(&page.path)?.snapshot(corelane::now().nanoseconds());
    print(stat::workstreams(&snapshot, arguments.json).trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        arguments: Arguments,
    }

    fn changes(line: &[&str]) -> Result<Vec<String>> {
        let line = Line::try_parse_from([&["dispatch"], line].concat()).unwrap();
        Ok(line.arguments.changes()?.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn options_become_changes_in_their_order() {
        let line = ["--clear-drops", "ip", "--limit", "ip6=9", "--set", "hybrid", "--set", "ip=direct", "--set", "ip6=default"];
        let wanted = [
            "packets dispatch hybrid",
            "packets dispatch ip direct",
            "packets dispatch ip6 default",
            "packets limit ip6 9",
            "packets clear ip",
        ];
        assert_eq!(changes(&line).unwrap(), wanted);
        assert!(changes(&[]).unwrap().is_empty());
    }

    #[test]
    fn what_is_wrong_is_named_with_its_option() {
        for (line, words) in [
            (["--set", "default"], "--set: default is a protocol's"),
            (["--set", "ip="], "--set: \"\": a policy of dispatch is direct, hybrid or deferred, or default"),
            (["--set", "ip=direct now"], "--set: there is no such command"),
            (["--limit", "ip"], "--limit: \"ip\": write a protocol and its packets, as in ip=512"),
            (["--limit", "ip=10241"], "--limit: a queue holds 10240 packets at most"),
            (["--clear-drops", "tcp"], "--clear-drops: there is no protocol \"tcp\": name one of ip, arp"),
        ] {
            let why = changes(&line).unwrap_err().to_string();
            assert!(why.contains(words), "{line:?}: {why}");
        }
    }
}
