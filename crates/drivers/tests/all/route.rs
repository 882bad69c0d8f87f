//! A route that changes while bytes are under way: from a device that reads the sender's own pages to a virtual cable, whose other end gets what is sent again. No byte is wrong, and
//! memory is released once the kernel is done with it, and not before.
//!
//! ```text
//! sender 10.8.0.1 ==far 10.9.0.1 -- near 10.9.0.2== peer 10.8.0.2
//!        \== a dummy device, which reads what is sent from where it lies, and loses it: nobody acknowledges
//! ```

use crate::corruption::Link;
use crate::sender::{BLOCK, Reader, SEND, Sender, at, blocks, memory, with_epoll, with_uring};
use corelane_drivers::probe_uring;
use corelane_os::testing::{network, skip};
use corelane_seam::{Arena, Driver, Tuning};
use rustix::net::RecvFlags;

/// Bytes that go over the cable first, and of the whole stream.
const BEFORE: u64 = 8 * SEND as u64;
const ALL: u64 = 24 * SEND as u64;
/// Looks without news after which the sender has no room left.
const QUIET: usize = 200;

fn ip(lines: &[&str]) -> Result<(), String> {
    let lines: Vec<String> = lines.iter().map(|&line| line.to_owned()).collect();
    network::ip(&lines)
}

/// The cable of [`Link::cards`], with an address at each end that stays whatever the route is.
fn cable() -> Result<Link, String> {
    let mut link = Link::cards()?;
    let at_peer = ["addr add 10.8.0.2/32 dev lo", "link set lo up", "route add 10.8.0.1/32 via 10.9.0.1 src 10.8.0.2"];
    link.in_peer(|| ip(&at_peer))?;
    // An ifb drops what was not redirected to it, and has the offloads of a card.
    ip(&["addr add 10.8.0.1/32 dev lo", "link set lo up", "link add card type ifb", "link set card up"])?;
    over_cable();
    link.address = "10.8.0.1:0";
    Ok(link)
}

fn over_cable() {
    ip(&["route replace 10.8.0.2/32 via 10.9.0.2"]).unwrap();
}

fn sends_right<D: Driver>(make: &impl Fn(Arena, Tuning) -> D, link: &Link, tuning: Tuning) {
    let (arena, _) = memory();
    let joined = Sender::joined(make(arena.clone(), tuning), arena, &at(link.address), |address| link.connect(address));
    let (mut sender, peer) = joined;
    let mut reader = Reader::new(peer);
    let step = |sender: &mut Sender<D>, reader: &mut Reader| {
        let soon = sender.soon();
        let has_ended = sender.step(ALL, &mut blocks, soon);
        has_ended | reader.take(RecvFlags::DONTWAIT).is_some()
    };
    while reader.read < BEFORE {
        step(&mut sender, &mut reader);
    }
    ip(&["route replace 10.8.0.2/32 dev card"]).unwrap();
    let mut quiet = 0;
    while quiet < QUIET {
        quiet = if step(&mut sender, &mut reader) { 0 } else { quiet + 1 };
    }
    let (read, kept) = (reader.read, sender.tally.kept - sender.tally.released);
    assert!(read < sender.tally.bytes && kept > 0, "{kept} sends are the kernel's, and nobody has {:?}", sender.tally);
    over_cable();
    while reader.read < ALL {
        step(&mut sender, &mut reader);
    }
    sender.settle();
    assert!(!reader.is_corrupt && sender.tally.released == sender.tally.kept && reader.read > read, "{:?}", sender.tally);
    sender.close();
}

#[test]
fn what_a_new_route_sends_again_is_what_was_sent() {
    const NAME: &str = "route::what_a_new_route_sends_again_is_what_was_sent";
    network::on_thread(NAME, || match cable() {
        Ok(link) => {
            let tuning = Tuning::default().zero_copy_bytes(BLOCK).zero_copy_always(true);
            sends_right(&with_epoll, &link, tuning);
            match probe_uring() {
                Ok(_) => sends_right(&with_uring, &link, tuning),
                Err(why) => skip(NAME, &why.to_string()),
            }
        }
        Err(why) => skip(NAME, &why),
    });
}
