//! `corelane stat -R`: every connection with its flow id, as `netstat -R` of FreeBSD prints it, and whether it is on the lane that its bucket names.
//!
//! The kernel tells the connections, the descriptor tables whose they are, and the page key and table: so nothing is asked of a process that may be
//! stopped, and a connection costs its lane nothing.

use crate::Late;
use crate::exit::Exit;
use crate::print::print_some;
use crate::stat::figures::{fit, time};
use crate::stat::text::plural;
use anyhow::Result;
use corelane::admin::control::hasher_of;
use corelane::admin::machine::{Connection, connections, shares_network};
use corelane::admin::rss::{FlowHasher, Hashed, Protocol, Tuple};
use corelane::admin::watch::{Liveness, Reader, SteeringSnapshot};
use serde_json::{Value, json};

/// Lines that are printed at once, so that a long list is never held whole.
const LINES: usize = 1_000;

const HEADING: &str =
    "Proto Recv-Q Send-Q Local Address          Foreign Address        flowid   ftype bucket of lane on lane    idle state";

/// Prints the connections of each process.
pub fn run(readers: &[Reader], as_json: bool) -> Result<Exit> {
    for reader in readers {
        let pid = reader.description().process.pid;
        if reader.liveness() == Liveness::Dead {
            eprintln!("corelane: process {pid} has ended, and the kernel has closed its connections");
            continue;
        }
        if !shares_network(pid).map_err(|error| Late::of(&format!("asking for process {pid}"), error))? {
            eprintln!(
                "corelane: process {pid} has another network namespace: use nsenter --net --target {pid} corelane stat -R --pid {pid}"
            );
            continue;
        }
        let found = connections(pid).map_err(|error| Late::of(&format!("asking for the connections of process {pid}"), error))?;
        let placed = Placed::new(&reader.steering());
        let words = if as_json { object(pid, &placed, &found).to_string() } else { heading(pid, &placed, &found) };
        if print_some(words)?.is_break() || (!as_json && print_lines(&placed, &found)?) {
            break;
        }
    }
    Ok(Exit::Done)
}

/// True if the reader has gone away.
fn print_lines(placed: &Placed, found: &[Connection]) -> Result<bool> {
    for some in found.chunks(LINES) {
        let lines: Vec<String> = some.iter().map(|one| line(one, &placed.of(one))).collect();
        if print_some(lines.join("\n"))?.is_break() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// How a process's flows are told apart and placed.
struct Placed {
    hasher: Option<FlowHasher>,
    lanes: Vec<u16>,
}

/// What is known of one connection's place.
#[derive(Debug, Default, PartialEq, Eq)]
struct Place {
    hashed: Option<Hashed>,
    bucket: Option<usize>,
    of_lane: Option<usize>,
    on_lane: Option<usize>,
}

impl Place {
    fn is_stray(&self) -> bool {
        self.of_lane.zip(self.on_lane).is_some_and(|(of, on)| of != on)
    }
}

impl Placed {
    fn new(steering: &SteeringSnapshot) -> Self {
        Self { hasher: hasher_of(&steering.hasher), lanes: steering.lanes.clone() }
    }

    fn of(&self, connection: &Connection) -> Place {
        let tuple = Tuple::new(connection.remote, connection.local, Protocol::TCP).ok();
        let hashed = self.hasher.as_ref().zip(tuple).and_then(|(hasher, tuple)| hasher.tuple(&tuple));
        let bucket = hashed.filter(|_| !self.lanes.is_empty()).map(|hashed| hashed.flow.0 as usize % self.lanes.len());
        let on_lane = connection.thread.as_ref().and_then(|name| name.strip_prefix("lane-")?.parse().ok());
        Place { hashed, bucket, of_lane: bucket.map(|bucket| self.lanes[bucket].into()), on_lane }
    }
}

fn heading(pid: u32, placed: &Placed, found: &[Connection]) -> String {
    let strays = found.iter().filter(|one| placed.of(one).is_stray()).count();
    format!(
        "process {pid}: {}, of which {strays} on another lane than their bucket's\n{HEADING}",
        plural(found.len(), "TCP connection")
    )
}

fn line(connection: &Connection, place: &Place) -> String {
    let none = || "-".to_owned();
    let number = |number: Option<usize>| number.map_or_else(none, |number| number.to_string());
    let protocol = if connection.local.is_ipv4() { "tcp4" } else { "tcp6" };
    format!(
        "{protocol:<5} {:>6} {:>6} {:<22} {:<22} {:<8} {:>5} {:>6} {:>7} {:>7} {:>7} {}{}",
        connection.receive_queue,
        connection.send_queue,
        address(&connection.local.to_string()),
        address(&connection.remote.to_string()),
        place.hashed.map_or_else(none, |hashed| format!("{:08x}", hashed.flow.0)),
        place.hashed.map_or_else(none, |hashed| hashed.hash_type.bit().to_string()),
        number(place.bucket),
        number(place.of_lane),
        number(place.on_lane),
        connection.idle.map_or_else(none, |idle| time(idle.as_nanos().try_into().unwrap_or(u64::MAX))),
        connection.state,
        if place.is_stray() { " STRAY" } else { "" },
    )
}

/// As long as it is; shorter ones fill their column.
fn address(text: &str) -> String {
    fit(text, 47)
}

fn object(pid: u32, placed: &Placed, found: &[Connection]) -> Value {
    let one = |connection: &Connection| {
        let place = placed.of(connection);
        json!({
            "local": connection.local.to_string(),
            "remote": connection.remote.to_string(),
            "state": connection.state,
            "receive_queue": connection.receive_queue,
            "send_queue": connection.send_queue,
            "idle_milliseconds": connection.idle.map(|idle| idle.as_millis() as u64),
            "flow_id": place.hashed.map(|hashed| hashed.flow.0),
            "hash_type": place.hashed.map(|hashed| hashed.hash_type.name()),
            "bucket": place.bucket,
            "of_lane": place.of_lane,
            "on_lane": place.on_lane,
        })
    };
    json!({ "pid": pid, "connections": found.iter().map(one).collect::<Vec<_>>() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use corelane::admin::rss::{HashTypes, Key};
    use std::time::Duration;

    fn connection(remote: &str, local: &str, thread: &str) -> Connection {
        Connection {
            local: local.parse().unwrap(),
            remote: remote.parse().unwrap(),
            state: "ESTABLISHED",
            receive_queue: 7,
            send_queue: 0,
            idle: Some(Duration::from_millis(1500)),
            thread: Some(thread.to_owned()),
        }
    }

    fn placed(lanes: &[u16]) -> Placed {
        let hasher = format!("{} {}", Key::MICROSOFT, HashTypes::ALL);
        Placed::new(&SteeringSnapshot { hasher, lanes: lanes.to_vec() })
    }

    /// Microsoft's vectors: the flow from 66.9.149.187:2794 to 161.142.100.80:1766 is 51ccc178.
    #[test]
    fn a_connection_is_a_line_with_its_flow_id() {
        let one = connection("66.9.149.187:2794", "161.142.100.80:1766", "lane-1");
        let words = line(&one, &placed(&[0, 1, 0, 1]).of(&one));
        let expected = "tcp4       7      0 161.142.100.80:1766    66.9.149.187:2794      51ccc178     2      0       0       1   1.50s ESTABLISHED STRAY";
        assert_eq!(words, expected);
        let at_home = connection("66.9.149.187:2794", "161.142.100.80:1766", "lane-0");
        assert!(!line(&at_home, &placed(&[0, 1, 0, 1]).of(&at_home)).contains("STRAY"));
        assert!(HEADING.starts_with("Proto Recv-Q Send-Q Local Address") && HEADING.find("flowid") == expected.find("51ccc178"));
    }

    #[test]
    fn what_is_not_known_is_not_made_up() {
        let one = connection("66.9.149.187:2794", "161.142.100.80:1766", "tokio-runtime");
        let nothing = Placed::new(&SteeringSnapshot::default());
        assert_eq!(nothing.of(&one), Place::default());
        assert_eq!(placed(&[]).of(&one).bucket, None);
        let object = object(7, &placed(&[1]), &[one]);
        let first = &object["connections"][0];
        assert_eq!((&first["flow_id"], &first["of_lane"], &first["on_lane"]), (&json!(0x51cc_c178_u32), &json!(1), &Value::Null));
    }
}
