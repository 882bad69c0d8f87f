//! How a server speaks TLS, and what was read of it from files: what its lanes share.

use crate::Error;
use crate::clock::Clock;
use crate::identity::{Identities, Pem, certificates, roots};
use crate::session::{Current, Known};
use crate::tickets::{Keys, Ring, Tickets};
use crate::transform::PlainAnswer;
use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::CertificateDer;
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Whom a server lets in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Clients {
    /// Everybody, without asking for a certificate.
    #[default]
    Anybody,
    /// Everybody; who shows a certificate must have one that an authority of this file (PEM) has signed.
    Asked(PathBuf),
    /// Only who shows a certificate that an authority of this file (PEM) has signed.
    Known(PathBuf),
}

impl Clients {
    /// In one word.
    fn word(&self) -> &'static str {
        match self {
            Self::Anybody => "anybody",
            Self::Asked(_) => "asked",
            Self::Known(_) => "known",
        }
    }

    fn authorities(&self) -> Option<&PathBuf> {
        match self {
            Self::Anybody => None,
            Self::Asked(path) | Self::Known(path) => Some(path),
        }
    }
}

/// A server's settings before its files are read.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) files: Vec<Pem>,
    pub(crate) clients: Clients,
    pub(crate) protocols: Vec<Vec<u8>>,
    pub(crate) plain_answer: Option<PlainAnswer>,
    pub(crate) provider: Arc<CryptoProvider>,
}

impl Settings {
    fn read(&self) -> Result<Material, Error> {
        let identities = Arc::new(Identities::load(&self.files, &self.provider)?);
        let keys = Keys::new(&self.provider)?;
        let authorities = self.clients.authorities().map(|path| Ok((path, certificates(path)?))).transpose()?;
        let believed = authorities.as_ref().map_or(&[][..], |(_, authorities)| authorities);
        let name = self.name(&keys, &identities, believed);
        let verifier = authorities.map(|(path, authorities)| self.verifier(path, authorities)).transpose()?;
        Ok(Material { identities, verifier, ring: Arc::new(Mutex::new(keys)), name })
    }

    /// By what the keys of sessions are told apart: whom the server lets in, what it shows, and whom it believes. A session that began where less was asked
    /// for, or where others were believed, does not go on.
    fn name(&self, keys: &Keys, identities: &Identities, believed: &[CertificateDer<'_>]) -> String {
        let mut told = Vec::new();
        let chains = identities.chains().map(|chain| chain.iter().collect::<Vec<_>>());
        for chain in chains.chain([believed.iter().collect()]) {
            told.extend(chain.len().to_be_bytes());
            chain.into_iter().for_each(|one| told.extend([&one.len().to_be_bytes()[..], one].concat()));
        }
        let hash: String = keys.hash(&told).as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        format!("tls {} {hash}", self.clients.word())
    }

    fn verifier(&self, path: &Path, authorities: Vec<CertificateDer<'static>>) -> Result<Arc<dyn ClientCertVerifier>, Error> {
        let unfit = |why: String| Error::File { path: path.to_owned(), why };
        let roots = Arc::new(roots(path, authorities)?);
        let builder = WebPkiClientVerifier::builder_with_provider(roots, self.provider.clone());
        let builder = if matches!(self.clients, Clients::Asked(_)) { builder.allow_unauthenticated() } else { builder };
        builder.build().map(|verifier| verifier as Arc<_>).map_err(|error| unfit(error.to_string()))
    }

    /// All files that are read.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &PathBuf> {
        self.files.iter().flat_map(|pem| [&pem.certificates, &pem.key]).chain(self.clients.authorities())
    }
}

/// The identities read from the files, and the keys of the sessions that began with them.
#[derive(Clone)]
pub(crate) struct Material {
    identities: Arc<Identities>,
    verifier: Option<Arc<dyn ClientCertVerifier>>,
    ring: Ring,
    /// The name of these keys.
    name: String,
}

/// The part that all lanes of a program share: read when a lane begins, and when the files have changed.
pub(crate) struct SharedServer {
    pub(crate) settings: Settings,
    generation: AtomicU64,
    material: Mutex<Material>,
}

impl SharedServer {
    /// Reads the files.
    pub(crate) fn load(settings: Settings) -> Result<Self, Error> {
        let tried = ServerConfig::builder_with_provider(settings.provider.clone()).with_safe_default_protocol_versions();
        tried.map_err(|error| Error::Provider { what: format!("speaks no version of TLS: {error}") })?;
        let material = settings.read()?;
        Ok(Self { settings, generation: AtomicU64::new(0), material: Mutex::new(material) })
    }

    /// Reads the files again; what is wrong with them changes nothing.
    pub(crate) fn reload(&self) -> Result<(), Error> {
        let material = self.settings.read()?;
        *self.held() = material;
        self.generation.fetch_add(1, Ordering::Release);
        Ok(())
    }

    /// The keys of the sessions that began here, with their name, for the process that takes over.
    pub(crate) fn keepsake(&self) -> (String, Vec<u8>) {
        let material = self.held();
        let keys = material.ring.lock().unwrap_or_else(PoisonError::into_inner).keepsake();
        (material.name.clone(), keys)
    }

    /// Goes on with the sessions of the process before, if these keys are named as its own would be: to be called before the first lane is made. Returns
    /// whether they are.
    pub(crate) fn inherit(&self, name: &str, keepsake: &[u8]) -> bool {
        let material = self.held();
        let is_own = material.name == name;
        if is_own {
            material.ring.lock().unwrap_or_else(PoisonError::into_inner).inherit(keepsake);
        }
        is_own
    }

    /// Remarks on the certificates.
    pub(crate) fn notes(&self) -> Vec<String> {
        self.held().identities.notes.clone()
    }

    fn held(&self) -> MutexGuard<'_, Material> {
        // It is replaced in one statement.
        self.material.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How often the files were read again.
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    pub(crate) fn plain_answer(&self) -> Option<PlainAnswer> {
        self.settings.plain_answer
    }

    /// A lane's configuration by what the files say now, and the generation of that.
    pub(crate) fn configured(&self, clock: &Arc<Clock>, current: &Arc<Current>) -> (Arc<ServerConfig>, u64) {
        // In this order: what is read after the generation is of that generation or a later one.
        let generation = self.generation();
        let Material { identities, verifier, ring, .. } = self.held().clone();
        let provider = &self.settings.provider;
        let builder = ServerConfig::builder_with_details(provider.clone(), clock.clone());
        // reason: the provider was asked for them when the files were read.
        let builder = builder.with_safe_default_protocol_versions().expect("the provider has been tried");
        let builder = match verifier.clone() {
            Some(inner) => builder.with_client_cert_verifier(Arc::new(Known { inner, current: current.clone() })),
            None => builder.with_no_client_auth(),
        };
        let mut config = builder.with_cert_resolver(identities);
        config.alpn_protocols.clone_from(&self.settings.protocols);
        // The provider's order says what costs this machine least; a client's was made on another.
        config.ignore_client_order = true;
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.ticketer = Arc::new(Tickets::new(provider.clone(), clock.clone(), ring, current.clone(), verifier));
        (Arc::new(config), generation)
    }
}
