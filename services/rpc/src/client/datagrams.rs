//! Calls over datagrams.

use super::{CallError, Scratch, encode, results};
use corelane::service::{DATAGRAM_BYTES_MAX, Shared, Talk};
use corelane::{Cx, Datagrams, Instant};
use corelane_wire::rpc::{CallCounts, CallHead, Calls, Overdue, Patience};
use corelane_wire::xdr::Encode;

/// The calls under way from one socket, each with a `T` of the caller's. They are sent again, with the same bytes, until a reply comes.
///
/// Open the socket with a peer: then nothing else arrives, so a reply needs no more than its number to be known.
pub struct DatagramClient<T> {
    calls: Calls<Asked<T>>,
    limit: u32,
    scratch: Scratch,
    unreadable: u64,
}

struct Asked<T> {
    with: T,
    /// None only until the call has its number.
    datagram: Option<Shared>,
}

/// What is to be done about a call that is overdue.
#[derive(Debug)]
pub enum OverdueCall<T> {
    /// Send this datagram to the peer again.
    Again(Shared),
    /// Nothing: no reply came in time, and the call is given up.
    GivenUp(T),
}

impl<T> DatagramClient<T> {
    /// A client with `limit` calls at once at the most ([`CALLS_MAX`](corelane_wire::rpc::CALLS_MAX)), which are numbered from `first` on.
    pub fn new(limit: u32, first: u32) -> Self {
        Self { calls: Calls::new(limit, first), limit, scratch: Scratch::new(DATAGRAM_BYTES_MAX), unreadable: 0 }
    }

    /// Begins a call: the datagram to send to the peer. The number in `what` is not looked at.
    ///
    /// # Errors
    /// [`CallError::Full`], [`CallError::NoMemory`] or [`CallError::Arguments`], with what came with the call.
    pub fn call(
        &mut self,
        cx: &mut Cx<'_, impl Talk>,
        what: &CallHead<'_>,
        arguments: &impl Encode,
        patience: Patience,
        with: T,
    ) -> Result<Shared, (CallError, T)> {
        let xid = self.calls.begin(cx.now().nanoseconds(), patience, Asked { with, datagram: None });
        let xid = xid.map_err(|asked| (CallError::Full { limit: self.limit }, asked.with))?;
        let message = self.scratch.write(|to| encode(to, xid, what, arguments));
        let datagram = message.and_then(|message| {
            let mut lease = cx.lease(message.len()).map_err(|_| CallError::NoMemory)?;
            lease.append(message);
            Ok(lease.share())
        });
        let known = "a call that was begun is under way";
        match datagram {
            // reason: it was begun above, and nobody has taken it since.
            Ok(datagram) => Ok(self.calls.get_mut(xid).expect(known).datagram.insert(datagram).clone()),
            // reason: as above.
            Err(error) => Err((error, self.calls.take_back(xid).expect(known).with)),
        }
    }

    /// Takes the replies in a batch, and hands the results of each to `each`, with what came with its call. What is no reply, or answers no call
    /// that is under way, is counted and dropped.
    pub fn receive(&mut self, batch: &Datagrams, mut each: impl FnMut(T, Result<&[u8], CallError>)) {
        for arrival in batch.arrivals() {
            for message in batch.each(arrival) {
                match results(message) {
                    Ok((xid, results)) => {
                        if let Some(asked) = self.calls.answered(xid) {
                            each(asked.with, results);
                        }
                    }
                    Err(_) => self.unreadable += 1,
                }
            }
        }
    }

    /// When a call is overdue next: set the service's alarm for then.
    pub fn next_due(&self) -> Option<Instant> {
        self.calls.next_due().map(Instant::from_nanoseconds)
    }

    /// What is to be done about a call that is overdue at `now`; to be asked until there is nothing.
    pub fn overdue(&mut self, now: Instant) -> Option<OverdueCall<T>> {
        Some(match self.calls.overdue(now.nanoseconds())? {
            // reason: what could not be sent for want of memory was taken back.
            Overdue::Again(_, asked) => OverdueCall::Again(asked.datagram.clone().expect("a call under way has its datagram")),
            Overdue::GivenUp(_, asked) => OverdueCall::GivenUp(asked.with),
        })
    }

    /// What came with all calls under way, which are given up.
    pub fn lost(&mut self) -> impl Iterator<Item = T> + '_ {
        self.calls.drop_all().map(|asked| asked.with)
    }

    /// Calls under way.
    pub fn len(&self) -> usize {
        self.calls.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// What has become of all calls.
    pub fn counts(&self) -> CallCounts {
        self.calls.counts()
    }

    /// Datagrams that came and were no replies.
    pub fn unreadable(&self) -> u64 {
        self.unreadable
    }
}
