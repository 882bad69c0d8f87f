//! Lanes as the gateway of the houses: what their file and their rules say.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result};

use super::contenders::{Asked, Rules};
use super::houses::{self, CAMPUS};
use crate::cpus::SERVER_CPU;
use crate::packet::wire::{End, Wire};
use crate::server::Server;

/// A folder with a gateway's file and its rules, as long as this is there.
pub struct Folder(PathBuf);

impl Folder {
    /// With what such a gateway is to be.
    pub fn new(asked: Asked) -> Result<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = format!("corelane-gateway-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let folder = Self(std::env::temp_dir().join(name));
        fs::create_dir_all(&folder.0).with_context(|| folder.0.display().to_string())?;
        folder.write("gateway.toml", &file(asked))?;
        folder.write("rules.sh", &script(asked.gateway.rules(), asked.is_tagged))?;
        Ok(folder)
    }

    /// The argument by which a server is told of it.
    fn place(&self) -> String {
        format!("gateway={}", self.0.join("gateway.toml").display())
    }

    /// Writes a file there.
    pub fn write(&self, name: &str, text: &str) -> Result<PathBuf> {
        let path = self.0.join(name);
        fs::write(&path, text).with_context(|| path.display().to_string())?;
        Ok(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Nothing better can be done.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Why this corelane cannot be such a gateway; none if it can.
pub fn lacking(asked: Asked, corelane: &Path) -> Result<Option<String>> {
    let folder = Folder::new(asked)?;
    let output = Command::new(corelane).args(["serve", "--check"]).arg(folder.place()).output().context("corelane serve")?;
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    // What names the file is the file's; whether there is such an interface shows within the namespace.
    let is_refused = !output.status.success() && words.contains("gateway.toml:");
    Ok(is_refused.then(|| format!("{}: {}", asked.gateway, words.trim())))
}

/// Starts it at the far end of the wire, from its folder, on these CPUs; its lane is on the server's.
pub fn start(folder: &Folder, cpus: &[usize], corelane: &Path, wire: &Wire) -> Result<Server> {
    let mut command = wire.command_on(cpus, End::Far, corelane)?;
    command.args(["serve", "--lanes", "1", "--cpus", &SERVER_CPU.to_string()]);
    command.arg(folder.place());
    Server::start(command)
}

/// The gateway's file.
fn file(Asked { gateway, is_tagged, beside }: Asked) -> String {
    let mut text = format!("[[port]]\ninterface = \"{}\"\npoll = {}\n", End::Far.interface(), gateway.polls());
    let address = |house| format!("\"{}/24\"", houses::router(house));
    if is_tagged {
        for house in houses::all() {
            // Writing to a string does not fail.
            let _ = writeln!(text, "[[port.network]]\nvlan = {house}\nname = \"vlan{house}\"\naddresses = [{}]", address(house));
        }
    } else {
        let addresses = houses::all().map(address).collect::<Vec<_>>().join(", ");
        let _ = writeln!(text, "[[port.network]]\naddresses = [{addresses}]");
    }
    if let Some(share) = beside.filter(|_| gateway.polls()) {
        let _ = writeln!(text, "[polling]\nuser_frac = {share}\nother_programs = 1");
    }
    let rules = gateway.rules();
    let (execution, offloads) = (rules.execution(), rules == Rules::Xdp);
    text + &format!("[rules]\nfile = \"rules.sh\"\nexecution = \"{execution}\"\noffload = {offloads}\n")
}

/// The rules as the post's script has them: a house is its VLAN, or its network where there are no VLANs.
fn script(rules: Rules, is_tagged: bool) -> String {
    let mut script = "#!/bin/sh\nfwcmd=\"/sbin/ipfw -q\"\n".to_owned();
    let jumps = |house: u8| 1_000 + 10 * u16::from(house);
    if rules == Rules::Skipto {
        for house in houses::all() {
            for one in jumping(house, is_tagged) {
                let _ = writeln!(script, "$fwcmd add {house} skipto {} ip {one}", jumps(house));
            }
        }
    }
    let counts = houses::all().filter(|_| rules != Rules::No);
    for house in counts {
        let number = if rules == Rules::Skipto { format!("{} ", jumps(house)) } else { String::new() };
        for one in counted(house, is_tagged) {
            let _ = writeln!(script, "$fwcmd add {number}count ip {one}");
        }
        if rules == Rules::Skipto {
            let _ = writeln!(script, "$fwcmd add {number}skipto 60000 ip from any to any");
        }
    }
    script
}

/// The counts of a house: both directions, with the other houses and with elsewhere.
fn counted(house: u8, is_tagged: bool) -> [String; 4] {
    let (own, via) = (houses::network(house), format!("vlan{house}"));
    if is_tagged {
        [
            format!("from any to {CAMPUS} in via {via}"),
            format!("from any to not {CAMPUS} in via {via}"),
            format!("from {CAMPUS} to any out via {via}"),
            format!("from not {CAMPUS} to any out via {via}"),
        ]
    } else {
        [
            format!("from {own} to {CAMPUS} in"),
            format!("from {own} to not {CAMPUS} in"),
            format!("from {CAMPUS} to {own} out"),
            format!("from not {CAMPUS} to {own} out"),
        ]
    }
}

/// Which packets go on at the rules of a house.
fn jumping(house: u8, is_tagged: bool) -> Vec<String> {
    let own = houses::network(house);
    if is_tagged {
        vec![format!("from any to any via vlan{house}")]
    } else {
        vec![format!("from {own} to any in"), format!("from any to {own} out")]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gateway::contenders::Gateway;

    #[test]
    fn a_file_names_each_house_and_its_rules_count_it_four_times() {
        for is_tagged in [false, true] {
            let text = file(Asked { gateway: Gateway::Polling(Rules::Tree), is_tagged, beside: Some(30) });
            let table: toml::Table = text.parse().expect("TOML");
            let networks = table["port"][0]["network"].as_array().expect("networks");
            let addresses = networks.iter().map(|one| one["addresses"].as_array().map_or(0, Vec::len));
            assert_eq!((addresses.sum::<usize>(), networks.len()), (40, if is_tagged { 40 } else { 1 }), "{text}");
            assert_eq!(table["polling"]["user_frac"].as_integer(), Some(30));
            assert_eq!(table["rules"]["offload"].as_bool(), Some(false), "a lane alone is measured");
            for rules in [Rules::Flat, Rules::Skipto, Rules::Tree, Rules::Xdp] {
                assert_eq!(script(rules, is_tagged).matches(" count ").count(), 160, "{rules:?}");
            }
        }
        assert_eq!(script(Rules::No, true).lines().count(), 2);
        assert_eq!(script(Rules::Skipto, true).matches(" skipto ").count(), 80);
    }
}
