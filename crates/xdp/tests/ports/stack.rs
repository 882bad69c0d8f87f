//! A stack of ours on a port of a real interface, and the kernel at the other end of the wire: it finds us, pings us, and talks to us.

use crate::node::memory;
use crate::wire::{FAR, KERNEL, OURS, run};
use corelane_drivers::EpollDriver;
use corelane_os::testing::network::{enter, ip, on_thread, unshared_and_quiet};
use corelane_os::testing::skip;
use corelane_rss::{Buckets, FlowHasher, HashTypes, Key, Table};
use corelane_seam::{
    Arena, Bind, Completion, DatagramOp, DatagramOutcome, Datagrams, Driver, Handle, Outcome, Socket, Trains, Tuning, Wait,
};
use corelane_stack::{Settings, Stack};
use corelane_xdp::{Ours, afxdp};
use rustix::net::{self, AddressFamily, SocketFlags, SocketType, ipproto};
use std::fs::File;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::process::Command;
use std::sync::Arc;

/// Two namespaces and a wire: this thread is at the near end, where the kernel has an address and we have another; the kernel alone is at the far
/// end.
fn wire_to_kernel(mtu: usize) -> Result<File, String> {
    let far = unshared_and_quiet()?;
    let near = unshared_and_quiet()?;
    let there = format!("/proc/{}/fd/{}", std::process::id(), far.as_raw_fd());
    ip(&[
        format!("link add near mtu {mtu} type veth peer name far mtu {mtu} netns {there}"),
        format!("addr add {KERNEL}/24 dev near"),
        "link set near up".to_owned(),
    ])?;
    enter(&far);
    run(&[&format!("addr add {FAR}/24 dev far"), "link set far up"]);
    // Otherwise the kernel there leaves checksums out.
    let off = Command::new("ethtool").args(["-K", "far", "tx", "off"]).output();
    if !off.is_ok_and(|output| output.status.success()) {
        return Err("ethtool is not installed".to_owned());
    }
    enter(&near);
    Ok(far)
}

/// A socket of the far end's kernel.
pub fn at_far(far: &File, make: impl FnOnce() -> UdpSocket) -> UdpSocket {
    let here = File::open("/proc/thread-self/ns/net").unwrap();
    enter(far);
    let socket = make();
    enter(&here);
    socket.set_nonblocking(true).unwrap();
    socket
}

pub fn icmp() -> UdpSocket {
    net::socket_with(AddressFamily::INET, SocketType::RAW, SocketFlags::CLOEXEC, Some(ipproto::ICMP)).unwrap().into()
}

struct Echo {
    stack: Stack<EpollDriver>,
    socket: Socket,
    completions: Vec<Completion>,
}

impl Echo {
    const RECEIVE: Handle = Handle::new(1, 1, 0);
    const SEND: Handle = Handle::new(1, 2, 0);

    fn new() -> Self {
        let memory = memory();
        let queue = afxdp::open("near", &Ours::Addresses(vec![OURS.into()]), 1).unwrap().remove(0);
        let port = Box::new(queue.port(memory, 128).unwrap());
        let (arena, tuning) = (Arena::new(16 << 20).unwrap(), Tuning::default());
        let below = EpollDriver::new(arena.clone(), tuning, Default::default()).unwrap();
        let hasher = Arc::new(FlowHasher::new(&Key::MICROSOFT, HashTypes::ALL));
        let settings = Settings::new(hasher, Table::even(Buckets::new(128).unwrap(), 1).unwrap(), (0, 1), 7);
        let mut stack = Stack::new(below, arena, tuning, port, &settings.with_network(OURS.into(), 24)).unwrap();
        let address = SocketAddr::from((OURS, 7)).into();
        let bind = Bind { address, peer: None, share_port: false, v6_only: false, receive_buffer_bytes: 0, send_buffer_bytes: 0 };
        let socket = stack.bind(&bind).unwrap();
        stack.push(Self::RECEIVE, DatagramOp::Receive { socket, into: Datagrams::new() }.into());
        Self { stack, socket, completions: Vec::new() }
    }

    /// Lets the stack work for a moment, and sends back what has come.
    fn step(&mut self) {
        let wait = Wait::Until(self.stack.now() + 1_000_000);
        self.stack.collect(wait, 64, &mut self.completions);
        for Completion { outcome, .. } in std::mem::take(&mut self.completions) {
            match outcome {
                Outcome::Datagram(DatagramOutcome::Arrived { batch, fault: None }) => {
                    let mut trains = Trains::new();
                    for arrival in batch.arrivals() {
                        assert!(trains.add_single(&arrival.peer, None, 0, batch.share(arrival)));
                    }
                    self.stack.push(Self::SEND, DatagramOp::Send { socket: self.socket, trains }.into());
                    self.stack.push(Self::RECEIVE, DatagramOp::Receive { socket: self.socket, into: batch }.into());
                }
                other => assert!(!matches!(other, Outcome::Failed(_)), "{other:?}"),
            }
        }
    }

    /// The answer that comes to a socket of the far kernel's.
    fn answer(&mut self, socket: &UdpSocket) -> Vec<u8> {
        let mut bytes = [0; 20_000];
        for _ in 0..10_000 {
            self.step();
            if let Ok(length) = socket.recv(&mut bytes) {
                return bytes[..length].to_vec();
            }
        }
        panic!("no answer: {:?}", self.stack.counts())
    }
}

#[test]
fn the_kernel_finds_us_pings_us_and_talks_to_us() {
    const NAME: &str = "stack::the_kernel_finds_us_pings_us_and_talks_to_us";
    on_thread(NAME, || {
        let far = match wire_to_kernel(1500) {
            Ok(far) => far,
            Err(why) => return skip(NAME, &why),
        };
        let mut echo = Echo::new();
        let client = at_far(&far, || UdpSocket::bind((FAR, 0)).unwrap());
        for length in [1, 510, 1472, 4000] {
            let question: Vec<u8> = (0..length).map(|index| index as u8).collect();
            client.send_to(&question, (OURS, 7)).unwrap();
            assert!(echo.answer(&client) == question, "{length}");
        }
        let pings = at_far(&far, icmp);
        let mut request = [8, 0, 0xe7, 0x91, 0, 7, 0, 1, b'p', b'i', b'n', b'g'];
        let sum: u32 = request.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1])).sum::<u32>() - 0xe791;
        request[2..4].copy_from_slice(&(!((sum & 0xffff) + (sum >> 16)) as u16).to_be_bytes());
        pings.send_to(&request, (OURS, 0)).unwrap();
        let reply = echo.answer(&pings);
        assert_eq!((reply[20], &reply[24..]), (0, &request[4..]), "an echo reply");
        // The kernel's own address at the same interface is still its own.
        pings.send_to(&request, (KERNEL, 0)).unwrap();
        assert_eq!(echo.answer(&pings)[12..16], KERNEL.octets());
        // One answer for our address, and one for the kernel's: nobody else is asked for either.
        enter(&far);
        let known = Command::new("ip").args(["neigh", "show", "dev", "far"]).output().unwrap();
        let known = String::from_utf8_lossy(&known.stdout);
        assert!(known.contains("10.9.0.2 lladdr") && known.contains("10.9.0.1 lladdr"), "{known}");
    });
}

/// Packets longer than a frame are one to the stack, whole, as far as the interface carries them; what is longer is cut.
#[test]
fn datagrams_longer_than_a_frame_come_and_go_uncut() {
    const NAME: &str = "stack::datagrams_longer_than_a_frame_come_and_go_uncut";
    on_thread(NAME, || {
        let far = match wire_to_kernel(9000) {
            Ok(far) => far,
            Err(why) => return skip(NAME, &why),
        };
        let mut echo = Echo::new();
        let client = at_far(&far, || UdpSocket::bind((FAR, 0)).unwrap());
        // Whoever waits for an answer of ours waits with a long one.
        for length in [8000, 1, 1800, 1878, 1879, 5000, 8000, 8972] {
            let question: Vec<u8> = (0..length).map(|index| (index % 251) as u8).collect();
            client.send_to(&question, (OURS, 7)).unwrap();
            assert!(echo.answer(&client) == question, "{length}");
        }
        let counts = *echo.stack.counts();
        assert_eq!(
            (counts.datagrams_in, counts.datagrams_out, counts.fragments_out, counts.dropped()),
            (8, 8, 0, 0),
            "{counts:?}"
        );
        // Of one that is cut, the fragments lie in several frames.
        client.send_to(&[7; 9000], (OURS, 7)).unwrap();
        assert!(echo.answer(&client) == [7; 9000]);
        assert_eq!(echo.stack.counts().dropped(), 0);
    });
}
