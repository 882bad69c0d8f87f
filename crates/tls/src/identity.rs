//! The identity of a server: certificates with their keys, and which of them it shows whom.

use crate::{Error, keys};
use corelane::admin::machine::wall_clock;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{RootCertStore, SignatureScheme};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// The two files of one identity, both PEM (RFC 7468): a chain of certificates, the server's own first, and its private key (PKCS #8, PKCS #1 or SEC1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pem {
    pub(crate) certificates: PathBuf,
    pub(crate) key: PathBuf,
}

impl Pem {
    /// These two files; one may be both.
    pub fn new(certificates: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        Self { certificates: certificates.into(), key: key.into() }
    }

    pub(crate) fn load(&self, provider: &CryptoProvider) -> Result<CertifiedKey, Error> {
        let chain = certificates(&self.certificates)?;
        let key = PrivateKeyDer::from_pem_file(&self.key).map_err(|error| keys::refused(&self.key, error))?;
        let kind = keys::kind(&key);
        CertifiedKey::from_der(chain, key, provider).map_err(|error| {
            let pair = |why: String| Error::Pair { certificate: self.certificates.clone(), key: self.key.clone(), why };
            match error {
                rustls::Error::InconsistentKeys(_) => pair(
                    "the key is another certificate's; name the one that was made for the first certificate of the file"
                        .to_owned(),
                ),
                rustls::Error::InvalidCertificate(_) => pair(error.to_string()),
                error => Error::File { path: self.key.clone(), why: keys::unsupported(kind, &error) },
            }
        })
    }
}

/// All certificates of a file, of which there must be one.
pub(crate) fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    let wrong = |error| Error::pem(path, error, "a certificate");
    let all: Vec<_> = CertificateDer::pem_file_iter(path).map_err(wrong)?.collect::<Result<_, _>>().map_err(wrong)?;
    if all.is_empty() { Err(wrong(pem::Error::NoItemsFound)) } else { Ok(all) }
}

/// Those whose signatures are believed: the certificates of a file.
pub(crate) fn authorities(path: &Path) -> Result<RootCertStore, Error> {
    roots(path, certificates(path)?)
}

/// The same of certificates that were read from `path`.
pub(crate) fn roots(path: &Path, certificates: Vec<CertificateDer<'static>>) -> Result<RootCertStore, Error> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates {
        let unfit = |error| Error::File { path: path.to_owned(), why: format!("holds what is no authority: {error}") };
        roots.add(certificate).map_err(unfit)?;
    }
    Ok(roots)
}

/// The identities of a server, found by name. Several may have one name: which of them is shown is for the client's signature schemes to say.
#[derive(Debug)]
pub(crate) struct Identities {
    all: Vec<Arc<CertifiedKey>>,
    /// Names in small letters, `*.` before those that stand for one more label; those of one name in their order.
    names: BTreeMap<String, Vec<usize>>,
    /// Remarks for whoever serves.
    pub(crate) notes: Vec<String>,
}

impl Identities {
    /// # Errors
    /// Those of [`Pem::load`]; [`Error::NoCertificate`].
    pub(crate) fn load(files: &[Pem], provider: &CryptoProvider) -> Result<Self, Error> {
        let now = UnixTime::since_unix_epoch(Duration::from_nanos(wall_clock()));
        let mut identities = Self { all: Vec::new(), names: BTreeMap::new(), notes: Vec::new() };
        for pem in files {
            identities.add(pem, pem.load(provider)?, provider, now)?;
        }
        if identities.all.is_empty() { Err(Error::NoCertificate) } else { Ok(identities) }
    }

    fn add(&mut self, pem: &Pem, key: CertifiedKey, provider: &CryptoProvider, now: UnixTime) -> Result<(), Error> {
        let odd = |why: webpki::Error| Error::File {
            path: pem.certificates.clone(),
            why: format!("its first certificate is unfit: {why}"),
        };
        let first = webpki::EndEntityCert::try_from(&key.cert[0]).map_err(odd)?;
        let index = self.all.len();
        for name in first.valid_dns_names() {
            let of_name = self.names.entry(name.to_ascii_lowercase()).or_default();
            // A certificate may have a name twice.
            if of_name.last() != Some(&index) {
                of_name.push(index);
            }
        }
        self.notes
            .extend(out_of_date(&first, &key.cert, provider, now).map(|why| format!("{}: {why}", pem.certificates.display())));
        self.all.push(Arc::new(key));
        Ok(())
    }

    /// The certificates of each.
    pub(crate) fn chains(&self) -> impl Iterator<Item = &[CertificateDer<'static>]> {
        self.all.iter().map(|one| &one.cert[..])
    }

    /// The identity shown to who asks for `name`: of those with that name, then of those for all names beside it (RFC 6125 section 6.4.3), the first whose
    /// signatures are verified there; where none is, or nobody has the name, the first such of all. Where there is none at all, the first that the name has.
    fn of(&self, name: Option<&str>, verified: &[SignatureScheme]) -> &Arc<CertifiedKey> {
        let (exact, beside) = match name.map(str::to_ascii_lowercase) {
            Some(name) => {
                let beside = name.split_once('.').map(|(_, domain)| format!("*.{domain}"));
                (self.names.get(&name), beside.and_then(|beside| self.names.get(&beside)))
            }
            None => (None, None),
        };
        let of_name = [exact, beside].into_iter().flatten().flatten().map(|&index| &self.all[index]);
        let mut candidates = of_name.chain(&self.all);
        let first = candidates.clone().next();
        let shown = candidates.find(|one| one.key.choose_scheme(verified).is_some()).or(first);
        // reason: there is one, or the server would not have been loaded.
        shown.expect("a server has a certificate")
    }
}

impl ResolvesServerCert for Identities {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.of(hello.server_name(), hello.signature_schemes()).clone())
    }
}

/// A remark on a certificate's time, if it is not now. A path to the end of its own chain is looked for, because that looks at the time first.
fn out_of_date(
    first: &webpki::EndEntityCert<'_>,
    chain: &[CertificateDer<'static>],
    provider: &CryptoProvider,
    now: UnixTime,
) -> Option<&'static str> {
    let anchor = webpki::anchor_from_trusted_cert(chain.last()?).ok()?;
    let algorithms = provider.signature_verification_algorithms.all;
    let usage = webpki::KeyUsage::server_auth();
    match first.verify_for_usage(algorithms, &[anchor], &chain[1..], now, usage, None, None).err()? {
        webpki::Error::CertExpired { .. } => Some("its first certificate has expired; clients will refuse it"),
        webpki::Error::CertNotValidYet { .. } => Some("its first certificate is not valid yet; clients will refuse it"),
        _ => None,
    }
}
