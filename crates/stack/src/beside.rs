//! What the driver's face of a stack and the work beside it have in common: how packets are placed on lanes, what lanes tell each other, and what is told to
//! the operator.
//!
//! The driver's face handles packets; the work has what a driver has not, the channels to other lanes. Neither calls the other: each leaves here what the other is to
//! take, and takes it in its own part of the turn.

use crate::channels::Channels;
use crate::counts::{Drop, Tally};
use crate::gauges::Gauges;
use crate::interface::Word;
use crate::orders::Orders;
use crate::outward::Words;
use crate::packet::{Packet, Spare};
use crate::placing::{Placing, Quiet};
use crate::polling::PollingNow;
use crate::routes::WayNews;
use crate::settings::Settings;
use corelane_isr::dispatch::{Number, Placed};
use corelane_isr::polling;
use corelane_seam::Record;

/// Records that wait to be told, at the most; what is more is left out.
const RECORDS_MAX: usize = 64;
/// Packets of a turn where no work stands beside, whose budget says how many.
const BUDGET: usize = 256;

/// What another lane has said.
#[derive(Debug)]
pub(crate) enum Heard {
    /// A datagram whose socket is here though its bucket is not.
    Stray(Packet),
    /// Of a neighbour.
    Neighbour(Word),
    /// Of a way that is narrow.
    Way(WayNews),
}

/// How far the ports are, as the work sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PortsNow {
    /// All are closed.
    pub are_closed: bool,
    /// What waits for sockets and ports.
    pub quiet: Quiet,
}

/// What both have in common.
pub(crate) struct Beside {
    pub placing: Placing,
    pub channels: Channels,
    pub tally: Tally,
    /// Packets that are done with.
    pub spare: Spare,
    /// What the other lanes are to hear, and what was heard of them.
    pub words: Words,
    /// What was told and is to be carried out.
    pub orders: Orders,
    heard: Vec<Heard>,
    /// What the operator is to hear.
    records: Vec<Record>,
    /// The names of the ports, in their order.
    names: Vec<Box<str>>,
    /// Own addresses that the kernel has as well, which packets it forwards ([`Sight::forwards`](crate::work::Sight)), and when somebody looks, at the latest.
    kernels: u64,
    forwards: u64,
    looks_out_at: Option<u64>,
    ports: PortsNow,
    wants_close: bool,
    /// Packets that a turn may handle.
    budget: usize,
    gauges: Gauges,
    /// What is set of polling, and what is seen of it.
    polling: Option<polling::Settings>,
    polled: PollingNow,
    /// Packets are held: it is others' time.
    is_held: bool,
    /// It has broken, and takes no packets any more: why, until that was told.
    broken: Option<Broken>,
    /// The next frame breaks it.
    #[cfg(test)]
    pub planted: bool,
}

/// That the packet path has broken.
#[derive(Debug, PartialEq, Eq)]
enum Broken {
    Untold(String),
    Told,
}

impl Beside {
    pub fn new(settings: &Settings, gauges: Gauges) -> Self {
        Self {
            placing: Placing::new(settings),
            channels: Channels::default(),
            tally: Tally::new(settings.interfaces.len()),
            spare: Spare::default(),
            words: Words::default(),
            orders: Orders::default(),
            heard: Vec::new(),
            records: Vec::new(),
            names: settings.port_names().map(Box::from).collect(),
            kernels: 0,
            forwards: 0,
            looks_out_at: None,
            ports: PortsNow::default(),
            wants_close: false,
            budget: BUDGET,
            gauges,
            polling: settings.polling,
            polled: PollingNow::default(),
            is_held: false,
            broken: None,
            #[cfg(test)]
            planted: false,
        }
    }

    /// It has broken: nothing of what it has is to be relied on, so it does nothing any more. What came first is told.
    pub fn breaks(&mut self, why: String) {
        self.broken.get_or_insert(Broken::Untold(why));
        self.wants_close = true;
        self.orders.end();
    }

    /// The work has left, and said why if there was something to be said: no packet is taken any more.
    pub fn ends(&mut self) {
        self.broken = Some(Broken::Told);
        self.wants_close = true;
        self.orders.end();
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

    /// From now on nothing is received; the ports are closed as soon as they may be.
    pub fn close(&mut self) {
        self.wants_close = true;
    }

    /// Whether the ports are to be closed.
    pub fn wants_close(&self) -> bool {
        self.wants_close
    }

    /// How many packets a turn may handle from now on.
    pub fn set_budget(&mut self, packets: usize) {
        self.budget = packets;
    }

    /// How many packets a turn may handle.
    pub fn budget(&self) -> usize {
        self.budget
    }

    /// Notes how far the ports are.
    pub fn note_ports(&mut self, ports: PortsNow) {
        self.ports = ports;
    }

    /// How far the ports are.
    pub fn ports(&self) -> PortsNow {
        self.ports
    }

    /// Another lane has said something, which is acted on when the driver's face has its next part of the turn.
    pub fn hear(&mut self, heard: Heard) {
        self.heard.push(heard);
    }

    /// What was said; the storage comes back by [`Beside::give_back`].
    pub fn take_heard(&mut self) -> Vec<Heard> {
        std::mem::take(&mut self.heard)
    }

    /// Storage of what was said.
    pub fn give_back(&mut self, heard: Vec<Heard>) {
        assert!(heard.is_empty() && self.heard.is_empty(), "storage is given back empty");
        self.heard = heard;
    }

    /// A packet that another lane has placed here.
    pub fn admit(&mut self, number: Number, packet: Packet, placed: Placed) {
        self.tally.note();
        if let Some(packet) = self.placing.admit(number, packet, placed) {
            self.tally.drop_at(packet.interface, Drop::Queue);
            self.spare.put(packet);
        }
    }

    /// Whether something is left to run.
    pub fn has_queued(&self) -> bool {
        !self.is_broken() && (!self.heard.is_empty() || self.placing.isr().has_next())
    }

    /// Whether something is to be brought to other lanes.
    pub fn has_leaving(&self) -> bool {
        self.placing.has_leaving() || !(self.words.news.is_empty() && self.words.told.is_empty())
    }

    /// The operator is to hear of it.
    pub fn tell(&mut self, records: impl Iterator<Item = Record>) {
        let room = RECORDS_MAX.saturating_sub(self.records.len());
        // All are taken: who tells does not tell it twice.
        records.enumerate().for_each(|(number, record)| self.records.extend(Some(record).filter(|_| number < room)));
    }

    /// Whether he may be told one more thing.
    pub fn has_room_for_records(&self) -> bool {
        self.records.len() < RECORDS_MAX
    }

    /// Whether the operator is to hear something.
    pub fn has_records(&self) -> bool {
        !self.records.is_empty()
    }

    /// What the operator is to hear.
    pub fn take_records(&mut self) -> Vec<Record> {
        std::mem::take(&mut self.records)
    }

    /// Somebody has looked how many own addresses the kernel has as well, and which packets it forwards, and looks again then at the latest.
    pub fn note_kernels(&mut self, (kernels, forwards): (u64, u64), again: u64) {
        if (self.kernels, self.forwards) != (kernels, forwards) {
            self.tally.note();
        }
        (self.kernels, self.forwards, self.looks_out_at) = (kernels, forwards, Some(again));
    }

    /// Which packets the kernel forwards.
    pub fn forwards(&self) -> u64 {
        self.forwards
    }

    /// The name of the port whose state the gauges tell.
    pub fn interface(&self) -> &str {
        &self.names[self.gauges.links.told]
    }

    /// Own addresses that the kernel has as well.
    pub fn kernels(&self) -> u64 {
        self.kernels
    }

    /// When somebody looks out, at the latest.
    pub fn looks_out_at(&self) -> Option<u64> {
        self.looks_out_at
    }

    /// It is looked at in the turn that has begun.
    pub fn looks_out(&mut self, now: u64) {
        self.looks_out_at = self.looks_out_at.filter(|at| *at > now);
    }

    /// What the page says beside the counts, as of now.
    pub fn note_gauges(&mut self, gauges: Gauges) {
        self.gauges = gauges;
    }

    /// What is set of polling; none where packets have the time that they take.
    pub fn polling_settings(&self) -> Option<polling::Settings> {
        self.polling
    }

    /// Sets polling; the driver's face goes by it from its next part of the turn on.
    pub fn set_polling(&mut self, settings: polling::Settings) {
        self.polling = Some(settings);
        self.polled.settings = self.polling;
    }

    /// What is seen of polling, as of now.
    pub fn note_polling(&mut self, polled: PollingNow) {
        self.polled = polled;
    }

    /// Notes whether packets are held.
    pub fn note_held(&mut self, is_held: bool) {
        self.is_held = is_held;
    }

    /// Whether packets are held.
    pub fn is_held(&self) -> bool {
        self.is_held
    }

    /// What is seen of polling.
    pub fn polled(&self) -> &PollingNow {
        &self.polled
    }

    /// What the page says beside the counts.
    pub fn gauges(&self) -> &Gauges {
        &self.gauges
    }
}
