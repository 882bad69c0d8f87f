//! The post's rules as scripts.

use std::fmt::Write;

/// VLANs of the gateway.
pub const VLANS: u16 = 40;

/// What is counted of a VLAN: both directions, with the other houses and with elsewhere.
fn counted(vlan: u16) -> [String; 4] {
    [
        format!("count ip from any to $campus in via vlan{vlan}"),
        format!("count ip from any to not $campus in via vlan{vlan}"),
        format!("count ip from $campus to any out via vlan{vlan}"),
        format!("count ip from not $campus to any out via vlan{vlan}"),
    ]
}

const HEAD: &str = "#!/bin/sh\nfwcmd=\"/sbin/ipfw -q\"\ncampus=10.0.0.0/8\n$fwcmd -f flush\n";

/// One rule after the other.
pub fn written() -> String {
    let mut script = HEAD.to_owned();
    for rule in (1..=VLANS).flat_map(counted) {
        writeln!(script, "$fwcmd add {rule}").unwrap();
    }
    script
}

/// A jump for each VLAN to the rules of that VLAN.
pub fn jumping() -> String {
    let mut script = HEAD.to_owned();
    for vlan in 1..=VLANS {
        writeln!(script, "$fwcmd add {vlan} skipto {} ip from any to any via vlan{vlan}", 1_000 + 10 * vlan).unwrap();
    }
    for vlan in 1..=VLANS {
        let number = 1_000 + 10 * vlan;
        for rule in counted(vlan) {
            writeln!(script, "$fwcmd add {number} {rule}").unwrap();
        }
        writeln!(script, "$fwcmd add {number} skipto 60000 ip from any to any").unwrap();
    }
    script
}
