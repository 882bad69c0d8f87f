//! Which packets are ours and which the kernel's: the one decision, made in the interface's program.
//!
//! Whoever has an address answers for all of it: the packets to it, and who asks for it, or claims it, by ARP and neighbour discovery. So with
//! [`Ours::Addresses`] we answer ARP, neighbour discovery and ICMP for those addresses, and the kernel never hears of them; one that it has itself
//! is refused. With [`Ours::Ports`] the address is the kernel's, who goes on answering all three, and we have UDP to these ports alone; a
//! fragment of such a packet, which has no port to go by, is the kernel's. With these two, packets of VLANs are the kernel's: those with a tag in their bytes, and those
//! whose tag the card has taken out, where its driver tells (`card`). A tag without a VLAN's number carries a priority alone, and changes nothing. With [`Ours::All`] we have both, for we may have VLANs of our own: a tag that was taken out is put back first, so
//! that all behind see it where the sender had it. Where the driver does not tell, nobody can tell such a packet from one without a tag, so have the card leave tags in
//! (`ethtool -K INTERFACE rxvlan off`; of veth, `txvlan off` at the other end).

use crate::card::{Functions, MARK, NOTE_BYTES};
use crate::errors::Error;
use crate::fast::{ADJUST_HEAD, FastPart, Unfit};
use crate::layout::{ARP, ICMPV6, IPV4, IPV6, NEIGHBOUR_ADVERTISEMENT, NEIGHBOUR_SOLICITATION, UDP, VLAN, VLAN_NUMBER, at};
use crate::link;
use corelane_os::errno;
use corelane_select::bpf::assembly::{Alu, Assembler, Instruction, Label, Register, When, Width};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::BorrowedFd;

use Register::{R0, R1, R2, R3, R4, R5, R6, R7, R8, R10};

/// Addresses, or addresses with ports, at the most.
pub const OURS_MAX: usize = 32;

/// What a port is given; the kernel's own stack gets the rest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ours {
    /// Every packet that has the header of a link.
    All,
    /// What goes to these addresses, and what asks for them on the link; 1 to [`OURS_MAX`].
    Addresses(Vec<IpAddr>),
    /// UDP to these ports of addresses that remain the kernel's; 1 to [`OURS_MAX`].
    Ports(Vec<SocketAddr>),
}

impl Ours {
    pub(crate) fn check(&self) -> Result<(), Error> {
        let count = match self {
            Self::All => 1,
            Self::Addresses(addresses) => addresses.len(),
            Self::Ports(ports) => ports.len(),
        };
        let range = Error::Range { what: "the number of addresses of a port", got: count, most: OURS_MAX };
        if !(1..=OURS_MAX).contains(&count) {
            return Err(range);
        }
        self.are_not_the_kernels()
    }
}

impl Ours {
    /// Looks whether the kernel has one of the addresses, and would answer for it as well.
    fn are_not_the_kernels(&self) -> Result<(), Error> {
        let Self::Addresses(addresses) = self else { return Ok(()) };
        let own = link::addresses_of_kernel().map_err(|error| Error::of("netlink RTM_GETADDR", errno::of(&error), ""))?;
        match addresses.iter().find(|address| own.contains(address)) {
            Some(&address) => Err(Error::AddressTaken { address, remedy: link::taking_away(address).into() }),
            None => Ok(()),
        }
    }
}

/// Functions of the kernel (bpf-helpers(7)).
const MAP_LOOKUP: i32 = 1;
const REDIRECT_MAP: i32 = 51;
const ADJUST_META: i32 = 54;
/// Bytes of a VLAN tag.
const TAG_BYTES: i32 = 4;
/// `XDP_PASS`.
const PASS: i32 = 2;
const CONTEXT: Register = R6;
const START: Register = R2;
const END: Register = R3;

/// Where things stand in `struct xdp_md`.
mod context {
    pub const DATA: i16 = 0;
    pub const DATA_END: i16 = 4;
    pub const NOTE: i16 = 8;
    pub const QUEUE: i16 = 16;
}

/// More fragments follow, or this one is not the first.
const FRAGMENT: u16 = 0x3fff;

/// What a program is made of.
#[derive(Clone, Copy)]
pub struct Parts<'a> {
    /// The sockets of its queues.
    pub sockets: BorrowedFd<'a>,
    /// Where each packet is counted for its queue.
    pub seen: Option<BorrowedFd<'a>>,
    /// The card's functions that it asks.
    pub functions: Option<&'a Functions>,
    /// What forwards packets that need no lane.
    pub fast: Option<&'a FastPart<'a>>,
}

/// The program: what is ours goes the fast path, or to the socket that the map has for the packet's queue, or to the kernel if there is none; with a card's functions,
/// a tag beside the bytes is known, and the socket gets what is known of a packet.
///
/// # Errors
/// The fast path has too many instructions.
pub fn program(ours: &Ours, parts: &Parts<'_>) -> Result<Vec<Instruction>, Unfit> {
    let Parts { sockets, seen, functions, fast } = *parts;
    let mut a = Assembler::new();
    let [take, pass, lane, hand_over] = [(); 4].map(|()| a.label());
    a.alu(Alu::Move, CONTEXT, R1);
    seen.into_iter().for_each(|seen| count(&mut a, seen));
    a.load(Width::Four, START, CONTEXT, context::DATA);
    a.load(Width::Four, END, CONTEXT, context::DATA_END);
    let mut writer = Writer { a, take, pass };
    match ours {
        Ours::All => {
            writer.reaches(at::NETWORK);
            writer.a.jump(take);
        }
        Ours::Addresses(addresses) => writer.addresses(addresses),
        Ours::Ports(ports) => writer.ports(ports),
    }
    let Writer { mut a, .. } = writer;
    a.place(take);
    match (functions, ours) {
        (Some(functions), Ours::All) => put_tag_back(&mut a, functions, pass),
        (Some(functions), _) => leave_vlans(&mut a, functions, pass),
        (None, _) => {}
    }
    if let Some(fast) = fast {
        fast.write(&mut a, lane)?;
    }
    a.place(lane);
    functions.into_iter().filter(|functions| functions.types != 0).for_each(|functions| note_hash(&mut a, functions, hand_over));
    a.place(hand_over);
    a.map(R1, sockets);
    a.load(Width::Four, R2, CONTEXT, context::QUEUE);
    a.alu(Alu::Move, R3, PASS);
    a.call(REDIRECT_MAP);
    a.exit();
    a.place(pass);
    a.alu(Alu::Move, R0, PASS);
    a.exit();
    Ok(a.finish())
}

/// Counts the packet for its queue. One CPU at a time receives by a queue.
fn count(a: &mut Assembler, seen: BorrowedFd<'_>) {
    let absent = a.label();
    a.load(Width::Four, R2, CONTEXT, context::QUEUE);
    a.store(Width::Four, R10, FIRST, R2);
    a.map(R1, seen);
    a.alu(Alu::Move, R2, R10);
    a.alu(Alu::Add, R2, i32::from(FIRST));
    a.call(MAP_LOOKUP);
    a.branch(When::Equal, R0, 0, absent);
    a.load(Width::Eight, R1, R0, 0);
    a.alu(Alu::Add, R1, 1);
    a.store(Width::Eight, R0, 0, R1);
    a.place(absent);
}

/// Where a function writes two values, from the end of the stack.
const FIRST: i16 = -8;
const SECOND: i16 = -16;

/// Calls a function that writes two values, and goes to the label if its answer, of 32 bits, is that.
fn ask(a: &mut Assembler, function: u32, when: When, label: Label) {
    a.alu(Alu::Move, R1, CONTEXT);
    for (register, place) in [(R2, FIRST), (R3, SECOND)] {
        a.store(Width::Eight, R10, place, 0);
        a.alu(Alu::Move, register, R10);
        a.alu(Alu::Add, register, i32::from(place));
    }
    a.call_kernel(function);
    a.alu(Alu::ShiftLeft, R0, 32);
    a.branch(when, R0, 0, label);
}

/// Leaves a packet to the kernel whose tag, beside its bytes, names a VLAN.
fn leave_vlans(a: &mut Assembler, functions: &Functions, pass: Label) {
    let without = a.label();
    ask(a, functions.vlan_tag, When::NotEqual, without);
    a.load(Width::Two, R5, R10, SECOND);
    a.alu(Alu::And, R5, i32::from(VLAN_NUMBER));
    a.branch(When::NotEqual, R5, 0, pass);
    a.place(without);
}

/// Puts a tag that is beside the bytes back into them. Where there is no room in front, the kernel has the packet.
fn put_tag_back(a: &mut Assembler, functions: &Functions, pass: Label) {
    let without = a.label();
    ask(a, functions.vlan_tag, When::NotEqual, without);
    a.load(Width::Two, R7, R10, FIRST);
    a.load(Width::Two, R8, R10, SECOND);
    a.to_big_endian_16(R8);
    a.alu(Alu::Move, R1, CONTEXT);
    a.alu(Alu::Move, R2, -TAG_BYTES);
    a.call(ADJUST_HEAD);
    a.branch(When::NotEqual, R0, 0, pass);
    a.load(Width::Four, R2, CONTEXT, context::DATA);
    a.load(Width::Four, R3, CONTEXT, context::DATA_END);
    a.alu(Alu::Move, R4, R2);
    a.alu(Alu::Add, R4, i32::from(at::NETWORK) + TAG_BYTES);
    a.branch(When::Greater, R4, R3, pass);
    // Both addresses of the link move to the front, and the tag is behind them.
    a.load(Width::Eight, R4, R2, TAG_BYTES as i16);
    a.load(Width::Four, R5, R2, TAG_BYTES as i16 + 8);
    a.store(Width::Eight, R2, 0, R4);
    a.store(Width::Four, R2, 8, R5);
    a.store(Width::Two, R2, at::ETHER_TYPE, R7);
    a.store(Width::Two, R2, at::ETHER_TYPE + 2, R8);
    a.place(without);
}

/// Writes the packet's hash in front of it, if there is one of use and room for it.
fn note_hash(a: &mut Assembler, functions: &Functions, without: Label) {
    ask(a, functions.hash, When::NotEqual, without);
    a.load(Width::Four, R7, R10, FIRST);
    a.load(Width::Four, R8, R10, SECOND);
    a.alu(Alu::Move, R4, R8);
    a.alu(Alu::And, R4, functions.types.cast_signed());
    a.branch(When::Equal, R4, 0, without);
    a.alu(Alu::Or, R8, MARK.cast_signed());
    a.alu(Alu::Move, R1, CONTEXT);
    a.alu(Alu::Move, R2, -(NOTE_BYTES as i32));
    a.call(ADJUST_META);
    a.branch(When::NotEqual, R0, 0, without);
    a.load(Width::Four, R2, CONTEXT, context::NOTE);
    a.load(Width::Four, R3, CONTEXT, context::DATA);
    a.alu(Alu::Move, R4, R2);
    a.alu(Alu::Add, R4, NOTE_BYTES as i32);
    a.branch(When::Greater, R4, R3, without);
    a.store(Width::Four, R2, 0, R7);
    a.store(Width::Four, R2, 4, R8);
}

struct Writer {
    a: Assembler,
    take: Label,
    pass: Label,
}

impl Writer {
    /// Leaves what is shorter than so many bytes to the kernel.
    fn reaches(&mut self, bytes: i16) {
        self.a.alu(Alu::Move, R4, START);
        self.a.alu(Alu::Add, R4, i32::from(bytes));
        self.a.branch(When::Greater, R4, END, self.pass);
    }

    /// Goes to the label of the packet's type, or to the kernel. A tag that carries a priority alone (IEEE 802.1Q, 9.6) is passed over: from then on the packet starts so much
    /// later, where its type and what is behind it stand as without a tag.
    fn types(&mut self, types: &[(u16, Label)]) {
        let without = self.a.label();
        self.reaches(at::NETWORK);
        self.a.load(Width::Two, R5, START, at::ETHER_TYPE);
        self.a.branch(When::NotEqual, R5, i32::from(VLAN.to_be()), without);
        self.reaches(at::NETWORK + TAG_BYTES as i16);
        self.a.load(Width::Two, R5, START, at::NETWORK);
        self.a.alu(Alu::And, R5, i32::from(VLAN_NUMBER.to_be()));
        self.a.branch(When::NotEqual, R5, 0, self.pass);
        self.a.alu(Alu::Add, START, TAG_BYTES);
        self.a.load(Width::Two, R5, START, at::ETHER_TYPE);
        self.a.place(without);
        for (number, label) in types {
            self.a.branch(When::Equal, R5, i32::from(number.to_be()), *label);
        }
        self.a.jump(self.pass);
    }

    fn addresses(&mut self, addresses: &[IpAddr]) {
        let [v4, arp, v6] = [(); 3].map(|()| self.a.label());
        self.types(&[(IPV4, v4), (ARP, arp), (IPV6, v6)]);
        // Who asks for an address of ours, and who says that it is his.
        for (label, places) in [(v4, &[at::V4_DESTINATION][..]), (arp, &[at::ARP_TARGET, at::ARP_SENDER])] {
            self.a.place(label);
            self.reaches(places[0] + 4);
            for place in places {
                self.a.load(Width::Four, R5, START, *place);
                for address in addresses.iter().filter_map(v4_of) {
                    self.go_if_v4(address, self.take);
                }
            }
            self.a.jump(self.pass);
        }
        self.a.place(v6);
        self.reaches(at::V6_END);
        for address in addresses.iter().filter_map(v6_of) {
            self.go_if_v6(at::V6_DESTINATION, address, self.take);
        }
        // Who asks for an address asks a group that others are in as well, by the address that it asks for; so does who claims it.
        self.a.load(Width::One, R5, START, at::V6_NEXT);
        self.a.branch(When::NotEqual, R5, i32::from(ICMPV6), self.pass);
        self.reaches(at::TARGET_END);
        self.a.load(Width::One, R5, START, at::V6_END);
        let named = self.a.label();
        self.a.branch(When::Equal, R5, i32::from(NEIGHBOUR_SOLICITATION), named);
        self.a.branch(When::NotEqual, R5, i32::from(NEIGHBOUR_ADVERTISEMENT), self.pass);
        self.a.place(named);
        for address in addresses.iter().filter_map(v6_of) {
            self.go_if_v6(at::TARGET, address, self.take);
        }
        self.a.jump(self.pass);
    }

    fn ports(&mut self, ports: &[SocketAddr]) {
        let [v4, v6] = [(); 2].map(|()| self.a.label());
        self.types(&[(IPV4, v4), (IPV6, v6)]);
        self.a.place(v4);
        self.v4_ports(ports);
        self.a.place(v6);
        self.reaches(at::V6_END + at::UDP_BYTES);
        self.a.load(Width::One, R5, START, at::V6_NEXT);
        self.a.branch(When::NotEqual, R5, i32::from(UDP), self.pass);
        self.a.load(Width::Two, R8, START, at::V6_END + at::UDP_DESTINATION);
        for port in ports {
            let Some(address) = v6_of(&port.ip()) else { continue };
            let other = self.other_port(port.port());
            self.go_if_v6(at::V6_DESTINATION, address, self.take);
            self.a.place(other);
        }
        self.a.jump(self.pass);
    }

    fn v4_ports(&mut self, ports: &[SocketAddr]) {
        self.reaches(at::V4_END + at::UDP_BYTES);
        self.a.load(Width::One, R5, START, at::V4_PROTOCOL);
        self.a.branch(When::NotEqual, R5, i32::from(UDP), self.pass);
        self.a.load(Width::Two, R5, START, at::V4_FRAGMENT);
        self.a.alu(Alu::And, R5, i32::from(FRAGMENT.to_be()));
        self.a.branch(When::NotEqual, R5, 0, self.pass);
        // The header has its length in words of 4 bytes in the lower half of its first byte.
        self.a.load(Width::One, R7, START, at::NETWORK);
        self.a.alu(Alu::And, R7, 0x0f);
        self.a.alu(Alu::ShiftLeft, R7, 2);
        self.a.alu(Alu::Add, R7, START);
        self.a.alu(Alu::Move, R4, R7);
        self.a.alu(Alu::Add, R4, i32::from(at::NETWORK + at::UDP_BYTES));
        self.a.branch(When::Greater, R4, END, self.pass);
        self.a.load(Width::Two, R8, R7, at::NETWORK + at::UDP_DESTINATION);
        self.a.load(Width::Four, R5, START, at::V4_DESTINATION);
        for port in ports {
            let Some(address) = v4_of(&port.ip()) else { continue };
            let other = self.other_port(port.port());
            self.go_if_v4(address, self.take);
            self.a.place(other);
        }
        self.a.jump(self.pass);
    }

    /// Goes on only with this port in R8; the label is to be placed where others go on.
    fn other_port(&mut self, port: u16) -> Label {
        let other = self.a.label();
        self.a.branch(When::NotEqual, R8, i32::from(port.to_be()), other);
        other
    }

    /// Goes to the label if R5 is this address.
    fn go_if_v4(&mut self, address: Ipv4Addr, label: Label) {
        // As a number in the instruction it would have its sign extended.
        self.a.wide(R1, u32::from_ne_bytes(address.octets()).into());
        self.a.branch(When::Equal, R5, R1, label);
    }

    /// Goes to the label if this address stands there.
    fn go_if_v6(&mut self, place: i16, address: Ipv6Addr, label: Label) {
        let other = self.a.label();
        for (index, word) in address.octets().as_chunks::<4>().0.iter().enumerate() {
            self.a.load(Width::Four, R5, START, place + 4 * index as i16);
            self.a.wide(R1, u32::from_ne_bytes(*word).into());
            self.a.branch(When::NotEqual, R5, R1, other);
        }
        self.a.jump(label);
        self.a.place(other);
    }
}

fn v4_of(address: &IpAddr) -> Option<Ipv4Addr> {
    match address {
        IpAddr::V4(address) => Some(*address),
        IpAddr::V6(_) => None,
    }
}

fn v6_of(address: &IpAddr) -> Option<Ipv6Addr> {
    match address {
        IpAddr::V6(address) => Some(*address),
        IpAddr::V4(_) => None,
    }
}
