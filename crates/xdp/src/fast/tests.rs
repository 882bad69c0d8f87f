//! Programs with rules give the verdicts and counters that lanes give, and send packets on as a router does.
#![allow(clippy::unwrap_used)] // all of this is tests

mod drawn;
mod judging;
mod passing;
mod swaps;

use super::program::FastPart;
use super::tree::{Fitting, fit};
use super::ways::{self, Beside, Entry};
use super::{FastPath, Unfit};
use crate::ours::{self, Ours, Parts};
use corelane_rules::{Count, RuleId, RuleSet};
use corelane_seam::{LearntWay, LinkSide, VlanTag};
use corelane_select::bpf::{Map, MapKind, Program, ProgramKind, probe};
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::sync::Arc;

/// What a program answers (`XDP_DROP`, `XDP_PASS`, `XDP_REDIRECT`): without a socket of the queue, what is the lane's is passed.
const DENY: u32 = 1;
const LANE: u32 = 2;
const SENT: u32 = 4;

/// The station whose frames are ours, and the one that is next on every way.
const STATION: [u8; 6] = [2, 2, 2, 2, 2, 2];
const NEXT: [u8; 6] = [6, 1, 2, 3, 4, 5];
const FROM: [u8; 6] = [6, 9, 8, 7, 6, 5];

fn may(test: &str) -> bool {
    let able = probe();
    if let Err(error) = &able {
        corelane_os::testing::skip(test, &error.to_string());
    }
    able.is_ok()
}

/// A fast path without ports, whose way out is the loopback interface.
fn fast() -> Arc<FastPath> {
    let fast = FastPath::new().unwrap();
    fast.devices.update(0, &1_u32.to_ne_bytes()).unwrap();
    fast
}

/// A program with these rules for the port at place 0, without sockets.
fn program(fast: &FastPath, set: &RuleSet, own: &[IpAddr], leaves_sums: bool) -> Result<Program, Unfit> {
    program_at(fast, 0, set, (own, leaves_sums))
}

/// The same for a port at another place.
fn program_at(fast: &FastPath, place: u16, set: &RuleSet, (own, leaves_sums): (&[IpAddr], bool)) -> Result<Program, Unfit> {
    let mut control = fast.control();
    let rules: Vec<RuleId> = set.rules().map(|(id, ..)| id).collect();
    let fit = fit(set, own)?;
    let places = fast.places(&mut control, &rules)?;
    let fitting = Fitting::new(set, fit, own, &places);
    let sockets = Map::new(MapKind::XdpSockets, 4, 1, "corelane_queues").unwrap();
    let part = FastPart { maps: fast.maps(&control), rules: &fitting, place, leaves_sums };
    let parts = Parts { sockets: sockets.as_fd(), seen: None, functions: None, fast: Some(&part) };
    let instructions = ours::program(&Ours::All, &parts)?;
    let loaded = Program::load(ProgramKind::Xdp, &instructions, "corelane_rules");
    let loaded = loaded.unwrap_or_else(|error| panic!("{}\n{error}", set.list().join("\n")));
    control.counters.leave_all_but(&rules);
    Ok(loaded)
}

fn counted(fast: &FastPath, rule: RuleId) -> Count {
    fast.counts(&[rule]).unwrap()[0]
}

/// The tags of the interfaces that packets come and leave by, by their number.
fn tags(interface: u16) -> [Option<VlanTag>; 2] {
    let tag = |protocol, control| Some(VlanTag { protocol, control });
    match interface {
        1 => [None, None],
        2 => [tag(0x8100, 7), None],
        3 => [tag(0x88a8, 7), tag(0x8100, 9)],
        _ => [tag(0x8100, 4094), None],
    }
}

fn way((source, destination): (IpAddr, IpAddr), comes: u16, leaves: u16) -> LearntWay {
    LearntWay {
        source,
        destination,
        comes: LinkSide { interface: comes, tags: tags(comes), destination: STATION, hands_over_opening: false },
        leaves: LinkSide { interface: leaves, tags: tags(leaves), destination: NEXT, hands_over_opening: false },
        leaves_from: FROM,
        device: 1,
        mtu: 1500,
        until: u64::MAX,
    }
}

/// Teaches the way by a port at place 0 with one queue.
fn learn(fast: &FastPath, way: &LearntWay) {
    entries(fast, way).iter().for_each(|entry| enter(fast, entry));
}

fn entries(fast: &FastPath, way: &LearntWay) -> [Entry; 2] {
    ways::entries(way, beside(fast)).unwrap()
}

fn beside(fast: &FastPath) -> Beside {
    Beside { place: 0, queue: 0, generation: fast.generation.get(), leaves_by: 0, frame_bytes_max: 1514 }
}

fn enter(fast: &FastPath, Entry { half, key, value }: &Entry) {
    fast.ways[*half as usize][usize::from(key.len() == ways::KEY_BYTES[1])].update(key, value).unwrap();
}
