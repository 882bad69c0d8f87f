//! A client's TLS: whom it trusts, whom it asks for, what it speaks, and what it shows.

use crate::clock::Clock;
use crate::identity::{authorities, certificates};
use crate::lane::OnLane;
use crate::provider::usual;
use crate::trust::{Anybody, Named};
use crate::{Error, Pem, Tls};
use corelane::Lanes;
use corelane::service::{Passage, Peer, Progress, Side, Transform, TransformError};
use rustls::client::danger::ServerCertVerifier;
use rustls::client::{ClientConnection, Resumption, WebPkiServerVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::ServerName;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{ClientConfig, Connection, RootCertStore};
use std::path::PathBuf;
use std::sync::Arc;

/// Servers of which a lane keeps sessions; of each the last eight tickets.
const SERVERS_KEPT: usize = 256;

/// Which servers a client believes to be who they say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Trust {
    /// Those whose certificates an authority has signed that this system trusts; `SSL_CERT_FILE` and `SSL_CERT_DIR` name others.
    #[default]
    System,
    /// Those whose certificates an authority of this file (PEM) has signed, or stand in the file themselves.
    Authorities(PathBuf),
    /// Everybody, whatever its certificate says: **for measuring only**. A host in between reads and changes all, and nobody notices.
    Anybody,
}

/// How a client speaks TLS, before its files are read.
///
/// ```no_run
/// # use corelane::{Cx, Input, Lanes, Next, Output, Peer, Silent, StreamService};
/// # struct Asker;
/// # impl StreamService for Asker {
/// #     type Talk = Silent;
/// #     type Session = ();
/// #     fn open(&mut self, _: &mut Cx, _: &Peer) {}
/// #     fn receive(&mut self, _: &mut Cx, _: &mut (), _: &mut Input, _: &mut Output) -> Next { Next::Continue }
/// # }
/// use corelane_tls::{Client, Trust};
///
/// let client = Client::new(Trust::System).name("example.org").protocols(&[b"http/1.1"]);
/// client.before(Lanes::per_core().client(|_lane| Asker))?.run()?; // it connects by `Cx::connect`
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Client {
    trust: Trust,
    name: Option<String>,
    protocols: Vec<Vec<u8>>,
    certificate: Option<Pem>,
    resumes: bool,
    is_for_named: bool,
    provider: Arc<CryptoProvider>,
}

impl Client {
    /// A client that believes these. It asks each server by its address, names no protocol, shows no certificate, goes on with sessions where a server
    /// lets it, and its cryptography is ring's.
    pub fn new(trust: Trust) -> Self {
        let provider = Arc::new(usual());
        Self { trust, name: None, protocols: Vec::new(), certificate: None, resumes: true, is_for_named: false, provider }
    }

    /// The name (or the address) of all servers that it connects to: it asks for that (RFC 6066, section 3), and it must stand in their certificates. By default it is the
    /// IP address that is connected to; a server at a Unix socket has none, and must be named.
    pub fn name(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    /// Speaks TLS on connections alone that are opened by a name ([`Cx::connect_named`](corelane::Cx::connect_named)), which it asks for unless [another](Client::name) was given for all. All others are as they were.
    pub fn for_named(mut self) -> Self {
        self.is_for_named = true;
        self
    }

    /// The protocols that it speaks, the most wanted first (ALPN, RFC 7301). A server that speaks some and none of these refuses; one that knows nothing of that says nothing
    /// ([`Learned::protocol`](corelane::service::Learned::protocol)).
    pub fn protocols(mut self, names: &[&[u8]]) -> Self {
        self.protocols = names.iter().map(|name| name.to_vec()).collect();
        self
    }

    /// The certificate that it shows a server that asks for one.
    pub fn certificate(mut self, pem: Pem) -> Self {
        self.certificate = Some(pem);
        self
    }

    /// Whether it goes on with sessions that began on other connections of the same lane, which spares both sides the most of a handshake; else all
    /// handshakes are full ones.
    pub fn resumption(mut self, resumes: bool) -> Self {
        self.resumes = resumes;
        self
    }

    /// Another provider of cryptography and randomness.
    pub fn provider(mut self, provider: CryptoProvider) -> Self {
        self.provider = Arc::new(provider);
        self
    }

    /// Reads the files, once.
    ///
    /// # Errors
    /// [`Error`]: what is wrong with which file, or with the name.
    pub fn load(&self) -> Result<Caller, Error> {
        let name = self.name.as_deref().map(|name| {
            let unfit = |error| Error::Name { name: name.to_owned(), why: format!("{error}") };
            ServerName::try_from(name.to_owned()).map_err(unfit)
        });
        let certificate = self.certificate.as_ref().map(|pem| pem.load(&self.provider)).transpose()?;
        let program = SharedClient {
            name: name.transpose()?,
            verifier: self.verifier()?,
            certificate: certificate.map(Arc::new),
            protocols: self.protocols.clone(),
            resumes: self.resumes,
            is_for_named: self.is_for_named,
            provider: self.provider.clone(),
        };
        program.configured(&Arc::default())?;
        Ok(Caller(Arc::new(program)))
    }

    fn verifier(&self) -> Result<Arc<dyn ServerCertVerifier>, Error> {
        match &self.trust {
            Trust::Anybody => Ok(Arc::new(Anybody::new(&self.provider))),
            Trust::System => Ok(self.signed_by(of_this_system()?)?),
            Trust::Authorities(path) => Ok(Arc::new(Named::new(self.signed_by(authorities(path)?)?, certificates(path)?))),
        }
    }

    fn signed_by(&self, roots: RootCertStore) -> Result<Arc<WebPkiServerVerifier>, Error> {
        let builder = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), self.provider.clone());
        builder.build().map_err(|error| Error::Authorities { why: error.to_string() })
    }

    /// Reads the files, and has the connections that the service that was added last opens speak TLS. Those that it accepts are as they were: with
    /// [`Server::before`](crate::Server::before) both speak it.
    ///
    /// # Errors
    /// Those of [`Client::load`] as [`corelane::Error::Setting`], and those of [`Lanes::transform`].
    pub fn before(&self, lanes: Lanes) -> Result<Lanes, corelane::Error> {
        let wrong = |error: Error| corelane::Error::Setting { name: "TLS", why: error.to_string() };
        self.load().map_err(wrong)?.before(lanes)
    }
}

/// The authorities that this system trusts.
fn of_this_system() -> Result<RootCertStore, Error> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    // Some systems list what no library takes any more: the others count.
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        let why = found.errors.iter().map(|error| format!("; {error}")).collect::<String>();
        return Err(Error::Authorities { why: format!("this system has none: install ca-certificates, or name a file{why}") });
    }
    Ok(roots)
}

/// The part that all lanes of a program share.
struct SharedClient {
    name: Option<ServerName<'static>>,
    verifier: Arc<dyn ServerCertVerifier>,
    certificate: Option<Arc<CertifiedKey>>,
    protocols: Vec<Vec<u8>>,
    resumes: bool,
    is_for_named: bool,
    provider: Arc<CryptoProvider>,
}

impl SharedClient {
    /// A lane's configuration, with a store of sessions of its own: nobody else takes its lock.
    fn configured(&self, clock: &Arc<Clock>) -> Result<ClientConfig, Error> {
        let builder = ClientConfig::builder_with_details(self.provider.clone(), clock.clone());
        let builder = builder.with_safe_default_protocol_versions();
        let builder = builder.map_err(|error| Error::Provider { what: format!("speaks no version of TLS: {error}") })?;
        // A dangerous choice has a name of its own, in `Trust`.
        let builder = builder.dangerous().with_custom_certificate_verifier(self.verifier.clone());
        let mut config = match &self.certificate {
            Some(key) => builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(key.clone()))),
            None => builder.with_no_client_auth(),
        };
        config.alpn_protocols.clone_from(&self.protocols);
        config.resumption = if self.resumes { Resumption::in_memory_sessions(SERVERS_KEPT) } else { Resumption::disabled() };
        Ok(config)
    }

    /// The name by which a server is asked for, and known.
    fn name_of(&self, peer: &Peer) -> Result<ServerName<'static>, TransformError> {
        let asked = peer.learned.as_ref().and_then(|learned| learned.server_name.as_deref());
        if let Some(asked) = asked.filter(|_| self.name.is_none()) {
            let unfit = |error| TransformError(format!("{asked} is no name of a server: {error}"));
            return ServerName::try_from(asked.to_owned()).map_err(unfit);
        }
        let by_address = || peer.address.ip().map(|ip| ServerName::IpAddress(ip.to_canonical().into()));
        let name = self.name.clone().or_else(by_address);
        name.ok_or_else(|| {
            TransformError(format!(
                "this side has no name to check the certificate of the server at {} against: give one with Client::name",
                peer.address
            ))
        })
    }
}

/// A client whose files have been read. A clone is the same one.
#[derive(Clone)]
pub struct Caller(Arc<SharedClient>);

impl std::fmt::Debug for Caller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Caller").field("name", &self.0.name).finish_non_exhaustive()
    }
}

impl Caller {
    /// Has the connections that the service that was added last opens speak TLS.
    ///
    /// # Errors
    /// Those of [`Lanes::transform`].
    pub fn before(self, lanes: Lanes) -> Result<Lanes, corelane::Error> {
        lanes.transform(move |_lane| self.lane())
    }

    /// The function that makes the transforms of one lane: for connections that it opens, and none for others. A service that asks for several names has a caller for each, and a
    /// function that chooses one by the [`Peer`]'s address.
    pub fn lane(&self) -> impl FnMut(Side, &Peer) -> Option<Box<dyn Transform>> + use<> {
        let program = self.0.clone();
        let clock = Arc::default();
        // reason: it was made when the files were read.
        let config = Arc::new(program.configured(&clock).expect("the provider has been tried"));
        move |side, peer| {
            let preface = || peer.learned.as_ref().map(|learned| learned.preface.clone()).unwrap_or_default();
            let connect = || program.name_of(peer).and_then(|name| call(&config, name)).map(|tls| tls.preface(preface()));
            let is_named = peer.learned.as_ref().is_some_and(|learned| learned.server_name.is_some());
            (side == Side::Client && (is_named || !program.is_for_named)).then(|| match connect() {
                Ok(tls) => Box::new(OnLane { tls, clock: clock.clone(), handshake: None }) as Box<dyn Transform>,
                Err(error) => Box::new(Refuses(error)),
            })
        }
    }
}

/// TLS for a connection that was opened.
fn call(config: &Arc<ClientConfig>, name: ServerName<'static>) -> Result<Tls, TransformError> {
    let asks_for = name.to_str().into_owned();
    let connection = ClientConnection::new(config.clone(), name);
    let connection = connection.map_err(|error| TransformError(format!("{asks_for} cannot be asked for: {error}")))?;
    Ok(Tls::new(Connection::Client(connection)).asks_for(asks_for))
}

/// Stands before a connection that must not go on in plain.
struct Refuses(TransformError);

impl Transform for Refuses {
    fn pass(&mut self, _passage: &mut Passage<'_>) -> Result<Progress, TransformError> {
        Err(self.0.clone())
    }
}
