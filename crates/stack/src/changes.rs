//! What changes of the interface while packets come and go: the lane's stack follows, and one of them says so to the operator and to the link.

use crate::draft::Draft;
use crate::path::Path;
use crate::presence::{Say, Told};
use crate::settings::{FRAME_BYTES_LEAST, V6_BYTES_LEAST};
use corelane_seam::{Code, Level, PortFacts, PortState, Record};
use corelane_wire::packet::ethernet::{self, Mac};

/// The codes of docs/messages.md, where a test of the facade looks for them.
const PORT_DOWN: Code = Code::new("CL-0026");
const QUEUES_UNSERVED: Code = Code::new("CL-0028");
const ADDRESS_CONFLICT: Code = Code::new("CL-0032");
const PACKETS_SHORT: Code = Code::new("CL-0033");
/// Records that wait to be told, at the most; what is more is left out.
const RECORDS_MAX: usize = 64;

impl Path {
    /// Notes what the port says of itself by now.
    pub fn note_facts(&mut self, facts: &PortFacts) {
        let mac = Mac(facts.link.mac);
        if self.mac != mac {
            self.mac = mac;
            self.tell(Told::Change(format!("interface {} has the link address {mac} now", self.interface)));
            if let Some(presence) = &mut self.presence {
                presence.announce(self.now);
            }
        }
        if self.link_bytes != facts.frame_bytes_max {
            self.link_bytes = facts.frame_bytes_max;
            self.packet_bytes = self.link_bytes.min(Draft::bytes_max(&self.memory, self.pieces_max)).max(FRAME_BYTES_LEAST);
            self.is_untold = true;
            self.tell(self.told_of_length());
        }
    }

    /// The interface's MTU where that is less than the addresses of IPv6 ask for, as the lane says that speaks for the interface.
    pub fn mtu_short(&self) -> Option<usize> {
        let mtu = self.link_bytes - ethernet::Header::BYTES;
        let speaks = self.presence.is_some() && self.routes.own_v6().next().is_some();
        (speaks && mtu < V6_BYTES_LEAST).then_some(mtu)
    }

    fn told_of_length(&self) -> Told {
        let (interface, mtu) = (&self.interface, self.link_bytes - ethernet::Header::BYTES);
        match self.mtu_short() {
            Some(_) => Told::Short(format!(
                "interface {interface} has an MTU of {mtu} now, and IPv6 asks for 1280, so packets of IPv6 are lost: raise it (ip link set {interface} mtu 1500)"
            )),
            None => Told::Change(format!("interface {interface} has an MTU of {mtu} now")),
        }
    }

    /// Notes whether packets can come and go, as errors say it.
    pub fn note_port(&mut self, state: PortState) {
        self.port_state = state;
        self.note_state();
    }

    /// The same, as the port says it.
    pub fn note_link(&mut self, state: PortState) {
        self.link_state = state;
        self.note_state();
    }

    /// Takes both together: an error is believed first. One that is gone does not come back.
    fn note_state(&mut self) {
        let state = if self.port_state == PortState::Up { self.link_state } else { self.port_state };
        if self.state != state && self.state != PortState::Gone {
            self.state = state;
            self.is_untold = true;
        }
        self.introduce();
    }

    /// Begins to introduce the addresses, or ends it, where packets can leave now, or cannot any more.
    fn introduce(&mut self) {
        let leaves = self.is_open && matches!(self.state, PortState::Up | PortState::Unserved);
        let has_begun = self.presence.as_mut().is_some_and(|presence| presence.note(self.now, leaves));
        if has_begun {
            // Before anybody is asked (RFC 4862, section 5.4.2).
            self.report_groups(true);
        }
    }

    /// Says what is due of the addresses.
    pub fn speak(&mut self) {
        let now = self.now;
        self.is_untold |= self.presence.as_mut().is_some_and(|presence| presence.note_ready(now));
        while let Some((say, conflict)) = self.presence.as_mut().and_then(|presence| presence.next(self.now)) {
            self.say_of(say);
            if let Some(conflict) = conflict {
                self.tell(conflict.told(&self.interface));
            }
        }
    }

    /// Somebody says that he has an address of ours.
    pub fn contested(&mut self, address: std::net::IpAddr, mac: Mac) {
        let Some(presence) = &mut self.presence else { return };
        let (say, conflict) = presence.contest(self.now, address, mac);
        self.is_untold = true;
        if let Some(conflict) = conflict {
            self.tell(conflict.told(&self.interface));
        }
        say.into_iter().for_each(|say| self.say_of(say));
    }

    fn say_of(&mut self, say: Say) {
        self.is_untold = true;
        match say {
            Say::Probe(address) => self.probe(address),
            Say::Announce(address) => self.announce(address),
        }
    }

    /// Has the operator told, by the lane that speaks for the interface.
    fn tell(&mut self, told: Told) {
        if self.presence.is_none() || self.records.len() >= RECORDS_MAX {
            return;
        }
        self.records.push(match told {
            Told::Conflict(words) => Record::new(Level::Warn, words).with_code(ADDRESS_CONFLICT),
            Told::Short(words) => Record::new(Level::Warn, words).with_code(PACKETS_SHORT),
            Told::Change(words) => Record::new(Level::Warn, words),
        });
    }

    /// What the operator is to hear of the port, if that has changed since this was asked last.
    pub fn take_port_record(&mut self) -> Option<Record> {
        let (before, state) = (std::mem::replace(&mut self.state_told, self.state), self.state);
        let interface = &self.interface;
        let code = match state {
            // The first lane says it for all.
            _ if state == before || self.lane.0 > 0 => return None,
            PortState::Up => return Some(Record::new(Level::Warn, format!("interface {interface} is up again"))),
            PortState::Unserved => QUEUES_UNSERVED,
            _ => PORT_DOWN,
        };
        let words = format!("interface {interface} is {}: {}", state.word(), state.remedy().replace("INTERFACE", interface));
        Some(Record::new(Level::Warn, words).with_code(code))
    }
}
