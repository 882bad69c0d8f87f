//! What a server promises, held against rustls as its client: names, sessions on any lane, clients with certificates, new files.

use crate::tls::authority::{Authority, replace};
use corelane::admin::watch::{Reader, ServiceCounter};
use corelane::lanes::Running;
use corelane::{Cx, Input, Lanes, Next, Output, Peer, Silent, StreamService};
use corelane_tls::rustls::client::Resumption;
use corelane_tls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use corelane_tls::rustls::pki_types::pem::PemObject;
use corelane_tls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use corelane_tls::rustls::{
    self, ClientConfig, ClientConnection, DigitallySignedStruct, HandshakeKind, ProtocolVersion, RootCertStore, SignatureScheme,
    StreamOwned,
};
use corelane_tls::{Clients, Error, Pem, Server};
use rcgen::date_time_ymd;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

/// After this a test has failed.
const PATIENCE: Duration = Duration::from_secs(60);

/// Says who the peer is by its certificate, and what it asked for: a line for each line.
pub struct Who;

impl StreamService for Who {
    type Talk = Silent;
    type Session = String;

    fn open(&mut self, _cx: &mut Cx<'_>, peer: &Peer) -> String {
        let learned = peer.learned.as_deref().unwrap();
        format!("{} {}\n", learned.server_name.as_deref().unwrap_or("-"), learned.certificates.len())
    }

    fn receive(&mut self, _cx: &mut Cx<'_>, who: &mut String, input: &mut Input, output: &mut Output) -> Next {
        while let Some(end) = input.position(b'\n') {
            input.skip(end + 1);
            output.write(who.as_bytes()).unwrap();
        }
        Next::Continue
    }
}

impl Authority {
    fn trusting(&self) -> rustls::ConfigBuilder<ClientConfig, rustls::client::WantsClientCert> {
        let mut roots = RootCertStore::empty();
        roots.add(self.issuer.der().clone()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap().with_root_certificates(roots)
    }

    pub fn client(&self) -> Client {
        Client::new(self.trusting().with_no_client_auth())
    }

    /// A client that shows this certificate.
    fn client_with(&self, file: &str) -> Client {
        let chain = vec![CertificateDer::from_pem_file(self.path(file)).unwrap()];
        let key = PrivateKeyDer::from_pem_file(self.path(&format!("{file}.key"))).unwrap();
        Client::new(self.trusting().with_client_auth_cert(chain, key).unwrap())
    }
}

pub struct Client {
    config: Arc<ClientConfig>,
}

pub type Stream = StreamOwned<ClientConnection, TcpStream>;

impl Client {
    /// A client that says that it verifies these kinds of signatures.
    fn verifying(schemes: &'static [SignatureScheme]) -> Self {
        Self::verifying_by(rustls::DEFAULT_VERSIONS, schemes)
    }

    /// The same, of these versions.
    fn verifying_by(versions: &[&'static rustls::SupportedProtocolVersion], schemes: &'static [SignatureScheme]) -> Self {
        let provider = rustls::crypto::ring::default_provider();
        let builder = ClientConfig::builder_with_provider(provider.into()).with_protocol_versions(versions).unwrap();
        let anybody = Arc::new(Anybody(schemes));
        Self::new(builder.dangerous().with_custom_certificate_verifier(anybody).with_no_client_auth())
    }

    fn new(mut config: ClientConfig) -> Self {
        config.resumption = Resumption::in_memory_sessions(64);
        Self { config: Arc::new(config) }
    }

    pub fn connect(&self, running: &Running, name: &str) -> Stream {
        let socket = TcpStream::connect(running.address()).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        let name = name.to_owned().try_into().unwrap();
        StreamOwned::new(ClientConnection::new(self.config.clone(), name).unwrap(), socket)
    }

    /// What the server says to who asks for `name`, on a connection that ends in order.
    fn ask(&self, running: &Running, name: &str) -> std::io::Result<(String, HandshakeKind)> {
        let mut stream = self.connect(running, name);
        stream.write_all(b"\n")?;
        let mut said = String::new();
        while !said.ends_with('\n') {
            let mut byte = [0];
            stream.read_exact(&mut byte)?;
            said.push(char::from(byte[0]));
        }
        stream.conn.send_close_notify();
        stream.flush()?;
        assert_eq!(stream.read(&mut [0])?, 0, "the server takes leave, too");
        Ok((said, stream.conn.handshake_kind().unwrap()))
    }

    /// The first name in the certificate that is shown to who asks for `name`.
    fn shown(&self, running: &Running, name: &str) -> CertificateDer<'static> {
        let mut stream = self.connect(running, name);
        while stream.conn.is_handshaking() {
            stream.conn.complete_io(&mut stream.sock).unwrap();
        }
        stream.conn.peer_certificates().unwrap()[0].clone().into_owned()
    }
}

fn serve(server: &Server, lanes: usize) -> Running {
    let lanes = Lanes::per_core().lanes(lanes).serve("tcp://127.0.0.1:0", |_| Who).unwrap();
    server.before(lanes).unwrap().start().unwrap()
}

/// The counts of each lane.
fn counted(running: &Running, counter: ServiceCounter) -> Vec<u64> {
    let lanes = Reader::of(running.counters()).unwrap().snapshot(0).lanes;
    lanes.iter().map(|lane| lane.services[0].get(counter)).collect()
}

pub fn end(running: Running) {
    running.drain();
    running.wait().unwrap();
}

#[test]
fn each_name_is_shown_its_certificate_and_others_the_first() {
    let authority = Authority::new("names");
    let first = authority.sign("first", &["one.test", "*.one.test"], |_| {});
    let second = authority.sign("second", &["two.test"], |_| {});
    let running = serve(&Server::new([first, second]), 1);
    let client = authority.client();
    for name in ["one.test", "ONE.test", "any.one.test", "two.test"] {
        assert_eq!(client.ask(&running, name).unwrap().0, format!("{} 0\n", name.to_lowercase()));
    }
    // The first is shown, and the client knows that it is none of these.
    for name in ["three.test", "a.b.one.test", "a.two.test"] {
        let error = client.ask(&running, name).unwrap_err();
        assert!(error.to_string().contains("not valid for name"), "{name}: {error}");
    }
    end(running);
}

/// Certificates of several kinds for one name stand side by side (RFC 8446, section 4.4.2.2).
#[test]
fn of_two_certificates_for_a_name_a_client_is_shown_what_it_verifies() {
    let authority = Authority::new("kinds");
    let first = authority.sign("first", &["one.test"], |_| {});
    let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap();
    let second = authority.sign_for(&key, "second", &["one.test"], |_| {});
    let running = serve(&Server::new([first, second]), 1);
    let shown = |client: &Client, name| client.shown(&running, name);
    let file = |name: &str| CertificateDer::from_pem_file(authority.path(name)).unwrap();
    assert_eq!(shown(&authority.client(), "one.test"), file("first"), "the first of those that it verifies");
    let newer = Client::verifying(&[SignatureScheme::ED25519]);
    assert_eq!(shown(&newer, "one.test"), file("second"));
    assert_eq!(shown(&newer, "other.test"), file("second"), "nobody has the name");
    end(running);
}

/// ECDSA and RSA for one name, as most have it that have two: an old client is shown RSA, by TLS 1.2 and 1.3.
#[test]
fn of_ecdsa_and_rsa_a_client_is_shown_what_it_verifies() {
    let Some(key) = rsa_key() else { return };
    let authority = Authority::new("ecdsa and rsa");
    let ecdsa = authority.sign("ecdsa", &["one.test"], |_| {});
    let rsa = authority.sign_for(&key, "rsa", &["one.test"], |_| {});
    let file = |name: &str| CertificateDer::from_pem_file(authority.path(name)).unwrap();
    use SignatureScheme as S;
    for (pair, preferred) in [([ecdsa.clone(), rsa.clone()], "ecdsa"), ([rsa, ecdsa], "rsa")] {
        let running = serve(&Server::new(pair), 1);
        for (schemes, kind) in [
            (&[S::RSA_PSS_SHA256][..], "rsa"),
            (&[S::ECDSA_NISTP256_SHA256], "ecdsa"),
            (&[S::ECDSA_NISTP256_SHA256, S::RSA_PSS_SHA256], preferred),
        ] {
            assert_eq!(Client::verifying(schemes).shown(&running, "one.test"), file(kind), "{schemes:?}");
        }
        // Signatures that TLS 1.2 alone has.
        let old = Client::verifying_by(&[&rustls::version::TLS12], &[S::RSA_PKCS1_SHA256]);
        assert_eq!(old.shown(&running, "one.test"), file("rsa"));
        end(running);
    }
}

/// An RSA key, which openssl draws: ring draws none.
fn rsa_key() -> Option<rcgen::KeyPair> {
    crate::tls::foreign::is_there("openssl", "version").then(|| {
        let mut openssl = std::process::Command::new("openssl");
        let drawn = openssl.args(["genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"]).output().unwrap();
        assert!(drawn.status.success(), "{drawn:?}");
        rcgen::KeyPair::from_pem(&String::from_utf8(drawn.stdout).unwrap()).unwrap()
    })
}

/// Verifies these kinds of signatures, and believes whatever is signed.
#[derive(Debug)]
struct Anybody(&'static [SignatureScheme]);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.to_vec()
    }
}

#[test]
fn a_session_goes_on_at_any_lane() {
    for version in [&rustls::version::TLS13, &rustls::version::TLS12] {
        let authority = Authority::new(if version.version == ProtocolVersion::TLSv1_3 { "three" } else { "two" });
        let running = serve(&Server::new([authority.sign("first", &["one.test"], |_| {})]), 2);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_protocol_versions(&[version]).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(authority.issuer.der().clone()).unwrap();
        let client = Client::new(builder.with_root_certificates(roots).with_no_client_auth());
        let kinds: Vec<_> = (0..40).map(|_| client.ask(&running, "one.test").unwrap().1).collect();
        assert_eq!(kinds[0], HandshakeKind::Full);
        assert!(kinds[1..].iter().all(|kind| *kind == HandshakeKind::Resumed), "{kinds:?}");
        let handshakes = counted(&running, ServiceCounter::Handshakes);
        assert!(handshakes.iter().all(|count| *count > 0) && handshakes.len() == 2, "both lanes had some: {handshakes:?}");
        end(running);
    }
}

#[test]
fn who_must_be_known_shows_a_certificate() {
    let authority = Authority::new("clients");
    let stranger = Authority::new("strangers");
    let first = authority.sign("first", &["one.test"], |_| {});
    authority.sign("friend", &["friend.test"], |_| {});
    // Signed by somebody else.
    stranger.sign("friend", &["friend.test"], |_| {});
    std::fs::copy(stranger.path("friend"), authority.path("odd")).unwrap();
    std::fs::copy(stranger.path("friend.key"), authority.path("odd.key")).unwrap();
    let known = serve(&Server::new([first.clone()]).clients(Clients::Known(authority.path("authority"))), 1);
    let asked = serve(&Server::new([first]).clients(Clients::Asked(authority.path("authority"))), 1);
    for running in [&known, &asked] {
        assert_eq!(authority.client_with("friend").ask(running, "one.test").unwrap().0, "one.test 1\n");
        let error = authority.client_with("odd").ask(running, "one.test").unwrap_err().to_string();
        assert!(error.contains("UnknownCA") || error.contains("DecryptError"), "{error}");
    }
    assert_eq!(authority.client().ask(&asked, "one.test").unwrap().0, "one.test 0\n");
    let error = authority.client().ask(&known, "one.test").unwrap_err().to_string();
    assert!(error.contains("CertificateRequired"), "{error}");
    end(known);
    end(asked);
}

#[test]
fn new_files_are_shown_and_those_who_are_there_go_on() {
    let authority = Authority::new("anew");
    let pem = authority.sign("first", &["one.test"], |_| {});
    let running = serve(&Server::new([pem]), 1);
    let client = authority.client();
    let mut standing = client.connect(&running, "one.test");
    standing.write_all(b"\n").unwrap();
    let shown = client.shown(&running, "one.test");
    authority.sign("first", &["one.test"], |_| {});
    let new = CertificateDer::from_pem_file(authority.path("first")).unwrap();
    assert_ne!(shown, new);
    // The event that is waited for: the thread that looks after files has no other sign.
    let begun = std::time::Instant::now();
    while authority.client().shown(&running, "one.test") != new {
        assert!(begun.elapsed() < PATIENCE, "the new certificate is never shown");
    }
    standing.write_all(b"\n").unwrap();
    let mut said = [0; 22];
    standing.read_exact(&mut said).unwrap();
    assert_eq!(&said, b"one.test 0\none.test 0\n", "who was there goes on");
    end(running);
}

/// As who rotates certificates by a link does: the names of the files stay, and the folder behind them is another one.
#[test]
fn a_link_that_is_moved_brings_new_files() {
    let authority = Authority::new("link");
    let publish = |folder: &str| {
        std::fs::create_dir(authority.path(folder)).unwrap();
        authority.sign(&format!("{folder}/first"), &["one.test"], |_| {});
        std::os::unix::fs::symlink(folder, authority.path("next")).unwrap();
        std::fs::rename(authority.path("next"), authority.path("live")).unwrap();
        CertificateDer::from_pem_file(authority.path("live/first")).unwrap()
    };
    let old = publish("one");
    let running = serve(&Server::new([Pem::new(authority.path("live/first"), authority.path("live/first.key"))]), 1);
    assert_eq!(authority.client().shown(&running, "one.test"), old);
    let new = publish("two");
    // The event that is waited for, as above.
    let begun = std::time::Instant::now();
    while authority.client().shown(&running, "one.test") != new {
        assert!(begun.elapsed() < PATIENCE, "the new certificate is never shown");
    }
    end(running);
}

#[test]
fn what_is_wrong_with_new_files_keeps_the_old() {
    let authority = Authority::new("kept");
    let served = Server::new([authority.sign("first", &["one.test"], |_| {})]).load().unwrap();
    let lane = served.clone();
    let lanes = Lanes::per_core().lanes(1).serve("tcp://127.0.0.1:0", |_| Who).unwrap();
    let running = lanes.transform(move |_| lane.lane()).unwrap().start().unwrap();
    let client = authority.client();
    assert_eq!(client.ask(&running, "one.test").unwrap().1, HandshakeKind::Full);
    let whole = std::fs::read_to_string(authority.path("first")).unwrap();
    replace(&authority.path("first"), "no certificate");
    assert!(served.reload().unwrap_err().to_string().ends_with("first: holds no certificate in PEM"));
    assert_eq!(client.ask(&running, "one.test").unwrap().1, HandshakeKind::Resumed);
    // Written by half; and whole, before its key is.
    replace(&authority.path("first"), &whole[..whole.len() / 2]);
    assert!(served.reload().unwrap_err().to_string().contains("first: holds what is no PEM of a certificate"));
    authority.sign("next", &["one.test"], |_| {});
    replace(&authority.path("first"), &std::fs::read_to_string(authority.path("next")).unwrap());
    assert!(served.reload().unwrap_err().to_string().contains("first.key are no pair"));
    assert_eq!(client.ask(&running, "one.test").unwrap().1, HandshakeKind::Resumed);
    authority.sign("first", &["one.test"], |_| {});
    served.reload().unwrap();
    // Whom a session knew may not be let in any more.
    assert_eq!(client.ask(&running, "one.test").unwrap().1, HandshakeKind::Full);
    end(running);
}

#[test]
fn who_speaks_in_plain_is_answered_so_if_that_was_asked_for() {
    let authority = Authority::new("plain");
    let server = Server::new([authority.sign("first", &["one.test"], |_| {})]).plain_answer(|now| {
        assert!(now.as_secs() > 1_700_000_000, "the time of day");
        b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec()
    });
    let running = serve(&server, 1);
    let head = "POST / HTTP/1.1\r\nhost: one.test\r\ncontent-length: 1000000\r\n\r\n".to_owned();
    // One byte; a request; and one whose body comes when all is decided: none is reset, so each sees the answer, and an end in order.
    for request in ["G".to_owned(), "GET / HTTP/1.1\r\nhost: one.test\r\n\r\n".to_owned(), head + &"x".repeat(1_000_000)] {
        let mut stream = TcpStream::connect(running.address()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert_eq!(answer, "HTTP/1.1 400 Bad Request\r\n\r\n");
    }
    assert_eq!(authority.client().ask(&running, "one.test").unwrap().0, "one.test 0\n");
    end(running);
}

/// Nobody's key.
const ED448: &str = "\
-----BEGIN PRIVATE KEY-----\n\
MEcCAQAwBQYDK2VxBDsEOW/vH8eKmzhEi92zwPpiX9KVKyaeE5qgPUIEFLLPjjgn\n\
ghpvRdmED4RXRuIEM9QAhVlpvFI9DJ4N4w==\n\
-----END PRIVATE KEY-----\n";

#[test]
fn what_is_wrong_with_a_file_is_said() {
    let authority = Authority::new("wrong");
    let (first, second) = (authority.sign("first", &["one.test"], |_| {}), authority.sign("second", &["two.test"], |_| {}));
    let why = |pem| match Server::new([pem]).load() {
        Err(error) => error.to_string(),
        Ok(served) => served.notes().join(", "),
    };
    assert_eq!(why(first), "");
    let pair = Pem::new(authority.path("first"), authority.path("second.key"));
    assert!(why(pair).contains("second.key are no pair"));
    let turned = Pem::new(authority.path("second.key"), authority.path("second"));
    assert!(why(turned).ends_with("second.key: holds no certificate in PEM"));
    let keyless = Pem::new(authority.path("second"), authority.path("second"));
    assert!(why(keyless).ends_with("second: holds no private key in PEM"));
    let missing = Pem::new(authority.path("third"), authority.path("second.key"));
    assert!(why(missing).contains("third: No such file"));
    let unreadable = Pem::new(authority.path("first"), authority.folder.path());
    assert!(why(unreadable).contains("Is a directory"));
    // Keys of a kind that nobody signs with here; made by openssl.
    for (words, pem) in [
        ("holds an Ed448 key, which cannot be used here", ED448),
        (
            "holds a private key that is encrypted",
            "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n",
        ),
        (
            "holds \"OPENSSH PRIVATE KEY\", which is not read",
            "-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n-----END OPENSSH PRIVATE KEY-----\n",
        ),
    ] {
        replace(&authority.path("odd.key"), pem);
        let said = why(Pem::new(authority.path("first"), authority.path("odd.key")));
        assert!(said.contains(&format!("odd.key: {words}")) && !said.contains("no pair"), "{said}");
    }
    assert_eq!(Server::new([]).load().err(), Some(Error::NoCertificate));
    let authorities = Server::new([second]).clients(Clients::Known(authority.path("first.key")));
    assert!(authorities.load().err().unwrap().to_string().ends_with("first.key: holds no certificate in PEM"));
}

#[test]
fn a_certificate_whose_time_is_not_now_is_noted() {
    let authority = Authority::new("time");
    let old = authority.sign("old", &["one.test"], |params| params.not_after = date_time_ymd(2001, 1, 1));
    let early = authority.sign("early", &["one.test"], |params| params.not_before = date_time_ymd(4000, 1, 1));
    let notes = |pem| Server::new([pem]).load().unwrap().notes().join(", ");
    assert!(notes(old).ends_with("old: its first certificate has expired; clients will refuse it"));
    assert!(notes(early).ends_with("early: its first certificate is not valid yet; clients will refuse it"));
}
