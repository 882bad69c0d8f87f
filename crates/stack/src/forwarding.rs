//! Forwarding: packets that are for somebody else go on, where the settings say so of the interface that they came by.
//!
//! ```text
//! martians, options --rules in--> NAT in --> reverse path --> route (its group by the flow) --> hops --> length --rules out--> NAT out, sums, one hop less --> cut? --> neighbour,
//! tags, port
//! ```
//!
//! Off by default. A packet is changed where it lies, and leaves in the frame that it came in; a port with other memory copies it. Fragments go on as they came, unless they are to be
//! translated. What is looked at comes from this packet alone, but for states of rules and sessions of the translation; so its packets stay on its lane and in order.
//!
//! Where a port has a fast path, it is told of ways that depend on nothing but the interface that a packet comes by, its source and its destination ([`offload`]): packets that go
//! them come to no lane any more, for some seconds.
//!
//! No redirect is sent (RFC 1812, section 5.2.7.2): whoever takes the longer way is served all the same. Options that ask for a record are passed on as they are.

mod answer;
mod change;
mod cut;
mod leaving;
mod martians;
mod offload;
mod passing;

pub(crate) use leaving::tell_lost;
pub(crate) use passing::{Next, Passing};

use crate::settings::{InterfaceSettings, MssClamp, ReversePath, Settings};

/// What was forwarded at one interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Traffic {
    /// Packets that came by it and went on, and their bytes without the link's headers.
    pub packets_in: u64,
    /// See there.
    pub bytes_in: u64,
    /// Packets that left by it, and their bytes.
    pub packets_out: u64,
    /// See there.
    pub bytes_out: u64,
}

/// What is set of an interface.
#[derive(Clone, Copy, Debug)]
struct Role {
    reverse_path: ReversePath,
    mss: MssClamp,
}

/// The owner of what forwarding needs.
#[derive(Debug)]
pub(crate) struct Forwarding {
    roles: Vec<Role>,
    traffic: Vec<Traffic>,
    /// Packets are forwarded at one of the interfaces, or judged.
    is_on: bool,
    secret: u32,
}

impl Forwarding {
    pub fn new(settings: &Settings) -> Self {
        let role = |one: &InterfaceSettings| Role { reverse_path: one.reverse_path, mss: one.mss };
        Self {
            roles: settings.interfaces.iter().map(role).collect(),
            traffic: vec![Traffic::default(); settings.interfaces.len()],
            is_on: settings.rules.is_some() || settings.interfaces.iter().any(|one| one.forwards),
            secret: settings.secret as u32,
        }
    }

    /// Packets are judged from now on.
    pub const fn turn_on(&mut self) {
        self.is_on = true;
    }

    /// Whether packets are forwarded or judged at all.
    pub const fn is_on(&self) -> bool {
        self.is_on
    }

    /// A packet of so many bytes went from one interface to another.
    fn count(&mut self, came_by: usize, leaves_by: usize, bytes: usize) {
        self.traffic[came_by].packets_in += 1;
        self.traffic[came_by].bytes_in += bytes as u64;
        self.traffic[leaves_by].packets_out += 1;
        self.traffic[leaves_by].bytes_out += bytes as u64;
    }

    /// What was forwarded at each interface.
    pub fn all_traffic(&self) -> &[Traffic] {
        &self.traffic
    }

    /// What was forwarded at an interface.
    pub fn traffic(&self, interface: usize) -> Option<Traffic> {
        self.traffic.get(interface).copied()
    }
}
