//! Lanes that start at the frame: a port for each, and a stack of its own over it. Without the feature `packets`, `without::frames` stands in its place.

mod channels;
mod insisting;

use crate::admin::messages::Degraded;
use crate::error::Error;
use crate::lanes::driver::DriverKind;
use corelane_isr::polling;
use corelane_lane::{Control, Ear, Mesh, Silence, Tell, Unheard, Works};
use corelane_os::claim::claim;
use corelane_os::random::secret;
use corelane_os::rights::locked_bytes_max;
use corelane_os::scheduling::Scheduling;
use corelane_rss::{FlowHasher, Table, Transport};
use corelane_seam::parcel::{AbroadLimits, Parcel, ParcelHome};
use corelane_seam::{Arena, Driver, FrameMemory, Level, Record, Tuning};
use corelane_select::QueueSelector;
pub(crate) use corelane_stack::Packets;
use corelane_stack::{
    Crossing, Network, NoTags, Policy, ReversePath, Settings, Sight, Stack, Tags, Tunnel, check_addresses, check_own,
};
use corelane_steer::Settings as Steering;
use corelane_watch::PacketsRow;
use corelane_xdp::{Choice, KernelChange, KernelNews, Loss, Ours, Queue, afxdp, check_lanes, ports_for, taking_away, taps_for};
use insisting::Insisting;
use std::any::Any;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Frames of each lane's port where nobody says how many and they can be had, and bytes of each: 8 MiB a lane, which AF_XDP has locked. How
/// many datagrams and fragments may wait follows from their number.
pub(crate) const FRAMES: usize = 4096;
pub(crate) const FRAME_BYTES: usize = 2048;
/// Frames of a port at the least and at the most.
pub(crate) const FRAMES_LEAST: usize = 256;
const FRAMES_MOST: usize = 1 << 16;

/// An interface whose frames lanes have, and the addresses that are theirs and no longer the kernel's.
///
/// Written as `eth1,ip=10.0.0.2/24`: the interface, then one or more addresses with the bits of their networks, then a router for all other
/// networks of a family, if there is one: `eth1,ip=10.0.0.2/24,ip=fd00::2/64,via=10.0.0.1`. `tunnel=gre@192.0.2.1` (`ipip`,
/// `6in4`, `vxlan`), each as often as needed, has tunnels from that peer, or that network of peers, to these addresses opened. `channels=PATH` has other
/// processes take packets at that Unix socket. `poll` has each lane take its packets in by itself (AF_XDP, Linux 6.13), so
/// that under a flood nothing takes its CPU from it; where packets come in numbers, one that comes just after a lane has found none waits up to 0.5
/// milliseconds.
/// `frames=N` gives each lane so many frames of 2 KiB, 256 to 65,536; else it has 4,096, or with AF_XDP as many as may be locked.
///
/// `vlan=10` (802.1Q), or `vlan=100.10` (802.1ad outside), makes addresses behind it those of that VLAN of the interface, up to the next `vlan=`. `forward` has packets
/// that are for somebody else go on to him, among all networks of the interface, from whom a way leads back by where they came in. With either the lanes have all
/// frames of the interface, and the kernel has none.
///
/// `tap:tap0` instead of an interface is a tap of that name: lanes are at the other end of a wire whose near end is the kernel's. One that is not there
/// is made, is down until somebody gives it an address and sets it up, and is gone with the process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketPort {
    interface: String,
    is_tap: bool,
    /// That without tags, and its VLANs behind it.
    interfaces: Vec<OwnInterface>,
    /// Packets for others go on.
    forwards: bool,
    routers: Vec<IpAddr>,
    /// Kinds of tunnels, and the networks of those who may send in one.
    tunnels: Vec<(Tunnel, IpAddr, u8)>,
    channels: Option<PathBuf>,
    polls: bool,
    /// What is set of polling, in its order.
    knobs: Vec<polling::Change>,
    /// As many as can be had if none.
    frames: Option<usize>,
}

/// The lanes' own addresses at one VLAN of an interface, or without one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct OwnInterface {
    tags: Tags,
    networks: Vec<(IpAddr, u8)>,
}

impl PacketPort {
    /// The interface.
    pub fn interface(&self) -> &str {
        &self.interface
    }

    /// Whether it is a tap, at whose other end lanes are.
    pub fn is_tap(&self) -> bool {
        self.is_tap
    }

    /// Whether lanes take its packets in by themselves.
    pub(crate) fn polls(&self) -> bool {
        self.polls
    }

    /// Whether an address is theirs.
    pub fn has(&self, address: IpAddr) -> bool {
        self.addresses().any(|own| own == address)
    }

    /// The addresses with the bits of their networks.
    fn networks(&self) -> impl Iterator<Item = &(IpAddr, u8)> {
        self.interfaces.iter().flat_map(|one| &one.networks)
    }

    /// The interface's packets that lanes have.
    fn ours(&self) -> Ours {
        let is_trunk = self.forwards || self.interfaces.len() > 1;
        if is_trunk { Ours::All } else { Ours::Addresses(self.addresses().collect()) }
    }

    /// Whether an address is reached by its frames: in a network of its own, or by a router.
    pub fn reaches(&self, address: IpAddr) -> bool {
        let is_near = |&(own, bits): &(IpAddr, u8)| match (own, address) {
            (IpAddr::V4(own), IpAddr::V4(to)) => (own.to_bits() ^ to.to_bits()).leading_zeros() >= bits.into(),
            (IpAddr::V6(own), IpAddr::V6(to)) => (own.to_bits() ^ to.to_bits()).leading_zeros() >= bits.into(),
            _ => false,
        };
        self.networks().any(is_near) || self.routers.iter().any(|router| router.is_ipv4() == address.is_ipv4())
    }

    /// Where other processes may take packets.
    pub(crate) fn channels(&self) -> Option<&Path> {
        self.channels.as_deref()
    }

    /// The addresses.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        self.networks().map(|(address, _)| *address)
    }

    /// Takes one part of what is written behind the interface.
    fn take(&mut self, part: &str, wrong: &dyn Fn(&str) -> Error) -> Result<(), Error> {
        match part.split_once('=') {
            Some(("ip", network)) => {
                let network = network_of(network).ok_or(wrong("no address with its bits"))?;
                self.interfaces.last_mut().into_iter().for_each(|last| last.networks.push(network));
            }
            Some(("vlan", numbers)) => {
                let tags = numbers.parse().map_err(|why: NoTags| wrong(&why.to_string()))?;
                if self.interfaces.iter().any(|one| one.tags == tags) {
                    return Err(wrong(&format!("vlan={numbers} stands there twice")));
                }
                self.interfaces.push(OwnInterface { tags, networks: Vec::new() });
            }
            None if part == "forward" => self.forwards = true,
            Some(("via", router)) => self.routers.push(router.parse().map_err(|_| wrong("no address of a router"))?),
            Some(("tunnel", name)) => self.tunnels.push(tunnel_of(name).map_err(wrong)?),
            Some(("channels", path)) if !path.is_empty() => self.channels = Some(path.into()),
            Some(("frames", number)) => {
                self.frames = Some(frames_of(number).ok_or(wrong("no number of frames from 256 to 65536"))?)
            }
            None if part == "poll" && !self.is_tap => self.polls = true,
            None if part == "poll" => return Err(wrong("a tap is not polled")),
            Some(_) if self.polls => {
                let knob = part.parse().map_err(|why: polling::ChangeError| wrong(&format!("{part:?}: {why}")))?;
                self.knobs.push(knob);
                self.polling(0).map_err(|why| wrong(&format!("{part:?}: {why}")))?;
            }
            _ => {
                return Err(wrong(&format!(
                    "{part:?} is neither ip= nor vlan= nor forward nor via= nor tunnel= nor channels= nor frames= nor poll"
                )));
            }
        }
        Ok(())
    }

    /// What packets may have of a lane's time, where nobody has set another user fraction than this; none if it does not poll.
    fn polling(&self, user_fraction: u8) -> Result<Option<polling::Settings>, polling::ChangeError> {
        let mut settings = polling::Settings::DEFAULT;
        settings.knobs.user_frac = user_fraction.into();
        self.knobs.iter().try_for_each(|knob| settings.change(*knob))?;
        Ok(self.polls.then_some(settings))
    }

    /// What a lane's stack is told.
    fn settings(&self, hasher: &Arc<FlowHasher>, table: &Table, lane: (usize, usize), secret: u128) -> Settings {
        let own = Settings::new(hasher.clone(), table.clone(), lane, secret);
        let own = self.interfaces.iter().fold(own, |own, one| {
            let own = match one.tags {
                Tags::None => own.with_interface(&self.interface),
                tags => own.and_vlan(&format!("{}.{tags}", self.interface), tags),
            };
            let own = one.networks.iter().fold(own, |own, (address, bits)| own.with_network(*address, *bits));
            if self.forwards { own.with_forwarding(ReversePath::Strict) } else { own }
        });
        let own = self.tunnels.iter().fold(own, |own, (tunnel, peer, bits)| own.with_tunnel(*tunnel, *peer, *bits));
        self.routers.iter().fold(own, |own, router| {
            let all: IpAddr = if router.is_ipv4() { [0; 4].into() } else { [0_u16; 8].into() };
            own.with_route(all, 0, *router)
        })
    }
}

impl FromStr for PacketPort {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let wrong = |what: &str| Error::Setting {
            name: "packet",
            why: format!(
                "{text:?}: {what}: write eth1,ip=10.0.0.2/24, or tap:NAME for a tap, and behind it ,ip=.. for each further address, ,vlan=N (or N.N) in front of those of a VLAN, ,forward, ,via=ROUTER, ,tunnel=gre|ipip|6in4|vxlan@PEER (an address or a network), ,channels=PATH, ,frames=N, and ,poll"
            ),
        };
        let mut parts = text.split(',');
        let interface = parts.next().filter(|name| !name.is_empty() && !name.contains('=')).ok_or(wrong("no interface"))?;
        let (interface, is_tap) = interface.strip_prefix("tap:").map_or((interface, false), |name| (name, true));
        let mut port = Self {
            interface: interface.to_owned(),
            is_tap,
            interfaces: vec![OwnInterface::default()],
            forwards: false,
            routers: Vec::new(),
            tunnels: Vec::new(),
            channels: None,
            polls: false,
            knobs: Vec::new(),
            frames: None,
        };
        parts.try_for_each(|part| port.take(part, &wrong))?;
        for (place, (address, bits)) in port.networks().enumerate() {
            check_own(&Network { address: *address, bits: *bits }).map_err(|why| wrong(&why.to_string()))?;
            if port.addresses().take(place).any(|before| before == *address) {
                return Err(wrong(&format!("ip={address} stands there twice")));
            }
        }
        if let Some(empty) = port.interfaces.iter().find(|one| one.tags != Tags::None && one.networks.is_empty()) {
            return Err(wrong(&format!("no address in vlan={}", empty.tags)));
        }
        if port.networks().next().is_none() { Err(wrong("no address")) } else { Ok(port) }
    }
}

fn network_of(text: &str) -> Option<(IpAddr, u8)> {
    let (address, bits) = text.split_once('/')?;
    Some((address.parse().ok()?, bits.parse().ok()?))
}

/// A kind of tunnel and its peers.
fn tunnel_of(text: &str) -> Result<(Tunnel, IpAddr, u8), &'static str> {
    let (kind, peers) = text.split_once('@').unwrap_or((text, ""));
    let tunnel = Tunnel::named(kind).ok_or("no kind of tunnel")?;
    let one = || peers.parse().ok().map(|peer: IpAddr| (peer, if peer.is_ipv4() { 32 } else { 128 }));
    let (peer, bits) =
        network_of(peers).or_else(one).ok_or("a tunnel is opened for the peers that it names, as in tunnel=gre@192.0.2.1")?;
    Ok((tunnel, peer, bits))
}

fn frames_of(text: &str) -> Option<usize> {
    text.parse().ok().filter(|frames| (FRAMES_LEAST..=FRAMES_MOST).contains(frames))
}

/// How many frames each lane has of those that it can have at the most, and what the operator should know; none if these are too few.
fn frames_had(asked: Option<usize>, most: usize) -> Option<(usize, Option<String>)> {
    match asked {
        Some(asked) => (asked <= most).then_some((asked, None)),
        None if most < FRAMES_LEAST => None,
        None if most < FRAMES => {
            let note = format!(
                "{most} frames a lane and not {FRAMES}, for no more may be locked, so fewer packets can wait: raise the limit (ulimit -l, LimitMEMLOCK=), \
                 or say how many are enough (,frames=N)"
            );
            Some((most, Some(note)))
        }
        None => Some((FRAMES, None)),
    }
}

/// Frames in each ring of a port with so many: half of all, so that a burst finds room as long as there are frames, and a full ring leaves some to send.
fn ring_of(frames: usize) -> usize {
    1 << (frames / 2).ilog2()
}

/// Where a lane's parcels come home to, and by which channels.
pub(crate) type Homeward = (ParcelHome, Mesh<Parcel>);

/// What one lane's thread makes its port and its stack of.
pub(crate) struct LaneFrames {
    lane: usize,
    frames: usize,
    queue: Queue,
    settings: Settings,
    crossing: Mesh<Crossing>,
    homing: Mesh<Parcel>,
    ear: Ear<Policy>,
    /// With the first lane: who hears which addresses the kernel is given.
    news: Option<KernelNews>,
}

/// Who brings packets to the lanes of their buckets, and is told of another table.
pub(crate) struct Placing {
    /// The packet path of each lane.
    tell: Tell<Policy>,
    tables: Insisting,
    lanes: usize,
    /// The kernel's, where it chooses among queues by our table.
    selector: Option<QueueSelector>,
    /// What all lanes were told of polling; none where they do not poll.
    pub(crate) polling: Option<Mutex<polling::Settings>>,
}

impl Placing {
    /// Offers packets to other processes, if the port says where; what is returned is kept as long as the lanes run.
    pub(crate) fn offer(&self, port: &PacketPort) -> Result<Option<Box<dyn Any + Send>>, Error> {
        let Some(path) = port.channels() else { return Ok(None) };
        let offers = channels::offer(path, self.tell.clone(), self.lanes);
        let refused = |error| Error::Setting { name: "packet", why: format!("channels={}: {error}", path.display()) };
        offers.map(|offers| Some(Box::new(offers) as Box<dyn Any + Send>)).map_err(refused)
    }

    /// Puts another table in force.
    pub(crate) fn follow(&self, table: &Table) {
        // The lanes bring packets of the old table where the new one says. What waits at a tap's old queue just now may be overtaken there by what
        // comes to its new one, as on a card whose table is rewritten.
        let _refused = self.selector.as_ref().map(|selector| selector.rewrite(table));
        (0..self.lanes).for_each(|lane| self.tables.order(lane, Policy::Table(table.clone())));
    }
}

/// The rank of a lane that leaves other programs their time by sleeping: it is run as soon as it wakes, and they have all the rest.
const FOREMOST: Scheduling = Scheduling::nice(-20).in_slices_of(100_000);

/// How long lanes may take to put a change in force: each does it in its next turn.
const PATIENCE: Duration = Duration::from_secs(10);

impl Placing {
    /// Changes what packets may take of the lanes' time; what is refused is the same on all lanes.
    pub(crate) fn change_settings(&self, settings: &Mutex<polling::Settings>, change: polling::Change) -> Result<String, String> {
        // Whoever panicked with it has changed nothing.
        let mut settings = settings.lock().unwrap_or_else(PoisonError::into_inner);
        let mut changed = *settings;
        changed.change(change).map_err(|why| why.to_string())?;
        // Also where not all lanes have heard it yet: the next change is one of this.
        *settings = changed;
        self.tell_all(&Policy::Polling(changed))
    }

    /// Tells all lanes, and waits until it is in force and the page says so.
    pub(crate) fn tell_all(&self, policy: &Policy) -> Result<String, String> {
        let (note, heard) = mpsc::channel::<()>();
        let note: Arc<dyn Any + Send + Sync> = Arc::new(note);
        for lane in 0..self.lanes {
            let told = self.tell.tell(lane, policy.clone()).and_then(|()| self.tell.tell(lane, Policy::Noted(note.clone())));
            match told {
                // A lane that has ended has no packets.
                Err(Unheard { why: Silence::Gone, .. }) | Ok(()) => {}
                Err(Unheard { why: Silence::Full, .. }) => {
                    return Err(format!(
                        "lane {lane} has not taken what it was told before; lanes below it have this change: ask again"
                    ));
                }
            }
        }
        drop(note);
        match heard.recv_timeout(PATIENCE) {
            Err(RecvTimeoutError::Timeout) => {
                Err("a lane has not taken the change yet, and will when its turn ends: `corelane stat` shows which".to_owned())
            }
            // Nobody says anything: all have dropped the note.
            _ => Ok(format!("{} lanes", self.lanes)),
        }
    }
}

/// What each lane is given, who speaks to all, and what the operator should know.
pub(crate) type OpenedPort = (Vec<LaneFrames>, Placing, Vec<Record>);

/// Who has an address answers for it on the link: the kernel or we, never both.
pub(crate) fn refuse_shared_addresses(port: &PacketPort) -> Result<(), Error> {
    let has_it = |ip: &IpAddr| claim(Transport::Udp, &SocketAddr::new(*ip, 0).into(), true, false).is_ok();
    match port.addresses().find(has_it) {
        None => Ok(()),
        Some(ip) => {
            let why = corelane_xdp::Error::AddressTaken { address: ip, remedy: taking_away(ip).into() }.to_string();
            Err(Error::Setting { name: "packet", why })
        }
    }
}

fn has_afxdp() -> bool {
    let memory = FrameMemory::new(FRAMES_LEAST, FRAME_BYTES);
    memory.is_ok_and(|memory| afxdp::probe(&memory).is_ok())
}

/// Each lane has a queue of the interface, and each queue a lane, where AF_XDP is to be had.
pub(crate) fn refuse_lanes_without_queue(port: &PacketPort, lanes: usize) -> Result<(), Error> {
    if port.is_tap() || !has_afxdp() {
        return Ok(());
    }
    let refused = |why: corelane_xdp::Error| Error::Setting { name: "packet", why: why.to_string() };
    check_lanes(port.interface(), lanes).map_err(refused)
}

/// Bytes that a lane's rings of io_uring lock as well, twice: the kernel takes back those of a trial when it likes.
const RINGS_BYTES: usize = 384 * 1024;

/// Opens a queue of the interface for each lane, which has this driver, and this user fraction where the port says nothing else.
pub(crate) fn open(
    port: &PacketPort,
    control: &Arc<Control>,
    steering: &Steering,
    messages: usize,
    (driver, user_fraction): (DriverKind, u8),
) -> Result<OpenedPort, Error> {
    let lanes = control.lanes();
    let refused = |why: String| Error::Setting { name: "packet", why };
    let table = steering.table(lanes)?;
    let hasher = Arc::new(FlowHasher::new(&steering.key, steering.types));
    let secret = secret().map_err(|error| Error::System { what: "asking for randomness (getrandom)", error })?;
    let polling = port.polling(user_fraction).map_err(|why| refused(why.to_string()))?;
    let settings = |lane: usize| {
        let settings = port.settings(&hasher, &table, (lane, lanes), secret.wrapping_add(lane as u128)).with_polling(polling);
        // One speaks for all.
        if lane == 0 { settings.with_introduction() } else { settings }
    };
    // Before anything is opened.
    check_addresses(&settings(0)).map_err(|why| refused(why.to_string()))?;
    let mut news = KernelNews::hear(port.addresses().collect()).map_err(|why| refused(why.to_string()))?;
    let ours = port.ours();
    let opened = match port.is_tap {
        true => taps_for(&port.interface, &ours, (&hasher, &table), lanes),
        false => ports_for(&port.interface, &ours, lanes).map(|choice| (choice, None)),
    };
    let (mut choice, selector): (Choice, _) = opened.map_err(|why| refused(why.to_string()))?;
    if port.polls {
        choice.poll();
    }
    if let Some(family) = choice.forwards_beside() {
        news.hear_of_forwarding(&port.interface, family);
    }
    let beside = if driver == DriverKind::Uring { RINGS_BYTES } else { 0 };
    let (frames, fewer) = frames_had(port.frames, choice.frames_max(FRAME_BYTES, beside)).ok_or_else(|| {
        let bytes = port.frames.unwrap_or(FRAMES_LEAST) * FRAME_BYTES * lanes;
        refused(corelane_xdp::Error::LockedMemory { bytes, limit: locked_bytes_max() }.to_string())
    })?;
    let lost = choice.lost.iter().map(|lost| (code_of(lost), lost.to_string()));
    let fewer = fewer.map(|fewer| (Degraded::Packet, fewer));
    let notes = lost.chain(fewer).map(|(code, lost)| code.note(format_args!("packet {}: {lost}", port.interface))).collect();
    let meshes = Mesh::between(control, messages).into_iter().zip(Mesh::between(control, messages));
    let (tell, ears) = control.words();
    let complete = choice.queues.len() == lanes && meshes.len() == lanes && ears.len() == lanes;
    assert!(complete, "each lane has a queue, its mailboxes and an ear");
    let mut news = Some(news);
    let each = choice.queues.into_iter().zip(meshes).zip(ears).enumerate();
    let each = each.map(|(lane, ((queue, (crossing, homing)), ear))| LaneFrames {
        lane,
        frames,
        queue,
        settings: settings(lane),
        crossing,
        homing,
        ear,
        news: news.take(),
    });
    let tables = Insisting::new(tell.clone(), lanes);
    Ok((each.collect(), Placing { tell, tables, lanes, selector, polling: polling.map(Mutex::new) }, notes))
}

/// A family as a page has it ([`Sight::forwards`]).
fn family_number(family: &str) -> u64 {
    if family == "ipv4" { 1 } else { 2 }
}

/// The code of what an interface's ports lack.
fn code_of(lost: &Loss) -> Degraded {
    match lost {
        Loss::Forwarding { .. } => Degraded::KernelAnswers,
        _ => Degraded::Packet,
    }
}

/// What the operator hears of addresses of ours that the kernel is given, and loses, and of its forwarding what comes in by the interface.
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
        let (memory, post) = (FrameMemory::new(self.frames, FRAME_BYTES)?, ParcelHome::default());
        let number = u16::try_from(self.lane).map_err(|_| refused(format!("lane {} has no port", self.lane)))?;
        memory.open_abroad(number, AbroadLimits::default(), &post);
        let port = self.queue.port(memory, ring_of(self.frames)).map_err(|why| refused(why.to_string()))?;
        let stack = Stack::new(driver, arena.clone(), tuning, port, &self.settings).map_err(|why| refused(why.to_string()))?;
        let mut packets = stack.packets(self.crossing);
        packets.set_ear(self.ear);
        if let Some(mut news) = self.news {
            let interface = self.settings.interfaces[0].name.clone();
            packets.set_lookout(Box::new(move || {
                let records = records_of(&interface, news.take());
                Sight { records, beside: news.taken() as u64, forwards: news.forwards().map_or(0, family_number) }
            }));
        }
        Ok((stack, packets, (post, self.homing)))
    }
}

/// The works of a lane, and its packets beside them, which count into this row.
pub(crate) fn join(works: Works, mut packets: Packets, row: PacketsRow) -> Works {
    packets.set_row(row);
    works.and(packets)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn why(text: &str) -> String {
        text.parse::<PacketPort>().unwrap_err().to_string()
    }

    #[test]
    fn an_interface_and_its_addresses_are_read() {
        let port: PacketPort =
            "eth1,ip=10.0.0.2/24,ip=fd00::2/64,via=10.0.0.1,tunnel=gre@192.0.2.1,tunnel=6in4@fd00::/64".parse().unwrap();
        assert_eq!(port.interface(), "eth1");
        assert!(port.has([10, 0, 0, 2].into()) && port.has("fd00::2".parse().unwrap()) && !port.has([10, 0, 0, 1].into()));
        let peers = [(Tunnel::Gre, [192, 0, 2, 1].into(), 32), (Tunnel::Ipv6InIp, [0xfd00, 0, 0, 0, 0, 0, 0, 0].into(), 64)];
        assert_eq!(port.tunnels, peers);
        assert_eq!(port.routers, ["10.0.0.1".parse::<IpAddr>().unwrap()]);
    }

    #[test]
    fn vlans_have_addresses_of_their_own() {
        let port: PacketPort =
            "eth1,ip=10.0.0.2/24,vlan=10,ip=10.0.10.1/24,ip=fd0a::1/64,vlan=100.20,ip=10.0.20.1/24,forward,via=10.0.0.1"
                .parse()
                .unwrap();
        let tags: Vec<_> = port.interfaces.iter().map(|one| (one.tags, one.networks.len())).collect();
        assert_eq!(tags, [(Tags::None, 1), (Tags::One(10), 2), (Tags::Two(100, 20), 1)]);
        assert!(port.forwards && port.has([10, 0, 20, 1].into()) && port.reaches([10, 0, 10, 99].into()));
        assert_eq!(port.ours(), Ours::All);
        let plain: PacketPort = "eth1,ip=10.0.0.2/24".parse().unwrap();
        assert_eq!(plain.ours(), Ours::Addresses(vec![[10, 0, 0, 2].into()]), "the rest is the kernel's");
        let trunk: PacketPort = "eth1,vlan=10,ip=10.0.10.1/24".parse().unwrap();
        assert!(trunk.interfaces[0].networks.is_empty(), "an interface may be a trunk alone");
    }

    #[test]
    fn what_is_reached_is_in_a_network_of_its_own_or_behind_a_router() {
        let reached = |port: &str, to: &str| port.parse::<PacketPort>().unwrap().reaches(to.parse().unwrap());
        let near = "eth1,ip=10.0.0.2/24,ip=fd00::2/64";
        assert!(reached(near, "10.0.0.255") && reached(near, "fd00::9"));
        assert!(!reached(near, "10.0.1.1") && !reached(near, "fd01::9") && !reached(near, "127.0.0.1"));
        assert!(reached("eth1,ip=10.0.0.2/24,via=10.0.0.1", "192.0.2.1"), "a router for its family");
        assert!(!reached("eth1,ip=10.0.0.2/24,via=10.0.0.1", "fd00::9"));
        assert!(reached("eth1,ip=10.0.0.2/32", "10.0.0.2") && reached("eth1,ip=10.0.0.2/0", "192.0.2.1"));
    }

    #[test]
    fn a_tap_is_named_as_one() {
        let port: PacketPort = "tap:tap0,ip=10.0.0.2/24".parse().unwrap();
        assert_eq!((port.interface(), port.is_tap()), ("tap0", true));
        assert!(!"tap0,ip=10.0.0.2/24".parse::<PacketPort>().unwrap().is_tap(), "an interface may have any name");
    }

    #[test]
    fn frames_are_as_many_as_are_asked_for_or_can_be_had() {
        let asked = |text: &str| text.parse::<PacketPort>().unwrap().frames;
        assert_eq!((asked("eth1,ip=10.0.0.2/24,frames=512"), asked("eth1,ip=10.0.0.2/24")), (Some(512), None));
        assert_eq!(frames_had(None, FRAMES), Some((FRAMES, None)));
        assert_eq!(frames_had(Some(FRAMES_MOST), FRAMES_MOST), Some((FRAMES_MOST, None)));
        let (had, note) = frames_had(None, FRAMES - 1).unwrap();
        assert!(had == FRAMES - 1 && note.unwrap().contains("4095 frames a lane and not 4096"));
        assert_eq!((frames_had(None, FRAMES_LEAST - 1), frames_had(Some(512), 511)), (None, None));
    }

    #[test]
    fn a_ring_leaves_half_of_the_frames_to_send() {
        assert_eq!([256, 511, 512, 4096, FRAMES_MOST].map(ring_of), [128, 128, 256, 2048, 1 << 15]);
    }

    #[test]
    fn what_cannot_be_read_is_told_with_an_example() {
        for (text, words) in [
            ("", "no interface"),
            ("ip=10.0.0.2/24", "no interface"),
            ("eth1", "no address"),
            ("eth1,ip=10.0.0.2", "no address with its bits"),
            ("eth1,vlan=10", "no address in vlan=10"),
            ("eth1,vlan=100.10,vlan=7,ip=10.0.0.2/24", "no address in vlan=100.10"),
            ("eth1,vlan=0,ip=10.0.0.2/24", "a number from 1 to 4094"),
            ("eth1,vlan=4095,ip=10.0.0.2/24", "a number from 1 to 4094"),
            ("eth1,vlan=1.2.3,ip=10.0.0.2/24", "a number from 1 to 4094"),
            ("eth1,vlan=7,ip=10.0.0.2/24,vlan=7,ip=10.0.1.2/24", "vlan=7 stands there twice"),
            ("eth1,vlan=7,ip=10.0.0.2/24,vlan=8,ip=10.0.0.2/24", "ip=10.0.0.2 stands there twice"),
            ("eth1,ip=ten/24", "no address with its bits"),
            ("eth1,ip=10.0.0.2/24,via=there", "no address of a router"),
            ("eth1,ip=10.0.0.255/24", "10.0.0.255 is no address of one host"),
            ("eth1,ip=0.0.0.0/24", "0.0.0.0 is no address of one host"),
            ("eth1,ip=127.0.0.2/8", "127.0.0.2 is no address of one host"),
            ("eth1,ip=ff02::1/64", "ff02::1 is no address of one host"),
            ("eth1,ip=10.0.0.2/33", "IPv4 has up to 32 bits"),
            ("eth1,ip=10.0.0.2/24,ip=10.0.0.3/24,ip=10.0.0.2/16", "ip=10.0.0.2 stands there twice"),
            (
                "eth1,mtu=9000",
                "\"mtu=9000\" is neither ip= nor vlan= nor forward nor via= nor tunnel= nor channels= nor frames= nor poll",
            ),
            ("eth1,ip=10.0.0.2/24,frames=255", "no number of frames from 256 to 65536"),
            ("eth1,ip=10.0.0.2/24,frames=65537", "no number of frames from 256 to 65536"),
            ("tap:tap0,ip=10.0.0.2/24,poll", "a tap is not polled"),
            ("eth1,ip=10.0.0.2/24,tunnel=ssh@10.0.0.1", "no kind of tunnel"),
            ("eth1,ip=10.0.0.2/24,tunnel=gre", "for the peers that it names"),
        ] {
            let why = why(text);
            assert!(why.contains(words) && why.contains("write eth1,ip=10.0.0.2/24"), "{text}: {why}");
        }
    }
}
