//! Packets in batches are translated as one after the other.

use crate::common::{EXTERNAL, Lane, SECOND, SYN, datagram, echo, ends, segment};
use corelane_nat::{Settings, Verdict};
use corelane_seam::Random;
use std::net::{Ipv4Addr, SocketAddrV4};

/// Batches longer than what is looked at ahead, in which flows begin and come again, while sessions of others end; some packets are cut short.
#[test]
fn a_batch_is_translated_as_its_packets_are() {
    let mut settings = Settings::new(EXTERNAL);
    (settings.sessions, settings.sessions_each, settings.ports) = (270, 20, 3000..=3299);
    let (mut one, mut all, mut random, mut now) = (Lane::new(&settings), Lane::new(&settings), Random::new(9), 0);
    let mut answers: Vec<Vec<u8>> = Vec::new();
    let mut verdicts = 0;
    for _ in 0..1_000 {
        now += random.below(100 * SECOND);
        let mut packets: Vec<Vec<u8>> = (0..random.below(150)).map(|_| question(&mut random)).collect();
        let single: Vec<(Verdict, Vec<u8>)> = packets
            .iter()
            .map(|packet| {
                let mut bytes = packet.clone();
                (one.out(now, &mut bytes), bytes)
            })
            .collect();
        let mut batch: Vec<&mut [u8]> = packets.iter_mut().map(Vec::as_mut_slice).collect();
        let (mut told, table) = (Vec::new(), all.table.clone());
        all.nat.outgoing_all(now, &mut batch, |flow| table.lane_of(flow) == 0, |place, verdict| told.push((place, verdict)));
        assert!(told.iter().copied().eq(single.iter().map(|(verdict, _)| *verdict).enumerate()));
        assert!(packets.iter().eq(single.iter().map(|(_, bytes)| bytes)));
        answers
            .extend(single.iter().filter(|(verdict, _)| *verdict == Verdict::Translated).filter_map(|(_, bytes)| answer(bytes)));
        let mut back: Vec<Vec<u8>> =
            (0..random.below(150).min(answers.len() as u64)).map(|_| answers[random.index(answers.len())].clone()).collect();
        let single: Vec<(Verdict, Vec<u8>)> = back
            .iter()
            .map(|packet| {
                let mut bytes = packet.clone();
                (one.nat.incoming(now, &mut bytes), bytes)
            })
            .collect();
        let mut told = Vec::new();
        let mut batch: Vec<&mut [u8]> = back.iter_mut().map(Vec::as_mut_slice).collect();
        all.nat.incoming_all(now, &mut batch, |place, verdict| told.push((place, verdict)));
        assert!(told.iter().copied().eq(single.iter().map(|(verdict, _)| *verdict).enumerate()));
        assert!(back.iter().eq(single.iter().map(|(_, bytes)| bytes)));
        verdicts += told.iter().filter(|(_, verdict)| *verdict == Verdict::Translated).count();
        answers.drain(..answers.len().saturating_sub(500));
        assert_eq!(one.nat.counts(), all.nat.counts());
    }
    let counts = all.nat.counts();
    assert!(verdicts > 1_000 && counts.ended > 1_000 && counts.refused_unfit > 0 && counts.refused_source > 0, "{counts:?}");
}

fn question(random: &mut Random) -> Vec<u8> {
    let inside = SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, random.below(16) as u8), 1 + random.below(30) as u16);
    let remote = SocketAddrV4::new(Ipv4Addr::new(198, 51, 100, random.below(3) as u8), 53);
    let mut bytes = match random.below(3) {
        0 => datagram(inside, remote, b""),
        1 => segment(inside, remote, SYN),
        _ => echo(*inside.ip(), *remote.ip(), inside.port(), false),
    };
    bytes.truncate(if random.below(50) == 0 { 21 } else { bytes.len() });
    bytes
}

/// What comes back for a packet; for an echo its reply.
fn answer(bytes: &[u8]) -> Option<Vec<u8>> {
    let (source, destination) = ends(bytes);
    match bytes[9] {
        17 => Some(datagram(destination, source, b"")),
        6 => Some(segment(destination, source, SYN)),
        _ => Some(echo(*destination.ip(), *source.ip(), source.port(), true)),
    }
}
