//! What a connection is to send: gathered during a turn, with places held for answers that come later.

use crate::connection::input::Taken;
use crate::connection::ticket::{Hold, LostTickets, Name, Ticket};
use crate::connection::writer::{GATHER_BYTES, Pieces, first_refusal, writes};
use crate::words::error::Refused;
use crate::words::names::{ConnectionId, Order, Owes};
use corelane_seam::{Arena, Chain, Lease, Payer, Segment, nanoseconds};
use std::collections::VecDeque;
use std::fmt;

/// A request that is held.
struct Held {
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
    pub(crate) chain: Chain,
    /// What small writes are gathered in; belongs to the end of whatever is written last.
    gather: Option<Lease>,
    holes: VecDeque<Hole>,
    /// Tickets that were not answered yet, of both orders, in the order of their numbers.
    held: VecDeque<Held>,
    /// When the first of them expires; `u64::MAX` if none does.
    expires: u64,
    /// Bytes that they keep for their answers.
    reserved: usize,
    /// Tickets that have expired and are still somewhere.
    expired: u32,
    /// The time of the call under way.
    pub(crate) now: u64,
    /// Tickets that the service may still take.
    pub(crate) tickets_left: u32,
    /// Bytes of memory that may still be added before the output is full.
    pub(crate) room: usize,
    /// Bytes of memory that were added when there was no room, since there last was some: nobody had asked.
    pub(crate) unasked: usize,
    pub(crate) forwarded: usize,
    pub(crate) copied: usize,
    pub(crate) tickets_taken: u32,
    /// Tickets that were answered since they were counted last, and the sum of the times at which they were taken, which may wrap.
    answered: u64,
    answered_since: u64,
    pub(crate) was_refused: bool,
    pub(crate) wants_drained: bool,
    /// There may be parts of files in it that are to be read before they leave.
    pub(crate) has_files: bool,
    /// There may be parts of files in it that are far: each is read before it leaves, whoever else passes files.
    pub(crate) has_far_files: bool,
    /// The input does not wait for it.
    pub(crate) reads_on: bool,
    /// What the service has said that the peer owes, and nobody has taken note of.
    pub(crate) owes: Option<Owes>,
    /// It has served a request, of which nobody has taken note.
    pub(crate) is_active: bool,
    next_ticket: u32,
    owner: ConnectionId,
    arena: Arena,
    lost: LostTickets,
}

impl Output {
    pub(crate) fn new(arena: Arena, lost: LostTickets) -> Self {
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
            wants_drained: false,
            has_files: false,
            has_far_files: false,
            reads_on: false,
            owes: None,
            is_active: false,
            next_ticket: 0,
            owner: ConnectionId { index: u32::MAX, generation: 0 },
            arena,
            lost,
        }
    }

    /// Begins anew for another connection; nothing may be left in it.
    pub(crate) fn belong_to(&mut self, owner: ConnectionId) {
        assert!(self.is_idle(), "an output is handed on with something in it");
        assert!(self.reserved == 0 && self.expires == u64::MAX, "nothing is kept, and expires, for nobody");
        (self.owner, self.was_refused, self.reads_on) = (owner, false, false);
        (self.has_files, self.has_far_files) = (false, false);
        (self.owes, self.is_active) = (None, false);
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
    pub(crate) fn is_idle(&self) -> bool {
        let nothing_held = self.held.is_empty() && self.holes.is_empty() && self.expired == 0;
        nothing_held && self.chain.is_empty() && self.gather.is_none() && !self.wants_drained
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
        self.is_active = true;
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
        let (expires, token) =
            expiry.map_or((u64::MAX, 0), |(after, token)| (self.now.saturating_add(nanoseconds(after)), token));
        self.held.push_back(Held { number, reserved, since: self.now, expires, token, is_renewed: false });
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
    pub(crate) fn expire(&mut self, now: u64) -> Option<(Ticket, u64)> {
        let held = self.held.iter_mut().find(|held| held.expires <= now)?;
        (held.expires, held.is_renewed) = (u64::MAX, true);
        self.expired += 1;
        let (number, token) = (held.number, held.token);
        self.expires = self.held.iter().map(|held| held.expires).min().unwrap_or(u64::MAX);
        let order = if self.holes.iter().any(|hole| hole.number == number) { Order::Kept } else { Order::Any };
        Some((Ticket::new(self.owner, Name { number, order, is_renewed: true }, None, self.lost.clone()), token))
    }

    /// When the first ticket expires; `u64::MAX` for never.
    pub(crate) fn expires(&self) -> u64 {
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
    pub(crate) fn settle(&mut self, Name { number, order, is_renewed }: Name, mut answer: Chain) -> bool {
        if !self.release(number, is_renewed) {
            return false;
        }
        self.charge(answer.held().max(1));
        answer.segments().for_each(|segment| self.note_file(segment));
        if order == Order::Any {
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
        true
    }

    /// Whether nothing waits behind an answer that is to come.
    pub(crate) fn has_no_holes(&self) -> bool {
        self.holes.is_empty()
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
    pub(crate) fn held(&self) -> u32 {
        self.held.len() as u32
    }

    /// Since when a ticket waits that was not answered yet.
    pub(crate) fn oldest_held(&self) -> Option<u64> {
        self.held.front().map(|held| held.since)
    }

    /// How many tickets were answered since this was asked last, and how long each of them waited until now, on the average.
    pub(crate) fn take_answered(&mut self, now: u64) -> Option<(u64, u64)> {
        let (answered, since) = (std::mem::take(&mut self.answered), std::mem::take(&mut self.answered_since));
        // Both sums may wrap; what lies between them does not.
        (answered > 0).then(|| (answered, now.wrapping_mul(answered).wrapping_sub(since) / answered))
    }

    /// Whether a ticket that was dropped had expired before; then it is forgotten.
    pub(crate) fn forget_expired(&mut self, ticket: Name) -> bool {
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
        self.tickets_left += 1;
        (self.answered, self.answered_since) = (self.answered + 1, self.answered_since.wrapping_add(held.since));
        if held.expires == self.expires && held.expires < u64::MAX {
            self.expires = self.held.iter().map(|held| held.expires).min().unwrap_or(u64::MAX);
        }
        true
    }

    /// Asks for [`StreamService::drained`](crate::StreamService::drained) once all output has left.
    pub fn notify_drained(&mut self) {
        self.wants_drained = true;
    }

    /// Ends the gathering of small writes, so that what follows stands behind them.
    pub(crate) fn seal(&mut self) {
        if let Some(lease) = self.gather.take() {
            self.tail().push(lease.share());
        }
    }

    /// Bytes of memory held, of any lane, wherever they wait.
    #[inline]
    pub(crate) fn charged(&self) -> usize {
        let holds_nothing = self.chain.is_empty() && self.holes.is_empty() && self.gather.is_none();
        if holds_nothing { self.reserved } else { self.charged_all() }
    }

    fn charged_all(&self) -> usize {
        let held: usize = self.holes.iter().map(|hole| hole.reply.held() + hole.after.held()).sum();
        self.reserved + self.chain.held() + held + self.gather.as_ref().map_or(0, Lease::capacity)
    }

    /// Drops everything; tickets that are still out become answers after the end.
    pub(crate) fn clear(&mut self) {
        self.chain.clear();
        self.gather = None;
        self.holes.clear();
        self.held.clear();
        (self.expires, self.reserved, self.expired) = (u64::MAX, 0, 0);
        assert!(self.is_empty() && self.charged() == 0, "what was dropped holds nothing");
    }

    /// All chains, for compaction.
    pub(crate) fn chains_mut(&mut self) -> impl Iterator<Item = &mut Chain> {
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
mod tests {
    use super::*;
    use corelane_seam::{Payer, Role};

    fn output() -> (Output, LostTickets) {
        let lost = LostTickets::default();
        let mut output = Output::new(Arena::new(1).unwrap(), lost.clone());
        (output.room, output.tickets_left) = (1 << 20, 3);
        output.belong_to(ConnectionId { index: 1, generation: 1 });
        (output, lost)
    }

    fn text(output: &mut Output) -> String {
        output.seal();
        let mut bytes = vec![0; output.chain.len()];
        output.chain.copy_to(&mut bytes);
        String::from_utf8(bytes).unwrap()
    }

    fn chain(bytes: &'static str) -> Chain {
        let mut chain = Chain::new();
        chain.push(bytes.as_bytes());
        chain
    }

    #[test]
    fn small_writes_gather_in_order_with_the_rest() {
        let (mut output, _) = output();
        output.write(b"a").unwrap();
        output.write(b"b").unwrap();
        output.push(&b"C"[..]);
        output.write(b"d").unwrap();
        assert_eq!(text(&mut output), "abCd");
        assert_eq!(output.chain.segments().len(), 3);
    }

    #[test]
    fn a_writer_leaves_all_or_nothing() {
        let (mut output, _) = output();
        output.write(b"1").unwrap();
        let mut writer = output.writer();
        writer.put(b"2").unwrap();
        writer.put(&[b'3'; 100_000]).unwrap();
        drop(writer);
        assert_eq!((output.len(), output.copied), (1, 1), "it was dropped");
        let mut writer = output.writer();
        fmt::Write::write_str(&mut writer, "2").unwrap();
        writer.put(&[b'3'; 100_000]).unwrap();
        writer.finish().unwrap();
        write!(output, "{}", 4).unwrap();
        let words = text(&mut output);
        assert_eq!((words.len(), output.copied), (100_003, 100_003));
        assert!(words.starts_with("123") && words.ends_with("34"));
    }

    #[test]
    fn what_is_refused_is_refused_whole() {
        let (mut output, _) = output();
        let most = output.arena.limit() - output.arena.reserve();
        let payer = output.arena.open_payer(Payer::LANE, Role::Sum);
        let payer = output.arena.open_payer(payer, Role::Keeper);
        output.arena.pay_as(payer);
        assert_eq!(output.write(&vec![0; most + 1]), Err(Refused::TooLarge { most }));
        let rest = output.arena.lease(2 << 20).unwrap();
        let mut writer = output.writer();
        writer.put(b"something").unwrap();
        assert_eq!(writer.put(&vec![0; 2 << 20]), Err(Refused::Memory));
        assert_eq!(writer.put(b"more"), Err(Refused::Memory), "nothing stands behind what is missing");
        assert_eq!(writer.finish(), Err(Refused::Memory));
        assert!(output.is_empty() && output.was_refused);
        drop(rest);
        output.write(&vec![0; 2 << 20]).unwrap();
        assert_eq!(output.len(), 2 << 20);
    }

    #[test]
    fn a_long_write_takes_the_pieces_that_there_are() {
        let (mut output, _) = output();
        let blocks: Vec<_> = std::iter::from_fn(|| output.arena.lease(4 << 10)).collect();
        // Every other page is free: no larger block is.
        let kept: Vec<_> = blocks.into_iter().enumerate().filter(|(place, _)| place % 2 == 0).map(|(_, lease)| lease).collect();
        assert!(output.arena.lease(8 << 10).is_none());
        output.write(&vec![7; 300_000]).unwrap();
        assert_eq!((output.len(), text(&mut output).len()), (300_000, 300_000));
        drop(kept);
    }

    #[test]
    fn kept_order_waits_and_any_order_does_not() {
        let (mut output, _) = output();
        let first = output.hold(Order::Kept).unwrap();
        output.write(b"2").unwrap();
        let third = output.hold(Order::Kept).unwrap();
        output.write(b"4").unwrap();
        assert_eq!(text(&mut output), "");
        output.answer(third, chain("3")).unwrap();
        assert_eq!(text(&mut output), "");
        output.answer(first, chain("1")).unwrap();
        assert_eq!(text(&mut output), "1234");
        let any = output.hold(Order::Any).unwrap();
        output.write(b"5").unwrap();
        output.answer(any, chain("6")).unwrap();
        assert_eq!((text(&mut output).as_str(), output.held()), ("123456", 0));
    }

    #[test]
    fn tickets_are_bounded_and_a_lost_one_is_known() {
        let (mut output, lost) = output();
        let tickets: Vec<_> = (0..3).map(|_| output.hold(Order::Any).unwrap()).collect();
        assert_eq!(output.hold(Order::Any).unwrap_err(), Refused::Tickets);
        assert!(output.was_refused);
        drop(tickets);
        assert_eq!(lost.take().len(), 3);
    }

    #[test]
    fn a_ticket_of_another_connection_comes_back() {
        let (mut output, _) = output();
        let ticket = output.hold(Order::Any).unwrap();
        output.clear();
        output.belong_to(ConnectionId { index: 2, generation: 1 });
        let (ticket, _) = output.answer(ticket, chain("x")).unwrap_err();
        ticket.spend();
    }
}
