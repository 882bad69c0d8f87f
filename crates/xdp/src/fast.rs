//! The fast path (flow offload): rules and known ways within the ports' programs, so that most packets that are forwarded need no lane.
//!
//! ```text
//! lane:    forwards the first packet of a way -> tells it: LearntWay --Learner--> map of ways
//! program: headers --(port, queue, tags, source): may come--> --(port, queue, destination): leaves so--> rules in --> rules out --> one hop less, tags, addresses --> devmap
//!          one half unknown, or not understood --> the queue's socket, uncounted              rules drop it --> dropped, counted
//! ```
//!
//! **The program decides nothing that a lane has not decided.** It has no routes and no neighbours. A lane tells it ways, each for a few seconds: then one of their packets
//! comes to the lane again, which sees so that the neighbour is there. Whatever changes at a lane, [`Offload::unlearn`] ends all ways at once, by one number that programs
//! compare.
//!
//! **Each packet is counted once.** A program looks the way up before it counts, and gives nothing to a lane after that. Rules have their counters in one array by CPU that
//! outlives programs; what lanes and programs have counted is to be added ([`FastPath::counts`], [`FastPath::traffic`]).
//!
//! **A set of rules is in force at once.** Another set is another program, which takes the place of the one before between two packets; ports follow one after the other.
//! A set that no program can carry out stays with the lanes ([`Unfit`]).
//!
//! **Some rules are the lane's**: those with lines, states, answers to senders, large tables, and those that a tree has as a list. A program looks first, without counting, whether one of them
//! decides the packet, or counts it with a line. Then it is the lane's, as it came.
//!
//! **Order.** A way is used from when nothing that came before waits for the lane. What remains: packets of a flow may overtake those that the lane has not sent yet when
//! the way is learnt under overload, which waits for 5 ms at the most; when a packet needs the lane for what it is (options, fragments, a checksum that was left out); and a
//! neighbour's link when the port that they leave by takes no more at once. The same holds where rules leave some packets of a flow to the lane and others not.
//!
//! **A flood** of senders that nobody asked for learns halves that nobody looks up. These give way first. A lane tells 32 halves in 0.2 ms at the most.
//!
//! What stands in the way of a set: that the lane has all packets anyhow; more than 32,000 instructions (each node of the tree is written twice, and a third and fourth time where it tells the lane's
//! packets), and 1,357 rules. A jump has 16 bits, so it reaches over 32,767 instructions. All jumps go forward and stay within the program, so none has to reach farther, and none is chained. What never goes the fast path: packets longer than a frame, those for us, and what is translated.

mod carrier;
mod counters;
mod drops;
mod headers;
mod learner;
mod looks;
mod maps;
mod notes;
mod passage;
mod program;
mod taking;
mod tree;
mod unfit;
mod ways;

#[cfg(test)]
mod tests;

pub use counters::PLACES_MAX as RULES_MAX;
pub use maps::FAST_PORTS_MAX;
pub use unfit::Unfit;

pub(crate) use carrier::Carrier;
pub(crate) use learner::Learner;
pub(crate) use maps::call::ADJUST_HEAD;
pub(crate) use program::FastPart;

use crate::errors::Error;
use corelane_rules::{Count, Interface, RuleId, RuleSet};
use corelane_seam::Fault;
use corelane_select::bpf::{Generation, Hash, HashKind, Map, MapKind, Program};
use counters::Counters;
use drops::Drops;
use maps::Maps;
use passage::traffic;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use taking::{Looker, Taking};
use tree::Fitting;
use ways::Half;

/// Interfaces of the rules that have traffic, which have numbers from 1 on: as many as a port can have VLANs, and nobody's 0.
const INTERFACES_MAX: usize = 1 + (1 << 12);
/// Sources at the most, and as many destinations, of IPv4 and of IPv6: 15 MiB and 8 MiB.
const WAYS_MAX: [usize; 2] = [1 << 16, 1 << 15];
/// What was forwarded, and dropped by rules, in programs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FastTraffic {
    /// Packets that came by the interface and went on, and their bytes from the IP header on.
    pub packets_in: u64,
    /// See there.
    pub bytes_in: u64,
    /// Packets that left by it, and their bytes. What the system did not send after all is among [`FastPath::drops`].
    pub packets_out: u64,
    /// See there.
    pub bytes_out: u64,
    /// Packets that came by it and that rules dropped.
    pub denied: u64,
}

/// Where a way may begin and end: an interface of the system at which a port is.
#[derive(Debug)]
struct WayEnd {
    device: u32,
    name: Box<str>,
    taking: Taking,
    /// Bytes of its longest frame, with the link's header and without tags, as its port knows by now.
    frame_bytes_max: AtomicUsize,
}

/// What control changes.
#[derive(Debug)]
struct Control {
    counters: Counters,
    /// The ports' programs, as long as there are ports.
    carriers: Vec<Weak<dyn Carrier>>,
}

/// The interfaces by the places of their ports.
type WayEnds = [OnceLock<WayEnd>; FAST_PORTS_MAX];

/// The fast path of a gateway's ports. Lanes tell ways; control puts rules and reads counters. Make it in the ports' network namespace, before lanes take descriptor tables of
/// their own: a thread of it looks after the interfaces as long as it is there.
#[derive(Debug)]
pub struct FastPath {
    control: Mutex<Control>,
    /// Of sources and of destinations, each of IPv4 and of IPv6.
    ways: [[Hash; 2]; 2],
    generation: Arc<Generation>,
    devices: Map,
    traffic: Map,
    drops: Arc<Result<Drops, Error>>,
    ends: Arc<WayEnds>,
    looker: Looker,
    /// Programs with rules are at the ports.
    is_on: AtomicBool,
}

impl FastPath {
    /// Without ports and rules yet.
    ///
    /// # Errors
    /// [`Error::Program`] without CAP_BPF, and others of the system's.
    pub fn new() -> Result<Arc<Self>, Error> {
        let halves = |half: Half, family: usize, name| {
            let sizes = (ways::KEY_BYTES[family], ways::VALUE_BYTES[half as usize]);
            Hash::new(HashKind::Recent, sizes, WAYS_MAX[family], name)
        };
        let ways = [
            [halves(Half::Source, 0, "corelane_from4")?, halves(Half::Source, 1, "corelane_from6")?],
            [halves(Half::Destination, 0, "corelane_to4")?, halves(Half::Destination, 1, "corelane_to6")?],
        ];
        let devices = Map::new(MapKind::Devices, size_of::<u32>(), FAST_PORTS_MAX, "corelane_ports")?;
        let id = devices.id().map_err(|fault| Error::of("BPF_OBJ_GET_INFO_BY_FD", fault.number, ""))?;
        let generation = Arc::new(Generation::new("corelane_gen")?);
        let drops = Arc::new(Drops::watch(id));
        let ends: Arc<WayEnds> = Arc::new([const { OnceLock::new() }; FAST_PORTS_MAX]);
        // The thread has what it needs, and not the fast path: that ends it.
        let seen = (ends.clone(), drops.clone(), generation.clone());
        let looker = Looker::begin(move || look(&seen.0, &seen.1, &seen.2))?;
        Ok(Arc::new(Self {
            control: Mutex::new(Control { counters: Counters::new()?, carriers: Vec::new() }),
            ways,
            generation,
            devices,
            traffic: Map::new(MapKind::PerCpuArray, traffic::VALUE_BYTES, INTERFACES_MAX, "corelane_went")?,
            drops,
            ends,
            looker,
            is_on: AtomicBool::new(false),
        }))
    }

    /// Has all ports judge by these rules from now on, and forward what they let go on; `own` are this machine's addresses. Ports that come later have them with the next
    /// call. It loads programs, so it is not for lanes, and needs what it took to open the ports.
    ///
    /// # Errors
    /// Why the rules stay with the lanes: then all packets come to them.
    pub fn put(&self, set: &RuleSet, own: &[IpAddr]) -> Result<(), Unfit> {
        let mut control = self.control();
        let put = self.put_now(&mut control, set, own);
        if put.is_err() {
            self.withdraw(&control);
        }
        put
    }

    fn put_now(&self, control: &mut Control, set: &RuleSet, own: &[IpAddr]) -> Result<(), Unfit> {
        let fit = tree::fit(set, own)?;
        let rules: Vec<RuleId> = set.rules().map(|(id, ..)| id).collect();
        let places = self.places(control, &rules)?;
        let fitting = Fitting::new(set, fit, own, &places);
        let carriers: Vec<_> = control.carriers.iter().map(Weak::upgrade).collect();
        let mut programs = Vec::new();
        for (place, carrier) in carriers.iter().enumerate() {
            let Some(carrier) = carrier else { continue };
            match self.program(control, &fitting, place as u16, &**carrier) {
                Ok(program) => programs.push((carrier, program)),
                // A program for an interface that is gone is refused, which is no matter of the others.
                Err(_) if !carrier.is_there() => {}
                Err(unfit) => return Err(unfit),
            }
        }
        for (carrier, program) in &programs {
            match carrier.put(program) {
                // Somebody has taken the program off, or the interface is gone: the port says so.
                Err(fault) if fault.number != libc::ENOLINK => {
                    return Err(Unfit::Refused(Error::of("BPF_LINK_UPDATE", fault.number, &carrier.interface().name)));
                }
                _ => {}
            }
        }
        control.counters.leave_all_but(&rules);
        self.is_on.store(true, Ordering::Release);
        Ok(())
    }

    /// Where the rules are counted. If too many others were until now, all packets go to the lanes meanwhile.
    fn places(&self, control: &mut Control, rules: &[RuleId]) -> Result<Vec<usize>, Unfit> {
        let refused = |fault| Unfit::Refused(Error::Refused { call: "BPF_MAP_LOOKUP_ELEM", fault });
        control.counters.free_former().map_err(refused)?;
        if let Some(places) = control.counters.places_for(rules) {
            return Ok(places);
        }
        self.withdraw(control);
        control.counters.leave_all_but(rules);
        control.counters.free_former().map_err(refused)?;
        control.counters.places_for(rules).ok_or(Unfit::Rules(rules.len()))
    }

    fn program(&self, control: &Control, rules: &Fitting<'_>, place: u16, port: &dyn Carrier) -> Result<Program, Unfit> {
        let maps = self.maps(control);
        port.load(&FastPart { maps, rules, place, leaves_sums: port.leaves_sums() })
    }

    fn maps<'a>(&'a self, control: &'a Control) -> Maps<'a> {
        Maps {
            counters: control.counters.map(),
            ways: self.ways.each_ref().map(|half| half.each_ref().map(AsFd::as_fd)),
            generation: self.generation.map(),
            devices: self.devices.as_fd(),
            traffic: self.traffic.as_fd(),
        }
    }

    fn withdraw(&self, control: &Control) {
        self.is_on.store(false, Ordering::Release);
        // Where no program can be put in (a process that is confined), the one before has no ways.
        self.generation.raise();
        for carrier in control.carriers.iter().filter_map(Weak::upgrade) {
            let _gone = carrier.put_plain();
        }
    }

    /// What the rules have counted in programs, in their order.
    ///
    /// # Errors
    /// What the system says.
    pub fn counts(&self, rules: &[RuleId]) -> Result<Vec<Count>, Fault> {
        self.control().counters.counts(rules)
    }

    /// Lets these rules begin with 0 again.
    ///
    /// # Errors
    /// What the system says.
    pub fn zero(&self, rules: &[RuleId]) -> Result<(), Fault> {
        self.control().counters.zero(rules)
    }

    /// What programs have forwarded and dropped of an interface by its number in the rules.
    ///
    /// # Errors
    /// What the system says; `NotFound` for a number of more than 4,096.
    pub fn traffic(&self, interface: Interface) -> Result<FastTraffic, Fault> {
        let value = self.traffic.lookup(interface.0.into())?;
        let mut sums = [0_u64; traffic::VALUE_BYTES / 8];
        for cpu in value.chunks_exact(traffic::VALUE_BYTES) {
            for (sum, word) in sums.iter_mut().zip(cpu.as_chunks::<8>().0) {
                *sum = sum.wrapping_add(u64::from_ne_bytes(*word));
            }
        }
        let [packets_in, bytes_in, packets_out, bytes_out, denied] = sums;
        Ok(FastTraffic { packets_in, bytes_in, packets_out, bytes_out, denied })
    }

    /// Packets that the system did not send by the interface of this index, after programs had counted them: its other end takes none that are redirected, its queue
    /// was full, or it is down. Those that another program of this machine redirects there are among them, and those of an interface of the same index in another network namespace.
    ///
    /// # Errors
    /// Why it is not known: without CAP_PERFMON, or where the kernel does not describe itself.
    pub fn drops(&self, device: u32) -> Result<u64, Error> {
        let place = self.place_of(device);
        (*self.drops).as_ref().map_err(Clone::clone)?.of(device, place)
    }

    /// [`FastPath::drops`] of all ports' interfaces.
    ///
    /// # Errors
    /// As there.
    pub fn lost(&self) -> Result<u64, Error> {
        self.ends.iter().filter_map(OnceLock::get).map(|end| self.drops(end.device)).sum()
    }

    /// Ends all ways that were learnt so far.
    pub fn unlearn(&self) {
        self.generation.raise();
    }

    /// Takes a port's program in, and gives the port a place.
    ///
    /// # Errors
    /// [`Error::Range`] if there are too many, and what the system says.
    pub(crate) fn join(&self, carrier: &Arc<impl Carrier + 'static>) -> Result<u16, Error> {
        let mut control = self.control();
        let place = control.carriers.len();
        if place == FAST_PORTS_MAX {
            return Err(Error::Range { what: "ports of a fast path", got: place + 1, most: FAST_PORTS_MAX });
        }
        let interface = carrier.interface();
        let device = interface.link.interface;
        let name = &interface.name;
        let refused = |fault: Fault| Error::of("BPF_MAP_UPDATE_ELEM", fault.number, name);
        self.devices.update(place, &device.to_ne_bytes()).map_err(refused)?;
        if let Ok(drops) = &*self.drops {
            drops.watch_also(device, place as u16).map_err(refused)?;
        }
        let (name, taking) = (name.clone(), Taking::of(device));
        let end = WayEnd { device, name, taking, frame_bytes_max: AtomicUsize::new(interface.frame_bytes_max()) };
        assert!(self.ends[place].set(end).is_ok(), "a place is taken once");
        let carrier: Arc<dyn Carrier> = carrier.clone();
        control.carriers.push(Arc::downgrade(&carrier));
        Ok(place as u16)
    }

    /// The names of the ports' interfaces that send nothing of what programs redirect, as was seen last: what leaves by them is the lanes' to forward.
    pub fn refusing(&self) -> Vec<String> {
        let ends = self.ends.iter().filter_map(OnceLock::get);
        ends.filter(|end| !end.taking.is_on()).map(|end| end.name.to_string()).collect()
    }

    /// Whether an interface takes what is redirected to it, as was seen last. Now and then it is looked at again.
    fn takes(&self, end: &WayEnd, now: u64) -> bool {
        if end.taking.ask(now) {
            self.looker.wake();
        }
        end.taking.is_on()
    }

    fn place_of(&self, device: u32) -> Option<u16> {
        let is = |end: &OnceLock<WayEnd>| end.get().is_some_and(|end| end.device == device);
        self.ends.iter().position(is).map(|place| place as u16)
    }

    fn control(&self) -> MutexGuard<'_, Control> {
        // A panic leaves at most places of rules that nobody counts for.
        self.control.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Looks at the interfaces at which lanes have asked for it. Where one takes nothing any more, no way leads there.
fn look(ends: &WayEnds, drops: &Result<Drops, Error>, generation: &Generation) {
    for (place, end) in ends.iter().enumerate() {
        let Some(WayEnd { device, taking, .. }) = end.get() else { continue };
        let lost = || drops.as_ref().ok()?.of(*device, Some(place as u16)).ok();
        // That it takes nothing is noted by then: a way of the next generation is not told there.
        if taking.look(lost) {
            generation.raise();
        }
    }
}
