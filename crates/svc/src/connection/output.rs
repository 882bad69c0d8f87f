//! What a connection is to send: gathered during a turn, with places held for answers that come later.

use crate::connection::input::Taken;
use crate::words::error::Refused;
use crate::words::names::{ConnectionId, Order, Owes};
use crate::words::ticket::{Hold, LostTickets, Name, Ticket};
use crate::words::writer::{GATHER_BYTES, Pieces, first_refusal, writes};
use corelane_seam::{Arena, Chain, FilePart, Lease, Payer, Segment, nanoseconds};
use std::collections::VecDeque;
use std::fmt;

/// A request that is held.
struct HeldRequest {
    number: u32,
    /// Bytes that its ticket keeps for the answer.
    reserved: usize,
    /// When its ticket was taken, and when that expires.
    since: u64,
    expires: u64,
    token: u64,
    /// Its ticket has expired: the one that was given to the service then is good.
    is_renewed: bool,
}

/// An answer's place: what was written after it waits behind it.
struct Hole {
    number: u32,
    answered: bool,
    reply: Chain,
    after: Chain,
}

/// Whether the service is told when all output has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Drained {
    /// Nobody has asked.
    Quiet,
    Wanted,
    /// It was told, and nothing has left since.
    Told,
    /// It was told, and has asked again without anything having left: it would be told for ever.
    WantedAgain,
}

/// Parts of files that may be in an output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Files {
    None,
    /// To be read before they leave, unless somebody passes them.
    Near,
    /// Some of them are far: each of these is read before it leaves, whoever passes others.
    Far,
}

/// A connection's output. Everything written in one turn leaves in one send.
///
/// A write that is refused is refused whole: a service leaves the request in its input, and is called again when there is room. So what it changes for a request it changes after it has what the answer
/// needs: a lease ([`Cx::lease`](crate::Cx::lease)), or a ticket that keeps memory ([`Hold::reserve`]).
///
/// ```
/// # mod corelane { pub use corelane_svc::Output; pub mod service { pub use corelane_svc::Refused; } }
/// use corelane::Output;
/// use corelane::service::Refused;
///
/// fn answer(key: &str, value: &[u8], output: &mut Output) -> Result<(), Refused> {
///     let mut writer = output.writer();
///     writer.put(format_args!("VALUE {key} {}\r\n", value.len()).to_string().as_bytes())?;
///     writer.put(value)?;
///     writer.finish()
/// }
///
/// fn count(number: u64, output: &mut Output) -> Result<(), Refused> {
///     write!(output, "{number}\r\n")
/// }
/// ```
pub struct Output {
    /// What may leave now.
    pub(super) chain: Chain,
    /// What small writes are gathered in; belongs to the end of whatever is written last.
    gather: Option<Lease>,
    holes: VecDeque<Hole>,
    /// Tickets that were not answered yet, of both orders, in the order of their numbers.
    held: VecDeque<HeldRequest>,
    /// When the first of them expires; `u64::MAX` if none does.
    expires: u64,
    /// Bytes that they keep for their answers.
    reserved: usize,
    /// Tickets that have expired and are still somewhere.
    expired: u32,
    /// The time of the call under way.
    pub(super) now: u64,
    /// Tickets that the service may still take.
    pub(super) tickets_left: u32,
    /// Bytes of memory that may still be added before the output is full.
    pub(super) room: usize,
    /// Bytes of memory that were added when there was no room, since there last was some: nobody had asked.
    pub(super) unasked: usize,
    pub(super) forwarded: usize,
    pub(super) copied: usize,
    pub(super) tickets_taken: u32,
    /// Tickets that were answered since they were counted last, and the sum of the times at which they were taken, which may wrap.
    answered: u64,
    answered_since: u64,
    pub(super) was_refused: bool,
    pub(super) drained: Drained,
    /// What parts of files there may be in it.
    files: Files,
    /// The input does not wait for it.
    pub(super) reads_on: bool,
    /// What the service has said that the peer owes, and nobody has taken note of.
    pub(super) owes: Option<Owes>,
    /// When it served a request of which nobody has taken note.
    pub(super) served_at: Option<u64>,
    next_ticket: u32,
    owner: ConnectionId,
    arena: Arena,
    lost: LostTickets,
}

impl Output {
    pub(super) fn new(arena: Arena, lost: LostTickets) -> Self {
        Self {
            chain: Chain::new(),
            gather: None,
            holes: VecDeque::new(),
            held: VecDeque::new(),
            expires: u64::MAX,
            reserved: 0,
            expired: 0,
            now: 0,
            tickets_left: 0,
            room: 0,
            unasked: 0,
            forwarded: 0,
            copied: 0,
            tickets_taken: 0,
            answered: 0,
            answered_since: 0,
            was_refused: false,
            drained: Drained::Quiet,
            files: Files::None,
            reads_on: false,
            owes: None,
            served_at: None,
            next_ticket: 0,
            owner: ConnectionId { index: u32::MAX, generation: 0 },
            arena,
            lost,
        }
    }

    /// Begins anew for another connection; nothing may be left in it.
    pub(super) fn belong_to(&mut self, owner: ConnectionId) {
        assert!(self.is_idle(), "an output is handed on with something in it");
        assert!(self.reserved == 0 && self.expires == u64::MAX, "nothing is kept, and expires, for nobody");
        debug_assert!(owner.index != u32::MAX, "an output is a connection's");
        (self.owner, self.was_refused, self.reads_on) = (owner, false, false);
        (self.files, self.owes, self.served_at) = (Files::None, None, None);
    }

    /// Whether it is the output of that connection.
    pub(super) fn is_of(&self, owner: ConnectionId) -> bool {
        self.owner == owner
    }

    /// Bytes written and not yet handed to a send, whether or not they wait behind a held answer.
    pub fn len(&self) -> usize {
        let held: usize = self.holes.iter().map(|hole| hole.reply.len() + hole.after.len()).sum();
        self.chain.len() + held + self.gather.as_ref().map_or(0, |lease| lease.len())
    }

    /// Whether nothing is written.
    pub fn is_empty(&self) -> bool {
        let is_gathered = self.gather.as_ref().is_some_and(|lease| !lease.is_empty());
        self.chain.is_empty() && !is_gathered && self.holes.iter().all(|hole| hole.reply.is_empty() && hole.after.is_empty())
    }

    /// Whether nothing is written, held or wanted.
    pub(super) fn is_idle(&self) -> bool {
        let nothing_held = self.held.is_empty() && self.holes.is_empty() && self.expired == 0;
        nothing_held && self.chain.is_empty() && self.gather.is_none() && !self.wants_drained()
    }

    /// Asks for room to write: false if the output limit is reached, or the lane lends no memory now. Then the service leaves its input, and is
    /// called again when there is room.
    pub fn ask_room(&mut self) -> bool {
        let has_room = self.room > 0 && self.arena.ask(GATHER_BYTES);
        self.was_refused |= !has_room;
        has_room
    }

    /// Has the connection's input go on while this output [has no room](Output::ask_room), or as many requests are held as may be
    /// (`requests_in_flight_max`), until it is said otherwise or all has left: for who takes what the peer says whether or not that takes
    /// what is written, and bounds what it keeps of it ([`Next::Wait`](crate::Next::Wait)). Else a peer that reads nothing is not read from.
    pub fn read_on(&mut self, reads_on: bool) {
        self.reads_on = reads_on;
    }

    /// Says what the peer owes from now on, for the limits of time that hold for it. Said again, no time begins anew. A service that says so counts all of its
    /// requests, on each of its connections ([`Cx::count_requests`](crate::Cx::count_requests), [`Output::note_active`]): a peer that sends anything else counts as idle.
    pub fn peer_owes(&mut self, owes: Owes) {
        self.owes = Some(owes);
    }

    /// Has the time of idleness begin anew, as a request does that was counted in a call for this connection: for who serves requests in other calls.
    pub fn note_active(&mut self) {
        self.served_at = Some(self.now);
    }

    /// Asks the output limit alone for room, as [`Output::ask_room`] asks it and the lane's memory: for a service that writes what can be refused.
    #[inline]
    pub fn ask_limit(&mut self) -> bool {
        self.was_refused |= self.room == 0;
        self.room > 0
    }

    /// Asks for a ticket, as far as their number goes (`requests_in_flight_max`): false if [`Output::hold`] would be refused one. Then the service leaves its input, and is
    /// called again when a request was answered: for a service that must know before it begins with one.
    #[inline]
    pub fn ask_ticket(&mut self) -> bool {
        self.was_refused |= self.tickets_left == 0;
        self.tickets_left > 0
    }

    /// Appends a segment without copying: a lease, bytes that live as long as the program, a part of a file.
    pub fn push(&mut self, segment: impl Into<Segment>) {
        let segment = segment.into();
        self.note_file(&segment);
        self.add(segment.held().max(1));
        self.seal();
        self.tail().push(segment);
    }

    /// Moves bytes from an input without copying.
    pub fn forward(&mut self, taken: Taken<'_>) {
        debug_assert!(taken.bytes <= taken.chain.len(), "what is taken is there");
        self.seal();
        self.forwarded += taken.bytes;
        let tail = match self.holes.back_mut() {
            Some(hole) => &mut hole.after,
            None => &mut self.chain,
        };
        let before = tail.len();
        taken.chain.move_to(taken.bytes, tail);
        let moved = tail.len() - before;
        assert_eq!(moved, taken.bytes, "what was taken of an input is in it");
        self.add(moved);
    }

    /// Moves all of a chain into the output, without copying; the chain keeps its storage.
    pub fn append(&mut self, chain: &mut Chain) {
        self.add(chain.held().max(1));
        self.seal();
        self.tail().append(chain);
    }

    /// Bytes of memory that may still be added before the output limit is reached.
    pub fn room(&self) -> usize {
        self.room
    }

    /// Copies `bytes` into the output, gathered with other small writes; long ones are spread over leases. All or nothing.
    ///
    /// # Errors
    /// [`Refused::Memory`] if the lane does not lend the memory now: leave the request in the input, and it is offered again.
    /// [`Refused::TooLarge`] if it never will.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), Refused> {
        match &mut self.gather {
            Some(lease) if lease.room() >= bytes.len() => lease.append(bytes),
            _ if bytes.is_empty() => return Ok(()),
            _ => {
                let mut pieces = Pieces::new(self.arena.clone(), None);
                pieces.put(bytes).inspect_err(|_| self.was_refused = true)?;
                self.take_pieces(pieces);
            }
        }
        self.note_copied(bytes.len());
        Ok(())
    }

    /// For what must leave whole or not at all: write it piece by piece, then [finish](OutputWriter::finish).
    pub fn writer(&mut self) -> OutputWriter<'_> {
        let gathered = self.gather.as_ref().map(|lease| lease.len());
        OutputWriter { output: self, gathered, written: 0, pieces: None, refused: None }
    }

    /// What `write!(output, ...)` calls: all or nothing.
    ///
    /// # Errors
    /// As [`Output::write`].
    ///
    /// # Panics
    /// If a value that is written fails to write itself, though all of it was taken.
    pub fn write_fmt(&mut self, text: fmt::Arguments<'_>) -> Result<(), Refused> {
        let mut writer = self.writer();
        let written = fmt::Write::write_fmt(&mut writer, text);
        writer.finish().inspect(|()| assert!(written.is_ok(), "a value does not write itself, though nothing was refused"))
    }

    /// Takes what was written into leases of their own, the last of which gathers what follows.
    fn take_pieces(&mut self, pieces: Pieces) {
        let (mut full, last) = pieces.into_parts();
        self.seal();
        self.tail().append(&mut full);
        debug_assert!(self.gather.is_none(), "what was gathered stands before these");
        self.gather = last;
    }

    fn note_copied(&mut self, bytes: usize) {
        self.copied += bytes;
        self.add(bytes);
    }

    /// Takes the right, and the duty, to answer one request later. The [`Hold`] sets its order, the memory kept for the answer, and when the
    /// ticket expires.
    ///
    /// # Errors
    /// [`Refused::Tickets`] at the limit of requests in flight, and [`Refused::Memory`] if the memory to be kept is not lent now: leave the
    /// request in the input, and it is offered again. [`Refused::TooLarge`] if that memory is never lent.
    pub fn hold(&mut self, hold: impl Into<Hold>) -> Result<Ticket, Refused> {
        let Hold { order, reserve, expiry } = hold.into();
        if self.tickets_left == 0 {
            self.was_refused = true;
            return Err(Refused::Tickets);
        }
        assert!(self.owner.index != u32::MAX, "a request is held for a connection");
        let kept = self.reserve(reserve).inspect_err(|_| self.was_refused = true)?;
        let reserved = kept.as_ref().map_or(0, Lease::capacity);
        self.charge(reserved);
        (self.reserved, self.tickets_left) = (self.reserved + reserved, self.tickets_left - 1);
        self.tickets_taken += 1;
        let number = self.next_ticket;
        debug_assert!(self.held.back().is_none_or(|last| last.number != number), "a number is of one ticket");
        let (expires, token) =
            expiry.map_or((u64::MAX, 0), |(after, token)| (self.now.saturating_add(nanoseconds(after)), token));
        self.held.push_back(HeldRequest { number, reserved, since: self.now, expires, token, is_renewed: false });
        (self.next_ticket, self.expires) = (number.wrapping_add(1), self.expires.min(expires));
        if order == Order::Kept {
            self.seal();
            self.holes.push_back(Hole { number, answered: false, reply: Chain::new(), after: Chain::new() });
        }
        Ok(Ticket::new(self.owner, Name { number, order, is_renewed: false }, kept, self.lost.clone()))
    }

    /// Memory for an answer.
    fn reserve(&self, bytes: usize) -> Result<Option<Lease>, Refused> {
        let most = self.arena.lend_max();
        match bytes {
            0 => Ok(None),
            _ if bytes > most => Err(Refused::TooLarge { most }),
            _ => self.arena.lease(bytes).map(Some).ok_or(Refused::Memory),
        }
    }

    /// Takes the ticket back that has expired by `now`, and gives another one for the same request.
    pub(super) fn expire(&mut self, now: u64) -> Option<(Ticket, u64)> {
        debug_assert!(self.expires <= now, "a ticket expires at its time");
        let held = self.held.iter_mut().find(|held| held.expires <= now)?;
        assert!(!held.is_renewed, "a ticket that was renewed expires no more");
        (held.expires, held.is_renewed) = (u64::MAX, true);
        self.expired += 1;
        let (number, token) = (held.number, held.token);
        self.expires = self.held.iter().map(|held| held.expires).min().unwrap_or(u64::MAX);
        let order = if self.holes.iter().any(|hole| hole.number == number) { Order::Kept } else { Order::Any };
        Some((Ticket::new(self.owner, Name { number, order, is_renewed: true }, None, self.lost.clone()), token))
    }

    /// When the first ticket expires; `u64::MAX` for never.
    pub(super) fn expires(&self) -> u64 {
        debug_assert!(self.expires == u64::MAX || !self.held.is_empty(), "what expires is held");
        self.expires
    }

    /// Answers a ticket of this connection. For a ticket of another one use [`Cx::answer`](crate::Cx::answer).
    ///
    /// # Errors
    /// The ticket and the answer, if the ticket is not of this connection.
    pub fn answer(&mut self, ticket: Ticket, answer: Chain) -> Result<(), (Ticket, Chain)> {
        if ticket.connection() != self.owner {
            return Err((ticket, answer));
        }
        self.settle(ticket.spend(), answer);
        Ok(())
    }

    /// Puts an answer in its place, and releases what waited behind it. False, and nothing, if its ticket has expired.
    pub(super) fn settle(&mut self, Name { number, order, is_renewed }: Name, mut answer: Chain) -> bool {
        if !self.release(number, is_renewed) {
            return false;
        }
        self.charge(answer.held().max(1));
        answer.segments().for_each(|segment| self.note_file(segment));
        if order == Order::Any {
            debug_assert!(self.holes.iter().all(|hole| hole.number != number), "an answer of any order has no place");
            self.seal();
            self.tail().append(&mut answer);
            return true;
        }
        self.seal();
        // reason: its ticket was not answered yet.
        let hole = self.holes.iter_mut().find(|hole| hole.number == number).expect("a kept place is there until it is answered");
        assert!(!hole.answered, "a place is answered once");
        (hole.answered, hole.reply) = (true, answer);
        while self.holes.front().is_some_and(|hole| hole.answered) {
            // reason: it was there just now.
            let mut hole = self.holes.pop_front().expect("the first place is there");
            self.chain.append(&mut hole.reply);
            self.chain.append(&mut hole.after);
        }
        debug_assert!(self.holes.front().is_none_or(|hole| !hole.answered), "no answer waits behind itself");
        true
    }

    /// The account of the peer whose connection it is, during a call for it.
    pub fn peer_payer(&self) -> Payer {
        self.arena.peer_payer()
    }

    /// How many tickets were taken of it and not answered yet.
    pub fn tickets(&self) -> usize {
        self.held.len()
    }

    /// How many tickets were not answered yet.
    pub(super) fn held(&self) -> u32 {
        self.held.len() as u32
    }

    /// Since when a ticket waits that was not answered yet.
    pub(super) fn oldest_held(&self) -> Option<u64> {
        let since = |held: &HeldRequest| held.since;
        debug_assert!(self.held.front().map(since) <= self.held.back().map(since), "who was held first has waited longest");
        self.held.front().map(since)
    }

    /// How many tickets were answered since this was asked last, and how long each of them waited until now, on the average.
    pub(super) fn take_answered(&mut self, now: u64) -> Option<(u64, u64)> {
        let (answered, since) = (std::mem::take(&mut self.answered), std::mem::take(&mut self.answered_since));
        debug_assert!(answered > 0 || since == 0, "what was not answered has waited for nobody");
        // Both sums may wrap; what lies between them does not.
        (answered > 0).then(|| (answered, now.wrapping_mul(answered).wrapping_sub(since) / answered))
    }

    /// Whether a ticket that was dropped had expired before; then it is forgotten.
    pub(super) fn forget_expired(&mut self, ticket: Name) -> bool {
        let is_good = self.held.iter().any(|held| held.number == ticket.number && held.is_renewed == ticket.is_renewed);
        if !is_good {
            assert!(!ticket.is_renewed && self.expired > 0, "a ticket that is neither held nor expired");
            self.expired -= 1;
        }
        !is_good
    }

    /// Forgets a ticket that is spent. False if it had expired before.
    fn release(&mut self, number: u32, is_renewed: bool) -> bool {
        let first = self.held.front().map_or(0, |held| held.number);
        // Numbers wrap: they are compared by how far they are from the first.
        let place = self.held.partition_point(|held| held.number.wrapping_sub(first) < number.wrapping_sub(first));
        let is_good = self.held.get(place).is_some_and(|held| held.number == number && held.is_renewed == is_renewed);
        if !is_good {
            assert!(!is_renewed && self.expired > 0, "a ticket is answered once");
            self.expired -= 1;
            return false;
        }
        // reason: it was there just now.
        let held = self.held.remove(place).expect("a held request is there until it is answered");
        assert!(self.reserved >= held.reserved, "what a ticket kept is in the sum");
        self.reserved -= held.reserved;
        debug_assert!(self.reserved == 0 || !self.held.is_empty(), "what is kept is kept for who is held");
        self.tickets_left += 1;
        (self.answered, self.answered_since) = (self.answered + 1, self.answered_since.wrapping_add(held.since));
        if held.expires == self.expires && held.expires < u64::MAX {
            self.expires = self.held.iter().map(|held| held.expires).min().unwrap_or(u64::MAX);
        }
        true
    }

    /// Asks for [`StreamService::drained`](crate::StreamService::drained) once all output has left.
    pub fn notify_drained(&mut self) {
        self.drained = match self.drained {
            Drained::Quiet | Drained::Wanted => Drained::Wanted,
            Drained::Told | Drained::WantedAgain => Drained::WantedAgain,
        };
    }

    /// Whether the service wants to be told when all has left.
    fn wants_drained(&self) -> bool {
        matches!(self.drained, Drained::Wanted | Drained::WantedAgain)
    }

    /// Something more leaves: who was told that all has left, and wants that again, is told behind it.
    pub(super) fn begin_to_leave(&mut self) {
        self.drained = if self.wants_drained() { Drained::Wanted } else { Drained::Quiet };
    }

    /// Whether the service was to be told that all has left, and is now: it wants that no more.
    pub(super) fn take_wanted(&mut self) -> bool {
        let wanted = self.wants_drained();
        self.drained = Drained::Quiet;
        wanted
    }

    /// The service was told that all has left. One without memory to go on is told again once the lane would lend it.
    pub(super) fn note_drained(&mut self, is_starved: bool) {
        debug_assert!(matches!(self.drained, Drained::Quiet | Drained::Wanted), "what it was told is noted once");
        // Small writes count as waiting output too; else this would be told again before they have left.
        self.seal();
        self.drained = match (is_starved, self.wants_drained()) {
            (true, wanted) if wanted || self.is_empty() => Drained::Wanted,
            (true, _) => Drained::Quiet,
            (false, true) => Drained::WantedAgain,
            (false, false) => Drained::Told,
        };
    }

    /// Ends the gathering of small writes, so that what follows stands behind them.
    pub(super) fn seal(&mut self) {
        if let Some(lease) = self.gather.take() {
            self.tail().push(lease.share());
        }
    }

    /// Bytes of memory held, of any lane, wherever they wait.
    #[inline]
    pub(super) fn charged(&self) -> usize {
        let holds_nothing = self.chain.is_empty() && self.holes.is_empty() && self.gather.is_none();
        if holds_nothing { self.reserved } else { self.charged_all() }
    }

    fn charged_all(&self) -> usize {
        let held: usize = self.holes.iter().map(|hole| hole.reply.held() + hole.after.held()).sum();
        self.reserved + self.chain.held() + held + self.gather.as_ref().map_or(0, Lease::capacity)
    }

    /// Notes a part of a file that was written.
    pub(super) fn note_file(&mut self, segment: &Segment) {
        if let Segment::File(part) = segment {
            let is_far = part.file.is_far() || self.has_far_files();
            self.files = if is_far { Files::Far } else { Files::Near };
        }
    }

    /// Whether there may be parts of files in it, which nobody lets pass.
    pub(super) fn has_files(&self) -> bool {
        self.files != Files::None
    }

    /// Whether some of them may be far.
    pub(super) fn has_far_files(&self) -> bool {
        self.files == Files::Far
    }

    /// Nobody looks for parts of files.
    pub(super) fn forget_files(&mut self) {
        self.files = Files::None;
    }

    fn forget_files_if_empty(&mut self) {
        if self.chain.is_empty() && self.holes.is_empty() {
            self.forget_files();
        }
    }

    /// Whether parts of files are read before they leave through a transform that passes others as they are, or does not.
    pub(super) fn are_read(&self, passes_files: bool) -> bool {
        !passes_files || self.has_far_files()
    }

    /// The part of a file that is to leave next, and is far.
    pub(super) fn far_at_front(&self) -> Option<&FilePart> {
        match self.chain.front() {
            Some(Segment::File(part)) if self.has_far_files() && part.file.is_far() => Some(part),
            _ => None,
        }
    }

    /// Moves what lies ahead of the first part of a far file, or all, to the end of `to`.
    pub(super) fn move_near(&mut self, to: &mut Chain) {
        debug_assert!(self.has_far_files(), "where nothing is far, all leaves");
        let is_near = |segment: &&Segment| !matches!(segment, Segment::File(part) if part.file.is_far());
        let ahead = self.chain.segments().take_while(is_near).map(Segment::len).sum();
        self.chain.move_to(ahead, to);
        debug_assert!(self.chain.is_empty() || self.far_at_front().is_some(), "what stays begins with a part of a far file");
        self.forget_files_if_empty();
    }

    /// The part of a file that is to leave next.
    pub(super) fn file_at_front(&self) -> Option<&FilePart> {
        match self.chain.front() {
            Some(Segment::File(part)) if self.has_files() => Some(part),
            _ => None,
        }
    }

    /// Splits off what lies behind the bytes in memory that are to leave first.
    pub(super) fn split_at_file(&mut self) -> Chain {
        debug_assert!(self.has_files(), "what holds no file is not split");
        let ahead = self.chain.segments().map_while(Segment::bytes).map(<[u8]>::len).sum();
        let mut first = Chain::new();
        self.chain.move_to(ahead, &mut first);
        debug_assert_eq!(first.len(), ahead, "bytes in memory are moved whole");
        self.forget_files_if_empty();
        std::mem::replace(&mut self.chain, first)
    }

    /// Puts a piece of the file in front in its place.
    pub(super) fn take_piece(&mut self, piece: Lease) {
        let is_due = self.file_at_front().is_some_and(|part| part.length >= piece.len() as u64);
        assert!(is_due, "what was read is the beginning of the part that is to leave next");
        self.chain.skip(piece.len());
        self.chain.push_front(piece.share());
    }

    /// Drops everything; tickets that are still out become answers after the end.
    pub(super) fn clear(&mut self) {
        self.chain.clear();
        self.gather = None;
        self.holes.clear();
        self.held.clear();
        (self.expires, self.reserved, self.expired, self.drained) = (u64::MAX, 0, 0, Drained::Quiet);
        assert!(self.is_empty() && self.charged() == 0, "what was dropped holds nothing");
    }

    /// All chains, for compaction.
    pub(super) fn chains_mut(&mut self) -> impl Iterator<Item = &mut Chain> {
        let held = self.holes.iter_mut().flat_map(|hole| [&mut hole.reply, &mut hole.after]);
        std::iter::once(&mut self.chain).chain(held)
    }

    /// Charges what the service adds by itself. What goes over the room that there is was asked for; what comes after it was not.
    fn add(&mut self, bytes: usize) {
        if self.room == 0 {
            self.unasked += bytes;
        }
        self.charge(bytes);
    }

    fn charge(&mut self, bytes: usize) {
        self.room = self.room.saturating_sub(bytes);
    }

    fn tail(&mut self) -> &mut Chain {
        match self.holes.back_mut() {
            Some(hole) => &mut hole.after,
            None => &mut self.chain,
        }
    }
}

/// Writes into a connection's output piece by piece ([`Output::writer`]): with [`OutputWriter::put`], `write!` or as [`std::io::Write`]. Nothing
/// stands in the output until [`OutputWriter::finish`] says so; dropped without that, what was written is gone.
pub struct OutputWriter<'o> {
    output: &'o mut Output,
    /// Bytes that the output's gathering lease held before, and those written into it since.
    gathered: Option<usize>,
    written: usize,
    pieces: Option<Pieces>,
    refused: Option<Refused>,
}

impl OutputWriter<'_> {
    /// Copies `bytes` behind what was written before.
    ///
    /// # Errors
    /// [`Refused`], as [`Output::write`]: this, or what was refused before.
    pub fn put(&mut self, bytes: &[u8]) -> Result<(), Refused> {
        let Self { output, written, pieces, refused, .. } = self;
        first_refusal(refused, || {
            let gather = output.gather.as_mut().filter(|lease| pieces.is_none() && lease.room() >= bytes.len());
            match gather {
                Some(lease) => lease.append(bytes),
                None => pieces.get_or_insert_with(|| Pieces::new(output.arena.clone(), None)).put(bytes)?,
            }
            *written += bytes.len();
            Ok(())
        })
    }

    /// Leaves in the output what was written.
    ///
    /// # Errors
    /// The first refusal; nothing was written then.
    pub fn finish(mut self) -> Result<(), Refused> {
        if let Some(refused) = self.refused {
            return Err(refused);
        }
        self.gathered = self.output.gather.as_ref().map(|lease| lease.len());
        if let Some(pieces) = self.pieces.take() {
            self.output.take_pieces(pieces);
            self.gathered = None;
        }
        self.output.note_copied(self.written);
        Ok(())
    }
}

impl Drop for OutputWriter<'_> {
    fn drop(&mut self) {
        self.output.was_refused |= self.refused.is_some();
        if let (Some(lease), Some(gathered)) = (&mut self.output.gather, self.gathered) {
            lease.truncate(gathered);
        }
    }
}

writes!(OutputWriter<'_>);

#[cfg(test)]
mod tests;
