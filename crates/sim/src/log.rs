//! What happened, in order: the same seed gives the same log.

use corelane_seam::Handle;
use corelane_seam::mix;
use std::collections::VecDeque;
use std::fmt;

/// Lines kept to be read; the digest covers all.
const LINES_MAX: usize = 1 << 16;

/// Where something happened.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Site {
    World,
    Lane(usize),
    Stream(u64, usize),
    Port(u64),
    Peer(usize),
    Card(usize),
}

/// What it was about.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Detail {
    Nothing,
    Handle(Handle),
    Amount(u64),
}

#[derive(Clone, Copy)]
struct Line {
    time: u64,
    site: Site,
    event: &'static str,
    detail: Detail,
}

/// The events of a world: the last ones to read, and a digest of all.
pub(crate) struct Log {
    lines: VecDeque<Line>,
    digest: u64,
}

impl Log {
    pub(crate) fn new() -> Self {
        Self { lines: VecDeque::new(), digest: 0 }
    }

    pub(crate) fn note(&mut self, time: u64, site: Site, event: &'static str, detail: Detail) {
        let name = event.bytes().fold(event.len() as u64, |sum, byte| sum.wrapping_mul(257).wrapping_add(byte as u64));
        for word in [time, site_word(site), name, detail_word(detail)] {
            self.digest = mix(self.digest ^ word);
        }
        if self.lines.len() == LINES_MAX {
            self.lines.pop_front();
        }
        self.lines.push_back(Line { time, site, event, detail });
    }

    pub(crate) fn digest(&self) -> u64 {
        self.digest
    }

    pub(crate) fn lines(&self) -> impl Iterator<Item = String> {
        self.lines.iter().map(Line::to_string)
    }
}

fn site_word(site: Site) -> u64 {
    match site {
        Site::World => 0,
        Site::Lane(lane) => 1 << 56 | lane as u64,
        Site::Stream(stream, side) => (2 + side as u64) << 56 | stream,
        Site::Port(port) => 4 << 56 | port,
        Site::Peer(peer) => 5 << 56 | peer as u64,
        Site::Card(card) => 6 << 56 | card as u64,
    }
}

fn detail_word(detail: Detail) -> u64 {
    match detail {
        Detail::Nothing => 0,
        Detail::Handle(handle) => mix(handle.bits()),
        Detail::Amount(amount) => amount,
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { time, site, event, detail } = self;
        match site {
            Site::World => write!(f, "{time} world {event}")?,
            Site::Lane(lane) => write!(f, "{time} lane {lane} {event}")?,
            Site::Stream(stream, side) => write!(f, "{time} stream {stream}.{side} {event}")?,
            Site::Port(port) => write!(f, "{time} port {port} {event}")?,
            Site::Peer(peer) => write!(f, "{time} peer {peer} {event}")?,
            Site::Card(card) => write!(f, "{time} interface {card} {event}")?,
        }
        match detail {
            Detail::Nothing => Ok(()),
            Detail::Handle(handle) => write!(f, " {handle:?}"),
            Detail::Amount(amount) => write!(f, " {amount}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_last_lines_and_digests_all() {
        let (mut one, mut other) = (Log::new(), Log::new());
        for index in 0..LINES_MAX + 1 {
            one.note(index as u64, Site::Lane(1), "turns", Detail::Amount(index as u64));
            other.note(index as u64, Site::Lane(1), "turns", Detail::Amount(index.max(1) as u64));
        }
        assert_ne!(one.digest(), other.digest());
        assert_eq!((one.lines().count(), one.lines().next().unwrap()), (LINES_MAX, "1 lane 1 turns 1".to_string()));
    }
}
