//! One call, as a program sees it.

use crate::counters::RpcCounter;
use crate::desk::{To, WrittenReplies};
use crate::duplicates::Memo;
use crate::error::Unanswered;
use crate::held::{Held, HeldCalls};
use corelane::service::{Arrival, PeerKey, Segment, Shared, Talk};
use corelane::{Address, Cx, Datagrams, Input};
use corelane_wire::rpc::{self, Identity, Refusal};
use corelane_wire::xdr::{Decode, Encode};

/// What lies around a message, for parts of it to be kept.
#[derive(Clone, Copy)]
pub(crate) enum CallSource<'c> {
    /// The front of an input.
    Input(&'c Input),
    /// Memory of its own.
    Own(&'c Shared),
    /// A batch.
    Datagram(&'c Datagrams, &'c Arrival),
}

impl CallSource<'_> {
    /// A view of `data` that can be kept, if it lies in here.
    fn keep(&self, data: &[u8]) -> Option<Shared> {
        let around: &[u8] = match self {
            Self::Input(input) => input.first(),
            Self::Own(own) => own,
            Self::Datagram(batch, arrival) => batch.payload(arrival),
        };
        let start = data.as_ptr().addr().checked_sub(around.as_ptr().addr())?;
        let range = start..start.checked_add(data.len()).filter(|&end| end <= around.len())?;
        match self {
            Self::Input(input) => input.shared(range),
            Self::Own(own) => Some(own.slice(range)),
            Self::Datagram(batch, arrival) => match batch.share(arrival) {
                Segment::Shared(shared) => Some(shared.slice(range)),
                _ => None,
            },
        }
    }
}

/// Proves that a call was answered, or is held to be answered later.
#[derive(Debug)]
pub struct Answered(());

/// A call: its arguments, and the right to answer it once. Answers of a connection leave in one send, in any order.
pub struct Call<'c> {
    pub(crate) message: rpc::Call<'c>,
    pub(crate) identity: Identity<'c>,
    pub(crate) peer: &'c Address,
    pub(crate) source: CallSource<'c>,
    pub(crate) desk: &'c mut WrittenReplies,
    pub(crate) to: To<'c>,
    pub(crate) memo: Option<Memo>,
    pub(crate) room: &'c HeldCalls,
}

impl<'c> Call<'c> {
    /// The number of the program.
    pub fn program(&self) -> u32 {
        self.message.program
    }

    /// The version of the program.
    pub fn version(&self) -> u32 {
        self.message.version
    }

    /// The number of the procedure.
    pub fn procedure(&self) -> u32 {
        self.message.procedure
    }

    /// The number by which the caller knows the reply.
    pub fn xid(&self) -> u32 {
        self.message.xid
    }

    /// Who calls, as the credential says.
    pub fn identity(&self) -> Identity<'c> {
        self.identity
    }

    /// The address that the call came from.
    pub fn peer(&self) -> &'c Address {
        self.peer
    }

    /// The arguments as a value, whose opaque parts are views. Bytes after it are passed over.
    ///
    /// # Errors
    /// `GARBAGE_ARGS` is owed.
    pub fn arguments<T: Decode<'c>>(&self) -> Result<T, Refusal> {
        self.message.arguments()
    }

    /// A part of the arguments as a lease, to be kept or written to a file without copying. None only for bytes that are not of
    /// this call.
    ///
    /// It keeps the whole block in use that it lies in, so copy what is short and lives long.
    pub fn keep(&self, part: &'c [u8]) -> Option<Shared> {
        self.source.keep(part)
    }

    /// Carries out a procedure that answers at once: typed arguments in, typed results out, which may be views of the arguments.
    ///
    /// # Errors
    /// `GARBAGE_ARGS` is owed, and the procedure was not called.
    pub fn serve<A: Decode<'c>, R: Encode>(
        self,
        cx: &mut Cx<'_, impl Talk>,
        procedure: impl FnOnce(A) -> R,
    ) -> Result<Answered, Unanswered> {
        let results = procedure(self.arguments()?);
        Ok(self.answer(cx, &results))
    }

    /// Answers with `results`. If they cannot be written, for their length or because the lane's memory is used up,
    /// `SYSTEM_ERR` is sent instead.
    pub fn answer(self, cx: &mut Cx<'_, impl Talk>, results: &impl Encode) -> Answered {
        let Self { message, desk, mut to, memo, .. } = self;
        desk.answer(cx, &mut to, message.xid, results, memo);
        Answered(())
    }

    /// Answers with results that end in opaque data, which goes as it is: a lease, or a part of a file. `head` is what stands
    /// before the data, its length included; padding is added. Over datagrams the data is copied, and data in a file is
    /// refused with `SYSTEM_ERR`.
    pub fn answer_with_data(self, cx: &mut Cx<'_, impl Talk>, head: &impl Encode, data: impl Into<Segment>) -> Answered {
        let Self { message, desk, mut to, memo, .. } = self;
        desk.answer_with_data(cx, &mut to, message.xid, (head, data.into()), memo);
        Answered(())
    }

    /// Takes the right, and the duty, to answer later: with [`Held::answer`], from wherever the lane calls the program.
    ///
    /// # Errors
    /// `SYSTEM_ERR` is owed at the peer's share of the lane's bound, [`HELD_MAX`](crate::HELD_MAX), and where the lane lends no memory for the refusal that a held call keeps: so hold a call before anything
    /// is done for it. At the bound of calls in flight of the connection (`requests_in_flight_max`) no program is called.
    pub fn hold(self, cx: &mut Cx<'_, impl Talk>) -> Result<(Held, Answered), Unanswered> {
        let Self { message, desk, to, memo, room, peer, .. } = self;
        let held = match room.take(PeerKey::of(peer), &to) {
            Some(seat) => Held::new(cx, message.xid, to, memo, seat),
            None => {
                cx.count(RpcCounter::RequestsHeldMaxHits, 1);
                Err(memo)
            }
        };
        held.map(|held| (held, Answered(()))).map_err(|memo| {
            // Its program may have carried it out: what it is answered is its answer from now on.
            desk.owe(memo);
            message.system_error().into()
        })
    }

    /// `PROC_UNAVAIL` is owed: the program has no such procedure.
    pub fn procedure_unavailable(&self) -> Unanswered {
        self.message.procedure_unavailable().into()
    }

    /// `SYSTEM_ERR` is owed: the call cannot be carried out, and the program has no better word for it.
    pub fn system_error(&self) -> Unanswered {
        self.message.system_error().into()
    }
}
