//! Whose cryptography is used unless somebody names another: ring's, the cheapest of its safe suites first.

use rustls::crypto::{CryptoProvider, ring};
use rustls::{CipherSuite, SupportedCipherSuite};

/// ring's, with AES of 128 bits first where the processor has instructions for AES, and ChaCha20 where it has none: both are held as safe as AES of
/// 256 bits for what lives as long as a connection, and cost a quarter less, or far less.
pub(crate) fn usual() -> CryptoProvider {
    let has_aes = has_aes();
    let mut provider = ring::default_provider();
    // Suites that are equal stay in ring's order: TLS 1.3 first, ECDSA before RSA.
    provider
        .cipher_suites
        .sort_by_key(|suite| (suite.version().version != rustls::ProtocolVersion::TLSv1_3, cost(suite, has_aes)));
    provider
}

fn cost(suite: &SupportedCipherSuite, has_aes: bool) -> u8 {
    use CipherSuite as S;
    match suite.suite() {
        S::TLS13_AES_128_GCM_SHA256 | S::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256 | S::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 => 1,
        S::TLS13_AES_256_GCM_SHA384 | S::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384 | S::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384 => 2,
        _ if has_aes => 3,
        _ => 0,
    }
}

#[cfg(target_arch = "x86_64")]
fn has_aes() -> bool {
    std::arch::is_x86_feature_detected!("aes") && std::arch::is_x86_feature_detected!("pclmulqdq")
}

#[cfg(target_arch = "aarch64")]
fn has_aes() -> bool {
    std::arch::is_aarch64_feature_detected!("aes")
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn has_aes() -> bool {
    false
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn no_suite_is_lost_and_the_cheapest_come_first() {
        let (usual, all) = (usual().cipher_suites, ring::ALL_CIPHER_SUITES);
        assert!(usual.len() == all.len() && all.iter().all(|suite| usual.contains(suite)));
        let first = if has_aes() { CipherSuite::TLS13_AES_128_GCM_SHA256 } else { CipherSuite::TLS13_CHACHA20_POLY1305_SHA256 };
        assert_eq!(usual[0].suite(), first);
        let old = usual.iter().position(|suite| suite.tls13().is_none()).unwrap();
        assert!(usual[old..].iter().all(|suite| suite.tls13().is_none()), "the older version comes last");
    }
}
