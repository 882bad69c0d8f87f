//! A stack of ours as the gateway between two real wires: the kernels at their far ends ping each other, and talk to each other.

use crate::node::memory;
use crate::stack::{at_far, icmp};
use crate::wire::run;
use corelane_drivers::EpollDriver;
use corelane_os::testing::network::{enter, ip, on_thread, unshared_and_quiet};
use corelane_os::testing::skip;
use corelane_rss::{Buckets, FlowHasher, HashTypes, Key, Table};
use corelane_rules::language::command;
use corelane_rules::{Execution, Limits, Rules};
use corelane_seam::{Arena, Driver, Port, Tuning, Wait};
use corelane_select::bpf::assembly::{Alu, Assembler, Register};
use corelane_select::bpf::{Program, ProgramKind, XdpLink, XdpMode};
use corelane_stack::Route;
use corelane_stack::{ReversePath, Settings, Stack};
use corelane_xdp::{FastPath, Interface, Ours, afxdp, ports_for};
use rustix::net::sockopt::{Ipv4PathMtuDiscovery, set_ip_mtu_discover};
use std::fs::File;
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::Arc;

/// Of each wire our address, and that of the kernel at its far end.
pub const OURS: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 9, 0, 2), Ipv4Addr::new(10, 9, 1, 2)];
pub const FAR: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 9, 0, 77), Ipv4Addr::new(10, 9, 1, 77)];
/// Two wires with such longest packets, whose near ends are here; each far end's kernel sends by us what is not for its own network.
pub fn wires(mtu: [usize; 2]) -> Result<[File; 2], String> {
    let far = [unshared_and_quiet()?, unshared_and_quiet()?];
    let here = unshared_and_quiet()?;
    for (number, end) in far.iter().enumerate() {
        let (there, mtu) = (format!("/proc/{}/fd/{}", std::process::id(), end.as_raw_fd()), mtu[number]);
        ip(&[
            format!("link add near{number} mtu {mtu} type veth peer name far mtu {mtu} netns {there}"),
            format!("link set near{number} up"),
        ])?;
        enter(end);
        run(&[
            &format!("addr add {}/24 dev far", FAR[number]),
            "link set far up",
            &format!("route add default via {}", OURS[number]),
        ]);
        enter(&here);
    }
    Ok(far)
}

fn stack() -> Stack<EpollDriver> {
    stack_of(|settings, _| settings)
}

/// With more that is set of each interface, by its number.
pub fn stack_of(more: impl Fn(Settings, usize) -> Settings) -> Stack<EpollDriver> {
    let open = |name: &str| -> Box<dyn Port> {
        Box::new(afxdp::open(name, &Ours::All, 1).unwrap().remove(0).port(memory(), 128).unwrap())
    };
    stack_by(open, more)
}

fn stack_by(open: impl Fn(&str) -> Box<dyn Port>, more: impl Fn(Settings, usize) -> Settings) -> Stack<EpollDriver> {
    let (arena, tuning) = (Arena::new(16 << 20).unwrap(), Tuning::default());
    let below = EpollDriver::new(arena.clone(), tuning, Default::default()).unwrap();
    let hasher = Arc::new(FlowHasher::new(&Key::MICROSOFT, HashTypes::ALL));
    let settings = Settings::new(hasher, Table::even(Buckets::new(128).unwrap(), 1).unwrap(), (0, 1), 7)
        .with_interface("near0")
        .with_network(OURS[0].into(), 24)
        .with_forwarding(ReversePath::Strict);
    let settings = more(settings, 0).and_interface("near1").with_network(OURS[1].into(), 24).with_forwarding(ReversePath::Strict);
    let settings = more(settings, 1);
    Stack::with_ports(below, arena, tuning, vec![open("near0"), open("near1")], &settings).unwrap()
}

/// A socket whose packets routers may cut.
fn talker(address: Ipv4Addr) -> UdpSocket {
    let socket = UdpSocket::bind((address, 7)).unwrap();
    set_ip_mtu_discover(&socket, Ipv4PathMtuDiscovery::DONT).unwrap();
    socket
}

/// What comes to a socket of a far kernel's, and from whom.
fn hear(stack: &mut Stack<EpollDriver>, socket: &UdpSocket) -> (Vec<u8>, IpAddr) {
    let mut bytes = [0; 20_000];
    for _ in 0..10_000 {
        stack.collect(Wait::Until(stack.now() + 1_000_000), 64, &mut Vec::new());
        if let Ok((length, from)) = socket.recv_from(&mut bytes) {
            return (bytes[..length].to_vec(), from.ip());
        }
    }
    panic!("nothing came: {:?}", stack.counts())
}

#[test]
fn kernels_talk_to_each_other_through_us() {
    const NAME: &str = "gateway::kernels_talk_to_each_other_through_us";
    on_thread(NAME, || {
        let far = match wires([1500, 1400]) {
            Ok(far) => far,
            Err(why) => return skip(NAME, &why),
        };
        let mut stack = stack();
        let [client, server] = [0, 1].map(|end| at_far(&far[end], || talker(FAR[end])));
        // What the kernels leave to cards that there are not is finished on the way; and what is longer than the second wire carries is cut.
        for length in [1, 510, 1372, 1400, 1472, 4000] {
            let question: Vec<u8> = (0..length).map(|index| index as u8).collect();
            client.send_to(&question, (FAR[1], 7)).unwrap();
            assert!(hear(&mut stack, &server) == (question.clone(), FAR[0].into()), "{length}");
            server.send_to(&question, (FAR[0], 7)).unwrap();
            assert!(hear(&mut stack, &client) == (question, FAR[1].into()), "{length}");
        }
        let pings = at_far(&far[0], icmp);
        let request = request(1);
        pings.send_to(&request, (FAR[1], 0)).unwrap();
        let (reply, from) = hear(&mut stack, &pings);
        assert_eq!((from, reply[8], reply[20], &reply[24..]), (FAR[1].into(), 63, 0, &request[4..]), "through one router");
        // Our own address beyond is ours as well, and one hop is too few for the other kernel.
        pings.send_to(&request, (OURS[1], 0)).unwrap();
        let (reply, from) = hear(&mut stack, &pings);
        assert_eq!((from, reply[20]), (OURS[1].into(), 0));
        pings.set_ttl(1).unwrap();
        pings.send_to(&request, (FAR[1], 0)).unwrap();
        let (told, from) = hear(&mut stack, &pings);
        assert_eq!((from, &told[20..22]), (OURS[0].into(), &[11, 0][..]), "it ends here");
        let counts = *stack.counts();
        assert_eq!(counts.dropped(), counts.of(corelane_stack::Drop::Hops), "{counts:?}");
        assert!(counts.forwarded > 15 && counts.fragments_out > 0, "{counts:?}");
    });
}

/// Packets longer than a frame go on whole, in other frames.
#[test]
fn packets_longer_than_a_frame_go_through_us() {
    const NAME: &str = "gateway::packets_longer_than_a_frame_go_through_us";
    on_thread(NAME, || {
        let far = match wires([9000, 9000]) {
            Ok(far) => far,
            Err(why) => return skip(NAME, &why),
        };
        let mut stack = stack();
        let [client, server] = [0, 1].map(|end| at_far(&far[end], || talker(FAR[end])));
        for length in [1740, 1764, 8000, 8972] {
            let question: Vec<u8> = (0..length).map(|index| (index % 251) as u8).collect();
            client.send_to(&question, (FAR[1], 7)).unwrap();
            assert!(hear(&mut stack, &server) == (question, FAR[0].into()), "{length}");
        }
        let counts = *stack.counts();
        assert_eq!((counts.dropped(), counts.fragments_out), (0, 0), "{counts:?}");
    });
}

/// Has a far end's driver run a program that passes all.
fn pass_all(far: &File) -> XdpLink {
    let here = File::open("/proc/thread-self/ns/net").unwrap();
    enter(far);
    let mut a = Assembler::new();
    a.alu(Alu::Move, Register::R0, 2);
    a.exit();
    let program = Program::load(ProgramKind::Xdp, &a.finish(), "corelane_pass").unwrap();
    let link = XdpLink::attach(&program, Interface::find("far").unwrap().link.interface, XdpMode::Native).unwrap();
    enter(&here);
    link
}

/// An echo request with this number, and its checksum.
fn request(number: u8) -> [u8; 12] {
    let mut request = [8, 0, 0, 0, 0, 7, 0, number, b'p', b'i', b'n', b'g'];
    let sum: u32 = request.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1])).sum();
    request[2..4].copy_from_slice(&(!((sum & 0xffff) + (sum >> 16)) as u16).to_be_bytes());
    request
}

/// A gateway of both wires whose programs forward by themselves, with one rule.
fn offloading() -> (Stack<EpollDriver>, Arc<FastPath>) {
    let fast = FastPath::new().unwrap();
    let open = |name: &str| {
        let mut choice = ports_for(name, &Ours::All, 1).unwrap();
        choice.offload(&fast).unwrap();
        choice.queues.remove(0).port(memory(), 128).unwrap()
    };
    let stack = stack_by(open, |settings, _| settings);
    let mut rules = Rules::new(true, Limits::default());
    rules.name_interfaces(vec!["near0".into(), "near1".into()]).unwrap();
    rules.apply(command("add 7 count icmp from any to any", 1).unwrap()).unwrap();
    fast.put(&rules.compile(Execution::Tree), &OURS.map(Into::into)).unwrap();
    (stack, fast)
}

/// A wire whose far end takes nothing that is redirected, as every veth does by default, is served by lanes; and whatever becomes of that end, packets get through again.
#[test]
fn a_wire_that_takes_nothing_redirected_is_served_by_lanes() {
    const NAME: &str = "gateway::a_wire_that_takes_nothing_redirected_is_served_by_lanes";
    on_thread(NAME, || {
        let far = match wires([1500, 1500]) {
            Ok(far) => far,
            Err(why) => return skip(NAME, &why),
        };
        let (mut stack, fast) = offloading();
        let pings = at_far(&far[0], icmp);
        let mut number = 0_u8;
        // Whether it is answered within so many milliseconds.
        let mut ping = |stack: &mut Stack<EpollDriver>, patience: u64| {
            number = number.wrapping_add(1);
            pings.send_to(&request(number), (FAR[1], 0)).unwrap();
            let (mut bytes, end) = ([0; 100], stack.now() + patience * 1_000_000);
            while stack.now() < end {
                stack.collect(Wait::Until(stack.now() + 1_000_000), 64, &mut Vec::new());
                if pings.recv_from(&mut bytes).is_ok_and(|(length, _)| length > 27 && bytes[27] == number) {
                    return true;
                }
            }
            false
        };
        assert!((0..20).all(|_| ping(&mut stack, 20_000)), "lanes forward, and nothing is lost");
        assert_eq!((fast.refusing(), fast.lost().unwrap_or(0)), (vec!["near0".to_owned(), "near1".to_owned()], 0));
        let programs = [0, 1].map(|end| pass_all(&far[end]));
        let forwarded = |fast: &FastPath| fast.traffic(corelane_rules::Interface(1)).unwrap().packets_in;
        // An interface is looked at once a second.
        let end = stack.now() + 20_000_000_000;
        let mut until = |stack: &mut Stack<EpollDriver>, is_so: &dyn Fn(&FastPath) -> bool| loop {
            // Some are lost meanwhile.
            match ping(stack, 20) {
                true if is_so(&fast) => return true,
                _ if stack.now() > end => return false,
                _ => {}
            }
        };
        assert!(until(&mut stack, &|fast| forwarded(fast) > 0), "programs forward once the far ends take it");
        assert!(fast.refusing().is_empty());
        drop(programs);
        // Ways hold for some seconds, and are looked at as they end.
        assert!(until(&mut stack, &|fast| fast.refusing().len() == 2), "lanes forward again");
        assert!((0..20).all(|_| ping(&mut stack, 20_000)));
    });
}

/// What the lane has forwarded goes by the programs from then on, there and back, until something changes.
#[test]
fn what_a_lane_has_forwarded_goes_without_it() {
    const NAME: &str = "gateway::what_a_lane_has_forwarded_goes_without_it";
    on_thread(NAME, || {
        let far = match wires([1500, 1500]) {
            Ok(far) => far,
            Err(why) => return skip(NAME, &why),
        };
        let (mut stack, fast) = offloading();
        // A far end takes what is redirected if it has a program.
        let _programs = [0, 1].map(|end| pass_all(&far[end]));
        let pings = at_far(&far[0], icmp);
        let ping = |stack: &mut Stack<EpollDriver>, number: u8| {
            pings.send_to(&request(number), (FAR[1], 0)).unwrap();
            let (reply, from) = hear(stack, &pings);
            assert_eq!((from, reply[8], reply[20], reply[27]), (FAR[1].into(), 63, 0, number), "through one router");
            // Ways come into force when nothing waits, however late the last look is.
            let end = stack.now() + 1_000_000;
            while stack.now() < end {
                stack.collect(Wait::Until(end), 64, &mut Vec::new());
            }
            stack.collect(Wait::No, 64, &mut Vec::new());
            stack.counts().forwarded
        };
        let mut pings = 1..=200_u8;
        let mut by_lane = ping(&mut stack, pings.next().unwrap());
        assert_eq!(by_lane, 2, "there and back");
        // The far ends are looked at once more before something is told to leave there.
        let is_without = |number: u8| {
            let before = std::mem::replace(&mut by_lane, ping(&mut stack, number));
            fast.refusing().is_empty() && before == by_lane
        };
        assert!(pings.any(is_without), "the lane forwards all of them");
        // Each direction's halves hold for seconds, and each has at most one packet come to the lane then.
        let (began, last) = (stack.now(), pings.start() + 20);
        let by_lane_then = (*pings.start()..last).map(|number| ping(&mut stack, number)).last().unwrap();
        let renewed = 4 * (1 + (stack.now() - began) / 4_000_000_000);
        assert!(by_lane_then <= by_lane + renewed, "the lane forwarded {by_lane}, then {by_lane_then}");
        let traffic = [1, 2].map(|interface| fast.traffic(corelane_rules::Interface(interface)).unwrap());
        let sum: u64 = traffic.iter().map(|one| one.packets_in).sum();
        assert_eq!(sum + by_lane_then, 2 * u64::from(last - 1), "{traffic:?}");
        let [first, second] = traffic;
        for (from, to) in [(&first, &second), (&second, &first)] {
            assert_eq!((from.packets_in, from.bytes_in), (to.packets_out, to.bytes_out), "{traffic:?}");
            assert!(from.bytes_in == 32 * from.packets_in && from.packets_in > 0, "{traffic:?}");
        }
        // A route that is added ends all ways.
        let added = stack
            .add_route(&Route { destination: [198, 51, 100, 0].into(), bits: 24, router: FAR[1].into(), interface: None })
            .unwrap();
        assert!(added);
        assert_eq!(ping(&mut stack, last), by_lane_then + 2);
    });
}
