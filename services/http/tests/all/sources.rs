//! Upstreams that a file names, or SRV records of a name server in the test.

use super::sited::{address, ask, came, connect, rows, serving};
use corelane::lanes::{DriverChoice, Running};
use simple_dns::rdata::{RData, SRV};
use simple_dns::{CLASS, Name, Packet, PacketFlag, ResourceRecord};
use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::thread::{sleep, spawn};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);

/// Asks until this comes: a source is looked at now and then.
fn until(running: &Running, expected: &str) {
    let (mut stream, due) = (connect(running), Instant::now() + PATIENCE);
    loop {
        let found = came(&ask(&mut stream, "/", "a.test"));
        if found == expected {
            return;
        }
        assert!(Instant::now() < due, "{found} in place of {expected}");
        sleep(Duration::from_millis(20));
    }
}

fn put(path: &Path, text: &str) {
    let next = path.with_extension("next");
    fs::write(&next, text).unwrap();
    fs::rename(next, path).unwrap();
}

#[test]
fn a_file_names_upstreams_and_is_read_again_when_it_changes() {
    let behind = [8, 9].map(|bytes| serving(DriverChoice::Epoll, &format!("reply={bytes}")));
    let [first, second] = behind.each_ref().map(address);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("list");
    put(&path, &format!("# those of the shop\n{first}\n"));
    let running = serving(DriverChoice::Epoll, &format!("to=file:{}", path.display()));
    until(&running, "8");
    put(&path, &format!("{second}*3\n"));
    until(&running, "9");
    // A broken one leaves what there was, and tells the place.
    put(&path, &format!("{first}\n  nonsense\n"));
    let due = Instant::now() + PATIENCE;
    let fault = loop {
        let faults: Vec<String> = rows(&running, "upstreams show 0 4096").into_iter().filter_map(|row| row.fault).collect();
        if let [fault] = &faults[..] {
            break fault.clone();
        }
        assert!(Instant::now() < due && faults.is_empty(), "{faults:?}");
        sleep(Duration::from_millis(20));
    };
    assert!(fault.ends_with("/list:2:3: \"nonsense\": write HOST:PORT, [IPv6]:PORT or unix:PATH"), "{fault}");
    until(&running, "9");
    fs::remove_file(&path).unwrap();
    until(&running, "9");
    put(&path, &first);
    until(&running, "8");
}

/// A name server that says where `_http._tcp.shop.test` is: at this port, or nothing where that is 0.
fn name_server(port: Arc<AtomicU16>) -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let at = socket.local_addr().unwrap();
    spawn(move || {
        let mut bytes = [0; 512];
        while let Ok((read, from)) = socket.recv_from(&mut bytes) {
            let asked = Packet::parse(&bytes[..read]).unwrap();
            let port = port.load(Ordering::SeqCst);
            let mut reply = Packet::new_reply(asked.id());
            reply.set_flags(PacketFlag::RESPONSE);
            reply.questions = asked.questions.clone();
            let record = |priority, port| {
                let target = Name::new("localhost").unwrap();
                let rdata = RData::SRV(SRV { priority, weight: 0, port, target });
                ResourceRecord::new(Name::new("_http._tcp.shop.test").unwrap(), CLASS::IN, 0, rdata)
            };
            // One of a greater number is for when the first cannot be had.
            reply.answers = vec![record(1, port), record(2, 1)];
            if port > 0 {
                socket.send_to(&reply.build_bytes_vec().unwrap(), from).unwrap();
            }
        }
    });
    at
}

#[test]
fn srv_records_name_upstreams_and_a_silent_server_holds_up_no_lane() {
    let behind = serving(DriverChoice::Epoll, "reply=8");
    let port = Arc::new(AtomicU16::new(0));
    let server = name_server(port.clone());
    let alive = address(&behind);
    let options = format!("host=shop.test,a.test&to=srv:_http._tcp.shop.test@{server}&host=b.test&to={alive}");
    let running = serving(DriverChoice::Epoll, &options);
    // One that never answers is waited for by a helper thread alone.
    let mut stream = connect(&running);
    assert_eq!(came(&ask(&mut stream, "/", "b.test")), "8");
    assert_eq!(came(&ask(&mut stream, "/", "shop.test")), "503");
    port.store(alive.rsplit_once(':').unwrap().1.parse().unwrap(), Ordering::SeqCst);
    until(&running, "8");
    let named = |row: &corelane_upstreams::Row| row.name.starts_with("shop.test/localhost:");
    assert!(rows(&running, "upstreams show 0 8192").iter().any(named));
}
