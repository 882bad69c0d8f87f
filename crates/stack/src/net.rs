//! The owners of a lane's stack, together.

use crate::beside::{Beside, PortsNow};
use crate::counts::{Drop, Losses, Tally};
use crate::discovery;
use crate::fault;
use crate::forwarding::{self, Forwarding, Traffic};
use crate::fragments::Fragments;
use crate::gate::Gate;
use crate::gauges::{Gauges, LinkGauges};
use crate::interface::{Interface, Speaker};
use crate::interfaces::Interfaces;
use crate::judging::Judging;
use crate::orders::Order;
use crate::outward::{Bounds, Outward, Pen};
use crate::peers::Opened;
use crate::placing::{Placing, Quiet};
use crate::relay::Relay;
use crate::reports;
use crate::round::Round;
use crate::routes::{Routes, Way};
use crate::settings::{Error, InterfaceSettings, RouteChange, Settings};
use crate::sockets::{Batches, Ports, Sending, Sockets};
use crate::translation::Translation;
use crate::trunk::Trunk;
use crate::udp;
use crate::view::View;
use corelane_rules::RuleSet;
use corelane_seam::{Bind, Completion, Fault, Frame, FrameMemory, Level, Offload, PortFacts, Record, Socket};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// Changes of routes that one part of a turn makes, at most.
const CHANGES_EACH: usize = 128;

/// All that a lane's stack has, but for its ports and what it shares with the work beside it.
pub(crate) struct Net {
    now: u64,
    is_shared: bool,
    interfaces: Interfaces,
    /// One for each port, in their order.
    trunks: Vec<Trunk>,
    routes: Routes,
    sockets: Sockets,
    ports: Ports,
    fragments: Fragments,
    tunnels: Opened,
    forwarding: Forwarding,
    judging: Judging,
    relay: Relay,
    translation: Option<Translation>,
    pen: Pen,
    bounds: Bounds,
    /// What the page says of ports and interfaces, as of their last change.
    links: LinkGauges,
}

impl Net {
    /// With an interface without tags for each port, of which the facts and the memory are given.
    pub fn new(settings: &Settings, ports: &[(PortFacts, FrameMemory)]) -> Result<Self, Error> {
        settings.check_interfaces()?;
        let names: Vec<_> = settings.port_names().collect();
        if ports.len() != names.len() {
            return Err(Error::Ports { got: ports.len(), interfaces: names.len() });
        }
        let is_first = settings.lane.0 == 0;
        let made = names.iter().zip(ports).map(|(name, (facts, memory))| Trunk::new(name, is_first, facts, memory.clone()));
        let mut trunks: Vec<_> = made.collect();
        let each = settings.interfaces.iter().enumerate();
        each.for_each(|(number, one)| trunks[one.port].add(one.tags, number));
        let speaker = Speaker { introduces: settings.introduces, secret: settings.secret };
        let make = |one: &InterfaceSettings| Interface::new(one, speaker, &trunks[one.port], trunks[one.port].interfaces().len());
        let interfaces: Result<Vec<_>, Error> = settings.interfaces.iter().map(make).collect();
        let interfaces = Interfaces::new(interfaces?);
        let all: usize = ports.iter().map(|(_, memory)| memory.frames() * memory.frame_bytes()).sum();
        // What comes in fragments may come by any: what waits is bounded by the port with the fewest frames.
        let least = ports.iter().min_by_key(|(_, memory)| memory.frames());
        // reason: there is an interface, so there is a port.
        let (facts, memory) = least.expect("a stack has a port");
        Ok(Self {
            now: 0,
            is_shared: settings.lane.1 > 1,
            links: LinkGauges::of(&trunks, &interfaces),
            interfaces,
            trunks,
            routes: Routes::new(settings)?,
            sockets: Sockets::new(all / 2),
            ports: Ports::new(settings.lane),
            fragments: Fragments::new(settings, memory, facts.frame_bytes_max)?,
            tunnels: Opened::of(settings)?,
            forwarding: Forwarding::new(settings),
            judging: Judging::new(settings),
            relay: Relay::new(settings)?,
            translation: Translation::new(settings)?,
            pen: Pen::new(settings.hasher.clone(), settings.lane, settings.secret),
            bounds: Bounds::new(settings.secret, settings.interfaces.len(), settings.lane.1),
        })
    }

    /// The time from now on.
    pub fn set_now(&mut self, now: u64) {
        self.now = now;
    }

    /// A port's trunk, and the time.
    pub fn trunk(&mut self, port: usize) -> (&mut Trunk, u64) {
        (&mut self.trunks[port], self.now)
    }

    /// All interfaces.
    pub fn interfaces(&self) -> &Interfaces {
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

    /// Own addresses and ways, to be changed: what fast paths know of ways holds no more.
    pub fn routes_mut(&mut self) -> &mut Routes {
        self.trunks.iter().filter_map(Trunk::offload).for_each(Offload::unlearn);
        &mut self.routes
    }

    /// What was forwarded at an interface.
    pub fn traffic(&self, interface: usize) -> Option<Traffic> {
        self.forwarding.traffic(interface)
    }

    /// Other rules are in force from now on.
    pub fn set_rules(&mut self, rules: Arc<RuleSet>) {
        self.judging.set_rules(rules);
        self.forwarding.turn_on();
    }

    /// What somebody from outside sees of the lane.
    pub fn view(&self, beside: &Beside) -> View<'_> {
        let Self { now, interfaces, trunks, routes, forwarding, judging, translation, .. } = self;
        let (lane, losses) = (beside.placing.lane(), self.losses(&beside.tally));
        View { lane, now: *now, interfaces, trunks, routes, forwarding, losses, judging, translation: translation.as_ref() }
    }

    /// What went no further at each interface. What a port has lost by itself is told at its interface without tags.
    fn losses(&self, tally: &Tally) -> Vec<Losses> {
        let mut losses = tally.losses().to_vec();
        for trunk in &self.trunks {
            let first = &mut losses[trunk.interfaces()[0]];
            *first = first.with_port(trunk.lost());
        }
        losses
    }

    /// Carries out what was told, up to the part of it that a part of a turn may take.
    pub fn carry_out(&mut self, beside: &mut Beside) {
        while let Some(order) = beside.orders.take() {
            beside.tally.note();
            match order {
                Order::Rules(rules) => self.set_rules(rules),
                Order::ZeroRules(rules) => self.judging.zero(&rules),
                Order::ResetLog(rules) => self.judging.reset_log(&rules),
                Order::Routes(changes, from) => {
                    let to = changes.len().min(from + CHANGES_EACH);
                    self.change_routes(&changes[from..to], beside);
                    if to < changes.len() {
                        return beside.orders.put_back(Order::Routes(changes, to));
                    }
                }
                Order::Look(looker) => {
                    let now = self.now;
                    self.translation.iter_mut().for_each(|translation| translation.expire(now));
                    looker.look(&self.view(beside));
                }
                Order::Noted(note) => beside.orders.note(note),
            }
        }
    }

    /// Changes routes; of those that cannot be, the first is told.
    fn change_routes(&mut self, changes: &[RouteChange], beside: &mut Beside) {
        let (mut refused, routes) = (Vec::new(), self.routes_mut());
        for change in changes {
            match change {
                RouteChange::Add(route) => refused.extend(routes.add(route).err()),
                RouteChange::Delete { destination, bits, router } => {
                    let _was_there = routes.delete(*destination, *bits, *router);
                }
            }
        }
        if let Some(first) = refused.first() {
            let text = format!("{} changes of routes were refused, the first because {first}", refused.len());
            beside.tell(std::iter::once(Record::new(Level::Warn, text)));
        }
    }

    /// The sockets.
    pub fn sockets(&self) -> &Sockets {
        &self.sockets
    }

    /// The same, to be asked for something.
    pub fn sockets_mut(&mut self) -> &mut Sockets {
        &mut self.sockets
    }

    /// What it takes to send, the sockets, and the translation.
    fn outward<'a>(&'a mut self, beside: &'a mut Beside) -> (Outward<'a>, &'a mut Sockets, Option<&'a mut Translation>) {
        let Self { now, is_shared, interfaces, trunks, routes, pen, bounds, judging, sockets, translation, .. } = self;
        let Beside { tally, words, .. } = beside;
        tally.look_at(0);
        let out = Outward { now: *now, is_shared: *is_shared, routes, interfaces, trunks, pen, bounds, judging, tally, words };
        (out, sockets, translation.as_mut())
    }

    /// All that a packet may meet.
    pub fn round<'a>(&'a mut self, beside: &'a mut Beside) -> Round<'a> {
        let Self {
            now,
            is_shared,
            interfaces,
            trunks,
            routes,
            sockets,
            ports,
            fragments,
            tunnels,
            pen,
            bounds,
            judging,
            forwarding,
            translation,
            relay,
            ..
        } = self;
        let Beside { placing, channels, tally, spare, words, .. } = beside;
        let out = Outward { now: *now, is_shared: *is_shared, routes, interfaces, trunks, pen, bounds, judging, tally, words };
        Round::new(
            out,
            sockets,
            ports,
            fragments,
            (tunnels, forwarding),
            (translation.as_mut(), relay),
            (placing, channels, spare),
        )
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
        let (mut out, sockets, _) = self.outward(beside);
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
        let (mut out, sockets, _) = self.outward(beside);
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
    pub fn due(&mut self, beside: &Beside) -> Option<u64> {
        if beside.is_broken() {
            return None;
        }
        let interfaces = self.interfaces.due();
        self.fragments.due().into_iter().chain(interfaces).chain(beside.looks_out_at()).min()
    }

    /// Does what is due.
    pub fn expire(&mut self, beside: &mut Beside) {
        let now = self.now;
        if self.due(beside).is_none_or(|due| due > now) {
            return;
        }
        self.round(beside).expire_fragments();
        // What has something to do has not for this time any more, once it was done.
        for _ in 0..self.interfaces.len() {
            let Some(interface) = self.interfaces.next_due(now) else { break };
            let (mut out, _, mut translation) = self.outward(beside);
            let mut lost = Vec::new();
            while let Some(ip) = out.interfaces[interface].neighbours_mut().next_due(now, &mut lost) {
                out.ask(interface, ip);
            }
            out.tally.unsent_at(interface, Drop::Neighbour, lost.len() as u64);
            // Of a packet the first frame says whose it is.
            Frame::packets(&lost).for_each(|packet| forwarding::tell_lost(&mut out, translation.as_deref_mut(), &packet[0]));
            reports::answer_query(&mut out, interface);
            if let Some(said) = out.interfaces[interface].take_advertisement(now) {
                out.advertise_router(interface, said);
            }
            while let Some(said) = out.interfaces[interface].next_said(now) {
                discovery::say(&mut out, interface, said);
            }
        }
        beside.looks_out(now);
    }

    /// What has changed of the interfaces: listeners are told of where addresses are introduced from now on, and the operator of what he is to hear.
    pub fn note_changes(&mut self, beside: &mut Beside) {
        let mut has_news = false;
        for port in 0..self.trunks.len() {
            has_news |= self.trunks[port].takes_news();
            if let Some(line) = self.trunks[port].take_new_line() {
                for place in 0..self.trunks[port].interfaces().len() {
                    let number = self.trunks[port].interfaces()[place];
                    self.interfaces[number].follow(self.now, &line);
                }
            }
            if !beside.is_broken() {
                beside.tell(self.trunks[port].take_record().into_iter());
            }
        }
        while let Some((number, interface)) = self.interfaces.next_touched() {
            has_news |= interface.takes_news();
            if !beside.is_broken() {
                beside.tell(interface.take_records());
            }
            if interface.takes_coming_up() {
                reports::report_groups(&mut self.outward(beside).0, number, true);
            }
        }
        while !beside.is_broken() && beside.has_room_for_records() {
            let Some(line) = self.judging.take_line() else { break };
            beside.tell(std::iter::once(line));
        }
        if has_news {
            beside.tally.note();
            self.links = LinkGauges::of(&self.trunks, &self.interfaces);
        }
    }

    /// What the work is to know at the end of the driver's part of a turn.
    pub fn note_to(&self, beside: &mut Beside, gates: &[Gate], sends: u64) {
        let waits = self.sockets.blocked() > 0 || self.trunks.iter().any(|trunk| trunk.outgoing() > 0);
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
        let (fragments, fragments_waiting) = self.fragments.counts();
        Gauges { fragments: *fragments, fragments_waiting, links: self.links }
    }
}
