//! Calls that are answered later.

use crate::counters::RpcCounter;
use crate::desk::{RESERVE_BYTES, To, compose, success, system_error, write_into};
use crate::duplicates::Memo;
use corelane::Cx;
use corelane::service::{Arrival, Chain, DATAGRAM_BYTES_MAX, Lease, Order, PeerKey, Segment, Shares, SocketId, Talk, Ticket};
use corelane_wire::Error;
use corelane_wire::xdr::{Encode, Writer, padding};
use std::cell::RefCell;
use std::rc::Rc;

/// Calls that one service of a lane holds at most, over all its connections, unless set otherwise. Each peer has its share, one alone half. One more is refused with `SYSTEM_ERR` (counted:
/// `requests_held_max_hits`); a connection's own bound, `requests_in_flight_max`, is reached first and pushes back. Over datagrams an address may be forged: there the share holds for callers that are who they
/// seem to be.
pub const HELD_MAX: u32 = 65_536;

/// Calls that may be held.
pub(crate) struct HeldCalls(Rc<RefCell<Shares>>);

/// One of the calls that may be held.
pub(crate) struct HeldPlace {
    all: Rc<RefCell<Shares>>,
    peer: PeerKey,
}

impl HeldCalls {
    pub(crate) fn new(calls: u32) -> Self {
        Self(Rc::new(RefCell::new(Shares::new(calls))))
    }

    /// A seat for a call of a peer; none if the peer has its share. One of its connections of which none is held gets another one all the same, as long as there are.
    pub(crate) fn take(&self, peer: PeerKey, to: &To<'_>) -> Option<HeldPlace> {
        let mut all = self.0.borrow_mut();
        let has_none = matches!(to, To::Stream(output) if output.tickets() == 0);
        (all.admits(peer) || has_none && all.share().admits_few()).then(|| {
            all.take(Some(peer));
            HeldPlace { all: self.0.clone(), peer }
        })
    }

    /// Whether calls are held.
    pub(crate) fn is_taken(&self) -> bool {
        self.0.borrow().share().used > 0
    }
}

impl Drop for HeldPlace {
    fn drop(&mut self) {
        self.all.borrow_mut().give_back(Some(self.peer));
    }
}

/// Whom an answer is for.
enum Asker {
    Connection(Ticket),
    Datagram { socket: SocketId, arrival: Arrival },
}

/// A call to be answered later, exactly once. One that is dropped is never answered: over a connection that is
/// counted (`tickets_dropped`), over datagrams the caller asks again.
#[must_use = "a call that is dropped leaves its caller without an answer"]
pub struct Held {
    xid: u32,
    asker: Asker,
    memo: Option<Memo>,
    /// Memory for a short reply, so that there is one whatever happens meanwhile.
    lease: Lease,
    _seat: HeldPlace,
}

impl Held {
    /// The memo comes back if nothing can be held.
    pub(crate) fn new(
        cx: &mut Cx<'_, impl Talk>,
        xid: u32,
        to: To<'_>,
        memo: Option<Memo>,
        seat: HeldPlace,
    ) -> Result<Self, Option<Memo>> {
        let Ok(lease) = cx.lease(RESERVE_BYTES) else { return Err(memo) };
        assert!(lease.room() >= RESERVE_BYTES, "a refusal fits whatever happens meanwhile");
        let asker = match to {
            To::Stream(output) => match output.hold(Order::Any) {
                Ok(ticket) => Asker::Connection(ticket),
                Err(_) => return Err(memo),
            },
            To::Datagram { batch, arrival, socket, .. } => Asker::Datagram { socket, arrival: batch.arrivals()[arrival].clone() },
        };
        Ok(Self { xid, asker, memo, lease, _seat: seat })
    }

    /// Answers with `results`, as [`Call::answer`](crate::Call::answer) does.
    pub fn answer(self, cx: &mut Cx<'_, impl Talk>, results: &impl Encode) {
        let xid = self.xid;
        self.finish(cx, None, |writer| success(writer, xid, results));
    }

    /// Answers with results that end in `data`, as [`Call::answer_with_data`](crate::Call::answer_with_data) does.
    pub fn answer_with_data(self, cx: &mut Cx<'_, impl Talk>, head: &impl Encode, data: impl Into<Segment>) {
        let (xid, data) = (self.xid, data.into());
        match (&self.asker, data.bytes()) {
            (Asker::Connection(_), _) => self.finish(cx, Some(data), |writer| success(writer, xid, head)),
            (_, None) => self.fail(cx),
            (_, Some(bytes)) => {
                let content = |writer: &mut Writer<'_>| success(writer, xid, head).and_then(|()| writer.fixed(bytes));
                self.finish(cx, None, content);
            }
        }
    }

    /// Answers with `SYSTEM_ERR`: the call could not be carried out.
    pub fn fail(self, cx: &mut Cx<'_, impl Talk>) {
        cx.count(RpcCounter::RequestsRefused, 1);
        let reply = system_error(self.xid);
        self.finish(cx, None, |writer| reply.encode(writer));
    }

    fn finish(
        mut self,
        cx: &mut Cx<'_, impl Talk>,
        data: Option<Segment>,
        content: impl Fn(&mut Writer<'_>) -> Result<(), Error>,
    ) {
        let is_stream = matches!(self.asker, Asker::Connection(_));
        let following = data.as_ref().map_or(0, |data| data.len() + padding(data.len()));
        match self.write(cx, is_stream, following, &content) {
            Ok(()) => self.send(cx, data),
            // It fits into the memory that was kept for it, so this ends here.
            Err(_) => self.fail(cx),
        }
    }

    /// Writes the reply into the memory that was kept, or else into more.
    fn write(
        &mut self,
        cx: &mut Cx<'_, impl Talk>,
        is_stream: bool,
        following: usize,
        content: &impl Fn(&mut Writer<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        match write_into(&mut self.lease, is_stream, following, content) {
            Err(Error::NoRoom { .. }) => {
                let (lease, bytes) = compose(cx, is_stream, following, content)?;
                if !is_stream && bytes > DATAGRAM_BYTES_MAX {
                    return Err(Error::Oversized { limit: DATAGRAM_BYTES_MAX as u32, got: bytes });
                }
                self.lease = lease;
                Ok(())
            }
            other => other.map(drop),
        }
    }

    fn send(self, cx: &mut Cx<'_, impl Talk>, data: Option<Segment>) {
        let Self { asker, memo, lease, .. } = self;
        if let Some(memo) = memo.filter(|_| data.is_none()) {
            let mark = if matches!(asker, Asker::Connection(_)) { 4 } else { 0 };
            memo.keep(cx, &lease[mark..]);
        }
        let reply = lease.share();
        match asker {
            Asker::Connection(ticket) => cx.answer_chain(ticket, chain(reply.into(), data)),
            Asker::Datagram { socket, arrival } => {
                let size = reply.len();
                if let Some(replies) = cx.datagrams(socket) {
                    replies.reply(&arrival, reply, size);
                }
            }
        }
    }
}

fn chain(reply: Segment, data: Option<Segment>) -> Chain {
    let mut chain = Chain::new();
    chain.push(reply);
    if let Some(data) = data {
        let padding = &[0; 3][..padding(data.len())];
        chain.push(data);
        chain.push(padding);
    }
    chain
}
