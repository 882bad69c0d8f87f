//! The work beside the stack's driver on a lane: packets change lanes by its channels.

use crate::beside::{Beside, Heard};
use crate::channels::{Filter, Target};
use crate::counts::{Drop, PacketCounts};
use crate::interface::Word;
use crate::orders::Order;
use crate::packet::{Ip, Packet, Parts};
use crate::placing::{Leaving, Quiet};
use crate::published;
use crate::routes::WayNews;
use crate::settings::RouteChange;
use crate::view::Look;
use corelane_isr::dispatch::{Dispatch, Number, Placed, Report};
use corelane_isr::polling;
use corelane_lane::{Channels, Ear, Kit, Mesh, Work};
use corelane_rss::{FlowId, Table};
use corelane_rules::{RuleId, RuleSet};
use corelane_seam::{Completion, Driver, Frame, FrameMemory, FrameParcel, Instant, Level, Record};
use corelane_watch::PacketsRow;
use std::any::Any;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

/// What one lane's stack says to another's.
#[derive(Debug)]
pub struct Crossing(Say);

#[derive(Debug)]
enum Say {
    /// A packet of the other's.
    Packet {
        number: Option<(Number, Placed)>,
        first: FrameParcel,
        rest: Vec<FrameParcel>,
        ip: Option<Ip>,
        flow: Option<FlowId>,
        interface: usize,
        arrived: u64,
    },
    /// So many packets of the other's, which were placed here, were handled.
    Settled { number: Number, placed: Placed, packets: u32 },
    /// Of a neighbour.
    Neighbour(Word),
    /// Of a way that is narrow: what a router has told of something that was sent.
    Way(WayNews),
}

/// What is changed while packets pass. No flow is reordered by it: what was placed before is handled first.
#[derive(Clone, Debug)]
pub enum Policy {
    /// When handlers run, for protocols that do not say otherwise.
    Dispatch(Dispatch),
    /// When those of one protocol run; none: as those of all.
    DispatchOf(Number, Option<Dispatch>),
    /// Packets that each queue of a protocol holds.
    Limit(Number, usize),
    /// Sets a protocol's count of drops to 0.
    ClearDrops(Number),
    /// What packets may take of the lane's time.
    Polling(polling::Settings),
    /// Which lane has which bucket.
    Table(Table),
    /// Opens a channel. Its number is the caller's; of a ring this lane becomes the one producer.
    OpenChannel(u64, Filter, Target),
    /// Takes it away: its packets are the lane's again.
    CloseChannel(u64),
    /// Other rules are in force from between two packets on. Counters and states stay with the rules that stay. Whoever says so keeps the rules before until this is
    /// in force, or the lane takes the time to free them.
    Rules(Arc<RuleSet>),
    /// Counters of these rules begin with 0 again, and their lines.
    ZeroRules(Arc<[RuleId]>),
    /// Lines of these rules are counted from 0 again.
    ResetLog(Arc<[RuleId]>),
    /// Routes are added and deleted, in this order; the lane makes some of the changes in each turn. The operator hears of those that cannot be.
    Routes(Arc<[RouteChange]>),
    /// Shows somebody what there is, once.
    Look(Arc<dyn Look>),
    /// Is dropped once all that was said before is in force and in the page: whoever said it may wait for that.
    Noted(Arc<dyn Any + Send + Sync>),
}

/// The work. It asks nothing of the driver itself: what the driver's face of the stack brings it hands on, and what comes it hands to that.
pub struct Packets {
    beside: Rc<RefCell<Beside>>,
    /// The frames of each interface.
    memories: Vec<FrameMemory>,
    mesh: Mesh<Crossing>,
    ear: Option<Ear<Policy>>,
    row: Option<PacketsRow>,
    /// What to ask what the operator is to hear, and when.
    lookout: Option<(u64, Lookout)>,
    is_draining: bool,
}

/// What somebody who looks out has seen.
#[derive(Debug, Default)]
pub struct Sight {
    /// What the operator is to hear of it.
    pub records: Vec<Record>,
    /// Addresses of the stack's that the kernel has as well.
    pub beside: u64,
    /// The family of packets that the kernel sees as well, and forwards: 1 for IPv4, 2 for IPv6, 0 if there is none.
    pub forwards: u64,
}

/// Looks out.
pub type Lookout = Box<dyn FnMut() -> Sight>;

/// Nanoseconds between two questions to who looks out: at the least, and at the most, for which a lane that sleeps wakes.
const LOOKS_AGAIN: u64 = 1_000_000_000;
const LOOKS_AGAIN_MAX: u64 = 5 * LOOKS_AGAIN;

impl Packets {
    pub(crate) fn new(beside: Rc<RefCell<Beside>>, memories: Vec<FrameMemory>, mesh: Mesh<Crossing>) -> Self {
        Self { beside, memories, mesh, ear: None, row: None, lookout: None, is_draining: false }
    }

    /// From now on policies are heard.
    pub fn set_ear(&mut self, ear: Ear<Policy>) {
        self.ear = Some(ear);
    }

    /// Counts are written into the lane's row of the page: now, so that the row is there before the lane serves, and whenever a turn has changed them.
    pub fn set_row(&mut self, row: PacketsRow) {
        published::write(&row, &self.beside.borrow());
        self.row = Some(row);
    }

    /// From now on this is asked once a second at the most, and each five seconds while nothing comes or goes; the operator hears what it says.
    pub fn set_lookout(&mut self, lookout: Lookout) {
        self.lookout = Some((0, lookout));
    }

    fn look_out(&mut self, kit: &mut Kit) {
        let now = kit.now();
        if let Some((at, lookout)) = self.lookout.as_mut().filter(|(at, _)| *at <= now) {
            *at = now + LOOKS_AGAIN;
            let Sight { records, beside, forwards } = lookout();
            records.into_iter().for_each(|record| kit.report(record));
            self.beside.borrow_mut().note_kernels((beside, forwards), now + LOOKS_AGAIN_MAX);
        }
    }

    /// What was counted on its lane.
    #[must_use]
    pub fn counts(&self) -> PacketCounts {
        *self.beside.borrow().tally
    }

    /// The lane's workstreams.
    #[must_use]
    pub fn workstreams(&self) -> Report {
        self.beside.borrow().placing.report()
    }

    fn send(&mut self, kit: &Kit, leaving: Leaving) {
        let Leaving { to, number, mut packet } = leaving;
        let interface = packet.interface;
        let memory = &self.memories[interface];
        let word = parcels(&mut packet, memory, to, kit.now()).map(|packet| Crossing(packet.into_word(number)));
        let is_sent = word.is_some_and(|word| self.mesh.send(kit, to, word).is_ok());
        let beside = &mut *self.beside.borrow_mut();
        beside.spare.put(packet);
        if !is_sent {
            beside.tally.drop_at(interface, Drop::Crossing);
            number.into_iter().for_each(|(number, placed)| beside.placing.isr_mut().settled(number, placed, 1));
        }
    }

    /// Tells all other lanes what was heard of neighbours and ways. A lane that does not hear it asks, or is told, itself.
    fn spread(&mut self, kit: &Kit) {
        let Self { beside, mesh, .. } = self;
        let words = &mut beside.borrow_mut().words;
        words.news.drain(..).for_each(|word| say_to_all(mesh, kit, || Say::Neighbour(word)));
        words.told.drain(..).for_each(|told| say_to_all(mesh, kit, || Say::Way(told)));
    }

    /// Writes into the page what was counted since it was written last.
    fn publish(&self) {
        let beside = &mut *self.beside.borrow_mut();
        if let Some(row) = self.row.as_ref().filter(|_| beside.tally.take_untold()) {
            published::write(row, beside);
        }
        // Only now: whoever waits for it may look at the page.
        drop(beside.orders.take_noted());
    }

    /// Tells the operator whether packets can come and go, when that has changed, and what else has.
    fn tell(&self, kit: &mut Kit) {
        let records = self.beside.borrow_mut().take_records();
        records.into_iter().for_each(|record| kit.report(record));
    }

    /// Tells other lanes how many of their packets were handled here.
    fn settle(&mut self, kit: &Kit) {
        let Self { beside, mesh, is_draining, .. } = self;
        let beside = &mut *beside.borrow_mut();
        // At the end nobody is waited for.
        let quiet = beside.ports().quiet;
        beside.placing.settle(if *is_draining { Quiet { sockets: true, given: Some(0), left: quiet.left } } else { quiet });
        beside.placing.pay(|lane, number, placed, packets| {
            mesh.send(kit, lane, Crossing(Say::Settled { number, placed, packets })).is_ok()
        });
    }
}

fn say_to_all(mesh: &mut Mesh<Crossing>, kit: &Kit, say: impl Fn() -> Say) {
    for lane in (0..kit.lanes()).filter(|lane| *lane != kit.lane()) {
        let _refused = mesh.send(kit, lane, Crossing(say()));
    }
}

/// A packet on its way.
struct Sent {
    first: FrameParcel,
    rest: Vec<FrameParcel>,
    ip: Option<Ip>,
    flow: Option<FlowId>,
    interface: usize,
    arrived: u64,
}

impl Sent {
    fn into_word(self, number: Option<(Number, Placed)>) -> Say {
        let Self { first, rest, ip, flow, interface, arrived } = self;
        Say::Packet { number, first, rest, ip, flow, interface, arrived }
    }
}

/// Makes parcels of a packet's frames; none if one of them may not travel, and the packet is dropped.
fn parcels(packet: &mut Packet, memory: &FrameMemory, to: usize, now: u64) -> Option<Sent> {
    let Parts { first, rest, ip, flow, interface, arrived } = &mut **packet;
    let (ip, flow, interface, arrived) = (*ip, *flow, *interface, *arrived);
    let parcel = |frame| own(frame, memory)?.parcel(to, Instant::from_nanoseconds(now)).ok();
    let first = parcel(std::mem::take(first))?;
    let rest = rest.drain(..).map(parcel).collect::<Option<Vec<_>>>()?;
    Some(Sent { first, rest, ip, flow, interface, arrived })
}

/// The frame in the port's memory. One that has arrived from another lane does not travel on, nor does one that waited for fragments on the shelf: it is
/// copied, for what goes on from here went to its bucket's lane first, or came in a flood, and is rare.
fn own(frame: Frame, memory: &FrameMemory) -> Option<Frame> {
    if memory.has(&frame) {
        return Some(frame);
    }
    let mut copy = memory.frame().filter(|copy| copy.room() >= frame.len())?;
    copy.append(&frame);
    copy.facts = frame.facts;
    Some(copy)
}

/// Changes something on this lane, one of so many.
fn obey(beside: &mut Beside, policy: Policy, lanes: usize) -> Result<(), String> {
    let isr = beside.placing.isr_mut();
    let refused = match policy {
        Policy::Dispatch(dispatch) => {
            isr.set_dispatch(dispatch);
            return Ok(());
        }
        Policy::DispatchOf(number, dispatch) => isr.set_dispatch_of(number, dispatch),
        Policy::Limit(number, limit) => isr.set_limit(number, limit),
        Policy::ClearDrops(number) => isr.clear_drops(number).map(drop),
        Policy::OpenChannel(number, filter, target) => {
            return beside.channels.open(number, &filter, target, lanes).map_err(|why| why.to_string());
        }
        Policy::CloseChannel(number) => {
            // One that was refused is closed as well.
            let _was_open = beside.channels.close(number);
            return Ok(());
        }
        Policy::Polling(settings) => {
            beside.set_polling(settings);
            return Ok(());
        }
        Policy::Table(table) => {
            beside.placing.set_table(table);
            return Ok(());
        }
        Policy::Rules(rules) => return order(beside, Order::Rules(rules)),
        Policy::ZeroRules(rules) => return order(beside, Order::ZeroRules(rules)),
        Policy::ResetLog(rules) => return order(beside, Order::ResetLog(rules)),
        Policy::Routes(changes) => return order(beside, Order::Routes(changes, 0)),
        Policy::Look(looker) => return order(beside, Order::Look(looker)),
        // What waits in a queue is carried out before it.
        Policy::Noted(note) if beside.orders.are_waiting() => return order(beside, Order::Noted(note)),
        Policy::Noted(note) => {
            beside.orders.note(note);
            return Ok(());
        }
    };
    refused.map_err(|why| why.to_string())
}

/// Leaves something to the driver's face.
fn order(beside: &mut Beside, order: Order) -> Result<(), String> {
    match beside.is_broken() || beside.orders.give(order) {
        true => Ok(()),
        false => Err("too many wait; wait for each before the next is said".to_owned()),
    }
}

/// However it leaves, no packet is taken any more: the port is closed, and the kernel has its packets again.
impl std::ops::Drop for Packets {
    fn drop(&mut self) {
        self.beside.borrow_mut().ends();
    }
}

impl Work for Packets {
    fn name(&self) -> &'static str {
        "packets"
    }

    fn meshes(&mut self, each: &mut dyn FnMut(&mut dyn Channels)) {
        each(&mut self.mesh);
    }

    fn complete(&mut self, _kit: &mut Kit, _completion: Completion) {
        unreachable!("nothing is asked of the driver");
    }

    fn serve(&mut self, _kit: &mut Kit) {
        let broken = self.beside.borrow_mut().take_break();
        // It broke within a call of the driver, where only the packets end. Here the lane hears of it: this work leaves, and the lane says why.
        if let Some(why) = broken {
            panic!("the packet path broke: {why}");
        }
    }

    fn take_messages(&mut self, kit: &mut Kit, at_most: usize) -> usize {
        let Self { beside, mesh, .. } = self;
        let beside = &mut *beside.borrow_mut();
        mesh.take(at_most, |from, word| match word.map(|Crossing(say)| say) {
            Some(Say::Packet { number, first, rest, ip, flow, interface, arrived }) => {
                let mut packet = beside.spare.take(Frame::arrived(&kit.guests, first), interface, arrived);
                packet.rest.extend(rest.into_iter().map(|parcel| Frame::arrived(&kit.guests, parcel)));
                (packet.ip, packet.flow) = (ip, flow);
                match number {
                    Some((number, placed)) => {
                        assert!(placed.lane == from, "a lane brings what it has placed itself");
                        beside.admit(number, packet, placed);
                    }
                    None => beside.hear(Heard::Stray(packet)),
                }
            }
            Some(Say::Settled { number, placed, packets }) => {
                beside.placing.isr_mut().settled(number, placed, packets as usize);
            }
            Some(Say::Neighbour(word)) => beside.hear(Heard::Neighbour(word)),
            Some(Say::Way(told)) => beside.hear(Heard::Way(told)),
            None => beside.placing.parted(from),
        })
    }

    fn hear(&mut self, kit: &mut Kit, _driver: &mut dyn Driver) {
        let Self { beside, ear: Some(ear), .. } = self else { return };
        for policy in ear.take() {
            if let Err(why) = obey(&mut beside.borrow_mut(), policy, kit.lanes()) {
                kit.report(Record::new(Level::Warn, format!("a change of the packet path was refused: {why}")));
            }
        }
        beside.borrow_mut().tally.note();
        // Now: the lane may go to sleep without another flush, and who has told it something may look at the page.
        self.publish();
    }

    fn flush(&mut self, kit: &mut Kit) {
        self.beside.borrow_mut().set_budget(kit.budget.completions);
        let mut leaving = self.beside.borrow_mut().placing.take_leaving();
        leaving.drain(..).for_each(|leaving| self.send(kit, leaving));
        self.beside.borrow_mut().placing.give_back(leaving);
        self.spread(kit);
        self.settle(kit);
        self.tell(kit);
        self.look_out(kit);
        self.publish();
    }

    fn has_work(&self) -> bool {
        let beside = self.beside.borrow();
        // What is held is no work until its time comes, for which the driver wakes the lane.
        let has_orders = beside.orders.are_waiting() || beside.orders.has_noted();
        (beside.has_queued() && !beside.is_held()) || has_orders || beside.has_leaving() || beside.has_broken_untold()
    }

    fn has_news(&self) -> bool {
        let beside = self.beside.borrow();
        beside.has_leaving()
            || beside.has_records()
            || beside.orders.has_noted()
            || (beside.tally.is_untold() && self.row.is_some())
    }

    fn has_ended(&self) -> bool {
        self.is_draining && self.beside.borrow().ports().are_closed
    }

    fn drain(&mut self, _kit: &mut Kit, _driver: &mut dyn Driver) {}

    /// Packets come for as long as the network sends some: services say whether an answer is owed to anybody.
    fn is_quiet(&self, _kit: &mut Kit) -> bool {
        true
    }

    fn all_are_quiet(&mut self, _kit: &mut Kit) {
        // Until now services had to be able to answer.
        self.is_draining = true;
        self.beside.borrow_mut().close();
    }
}
