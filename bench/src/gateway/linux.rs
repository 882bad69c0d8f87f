//! The kernel as the gateway of the houses: forwarding, and nftables that count what the post counts, one rule after the other or by maps.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use super::houses::{self, CAMPUS};
use crate::packet::wire::{End, Wire};

/// Has the kernel at the far end forward between the houses. All users are known to it, so that nobody is asked for.
pub fn forward(wire: &Wire) -> Result<()> {
    let far = End::Far.interface();
    let users_mac = wire.mac(End::Near)?.map(|byte| format!("{byte:02x}")).join(":");
    let addresses = houses::all().map(|house| format!("addr add {}/24 dev {far}", houses::router(house)));
    let users = houses::all().flat_map(houses::users);
    let neighbours = users.map(|user| format!("neigh replace {user} lladdr {users_mac} dev {far} nud permanent"));
    wire.ip(End::Far, &addresses.chain(neighbours).collect::<Vec<_>>())?;
    wire.inside(End::Far, || {
        let knobs = [
            // Packets that leave by where they came are no reason to tell their senders of a better way.
            ("conf/all/send_redirects", "0"),
            (&format!("conf/{far}/send_redirects"), "0"),
            // As is advised to routers (ip-sysctl): no packet is for a socket here.
            ("ip_early_demux", "0"),
            ("ip_forward", "1"),
        ];
        knobs.into_iter().try_for_each(|(knob, value)| {
            let file = format!("/proc/sys/net/ipv4/{knob}");
            fs::write(&file, value).with_context(|| file.clone())
        })
    })
}

/// Gives nftables at the far end these rules.
pub fn rules(wire: &Wire, text: &str) -> Result<()> {
    wire.inside(End::Far, || {
        let mut nft = Command::new("nft").args(["-f", "-"]).stdin(Stdio::piped()).spawn().context("nft (package nftables)")?;
        // reason: it was asked for.
        nft.stdin.take().expect("a pipe").write_all(text.as_bytes())?;
        let status = nft.wait()?;
        ensure!(status.success(), "nft: {status}, for the rules\n{text}");
        Ok(())
    })
}

const CHAIN: &str = "chain counted {\n type filter hook forward priority 0; policy accept;\n";

/// Four rules for each house, one after the other.
pub fn flat() -> String {
    let mut text = format!("table ip gateway {{\n{CHAIN}");
    for house in houses::all() {
        let own = houses::network(house);
        for (from, to) in [("ip saddr", "ip daddr"), ("ip daddr", "ip saddr")] {
            // Writing to a string does not fail.
            let _ = writeln!(text, " {from} {own} {to} {CAMPUS} counter\n {from} {own} {to} != {CAMPUS} counter");
        }
    }
    text + "}\n}\n"
}

/// The same four of each house, found by its network in a verdict map: by hash, since all networks are as large.
pub fn by_map() -> String {
    let mut chains = String::new();
    let mut maps = String::new();
    for (name, own, other) in [("from", "saddr", "daddr"), ("to", "daddr", "saddr")] {
        let jumps = houses::all().map(|house| format!("10.0.{house}.0 : jump {name}{house}")).collect::<Vec<_>>().join(", ");
        for house in houses::all() {
            let _ = writeln!(chains, "chain {name}{house} {{\n ip {other} {CAMPUS} counter return\n counter\n}}");
        }
        let _ = writeln!(maps, " ip {own} & 255.255.255.0 vmap {{ {jumps} }}");
    }
    format!("table ip gateway {{\n{chains}{CHAIN}{maps}}}\n}}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_house_is_counted_by_four_rules_either_way() {
        for text in [flat(), by_map()] {
            assert_eq!(text.matches(" counter").count(), 160, "{text}");
            assert_eq!(text.matches('{').count(), text.matches('}').count(), "{text}");
        }
        assert_eq!(by_map().matches(" : jump ").count(), 80);
    }
}
