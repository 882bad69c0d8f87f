//! The queues of a protocol on a lane: one, or one for each bucket.

use super::counts::StreamCounts;
use super::step::Placed;
use std::collections::VecDeque;

/// Buckets that have queues of their own at most, as many as a table has at most.
pub const BUCKETS_MAX: usize = 128;

/// Packets, with who placed each, and what was counted of them.
struct Queue<P> {
    packets: VecDeque<(P, Placed)>,
    counts: StreamCounts,
}

/// The queues. Which of them holds something is known without looking at each.
pub(super) struct Queues<P> {
    queues: Box<[Queue<P>]>,
    /// A bit for each queue that holds something.
    filled: u128,
    /// The queue behind the one that ran last: it is asked first, so that none waits for ever.
    first: u32,
}

impl<P> Queues<P> {
    pub fn new(queues: usize) -> Self {
        assert!(queues > 0 && queues <= BUCKETS_MAX, "{queues} queues of a protocol");
        let empty = |_| Queue { packets: VecDeque::new(), counts: StreamCounts::default() };
        Self { queues: (0..queues).map(empty).collect(), filled: 0, first: 0 }
    }

    /// How many there are.
    pub fn number(&self) -> usize {
        self.queues.len()
    }

    /// What was counted of each.
    pub fn counts(&self) -> impl Iterator<Item = &StreamCounts> {
        self.queues.iter().map(|queue| &queue.counts)
    }

    /// What is counted of one.
    pub fn counts_mut(&mut self, bucket: usize) -> &mut StreamCounts {
        &mut self.queues[bucket].counts
    }

    /// Puts a packet behind all of its queue.
    pub fn push(&mut self, bucket: usize, packet: P, placed: Placed) {
        let queue = &mut self.queues[bucket];
        queue.packets.push_back((packet, placed));
        queue.counts.queue();
        self.filled |= 1 << bucket;
        assert_eq!(queue.packets.len(), queue.counts.length, "what is queued is counted");
    }

    /// The first of a queue, which is to be run.
    pub fn pop(&mut self, bucket: usize) -> Option<(P, Placed)> {
        let queue = &mut self.queues[bucket];
        let first = queue.packets.pop_front()?;
        assert!(self.filled >> bucket & 1 == 1, "a queue that holds something is marked");
        queue.counts.run_queued();
        assert_eq!(queue.packets.len(), queue.counts.length, "what is queued is counted");
        if queue.packets.is_empty() {
            self.filled &= !(1 << bucket);
        }
        self.first = (bucket as u32 + 1) % u128::BITS;
        Some(first)
    }

    /// The next queue that holds something, and how much.
    pub fn next(&self) -> Option<(usize, usize)> {
        let ahead = self.filled.rotate_right(self.first);
        if ahead == 0 {
            return None;
        }
        let bucket = (ahead.trailing_zeros() + self.first) % u128::BITS;
        let length = self.queues[bucket as usize].counts.length;
        assert!(length > 0, "a queue that is marked holds something");
        Some((bucket as usize, length))
    }

    /// Who has placed what is queued.
    pub fn placed(&self) -> impl Iterator<Item = Placed> {
        self.queues.iter().flat_map(|queue| &queue.packets).map(|(_, placed)| *placed)
    }

    /// All that is queued, with who placed it.
    pub fn into_packets(self) -> impl Iterator<Item = (P, Placed)> {
        self.queues.into_iter().flat_map(|queue| queue.packets)
    }
}
