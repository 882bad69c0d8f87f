//! A server of RPC calls that answers rightly, or as it is told to.

use corelane::service::{Cx, DatagramService, Datagrams, Input, Next, Output, Peer, Replies, Silent, StreamService};
use corelane_wire::rpc::{
    Acceptance, Auth, AuthStatus, Call, Denial, Flavour, RecordLimits, Records, Reply, Step, Verdict, write_record, write_split,
};
use corelane_wire::xdr::{Encode, Opaque, Writer};
use std::cell::Cell;
use std::collections::VecDeque;
use std::rc::Rc;

/// How calls are answered.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Answers {
    Right,
    /// In fragments.
    InFragments,
    /// Those that come together in the opposite order.
    Reversed,
    Twice,
    WrongNumber,
    /// With the call itself.
    Call,
    ProgramUnavailable,
    OtherVersions,
    ProcedureUnavailable,
    GarbageArguments,
    SystemError,
    OtherRpcVersion,
    NotAuthenticated,
    /// With a verifier that proves something.
    Sealed,
    /// With the reply but for its last word.
    Cut,
    /// With one byte of the results, or the last of the head, changed.
    Changed,
    /// With a word too much.
    Longer,
    Nonsense,
    /// With a record that has no end.
    Endless,
    Never,
}

/// What came.
#[derive(Default)]
pub struct Seen {
    pub calls: Cell<u64>,
    /// Calls of the stream of bytes and how many receives they took.
    pub receives: Cell<u64>,
    pub records_joined: Cell<u64>,
}

#[derive(Clone)]
pub struct Server {
    pub answers: Answers,
    pub seen: Rc<Seen>,
}

fn encoded(value: &impl Encode) -> Vec<u8> {
    let mut memory = vec![0; 1 << 16];
    let mut writer = Writer::new(&mut memory);
    value.encode(&mut writer).unwrap();
    writer.written().to_vec()
}

fn accepted(xid: u32, outcome: Acceptance<'_>) -> Vec<u8> {
    encoded(&Reply { xid, verdict: Verdict::Accepted { verifier: Auth::NONE, outcome } })
}

fn denied(xid: u32, denial: Denial) -> Vec<u8> {
    encoded(&Reply { xid, verdict: Verdict::Denied(denial) })
}

impl Server {
    /// The messages that a call is answered with.
    fn replies(&self, message: &[u8]) -> Vec<Vec<u8>> {
        self.seen.calls.set(self.seen.calls.get() + 1);
        let call = Call::parse(message).expect("the generator makes calls");
        let right = accepted(call.xid, Acceptance::Success(call.arguments));
        let failed = |outcome| vec![accepted(call.xid, outcome)];
        match self.answers {
            Answers::Right | Answers::InFragments | Answers::Reversed | Answers::Endless => vec![right],
            Answers::Twice => vec![right.clone(), right],
            Answers::WrongNumber => vec![accepted(call.xid.wrapping_add(1 << 30), Acceptance::Success(call.arguments))],
            Answers::Call => vec![message.to_vec()],
            Answers::ProgramUnavailable => failed(Acceptance::ProgramUnavailable),
            Answers::OtherVersions => failed(Acceptance::ProgramMismatch { low: 7, high: 9 }),
            Answers::ProcedureUnavailable => failed(Acceptance::ProcedureUnavailable),
            Answers::GarbageArguments => failed(Acceptance::GarbageArguments),
            Answers::SystemError => failed(Acceptance::SystemError),
            Answers::OtherRpcVersion => vec![denied(call.xid, Denial::RpcMismatch { low: 3, high: 4 })],
            Answers::NotAuthenticated => vec![denied(call.xid, Denial::Authentication(AuthStatus::TooWeak))],
            Answers::Sealed => {
                let verifier = Auth { flavour: Flavour::SHORT, body: Opaque::new(&[1, 2, 3, 4]).unwrap() };
                let outcome = Acceptance::Success(call.arguments);
                vec![encoded(&Reply { xid: call.xid, verdict: Verdict::Accepted { verifier, outcome } })]
            }
            Answers::Cut => vec![right[..right.len() - 4].to_vec()],
            Answers::Changed => {
                let mut wrong = right;
                // The last byte may be padding, the first of the last word is not.
                let at = wrong.len() - 4;
                wrong[at] ^= 1;
                vec![wrong]
            }
            Answers::Longer => vec![[right, vec![0; 4]].concat()],
            Answers::Nonsense => vec![vec![0xff; right.len()]],
            Answers::Never => Vec::new(),
        }
    }

    fn marked(&self, message: &[u8]) -> Vec<u8> {
        let mut memory = vec![0; message.len() + 64];
        let mut writer = Writer::new(&mut memory);
        match self.answers {
            Answers::InFragments => write_split(&mut writer, message, &[1, 5, 5, 23]).unwrap(),
            _ => write_record(&mut writer, 0, |to| to.put(message)).unwrap(),
        }
        let mut record = writer.written().to_vec();
        if self.answers == Answers::Endless {
            record[..4].copy_from_slice(&0x7fff_ffff_u32.to_be_bytes());
        }
        record
    }
}

/// A connection: its records, and the fragments of the one that is not complete.
pub struct Session {
    records: Records,
    joined: Vec<u8>,
    /// Answers for which there was no memory yet: with some, the service is called again.
    owed: VecDeque<Vec<u8>>,
}

impl StreamService for Server {
    type Talk = Silent;
    type Session = Session;

    fn open(&mut self, _cx: &mut Cx<'_>, _peer: &Peer) -> Session {
        Session {
            records: Records::new(RecordLimits { bytes: 1 << 20, fragments: 2_000 }),
            joined: Vec::new(),
            owed: VecDeque::new(),
        }
    }

    fn receive(&mut self, _cx: &mut Cx<'_>, session: &mut Session, input: &mut Input, output: &mut Output) -> Next {
        self.seen.receives.set(self.seen.receives.get() + 1);
        let bytes = input.len();
        // Without memory they stay where they are, and the service is called again.
        let Some(all) = (if bytes == 0 { Some(Vec::new()) } else { input.contiguous(bytes).map(<[u8]>::to_vec) }) else {
            return Next::Continue;
        };
        let (mut rest, mut replies) = (&all[..], Vec::new());
        loop {
            match session.records.next(rest).unwrap() {
                Step::Record(range) => {
                    replies.extend(self.replies(&rest[range.clone()]));
                    rest = &rest[range.end..];
                }
                Step::Join { fragment, is_last } => {
                    session.joined.extend(&rest[fragment.clone()]);
                    rest = &rest[fragment.end..];
                    if is_last {
                        self.seen.records_joined.set(self.seen.records_joined.get() + 1);
                        replies.extend(self.replies(&std::mem::take(&mut session.joined)));
                    }
                }
                Step::More { .. } => break,
            }
        }
        input.skip(bytes - rest.len());
        if self.answers == Answers::Reversed {
            replies.reverse();
        }
        session.owed.extend(replies.iter().map(|reply| self.marked(reply)));
        while let Some(owed) = session.owed.front()
            && output.write(owed).is_ok()
        {
            session.owed.pop_front();
        }
        Next::Continue
    }
}

impl DatagramService for Server {
    type Talk = Silent;
    fn receive(&mut self, cx: &mut Cx<'_>, batch: &Datagrams, replies: &mut Replies) {
        for arrival in batch.arrivals() {
            for call in batch.payload(arrival).chunks(arrival.datagram_bytes.max(1) as usize) {
                for reply in self.replies(call) {
                    let Ok(mut lease) = cx.lease(reply.len().max(1)) else { continue };
                    lease.append(&reply);
                    let _ = replies.send(arrival.peer.clone(), None, lease.share());
                }
            }
        }
    }
}
