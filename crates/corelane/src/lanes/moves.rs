//! Idle connections that move from lane to lane while they serve.

use crate::error::Error;
use corelane_lane::Tell;
use corelane_svc::{Command, Error as ServiceError, Move, Peer, Stays, Steer};
use std::sync::mpsc::channel;

/// Moves idle connections between lanes, from any thread but a lane's own. Clones do the same.
#[derive(Clone)]
pub struct Moves {
    tell: Tell<Steer>,
}

impl Moves {
    pub(crate) fn new(tell: Tell<Steer>) -> Self {
        Self { tell }
    }

    /// Has lane `from` send those of its idle connections to lane `to` that `choose` wants, and waits until it has; their sessions go along, and so do their transforms. The peers notice nothing.
    /// `stays` is told of each that was chosen and stays, and why: one that is `Busy` may go later. Eight are on their way at once: `stays` hears of the ninth ([`Stays::is_for_all`]), and no more
    /// are asked. A connection that lane `to` refuses, at a bound of connections,
    /// comes back. The page counts all of this (`moves_away`, `moves_here`, `moves_refused`, `moves_lost`).
    ///
    /// Both are called on the lane, and hold up what it serves.
    ///
    /// # Errors
    /// [`Error::Service`] if the lane drains or has ended, or there is no other lane of that number.
    pub fn idle(
        &self,
        (from, to): (usize, usize),
        choose: impl FnMut(&Peer) -> bool + Send + 'static,
        stays: impl FnMut(&Peer, Stays) + Send + 'static,
    ) -> Result<(), Error> {
        let (told, outcome) = channel();
        let command = Command::Move(Move { to, choose: Box::new(choose), stays: Box::new(stays) });
        // Nobody may wait for it any more.
        let reply = Box::new(move |outcome| drop(told.send(outcome)));
        let gone = || Error::Service(ServiceError::NoSuchLane { lane: from });
        self.tell.tell(from, Steer { command, reply }).map_err(|_| gone())?;
        // A lane that ends drops the word, and with it who answers.
        outcome.recv().map_err(|_| gone())?.map_err(Error::Service)
    }
}
