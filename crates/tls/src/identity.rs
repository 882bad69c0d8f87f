//! Who a server is: certificates with their keys, and which of them it shows whom.

use crate::Error;
use corelane::admin::machine::wall_clock;
use rustls::RootCertStore;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
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
        let key = PrivateKeyDer::from_pem_file(&self.key).map_err(|error| refused(&self.key, error, "a private key"))?;
        CertifiedKey::from_der(chain, key, provider).map_err(|error| Error::Pair {
            certificate: self.certificates.clone(),
            key: self.key.clone(),
            why: unfit(error),
        })
    }
}

/// Why a key does not belong to a certificate, and the remedy.
fn unfit(error: rustls::Error) -> String {
    match error {
        rustls::Error::InconsistentKeys(_) => {
            "the key is another certificate's; name the one that was made for the first certificate of the file".to_owned()
        }
        other => other.to_string(),
    }
}

/// All certificates of a file, of which there must be one.
pub(crate) fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    let wrong = |error| refused(path, error, "a certificate");
    let all: Vec<_> = CertificateDer::pem_file_iter(path).map_err(wrong)?.collect::<Result<_, _>>().map_err(wrong)?;
    if all.is_empty() { Err(wrong(pem::Error::NoItemsFound)) } else { Ok(all) }
}

/// Those whose signatures are believed: the certificates of a file.
pub(crate) fn authorities(path: &Path) -> Result<RootCertStore, Error> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path)? {
        let unfit = |error| Error::File { path: path.to_owned(), why: format!("holds what is no authority: {error}") };
        roots.add(certificate).map_err(unfit)?;
    }
    Ok(roots)
}

fn refused(path: &Path, error: pem::Error, what: &str) -> Error {
    let why = match error {
        pem::Error::Io(error) => error.to_string(),
        pem::Error::NoItemsFound => format!("holds no {} in PEM", what.trim_start_matches("a ")),
        error => format!("holds what is no PEM of {what}: {error}"),
    };
    Error::File { path: path.to_owned(), why }
}

/// The identities of a server, found by name. The first is shown to who asks for none of them.
#[derive(Debug)]
pub(crate) struct Identities {
    all: Vec<Arc<CertifiedKey>>,
    /// Names in small letters, `*.` before those that stand for one more label.
    names: BTreeMap<String, usize>,
    /// What who serves should know.
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
            self.names.entry(name.to_ascii_lowercase()).or_insert(index);
        }
        self.notes
            .extend(out_of_date(&first, &key.cert, provider, now).map(|why| format!("{}: {why}", pem.certificates.display())));
        self.all.push(Arc::new(key));
        Ok(())
    }

    /// Who is shown to who asks for `name`: that name's certificate, one for all names beside it (RFC 6125 section 6.4.3), or the first.
    fn of(&self, name: Option<&str>) -> &Arc<CertifiedKey> {
        let found = name.and_then(|name| {
            let name = name.to_ascii_lowercase();
            let beside = name.split_once('.').map(|(_, domain)| format!("*.{domain}"));
            self.names.get(&name).or_else(|| self.names.get(&beside?))
        });
        &self.all[found.copied().unwrap_or(0)]
    }
}

impl ResolvesServerCert for Identities {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.of(hello.server_name()).clone())
    }
}

/// What is to be said of a certificate's time, if it is not now. A path to the end of its own chain is looked for, because that looks at the time first.
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
