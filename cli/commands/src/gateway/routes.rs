//! Routes of a gateway.

use super::asked::Asked;
use super::rules::read;
use anyhow::{Context, Result};
use corelane::admin::gateway::{self, RouteRow, RoutesChanged, Way};
use std::net::IpAddr;
use std::path::PathBuf;

#[derive(clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Show all routes, or those to networks within one; networks of the gateway's own are not among them
    Show {
        /// A network such as 10.0.0.0/8
        prefix: Option<String>,
    },
    /// Show how packets get to an address, and what is known of the neighbour
    Get {
        /// The address
        address: IpAddr,
    },
    /// Add a route: PREFIX via ROUTER [interface NAME]; up to 16 of one network share its flows
    Add {
        /// The network, via and the router: 10.9.0.0/16 via 10.0.10.2. `default` stands for all
        #[arg(required = true, num_args = 1..)]
        words: Vec<String>,
    },
    /// Delete a network's routes, or that by one router: PREFIX [via ROUTER]
    Delete {
        /// The network, or also via and the router
        #[arg(required = true, num_args = 1..)]
        words: Vec<String>,
    },
    /// Add the routes of a file, all of them or none: a line PREFIX via ROUTER [interface NAME] each
    ///
    /// A line that begins with delete takes away a network's routes, or with via and a router one of them. # begins a comment.
    Import {
        /// The file
        file: PathBuf,
    },
}

/// Does what was asked.
pub fn run(asked: &Asked, arguments: &Arguments) -> Result<()> {
    match &arguments.command {
        Command::Show { prefix } => {
            let rows = asked.rows(gateway::routes(&asked.page, prefix.as_deref()))?;
            asked.print(&rows, || rows.iter().map(line).collect::<Vec<_>>().join("\n"))
        }
        Command::Get { address } => {
            let way = asked.said(gateway::way(&asked.page, *address))?;
            asked.print(&way, || words(*address, &way))
        }
        Command::Add { words } => change(asked, vec![(0, format!("add {}", words.join(" ")))]),
        Command::Delete { words } => change(asked, vec![(0, format!("delete {}", words.join(" ")))]),
        Command::Import { file } => change(asked, added(&read(file)?)).with_context(|| file.display().to_string()),
    }
}

/// The routes of a file as changes, each with its line.
fn added(text: &str) -> Vec<(usize, String)> {
    let route = |line: &str| {
        let route = line.split('#').next().map(str::trim).filter(|route| !route.is_empty())?;
        Some(if route.starts_with("delete ") { route.to_owned() } else { format!("add {route}") })
    };
    text.lines().enumerate().filter_map(|(at, line)| Some((at + 1, route(line)?))).collect()
}

fn change(asked: &Asked, changes: Vec<(usize, String)>) -> Result<()> {
    let changed = asked.said(gateway::change_routes(&asked.page, changes))?;
    asked.note_late(changed.is_in_force);
    asked.print(&changed, || {
        let RoutesChanged { added, known, deleted, routes, .. } = changed;
        let parts = [(added, "added"), (known, "there already"), (deleted, "deleted")];
        let parts = parts.iter().filter(|(count, _)| *count > 0).map(|(count, word)| format!("{count} {word}, "));
        format!("{}{routes} routes in all", parts.collect::<String>())
    })
}

fn line(row: &RouteRow) -> String {
    let interface = row.interface.as_ref().map_or(String::new(), |name| format!(" interface {name}"));
    let followed = if row.is_followed { " followed" } else { "" };
    format!("{} via {}{interface}{followed}", row.prefix, row.router)
}

/// The way to an address, in words.
fn words(address: IpAddr, way: &Way) -> String {
    if way.is_own {
        return format!("{address} is the gateway's own");
    }
    let Some(interface) = &way.interface else { return format!("{address}: no way leads there") };
    let via = way.router.map_or(String::new(), |router| format!(" via {router}"));
    let link = way.link_address.as_ref().map_or(String::new(), |link| format!(" at {link}"));
    let neighbour = way.neighbour.as_ref().map_or("not asked for yet", String::as_str);
    format!("{address}{via} interface {interface}, neighbour {neighbour}{link}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn routes_of_a_file_have_their_lines() {
        let text = "# all of them\n\n10.0.0.0/8 via 10.0.0.2 # the first\n   default via 10.0.0.3\r\ndelete 10.1.0.0/16\n";
        let expected = [(3, "add 10.0.0.0/8 via 10.0.0.2"), (4, "add default via 10.0.0.3"), (5, "delete 10.1.0.0/16")];
        assert_eq!(added(text), expected.map(|(line, text)| (line, text.to_owned())));
    }

    #[test]
    fn ways_are_told_in_words() {
        let far = "192.0.2.1".parse().unwrap();
        let told = |way| words(far, &serde_json::from_value(way).unwrap());
        let way = json!({
            "interface": "vlan10", "router": "10.0.0.2", "is_own": false, "neighbour": "reachable", "link_address": "02:00:00:00:00:01"
        });
        assert_eq!(told(way), "192.0.2.1 via 10.0.0.2 interface vlan10, neighbour reachable at 02:00:00:00:00:01");
        let near = json!({ "interface": "vlan10", "router": null, "is_own": false, "neighbour": null, "link_address": null });
        assert_eq!(told(near), "192.0.2.1 interface vlan10, neighbour not asked for yet");
        let none = json!({ "interface": null, "router": null, "is_own": false, "neighbour": null, "link_address": null });
        assert_eq!(told(none), "192.0.2.1: no way leads there");
        let own = json!({ "interface": "vlan10", "router": null, "is_own": true, "neighbour": null, "link_address": null });
        assert_eq!(told(own), "192.0.2.1 is the gateway's own");
    }
}
