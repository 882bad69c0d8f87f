//! `corelane stat -R`: every connection with its flow id, as `netstat -R` of FreeBSD prints it, and whether it is on the lane that its bucket names; then
//! how those ended that are no more.

use crate::connections::{Gone, KernelConnection, age, all};
use crate::exit::{Exit, Late};
use crate::print::{note, print_part, print_some};
use crate::stat::figures::time;
use crate::stat::text::plural;
use crate::wrap::fit;
use anyhow::Result;
use corelane::admin::machine::shares_network;
use corelane::admin::watch::{ConnectionState, Liveness, Reader};
use serde_json::{Value, json};
use std::iter::once;
use std::ops::ControlFlow;

/// Connections that are printed at once, so that a long list is never held whole.
const LINES: usize = 1_000;

const HEADING: &str = "Proto Recv-Q Send-Q Local Address          Foreign Address        flowid   ftype bucket of lane on lane number     age    idle state";

/// Prints the connections of each process.
pub fn run(readers: &[Reader], as_json: bool) -> Result<Exit> {
    for reader in readers {
        let pid = reader.description().process.pid;
        if reader.liveness() == Liveness::Dead {
            note(format_args!("corelane: process {pid} has ended, and the kernel has closed its connections"));
            continue;
        }
        if !shares_network(pid).map_err(|error| Late::of(&format!("asking for process {pid}"), error))? {
            note(format_args!(
                "corelane: process {pid} has another network namespace: use nsenter --net --target {pid} corelane stat -R --pid {pid}"
            ));
            continue;
        }
        let ((told, gone), now) = (all(reader)?, corelane::now().nanoseconds());
        let printed = match as_json {
            true => each(object(pid, &told, &gone, now), |part| print_part(&part)),
            false => each(lines(pid, &told, &gone, now), print_some),
        };
        if printed?.is_break() {
            break;
        }
    }
    Ok(Exit::Done)
}

/// Prints each part; breaks if the reader has gone away.
fn each(parts: impl Iterator<Item = String>, print: impl Fn(String) -> Result<ControlFlow<()>>) -> Result<ControlFlow<()>> {
    for part in parts {
        if print(part)?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
    }
    Ok(ControlFlow::Continue(()))
}

/// A heading and a line each, some lines in each part.
fn lines(pid: u32, told: &[KernelConnection], gone: &[Gone], now: u64) -> impl Iterator<Item = String> {
    let some = move |some: &[KernelConnection]| some.iter().map(|one| line(one, now)).collect::<Vec<_>>().join("\n");
    once(heading(pid, told, gone)).chain(told.chunks(LINES).map(some))
}

fn heading(pid: u32, told: &[KernelConnection], gone: &[Gone]) -> String {
    let strays = told.iter().filter(|one| one.alignment.is_stray()).count();
    let open = plural(told.len(), "TCP connection");
    format!("process {pid}: {open}, of which {strays} on another lane than their bucket's{}\n{HEADING}", ended(gone))
}

/// How those ended that are no more.
fn ended(gone: &[Gone]) -> String {
    let of = |state: ConnectionState| gone.iter().filter(|gone| gone.row.state == state).count();
    let endings = ConnectionState::ALL.into_iter().filter(|state| of(*state) > 0);
    let words: Vec<String> = endings.map(|state| format!("{} {}", state.name(), of(state))).collect();
    if words.is_empty() { String::new() } else { format!("\nended last: {}", words.join(", ")) }
}

fn line(one: &KernelConnection, now: u64) -> String {
    let KernelConnection { connection, alignment, row } = one;
    let none = || "-".to_owned();
    let number = |number: Option<usize>| number.map_or_else(none, |number| number.to_string());
    let protocol = if connection.local.is_ipv4() { "tcp4" } else { "tcp6" };
    format!(
        "{protocol:<5} {:>6} {:>6} {:<22} {:<22} {:<8} {:>5} {:>6} {:>7} {:>7} {:>6} {:>7} {:>7} {}{}{}",
        connection.receive_queue,
        connection.send_queue,
        address(&connection.local.to_string()),
        address(&connection.remote.to_string()),
        alignment.flow.map_or_else(none, |flow| format!("{flow:08x}")),
        alignment.hashed.map_or_else(none, |hashed| hashed.hash_type.bit().to_string()),
        number(alignment.bucket),
        number(alignment.of_lane),
        number(alignment.on_lane),
        number(row.map(|row| row.number as usize)),
        one.age(now).map_or_else(none, |seconds| format!("{seconds}s")),
        connection.idle.map_or_else(none, |idle| time(idle.as_nanos().try_into().unwrap_or(u64::MAX))),
        connection.state,
        one.ending().map_or_else(String::new, |ending| format!(" {ending}")),
        if alignment.is_stray() { " STRAY" } else { "" },
    )
}

/// As long as it is; shorter ones fill their column.
fn address(text: &str) -> String {
    fit(text, 47)
}

/// One object, in parts.
fn object(pid: u32, told: &[KernelConnection], gone: &[Gone], now: u64) -> impl Iterator<Item = String> {
    let connections = list(told, move |one| connection(one, now));
    let ended = list(gone, move |gone| ending(gone, now));
    let begins = once(format!("{{\"pid\":{pid},\"connections\":["));
    begins.chain(connections).chain(once("],\"ended\":[".to_owned())).chain(ended).chain(once("]}\n".to_owned()))
}

fn connection(one: &KernelConnection, now: u64) -> Value {
    let KernelConnection { connection, alignment, row } = one;
    json!({
        "local": connection.local.to_string(),
        "remote": connection.remote.to_string(),
        "state": connection.state,
        "receive_queue": connection.receive_queue,
        "send_queue": connection.send_queue,
        "idle_milliseconds": connection.idle.map(|idle| idle.as_millis() as u64),
        "age_seconds": one.age(now),
        "ending": one.ending(),
        "number": row.map(|row| row.number),
        "flow_id": alignment.flow,
        "hash_type": alignment.hashed.map(|hashed| hashed.hash_type.name()),
        "bucket": alignment.bucket,
        "of_lane": alignment.of_lane,
        "on_lane": alignment.on_lane,
    })
}

fn ending(Gone { row, alignment }: &Gone, now: u64) -> Value {
    json!({
        "ending": row.state.name(),
        "opened_seconds_ago": age(*row, now),
        "number": row.number,
        "flow_id": alignment.flow,
        "bucket": alignment.bucket,
        "of_lane": alignment.of_lane,
        "on_lane": alignment.on_lane,
    })
}

/// The values of a list, some in each part.
fn list<T>(all: &[T], value: impl Fn(&T) -> Value) -> impl Iterator<Item = String> {
    all.chunks(LINES).enumerate().map(move |(number, some)| {
        let values: Vec<String> = some.iter().map(|one| value(one).to_string()).collect();
        let before = if number == 0 { "" } else { "," };
        format!("{before}{}", values.join(","))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connections::tests::{FLOW, join, known, row};

    const NOW: u64 = 67_000_000_000;

    fn parsed(told: &[KernelConnection], gone: &[Gone]) -> Value {
        serde_json::from_str(&object(7, told, gone, NOW).collect::<String>()).unwrap()
    }

    #[test]
    fn a_long_list_is_one_object_in_parts() {
        let rows = [(0, row(1, Some(9), ConnectionState::Aborted))];
        let (told, gone) = join(vec![known(None); 2 * LINES + 1], &rows, &[0]);
        assert_eq!(object(7, &told, &gone, NOW).count(), 3 + 3 + 1);
        let (connections, ended) = (&parsed(&told, &gone)["connections"], &parsed(&told, &gone)["ended"]);
        assert_eq!((connections.as_array().unwrap().len(), ended.as_array().unwrap().len()), (2 * LINES + 1, 1));
        assert_eq!(parsed(&[], &[]), json!({ "pid": 7, "connections": [], "ended": [] }));
    }

    #[test]
    fn a_connection_is_a_line_with_its_flow_id() {
        let (told, _) = join(vec![known(Some("lane-1"))], &[(1, row(12, Some(FLOW), ConnectionState::Open))], &[0, 1, 0, 1]);
        let words = line(&told[0], NOW);
        let expected = "tcp4       7      0 161.142.100.80:1766    66.9.149.187:2794      51ccc178     2      0       0       1     12     62s   1.50s ESTABLISHED STRAY";
        assert_eq!(words, expected);
        let (told, _) = join(vec![known(Some("lane-0"))], &[], &[0, 1, 0, 1]);
        assert!(!line(&told[0], NOW).contains("STRAY"));
        assert!(HEADING.starts_with("Proto Recv-Q Send-Q Local Address") && HEADING.find("flowid") == expected.find("51ccc178"));
        for (column, figure) in [("number", "    12"), ("    age", "    62s"), ("   idle", "  1.50s")] {
            assert_eq!(HEADING.find(column), expected.find(figure), "{column}");
        }
    }

    #[test]
    fn what_ends_is_told_with_its_ending_and_what_has_ended_in_sum() {
        let rows = [
            (0, row(1, Some(FLOW), ConnectionState::Closing)),
            (0, row(2, Some(9), ConnectionState::Aborted)),
            (1, row(3, Some(10), ConnectionState::Completed)),
            (1, row(4, None, ConnectionState::Completed)),
        ];
        let (told, gone) = join(vec![known(Some("lane-0"))], &rows, &[0, 1]);
        assert!(line(&told[0], NOW).ends_with("ESTABLISHED closing"));
        assert!(heading(7, &told, &gone).contains("\nended last: completed 2, aborted 1\n"), "{}", heading(7, &told, &gone));
        let object: Value = parsed(&told, &gone);
        let (first, gone) = (&object["connections"][0], &object["ended"]);
        assert_eq!((&first["ending"], &first["age_seconds"], &first["number"]), (&json!("closing"), &json!(62), &json!(1)));
        assert_eq!(gone.as_array().unwrap().len(), 3);
        assert_eq!((&gone[0]["ending"], &gone[0]["bucket"], &gone[0]["on_lane"]), (&json!("aborted"), &json!(1), &json!(0)));
    }

    #[test]
    fn what_is_not_known_is_null() {
        let (told, gone) = join(vec![known(Some("tokio-runtime"))], &[], &[1]);
        let object: Value = parsed(&told, &gone);
        let first = &object["connections"][0];
        assert_eq!((&first["flow_id"], &first["of_lane"], &first["on_lane"]), (&json!(FLOW), &json!(1), &Value::Null));
        assert_eq!((&first["age_seconds"], &first["ending"]), (&Value::Null, &Value::Null));
        assert!(line(&told[0], NOW).contains("       -      -       -   1.50s "), "{}", line(&told[0], NOW));
    }
}
