//! Parts of files behind TLS, from a real disk, by either driver.

use crate::tls::authority::Authority;
use crate::tls::foreign::is_there;
use crate::tls::server::end;
use corelane::lanes::{DriverChoice, Running};
use corelane::service::{ConnectionId, FileOutcome, FilePart, Notes, OpenOptions, Outcome};
use corelane::{Input, Lanes, Next, Output, Peer, StreamService};
use corelane_tls::Server;
use std::collections::VecDeque;
use std::io::{ErrorKind, Read};
use std::path::PathBuf;
use std::process::Command;

/// Bytes of the file: some pieces, and a rest.
const BYTES: usize = 3_000_001;

type Cx<'a> = corelane::Cx<'a, Notes<FilePart>>;

/// Sends each one a head, the file, of which it promises `more` bytes than there are, and a tail; and closes.
struct Sender {
    path: PathBuf,
    more: u64,
    waiting: VecDeque<ConnectionId>,
}

impl StreamService for Sender {
    type Talk = Notes<FilePart>;
    type Session = ();

    fn open(&mut self, cx: &mut Cx<'_>, _peer: &Peer) {
        self.waiting.push_back(cx.id());
        cx.open_file(self.path.clone(), OpenOptions::new().read(true), 0);
    }

    fn receive(&mut self, _cx: &mut Cx<'_>, (): &mut (), _input: &mut Input, _output: &mut Output) -> Next {
        Next::Continue
    }

    fn completed(&mut self, cx: &mut Cx<'_>, _token: u64, outcome: Outcome) {
        let Outcome::File(FileOutcome::Opened { file, facts }) = outcome else { unreachable!("{outcome:?}") };
        cx.notify(self.waiting.pop_front().unwrap(), FilePart { file, offset: 0, length: facts.length + self.more });
    }

    fn message(&mut self, _cx: &mut Cx<'_>, (): &mut (), output: &mut Output, part: FilePart) -> Next {
        output.write(b"head").unwrap();
        output.push(part);
        output.write(b"tail").unwrap();
        Next::Close
    }
}

fn bytes() -> Vec<u8> {
    (0..BYTES).map(|at| (at as u32).wrapping_mul(2_654_435_761).to_le_bytes()[2]).collect()
}

fn serve(authority: &Authority, driver: DriverChoice, more: u64) -> Running {
    let path = authority.path("file");
    std::fs::write(&path, bytes()).unwrap();
    let lanes = Lanes::per_core().lanes(1).driver(driver);
    let make = move |_| Sender { path: path.clone(), more, waiting: VecDeque::new() };
    let lanes = lanes.serve("tcp://127.0.0.1:0", make).unwrap();
    Server::new([authority.sign("first", &["one.test"], |_| {})]).before(lanes).unwrap().start().unwrap()
}

/// A driver that this system has not is left out.
fn drivers() -> impl Iterator<Item = DriverChoice> {
    let is_there = |driver: &DriverChoice| {
        let lanes = Lanes::per_core().lanes(1).driver(*driver);
        lanes.client(|_| Sender { path: PathBuf::new(), more: 0, waiting: VecDeque::new() }).start().map(end).is_ok()
    };
    [DriverChoice::Epoll, DriverChoice::Uring].into_iter().filter(is_there)
}

#[test]
fn a_file_comes_whole_and_one_that_became_shorter_is_cut() {
    let authority = Authority::new("files");
    let whole = [b"head", &bytes()[..], b"tail"].concat();
    for driver in drivers() {
        for more in [0, 1_000] {
            let running = serve(&authority, driver, more);
            let mut got = Vec::new();
            let ended = authority.client().connect(&running, "one.test").read_to_end(&mut got);
            if more == 0 {
                ended.unwrap();
                assert!(got == whole, "{driver:?}: {} bytes came", got.len());
            } else {
                // No close_notify: the client knows that this is not all.
                assert_eq!(ended.unwrap_err().kind(), ErrorKind::UnexpectedEof, "{driver:?}");
                assert!(got == whole[..whole.len() - 4], "{driver:?}: {} bytes came", got.len());
            }
            end(running);
        }
    }
}

/// Reads all, wants close_notify, and says how much it was, and its hash.
const PYTHON: &str = r#"
import hashlib, socket, ssl, sys
context = ssl.create_default_context(cafile=sys.argv[2])
stream = context.wrap_socket(socket.create_connection(("127.0.0.1", int(sys.argv[1])), 60), server_hostname="one.test", suppress_ragged_eofs=False)
got = b""
while part := stream.recv(1 << 16):
    got += part
with open(sys.argv[3], "rb") as file:
    assert got == b"head" + file.read() + b"tail", len(got)
"#;

#[test]
fn openssl_gets_a_file() {
    if !is_there("python3", "--version") {
        return;
    }
    let authority = Authority::new("files-python");
    let running = serve(&authority, DriverChoice::Auto, 0);
    let mut command = Command::new("python3");
    command.args(["-c", PYTHON, &running.address().port().to_string()]);
    let output = command.args([authority.path("authority"), authority.path("file")]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    end(running);
}
