//! Clients that follow a script: what they say, what they are to hear, and how they leave.

use corelane_seam::Instant;
use corelane_sim::{Peer, Random, Status, World};
use std::collections::VecDeque;
use std::time::Duration;

/// One thing that a client does.
#[derive(Clone)]
enum Deed {
    Say(Vec<u8>),
    /// Wait until so many bytes of what is due have come.
    Hear(usize),
    Pause(Duration),
    ReadSlowly(usize),
    Finish,
    Close,
    Reset,
}

/// The steps of a client over a connection, in order. It speaks in pieces, some time apart, as the seed has it; whatever it hears must be what was
/// due, byte for byte. When it has done everything it finishes, and waits for the service to end the connection.
#[derive(Clone, Default)]
pub struct Script {
    deeds: VecDeque<Deed>,
    due: Vec<u8>,
}

impl Script {
    fn then(&mut self, deed: Deed) -> &mut Self {
        self.deeds.push_back(deed);
        self
    }

    /// Sends these bytes.
    pub fn say(&mut self, bytes: impl AsRef<[u8]>) -> &mut Self {
        self.then(Deed::Say(bytes.as_ref().to_vec()))
    }

    /// Waits for these bytes, which come next of what the service sends on this connection.
    pub fn hear(&mut self, bytes: impl AsRef<[u8]>) -> &mut Self {
        self.due.extend(bytes.as_ref());
        self.then(Deed::Hear(self.due.len()))
    }

    /// Does nothing for some time; it does not read either.
    pub fn pause(&mut self, time: Duration) -> &mut Self {
        self.then(Deed::Pause(time))
    }

    /// From here on reads at most so many bytes at a time, some time apart.
    ///
    /// # Panics
    /// With 0 bytes: it would never hear anything.
    pub fn read_slowly(&mut self, bytes: usize) -> &mut Self {
        assert!(bytes > 0, "who reads 0 bytes at a time never hears anything");
        self.then(Deed::ReadSlowly(bytes))
    }

    /// Says no more: the service sees the end of the stream, and may still answer.
    pub fn finish(&mut self) -> &mut Self {
        self.then(Deed::Finish)
    }

    /// Leaves, whatever else would come.
    pub fn close(&mut self) {
        self.then(Deed::Close);
    }

    /// Breaks the connection off.
    pub fn reset(&mut self) {
        self.then(Deed::Reset);
    }
}

/// A client at work.
pub(crate) struct Speaker {
    pub(crate) peer: Peer,
    deeds: VecDeque<Deed>,
    due: Vec<u8>,
    heard: usize,
    /// How much of what it is saying has been taken.
    said: usize,
    read_most: usize,
    paused_until: Instant,
    has_finished: bool,
    is_over: bool,
    random: Random,
}

/// The others than the service that may have ended a connection.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Excuse {
    None,
    /// The network has broken connections off.
    Network,
    /// The lanes drain.
    Drain,
}

impl Speaker {
    pub(crate) fn new(peer: Peer, script: Script, seed: u64) -> Self {
        let Script { deeds, due } = script;
        let random = Random::new(seed ^ ((peer.id() as u64 + 1) << 32));
        let (heard, said, read_most, paused_until) = (0, 0, usize::MAX, Instant::from_nanoseconds(0));
        Self { peer, deeds, due, heard, said, read_most, paused_until, has_finished: false, is_over: false, random }
    }

    /// The token of its alarms.
    pub(crate) fn token(&self) -> u64 {
        self.peer.id() as u64
    }

    pub(crate) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Its wait, in words.
    pub(crate) fn wait(&self) -> String {
        match self.deeds.front() {
            _ if self.peer.status() == Status::Opening => "waits to be accepted".to_owned(),
            Some(Deed::Say(bytes)) => format!("waits to say {}", shown(&bytes[self.said..], 0)),
            Some(Deed::Hear(until)) => format!("waits to hear {}", shown(&self.due[self.heard..*until], 0)),
            _ => "waits for the end of the connection".to_owned(),
        }
    }

    /// Does what it can now; says what is wrong, if something is.
    pub(crate) fn work(&mut self, world: &World, excuse: Excuse) -> Result<(), String> {
        if self.is_over || world.now() < self.paused_until {
            return Ok(());
        }
        self.listen()?;
        match self.peer.status() {
            Status::Opening => return Ok(()),
            Status::Open | Status::Ended if self.peer.readable_bytes() > 0 => self.come_back(world),
            Status::Open => {}
            status => return self.conclude(status, excuse),
        }
        while !self.is_over && self.act(world) {}
        Ok(())
    }

    fn come_back(&mut self, world: &World) {
        world.alarm(world.now() + Duration::from_nanos(self.random.delay()), self.token());
    }

    /// Takes what has come, and compares it.
    fn listen(&mut self) -> Result<(), String> {
        let bytes = self.peer.read(self.read_most);
        let due = &self.due[self.heard..];
        let right = bytes.iter().zip(due).take_while(|(came, due)| came == due).count();
        if right == bytes.len() {
            self.heard += right;
            return Ok(());
        }
        let due = if due.is_empty() { "nothing more".to_owned() } else { shown(due, right) };
        let after = match self.heard + right {
            0 => String::new(),
            right => format!(", after {right} bytes that were right"),
        };
        Err(format!("heard {} where {due} was due{after}", shown(&bytes, right)))
    }

    /// Carries out the next deed; whether to go on at once.
    fn act(&mut self, world: &World) -> bool {
        let Some(deed) = self.deeds.front().cloned() else {
            self.finish();
            return false;
        };
        match deed {
            Deed::Say(bytes) => return self.say(world, &bytes),
            Deed::Hear(until) if self.heard < until => return false,
            Deed::Hear(_) => {}
            Deed::Pause(time) => {
                self.paused_until = world.now() + time;
                world.alarm(self.paused_until, self.token());
            }
            Deed::ReadSlowly(bytes) => self.read_most = bytes,
            Deed::Finish => self.finish(),
            Deed::Close | Deed::Reset => self.leave(matches!(deed, Deed::Reset)),
        }
        self.deeds.pop_front();
        world.now() >= self.paused_until
    }

    /// Says a piece; whether all of it is said.
    fn say(&mut self, world: &World, bytes: &[u8]) -> bool {
        assert!(!self.has_finished, "a script says nothing after its finish");
        let left = &bytes[self.said..];
        let piece = if left.is_empty() { 0 } else { self.random.one_to(left.len()) };
        let taken = self.peer.send(&left[..piece]);
        self.said += taken;
        if self.said == bytes.len() {
            self.said = 0;
            self.deeds.pop_front();
            return true;
        }
        // Where there was no room for the piece, there is news when there is.
        if taken == piece {
            self.come_back(world);
        }
        false
    }

    fn finish(&mut self) {
        if !std::mem::replace(&mut self.has_finished, true) {
            self.peer.finish();
        }
    }

    fn leave(&mut self, breaks_off: bool) {
        assert!(!self.is_over, "a connection is left once");
        if breaks_off {
            self.peer.reset()
        } else {
            self.peer.close()
        }
        self.is_over = true;
    }

    /// The connection has ended.
    fn conclude(&mut self, status: Status, excuse: Excuse) -> Result<(), String> {
        let is_done = self.heard == self.due.len() && !self.deeds.iter().any(|deed| matches!(deed, Deed::Say(_)));
        self.leave(false);
        match (status, excuse) {
            _ if is_done => Ok(()),
            (Status::Failed(_), Excuse::Network) | (_, Excuse::Drain) => Ok(()),
            (Status::Failed(fault), _) => Err(format!("was cut off ({:?}) {}", fault.reason, self.lack())),
            _ => Err(format!("saw the end of the connection {}", self.lack())),
        }
    }

    fn lack(&self) -> String {
        match &self.due[self.heard..] {
            [] => "before it had done all that it was to do".to_owned(),
            due => format!("where {} was due", shown(due, 0)),
        }
    }
}

/// Bytes to be read by people: those around the byte at `at`.
pub(crate) fn shown(bytes: &[u8], at: usize) -> String {
    const BEFORE: usize = 16;
    const AFTER: usize = 32;
    let (from, until) = (at.saturating_sub(BEFORE), bytes.len().min(at + AFTER));
    let (before, after) = (if from > 0 { "..." } else { "" }, if until < bytes.len() { "..." } else { "" });
    format!("{before}\"{}\"{after}", bytes[from..until].escape_ascii())
}
