//! The channels between all lanes of a program: one in each direction for each pair.

use crate::channel::{Receiver, Sender, channel};
use crate::control::{Control, Counts};
use crate::fence::Fenced;
use std::any::Any;
use std::sync::Arc;

/// What one lane sends to another: a number that says what it is for, and a value.
pub struct Message {
    /// Which service it is for: the index in the order in which services were added.
    pub service: u16,
    /// What the service wants to say.
    pub value: Box<dyn Any + Send>,
}

/// A lane's ends of its channels.
pub struct Mesh {
    to: Vec<Option<Sender<Fenced<Message>>>>,
    from: Vec<Option<Receiver<Fenced<Message>>>>,
    /// Lanes for which a message is queued and not visible yet.
    unpublished: Vec<usize>,
    counts: Counts,
}

impl Mesh {
    /// The ends for each lane of `control`; each channel holds up to `capacity` messages.
    pub fn between(control: &Control, capacity: usize) -> Vec<Mesh> {
        let lanes = control.lanes();
        let empty = || Mesh {
            to: (0..lanes).map(|_| None).collect(),
            from: (0..lanes).map(|_| None).collect(),
            unpublished: Vec::new(),
            counts: Counts::default(),
        };
        let mut meshes: Vec<Mesh> = (0..lanes).map(|_| empty()).collect();
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

    /// Queues a message for lane `to`; it becomes visible with [`Mesh::publish`].
    ///
    /// # Errors
    /// The message comes back if the channel is full, or there is no such other lane, or it has ended.
    pub fn send(&mut self, to: usize, message: Message) -> Result<(), Message> {
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

    /// Makes all queued messages visible; answers how many bells were rung and how many lanes were awake anyway.
    pub fn publish(&mut self) -> (u64, u64) {
        let (mut rung, mut spared) = (0, 0);
        for to in self.unpublished.drain(..) {
            match self.to[to].as_mut().is_some_and(Sender::publish) {
                true => rung += 1,
                false => spared += 1,
            }
        }
        (rung, spared)
    }

    /// Takes up to `at_most` messages of each lane; answers how many.
    pub fn take(&mut self, at_most: usize, mut each: impl FnMut(usize, Message)) -> usize {
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
    pub fn before_sleep(&mut self) -> bool {
        // All of them are told, so this must not stop at the first that has something.
        let busy = self.from.iter_mut().flatten().filter_map(|receiver| (!receiver.before_sleep()).then_some(()));
        busy.count() == 0
    }

    /// Takes the announcement back.
    pub fn awake(&mut self) {
        self.from.iter_mut().flatten().for_each(Receiver::awake);
    }
}
