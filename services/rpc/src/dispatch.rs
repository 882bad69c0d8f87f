//! From a message to what is owed for it: the same over connections and datagrams.

use crate::call::{Call, CallSource};
use crate::counters::RpcCounter;
use crate::desk::{RESERVE_BYTES, To, WrittenReplies};
use crate::duplicates::{DUPLICATES_MAX, Duplicates, Key, KnownCall, Memo};
use crate::error::Unanswered;
use crate::held::{HELD_MAX, HeldCalls};
use crate::program::Programs;
use corelane::{Address, Cx, Talk};
use corelane_wire::rpc::{self, NULL, Owed, Refusal, Reply};
use corelane_wire::xdr::{Encode, Writer};
use std::marker::PhantomData;

/// What became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Served {
    /// It is answered, held, or dropped.
    Done,
    /// Nothing was done, and no program called: there is no room. It is to be offered again.
    Wait,
    /// What follows it cannot be trusted.
    Close,
}

/// The programs of a service, and what their calls need.
pub(crate) struct Dispatcher<P, T> {
    pub(crate) programs: P,
    talk: PhantomData<T>,
    pub(crate) desk: WrittenReplies,
    pub(crate) duplicates: Duplicates,
    pub(crate) room: HeldCalls,
}

impl<T: Talk, P: Programs<T>> Dispatcher<P, T> {
    pub(crate) fn new(programs: P) -> Self {
        let (duplicates, room) = (Duplicates::new(DUPLICATES_MAX), HeldCalls::new(HELD_MAX));
        Self { programs, talk: PhantomData, desk: WrittenReplies::new(), duplicates, room }
    }

    /// Instead of [`HELD_MAX`].
    pub(crate) fn hold_at_most(&mut self, calls: u32) {
        self.room = HeldCalls::new(calls);
    }

    /// Instead of [`DUPLICATES_MAX`]; at least 1.
    pub(crate) fn remember_at_most(&mut self, calls: usize) {
        self.duplicates = Duplicates::new(calls.max(1));
    }

    /// Serves one message of `peer`.
    #[inline]
    pub(crate) fn serve(
        &mut self,
        cx: &mut Cx<'_, T>,
        message: &[u8],
        source: CallSource<'_>,
        peer: &Address,
        mut to: To<'_>,
    ) -> Served {
        if !self.desk.prepare(cx, &mut to) {
            return Served::Wait;
        }
        let served = match rpc::Call::parse(message) {
            Ok(message) if message.procedure == NULL => self.answer_null(&message, &mut to),
            Ok(_) if !to.may_hold(cx) => return Served::Wait,
            Ok(message) => self.carry_out(cx, &message, source, peer, &mut to),
            Err(refusal) => Err(refusal.into()),
        };
        match served {
            Ok(()) => Served::Done,
            Err(Unanswered::Refused(refusal)) => self.refuse(cx, &mut to, &refusal, message.len()),
        }
    }

    /// Answers procedure 0, which needs no program.
    #[inline]
    fn answer_null(&mut self, message: &rpc::Call<'_>, to: &mut To<'_>) -> Result<(), Unanswered> {
        message.identity()?;
        self.programs.admit(message)?;
        self.desk.answer_null(to, message.xid);
        Ok(())
    }

    // Apart from the above, whose way is short: this one moves identities and calls about.
    #[inline(never)]
    fn carry_out<'c>(
        &mut self,
        cx: &mut Cx<'_, T>,
        message: &rpc::Call<'c>,
        source: CallSource<'c>,
        peer: &'c Address,
        to: &mut To<'_>,
    ) -> Result<(), Unanswered> {
        let identity = message.identity()?;
        self.programs.admit(message)?;
        let memo = match self.answer_if_repeated(cx, message, peer, to) {
            Repeated::No(memo) => memo,
            Repeated::Yes => return Ok(()),
        };
        let Self { programs, desk, room, .. } = self;
        let call = Call { message: *message, identity, peer, source, desk, to: to.reborrow(), memo, room };
        let called = programs.call(cx, call).map(drop);
        match (called, self.desk.take_owed()) {
            // It could not be held: that is remembered as its answer.
            (Err(_), Some(memo)) => {
                self.desk.fail(cx, to, message.xid, Some(memo));
                Ok(())
            }
            (called, _) => called,
        }
    }

    /// Looks up a call that must be carried out once: one that was is answered as then, and one in progress is dropped.
    fn answer_if_repeated(&mut self, cx: &mut Cx<'_, T>, message: &rpc::Call<'_>, peer: &Address, to: &mut To<'_>) -> Repeated {
        // Without a name two callers of one user look the same, and what one was answered is not the other's.
        let is_nobody = peer.unix().is_some_and(|unix| unix.name().is_empty());
        if is_nobody || !self.programs.is_once_only(message) {
            return Repeated::No(None);
        }
        match self.duplicates.look(Key::of(message, peer), cx.now()) {
            KnownCall::New(memo) => return Repeated::No(Some(memo)),
            KnownCall::Full => {
                cx.count(RpcCounter::DuplicatesMaxHits, 1);
                return Repeated::No(None);
            }
            KnownCall::InProgress => cx.count(RpcCounter::RequestsDropped, 1),
            KnownCall::Answered(reply) => {
                cx.count(RpcCounter::DuplicatesFound, 1);
                self.desk.repeat(cx, to, &reply);
            }
        }
        Repeated::Yes
    }

    #[cold]
    fn refuse(&mut self, cx: &mut Cx<'_, T>, to: &mut To<'_>, refusal: &Refusal, asked_bytes: usize) -> Served {
        let (counter, served) = match &refusal.owed {
            // Its sender may be forged: nobody is sent more than was sent in its name.
            Owed::Answer(reply) if !to.is_stream() && encoded_bytes(reply) > asked_bytes => {
                (RpcCounter::RequestsDropped, Served::Done)
            }
            Owed::Answer(reply) => {
                self.desk.reply(cx, to, reply);
                (RpcCounter::RequestsRefused, Served::Done)
            }
            Owed::Drop => (RpcCounter::RequestsDropped, Served::Done),
            Owed::Close => (RpcCounter::ProtocolErrors, Served::Close),
        };
        cx.count(counter, 1);
        served
    }
}

enum Repeated {
    No(Option<Memo>),
    Yes,
}

/// Bytes of a refusal, which is short.
fn encoded_bytes(reply: &Reply<'_>) -> usize {
    let mut memory = [0; RESERVE_BYTES];
    let mut writer = Writer::new(&mut memory);
    reply.encode(&mut writer).map_or(usize::MAX, |()| writer.len())
}
