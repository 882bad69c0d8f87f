//! Datagrams that are dropped (RFC 863): the other end of a burst.

use corelane::{Cx, DatagramService, Datagrams, Replies, Silent};

/// Drops every datagram. Each is a request; bytes, trains and drops are counted as of all services.
pub struct Discard;

impl DatagramService for Discard {
    type Talk = Silent;

    fn receive(&mut self, cx: &mut Cx<'_>, batch: &Datagrams, _replies: &mut Replies) {
        cx.count_requests(batch.arrivals().iter().map(corelane::service::Arrival::datagrams).sum());
    }
}
