//! A program that returns what it is given: for tests of payloads.

use crate::call::{Answered, Call};
use crate::error::Unanswered;
use crate::program::Program;
use corelane::{Cx, Talk};
use corelane_wire::rpc;
use corelane_wire::xdr::Opaque;

/// The echo program: a number that RFC 5531 section 8.3 leaves to users.
pub const ECHO: rpc::Program = rpc::Program { number: 0x2000_0007, low: 1, high: 1 };

/// Most bytes that a call of [`ECHO`] may carry.
pub const PAYLOAD_BYTES_MAX: u32 = 1 << 20;

/// The procedure: `opaque<>` to the same `opaque<>`.
const PAYLOAD: u32 = 1;

/// From so many bytes on, the payload leaves where it lies: less is cheaper to copy than to send as a segment of its own.
const FORWARD_BYTES: usize = 4096;

/// Procedure 1 returns the opaque data that it is given.
pub struct Echo;

impl<T: Talk> Program<T> for Echo {
    const PROGRAM: rpc::Program = ECHO;

    fn call(&mut self, cx: &mut Cx<'_, T>, call: Call<'_>) -> Result<Answered, Unanswered> {
        if call.procedure() != PAYLOAD {
            return Err(call.procedure_unavailable());
        }
        let payload: Opaque<'_, PAYLOAD_BYTES_MAX> = call.arguments()?;
        let bytes = payload.bytes();
        match call.keep(bytes) {
            Some(kept) if bytes.len() >= FORWARD_BYTES => Ok(call.answer_with_data(cx, &(bytes.len() as u32), kept)),
            _ => Ok(call.answer(cx, &payload)),
        }
    }
}
