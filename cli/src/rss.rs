//! `corelane rss`: where flows go, and why.

mod check;
mod hash;
mod plan;
mod show;
mod table;

pub use table::page;

use crate::exit::Exit;
use anyhow::{Context, Result, anyhow};
use corelane::admin::rss::{Buckets, Key, Table};
use std::net::IpAddr;

/// Which lane each flow goes to: computes it, finds flows for given buckets, shows and changes the table of a running process, checks that flows
/// obey it, and shows what network cards have
#[derive(clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    Check(check::Arguments),
    Hash(hash::Arguments),
    Plan(plan::Arguments),
    Show(show::Arguments),
    Table(table::Arguments),
}

/// Does what was asked.
pub fn run(arguments: &Arguments) -> Result<Exit> {
    match &arguments.command {
        Command::Check(arguments) => return check::run(arguments),
        Command::Hash(arguments) => hash::run(arguments),
        Command::Plan(arguments) => plan::run(arguments),
        Command::Show(arguments) => show::run(arguments),
        Command::Table(arguments) => table::run(arguments),
    }?;
    Ok(Exit::Done)
}

/// What decides about a flow where no process is asked.
#[derive(clap::Args)]
struct Placing {
    /// The key of the hash: default (Microsoft's), or 40 or 52 bytes as 6d:5a:...
    #[arg(long, value_name = "KEY", default_value = "default")]
    key: String,
    /// Lanes that share the buckets evenly; by default as many as `serve` starts here
    #[arg(long, value_name = "N")]
    lanes: Option<usize>,
}

impl Placing {
    fn key(&self) -> Result<Key> {
        match self.key.as_str() {
            "default" => Ok(Key::default()),
            text => text.parse().context("--key"),
        }
    }

    /// The even table of so many buckets.
    fn table(&self, buckets: usize, option: &'static str) -> Result<Table> {
        let buckets = Buckets::new(buckets).context(option)?;
        let lanes = match self.lanes {
            Some(lanes) => lanes,
            // Who only wants buckets need not know how many CPUs there are.
            None => corelane::lanes::lanes_for_this_machine()?.min(buckets.count()),
        };
        Table::even(buckets, lanes).context("--lanes")
    }
}

/// One end of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct End {
    address: IpAddr,
    port: Option<u16>,
}

/// Reads ADDRESS or ADDRESS:PORT; an IPv6 address with a port stands in brackets.
fn end(text: &str) -> Result<End> {
    let bare = || text.strip_prefix('[')?.strip_suffix(']')?.parse().ok().map(IpAddr::V6);
    let with_port =
        || text.parse().ok().map(|socket: std::net::SocketAddr| End { address: socket.ip(), port: Some(socket.port()) });
    let address: Option<IpAddr> = text.parse().ok().or_else(bare);
    let end = address.map(|address| End { address, port: None }).or_else(with_port);
    end.ok_or_else(|| anyhow!("{text:?} is not an address: write 10.0.0.1, 10.0.0.1:80, 2001:db8::1 or [2001:db8::1]:80"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_read_with_and_without_ports() {
        let read = |text| end(text).map(|end| (end.address.to_string(), end.port)).ok();
        assert_eq!(read("10.0.0.1"), Some(("10.0.0.1".into(), None)));
        assert_eq!(read("10.0.0.1:0"), Some(("10.0.0.1".into(), Some(0))));
        assert_eq!(read("2001:db8::1"), Some(("2001:db8::1".into(), None)));
        assert_eq!(read("[2001:db8::1]"), Some(("2001:db8::1".into(), None)));
        assert_eq!(read("[2001:db8::1]:65535"), Some(("2001:db8::1".into(), Some(65535))));
        for bad in ["", "10.0.0", "10.0.0.1:", "10.0.0.1:65536", "10.0.0.1:-1", "[10.0.0.1]", "[::1", "host:80", "::1:80:90000"] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }
}
