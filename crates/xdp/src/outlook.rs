//! What of an interface nobody tells: whether it still has its program, and by how many queues it receives. So its first port looks, now and then.

use crate::card;
use corelane_seam::PortState;
use corelane_select::bpf::XdpLink;

/// Nanoseconds between two looks at the least, while the port is attended to, and at the most: a lane that sleeps wakes for one.
const PAUSE_LEAST: u64 = 1_000_000_000;
const PAUSE_MOST: u64 = 5_000_000_000;

/// Who looks.
#[derive(Debug)]
pub struct Outlook {
    /// When it looked last; none before.
    looked_at: Option<u64>,
    seen: PortState,
}

impl Outlook {
    /// One that has not looked yet.
    pub const fn new() -> Self {
        Self { looked_at: None, seen: PortState::Up }
    }

    /// What it saw last: up, detached, or unserved.
    pub const fn seen(&self) -> PortState {
        self.seen
    }

    /// When the port is to be attended to for a look.
    pub fn wakes_at(&self) -> u64 {
        self.looked_at.map_or(0, |at| at + PAUSE_MOST)
    }

    /// Looks, if that is long ago, at the interface of this name, of whose queues so many have a port: a system call or two.
    pub fn look(&mut self, now: u64, link: &XdpLink, name: &str, ports: usize) {
        if self.looked_at.is_some_and(|at| now < at + PAUSE_LEAST) {
            return;
        }
        self.looked_at = Some(now);
        // What cannot be asked is taken to be as it was meant.
        let is_detached = link.is_attached() == Ok(false);
        let has_more = || card::channels(name).ok().flatten().is_some_and(|channels| channels.receiving as usize > ports);
        self.seen = match is_detached {
            true => PortState::Detached,
            false if has_more() => PortState::Unserved,
            false => PortState::Up,
        };
    }
}
