//! A file in place of memory.

use super::{Reader, Readers, small};
use corelane::testing::{Faults, MS, Nobody, Rig, Status, World, for_seeds, patient};
use corelane_push::Push;
use corelane_wire::pattern::{self, PERIOD};

fn rig(world: &World, size: usize) -> Rig {
    Rig::serving(world, &small(), patient(), |_| Push::file(size, "/srv/bulk".into()))
}

#[test]
fn a_file_is_sent_from_its_beginning_to_its_end_and_again() {
    for_seeds(40, |seed| {
        let world = World::new(seed, Faults { short_write: 50, ..Faults::none() });
        // Whole periods, so that its end is followed by its beginning as everywhere in the stream.
        let mut content = vec![0; PERIOD * (1 + seed as usize % 3)];
        pattern::fill(0, &mut content);
        world.write_file("/srv/bulk", &content);
        let mut rig = rig(&world, [100, 10_000, 100_000][seed as usize % 3]);
        let mut readers = Readers((0..3).map(|number| Reader::new(rig.connect(number))).collect());
        for _ in 0..200 {
            rig.wait(MS);
            readers.read(usize::MAX);
        }
        assert!(readers.0.iter().all(|reader| reader.heard > 20_000), "a client waits for ever");
        rig.close(&mut readers);
        assert_eq!(world.open_files(), 0);
    });
}

/// The content of a file whose end is followed by its beginning as everywhere in the stream.
fn put(world: &World, periods: usize) {
    let mut content = vec![0; PERIOD * periods];
    pattern::fill(0, &mut content);
    world.write_file("/srv/bulk", &content);
}

#[test]
fn a_long_file_comes_in_parts_to_more_clients_than_may_ask_at_once() {
    let world = World::new(3, Faults::none());
    put(&world, 30);
    let mut rig = rig(&world, 64 << 10);
    let mut readers = Readers((0..70).map(|number| Reader::new(rig.connect(number))).collect());
    for _ in 0..100 {
        rig.wait(MS);
        readers.read(usize::MAX);
    }
    assert!(readers.0.iter().all(|reader| reader.heard > 1 << 20), "a client waits for its second part");
    rig.close(&mut readers);
    assert_eq!(world.open_files(), 0);
}

#[test]
fn a_disk_that_fails_breaks_off_who_is_sent_of_it_and_is_told() {
    let mut told = 0;
    for_seeds(20, |seed| {
        let world = World::new(seed, Faults { file_error: 100, ..Faults::none() });
        put(&world, 3);
        let mut rig = rig(&world, 50_000);
        let mut readers = Readers((0..8).map(|number| Reader::new(rig.connect(number))).collect());
        for _ in 0..50 {
            rig.wait(MS);
            readers.read(usize::MAX);
        }
        told += rig.reports.borrow().iter().filter(|record| record.to_string().contains("cannot be read")).count();
        rig.close(&mut readers);
        assert_eq!(world.open_files(), 0);
    });
    assert!(told > 0);
}

#[test]
fn without_a_file_connections_are_closed_and_it_is_told() {
    for content in [None, Some(&b""[..])] {
        let world = World::new(1, Faults::none());
        if let Some(content) = content {
            world.write_file("/srv/bulk", content);
        }
        let mut rig = rig(&world, 1_000);
        let early = rig.connect(0);
        rig.wait(20 * MS);
        let late = rig.connect(1);
        rig.wait(20 * MS);
        assert_eq!([&early, &late].map(|peer| (peer.status(), peer.readable_bytes())), [(Status::Ended, 0); 2]);
        let told = rig.reports.borrow().iter().filter(|record| record.to_string().contains("/srv/bulk cannot be pushed")).count();
        assert_eq!(told, 1);
        rig.close(&mut Nobody);
    }
}

#[test]
fn a_file_that_has_become_shorter_ends_the_connection_behind_what_there_was() {
    let world = World::new(1, Faults::none());
    let mut content = vec![0; PERIOD];
    pattern::fill(0, &mut content);
    world.write_file("/srv/bulk", &content);
    let mut rig = rig(&world, 1_000);
    let mut reader = Reader::new(rig.connect(0));
    rig.wait(MS);
    reader.read(10_000);
    world.write_file("/srv/bulk", &content[..500]);
    for _ in 0..100 {
        rig.wait(MS);
        reader.read(usize::MAX);
    }
    assert_ne!(reader.peer.status(), Status::Open, "{}", reader.heard);
    rig.close(&mut Nobody);
}
