//! Sessions that clients keep: tickets that any lane opens, sealed by the provider's own AEAD with a key that all lanes derive alike.
//!
//! A ticket also says since when its session lasts, and where in it the client's certificates lie. Each resumption issues another ticket. So without the
//! first, sessions would go on for ever; without the second, they would outlive the certificates and authorities by which they began (RFC 8446, section 4.6.1).

use crate::Error;
use crate::clock::Clock;
use crate::session::{Current, Origin, opened, written};
use rustls::crypto::CryptoProvider;
use rustls::crypto::cipher::{AeadKey, InboundOpaqueMessage, Iv, NONCE_LEN, OutboundChunks, OutboundPlainMessage};
use rustls::crypto::tls13::expand;
use rustls::server::ProducesTickets;
use rustls::server::danger::ClientCertVerifier;
use rustls::time_provider::TimeProvider;
use rustls::{ContentType, ProtocolVersion, SupportedCipherSuite, Tls13CipherSuite};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Seconds after which another key seals; what was sealed with the one before is opened as long again.
pub(crate) const PERIOD_SECONDS: u32 = 6 * 60 * 60;
/// Seconds that a session lasts in all, from the handshake in which certificates were shown: over so many tickets. Then certificates are shown again.
pub(crate) const SESSION_SECONDS_MAX: u32 = 24 * 60 * 60;
/// How far another lane's turn may be ahead, in nanoseconds.
const AHEAD: u64 = 60_000_000_000;
/// Bytes of a ticket before what is sealed: the period, and the nonce.
const HEAD: usize = PERIOD_BYTES + NONCE_LEN;
const PERIOD_BYTES: usize = size_of::<u64>();
/// The most bytes of a session: one with a client's chain of certificates has room, and a ticket fits into one message.
const SESSION_BYTES_MAX: usize = 12 << 10;
/// Bytes of a key, and of a period's secret.
const KEY_BYTES: usize = 32;

type Secret = [u8; KEY_BYTES];

/// The suite that seals: the provider's first for TLS 1.3 whose key has 32 bytes.
fn suite(provider: &CryptoProvider) -> Option<&'static Tls13CipherSuite> {
    provider.cipher_suites.iter().find_map(|suite| match suite {
        SupportedCipherSuite::Tls13(suite) if suite.aead_alg.key_len() == KEY_BYTES => Some(*suite),
        _ => None,
    })
}

/// The secret of one period, and the key of the one before.
#[derive(Clone)]
pub(crate) struct Keys {
    suite: &'static Tls13CipherSuite,
    period: u64,
    secret: Secret,
    before: Option<Secret>,
}

impl Keys {
    /// The keys of the first period, from the provider's randomness.
    ///
    /// # Errors
    /// [`Error::Provider`] if it has none, or no suite that could seal.
    pub(crate) fn new(provider: &CryptoProvider) -> Result<Self, Error> {
        let lacks = |what: &str| Error::Provider { what: what.to_owned() };
        let suite =
            suite(provider).ok_or_else(|| lacks("has no suite of TLS 1.3 with keys of 32 bytes, to seal tickets with"))?;
        let mut secret = Secret::default();
        provider.secure_random.fill(&mut secret).map_err(|_| lacks("has no randomness now"))?;
        Ok(Self { suite, period: 0, secret, before: None })
    }

    /// A hash, to name things by.
    pub(crate) fn hash(&self, bytes: &[u8]) -> impl AsRef<[u8]> + use<> {
        self.suite.common.hash_provider.hash(bytes)
    }

    /// The bytes by which another process of this machine opens what this one has sealed, and the other way round: suite, period, secret, and the key before.
    pub(crate) fn keepsake(&self) -> Vec<u8> {
        let suite = u16::from(self.suite.common.suite).to_be_bytes();
        let before = self.before.as_ref().map_or(&[][..], |before| before);
        [&suite[..], &self.period.to_be_bytes(), &self.secret, before].concat()
    }

    /// Goes on with those of another process; what is of another suite or cannot be read changes nothing, and sessions begin anew.
    pub(crate) fn inherit(&mut self, keepsake: &[u8]) {
        let Some((suite, rest)) = keepsake.split_first_chunk::<2>() else { return };
        let Some((period, rest)) = rest.split_first_chunk::<PERIOD_BYTES>() else { return };
        let Some((secret, before)) = rest.split_first_chunk::<KEY_BYTES>() else { return };
        let before = before.first_chunk::<KEY_BYTES>().copied();
        if u16::from_be_bytes(*suite) == u16::from(self.suite.common.suite) {
            (self.period, self.secret, self.before) = (u64::from_be_bytes(*period), *secret, before);
        }
    }

    /// Goes on to `period`, and forgets what came long before.
    fn reach(&mut self, period: u64) {
        while self.period < period {
            self.before = Some(self.derived(b"seal"));
            self.secret = self.derived(b"next");
            self.period += 1;
        }
        // Keys that another process gave may be ahead.
        assert!(self.period >= period, "keys reach the period that is asked for");
    }

    fn derived(&self, what: &[u8]) -> Secret {
        let expander = self.suite.hkdf_provider.extract_from_secret(None, &self.secret);
        expand::<Secret, KEY_BYTES>(&*expander, &[b"corelane tickets ", what])
    }

    fn key(&self, period: u64) -> Option<Secret> {
        match self.period.checked_sub(period)? {
            0 => Some(self.derived(b"seal")),
            1 => self.before,
            _ => None,
        }
    }

    fn seal(&self, nonce: [u8; NONCE_LEN], session: &[u8]) -> Option<Vec<u8>> {
        let key = AeadKey::from(self.key(self.period)?);
        let message = OutboundPlainMessage {
            typ: ContentType::ApplicationData,
            version: ProtocolVersion::TLSv1_3,
            payload: OutboundChunks::Single(session),
        };
        let sealed = self.suite.aead_alg.encrypter(key, Iv::from(nonce)).encrypt(message, 0).ok()?.encode();
        Some([&self.period.to_be_bytes()[..], &nonce, sealed.get(RECORD_HEAD..)?].concat())
    }

    fn open(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        let (period, rest) = ticket.split_first_chunk::<PERIOD_BYTES>()?;
        let (nonce, sealed) = rest.split_first_chunk::<NONCE_LEN>()?;
        let key = AeadKey::from(self.key(u64::from_be_bytes(*period))?);
        let mut sealed = sealed.to_vec();
        let message = InboundOpaqueMessage::new(ContentType::ApplicationData, ProtocolVersion::TLSv1_2, &mut sealed);
        let opened = self.suite.aead_alg.decrypter(key, Iv::from(*nonce)).decrypt(message, 0).ok()?;
        Some(opened.payload.to_vec())
    }
}

/// Bytes of a record before what is sealed (RFC 8446 section 5.2).
const RECORD_HEAD: usize = 5;

/// The keys of all lanes, gone on to by whichever comes first into a new period.
pub(crate) type Ring = Arc<Mutex<Keys>>;

fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Its value is whole between any two statements.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Seals and opens tickets on one lane.
pub(crate) struct Tickets {
    provider: Arc<CryptoProvider>,
    clock: Arc<Clock>,
    ring: Ring,
    /// Whose handshake it is.
    current: Arc<Current>,
    /// Looks again at the certificates of who comes back.
    verifier: Option<Arc<dyn ClientCertVerifier>>,
    /// This lane's copy, so that lanes meet once a period. Nobody else takes this lock.
    keys: Mutex<Keys>,
}

impl Tickets {
    pub(crate) fn new(
        provider: Arc<CryptoProvider>,
        clock: Arc<Clock>,
        ring: Ring,
        current: Arc<Current>,
        verifier: Option<Arc<dyn ClientCertVerifier>>,
    ) -> Self {
        let keys = Mutex::new(held(&ring).clone());
        Self { provider, clock, ring, current, verifier, keys }
    }

    /// Whether a session of this origin may go on now.
    fn goes_on(&self, origin: &Origin) -> bool {
        let lasts = self.clock.monotonic().saturating_sub(origin.began.unwrap_or(0));
        if lasts >= u64::from(SESSION_SECONDS_MAX) * 1_000_000_000 {
            return false;
        }
        let Some(verifier) = &self.verifier else { return origin.chain.is_empty() };
        match (origin.chain.split_first(), self.clock.current_time()) {
            (Some((first, others)), Some(now)) => verifier.verify_client_cert(first, others, now).is_ok(),
            (None, Some(_)) => !verifier.client_auth_mandatory(),
            (_, None) => false,
        }
    }

    /// The keys, of `period` or a later one.
    fn keys(&self, period: u64) -> MutexGuard<'_, Keys> {
        let mut keys = held(&self.keys);
        if keys.period < period {
            let mut ring = held(&self.ring);
            ring.reach(period);
            *keys = ring.clone();
        }
        assert!(keys.period >= period, "a lane's keys are never behind its clock");
        keys
    }
}

fn period_at(nanoseconds: u64) -> u64 {
    nanoseconds / 1_000_000_000 / u64::from(PERIOD_SECONDS)
}

impl ProducesTickets for Tickets {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        PERIOD_SECONDS
    }

    fn encrypt(&self, session: &[u8]) -> Option<Vec<u8>> {
        let mut nonce = [0; NONCE_LEN];
        self.provider.secure_random.fill(&mut nonce).ok()?;
        let now = self.clock.monotonic();
        let Origin { began, chain } = self.current.origin();
        let plain = written(began.unwrap_or(now), &chain, session)?;
        let fits = plain.len() <= SESSION_BYTES_MAX;
        fits.then(|| self.keys(period_at(now)).seal(nonce, &plain)).flatten()
    }

    fn decrypt(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        let named = u64::from_be_bytes(*ticket.first_chunk::<PERIOD_BYTES>()?);
        let now = self.clock.monotonic();
        let latest = period_at(now.saturating_add(AHEAD));
        if ticket.len() > HEAD + SESSION_BYTES_MAX + RECORD_HEAD + KEY_BYTES || named > latest {
            return None;
        }
        let plain = self.keys(named.max(period_at(now))).open(ticket)?;
        let (origin, session) = opened(&plain)?;
        let session = self.goes_on(&origin).then(|| session.to_vec())?;
        self.current.set(origin);
        Some(session)
    }
}

impl fmt::Debug for Tickets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tickets")
    }
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Keys {{ period: {} }}", self.period)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use corelane::Instant;
    use rustls::client::danger::HandshakeSignatureValid;
    use rustls::pki_types::{CertificateDer, UnixTime};
    use rustls::server::danger::ClientCertVerified;
    use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, SignatureScheme};
    use std::time::Duration;

    const PERIOD: u64 = PERIOD_SECONDS as u64 * 1_000_000_000;

    fn of_anybody(clock: Arc<Clock>, ring: Ring) -> Tickets {
        Tickets::new(Arc::new(rustls::crypto::ring::default_provider()), clock, ring, Arc::default(), None)
    }

    fn lanes(count: usize) -> (Ring, Vec<(Arc<Clock>, Tickets)>) {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let ring: Ring = Arc::new(Mutex::new(Keys::new(&provider).unwrap()));
        let lane = |_| {
            let clock = Arc::new(Clock::default());
            (clock.clone(), of_anybody(clock, ring.clone()))
        };
        (ring.clone(), (0..count).map(lane).collect())
    }

    /// Each resumption is another connection, which knows nothing but what its ticket says.
    #[test]
    fn a_session_ends_a_day_after_its_certificates_were_shown_however_many_tickets_it_had() {
        let (_, lanes) = lanes(1);
        let [(clock, tickets)] = &lanes[..] else { unreachable!("a lane was made") };
        let hour = |hour: u64| clock.set(Instant::from_nanoseconds(hour * 3_600_000_000_000), Duration::ZERO);
        hour(1);
        let mut ticket = tickets.encrypt(b"a session").unwrap();
        for hours in 2..25 {
            hour(hours);
            tickets.current.set(Origin::default());
            assert!(tickets.decrypt(&ticket).is_some(), "hour {hours}");
            ticket = tickets.encrypt(b"a session").unwrap();
        }
        hour(25);
        tickets.current.set(Origin::default());
        assert_eq!(tickets.decrypt(&ticket), None);
        ticket = tickets.encrypt(b"another session").unwrap();
        assert!(tickets.decrypt(&ticket).is_some(), "who shows certificates again begins anew");
    }

    #[test]
    fn any_lane_opens_what_one_has_sealed_and_nobody_what_was_changed() {
        let (_, lanes) = lanes(2);
        let ticket = lanes[0].1.encrypt(b"a session").unwrap();
        assert_eq!(lanes[1].1.decrypt(&ticket).unwrap(), b"a session");
        for at in 0..ticket.len() {
            let mut changed = ticket.clone();
            changed[at] ^= 1;
            assert_eq!(lanes[1].1.decrypt(&changed), None, "byte {at}");
            assert_eq!(lanes[1].1.decrypt(&ticket[..at]), None, "{at} bytes of it");
        }
        let of_others = self::lanes(1).1[0].1.encrypt(b"a session").unwrap();
        assert_eq!(lanes[0].1.decrypt(&of_others), None);
    }

    #[test]
    fn the_next_process_opens_what_this_one_has_sealed() {
        let ((ring, old), (next, new)) = (lanes(1), lanes(1));
        old[0].0.set(Instant::from_nanoseconds(PERIOD), Duration::ZERO);
        let ticket = old[0].1.encrypt(b"a session").unwrap();
        let keepsake = held(&ring).keepsake();
        for cut in 0..2 + PERIOD_BYTES + KEY_BYTES {
            held(&next).inherit(&keepsake[..cut]);
            assert_eq!(held(&next).period, 0, "{cut} bytes are none");
        }
        let other = [&[0xff, 0xff], &keepsake[2..]].concat();
        held(&next).inherit(&other);
        assert_eq!(held(&next).period, 0, "of another suite");
        held(&next).inherit(&[&keepsake[..], b"what comes later"].concat());
        let clock = Arc::new(Clock::default());
        clock.set(Instant::from_nanoseconds(PERIOD), Duration::ZERO);
        assert_eq!(of_anybody(clock, next).decrypt(&ticket).unwrap(), b"a session");
        assert_eq!(new[0].1.decrypt(&ticket), None, "its lanes have copies from before");
    }

    #[test]
    fn a_ticket_lives_for_its_period_and_one_more() {
        let (ring, lanes) = lanes(2);
        let [(early, one), (late, two)] = &lanes[..] else { unreachable!("two lanes were made") };
        early.set(Instant::from_nanoseconds(7 * PERIOD - 1), Duration::ZERO);
        let ticket = one.encrypt(b"a session").unwrap();
        late.set(Instant::from_nanoseconds(8 * PERIOD - 1), Duration::ZERO);
        assert_eq!(two.decrypt(&ticket).as_deref(), Some(&b"a session"[..]));
        // A lane that has not noticed yet opens what one has sealed that is a moment ahead.
        let newer = two.encrypt(b"newer").unwrap();
        assert_eq!(one.decrypt(&newer).as_deref(), Some(&b"newer"[..]));
        late.set(Instant::from_nanoseconds(8 * PERIOD), Duration::ZERO);
        assert_eq!(two.decrypt(&ticket), None, "two periods later");
        assert_eq!(held(&ring).period, 8);
    }

    /// Believes in everybody until a second.
    #[derive(Debug)]
    struct Until(u64);

    impl ClientCertVerifier for Until {
        fn root_hint_subjects(&self) -> &[DistinguishedName] {
            &[]
        }

        fn verify_client_cert(
            &self,
            first: &CertificateDer<'_>,
            others: &[CertificateDer<'_>],
            now: UnixTime,
        ) -> Result<ClientCertVerified, rustls::Error> {
            assert_eq!((&first[..], others.len()), (&b"certificate"[..], 0));
            let is_late = now.as_secs() >= self.0;
            if is_late { Err(CertificateError::Expired.into()) } else { Ok(ClientCertVerified::assertion()) }
        }

        fn verify_tls12_signature(
            &self,
            _: &[u8],
            _: &CertificateDer<'_>,
            _: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, rustls::Error> {
            unreachable!("a ticket has no signature")
        }

        fn verify_tls13_signature(
            &self,
            _: &[u8],
            _: &CertificateDer<'_>,
            _: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, rustls::Error> {
            unreachable!("a ticket has no signature")
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            Vec::new()
        }
    }

    #[test]
    fn a_certificate_is_looked_at_again_when_its_client_comes_back() {
        let (ring, lanes) = lanes(1);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let (clock, current) = (Arc::new(Clock::default()), Arc::new(Current::default()));
        let verifier: Option<Arc<dyn ClientCertVerifier>> = Some(Arc::new(Until(100)));
        let tickets = Tickets::new(provider, clock.clone(), ring, current.clone(), verifier);
        clock.set(Instant::from_nanoseconds(1), Duration::from_secs(99));
        current.set(Origin { began: None, chain: vec![b"certificate".to_vec().into()] });
        let session = b"a session of certificate";
        let ticket = tickets.encrypt(session).unwrap();
        current.set(Origin::default());
        assert_eq!(tickets.decrypt(&ticket).as_deref(), Some(&session[..]));
        let next = tickets.encrypt(session).unwrap();
        clock.set(Instant::from_nanoseconds(2), Duration::from_secs(100));
        assert_eq!([&ticket, &next].map(|ticket| tickets.decrypt(ticket)), [None, None], "expired, over any number of tickets");
        // Where nobody was asked, nobody is known.
        let unknown = lanes[0].1.encrypt(b"a session").unwrap();
        assert_eq!(tickets.decrypt(&unknown), None);
    }

    #[test]
    fn who_names_a_period_to_come_does_not_bring_it_about() {
        let (ring, lanes) = lanes(1);
        let mut ticket = lanes[0].1.encrypt(b"a session").unwrap();
        ticket[..PERIOD_BYTES].copy_from_slice(&u64::MAX.to_be_bytes());
        assert_eq!(lanes[0].1.decrypt(&ticket), None);
        assert_eq!(held(&ring).period, 0);
    }

    #[test]
    fn no_ticket_is_made_of_what_would_not_fit() {
        let (_, lanes) = lanes(1);
        let room = SESSION_BYTES_MAX - written(0, &[], &[]).unwrap().len();
        assert_eq!(lanes[0].1.encrypt(&vec![7; room + 1]), None);
        let most = lanes[0].1.encrypt(&vec![7; room]).unwrap();
        assert_eq!(lanes[0].1.decrypt(&most).unwrap().len(), room);
    }
}
