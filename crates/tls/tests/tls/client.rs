//! What a client promises, held against OpenSSL's server, our own, and some that are at fault.

use crate::tls::authority::Authority;
use crate::tls::foreign::is_there;
use crate::tls::server::Who;
use corelane::lanes::Running;
use corelane::service::{Ending, Learned, Limits};
use corelane::{Address, Cx, Input, Lanes, Next, Output, Peer, Silent, StreamService};
use corelane_tls::rustls::crypto::ring;
use corelane_tls::rustls::pki_types::pem::PemObject;
use corelane_tls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use corelane_tls::rustls::{ServerConfig, ServerConnection, StreamOwned};
use corelane_tls::{Client, Clients, Error, Pem, Server, Trust};
use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair, date_time_ymd};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

/// After this a test has failed.
const PATIENCE: Duration = Duration::from_secs(60);

/// What came of one question.
#[derive(Debug)]
struct Heard {
    said: String,
    learned: Option<Learned>,
    ending: Ending,
    was_cut: bool,
}

impl Heard {
    /// Why it was refused.
    fn refused(&self) -> &str {
        assert_eq!((self.ending, self.said.as_str()), (Ending::Aborted, ""), "{self:?}");
        self.learned.as_ref().and_then(|learned| learned.refused.as_deref()).unwrap()
    }

    fn learned(&self) -> &Learned {
        assert_eq!(self.ending, Ending::Completed, "{self:?}");
        self.learned.as_ref().unwrap()
    }
}

/// Asks one server again and again, a line on a connection each; whom it serves itself it echoes.
struct Ask {
    to: Address,
    left: usize,
    tell: Sender<Heard>,
}

impl Ask {
    fn go_on(&mut self, cx: &mut Cx<'_>) {
        if let Some(left) = self.left.checked_sub(1) {
            self.left = left;
            cx.connect(self.to.clone(), Some((String::new(), false))).unwrap();
        }
    }
}

impl StreamService for Ask {
    type Talk = Silent;
    /// What it has heard, and whether that was cut; none of those whom it serves.
    type Session = Option<(String, bool)>;

    fn started(&mut self, cx: &mut Cx<'_>) {
        self.go_on(cx);
    }

    fn open(&mut self, _cx: &mut Cx<'_>, peer: &Peer) -> Option<(String, bool)> {
        assert!(peer.learned.is_some(), "whom it serves speaks TLS, too");
        None
    }

    fn connected(&mut self, _cx: &mut Cx<'_>, _said: &mut Option<(String, bool)>, output: &mut Output) -> Next {
        output.write(b"line\n").unwrap();
        Next::Continue
    }

    fn receive(&mut self, _cx: &mut Cx<'_>, said: &mut Self::Session, input: &mut Input, output: &mut Output) -> Next {
        let Some((said, was_cut)) = said else {
            output.forward(input.take_all());
            return Next::Continue;
        };
        let bytes = input.len();
        said.push_str(std::str::from_utf8(input.contiguous(bytes).unwrap()).unwrap());
        input.skip(bytes);
        *was_cut |= input.is_truncated();
        if said.ends_with('\n') { Next::Close } else { Next::Continue }
    }

    fn closed(&mut self, cx: &mut Cx<'_>, said: Self::Session, ending: Ending) {
        let Some((said, was_cut)) = said else { return };
        let learned = cx.peer(cx.id()).and_then(|peer| peer.learned).map(|learned| (*learned).clone());
        // Nobody hears it if the test has failed.
        let _ = self.tell.send(Heard { said, learned, ending, was_cut });
        self.go_on(cx);
    }
}

/// What a client on a lane of its own hears on so many connections, one after the other.
fn asked(client: &Client, to: impl Into<Address>, times: usize) -> Vec<Heard> {
    let (tell, heard) = channel();
    let to = to.into();
    let mut limits = Limits::default();
    limits.connect_limit = PATIENCE;
    let lanes = Lanes::per_core().lanes(1).limits(limits);
    let lanes = lanes.client(move |_| Ask { to: to.clone(), left: times, tell: tell.clone() });
    let running = client.before(lanes).unwrap().start().unwrap();
    let heard = (0..times).map(|_| heard.recv_timeout(PATIENCE).unwrap()).collect();
    end(running);
    heard
}

fn once(client: &Client, to: impl Into<Address>) -> Heard {
    asked(client, to, 1).remove(0)
}

fn end(running: Running) {
    running.drain();
    running.wait().unwrap();
}

fn serve(server: &Server) -> Running {
    let lanes = Lanes::per_core().lanes(1).serve("tcp://127.0.0.1:0", |_| Who).unwrap();
    server.before(lanes).unwrap().start().unwrap()
}

impl Authority {
    /// A client that believes this authority, and asks for this name.
    fn believer(&self, name: &str) -> Client {
        Client::new(Trust::Authorities(self.path("authority"))).name(name)
    }
}

#[test]
fn our_own_server_is_asked_and_sessions_go_on() {
    let authority = Authority::new("ours");
    let running = serve(&Server::new([authority.sign("first", &["one.test", "127.0.0.1"], |_| {})]).protocols(&[b"who/1"]));
    let client = authority.believer("one.test").protocols(&[b"none/1", b"who/1"]);
    let heard = asked(&client, running.address(), 3);
    for (at, heard) in heard.iter().enumerate() {
        let learned = heard.learned();
        assert_eq!(heard.said, "one.test 0\n");
        assert_eq!(learned.server_name.as_deref(), Some("one.test"));
        assert_eq!(learned.protocol.as_deref(), Some(&b"who/1"[..]));
        assert_eq!(learned.certificates.len(), 1);
        assert_eq!(learned.resumed, at > 0, "all but the first go on with a session");
    }
    // By the address, without a name; and without sessions.
    let by_address = Client::new(Trust::Authorities(authority.path("authority"))).resumption(false);
    for heard in asked(&by_address, running.address(), 2) {
        assert_eq!(heard.said, "- 0\n");
        assert_eq!((heard.learned().resumed, heard.learned().protocol.as_ref()), (false, None));
    }
    end(running);
}

#[test]
fn a_server_that_is_not_who_is_meant_is_refused_in_words() {
    let authority = Authority::new("refused");
    let sign = |file: &str, tune: fn(&mut rcgen::CertificateParams)| authority.sign(file, &["one.test"], tune);
    let sound = serve(&Server::new([sign("sound", |_| {})]));
    let old = serve(&Server::new([sign("old", |params| params.not_after = date_time_ymd(2001, 1, 1))]));
    let early = serve(&Server::new([sign("early", |params| params.not_before = date_time_ymd(4000, 1, 1))]));
    let its_own = serve(&Server::new([sign("its_own", |params| params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained))]));
    let client = authority.believer("one.test");
    let of_authority = once(&client, its_own.address());
    assert!(of_authority.refused().starts_with("the server's certificate is an authority's own"), "{}", of_authority.refused());
    assert!(of_authority.refused().ends_with("basicConstraints=CA:FALSE"), "{}", of_authority.refused());
    let other_name = once(&authority.believer("two.test"), sound.address());
    assert_eq!(other_name.refused(), "the server's certificate is not for two.test: it is for one.test");
    let expired = once(&client, old.address());
    assert_eq!(expired.refused(), "the server's certificate has expired: it needs a new one, if the clock here is right");
    let not_yet = once(&client, early.address());
    assert_eq!(not_yet.refused(), "the server's certificate is not valid yet: the clock there or here is wrong");
    let other = Authority::new("others");
    let unknown = once(&other.believer("one.test"), sound.address());
    assert_eq!(unknown.refused(), "the server's certificate is signed by nobody who is trusted here");
    // Who trusts anybody trusts all of them.
    let trusting = Client::new(Trust::Anybody).name("two.test");
    for running in [&sound, &old, &early] {
        assert_eq!(once(&trusting, running.address()).said, "two.test 0\n");
    }
    [sound, old, early, its_own].into_iter().for_each(end);
}

#[test]
fn a_server_without_a_common_protocol_is_told_apart() {
    let authority = Authority::new("alpn");
    let running = serve(&Server::new([authority.sign("first", &["one.test"], |_| {})]).protocols(&[b"who/1"]));
    let heard = once(&authority.believer("one.test").protocols(&[b"other/1"]), running.address());
    assert_eq!(heard.refused(), "the server has refused: it speaks none of the protocols that were named here");
    end(running);
}

#[test]
fn a_certificate_is_shown_to_who_asks_for_one() {
    let authority = Authority::new("shown");
    let pem = authority.sign("first", &["one.test"], |_| {});
    let own = authority.sign("friend", &["friend.test"], |_| {});
    let known = serve(&Server::new([pem]).clients(Clients::Known(authority.path("authority"))));
    let client = authority.believer("one.test");
    assert_eq!(once(&client.clone().certificate(own), known.address()).said, "one.test 1\n");
    let refused = once(&client.clone(), known.address());
    assert_eq!(refused.refused(), "the server has refused: it wants a certificate, and was shown none");
    let others = Authority::new("shown-others").sign("friend", &["friend.test"], |_| {});
    assert!(matches!(client.clone().certificate(others.clone()).load(), Err(Error::File { .. })), "its folder is gone");
    let others = Authority::new("shown-others");
    let stranger = client.certificate(others.sign("friend", &["friend.test"], |_| {}));
    let refused = once(&stranger, known.address());
    assert!(refused.refused().starts_with("the server has refused: "), "{refused:?}");
    end(known);
}

/// A server that says this to each one, whatever it hears, and waits until that one has finished.
fn plain(words: &'static [u8]) -> (SocketAddr, std::thread::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let thread = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(words).unwrap();
        // Whether it ends in order is not the matter here.
        let _ = stream.read_to_end(&mut Vec::new());
    });
    (address, thread)
}

#[test]
fn a_server_that_speaks_in_plain_is_said_to() {
    let client = Client::new(Trust::Anybody);
    for words in [&b"220 mail.test ESMTP\r\n"[..], b"HTTP/1.1 400 Bad Request\r\n\r\n", &[0, 1, 2, 3, 4, 5]] {
        let (address, server) = plain(words);
        assert_eq!(once(&client, address).refused(), "the server speaks in plain, and TLS is spoken here");
        server.join().unwrap();
    }
}

/// A server by rustls that takes one connection, hears a line, says a part of one, and leaves: in order, or without a word.
fn leaving(authority: &Authority, in_order: bool) -> (SocketAddr, std::thread::JoinHandle<()>) {
    let chain = vec![CertificateDer::from_pem_file(authority.path("first")).unwrap()];
    let key = PrivateKeyDer::from_pem_file(authority.path("first.key")).unwrap();
    let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider())).with_safe_default_protocol_versions();
    let config = builder.unwrap().with_no_client_auth().with_single_cert(chain, key).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let thread = std::thread::spawn(move || {
        let (socket, _) = listener.accept().unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut stream = StreamOwned::new(ServerConnection::new(Arc::new(config)).unwrap(), socket);
        stream.read_exact(&mut [0; 5]).unwrap();
        stream.write_all(b"part").unwrap();
        if in_order {
            stream.conn.send_close_notify();
            stream.flush().unwrap();
        }
        stream.sock.shutdown(Shutdown::Write).unwrap();
        let mut farewell = Vec::new();
        stream.sock.read_to_end(&mut farewell).unwrap();
        assert!(!farewell.is_empty(), "the client takes leave, too");
    });
    (address, thread)
}

#[test]
fn a_server_that_leaves_without_a_word_has_cut_its_stream() {
    let authority = Authority::new("leaving");
    authority.sign("first", &["one.test"], |_| {});
    for in_order in [true, false] {
        let (address, server) = leaving(&authority, in_order);
        let heard = once(&authority.believer("one.test"), address);
        assert_eq!((heard.said.as_str(), heard.ending, heard.was_cut), ("part", Ending::EndOfStream, !in_order));
        server.join().unwrap();
    }
}

#[test]
fn who_has_no_name_is_not_asked_in_plain() {
    let folder = Authority::new("unix");
    let path = folder.path("socket");
    let lanes = Lanes::per_core().lanes(1).serve(&format!("unix:{}", path.display()), |_| Who).unwrap();
    let running = Server::new([folder.sign("first", &["one.test"], |_| {})]).before(lanes).unwrap().start().unwrap();
    let address: Address = format!("unix:{}", path.display()).parse().unwrap();
    let heard = once(&Client::new(Trust::Anybody), address.clone());
    assert!(heard.refused().contains("this side has no name to check the certificate of the server at "), "{heard:?}");
    assert_eq!(once(&folder.believer("one.test"), address).said, "one.test 0\n");
    end(running);
}

#[test]
fn one_service_speaks_tls_both_ways() {
    let authority = Authority::new("both");
    let pem = authority.sign("first", &["one.test"], |_| {});
    let upstream = serve(&Server::new([pem.clone()]));
    let (tell, heard) = channel();
    let to: Address = upstream.address().into();
    let lanes = Lanes::per_core().lanes(1);
    let lanes = lanes.serve("tcp://127.0.0.1:0", move |_| Ask { to: to.clone(), left: 1, tell: tell.clone() }).unwrap();
    let lanes = Server::new([pem]).before(lanes).unwrap();
    let running = authority.believer("one.test").before(lanes).unwrap().start().unwrap();
    assert_eq!(heard.recv_timeout(PATIENCE).unwrap().said, "one.test 0\n");
    assert_eq!(once(&authority.believer("one.test"), running.address()).said, "line\n");
    end(running);
    end(upstream);
}

#[test]
fn what_a_client_is_given_that_is_wrong_is_said() {
    let folder = Authority::new("given");
    let why = |client: Client| client.load().err().unwrap().to_string();
    assert!(why(Client::new(Trust::Anybody).name("no name")).starts_with("no name is no name of a server: "));
    assert!(why(Client::new(Trust::Authorities(folder.path("none")))).contains("none: No such file"));
    let keyless = Pem::new(folder.path("authority"), folder.path("authority"));
    assert!(why(Client::new(Trust::Anybody).certificate(keyless)).ends_with("authority: holds no private key in PEM"));
}

#[test]
fn a_certificate_that_signs_itself_is_believed_where_it_is_named() {
    let folder = Authority::new("self-signed");
    // As openssl-req(1) makes it: it says that it is an authority's.
    let make = |file: &str, name: &str, valid_until| {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new([name.to_owned()]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.not_after = date_time_ymd(valid_until, 1, 1);
        let (certificate, key_file) = (folder.path(file), folder.path(&format!("{file}.key")));
        std::fs::write(&key_file, key.serialize_pem()).unwrap();
        std::fs::write(&certificate, params.self_signed(&key).unwrap().pem()).unwrap();
        Pem::new(certificate, key_file)
    };
    let [own, other, expired] =
        [("own", 2999), ("other", 2999), ("expired", 2001)].map(|(file, until)| make(file, "one.test", until));
    let believing = |file: &str, name: &str| Client::new(Trust::Authorities(folder.path(file))).name(name);
    let running = serve(&Server::new([own]));
    assert_eq!(once(&believing("own", "one.test"), running.address()).said, "one.test 0\n");
    once(&believing("own", "two.test"), running.address()).refused();
    once(&believing("other", "one.test"), running.address()).refused();
    end(running);
    let running = serve(&Server::new([expired]));
    assert!(once(&believing("expired", "one.test"), running.address()).refused().contains("expired"));
    end(running);
    drop(other);
}

/// Set for a process of this test that is to trust what the system trusts.
const CHILD: &str = "CORELANE_TEST_OF_SYSTEM";

#[test]
fn whom_the_system_trusts_is_believed() {
    let client = Client::new(Trust::System).name("one.test");
    if let Some(port) = std::env::var_os(CHILD) {
        let port: u16 = port.to_str().unwrap().parse().unwrap();
        assert_eq!(once(&client, SocketAddr::from(([127, 0, 0, 1], port))).said, "one.test 0\n");
        return;
    }
    let authority = Authority::new("system");
    let running = serve(&Server::new([authority.sign("first", &["one.test"], |_| {})]));
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "tls::client::whom_the_system_trusts_is_believed"]);
    child.env(CHILD, running.address().port().to_string()).env("SSL_CERT_FILE", authority.path("authority"));
    let output = child.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "tls::client::whom_the_system_trusts_is_believed"]);
    child.env(CHILD, "1").env("SSL_CERT_FILE", authority.path("missing")).env_remove("SSL_CERT_DIR");
    let said = String::from_utf8(child.output().unwrap().stdout).unwrap();
    assert!(said.contains("install ca-certificates, or name a file"), "{said}");
    end(running);
}

/// OpenSSL's server, which says each line backwards.
struct OpenSsl {
    process: Child,
    port: u16,
}

impl OpenSsl {
    fn new(pem: &str, authority: &Authority, options: &[&str]) -> Self {
        let mut command = Command::new("openssl");
        command.args(["s_server", "-rev", "-accept", "127.0.0.1:0", "-cert", pem, "-key", &format!("{pem}.key")]);
        command.args(options).current_dir(authority.folder.path());
        let mut process = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let port = lines.map(Result::unwrap).find_map(|line| line.strip_prefix("ACCEPT 127.0.0.1:")?.parse().ok());
        Self { process, port: port.unwrap() }
    }

    fn address(&self) -> SocketAddr {
        ([127, 0, 0, 1], self.port).into()
    }
}

impl Drop for OpenSsl {
    fn drop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

#[test]
fn openssl_is_asked_in_both_versions_and_sessions_go_on() {
    if !is_there("openssl", "version") {
        return;
    }
    let authority = Authority::new("s-server");
    authority.sign("first", &["one.test"], |_| {});
    for version in ["-tls1_3", "-tls1_2"] {
        let server = OpenSsl::new("first", &authority, &[version, "-alpn", "line/1"]);
        let client = authority.believer("one.test").protocols(&[b"line/1"]);
        for (at, heard) in asked(&client, server.address(), 3).into_iter().enumerate() {
            assert_eq!(heard.said, "enil\n", "{version}");
            assert_eq!(heard.learned().protocol.as_deref(), Some(&b"line/1"[..]));
            assert_eq!(heard.learned().resumed, at > 0, "{version}, connection {at}");
        }
        let other = authority.believer("one.test").protocols(&[b"other/1"]);
        let refused = once(&other, server.address());
        assert_eq!(refused.refused(), "the server has refused: it speaks none of the protocols that were named here");
    }
    let old = OpenSsl::new("first", &authority, &["-tls1_1", "-cipher", "ALL:@SECLEVEL=0"]);
    let refused = once(&authority.believer("one.test"), old.address());
    assert_eq!(refused.refused(), "the server has refused: it speaks none of the versions of TLS that are spoken here");
}

#[test]
fn openssl_is_shown_a_certificate() {
    if !is_there("openssl", "version") {
        return;
    }
    let authority = Authority::new("s-server-clients");
    authority.sign("first", &["one.test"], |_| {});
    let own = authority.sign("friend", &["friend.test"], |_| {});
    for version in ["-tls1_3", "-tls1_2"] {
        let options = [version, "-Verify", "1", "-verify_return_error", "-CAfile", "authority"];
        let server = OpenSsl::new("first", &authority, &options);
        let client = authority.believer("one.test");
        assert_eq!(once(&client.clone().certificate(own.clone()), server.address()).said, "enil\n", "{version}");
        let refused = once(&client, server.address());
        assert!(refused.refused().starts_with("the server has refused: it "), "{version}: {refused:?}");
    }
}
