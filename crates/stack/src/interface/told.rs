//! What changes of an interface while packets come and go: the lane's stack follows, and one of them says so to the operator and to the link.

use super::Interface;
use super::presence::{Conflict, Presence, PresenceNews, Say};
use crate::settings::V6_BYTES_LEAST;
use crate::trunk::{Line, Tags};
use corelane_seam::{Code, Level, Record};
use corelane_wire::packet::ethernet::{self, Mac};
use std::net::IpAddr;

/// The codes of docs/messages.md, where a test of the facade looks for them.
const ADDRESS_CONFLICT: Code = Code::new("CL-0032");
const PACKETS_SHORT: Code = Code::new("CL-0033");
/// Records that wait to be told, at the most; what is more is left out.
const RECORDS_MAX: usize = 64;

impl Interface {
    /// Follows what has changed of its port. Begins to introduce the addresses, or ends it, where packets can leave now, or cannot any more. What is of all of the
    /// port's interfaces is told of that without tags.
    pub fn follow(&mut self, now: u64, line: &Line) {
        let (mac, is_told) = (line.mac, self.tags == Tags::None);
        if self.mac != mac {
            self.mac = mac;
            if is_told {
                self.tell(PresenceNews::Change(format!("interface {} has the link address {mac} now", self.name)));
            }
            if let Some(presence) = &mut self.presence {
                presence.announce(now);
            }
        }
        let link_bytes = self.carried(line.link_bytes);
        if self.link_bytes != link_bytes {
            (self.link_bytes, self.packet_bytes) = (link_bytes, self.carried(line.packet_bytes));
            if is_told || self.mtu_short().is_some() {
                self.tell(self.told_of_length());
            }
        }
        if let Some((_, advertiser)) = &mut self.router {
            advertiser.note(now, line.leaves);
        }
        self.has_come_up |= self.presence.as_mut().is_some_and(|presence| presence.note(now, line.leaves));
        self.is_new = true;
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

    /// Whether the addresses are introduced from now on: before anybody is asked for them, listeners are told of (RFC 4862, section 5.4.2).
    pub fn takes_coming_up(&mut self) -> bool {
        std::mem::take(&mut self.has_come_up)
    }

    /// Whether the page is to say something else of it.
    pub fn takes_news(&mut self) -> bool {
        std::mem::take(&mut self.is_new)
    }

    /// What is to be said next of the addresses.
    pub fn next_said(&mut self, now: u64) -> Option<Say> {
        let presence = self.presence.as_mut()?;
        self.is_new |= presence.note_ready(now);
        let (say, conflict) = presence.next(now)?;
        self.is_new = true;
        self.tell_of(conflict);
        Some(say)
    }

    /// Somebody says that he has an address of ours: what is said against it.
    pub fn contested(&mut self, now: u64, address: IpAddr, mac: Mac) -> Option<Say> {
        let (say, conflict) = self.presence.as_mut()?.contest(now, address, mac);
        self.is_new = true;
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

    /// What the operator is to hear of the addresses.
    pub fn take_records(&mut self) -> impl Iterator<Item = Record> {
        self.records.drain(..)
    }
}
