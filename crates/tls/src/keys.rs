//! The kind of key that a file holds, in words: for those that cannot be signed with.

use crate::Error;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem;
use std::path::Path;

/// The kinds of key with which the usual provider signs.
const SUPPORTED: &str = "ECDSA with P-256 or P-384, RSA of 2048 to 4096 bits, Ed25519";

/// Object identifiers that tell a kind of key, as they stand in its file (RFC 5480, RFC 8017, RFC 8410, RFC 9881), and what each is called. A curve stands
/// behind its algorithm, so curves come first here.
const KINDS: [(&[u8], &str); 16] = [
    (&[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07], "ECDSA key (P-256)"),
    (&[0x2b, 0x81, 0x04, 0x00, 0x22], "ECDSA key (P-384)"),
    (&[0x2b, 0x81, 0x04, 0x00, 0x23], "ECDSA key (P-521)"),
    (&[0x2b, 0x81, 0x04, 0x00, 0x0a], "ECDSA key (secp256k1)"),
    (&[0x2b, 0x24, 0x03, 0x03, 0x02, 0x08, 0x01, 0x01, 0x07], "ECDSA key (brainpoolP256r1)"),
    (&[0x2a, 0x81, 0x1c, 0xcf, 0x55, 0x01, 0x82, 0x2d], "SM2 key"),
    (&[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01], "ECDSA key of another curve"),
    (&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01], "RSA key"),
    (&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x0a], "RSA-PSS key"),
    (&[0x2a, 0x86, 0x48, 0xce, 0x38, 0x04, 0x01], "DSA key"),
    (&[0x2b, 0x65, 0x6e], "X25519 key"),
    (&[0x2b, 0x65, 0x70], "Ed25519 key"),
    (&[0x2b, 0x65, 0x71], "Ed448 key"),
    (&[0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x03, 0x11], "ML-DSA-44 key"),
    (&[0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x03, 0x12], "ML-DSA-65 key"),
    (&[0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x03, 0x13], "ML-DSA-87 key"),
];

/// Bytes at the beginning of a key in which its kind stands: in PKCS #8 before the key, in SEC1 behind it.
const HEAD_MAX: usize = 128;

/// The kind of this key.
pub(crate) fn kind(key: &PrivateKeyDer<'_>) -> &'static str {
    if let PrivateKeyDer::Pkcs1(_) = key {
        return "RSA key";
    }
    let bytes = key.secret_der();
    let head = &bytes[..bytes.len().min(HEAD_MAX)];
    let stands = |identifier: &&(&[u8], &str)| {
        let written = [&[6, identifier.0.len() as u8], identifier.0].concat();
        head.windows(written.len()).any(|bytes| bytes == written)
    };
    KINDS.iter().find(stands).map_or("key of a kind that is not known here", |(_, kind)| kind)
}

/// Why no signature can be made with a key of this kind, and the remedy.
pub(crate) fn unsupported(kind: &str, error: &rustls::Error) -> String {
    let article = if kind.starts_with(['E', 'R', 'S', 'X', 'M']) { "an" } else { "a" };
    let why = match error {
        rustls::Error::General(why) => why.clone(),
        other => other.to_string(),
    };
    format!("holds {article} {kind}, which cannot be used here ({why}): make a key and a certificate of {SUPPORTED}")
}

/// The error for a file without a private key: what it holds instead, and the remedy.
pub(crate) fn refused(path: &Path, error: pem::Error) -> Error {
    let text = std::fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    let is_encrypted = text.contains("BEGIN ENCRYPTED PRIVATE KEY") || text.contains("Proc-Type: 4,ENCRYPTED");
    let other = text.lines().filter_map(|line| line.trim().strip_prefix("-----BEGIN ")?.strip_suffix("-----"));
    let other: Vec<&str> = other.filter(|label| label.ends_with("PRIVATE KEY")).collect();
    let unfit = |why: String| Error::File { path: path.to_owned(), why };
    match error {
        _ if is_encrypted => unfit(
            "holds a private key that is encrypted, and nobody can be asked for its passphrase: write it without one (openssl pkey -in FILE -out NEW)"
                .to_owned(),
        ),
        pem::Error::NoItemsFound if !other.is_empty() => unfit(format!(
            "holds {:?}, which is not read: write it as PKCS #8 (openssl pkey -in FILE -out NEW), as a key of {SUPPORTED}",
            other.join(", ")
        )),
        error => Error::pem(path, error, "a private key"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::pki_types::{PrivatePkcs1KeyDer, PrivatePkcs8KeyDer, PrivateSec1KeyDer};

    #[test]
    fn a_key_is_called_by_its_curve_before_its_algorithm() {
        let ec = [&[0x30, 0x13, 6, 7][..], KINDS[6].0, &[6, 5], KINDS[2].0, &[4, 0]].concat();
        assert_eq!(kind(&PrivatePkcs8KeyDer::from(ec).into()), "ECDSA key (P-521)");
        let sec1 = [&[0x30, 0x74, 2, 1, 1, 4, 32][..], &[9; 32], &[0xa0, 7, 6, 5], KINDS[3].0].concat();
        assert_eq!(kind(&PrivateSec1KeyDer::from(sec1).into()), "ECDSA key (secp256k1)");
        assert_eq!(kind(&PrivatePkcs8KeyDer::from(vec![0x30, 5, 6, 3, 0x2b, 0x65, 0x71]).into()), "Ed448 key");
        assert_eq!(kind(&PrivatePkcs1KeyDer::from(vec![1]).into()), "RSA key");
        assert_eq!(kind(&PrivatePkcs8KeyDer::from(vec![1]).into()), "key of a kind that is not known here");
    }
}
