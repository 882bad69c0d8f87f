//! Calls over a connection.

use super::{CallError, Scratch, encode, results};
use corelane::{Input, Instant, Next, Output};
use corelane_wire::rpc::{CallCounts, CallHead, Calls, Overdue, Patience, RecordLimits, Records, Step, write_record};
use corelane_wire::xdr::Encode;
use std::time::Duration;

/// Most fragments of a reply.
const FRAGMENTS_MAX: u32 = 512;

/// The calls under way on one connection, each with a `T` of the caller's.
pub struct StreamClient<T> {
    calls: Calls<T>,
    limit: u32,
    records: Records,
    /// Fragments of the reply that is not complete.
    joined: Vec<u8>,
    scratch: Scratch,
}

impl<T> StreamClient<T> {
    /// A client with `limit` calls at once at the most ([`CALLS_MAX`](corelane_wire::rpc::CALLS_MAX)), each call and each reply of at most
    /// `record_bytes`. Calls are numbered from `first` on.
    pub fn new(limit: u32, record_bytes: u32, first: u32) -> Self {
        Self {
            calls: Calls::new(limit, first),
            limit,
            records: Records::new(RecordLimits { bytes: record_bytes, fragments: FRAGMENTS_MAX }),
            joined: Vec::new(),
            // With the record's mark.
            scratch: Scratch::new((record_bytes as usize).saturating_add(4)),
        }
    }

    /// Writes a call into the connection's output, and gives its number. It is given up `timeout` after `now`
    /// ([`StreamClient::overdue`]). The number in `what` is not looked at.
    ///
    /// # Errors
    /// [`CallError::Full`], [`CallError::NoMemory`] or [`CallError::Arguments`], with what came with the call; nothing was written.
    pub fn call(
        &mut self,
        now: Instant,
        output: &mut Output,
        what: &CallHead<'_>,
        arguments: &impl Encode,
        timeout: Duration,
        with: T,
    ) -> Result<u32, (CallError, T)> {
        let xid = self.calls.begin(now.nanoseconds(), Patience::stream(timeout), with);
        let xid = xid.map_err(|with| (CallError::Full { limit: self.limit }, with))?;
        let record = self.scratch.write(|to| write_record(to, 0, |to| encode(to, xid, what, arguments)));
        let written = record.and_then(|record| output.write(record).map_err(|_| CallError::NoMemory));
        match written {
            Ok(()) => Ok(xid),
            // reason: it was begun above, and nobody has taken it since.
            Err(error) => Err((error, self.calls.take_back(xid).expect("a call that was begun is under way"))),
        }
    }

    /// Takes the replies that have arrived, and hands the results of each to `each`, with what came with its call. Replies to calls that are
    /// over are counted, and dropped.
    ///
    /// # Errors
    /// [`CallError::Unreadable`]: what follows cannot be trusted, so break the connection off.
    pub fn receive(&mut self, input: &mut Input, mut each: impl FnMut(T, Result<&[u8], CallError>)) -> Result<Next, CallError> {
        while !input.is_empty() {
            let (taken, missing) = self.take(input.first(), &mut each).map_err(CallError::Unreadable)?;
            assert!(taken <= input.first().len(), "what is taken was there");
            let there = input.first().len() - taken;
            input.skip(taken);
            // A reply that straddles is joined once it is there; without memory for that, the service is called again when there is some.
            if there + missing > input.len() {
                return Ok(Next::Need(there + missing - input.len()));
            }
            if input.contiguous(there + missing).is_none() {
                break;
            }
        }
        Ok(Next::Continue)
    }

    /// Takes the replies that are whole in `bytes`: how many bytes those are, and how many are missing of the next one.
    fn take(
        &mut self,
        bytes: &[u8],
        each: &mut impl FnMut(T, Result<&[u8], CallError>),
    ) -> Result<(usize, usize), corelane_wire::Error> {
        let mut at = 0;
        loop {
            match self.records.next(&bytes[at..])? {
                Step::Record(range) => {
                    assert!(self.joined.is_empty(), "a reply in fragments is joined before the next one begins");
                    self.answer(&bytes[at..][range.clone()], each)?;
                    at += range.end;
                }
                Step::Join { fragment, is_last } => {
                    self.joined.extend(&bytes[at..][fragment.clone()]);
                    at += fragment.end;
                    if is_last {
                        let reply = std::mem::take(&mut self.joined);
                        self.answer(&reply, each)?;
                    }
                }
                Step::More { missing, .. } => return Ok((at, missing)),
            }
        }
    }

    fn answer(&mut self, reply: &[u8], each: &mut impl FnMut(T, Result<&[u8], CallError>)) -> Result<(), corelane_wire::Error> {
        let (xid, results) = results(reply)?;
        if let Some(with) = self.calls.answered(xid) {
            each(with, results);
        }
        Ok(())
    }

    /// When the next call is overdue: start a timer of the connection for then ([`Cx::start_timer`](corelane::Cx::start_timer)).
    pub fn next_due(&self) -> Option<Instant> {
        self.calls.next_due().map(Instant::from_nanoseconds)
    }

    /// What came with a call that is overdue at `now`, and given up with this; to be asked until there is none.
    pub fn overdue(&mut self, now: Instant) -> Option<T> {
        match self.calls.overdue(now.nanoseconds())? {
            Overdue::GivenUp(_, with) => Some(with),
            // Over a stream nothing is sent twice.
            Overdue::Again(..) => None,
        }
    }

    /// What came with all calls under way, which are given up: the connection has ended.
    pub fn lost(&mut self) -> impl Iterator<Item = T> + '_ {
        self.joined.clear();
        self.calls.drop_all()
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
}
