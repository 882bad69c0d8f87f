//! Limits of time hold behind TLS as before it: from both sides, for who takes too little of its answers, and for who is slow.

use crate::simulated::calls::Echo;
use crate::simulated::hostile::{client_of, configured, connect, exchange};
use crate::simulated::identity::server;
use crate::simulated::rig::{Faults, Nobody, Peer, Rig, RigPlan, S, Status, World, address, patient};
use corelane::admin::watch::ServiceCounter as C;
use corelane_tls::rustls::DEFAULT_VERSIONS;
use corelane_tls::rustls::client::ClientConnection;
use std::io::Write;
use std::time::Duration;

/// A connection whose handshake is over.
fn opened(rig: &mut Rig, number: usize) -> (Peer, ClientConnection) {
    let (peer, mut tls) = (connect(rig, number), client_of(&configured(DEFAULT_VERSIONS)));
    while tls.is_handshaking() || tls.wants_write() {
        exchange(rig, &peer, &mut tls, 4_000);
    }
    (peer, tls)
}

/// Has as many of so many bytes echoed as are taken, and reads nothing meanwhile.
fn asks(rig: &mut Rig, (peer, tls): &mut (Peer, ClientConnection), bytes: usize) {
    let mut said = Vec::new();
    for _ in 0..bytes / 10_000 {
        tls.writer().write_all(&[7; 10_000]).unwrap();
        while tls.wants_write() {
            tls.write_tls(&mut said).unwrap();
        }
    }
    let mut rest = &said[..];
    for _ in 0..300 {
        rest = &rest[peer.send(rest)..];
        rig.wait(S / 1_000);
    }
    assert!(!rest.is_empty(), "the lane holds back what it has no room for");
}

#[test]
fn who_takes_too_little_is_ended_and_who_is_slow_has_its_answer() {
    let world = World::new(1, Faults::none());
    let served = server().protocols(&[b"echo/1"]).load().unwrap();
    let limits = patient().send_limit(Duration::from_secs(10)).send_rate_min(1_000);
    let mut rig = Rig::new(&world, &RigPlan::lanes(1), |roster| {
        roster.serve_behind(address(), limits, Echo, served.lane());
    });
    let (mut silent, mut drips, mut slow) = (opened(&mut rig, 1), opened(&mut rig, 2), opened(&mut rig, 3));
    for one in [&mut silent, &mut drips, &mut slow] {
        asks(&mut rig, one, 3_000_000);
    }
    let (mut open, mut got) = (Vec::new(), 0);
    for _ in 0..60 {
        rig.wait(S);
        drips.0.read(100);
        got += slow.0.read(6_000).len();
        open.push(rig.connections());
    }
    assert_eq!((open[7], open[30], rig.count(C::SendLimitHits)), (3, 1, 2), "{open:?}");
    assert!(got > 300_000 && slow.0.status() == Status::Open, "{got} bytes, {:?}", slow.0.status());
    [silent, drips, slow].iter().for_each(|(peer, _)| peer.close());
    rig.wait(S);
    rig.close(&mut Nobody);
}
