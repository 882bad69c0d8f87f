//! What all who are sent files share: large files that are open, names that are looked up, lists of names, parts that are read ahead. Who takes as much as it can shuts out nobody of another address; of its own, nobody
//! who asks for a large file, or for a short list.

use corelane::testing::parts::svc::bounds::{self, Bound};
use corelane::testing::{Faults, MS, Peer, Rig, RigPlan, World, patient};
use corelane_http::{Files, Http};

const ATTACKER: usize = 1;
const OTHER: usize = 2;

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n")
}

fn asks(rig: &mut Rig, number: usize, path: &str) -> Peer {
    let peer = rig.connect(number);
    rig.wait(2 * MS);
    peer.send(get(path).as_bytes());
    peer
}

/// After how many milliseconds a client that asks again when it is refused has the file, whole.
fn is_served(rig: &mut Rig, number: usize, path: &str, bytes: usize) -> Option<usize> {
    let (mut peer, mut heard) = (asks(rig, number, path), Vec::new());
    for waited in 0..1_000 {
        rig.wait(MS);
        heard.extend(peer.read(usize::MAX));
        match heard.starts_with(b"HTTP/1.1 200") {
            true if heard.len() > bytes => return Some(waited),
            true => {}
            false if heard.is_empty() => {}
            false => {
                peer.close();
                heard.clear();
                peer = asks(rig, number, path);
            }
        }
    }
    None
}

fn attack_open_files(bound: &Bound) -> u64 {
    const BYTES: usize = 600_000;
    let world = World::new(1, Faults::none());
    world.make_directory("site");
    let names: Vec<String> =
        (0..30).map(|number| format!("{number}.bin")).chain(["own.bin".into(), "others.bin".into()]).collect();
    for name in &names {
        world.write_file(format!("site/{name}"), &vec![7; BYTES]);
    }
    // A quarter of its descriptors are for such files.
    let plan = RigPlan::lanes(1).memory(64 << 20).connections_max(64);
    let mut rig = Rig::serving(&world, &plan, patient(), |_| Http::new(Files::new("site")));
    // They read nothing.
    let attackers: Vec<Peer> = names[..24].iter().map(|name| asks(&mut rig, ATTACKER, &format!("/{name}"))).collect();
    rig.wait(600 * MS);
    let served = [(OTHER, "/others.bin"), (ATTACKER, "/own.bin")].map(|(number, path)| is_served(&mut rig, number, path, BYTES));
    println!("{}: {served:?} ms", bound.name);
    assert!(served.iter().all(Option::is_some), "{}: {served:?}", bound.name);
    drop(attackers);
    rig.named(bound.counter)
}

/// Whether the first answer to a client is the right one: who is refused would have to ask again.
fn is_served_at_once(rig: &mut Rig, number: usize, path: &str) -> bool {
    let (peer, mut heard) = (asks(rig, number, path), Vec::new());
    while heard.is_empty() {
        rig.wait(10 * MS);
        heard.extend(peer.read(usize::MAX));
    }
    heard.starts_with(b"HTTP/1.1 200")
}

/// Who reads slowly, and goes on reading, stands still nowhere, so nothing of it ends for others: what its share leaves is all that they have.
#[test]
fn who_reads_on_slowly_leaves_large_files_to_other_addresses() {
    const BYTES: usize = 2 << 20;
    const PART: usize = 64 << 10;
    let world = World::new(1, Faults::none());
    world.make_directory("site");
    let names: Vec<String> = (0..20).map(|number| format!("/{number}.bin")).collect();
    for name in names.iter().map(String::as_str).chain(["/others.bin"]) {
        world.write_file(format!("site{name}"), &vec![7; BYTES]);
    }
    let plan = RigPlan::lanes(1).memory(64 << 20).connections_max(64);
    let mut rig = Rig::serving(&world, &plan, patient(), |_| Http::new(Files::new("site")));
    let attackers: Vec<Peer> = names.iter().map(|name| asks(&mut rig, ATTACKER, name)).collect();
    let mut read = vec![0; attackers.len()];
    for _ in 0..10 {
        rig.wait(100 * MS);
        attackers.iter().zip(&mut read).for_each(|(peer, read)| *read += peer.read(PART).len());
    }
    assert!(is_served_at_once(&mut rig, OTHER, "/others.bin"), "{read:?}");
    rig.wait(100 * MS);
    let go_on = attackers.iter().zip(&read).filter(|(peer, read)| **read > PART && !peer.read(PART).is_empty()).count();
    assert!(go_on > 1 && rig.named("open_files_max_hits") > 0, "{go_on} of {read:?}");
}

/// Files lie far away, and each attacker asks for a name of its own.
fn attack_look_ups(bound: &Bound) -> u64 {
    let world = World::new(1, Faults::none());
    world.make_directory("site");
    world.write_file("site/others.bin", &[7; 600]);
    let mut rig = Rig::serving(&world, &RigPlan::lanes(1).memory(64 << 20), patient(), |_| Http::new(Files::new("site")));
    world.far_files(Some(500 * MS));
    let attackers: Vec<Peer> = (0..700).map(|_| rig.connect(ATTACKER)).collect();
    rig.wait(10 * MS);
    for (number, peer) in attackers.iter().enumerate() {
        peer.send(get(&format!("/{number}")).as_bytes());
    }
    rig.wait(10 * MS);
    assert!(is_served_at_once(&mut rig, OTHER, "/others.bin"), "{}", bound.name);
    rig.named(bound.counter)
}

/// They ask for lists of many names, and read nothing.
fn attack_lists(bound: &Bound) -> u64 {
    let world = World::new(1, Faults::none());
    for (directory, names) in
        (0..12).map(|number| (number.to_string(), 5_000)).chain([("short".into(), 1), ("others".into(), 5_000)])
    {
        world.make_directory("site");
        world.make_directory(format!("site/{directory}"));
        (0..names).for_each(|name| world.write_file(format!("site/{directory}/{name:0>100}"), b""));
    }
    let plan = RigPlan::lanes(1).memory(64 << 20);
    let mut rig = Rig::serving(&world, &plan, patient(), |_| Http::new(Files::new("site").listing(true)));
    let attackers: Vec<Peer> = (0..12).map(|number| asks(&mut rig, ATTACKER, &format!("/{number}/"))).collect();
    rig.wait(100 * MS);
    let served = [(OTHER, "/others/"), (ATTACKER, "/short/")].map(|(number, path)| is_served_at_once(&mut rig, number, path));
    assert_eq!(served, [true; 2], "{}", bound.name);
    drop(attackers);
    rig.named(bound.counter)
}

/// They ask for parts of a large file on a slow disk, more of them than may be asked for at once.
fn attack_read_ahead(bound: &Bound) -> u64 {
    const BYTES: usize = 600_000;
    let world = World::new(1, Faults::none());
    world.make_directory("site");
    world.write_file("site/large.bin", &vec![7; BYTES]);
    let mut rig = Rig::serving(&world, &RigPlan::lanes(1).memory(64 << 20), patient(), |_| Http::new(Files::new("site")));
    assert!(is_served(&mut rig, OTHER, "/large.bin", BYTES).is_some(), "it is open from now on");
    world.slow_disk(400 * MS);
    let attackers: Vec<Peer> = (0..1_300).map(|_| rig.connect(ATTACKER)).collect();
    rig.wait(20 * MS);
    for peer in &attackers {
        peer.send(get("/large.bin").as_bytes());
    }
    rig.wait(20 * MS);
    let served = [(OTHER, 500), (ATTACKER, 900)].map(|(number, patience)| {
        let waited = is_served(&mut rig, number, "/large.bin", BYTES);
        println!("{}: client {number} was served after {waited:?} ms", bound.name);
        waited.is_some_and(|waited| waited < patience)
    });
    assert_eq!(served, [true; 2], "{}", bound.name);
    drop(attackers);
    rig.named(bound.counter)
}

fn attack(bound: &Bound) -> u64 {
    match bound.name {
        "large files that are open" => attack_open_files(bound),
        "names that are looked up" => attack_look_ups(bound),
        "lists of names that are sent" => attack_lists(bound),
        "parts of files that are read ahead" => attack_read_ahead(bound),
        other => panic!("nobody attacks {other}"),
    }
}

#[test]
fn no_bound_of_files_that_peers_can_meet_shuts_anybody_out() {
    let hits: Vec<u64> = bounds::of("http files").map(attack).collect();
    assert!(!hits.is_empty() && hits.iter().all(|hits| *hits > 0), "{hits:?}");
}
