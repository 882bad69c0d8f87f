//! Sessions that clients keep: tickets that any lane opens, sealed by the provider's own AEAD with a key that all lanes derive alike.

use crate::Error;
use crate::clock::Clock;
use rustls::crypto::CryptoProvider;
use rustls::crypto::cipher::{AeadKey, InboundOpaqueMessage, Iv, NONCE_LEN, OutboundChunks, OutboundPlainMessage};
use rustls::crypto::tls13::expand;
use rustls::server::ProducesTickets;
use rustls::{ContentType, ProtocolVersion, SupportedCipherSuite, Tls13CipherSuite};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Seconds after which another key seals; what was sealed with the one before is opened as long again.
pub(crate) const PERIOD_SECONDS: u32 = 6 * 60 * 60;
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

    /// What another process of this machine needs to open what this one has sealed, and the other way round: suite, period, secret, and the key before.
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
    // What it holds is whole between any two statements.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Seals and opens tickets on one lane.
pub(crate) struct Tickets {
    provider: Arc<CryptoProvider>,
    clock: Arc<Clock>,
    ring: Ring,
    /// This lane's copy, so that lanes meet once a period. Nobody else takes this lock.
    keys: Mutex<Keys>,
}

impl Tickets {
    pub(crate) fn new(provider: Arc<CryptoProvider>, clock: Arc<Clock>, ring: Ring) -> Self {
        let keys = Mutex::new(held(&ring).clone());
        Self { provider, clock, ring, keys }
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
        let fits = session.len() <= SESSION_BYTES_MAX;
        fits.then(|| self.keys(period_at(self.clock.monotonic())).seal(nonce, session)).flatten()
    }

    fn decrypt(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        let named = u64::from_be_bytes(*ticket.first_chunk::<PERIOD_BYTES>()?);
        let now = self.clock.monotonic();
        let latest = period_at(now.saturating_add(AHEAD));
        if ticket.len() > HEAD + SESSION_BYTES_MAX + RECORD_HEAD + KEY_BYTES || named > latest {
            return None;
        }
        self.keys(named.max(period_at(now))).open(ticket)
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
    use std::time::Duration;

    const PERIOD: u64 = PERIOD_SECONDS as u64 * 1_000_000_000;

    fn lanes(count: usize) -> (Ring, Vec<(Arc<Clock>, Tickets)>) {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let ring: Ring = Arc::new(Mutex::new(Keys::new(&provider).unwrap()));
        let lane = |_| {
            let clock = Arc::new(Clock::default());
            (clock.clone(), Tickets::new(provider.clone(), clock, ring.clone()))
        };
        (ring.clone(), (0..count).map(lane).collect())
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
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let clock = Arc::new(Clock::default());
        clock.set(Instant::from_nanoseconds(PERIOD), Duration::ZERO);
        assert_eq!(Tickets::new(provider, clock, next).decrypt(&ticket).unwrap(), b"a session");
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
        assert_eq!(lanes[0].1.encrypt(&[7; SESSION_BYTES_MAX + 1]), None);
        let most = lanes[0].1.encrypt(&[7; SESSION_BYTES_MAX]).unwrap();
        assert_eq!(lanes[0].1.decrypt(&most).unwrap().len(), SESSION_BYTES_MAX);
    }
}
