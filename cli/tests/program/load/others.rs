//! Servers that nobody here wrote.

use super::*;
use corelane_testkit::free;
use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Stdio};

/// A server at work, ended with all it started when dropped.
pub struct Other(Child);

impl Other {
    fn start(command: &[&str]) -> Self {
        use std::os::unix::process::CommandExt;
        let (program, arguments) = command.split_first().unwrap();
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Self(command.process_group(0).spawn().unwrap())
    }

    /// Starts a server of connections, and waits until it accepts.
    pub fn listening(command: &[&str], address: SocketAddr) -> Self {
        let other = Self::start(command);
        until("the server accepts", || TcpStream::connect(address).is_ok());
        other
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let group = nix::unistd::Pid::from_raw(self.0.id() as i32);
        let _ = nix::sys::signal::killpg(group, nix::sys::signal::Signal::SIGKILL);
        let _ = self.0.wait();
    }
}

/// All is well with it: in a closed loop, with a rate, and with connections at a rate.
fn serves(address: SocketAddr, connections: &str) {
    let url = url(address);
    for more in [&["--depth", "4"][..], &["--rate", "500"], &["--size", "50000"]] {
        let run = load(&[&["echo", &url, "--requests", "200", "--connections", connections], more].concat());
        run.met(&[]).doubted(&[]);
        assert_eq!(run.report.requests, 200, "{more:?}");
    }
    let run = load(&["echo", &url, "--requests", "20", "--connection-rate", "100", "--requests-per-connection", "2"]);
    run.met(&[]).doubted(&[]);
    assert_eq!(run.report.requests, 40);
}

#[test]
fn socat_echoes() {
    if !have("load::others::socat_echoes", &["socat", "cat"]) {
        return;
    }
    let address = free();
    let listen = format!("TCP-LISTEN:{},bind=127.0.0.1,fork,reuseaddr,backlog=128", address.port());
    let _socat = Other::listening(&["socat", &listen, "EXEC:cat"], address);
    serves(address, "4");
}

#[test]
fn ncat_echoes() {
    if !have("load::others::ncat_echoes", &["ncat", "cat"]) {
        return;
    }
    let address = free();
    let port = address.port().to_string();
    let _ncat = Other::listening(&["ncat", "--listen", "--keep-open", "--exec", "/bin/cat", "127.0.0.1", &port], address);
    serves(address, "4");
}

const ASYNCIO: &str = r#"
import asyncio, sys

async def echo(reader, writer):
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.close()

class Datagrams(asyncio.DatagramProtocol):
    def connection_made(self, transport):
        self.transport = transport
    def datagram_received(self, data, address):
        self.transport.sendto(data, address)

async def main(port):
    loop = asyncio.get_running_loop()
    await loop.create_datagram_endpoint(Datagrams, local_addr=("127.0.0.1", port))
    await (await asyncio.start_server(echo, "127.0.0.1", port)).serve_forever()

asyncio.run(main(int(sys.argv[1])))
"#;

#[test]
fn asyncio_echoes() {
    if !have("load::others::asyncio_echoes", &["python3"]) {
        return;
    }
    let folder = Scratch::new();
    let script = folder.path().join("server.py");
    fs::write(&script, ASYNCIO).unwrap();
    let address = free();
    let port = address.port().to_string();
    let _python = Other::listening(&["python3", script.to_str().unwrap(), &port], address);
    serves(address, "50");
    let url = format!("udp://{address}");
    let run = load(&["udp", &url, "--requests", "200", "--depth", "4", "--timeout", "20s"]);
    run.met(&[]).doubted(&[]);
    assert_eq!(run.report.requests, 200);
}

#[test]
fn netcat_swallows() {
    if !have("load::others::netcat_swallows", &["nc"]) {
        return;
    }
    let (tcp, udp) = (free(), free());
    let _tcp = Other::listening(&["nc", "-lk", "127.0.0.1", &tcp.port().to_string()], tcp);
    let run = load(&["echo", &url(tcp), "--requests", "4", "--timeout", "300ms"]);
    run.met(&["client_timeout"]);
    assert_eq!((run.code, run.report.requests, run.report.believable), (FAILURES, 0, false));
    let _udp = Other::start(&["nc", "-luk", "127.0.0.1", &udp.port().to_string()]);
    // Binding the port to look would take it from netcat, so its place is looked for in the kernel's table (proc_net(5)).
    let place = format!(": 0100007F:{:04X} ", udp.port());
    until("netcat is there", || fs::read_to_string("/proc/net/udp").unwrap().contains(&place));
    let run = load(&["udp", &format!("udp://{udp}"), "--requests", "4", "--timeout", "300ms", "--depth", "4"]);
    run.met(&["lost"]);
    assert_eq!(run.report.errors["lost"], 4);
}

#[test]
fn each_address_of_a_name_is_tried_and_the_one_that_is_taken_is_said() {
    let test = "load::others::each_address_of_a_name_is_tried_and_the_one_that_is_taken_is_said";
    if !is_root(test) || !have(test, &["unshare", "mount"]) {
        return;
    }
    let folder = Scratch::new();
    let server = Server::start(&[TCP, UDP]);
    let run = |workload: &str, url: &str| {
        let arguments = ["load", workload, url, "-n", "20", "--timeout", "20s", "--json", "--quiet"];
        output(where_many_test_has_two_addresses(&folder).args(arguments))
    };
    let (tcp, udp) = (server.tcp().port(), server.udp().port());
    for (workload, url) in [("echo", format!("tcp://many.test:{tcp}")), ("udp", format!("udp://many.test:{udp}"))] {
        let done = run(workload, &url);
        let said = String::from_utf8(done.stdout).unwrap();
        assert!(done.status.code().is_some_and(|code| code == GOOD || code == DOUBTS), "{url}: {said}");
        assert!(said.contains(&format!("\"{url} (127.0.0.1)\"")), "{url}: {said}");
    }
    let nobody = run("echo", &format!("tcp://many.test:{}", free().port()));
    let said = String::from_utf8(nobody.stderr).unwrap();
    assert_eq!(nobody.status.code(), Some(1), "{said}");
    assert!(said.contains("none of its addresses answers: ::1: ") && said.contains("; 127.0.0.1: "), "{said}");
}
