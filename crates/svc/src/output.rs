//! What a connection is to send: gathered during a turn, with places held for answers that come later.

use crate::input::Taken;
use crate::names::{ConnectionId, Order};
use crate::ticket::{LostTickets, Ticket};
use corelane_seam::{Arena, Chain, Lease, Segment};
use std::collections::VecDeque;

/// Bytes of the lease into which small writes are gathered.
const GATHER_BYTES: usize = 16 << 10;
/// Bytes of one write that are copied into one lease.
const PIECE_BYTES: usize = 64 << 10;

/// An answer's place: what was written after it waits behind it.
struct Hole {
    number: u32,
    answered: bool,
    reply: Chain,
    after: Chain,
}

/// A connection's output. Everything written in one turn leaves in one send.
pub struct Output {
    /// What may leave now.
    pub(crate) chain: Chain,
    /// What small writes are gathered in; belongs to the end of whatever is written last.
    gather: Option<Lease>,
    holes: VecDeque<Hole>,
    /// Tickets that were not answered yet, of both orders, in the order of their numbers; and when each was taken.
    held: VecDeque<(u32, u64)>,
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
    pub(crate) was_refused: bool,
    pub(crate) wants_drained: bool,
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
            now: 0,
            tickets_left: 0,
            room: 0,
            unasked: 0,
            forwarded: 0,
            copied: 0,
            tickets_taken: 0,
            was_refused: false,
            wants_drained: false,
            next_ticket: 0,
            owner: ConnectionId { index: u32::MAX, generation: 0 },
            arena,
            lost,
        }
    }

    /// Begins anew for another connection; nothing may be left in it.
    pub(crate) fn belong_to(&mut self, owner: ConnectionId) {
        assert!(self.is_idle(), "an output is handed on with something in it");
        (self.owner, self.was_refused) = (owner, false);
    }

    /// Bytes written and not handed to a send yet, in order behind any held answer or not.
    pub fn len(&self) -> usize {
        let held: usize = self.holes.iter().map(|hole| hole.reply.len() + hole.after.len()).sum();
        self.chain.len() + held + self.gather.as_ref().map_or(0, |lease| lease.len())
    }

    /// Whether nothing is written.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether nothing is written, held or wanted.
    pub(crate) fn is_idle(&self) -> bool {
        self.chain.is_empty() && self.held.is_empty() && self.holes.is_empty() && self.gather.is_none() && !self.wants_drained
    }

    /// Whether the service should stop producing: the output limit is reached, or the lane lends no memory now. It
    /// then leaves its input and is called again when there is room.
    pub fn is_full(&mut self) -> bool {
        let full = self.room == 0 || !self.arena.lends(GATHER_BYTES);
        self.was_refused |= full;
        full
    }

    /// Appends a segment without copying: a lease, bytes that live as long as the program, a part of a file.
    pub fn push(&mut self, segment: impl Into<Segment>) {
        let segment = segment.into();
        self.add(segment.charged().max(1));
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
        self.add(moved);
    }

    /// Copies `bytes` into the output, gathered with other small writes. Returns false, and writes nothing, if the
    /// lane does not lend the memory now: leave the request in the input, it will be offered again.
    #[must_use]
    pub fn write(&mut self, bytes: &[u8]) -> bool {
        match &mut self.gather {
            Some(lease) if lease.room() >= bytes.len() => lease.append(bytes),
            _ => return bytes.is_empty() || self.write_anew(bytes),
        }
        self.note_copied(bytes.len());
        true
    }

    /// Copies `bytes` into leases of their own, the last of which gathers what follows; all or nothing.
    fn write_anew(&mut self, bytes: &[u8]) -> bool {
        let (mut full, mut last) = (Chain::new(), None);
        for piece in bytes.chunks(PIECE_BYTES) {
            let Some(mut lease) = self.arena.lease_upto(piece.len().max(GATHER_BYTES), piece.len()) else {
                self.was_refused = true;
                return false;
            };
            lease.append(piece);
            if let Some(lease) = last.replace(lease) {
                full.push(lease.share());
            }
        }
        self.seal();
        self.tail().append(&mut full);
        self.gather = last;
        self.note_copied(bytes.len());
        true
    }

    fn note_copied(&mut self, bytes: usize) {
        self.copied += bytes;
        self.add(bytes);
    }

    /// Takes the right, and the duty, to answer one request later. None at the limit of requests in flight: leave the
    /// request in the input, it will be offered again when an answer has been given.
    pub fn hold(&mut self, order: Order) -> Option<Ticket> {
        if self.tickets_left == 0 {
            self.was_refused = true;
            return None;
        }
        assert!(self.owner.index != u32::MAX, "a request is held for a connection");
        self.tickets_left -= 1;
        self.tickets_taken += 1;
        let number = self.next_ticket;
        self.held.push_back((number, self.now));
        self.next_ticket = self.next_ticket.wrapping_add(1);
        if order == Order::Kept {
            self.seal();
            self.holes.push_back(Hole { number, answered: false, reply: Chain::new(), after: Chain::new() });
        }
        Some(Ticket::new(self.owner, number, order, self.lost.clone()))
    }

    /// Answers a ticket of this connection. For a ticket of another one use [`Cx::answer`](crate::Cx::answer).
    ///
    /// # Errors
    /// The ticket and the answer, if the ticket is not of this connection.
    pub fn answer(&mut self, ticket: Ticket, answer: Chain) -> Result<(), (Ticket, Chain)> {
        if ticket.connection() != self.owner {
            return Err((ticket, answer));
        }
        let (number, order) = ticket.spend();
        self.settle(number, order, answer);
        Ok(())
    }

    /// Puts an answer in its place, and releases what waited behind it.
    pub(crate) fn settle(&mut self, number: u32, order: Order, mut answer: Chain) {
        self.release(number);
        self.charge(answer.charged().max(1));
        if order == Order::Any {
            self.seal();
            self.tail().append(&mut answer);
            return;
        }
        self.seal();
        // reason: its ticket was not answered yet.
        let hole = self.holes.iter_mut().find(|hole| hole.number == number).expect("a kept place is there until it is answered");
        assert!(!hole.answered, "a place is answered once");
        (hole.answered, hole.reply) = (true, answer);
        while self.holes.front().is_some_and(|hole| hole.answered) {
            let Some(mut hole) = self.holes.pop_front() else { break };
            self.chain.append(&mut hole.reply);
            self.chain.append(&mut hole.after);
        }
    }

    /// How many tickets were not answered yet.
    pub(crate) fn held(&self) -> u32 {
        self.held.len() as u32
    }

    /// Since when a ticket waits that was not answered yet.
    pub(crate) fn oldest_held(&self) -> Option<u64> {
        self.held.front().map(|&(_, since)| since)
    }

    fn release(&mut self, number: u32) {
        let first = self.held.front().map_or(0, |&(first, _)| first);
        // Numbers wrap: they are compared by how far they are from the first.
        let place = self.held.partition_point(|&(other, _)| other.wrapping_sub(first) < number.wrapping_sub(first));
        let released = self.held.remove(place);
        assert_eq!(released.map(|(number, _)| number), Some(number), "a ticket is answered once");
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

    /// Bytes of lane memory held, wherever they wait.
    pub(crate) fn charged(&self) -> usize {
        if self.chain.is_empty() && self.holes.is_empty() && self.gather.is_none() {
            return 0;
        }
        let held: usize = self.holes.iter().map(|hole| hole.reply.charged() + hole.after.charged()).sum();
        self.chain.charged() + held + self.gather.as_ref().map_or(0, Lease::capacity)
    }

    /// Drops everything; tickets that are still out become answers after the end.
    pub(crate) fn clear(&mut self) {
        self.chain.clear();
        self.gather = None;
        self.holes.clear();
        self.held.clear();
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

#[cfg(test)]
mod tests {
    use super::*;

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
        assert!(output.write(b"a") && output.write(b"b"));
        output.push(&b"C"[..]);
        assert!(output.write(b"d"));
        assert_eq!(text(&mut output), "abCd");
        assert_eq!(output.chain.segments().len(), 3);
    }

    #[test]
    fn kept_order_waits_and_any_order_does_not() {
        let (mut output, _) = output();
        let first = output.hold(Order::Kept).unwrap();
        assert!(output.write(b"2"));
        let third = output.hold(Order::Kept).unwrap();
        assert!(output.write(b"4"));
        assert_eq!(text(&mut output), "");
        output.answer(third, chain("3")).unwrap();
        assert_eq!(text(&mut output), "");
        output.answer(first, chain("1")).unwrap();
        assert_eq!(text(&mut output), "1234");
        let any = output.hold(Order::Any).unwrap();
        assert!(output.write(b"5"));
        output.answer(any, chain("6")).unwrap();
        assert_eq!((text(&mut output).as_str(), output.held()), ("123456", 0));
    }

    #[test]
    fn tickets_are_bounded_and_a_lost_one_is_known() {
        let (mut output, lost) = output();
        let tickets: Vec<_> = (0..3).map(|_| output.hold(Order::Any).unwrap()).collect();
        assert!(output.hold(Order::Any).is_none() && output.was_refused);
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
