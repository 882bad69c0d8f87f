//! Where replies are written: one lease for all that is answered together, head and results right into it.

use crate::counters::RpcCounter;
use crate::duplicates::Memo;
use corelane::service::{DATAGRAM_BYTES_MAX, LEASE_BYTES_MAX, Lease, Segment, SocketId, TRAIN_DATAGRAMS_MAX, Talk};
use corelane::{Cx, Datagrams, Output, Replies};
use corelane_wire::rpc::{Reply, success_head, write_record};
use corelane_wire::xdr::{Encode, Writer, padding};
use corelane_wire::{Error, rpc};
use std::ops::Range;

/// Bytes that are free in the lease whenever a call is carried out, so that at least a refusal can be sent afterwards.
pub(crate) const RESERVE_BYTES: usize = 256;
/// The lease that replies are gathered in, at least and at most.
const LEASE_BYTES: Range<usize> = 512..16 << 10;

/// Where the replies of a hand-over go.
pub(crate) enum To<'c> {
    /// Into a connection's output, each behind its record mark.
    Stream(&'c mut Output),
    /// To whom an arrival of a batch came from.
    Datagram {
        batch: &'c Datagrams,
        /// Which one.
        arrival: usize,
        socket: SocketId,
        replies: &'c mut Replies,
    },
}

impl To<'_> {
    /// Whether a call can be held, by their number and by the memory that one keeps: so that nobody is called who would have to be called again.
    #[inline]
    pub(crate) fn may_hold(&mut self, cx: &mut Cx<'_, impl Talk>) -> bool {
        match self {
            Self::Stream(output) => output.ask_ticket() && cx.arena().ask(RESERVE_BYTES),
            Self::Datagram { .. } => true,
        }
    }

    pub(crate) fn reborrow(&mut self) -> To<'_> {
        match self {
            Self::Stream(output) => To::Stream(output),
            Self::Datagram { batch, arrival, socket, replies } => {
                To::Datagram { batch, arrival: *arrival, socket: *socket, replies }
            }
        }
    }

    pub(crate) fn is_stream(&self) -> bool {
        matches!(self, Self::Stream(_))
    }
}

/// Replies in the lease for one arrival: datagrams of `size`, the last perhaps shorter.
struct Written {
    arrival: usize,
    range: Range<usize>,
    size: usize,
}

/// Replies that are written and have not left yet.
pub(crate) struct WrittenReplies {
    lease: Option<Lease>,
    lease_bytes: usize,
    /// What the lease holds, over datagrams.
    written: Vec<Written>,
    /// That of a call that could not be held, until it is answered.
    owed: Option<Memo>,
}

impl WrittenReplies {
    pub(crate) fn new() -> Self {
        Self { lease: None, lease_bytes: LEASE_BYTES.start, written: Vec::new(), owed: None }
    }

    /// A call that must be carried out once could not be held.
    pub(crate) fn owe(&mut self, memo: Option<Memo>) {
        self.owed = memo;
    }

    /// What was noted so.
    pub(crate) fn take_owed(&mut self) -> Option<Memo> {
        self.owed.take()
    }

    /// Begins a hand-over of `bytes` of calls: short replies are shorter than their calls.
    pub(crate) fn begin(&mut self, bytes: usize) {
        // A program that panicked has left what it wrote: for another connection, perhaps.
        self.lease = None;
        self.written.clear();
        self.lease_bytes = (bytes + RESERVE_BYTES).clamp(LEASE_BYTES.start, LEASE_BYTES.end);
    }

    /// Makes sure that a reply of [`RESERVE_BYTES`] can be written; false if there is no room in the output, or no memory.
    #[inline]
    pub(crate) fn prepare(&mut self, cx: &mut Cx<'_, impl Talk>, to: &mut To<'_>) -> bool {
        self.lease.as_ref().is_some_and(|lease| lease.room() >= RESERVE_BYTES) || self.renew(cx, to)
    }

    fn renew(&mut self, cx: &mut Cx<'_, impl Talk>, to: &mut To<'_>) -> bool {
        self.seal(to);
        if let To::Stream(output) = to
            && !output.ask_room()
        {
            return false;
        }
        self.lease = cx.lease_upto(self.lease_bytes, LEASE_BYTES.start).ok();
        self.lease.is_some()
    }

    /// Hands over what is written.
    pub(crate) fn seal(&mut self, to: &mut To<'_>) {
        let Some(lease) = self.lease.take() else {
            return assert!(self.written.is_empty(), "what is written lies in the lease");
        };
        match to {
            To::Stream(output) => output.push(lease.share()),
            To::Datagram { batch, replies, .. } => {
                let shared = lease.share();
                for Written { arrival, range, size } in self.written.drain(..) {
                    replies.reply(&batch.arrivals()[arrival], shared.slice(range), size);
                }
            }
        }
    }

    /// Writes a success without results. Its length is known, and there is room: so it is one copy, not an encoding.
    #[inline]
    pub(crate) fn answer_null(&mut self, to: &mut To<'_>, xid: u32) {
        let head = success_head(xid);
        // reason: no call is looked at before there is room for its reply.
        let lease = self.lease.as_mut().expect("a call is carried out once there is a lease");
        match to {
            To::Stream(_) => {
                let mut record = [0; MARK_BYTES + NULL_BYTES];
                record[..MARK_BYTES].copy_from_slice(&NULL_MARK);
                record[MARK_BYTES..].copy_from_slice(&head);
                lease.append(&record);
            }
            To::Datagram { arrival, .. } => {
                lease.append(&head);
                let end = lease.len();
                self.join(*arrival, end - NULL_BYTES..end);
            }
        }
    }

    /// Writes a reply whole. What cannot be written for want of memory is not sent; a refusal always can.
    pub(crate) fn reply(&mut self, cx: &mut Cx<'_, impl Talk>, to: &mut To<'_>, reply: &Reply<'_>) {
        let _ = self.write(cx, to, 0, |writer| reply.encode(writer));
    }

    /// Writes a reply that was kept.
    pub(crate) fn repeat(&mut self, cx: &mut Cx<'_, impl Talk>, to: &mut To<'_>, reply: &[u8]) {
        let _ = self.write(cx, to, 0, |writer| writer.put(reply));
    }

    /// Writes a success with `results`, and remembers it; `SYSTEM_ERR` if it cannot be written, which is remembered as well: the call was carried out.
    pub(crate) fn answer(
        &mut self,
        cx: &mut Cx<'_, impl Talk>,
        to: &mut To<'_>,
        xid: u32,
        results: &impl Encode,
        memo: Option<Memo>,
    ) {
        match self.write(cx, to, 0, |writer| success(writer, xid, results)) {
            Ok(range) => self.remember(cx, range, memo),
            Err(_) => self.fail(cx, to, xid, memo),
        }
    }

    fn remember(&self, cx: &mut Cx<'_, impl Talk>, range: Range<usize>, memo: Option<Memo>) {
        if let Some(memo) = memo {
            // reason: it was written there just now.
            memo.keep(cx, &self.lease.as_ref().expect("what is written lies in the lease")[range]);
        }
    }

    /// Writes a success whose results end in `data`, which is too long to be remembered; `SYSTEM_ERR` as for [`WrittenReplies::answer`].
    pub(crate) fn answer_with_data(
        &mut self,
        cx: &mut Cx<'_, impl Talk>,
        to: &mut To<'_>,
        xid: u32,
        (head, data): (&impl Encode, Segment),
        memo: Option<Memo>,
    ) {
        let (length, following) = (data.len(), data.len() + padding(data.len()));
        let written = match (to.is_stream(), data.bytes()) {
            (true, _) => self.write(cx, to, following, |writer| success(writer, xid, head)),
            (false, Some(bytes)) => self.write(cx, to, 0, |writer| {
                success(writer, xid, head)?;
                writer.fixed(bytes)
            }),
            (false, None) => Err(Error::Service),
        };
        match (written, to) {
            (Err(_), to) => self.fail(cx, to, xid, memo),
            (Ok(_), to) => self.follow(to, data, length),
        }
    }

    /// Over a connection, lets the data go behind what is written.
    fn follow(&mut self, to: &mut To<'_>, data: Segment, length: usize) {
        if to.is_stream() {
            self.seal(to);
        }
        if let To::Stream(output) = to {
            output.push(data);
            output.push(&[0; 3][..padding(length)]);
        }
    }

    pub(crate) fn fail(&mut self, cx: &mut Cx<'_, impl Talk>, to: &mut To<'_>, xid: u32, memo: Option<Memo>) {
        cx.count(RpcCounter::RequestsRefused, 1);
        let reply = system_error(xid);
        if let Ok(range) = self.write(cx, to, 0, |writer| reply.encode(writer)) {
            self.remember(cx, range, memo);
        }
    }

    /// Writes a message into the lease, or into a larger one; returns where it lies in there, without its mark.
    #[inline]
    fn write(
        &mut self,
        cx: &mut Cx<'_, impl Talk>,
        to: &mut To<'_>,
        following: usize,
        content: impl Fn(&mut Writer<'_>) -> Result<(), Error>,
    ) -> Result<Range<usize>, Error> {
        let is_stream = to.is_stream();
        let bytes = match self.lease.as_mut().map(|lease| write_into(lease, is_stream, following, &content)) {
            Some(Ok(bytes)) => bytes,
            Some(Err(Error::NoRoom { .. })) | None => {
                let (lease, bytes) = compose(cx, is_stream, following, &content)?;
                self.seal(to);
                self.lease = Some(lease);
                bytes
            }
            Some(Err(error)) => return Err(error),
        };
        self.note(to, bytes)
    }

    /// Notes that the last `bytes` of the lease are a message.
    #[inline]
    fn note(&mut self, to: &To<'_>, bytes: usize) -> Result<Range<usize>, Error> {
        // reason: who notes a message has written it there.
        let lease = self.lease.as_mut().expect("what is written lies in the lease");
        let end = lease.len();
        assert!(bytes <= end, "a message lies in the lease whole");
        match *to {
            To::Stream(_) => Ok(end - bytes + MARK_BYTES..end),
            To::Datagram { .. } if bytes > DATAGRAM_BYTES_MAX => {
                lease.truncate(end - bytes);
                Err(Error::Oversized { limit: DATAGRAM_BYTES_MAX as u32, got: bytes })
            }
            To::Datagram { arrival, .. } => {
                self.join(arrival, end - bytes..end);
                Ok(end - bytes..end)
            }
        }
    }

    /// Adds a datagram to those before it, if they are as long as it and go to the same peer.
    fn join(&mut self, arrival: usize, range: Range<usize>) {
        let size = range.len();
        assert!(size > 0 && size <= DATAGRAM_BYTES_MAX, "a reply is one datagram");
        let before = self.written.last().map_or(0, |last| last.range.end);
        assert!(before == range.start, "replies lie in the lease one behind the other");
        if let Some(last) = self.written.last_mut()
            && (last.arrival, last.size) == (arrival, size)
            && last.range.len() + size <= DATAGRAM_BYTES_MAX.min(size * TRAIN_DATAGRAMS_MAX)
        {
            last.range.end = range.end;
            return;
        }
        self.written.push(Written { arrival, range, size });
    }
}

const MARK_BYTES: usize = 4;
/// Bytes of a success without results, and the mark of such a record.
const NULL_BYTES: usize = success_head(0).len();
const NULL_MARK: [u8; MARK_BYTES] = (1 << 31 | NULL_BYTES as u32).to_be_bytes();

/// A failure of the service, as a reply.
pub(crate) fn system_error(xid: u32) -> Reply<'static> {
    let verdict = rpc::Verdict::Accepted { verifier: rpc::Auth::NONE, outcome: rpc::Acceptance::SystemError };
    Reply { xid, verdict }
}

/// The head of a success and its results.
pub(crate) fn success(writer: &mut Writer<'_>, xid: u32, results: &impl Encode) -> Result<(), Error> {
    writer.put(&success_head(xid))?;
    results.encode(writer)
}

/// Writes a message behind what a lease holds, over connections behind its mark; returns how many bytes that is.
#[inline]
pub(crate) fn write_into(
    lease: &mut Lease,
    is_stream: bool,
    following: usize,
    content: &impl Fn(&mut Writer<'_>) -> Result<(), Error>,
) -> Result<usize, Error> {
    let mut writer = Writer::new(lease.spare());
    match is_stream {
        true => write_record(&mut writer, following, content)?,
        false => content(&mut writer)?,
    }
    let bytes = writer.len();
    lease.advance(bytes);
    Ok(bytes)
}

/// Writes a message into a lease that is large enough for it.
pub(crate) fn compose(
    cx: &mut Cx<'_, impl Talk>,
    is_stream: bool,
    following: usize,
    content: &impl Fn(&mut Writer<'_>) -> Result<(), Error>,
) -> Result<(Lease, usize), Error> {
    let mut capacity = LEASE_BYTES.end;
    loop {
        let mut lease = cx.lease(capacity).map_err(|_| Error::Service)?;
        match write_into(&mut lease, is_stream, following, content) {
            Ok(bytes) => return Ok((lease, bytes)),
            Err(Error::NoRoom { .. }) if capacity < LEASE_BYTES_MAX => capacity *= 4,
            Err(error) => return Err(error),
        }
    }
}
