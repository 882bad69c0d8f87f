//! What clients get that behave: each the stream from its beginning, whatever happens below.

use super::{Reader, Readers, small};
use corelane::admin::watch::ServiceCounter as C;
use corelane::testing::{Faults, MS, Random, Rig, RigPlan, Status, World, for_seeds, patient};
use corelane_push::{Push, SIZE_DEFAULT, SIZE_MAX};

/// A size that is drawn: small, that of a page or a memory's block, beside these, or long.
fn size(random: &mut Random) -> usize {
    let sizes = [1, 64, 1_000, 4_095, 4_096, SIZE_DEFAULT, 50_000, 65_536, 300_000, SIZE_MAX];
    sizes[random.index(sizes.len())]
}

#[test]
fn each_client_gets_the_stream_from_its_beginning_under_every_fault() {
    let (mut all, mut lost) = (0, 0);
    for_seeds(120, |seed| {
        let (world, mut random) = (World::new(seed, Faults::all(seed)), Random::new(seed));
        let size = size(&mut random);
        let plan = RigPlan::lanes(1 + random.index(3)).memory(16 << 20);
        let sealed = random.index(3) == 0;
        let make = |_| if sealed { Push::sealed(size) } else { Push::memory(size) };
        let mut rig = Rig::serving(&world, &plan, patient(), make);
        let mut readers = Readers((0..1 + random.index(8)).map(|number| Reader::new(rig.connect(number))).collect());
        for _ in 0..40 {
            rig.wait(MS * (1 + random.index(5)) as u32);
            all += readers.read(random.one_to(1 << 18));
        }
        let broken = |reader: &&Reader| matches!(reader.peer.status(), Status::Failed(_));
        lost += readers.0.iter().filter(broken).count();
        // A lane whose table others fill accepts later.
        let waits = |reader: &Reader| reader.heard == 0 && !matches!(reader.peer.status(), Status::Failed(_));
        for _ in 0..100 {
            readers.read(1);
            if !readers.0.iter().any(waits) {
                break;
            }
            rig.wait(50 * MS);
        }
        readers.read(usize::MAX);
        rig.close(&mut readers);
        assert!(readers.0.iter().all(|reader| reader.heard > 0 || reader.peer.status() != Status::Ended), "a client starves");
    });
    assert!(all > 50 << 20 && lost > 0, "{all} bytes came, and {lost} connections broke");
}

#[test]
fn memory_that_is_released_late_or_never_is_never_written() {
    for_seeds(40, |seed| {
        let world = World::new(seed, Faults { late_release: 300, ..Faults::none() });
        let mut rig = Rig::serving(&world, &small(), patient(), |_| Push::memory(SIZE_DEFAULT));
        let mut readers = Readers((0..5).map(|number| Reader::new(rig.connect(number))).collect());
        rig.wait(2 * MS);
        let before = rig.arenas[0].used();
        world.keep_sends(seed % 2 == 0);
        for _ in 0..30 {
            rig.wait(MS);
            readers.read(usize::MAX);
        }
        assert!(rig.arenas[0].used() <= before, "what is not released is the region, whoever it was sent to");
        world.keep_sends(false);
        rig.wait(50 * MS);
        assert!(readers.0.iter_mut().all(|reader| reader.read(usize::MAX) > 0), "all go on when it is released");
        rig.close(&mut readers);
    });
}

#[test]
fn a_lane_that_lends_nothing_sends_the_same_stream_and_says_what_that_costs() {
    let world = World::new(2, Faults { refused_memory: 1_000, ..Faults::none() });
    let mut rig = Rig::serving(&world, &small(), patient(), |_| Push::memory(30_000));
    let mut readers = Readers((0..3).map(|number| Reader::new(rig.connect(number))).collect());
    for _ in 0..20 {
        rig.wait(MS);
        readers.read(usize::MAX);
    }
    assert!(readers.0.iter().all(|reader| reader.heard > 300_000));
    assert!(rig.reports.borrow().iter().any(|record| record.to_string().contains("always copied: remedy: --memory")));
    rig.close(&mut readers);
}

#[test]
fn one_region_is_all_the_memory_that_there_is_for_all() {
    let used = |clients: usize| {
        let world = World::new(1, Faults::none());
        let mut rig = Rig::serving(&world, &small(), patient(), |_| Push::memory(SIZE_DEFAULT));
        let peers: Vec<_> = (0..clients).map(|number| rig.connect(number)).collect();
        rig.wait(20 * MS);
        assert!(peers.iter().all(|peer| peer.status() == Status::Open && peer.readable_bytes() > 0));
        rig.arenas[0].used()
    };
    assert_eq!((used(1), used(200)), (64 << 10, 64 << 10));
}

#[test]
fn a_piece_is_a_request_and_no_more_than_one_is_under_way() {
    let world = World::new(7, Faults::none());
    let mut rig = Rig::serving(&world, &small(), patient(), |_| Push::memory(1_000));
    let mut readers = Readers(vec![Reader::new(rig.connect(0))]);
    for _ in 0..20 {
        rig.wait(MS);
        readers.read(3_333);
        assert!(rig.count(C::Requests) <= rig.count(C::Sends) + 1, "two pieces are under way");
    }
    readers.read(usize::MAX);
    rig.drain(&mut readers);
    let heard = readers.0[0].heard;
    assert_eq!((heard, heard), (1_000 * rig.count(C::Requests), rig.count(C::BytesOut)), "each piece is whole");
}

#[test]
fn a_drain_sends_no_further_piece_and_cuts_none() {
    for_seeds(60, |seed| {
        let (world, mut random) = (World::new(seed, Faults { short_write: 100, ..Faults::none() }), Random::new(seed));
        let size = 1 + random.below(100_000) as usize;
        let mut rig = Rig::serving(&world, &small(), patient(), |_| Push::memory(size));
        let mut readers = Readers((0..4).map(|number| Reader::new(rig.connect(number))).collect());
        rig.wait(3 * MS);
        readers.read(random.one_to(200_000));
        rig.begin_drain();
        let late = rig.count(C::Requests);
        readers.read(usize::MAX);
        rig.until_ended(&mut readers);
        let is_whole = |reader: &Reader| reader.peer.status() == Status::Ended && reader.heard.is_multiple_of(size as u64);
        assert!(readers.0.iter().all(is_whole), "pieces of {size} bytes are cut");
        assert!(rig.count(C::Requests) <= late + 4, "no piece is begun in a drain but what a turn had begun");
        rig.world.check().unwrap();
    });
}
