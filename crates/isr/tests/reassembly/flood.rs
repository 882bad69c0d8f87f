//! A flood of datagrams that are never completed.

use super::parts::{IsV6, Owned, seconds, v4_header, v4_part};
use corelane_isr::reassembly::{Admission, Limits, Reassembly};
use corelane_wire::packet::{IpProtocol, ipv4};
use std::net::Ipv4Addr;
use std::rc::Rc;

/// Incomplete datagrams.
const FLOOD: u32 = 1_000_000;
/// One honest datagram in so many of the flood, and so many of these between its two fragments.
const EVERY: u32 = 500;
const BETWEEN: u32 = 200;

/// Where a forged fragment says that it is from.
type Forged = fn(u32) -> Ipv4Addr;

fn from_anywhere(number: u32) -> Ipv4Addr {
    Ipv4Addr::from(number.wrapping_mul(2_654_435_761))
}

fn from_one(_number: u32) -> Ipv4Addr {
    Ipv4Addr::new(10, 66, 66, 66)
}

#[test]
fn f_04_a_flood_stays_within_the_cap_and_honest_datagrams_pass() {
    for limits in [Limits::for_frames(32 * 1024, 2048), Limits::for_lane(2048)] {
        assert!(half_pass(limits, from_anywhere, BETWEEN));
        assert!(half_pass(limits, from_one, BETWEEN));
    }
}

/// Between its fragments there are more of one source's than may wait at all.
#[test]
fn f_05_a_source_that_floods_takes_nothing_of_others() {
    let limits = Limits::for_lane(2048);
    let between = 4 * u32::try_from(limits.datagrams).unwrap();
    assert!(half_pass(limits, from_one, between));
}

/// Whether half of the honest datagrams pass, with so many forged ones between the two fragments of each.
fn half_pass(limits: Limits, forged: Forged, between: u32) -> bool {
    let every = EVERY.max(between + 1);
    // With this secret both sources are told apart, as any two are but one pair in a thousand.
    let mut table = Reassembly::new(limits, 0x5eee);
    let (alive, mut pieces) = (Rc::default(), Vec::new());
    let data = IsV6(false).datagram(120);
    let honest: Vec<_> = (0..=u16::MAX).step_by(64).map(|name| IsV6(false).parts(name, &data, 64)).collect();
    let (mut sent, mut passed, mut most) = (0, 0, 0);
    for number in 0..FLOOD {
        let now = seconds(u64::from(number / 100_000));
        let mut arrive = |table: &mut Reassembly<Owned>, packet: &[u8]| {
            let outcome = table.arrive(now, 0, Owned::new(packet, 2048, &alive), &mut pieces);
            pieces.clear();
            matches!(outcome, Admission::Whole(_))
        };
        let forged = ipv4::Header { source: forged(number), ..v4_header(number as u16, IpProtocol::UDP) };
        assert!(!arrive(&mut table, &v4_part(forged, &data, 0, 64, true)));
        let parts = &honest[number as usize / every as usize % honest.len()];
        if number % every == 0 {
            sent += 1;
            assert!(!arrive(&mut table, &parts[0]));
        } else if number % every == between {
            passed += usize::from(arrive(&mut table, &parts[1]));
        }
        most = most.max(table.waiting().2);
        assert!(table.waiting().2 <= limits.bytes && table.waiting().0 <= limits.datagrams);
    }
    println!("{passed} of {sent} honest datagrams passed; at most {most} of {} bytes in use", limits.bytes);
    let counts = table.counts();
    assert_eq!(counts.fragments, counts.dropped + counts.joined + table.waiting().1 as u64);
    assert_eq!(alive.get(), table.waiting().1, "what was dropped was let go");
    2 * passed >= sent
}
