//! Rows F-03 and F-06: keys, lengths, overlaps, congestion.

use super::parts::{BOTH, IsV6, Owned, V4, in_front, seconds, v4_header, v4_part, v6_header, v6_part};
use corelane_isr::reassembly::{Admission, Datagram, Limits, Memory, Reason, Reassembly};
use corelane_wire::packet::extension::{Extension, Kind};
use corelane_wire::packet::{IpProtocol, Options, Traffic, fragment, ipv4};
use std::cell::Cell;
use std::rc::Rc;

/// A table, what came out of it, and how many packets are alive.
pub struct Rig {
    pub table: Reassembly<Owned>,
    pub pieces: Vec<Owned>,
    pub alive: Rc<Cell<usize>>,
}

/// What became of a packet, without its memory.
#[derive(Debug, PartialEq, Eq)]
pub enum Became {
    NoFragment,
    Held,
    Whole(Datagram),
    Dropped(Reason),
}

impl Rig {
    pub fn new(limits: Limits) -> Self {
        Self { table: Reassembly::new(limits, 99), pieces: Vec::new(), alive: Rc::default() }
    }

    pub fn at(&mut self, second: u64, packet: &[u8]) -> Became {
        self.by(0, second, packet)
    }

    /// A packet that comes by that link.
    pub fn by(&mut self, link: u16, second: u64, packet: &[u8]) -> Became {
        self.pieces.clear();
        let packet = Owned::new(packet, 2048, &self.alive);
        match self.table.arrive(seconds(second), link, packet, &mut self.pieces) {
            Admission::NoFragment(_) => Became::NoFragment,
            Admission::Held => Became::Held,
            Admission::Whole(datagram) => Became::Whole(datagram),
            Admission::Dropped(reason, _) => Became::Dropped(reason),
        }
    }

    pub fn arrive(&mut self, packet: &[u8]) -> Became {
        self.at(0, packet)
    }

    /// The datagram that is whole, as bytes.
    pub fn whole(&self) -> Vec<u8> {
        self.pieces.iter().flat_map(|piece| piece.bytes().to_vec()).collect()
    }

    /// Hands in packets, all but the last of which are held.
    pub fn all(&mut self, packets: &[Vec<u8>]) -> Vec<u8> {
        let (last, before) = packets.split_last().unwrap();
        before.iter().for_each(|packet| assert_eq!(self.arrive(packet), Became::Held));
        assert!(matches!(self.arrive(last), Became::Whole(_)));
        self.whole()
    }
}

pub fn limits() -> Limits {
    Limits::for_frames(32 * 1024, 2048)
}

/// Who sends in another's name by another link spoils nothing of his, and completes nothing of his.
#[test]
fn fragments_of_two_links_are_of_two_datagrams() {
    for family in BOTH {
        let (data, forged) = (family.datagram(56), vec![0xee; 64]);
        let mut rig = Rig::new(limits());
        assert_eq!(rig.arrive(&family.part(1, &data, 0, 32, true)), Became::Held);
        for link in [1, 2, u16::MAX] {
            assert_eq!(rig.by(link, 0, &family.part(1, &forged, 32, 64, false)), Became::Held, "it completes nothing");
            let overlaps = rig.by(link, 0, &family.part(1, &forged, 24, 40, true));
            assert!(matches!(overlaps, Became::Held | Became::Dropped(Reason::Overlap)), "{overlaps:?}");
        }
        assert!(matches!(rig.arrive(&family.part(1, &data, 32, 64, false)), Became::Whole(_)), "{family:?}");
        assert_eq!(rig.whole()[rig.whole().len() - 64..], data);
    }
}

#[test]
fn fragments_in_any_order_become_what_was_cut() {
    for family in BOTH {
        let data = family.datagram(1000);
        let parts = family.parts(5, &data, 256);
        assert_eq!(parts.len(), 4);
        for order in permutations(4) {
            let mut rig = Rig::new(limits());
            let packets: Vec<_> = order.iter().map(|&at| parts[at].clone()).collect();
            let wanted = match family.0 {
                // The identification stays, as it is the first fragment's header that is kept.
                false => family.whole(5, &data),
                true => family.whole(0, &data),
            };
            assert_eq!(rig.all(&packets), wanted, "{family:?} {order:?}");
            assert_eq!((rig.table.waiting(), rig.alive.get()), ((0, 0, 0), 4), "only the datagram is left");
        }
    }
}

fn permutations(length: usize) -> Vec<Vec<usize>> {
    let Some(last) = length.checked_sub(1) else { return vec![Vec::new()] };
    let longer = |order: Vec<usize>| {
        (0..=order.len()).map(move |at| {
            let mut order = order.clone();
            order.insert(at, last);
            order
        })
    };
    permutations(last).into_iter().flat_map(longer).collect()
}

#[test]
fn a_whole_packet_is_given_back() {
    for family in BOTH {
        let mut rig = Rig::new(limits());
        assert_eq!(rig.arrive(&family.whole(1, &family.datagram(100))), Became::NoFragment);
        assert_eq!(
            rig.arrive(&family.part(1, &family.datagram(92), 0, 100, false)),
            Became::NoFragment,
            "an atomic fragment is whole"
        );
        assert_eq!(rig.table.counts().fragments, 0);
    }
}

#[test]
fn f_03_datagrams_are_told_apart_by_their_whole_key() {
    let data = IsV6(false).datagram(56);
    let first = v4_header(1, IpProtocol::UDP);
    let other_id = v4_header(2, IpProtocol::UDP);
    let other_protocol = v4_header(1, IpProtocol(253));
    let other_source = ipv4::Header { source: V4[1], ..first };
    let other_destination = ipv4::Header { destination: V4[0], ..first };
    let mut rig = Rig::new(limits());
    assert_eq!(rig.arrive(&v4_part(first, &data, 0, 32, true)), Became::Held);
    for other in [other_id, other_protocol, other_source, other_destination] {
        assert_eq!(rig.arrive(&v4_part(other, &data, 32, 64, false)), Became::Held, "{other:?}");
    }
    assert_eq!(rig.arrive(&v6_part(1, IpProtocol::UDP, &data, 32, 64, false)), Became::Held);
    assert!(matches!(rig.arrive(&v4_part(first, &data, 32, 64, false)), Became::Whole(_)));
    // Of IPv6 the protocol is no part of the key (RFC 8200, section 4.5): the first fragment's holds.
    assert!(matches!(rig.arrive(&v6_part(1, IpProtocol(253), &data, 0, 32, true)), Became::Whole(_)));
    assert_eq!(rig.pieces[0].bytes()[6], 253);
    assert_eq!(rig.table.waiting().0, 4);
}

#[test]
fn f_06_fragments_that_others_follow_are_multiples_of_eight() {
    for family in BOTH {
        let data = family.datagram(1000);
        let mut rig = Rig::new(limits());
        let mut odd = family.part(1, &data, 0, 64, true);
        odd.truncate(odd.len() - 4);
        let at = if family.0 { 5 } else { 3 };
        odd[at] -= 4;
        assert_eq!(rig.arrive(&odd), Became::Dropped(Reason::TooSmall));
        let mut empty = family.part(1, &data, 64, 128, true);
        empty.truncate(empty.len() - 64);
        empty[at] -= 64;
        assert_eq!(rig.arrive(&empty), Became::Dropped(Reason::TooSmall), "a fragment of nothing");
        assert_eq!((rig.table.counts().of(Reason::TooSmall), rig.table.waiting().0, rig.alive.get()), (2, 0, 0));
    }
}

#[test]
fn f_06_no_datagram_is_longer_than_its_length_can_say() {
    // The ping of death: the last fragment reaches behind the 65,535th byte. No one of ours writes that: the length is put in by hand.
    for (family, room) in [(IsV6(false), 3), (IsV6(true), 23)] {
        let data = vec![0; 70_000];
        let mut rig = Rig::new(limits());
        let mut arrive = |name, more: u8| {
            let mut last = family.part(name, &data, 65_504, 65_512, false);
            last.extend(vec![0; more.into()]);
            last[if family.0 { 5 } else { 3 }] += more;
            rig.arrive(&last)
        };
        assert_eq!((arrive(1, room), arrive(2, room + 1), arrive(3, 92)), (Became::Held, long(), long()));
        assert_eq!((rig.table.counts().of(Reason::TooLong), rig.table.waiting().0), (2, 1));
    }
}

fn long() -> Became {
    Became::Dropped(Reason::TooLong)
}

#[test]
fn f_06_a_header_with_options_counts_into_the_length() {
    // Each fragment fits, but the first one's header is longer than the others'.
    let data = vec![1; 65_512];
    let plain = v4_header(9, IpProtocol::UDP);
    let options = Options::NONE.with(0x1e, &[0; 30]).unwrap();
    let mut rig = Rig::new(limits().with_fragments_each(100));
    assert_eq!(rig.arrive(&v4_part(ipv4::Header { options, ..plain }, &data, 0, 32_000, true)), Became::Held);
    assert_eq!(rig.arrive(&v4_part(plain, &data, 32_000, 64_000, true)), Became::Held);
    assert_eq!(rig.arrive(&v4_part(plain, &data, 64_000, 65_512, false)), long());
    assert_eq!((rig.table.waiting(), rig.alive.get()), ((0, 0, 0), 0));
    let counts = rig.table.counts();
    assert_eq!((counts.fragments, counts.dropped), (3, 3));
}

#[test]
fn f_06_nothing_ends_behind_the_last() {
    for family in BOTH {
        let data = family.datagram(1000);
        let mut rig = Rig::new(limits());
        let mut arrive = |start, end, more| rig.arrive(&family.part(1, &data, start, end, more));
        assert_eq!(arrive(128, 160, false), Became::Held);
        assert_eq!(arrive(160, 192, true), Became::Dropped(Reason::End), "behind the last");
        assert_eq!(arrive(192, 200, false), Became::Dropped(Reason::End), "another last");
        assert_eq!(arrive(64, 96, false), Became::Dropped(Reason::End), "an earlier last");
        assert_eq!(
            arrive(0, 128, true),
            Became::Whole(Datagram {
                pieces: 2,
                header_bytes: if family.0 { 40 } else { 20 },
                data_bytes: 160,
                arrived: seconds(0)
            })
        );
        let mut arrive = |start, end, more| rig.arrive(&family.part(2, &data, start, end, more));
        assert_eq!(arrive(64, 128, true), Became::Held);
        assert_eq!(arrive(16, 72, false), Became::Dropped(Reason::End), "a last one before others");
        let mut arrive = |start, end, more| rig.arrive(&family.part(3, &data, start, end, more));
        assert_eq!(arrive(128, 130, false), Became::Held);
        assert_eq!(arrive(64, 136, true), Became::Dropped(Reason::End), "behind the last by less than a unit");
    }
}

#[test]
fn f_06_of_ipv4_overlaps_are_cut() {
    let header = v4_header(1, IpProtocol::UDP);
    let old = vec![0xaa; 128];
    let new = vec![0xbb; 128];
    // The one before keeps its bytes, the one that follows gives its own.
    let mut rig = Rig::new(limits());
    assert_eq!(rig.arrive(&v4_part(header, &old, 0, 32, true)), Became::Held);
    assert_eq!(rig.arrive(&v4_part(header, &old, 64, 128, false)), Became::Held);
    assert!(matches!(rig.arrive(&v4_part(header, &new, 16, 80, true)), Became::Whole(_)));
    let whole = rig.whole();
    assert_eq!(whole[20..], [vec![0xaa; 32], vec![0xbb; 48], vec![0xaa; 48]].concat());
    assert_eq!((rig.table.counts().cut, rig.table.counts().covered), (2, 0));
    // What the new one covers goes.
    assert_eq!(rig.arrive(&v4_part(header, &old, 32, 40, true)), Became::Held);
    assert_eq!(rig.arrive(&v4_part(header, &old, 48, 56, true)), Became::Held);
    assert_eq!(rig.arrive(&v4_part(header, &new, 24, 64, true)), Became::Held);
    assert_eq!((rig.table.counts().covered, rig.table.waiting().1), (2, 1));
    // What is covered by one that is there adds nothing.
    assert_eq!(rig.arrive(&v4_part(header, &old, 32, 40, true)), Became::Dropped(Reason::Overlap));
    assert_eq!(rig.arrive(&v4_part(header, &new, 24, 64, true)), Became::Dropped(Reason::Duplicate));
    assert_eq!(rig.arrive(&v4_part(header, &old, 64, 128, false)), Became::Held);
    assert!(matches!(rig.arrive(&v4_part(header, &old, 0, 24, true)), Became::Whole(_)));
    assert_eq!(rig.whole()[20..], [vec![0xaa; 24], vec![0xbb; 40], vec![0xaa; 64]].concat());
}

#[test]
fn f_06_teardrop_and_its_relatives_leave_nothing_behind() {
    // Teardrop: the second fragment lies within the first. Newtear, bonk, boink, nestea: other lengths, other ends.
    let header = v4_header(1, IpProtocol::UDP);
    let data = vec![0; 200];
    let attacks: [&[(usize, usize, bool)]; 6] = [
        &[(0, 40, true), (24, 28, false)],
        &[(0, 48, true), (8, 32, false)],
        &[(0, 32, true), (32, 36, false), (0, 36, false)],
        &[(0, 16, true), (8, 64, true), (0, 64, true), (48, 56, false)],
        &[(64, 128, true), (0, 72, true), (120, 130, false)],
        &[(0, 8, true), (0, 16, true), (0, 24, true), (8, 24, true), (16, 24, true)],
    ];
    for steps in attacks {
        let mut rig = Rig::new(limits());
        for &(start, end, more) in steps {
            rig.arrive(&v4_part(header, &data, start, end, more));
            let counts = *rig.table.counts();
            assert_eq!(counts.fragments, counts.dropped + counts.joined + rig.table.waiting().1 as u64, "{steps:?}");
        }
        rig.pieces.clear();
        rig.table.expire(seconds(31), drop);
        assert_eq!((rig.table.waiting(), rig.alive.get()), ((0, 0, 0), 0), "{steps:?}");
    }
}

#[test]
fn f_06_of_ipv6_an_overlap_ends_the_datagram() {
    let family = IsV6(true);
    let data = family.datagram(1000);
    for (start, end) in [(248, 264), (0, 264), (8, 16), (200, 512)] {
        let mut rig = Rig::new(limits());
        assert_eq!(rig.arrive(&family.part(1, &data, 0, 256, true)), Became::Held);
        assert_eq!(rig.arrive(&family.part(1, &data, start, end, true)), Became::Dropped(Reason::Overlap));
        assert_eq!((rig.alive.get(), rig.table.waiting().1), (0, 0), "what was there went");
        assert_eq!(
            rig.at(59, &family.part(1, &data, 0, 256, true)),
            Became::Dropped(Reason::Overlap),
            "what still comes of it as well"
        );
        assert_eq!(rig.table.expire(seconds(60), |_| panic!("there is none")), 0);
        assert_eq!(rig.at(60, &family.part(1, &data, 0, 256, true)), Became::Held, "the name is free again");
    }
}

#[test]
fn f_06_a_duplicate_changes_nothing() {
    for family in BOTH {
        let data = family.datagram(1000);
        let mut parts = family.parts(5, &data, 256);
        let mut rig = Rig::new(limits());
        for part in &parts[..3] {
            assert_eq!(rig.arrive(part), Became::Held);
            assert_eq!(rig.arrive(part), Became::Dropped(Reason::Duplicate));
        }
        assert!(matches!(rig.arrive(&parts.pop().unwrap()), Became::Whole(_)));
        assert_eq!(rig.whole()[if family.0 { 40 } else { 20 }..], data);
        assert_eq!(rig.table.counts().of(Reason::Duplicate), 3);
    }
}

/// A datagram in two fragments with these code points of congestion: what the second becomes, and the whole's code point.
fn congestion(family: IsV6, points: [u8; 2]) -> Result<u8, Became> {
    let data = family.datagram(120);
    let mut parts = family.parts(1, &data, 64);
    for (part, point) in parts.iter_mut().zip(points) {
        let at = |bytes: &mut Vec<u8>| if family.0 { bytes[1] |= point << 4 } else { bytes[1] |= point };
        at(part);
    }
    let mut rig = Rig::new(limits());
    assert_eq!(rig.arrive(&parts[0]), Became::Held);
    match rig.arrive(&parts[1]) {
        Became::Whole(_) => Ok(if family.0 { rig.whole()[1] >> 4 & 3 } else { rig.whole()[1] & 3 }),
        other => Err(other),
    }
}

#[test]
fn f_06_congestion_is_kept_and_not_mixed() {
    for family in BOTH {
        for point in 0..4 {
            assert_eq!(congestion(family, [point, point]), Ok(point));
        }
        for capable in [1, 2] {
            assert_eq!(congestion(family, [capable, 3]), Ok(3), "it was met");
            assert_eq!(congestion(family, [3, capable]), Ok(3), "and that is not forgotten");
        }
        for (a, b) in [(0, 3), (3, 0), (0, 1), (2, 0)] {
            assert_eq!(congestion(family, [a, b]), Err(Became::Dropped(Reason::Congestion)), "{a} and {b}");
        }
    }
}

#[test]
fn f_06_the_first_fragment_has_the_whole_transport_header() {
    let data = vec![0; 200];
    let tcp = v4_header(1, IpProtocol::TCP);
    let mut rig = Rig::new(limits());
    let headless = Became::Dropped(Reason::Headless);
    assert_eq!(rig.arrive(&v4_part(tcp, &data, 0, 16, true)), headless, "without flags");
    assert_eq!(rig.arrive(&v4_part(tcp, &data, 8, 64, true)), headless, "what would write over them (RFC 3128)");
    assert_eq!(rig.arrive(&v4_part(tcp, &data, 0, 24, true)), Became::Held);
    assert_eq!(rig.arrive(&v6_part(1, IpProtocol::TCP, &data, 0, 16, true)), headless);
    // RFC 7112: extension headers that the first fragment does not hold as a whole.
    let long = [&[17, 8][..], &[1, 68], &[0; 68]].concat();
    assert_eq!(rig.arrive(&v6_part(2, IpProtocol::DESTINATION, &long, 0, 32, true)), headless);
    assert_eq!(rig.table.counts().of(Reason::Headless), 4);
    // Where the first is missing, the others wait all the same.
    assert_eq!(rig.arrive(&v4_part(v4_header(7, IpProtocol::UDP), &data, 64, 128, true)), Became::Held);
}

#[test]
fn headers_that_are_cut_or_lie_are_refused() {
    for family in BOTH {
        let data = family.datagram(56);
        let part = family.part(1, &data, 0, 32, true);
        let mut rig = Rig::new(limits());
        for length in 0..part.len() {
            assert_eq!(rig.arrive(&part[..length]), Became::Dropped(Reason::Header), "{length} bytes");
        }
        assert_eq!((rig.table.waiting().0, rig.alive.get()), (0, 0));
        let padded = [part, vec![0; 30]].concat();
        assert_eq!(rig.arrive(&padded), Became::Held, "what fills a short frame is cut off");
        assert!(matches!(rig.arrive(&family.part(1, &data, 32, 64, false)), Became::Whole(_)));
        assert_eq!(rig.whole()[if family.0 { 40 } else { 20 }..], data);
    }
}

#[test]
fn what_stands_in_front_of_the_fragment_header_stays() {
    let data = IsV6(true).datagram(120);
    let part = |start: usize, end: usize, more| {
        let header =
            fragment::Header { next: IpProtocol::UDP, offset: ipv4::Offset::new(start).unwrap(), more, identification: 1 };
        let behind = in_front(&data[start..end], |to| header.emit(to));
        let options = Extension::new(Kind::Destination, IpProtocol::FRAGMENT, &[1, 4, 0, 0, 0, 0]).unwrap();
        let behind = in_front(&behind, |to| options.emit(to));
        in_front(&behind, |to| v6_header(IpProtocol::DESTINATION).emit(behind.len(), to))
    };
    let mut rig = Rig::new(limits());
    let whole = rig.all(&[part(64, 128, false), part(0, 64, true)]);
    let options = Extension::new(Kind::Destination, IpProtocol::UDP, &[1, 4, 0, 0, 0, 0]).unwrap();
    let behind = in_front(&data, |to| options.emit(to));
    assert_eq!(whole, in_front(&behind, |to| v6_header(IpProtocol::DESTINATION).emit(behind.len(), to)));
}

#[test]
fn the_first_fragments_header_is_kept() {
    let data = IsV6(false).datagram(120);
    let options = Options::NONE.with(0x1e, &[1, 2, 3, 4]).unwrap();
    let first = ipv4::Header { options, hops: 9, traffic: Traffic(0x40), ..v4_header(3, IpProtocol::UDP) };
    let mut rig = Rig::new(limits());
    let whole = rig.all(&[v4_part(v4_header(3, IpProtocol::UDP), &data, 64, 128, false), v4_part(first, &data, 0, 64, true)]);
    let view = ipv4::View::new(&whole).unwrap();
    assert_eq!((view.header(), view.is_checksum_right(), view.payload()), (Ok(first), true, &data[..]));
}

#[test]
fn f_06_no_hop_by_hop_options_hide_in_a_fragment() {
    // Once the fragment header is gone they would stand where only the sender's own may (RFC 8200, section 4).
    let data = [&[17, 0, 1, 4, 0, 0, 0, 0][..], &IsV6(true).datagram(120)].concat();
    let mut rig = Rig::new(limits());
    assert_eq!(rig.arrive(&v6_part(1, IpProtocol::HOP_BY_HOP, &data, 0, 64, true)), Became::Dropped(Reason::Header));
    assert_eq!(
        rig.arrive(&v6_part(1, IpProtocol::HOP_BY_HOP, &data, 64, 136, false)),
        Became::Held,
        "a later one's does not count"
    );
    let twice = [&[0, 0, 1, 4, 0, 0, 0, 0][..], &data[..]].concat();
    assert_eq!(rig.arrive(&v6_part(1, IpProtocol::DESTINATION, &twice, 0, 64, true)), Became::Dropped(Reason::Headless));
}

#[test]
fn f_06_the_same_bytes_elsewhere_are_no_duplicate() {
    let data = vec![7; 96];
    let mut rig = Rig::new(limits());
    assert_eq!(rig.arrive(&v4_part(v4_header(1, IpProtocol(253)), &data, 0, 32, true)), Became::Held);
    assert_eq!(rig.arrive(&v4_part(v4_header(1, IpProtocol(253)), &data, 16, 48, true)), Became::Held);
    assert_eq!((rig.table.counts().cut, rig.table.counts().of(Reason::Duplicate)), (1, 0));
    assert!(matches!(rig.arrive(&v4_part(v4_header(1, IpProtocol(253)), &data, 48, 96, false)), Became::Whole(_)));
    let overlap = Became::Dropped(Reason::Overlap);
    assert_eq!(rig.arrive(&v6_part(1, IpProtocol(253), &data, 0, 32, true)), Became::Held);
    assert_eq!(rig.arrive(&v6_part(1, IpProtocol(253), &data, 16, 48, true)), overlap, "of IPv6 it ends the datagram");
    assert_eq!(rig.arrive(&v6_part(1, IpProtocol(253), &data, 32, 96, false)), overlap);
}

#[test]
fn f_06_two_capable_code_points_do_not_become_congestion() {
    for family in BOTH {
        let data = family.datagram(120);
        let mut parts = family.parts(1, &data, 64);
        let shift = if family.0 { 4 } else { 0 };
        (parts[0][1], parts[1][1]) = (1 << shift, 2 << shift);
        let mut rig = Rig::new(limits());
        parts.reverse();
        let whole = rig.all(&parts);
        assert_eq!(whole[1] >> shift & 3, 2, "that of the first to arrive");
    }
}

#[test]
fn f_06_the_longest_datagram_passes_and_one_byte_more_does_not() {
    let plain = v4_header(9, IpProtocol(253));
    let options = Options::NONE.with(0x1e, &[0; 30]).unwrap();
    for (end, wanted) in [(65_483, true), (65_484, false)] {
        let data = vec![1; end];
        let mut rig = Rig::new(limits());
        assert_eq!(rig.arrive(&v4_part(ipv4::Header { options, ..plain }, &data, 0, 32_000, true)), Became::Held);
        assert_eq!(rig.arrive(&v4_part(plain, &data, 32_000, 64_000, true)), Became::Held);
        let last = rig.arrive(&v4_part(plain, &data, 64_000, end, false));
        assert_eq!(matches!(last, Became::Whole(_)), wanted, "{end}: {last:?}");
        assert!(wanted || last == long());
    }
}

#[test]
fn f_06_no_fragment_begins_within_a_tcp_header() {
    let data = vec![0; 200];
    for family in BOTH {
        let mut rig = Rig::new(limits());
        let mut arrive = |start| match family.0 {
            false => rig.arrive(&v4_part(v4_header(1, IpProtocol::TCP), &data, start, 64, true)),
            true => rig.arrive(&v6_part(1, IpProtocol::TCP, &data, start, 64, true)),
        };
        let headless = || Became::Dropped(Reason::Headless);
        assert_eq!([arrive(8), arrive(16), arrive(24)], [headless(), headless(), Became::Held]);
    }
}
