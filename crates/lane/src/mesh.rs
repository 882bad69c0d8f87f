//! The channels between one work of all lanes of a program: one in each direction for each pair.

use crate::channel::{Receiver, Sender, channel};
use crate::control::{Control, Counts};
use crate::fence::Fenced;
use crate::kit::Kit;
use corelane_watch::LaneCounter;
use std::sync::Arc;

/// A work's ends of its channels on one lane. `M` is what its works say to each other; a message lies in its channel and is
/// not allocated.
pub struct Mesh<M: Send> {
    to: Vec<Option<Sender<Fenced<M>>>>,
    from: Vec<Option<Receiver<Fenced<M>>>>,
    /// Lanes for which a message is queued and not visible yet.
    unpublished: Vec<usize>,
    counts: Counts,
}

impl<M: Send> Mesh<M> {
    /// The ends for each lane of `control`; each channel holds up to `capacity` messages.
    pub fn between(control: &Control, capacity: usize) -> Vec<Self> {
        let lanes = control.lanes();
        let empty = || Self {
            to: (0..lanes).map(|_| None).collect(),
            from: (0..lanes).map(|_| None).collect(),
            unpublished: Vec::with_capacity(lanes),
            counts: Counts::default(),
        };
        let mut meshes: Vec<Self> = (0..lanes).map(|_| empty()).collect();
        for from in 0..lanes {
            for to in (0..lanes).filter(|&to| to != from) {
                let bell: Arc<dyn corelane_seam::Bell> = control.bell(to).clone();
                let (sender, receiver) = channel(capacity, bell);
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
    pub fn send(&mut self, kit: &Kit, to: usize, message: M) -> Result<(), M> {
        let sent = self.queue(to, message);
        let counter = if sent.is_ok() { LaneCounter::MessagesSent } else { LaneCounter::MessagesRefused };
        kit.row.add(counter, 1);
        sent
    }

    fn queue(&mut self, to: usize, message: M) -> Result<(), M> {
        let Some(sender) = self.to.get_mut(to).and_then(Option::as_mut).filter(|sender| !sender.is_closed()) else {
            return Err(message);
        };
        sender.send(Fenced::new(message)).map_err(|full| full.value.into_inner())?;
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

    /// Whether there is any other lane.
    pub(crate) fn has_others(&self) -> bool {
        self.from.len() > 1
    }

    /// Whether a message is queued and not visible yet.
    pub(crate) fn has_unpublished(&self) -> bool {
        !self.unpublished.is_empty()
    }

    /// Makes all queued messages visible; returns how many bells were rung and how many lanes were awake anyway.
    pub(crate) fn publish(&mut self) -> (u64, u64) {
        let (mut rung, mut spared) = (0, 0);
        for to in self.unpublished.drain(..) {
            match self.to[to].as_mut().is_some_and(Sender::publish) {
                true => rung += 1,
                false => spared += 1,
            }
        }
        (rung, spared)
    }

    /// Takes up to `at_most` messages of each lane; returns how many.
    pub(crate) fn take(&mut self, at_most: usize, mut each: impl FnMut(usize, M)) -> usize {
        let mut taken = 0;
        for (from, receiver) in self.from.iter_mut().enumerate() {
            let Some(receiver) = receiver else { continue };
            taken += receiver.take(at_most, |message| each(from, message.into_inner()));
        }
        self.counts.taken += taken as u64;
        taken
    }

    /// What was sent and taken since the beginning.
    pub(crate) fn counts(&self) -> Counts {
        self.counts
    }

    /// Announces sleep to all lanes; true if no message is waiting.
    pub(crate) fn before_sleep(&mut self) -> bool {
        // All of them are told, so this must not stop at the first that has something.
        let busy = self.from.iter_mut().flatten().filter_map(|receiver| (!receiver.before_sleep()).then_some(()));
        busy.count() == 0
    }

    /// Takes the announcement back.
    pub(crate) fn awake(&mut self) {
        self.from.iter_mut().flatten().for_each(Receiver::awake);
    }
}
