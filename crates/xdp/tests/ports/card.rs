//! A card whose driver lets it read and write frames itself: of a virtual machine, whose other end is the kernel around it.
//!
//! ```text
//! cargo test --package corelane-xdp --no-run
//! cargo xtask rig guest --kernel 6.18 -- target/debug/deps/ports-NUMBER card:: --nocapture
//! ```

use crate::node::{Node, memory};
use crate::wire::{run, sum};
use corelane_os::testing::skip;
use corelane_seam::{PortKind, Reason};
use corelane_xdp::{Ours, afxdp};
use std::net::Ipv4Addr;

/// Names the card.
const CARD: &str = "CORELANE_CARD";
/// The kernel at the other end; and us, beside this machine's kernel.
const THERE: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 1);
const OURS: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 3);
/// Echo requests on their way at once, and how often so many.
const AT_ONCE: u16 = 40;
const ROUNDS: u16 = 100;

/// Requests of which each answer is counted.
const COUNTED: u8 = 9;

struct Card {
    node: Node,
    there: [u8; 6],
}

impl Card {
    /// A port of the card's first queue, which knows who is there.
    fn open(name: &str) -> Self {
        let memory = memory();
        let queue = afxdp::open(name, &Ours::Addresses(vec![OURS.into()]), 1).unwrap().remove(0);
        let mut card = Self { node: Node::new(queue.port(memory.clone(), 512).unwrap(), memory), there: [0xff; 6] };
        card.there = card.neighbour();
        card
    }

    fn frame(&self, kind: u16, body: &[u8]) -> Vec<u8> {
        [&self.there[..], &self.node.facts.link.mac, &kind.to_be_bytes(), body].concat()
    }

    /// Who has the address there?
    fn question(&self) -> Vec<u8> {
        let mac = self.node.facts.link.mac;
        let body = [&[0, 1, 8, 0, 6, 4, 0, 1][..], &mac, &OURS.octets(), &[0; 6], &THERE.octets(), &[0; 18]].concat();
        self.frame(0x0806, &body)
    }

    /// Asks who has the address there.
    fn neighbour(&mut self) -> [u8; 6] {
        let question = self.question();
        self.node.send(&[question]).unwrap();
        loop {
            let answer = self.node.frames(1).into_iter().find(|frame| frame[12..14] == [8, 6] && frame[28..32] == THERE.octets());
            if let Some(answer) = answer {
                return answer[22..28].try_into().unwrap();
            }
        }
    }

    /// An echo request of that number, one of those that are told by a name.
    fn request(&self, name: u8, number: u16) -> Vec<u8> {
        let data = (0..usize::from(number) * 37 % 1400).map(|index| (index % 251) as u8 ^ number as u8);
        let mut echo = [&[8, 0, 0, 0, 0, name][..], &number.to_be_bytes()].concat();
        echo.extend(data);
        let checksum = sum(&echo);
        echo[2..4].copy_from_slice(&checksum);
        let mut header = [&[0x45, 0][..], &(20 + echo.len() as u16).to_be_bytes(), &[0, 0, 0, 0, 64, 1, 0, 0]].concat();
        header.extend(OURS.octets());
        header.extend(THERE.octets());
        let checksum = sum(&header);
        header[10..12].copy_from_slice(&checksum);
        self.frame(0x0800, &[header, echo].concat())
    }

    /// Sends echo requests, and has their answers: each once, and whole.
    fn echoes(&mut self, first: u16) {
        let requests: Vec<_> = (first..first + AT_ONCE).map(|number| self.request(COUNTED, number)).collect();
        assert_eq!(self.node.send(&requests), Ok(AT_ONCE.into()));
        let mut missing: Vec<_> = requests.iter().map(|request| request[38..].to_vec()).collect();
        while !missing.is_empty() {
            for answer in self.node.frames(1) {
                if answer[23] == 1 && answer[34] == 0 && answer[39] == COUNTED {
                    let came = missing.iter().position(|data| answer[38..].starts_with(data));
                    missing.remove(came.unwrap_or_else(|| panic!("{:?} was not sent", &answer[38..42])));
                }
            }
        }
    }
}

impl Card {
    /// Has the card run out of frames to receive into, and then lets it have some again.
    fn starve(&mut self) {
        let cards = self.node.memory.frames() / 2;
        // What was sent before comes back first.
        while self.node.memory.counts().lent > cards {
            self.node.collect(1_000_000);
        }
        // Nobody receives meanwhile, so no frame goes to the card in place of one that it has filled.
        for round in 0..=(cards as u16 / AT_ONCE) {
            while self.node.memory.counts().free < AT_ONCE.into() {
                self.node.collect(1_000_000);
            }
            let requests: Vec<_> = (round * AT_ONCE..(round + 1) * AT_ONCE).map(|number| self.request(0, number)).collect();
            self.node.send(&requests).unwrap();
        }
        while self.node.memory.counts().lent > cards {
            self.node.collect(1_000_000);
        }
        let memory = self.node.memory.clone();
        let kept: Vec<_> = std::iter::from_fn(|| memory.frame()).collect();
        let mut came = Vec::new();
        while came.len() < cards {
            came.extend(self.node.waiting());
        }
        drop(came);
        drop(kept);
    }
}

/// Each frame comes and goes by the card alone, none is lost, and each is given back: when the card has sent it, over down and up, and at the
/// end. A card that ran out of frames goes on when there are some.
#[test]
fn a_card_reads_and_writes_frames_itself() {
    const NAME: &str = "card::a_card_reads_and_writes_frames_itself";
    let Ok(name) = std::env::var(CARD) else {
        return skip(NAME, "no card is named by CORELANE_CARD, as in a guest (cargo xtask rig guest)");
    };
    for _ in 0..2 {
        let mut card = Card::open(&name);
        assert_eq!(card.node.facts.kind, PortKind::XdpZeroCopy);
        let lent = card.node.memory.counts().lent;
        assert!(lent <= card.node.memory.frames() / 2 + 1, "{lent} frames are the card's");
        (0..ROUNDS).for_each(|round| card.echoes(round * AT_ONCE));
        card.starve();
        (0..ROUNDS).for_each(|round| card.echoes(round * AT_ONCE));
        let receive = card.node.receive();
        card.node.collect(0);
        run(&[&format!("link set {name} down")]);
        assert_eq!(card.node.arrived(receive).unwrap_err().reason, Reason::Down);
        run(&[&format!("link set {name} up")]);
        while card.node.send(&[card.question()]).is_err() {
            card.node.collect(1_000_000);
        }
        card.there = card.neighbour();
        (0..ROUNDS).for_each(|round| card.echoes(round * AT_ONCE));
        // Nothing more is sent or comes: what was sent is still given back.
        while card.node.memory.counts().lent > card.node.memory.frames() / 2 {
            card.node.collect(1_000_000);
        }
        card.node.close();
    }
}
