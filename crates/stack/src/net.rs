//! The owners of a lane's stack, together.

use crate::beside::{Beside, PortsNow};
use crate::counts::Drop;
use crate::discovery;
use crate::fault;
use crate::fragments::Fragments;
use crate::gate::Gate;
use crate::gauges::Gauges;
use crate::interface::{Interface, Speaker};
use crate::outward::{Bounds, Outward, Pen};
use crate::peers::Opened;
use crate::placing::{Placing, Quiet};
use crate::reports;
use crate::round::Round;
use crate::routes::{Routes, Way};
use crate::settings::{Error, Settings};
use crate::sockets::{Batches, Ports, Sending, Sockets};
use crate::udp;
use corelane_seam::{Bind, Completion, Fault, FrameMemory, PortFacts, Socket};
use std::net::{IpAddr, SocketAddr};

/// All that a lane's stack has, but for its ports and what it shares with the work beside it.
pub(crate) struct Net {
    now: u64,
    is_shared: bool,
    interfaces: Vec<Interface>,
    routes: Routes,
    sockets: Sockets,
    ports: Ports,
    fragments: Fragments,
    tunnels: Opened,
    pen: Pen,
    bounds: Bounds,
}

impl Net {
    /// With an interface for each port, of which the facts and the memory are given.
    pub fn new(settings: &Settings, ports: &[(PortFacts, FrameMemory)]) -> Result<Self, Error> {
        if ports.len() != settings.interfaces.len() {
            return Err(Error::Ports { got: ports.len(), interfaces: settings.interfaces.len() });
        }
        let speaker = Speaker { introduces: settings.introduces, is_first: settings.lane.0 == 0, secret: settings.secret };
        let made = settings.interfaces.iter().zip(ports);
        let interfaces: Result<Vec<_>, Error> =
            made.map(|(one, (facts, memory))| Interface::new(one, speaker, facts, memory.clone())).collect();
        let all: usize = ports.iter().map(|(_, memory)| memory.frames() * memory.frame_bytes()).sum();
        // What comes in fragments may come by any: what waits is bounded by the port with the fewest frames.
        let least = ports.iter().min_by_key(|(_, memory)| memory.frames());
        // reason: there is an interface, so there is a port.
        let (facts, memory) = least.expect("a stack has a port");
        Ok(Self {
            now: 0,
            is_shared: settings.lane.1 > 1,
            interfaces: interfaces?,
            routes: Routes::new(settings)?,
            sockets: Sockets::new(all / 2),
            ports: Ports::new(settings.lane),
            fragments: Fragments::new(settings, memory, facts.frame_bytes_max)?,
            tunnels: Opened::of(settings)?,
            pen: Pen::new(settings.hasher.clone(), settings.lane, settings.secret),
            bounds: Bounds::new(settings.secret),
        })
    }

    /// The time from now on.
    pub fn set_now(&mut self, now: u64) {
        self.now = now;
    }

    /// An interface, and the time.
    pub fn interface(&mut self, interface: usize) -> (&mut Interface, u64) {
        (&mut self.interfaces[interface], self.now)
    }

    /// All of them.
    pub fn interfaces(&self) -> &[Interface] {
        &self.interfaces
    }

    /// Whether an address is the stack's own.
    pub fn is_own(&self, address: IpAddr) -> bool {
        self.routes.is_own(address)
    }

    /// The way to an address.
    pub fn way(&self, to: IpAddr) -> Option<Way> {
        self.routes.way(to)
    }

    /// Own addresses and ways, to be changed.
    pub fn routes_mut(&mut self) -> &mut Routes {
        &mut self.routes
    }

    /// The sockets.
    pub fn sockets(&self) -> &Sockets {
        &self.sockets
    }

    /// The same, to be asked for something.
    pub fn sockets_mut(&mut self) -> &mut Sockets {
        &mut self.sockets
    }

    /// What it takes to send, and the sockets.
    fn outward<'a>(&'a mut self, beside: &'a mut Beside) -> (Outward<'a>, &'a mut Sockets) {
        let Self { now, is_shared, interfaces, routes, pen, bounds, sockets, .. } = self;
        let Beside { tally, words, .. } = beside;
        (Outward { now: *now, is_shared: *is_shared, routes, interfaces, pen, bounds, tally, words }, sockets)
    }

    /// All that a packet may meet.
    pub fn round<'a>(&'a mut self, beside: &'a mut Beside) -> Round<'a> {
        let Self { now, is_shared, interfaces, routes, sockets, ports, fragments, tunnels, pen, bounds } = self;
        let Beside { placing, channels, tally, spare, words, .. } = beside;
        let out = Outward { now: *now, is_shared: *is_shared, routes, interfaces, pen, bounds, tally, words };
        Round::new(out, sockets, ports, fragments, tunnels, (placing, channels, spare))
    }

    /// Makes a socket at an address of ours, or one that reaches its peer by us.
    ///
    /// # Errors
    /// `AddressInUse`, and `AddressUnknown` or `Unreachable` where there is no such address, or no way to the peer.
    pub fn bind(&mut self, bind: &Bind, local: SocketAddr, placing: &Placing) -> Result<Socket, Fault> {
        let peer = match &bind.peer {
            None => None,
            Some(peer) => {
                let peer = peer.clone().canonical().inet().ok_or(fault::FAMILY)?;
                Some(SocketAddr::new(peer.ip(), peer.port()))
            }
        };
        if let Some(peer) = peer {
            if peer.ip().is_ipv4() != local.ip().is_ipv4() {
                return Err(fault::FAMILY);
            }
            self.routes.way(peer.ip()).ok_or(fault::NO_WAY)?;
        }
        let local = match local.port() {
            0 => self.ports.free(local.ip(), peer, &self.sockets, placing).ok_or(fault::IN_USE)?,
            _ if !self.sockets.is_free(local, peer) => return Err(fault::IN_USE),
            _ => local,
        };
        Ok(self.sockets.add(local, peer, bind.receive_buffer_bytes))
    }

    /// Begins to send; its end, if there is nothing left to do.
    pub fn send(&mut self, socket: Socket, sending: Sending, beside: &mut Beside) -> Option<Completion> {
        if beside.is_broken() {
            return Some(sending.end(Some(fault::BROKEN)));
        }
        let (mut out, sockets) = self.outward(beside);
        match sockets.begin_send(socket, sending) {
            Ok(key) => udp::send_on(&mut out, sockets, key),
            Err(ended) => Some(ended),
        }
    }

    /// Goes on with sends that waited for free frames.
    pub fn send_on(&mut self, beside: &mut Beside, done: &mut Vec<Completion>) {
        let blocked = self.sockets.blocked();
        if blocked == 0 || beside.is_broken() {
            return;
        }
        let (mut out, sockets) = self.outward(beside);
        for _ in 0..blocked {
            // reason: nobody else takes them off.
            let key = sockets.unblock().expect("as many wait as were counted");
            done.extend(udp::send_on(&mut out, sockets, key));
        }
    }

    /// Hands over what has arrived, to at most so many sockets; how many could not be handed anything because memory was used up.
    pub fn hand_over(&mut self, to: Batches<'_>, at_most: usize, beside: &mut Beside, done: &mut Vec<Completion>) -> u64 {
        if beside.is_broken() {
            return 0;
        }
        self.sockets.hand_over(to, at_most, &mut beside.spare, done)
    }

    /// When the clock alone gives something to do.
    pub fn due(&self, beside: &Beside) -> Option<u64> {
        if beside.is_broken() {
            return None;
        }
        let interfaces = self.interfaces.iter().filter_map(Interface::due);
        self.fragments.due().into_iter().chain(interfaces).chain(beside.looks_out_at()).min()
    }

    /// Does what is due.
    pub fn expire(&mut self, beside: &mut Beside) {
        let now = self.now;
        if self.due(beside).is_none_or(|due| due > now) {
            return;
        }
        self.round(beside).expire_fragments();
        for interface in 0..self.interfaces.len() {
            let (mut out, _) = self.outward(beside);
            let mut dropped = 0;
            while let Some(ip) = out.interfaces[interface].neighbours_mut().next_due(now, &mut dropped) {
                out.ask(interface, ip);
            }
            out.tally.drop_many(Drop::Neighbour, dropped);
            reports::answer_query(&mut out, interface);
            while let Some(said) = out.interfaces[interface].next_said(now) {
                discovery::say(&mut out, interface, said);
            }
        }
        beside.looks_out(now);
    }

    /// What has changed of the interfaces: listeners are told of where addresses are introduced from now on, and the operator of what he is to hear.
    pub fn note_changes(&mut self, beside: &mut Beside) {
        for interface in 0..self.interfaces.len() {
            if self.interfaces[interface].takes_coming_up() {
                reports::report_groups(&mut self.outward(beside).0, interface, true);
            }
            if self.interfaces[interface].takes_news() {
                beside.tally.note();
            }
            if !beside.is_broken() {
                beside.tell(self.interfaces[interface].take_records());
            }
        }
    }

    /// What the work is to know at the end of the driver's part of a turn.
    pub fn note_to(&self, beside: &mut Beside, gates: &[Gate], sends: u64) {
        let waits = self.sockets.blocked() > 0 || self.interfaces.iter().any(Interface::has_outgoing);
        let unsent = gates.iter().filter_map(Gate::first_unsent).min();
        beside.note_ports(PortsNow {
            are_closed: gates.iter().all(Gate::is_closed),
            quiet: Quiet {
                sockets: !self.sockets.has_waiting(),
                given: (!waits).then_some(sends),
                left: unsent.map_or(sends, |first| first - 1),
            },
        });
        if beside.tally.is_untold() {
            beside.note_gauges(self.gauges());
        }
    }

    /// Whether something is left to run.
    pub fn has_queued(&self, beside: &Beside) -> bool {
        beside.has_queued() || (!beside.is_broken() && self.pen.has_looped())
    }

    /// What the page says beside the counts.
    pub fn gauges(&self) -> Gauges {
        let mut gauges = Gauges::of(&self.interfaces[0], self.fragments.counts());
        self.interfaces[1..].iter().for_each(|interface| gauges.add(interface));
        gauges
    }
}
