//! The bounds of a service, each with its default and, where it matters, a counter in the page for when it was met.

pub mod amounts;
pub mod bounds;
pub(crate) mod nearest;
pub(crate) mod settings;

use crate::limits::amounts::size_word;
use corelane_seam::{Arena, LEASE_BYTES_MAX, StreamOptions, builders};
use std::time::Duration;

/// One second, in nanoseconds.
pub(crate) const SECOND: u64 = 1_000_000_000;

/// The bounds of one service on one lane: with two lanes, twice as many connections are possible in all. At a bound the lane
/// first stops reading or accepting, then refuses.
///
/// ```
/// # mod corelane { pub mod service { pub use corelane_svc::Limits; } }
/// use corelane::service::Limits;
/// use std::time::Duration;
///
/// let limits = Limits::new().connections_max(1_000).idle_limit(Duration::from_secs(30));
/// assert_eq!(limits.read_limit, Limits::new().read_limit);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Connections open at once. Where nearly all are taken, those end that have stood still for a second; else no more are accepted: they wait in the
    /// backlog. Default 100,000.
    pub connections_max: u32,
    /// Connections open at once from one peer: an IPv4 address, an IPv6 /64, or over Unix sockets a user. For one more the one of its own ends that has stood
    /// still longest, if for half a second; else the new one is reset. 0, the default, allows a peer as many as it leaves to all others, of the service's and of
    /// those that the lane can have, counted over all services with this default ([`Services::descriptors`](crate::Services::descriptors)).
    pub connections_per_peer_max: u32,
    /// Handshakes of transforms under way at once, on connections that were accepted or that the service opened. A peer has as many as it leaves to all
    /// others; one more is accepted, and waits. For those who wait, handshakes end that bring nothing for half a second or take over a second, of their own
    /// peers and of those that have most. Default 1,024.
    pub handshakes_max: u32,
    /// Tickets that one connection may hold at once. At the bound its input waits. Default 1,024.
    pub requests_in_flight_max: u32,
    /// Timers of its service that one connection has at once. One more is refused to the service. Default 1,024.
    pub timers_per_connection_max: u32,
    /// Alarms that the service has at once. One more is refused to the service. When one comes or is moved, all are looked through: for thousands
    /// take timers. Default 1,024.
    pub alarms_max: u32,
    /// Questions of the service to itself on its lanes that wait for their outcome on one lane ([`Cx::ask`](crate::Cx::ask)); and as many
    /// from outside of the lanes ([`Remote::ask`](crate::Remote::ask)). One more is refused to the service. Default 4,096.
    pub asks_max: u32,
    /// Bytes of one incomplete record. More ends the connection as aborted. At most what a lane lends at once
    /// ([`Limits::check`]): 4 MiB, or less with little memory. Default 1 MiB.
    pub record_max: usize,
    /// Bytes of memory in a connection's output at which its input waits. Default 256 KiB.
    pub output_high: usize,
    /// Bytes of memory in a connection's output that end it as aborted, if the service put them there without asking
    /// ([`Output::ask_room`](crate::Output::ask_room), [`Output::hold`](crate::Output::hold)). Output that was let in ends nobody. Default 64 MiB.
    pub output_max: usize,
    /// Bytes a second at which an incomplete record must grow, on average over every five seconds; 0 asks for none. Default 16.
    pub receive_rate_min: u64,
    /// Bytes a second that the peer must take of its answers while some of them wait, on average over each `send_limit`; 0 asks for one byte in that time. Default 16.
    pub send_rate_min: u64,
    /// How long a connection may stay open without a request, counted from when the last one was taken or its answer had
    /// left. Bytes that are no request do not count, nor does what the service sends unasked. Zero for ever. Default 10 minutes.
    pub idle_limit: Duration,
    /// How long one record may take to arrive; zero for no limit. Default 30 seconds.
    pub read_limit: Duration,
    /// How long output may wait while the peer takes less of what it was sent than `send_rate_min` asks for; zero for no limit. A byte is taken when the
    /// peer's end has acknowledged it, not when the system's buffer here took it. A closed connection waits for its peer as long. Default 60 seconds.
    pub send_limit: Duration,
    /// How long a held request may wait for its answer; zero for no limit. Then its connection is aborted. Default 5 minutes.
    pub answer_limit: Duration,
    /// How long a closed connection waits for the peer's end once the peer has taken all that it was sent. Default 2 seconds.
    pub linger_limit: Duration,
    /// How long the opening of an outgoing connection may take. Default 10 seconds.
    pub connect_limit: Duration,
    /// How long the handshake of a transform may take; then its connection is aborted. Default 10 seconds.
    pub handshake_limit: Duration,
    /// How long a drain may take in all; then what is open is aborted. Default 10 seconds.
    pub drain_limit: Duration,
    /// Connections that may wait to be accepted (listen(2)). Default 4,096.
    pub backlog: u32,
    /// Datagram sockets open at once, those that the service is served at included. One more is refused to the service. Default 1,024.
    pub datagram_sockets_max: u32,
    /// Datagrams that wait to be sent from one socket. One more is refused to the service. Default 8,192.
    pub datagrams_waiting_max: u32,
    /// Settings of the sockets.
    pub stream: StreamOptions,
}

impl Limits {
    /// The defaults.
    pub const fn new() -> Self {
        Self {
            connections_max: 100_000,
            connections_per_peer_max: 0,
            handshakes_max: 1024,
            requests_in_flight_max: 1024,
            timers_per_connection_max: 1024,
            alarms_max: 1024,
            asks_max: 4096,
            record_max: 1 << 20,
            output_high: 256 << 10,
            output_max: 64 << 20,
            receive_rate_min: 16,
            send_rate_min: 16,
            idle_limit: Duration::from_secs(600),
            read_limit: Duration::from_secs(30),
            send_limit: Duration::from_secs(60),
            answer_limit: Duration::from_secs(300),
            linger_limit: Duration::from_secs(2),
            connect_limit: Duration::from_secs(10),
            handshake_limit: Duration::from_secs(10),
            drain_limit: Duration::from_secs(10),
            backlog: 4096,
            datagram_sockets_max: 1024,
            datagrams_waiting_max: 8192,
            stream: StreamOptions::new(),
        }
    }

    /// Refuses what a lane with `memory_bytes` of memory cannot keep, or what contradicts itself.
    ///
    /// # Errors
    /// Which limit, why, and the remedy.
    pub fn check(&self, memory_bytes: usize) -> Result<(), String> {
        let most = Arena::lend_max_of(memory_bytes);
        let word = |bytes: usize| size_word(bytes as u64);
        if self.record_max > most {
            return Err(format!(
                "record_max={}: a lane with {} MiB of memory lends at most {} at once, so a longer record can never be \
                 received; remedy: record_max={} or less{}",
                word(self.record_max),
                memory_bytes.div_ceil(LEASE_BYTES_MAX) * (LEASE_BYTES_MAX >> 20),
                word(most),
                word(most),
                if most < LEASE_BYTES_MAX { ", or more memory (--memory)" } else { "" },
            ));
        }
        if self.output_max < self.output_high {
            return Err(format!(
                "output_max={}: a connection would be ended before its input waits, at output_high={}; remedy: output_max at \
                 least as high",
                word(self.output_max),
                word(self.output_high),
            ));
        }
        Ok(())
    }

    /// The limits that can change while lanes serve: how long things may take. A connection that waits already has its new limit when it does something, or at
    /// the end of its old one.
    pub const LIVE: [&str; 8] = [
        "idle_limit",
        "read_limit",
        "send_limit",
        "answer_limit",
        "linger_limit",
        "connect_limit",
        "handshake_limit",
        "drain_limit",
    ];

    /// These limits, with those of `other` that can change while lanes serve.
    pub(crate) fn live_as(self, other: &Self) -> Self {
        Self {
            idle_limit: other.idle_limit,
            read_limit: other.read_limit,
            send_limit: other.send_limit,
            answer_limit: other.answer_limit,
            linger_limit: other.linger_limit,
            connect_limit: other.connect_limit,
            handshake_limit: other.handshake_limit,
            drain_limit: other.drain_limit,
            ..self
        }
    }
}

builders!(Limits {
    connections_max: u32,
    connections_per_peer_max: u32,
    handshakes_max: u32,
    requests_in_flight_max: u32,
    timers_per_connection_max: u32,
    alarms_max: u32,
    asks_max: u32,
    record_max: usize,
    output_high: usize,
    output_max: usize,
    receive_rate_min: u64,
    send_rate_min: u64,
    idle_limit: Duration,
    read_limit: Duration,
    send_limit: Duration,
    answer_limit: Duration,
    linger_limit: Duration,
    connect_limit: Duration,
    handshake_limit: Duration,
    drain_limit: Duration,
    backlog: u32,
    datagram_sockets_max: u32,
    datagrams_waiting_max: u32,
    stream: StreamOptions,
});

impl Default for Limits {
    fn default() -> Self {
        Self::new()
    }
}

/// Over how long the least receive rate is counted, in nanoseconds.
pub(crate) const RATE_GRACE: u64 = 5 * SECOND;
