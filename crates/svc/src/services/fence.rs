//! The fence around every call into a service, and around the end of every value that its users gave: a panic ends the connection
//! it was for, never the lane.

use crate::connection::events::Met;
use crate::connection::found::About;
use crate::service::cx::Site;
use crate::service::face::{AnyFace, DatagramFace, Face, StreamFace};
use crate::services::served::Served;
use crate::table::LaneTable;
use crate::words::names::SocketId;
use corelane_lane::{Kit, OVERRAN, Overrun, fenced};
use corelane_seam::{Address, Level, Record};
use corelane_watch::ServiceCounter;
use std::any::Any;

impl Served {
    /// Calls into a service that is not about a connection, fenced.
    pub(crate) fn service_call(&mut self, kit: &mut Kit, service: u16, call: impl FnOnce(&mut dyn AnyFace, &mut Site<'_>)) {
        let face = self.faces[service as usize].any_mut();
        let before = kit.arena.pay_as(self.table.services[service as usize].payers.own);
        let began = kit.begin_call();
        let mut cx = Site::new(kit, &mut self.table, service, None);
        let called = fenced(|| call(face, &mut cx));
        kit.end_call(service, began);
        kit.arena.pay_as(before);
        if let Err(words) = called {
            self.table.report_panic(kit, service, None, &words);
        }
    }

    /// Calls the services that were nudged, each once.
    pub(crate) fn serve_nudges(&mut self, kit: &mut Kit) {
        for place in 0..self.table.nudges.begin() {
            let Some(service) = self.table.nudges.take(place) else { continue };
            self.service_call(kit, service, |face, cx| face.nudged(cx));
        }
    }

    /// Calls into the connection's service, fenced. None after a panic, which is counted and reported.
    pub(crate) fn connection_call<R>(
        &mut self,
        kit: &mut Kit,
        index: u32,
        call: impl FnOnce(&mut dyn StreamFace, &mut Site<'_>) -> R,
    ) -> Option<R> {
        let about = self.table.there(index).begin_about();
        self.fenced_call(kit, &about, call).0
    }

    /// The same for a connection that was looked up; returns as well what the service has met.
    pub(crate) fn fenced_call<R>(
        &mut self,
        kit: &mut Kit,
        about: &About,
        call: impl FnOnce(&mut dyn StreamFace, &mut Site<'_>) -> R,
    ) -> (Option<R>, Met) {
        // reason: only a service over connections has any.
        let face = self.faces[about.service as usize].stream().expect("a connection belongs to a service over connections");
        let before = about.begin_to_pay(kit);
        let began = kit.begin_call();
        let mut cx = Site::new(kit, &mut self.table, about.service, Some(about.id));
        let result = fenced(|| call(face, &mut cx));
        let met = cx.met;
        kit.end_call(about.service, began);
        let met = Met { refused: kit.arena.pay_no_longer(before), ..met };
        (result.map_err(|words| self.table.report_panic_of(kit, about, &words)).ok(), met)
    }

    /// Calls into a socket's service, fenced.
    pub(crate) fn socket_call(
        &mut self,
        kit: &mut Kit,
        service: u16,
        id: SocketId,
        call: impl FnOnce(&mut dyn DatagramFace, &mut Site<'_>),
    ) {
        let face = self.faces[service as usize].datagrams();
        // reason: only a service over datagrams has any.
        let face = face.expect("a datagram socket belongs to a service over datagrams");
        let before = kit.arena.pay_as(self.table.services[service as usize].payers.own);
        let began = kit.begin_call();
        let mut cx = Site::new(kit, &mut self.table, service, None).for_socket(id);
        let called = fenced(|| call(face, &mut cx));
        kit.end_call(service, began);
        kit.arena.pay_as(before);
        if let Err(words) = called {
            self.table.report_panic(kit, service, None, &words);
        }
    }

    /// Drops all that users gave to this lane, one by one.
    pub(crate) fn discard_all(&mut self, kit: &mut Kit) {
        for (service, value) in self.take_all() {
            self.table.discard(kit, service, value);
        }
    }

    /// Everything that users gave, each thing with its service; no call into a service is possible afterwards.
    fn take_all(&mut self) -> Vec<(u16, Box<dyn Any>)> {
        let mut all: Vec<(u16, Box<dyn Any>)> = Vec::new();
        self.table.notices.clear();
        self.talking.clear();
        for (service, face) in (0..).zip(&mut self.faces) {
            all.extend(face.any_mut().mail_mut().take_all().into_iter().map(|letter| (service, letter)));
        }
        for index in self.table.connections.indices().collect::<Vec<_>>() {
            let connection = self.table.connections.there(index);
            let service = connection.service();
            all.extend(connection.take_transform().map(|transform| (service, Box::new(transform) as Box<dyn Any>)));
            all.extend(self.table.connections.take_session(index).map(|session| (service, session)));
        }
        for (service, mut face) in (0..).zip(self.faces.drain(..)) {
            if let Face::Stream(face) = &mut face {
                all.extend(face.take_sessions().into_iter().map(|session| (service, session)));
            }
            all.push((service, Box::new(face)));
        }
        all
    }
}

impl LaneTable {
    /// [`Services::report_panic`] of a call for a connection.
    pub(crate) fn report_panic_of(&mut self, kit: &mut Kit, about: &About, words: &str) {
        let peer = self.there(about.id.index).connection.ends().address.clone();
        self.report_panic(kit, about.service, Some(&peer), words);
    }

    /// Counts a panic and tells the operator whose it was.
    pub(crate) fn report_panic(&self, kit: &mut Kit, service: u16, peer: Option<&Address>, words: &str) {
        self.count(service, ServiceCounter::Panics, 1);
        let lane = kit.lane();
        let whose = peer.map_or(String::new(), |peer| format!(", connection of {peer}"));
        let service = self.services[service as usize].shown(service);
        let words = format!("lane {lane}, {service}{whose}: a session panicked and was ended: {words}");
        kit.report_kind("panics", Record::new(Level::Warn, words).naming_lane(lane));
    }

    /// Counts and tells that a service had most of a turn that took too long while packets waited.
    pub(crate) fn tell_overrun(&self, kit: &mut Kit, Overrun { service, nanoseconds }: Overrun) {
        let state = &self.services[service as usize];
        state.row.add(ServiceCounter::TurnsLong, 1);
        state.row.add(ServiceCounter::InLongTurnsNanoseconds, nanoseconds);
        let service = state.shown(service);
        let words = format!("{service} took {:.1} ms in one turn while packets waited", nanoseconds as f64 / 1e6);
        kit.report_kind("long turns of services", Record::new(Level::Warn, words).with_code(OVERRAN));
    }

    /// Drops what a user of `service` gave. A panic of its drop is counted and reported as one in a call.
    pub(crate) fn discard<T>(&mut self, kit: &mut Kit, service: u16, value: T) {
        if let Err(words) = fenced(|| drop(value)) {
            self.report_panic(kit, service, None, &words);
        }
    }
}

impl Drop for Served {
    /// Where the lane did not come to its end by itself, there is nobody to be told.
    fn drop(&mut self) {
        for (_, value) in self.take_all() {
            let _ = fenced(|| drop(value));
        }
    }
}
