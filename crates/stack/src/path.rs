//! The way of a packet over one lane: what the driver's face and the lane's work have in common.

use crate::channels::Channels;
use crate::counts::{Counts, Drop};
use crate::draft::Draft;
use crate::limiter::Bounds;
use crate::narrow::{Narrow, Told};
use crate::neighbours::{Neighbours, Word};
use crate::packet::{Ip, Packet};
use crate::peers::Opened;
use crate::presence::{Answer, Presence};
use crate::routes::Routes;
use crate::settings::{Error, FRAME_BYTES_LEAST, Settings, V6_BYTES_LEAST};
use crate::settling::{Owed, Settling};
use crate::shelf::Shelf;
use crate::sockets::Sockets;
use corelane_isr::dispatch::{Dispatch, Facts, Isr, Number, Placed, Placement, Registration, Report, Step};
use corelane_isr::reassembly::{Limits, Reassembly, Reorders};
use corelane_rss::{FlowHasher, FlowId, Table, Verdict};
use corelane_seam::{Frame, FrameMemory, Instant, Lost, PortFacts, PortKind, PortState, Record};
use corelane_wire::packet::checksum::Sum;
use corelane_wire::packet::ethernet::{self, Mac};
use corelane_wire::packet::{fragment, ipv6};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

/// Bytes of the longest datagram with its network's header, and those in front of a fragment's data.
const DATAGRAM_BYTES_MAX: usize = 65_535;
const HEAD_OF_PART: usize = ipv6::Header::BYTES + fragment::Header::BYTES;
/// Packets that were queued and are run by one turn at most.
const QUEUED_EACH: usize = 256;
/// A packet for another lane.
#[derive(Debug)]
pub(crate) struct Leaving {
    pub to: usize,
    /// The protocol whose queue it is for, and how it was placed; none: the socket's lane has it already, by its port.
    pub number: Option<(Number, Placed)>,
    pub packet: Packet,
}

/// All that a lane's stack has.
pub(crate) struct Path {
    pub now: u64,
    pub counts: Counts,
    /// Something was counted since it was last written into the page.
    pub is_untold: bool,
    pub routes: Routes,
    pub narrow: Narrow,
    pub neighbours: Neighbours,
    /// With the lane that speaks for the interface.
    pub presence: Option<Presence>,
    /// An answer to who asks for listeners, and what chance has drawn last.
    pub answer: Option<Answer>,
    pub drawn: u64,
    /// What the operator is to hear beside the port's state.
    pub records: Vec<Record>,
    /// Own addresses that the kernel has as well, and when somebody looks whether it has, at the latest.
    pub beside: u64,
    pub looks_out_at: Option<u64>,
    /// Which packets it forwards ([`Sight::forwards`](crate::work::Sight)).
    pub forwards: u64,
    pub isr: Isr<Packet>,
    pub fragments: Reassembly<Frame>,
    pub shelf: Shelf,
    pub reorders: Reorders,
    pub sockets: Sockets,
    pub memory: FrameMemory,
    pub mac: Mac,
    /// Bytes of the longest packet that the link carries, and of the longest that is sent, with their link-layer header; and frames that one may lie in.
    pub link_bytes: usize,
    pub packet_bytes: usize,
    pub pieces_max: usize,
    pub kind: PortKind,
    /// Senders on the same machine may leave checksums out.
    leaves_sums: bool,
    /// Whether packets can come and go; what was said of that to the operator; and what was lost at the port.
    pub state: PortState,
    pub state_told: PortState,
    pub lost: Lost,
    /// The same as errors say it, and as the port says it; and whether the port is open.
    pub port_state: PortState,
    pub link_state: PortState,
    pub is_open: bool,
    pub interface: Box<str>,
    queue: usize,
    pub lane: (usize, usize),
    pub hasher: Arc<FlowHasher>,
    is_card_of_key: bool,
    table: Rc<RefCell<Table>>,
    pub draft: Draft,
    pub tunnels: Opened,
    pub channels: Channels,
    /// Names the next packet that is sent.
    pub identification: u32,
    /// The port that was given last to who asked for none.
    pub port_given: u16,
    /// What may be said at most so often.
    pub bounds: Bounds,
    /// Frames to be sent, and those that the stack sends to itself.
    pub outgoing: Vec<Frame>,
    pub looped: VecDeque<Frame>,
    /// What goes to other lanes, and how many packets of each lane and protocol were handled here and are to be reported there.
    pub leaving: Vec<Leaving>,
    pub owed: Vec<Owed>,
    pub is_owing: bool,
    pub settling: Settling,
    /// What was heard of neighbours, for all other lanes.
    pub news: Vec<Word>,
    /// Words of routers of ways, for all other lanes.
    pub told: Vec<Told>,
    /// Pieces of the datagram that is put together now.
    pub pieces: Vec<Frame>,
    /// The packet of which not all frames have come out of their batch; and whether these are too many already.
    pub begun: Option<Packet>,
    /// When the last packet came, and each a little later than the one before it: so datagrams that ran in another order are told apart.
    pub came: u64,
    pub is_spilt: bool,
    /// What is looked at now was sent by the stack itself.
    pub is_own_word: bool,
    /// It has broken, and takes no packets any more: why, until that was told.
    broken: Option<Broken>,
    /// The next frame breaks it.
    #[cfg(test)]
    pub planted: bool,
}

/// That the path has broken.
#[derive(Debug, PartialEq, Eq)]
enum Broken {
    Untold(String),
    Told,
}

impl Path {
    // tidy: long because all that a lane's stack has is made in one place
    pub fn new(settings: &Settings, facts: &PortFacts, memory: FrameMemory) -> Result<Self, Error> {
        let packet_bytes = facts.frame_bytes_max.min(Draft::bytes_max(&memory, facts.pieces_max));
        check_frames(settings, facts, packet_bytes)?;
        let table = Rc::new(RefCell::new(settings.table.clone()));
        let limits = settings.fragments.unwrap_or_else(|| limits_of(facts.frame_bytes_max, &memory));
        let shelf = Shelf::new(&limits, &memory).map_err(|why| Error::Memory { why: why.to_string() })?;
        let all = memory.frames() * memory.frame_bytes();
        Ok(Self {
            now: 0,
            counts: Counts::default(),
            is_untold: true,
            routes: Routes::new(settings)?,
            narrow: Narrow::default(),
            neighbours: Neighbours::new(memory.frames()),
            presence: settings.introduces.then(|| Presence::new(settings.networks.iter().map(|network| network.address))),
            answer: None,
            drawn: settings.secret as u64,
            records: Vec::new(),
            beside: 0,
            forwards: 0,
            looks_out_at: None,
            isr: workstreams(settings, &table),
            fragments: Reassembly::new(limits, settings.secret),
            shelf,
            reorders: Reorders::default(),
            sockets: Sockets::new(all / 2),
            memory,
            mac: Mac(facts.link.mac),
            link_bytes: facts.frame_bytes_max,
            packet_bytes,
            pieces_max: facts.pieces_max,
            kind: facts.kind,
            leaves_sums: facts.leaves_sums,
            state: PortState::Up,
            state_told: PortState::Up,
            lost: Lost::default(),
            port_state: PortState::Up,
            link_state: PortState::Up,
            is_open: false,
            interface: settings.interface.clone(),
            queue: facts.queue as usize,
            lane: settings.lane,
            hasher: settings.hasher.clone(),
            is_card_of_key: settings.is_card_of_key,
            table,
            draft: Draft::default(),
            tunnels: Opened::of(settings)?,
            channels: Channels::default(),
            identification: (settings.secret >> 64) as u32 & !(lanes_step(settings.lane.1) - 1) | settings.lane.0 as u32,
            port_given: 0,
            bounds: Bounds::new(settings.secret),
            outgoing: Vec::new(),
            looped: VecDeque::new(),
            leaving: Vec::new(),
            owed: vec![Owed::default(); settings.lane.1],
            is_owing: false,
            settling: Settling::new(settings.lane.0, settings.lane.1),
            news: Vec::new(),
            told: Vec::new(),
            pieces: Vec::new(),
            begun: None,
            came: 0,
            is_spilt: false,
            is_own_word: false,
            broken: None,
            #[cfg(test)]
            planted: false,
        })
    }

    /// Whether more than one lane serves the stack's addresses.
    pub fn is_shared(&self) -> bool {
        self.lane.1 > 1
    }

    /// It has broken: nothing of what it has is to be relied on, so it does nothing any more. What came first is told.
    pub fn breaks(&mut self, why: String) {
        self.broken.get_or_insert(Broken::Untold(why));
    }

    /// Its work has left, and said why if there was something to be said.
    pub fn ends(&mut self) {
        self.broken = Some(Broken::Told);
    }

    /// Whether it does nothing any more.
    pub fn is_broken(&self) -> bool {
        self.broken.is_some()
    }

    /// Whether it has broken and nobody was told.
    pub fn has_broken_untold(&self) -> bool {
        matches!(self.broken, Some(Broken::Untold(_)))
    }

    /// Why it has broken, if that was not told.
    pub fn take_break(&mut self) -> Option<String> {
        match self.broken.replace(Broken::Told) {
            Some(Broken::Untold(why)) => Some(why),
            before => {
                self.broken = before;
                None
            }
        }
    }

    /// Notes what was lost at the port.
    pub fn note_lost(&mut self, lost: Lost) {
        if self.lost != lost {
            self.lost = lost;
            self.is_untold = true;
        }
    }

    /// From now on flows are of the lanes that `table` says. Flows whose bucket moves wait until what was placed before is handled; all others go on.
    pub fn set_table(&mut self, table: Table) {
        let before = self.table.replace(table.clone());
        let lanes = self.lane.1;
        self.isr.begin_generation_of(move |packet| {
            packet.flow.is_some_and(|flow| before.lane_of(flow) % lanes != table.lane_of(flow) % lanes)
        });
    }

    /// Whether a transport's checksum, `stands`, is right: or, where that may be, was left to the sender's card, which fills in what lacks beside the
    /// pseudo-header. What came in fragments was summed by its sender.
    pub fn is_right(&mut self, packet: &Packet, ip: &Ip, stands: u16) -> bool {
        let pseudo = || ip.addresses().pseudo(ip.protocol, ip.length).map(Sum::partial);
        if self.leaves_sums && !(ip.is_good || ip.was_cut) && pseudo() == Ok(stands) {
            self.counts.sums_left += 1;
            return true;
        }
        packet.is_right(ip)
    }

    /// The lane of a flow.
    pub fn lane_of(&self, flow: FlowId) -> usize {
        self.table.borrow().lane_of(flow) % self.lane.1
    }

    /// The flow id of a packet, if it matters: where the source has computed the one that is wanted, that is it.
    pub fn flow(&self, packet: &Frame, is_part: bool) -> Option<FlowId> {
        if is_part || !(self.is_shared() || self.fragments.counts().fragments > 0) {
            return None;
        }
        let present = packet.facts.hash.filter(|_| self.is_card_of_key);
        match self.hasher.packet(packet, present.map(|hash| hash.hash_type)) {
            Verdict::Keep(_) => present.map(|hash| hash.flow),
            Verdict::Computed(hashed) => Some(hashed.flow),
            Verdict::Cannot(_) => None,
        }
    }

    /// A packet of a protocol, from the port or from a handler.
    pub fn arrive(&mut self, number: Number, packet: Packet) {
        let facts = Facts { flow: packet.flow.map(|flow| flow.0), source: self.queue };
        let step = self.isr.arrive(number, packet, facts);
        self.carry_out(step);
    }

    /// A packet that another lane has placed here.
    pub fn admit(&mut self, number: Number, packet: Packet, placed: Placed) {
        self.is_untold = true;
        match self.isr.admit(number, packet, placed) {
            Step::Queued => {}
            Step::Dropped(_) | Step::Unregistered(_) => {
                self.counts.drop(Drop::Queue);
                self.owe(placed, number);
            }
            Step::Run(_) | Step::Parked | Step::Elsewhere { .. } | Step::Drained(_) => {
                unreachable!("what was placed here is queued here")
            }
        }
    }

    /// Runs what is queued, within a turn's bound.
    pub fn run(&mut self) {
        if self.is_broken() {
            return;
        }
        for _ in 0..QUEUED_EACH {
            let Some(step) = self.isr.next_step() else { break };
            self.carry_out(step);
        }
        self.is_own_word = true;
        for _ in 0..self.looped.len().min(QUEUED_EACH) {
            while let Some(frame) = self.looped.pop_front() {
                self.frame(frame);
                if self.begun.is_none() {
                    break;
                }
            }
        }
        self.is_own_word = false;
        self.channels.publish();
    }

    /// Whether something is left to run.
    pub fn has_queued(&self) -> bool {
        !self.is_broken() && (!self.looped.is_empty() || self.isr.has_next())
    }

    /// Whether something is to be brought to other lanes.
    pub fn has_leaving(&self) -> bool {
        self.is_owing
            || self.settling.wants_turns(self.isr.is_changing())
            || !(self.leaving.is_empty() && self.news.is_empty() && self.told.is_empty())
    }

    /// A datagram whose socket is here though its bucket is not.
    pub fn stray(&mut self, packet: Packet) {
        self.is_untold = true;
        let ip = packet.ip;
        // reason: only a transport's packets are strays.
        self.transport(packet, ip.expect("a stray has its headers looked at"));
    }

    /// Lane `from` has ended: nobody there hears of what is owed.
    pub fn parted(&mut self, from: usize) {
        self.owed[from] = Owed::default();
        self.settling.parted(from);
    }

    /// The lane's workstreams.
    pub fn report(&self) -> Report {
        Report {
            lanes: (self.lane.1, self.lane.1),
            dispatch: self.isr.dispatch(),
            are_bound: true,
            protocols: self.isr.protocol_rows(),
            streams: self.isr.rows(self.lane.0),
        }
    }

    /// When the clock alone gives something to do.
    pub fn due(&self) -> Option<u64> {
        if self.is_broken() {
            return None;
        }
        let fragments = self.fragments.due().map(Instant::nanoseconds);
        let spoken = self.presence.as_ref().and_then(Presence::due).into_iter().chain(self.answer.map(|answer| answer.due));
        fragments.into_iter().chain(self.neighbours.due()).chain(spoken).chain(self.looks_out_at).min()
    }

    /// Does what is due.
    pub fn expire(&mut self) {
        if self.due().is_none_or(|due| due > self.now) {
            return;
        }
        let mut firsts = std::mem::take(&mut self.pieces);
        self.fragments.expire(Instant::from_nanoseconds(self.now), |first| firsts.push(first));
        firsts.drain(..).for_each(|first| self.took_too_long(first));
        self.pieces = firsts;
        let mut dropped = 0;
        while let Some(ip) = self.neighbours.next_due(self.now, &mut dropped) {
            self.ask(ip);
        }
        self.counts.drop_many(Drop::Neighbour, dropped);
        self.answer_query();
        self.speak();
        // It is looked at in the turn that has begun.
        self.looks_out_at = self.looks_out_at.filter(|at| *at > self.now);
    }

    /// Whether the operator is to hear something.
    pub fn has_records(&self) -> bool {
        self.state != self.state_told || !self.records.is_empty()
    }

    /// Does a step, and what its handler has passed on, as far as a turn's bound.
    fn carry_out(&mut self, step: Step<Packet>) {
        self.carry_one(step);
        for _ in 0..QUEUED_EACH {
            let Some(step) = self.isr.next_passed_on() else { break };
            self.carry_one(step);
        }
    }

    fn carry_one(&mut self, step: Step<Packet>) {
        self.is_untold = true;
        match step {
            Step::Run(run) => {
                self.handle(run.number, run.packet);
                // Of one lane all answers leave in order.
                if self.is_shared() {
                    self.isr.has_run(run.mark);
                    self.settling.add(run.number, run.placed);
                } else {
                    self.isr.finished(run.mark);
                }
            }
            Step::Queued | Step::Parked | Step::Drained(_) => {}
            Step::Elsewhere { lane, number, packet, placed } => {
                self.counts.crossed += 1;
                self.leaving.push(Leaving { to: lane, number: Some((number, placed)), packet });
            }
            Step::Dropped(packet) => {
                self.counts.drop(Drop::Queue);
                self.done(packet);
            }
            Step::Unregistered(packet) => {
                self.counts.drop(Drop::Protocol);
                self.done(packet);
            }
        }
    }

    /// A turn ends, in which the port took all that it was given, or did not. What was handled before it counts as that where nothing waits any more.
    pub fn settle(&mut self, has_all_left: bool) {
        let is_quiet = has_all_left && self.outgoing.is_empty() && !self.sockets.has_waiting();
        if !self.settling.end_turn(is_quiet, &mut self.owed) {
            return;
        }
        let lane = self.lane.0;
        let own = std::mem::take(&mut self.owed[lane]);
        each_owed(&own, |number, generation, packets| self.isr.settled(number, Placed { lane, generation }, packets as usize));
        self.is_owing = true;
    }

    /// Who placed a packet is to hear that it was handled.
    fn owe(&mut self, placed: Placed, number: Number) {
        self.owed[placed.lane][usize::from(number.number()) - 1][usize::from(placed.generation)] += 1;
        self.is_owing = true;
    }

    fn handle(&mut self, number: Number, packet: Packet) {
        match (number, packet.ip) {
            (Number::ETHER, _) => self.ether(packet),
            (Number::ARP, _) => {
                self.arp(&packet.first);
                self.done(packet);
            }
            (Number::IP | Number::IP6, Some(ip)) if ip.is_part => self.fragment(packet, ip),
            (_, Some(ip)) => self.transport(packet, ip),
            (_, None) => unreachable!("an IP packet has its header looked at before it is placed"),
        }
    }

    /// A packet that begins with this frame, of which nothing is known yet.
    pub fn packet(&mut self, first: Frame, arrived: u64) -> Packet {
        let mut packet = self.sockets.spare.take();
        (packet.first, packet.arrived) = (first, arrived);
        packet
    }

    /// A packet is done with.
    pub fn done(&mut self, packet: Packet) {
        self.sockets.spare.put(packet);
    }
}

/// Whether a port takes packets that are long enough for the addresses.
fn check_frames(settings: &Settings, facts: &PortFacts, packet_bytes: usize) -> Result<(), Error> {
    let has_v6 = settings.networks.iter().any(|network| network.address.is_ipv6());
    let least = if has_v6 { V6_BYTES_LEAST + ethernet::Header::BYTES } else { FRAME_BYTES_LEAST };
    match packet_bytes < least {
        true => Err(Error::Frames { interface: settings.interface.clone(), got: facts.frame_bytes_max, least }),
        false => Ok(()),
    }
}

/// Limits for fragments that wait: of one datagram as many as the longest that there is comes in, over this interface or a link of IPv6 before it.
fn limits_of(packet_bytes: usize, memory: &FrameMemory) -> Limits {
    let link = ethernet::Header::BYTES;
    // Each has the network's header, that of a fragment of IPv6, and a multiple of eight bytes.
    let data = ((packet_bytes - link).min(V6_BYTES_LEAST) - HEAD_OF_PART) & !7;
    let small = DATAGRAM_BYTES_MAX.div_ceil(data);
    // One that is just longer than a frame waits as two.
    let room = memory.frame_bytes() - Frame::HEADROOM;
    let large = if packet_bytes > room { 2 * DATAGRAM_BYTES_MAX.div_ceil(room - link - HEAD_OF_PART) } else { 0 };
    Limits::for_lane(memory.frame_bytes()).with_fragments_each(small.max(large))
}

/// Calls `told` with each protocol and generation of which something is owed.
fn each_owed(owed: &Owed, mut told: impl FnMut(Number, u8, u32)) {
    for (index, generations) in owed.iter().enumerate() {
        // reason: there are as many places as numbers.
        let number = Number::new(index as u8 + 1).expect("a place is a number's");
        (0..)
            .zip(generations)
            .filter(|(_, packets)| **packets > 0)
            .for_each(|(generation, packets)| told(number, generation, *packets));
    }
}

/// How far a lane's names of packets lie apart, so that no other lane gives the same while 16 bits go round (RFC 6864, section 4.3).
pub(crate) const fn lanes_step(lanes: usize) -> u32 {
    (lanes as u32).next_power_of_two()
}

/// Name and number of each protocol that a lane has, the lowest number first.
pub const PROTOCOLS: [(&str, Number); 6] = [
    ("ip", Number::IP),
    ("arp", Number::ARP),
    ("ether", Number::ETHER),
    ("ip6", Number::IP6),
    ("ip_direct", Number::IP_DIRECT),
    ("ip6_direct", Number::IP6_DIRECT),
];

/// The protocols of a lane, as the original registers them with RSS: `ether` at once, `ip` by its bucket.
fn workstreams(settings: &Settings, table: &Rc<RefCell<Table>>) -> Isr<Packet> {
    let (lane, lanes) = settings.lane;
    let mut isr = Isr::new(lane, lanes, settings.dispatch);
    let mut register = |registration| {
        let registered = isr.register(registration);
        assert!(registered.is_ok(), "each protocol is registered once");
    };
    for (name, number) in PROTOCOLS {
        let registration = Registration::new(name, number);
        if matches!(number, Number::ETHER | Number::ARP) {
            register(Registration { dispatch: Some(Dispatch::Direct), ..registration });
            continue;
        }
        let table = table.clone();
        // Fragments are put together where they arrive: their flow is not known before.
        let of_flow = move |flow: FlowId| table.borrow().lane_of(flow) % lanes;
        let choose = move |packet: &Packet| Some(packet.flow.map_or(lane, &of_flow));
        register(Registration { placement: Placement::Lane, choose: Some(Box::new(choose)), ..registration });
    }
    isr
}

impl std::fmt::Debug for Path {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Path(lane {} of {}, {:?})", self.lane.0, self.lane.1, self.counts)
    }
}
