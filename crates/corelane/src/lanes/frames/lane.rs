//! One lane's ports, on its own thread: their frames, and the stack over them.

use super::memory::{FRAME_BYTES, ring_of};
use crate::admin::messages::Degraded;
use crate::error::Error;
use corelane_lane::{Ear, Mesh, Works};
use corelane_os::scheduling::Scheduling;
use corelane_seam::parcel::{AbroadLimits, Parcel, ParcelHome};
use corelane_seam::{Arena, Driver, FrameMemory, Level, Record, Tuning};
use corelane_stack::{Crossing, Packets, Policy, Settings, Sight, Stack};
use corelane_watch::PacketsRow;
use corelane_xdp::{KernelChange, KernelNews, Loss, Queue, taking_away};

/// Where a lane's parcels come home to, and by which channels.
pub(crate) type Homeward = (ParcelHome, Mesh<Parcel>);

/// The parts of which one lane's thread makes its ports and its stack.
pub(crate) struct LaneFrames {
    pub lane: usize,
    /// Of each port its queue, and how many frames that has.
    pub queues: Vec<(Queue, usize)>,
    pub settings: Settings,
    pub crossing: Mesh<Crossing>,
    pub homing: Mesh<Parcel>,
    pub ear: Ear<Policy>,
    /// With the first lane: who hears which addresses the kernel is given, by the interface.
    pub news: Vec<(Box<str>, KernelNews)>,
}

/// The rank of a lane that leaves other programs their time by sleeping: it is run as soon as it wakes, and they have all the rest.
const FOREMOST: Scheduling = Scheduling::nice(-20).in_slices_of(100_000);

/// A family as a page has it ([`Sight::forwards`]).
fn family_number(family: &str) -> u64 {
    if family == "ipv4" { 1 } else { 2 }
}

/// The operator's news of addresses of ours that the kernel is given, and loses, and of its forwarding what comes in by the interface.
fn records_of(interface: &str, changes: Vec<KernelChange>) -> Vec<Record> {
    let no_longer = |words: String| Record::new(Level::Warn, words);
    let record = |change| match change {
        KernelChange::Address(address, true) => {
            let words = "as well now, and both answer for it: take it away";
            Degraded::KernelAnswers.note(format_args!("the kernel has {address} {words} ({})", taking_away(address)))
        }
        KernelChange::Address(address, false) => no_longer(format!("the kernel has {address} no longer")),
        KernelChange::Forwarding(Some(family)) => {
            let lost = Loss::Forwarding { name: interface.into(), family };
            Degraded::KernelAnswers.note(format_args!("packet {interface}: {lost}"))
        }
        KernelChange::Forwarding(None) => no_longer(format!("the kernel forwards nothing that comes in by {interface} any more")),
    };
    changes.into_iter().map(record).collect()
}

/// The sight of all interfaces together.
fn sight(news: &mut [(Box<str>, KernelNews)]) -> Sight {
    let mut sight = Sight::default();
    for (interface, news) in news {
        sight.records.extend(records_of(interface, news.take()));
        sight.beside += news.taken() as u64;
        sight.forwards = sight.forwards.max(news.forwards().map_or(0, family_number));
    }
    sight
}

impl LaneFrames {
    /// Puts the stack on a lane's driver, on the lane's own thread; beside it stands a work, and another that brings frames home to what comes last.
    pub(crate) fn put_on<D: Driver>(
        self,
        driver: D,
        arena: &Arena,
        tuning: Tuning,
    ) -> Result<(Stack<D>, Packets, Homeward), Error> {
        let refused = |why: String| Error::Setting { name: "packet", why };
        if self.settings.polling.is_some_and(|polling| polling.other_programs) {
            let refused =
                |error| Error::System { what: "putting a lane before other programs (sched_setattr, CAP_SYS_NICE)", error };
            FOREMOST.of_one_thread().give_to(0).map_err(refused)?;
        }
        let post = ParcelHome::default();
        let number = u16::try_from(self.lane).map_err(|_| refused(format!("lane {} has no port", self.lane)))?;
        let mut ports = Vec::with_capacity(self.queues.len());
        for (queue, frames) in self.queues {
            let memory = FrameMemory::new(frames, FRAME_BYTES)?;
            memory.open_abroad(number, AbroadLimits::default(), &post);
            ports.push(queue.port(memory, ring_of(frames)).map_err(|why| refused(why.to_string()))?);
        }
        let stack = Stack::with_ports(driver, arena.clone(), tuning, ports, &self.settings);
        let stack = stack.map_err(|why| refused(why.to_string()))?;
        let mut packets = stack.packets(self.crossing);
        packets.set_ear(self.ear);
        if !self.news.is_empty() {
            let mut news = self.news;
            packets.set_lookout(Box::new(move || sight(&mut news)));
        }
        Ok((stack, packets, (post, self.homing)))
    }
}

/// The works of a lane, and its packets beside them, which count into this row.
pub(crate) fn join(works: Works, mut packets: Packets, row: PacketsRow) -> Works {
    packets.set_row(row);
    works.and(packets)
}
