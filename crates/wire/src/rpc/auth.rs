//! Credentials and verifiers (RFC 5531 section 8.2, section 10, appendix A).

use crate::Error;
use crate::xdr::{Array, Decode, Encode, Opaque, Reader, Writer, xdr_enum, xdr_struct};

/// Most bytes in the body of a credential or verifier (RFC 5531 section 8.2).
pub const BODY_BYTES_MAX: u32 = 400;
/// Most bytes in the machine's name of an AUTH_SYS credential (RFC 5531 appendix A).
pub const MACHINE_NAME_BYTES_MAX: u32 = 255;
/// Most groups in an AUTH_SYS credential (RFC 5531 appendix A).
pub const GIDS_MAX: u32 = 16;

/// The kind of a credential or verifier. Every number is legal (RFC 5531 section 8.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flavour(pub u32);

impl Flavour {
    /// AUTH_NONE: no identity.
    pub const NONE: Self = Self(0);
    /// AUTH_SYS: numbers of user and groups, taken on trust.
    pub const SYS: Self = Self(1);
    /// AUTH_SHORT: stands for an AUTH_SYS credential that the server knows.
    pub const SHORT: Self = Self(2);
    /// RPCSEC_GSS (RFC 2203). Known by name only.
    pub const RPCSEC_GSS: Self = Self(6);
}

/// A credential or a verifier, of whatever flavour: a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Auth<'a> {
    /// Its kind.
    pub flavour: Flavour,
    /// What the kind gives its meaning to.
    pub body: Opaque<'a, BODY_BYTES_MAX>,
}

impl Auth<'_> {
    /// AUTH_NONE, whose body is empty (RFC 5531 section 10.1).
    pub const NONE: Self = Self { flavour: Flavour::NONE, body: Opaque::EMPTY };

    /// Whether it is [`Auth::NONE`].
    #[inline]
    pub(super) const fn is_none(&self) -> bool {
        self.flavour.0 == Flavour::NONE.0 && self.body.bytes().is_empty()
    }
}

impl<'a> Decode<'a> for Auth<'a> {
    #[inline]
    fn decode(from: &mut Reader<'a>) -> Result<Self, Error> {
        Ok(Self { flavour: Flavour(from.u32()?), body: from.read()? })
    }
}

impl Encode for Auth<'_> {
    fn encode(&self, to: &mut Writer<'_>) -> Result<(), Error> {
        to.u32(self.flavour.0)?;
        self.body.encode(to)
    }
}

xdr_struct! {
    /// The body of an AUTH_SYS credential (RFC 5531 appendix A, `authsys_parms`).
    AuthSys<'a> {
        /// A number of the caller's choice.
        stamp: u32,
        /// Name of the caller's machine.
        machine_name: Opaque<'a, MACHINE_NAME_BYTES_MAX>,
        /// Number of the user.
        uid: u32,
        /// Number of the user's group.
        gid: u32,
        /// Further groups.
        gids: Array<'a, u32, GIDS_MAX>,
    }
}

impl AuthSys<'_> {
    /// The credential with this body, which is written into `memory`; [`BODY_BYTES_MAX`] bytes suffice for every one.
    ///
    /// # Errors
    /// [`Error::NoRoom`].
    pub fn credential<'m>(&self, memory: &'m mut [u8]) -> Result<Auth<'m>, Error> {
        let mut writer = Writer::new(memory);
        self.encode(&mut writer)?;
        let length = writer.len();
        Ok(Auth { flavour: Flavour::SYS, body: Opaque::new(&memory[..length])? })
    }
}

/// Who calls, as far as the flavours that are served can tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Identity<'a> {
    /// Nobody in particular: AUTH_NONE.
    Anonymous,
    /// Whom AUTH_SYS names. Nothing proves it.
    Sys(AuthSys<'a>),
}

impl<'a> Identity<'a> {
    /// Reads a credential and its verifier.
    ///
    /// # Errors
    /// What to deny the call with, and the flavour that it is denied for.
    pub(super) fn of(credential: Auth<'a>, verifier: Auth<'a>) -> Result<Self, (Flavour, AuthStatus)> {
        let denied = |status| (credential.flavour, status);
        let identity = match credential.flavour {
            Flavour::NONE if credential.body.bytes().is_empty() => Self::Anonymous,
            Flavour::NONE => return Err(denied(AuthStatus::BadCredential)),
            Flavour::SYS => Self::sys(credential).map_err(|_| denied(AuthStatus::BadCredential))?,
            _ => return Err(denied(AuthStatus::RejectedCredential)),
        };
        match verifier.is_none() {
            true => Ok(identity),
            false => Err((verifier.flavour, AuthStatus::BadVerifier)),
        }
    }

    fn sys(credential: Auth<'a>) -> Result<Self, Error> {
        let mut reader = Reader::new(credential.body.bytes());
        let body = reader.read()?;
        reader.finish().map(|()| Self::Sys(body))
    }
}

xdr_enum! {
    /// Why a call is denied for its authentication (RFC 5531 section 9, `auth_stat`).
    AuthStatus = "auth_stat" {
        /// AUTH_OK: none of the reasons below.
        Ok = 0,
        /// AUTH_BADCRED: the credential is broken.
        BadCredential = 1,
        /// AUTH_REJECTEDCRED: the caller must begin anew.
        RejectedCredential = 2,
        /// AUTH_BADVERF: the verifier is broken.
        BadVerifier = 3,
        /// AUTH_REJECTEDVERF: the verifier expired or was used before.
        RejectedVerifier = 4,
        /// AUTH_TOOWEAK: the server demands a stronger flavour.
        TooWeak = 5,
        /// AUTH_INVALIDRESP: the reply's verifier is broken.
        InvalidResponse = 6,
        /// AUTH_FAILED: unknown.
        Failed = 7,
        /// AUTH_KERB_GENERIC: Kerberos failed.
        KerberosGeneric = 8,
        /// AUTH_TIMEEXPIRE: the credential's time is over.
        TimeExpired = 9,
        /// AUTH_TKT_FILE: the ticket file is not right.
        TicketFile = 10,
        /// AUTH_DECODE: the authenticator cannot be read.
        Decode = 11,
        /// AUTH_NET_ADDR: the ticket is for another address.
        NetAddress = 12,
        /// RPCSEC_GSS_CREDPROBLEM: the server has no context for the caller.
        GssCredentialProblem = 13,
        /// RPCSEC_GSS_CTXPROBLEM: the context is not right.
        GssContextProblem = 14,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opaque<const MAX: u32>(bytes: &[u8]) -> Opaque<'_, MAX> {
        Opaque::new(bytes).unwrap()
    }

    fn caller() -> AuthSys<'static> {
        AuthSys { stamp: 1, machine_name: opaque(b"host"), uid: 1000, gid: 100, gids: Array::new(&[4, 24]).unwrap() }
    }

    #[test]
    fn nobody_and_somebody_are_told_apart() {
        assert_eq!(Identity::of(Auth::NONE, Auth::NONE), Ok(Identity::Anonymous));
        let mut memory = [0; 400];
        let credential = caller().credential(&mut memory).unwrap();
        assert_eq!(Identity::of(credential, Auth::NONE), Ok(Identity::Sys(caller())));
    }

    #[test]
    fn the_largest_credential_fits() {
        let name = [b'x'; 255];
        let largest = AuthSys { machine_name: opaque(&name), gids: Array::new(&[9; 16]).unwrap(), ..caller() };
        let mut memory = [0; BODY_BYTES_MAX as usize];
        let credential = largest.credential(&mut memory).unwrap();
        assert_eq!(credential.body.bytes().len(), 4 + 4 + 256 + 4 + 4 + 4 + 64);
        assert_eq!(Identity::of(credential, Auth::NONE), Ok(Identity::Sys(largest)));
    }

    #[test]
    fn a_broken_credential_is_bad_and_a_foreign_one_is_rejected() {
        let of = |flavour, body| Identity::of(Auth { flavour, body: opaque(body) }, Auth::NONE);
        assert_eq!(of(Flavour::NONE, b"abcd"), Err((Flavour::NONE, AuthStatus::BadCredential)));
        assert_eq!(of(Flavour::SYS, b"abcd"), Err((Flavour::SYS, AuthStatus::BadCredential)));
        for flavour in [Flavour::SHORT, Flavour(3), Flavour::RPCSEC_GSS, Flavour(u32::MAX)] {
            assert_eq!(of(flavour, b""), Err((flavour, AuthStatus::RejectedCredential)));
        }
    }

    #[test]
    fn seventeen_groups_and_bytes_behind_them_are_refused() {
        let mut memory = [0; 400];
        let mut writer = Writer::new(&mut memory);
        writer.put(&[0; 16]).unwrap();
        Array::<u32, 17>::new(&[1; 17]).unwrap().encode(&mut writer).unwrap();
        let bad = Auth { flavour: Flavour::SYS, body: opaque(writer.written()) };
        assert_eq!(Identity::of(bad, Auth::NONE), Err((Flavour::SYS, AuthStatus::BadCredential)));
        let longer = Auth { flavour: Flavour::SYS, body: opaque(&[0; 24]) };
        assert_eq!(Identity::of(longer, Auth::NONE), Err((Flavour::SYS, AuthStatus::BadCredential)));
    }

    #[test]
    fn verifiers_are_empty() {
        let verifier = Auth { flavour: Flavour::NONE, body: opaque(b"abcd") };
        assert_eq!(Identity::of(Auth::NONE, verifier), Err((Flavour::NONE, AuthStatus::BadVerifier)));
        let verifier = Auth { flavour: Flavour::SHORT, body: Opaque::EMPTY };
        assert_eq!(Identity::of(Auth::NONE, verifier), Err((Flavour::SHORT, AuthStatus::BadVerifier)));
    }
}
