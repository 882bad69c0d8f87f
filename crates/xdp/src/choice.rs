//! The best ports that an interface can have, and what was lost where they are not the best.

use crate::afxdp::{self, XdpQueue};
use crate::attaching;
use crate::card;
use crate::errors::Error;
use crate::fast::FastPath;
use crate::kernel;
use crate::link::Interface;
use crate::ours::Ours;
use crate::packet::{self, PacketQueue};
use crate::tap::{self, TapQueue};
use corelane_rss::{FlowHasher, Table};
use corelane_seam::{FRAMES_MAX, FrameMemory, Port};
use corelane_select::QueueSelector;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

/// One queue of an interface, of whatever kind: it can go to its lane's thread.
#[derive(Debug)]
pub enum Queue {
    /// Of AF_XDP.
    Xdp(XdpQueue),
    /// A packet socket.
    Packet(PacketQueue),
    /// Of a tap.
    Tap(TapQueue),
}

impl Queue {
    /// The port, which receives into `memory`; the rings of AF_XDP have `ring` frames, a power of two.
    ///
    /// # Errors
    /// Those of [`XdpQueue::port`], [`PacketQueue::port`] and [`TapQueue::port`].
    pub fn port(self, memory: FrameMemory, ring: usize) -> Result<Box<dyn Port>, Error> {
        Ok(match self {
            Self::Xdp(queue) => Box::new(queue.port(memory, ring)?),
            Self::Packet(queue) => Box::new(queue.port(memory)?),
            Self::Tap(queue) => Box::new(queue.port(memory)?),
        })
    }

    fn xdp(&mut self) -> Option<&mut XdpQueue> {
        match self {
            Self::Xdp(queue) => Some(queue),
            Self::Packet(_) | Self::Tap(_) => None,
        }
    }

    /// Its number, from 0.
    pub fn number(&self) -> u32 {
        match self {
            Self::Xdp(queue) => queue.queue(),
            Self::Packet(queue) => queue.queue(),
            Self::Tap(queue) => queue.queue(),
        }
    }
}

/// What an interface's ports lack.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Loss {
    /// The interface's driver does not run the program, so the kernel does, after it has made its own of each packet.
    Native {
        /// The interface.
        name: Box<str>,
        /// What the kernel says of it, and what helps.
        obstacle: Box<str>,
    },
    /// There is no AF_XDP for this reason, so there are packet sockets: they bring every packet of the interface, and the kernel has it as
    /// well.
    Xdp(Error),
    /// The interface takes VLAN tags out of packets, and its driver does not tell of them: what comes for a VLAN is taken to have none.
    Tags {
        /// The interface.
        name: Box<str>,
    },
    /// Lanes do not take packets in by themselves, for this reason: the kernel does, and takes their CPU for it.
    Polling(Error),
    /// There are packet sockets, and the kernel forwards what comes in by the interface, of this family (`ipv4`, `ipv6`).
    Forwarding {
        /// The interface.
        name: Box<str>,
        /// The family, as sysctl(8) names it.
        family: &'static str,
    },
    /// The kernel chooses a tap's queue for a packet by a hash of its own, for this reason.
    Steering(Error),
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Native { name, obstacle } => write!(
                f,
                "the driver of {name} does not run the XDP program, so the kernel does, which costs more for each packet; {obstacle}"
            ),
            Self::Steering(why) => {
                write!(f, "the kernel gives packets to queues as it likes, so some change lanes on their way: {why}")
            }
            Self::Tags { name } => write!(
                f,
                "{name} takes VLAN tags out of packets and tells no program, so packets of VLANs are served as if they had none: have it \
                 leave them in (ethtool -K {name} rxvlan off)"
            ),
            Self::Polling(why) => write!(f, "lanes do not poll, so the kernel receives for them by itself: {why}"),
            Self::Forwarding { name, family } => write!(
                f,
                "the kernel forwards what comes in by {name}, and sees every packet, for these are packet sockets: it tells senders that our \
                 addresses cannot be reached, or are elsewhere: turn that off (sysctl net.{family}.conf.{name}.forwarding=0)"
            ),
            Self::Xdp(why) => write!(
                f,
                "no AF_XDP but packet sockets, which are slower and leave every packet to the kernel as well, so it must not have \
                 the addresses that are served here: {why}"
            ),
        }
    }
}

/// The queues, and what was lost.
#[derive(Debug)]
pub struct Choice {
    /// One a lane.
    pub queues: Vec<Queue>,
    /// Nothing, at best.
    pub lost: Vec<Loss>,
}

/// Opens the first `queues` queues of the interface for what is `ours`: with AF_XDP, or else with packet sockets.
///
/// # Errors
/// What no other kind of port would cure: [`Error::NoInterface`], [`Error::ProgramThere`], [`Error::NoQueue`], [`Error::QueuesUnserved`], [`Error::Range`] and the like; what
/// [`packet::open`] says where there is no AF_XDP.
pub fn ports_for(interface: &str, ours: &Ours, queues: usize) -> Result<Choice, Error> {
    match afxdp::open(interface, ours, queues) {
        Ok(opened) => {
            card::refuse_unserved(interface, queues)?;
            let obstacle = opened.iter().find_map(XdpQueue::obstacle);
            let is_blind = !opened.iter().all(XdpQueue::tells_tags) && card::takes_tags_out(interface).unwrap_or(false);
            let native = obstacle.map(|obstacle| Loss::Native { name: interface.into(), obstacle: obstacle.into() });
            let tags = is_blind.then(|| Loss::Tags { name: interface.into() });
            let lost = native.into_iter().chain(tags).collect();
            Ok(Choice { queues: opened.into_iter().map(Queue::Xdp).collect(), lost })
        }
        Err(why) if may_do_without(&why) => {
            let mut opened = packet::open(interface, queues)?;
            packet::take_addresses(&mut opened, ours)?;
            let all = [IpAddr::from([0; 4]), IpAddr::from([0_u16; 8])];
            let addresses = match ours {
                Ours::Addresses(addresses) => &addresses[..],
                Ours::All => &all,
                Ours::Ports(_) => &[],
            };
            let forwards = kernel::forwards(interface, addresses);
            let forwards = forwards.map(|family| Loss::Forwarding { name: interface.into(), family });
            let lost = [Loss::Xdp(why)].into_iter().chain(forwards).collect();
            // They share what comes to all queues.
            Ok(Choice { queues: opened.into_iter().map(Queue::Packet).collect(), lost })
        }
        Err(why) => Err(why),
    }
}

/// Looks whether AF_XDP gives each of so many lanes a queue of the interface, and leaves none without a lane. Where no program may be had there are packet sockets, which share
/// what comes by all queues. Nothing is opened.
///
/// # Errors
/// As [`ports_for`] has them: [`Error::NoInterface`], [`Error::NoQueue`], [`Error::NoSendQueue`], [`Error::QueuesUnserved`].
pub fn check_lanes(interface: &str, lanes: usize) -> Result<(), Error> {
    match attaching::check(&Interface::find(interface)?, lanes) {
        Err(why) if may_do_without(&why) => Ok(()),
        checked => checked.and_then(|()| card::refuse_unserved(interface, lanes)),
    }
}

impl Choice {
    /// Frames of so many bytes that each of the ports can have at the most, where each lane locks so many bytes beside: those of AF_XDP are locked,
    /// and that is limited ([`afxdp::frames_max`]).
    pub fn frames_max(&self, frame_bytes: usize, beside: usize) -> usize {
        let is_locked = self.queues.iter().any(|queue| matches!(queue, Queue::Xdp(_)));
        if is_locked { afxdp::frames_max(frame_bytes, beside, self.queues.len()) } else { FRAMES_MAX }
    }

    /// Where the kernel sees each packet as well: of which family it forwards them, if it does.
    pub fn forwards_beside(&self) -> Option<Option<&'static str>> {
        let is_beside = self.queues.iter().any(|queue| matches!(queue, Queue::Packet(_)));
        let family = |lost: &Loss| if let Loss::Forwarding { family, .. } = lost { Some(*family) } else { None };
        is_beside.then(|| self.lost.iter().find_map(family))
    }

    /// Has what comes by the interface go the fast path ([`afxdp::offload`]), as far as its ports have one: those of AF_XDP do.
    ///
    /// # Errors
    /// Those of [`afxdp::offload`].
    pub fn offload(&mut self, fast: &Arc<FastPath>) -> Result<(), Error> {
        afxdp::offload(self.queues.iter_mut().filter_map(Queue::xdp), fast)
    }

    /// Has lanes take packets in by themselves ([`afxdp::poll`]); where that cannot be, it is noted as lost.
    pub fn poll(&mut self) {
        if let Err(why) = afxdp::poll(self.queues.iter_mut().filter_map(Queue::xdp)) {
            self.lost.push(Loss::Polling(why));
        }
    }
}

/// Opens so many queues of a tap for what is `ours`, to which flows go as `table` says; the selector, if there is one, is told of other tables.
///
/// # Errors
/// [`Error::AddressTaken`] if the kernel has one of the addresses, and those of [`tap::open`].
pub fn taps_for(
    name: &str,
    ours: &Ours,
    (hasher, table): (&FlowHasher, &Table),
    queues: usize,
) -> Result<(Choice, Option<QueueSelector>), Error> {
    ours.check()?;
    let opened = tap::open(name, queues)?;
    let steered = match opened.first().filter(|_| queues > 1) {
        None => Ok(None),
        Some(first) => QueueSelector::new(hasher, table)
            .map_err(Error::from)
            .and_then(|selector| tap::steer(first, &selector).map(|()| Some(selector))),
    };
    let (selector, lost) = match steered {
        Ok(selector) => (selector, Vec::new()),
        Err(why) => (None, vec![Loss::Steering(why)]),
    };
    // A tap has the queues that were opened.
    Ok((Choice { queues: opened.into_iter().map(Queue::Tap).collect(), lost }, selector))
}

/// Whether a packet socket may do what AF_XDP could not.
fn may_do_without(why: &Error) -> bool {
    matches!(why, Error::Program(_) | Error::Absent { .. } | Error::Forbidden { .. } | Error::Refused { .. })
}
