//! Many visitors at once who speak the test cipher by hand, under every fault: those who keep to it are served, and all others are told what is
//! wrong, or let go.

use crate::cipher::{self, ALERT, Calls, DATA, END, Manner, PLAIN, REPLY, ciphers, hello, record};
use crate::echo::{Echo, pattern};
use crate::for_seeds;
use crate::handshakes::{Hand, NONCE};
use crate::rig::{Family, Play, Rig, RigPlan, endings, patient};
use corelane_sim::{Faults, Peer, Random, Report, Status, Turn, World};
use corelane_watch::ServiceCounter as C;
use std::time::Duration;

const VISITORS: usize = 14;

/// What a visitor does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Keeps to the cipher, and says its end.
    Honest,
    /// The same without a word at its end.
    Curt,
    Plain,
    WrongName,
    WrongProtocol,
    Garbage,
    /// Data before the handshake.
    Early,
    /// Shows another key.
    WrongProof,
    /// Ends within its first record.
    Cut,
    /// Breaks off when it has its reply.
    Fickle,
}

const KINDS: [Kind; 10] = [
    Kind::Honest,
    Kind::Curt,
    Kind::Plain,
    Kind::WrongName,
    Kind::WrongProtocol,
    Kind::Garbage,
    Kind::Early,
    Kind::WrongProof,
    Kind::Cut,
    Kind::Fickle,
];

impl Kind {
    fn first(self) -> Vec<u8> {
        match self {
            Self::Plain => b"GET / HTTP/1.1\r\n\r\n".to_vec(),
            Self::WrongName => hello(NONCE, "nobody", "echo/1"),
            Self::WrongProtocol => hello(NONCE, "host-a", "telepathy/7"),
            Self::Garbage => vec![0xee; 200],
            Self::Early => record(DATA, b"too early"),
            Self::Cut => hello(NONCE, "host-a", "echo/1")[..6].to_vec(),
            Self::Honest | Self::Curt | Self::WrongProof | Self::Fickle => hello(NONCE, "host-a", "echo/1"),
        }
    }

    /// The alert that it is to hear, if it is to hear one.
    fn alert(self) -> Option<u8> {
        match self {
            Self::WrongName => Some(cipher::NO_SUCH_NAME),
            Self::WrongProtocol => Some(cipher::NO_PROTOCOL),
            Self::Garbage | Self::Early | Self::WrongProof => Some(cipher::BAD_RECORD),
            Self::Cut => Some(cipher::CANCELLED),
            Self::Honest | Self::Curt | Self::Plain | Self::Fickle => None,
        }
    }

    fn is_served(self) -> bool {
        matches!(self, Self::Honest | Self::Curt)
    }
}

struct Visitor {
    kind: Kind,
    hand: Hand,
    /// What is still to be said, and whether it finishes behind that.
    to_say: Vec<u8>,
    finishes: bool,
    text: Vec<u8>,
    heard: Vec<u8>,
    alert: Option<u8>,
    heard_end: bool,
    end: Option<Status>,
    random: Random,
}

impl Visitor {
    fn new(peer: Peer, seed: u64, number: usize) -> Self {
        let mut random = Random::new(seed * 1_000 + number as u64);
        let kind = KINDS[(number + seed as usize) % KINDS.len()];
        let text = pattern(seed + number as u64, random.one_to(20_000));
        let (to_say, finishes) = (kind.first(), kind == Kind::Cut);
        let (heard, alert, heard_end, end) = (Vec::new(), None, false, None);
        Self { kind, hand: Hand::of(peer), to_say, finishes, text, heard, alert, heard_end, end, random }
    }

    fn work(&mut self, world: &World) {
        if self.end.is_some() {
            return;
        }
        self.hear();
        match self.hand.peer.status() {
            Status::Opening => {}
            Status::Open => self.say(world),
            status => self.leave(status),
        }
    }

    fn leave(&mut self, status: Status) {
        self.end = Some(status);
        self.hand.peer.close();
    }

    fn hear(&mut self) {
        if self.kind == Kind::Plain {
            return self.heard.extend(self.hand.peer.read(usize::MAX));
        }
        for (kind, bytes) in self.hand.take() {
            assert!(self.alert.is_none() && !self.heard_end, "{:?}: {kind} behind the last record", self.kind);
            match kind {
                REPLY => self.reply(&bytes),
                DATA => self.heard.extend(bytes),
                ALERT => self.alert = Some(bytes[0]),
                END => self.heard_end = true,
                _ => panic!("{:?} hears {kind}: {bytes:?}", self.kind),
            }
        }
    }

    /// The other end has agreed: shows the key, and says all that is to be said.
    fn reply(&mut self, reply: &[u8]) {
        let proof = self.hand.agree(reply);
        match self.kind {
            Kind::Honest | Kind::Curt => {
                self.to_say.extend(proof);
                for piece in self.text.chunks(1 + self.random.below(3_000) as usize) {
                    self.to_say.extend(self.hand.data(piece));
                }
                if self.kind == Kind::Honest {
                    self.to_say.extend(record(END, &[]));
                }
                self.finishes = true;
            }
            Kind::WrongProof => self.to_say.extend(record(cipher::PROOF, &[0; 4])),
            Kind::Fickle => self.hand.peer.reset(),
            _ => panic!("{:?} was agreed with", self.kind),
        }
    }

    fn say(&mut self, world: &World) {
        if self.to_say.is_empty() {
            if std::mem::take(&mut self.finishes) {
                self.hand.peer.finish();
            }
            return;
        }
        let piece = self.random.one_to(self.to_say.len());
        let taken = self.hand.peer.send(&self.to_say[..piece]);
        self.to_say.drain(..taken);
        // Where there was no room for the piece, there is news when there is.
        if taken == piece {
            world.alarm(world.now() + Duration::from_nanos(self.random.delay()), self.hand.peer.id() as u64);
        }
    }

    fn judge(&self, is_sure: bool) {
        let what =
            format!("{:?}: alert {:?}, {} of {} heard, {:?}", self.kind, self.alert, self.heard.len(), self.text.len(), self.end);
        match self.kind {
            Kind::Plain => assert!(PLAIN.starts_with(&self.heard), "{what}"),
            _ => assert!(self.text.starts_with(&self.heard) && (self.heard.is_empty() || self.kind.is_served()), "{what}"),
        }
        assert!(self.alert.is_none() || self.alert == self.kind.alert(), "{what}");
        assert!(
            !self.heard_end || self.kind.is_served() && self.heard == self.text,
            "an end comes behind all that was said: {what}"
        );
        if is_sure && self.kind != Kind::Fickle {
            assert_eq!(
                (self.alert, self.heard_end, self.end),
                (self.kind.alert(), self.kind.is_served(), Some(Status::Ended)),
                "{what}"
            );
            assert!(self.kind != Kind::Plain || self.heard == PLAIN, "{what}");
        }
    }
}

struct Visitors(Vec<Visitor>);

impl Play for Visitors {
    fn news(&mut self, world: &World, turn: Turn) {
        let id = match turn {
            Turn::Peer(peer) => peer.id(),
            Turn::Alarm(token) => token as usize,
            _ => return,
        };
        if let Some(visitor) = self.0.iter_mut().find(|visitor| visitor.hand.peer.id() == id) {
            visitor.work(world);
        }
    }

    fn is_over(&self) -> bool {
        self.0.iter().all(|visitor| visitor.end.is_some())
    }
}

fn run(seed: u64, faults: Faults) -> Report {
    let (world, family) = (World::new(seed, faults), Family::of(seed));
    // Their clock may jump by hours, and nobody is late for that.
    let limits = patient().handshake_limit(Duration::from_secs(1 << 20)).linger_limit(Duration::from_secs(1 << 20));
    let limits = limits.handshakes_max([2, 1_000][seed as usize % 2]);
    let plan = RigPlan::lanes(1 + seed as usize % 2).memory(8 << 20).family(family);
    let manner = Manner { steps: (seed % 5) as u32, ..Manner::default() };
    let mut rig = Rig::behind(&world, &plan, limits, |_| Echo, ciphers(move |_, _| manner, &Calls::default()));
    let visitor = |number| Visitor::new(rig.connect(number), seed, number);
    let mut visitors = Visitors((0..VISITORS).map(visitor).collect());
    assert!(rig.play(&mut visitors), "visitors wait for ever");
    rig.close(&mut visitors);
    visitors.0.iter().for_each(|visitor| visitor.judge(faults == Faults::none()));
    let [whole, failed, under_way, accepted] =
        [C::Handshakes, C::HandshakesFailed, C::HandshakesUnderWay, C::Accepts].map(|counter| rig.count(counter));
    assert_eq!((whole + failed, under_way, endings(&rig, 0)), (accepted, 0, accepted));
    if faults == Faults::none() {
        let served = visitors.0.iter().filter(|visitor| visitor.kind.is_served()).count() as u64;
        assert_eq!((whole, accepted, rig.count(C::Panics)), (served, VISITORS as u64, 0));
    }
    world.report()
}

#[test]
fn whoever_keeps_to_the_cipher_is_served_and_others_are_told() {
    for_seeds(40, |seed| {
        run(seed, Faults::none());
    });
}

#[test]
fn every_handshake_comes_to_an_end_under_every_fault() {
    for_seeds(100, |seed| {
        run(seed, Faults::all(seed));
    });
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for_seeds(5, |seed| assert_eq!(run(seed, Faults::all(seed)), run(seed, Faults::all(seed))));
}
