//! Echo: sends back what it gets, byte for byte (RFC 862), without copying it.
#![forbid(unsafe_code)]

use corelane::{Cx, DatagramService, Datagrams, Input, Next, Output, Peer, Replies, StreamService};
use std::net::IpAddr;

/// Where echo is served unless said otherwise.
pub const DEFAULT_PORT: u16 = 60007;

/// Echo over connections. The leases that bytes arrive in are the ones they leave in.
pub struct Echo;

impl StreamService for Echo {
    type Session = ();

    fn open(&mut self, _cx: &mut Cx<'_>, _peer: &Peer) {}

    /// A stream of bytes has no requests: each hand-over counts as one.
    fn receive(&mut self, cx: &mut Cx<'_>, _session: &mut (), input: &mut Input, output: &mut Output) -> Next {
        if !input.is_empty() {
            cx.count_requests(1);
            output.forward(input.take_all());
        }
        Next::Continue
    }
}

/// Whose datagrams are echoed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Only those from this machine. A datagram's sender can be forged: whoever answers everybody can be made to send
    /// to a victim (reflection), or into an endless loop with another echo service.
    Loopback,
    /// Everybody's.
    Everybody,
}

/// Echo over datagrams: trains are answered with trains.
pub struct EchoDatagrams {
    answer: Answer,
}

impl EchoDatagrams {
    /// Echo for those whom `answer` names; what comes from others is dropped.
    pub fn new(answer: Answer) -> Self {
        Self { answer }
    }

    fn answers(&self, peer: IpAddr) -> bool {
        self.answer == Answer::Everybody || peer.to_canonical().is_loopback()
    }
}

impl DatagramService for EchoDatagrams {
    fn receive(&mut self, cx: &mut Cx<'_>, batch: &Datagrams, replies: &mut Replies) {
        for arrival in batch.arrivals().iter().filter(|arrival| self.answers(arrival.peer.ip())) {
            cx.count_requests(arrival.datagrams());
            replies.echo(batch, arrival);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_is_answered_unless_everybody_is() {
        let [here, mapped, there] = ["127.0.0.9", "::ffff:127.0.0.1", "192.0.2.1"].map(|text| text.parse().unwrap());
        let local = EchoDatagrams::new(Answer::Loopback);
        assert_eq!([here, mapped, there].map(|peer| local.answers(peer)), [true, true, false]);
        assert!(EchoDatagrams::new(Answer::Everybody).answers(there));
    }
}
