//! A whole program that others wrote, on its own module for kqueue: nginx, built by `nginx.sh` where its source can be had, serving under load.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;

use super::foreign::fetched;
use super::shared;

/// So much that it does not fit into a socket's buffer.
const PAGE: usize = 3_000_000;
const CLIENTS: usize = 8;
const CONNECTIONS: usize = 5;
const REQUESTS: usize = 5;

/// The program.
fn built(folder: &Path) -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let output = Command::new("sh").arg(here.join("nginx.sh")).arg(shared::archive()).arg(folder).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().into()
}

/// nginx with one process that serves, and where it listens; ended when dropped.
struct Server {
    child: Child,
    address: SocketAddr,
}

impl Server {
    fn start(program: &Path, folder: &Path) -> Self {
        // An address that no other run of this test has.
        let [.., high, low] = std::process::id().to_be_bytes();
        let address = SocketAddr::from((Ipv4Addr::new(127, 77, high, low.max(1)), 28_123));
        std::fs::create_dir_all(folder.join("logs")).unwrap();
        let text = format!(
            "daemon off; worker_processes 1; user root; pid {0}/pid; error_log stderr info; events {{ use kqueue; }}\n\
             http {{ access_log off; client_body_temp_path {0}/body; server {{ listen {address}; root {0}; }} }}\n",
            folder.display()
        );
        std::fs::write(folder.join("configuration"), text).unwrap();
        let mut command = Command::new(program);
        command.arg("-p").arg(folder).args(["-e", "stderr", "-c"]).arg(folder.join("configuration"));
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        wait_until_it_serves(&mut child);
        Self { child, address }
    }
}

/// Its words go on to be read, so that it never waits for somebody to do so.
fn wait_until_it_serves(child: &mut Child) {
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    let said: Vec<_> = lines.by_ref().take_while(|line| !line.contains("start worker process ")).collect();
    assert!(said.iter().any(|line| line.contains("using the \"kqueue\" event method")), "{said:#?}");
    thread::spawn(move || lines.for_each(drop));
}

impl Drop for Server {
    fn drop(&mut self) {
        let pid = nix::unistd::Pid::from_raw(self.child.id().try_into().unwrap());
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGQUIT).unwrap();
        let status = self.child.wait().unwrap();
        assert!(status.success() || thread::panicking(), "{status}");
    }
}

/// Asks again and again on one connection, and checks every byte.
fn ask(address: SocketAddr, page: &[u8]) {
    let stream = TcpStream::connect(address).unwrap();
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    for _ in 0..REQUESTS {
        (&stream).write_all(b"GET /page HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        let head: Vec<_> = reader.by_ref().lines().map(Result::unwrap).take_while(|line| !line.is_empty()).collect();
        assert_eq!(head[0], "HTTP/1.1 200 OK");
        let mut body = vec![0; page.len()];
        reader.read_exact(&mut body).unwrap();
        assert!(body == page, "an answer has other bytes");
    }
}

#[test]
fn nginx_serves_on_kqueue_under_load() {
    let Some(kept) = fetched("nginx_serves_on_kqueue_under_load", "nginx") else { return };
    let program = built(&kept);
    let folder = kept.join(format!("run-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let page: Vec<u8> = (0..PAGE).map(|place| (place % 251) as u8).collect();
    std::fs::write(folder.join("page"), &page).unwrap();
    let server = Server::start(&program, &folder);
    thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| (0..CONNECTIONS).for_each(|_| ask(server.address, &page)));
        }
    });
    drop(server);
    std::fs::remove_dir_all(folder).unwrap();
}
