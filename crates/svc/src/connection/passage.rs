//! Bytes pass a transform: when it is called, and what follows from that.
//!
//! Parts of files are read before they leave, piece by piece, one piece ahead of what is being sent: those on their way through a transform, which changes bytes in memory, and
//! those of files that are far, since a send of them would wait for who serves them and hold up the lane.
//!
//! ```text
//! output: [head] [part of a file ............] [tail]      the transform sees [head] alone
//!                 |--read--> a lease of the lane, charged to the connection, put in front of the rest of the part
//! ```
//!
//! The driver reads where that holds no lane: by its helpers, or the kernel's. At most one piece of a connection is read, or lies here, at a time.

use crate::connection::busy::{Busy, Fetch};
use crate::connection::delivery::Delivery;
use crate::connection::found::Found;
use crate::connection::machine::Machine;
use crate::pending::requests::Requests;
use crate::words::names::ConnectionId;
use crate::words::transform::{Passage, Progress, Transform};
use corelane_lane::{Kit, fenced};
use corelane_seam::{Arena, Chain, Fault, FileOp, FileOutcome, FilePart, Instant, Level, Outcome, Reason, Record};
use corelane_watch::ServiceCounter;
use std::sync::Arc;
use std::time::Duration;

/// Bytes of a piece of a file, and the least where memory is short.
const PIECE_BYTES: usize = 64 << 10;
const PIECE_BYTES_LEAST: usize = 4 << 10;
/// The file has become shorter than what was promised to the peer (ENODATA, as drivers say that send parts of files themselves).
const SHORT_FILE: Fault = Fault { reason: Reason::Other, number: 61 };

/// What came of a call that did not end the connection.
struct Passed {
    opens: bool,
    /// There is something new for the service.
    brings: bool,
    ends_input: bool,
    has_more: bool,
    /// Bytes of memory that were refused to it.
    refused: usize,
}

/// What follows, beyond the connection, from passing its input.
pub(crate) enum Follows {
    /// The handshake is over.
    Opens,
    /// The other of its pair waits until this side has said its last word.
    Leaves(ConnectionId),
    Breaks(Broken),
}

/// Why bytes of a connection pass no more.
pub(crate) enum Broken {
    /// The transform has refused the peer, and what it said of that leaves. The other of its pair is left.
    Refused(Option<ConnectionId>),
    /// The transform has panicked with these words.
    Panicked(String),
    /// A file that was to be sent has no more, or cannot be read.
    File(Fault),
}

impl Found<'_> {
    /// If this turn has taken its share of handshake steps, puts this one off to the next turn and returns true.
    pub(crate) fn put_off(&mut self) -> bool {
        debug_assert!(self.connection.is_to_pass(), "only what is to pass is put off");
        if !self.connection.machine.is_in_handshake() {
            return false;
        }
        let puts_off = !self.agenda.take_handshake_step();
        if puts_off {
            self.mark_ready();
        }
        puts_off
    }

    /// Passes what has arrived, and what was left for this turn, through the connection's transform.
    pub(crate) fn pass_input(&mut self, kit: &mut Kit) -> Option<Follows> {
        debug_assert!(self.connection.is_to_pass(), "a transform is called for what has come");
        let passed = match self.pass(kit) {
            Ok(passed) => passed,
            Err(broken) => return Some(Follows::Breaks(broken)),
        };
        self.note_input(&kit.arena, &passed);
        if passed.opens && self.connection.machine.is_in_handshake() {
            self.change(kit.now(), Machine::handshaken);
            return Some(Follows::Opens);
        }
        self.connection.pair.get().filter(|_| self.connection.machine.is_leaving()).map(Follows::Leaves)
    }

    /// Passes the output through the connection's transform, as soon as what it made before has left; what lies in a file is read for that.
    ///
    /// # Errors
    /// Nothing passes any more.
    pub(super) fn pass_output(&mut self, kit: &mut Kit, requests: &mut Requests) -> Result<(), Broken> {
        debug_assert!(!self.connection.machine.is_in_handshake(), "output waits for the handshake");
        let now = kit.now();
        self.connection.let_files_pass();
        let may_write = self.connection.machine.may_send();
        if may_write && self.connection.busy.as_mut().is_some_and(|busy| busy.begin_to_wait(now)) {
            self.pass_beside(kit)?;
        }
        self.fetch(kit, requests).map_err(Broken::File)
    }

    /// Passes bytes where nothing has come, which may bring something all the same.
    fn pass_beside(&mut self, kit: &mut Kit) -> Result<(), Broken> {
        debug_assert!(!self.connection.machine.is_in_handshake(), "a handshake passes what has come");
        let passed = self.pass(kit)?;
        self.note_input(&kit.arena, &passed);
        if passed.brings {
            self.mark_ready();
        }
        Ok(())
    }

    /// Has the transform say its last word; returns whether it has said all of it. One that was refused memory for that says it when the lane would lend that, or
    /// its peer would take an end for a cut.
    ///
    /// # Errors
    /// Nothing passes any more.
    pub(crate) fn take_leave(&mut self, kit: &mut Kit) -> Result<bool, Broken> {
        debug_assert!(self.connection.transform.is_some(), "a transform takes leave");
        if self.connection.machine.is_to_take_leave() {
            self.connection.machine.take_leave();
        }
        self.pass_beside(kit)?;
        if let Some(busy) = self.connection.busy.as_mut() {
            busy.begin_to_wait(kit.now());
        }
        Ok(self.connection.machine.has_taken_leave())
    }

    /// Calls the connection's transform, fenced.
    fn pass(&mut self, kit: &mut Kit) -> Result<Passed, Broken> {
        debug_assert!(!self.connection.machine.has_ended(), "nothing passes behind the end");
        let (mut busy, about) = (self.take_busy(&kit.arena), self.begin_about());
        let connection = &mut *self.connection;
        // reason: asked for by the callers.
        let transform = connection.transform.as_mut().expect("only a connection with a transform passes through it");
        let before = about.begin_to_pay(kit);
        let input_before = busy.input.len();
        let mut nothing = Chain::new();
        let Busy { raw, input, output, wire, .. } = &mut *busy;
        // It gets output only if that can leave at once: waiting output stays unchanged.
        let may_write = wire.is_empty() && connection.machine.may_send();
        let mut in_files = if may_write && output.has_files() && output.are_read(transform.passes_files()) {
            output.split_at_file()
        } else {
            Chain::new()
        };
        let mut passage = Passage {
            received: raw,
            input: &mut input.chain,
            output: if may_write { &mut output.chain } else { &mut nothing },
            wire,
            peer: &mut connection.peer,
            arena: &kit.arena,
            now: Instant::from_nanoseconds(kit.now()),
            time_of_day: Duration::from_nanos(kit.time_of_day()),
            peer_finished: connection.machine.peer_has_finished(),
            finishing: connection.machine.is_leaving(),
            opens: false,
            ends_input: false,
        };
        let done = fenced(|| transform.pass(&mut passage));
        let Passage { opens, ends_input, .. } = passage;
        let refused = kit.arena.pay_no_longer(before);
        busy.output.chain.append(&mut in_files);
        let brings = ends_input || busy.input.len() > input_before;
        busy.feed_fill();
        connection.busy = Some(busy);
        match done {
            Ok(Ok(progress)) => {
                let has_more = progress == Progress::More;
                connection.machine.passed(has_more, refused > 0);
                Ok(Passed { opens, brings, ends_input, has_more, refused })
            }
            Ok(Err(error)) => Err(Broken::Refused(self.refuse(kit, &error.0))),
            Err(words) => Err(Broken::Panicked(words)),
        }
    }

    /// The transform has refused the peer: what it said to the peer leaves, and nothing else. Returns the other of its pair, of which it is no more.
    fn refuse(&mut self, kit: &mut Kit, words: &str) -> Option<ConnectionId> {
        debug_assert!(self.connection.busy.is_some(), "what was refused had come");
        let peer = self.connection.peer.address.clone();
        let learned = self.connection.peer.learned.get_or_insert_default();
        Arc::make_mut(learned).refused = Some(words.to_owned());
        self.count(ServiceCounter::TransformRefusals, 1);
        self.change(kit.now(), Machine::refuse);
        self.drop_unpassed();
        kit.report_kind("refused bytes", Record::new(Level::Warn, format!("the bytes of {peer} were refused: {words}")));
        self.connection.pair.take()
    }

    /// A transform stands before it from now on.
    pub(crate) fn begin_handshake(&mut self, kit: &Kit, transform: Box<dyn Transform>) {
        debug_assert!(!self.connection.machine.is_receiving(), "nothing has come before the transform stands there");
        let before = self.connection.transform.replace(Box::new(transform));
        assert!(before.is_none() && self.connection.session.is_none(), "a transform stands there before a session does");
        self.change(kit.now(), Machine::veil);
        // Without a place it is not begun yet.
        if self.connection.parked == 0 {
            self.mark_ready();
        }
    }

    /// Notes what a call said about the input, and whether the transform must be called again.
    fn note_input(&mut self, arena: &Arena, passed: &Passed) {
        debug_assert!(self.connection.transform.is_some(), "a transform has said so");
        let machine = &mut self.connection.machine;
        let is_cut = machine.peer_has_finished() && !passed.has_more && passed.refused == 0 && !passed.ends_input;
        if machine.takes_input() && (passed.ends_input || is_cut) {
            machine.input_ended(is_cut);
            self.note_end(is_cut);
        }
        if passed.refused > 0 {
            self.mark_starved(arena, passed.refused);
        }
        if passed.has_more {
            self.mark_ready();
        }
    }

    /// Bytes after the peer's proper end are discarded; a cut stream may end within a record.
    fn note_end(&mut self, is_cut: bool) {
        debug_assert!(self.connection.machine.input_has_ended(), "an end is noted that came");
        self.count(ServiceCounter::StreamsCut, is_cut.into());
        if let Some(busy) = self.connection.busy.as_mut().filter(|_| !is_cut) {
            busy.raw.clear();
        }
    }

    /// Has the next piece of a file read if one is due to the connection's transform, or one that is far to its socket.
    ///
    /// # Errors
    /// The file has no more, or cannot be read, and all before that has left: that ends the connection.
    pub(super) fn fetch(&mut self, kit: &mut Kit, requests: &mut Requests) -> Result<(), Fault> {
        debug_assert!(!self.connection.machine.has_ended(), "nothing is read behind the end");
        // Without a box there is nothing to be sent.
        let Some(busy) = self.connection.busy.as_ref() else { return Ok(()) };
        let (fetch, has_left) = (busy.fetch, busy.wire.is_empty() && !self.connection.machine.is_sending());
        let is_plain = self.connection.transform.is_none();
        let part = if is_plain { busy.output.far_at_front() } else { busy.output.file_at_front() };
        let Some(part) = part.cloned() else { return Ok(()) };
        match fetch {
            Fetch::Idle => self.begin_fetch(kit, requests, part),
            Fetch::Failed(fault) if has_left => return Err(fault),
            Fetch::UnderWay | Fetch::Failed(_) => {}
        }
        Ok(())
    }

    fn begin_fetch(&mut self, kit: &mut Kit, requests: &mut Requests, part: FilePart) {
        debug_assert!(self.connection.busy.as_ref().is_some_and(|busy| busy.fetch == Fetch::Idle), "one piece at a time");
        let most = part.length.min(PIECE_BYTES as u64) as usize;
        let before = self.begin_about().begin_to_pay(kit);
        let lease = kit.arena.lease_upto(most, most.min(PIECE_BYTES_LEAST));
        let refused = kit.arena.pay_no_longer(before);
        let Some(lease) = lease else { return self.mark_starved(&kit.arena, refused) };
        // reason: the part is in it.
        self.connection.busy.as_mut().expect("who is to send a file has its box").fetch = Fetch::UnderWay;
        let until = most.min(lease.capacity());
        let read = FileOp::Read { file: part.file, offset: part.offset, lease, until };
        requests.fetch(kit, self.connection.service(), self.id, read);
    }

    /// A piece was read, or could not be.
    pub(crate) fn fetched(&mut self, kit: &Kit, outcome: Outcome) {
        debug_assert!(self.connection.socket.is_some(), "who sends a file was open");
        // It may have been refused meanwhile, with all that it was to send.
        let Some(busy) = self.connection.busy.as_mut().filter(|busy| busy.fetch == Fetch::UnderWay) else { return };
        let was_awaited = busy.awaits_file();
        busy.fetch = match outcome {
            Outcome::File(FileOutcome::Filled { lease, .. }) if !lease.is_empty() => {
                busy.output.take_piece(lease);
                Fetch::Idle
            }
            Outcome::File(FileOutcome::Filled { fault, .. }) => Fetch::Failed(fault.unwrap_or(SHORT_FILE)),
            Outcome::Failed(fault) => Fetch::Failed(fault),
            other => unreachable!("a read ends as one: {other:?}"),
        };
        if was_awaited {
            // The peer did not keep it waiting.
            busy.delivery = Delivery::NONE;
            busy.delivery.begin(kit.now());
        }
        self.mark_dirty();
    }
}
