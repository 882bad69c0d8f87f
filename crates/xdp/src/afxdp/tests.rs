//! What only the inside of a port of AF_XDP shows.

use super::*;
use crate::card::Functions;
use corelane_os::testing::network::{ip, on_thread, unshared_and_quiet};
use corelane_os::testing::skip;

/// `XDP_RSS_L4`: a hash of ports, which is all that veth says of its own.
const OF_PORTS: u32 = 1 << 3;

/// An IPv4 packet with UDP, whose ports make it one of a flow.
const PACKET: [u8; 46] = {
    let mut packet = [0; 46];
    (packet[0], packet[6], packet[12]) = (2, 2, 8);
    (packet[14], packet[17], packet[22], packet[23]) = (0x45, 32, 64, 17);
    (packet[26], packet[30], packet[35], packet[37], packet[39]) = (10, 10, 7, 8, 12);
    packet
};

/// What the program puts in front of a packet comes with it, also where the kernel copies; and no mark of an earlier packet is taken for one.
#[test]
fn what_the_card_says_comes_with_the_packet() {
    const NAME: &str = "afxdp::tests::what_the_card_says_comes_with_the_packet";
    on_thread(NAME, || {
        if let Err(why) = unshared_and_quiet() {
            return skip(NAME, &why);
        }
        ip(&["link add near type veth peer name far".into(), "link set near up".into(), "link set far up".into()]).unwrap();
        let interface = Interface::find("near").unwrap();
        let Some(functions) = card::functions(&interface) else {
            return skip(NAME, "this kernel or veth tells programs nothing (Linux 6.8)");
        };
        for (types, is_noted) in [(OF_PORTS, true), (functions.types, false)] {
            let functions = Functions { types, ..functions };
            let attachment = Attachment::new(&Ours::All, interface.clone(), Some(functions), 1).unwrap();
            assert!(attachment.tells() && attachment.attached.mode == XdpMode::Native);
            let attachment = Arc::new(attachment);
            let queue = XdpQueue { attachment, name: "near".into(), queue: 0, receiver: None, words: None, fast: None };
            let memory = FrameMemory::new(4, FRAME_BYTES_LEAST).unwrap();
            let mut near = queue.port(memory.clone(), 4).unwrap();
            let far = crate::packet::open("far", 1).unwrap().remove(0);
            let mut far = far.port(FrameMemory::new(4, FRAME_BYTES_LEAST).unwrap()).unwrap();
            // Each frame is used more than once.
            for _ in 0..10 {
                let mut frame = far.memory().frame().unwrap();
                frame.append(&PACKET);
                assert_eq!(far.send(1, &mut vec![frame]).unwrap().taken, 1);
                let mut frames = Vec::new();
                while frames.is_empty() {
                    near.receive(1, 4, &mut frames).unwrap();
                }
                assert_eq!(*frames[0], PACKET);
                assert_eq!(frames[0].facts.hash, None, "of no addresses, so of no use");
                assert_eq!(note_of(&frames[0]) & card::MARK != 0, is_noted, "{:#x}", note_of(&frames[0]));
            }
            assert_eq!(near.queue.attachment.seen.get(0), 10, "each packet was counted for its queue");
            near.end(1);
        }
    });
}

/// The word in front of a packet that came.
fn note_of(frame: &Frame) -> u32 {
    assert!(frame.headroom() == HEADROOM);
    // SAFETY: there are so many bytes of the same frame in front of it, which is ours alone.
    let bytes = unsafe { std::slice::from_raw_parts(frame.as_ptr().sub(4), 4) };
    u32::from_ne_bytes(bytes.try_into().unwrap())
}
