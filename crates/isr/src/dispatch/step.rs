//! What is to be done with a packet.

use super::protocol::Number;

/// What is known of a packet when it arrives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Its flow id, if somebody has computed it.
    pub flow: Option<u32>,
    /// Where it came from: index of the interface, and which queue of it.
    pub source: usize,
}

/// Who has placed a packet, and when: it is told ([`Isr::settled`](super::Isr::settled)) once the packet is handled, if that is on another lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    /// The lane.
    pub lane: usize,
    /// Its generation then: of those that follow each other, one is 0 and one is 1, and there are never more than these two.
    pub generation: u8,
}

impl Placed {
    /// How many generations are told apart.
    pub const GENERATIONS: usize = 2;
}

/// The right to run a packet's handler.
#[derive(Debug)]
pub struct Run<P> {
    /// The protocol whose handler runs.
    pub number: Number,
    /// The packet.
    pub packet: P,
    /// Who has placed it.
    pub placed: Placed,
    /// To be given to [`Isr::finished`](super::Isr::finished).
    pub mark: Mark,
}

/// That a handler runs; given back when it has.
#[derive(Debug)]
#[must_use = "a handler that never finishes keeps hybrid dispatch from running anything at once"]
pub struct Mark {
    pub(super) number: Number,
    pub(super) kind: RunKind,
    pub(super) placed: Placed,
}

/// Whether a handler runs at once, and by which policy, or from its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RunKind {
    Direct,
    Hybrid,
    Queued,
}

/// What is to be done.
#[derive(Debug)]
pub enum PacketStep<P> {
    /// Run the handler.
    Run(Run<P>),
    /// Nothing now: it is queued.
    Queued,
    /// Nothing now: it waits until what was placed before a change is handled.
    Parked,
    /// Send it to that lane.
    Elsewhere {
        /// Which.
        lane: usize,
        /// The packet's protocol.
        number: Number,
        /// The packet.
        packet: P,
        /// What it is to be admitted with.
        placed: Placed,
    },
    /// The queue is full.
    Dropped(P),
    /// No handler is registered.
    Unregistered(P),
    /// What was queued of the protocol, or of one of its buckets, has been run: its hook is due, if it has one
    /// ([`Registration::has_hook`](super::Registration::has_hook)).
    Drained(Number),
}
