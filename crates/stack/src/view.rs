//! What somebody from outside sees of a lane's packet path, in one moment between two packets.

use crate::counts::Losses;
use crate::forwarding::{Forwarding, Traffic};
use crate::interfaces::Interfaces;
use crate::judging::Judging;
use crate::routes::Routes;
use crate::settings::{Error, Route};
use crate::translation::Translation;
use crate::trunk::Trunk;
use corelane_rules::{Records, RuleSet};
use corelane_wire::packet::ethernet::Mac;
use std::fmt::Debug;
use std::net::IpAddr;
use std::sync::Arc;

/// Somebody who looks ([`Policy::Look`](crate::Policy::Look)). He is called on the lane, in its turn: he takes what he wants and is quick about it.
pub trait Look: Debug + Send + Sync {
    /// Looks, once on each lane that was told.
    fn look(&self, view: &View<'_>);
}

/// What he sees.
pub struct View<'a> {
    /// The number of the lane.
    pub lane: usize,
    /// The lane's time, in nanoseconds: the clock of [`Count::last`](corelane_rules::Count::last).
    pub now: u64,
    pub(crate) interfaces: &'a Interfaces,
    pub(crate) routes: &'a Routes,
    pub(crate) forwarding: &'a Forwarding,
    pub(crate) losses: Vec<Losses>,
    pub(crate) trunks: &'a [Trunk],
    pub(crate) judging: &'a Judging,
    pub(crate) translation: Option<&'a Translation>,
}

impl<'a> View<'a> {
    /// The rules in force; none if none were ever given.
    #[must_use]
    pub fn rules(&self) -> Option<&'a Arc<RuleSet>> {
        self.judging.rules()
    }

    /// What packets have left behind of the rules: counters, states.
    #[must_use]
    pub fn records(&self) -> &'a Records {
        self.judging.records()
    }

    /// What was forwarded at each interface, by its number.
    #[must_use]
    pub fn traffic(&self) -> &'a [Traffic] {
        self.forwarding.all_traffic()
    }

    /// What went no further at each interface, by its number. What a port has lost by itself is among that of its interface without tags, and what it did not take.
    #[must_use]
    pub fn losses(&self) -> &[Losses] {
        &self.losses
    }

    /// The system's number of the port whose frames without tags are an interface's, by its number; none of a VLAN's.
    pub fn devices(&self) -> impl Iterator<Item = Option<u32>> {
        let of_port = |number| self.trunks.iter().find(|trunk| trunk.interfaces()[0] == number).map(Trunk::device);
        (0..self.losses.len()).map(of_port)
    }

    /// What was translated; none if nothing is.
    #[must_use]
    pub fn nat(&self) -> Option<corelane_nat::Counts> {
        self.translation.map(Translation::counts)
    }

    /// Sessions of the translation, and external ports that are given out; none if nothing is translated.
    #[must_use]
    pub fn nat_in_use(&self) -> Option<(usize, usize)> {
        self.translation.map(Translation::in_use)
    }

    /// Neighbours that are known, and those that are asked for, at each interface by its number.
    pub fn neighbours(&self) -> impl Iterator<Item = (usize, usize)> + use<'a> {
        self.interfaces.iter().map(|interface| interface.neighbours().lengths())
    }

    /// The way to an address: the number of the interface, and the router, or the address itself where no router is between; none if there is no way. Of several
    /// ways, the first.
    #[must_use]
    pub fn way(&self, to: IpAddr) -> Option<(usize, IpAddr)> {
        self.routes.way(to).map(|way| (way.interface, way.hop))
    }

    /// Whether a route could be added; false if its network is one of the stack's own, which is reached without a router. Bounds are not looked at.
    ///
    /// # Errors
    /// As for [`Stack::add_route`](crate::Stack::add_route).
    pub fn could_lead(&self, route: &Route) -> Result<bool, Error> {
        self.routes.could_lead(route)
    }

    /// What is known of a neighbour at an interface: the state of RFC 4861, section 7.3.2, in its word, and its link address as far as it is known.
    #[must_use]
    pub fn neighbour(&self, interface: usize, ip: IpAddr) -> Option<(&'static str, Option<Mac>)> {
        self.interfaces.iter().nth(interface)?.neighbours().known(ip)
    }

    /// Whether an address is the stack's own.
    #[must_use]
    pub fn is_own(&self, address: IpAddr) -> bool {
        self.routes.is_own(address)
    }
}

impl Debug for View<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("View").field("lane", &self.lane).field("now", &self.now).finish_non_exhaustive()
    }
}
