//! Flows of many hosts at once, beside a model: no packet comes to another host than the one that its flow is of.

use crate::common::{ACK, EXTERNAL, Lane, SECOND, SYN, datagram, echo, ends, segment};
use corelane_nat::{Mapping, Settings, Verdict};
use corelane_seam::Random;
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddrV4};

/// Protocol, external end and remote end of an answer.
type Answer = (u8, SocketAddrV4, SocketAddrV4);

fn bytes(class: u8, from: SocketAddrV4, to: SocketAddrV4, is_answer: bool) -> Vec<u8> {
    match class {
        0 => datagram(from, to, b""),
        1 => segment(from, to, if is_answer { SYN.with(ACK) } else { SYN }),
        _ => echo(*from.ip(), *to.ip(), if is_answer { to.port() } else { from.port() }, is_answer),
    }
}

/// Plays so many packets, out and in, while time goes by and sessions end.
fn play(seed: u64, packets: u64, mapping: Mapping) {
    let mut settings = Settings::new(EXTERNAL);
    settings.externals.extend([Ipv4Addr::new(192, 0, 2, 2), Ipv4Addr::new(192, 0, 2, 3)]);
    (settings.mapping, settings.sessions, settings.ports) = (mapping, 3_000, 10_000..=10_999);
    settings.timeouts.transitory = 100;
    let (mut lane, mut random, mut now) = (Lane::new(&settings), Random::new(seed), 0);
    let mut model: BTreeMap<Answer, (SocketAddrV4, u64)> = BTreeMap::new();
    let (mut back, mut late, mut refused) = (0_u64, 0_u64, 0_u64);
    for _ in 0..packets {
        now += random.below(SECOND / 100);
        let class = random.below(3) as u8;
        let remote = SocketAddrV4::new(Ipv4Addr::new(198, 51, 100, random.below(8) as u8), if class == 2 { 0 } else { 53 });
        if random.below(2) == 0 || model.is_empty() {
            let inside = SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, random.below(64) as u8), 1 + random.below(100) as u16);
            let mut packet = bytes(class, inside, remote, false);
            match lane.out(now, &mut packet) {
                Verdict::Translated => {
                    let answer = (class, ends(&packet).0, remote);
                    if let Some((owner, used)) = model.insert(answer, (inside, now)) {
                        let has_ended = now - used > 60 * SECOND;
                        assert!(owner == inside || has_ended, "{answer:?} was of {owner} and is of {inside}");
                    }
                }
                verdict => {
                    assert!(matches!(verdict, Verdict::Refused(_)), "{verdict:?}");
                    refused += 1;
                }
            }
            continue;
        }
        let beginning = (
            class,
            SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 1 + random.below(3) as u8), 10_000 + random.below(1_000) as u16),
            remote,
        );
        let Some((&(class, external, remote), entry)) = model.range_mut(beginning..).next() else { continue };
        let mut packet = bytes(class, remote, external, true);
        match lane.nat.incoming(now, &mut packet) {
            Verdict::Translated => {
                let to = ends(&packet).1;
                assert_eq!(to, entry.0, "an answer from {remote} to {external}");
                entry.1 = now;
                back += 1;
            }
            verdict => {
                assert_eq!(verdict, Verdict::Untouched);
                assert!(now - entry.1 > 60 * SECOND, "the session of {} has ended too early", entry.0);
                model.remove(&(class, external, remote));
                late += 1;
            }
        }
    }
    assert!(back > packets / 10 && late > 0 && refused > 0, "{back} answers, {late} late, {refused} refused");
    lane.nat.expire(now + 10_000 * SECOND, 1_000_000);
    assert_eq!((lane.nat.sessions(), lane.nat.ports()), (0, 0));
}

#[test]
fn no_answer_comes_to_another_host() {
    play(1, 150_000, Mapping::Independent);
    play(2, 150_000, Mapping::Dependent);
}

#[test]
fn none_of_ten_million_packets_comes_to_another_host() {
    play(3, 5_000_000, Mapping::Independent);
    play(4, 5_000_000, Mapping::Dependent);
}
