//! Calls (RFC 5531 section 9, `call_body`).

use super::refusal::{Owed, Refusal};
use super::{Acceptance, Auth, AuthStatus, CALL, Denial, Flavour, Identity, REPLY, Reply, VERSION, Verdict};
use crate::Error;
use crate::xdr::{Decode, Encode, Opaque, Reader, Writer};

/// Bytes of a call without arguments whose credential and verifier have no bodies: ten words.
const HEAD_BYTES: usize = 40;

/// A call as its bytes say it: a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call<'a> {
    /// Number by which the caller knows the reply.
    pub xid: u32,
    /// Program.
    pub program: u32,
    /// Version of the program.
    pub version: u32,
    /// Procedure of the program.
    pub procedure: u32,
    /// Who calls; not looked into until [`Call::identity`] is asked.
    pub credential: Auth<'a>,
    /// What proves it.
    pub verifier: Auth<'a>,
    /// The arguments, encoded.
    pub arguments: &'a [u8],
}

impl<'a> Call<'a> {
    /// Reads the head of `message`, which need not be there with all its arguments.
    ///
    /// Calls without bodies in credential and verifier, all NULL calls among them, take one comparison of lengths.
    ///
    /// # Errors
    /// What is owed to the peer: see the table in [`rpc`](super).
    #[inline]
    pub fn parse(message: &'a [u8]) -> Result<Self, Refusal> {
        let Some((head, rest)) = message.split_first_chunk::<HEAD_BYTES>() else { return Err(too_short(message)) };
        let (words, _) = head.as_chunks::<4>();
        let word = |index: usize| u32::from_be_bytes(words[index]);
        if word(1) != CALL || word(2) != VERSION {
            return Err(not_a_call(word(0), word(1), word(2)));
        }
        let [xid, program, version, procedure] = [word(0), word(3), word(4), word(5)];
        let (credential, verifier, arguments) = if word(7) == 0 && word(9) == 0 {
            let empty = |flavour| Auth { flavour: Flavour(flavour), body: Opaque::EMPTY };
            (empty(word(6)), empty(word(8)), rest)
        } else {
            bodies(xid, &message[24..])?
        };
        Ok(Self { xid, program, version, procedure, credential, verifier, arguments })
    }

    /// Who calls. Services that treat all alike, and the NULL procedure, need not ask.
    ///
    /// # Errors
    /// The denial that is owed; RFC 5531 section 9, `AUTH_ERROR`.
    #[inline]
    pub fn identity(&self) -> Result<Identity<'a>, Refusal> {
        if self.credential.is_none() && self.verifier.is_none() {
            return Ok(Identity::Anonymous);
        }
        Identity::of(self.credential, self.verifier).map_err(|(flavour, status)| denied(self.xid, flavour, status))
    }

    /// The arguments as a value. Bytes after it are passed over.
    ///
    /// # Errors
    /// `GARBAGE_ARGS` is owed (RFC 5531 section 9).
    #[inline]
    pub fn arguments<T: Decode<'a>>(&self) -> Result<T, Refusal> {
        T::decode(&mut Reader::new(self.arguments)).map_err(|error| self.refuse(error, Acceptance::GarbageArguments))
    }

    /// `PROC_UNAVAIL` is owed: the program has no such procedure, or the service does not offer it.
    #[cold]
    pub fn procedure_unavailable(&self) -> Refusal {
        self.refuse(Error::Procedure { got: self.procedure }, Acceptance::ProcedureUnavailable)
    }

    /// `SYSTEM_ERR` is owed: the service cannot carry out the call, for example for want of memory.
    #[cold]
    pub fn system_error(&self) -> Refusal {
        self.refuse(Error::Service, Acceptance::SystemError)
    }

    #[cold]
    pub(super) fn refuse(&self, error: Error, outcome: Acceptance<'static>) -> Refusal {
        let verdict = Verdict::Accepted { verifier: Auth::NONE, outcome };
        Refusal { error, owed: Owed::Answer(Reply { xid: self.xid, verdict }) }
    }
}

/// What stands in a call before its arguments, for those who call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallHead<'a> {
    /// Number by which the reply is known.
    pub xid: u32,
    /// Program.
    pub program: u32,
    /// Version of the program.
    pub version: u32,
    /// Procedure of the program.
    pub procedure: u32,
    /// Who calls.
    pub credential: Auth<'a>,
    /// What proves it.
    pub verifier: Auth<'a>,
}

impl Encode for CallHead<'_> {
    fn encode(&self, to: &mut Writer<'_>) -> Result<(), Error> {
        for word in [self.xid, CALL, VERSION, self.program, self.version, self.procedure] {
            to.u32(word)?;
        }
        self.credential.encode(to)?;
        self.verifier.encode(to)
    }
}

type Bodies<'a> = (Auth<'a>, Auth<'a>, &'a [u8]);

/// Credential, verifier and what follows them.
fn bodies(xid: u32, bytes: &[u8]) -> Result<Bodies<'_>, Refusal> {
    let mut reader = Reader::new(bytes);
    let credential = auth(&mut reader, xid, AuthStatus::BadCredential)?;
    let verifier = auth(&mut reader, xid, AuthStatus::BadVerifier)?;
    Ok((credential, verifier, reader.rest()))
}

/// A credential or verifier; one that is too long is `bad`.
fn auth<'a>(reader: &mut Reader<'a>, xid: u32, bad: AuthStatus) -> Result<Auth<'a>, Refusal> {
    let start = *reader;
    reader.read().map_err(|error| match error {
        Error::TooLong { .. } => Refusal { error, ..denied(xid, Flavour(start.clone().u32().unwrap_or(0)), bad) },
        _ => Refusal { error, owed: Owed::Close },
    })
}

#[cold]
fn denied(xid: u32, flavour: Flavour, status: AuthStatus) -> Refusal {
    let error = Error::Authentication { flavour: flavour.0, status: status.number() };
    Refusal { error, owed: Owed::Answer(Reply { xid, verdict: Verdict::Denied(Denial::Authentication(status)) }) }
}

/// A message without room for the head of a call. It may be of another version, whose calls may be shorter.
#[cold]
fn too_short(message: &[u8]) -> Refusal {
    let truncated = Error::Truncated { expected: HEAD_BYTES, got: message.len() };
    let mut reader = Reader::new(message);
    let mut next = || reader.u32().ok();
    match (next(), next(), next()) {
        (Some(_), Some(CALL), Some(VERSION) | None) => {}
        (Some(xid), Some(CALL), Some(version)) => return not_a_call(xid, CALL, version),
        (Some(xid), Some(kind), _) => return not_a_call(xid, kind, VERSION),
        _ => {}
    }
    Refusal { error: truncated, owed: Owed::Close }
}

/// A message that is no call of version 2.
#[cold]
fn not_a_call(xid: u32, kind: u32, version: u32) -> Refusal {
    match kind {
        CALL => {
            let verdict = Verdict::Denied(Denial::RpcMismatch { low: VERSION, high: VERSION });
            Refusal { error: Error::RpcVersion { got: version }, owed: Owed::Answer(Reply { xid, verdict }) }
        }
        REPLY => Refusal { error: Error::WrongDirection { expected: CALL, got: REPLY }, owed: Owed::Drop },
        got => Refusal { error: Error::Unknown { what: "msg_type", got }, owed: Owed::Close },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NULL_CALL: [u32; 10] = [0x1122_3344, 0, 2, 100_003, 3, 0, 0, 0, 0, 0];

    fn bytes(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_be_bytes()).collect()
    }

    fn owed(message: &[u8]) -> Owed {
        Call::parse(message).unwrap_err().owed
    }

    fn answer(verdict: Verdict<'static>) -> Owed {
        Owed::Answer(Reply { xid: 0x1122_3344, verdict })
    }

    #[test]
    fn a_call_is_read_in_place() {
        let message = bytes(&[&NULL_CALL[..6], &[1, 8, 7, 8, 9, 4, 5, 6]].concat());
        let call = Call::parse(&message).unwrap();
        assert_eq!((call.xid, call.program, call.version, call.procedure), (0x1122_3344, 100_003, 3, 0));
        assert_eq!((call.credential.flavour, call.credential.body.bytes()), (Flavour::SYS, &message[32..40]));
        assert_eq!((call.verifier.flavour, call.verifier.body.bytes()), (Flavour(9), &message[48..52]));
        assert_eq!(call.arguments, &message[52..]);
    }

    #[test]
    fn a_head_that_ends_early_closes() {
        let message = bytes(&NULL_CALL);
        for length in 0..message.len() {
            assert_eq!(owed(&message[..length]), Owed::Close, "{length}");
        }
        let message = bytes(&[&NULL_CALL[..6], &[1, 8, 7, 8, 9, 4]].concat());
        for length in 40..message.len() {
            assert_eq!(owed(&message[..length]), Owed::Close, "{length}");
        }
    }

    #[test]
    fn another_version_is_answered_however_short_it_is() {
        let mismatch = answer(Verdict::Denied(Denial::RpcMismatch { low: 2, high: 2 }));
        let mut words = NULL_CALL;
        words[2] = 3;
        let message = bytes(&words);
        for length in 12..=message.len() {
            assert_eq!(owed(&message[..length]), mismatch, "{length}");
        }
        assert_eq!(owed(&message[..11]), Owed::Close);
    }

    #[test]
    fn replies_are_dropped_and_what_is_neither_closes() {
        for (kind, expected) in [(1, Owed::Drop), (2, Owed::Close), (u32::MAX, Owed::Close)] {
            let mut words = NULL_CALL;
            words[1] = kind;
            let message = bytes(&words);
            for length in [8, 12, 39, 40] {
                assert_eq!(owed(&message[..length]), expected, "{kind} {length}");
            }
        }
    }

    #[test]
    fn a_body_over_400_bytes_is_bad() {
        let denial = |status| answer(Verdict::Denied(Denial::Authentication(status)));
        let mut words = NULL_CALL;
        (words[6], words[7]) = (6, 401);
        assert_eq!(owed(&bytes(&words)), denial(AuthStatus::BadCredential));
        words[7] = u32::MAX;
        assert_eq!(owed(&bytes(&words)), denial(AuthStatus::BadCredential));
        words[7] = 400;
        assert_eq!(owed(&bytes(&words)), Owed::Close);
        (words[7], words[9]) = (0, 401);
        assert_eq!(owed(&bytes(&words)), denial(AuthStatus::BadVerifier));
    }

    #[test]
    fn who_calls_is_asked_apart() {
        let call = bytes(&NULL_CALL);
        assert_eq!(Call::parse(&call).unwrap().identity(), Ok(Identity::Anonymous));
        let mut words = NULL_CALL;
        words[6] = 6;
        let call = bytes(&words);
        let refusal = Call::parse(&call).unwrap().identity().unwrap_err();
        assert_eq!(refusal.owed, answer(Verdict::Denied(Denial::Authentication(AuthStatus::RejectedCredential))));
        assert_eq!(refusal.error, Error::Authentication { flavour: 6, status: 2 });
    }

    #[test]
    fn arguments_that_do_not_parse_are_garbage() {
        let message = bytes(&NULL_CALL);
        let call = Call::parse(&message).unwrap();
        let garbage = Verdict::Accepted { verifier: Auth::NONE, outcome: Acceptance::GarbageArguments };
        assert_eq!(call.arguments::<u32>().unwrap_err().owed, answer(garbage));
        let longer = bytes(&[&NULL_CALL[..], &[7, 8]].concat());
        assert_eq!(Call::parse(&longer).unwrap().arguments(), Ok(7_u32));
    }
}
