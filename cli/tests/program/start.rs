//! Where the program serves, on which CPUs, and what it says of both.

use crate::common::*;
use nix::sched::{CpuSet, sched_getaffinity};
use nix::unistd::Pid;
use std::fs;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::path::PathBuf;

/// The CPUs that this process may use.
fn allowed() -> Vec<usize> {
    let set = sched_getaffinity(Pid::from_raw(0)).unwrap();
    (0..CpuSet::count()).filter(|&cpu| set.is_set(cpu).unwrap_or(false)).collect()
}

fn at(ip: impl Into<std::net::IpAddr>, port: u16) -> SocketAddr {
    SocketAddr::new(ip.into(), port)
}

#[test]
fn without_services_all_are_served_on_loopback_at_their_ports() {
    let test = "start::without_services_all_are_served_on_loopback_at_their_ports";
    if !is_root(test) || !have(test, &["unshare", "ip"]) {
        return;
    }
    let server = Server::start_under(&IN_OWN_NETWORK, &[]);
    let places =
        |host| [60007, 62049].into_iter().flat_map(move |port| ["tcp", "udp"].map(|kind| format!("{kind}://{host}:{port}")));
    let expected: Vec<_> = ["127.0.0.1", "[::1]"].into_iter().flat_map(places).collect();
    assert_eq!(server.urls, expected);
    in_network_of(server.pid(), || {
        for ip in [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()] {
            let address = SocketAddr::new(ip, 60007);
            echo(&mut connect(address), b"hello");
            echo_datagram(&datagrams_to(address), b"hello");
        }
    });
}

#[test]
fn a_name_is_served_at_all_its_addresses() {
    let server = Server::start(&["echo=tcp://localhost:0", "echo=udp://localhost:0"]);
    assert!(server.urls.iter().any(|url| url.starts_with("tcp://127.0.0.1:")), "{:?}", server.urls);
    for url in &server.urls {
        let (scheme, place) = url.split_once("://").unwrap();
        let address: SocketAddr = place.parse().unwrap();
        assert_ne!(address.port(), 0);
        match scheme {
            "tcp" => echo(&mut connect(address), b"by name"),
            _ => echo_datagram(&datagrams_to(address), b"by name"),
        }
    }
}

/// The system chooses among as many ports as there are services, and would give one twice if it were free again.
#[test]
fn services_for_which_the_system_chooses_have_ports_of_their_own() {
    let test = "start::services_for_which_the_system_chooses_have_ports_of_their_own";
    if !is_root(test) || !have(test, &["unshare", "ip"]) {
        return;
    }
    let script = "ip link set lo up && echo 50000 50003 > /proc/sys/net/ipv4/ip_local_port_range && exec \"$0\" \"$@\"";
    let server = Server::start_under(&["unshare", "--net", "sh", "-c", script], &[TCP, TCP, UDP, TCP, TCP, UDP]);
    let mut urls = server.urls.clone();
    urls.sort_unstable();
    let tcp = (50_000..50_004).map(|port| format!("tcp://127.0.0.1:{port}"));
    assert!(urls[..4].iter().cloned().eq(tcp) && urls[4] != urls[5], "{urls:?}");
}

#[test]
fn each_family_is_served_where_it_was_asked_for() {
    let services = [TCP, UDP, "echo=tcp://[::1]:0", "echo=udp://[::1]:0"];
    let server = Server::start(&services);
    let addresses: Vec<SocketAddr> = server.urls.iter().map(|url| url.split_once("://").unwrap().1.parse().unwrap()).collect();
    assert_eq!(addresses.iter().map(SocketAddr::is_ipv4).collect::<Vec<_>>(), [true, true, false, false]);
    for pair in addresses.chunks(2) {
        echo(&mut connect(pair[0]), b"stream");
        echo_datagram(&datagrams_to(pair[1]), b"datagram");
    }
}

#[test]
fn the_ipv6_wildcard_takes_ipv4_too() {
    let server = Server::start(&["echo=tcp://[::]:0", "echo=udp://[::]:0?reflect"]);
    for ip in [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()] {
        echo(&mut connect(SocketAddr::new(ip, server.tcp().port())), b"both");
        echo_datagram(&datagrams_to(SocketAddr::new(ip, server.udp().port())), b"both");
    }
}

#[test]
fn the_ipv6_wildcard_takes_ipv6_only_if_told_so() {
    // Ports that the system chooses could be another test's by IPv4.
    let [tcp, udp] = [(); 2].map(|()| corelane_testkit::free().port());
    let server = Server::start(&["--v6-only", &format!("echo=tcp://[::]:{tcp}"), &format!("echo=udp://[::]:{udp}?reflect")]);
    echo(&mut connect(at(Ipv6Addr::LOCALHOST, server.tcp().port())), b"six");
    echo_datagram(&datagrams_to(at(Ipv6Addr::LOCALHOST, server.udp().port())), b"six");
    let refused = TcpStream::connect(at(Ipv4Addr::LOCALHOST, server.tcp().port())).unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
    let socket = datagrams_to(at(Ipv4Addr::LOCALHOST, server.udp().port()));
    socket.send(b"four").unwrap();
    assert_eq!(socket.recv(&mut [0; 16]).unwrap_err().kind(), std::io::ErrorKind::ConnectionRefused);
}

#[test]
fn there_may_be_more_lanes_than_cpus_and_all_of_them_serve() {
    let cpus = allowed();
    let lanes = cpus.len() + 1;
    let server = Server::start(&["--lanes", &lanes.to_string(), "--spin", "50us", TCP]);
    let list: Vec<String> = (0..lanes).map(|lane| cpus[lane % cpus.len()].to_string()).collect();
    assert!(server.driver_line.ends_with(&format!(", {lanes} lanes on CPU {}", list.join(","))), "{}", server.driver_line);
    assert!(server.notes.iter().any(|note| note.contains("no lane spins")), "{:?}", server.notes);
    let mut open = Vec::new();
    until("each lane has accepted", || {
        let mut stream = server.connect();
        echo(&mut stream, b"which lane?");
        open.push(stream);
        let page = server.page();
        let lanes = page["lanes"].as_array().unwrap();
        lanes.iter().all(|lane| number(&lane["services"][0]["counters"]["accepts"]) > 0)
    });
}

#[test]
fn by_default_there_is_a_lane_for_each_allowed_cpu() {
    let server = Server::start(&[TCP]);
    let expected = allowed().into_iter().enumerate().map(|(lane, cpu)| (format!("lane-{lane}"), cpu.to_string()));
    assert_eq!(server.lane_cpus(), expected.collect::<Vec<_>>());
}

#[test]
fn the_cpus_that_were_named_are_used() {
    let last = *allowed().last().unwrap();
    let server = Server::start(&["--cpus", &last.to_string(), TCP]);
    assert!(server.driver_line.ends_with(&format!(", 1 lane on CPU {last}")), "{}", server.driver_line);
    assert_eq!(server.lane_cpus(), [("lane-0".to_owned(), last.to_string())]);
    echo(&mut server.connect(), b"there");
}

#[test]
fn affinity_is_obeyed() {
    let test = "start::affinity_is_obeyed";
    if !have(test, &["taskset"]) {
        return;
    }
    let last = *allowed().last().unwrap();
    let server = Server::start_under(&["taskset", "-c", &last.to_string()], &[TCP]);
    assert_eq!(server.lane_cpus(), [("lane-0".to_owned(), last.to_string())]);
}

/// A control group that pays for one CPU, and is removed when dropped.
struct Group(PathBuf);

impl Group {
    /// None if this machine lets us make none.
    fn of_one_cpu() -> Option<Self> {
        let name = format!("corelane-program-{}", std::process::id());
        let limits = [("", "cpu.max", "100000 100000"), ("cpu", "cpu.cfs_quota_us", "100000")];
        limits.into_iter().find_map(|(mount, file, limit)| {
            let group = Self(PathBuf::from("/sys/fs/cgroup").join(mount).join(&name));
            fs::create_dir(&group.0).ok()?;
            // Version 2 has no such file unless the parent passes the controller on.
            (group.0.join(file).exists() && fs::write(group.0.join(file), limit).is_ok()).then_some(group)
        })
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // The kernel takes the last process out some time after it has been waited for.
        until("the group is empty", || fs::remove_dir(&self.0).is_ok() || !self.0.exists());
    }
}

#[test]
fn what_the_control_group_pays_for_is_obeyed() {
    let test = "start::what_the_control_group_pays_for_is_obeyed";
    let Some(group) = Group::of_one_cpu() else { return skip(test, "no control group with a limit of CPU time can be made") };
    if allowed().len() < 2 {
        return skip(test, "it needs two CPUs");
    }
    let join = format!("echo $$ > {}/cgroup.procs && exec \"$0\" \"$@\"", group.0.display());
    let server = Server::start_under(&["sh", "-c", &join], &[TCP]);
    assert_eq!(server.lane_cpus().len(), 1);
    echo(&mut server.connect(), b"paid");
}

#[test]
fn each_driver_can_be_named() {
    for (name, expected) in [("auto", ["epoll", "uring"].as_slice()), ("epoll", &["epoll"]), ("uring", &["uring", "epoll"])] {
        let server = Server::start(&["--driver", name, TCP, UDP]);
        assert!(expected.contains(&server.driver()), "{name}: {}", server.driver_line);
        let fell_back = name == "uring" && server.driver() == "epoll";
        assert_eq!(fell_back, server.notes.iter().any(|note| note.contains("uring refused")), "{:?}", server.notes);
        echo(&mut server.connect(), name.as_bytes());
        echo_datagram(&datagrams_to(server.udp()), name.as_bytes());
    }
}
