//! The channels between one work of all lanes of a program: one in each direction for each pair.

use crate::channel::{Receiver, Sender, channel};
use crate::control::{Control, Counts};
use crate::fence::Fenced;
use crate::kit::Kit;
use crate::words::{Silence, Unheard};
use corelane_watch::LaneCounter;

/// A work's ends of its channels on one lane. `M` is what its works say to each other; a message lies in its channel and is
/// not allocated.
pub struct Mesh<M: Send> {
    to: Vec<Option<Sender<Fenced<M>>>>,
    from: Vec<Option<Receiver<Fenced<M>>>>,
    /// Lanes for which a message is queued and not visible yet.
    unpublished: Vec<usize>,
    /// Lanes in whose channels room is wanted.
    wanted: Vec<usize>,
    /// Whether each lane is known to have gone.
    parted: Vec<bool>,
    counts: Counts,
}

/// What a lane does with a mesh, whatever its works say to each other.
pub trait Channels {
    /// Whether there is any other lane.
    fn has_others(&self) -> bool;
    /// Whether a message is queued and not visible yet.
    fn has_unpublished(&self) -> bool;
    /// Makes all queued messages visible; returns how many bells were rung and how many lanes were awake anyway.
    fn publish(&mut self) -> (u64, u64);
    /// What was sent and taken since the beginning.
    fn counts(&self) -> Counts;
    /// Announces sleep to all lanes; true if no message waits, and no wanted room has come.
    fn before_sleep(&mut self) -> bool;
    /// Takes the announcement back.
    fn awake(&mut self);
}

impl<M: Send> Mesh<M> {
    /// The ends for each lane of `control`; each channel holds up to `capacity` messages.
    pub fn between(control: &Control, capacity: usize) -> Vec<Self> {
        let lanes = control.lanes();
        let empty = || Self {
            to: (0..lanes).map(|_| None).collect(),
            from: (0..lanes).map(|_| None).collect(),
            unpublished: Vec::with_capacity(lanes),
            wanted: Vec::with_capacity(lanes),
            parted: vec![false; lanes],
            counts: Counts::default(),
        };
        let mut meshes: Vec<Self> = (0..lanes).map(|_| empty()).collect();
        for from in 0..lanes {
            for to in (0..lanes).filter(|&to| to != from) {
                let (sender, receiver) = channel(capacity, control.bell(to).clone(), control.bell(from).clone());
                meshes[from].to[to] = Some(sender);
                meshes[to].from[from] = Some(receiver);
            }
        }
        meshes
    }

    /// Sends a message to the same work on another lane; it arrives in that lane's next turn.
    ///
    /// # Errors
    /// The message comes back, and is counted (`messages_refused`), if the channel is full, or there is no such other lane, or it
    /// has ended, or the work has left it.
    pub fn send(&mut self, kit: &Kit, to: usize, message: M) -> Result<(), Unheard<M>> {
        let sent = self.queue(to, message);
        let counter = if sent.is_ok() { LaneCounter::MessagesSent } else { LaneCounter::MessagesRefused };
        kit.row.add(counter, 1);
        sent
    }

    fn queue(&mut self, to: usize, message: M) -> Result<(), Unheard<M>> {
        let there = self.to.get_mut(to).and_then(Option::as_mut);
        let Some(sender) = there.filter(|sender| !(self.parted[to] || sender.is_closed())) else {
            return Err(Unheard { word: message, why: Silence::Gone });
        };
        // Uncounted: a counter in each message would be shared by lanes. Whoever ends takes what waits, and drops it where that is counted.
        let queued = sender.send(Fenced::new(message));
        queued.map_err(|full| Unheard { word: full.value.into_inner(), why: Silence::Full })?;
        assert!(!self.parted[to], "nothing is sent to who is known to have gone");
        self.counts.sent += 1;
        if !self.unpublished.contains(&to) {
            self.unpublished.push(to);
        }
        Ok(())
    }

    /// Whether that lane will never take a message again: it has ended, or the work has left it.
    pub(crate) fn is_closed(&self, to: usize) -> bool {
        self.to.get(to).and_then(Option::as_ref).is_none_or(Sender::is_closed)
    }

    /// Whether there is room for a message to lane `to`; always, if that lane has gone.
    pub fn find_room(&mut self, to: usize) -> bool {
        let there = self.to.get_mut(to).and_then(Option::as_mut);
        there.is_none_or(|sender| sender.find_room() || sender.is_closed())
    }

    /// From now on a lane that sleeps is woken when lane `lane` has room again, and [`Mesh::take_room`] names it.
    pub fn want_room(&mut self, lane: usize) {
        assert!(lane < self.to.len(), "room is wanted of a lane that there is");
        if !self.wanted.contains(&lane) {
            self.wanted.push(lane);
        }
    }

    /// A lane that has the room that was wanted, or has gone; each is named once.
    pub fn take_room(&mut self) -> Option<usize> {
        let place = (0..self.wanted.len()).find(|&place| self.find_room(self.wanted[place]))?;
        Some(self.wanted.swap_remove(place))
    }

    /// Takes up to `at_most` messages of each lane; returns how many. For a lane that has gone, `each` is called last with none.
    pub fn take(&mut self, at_most: usize, mut each: impl FnMut(usize, Option<M>)) -> usize {
        let mut taken = 0;
        for (from, receiver) in self.from.iter_mut().enumerate() {
            // A lane has no channel from itself.
            let Some(receiver) = receiver else { continue };
            taken += receiver.take(at_most, |message| each(from, Some(message.into_inner())));
            if !self.parted[from] && receiver.is_closed() {
                self.parted[from] = true;
                each(from, None);
            }
        }
        self.counts.taken += taken as u64;
        taken
    }
}

impl<M: Send> Channels for Mesh<M> {
    fn has_others(&self) -> bool {
        self.from.len() > 1
    }

    fn has_unpublished(&self) -> bool {
        !self.unpublished.is_empty()
    }

    fn publish(&mut self) -> (u64, u64) {
        let (mut rung, mut spared) = (0, 0);
        for to in self.unpublished.drain(..) {
            // reason: a message was queued there.
            let sender = self.to[to].as_mut().expect("what was queued has a channel");
            match sender.publish() {
                true => rung += 1,
                false => spared += 1,
            }
        }
        (rung, spared)
    }

    fn counts(&self) -> Counts {
        self.counts
    }

    fn before_sleep(&mut self) -> bool {
        assert!(self.unpublished.is_empty(), "a lane sleeps when all that it sent is visible");
        // All lanes must be told, so this does not stop at the first that has something.
        let busy = self.from.iter_mut().flatten().filter_map(|receiver| (!receiver.before_sleep()).then_some(()));
        let busy = busy.count();
        let Self { wanted, to, .. } = self;
        let room = wanted.iter().filter(|lane| to[**lane].as_mut().is_none_or(|sender| !sender.await_room()));
        busy + room.count() == 0
    }

    fn awake(&mut self) {
        self.from.iter_mut().flatten().for_each(Receiver::awake);
        self.to.iter_mut().flatten().for_each(Sender::awake);
    }
}
