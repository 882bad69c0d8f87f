//! A program of one's own under a service manager, by the example: it is given its socket, says that it is ready, shows what it counts, and drains at SIGTERM.

#[allow(dead_code)] // its main
#[path = "../../examples/managed.rs"]
mod example;

use corelane_metrics::Listen;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// After this a test has failed.
const PATIENCE: Duration = Duration::from_secs(60);

/// Where the child serves, and where it shows what it counts.
const PLACE: &str = "CORELANE_MANAGED_TEST_PLACE";
const METRICS: &str = "CORELANE_MANAGED_TEST_METRICS";

/// Runs a program with its standard input as the one socket that was handed over (sd_listen_fds(3)).
const HANDS_OVER: &str = r#"exec 3<&0 </dev/null; LISTEN_PID=$$ LISTEN_FDS=1 LISTEN_FDNAMES=shop exec "$0" "$@""#;

/// Ended with the test, also where that fails.
struct Program(Child);

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// All that is answered to `text` by a peer that then finishes.
fn asked(address: SocketAddr, text: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(text.as_bytes()).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn a_program_of_ones_own_is_given_its_socket_says_that_it_is_ready_and_drains() {
    if let (Ok(place), Ok(metrics)) = (std::env::var(PLACE), std::env::var(METRICS)) {
        let listen = Listen { metrics: Some(metrics.parse().unwrap()), ..Listen::default() };
        example::serve(&place, &listen).unwrap();
        // A process that is killed prints nothing more.
        println!("has drained");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let manager = UnixDatagram::bind(folder.path().join("notify")).unwrap();
    manager.set_read_timeout(Some(PATIENCE)).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let metrics = corelane_testkit::free();
    let test = "managed::a_program_of_ones_own_is_given_its_socket_says_that_it_is_ready_and_drains";
    let mut command = Command::new("sh");
    command.args(["-c", HANDS_OVER]).arg(std::env::current_exe().unwrap()).args(["--exact", test, "--nocapture"]);
    command.env(PLACE, format!("tcp://{address}")).env(METRICS, metrics.to_string());
    command.env("NOTIFY_SOCKET", folder.path().join("notify")).env("CORELANE_RUN_DIR", folder.path());
    command.stdin(OwnedFd::from(listener.try_clone().unwrap())).stdout(Stdio::piped());
    let mut program = Program(command.spawn().unwrap());
    let mut told = [0; 100];
    let length = manager.recv(&mut told).expect("it says that it is ready");
    assert_eq!(&told[..length], b"READY=1\n");
    assert_eq!(asked(address, "one\nfifteen\n"), "4\n8\n");
    let page = asked(metrics, "GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n");
    let total = |line: &&str| line.starts_with("corelane_service_lengths_lines_heard_total{");
    let heard: u64 = page.lines().filter(total).map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum();
    assert_eq!(heard, 2, "{page}");
    let pid = program.0.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    let mut words = String::new();
    program.0.stdout.take().unwrap().read_to_string(&mut words).unwrap();
    assert!(program.0.wait().unwrap().success() && words.contains("has drained"), "{words}");
    TcpStream::connect(address).expect("the socket is the manager's, and refuses nobody");
}
