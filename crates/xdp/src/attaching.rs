//! The program of an interface, and how it comes there.

use crate::card::{self, Functions};
use crate::claims::Claims;
use crate::errors::Error;
use crate::fast::{Carrier, FastPart, Unfit};
use crate::groups::Groups;
use crate::holder;
use crate::link::{Interface, TAG_BYTES};
use crate::ours::{self, Ours, Parts};
use crate::socket::{self, HEADROOM};
use corelane_os::errno;
use corelane_os::netlink::{Request, Verdict};
use corelane_seam::{FRAME_BYTES_LEAST, Fault, FrameMemory, Reason};
use corelane_select::bpf::assembly::Instruction;
use corelane_select::bpf::{Counts, Map, MapKind, Program, ProgramKind, XdpLink, XdpMode};
use std::os::fd::{AsFd, AsRawFd};

/// Queues of an interface at the most.
pub const QUEUES_MAX: usize = 256;
/// What those who look call the program (`bpftool prog`).
const NAME: &str = "corelane_ours";

/// A program at its interface.
#[derive(Debug)]
pub struct Attached {
    pub link: XdpLink,
    pub mode: XdpMode,
    /// The program that gives sockets what is ours, and does nothing else.
    plain: Program,
    /// It is given packets that lie in several pieces.
    pub has_pieces: bool,
    /// The card's functions that it asks.
    functions: Option<Functions>,
    /// What stands in the way of the driver running it, where the kernel does.
    pub obstacle: Option<Box<str>>,
}

/// What a port of an interface shares with those of its other queues.
#[derive(Debug)]
pub struct Attachment {
    pub sockets: Map,
    /// Packets that came by each queue, whatever became of them.
    pub seen: Counts,
    /// Queues that have a port.
    pub queues: usize,
    /// What comes by the interface may have its checksum left out. It is asked for once, by the name that the interface has at the start.
    pub leaves_sums: bool,
    ours: Ours,
    interface: Interface,
    // Behind the map, which the program has as long as it is there.
    pub attached: Attached,
    _groups: Option<Groups>,
    _claims: Claims,
}

impl Attachment {
    /// Gives the interface a program for so many queues, that asks the driver by these functions if it can.
    ///
    /// # Errors
    /// Those of [`attach_best`], [`Groups::join`] and [`Claims::take`].
    pub fn new(ours: &Ours, interface: Interface, functions: Option<Functions>, queues: usize) -> Result<Self, Error> {
        let sockets = Map::new(MapKind::XdpSockets, size_of::<u32>(), queues, "corelane_queues")?;
        let groups = Groups::join(&interface, ours)?;
        let seen = Counts::new(QUEUES_MAX, "corelane_seen")?;
        let attached = attach_best(ours, Maps { sockets: &sockets, seen: &seen }, &interface, functions)?;
        // Who has the program is told first: that says more.
        let claims = Claims::take(&interface, ours)?;
        let (ours, leaves_sums) = (ours.clone(), card::leaves_sums(&interface.name));
        Ok(Self { sockets, seen, queues, leaves_sums, ours, interface, attached, _groups: groups, _claims: claims })
    }

    /// Whether the program is told of tags by the card.
    pub fn tells(&self) -> bool {
        self.attached.functions.is_some()
    }

    /// Whether the program notes the card's hash in front of a packet.
    pub fn notes(&self) -> bool {
        self.attached.functions.is_some_and(|functions| functions.types != 0)
    }
}

impl Carrier for Attachment {
    fn interface(&self) -> &Interface {
        &self.interface
    }

    fn is_there(&self) -> bool {
        // A link that cannot be asked is taken to be as it was.
        self.attached.link.is_attached() != Ok(false)
    }

    fn leaves_sums(&self) -> bool {
        self.leaves_sums
    }

    fn load(&self, fast: &FastPart<'_>) -> Result<Program, Unfit> {
        let maps = Maps { sockets: &self.sockets, seen: &self.seen };
        let Attached { functions, has_pieces, .. } = &self.attached;
        let kind = if *has_pieces { ProgramKind::XdpPieces } else { ProgramKind::Xdp };
        let parts =
            Parts { sockets: maps.sockets.as_fd(), seen: Some(maps.seen.map()), functions: functions.as_ref(), fast: Some(fast) };
        let instructions = ours::program(&self.ours, &parts)?;
        load_kind(kind, &instructions, &self.interface, functions.as_ref()).map_err(Unfit::Refused)
    }

    fn put(&self, program: &Program) -> Result<(), Fault> {
        self.attached.link.update(program)
    }

    fn put_plain(&self) -> Result<(), Fault> {
        self.put(&self.attached.plain)
    }
}

/// Looks whether an interface may have a program that gives so many lanes what is theirs, and a queue for each of them. Nothing is attached.
///
/// # Errors
/// [`Error::Program`] without CAP_NET_ADMIN and CAP_BPF, whatever queues there are: then nobody lacks them. Else [`Error::NoQueue`], [`Error::NoSendQueue`].
pub fn check(interface: &Interface, queues: usize) -> Result<(), Error> {
    let _sockets = Map::new(MapKind::XdpSockets, size_of::<u32>(), 1, "corelane_probe")?;
    card::check_queues(interface, queues)
}

/// What a program looks up: the sockets of its queues, and where it counts what came by each.
#[derive(Clone, Copy)]
struct Maps<'a> {
    sockets: &'a Map,
    seen: &'a Counts,
}

/// Attaches the program that tells us most: one that asks the driver for tags and hashes by `functions`, if the driver runs it, and else one that reads the
/// packet's bytes only.
///
/// # Errors
/// [`Error::ProgramThere`], [`Error::Program`], and what [`Error::of`] has.
fn attach_best(ours: &Ours, maps: Maps<'_>, interface: &Interface, functions: Option<Functions>) -> Result<Attached, Error> {
    if functions.is_some()
        && let Ok((plain, has_pieces)) = load(ours, maps, interface, functions.as_ref())
        && let Ok(link) = XdpLink::attach(&plain, interface.link.interface, XdpMode::Native)
    {
        return Ok(Attached { link, mode: XdpMode::Native, plain, has_pieces, functions, obstacle: None });
    }
    let (plain, has_pieces) = load(ours, maps, interface, None)?;
    let (link, obstacle) = attach(&plain, interface)?;
    let mode = if obstacle.is_none() { XdpMode::Native } else { XdpMode::Generic };
    Ok(Attached { link, mode, plain, has_pieces, functions: None, obstacle })
}

/// Makes all that a port needs but for the interface: the table of sockets, the program that gives them packets, and a socket with `memory`.
///
/// # Errors
/// [`Error::Forbidden`] and [`Error::Program`] without CAP_NET_RAW and CAP_BPF, [`Error::LockedMemory`], [`Error::Absent`].
pub fn probe(memory: &FrameMemory) -> Result<(), Error> {
    let sockets = Map::new(MapKind::XdpSockets, size_of::<u32>(), 1, "corelane_queues")?;
    let parts = Parts { sockets: sockets.as_fd(), seen: None, functions: None, fast: None };
    Program::load(ProgramKind::Xdp, &plain(&Ours::All, &parts), NAME)?;
    socket::probe(memory)
}

/// The program; and whether it is given packets in several pieces, which it is where frames may be too short for one.
fn load(ours: &Ours, maps: Maps<'_>, interface: &Interface, functions: Option<&Functions>) -> Result<(Program, bool), Error> {
    let parts = Parts { sockets: maps.sockets.as_fd(), seen: Some(maps.seen.map()), functions, fast: None };
    let instructions = plain(ours, &parts);
    if interface.frame_bytes_max() + TAG_BYTES > FRAME_BYTES_LEAST - HEADROOM
        && let Ok(program) = load_kind(ProgramKind::XdpPieces, &instructions, interface, functions)
    {
        return Ok((program, true));
    }
    Ok((load_kind(ProgramKind::Xdp, &instructions, interface, functions)?, false))
}

/// A program without a fast path, which there is always room for.
fn plain(ours: &Ours, parts: &Parts<'_>) -> Vec<Instruction> {
    assert!(parts.fast.is_none(), "one without it");
    // reason: only rules are ever too long.
    ours::program(ours, parts).expect("a program without rules")
}

fn load_kind(
    kind: ProgramKind,
    instructions: &[Instruction],
    interface: &Interface,
    functions: Option<&Functions>,
) -> Result<Program, Error> {
    Ok(match functions {
        Some(_) => Program::load_for(kind, instructions, NAME, interface.link.interface)?,
        None => Program::load(kind, instructions, NAME)?,
    })
}

/// Has the driver run the program, or else the kernel: then with what stands in the driver's way.
fn attach(program: &Program, interface: &Interface) -> Result<(XdpLink, Option<Box<str>>), Error> {
    let index = interface.link.interface;
    let refused = |fault: Fault| match fault.number {
        libc::EBUSY | libc::EEXIST => there(interface),
        number => Error::of("BPF_LINK_CREATE", number, &interface.name),
    };
    match XdpLink::attach(program, index, XdpMode::Native) {
        Ok(link) => Ok((link, None)),
        // A driver that runs programs may not run them as the interface is set up now, such as with fewer queues than the other end has.
        Err(fault)
            if fault.reason == Reason::Unsupported || [libc::EINVAL, libc::ENOSPC, libc::ERANGE].contains(&fault.number) =>
        {
            let obstacle = obstacle(program, interface, fault);
            let link = XdpLink::attach(program, index, XdpMode::Generic).map_err(refused)?;
            Ok((link, Some(obstacle)))
        }
        Err(fault) => Err(refused(fault)),
    }
}

/// Within `IFLA_XDP`: the program and how it is to be run (`XDP_FLAGS_UPDATE_IF_NOEXIST`, `XDP_FLAGS_DRV_MODE`).
const XDP_FD: u16 = 1;
const XDP_FLAGS: u16 = 3;
const IF_NONE: u32 = 1;
const BY_DRIVER: u32 = 1 << 2;

/// Why the driver does not run a program, in the kernel's words, and what helps. The call that attaches it tells no words; this one does, and is refused for the same reason.
pub fn obstacle(program: &Program, interface: &Interface, fault: Fault) -> Box<str> {
    let ask = |program: i32, flags: u32| {
        let within = [(XDP_FD, &program.to_ne_bytes()[..]), (XDP_FLAGS, &flags.to_ne_bytes())];
        let request = Request::one(libc::RTM_SETLINK, &interface.head()).nested(libc::IFLA_XDP, &within);
        request.attempt(libc::NETLINK_ROUTE)
    };
    let words = match ask(program.as_fd().as_raw_fd(), IF_NONE | BY_DRIVER) {
        Ok(Verdict::Refused(words)) => words,
        Ok(Verdict::Done) => {
            // What is attached so, nobody would ever take off.
            let _taken_off = ask(-1, BY_DRIVER);
            None
        }
        Err(_) => None,
    };
    let words = words.unwrap_or_else(|| errno::refusal("BPF_LINK_CREATE", fault));
    let remedy = match (fault.number, interface.other_end()) {
        (libc::ENOSPC, Some(other)) => {
            let (name, queues) = (&interface.name, card::queues_now(interface));
            format!(
                "give the other end of its wire no more queues to send by than {name} has to receive by (ethtool -L {other} tx {queues})"
            )
        }
        (libc::ERANGE, Some(other)) => {
            format!("give the other end of its wire the same MTU (ip link set {other} mtu {})", interface.mtu)
        }
        (libc::EOPNOTSUPP, _) => "use a card whose driver does".to_owned(),
        _ => "change that, or use a card whose driver runs programs as it is set up".to_owned(),
    };
    format!("the kernel says {words:?}: {remedy}").into()
}

/// The interface has a program: whose, as far as that is to be seen.
pub fn there(interface: &Interface) -> Error {
    // What it has now, and not before we tried.
    let found = Interface::find(&interface.name).unwrap_or_else(|_| interface.clone());
    let mode = found.program_mode.unwrap_or("xdp");
    Error::ProgramThere { name: found.name, holder: found.program.and_then(holder::of_program).map(Into::into), mode }
}
