//! Plans, source ports and spreads lead where they say.

use std::net::SocketAddr;

use corelane_rss::{Buckets, Error, FlowHasher, FlowPlan, HashTypes, Key, Outgoing, Protocol, Spread, Table, Tuple, Way};
use proptest::prelude::*;

use crate::common::{hasher, tuple, words};

fn candidates(hosts: std::ops::Range<u8>) -> impl Iterator<Item = Tuple> {
    hosts.map(|host| tuple(&format!("10.11.2.{host}:1000"), "10.11.2.1:80", Protocol::TCP))
}

#[test]
fn a_plan_covers_lanes_with_the_first_that_fit() {
    let hasher = hasher(HashTypes::DEFAULT);
    let table = Table::even(Buckets::DEFAULT, 5).unwrap();
    let lane = |tuple: &Tuple| Some(table.lane_of(hasher.tuple(tuple)?.flow));
    let plan = FlowPlan::cover([3, 0, 4], candidates(2..255), lane).unwrap();
    assert_eq!(plan.iter().map(|(place, _)| place).collect::<Vec<_>>(), [3, 0, 4]);
    for (place, chosen) in plan.iter() {
        assert_eq!(candidates(2..255).find(|tuple| lane(tuple) == Some(place)).as_ref(), Some(chosen));
        assert_eq!(plan.tuple(place), Some(chosen));
    }
    assert_eq!(plan.tuple(1), None);
}

#[test]
fn a_plan_that_cannot_be_kept_says_what_is_missing() {
    let nowhere = FlowPlan::cover([7], candidates(2..12), |_| None);
    assert_eq!(nowhere, Err(Error::Uncovered { place: 7, tried: 10 }));
    let partly = FlowPlan::cover([1, 2], candidates(2..12), |_| Some(1));
    assert_eq!(partly, Err(Error::Uncovered { place: 2, tried: 10 }));
    assert_eq!(FlowPlan::cover([], candidates(2..12), |_| Some(1)).unwrap().iter().count(), 0);
    let endless = std::iter::repeat_with(|| tuple("10.0.0.2:1", "10.0.0.1:2", Protocol::TCP));
    assert_eq!(FlowPlan::cover([1, 1], endless, |_| Some(1)).unwrap().iter().count(), 2);
}

/// The flow id that the packets of that way have, computed as for any tuple.
fn by_tuple(hasher: &FlowHasher, flow: &Outgoing, port: u16) -> corelane_rss::FlowId {
    let there = Tuple::new(SocketAddr::new(flow.local, port), flow.peer, flow.protocol).unwrap();
    let hashed = match flow.way {
        Way::There => hasher.tuple(&there),
        Way::Home => hasher.transmit(&there),
    };
    hashed.unwrap().flow
}

#[test]
fn ports_are_all_that_lead_there_and_no_others() {
    let hasher = FlowHasher::new(&Key::random(40, words(5)).unwrap(), HashTypes::DEFAULT);
    let table = Table::even(Buckets::DEFAULT, 7).unwrap();
    for (local, peer) in [("10.0.0.1", "10.0.0.2:80"), ("fd00::1", "[fd00::2]:443")] {
        for way in [Way::There, Way::Home] {
            let (local, peer) = (local.parse().unwrap(), peer.parse().unwrap());
            let flow = Outgoing { local, peer, protocol: Protocol::TCP, way };
            let wanted = |flow| table.lane_of(flow) == 6;
            let found: Vec<_> = flow.ports(&hasher, 0..=u16::MAX, wanted).unwrap().collect();
            let expected = (0..=u16::MAX).map(|port| (port, by_tuple(&hasher, &flow, port)));
            assert_eq!(found, expected.filter(|(_, flow)| table.lane_of(*flow) == 6).collect::<Vec<_>>());
            // Any random key spreads ports almost evenly.
            assert!(found.len().abs_diff(65_536 / 7) < 600, "{}", found.len());
        }
    }
}

#[test]
fn where_ports_are_not_hashed_all_lead_there_or_none() {
    let hasher = hasher(HashTypes::DEFAULT);
    let (local, peer) = ("10.0.0.1".parse().unwrap(), "10.0.0.2:80".parse().unwrap());
    let flow = Outgoing { local, peer, protocol: Protocol::UDP, way: Way::Home };
    let lane = Table::even(Buckets::DEFAULT, 2).unwrap().lane_of(by_tuple(&hasher, &flow, 1));
    let table = Table::even(Buckets::DEFAULT, 2).unwrap();
    assert_eq!(flow.ports(&hasher, 5..=9, |flow| table.lane_of(flow) == lane).unwrap().count(), 5);
    assert_eq!(flow.ports(&hasher, 5..=9, |flow| table.lane_of(flow) != lane).unwrap().count(), 0);
}

#[test]
fn ports_of_impossible_flows_are_errors() {
    let hasher = hasher(HashTypes::from_mask(0x04).unwrap());
    let flow = |local: &str, peer: &str| {
        let (local, peer) = (local.parse().unwrap(), peer.parse().unwrap());
        let flow = Outgoing { local, peer, protocol: Protocol::TCP, way: Way::There };
        flow.ports(&hasher, 1..=2, |_| true).map(Iterator::count)
    };
    assert_eq!(flow("10.0.0.1", "10.0.0.2:80"), Ok(2));
    assert!(matches!(flow("10.0.0.1", "[::1]:80"), Err(Error::MixedFamilies { .. })));
    assert_eq!(flow("::1", "[::1]:80"), Err(Error::NotHashed { mask: 0x04 }));
}

#[test]
fn spreads_follow_their_weights() {
    let first = |spread: Spread, lanes| spread.lanes(lanes).map(|shares| shares.take(8).collect::<Vec<_>>());
    assert_eq!(first(Spread::Even, 3).unwrap(), [0, 1, 2, 0, 1, 2, 0, 1]);
    assert_eq!(first(Spread::One(2), 3).unwrap(), [2; 8]);
    let weighted = first(Spread::Weights(vec![3, 0, 1]), 3).unwrap();
    assert_eq!([0, 1, 2].map(|lane| weighted.iter().filter(|l| **l == lane).count()), [6, 0, 2]);
    assert_eq!(first(Spread::One(3), 3), Err(Error::LaneRange { got: 3, most: 2 }));
    assert_eq!(first(Spread::One(256), 1000), Err(Error::LaneRange { got: 256, most: 255 }));
    assert_eq!(first(Spread::Even, 0), Err(Error::NoLanes));
    assert_eq!(first(Spread::Even, 257), Err(Error::LaneRange { got: 256, most: 255 }));
    assert_eq!(first(Spread::Weights(vec![1; 4]), 3), Err(Error::WeightCount { got: 4, lanes: 3 }));
    assert_eq!(first(Spread::Weights(vec![0; 3]), 3), Err(Error::NoLanes));
}

proptest! {
    #[test]
    fn a_port_is_hashed_as_its_tuple(local: u32, peer: u32, port: u16, peer_port: u16, home: bool, udp: bool, mask in 0..0x400_u32) {
        let types = HashTypes::from_mask(HashTypes::ALL.mask() & mask | 2).unwrap();
        let flow = Outgoing {
            local: std::net::Ipv4Addr::from(local).into(),
            peer: (std::net::Ipv4Addr::from(peer), peer_port).into(),
            protocol: if udp { Protocol::UDP } else { Protocol::TCP },
            way: if home { Way::Home } else { Way::There },
        };
        let hasher = hasher(types);
        let found: Vec<_> = flow.ports(&hasher, port..=port, |_| true).unwrap().collect();
        prop_assert_eq!(found, [(port, by_tuple(&hasher, &flow, port))]);
    }
}
