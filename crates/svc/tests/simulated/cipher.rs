//! A small cipher that needs all that a transform may do: a handshake of several steps with work in them, records with lengths and checks, alerts, an
//! end of its own, and a name, a protocol and a certificate to be learned. It protects nothing.
//!
//! ```text
//! client                              server
//! HELLO nonce, name, protocols  -->   works for some turns
//!    works for some turns       <--   REPLY nonce, protocol, certificate
//! PROOF of the key, DATA ...    -->
//!                               <->   DATA, END, ALERT
//! ```

use corelane_svc::{Learned, PASS_BYTES, Passage, Peer, Progress, Side, Transform, TransformError};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

pub const HELLO: u8 = 1;
pub const REPLY: u8 = 2;
pub const PROOF: u8 = 3;
pub const DATA: u8 = 4;
pub const ALERT: u8 = 5;
pub const END: u8 = 6;

/// Alerts: what a side says before it gives the other up.
pub const NO_SUCH_NAME: u8 = 1;
pub const BAD_RECORD: u8 = 2;
pub const NO_PROTOCOL: u8 = 3;
pub const CANCELLED: u8 = 4;

/// The most bytes of data in a record.
pub const RECORD_MAX: usize = 4_000;
/// What who speaks no cipher is told.
pub const PLAIN: &[u8] = b"400 this port speaks the test cipher\n";
/// The protocols that a server speaks, best first.
pub const PROTOCOLS: [&str; 2] = ["echo/2", "echo/1"];
/// What a server shows of itself.
pub const CERTIFICATE: &[u8] = b"certificate of the server";

const HEAD: usize = 3;
const FRAME: usize = HEAD + 1;

/// A record as it lies on the wire.
pub fn record(kind: u8, payload: &[u8]) -> Vec<u8> {
    let length = u16::try_from(payload.len()).unwrap().to_be_bytes();
    let mut bytes = [&[kind, length[0], length[1]], payload].concat();
    bytes.push(check(&bytes));
    bytes
}

fn check(bytes: &[u8]) -> u8 {
    bytes.iter().fold(0x35, |sum: u8, byte| sum.rotate_left(1) ^ byte)
}

/// One direction's key: what it makes of a byte depends on all that went before.
#[derive(Clone, Copy, Default)]
pub struct Key {
    seed: u8,
    at: u64,
}

impl Key {
    /// The key of what `side` says.
    pub fn of(client: u8, server: u8, side: Side) -> Self {
        Self { seed: client.wrapping_mul(3) ^ server ^ if side == Side::Client { 0x5a } else { 0xa5 }, at: 0 }
    }

    pub fn apply(&mut self, bytes: &mut [u8]) {
        for byte in bytes {
            *byte ^= self.seed.wrapping_add((self.at * 7 + (self.at >> 8)) as u8);
            self.at += 1;
        }
    }

    /// What shows that a client has it.
    pub fn proof(self) -> [u8; 2] {
        [self.seed, self.seed.rotate_left(3) ^ 0x77]
    }
}

/// What a client says first.
pub fn hello(nonce: u8, name: &str, protocols: &str) -> Vec<u8> {
    record(HELLO, format!("{}{name}\0{protocols}", nonce as char).as_bytes())
}

/// Where a cipher is to panic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trap {
    First,
    Hello,
    Proof,
    Received,
    Written,
    Leave,
    Alert,
}

/// How ciphers of one side behave.
#[derive(Clone, Copy, Default)]
pub struct Manner {
    /// Calls that each computation of a handshake takes.
    pub steps: u32,
    /// It leaves without an END.
    pub is_rude: bool,
    /// It never comes to the end of its leave.
    pub is_endless: bool,
    pub trap: Option<Trap>,
}

/// How often ciphers were called.
pub type Calls = Rc<Cell<u64>>;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Speaks,
    AwaitsHello,
    Replies,
    AwaitsReply,
    Proves,
    AwaitsProof,
    IsOpen,
}

pub struct Cipher {
    stage: Stage,
    manner: Manner,
    /// Calls that the computation under way still takes.
    steps_left: u32,
    nonce: u8,
    read: Key,
    write: Key,
    name: String,
    protocol: String,
    input_is_over: bool,
    has_left: bool,
    calls: Calls,
}

impl Cipher {
    /// One side of it; a client asks for `name`, a server has all names that begin with "host".
    pub fn new(side: Side, nonce: u8, name: &str, manner: Manner, calls: &Calls) -> Self {
        let stage = if side == Side::Client { Stage::Speaks } else { Stage::AwaitsHello };
        let (name, protocol) = (name.to_string(), String::new());
        let (read, write) = <(Key, Key)>::default();
        let (input_is_over, has_left, calls) = (false, false, calls.clone());
        Self { stage, manner, steps_left: 0, nonce, read, write, name, protocol, input_is_over, has_left, calls }
    }

    fn trap(&self, here: Trap) {
        assert!(self.manner.trap != Some(here), "told to, at {here:?}");
    }

    fn alert(&self, passage: &mut Passage<'_>, alert: u8, words: &str) -> TransformError {
        self.trap(Trap::Alert);
        say(passage, &record(ALERT, &[alert]));
        TransformError(words.to_string())
    }

    /// The record at the front, if it is whole.
    fn next(&self, passage: &mut Passage<'_>) -> Result<Option<(u8, Vec<u8>)>, TransformError> {
        let mut head = [0; HEAD];
        let got = passage.received.copy_to(&mut head);
        if self.stage == Stage::AwaitsHello && got > 0 && head[0].is_ascii_uppercase() {
            passage.wire.push(PLAIN);
            return Err(TransformError("it speaks plainly".into()));
        }
        let payload = usize::from(u16::from_be_bytes([head[1], head[2]]));
        if got > 0 && !(HELLO..=END).contains(&head[0]) || got == HEAD && payload > RECORD_MAX {
            return Err(self.alert(passage, BAD_RECORD, "no record begins so"));
        }
        if got < HEAD || passage.received.len() < payload + FRAME {
            return Ok(None);
        }
        let mut bytes = vec![0; payload + FRAME];
        passage.received.copy_to(&mut bytes);
        let is_right = bytes.pop() == Some(check(&bytes));
        match is_right {
            true if head[0] == ALERT => Err(TransformError(format!("it says alert {}", bytes[HEAD..].first().unwrap_or(&0)))),
            true => Ok(Some((head[0], bytes.split_off(HEAD)))),
            false => Err(self.alert(passage, BAD_RECORD, "a record is not as it was sent")),
        }
    }

    /// The record of this kind at the front, taken; another kind is refused.
    fn expect(&self, passage: &mut Passage<'_>, kind: u8) -> Result<Option<Vec<u8>>, TransformError> {
        match self.next(passage)? {
            None => Ok(None),
            Some((found, payload)) if found == kind => {
                passage.received.skip(payload.len() + FRAME);
                Ok(Some(payload))
            }
            Some((found, _)) => Err(self.alert(passage, BAD_RECORD, &format!("record {found} comes at the wrong time"))),
        }
    }

    /// A step of the handshake; none if the other side must go on.
    fn shake(&mut self, passage: &mut Passage<'_>) -> Result<Option<()>, TransformError> {
        if self.steps_left > 0 {
            self.steps_left -= 1;
            return Ok(Some(()));
        }
        match self.stage {
            Stage::Speaks => {
                if !say(passage, &hello(self.nonce, &self.name, &PROTOCOLS.join(","))) {
                    return Ok(None);
                }
                self.stage = Stage::AwaitsReply;
            }
            Stage::AwaitsHello => return self.hear_hello(passage),
            Stage::Replies => {
                let reply = [&[self.nonce], self.protocol.as_bytes(), b"\0", CERTIFICATE].concat();
                if !say(passage, &record(REPLY, &reply)) {
                    return Ok(None);
                }
                self.stage = Stage::AwaitsProof;
            }
            Stage::AwaitsReply => return self.hear_reply(passage),
            Stage::Proves => {
                if !say(passage, &record(PROOF, &self.write.proof())) {
                    return Ok(None);
                }
                self.open(passage);
            }
            Stage::AwaitsProof => return self.hear_proof(passage),
            Stage::IsOpen => return Ok(None),
        }
        Ok(Some(()))
    }

    fn hear_hello(&mut self, passage: &mut Passage<'_>) -> Result<Option<()>, TransformError> {
        let Some(payload) = self.expect(passage, HELLO)? else { return Ok(None) };
        self.trap(Trap::Hello);
        let text = String::from_utf8_lossy(&payload).into_owned();
        let (name, protocols) = text.get(1..).and_then(|text| text.split_once('\0')).unwrap_or(("", ""));
        if !name.starts_with("host") {
            return Err(self.alert(passage, NO_SUCH_NAME, "it asks for a name that nobody has"));
        }
        let Some(protocol) = PROTOCOLS.into_iter().find(|ours| protocols.split(',').any(|theirs| theirs == *ours)) else {
            return Err(self.alert(passage, NO_PROTOCOL, "it speaks none of the protocols"));
        };
        (self.name, self.protocol) = (name.to_string(), protocol.to_string());
        self.agree(payload[0], self.nonce, Side::Server);
        self.stage = Stage::Replies;
        Ok(Some(()))
    }

    fn hear_reply(&mut self, passage: &mut Passage<'_>) -> Result<Option<()>, TransformError> {
        let Some(payload) = self.expect(passage, REPLY)? else { return Ok(None) };
        let end = payload.iter().position(|&byte| byte == 0).filter(|&end| end > 0 && payload[end + 1..] == *CERTIFICATE);
        let Some(end) = end else { return Err(self.alert(passage, BAD_RECORD, "it is not whom we asked for")) };
        self.protocol = String::from_utf8_lossy(&payload[1..end]).into_owned();
        self.agree(self.nonce, payload[0], Side::Client);
        self.stage = Stage::Proves;
        Ok(Some(()))
    }

    fn hear_proof(&mut self, passage: &mut Passage<'_>) -> Result<Option<()>, TransformError> {
        let Some(payload) = self.expect(passage, PROOF)? else { return Ok(None) };
        self.trap(Trap::Proof);
        if payload != self.read.proof() {
            return Err(self.alert(passage, BAD_RECORD, "it has not our key"));
        }
        self.open(passage);
        Ok(Some(()))
    }

    fn agree(&mut self, client: u8, server: u8, we: Side) {
        let they = if we == Side::Client { Side::Server } else { Side::Client };
        (self.write, self.read) = (Key::of(client, server, we), Key::of(client, server, they));
        self.steps_left = self.manner.steps;
    }

    fn open(&mut self, passage: &mut Passage<'_>) {
        let mut learned = Learned::default();
        learned.server_name = Some(self.name.clone());
        learned.protocol = Some(self.protocol.clone().into_bytes());
        if self.stage == Stage::Proves {
            learned.certificates.push(CERTIFICATE.to_vec());
        }
        passage.peer.learned = Some(Arc::new(learned));
        passage.open();
        self.stage = Stage::IsOpen;
    }

    /// Opens records; true if a turn's share was done and there is more.
    fn read(&mut self, passage: &mut Passage<'_>) -> Result<bool, TransformError> {
        let before = passage.received.len();
        while !self.input_is_over {
            let Some((kind, mut payload)) = self.next(passage)? else { return Ok(false) };
            if before - passage.received.len() >= PASS_BYTES {
                return Ok(true);
            }
            match kind {
                DATA => {
                    self.trap(Trap::Received);
                    let Some(mut lease) = passage.arena.lease(payload.len().max(1)) else { return Ok(false) };
                    self.read.apply(&mut payload);
                    lease.append(&payload);
                    passage.input.push(lease.share());
                }
                END => {
                    self.input_is_over = true;
                    passage.end_input();
                }
                _ => return Err(self.alert(passage, BAD_RECORD, "a handshake has ended already")),
            }
            passage.received.skip(payload.len() + FRAME);
        }
        Ok(false)
    }

    /// Makes records; true if a turn's share was done and there is more.
    fn write(&mut self, passage: &mut Passage<'_>) -> bool {
        let mut done = 0;
        while !passage.output.is_empty() {
            if done >= PASS_BYTES {
                return true;
            }
            self.trap(Trap::Written);
            let mut payload = vec![0; passage.output.len().min(RECORD_MAX)];
            let Some(mut lease) = passage.arena.lease(payload.len() + FRAME) else { return false };
            passage.output.copy_to(&mut payload);
            passage.output.skip(payload.len());
            self.write.apply(&mut payload);
            lease.append(&record(DATA, &payload));
            passage.wire.push(lease.share());
            done += payload.len();
        }
        false
    }

    fn leave(&mut self, passage: &mut Passage<'_>) {
        self.trap(Trap::Leave);
        let last = if self.stage == Stage::IsOpen { record(END, &[]) } else { record(ALERT, &[CANCELLED]) };
        if !self.manner.is_rude && !self.has_left {
            self.has_left = say(passage, &last);
        }
    }
}

/// Writes a few bytes; false if there is no memory for them now.
fn say(passage: &mut Passage<'_>, bytes: &[u8]) -> bool {
    let lease = passage.arena.copy_of(bytes);
    lease.map(|lease| passage.wire.push(lease.share())).is_some()
}

impl Transform for Cipher {
    fn pass(&mut self, passage: &mut Passage<'_>) -> Result<Progress, TransformError> {
        self.trap(Trap::First);
        self.calls.set(self.calls.get() + 1);
        if self.stage != Stage::IsOpen {
            if passage.finishing {
                self.leave(passage);
                return Ok(Progress::Idle);
            }
            return Ok(if self.shake(passage)?.is_some() { Progress::More } else { Progress::Idle });
        }
        let (reads_on, writes_on) = (self.read(passage)?, self.write(passage));
        if passage.finishing && passage.output.is_empty() {
            self.leave(passage);
        }
        let goes_on = reads_on || writes_on || self.manner.is_endless && passage.finishing;
        Ok(if goes_on { Progress::More } else { Progress::Idle })
    }
}

/// Makes ciphers for both sides: what a client asks for is the name of the address that it goes to.
pub fn ciphers(
    manner: impl Fn(Side, &Peer) -> Manner + Clone + 'static,
    calls: &Calls,
) -> impl FnMut(Side, &Peer) -> Option<Box<dyn Transform>> + Clone + 'static {
    let calls = calls.clone();
    let mut nonce = 0_u8;
    move |side, peer| {
        nonce = nonce.wrapping_add(37);
        let name = format!("host-{}", peer.address.port());
        Some(Box::new(Cipher::new(side, nonce & 0x7f | 1, &name, manner(side, peer), &calls)))
    }
}
