//! Packet rules within an interface's program: the tree that lanes carry out (`corelane_rules`), as instructions.
//!
//! The program reads Ethernet with up to two VLAN tags, IPv4 with options, and IPv6 without extension headers, walks the tree, and counts in an array by CPU that outlives
//! it. What it does not understand is left to the lane uncounted: fragments, headers that are cut short or wrong, VLANs without a name, other protocols. So is
//! a whole set of rules that needs what only a lane has: states of flows, lines, tables, and lists where a tree was not to be had.
//!
//! What goes on is the lane's to forward, and must not be judged there again, or it is counted twice: whoever places the exits sees to that. A counter whose place gets
//! another rule goes on from where it was: whoever reads it subtracts what it had then, for to clear it while programs count would lose some.
//!
//! All counters of a CPU are one value of the array, so that a packet looks one value up, however many rules it meets.

use crate::layout::{ICMPV6, IPV4, IPV6, UDP};
use corelane_rules::{Address, Direction, Field, Interface, Node, NodeId, RuleSet, Tree};
use corelane_select::Error as SelectError;
use corelane_select::bpf::assembly::{Alu, Assembler, Label, Register, When, Width};
use corelane_select::bpf::{Map, MapKind};
use std::fmt;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};

use Register::{R0, R1, R2, R3, R4, R5, R6, R7, R8, R9, R10};

/// Rules, by their places, that have counters in one value of the array: the kernel takes 32 KiB for a CPU's.
pub const PLACES_MAX: usize = 1_363;
/// Instructions at the most: jumps have 16 bits.
pub const INSTRUCTIONS_MAX: usize = 32_000;
/// Own addresses at the most: they are compared one by one.
pub const OWN_MAX: usize = 64;

/// Bytes of a rule's counters: packets, bytes, and when it matched last.
const COUNTER_BYTES: usize = 24;

/// Functions of the kernel (bpf-helpers(7)).
const MAP_LOOKUP: i32 = 1;
const COARSE_TIME: i32 = 160;

const TCP: u8 = 6;
const ICMP: u8 = 1;
const VLAN: u16 = 0x8100;
const SERVICE_VLAN: u16 = 0x88a8;
/// IPv6's extension headers that a lane walks past (RFC 8200).
const EXTENSIONS: [u8; 5] = [0, 43, 44, 51, 60];
/// More fragments follow, or this one is not the first.
const FRAGMENT: u16 = 0x3fff;
/// Bytes of Ethernet's header.
const LINK: i16 = 14;

/// VLAN tags of a frame, outer first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tags {
    /// None.
    None,
    /// One, with this number.
    One(u16),
    /// Two.
    Two(u16, u16),
}

impl Tags {
    /// The number that the program makes of them.
    const fn key(self) -> i32 {
        match self {
            Self::None => 0,
            Self::One(tag) => 1 << 24 | (tag & 0xfff) as i32,
            Self::Two(outer, inner) => 2 << 24 | ((outer & 0xfff) as i32) << 12 | (inner & 0xfff) as i32,
        }
    }
}

/// What the rules see beside the frame.
#[derive(Clone, Debug)]
pub struct Look {
    /// Which way frames go that the program sees.
    pub direction: Direction,
    /// Which interface each VLAN is. Frames of others are the lane's.
    pub links: Vec<(Tags, Interface)>,
    /// This machine's addresses, [`OWN_MAX`] at the most.
    pub own: Vec<IpAddr>,
}

/// Where packets go, as labels of the program.
#[derive(Clone, Copy, Debug)]
pub struct Exits {
    /// The rules let it go on.
    pub allow: Label,
    /// The rules drop it, and nobody is told.
    pub deny: Label,
    /// The program does not understand it, and has counted nothing.
    pub lane: Label,
}

/// Why a set of rules stays with the lanes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unfit {
    /// It has no tree.
    NoTree,
    /// Its tree ends with lists, for this reason.
    Lists(String),
    /// A rule writes lines.
    Logs(u16),
    /// A rule asks for states or makes them.
    States(u16),
    /// A rule asks a table.
    Tables,
    /// A rule tells senders.
    Rejects(u16),
    /// There are more places of rules than one value counts.
    Places(usize),
    /// There are more own addresses than are compared one by one.
    Own(usize),
    /// The program would have so many instructions.
    Instructions(usize),
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the rules stay with the lanes: ")?;
        match self {
            Self::NoTree => f.write_str("they were not compiled into a tree"),
            Self::Lists(report) => f.write_str(report),
            Self::Logs(rule) => write!(f, "rule {rule} has lines written, which a lane does"),
            Self::States(rule) => write!(f, "rule {rule} has to do with states of flows, which a lane keeps"),
            Self::Tables => f.write_str("a rule asks a table, which a lane has"),
            Self::Rejects(rule) => write!(f, "rule {rule} tells senders, which a lane does"),
            Self::Places(places) => write!(f, "{places} rules have counters, and a program has {PLACES_MAX}"),
            Self::Own(addresses) => write!(f, "there are {addresses} addresses of our own, and a program compares {OWN_MAX}"),
            Self::Instructions(count) => {
                write!(f, "the program would have {count} instructions, and jumps reach over {INSTRUCTIONS_MAX}")
            }
        }
    }
}

impl std::error::Error for Unfit {}

/// Counters of rules by CPU, for any number of programs one after the other.
#[derive(Debug)]
pub struct RuleCounters {
    map: Map,
}

impl RuleCounters {
    /// All 0.
    ///
    /// # Errors
    /// As [`Map::new`].
    pub fn new() -> Result<Self, SelectError> {
        let bytes = COUNTER_BYTES * (PLACES_MAX + 1);
        Map::new(MapKind::PerCpuArray, bytes, 1, "corelane_rules").map(|map| Self { map })
    }

    /// Packets, bytes and when it matched last (nanoseconds of the monotonic clock), of each place, all CPUs together.
    ///
    /// # Errors
    /// What the system says.
    pub fn read(&self) -> Result<Vec<[u64; 3]>, corelane_seam::Fault> {
        let value = self.map.lookup(0)?;
        let mut sums = vec![[0_u64; 3]; PLACES_MAX];
        for cpu in value.chunks_exact(COUNTER_BYTES * (PLACES_MAX + 1)) {
            for (sum, place) in sums.iter_mut().zip(cpu.chunks_exact(COUNTER_BYTES).skip(1)) {
                let (words, _) = place.as_chunks::<8>();
                let [packets, bytes, last] = [words[0], words[1], words[2]].map(u64::from_ne_bytes);
                *sum = [sum[0].wrapping_add(packets), sum[1].wrapping_add(bytes), sum[2].max(last)];
            }
        }
        Ok(sums)
    }

    /// The map, for a program.
    #[must_use]
    pub fn map(&self) -> BorrowedFd<'_> {
        self.map.as_fd()
    }
}

/// Where the packet's numbers stand, from the end of the stack.
mod place {
    pub const KEY: i16 = -8;
    pub const FAMILY: i16 = -16;
    pub const LINK: i16 = -24;
    pub const PROTOCOL: i16 = -32;
    pub const SOURCE: i16 = -48;
    pub const DESTINATION: i16 = -64;
    pub const SOURCE_PORT: i16 = -72;
    pub const DESTINATION_PORT: i16 = -80;
    pub const FLAGS: i16 = -88;
    pub const ICMP: i16 = -96;
    pub const ICMP6: i16 = -104;
    pub const SOURCE_IS_OURS: i16 = -112;
    pub const DESTINATION_IS_OURS: i16 = -120;
    /// Behind an address: its low half.
    pub const LOW: i16 = 8;
}

const CONTEXT: Register = R6;
const COUNTERS: Register = R7;
const NOW: Register = R8;
/// The key of the tags, then bytes of the packet.
const LENGTH: Register = R9;

/// Writes the rules into a program whose R1 is the context still.
///
/// # Errors
/// Why they cannot be there.
pub fn write(a: &mut Assembler, set: &RuleSet, look: &Look, counters: BorrowedFd<'_>, exits: Exits) -> Result<(), Unfit> {
    let tree = fit(set, look)?;
    let before = a.len();
    let mut writer = Writer { a, set, tree, look, exits, labels: Vec::new() };
    writer.begin(counters);
    writer.packet();
    writer.link();
    if uses_own(tree) {
        writer.own();
    }
    writer.tree();
    match a.len() - before {
        count if count > INSTRUCTIONS_MAX => Err(Unfit::Instructions(count)),
        _ => Ok(()),
    }
}

/// The tree, if a program can carry it out.
fn fit<'a>(set: &'a RuleSet, look: &Look) -> Result<&'a Tree, Unfit> {
    use corelane_rules::language::{Action, Log};
    let tree = set.tree().ok_or(Unfit::NoTree)?;
    if tree.reason.is_some() {
        return Err(Unfit::Lists(tree.to_string()));
    }
    for (id, number, rule) in set.rules() {
        match rule.action {
            _ if rule.log != Log::No => return Err(Unfit::Logs(number)),
            _ if rule.keep.is_some() => return Err(Unfit::States(number)),
            Action::CheckState => return Err(Unfit::States(number)),
            Action::Reject(_) => return Err(Unfit::Rejects(number)),
            _ if id.place() >= PLACES_MAX => return Err(Unfit::Places(id.place() + 1)),
            Action::Count | Action::Allow | Action::Deny | Action::Skipto(_) => {}
        }
    }
    if tree.nodes.iter().any(|node| matches!(node, Node::Split { field: Field::Table(..), .. })) {
        return Err(Unfit::Tables);
    }
    if look.own.len() > OWN_MAX {
        return Err(Unfit::Own(look.own.len()));
    }
    // Each node takes some instructions, so that far more nodes than that need not be written to know.
    match tree.nodes.len() {
        count if count > INSTRUCTIONS_MAX => Err(Unfit::Instructions(count)),
        _ => Ok(tree),
    }
}

fn uses_own(tree: &Tree) -> bool {
    let asks = |node: &Node| match node {
        Node::Split { field, .. } => {
            matches!(field, Field::SourceIsOurs | Field::DestinationIsOurs | Field::SourceIsOurs6 | Field::DestinationIsOurs6)
        }
        _ => false,
    };
    tree.nodes.iter().any(asks)
}

struct Writer<'a> {
    a: &'a mut Assembler,
    set: &'a RuleSet,
    tree: &'a Tree,
    look: &'a Look,
    exits: Exits,
    /// Where the nodes that packets come to begin.
    labels: Vec<Option<Label>>,
}

impl Writer<'_> {
    /// Finds the counters, and asks the time once.
    fn begin(&mut self, counters: BorrowedFd<'_>) {
        self.a.alu(Alu::Move, CONTEXT, R1);
        self.a.store(Width::Four, R10, place::KEY, 0);
        self.a.map(R1, counters);
        self.a.alu(Alu::Move, R2, R10);
        self.a.alu(Alu::Add, R2, i32::from(place::KEY));
        self.a.call(MAP_LOOKUP);
        self.a.branch(When::Equal, R0, 0, self.exits.lane);
        self.a.alu(Alu::Move, COUNTERS, R0);
        // The kernel takes no program with instructions that nothing leads to, as an exit may be: this leads to both, and is never gone.
        self.a.alu(Alu::Move, R0, 0);
        self.a.branch(When::NotEqual, R0, 0, self.exits.allow);
        self.a.branch(When::NotEqual, R0, 0, self.exits.deny);
        self.a.call(COARSE_TIME);
        self.a.alu(Alu::Move, NOW, R0);
        self.a.load(Width::Four, R2, CONTEXT, 0);
        self.a.load(Width::Four, R3, CONTEXT, 4);
        self.reaches(LINK);
    }

    /// Leaves what has not so many bytes from R2 on to the lane.
    fn reaches(&mut self, bytes: i16) {
        self.a.alu(Alu::Move, R4, R2);
        self.a.alu(Alu::Add, R4, i32::from(bytes));
        self.a.branch(When::Greater, R4, R3, self.exits.lane);
    }

    /// Loads two bytes from R2 on as a number.
    fn half(&mut self, to: Register, offset: i16) {
        self.a.load(Width::Two, to, R2, offset);
        self.a.to_big_endian_16(to);
    }

    fn keep(&mut self, at: i16, value: Register) {
        self.a.store(Width::Eight, R10, at, value);
    }

    /// Walks over the tags, whose key is in R9 then, and keeps what the headers behind say. R2 moves on: 14 bytes before what is read next.
    fn packet(&mut self) {
        let [tagged, tagged_again, untagged, v4, v6] = [(); 5].map(|()| self.a.label());
        let [network, transport, done] = [(); 3].map(|()| self.a.label());
        self.a.alu(Alu::Move, LENGTH, 0);
        self.half(R5, 12);
        self.a.branch(When::Equal, R5, i32::from(VLAN), tagged);
        self.a.branch(When::NotEqual, R5, i32::from(SERVICE_VLAN), network);
        self.a.place(tagged);
        self.tag();
        self.a.branch(When::Equal, R5, i32::from(VLAN), tagged_again);
        self.a.branch(When::NotEqual, R5, i32::from(SERVICE_VLAN), untagged);
        self.a.place(tagged_again);
        self.a.alu(Alu::ShiftLeft, LENGTH, 12);
        self.tag();
        self.a.alu(Alu::Add, LENGTH, 1 << 24);
        self.a.place(untagged);
        self.a.alu(Alu::Add, LENGTH, 1 << 24);
        self.a.place(network);
        self.a.branch(When::Equal, R5, i32::from(IPV4), v4);
        self.a.branch(When::Equal, R5, i32::from(IPV6), v6);
        self.a.jump(self.exits.lane);
        self.a.place(v4);
        self.v4();
        self.a.jump(transport);
        self.a.place(v6);
        self.v6();
        self.a.place(transport);
        self.transport(done);
        self.a.place(done);
    }

    /// Adds a tag's number to the key, and loads the type behind it.
    fn tag(&mut self) {
        self.reaches(LINK + 4);
        self.half(R1, LINK);
        self.a.alu(Alu::And, R1, 0xfff);
        self.a.alu(Alu::Or, LENGTH, R1);
        self.half(R5, LINK + 2);
        self.a.alu(Alu::Add, R2, 4);
    }

    /// Goes on with the protocol in R0, bytes of what is carried in R1, and R2 in front of it. The packet's bytes are kept where the key was.
    fn v4(&mut self) {
        self.reaches(LINK + 20);
        self.a.load(Width::One, R5, R2, LINK);
        self.a.alu(Alu::Move, R1, R5);
        self.a.alu(Alu::ShiftRight, R1, 4);
        self.a.branch(When::NotEqual, R1, 4, self.exits.lane);
        self.a.alu(Alu::And, R5, 0xf);
        self.a.branch(When::Less, R5, 5, self.exits.lane);
        self.a.alu(Alu::ShiftLeft, R5, 2);
        self.half(R1, LINK + 6);
        self.a.alu(Alu::And, R1, i32::from(FRAGMENT));
        self.a.branch(When::NotEqual, R1, 0, self.exits.lane);
        self.half(R1, LINK + 2);
        self.a.branch(When::Less, R1, R5, self.exits.lane);
        self.holds_packet();
        self.a.store(Width::Eight, R10, place::FAMILY, 0);
        for (at, from) in [(place::SOURCE, 12), (place::DESTINATION, 16)] {
            self.a.store(Width::Eight, R10, at, 0);
            self.a.load(Width::Four, R4, R2, LINK + from);
            self.a.to_big_endian_32(R4);
            self.a.wide(R0, 0xffff << 32);
            self.a.alu(Alu::Or, R4, R0);
            self.keep(at + place::LOW, R4);
        }
        self.a.load(Width::One, R0, R2, LINK + 9);
        self.keep(place::PROTOCOL, R0);
        self.keep(place::KEY, R1);
        self.a.alu(Alu::Add, R2, R5);
        // What the kernel's check knows of the two is lost with a subtraction of registers, so it comes last.
        self.subtract(R1, R5);
    }

    fn v6(&mut self) {
        self.reaches(LINK + 40);
        self.a.load(Width::One, R1, R2, LINK);
        self.a.alu(Alu::ShiftRight, R1, 4);
        self.a.branch(When::NotEqual, R1, 6, self.exits.lane);
        self.half(R1, LINK + 4);
        self.a.alu(Alu::Add, R1, 40);
        self.holds_packet();
        self.a.store(Width::Eight, R10, place::FAMILY, 1);
        for (at, from) in [(place::SOURCE, 8), (place::DESTINATION, 24)] {
            for half in [0, place::LOW] {
                self.a.load(Width::Eight, R4, R2, LINK + from + half);
                self.a.to_big_endian_64(R4);
                self.keep(at + half, R4);
            }
        }
        self.a.load(Width::One, R0, R2, LINK + 6);
        self.keep(place::PROTOCOL, R0);
        for extension in EXTENSIONS {
            self.a.branch(When::Equal, R0, i32::from(extension), self.exits.lane);
        }
        self.keep(place::KEY, R1);
        self.a.alu(Alu::Add, R2, 40);
        self.a.alu(Alu::Add, R1, -40);
    }

    /// Leaves a packet of which the frame holds fewer bytes than R1 says to the lane.
    fn holds_packet(&mut self) {
        self.a.alu(Alu::Move, R4, R2);
        self.a.alu(Alu::Add, R4, R1);
        self.a.alu(Alu::Add, R4, i32::from(LINK));
        self.a.branch(When::Greater, R4, R3, self.exits.lane);
    }

    /// There is no subtraction: what is taken off is turned over before it is added.
    fn subtract(&mut self, from: Register, what: Register) {
        self.a.alu(Alu::Multiply, what, -1);
        self.a.alu(Alu::Add, from, what);
    }

    fn transport(&mut self, done: Label) {
        const NO_PORT: i32 = 1 << 16;
        const NONE: i32 = 1 << 8;
        for (at, none) in [
            (place::SOURCE_PORT, NO_PORT),
            (place::DESTINATION_PORT, NO_PORT),
            (place::FLAGS, NONE),
            (place::ICMP, NONE),
            (place::ICMP6, NONE),
        ] {
            self.a.store(Width::Eight, R10, at, none);
        }
        let [tcp, ports, icmp, icmp6] = [(); 4].map(|()| self.a.label());
        let udp = self.a.label();
        for (protocol, label) in [(TCP, tcp), (UDP, udp), (ICMP, icmp), (ICMPV6, icmp6)] {
            self.a.branch(When::Equal, R0, i32::from(protocol), label);
        }
        self.a.jump(done);
        self.a.place(tcp);
        self.carries(20);
        self.a.load(Width::One, R5, R2, LINK + 12);
        self.a.alu(Alu::ShiftRight, R5, 4);
        self.a.branch(When::Less, R5, 5, self.exits.lane);
        self.a.alu(Alu::ShiftLeft, R5, 2);
        self.a.branch(When::Less, R1, R5, self.exits.lane);
        self.a.load(Width::One, R5, R2, LINK + 13);
        self.keep(place::FLAGS, R5);
        self.a.jump(ports);
        self.a.place(udp);
        self.carries(8);
        self.a.place(ports);
        self.half(R5, LINK);
        self.keep(place::SOURCE_PORT, R5);
        self.half(R5, LINK + 2);
        self.keep(place::DESTINATION_PORT, R5);
        self.a.jump(done);
        for (label, family, at) in [(icmp, 0, place::ICMP), (icmp6, 1, place::ICMP6)] {
            self.a.place(label);
            self.a.load(Width::Eight, R5, R10, place::FAMILY);
            self.a.branch(When::NotEqual, R5, family, done);
            self.carries(8);
            self.a.load(Width::One, R5, R2, LINK);
            self.keep(at, R5);
            self.a.jump(done);
        }
    }

    /// Leaves a packet that carries fewer bytes to the lane.
    fn carries(&mut self, bytes: i16) {
        self.a.branch(When::Less, R1, i32::from(bytes), self.exits.lane);
        self.reaches(LINK + bytes);
    }

    /// Finds the interface of the tags.
    fn link(&mut self) {
        let mut links: Vec<(i32, u16)> = self.look.links.iter().map(|(tags, interface)| (tags.key(), interface.0)).collect();
        links.sort_unstable();
        links.dedup_by_key(|(key, _)| *key);
        let found = self.a.label();
        self.search(&links, found);
        self.a.place(found);
        // Through memory, the number is any number for the kernel's check, which else would walk the tree once for each interface.
        self.a.store(Width::Eight, COUNTERS, 0, R1);
        self.a.load(Width::Eight, R1, COUNTERS, 0);
        self.keep(place::LINK, R1);
        self.a.load(Width::Eight, LENGTH, R10, place::KEY);
    }

    /// A search by halves for the key in R9, which leaves the interface in R1.
    fn search(&mut self, links: &[(i32, u16)], found: Label) {
        match links {
            [] => self.a.jump(self.exits.lane),
            [(key, interface)] => {
                self.a.branch(When::NotEqual, LENGTH, *key, self.exits.lane);
                self.a.alu(Alu::Move, R1, i32::from(*interface));
                self.a.jump(found);
            }
            _ => {
                let (low, high) = links.split_at(links.len() / 2);
                let below = self.a.label();
                self.a.branch(When::Less, LENGTH, high[0].0, below);
                self.search(high, found);
                self.a.place(below);
                self.search(low, found);
            }
        }
    }

    /// Compares both addresses with our own.
    fn own(&mut self) {
        for (address, is_ours) in [(place::SOURCE, place::SOURCE_IS_OURS), (place::DESTINATION, place::DESTINATION_IS_OURS)] {
            let (ours, done) = (self.a.label(), self.a.label());
            self.a.load(Width::Eight, R1, R10, address);
            self.a.load(Width::Eight, R2, R10, address + place::LOW);
            for own in &self.look.own {
                let number = Address::from(*own).number();
                let other = self.a.label();
                self.a.wide(R3, (number >> 64) as u64);
                self.a.branch(When::NotEqual, R1, R3, other);
                self.a.wide(R3, number as u64);
                self.a.branch(When::Equal, R2, R3, ours);
                self.a.place(other);
            }
            self.a.store(Width::Eight, R10, is_ours, 0);
            self.a.jump(done);
            self.a.place(ours);
            self.a.store(Width::Eight, R10, is_ours, 1);
            self.a.place(done);
        }
    }

    /// Writes the nodes, each before those that it leads to, so that all jumps go forward.
    fn tree(&mut self) {
        self.labels = vec![None; self.tree.nodes.len()];
        let root = self.label_of(self.tree.root);
        self.a.jump(root);
        for at in (0..self.tree.nodes.len()).rev() {
            // What nobody has asked for a label of leads nowhere that packets come from.
            let Some(label) = self.labels[at] else { continue };
            self.a.place(label);
            match self.tree.nodes[at] {
                Node::Split { field, bound, below, other } => match self.known(field) {
                    Some(number) => {
                        let next = self.label_of(if number < bound { below } else { other });
                        self.a.jump(next);
                    }
                    None => {
                        let (below, other) = (self.label_of(below), self.label_of(other));
                        self.split(field, bound, below, other);
                    }
                },
                Node::Hits { first, count, next } => {
                    self.tree.listed(first, count).iter().for_each(|rule| self.count(*rule));
                    let next = self.label_of(next);
                    self.a.jump(next);
                }
                Node::End { rule } => self.end(rule),
                Node::Ask { .. } | Node::Install { .. } | Node::List { .. } => {
                    // A tree with such a node does not `fit`.
                    self.a.jump(self.exits.lane);
                }
            }
        }
    }

    fn label_of(&mut self, node: NodeId) -> Label {
        *self.labels[node as usize].get_or_insert_with(|| self.a.label())
    }

    fn end(&mut self, rule: u32) {
        use corelane_rules::language::Action;
        self.count(rule);
        let action = self.set.rules().nth(rule as usize).map(|(_, _, rule)| rule.action);
        let exit = if action == Some(Action::Allow) { self.exits.allow } else { self.exits.deny };
        self.a.jump(exit);
    }

    /// Counts the packet for a rule.
    fn count(&mut self, rule: u32) {
        let place = self.set.rules().nth(rule as usize).map_or(0, |(id, ..)| id.place());
        let at = (COUNTER_BYTES * (place + 1)) as i16;
        self.a.load(Width::Eight, R1, COUNTERS, at);
        self.a.alu(Alu::Add, R1, 1);
        self.a.store(Width::Eight, COUNTERS, at, R1);
        self.a.load(Width::Eight, R1, COUNTERS, at + 8);
        self.a.alu(Alu::Add, R1, LENGTH);
        self.a.store(Width::Eight, COUNTERS, at + 8, R1);
        self.a.store(Width::Eight, COUNTERS, at + 16, NOW);
    }

    /// What each packet has in a field.
    const fn known(&self, field: Field) -> Option<u128> {
        match (field, self.look.direction) {
            (Field::Direction, Direction::In) | (Field::Later, _) => Some(0),
            (Field::Direction, Direction::Out) => Some(1),
            (Field::Receive, Direction::Out) | (Field::Transmit, Direction::In) => Some(0),
            _ => None,
        }
    }

    fn split(&mut self, field: Field, bound: u128, below: Label, other: Label) {
        let at = match field {
            Field::Flags(set, clear) => return self.flags(set | clear, When::Equal, set, below, other),
            Field::Established => return self.flags(0x14, When::NotEqual, 0, below, other),
            Field::Source => return self.address(place::SOURCE, bound, below, other),
            Field::Destination => return self.address(place::DESTINATION, bound, below, other),
            Field::SourceIsOurs6 => return self.own6(place::SOURCE_IS_OURS, place::SOURCE, below, other),
            Field::DestinationIsOurs6 => return self.own6(place::DESTINATION_IS_OURS, place::DESTINATION, below, other),
            // Such a question is `known`, or its tree does not `fit`.
            Field::Direction | Field::Later | Field::Table(..) => return self.a.jump(self.exits.lane),
            Field::Family => place::FAMILY,
            Field::Via | Field::Receive | Field::Transmit => place::LINK,
            Field::Protocol => place::PROTOCOL,
            Field::SourceIsOurs => place::SOURCE_IS_OURS,
            Field::DestinationIsOurs => place::DESTINATION_IS_OURS,
            Field::SourcePort => place::SOURCE_PORT,
            Field::DestinationPort => place::DESTINATION_PORT,
            Field::IcmpType => place::ICMP,
            Field::Icmp6Type => place::ICMP6,
            Field::Length => return self.compare(LENGTH, bound as u64, below, other),
        };
        self.a.load(Width::Eight, R1, R10, at);
        self.compare(R1, bound as u64, below, other);
    }

    /// Goes below if the register is less than the bound.
    fn compare(&mut self, register: Register, bound: u64, below: Label, other: Label) {
        match i32::try_from(bound) {
            Ok(bound) => self.a.branch(When::Less, register, bound, below),
            Err(_) => {
                self.a.wide(R2, bound);
                self.a.branch(When::Less, register, R2, below);
            }
        }
        self.a.jump(other);
    }

    fn address(&mut self, at: i16, bound: u128, below: Label, other: Label) {
        let (high, low) = ((bound >> 64) as u64, bound as u64);
        self.a.load(Width::Eight, R1, R10, at);
        if high == 0 {
            self.a.branch(When::NotEqual, R1, 0, other);
        } else {
            self.a.wide(R2, high);
            self.a.branch(When::Less, R1, R2, below);
            if low == 0 {
                return self.a.jump(other);
            }
            self.a.branch(When::Greater, R1, R2, other);
        }
        self.a.load(Width::Eight, R1, R10, at + place::LOW);
        self.compare(R1, low, below, other);
    }

    /// Goes to the other side if TCP's control bits under the mask compare so.
    fn flags(&mut self, mask: u8, when: When, number: u8, below: Label, other: Label) {
        self.a.load(Width::Eight, R1, R10, place::FLAGS);
        self.a.branch(When::Greater, R1, 255, below);
        self.a.alu(Alu::And, R1, i32::from(mask));
        self.a.branch(when, R1, i32::from(number), other);
        self.a.jump(below);
    }

    /// Goes to the other side if the address is ours and not IPv4's.
    fn own6(&mut self, is_ours: i16, address: i16, below: Label, other: Label) {
        self.a.load(Width::Eight, R1, R10, is_ours);
        self.a.branch(When::Equal, R1, 0, below);
        self.a.load(Width::Eight, R1, R10, address);
        self.a.branch(When::NotEqual, R1, 0, other);
        self.a.load(Width::Eight, R1, R10, address + place::LOW);
        self.a.alu(Alu::ShiftRight, R1, 32);
        self.a.branch(When::Equal, R1, 0xffff, below);
        self.a.jump(other);
    }
}
