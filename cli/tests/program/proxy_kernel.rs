//! The proxy that has the kernel pass on small messages: in a confined process, and without the rights to it.

use crate::common::*;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

on_each_driver!(bytes_that_come_twice_are_passed_on_once);

/// Exchanges behind which a pair is long since bridged.
const EXCHANGES: usize = 200;

/// A client whose small messages come back from behind.
fn exchange(server: &Server) -> TcpStream {
    let mut client = TcpStream::connect(server.tcp()).unwrap();
    client.set_nodelay(true).unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    for count in 0..EXCHANGES {
        let (said, mut heard) = ([count as u8; 64], [0; 64]);
        client.write_all(&said).unwrap();
        client.read_exact(&mut heard).unwrap();
        assert_eq!(heard, said);
    }
    client
}

/// What a server says that it lacks for it.
fn lack(server: &Server) -> Option<&str> {
    server.notes.iter().map(String::as_str).find(|note| note.contains("CL-0044"))
}

fn place(behind: &Server) -> String {
    format!("proxy=tcp://127.0.0.1:0?to={}&in-kernel", behind.tcp())
}

/// A confined process makes no bridge any more, and goes on with the one that it has.
#[test]
fn small_messages_pass_the_lane_by_though_the_process_is_confined() {
    let test = "proxy_kernel::small_messages_pass_the_lane_by_though_the_process_is_confined";
    if !is_root(test) {
        return;
    }
    let behind = Server::start(&["--lanes", "1", TCP]);
    let server = Server::start(&["--lanes", "2", "--sandbox", "auto", &place(&behind)]);
    if let Some(note) = lack(&server) {
        return corelane_testkit::skip(test, note);
    }
    let client = exchange(&server);
    assert_eq!(server.lane_count("pairs_bridged"), 1);
    drop(client);
    // At its end it is told how much that was.
    until("it is told what the kernel has passed on", || server.lane_count("bytes_bridged") > 64 * EXCHANGES as u64);
}

#[test]
fn without_the_rights_lanes_pass_on_all_and_say_so() {
    let test = "proxy_kernel::without_the_rights_lanes_pass_on_all_and_say_so";
    if !is_root(test) || !have(test, &["setpriv"]) {
        return;
    }
    let behind = Server::start(&["--lanes", "1", TCP]);
    let folder = Arc::new(Scratch::new());
    let program = copy_for_all(&folder);
    let wrapper = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all", "--bounding-set=-all"];
    let place = place(&behind);
    let arguments = ["--lanes", "1", "--driver", "epoll", &place];
    let server = Server::start_as(Launch { wrapper: &wrapper, program: &program, arguments: &arguments, run: folder });
    let said = lack(&server).expect("it says what is missing");
    assert!(said.contains("CAP_BPF") && said.contains("CAP_NET_ADMIN") && !said.contains("classic"), "{said}");
    let _client = exchange(&server);
    assert_eq!(server.lane_count("pairs_bridged"), 0);
}

/// The kernel hands a piece to the program whole, though its head came before.
fn bytes_that_come_twice_are_passed_on_once(driver: Driver) {
    let test = "proxy_kernel::bytes_that_come_twice_are_passed_on_once";
    let case = driver.case(test);
    if !is_root(&case) || !have(&case, &["unshare", "ip", "python3"]) {
        return;
    }
    if !Path::new("/dev/net/tun").exists() {
        return corelane_testkit::skip(&case, "the system has no /dev/net/tun");
    }
    let [port, behind, plain, half, plain_half, peer] = ["60000", "60001", "60002", "60003", "60004", "60005"];
    let echo = format!("echo=tcp://127.0.0.1:{behind}");
    let bridged = |port, to| format!("proxy=tcp://0.0.0.0:{port}?to=127.0.0.1:{to}&in-kernel");
    let lanes = |port, to| format!("proxy=tcp://0.0.0.0:{port}?to=127.0.0.1:{to}");
    let pairs = [bridged(port, behind), lanes(plain, behind), bridged(half, peer), lanes(plain_half, peer)];
    let arguments = ["--lanes", "1", &echo, &pairs[0], &pairs[1], &pairs[2], &pairs[3]];
    let Some(server) = driver.start_under(test, &IN_OWN_NETWORK, &arguments) else { return };
    if let Some(note) = lack(&server) {
        return corelane_testkit::skip(&case, note);
    }
    let run = |arguments: &[&str]| {
        let said = in_network_of(server.pid(), || {
            output(Command::new("python3").args(["-c", include_str!("proxy_kernel.py")]).args(arguments))
        });
        assert!(said.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&said.stderr));
        until("pairs end", || server.lane_count("pairs_bridged") == 0);
        ["bytes_bridged", "pairs_spoiled"].map(|count| server.lane_count(count))
    };
    run(&[plain, "plain", "all"]);
    assert_eq!(run(&[plain_half, "plain", "half", peer]), [0, 0]);
    let [all, spoiled] = run(&[port, "in-kernel", "all"]);
    assert!(all > 50_000, "{all} bytes were passed on by the kernel");
    assert_eq!(spoiled, 1, "of the first piece nobody is sure");
    let [passed, spoiled] = run(&[port, "in-kernel", "overlapping"]);
    assert_eq!(spoiled, 1, "what comes twice is taken off");
    // Of 40,000 bytes each way half would be the lane's if the kernel passed on no such piece; what makes a pair of them has 2,000 each way.
    assert!(passed - all > 44_000, "{passed} bytes were passed on by the kernel, {all} of them before");
    let [_, spoiled] = run(&[half, "in-kernel", "half", peer]);
    assert_eq!(spoiled, 2, "a half that has ended does not hide it");
}
