//! What holds for every kind of port at the near end of a wire.

use crate::node::{By, Node, ROOM, memory};
use crate::wire::{FAR_MAC, NEAR_MAC, OURS, datagram, far, on_network, run, wire};
use corelane_os::testing::skip;
use corelane_seam::Reason;
use corelane_xdp::{Ours, afxdp, packet};

/// How often a packet is sent at the most, and how long in between, in nanoseconds.
const SENT_MAX: usize = 5000;
const PAUSE: u64 = 2_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Xdp,
    /// One that takes packets in by itself.
    Polling,
    Packet,
}

/// A node on each of the first queues of `near`.
pub fn nodes(kind: Kind, queues: usize) -> Vec<Node> {
    nodes_by(By::Epoll, kind, queues)
}

fn nodes_by(by: By, kind: Kind, queues: usize) -> Vec<Node> {
    let ours = Ours::Addresses(vec![OURS.into()]);
    match kind {
        Kind::Xdp | Kind::Polling => {
            let mut opened = afxdp::open("near", &ours, queues).unwrap();
            if kind == Kind::Polling {
                afxdp::poll(&mut opened).unwrap();
            }
            let node = |queue: afxdp::XdpQueue| {
                let memory = memory();
                Node::by(by, queue.port(memory.clone(), 128).unwrap(), memory)
            };
            opened.into_iter().map(node).collect()
        }
        Kind::Packet => packet::open("near", queues)
            .unwrap()
            .into_iter()
            .map(|queue| {
                let memory = memory();
                Node::by(by, queue.port(memory.clone()).unwrap(), memory)
            })
            .collect(),
    }
}

/// Runs a test on a wire with every driver, each in a namespace of its own.
pub fn on_every_driver(test: &str, body: impl Fn(By) + Sync) {
    for by in [By::Epoll, By::Uring] {
        match by.lacking() {
            None => on_network(test, || body(by)),
            Some(why) => skip(test, &why),
        }
    }
}

/// Sends frames of all sizes, three batches of each; they come, go back as they are, and arrive.
pub fn echoes(by: By, kind: Kind) {
    wire(1);
    let mut near = nodes_by(by, kind, 1).remove(0);
    let mut far = far();
    assert_eq!((near.facts.link.mac, near.facts.queue, near.facts.frame_bytes_max), (NEAR_MAC, 0, 1514));
    for round in 0..3 {
        let packets: Vec<_> = (0..40).map(|number| datagram(OURS, number, &vec![round; 37 * number as usize])).collect();
        assert_eq!(far.send(&packets), Ok(40));
        let mut frames = near.frames(40);
        assert_eq!(frames.iter().map(|frame| frame.to_vec()).collect::<Vec<_>>(), packets);
        frames.iter_mut().for_each(|frame| frame[..12].rotate_left(6));
        let sent = near.push(corelane_seam::FrameOp::Send { port: near.port, frames });
        near.end(sent);
        let back = far.frames(40);
        assert!(back.iter().zip(&packets).all(|(back, packet)| back[12..] == packet[12..] && back[..6] == FAR_MAC));
    }
    near.close();
    far.close();
}

/// Bytes of data of datagrams whose packets lie in one frame to five.
const LONG: [usize; 9] = [1, 1472, 1850, 1878, 1879, 3000, 5000, 8000, 8972];

/// Packets that lie in several frames come, go back as they are and arrive, between shorter ones and in order; what no port takes is refused whole.
pub fn long_packets(by: By, kind: Kind) {
    wire(1);
    run(&["link set near mtu 9000", "link set far mtu 9000"]);
    let mut near = nodes_by(by, kind, 1).remove(0);
    let mut far = far();
    assert_eq!((near.facts.frame_bytes_max, near.facts.pieces_max), (9014, 17));
    for round in 0..3 {
        let data = |length| (0..length).map(|index| (index % 251) as u8 ^ round).collect::<Vec<_>>();
        let packets: Vec<_> = LONG.iter().map(|&length| datagram(OURS, length as u16, &data(length))).collect();
        far.send(&packets).unwrap();
        let mut came = near.packets(LONG.len());
        assert!(came == packets, "{:?}", came.iter().map(Vec::len).collect::<Vec<_>>());
        came.iter_mut().for_each(|packet| packet[..12].rotate_left(6));
        near.send(&came).unwrap();
        assert!(far.packets(LONG.len()) == came);
    }
    let refused = [(near.pieces(&[0; 9019], ROOM), 6), (near.pieces(&[0; 180], 10), 18)];
    for (frames, pieces) in refused {
        assert_eq!(near.send_frames(frames), Ok((0, pieces)));
    }
    let mut without_end = near.pieces(&[0; 4000], ROOM);
    without_end.pop();
    let around = datagram(OURS, 7, b"beside what is refused");
    without_end.splice(0..0, near.pieces(&around, 20));
    assert_eq!(near.send_frames(without_end), Ok((4, 2)));
    assert_eq!(far.packets(1), [around]);
    near.close();
    far.close();
}

/// Sends a packet until it comes at the other end.
fn comes(from: &mut Node, to: &mut Node, packet: &[u8]) {
    for _ in 0..SENT_MAX {
        // That it is down still is one reason why nothing comes.
        let _sent = from.send(&[packet.to_vec()]);
        if to.waiting().iter().any(|frame| **frame == *packet) {
            return;
        }
        from.collect(PAUSE);
    }
    panic!("nothing comes");
}

/// The lane hears of it without asking, and what was sent or received before is whole.
pub fn goes_down_and_away(by: By, kind: Kind) {
    wire(1);
    let mut near = nodes_by(by, kind, 1).remove(0);
    let mut far = far();
    let receive = near.receive();
    near.collect(0);
    run(&["link set near down"]);
    assert_eq!(near.arrived(receive).unwrap_err().reason, Reason::Down);
    assert_eq!(near.send(&[datagram(OURS, 1, b"lost")]).unwrap_err().reason, Reason::Down);
    run(&["link set near up"]);
    // What tells that it is up again comes with the next event, and the kernel lets go of what it queues until it has seen to the link.
    comes(&mut near, &mut far, &datagram(OURS, 2, b"there"));
    comes(&mut far, &mut near, &datagram(OURS, 3, b"back"));
    let mut receive = near.receive();
    near.collect(0);
    run(&["link del near"]);
    // It goes down before it goes away.
    while near.arrived(receive).unwrap_err().reason != Reason::NoInterface {
        receive = near.receive();
    }
    assert_eq!(near.send(&[datagram(OURS, 4, b"nowhere")]).unwrap_err().reason, Reason::NoInterface);
    near.close();
    far.close();
}
