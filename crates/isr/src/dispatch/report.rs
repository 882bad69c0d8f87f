//! The report of workstreams: the three blocks of FreeBSD's `netstat -Q`, field by field.

use super::counts::StreamCounts;
use super::policy::{Dispatch, LIMIT_DEFAULT, LIMIT_MAX, Placement};
use super::protocol::{Number, Registration};
use super::stream::Stream;
use std::fmt;

/// What the report says, on all lanes. Its `Display` is the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Lanes, and how many there may be.
    pub lanes: (usize, usize),
    /// The policy of protocols that have none of their own.
    pub dispatch: Dispatch,
    /// Whether each lane has a CPU of its own.
    pub are_bound: bool,
    /// The protocols, lowest number first.
    pub protocols: Vec<ProtocolRow>,
    /// A row a lane and protocol.
    pub streams: Vec<StreamRow>,
}

/// A protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProtocolRow {
    /// Its name.
    pub name: String,
    /// Its number.
    pub number: Number,
    /// Packets that its queue holds.
    pub limit: usize,
    /// How a lane is chosen.
    pub placement: Placement,
    /// Its own policy; none where that of all holds.
    pub dispatch: Option<Dispatch>,
    /// Whether it chooses lanes, has a hook for when its queue has been run, and computes flow ids.
    pub asks: [bool; 3],
}

/// A protocol on a lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamRow {
    /// The lane.
    pub lane: usize,
    /// Its CPU.
    pub cpu: usize,
    /// The protocol's name, with its bucket where each has a queue.
    pub name: String,
    /// What was counted.
    pub counts: StreamCounts,
}

/// A protocol on a lane, as it is now, for who copies it without making a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamNow {
    /// Its name.
    pub name: &'static str,
    /// Its number.
    pub number: Number,
    /// As in [`ProtocolRow`].
    pub limit: usize,
    /// As in [`ProtocolRow`].
    pub placement: Placement,
    /// As in [`ProtocolRow`].
    pub dispatch: Option<Dispatch>,
    /// As in [`ProtocolRow`].
    pub asks: [bool; 3],
    /// What was counted, in all of its queues.
    pub counts: StreamCounts,
}

impl StreamNow {
    pub(super) fn of<P>(stream: &Stream<P>) -> Self {
        let Registration { name, number, placement, choose, flow, has_hook, .. } = stream.registration();
        Self {
            name,
            number: *number,
            limit: stream.limit,
            placement: *placement,
            dispatch: stream.own_dispatch,
            asks: [choose.is_some(), *has_hook, flow.is_some()],
            counts: stream.counts(),
        }
    }
}

impl StreamRow {
    /// The rows of a protocol on lane `lane`, which runs on `cpu`.
    pub(super) fn of<P>(stream: &Stream<P>, lane: usize, cpu: usize) -> Vec<Self> {
        let row = |name, counts: &StreamCounts| Self { lane, cpu, name, counts: *counts };
        let Registration { name, bucket, .. } = stream.registration();
        let counted = stream.queues.counts();
        match bucket {
            None => counted.map(|counts| row((*name).to_owned(), counts)).collect(),
            Some(_) => counted
                .enumerate()
                .filter(|(_, counts)| **counts != StreamCounts::default())
                .map(|(bucket, counts)| row(format!("{name}.{bucket}"), counts))
                .collect(),
        }
    }
}

impl Report {
    /// The heading of the workstreams' columns.
    pub const WORKSTREAM_COLUMNS: &str = "WSID CPU   Name     Len WMark   Disp'd  HDisp'd   QDrops   Queued  Handled";
    /// Packets that a queue holds unless its protocol says otherwise.
    pub const LIMIT_DEFAULT: usize = LIMIT_DEFAULT;
    /// Packets that a queue holds at most.
    pub const LIMIT_MAX: usize = LIMIT_MAX;
}

impl ProtocolRow {
    pub(super) fn of<P>(stream: &Stream<P>) -> Self {
        let StreamNow { name, number, limit, placement, dispatch, asks, .. } = StreamNow::of(stream);
        Self { name: name.to_owned(), number, limit, placement, dispatch, asks }
    }

    /// Its policy; `default` where that of all holds.
    #[must_use]
    pub fn dispatch_name(&self) -> String {
        self.dispatch.map_or("default".to_owned(), |dispatch| dispatch.to_string())
    }

    /// What it is asked for, in three letters.
    #[must_use]
    pub fn flags(&self) -> String {
        self.asks.iter().zip("CDF".chars()).map(|(asks, flag)| if *asks { flag } else { '-' }).collect()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (bound, none) = (if self.are_bound { "enabled" } else { "disabled" }, "n/a");
        writeln!(f, "Configuration:")?;
        let mut setting = |name: &str, current: &dyn fmt::Display, limit: &dyn fmt::Display| {
            writeln!(f, "{name:<25} {:>12} {:>12}", current.to_string(), limit.to_string())
        };
        setting("Setting", &"Current", &"Limit")?;
        setting("Thread count", &self.lanes.0, &self.lanes.1)?;
        setting("Default queue limit", &LIMIT_DEFAULT, &LIMIT_MAX)?;
        setting("Dispatch policy", &self.dispatch, &none)?;
        setting("Threads bound to CPUs", &bound, &none)?;
        writeln!(f, "\nProtocols:\nName   Proto QLimit Policy Dispatch Flags")?;
        self.protocols.iter().try_for_each(|row| writeln!(f, "{row}"))?;
        writeln!(f, "\nWorkstreams:\n{}", Self::WORKSTREAM_COLUMNS)?;
        self.streams.iter().try_for_each(|row| writeln!(f, "{row}"))
    }
}

impl fmt::Display for ProtocolRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, number, placement) = (&self.name, self.number.number(), self.placement.to_string());
        let (limit, dispatch, flags) = (self.limit, self.dispatch_name(), self.flags());
        write!(f, "{name:<6} {number:>5} {limit:>6} {placement:>6} {dispatch:>8}   {flags}")
    }
}

impl fmt::Display for StreamRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { lane, cpu, name, counts } = self;
        let StreamCounts { length, watermark, dispatched, hybrid, drops, queued, handled } = counts;
        write!(
            f,
            "{lane:>4} {cpu:>3}   {name:<6} {length:>5} {watermark:>5} {dispatched:>8} {hybrid:>8} {drops:>8} {queued:>8} {handled:>8}"
        )
    }
}
