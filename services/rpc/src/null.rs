//! A program of which only procedure 0 is served: what load and connection are measured with.

use crate::call::{Answered, Call};
use crate::error::Unanswered;
use crate::program::Program;
use corelane::{Cx, Talk};
use corelane_wire::rpc;

/// NFS in versions 3 and 4 (RFC 1813, RFC 7530), of which [`Null`] serves procedure 0.
pub const NFS: rpc::Program = rpc::Program { number: 100_003, low: 3, high: 4 };

/// The NULL procedure of NFS; every other one is unavailable.
pub struct Null;

impl<T: Talk> Program<T> for Null {
    const PROGRAM: rpc::Program = NFS;

    fn call(&mut self, _cx: &mut Cx<'_, T>, call: Call<'_>) -> Result<Answered, Unanswered> {
        Err(call.procedure_unavailable())
    }
}
