//! Which calls a program that is served admits.

use super::refusal::Refusal;
use super::{Acceptance, Call};
use crate::Error;

/// A program that is served, in a range of versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Program {
    /// Its number.
    pub number: u32,
    /// The lowest version served.
    pub low: u32,
    /// The highest version served.
    pub high: u32,
}

impl Program {
    /// Checks that a call is for this program and one of these versions.
    ///
    /// # Errors
    /// `PROG_UNAVAIL` or `PROG_MISMATCH` is owed (RFC 5531 section 9).
    #[inline]
    pub fn admit(&self, call: &Call<'_>) -> Result<(), Refusal> {
        let Self { number, low, high } = *self;
        if call.program != number {
            let error = Error::Program { expected: number, got: call.program };
            return Err(call.refuse(error, Acceptance::ProgramUnavailable));
        }
        if !(low..=high).contains(&call.version) {
            let error = Error::Version { low, high, got: call.version };
            return Err(call.refuse(error, Acceptance::ProgramMismatch { low, high }));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rpc::{Auth, Owed, Reply, Verdict};

    const NFS: Program = Program { number: 100_003, low: 3, high: 4 };

    fn outcome(program: u32, version: u32) -> Option<Acceptance<'static>> {
        let (credential, verifier) = (Auth::NONE, Auth::NONE);
        let call = Call { xid: 7, program, version, procedure: 0, credential, verifier, arguments: &[] };
        match NFS.admit(&call).err()?.owed {
            Owed::Answer(Reply { xid: 7, verdict: Verdict::Accepted { outcome, .. } }) => Some(outcome),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn programs_and_versions_are_admitted_by_number() {
        assert_eq!((outcome(100_003, 3), outcome(100_003, 4)), (None, None));
        assert_eq!(outcome(100_003, 2), Some(Acceptance::ProgramMismatch { low: 3, high: 4 }));
        assert_eq!(outcome(100_003, 5), Some(Acceptance::ProgramMismatch { low: 3, high: 4 }));
        assert_eq!(outcome(100_004, 3), Some(Acceptance::ProgramUnavailable));
    }
}
