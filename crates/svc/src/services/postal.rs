//! The post of all services of a lane, once a turn: what has come is told to them, one call each, and what they said goes on its way.

use crate::post::Mail;
use crate::services::served::Served;
use corelane_lane::Kit;
use corelane_watch::ServiceCounter;

impl Served {
    /// Takes what has come, at most so much of each other lane, and tells it to the services; returns how much was taken. What they say to
    /// themselves meanwhile waits for the next turn.
    pub(crate) fn serve_post(&mut self, kit: &mut Kit, at_most: usize) -> usize {
        let mut taken = 0;
        for place in 0..self.talking.len() {
            let service = self.talking[place];
            taken += self.mail(service).gather(kit, at_most);
            for _ in 0..self.mail(service).arrived() {
                self.service_call(kit, service, |face, cx| face.hear(cx));
            }
            self.settle_dropped_calls(kit, service);
            self.table.tell_bursts(kit, service);
        }
        taken
    }

    fn mail(&mut self, service: u16) -> &mut dyn Mail {
        self.faces[service as usize].any_mut().mail_mut()
    }

    fn settle_dropped_calls(&mut self, kit: &mut Kit, service: u16) {
        let dropped = self.mail(service).settle_dropped(kit);
        self.table.count(service, ServiceCounter::CallsDropped, dropped);
    }

    /// Whether a service is to be told something in any case.
    pub(crate) fn post_has_work(&self) -> bool {
        self.talking.iter().any(|&service| self.faces[service as usize].any().mail().has_work())
    }

    /// Whether no service waits for an outcome, or owes one.
    pub(crate) fn post_is_quiet(&self) -> bool {
        self.talking.iter().all(|&service| self.faces[service as usize].any().mail().is_quiet())
    }

    /// The lane ends: its services are told what has come, which questions have no answer, and then that the lane ends.
    pub(crate) fn end_post(&mut self, kit: &mut Kit) {
        for service in 0..self.faces.len() as u16 {
            self.mail(service).close();
            while self.mail(service).arrived() > 0 {
                self.service_call(kit, service, |face, cx| face.hear(cx));
            }
            self.service_call(kit, service, |face, cx| face.ending(cx));
            self.table.tell_bursts(kit, service);
        }
    }
}
