//! Behind TLS as without it: one side says no more (close_notify, RFC 8446 section 6.1), and hears the other to its end.

use crate::simulated::for_seeds;
use crate::simulated::identity::{client, server};
use crate::simulated::provider::{seeded, speaking};
use crate::simulated::rig::{FaultKind, Faults, Nobody, Rig, RigPlan, S, World, address, patient};
use corelane::admin::watch::ServiceCounter as C;
use corelane::aio::{self, Connection, Lane};
use corelane::service::Limits;
use corelane::{Cx, Input, Next, Output, Peer, Silent, StreamService};
use corelane_tls::rustls::ProtocolVersion;
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

async fn read_to_end(connection: &Connection) -> aio::Result<usize> {
    let mut bytes = 0;
    while let Some(read) = connection.read().await? {
        bytes += read.len();
    }
    assert!(!connection.is_truncated(), "who says no more says so");
    Ok(bytes)
}

/// Says what it has and no more, and then hears the other.
async fn greets(_lane: Lane, connection: Connection) -> aio::Result<()> {
    connection.write(&[9; 70_000]).await?;
    connection.finish();
    let heard = read_to_end(&connection).await?;
    assert_eq!(heard, 90_000);
    Ok(())
}

/// Hears the other to its end, and only then says what it has.
async fn is_greeted(lane: &Lane) -> aio::Result<usize> {
    let connection = lane.connect(address()).await?;
    let heard = read_to_end(&connection).await?;
    lane.sleep(Duration::from_millis(3)).await;
    connection.write(&[2; 90_000]).await?;
    connection.finish();
    connection.flush().await?;
    Ok(heard)
}

fn limits() -> Limits {
    let ages = Duration::from_secs(1 << 20);
    patient().handshake_limit(ages).connect_limit(ages).output_high(16 << 10)
}

/// All faults but those that break connections off.
fn gentle(seed: u64) -> Faults {
    let ends = [FaultKind::Reset, FaultKind::AbortedAccept, FaultKind::LostAccept, FaultKind::FilledTable, FaultKind::ClockJump];
    ends.into_iter().fold(Faults::all(seed), |faults, kind| faults.with(kind, 0))
}

fn play(seed: u64, faults: Faults) {
    let (world, provider) = (World::new(seed, faults), seeded(seed));
    let served = server().provider(provider.clone()).load().unwrap();
    let version = if seed.is_multiple_of(3) { ProtocolVersion::TLSv1_2 } else { ProtocolVersion::TLSv1_3 };
    let caller = client().provider(speaking(version, provider)).load().unwrap();
    let heard = Rc::new(Cell::new(0));
    let mut rig = Rig::new(&world, &RigPlan::lanes(1).memory(8 << 20), |roster| {
        let count = heard.clone();
        let calls = aio::main(async move |lane: Lane| {
            for _ in 0..50 {
                let Ok(bytes) = is_greeted(&lane).await else { continue };
                return count.set(bytes);
            }
        });
        roster.serve_behind(address(), limits(), aio::each(greets), served.lane());
        roster.client_behind(limits(), calls, caller.lane());
    });
    rig.wait(5 * S);
    assert_eq!(heard.get(), 70_000, "the other is heard to its end");
    // What the system never releases keeps its connection that much longer.
    rig.wait(60 * S);
    assert_eq!(rig.connections(), 0, "both have come to their ends");
    assert_eq!([C::StreamsCut, C::AnswersLate, C::Panics].map(|counter| rig.count(counter)), [0; 3]);
    rig.close(&mut Nobody);
}

#[test]
fn who_has_said_all_hears_the_other_to_its_end() {
    play(1, Faults::none());
    play(3, Faults::none());
    for_seeds(40, |seed| play(seed, gentle(seed)));
}

/// A handshake that was refused memory amid a record goes on when memory is lent, and hears the rest of that record.
#[test]
fn a_handshake_that_was_refused_memory_amid_a_record_goes_on() {
    let short = Faults::none().with(FaultKind::ShortRead, 300).with(FaultKind::RefusedMemory, 300);
    for_seeds(40, |seed| play(seed, short));
}

/// Answers, and says that its peer has said its last.
struct Last;

impl StreamService for Last {
    type Talk = Silent;
    type Session = ();

    fn open(&mut self, _cx: &mut Cx<'_>, _peer: &Peer) {}

    fn receive(&mut self, _cx: &mut Cx<'_>, (): &mut (), input: &mut Input, output: &mut Output) -> Next {
        let _ = input.take_all();
        output.push(&b"last"[..]);
        Next::Close
    }
}

/// Asks once, hears the answer to its end, and says no more a while later.
async fn asks(lane: &Lane) -> aio::Result<usize> {
    let connection = lane.connect(address()).await?;
    connection.write(b"?").await?;
    let heard = read_to_end(&connection).await?;
    lane.sleep(Duration::from_secs(1)).await;
    Ok(heard)
}

#[test]
fn who_may_still_end_its_stream_is_waited_for() {
    for behind in [false, true] {
        let (world, provider) = (World::new(1, Faults::none()), seeded(1));
        let served = server().provider(provider.clone()).load().unwrap();
        let caller = client().provider(speaking(ProtocolVersion::TLSv1_3, provider)).load().unwrap();
        let mut rig = Rig::new(&world, &RigPlan::lanes(1).memory(8 << 20), |roster| {
            let asks = aio::main(async move |lane: Lane| assert_eq!(asks(&lane).await.unwrap(), 4));
            match behind {
                true => {
                    roster.serve_behind(address(), limits(), Last, served.lane());
                    roster.client_behind(limits(), asks, caller.lane());
                }
                false => {
                    roster.serve(address(), limits(), Last);
                    roster.client(limits(), asks);
                }
            }
        });
        rig.wait(S / 2);
        assert_eq!(rig.connections(), 2, "behind TLS: {behind}");
        rig.wait(5 * S);
        assert_eq!((rig.connections(), rig.count(C::Panics)), (0, 0));
        rig.close(&mut Nobody);
    }
}

/// Ends its stream, and from then on no memory is lent.
struct EndsWithoutMemory(Rc<Cell<bool>>);

impl StreamService for EndsWithoutMemory {
    type Talk = Silent;
    type Session = ();

    fn open(&mut self, _cx: &mut Cx<'_>, _peer: &Peer) {}

    fn receive(&mut self, _cx: &mut Cx<'_>, (): &mut (), input: &mut Input, _output: &mut Output) -> Next {
        let _ = input.take_all();
        self.0.set(true);
        Next::Close
    }
}

/// How the stream of the other side ended.
async fn hears_the_end(lane: &Lane) -> &'static str {
    let connection = lane.connect(address()).await.unwrap();
    connection.write(b"?").await.unwrap();
    match connection.read().await {
        Ok(Some(_)) => "bytes",
        Ok(None) if connection.is_truncated() => "a cut",
        Ok(None) => "its end",
        Err(_) => "a reset",
    }
}

/// The last word waits until there is memory for it; where there never is, not for longer than a peer's answers wait.
#[test]
fn a_last_word_waits_for_memory_and_not_for_ever() {
    for (is_short_for, due) in [(S, "its end"), (100 * S, "a reset")] {
        let (world, provider) = (World::new(1, Faults::none()), seeded(1));
        let served = server().provider(provider.clone()).load().unwrap();
        let caller = client().provider(speaking(ProtocolVersion::TLSv1_3, provider)).load().unwrap();
        let (heard, is_refused) = (Rc::new(Cell::new("nothing")), Rc::new(Cell::new(false)));
        let mut rig = Rig::new(&world, &RigPlan::lanes(1).memory(8 << 20), |roster| {
            let heard = heard.clone();
            let asks = aio::main(async move |lane: Lane| heard.set(hears_the_end(&lane).await));
            let patience = limits().send_limit(Duration::from_secs(20));
            roster.serve_behind(address(), patience, EndsWithoutMemory(is_refused.clone()), served.lane());
            roster.client_behind(limits(), asks, caller.lane());
        });
        let refuses = is_refused.clone();
        rig.arenas[0].refuse_when(move || refuses.get());
        rig.wait(is_short_for);
        let before = heard.get();
        is_refused.set(false);
        rig.wait(5 * S);
        assert_eq!((before == "nothing", heard.get()), (due == "its end", due));
        assert_eq!((rig.count(C::SendLimitHits) > 0, rig.connections()), (due == "a reset", 0));
        rig.close(&mut Nobody);
    }
}
