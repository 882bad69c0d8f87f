//! Which lane handles a packet, and when it counts as handled there.
//!
//! What is placed by a flow's bucket goes to that bucket's lane; who has placed a packet on another lane hears when it was handled, so that no flow is
//! reordered when its bucket moves.

mod settling;

use crate::packet::{Ip, Packet, tuple};
use crate::settings::Settings;
use corelane_isr::dispatch::{Dispatch, Facts, Isr, Number, PacketStep, Placed, Placement, Registration, Report, Run};
use corelane_isr::reassembly::Reorders;
use corelane_rss::{FlowHasher, FlowId, Table, Verdict};
use corelane_seam::{Frame, Instant};
use settling::{Owed, Settling};

pub(crate) use settling::Quiet;
use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

/// A packet for another lane.
#[derive(Debug)]
pub(crate) struct Leaving {
    pub to: usize,
    /// The protocol whose queue it is for, and how it was placed; none: the socket's lane has it already, by its port.
    pub number: Option<(Number, Placed)>,
    pub packet: Packet,
}

/// How packets are placed on lanes.
pub(crate) struct Placing {
    /// The number of the lane, and how many there are.
    lane: (usize, usize),
    isr: Isr<Packet>,
    table: Rc<RefCell<Table>>,
    hasher: Arc<FlowHasher>,
    is_card_of_key: bool,
    reorders: Reorders,
    /// What goes to other lanes, and how many packets of each lane and protocol were handled here and are to be reported there.
    leaving: Vec<Leaving>,
    owed: Vec<Owed>,
    is_owing: bool,
    settling: Settling,
}

impl Placing {
    pub fn new(settings: &Settings) -> Self {
        let table = Rc::new(RefCell::new(settings.table.clone()));
        let (lane, lanes) = settings.lane;
        Self {
            lane: settings.lane,
            isr: workstreams(settings, &table),
            table,
            hasher: settings.hasher.clone(),
            is_card_of_key: settings.is_card_of_key,
            reorders: Reorders::default(),
            leaving: Vec::new(),
            owed: vec![Owed::default(); lanes],
            is_owing: false,
            settling: Settling::new(lane, lanes),
        }
    }

    /// The number of the lane.
    pub const fn lane(&self) -> usize {
        self.lane.0
    }

    /// Whether more than one lane serves the stack's addresses.
    pub const fn is_shared(&self) -> bool {
        self.lane.1 > 1
    }

    /// How flows are hashed.
    pub fn hasher(&self) -> &Arc<FlowHasher> {
        &self.hasher
    }

    /// The lane of a flow.
    pub fn lane_of(&self, flow: FlowId) -> usize {
        self.table.borrow().lane_of(flow) % self.lane.1
    }

    /// From now on flows are of the lanes that `table` says. Flows whose bucket moves wait until what was placed before is handled; all others go on.
    pub fn set_table(&mut self, table: Table) {
        let before = self.table.replace(table.clone());
        let lanes = self.lane.1;
        self.isr.begin_generation_of(move |packet| {
            packet.flow.is_some_and(|flow| before.lane_of(flow) % lanes != table.lane_of(flow) % lanes)
        });
    }

    /// The workstreams themselves, for who looks.
    pub const fn isr(&self) -> &Isr<Packet> {
        &self.isr
    }

    /// The same, for who changes a policy.
    pub const fn isr_mut(&mut self) -> &mut Isr<Packet> {
        &mut self.isr
    }

    /// The flow id of a packet, where it matters to somebody: where the source has computed the one that is wanted, that is it.
    pub fn flow(&self, packet: &Frame, is_part: bool, matters: bool) -> Option<FlowId> {
        if is_part || !(self.is_shared() || matters) {
            return None;
        }
        let present = packet.facts.hash.filter(|_| self.is_card_of_key);
        match self.hasher.packet(packet, present.map(|hash| hash.hash_type)) {
            Verdict::Keep(_) => present.map(|hash| hash.flow),
            Verdict::Computed(hashed) => Some(hashed.flow),
            Verdict::Cannot(_) => None,
        }
    }

    /// The flow id of a whole datagram, however many frames it lies in.
    pub fn flow_of(&self, packet: &Packet, ip: &Ip) -> Option<FlowId> {
        let first = packet.transport(ip).next()?;
        let ports = match ip.protocol.header_with_ports() {
            Some(_) => [first.first_chunk::<2>()?, first.get(2..)?.first_chunk::<2>()?].map(|port| u16::from_be_bytes(*port)),
            None => [0; 2],
        };
        let (source, destination) = (SocketAddr::new(ip.source, ports[0]), SocketAddr::new(ip.destination, ports[1]));
        self.hasher.tuple(&tuple(source, destination, ip.protocol)?).map(|hashed| hashed.flow)
    }

    /// A number of a packet's flow, of a fragment's addresses alone, by which one of several ways is taken; 0 if no such flows are hashed.
    pub fn hash_of(&self, packet: &Packet, ip: &Ip) -> u32 {
        let flow = match ip.is_part {
            false => packet.flow.or_else(|| self.flow_of(packet, ip)),
            true => {
                let (source, destination) = (SocketAddr::new(ip.source, 0), SocketAddr::new(ip.destination, 0));
                tuple(source, destination, ip.protocol).and_then(|tuple| self.hasher.tuple(&tuple)).map(|hashed| hashed.flow)
            }
        };
        flow.map_or(0, |flow| flow.0)
    }

    /// A packet of a protocol, from the port or from a handler.
    pub fn arrive(&mut self, number: Number, packet: Packet) -> PacketStep<Packet> {
        let facts = Facts { flow: packet.flow.map(|flow| flow.0), source: packet.interface };
        self.isr.arrive(number, packet, facts)
    }

    /// What is to be done next of what waits.
    pub fn next_step(&mut self) -> Option<PacketStep<Packet>> {
        self.isr.next_step()
    }

    /// What the handler that has just run has passed on.
    pub fn next_passed_on(&mut self) -> Option<PacketStep<Packet>> {
        self.isr.next_passed_on()
    }

    /// A packet of a flow runs, behind or before those that waited for fragments.
    pub fn note_run(&mut self, packet: &Packet, matters: bool) {
        if let Some(flow) = packet.flow.filter(|_| self.is_shared() || matters) {
            self.reorders.run(flow.0, Instant::from_nanoseconds(packet.arrived));
        }
    }

    /// Datagrams that ran behind a later one of their flow.
    pub fn reordered(&self) -> u64 {
        self.reorders.counted()
    }

    /// A packet that another lane has placed here; it comes back if there is no room for it, and is to be dropped.
    pub fn admit(&mut self, number: Number, packet: Packet, placed: Placed) -> Option<Packet> {
        match self.isr.admit(number, packet, placed) {
            PacketStep::Queued => None,
            PacketStep::Dropped(packet) | PacketStep::Unregistered(packet) => {
                self.owed[placed.lane][usize::from(number.number()) - 1][usize::from(placed.generation)] += 1;
                self.is_owing = true;
                Some(packet)
            }
            PacketStep::Run(_) | PacketStep::Parked | PacketStep::Elsewhere { .. } | PacketStep::Drained(_) => {
                unreachable!("what was placed here is queued here")
            }
        }
    }

    /// A handler has run.
    pub fn has_run(&mut self, run: Run<()>) {
        // Of one lane all answers leave in order.
        if self.is_shared() {
            self.isr.has_run(run.mark);
            self.settling.add(run.number, run.placed);
        } else {
            self.isr.finished(run.mark);
        }
    }

    /// A packet goes to another lane.
    pub fn leave(&mut self, leaving: Leaving) {
        self.leaving.push(leaving);
    }

    /// What goes to other lanes; the storage comes back by [`Placing::give_back`].
    pub fn take_leaving(&mut self) -> Vec<Leaving> {
        std::mem::take(&mut self.leaving)
    }

    /// Storage of what has left.
    pub fn give_back(&mut self, leaving: Vec<Leaving>) {
        assert!(leaving.is_empty() && self.leaving.is_empty(), "storage is given back empty");
        self.leaving = leaving;
    }

    /// Whether something is to be brought to other lanes.
    pub fn has_leaving(&self) -> bool {
        self.is_owing || self.settling.wants_turns(self.isr.is_changing()) || !self.leaving.is_empty()
    }

    /// Lane `from` has ended: nobody there hears of what is owed.
    pub fn parted(&mut self, from: usize) {
        self.owed[from] = Owed::default();
        self.settling.parted(from);
    }

    /// A turn ends, in which that was quiet when services had theirs. What was handled before it counts as that where nothing waits any more.
    pub fn settle(&mut self, quiet: Quiet) {
        if !self.settling.end_turn(quiet, &mut self.owed) {
            return;
        }
        let lane = self.lane.0;
        let own = std::mem::take(&mut self.owed[lane]);
        each_owed(&own, |number, generation, packets| self.isr.settled(number, Placed { lane, generation }, packets as usize));
        self.is_owing = true;
    }

    /// Pays what is owed to other lanes: `pay` tells one, and says whether it could. What finds a channel full is told later: it is never lost.
    pub fn pay(&mut self, mut pay: impl FnMut(usize, Number, Placed, u32) -> bool) {
        if !std::mem::take(&mut self.is_owing) {
            return;
        }
        for (lane, protocols) in self.owed.iter_mut().enumerate() {
            for (index, generations) in protocols.iter_mut().enumerate() {
                let number = number_at(index);
                for (generation, packets) in (0..).zip(generations).filter(|(_, packets)| **packets > 0) {
                    match pay(lane, number, Placed { lane, generation }, *packets) {
                        true => *packets = 0,
                        false => self.is_owing = true,
                    }
                }
            }
        }
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
}

/// The protocol whose place that is.
fn number_at(index: usize) -> Number {
    // reason: there are as many places as numbers.
    Number::new(index as u8 + 1).expect("a place is a number's")
}

/// Calls `told` with each protocol and generation of which something is owed.
fn each_owed(owed: &Owed, mut told: impl FnMut(Number, u8, u32)) {
    for (index, generations) in owed.iter().enumerate() {
        let owed = (0..).zip(generations).filter(|(_, packets)| **packets > 0);
        owed.for_each(|(generation, packets)| told(number_at(index), generation, *packets));
    }
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
