//! A server's TLS: whom it shows which certificate, what it speaks, whom it lets in.

use crate::clock::{Clock, Origin};
use crate::identity::{Identities, Pem, certificates};
use crate::lane::Lane;
use crate::tickets::{Keys, Ring, Tickets};
use crate::{Error, Watch};
use corelane::admin::machine::{monotonic_nanoseconds, wall_clock};
use corelane::service::entry::Beside;
use corelane::service::{Peer, Side, Transform};
use corelane::{Lanes, admin::reports};
use rustls::{RootCertStore, ServerConfig};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::UnixTime;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::server::danger::ClientCertVerifier;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

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
    fn authorities(&self) -> Option<&PathBuf> {
        match self {
            Self::Anybody => None,
            Self::Asked(path) | Self::Known(path) => Some(path),
        }
    }
}

/// How a server speaks TLS, before its files are read.
#[derive(Clone, Debug)]
pub struct Server {
    files: Vec<Pem>,
    clients: Clients,
    protocols: Vec<Vec<u8>>,
    plain_answer: &'static [u8],
    provider: Arc<CryptoProvider>,
}

impl Server {
    /// A server with these identities: who asks for a name is shown the first whose certificate has it, and who asks for none, or for
    /// another, the first of all. It lets everybody in, speaks no protocol by name, and its cryptography is ring's.
    pub fn new(files: impl IntoIterator<Item = Pem>) -> Self {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        Self { files: files.into_iter().collect(), clients: Clients::Anybody, protocols: Vec::new(), plain_answer: b"", provider }
    }

    /// The protocols that it speaks, the most wanted first (ALPN, RFC 7301); who speaks some and none of these is refused.
    pub fn protocols(self, names: &[&[u8]]) -> Self {
        Self { protocols: names.iter().map(|name| name.to_vec()).collect(), ..self }
    }

    /// Whom it lets in.
    pub fn clients(self, clients: Clients) -> Self {
        Self { clients, ..self }
    }

    /// What is answered, in plain, to who speaks no TLS but begins with a letter, as HTTP does. By default an alert of TLS.
    pub fn plain_answer(self, answer: &'static [u8]) -> Self {
        Self { plain_answer: answer, ..self }
    }

    /// Another provider of cryptography and randomness.
    pub fn provider(self, provider: CryptoProvider) -> Self {
        Self { provider: Arc::new(provider), ..self }
    }

    /// Reads the files.
    ///
    /// # Errors
    /// [`Error`]: what is wrong with which file.
    pub fn load(&self) -> Result<Served, Error> {
        let tried = rustls::ServerConfig::builder_with_provider(self.provider.clone()).with_safe_default_protocol_versions();
        tried.map_err(|error| Error::Provider { what: format!("speaks no version of TLS: {error}") })?;
        let origin = Arc::new(Origin::default());
        set_by_time_of_day(&origin);
        let material = self.read(&origin)?;
        let generation = AtomicU64::new(0);
        Ok(Served(Arc::new(Program { server: self.clone(), origin, generation, material: Mutex::new(material) })))
    }

    /// Reads the files, has the service that was added last speak TLS, and looks after the files as long as the lanes run.
    ///
    /// # Errors
    /// Those of [`Server::load`] as [`corelane::Error::Setting`], and those of [`Lanes::transform`].
    pub fn before(&self, lanes: Lanes) -> Result<Lanes, corelane::Error> {
        let served = self.load().map_err(|error| corelane::Error::Setting { name: "TLS", why: error.to_string().into() })?;
        let lane = served.clone();
        let lanes = lanes.transform(move |_lane| lane.lane())?;
        Ok(lanes.beside(move || {
            let notes = served.notes().into_iter().fold(Beside::default(), Beside::note);
            notes.keep(served.watch())
        }))
    }

    fn read(&self, origin: &Origin) -> Result<Material, Error> {
        let now = UnixTime::since_unix_epoch(Duration::from_nanos(origin.unix(monotonic_nanoseconds())));
        let identities = Arc::new(Identities::load(&self.files, &self.provider, now)?);
        let ring = Arc::new(Mutex::new(Keys::new(&self.provider)?));
        Ok(Material { identities, verifier: self.verifier()?, ring })
    }

    fn verifier(&self) -> Result<Option<Arc<dyn ClientCertVerifier>>, Error> {
        let Some(path) = self.clients.authorities() else { return Ok(None) };
        let unfit = |why: String| Error::File { path: path.clone(), why };
        let mut roots = RootCertStore::empty();
        for certificate in certificates(path)? {
            roots.add(certificate).map_err(|error| unfit(format!("holds what is no authority: {error}")))?;
        }
        let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), self.provider.clone());
        let builder = if matches!(self.clients, Clients::Asked(_)) { builder.allow_unauthenticated() } else { builder };
        builder.build().map(|verifier| Some(verifier as Arc<_>)).map_err(|error| unfit(error.to_string()))
    }

    /// All files that are read.
    fn paths(&self) -> impl Iterator<Item = &PathBuf> {
        self.files.iter().flat_map(|pem| [&pem.certificates, &pem.key]).chain(self.clients.authorities())
    }
}

/// A server whose files have been read. A clone is the same one.
#[derive(Clone)]
pub struct Served(Arc<Program>);

/// What all lanes of a program share: read when a lane begins, and when the files have changed.
pub(crate) struct Program {
    server: Server,
    origin: Arc<Origin>,
    generation: AtomicU64,
    material: Mutex<Material>,
}

/// What was read from the files, and the keys of the sessions that began with it.
#[derive(Clone)]
pub(crate) struct Material {
    identities: Arc<Identities>,
    verifier: Option<Arc<dyn ClientCertVerifier>>,
    ring: Ring,
}

impl Served {
    /// What makes the transforms of one lane.
    pub fn lane(&self) -> impl FnMut(Side, &Peer) -> Option<Box<dyn Transform>> + use<> {
        let mut lane = Lane::new(self.0.clone());
        move |side, _peer| (side == Side::Server).then(|| lane.accept())
    }

    /// Reads the files again: connections that are accepted from now on have what is in them, and the others go on with what they had. Sessions
    /// that began before are not resumed.
    ///
    /// # Errors
    /// Those of [`Server::load`]; the server goes on with what it had.
    pub fn reload(&self) -> Result<(), Error> {
        let material = self.0.server.read(&self.0.origin)?;
        *self.0.held() = material;
        self.0.generation.fetch_add(1, Ordering::Release);
        Ok(())
    }

    /// What who serves should know of the certificates: that one has expired, or is not valid yet.
    pub fn notes(&self) -> Vec<String> {
        self.0.held().identities.notes.clone()
    }

    /// Looks after the files from a thread of its own, until what is returned is dropped: what changes is read within a second or two, and what is wrong with it
    /// is reported.
    pub fn watch(&self) -> Watch {
        let served = self.clone();
        Watch::begin(self.0.server.paths().cloned().collect(), move |has_changed| {
            set_by_time_of_day(&served.0.origin);
            if has_changed {
                served.reload_and_report();
            }
        })
    }

    fn reload_and_report(&self) {
        match self.reload() {
            Ok(()) => {
                reports::say("TLS: new certificates are shown from now on");
                self.notes().iter().for_each(|note| reports::say(note));
            }
            Err(error) => reports::say(&format!("TLS: what was there before is kept: {error}")),
        }
    }
}

impl Program {
    fn held(&self) -> MutexGuard<'_, Material> {
        // It is replaced in one statement.
        self.material.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How often the files were read again.
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    pub(crate) fn clock(&self) -> Arc<Clock> {
        Arc::new(Clock::new(self.origin.clone()))
    }

    pub(crate) fn plain_answer(&self) -> &'static [u8] {
        self.server.plain_answer
    }

    /// A lane's configuration by what the files say now, and the generation of that.
    pub(crate) fn configured(&self, clock: &Arc<Clock>) -> (Arc<ServerConfig>, u64) {
        // In this order: what is read after the generation is of that generation or a later one.
        let generation = self.generation();
        let Material { identities, verifier, ring } = self.held().clone();
        let provider = &self.server.provider;
        let builder = ServerConfig::builder_with_details(provider.clone(), clock.clone());
        // reason: the provider was asked for them when the files were read.
        let builder = builder.with_safe_default_protocol_versions().expect("the provider has been tried");
        let builder = match verifier {
            Some(verifier) => builder.with_client_cert_verifier(verifier),
            None => builder.with_no_client_auth(),
        };
        let mut config = builder.with_cert_resolver(identities);
        config.alpn_protocols.clone_from(&self.server.protocols);
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.ticketer = Arc::new(Tickets::new(provider.clone(), clock.clone(), ring));
        (Arc::new(config), generation)
    }
}

fn set_by_time_of_day(origin: &Origin) {
    origin.set(wall_clock().saturating_sub(monotonic_nanoseconds()));
}
