//! The TLS example, asked by clients that others wrote: OpenSSL's own, and Python's.

#[allow(dead_code)] // its main
#[path = "../../examples/tls.rs"]
mod tls;

use corelane::Lanes;
use corelane::admin::watch::{Reader, ServiceCounter};
use corelane::lanes::Running;
use corelane::service::Limits;
use corelane_tls::Pem;
use std::io::{BufRead, BufReader, Error, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// After this a test has failed.
const PATIENCE: Duration = Duration::from_secs(60);
/// What is echoed.
const BYTES: usize = 1 << 20;
/// What a server says first to who asks for its name and speaks its protocol.
const GREETING: &str = "localhost by echo/1\n";

/// Sends `BYTES` while it reads what it is told, which is the greeting and the echo; takes leave, and wants the server to do so.
const PYTHON: &str = r#"
import os, socket, ssl, sys
port, authority, length = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
context = ssl.create_default_context(cafile=authority)
context.set_alpn_protocols(["none/1", "echo/1"])
stream = context.wrap_socket(socket.create_connection(("127.0.0.1", port), 60), server_hostname="localhost")
assert stream.selected_alpn_protocol() == "echo/1", stream.selected_alpn_protocol()
names = stream.getpeercert()["subjectAltName"]
assert names == (("DNS", "localhost"),), names
said = os.urandom(length)
greeting, heard = b"localhost by echo/1\n", b""
# Not from two threads: Python's streams can take an end for one that is none then.
for begin in range(0, length, 1 << 16):
    stream.sendall(said[begin:begin + (1 << 16)])
    while len(heard) < len(greeting) + min(length, begin + (1 << 16)):
        part = stream.recv(1 << 16)
        assert part, "the end comes early"
        heard += part
assert heard == greeting + said
bare = stream.unwrap()  # fails if the server's close_notify does not come
assert bare.recv(1) == b"", "nothing comes behind it"
"#;

/// Says a little, and finishes without close_notify, as who cuts the connection in between would.
const CUT: &str = r#"
import socket, ssl, sys
context = ssl.create_default_context(cafile=sys.argv[2])
stream = context.wrap_socket(socket.create_connection(("127.0.0.1", int(sys.argv[1])), 60), server_hostname="localhost")
stream.sendall(b"one")
bare = socket.socket(fileno=socket.dup(stream.fileno()))
bare.shutdown(socket.SHUT_WR)
heard = b""
while part := stream.recv(100):
    heard += part
assert heard == b"localhost by no protocol\none", heard
"#;

/// A server with a certificate of its own.
struct Server {
    running: Running,
    directory: TempDir,
}

impl Server {
    fn new(limits: Limits) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let made = rcgen::generate_simple_self_signed(["localhost".to_string()]).unwrap();
        std::fs::write(directory.path().join("certificate"), made.cert.pem()).unwrap();
        std::fs::write(directory.path().join("key"), made.signing_key.serialize_pem()).unwrap();
        let server = corelane_tls::Server::new([Pem::new(directory.path().join("certificate"), directory.path().join("key"))]);
        let lanes = Lanes::per_core().lanes(1).limits(limits).serve("tcp://127.0.0.1:0", |_| tls::Echo).unwrap();
        let running = server.protocols(&[b"echo/1"]).before(lanes).unwrap().start().unwrap();
        Self { running, directory }
    }

    fn port(&self) -> String {
        self.running.address().port().to_string()
    }

    fn certificate(&self) -> PathBuf {
        self.directory.path().join("certificate")
    }

    fn connected(&self) -> TcpStream {
        let stream = TcpStream::connect(self.running.address()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    fn count(&self, counter: ServiceCounter) -> u64 {
        Reader::of(self.running.counters()).unwrap().snapshot(0).services[0].values.get(counter)
    }

    fn ask_python(&self, script: &str) {
        let mut command = Command::new("python3");
        command.arg("-c").arg(script).arg(self.port()).arg(self.certificate()).arg(BYTES.to_string());
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

/// OpenSSL's client, which writes into a file what it says and hears of TLS.
struct Client {
    process: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    messages: PathBuf,
}

impl Client {
    fn new(server: &Server, options: &[&str]) -> Self {
        let messages = server.directory.path().join("messages");
        let mut command = Command::new("openssl");
        command.args(["s_client", "-quiet", "-verify_return_error", "-servername", "localhost", "-verify_hostname", "localhost"]);
        command.arg("-connect").arg(format!("127.0.0.1:{}", server.port())).arg("-CAfile").arg(server.certificate());
        command.arg("-msg").arg("-msgfile").arg(&messages).args(options);
        let errors = std::fs::File::create(server.directory.path().join("errors")).unwrap();
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(errors).spawn().unwrap();
        let (input, output) = (process.stdin.take(), BufReader::new(process.stdout.take().unwrap()));
        Self { process, input, output, messages }
    }

    /// Says all of `bytes` while it hears the greeting and as much as it says.
    fn echoed(&mut self, bytes: &[u8]) -> (String, Vec<u8>) {
        let mut input = self.input.take().unwrap();
        let (mut greeting, mut heard) = (String::new(), vec![0; bytes.len()]);
        std::thread::scope(|scope| {
            scope.spawn(|| input.write_all(bytes).unwrap());
            self.output.read_line(&mut greeting).unwrap();
            self.output.read_exact(&mut heard).unwrap();
        });
        self.input = Some(input);
        (greeting, heard)
    }

    /// Waits until it has ended by itself, and says which messages there were.
    fn messages(mut self) -> String {
        let mut rest = Vec::new();
        self.output.read_to_end(&mut rest).unwrap();
        assert!(rest.is_empty(), "nothing comes behind the echo");
        self.process.wait().unwrap();
        std::fs::read_to_string(&self.messages).unwrap()
    }
}

pub fn is_there(program: &str, argument: &str) -> bool {
    let is_there = Command::new(program).arg(argument).output().is_ok_and(|output| output.status.success());
    if !is_there {
        skip(&format!("there is no {program}"));
    }
    is_there
}

fn skip(reason: &str) {
    corelane_testkit::skip("tls", reason);
}

/// What OpenSSL's client with these options is told; the server ends first, by a drain.
fn openssl_is_echoed(options: &[&str], version: &str, greeting: &str) {
    if !is_there("openssl", "version") {
        return;
    }
    let server = Server::new(Limits::default());
    let mut client = Client::new(&server, options);
    let said: Vec<u8> = (0..BYTES as u32).map(|number| (number.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let (first, heard) = client.echoed(&said);
    assert_eq!(first, greeting);
    assert!(heard == said, "the echo is what was said");
    assert_eq!(server.count(ServiceCounter::Handshakes), 1);
    server.running.drain();
    let messages = client.messages();
    let farewell = messages.lines().find(|line| line.starts_with("<<<") && line.contains("close_notify"));
    assert!(farewell.is_some_and(|line| line.contains(version)), "{messages}");
}

#[test]
fn python_is_echoed_and_both_take_leave() {
    if is_there("python3", "--version") {
        let server = Server::new(Limits::default());
        server.ask_python(PYTHON);
        assert_eq!(server.count(ServiceCounter::StreamsCut), 0);
    }
}

#[test]
fn a_stream_that_is_cut_is_known_as_such() {
    if is_there("python3", "--version") {
        let server = Server::new(Limits::default());
        server.ask_python(CUT);
        assert_eq!(server.count(ServiceCounter::StreamsCut), 1);
    }
}

#[test]
fn openssl_is_echoed_by_tls_1_3() {
    openssl_is_echoed(&["-tls1_3", "-alpn", "echo/1"], "TLS 1.3", GREETING);
}

#[test]
fn openssl_is_echoed_by_tls_1_2() {
    openssl_is_echoed(&["-tls1_2", "-alpn", "echo/1"], "TLS 1.2", GREETING);
}

#[test]
fn who_names_no_protocol_is_echoed() {
    openssl_is_echoed(&[], "TLS 1.3", "localhost by no protocol\n");
}

#[test]
fn a_handshake_in_several_records_is_understood() {
    let protocols = format!("{},echo/1", vec!["a-protocol-that-nobody-speaks"; 40].join(","));
    openssl_is_echoed(&["-max_send_frag", "512", "-alpn", &protocols], "TLS 1.3", GREETING);
}

/// OpenSSL's client asks to begin anew in the middle of a session of TLS 1.2 when it is told `R`: the server says that it does not, in an alert (RFC 5746,
/// section 4.5), and goes on; that client gives up.
#[test]
fn who_wants_to_begin_anew_is_told_no() {
    if !is_there("openssl", "version") {
        return;
    }
    let server = Server::new(Limits::default());
    let mut command = Command::new("openssl");
    command.args(["s_client", "-tls1_2", "-msg", "-connect", &format!("127.0.0.1:{}", server.port())]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut process = command.spawn().unwrap();
    process.stdin.as_mut().unwrap().write_all(b"R\n").unwrap();
    let lines = BufReader::new(process.stdout.take().unwrap()).lines().map(Result::unwrap);
    let told = lines.filter(|line| line.starts_with("<<<")).any(|line| line.contains("no_renegotiation"));
    assert!(told, "the server has said nothing of it");
    // It gives up with a fatal alert of its own, which is a refusal, and not the server's.
    process.wait().unwrap();
    let deadline = Instant::now() + PATIENCE;
    while server.count(ServiceCounter::TransformRefusals) != 1 {
        assert!(Instant::now() < deadline, "its alert was not heard");
        // reason: the counter is polled; nothing wakes us when it changes.
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(server.count(ServiceCounter::Handshakes), 1);
    if is_there("python3", "--version") {
        server.ask_python(PYTHON);
    }
}

#[test]
fn who_speaks_plainly_is_told_so_and_others_are_served() {
    let server = Server::new(Limits::default());
    let mut stream = server.connected();
    stream.write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    // An alert (21), fatal (2): RFC 8446, section 6.
    assert!(matches!(answer[..], [21, 3, _, 0, 2, 2, _]), "{answer:?}");
    assert_eq!(server.count(ServiceCounter::TransformRefusals), 1);
    if is_there("python3", "--version") {
        server.ask_python(PYTHON);
    }
}

#[test]
fn who_does_not_speak_on_is_left() {
    let mut limits = Limits::default();
    limits.handshake_limit = Duration::from_secs(1);
    let server = Server::new(limits);
    let mut stream = server.connected();
    // The end, in order or not: what it said is not read. The write hears of it if it comes late.
    let heard = stream.write_all(&[22, 3, 1, 0, 200, 1]).and_then(|()| stream.read(&mut [0; 1]));
    let is_end = |error: &Error| matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe);
    assert!(heard.as_ref().map_or_else(is_end, |read| *read == 0), "{heard:?}");
    assert_eq!(server.count(ServiceCounter::HandshakesFailed), 1);
}
