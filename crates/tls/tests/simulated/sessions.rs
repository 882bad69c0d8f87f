//! Sessions that clients keep: they go on at any lane, for as long as the key lives that sealed them, and no longer.

use crate::simulated::calls::Echo;
use crate::simulated::hostile::{client_of, configured, connect, exchange, leave};
use crate::simulated::identity::server;
use crate::simulated::provider::seeded;
use crate::simulated::rig::{Faults, Nobody, Rig, RigPlan, S, World, address, patient};
use corelane::admin::watch::ServiceCounter as C;
use corelane_tls::rustls::version::{TLS12, TLS13};
use corelane_tls::rustls::{ClientConfig, HandshakeKind};
use std::sync::Arc;
use std::time::Duration;

/// How long a key seals: six hours.
const PERIOD: Duration = Duration::from_secs(6 * 60 * 60);

/// How a handshake goes for client `number`, who keeps the tickets that it is sent.
fn shake(rig: &mut Rig, config: &Arc<ClientConfig>, number: usize) -> HandshakeKind {
    let (peer, mut tls) = (connect(rig, number), client_of(config));
    while tls.is_handshaking() || tls.wants_write() {
        exchange(rig, &peer, &mut tls, usize::MAX);
    }
    let kind = tls.handshake_kind().unwrap();
    tls.send_close_notify();
    exchange(rig, &peer, &mut tls, usize::MAX);
    leave(rig, &peer);
    kind
}

fn play(config: impl Fn() -> Arc<ClientConfig>) {
    let world = World::new(1, Faults::none());
    let served = server().protocols(&[b"echo/1"]).provider(seeded(1)).load().unwrap();
    let limits = patient();
    let mut rig = Rig::new(&world, &RigPlan::lanes(2), |roster| roster.serve_behind(address(), limits, Echo, served.lane()));
    let since = |rig: &Rig| Duration::from_nanos(rig.world.now().nanoseconds() % PERIOD.as_nanos() as u64);
    let to_period = |rig: &mut Rig| rig.wait(PERIOD - since(rig));
    to_period(&mut rig);
    let [soon, late, again] = [(); 3].map(|()| config());
    let last = [(); 8].map(|()| config());
    for (number, config) in [&soon, &late, &again].into_iter().chain(&last).enumerate() {
        assert_eq!(shake(&mut rig, config, number), HandshakeKind::Full, "nobody knows it yet");
    }
    assert_eq!(shake(&mut rig, &soon, 20), HandshakeKind::Resumed);
    to_period(&mut rig);
    assert_eq!(shake(&mut rig, &again, 21), HandshakeKind::Resumed, "another key seals, and the one before still opens");
    rig.wait(PERIOD - 60 * S);
    for (number, config) in last.iter().enumerate() {
        assert_eq!(shake(&mut rig, config, 30 + number), HandshakeKind::Resumed, "at the end of that, at any lane");
    }
    to_period(&mut rig);
    assert_eq!(shake(&mut rig, &late, 40), HandshakeKind::Full, "its key is forgotten");
    assert_eq!(shake(&mut rig, &again, 41), HandshakeKind::Resumed, "who came meanwhile was given a newer ticket");
    let resumes = (42..50).take_while(|number| {
        rig.wait(PERIOD / 2);
        shake(&mut rig, &again, *number) == HandshakeKind::Resumed
    });
    assert_eq!(resumes.count(), 3, "a session ends a day after its certificates were shown, though each ticket is new");
    let handshakes: Vec<u64> = rig.snapshot().lanes.iter().map(|lane| lane.services[0].get(C::Handshakes)).collect();
    assert!(handshakes.iter().all(|count| *count > 0), "both lanes had some: {handshakes:?}");
    rig.close(&mut Nobody);
}

#[test]
fn a_session_goes_on_at_any_lane_until_the_key_of_its_ticket_is_forgotten() {
    play(|| configured(&[&TLS13]));
    play(|| configured(&[&TLS12]));
}
