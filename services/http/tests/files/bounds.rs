//! Large files that are open are shared by peers: who opens as many as it can shuts out nobody, of another address or of its own.

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

fn attack(bound: &Bound) -> u64 {
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

#[test]
fn no_bound_of_files_that_peers_can_meet_shuts_anybody_out() {
    let hits: Vec<u64> = bounds::of("http files").map(attack).collect();
    assert!(!hits.is_empty() && hits.iter().all(|hits| *hits > 0), "{hits:?}");
}
