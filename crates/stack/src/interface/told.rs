//! What changes of an interface while packets come and go: the lane's stack follows, and one of them says so to the operator and to the link.

use super::Interface;
use super::condition::Condition;
use super::presence::{Conflict, Presence, PresenceNews, Say};
use crate::draft::Draft;
use crate::settings::{FRAME_BYTES_LEAST, V6_BYTES_LEAST};
use corelane_seam::{Code, Level, Lost, PortFacts, PortState, Record};
use corelane_wire::packet::ethernet::{self, Mac};
use std::net::IpAddr;

/// The codes of docs/messages.md, where a test of the facade looks for them.
const PORT_DOWN: Code = Code::new("CL-0026");
const QUEUES_UNSERVED: Code = Code::new("CL-0028");
const ADDRESS_CONFLICT: Code = Code::new("CL-0032");
const PACKETS_SHORT: Code = Code::new("CL-0033");
/// Records that wait to be told, at the most; what is more is left out.
const RECORDS_MAX: usize = 64;

impl Interface {
    /// Whether packets can come and go.
    pub const fn state(&self) -> PortState {
        self.condition.state
    }

    /// Notes what was lost at the port.
    pub fn note_lost(&mut self, lost: Lost) {
        if self.condition.lost != lost {
            self.condition.lost = lost;
            self.condition.is_new = true;
        }
    }

    /// Notes what the port says of itself by now.
    pub fn note_facts(&mut self, now: u64, facts: &PortFacts) {
        let mac = Mac(facts.link.mac);
        if self.mac != mac {
            self.mac = mac;
            self.tell(PresenceNews::Change(format!("interface {} has the link address {mac} now", self.name)));
            if let Some(presence) = &mut self.presence {
                presence.announce(now);
            }
        }
        if self.link_bytes != facts.frame_bytes_max {
            self.link_bytes = facts.frame_bytes_max;
            self.packet_bytes = self.link_bytes.min(Draft::bytes_max(&self.memory, self.pieces_max)).max(FRAME_BYTES_LEAST);
            self.condition.is_new = true;
            self.tell(self.told_of_length());
        }
    }

    /// The interface's MTU where that is less than the addresses of IPv6 ask for, as the lane says that speaks for the interface.
    pub fn mtu_short(&self) -> Option<usize> {
        let mtu = self.link_bytes - ethernet::Header::BYTES;
        let speaks = self.presence.is_some() && self.own_v6().next().is_some();
        (speaks && mtu < V6_BYTES_LEAST).then_some(mtu)
    }

    fn told_of_length(&self) -> PresenceNews {
        let (interface, mtu) = (&self.name, self.link_bytes - ethernet::Header::BYTES);
        match self.mtu_short() {
            Some(_) => PresenceNews::Short(format!(
                "interface {interface} has an MTU of {mtu} now, and IPv6 asks for 1280, so packets of IPv6 are lost: raise it (ip link set {interface} mtu 1500)"
            )),
            None => PresenceNews::Change(format!("interface {interface} has an MTU of {mtu} now")),
        }
    }

    /// Notes whether packets can come and go, as errors say it.
    pub fn note_errors(&mut self, now: u64, state: PortState) {
        self.condition.of_errors = state;
        self.note_state(now);
    }

    /// The same, as the port says it, which is open or not.
    pub fn note_port(&mut self, now: u64, state: PortState, is_open: bool) {
        (self.condition.of_port, self.condition.is_open) = (state, is_open);
        self.note_state(now);
    }

    /// Takes both together: an error is believed first. One that is gone does not come back. Begins to introduce the addresses, or ends it, where packets can
    /// leave now, or cannot any more.
    fn note_state(&mut self, now: u64) {
        let Condition { of_errors, of_port, state: before, .. } = self.condition;
        let state = if of_errors == PortState::Up { of_port } else { of_errors };
        if before != state && before != PortState::Gone {
            self.condition.state = state;
            self.condition.is_new = true;
        }
        let leaves = self.condition.is_open && matches!(self.condition.state, PortState::Up | PortState::Unserved);
        self.condition.has_come_up |= self.presence.as_mut().is_some_and(|presence| presence.note(now, leaves));
    }

    /// Whether the addresses are introduced from now on: before anybody is asked for them, listeners are told of (RFC 4862, section 5.4.2).
    pub fn takes_coming_up(&mut self) -> bool {
        std::mem::take(&mut self.condition.has_come_up)
    }

    /// Whether the page is to say something else of it.
    pub fn takes_news(&mut self) -> bool {
        std::mem::take(&mut self.condition.is_new)
    }

    /// What is to be said next of the addresses.
    pub fn next_said(&mut self, now: u64) -> Option<Say> {
        let presence = self.presence.as_mut()?;
        self.condition.is_new |= presence.note_ready(now);
        let (say, conflict) = presence.next(now)?;
        self.condition.is_new = true;
        self.tell_of(conflict);
        Some(say)
    }

    /// Somebody says that he has an address of ours: what is said against it.
    pub fn contested(&mut self, now: u64, address: IpAddr, mac: Mac) -> Option<Say> {
        let (say, conflict) = self.presence.as_mut()?.contest(now, address, mac);
        self.condition.is_new = true;
        self.tell_of(conflict);
        say
    }

    /// How many addresses somebody else has, and how many of them keep the program from being ready.
    pub fn taken(&self) -> (u64, u64) {
        self.presence.as_ref().map_or((0, 0), |presence: &Presence| (presence.taken(), presence.unready()))
    }

    fn tell_of(&mut self, conflict: Option<Conflict>) {
        let told = conflict.map(|conflict| conflict.told(&self.name));
        told.into_iter().for_each(|told| self.tell(told));
    }

    /// Has the operator told, by the lane that speaks for the interface.
    fn tell(&mut self, told: PresenceNews) {
        if self.presence.is_none() || self.records.len() >= RECORDS_MAX {
            return;
        }
        self.records.push(match told {
            PresenceNews::Conflict(words) => Record::new(Level::Warn, words).with_code(ADDRESS_CONFLICT),
            PresenceNews::Short(words) => Record::new(Level::Warn, words).with_code(PACKETS_SHORT),
            PresenceNews::Change(words) => Record::new(Level::Warn, words),
        });
    }

    /// What the operator is to hear: of the port, if that has changed since this was asked last, then what else there is.
    pub fn take_records(&mut self) -> impl Iterator<Item = Record> {
        self.take_port_record().into_iter().chain(self.records.drain(..))
    }

    fn take_port_record(&mut self) -> Option<Record> {
        let state = self.condition.state;
        let (before, interface) = (std::mem::replace(&mut self.condition.told, state), &self.name);
        let code = match state {
            // The first lane says it for all.
            _ if state == before || !self.condition.is_first => return None,
            PortState::Up => return Some(Record::new(Level::Warn, format!("interface {interface} is up again"))),
            PortState::Unserved => QUEUES_UNSERVED,
            _ => PORT_DOWN,
        };
        let words = format!("interface {interface} is {}: {}", state.word(), state.remedy().replace("INTERFACE", interface));
        Some(Record::new(Level::Warn, words).with_code(code))
    }
}
