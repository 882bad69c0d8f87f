//! Replies (RFC 5531 section 9, `reply_body`).

use super::{Auth, AuthStatus, CALL, REPLY};
use crate::Error;
use crate::xdr::{Decode, Encode, Reader, Writer};

/// Bytes of an accepted reply before its results, with an empty verifier: six words.
const HEAD_BYTES: usize = 24;

/// `reply_stat`.
const MSG_ACCEPTED: u32 = 0;
const MSG_DENIED: u32 = 1;

/// `accept_stat`.
const SUCCESS: u32 = 0;
const PROG_UNAVAIL: u32 = 1;
const PROG_MISMATCH: u32 = 2;
const PROC_UNAVAIL: u32 = 3;
const GARBAGE_ARGS: u32 = 4;
const SYSTEM_ERR: u32 = 5;

/// `reject_stat`.
const RPC_MISMATCH: u32 = 0;
const AUTH_ERROR: u32 = 1;

/// A reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply<'a> {
    /// Number of the call.
    pub xid: u32,
    /// What became of it.
    pub verdict: Verdict<'a>,
}

/// Whether a call was accepted (`reply_stat`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict<'a> {
    /// MSG_ACCEPTED.
    Accepted {
        /// What proves who answers; AUTH_NONE except under RPCSEC_GSS and AUTH_SHORT.
        verifier: Auth<'a>,
        /// How the call went.
        outcome: Acceptance<'a>,
    },
    /// MSG_DENIED.
    Denied(Denial),
}

/// How an accepted call went (`accept_stat`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acceptance<'a> {
    /// SUCCESS: the results, encoded.
    Success(&'a [u8]),
    /// PROG_UNAVAIL: the program is not served.
    ProgramUnavailable,
    /// PROG_MISMATCH: the version is not served.
    ProgramMismatch {
        /// The lowest version that is.
        low: u32,
        /// The highest version that is.
        high: u32,
    },
    /// PROC_UNAVAIL: the program has no such procedure.
    ProcedureUnavailable,
    /// GARBAGE_ARGS: the arguments cannot be read.
    GarbageArguments,
    /// SYSTEM_ERR: the server failed.
    SystemError,
}

/// Why a call was denied (`reject_stat`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denial {
    /// RPC_MISMATCH: the version of RPC is not served.
    RpcMismatch {
        /// The lowest version that is.
        low: u32,
        /// The highest version that is.
        high: u32,
    },
    /// AUTH_ERROR.
    Authentication(AuthStatus),
}

/// The head of a successful reply: the results follow it. For the void result of NULL it is the whole reply.
#[inline]
pub const fn success_head(xid: u32) -> [u8; HEAD_BYTES] {
    let mut head = [0; HEAD_BYTES];
    head.as_chunks_mut::<4>().0[0] = xid.to_be_bytes();
    head.as_chunks_mut::<4>().0[1] = REPLY.to_be_bytes();
    head
}

impl<'a> Reply<'a> {
    /// Reads a whole message, as a client does. The results of a success are a view of all that follows.
    ///
    /// # Errors
    /// [`Error::WrongDirection`] for a call; else those of reading. Bytes after a reply that has no results are passed over.
    pub fn parse(message: &'a [u8]) -> Result<Self, Error> {
        let mut reader = Reader::new(message);
        let (xid, kind) = (reader.u32()?, reader.u32()?);
        let verdict = match (kind, reader.u32()?) {
            (REPLY, MSG_ACCEPTED) => Verdict::Accepted { verifier: reader.read()?, outcome: Acceptance::decode(&mut reader)? },
            (REPLY, MSG_DENIED) => Verdict::Denied(reader.read()?),
            (REPLY, got) => return Err(Error::Unknown { what: "reply_stat", got }),
            (CALL, _) => return Err(Error::WrongDirection { expected: REPLY, got: CALL }),
            (got, _) => return Err(Error::Unknown { what: "msg_type", got }),
        };
        Ok(Self { xid, verdict })
    }
}

impl Encode for Reply<'_> {
    fn encode(&self, to: &mut Writer<'_>) -> Result<(), Error> {
        to.u32(self.xid)?;
        to.u32(REPLY)?;
        match self.verdict {
            Verdict::Accepted { verifier, outcome } => {
                to.u32(MSG_ACCEPTED)?;
                verifier.encode(to)?;
                outcome.encode(to)
            }
            Verdict::Denied(denial) => {
                to.u32(MSG_DENIED)?;
                denial.encode(to)
            }
        }
    }
}

impl<'a> Decode<'a> for Acceptance<'a> {
    fn decode(from: &mut Reader<'a>) -> Result<Self, Error> {
        Ok(match from.u32()? {
            SUCCESS => Self::Success(from.rest()),
            PROG_UNAVAIL => Self::ProgramUnavailable,
            PROG_MISMATCH => Self::ProgramMismatch { low: from.u32()?, high: from.u32()? },
            PROC_UNAVAIL => Self::ProcedureUnavailable,
            GARBAGE_ARGS => Self::GarbageArguments,
            SYSTEM_ERR => Self::SystemError,
            got => return Err(Error::Unknown { what: "accept_stat", got }),
        })
    }
}

impl Encode for Acceptance<'_> {
    fn encode(&self, to: &mut Writer<'_>) -> Result<(), Error> {
        match *self {
            Self::Success(results) => {
                to.u32(SUCCESS)?;
                to.put(results)
            }
            Self::ProgramUnavailable => to.u32(PROG_UNAVAIL),
            Self::ProgramMismatch { low, high } => write_range(to, PROG_MISMATCH, low, high),
            Self::ProcedureUnavailable => to.u32(PROC_UNAVAIL),
            Self::GarbageArguments => to.u32(GARBAGE_ARGS),
            Self::SystemError => to.u32(SYSTEM_ERR),
        }
    }
}

impl Decode<'_> for Denial {
    fn decode(from: &mut Reader<'_>) -> Result<Self, Error> {
        match from.u32()? {
            RPC_MISMATCH => Ok(Self::RpcMismatch { low: from.u32()?, high: from.u32()? }),
            AUTH_ERROR => from.read().map(Self::Authentication),
            got => Err(Error::Unknown { what: "reject_stat", got }),
        }
    }
}

impl Encode for Denial {
    fn encode(&self, to: &mut Writer<'_>) -> Result<(), Error> {
        match *self {
            Self::RpcMismatch { low, high } => write_range(to, RPC_MISMATCH, low, high),
            Self::Authentication(status) => {
                to.u32(AUTH_ERROR)?;
                status.encode(to)
            }
        }
    }
}

fn write_range(to: &mut Writer<'_>, status: u32, low: u32, high: u32) -> Result<(), Error> {
    [status, low, high].into_iter().try_for_each(|word| to.u32(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_and_results_are_a_reply() {
        let mut message = success_head(0xa1b2_c3d4).to_vec();
        message.extend([1, 2, 3, 4]);
        let outcome = Acceptance::Success(&[1, 2, 3, 4]);
        let reply = Reply { xid: 0xa1b2_c3d4, verdict: Verdict::Accepted { verifier: Auth::NONE, outcome } };
        assert_eq!(Reply::parse(&message), Ok(reply));
        let mut memory = [0; 28];
        let mut writer = Writer::new(&mut memory);
        reply.encode(&mut writer).unwrap();
        assert_eq!(writer.written(), message);
    }

    #[test]
    fn unknown_numbers_are_refused() {
        let parse = |words: &[u32]| Reply::parse(&words.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<_>>()).err();
        let unknown = |what, got| Some(Error::Unknown { what, got });
        assert_eq!(parse(&[1, 2, 0]), unknown("msg_type", 2));
        assert_eq!(parse(&[1, 1, 2]), unknown("reply_stat", 2));
        assert_eq!(parse(&[1, 1, 0, 0, 0, 6]), unknown("accept_stat", 6));
        assert_eq!(parse(&[1, 1, 1, 2]), unknown("reject_stat", 2));
        assert_eq!(parse(&[1, 1, 1, 1, 15]), unknown("auth_stat", 15));
        assert_eq!(parse(&[1, 0, 2]), Some(Error::WrongDirection { expected: 1, got: 0 }));
    }
}
