//! A process's TCP connections, joined of three things: what the kernel tells of them, the key and table of the page, and the rows in which lanes say since when
//! each is there and how it ends. So nothing is asked of a process that may be stopped.

use crate::exit::Late;
use anyhow::Result;
use corelane::admin::control::hasher_of;
use corelane::admin::machine::{self, Connection};
use corelane::admin::rss::{FlowHasher, Hashed, Protocol, Tuple};
use corelane::admin::watch::{ConnectionRow, ConnectionState, Reader, SteeringSnapshot};
use std::collections::HashMap;

/// A connection that the kernel has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelConnection {
    /// What the kernel says.
    pub connection: Connection,
    /// Where it belongs, and where it is.
    pub alignment: Alignment,
    /// What its lane says of it; none if it has no row, or cannot be told from another.
    pub row: Option<ConnectionRow>,
}

impl KernelConnection {
    /// How many seconds it has been there, at this time of the monotonic clock in nanoseconds.
    pub fn age(&self, now: u64) -> Option<u64> {
        self.row.map(|row| age(row, now))
    }

    /// How it is ending, if it is.
    pub fn ending(&self) -> Option<&'static str> {
        self.row.map(|row| row.state).filter(|state| *state != ConnectionState::Open).map(ConnectionState::name)
    }
}

/// A connection that has ended, and whose number on its lane no other has yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gone {
    /// What its lane says of it.
    pub row: ConnectionRow,
    /// Where it belonged, and where it was.
    pub alignment: Alignment,
}

/// For how many seconds a connection with this row has been there.
pub fn age(row: ConnectionRow, now: u64) -> u64 {
    (now / 1_000_000_000).saturating_sub(row.opened_second)
}

/// Whether a connection is where it belongs: the bucket and the lane of its flow, and the lane that has it; none of what is not known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Alignment {
    pub flow: Option<u32>,
    /// Of a connection that the kernel has.
    pub hashed: Option<Hashed>,
    pub bucket: Option<usize>,
    pub of_lane: Option<usize>,
    pub on_lane: Option<usize>,
}

impl Alignment {
    /// Whether it is on another lane than its bucket's.
    pub fn is_stray(&self) -> bool {
        self.of_lane.zip(self.on_lane).is_some_and(|(of, on)| of != on)
    }
}

/// All connections of a process, and those that have ended last.
///
/// # Errors
/// What the kernel says: the process has ended, or is somebody else's.
pub fn all(reader: &Reader) -> Result<(Vec<KernelConnection>, Vec<Gone>)> {
    let pid = reader.description().process.pid;
    // First, so that who is accepted meanwhile has a row all the same.
    let found =
        machine::connections(pid).map_err(|error| Late::of(&format!("asking for the connections of process {pid}"), error))?;
    let rows =
        (0..reader.description().lanes.len()).flat_map(|lane| reader.connections(lane).into_iter().map(move |row| (lane, row)));
    Ok(joined(found, rows, &Placed::new(&reader.steering())))
}

/// Finds each connection its row.
fn joined(
    found: Vec<Connection>,
    rows: impl Iterator<Item = (usize, ConnectionRow)>,
    placed: &Placed,
) -> (Vec<KernelConnection>, Vec<Gone>) {
    let mut of_flow: HashMap<u32, Vec<(usize, ConnectionRow)>> = HashMap::new();
    for (lane, row) in rows {
        of_flow.entry(row.flow.unwrap_or_default()).or_default().push((lane, row));
    }
    let told = found.into_iter().map(|connection| told(connection, &mut of_flow, placed)).collect();
    // One that has gone to another lane has its row there.
    let has_ended = |(_, row): &(usize, ConnectionRow)| !matches!(row.state, ConnectionState::Open | ConnectionState::Moved);
    let left = of_flow.into_values().flatten().filter(has_ended);
    let mut gone: Vec<Gone> = left.map(|(lane, row)| Gone { row, alignment: placed.left(row.flow, lane) }).collect();
    gone.sort_by_key(|gone| (gone.alignment.on_lane, gone.row.number));
    (told, gone)
}

fn told(connection: Connection, of_flow: &mut HashMap<u32, Vec<(usize, ConnectionRow)>>, placed: &Placed) -> KernelConnection {
    let mut alignment = placed.of(&connection);
    let rows = alignment.flow.and_then(|flow| of_flow.get_mut(&flow));
    let row = rows.and_then(|rows| take(rows, alignment.on_lane));
    // Where lanes share a table of descriptors, only the row tells whose the connection is.
    alignment.on_lane = alignment.on_lane.or(row.map(|(lane, _)| lane));
    KernelConnection { connection, alignment, row: row.map(|(_, row)| row) }
}

/// Takes the row of a connection on this lane, if that is known. One whose ending is not decided precedes those that may have ended before, under the same ports; of
/// two like it nobody can say whose is whose.
fn take(rows: &mut Vec<(usize, ConnectionRow)>, lane: Option<usize>) -> Option<(usize, ConnectionRow)> {
    let fits = |(on, row): &(usize, ConnectionRow), open: bool| {
        row.flow.is_some() && lane.is_none_or(|lane| lane == *on) && open == (row.state == ConnectionState::Open)
    };
    let of_kind = |open: bool| rows.iter().enumerate().filter(move |(_, row)| fits(row, open)).map(|(at, _)| at);
    let (is_open, count) = match of_kind(true).count() {
        0 => (false, of_kind(false).count()),
        open => (true, open),
    };
    let at = of_kind(is_open).next().filter(|_| count == 1)?;
    Some(rows.swap_remove(at))
}

/// How a process's flows are told apart and placed.
pub struct Placed {
    hasher: Option<FlowHasher>,
    lanes: Vec<u16>,
}

impl Placed {
    pub fn new(steering: &SteeringSnapshot) -> Self {
        Self { hasher: hasher_of(&steering.hasher), lanes: steering.lanes.clone() }
    }

    /// Where a connection belongs, and where it is as far as the kernel tells.
    fn of(&self, connection: &Connection) -> Alignment {
        let tuple = Tuple::new(connection.remote, connection.local, Protocol::TCP).ok();
        let hashed = self.hasher.as_ref().zip(tuple).and_then(|(hasher, tuple)| hasher.tuple(&tuple));
        let on_lane = connection.thread.as_ref().and_then(|name| name.strip_prefix("lane-")?.parse().ok());
        Alignment { hashed, ..self.alignment(hashed.map(|hashed| hashed.flow.0), on_lane) }
    }

    /// Where a connection belonged that was on this lane.
    fn left(&self, flow: Option<u32>, lane: usize) -> Alignment {
        self.alignment(flow, Some(lane))
    }

    fn alignment(&self, flow: Option<u32>, on_lane: Option<usize>) -> Alignment {
        let bucket = flow.filter(|_| !self.lanes.is_empty()).map(|flow| flow as usize % self.lanes.len());
        Alignment { flow, hashed: None, bucket, of_lane: bucket.map(|bucket| self.lanes[bucket].into()), on_lane }
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use corelane::admin::rss::{HashTypes, Key};
    use std::time::Duration;

    /// Microsoft's vectors: the flow from 66.9.149.187:2794 to 161.142.100.80:1766 is 51ccc178.
    pub const FLOW: u32 = 0x51cc_c178;

    pub fn connection(remote: &str, local: &str, thread: Option<&str>) -> Connection {
        Connection {
            local: local.parse().unwrap(),
            remote: remote.parse().unwrap(),
            state: "ESTABLISHED",
            receive_queue: 7,
            send_queue: 0,
            idle: Some(Duration::from_millis(1500)),
            thread: thread.map(str::to_owned),
        }
    }

    pub fn known(thread: Option<&str>) -> Connection {
        connection("66.9.149.187:2794", "161.142.100.80:1766", thread)
    }

    pub fn row(number: u32, flow: Option<u32>, state: ConnectionState) -> ConnectionRow {
        ConnectionRow { number, flow, opened_second: 5, state }
    }

    pub fn join(found: Vec<Connection>, rows: &[(usize, ConnectionRow)], lanes: &[u16]) -> (Vec<KernelConnection>, Vec<Gone>) {
        let hasher = format!("{} {}", Key::MICROSOFT, HashTypes::ALL);
        joined(found, rows.iter().copied(), &Placed::new(&SteeringSnapshot { hasher, lanes: lanes.to_vec() }))
    }

    const OPEN: ConnectionState = ConnectionState::Open;

    #[test]
    fn a_connection_finds_its_row_by_its_flow_and_its_lane() {
        let rows =
            [(0, row(3, Some(FLOW), OPEN)), (1, row(4, Some(FLOW), OPEN)), (1, row(5, Some(7), OPEN)), (1, row(6, None, OPEN))];
        let (told, gone) = join(vec![known(Some("lane-1"))], &rows, &[0]);
        assert_eq!((told[0].row, told[0].age(8_900_000_000), told[0].ending()), (Some(rows[1].1), Some(3), None));
        assert!(told[0].alignment.is_stray() && gone.is_empty());
    }

    #[test]
    fn where_lanes_share_descriptors_the_row_tells_the_lane() {
        let (told, _) = join(vec![known(None)], &[(1, row(4, Some(FLOW), OPEN))], &[1]);
        assert_eq!((told[0].alignment.on_lane, told[0].alignment.of_lane, told[0].row.is_some()), (Some(1), Some(1), true));
    }

    #[test]
    fn of_two_rows_alike_neither_is_believed() {
        let rows = [(0, row(3, Some(FLOW), OPEN)), (1, row(4, Some(FLOW), OPEN))];
        let (told, _) = join(vec![known(None)], &rows, &[0]);
        assert_eq!((told[0].row, told[0].alignment.on_lane), (None, None));
    }

    #[test]
    fn one_that_is_open_precedes_those_that_have_ended() {
        let before = (0, row(2, Some(FLOW), ConnectionState::Error));
        let (told, gone) = join(vec![known(Some("lane-0"))], &[before, (0, row(3, Some(FLOW), OPEN))], &[0]);
        assert_eq!(told[0].row.unwrap().number, 3);
        assert_eq!(
            (gone.len(), gone[0].row, gone[0].alignment.bucket, gone[0].alignment.of_lane),
            (1, before.1, Some(0), Some(0))
        );
        let (told, gone) = join(vec![known(Some("lane-0"))], &[(0, row(2, Some(FLOW), ConnectionState::Closing))], &[0]);
        assert_eq!((told[0].ending(), gone.len()), (Some("closing"), 0), "it lingers");
    }

    #[test]
    fn what_is_not_known_is_not_made_up() {
        let one = connection("66.9.149.187:2794", "161.142.100.80:1766", Some("tokio-runtime"));
        let rows = [(0, row(0, None, OPEN))].into_iter();
        let (told, gone) = joined(vec![one.clone()], rows, &Placed::new(&SteeringSnapshot::default()));
        assert_eq!((&told[0].alignment, told[0].row, gone.len()), (&Alignment::default(), None, 0));
        assert_eq!(join(vec![one], &[], &[]).0[0].alignment.bucket, None);
    }
}
