//! The fence around every call into a service, and around the end of every value that its users gave: a panic ends the connection
//! it was for, never the lane.

use crate::port::Port;
use crate::services::Services;
use corelane_lane::Kit;
pub(crate) use corelane_lane::fenced;
use std::any::Any;

impl Services {
    /// Drops what a user of `service` gave. A panic of its drop is counted and reported as one in a call.
    pub(crate) fn discard<T>(&mut self, kit: &mut Kit, service: u16, value: T) {
        if let Err(words) = fenced(|| drop(value)) {
            self.report_panic(kit, service, None, &words);
        }
    }

    /// Drops all that users gave to this lane, one by one.
    pub(crate) fn discard_all(&mut self, kit: &mut Kit) {
        for (service, value) in self.take_all() {
            self.discard(kit, service, value);
        }
    }

    /// Everything that users gave, each thing with its service; no call into a service is possible afterwards.
    fn take_all(&mut self) -> Vec<(u16, Box<dyn Any>)> {
        let mut all: Vec<(u16, Box<dyn Any>)> = Vec::new();
        self.table.notices.clear();
        for (service, port) in (0..).zip(&mut self.ports) {
            all.extend(port.any().mail().take_all().into_iter().map(|letter| (service, letter)));
        }
        for index in self.table.connections.indices().collect::<Vec<_>>() {
            let Some(connection) = self.table.connections.at(index) else { continue };
            let service = connection.service;
            all.extend(connection.session_to_be.take().map(|session| (service, session)));
            all.extend(connection.transform.take().map(|transform| (service, Box::new(transform) as Box<dyn Any>)));
        }
        self.talking.clear();
        for (service, mut port) in (0..).zip(self.ports.drain(..)) {
            if let Port::Stream(port) = &mut port {
                all.extend(port.take_sessions().into_iter().map(|session| (service, session)));
            }
            all.push((service, Box::new(port)));
        }
        all
    }
}

impl Drop for Services {
    /// Where the lane did not come to its end by itself, there is nobody to be told.
    fn drop(&mut self) {
        for (_, value) in self.take_all() {
            let _ = fenced(|| drop(value));
        }
    }
}
