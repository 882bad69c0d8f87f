//! Whose session a ticket is: since when it lasts, and which certificates its client showed.
//!
//! ```text
//! handshake --Known::verify--> Origin of the connection --written--> ticket --opened, looked at again--> Origin of another connection
//! ```
//!
//! rustls asks for a ticket, and shows one, without saying for which connection. Handshakes of a lane go on one at a time, each within a call for its connection.
//! So that connection's origin is put in place for the call, and taken out behind it.

use rustls::client::danger::HandshakeSignatureValid;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};
use std::mem::swap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Certificates of a chain at the most, in a ticket.
const CHAIN_MAX: usize = 16;

/// Since when a session lasts, and whose it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Origin {
    /// Nanoseconds of the monotonic clock; none for one that begins now.
    pub(crate) began: Option<u64>,
    /// The certificates that its client showed, its own first.
    pub(crate) chain: Vec<CertificateDer<'static>>,
}

/// The origin of the session whose handshake a lane goes on with. Nobody but its lane takes this lock.
#[derive(Debug, Default)]
pub(crate) struct Current(Mutex<Origin>);

impl Current {
    fn held(&self) -> MutexGuard<'_, Origin> {
        // It is replaced in one statement.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A copy of it.
    pub(crate) fn origin(&self) -> Origin {
        self.held().clone()
    }

    /// Another one is in its place.
    pub(crate) fn set(&self, origin: Origin) {
        *self.held() = origin;
    }

    /// Puts a connection's in place, or takes it back.
    pub(crate) fn swap(&self, origin: &mut Origin) {
        swap(&mut *self.held(), origin);
    }
}

/// The bytes that a ticket seals: since when, how many certificates, where in the session each lies (two bytes its place, two its length), and the session itself, which
/// holds them. None where it does not hold them: then it could not be looked at again.
pub(crate) fn written(began: u64, chain: &[CertificateDer<'_>], session: &[u8]) -> Option<Vec<u8>> {
    let count = u8::try_from(chain.len()).ok().filter(|_| chain.len() <= CHAIN_MAX)?;
    let mut plain = [&began.to_be_bytes()[..], &[count]].concat();
    let mut from = 0;
    for certificate in chain {
        let place = from + session[from..].windows(certificate.len().max(1)).position(|bytes| bytes == &certificate[..])?;
        from = place + certificate.len();
        plain.extend(u16::try_from(place).ok()?.to_be_bytes());
        plain.extend(u16::try_from(certificate.len()).ok()?.to_be_bytes());
    }
    plain.extend_from_slice(session);
    Some(plain)
}

/// Reads the bytes of [`written`].
pub(crate) fn opened(plain: &[u8]) -> Option<(Origin, &[u8])> {
    let (began, rest) = plain.split_first_chunk::<8>()?;
    let (&count, rest) = rest.split_first()?;
    let (places, session) = rest.split_at_checked(usize::from(count) * 4)?;
    let certificate = |place: &[u8]| {
        let at = usize::from(u16::from_be_bytes([place[0], place[1]]));
        let length = usize::from(u16::from_be_bytes([place[2], place[3]]));
        Some(CertificateDer::from(session.get(at..at + length)?.to_vec()))
    };
    let chain = places.chunks_exact(4).map(certificate).collect::<Option<_>>()?;
    Some((Origin { began: Some(u64::from_be_bytes(*began)), chain }, session))
}

/// Verifies clients as another verifier does, and notes whom it has let in.
#[derive(Debug)]
pub(crate) struct Known {
    pub(crate) inner: Arc<dyn ClientCertVerifier>,
    pub(crate) current: Arc<Current>,
}

impl ClientCertVerifier for Known {
    fn offer_client_auth(&self) -> bool {
        self.inner.offer_client_auth()
    }

    fn client_auth_mandatory(&self) -> bool {
        self.inner.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.inner.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        first: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let verified = self.inner.verify_client_cert(first, others, now)?;
        let chain = std::iter::once(first).chain(others).map(|one| one.clone().into_owned()).collect();
        self.current.set(Origin { began: None, chain });
        Ok(verified)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }

    fn requires_raw_public_keys(&self) -> bool {
        self.inner.requires_raw_public_keys()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn certificate(byte: u8, length: usize) -> CertificateDer<'static> {
        vec![byte; length].into()
    }

    #[test]
    fn a_ticket_says_since_when_and_whose_it_is_and_what_is_cut_is_none() {
        let chain = vec![certificate(1, 300), certificate(2, 5)];
        let session = [&b"head"[..], &chain[0][..], b"between", &chain[1][..], b"tail"].concat();
        let plain = written(7, &chain, &session).unwrap();
        let (origin, back) = opened(&plain).unwrap();
        assert_eq!((origin, back), (Origin { began: Some(7), chain: chain.clone() }, &session[..]));
        let holds_less = plain.len() - b"tail".len();
        assert!((0..holds_less).all(|end| opened(&plain[..end]).is_none()));
        assert_eq!(written(7, &chain, b"a session without them"), None);
        assert_eq!(written(7, &vec![certificate(1, 1); CHAIN_MAX + 1], &[1; 100]), None);
    }
}
