//! Packets: whatever headers stand in front of the ports, and whatever is wrong with them.

use corelane_rss::{Cause, HashType, HashTypes, Hashed, Protocol, Tuple, Verdict};
use proptest::prelude::*;

use crate::common::{fragment_v6, hasher, packet_v4, packet_v6, ports_header, tuple};

const V4: [std::net::Ipv4Addr; 2] = [std::net::Ipv4Addr::new(66, 9, 149, 187), std::net::Ipv4Addr::new(161, 142, 100, 80)];

fn v6() -> [std::net::Ipv6Addr; 2] {
    ["3ffe:2501:200:1fff::7".parse().unwrap(), "3ffe:2501:200:3::1".parse().unwrap()]
}

fn computed(flow: u32, hash_type: HashType) -> Verdict {
    Verdict::Computed(Hashed { flow: corelane_rss::FlowId(flow), hash_type })
}

const BY_PORTS: u32 = 0x51cc_c178;
const BY_ADDRESSES: u32 = 0x323e_8fc2;
const BY_PORTS_V6: u32 = 0x4020_7d3d;
const BY_ADDRESSES_V6: u32 = 0x2cc1_8cd5;

fn judge(bytes: &[u8]) -> Verdict {
    hasher(HashTypes::ALL).packet(bytes, None)
}

fn tcp() -> Vec<u8> {
    ports_header([2794, 1766], 20)
}

#[test]
fn options_are_skipped() {
    for options in (0..=40).step_by(4) {
        assert_eq!(judge(&packet_v4(V4, 6, options, 0, &tcp())), computed(BY_PORTS, HashType::Tcp4));
    }
}

#[test]
fn fragments_are_hashed_by_addresses() {
    // More fragments; an offset; both. Not: don't fragment, or the reserved bit.
    for fragment in [0x2000, 0x0001, 0x1fff, 0x2005] {
        assert_eq!(judge(&packet_v4(V4, 6, 0, fragment, &tcp())), computed(BY_ADDRESSES, HashType::Ipv4));
        assert_eq!(judge(&packet_v4(V4, 17, 8, fragment, &[])), computed(BY_ADDRESSES, HashType::Ipv4));
    }
    for whole in [0x4000, 0x8000, 0xc000] {
        assert_eq!(judge(&packet_v4(V4, 6, 0, whole, &tcp())), computed(BY_PORTS, HashType::Tcp4));
    }
    for (offset, more) in [(8, false), (0, true), (0xfff8, true)] {
        let packet = packet_v6(v6(), 6, &[fragment_v6(offset, more)], &tcp());
        assert_eq!(judge(&packet), computed(BY_ADDRESSES_V6, HashType::Ipv6));
    }
    // The two reserved bits of the fragment header do not count.
    let mut atomic = packet_v6(v6(), 6, &[fragment_v6(0, false)], &tcp());
    atomic[43] = 6;
    assert_eq!(judge(&atomic), computed(BY_PORTS_V6, HashType::Tcp6));
}

#[test]
fn extension_headers_are_walked() {
    let hop = || (0, vec![0; 7]);
    let routing = || (43, [&[1][..], &[0; 14]].concat());
    let destination = || (60, [&[2][..], &[0; 22]].concat());
    let authentication = || (51, [&[4][..], &[0; 22]].concat());
    let all = [hop(), destination(), routing(), fragment_v6(0, false), authentication(), destination()];
    for many in 0..=all.len() {
        assert_eq!(judge(&packet_v6(v6(), 6, &all[..many], &tcp())), computed(BY_PORTS_V6, HashType::Tcp6));
        assert_eq!(judge(&packet_v6(v6(), 17, &all[..many], &tcp())), computed(BY_PORTS_V6, HashType::Udp6));
        // What is behind an encrypted payload, or nothing at all, has no ports.
        for other in [50, 59, 132] {
            assert_eq!(judge(&packet_v6(v6(), other, &all[..many], &[])), computed(BY_ADDRESSES_V6, HashType::Ipv6));
        }
    }
    let mut long = vec![hop(); 8];
    assert_eq!(judge(&packet_v6(v6(), 6, &long, &tcp())), computed(BY_PORTS_V6, HashType::Tcp6));
    long.push(hop());
    assert_eq!(judge(&packet_v6(v6(), 6, &long, &tcp())), Verdict::Cannot(Cause::TooManyHeaders));
    // Behind a fragment header nothing is walked.
    let behind = [fragment_v6(8, true), (0, vec![200; 7])];
    assert_eq!(judge(&packet_v6(v6(), 6, &behind, &[])), computed(BY_ADDRESSES_V6, HashType::Ipv6));
}

#[test]
fn what_is_cut_has_no_hash() {
    let whole = packet_v4(V4, 6, 12, 0, &tcp());
    for end in 0..whole.len() {
        assert_eq!(judge(&whole[..end]), Verdict::Cannot(Cause::Truncated), "{end}");
    }
    let extensions = [(0, vec![0; 7]), fragment_v6(0, false), (51, [&[4][..], &[0; 22]].concat())];
    let whole = packet_v6(v6(), 17, &extensions, &ports_header([2794, 1766], 8));
    for end in 0..whole.len() {
        assert_eq!(judge(&whole[..end]), Verdict::Cannot(Cause::Truncated), "{end}");
    }
    assert_eq!(judge(&whole), computed(BY_PORTS_V6, HashType::Udp6));
}

#[test]
fn a_short_header_above_matters_only_where_its_ports_do() {
    let short = packet_v4(V4, 6, 0, 0, &tcp()[..19]);
    assert_eq!(judge(&short), Verdict::Cannot(Cause::Truncated));
    let by_addresses = hasher(HashTypes::NONE.with(HashType::Ipv4));
    assert_eq!(by_addresses.packet(&short, None), computed(BY_ADDRESSES, HashType::Ipv4));
}

#[test]
fn bytes_behind_the_packet_are_not_its_ports() {
    // A frame of the least size has padding behind a short packet.
    let mut padded = packet_v4(V4, 17, 0, 0, &[]);
    padded.resize(60, 0x11);
    assert_eq!(judge(&padded), Verdict::Cannot(Cause::Truncated));
    let mut padded = packet_v6(v6(), 17, &[], &[1; 7]);
    padded.resize(60, 0x11);
    assert_eq!(judge(&padded), Verdict::Cannot(Cause::Truncated));
}

#[test]
fn a_length_of_zero_is_a_train_of_segments() {
    let mut train = packet_v4(V4, 6, 0, 0, &tcp());
    train[2..4].fill(0);
    assert_eq!(judge(&train), computed(BY_PORTS, HashType::Tcp4));
    let mut train = packet_v6(v6(), 6, &[], &tcp());
    train[4..6].fill(0);
    assert_eq!(judge(&train), computed(BY_PORTS_V6, HashType::Tcp6));
}

#[test]
fn a_header_that_contradicts_itself_is_malformed() {
    let good = packet_v4(V4, 6, 0, 0, &tcp());
    let mut short = good.clone();
    short[0] = 0x44;
    assert_eq!(judge(&short), Verdict::Cannot(Cause::Malformed));
    let mut total = good.clone();
    total[2..4].copy_from_slice(&[0, 19]);
    assert_eq!(judge(&total), Verdict::Cannot(Cause::Malformed));
    let mut options = packet_v4(V4, 6, 40, 0, &tcp());
    options[2..4].copy_from_slice(&[0, 59]);
    assert_eq!(judge(&options), Verdict::Cannot(Cause::Malformed));
    for version in [0, 1, 5, 7, 15] {
        let mut other = good.clone();
        other[0] = version << 4 | 5;
        assert_eq!(judge(&other), Verdict::Cannot(Cause::NotIp));
    }
    assert_eq!(judge(&[]), Verdict::Cannot(Cause::Truncated));
}

#[test]
fn the_hash_of_a_sent_packet_is_that_of_its_replies() {
    let hasher = hasher(HashTypes::DEFAULT);
    let (there, back) = ("66.9.149.187:2794", "161.142.100.80:1766");
    let replies = hasher.tuple(&tuple(back, there, Protocol::TCP)).unwrap();
    assert_eq!(hasher.transmit_packet(&packet_v4(V4, 6, 4, 0, &tcp())), Ok(replies));
    assert_eq!(hasher.transmit(&tuple(there, back, Protocol::TCP)), Some(replies));
    let fragment = hasher.transmit_packet(&packet_v4(V4, 6, 4, 0x2000, &tcp())).unwrap();
    assert_eq!(Some(fragment), hasher.tuple(&tuple(back, there, Protocol(132))));
    assert_eq!(hasher.transmit_packet(&[]), Err(Cause::Truncated));
    let off = crate::common::hasher(HashTypes::NONE);
    assert_eq!(off.transmit_packet(&packet_v4(V4, 6, 4, 0, &tcp())), Err(Cause::Disabled));
}

#[test]
fn types_of_devices_alone_are_never_kept_or_given() {
    let hasher = hasher(HashTypes::ALL);
    let packet = packet_v6(v6(), 6, &[], &tcp());
    for present in [HashType::Ipv6Ex, HashType::Tcp6Ex, HashType::Udp6Ex] {
        assert_eq!(hasher.packet(&packet, Some(present)), computed(BY_PORTS_V6, HashType::Tcp6));
        assert!(!present.places());
        let hashed = Hashed { flow: corelane_rss::FlowId(1), hash_type: present };
        assert_eq!(corelane_rss::Buckets::DEFAULT.place(hashed), None);
    }
    let hashed = Hashed { flow: corelane_rss::FlowId(BY_PORTS), hash_type: HashType::Udp4 };
    assert_eq!(corelane_rss::Buckets::DEFAULT.place(hashed).map(|bucket| bucket.index()), Some(0x78));
}

/// A packet, the flow that it belongs to, and whether it is whole.
fn any_packet() -> impl Strategy<Value = (Vec<u8>, Tuple, bool)> {
    let ends = (any::<[u32; 2]>(), any::<[u128; 2]>(), any::<[u16; 2]>());
    let kinds = prop::collection::vec((prop::sample::select(vec![0_u8, 43, 60, 51]), 0..5_u8), 0..4);
    let protocol = prop::sample::select(vec![6_u8, 17, 1, 47, 132]);
    (ends, any::<bool>(), protocol, kinds, 0..11_usize, any::<[bool; 2]>()).prop_map(build)
}

type Parts = (([u32; 2], [u128; 2], [u16; 2]), bool, u8, Vec<(u8, u8)>, usize, [bool; 2]);

fn build(((v4, v6, ports), is_v4, protocol, kinds, options, [fragment, more]): Parts) -> (Vec<u8>, Tuple, bool) {
    let payload = ports_header(ports, 20);
    if is_v4 {
        let flags = if fragment { if more { 0x2000 } else { 0x0123 } } else { 0x4000 };
        let packet = packet_v4(v4.map(Into::into), protocol, 4 * options, flags, &payload);
        let [source, destination] = [0, 1].map(|end| (std::net::Ipv4Addr::from(v4[end]), ports[end]).into());
        return (packet, Tuple::new(source, destination, Protocol(protocol)).unwrap(), !fragment);
    }
    let extension = |(kind, units): (u8, u8)| {
        let length = if kind == 51 { 4 * usize::from(units) + 8 } else { 8 * usize::from(units) + 8 };
        (kind, [&[units][..], &vec![0xee; length - 2]].concat())
    };
    let mut extensions: Vec<_> = kinds.into_iter().map(extension).collect();
    extensions.push(fragment_v6(if fragment && !more { 0x100 } else { 0 }, fragment && more));
    // Not a mapped address, which would be IPv4.
    let v6 = v6.map(|address| address | 1 << 127);
    let packet = packet_v6(v6.map(Into::into), protocol, &extensions, &payload);
    let [source, destination] = [0, 1].map(|end| (std::net::Ipv6Addr::from(v6[end]), ports[end]).into());
    (packet, Tuple::new(source, destination, Protocol(protocol)).unwrap(), !fragment)
}

proptest! {
    #[test]
    fn a_packet_is_hashed_as_its_tuple((packet, tuple, whole) in any_packet(), mask: u32) {
        let hasher = hasher(HashTypes::from_mask(mask & HashTypes::ALL.mask()).unwrap());
        // A fragment is a flow of a protocol without ports.
        let seen = if whole { tuple } else { Tuple::new(tuple.source(), tuple.destination(), Protocol(1)).unwrap() };
        match hasher.tuple(&seen) {
            None => prop_assert_eq!(hasher.packet(&packet, None), Verdict::Cannot(Cause::Disabled)),
            Some(hashed) => {
                prop_assert_eq!(hasher.packet(&packet, None), Verdict::Computed(hashed));
                for present in HashType::ALL {
                    let kept = present == hashed.hash_type;
                    let expected = if kept { Verdict::Keep(present) } else { Verdict::Computed(hashed) };
                    prop_assert_eq!(hasher.packet(&packet, Some(present)), expected);
                }
            }
        }
        prop_assert_eq!(hasher.transmit_packet(&packet).ok(), hasher.transmit(&seen));
    }
}
