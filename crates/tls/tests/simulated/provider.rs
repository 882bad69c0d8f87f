//! ring, but for its randomness, which is a seed's.

use corelane::service::Random;
use corelane_tls::rustls::crypto::{CryptoProvider, GetRandomFailed, SecureRandom, ring};
use corelane_tls::rustls::{ProtocolVersion, SupportedCipherSuite};
use std::sync::Mutex;

#[derive(Debug)]
struct Seeded(Mutex<Random>);

impl SecureRandom for Seeded {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), GetRandomFailed> {
        let mut random = self.0.lock().unwrap();
        bytes.iter_mut().for_each(|byte| *byte = random.below(256) as u8);
        Ok(())
    }
}

/// The provider of one run, which lives as long as the process: so rustls wants it.
pub fn seeded(seed: u64) -> CryptoProvider {
    CryptoProvider { secure_random: Box::leak(Box::new(Seeded(Mutex::new(Random::new(seed))))), ..ring::default_provider() }
}

/// The same, which speaks this version alone.
pub fn speaking(version: ProtocolVersion, mut provider: CryptoProvider) -> CryptoProvider {
    let speaks = |suite: &SupportedCipherSuite| suite.version().version == version;
    provider.cipher_suites.retain(speaks);
    provider
}
