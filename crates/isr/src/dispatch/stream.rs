//! A protocol on a lane: its queues, and what is parked of it while something changes.

use super::counts::StreamCounts;
use super::policy::{Dispatch, LIMIT_MAX, Placement};
use super::protocol::Registration;
use super::queues::{BUCKETS_MAX, Queues};
use super::step::{Facts, PacketStep, Placed};
use std::collections::VecDeque;
use std::rc::Rc;

/// Packets that were placed and are not handled, by generation.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Outstanding([usize; Placed::GENERATIONS]);

impl Outstanding {
    pub fn more(&mut self, generation: u8, packets: usize) {
        self.0[usize::from(generation)] += packets;
    }

    pub fn less(&mut self, generation: u8, packets: usize) {
        let outstanding = &mut self.0[usize::from(generation)];
        assert!(packets <= *outstanding, "{packets} packets of {outstanding} that are outstanding");
        *outstanding -= packets;
    }

    fn of(self, generation: u8) -> usize {
        self.0[usize::from(generation)]
    }

    fn all(self) -> usize {
        self.0.iter().sum()
    }
}

/// Whether a packet's flow gets another lane.
pub(super) type Moves<P> = Rc<dyn Fn(&P) -> bool>;

/// How far a change has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// None is under way.
    Steady,
    /// What was placed before it is not handled: what arrives is parked, if it is of what changes.
    Settling,
    /// It is, and what was parked is placed, in front of what arrives of the same.
    Placing,
}

/// A protocol on this lane.
pub(super) struct Stream<P> {
    pub limit: usize,
    /// The policy in force.
    pub dispatch: Dispatch,
    /// The protocol's own; none where that of all holds.
    pub own_dispatch: Option<Dispatch>,
    /// What comes into force with the next generation.
    wanted: Dispatch,
    phase: Phase,
    /// What is parked while something changes; none: all.
    moves: Option<Moves<P>>,
    /// The generation in which is placed now. In the steady phase nothing is outstanding of the other.
    generation: u8,
    registration: Registration<P>,
    pub queues: Queues<P>,
    parked: VecDeque<(P, Facts)>,
}

impl<P> Stream<P> {
    /// The stream of a protocol of which, under an earlier registration, `outstanding` packets are not handled.
    pub fn new(registration: Registration<P>, all: Dispatch, outstanding: Outstanding) -> Self {
        let dispatch = registration.dispatch.unwrap_or(all);
        Self {
            limit: registration.limit.min(LIMIT_MAX),
            dispatch,
            own_dispatch: registration.dispatch,
            wanted: dispatch,
            phase: if outstanding.all() > 0 { Phase::Settling } else { Phase::Steady },
            moves: None,
            generation: 0,
            queues: Queues::new(if registration.bucket.is_some() { BUCKETS_MAX } else { 1 }),
            registration,
            parked: VecDeque::new(),
        }
    }

    /// As what it was registered.
    pub fn registration(&self) -> &Registration<P> {
        &self.registration
    }

    /// All that waits, with who placed it; what is parked was placed by none, and is here of lane `this`.
    pub fn into_packets(self, this: usize) -> impl Iterator<Item = (P, Placed)> {
        let parked = Placed { lane: this, generation: self.generation };
        self.queues.into_packets().chain(self.parked.into_iter().map(move |(packet, _)| (packet, parked)))
    }

    /// The generation in which is placed now.
    pub fn generation(&self) -> u8 {
        self.generation
    }

    /// What was counted in all of its queues.
    pub fn counts(&self) -> StreamCounts {
        self.queues.counts().fold(StreamCounts::default(), StreamCounts::and)
    }

    /// Sets the counts of drops to 0; returns what they were.
    pub fn clear_drops(&mut self) -> u64 {
        (0..self.queues.number()).map(|bucket| std::mem::take(&mut self.queues.counts_mut(bucket).drops)).sum()
    }

    /// The bucket whose queue a packet belongs to.
    fn bucket(&self, packet: &P) -> usize {
        let Some(bucket) = &self.registration.bucket else { return 0 };
        bucket(packet).unwrap_or(0) % self.queues.number()
    }

    /// What is counted where a packet belongs.
    pub fn counts_of(&mut self, packet: &P) -> &mut StreamCounts {
        self.queues.counts_mut(self.bucket(packet))
    }

    /// The policy of all, or the protocol's own, has changed, while so many packets are not handled.
    pub fn want(&mut self, all: Dispatch, outstanding: Outstanding) {
        self.wanted = self.own_dispatch.unwrap_or(all);
        if self.wanted != self.dispatch {
            self.begin_generation(outstanding);
        }
    }

    /// What is placed from now on may not overtake the `outstanding` packets that were placed before.
    pub fn begin_generation(&mut self, outstanding: Outstanding) {
        (self.phase, self.moves) = (Phase::Settling, None);
        self.settle(outstanding);
    }

    /// As [`Stream::begin_generation`], but for what `moves` alone. Two generations are told apart: who changes something before the last change is
    /// done with has all parked.
    pub fn begin_generation_of(&mut self, moves: Moves<P>, outstanding: Outstanding) {
        if self.phase != Phase::Steady {
            return self.begin_generation(outstanding);
        }
        self.generation ^= 1;
        assert!(outstanding.of(self.generation) == 0, "the generation before the last is handled");
        (self.phase, self.moves) = (Phase::Settling, Some(moves));
        self.settle(outstanding);
    }

    /// So many packets that were placed are not handled yet.
    pub fn settle(&mut self, outstanding: Outstanding) {
        if self.phase != Phase::Settling {
            return;
        }
        let before = match self.moves {
            Some(_) => outstanding.of(self.generation ^ 1),
            None => outstanding.all(),
        };
        if before == 0 {
            self.dispatch = self.wanted;
            self.phase = if self.parked.is_empty() { Phase::Steady } else { Phase::Placing };
        }
    }

    /// Whether a change waits for what was placed before it.
    pub fn is_changing(&self) -> bool {
        self.phase == Phase::Settling
    }

    /// Whether a packet that arrives is parked.
    pub fn parks(&self, packet: &P) -> bool {
        assert!(self.phase != Phase::Steady || self.parked.is_empty(), "nothing is parked without a change");
        self.phase != Phase::Steady && self.moves.as_ref().is_none_or(|moves| moves(packet))
    }

    pub fn park(&mut self, packet: P, facts: Facts) -> PacketStep<P> {
        if self.parked.len() >= self.limit {
            self.counts_of(&packet).drops += 1;
            return PacketStep::Dropped(packet);
        }
        self.parked.push_back((packet, facts));
        PacketStep::Parked
    }

    /// Whether a packet that was parked may be placed.
    pub fn may_unpark(&self) -> bool {
        self.phase == Phase::Placing
    }

    /// The next packet that was parked, if it may be placed.
    pub fn unpark(&mut self) -> Option<(P, Facts)> {
        if !self.may_unpark() {
            return None;
        }
        assert!(self.dispatch == self.wanted, "what was parked is placed by the policy for which it waited");
        let next = self.parked.pop_front();
        assert!(next.is_some(), "what is parked is placed until nothing is");
        if self.parked.is_empty() {
            self.phase = Phase::Steady;
        }
        next
    }

    /// Queues a packet that was placed here.
    pub fn queue(&mut self, packet: P, placed: Placed) -> PacketStep<P> {
        let (bucket, limit) = (self.bucket(&packet), self.limit);
        let counts = self.queues.counts_mut(bucket);
        if counts.length >= limit {
            counts.drops += 1;
            return PacketStep::Dropped(packet);
        }
        self.queues.push(bucket, packet, placed);
        PacketStep::Queued
    }

    /// The lane for a packet.
    pub fn choose(&self, packet: &P, facts: Facts, this: usize, lanes: usize) -> usize {
        assert!(this < lanes, "lane {this} of {lanes}");
        if lanes == 1 {
            return this;
        }
        let Registration { flow, choose, placement, .. } = &self.registration;
        let chosen = match placement {
            Placement::Source => None,
            Placement::Flow => facts.flow.or_else(|| flow.as_ref().and_then(|flow| flow(packet))).map(|flow| flow as usize),
            Placement::Lane => match choose.as_ref().and_then(|choose| choose(packet)) {
                None if self.dispatch == Dispatch::Hybrid => Some(this),
                chosen => chosen,
            },
        };
        chosen.unwrap_or(facts.source) % lanes
    }
}
