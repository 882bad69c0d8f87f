//! How idle connections go from one lane to another: packed here, opened again there, or back here where they find no place.
//!
//! All of it happens in the call in which a lane hears what it was told, with the driver at hand: so a connection is on this lane, on its way, or on the other one, and nothing can happen to it in
//! between. On its way it is a word to the other lane. Where nobody hears that, or the other lane has no place, it comes back; and where that fails, too, it ends with an error that its
//! service is told.

use crate::connection::packed::{Belongings, Label, Packed, PackedSession, PackedTransform};
use crate::places::steering::Move;
use crate::services::Services;
use crate::services::served::Served;
use crate::state::accounts::PeerKey;
use crate::table::LaneTable;
use crate::words::error::Error;
use crate::words::names::{Ending, Peer};
use crate::words::stays::Stays;
use crate::words::transform::Transform;
use corelane_lane::{Fenced, Kit, fenced};
use corelane_seam::{Detached, Driver, Fault, Reason};
use corelane_watch::ServiceCounter;
use std::any::Any;

/// What became of one that has arrived.
enum Arrival {
    /// It is here.
    Here,
    /// It found no place, for this reason.
    Refused(Fault, Box<Packed>),
    /// It has ended.
    Ended,
}

impl Services {
    /// Sends idle connections to another lane, those that are chosen, until as many are on their way as may be.
    ///
    /// # Errors
    /// [`Error::Draining`]; [`Error::NoSuchLane`]. Then all stay.
    pub(crate) fn send_away(&mut self, kit: &mut Kit, driver: &mut dyn Driver, mut which: Move) -> Result<(), Error> {
        if self.served.table.is_draining() {
            return Err(Error::Draining);
        }
        if which.to >= kit.lanes() || which.to == kit.lane() {
            return Err(Error::NoSuchLane { lane: which.to });
        }
        for index in self.served.table.connections.indices().collect::<Vec<_>>() {
            // Another may have come to this place, or back to it, meanwhile.
            let Some(found) = self.served.table.at(index) else { continue };
            let (service, peer) = (found.connection.service(), found.connection.ends());
            if !(which.choose)(peer) {
                continue;
            }
            let peer = peer.clone();
            match self.send_one(kit, driver, index, which.to) {
                Ok(()) => self.fill_place(kit, service),
                Err(why) => {
                    (which.stays)(&peer, why);
                    if why.is_for_all() {
                        break;
                    }
                    self.served.table.count(service, ServiceCounter::MovesRefused, 1);
                }
            }
        }
        Ok(())
    }

    fn send_one(&mut self, kit: &mut Kit, driver: &mut dyn Driver, index: u32, to: usize) -> Result<(), Stays> {
        if let Some(why) = self.served.table.stays(kit, index) {
            return Err(why);
        }
        let belongings = self.served.pack(kit, index)?;
        // Its service has been called.
        if !self.served.table.is_plain(index) {
            self.served.unpack_again(kit, index, belongings);
            return Err(Stays::Busy);
        }
        // reason: what is open has a socket.
        let socket = self.served.table.there(index).connection.socket().expect("what is open has a socket");
        match driver.detach(socket) {
            Err(fault) => {
                self.served.unpack_again(kit, index, belongings);
                Err(if fault.reason == Reason::UnderWay { Stays::Busy } else { Stays::System(fault) })
            }
            Ok(detached) => {
                let label = self.label(kit, index);
                self.put_on_way(kit, driver, to, Box::new(Packed::new(detached, belongings, label)));
                Ok(())
            }
        }
    }

    /// Takes a connection out of the lane's accounts; what must be known of it elsewhere.
    fn label(&mut self, kit: &mut Kit, index: u32) -> Label {
        let (from, handed_over) = (kit.lane(), self.served.table.is_handed_over());
        let service = self.served.table.there(index).connection.service();
        let departed = self.served.table.depart(kit, index);
        self.served.table.count(service, ServiceCounter::MovesAway, 1);
        Label::new(service, departed, handed_over, from, self.steering.begin_journey(from))
    }

    fn put_on_way(&mut self, kit: &mut Kit, driver: &mut dyn Driver, to: usize, packed: Box<Packed>) {
        if let Err(mut packed) = self.steering.send(to, packed) {
            // Nobody hears there.
            let from = packed.turn_back();
            assert!(from.is_some(), "what is put on its way was not before");
            self.arrive(kit, driver, packed);
        }
    }

    /// A connection has come from another lane, or back.
    pub(crate) fn arrive(&mut self, kit: &mut Kit, driver: &mut dyn Driver, packed: Box<Packed>) {
        let service = packed.service();
        match self.take_in(kit, driver, packed) {
            Arrival::Here => self.served.table.count(service, ServiceCounter::MovesHere, 1),
            Arrival::Refused(fault, packed) => self.turn_back(kit, fault, packed),
            Arrival::Ended => self.served.table.count_lost(service),
        }
    }

    fn take_in(&mut self, kit: &mut Kit, driver: &mut dyn Driver, packed: Box<Packed>) -> Arrival {
        // One that comes back had its place, of which nobody knows whether it is taken: so it has one more.
        if !(packed.returns() || self.served.table.has_place(packed.service(), packed.ends())) {
            return Arrival::Refused(Fault::of(Reason::Busy), packed);
        }
        let index = self.served.table.admit_arrived(kit, &packed);
        let (detached, Belongings { session, transform }, label) = packed.open();
        match self.served.unpack(kit, index, session.into_inner()) {
            Ok(()) => {}
            Err(session) if session.is_none() || !self.served.table.is_plain(index) => {
                drop((detached, transform));
                self.served.table.discard(kit, label.service(), session);
                self.end_unsettled(kit, index, Fault::of(Reason::Other));
                return Arrival::Ended;
            }
            Err(session) => {
                // reason: asked just now.
                let session = session.expect("a session is there that is not none");
                self.served.table.depart(kit, index);
                let belongings = Belongings { session: Fenced::new(session), transform };
                return Arrival::Refused(Fault::of(Reason::Unsupported), Box::new(Packed::new(detached, belongings, label)));
            }
        }
        match driver.adopt(detached) {
            Err((fault, detached)) => self.pack_again(kit, index, fault, (detached, transform, label)),
            Ok(socket) => {
                let transform = transform.map(|transform| transform.into_inner() as Box<dyn Transform>);
                self.served.table.there(index).connection.settle(socket, transform);
                self.served.table.there(index).mark_dirty();
                self.settle_in(kit, driver, index, label.was_handed_over());
                label.end_journey();
                Arrival::Here
            }
        }
    }

    /// What a connection has missed on its way.
    fn settle_in(&mut self, kit: &mut Kit, driver: &mut dyn Driver, index: u32, was_handed_over: bool) {
        if self.served.table.is_handed_over() && !was_handed_over {
            self.served.tell_handed_over(kit, index);
        }
        if self.drain_is_over {
            self.served.table.there(index).count(ServiceCounter::DrainDeadlineHits, 1);
            self.served.end(kit, index, Ending::Aborted);
        } else if self.served.table.is_draining() {
            self.served.drain_connection(kit, driver, index);
        }
    }

    /// The system has no place for it here. Its service packs it once more; what it does not pack ends.
    fn pack_again(
        &mut self,
        kit: &mut Kit,
        index: u32,
        fault: Fault,
        (detached, transform, label): (Detached, Option<PackedTransform>, Label),
    ) -> Arrival {
        let session = self.served.pack_session(kit, index);
        match session {
            Ok(session) if self.served.table.is_plain(index) => {
                self.served.table.depart(kit, index);
                let belongings = Belongings { session, transform };
                Arrival::Refused(fault, Box::new(Packed::new(detached, belongings, label)))
            }
            session => {
                drop((detached, transform));
                // Its end is told to whom it belongs.
                session.into_iter().for_each(|session| self.served.unpack_own(kit, index, session));
                self.end_unsettled(kit, index, fault);
                Arrival::Ended
            }
        }
    }

    /// It found no place here: it goes back to the lane that it has left, and ends if it comes from there, or nobody hears there.
    fn turn_back(&mut self, kit: &mut Kit, fault: Fault, mut packed: Box<Packed>) {
        self.served.table.count(packed.service(), ServiceCounter::MovesRefused, 1);
        let Some(from) = packed.turn_back() else { return self.conclude(kit, fault, packed) };
        if let Err(packed) = self.steering.send(from, packed) {
            self.conclude(kit, fault, packed);
        }
    }

    /// It found a place nowhere: its service is told of its end.
    fn conclude(&mut self, kit: &mut Kit, fault: Fault, packed: Box<Packed>) {
        let index = self.served.table.admit_arrived(kit, &packed);
        let (detached, Belongings { session, transform }, label) = packed.open();
        drop((detached, transform));
        if let Err(Some(session)) = self.served.unpack(kit, index, session.into_inner()) {
            self.served.table.discard(kit, label.service(), session);
        }
        self.end_unsettled(kit, index, fault);
        self.served.table.count_lost(label.service());
    }

    /// Ends a connection that has no socket here.
    fn end_unsettled(&mut self, kit: &mut Kit, index: u32, fault: Fault) {
        self.served.end_by_fault(kit, index, fault);
        self.socket_closed(kit, index);
    }
}

impl Served {
    /// Makes plain data of what users gave for a connection.
    fn pack(&mut self, kit: &mut Kit, index: u32) -> Result<Belongings, Stays> {
        let session = self.pack_session(kit, index)?;
        match self.pack_transform(kit, index) {
            Ok(transform) => Ok(Belongings { session, transform }),
            Err(is_there) => {
                self.unpack_own(kit, index, session);
                if !is_there {
                    self.end(kit, index, Ending::Aborted);
                }
                Err(Stays::Transform)
            }
        }
    }

    fn pack_session(&mut self, kit: &mut Kit, index: u32) -> Result<PackedSession, Stays> {
        // reason: asked by the callers.
        let session = self.table.there(index).connection.take_session().expect("what is open has a session");
        match self.connection_call(kit, index, |face, cx| face.pack(cx, session)) {
            Some(Ok(session)) => Ok(Fenced::new(session)),
            Some(Err(place)) => {
                self.table.there(index).connection.place_session(Some(place));
                Err(Stays::Service)
            }
            None => {
                // It went with the panic.
                self.end_if_open(kit, index);
                Err(Stays::Service)
            }
        }
    }

    /// The error says whether the transform is still there.
    fn pack_transform(&mut self, kit: &mut Kit, index: u32) -> Result<Option<PackedTransform>, bool> {
        let Some(transform) = self.table.there(index).connection.take_transform() else { return Ok(None) };
        match fenced(|| transform.pack()) {
            Ok(Ok(transform)) => Ok(Some(Fenced::new(transform))),
            Ok(Err(transform)) => {
                self.table.there(index).connection.keep_transform(transform);
                Err(true)
            }
            Err(words) => {
                let about = self.table.there(index).begin_about();
                self.table.report_panic_of(kit, &about, &words);
                Err(false)
            }
        }
    }

    /// Gives a connection its session again; the error has it, unless it went with a panic.
    fn unpack(&mut self, kit: &mut Kit, index: u32, session: Box<dyn Any + Send>) -> Result<(), Option<Box<dyn Any + Send>>> {
        match self.connection_call(kit, index, |face, cx| face.unpack(cx, session)) {
            Some(Ok(place)) => {
                self.table.there(index).connection.place_session(Some(place));
                Ok(())
            }
            Some(Err(session)) => Err(Some(session)),
            None => Err(None),
        }
    }

    /// The connection stays: it gets back what was packed.
    fn unpack_again(&mut self, kit: &mut Kit, index: u32, Belongings { session, transform }: Belongings) {
        if let Some(transform) = transform {
            self.table.there(index).connection.keep_transform(transform.into_inner());
        }
        self.unpack_own(kit, index, session);
    }

    /// The same of its session. A service that does not know what it has packed itself has lost the connection.
    fn unpack_own(&mut self, kit: &mut Kit, index: u32, session: PackedSession) {
        if let Err(session) = self.unpack(kit, index, session.into_inner()) {
            let service = self.table.there(index).connection.service();
            self.table.discard(kit, service, session);
            self.end_if_open(kit, index);
        }
    }

    /// Breaks a connection off whose session is lost, if it has a socket.
    fn end_if_open(&mut self, kit: &mut Kit, index: u32) {
        if self.table.there(index).connection.socket().is_some() {
            self.end(kit, index, Ending::Aborted);
        }
    }
}

impl LaneTable {
    /// Why a connection cannot leave now.
    fn stays(&mut self, kit: &Kit, index: u32) -> Option<Stays> {
        let why = self.there(index).stays(&kit.arena);
        why.or_else(|| (!self.is_plain(index)).then_some(Stays::Busy))
    }

    /// Whether nothing was noted for a connection that would be lost with its name.
    fn is_plain(&mut self, index: u32) -> bool {
        let found = self.there(index);
        let (id, is_unmarked) = (found.id, found.is_unmarked());
        is_unmarked && !self.notices.are_for(id)
    }

    /// One has come, and has ended at once.
    fn count_lost(&self, service: u16) {
        self.count(service, ServiceCounter::MovesHere, 1);
        self.count(service, ServiceCounter::MovesLost, 1);
    }

    fn depart(&mut self, kit: &mut Kit, index: u32) -> (Peer, u64) {
        let LaneTable { connections, services, agenda, .. } = self;
        connections.depart(services, agenda, index, kit)
    }

    /// Whether a connection of another lane may have a place: as if it had been accepted here.
    fn has_place(&self, service: u16, peer: &Peer) -> bool {
        let LaneTable { connections, services, agenda, .. } = self;
        let Some(state) = services.get(usize::from(service)) else { return false };
        let is_full = connections.peer_is_full(state, agenda, PeerKey::of(&peer.address));
        connections.has_room(state) && !is_full
    }

    /// Enters a connection that has arrived, which has neither session nor socket yet.
    fn admit_arrived(&mut self, kit: &Kit, packed: &Packed) -> u32 {
        let LaneTable { connections, services, agenda, .. } = self;
        // Lanes share no counts, and those of this lane share theirs.
        let connection = packed.entry(|local| services[usize::from(packed.service())].local(local));
        connections.readmit(services, agenda, connection, &kit.arena)
    }
}
