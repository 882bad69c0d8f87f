//! Clients that nobody here wrote.

use crate::common::*;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::{fs, thread};

on_each_driver!(socat_gets_its_bytes_back, netcat_gets_its_bytes_back, asyncio_gets_its_bytes_back);

/// A client at work, ended when dropped.
struct Client(Child);

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Client {
    fn start(command: &[&str]) -> Self {
        let (program, arguments) = command.split_first().unwrap();
        let mut command = Command::new(program);
        Self(command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap())
    }

    /// Passes `data` through the client's standard input, and asserts that as much comes out, and the same.
    fn passes(&mut self, data: &[u8]) {
        let mut input = self.0.stdin.take().unwrap();
        let output = self.0.stdout.as_mut().unwrap();
        thread::scope(|scope| {
            let written = scope.spawn(|| input.write_all(data).unwrap());
            let mut back = vec![0; data.len()];
            output.read_exact(&mut back).unwrap();
            assert!(back == data);
            written.join().unwrap();
        });
        self.0.stdin = Some(input);
    }

    /// Closes the client's standard input: it then finishes its connection, and ends when the server's end has come.
    fn finishes(&mut self) {
        drop(self.0.stdin.take());
        let mut rest = Vec::new();
        self.0.stdout.as_mut().unwrap().read_to_end(&mut rest).unwrap();
        assert!(rest.is_empty());
        assert!(self.0.wait().unwrap().success());
    }
}

fn place(address: SocketAddr) -> (String, String) {
    (address.ip().to_string(), address.port().to_string())
}

fn socat_gets_its_bytes_back(driver: Driver) {
    let test = "clients::socat_gets_its_bytes_back";
    if !have(&driver.case(test), &["socat"]) {
        return;
    }
    let Some(server) = driver.start(test, &[TCP, UDP]) else { return };
    let mut client = Client::start(&["socat", "-t", "30", "-", &format!("TCP:{}", server.tcp())]);
    client.passes(&pattern(3 << 20, 1));
    client.finishes();
    Client::start(&["socat", "-", &format!("UDP:{}", server.udp())]).passes(&pattern(1200, 2));
    server.comes_to("endings_end_of_stream", 1);
    server.comes_to("datagrams_out", 1);
}

fn netcat_gets_its_bytes_back(driver: Driver) {
    let test = "clients::netcat_gets_its_bytes_back";
    if !have(&driver.case(test), &["nc"]) {
        return;
    }
    let Some(server) = driver.start(test, &[TCP, UDP]) else { return };
    let (host, port) = place(server.tcp());
    let mut client = Client::start(&["nc", "-N", &host, &port]);
    client.passes(&pattern(3 << 20, 1));
    client.finishes();
    let (host, port) = place(server.udp());
    Client::start(&["nc", "-u", &host, &port]).passes(&pattern(1200, 2));
    server.comes_to("endings_end_of_stream", 1);
    server.comes_to("datagrams_out", 1);
}

const ASYNCIO: &str = r#"
import asyncio, os, sys

async def stream(host, port, size):
    reader, writer = await asyncio.open_connection(host, port)
    data = os.urandom(size)
    writer.write(data)
    writer.write_eof()
    back = await reader.read(-1)
    writer.close()
    await writer.wait_closed()
    assert back == data, (len(back), size)

class Echoes(asyncio.DatagramProtocol):
    def __init__(self):
        self.arrived = asyncio.Queue()
    def datagram_received(self, data, address):
        self.arrived.put_nowait(data)

async def datagrams(host, port):
    loop = asyncio.get_running_loop()
    transport, echoes = await loop.create_datagram_endpoint(Echoes, remote_addr=(host, port))
    for size in (0, 1, 1472, 9000, 60000):
        data = os.urandom(size)
        transport.sendto(data)
        if size:  # an empty one is not sent by this transport
            assert await echoes.arrived.get() == data, size
    transport.close()

async def main(host, tcp, udp):
    await asyncio.gather(*(stream(host, tcp, size) for size in (0, 1, 100, 65536, 1 << 20, *range(1000, 31000, 1000))))
    await datagrams(host, udp)
    print("all came back")

asyncio.run(asyncio.wait_for(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])), 60))
"#;

fn asyncio_gets_its_bytes_back(driver: Driver) {
    let test = "clients::asyncio_gets_its_bytes_back";
    if !have(&driver.case(test), &["python3"]) {
        return;
    }
    let Some(server) = driver.start(test, &[TCP, UDP]) else { return };
    let script = server.run.path().join("client.py");
    fs::write(&script, ASYNCIO).unwrap();
    let ((host, tcp), (_, udp)) = (place(server.tcp()), place(server.udp()));
    let done = output(Command::new("python3").arg(script).args([host, tcp, udp]));
    assert!(done.status.success(), "{done:?}");
    assert_eq!(done.stdout, b"all came back\n");
    assert_eq!(server.count("accepts"), 35);
    server.comes_to("endings_end_of_stream", 35);
}
