//! One call as bytes, and what a reply says of it.

use super::kinds::{DENIED, FAILED, UNAVAILABLE};
use super::numbers::Numbers;
use super::settings::{Caller, RpcSettings, procedure};
use crate::kinds::Kind;
use crate::pattern;
use crate::plan::Plan;
use corelane_wire::rpc::{Acceptance, Auth, AuthSys, BODY_BYTES_MAX, CallHead, MACHINE_NAME_BYTES_MAX, Reply, Verdict};
use corelane_wire::xdr::{Array, Encode, Opaque, Writer};

/// Calls whose payloads start so far apart that bytes of another one are wrong bytes.
const CALL_STRIDE: u64 = 17;

/// All calls of a run but for their numbers and payloads.
pub struct Message {
    /// The head, and the length of the payload if there is one.
    head: Vec<u8>,
    /// Bytes of the payload.
    size: usize,
}

/// What a reply says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said {
    /// This call is answered rightly.
    Answered(u64),
    /// This call is refused, or has failed.
    Failed(u64, Kind),
    /// It is no reply, answers no call that was made, or has other results than it should.
    Nonsense,
}

impl Message {
    /// Most bytes of a call beside its payload: the head, a credential and its length, the payload's length and padding.
    pub const FRAME_MAX: usize = 40 + BODY_BYTES_MAX as usize + 8;

    /// The calls of a plan.
    pub fn new(plan: &Plan) -> Self {
        let mut body = [0; BODY_BYTES_MAX as usize];
        let mut memory = [0; Self::FRAME_MAX];
        let settings = RpcSettings::in_plan(plan);
        let program = settings.program(plan.size);
        let head = CallHead {
            xid: 0,
            program: program.number,
            version: program.version,
            procedure: procedure(plan.size),
            credential: credential(&settings.caller, &mut body),
            verifier: Auth::NONE,
        };
        let mut writer = Writer::new(&mut memory);
        let written = head.encode(&mut writer).and_then(|()| if plan.size == 0 { Ok(()) } else { writer.u32(plan.size as u32) });
        debug_assert!(written.is_ok(), "the longest head fits");
        Self { head: writer.written().to_vec(), size: plan.size }
    }

    /// Bytes of a call.
    pub fn bytes(&self) -> usize {
        self.head.len() + self.size.next_multiple_of(4)
    }

    /// Most bytes of a reply that is right.
    pub fn reply_bytes(&self) -> usize {
        24 + if self.size == 0 { 0 } else { 4 + self.size.next_multiple_of(4) }
    }

    /// The head of a call, with the length of its payload, into `to`, which has its length.
    pub fn write_head(&self, numbers: &Numbers, number: u64, to: &mut [u8]) {
        to.copy_from_slice(&self.head);
        to[..4].copy_from_slice(&numbers.xids.of(number).to_be_bytes());
    }

    /// Bytes of that.
    pub fn head_bytes(&self) -> usize {
        self.head.len()
    }

    /// The payload of a call, piece by piece, with its padding.
    pub fn payload(&self, numbers: &Numbers, number: u64) -> impl Iterator<Item = &'static [u8]> {
        let (mut at, mut left) = (position(numbers, number), self.size);
        let pieces = std::iter::from_fn(move || {
            let piece = (left > 0).then(|| pattern::piece(at, left))?;
            (at, left) = (at.wrapping_add(piece.len() as u64), left - piece.len());
            Some(piece)
        });
        let padding: &'static [u8] = &[0; 3];
        pieces.chain((!self.size.is_multiple_of(4)).then(|| &padding[..4 - self.size % 4]))
    }

    /// Writes a call into `to`, which has its length.
    pub fn write(&self, numbers: &Numbers, number: u64, to: &mut [u8]) {
        let (head, mut rest) = to.split_at_mut(self.head.len());
        self.write_head(numbers, number, head);
        for piece in self.payload(numbers, number) {
            let (place, behind) = rest.split_at_mut(piece.len());
            place.copy_from_slice(piece);
            rest = behind;
        }
    }

    /// What `message` says.
    pub fn read(&self, numbers: &Numbers, message: &[u8]) -> Said {
        let Ok(reply) = Reply::parse(message) else { return Said::Nonsense };
        let Some(number) = numbers.xids.call(reply.xid, numbers.made) else { return Said::Nonsense };
        let outcome = match reply.verdict {
            Verdict::Denied(_) => return Said::Failed(number, DENIED),
            Verdict::Accepted { verifier, .. } if verifier != Auth::NONE => return Said::Nonsense,
            Verdict::Accepted { outcome, .. } => outcome,
        };
        match outcome {
            Acceptance::Success(results) if self.is_right(position(numbers, number), results) => Said::Answered(number),
            Acceptance::Success(_) => Said::Nonsense,
            Acceptance::GarbageArguments | Acceptance::SystemError => Said::Failed(number, FAILED),
            _ => Said::Failed(number, UNAVAILABLE),
        }
    }

    /// Whether these are the bytes that were sent; padding is not looked at (RFC 4506 section 3 has it zero, without a meaning).
    fn is_right(&self, position: u64, results: &[u8]) -> bool {
        if self.size == 0 {
            return results.is_empty();
        }
        let Some((length, data)) = results.split_first_chunk::<4>() else { return false };
        let is_as_long = u32::from_be_bytes(*length) as usize == self.size && data.len() == self.size.next_multiple_of(4);
        is_as_long && pattern::matches(position, &data[..self.size])
    }
}

fn position(numbers: &Numbers, number: u64) -> u64 {
    numbers.base.wrapping_add(number.wrapping_mul(CALL_STRIDE))
}

fn credential<'m>(caller: &Caller, memory: &'m mut [u8]) -> Auth<'m> {
    let Caller::User { machine, uid, gid } = caller else { return Auth::NONE };
    let name = &machine.as_bytes()[..machine.len().min(MACHINE_NAME_BYTES_MAX as usize)];
    let body = Opaque::new(name).and_then(|machine_name| {
        AuthSys { stamp: 0, machine_name, uid: *uid, gid: *gid, gids: Array::new(&[])? }.credential(memory)
    });
    // A name that was cut fits, and the memory is as long as the longest body.
    body.unwrap_or(Auth::NONE)
}
