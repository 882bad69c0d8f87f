//! Connections follow their buckets: after a change of the table each lane sends those of its idle ones that belong elsewhere to the lane that has their buckets now.
//!
//! ```text
//! table in force --> each lane is asked for what is another's --> idle ones go          (moves_away, moves_here)
//!                                                             |-> busy ones are asked again, some times, and stay (moves_refused)
//!                                                             \-> for whom there is no room yet are asked again when there is
//! ```

use crate::error::Error;
use crate::telling::{Telling, wait};
use corelane_rss::Table;
use corelane_svc::{Command, Error as ServiceError, Move, Peer, Stays};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How often it is waited for connections that are busy, and how long each time.
const WAITS_FOR_BUSY_MAX: u32 = 16;
const WAIT_FOR_BUSY: Duration = Duration::from_millis(10);
/// How long it is waited for room, from the first time to the longest, and in all: a lane that takes none does not turn, and is asked ever more rarely.
const WAIT_FOR_ROOM: Duration = Duration::from_millis(1);
const WAIT_FOR_ROOM_MAX: Duration = Duration::from_millis(64);
const WAITS_FOR_ROOM_MAX: Duration = Duration::from_secs(20);

/// The two ends of a connection.
type Ends = (SocketAddr, SocketAddr);

/// What is known of connections that were on other lanes than their buckets'.
#[derive(Default)]
struct Strays {
    /// Each is asked once, unless it was busy: what cannot go now never can, and what has come back found no place.
    all: BTreeSet<Ends>,
    busy: BTreeSet<Ends>,
    /// Of this round: those that went, and whether as many were on their way as may be.
    gone: usize,
    is_full: bool,
}

/// What is done after a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Ends,
    Asks,
    /// Some are busy.
    WaitsForBusy,
    /// None could go, as many were on their way as may be.
    WaitsForRoom,
}

impl Strays {
    fn choose(&mut self, ends: Ends) -> bool {
        let is_chosen = !self.is_full && self.all.insert(ends);
        self.gone += usize::from(is_chosen);
        is_chosen
    }

    fn stays(&mut self, ends: Ends, why: Stays) {
        assert!(self.gone > 0 && self.all.contains(&ends), "what stays was chosen");
        self.gone -= 1;
        if why.is_for_all() {
            // It has no part in that: it is asked as if it had not been.
            self.all.remove(&ends);
            self.is_full = true;
        } else if matches!(why, Stays::Busy | Stays::Waiting | Stays::Handshake) {
            self.busy.insert(ends);
        }
    }

    fn next(&mut self) -> Next {
        let next = match (self.is_full, self.gone) {
            (true, 0) => Next::WaitsForRoom,
            (true, _) => Next::Asks,
            (false, _) if self.busy.is_empty() => Next::Ends,
            (false, _) => Next::WaitsForBusy,
        };
        if next == Next::WaitsForBusy {
            let busy = std::mem::take(&mut self.busy);
            self.all.retain(|ends| !busy.contains(ends));
        }
        (self.gone, self.is_full) = (0, false);
        next
    }
}

/// What was waited for so far.
struct Waits {
    busy: u32,
    room: Duration,
    next_for_room: Duration,
}

impl Waits {
    const NONE: Self = Self { busy: 0, room: Duration::ZERO, next_for_room: WAIT_FOR_ROOM };

    /// How long is waited before the next round; none if there is no other.
    fn before(&mut self, next: Next) -> Option<Duration> {
        match next {
            Next::Ends => None,
            Next::Asks => {
                self.next_for_room = WAIT_FOR_ROOM;
                Some(Duration::ZERO)
            }
            Next::WaitsForBusy => {
                self.busy += 1;
                (self.busy <= WAITS_FOR_BUSY_MAX).then_some(WAIT_FOR_BUSY)
            }
            Next::WaitsForRoom => {
                let time = self.next_for_room;
                self.next_for_room = (time * 2).min(WAIT_FOR_ROOM_MAX);
                self.room += time;
                (self.room <= WAITS_FOR_ROOM_MAX).then_some(time)
            }
        }
    }
}

/// Has idle connections of all `lanes` go to those of them in `to`, as far as they are theirs by the table. A lane that drains or has ended keeps what it has.
///
/// # Errors
/// [`Error::LaneSilent`].
pub(crate) fn follow(tell: &Telling, table: &Table, lanes: usize, to: &[usize]) -> Result<(), Error> {
    let asked = Arc::default();
    let round = || {
        let answers: Vec<_> = orders(&asked, table, lanes, to).map(|(lane, order)| tell.ask(lane, order)).collect();
        answers.into_iter().try_for_each(|answer| passed_over(answer.heard()))
    };
    rounds(&asked, round, wait)
}

/// Rounds until all have gone that can.
fn rounds(
    asked: &Mutex<Strays>,
    mut round: impl FnMut() -> Result<(), Error>,
    mut wait: impl FnMut(Duration),
) -> Result<(), Error> {
    let mut waits = Waits::NONE;
    loop {
        round()?;
        let next = lock(asked).next();
        match waits.before(next) {
            None => return Ok(()),
            Some(Duration::ZERO) => {}
            Some(time) => wait(time),
        }
    }
}

/// What each lane is told in a round.
fn orders(asked: &Arc<Mutex<Strays>>, table: &Table, lanes: usize, to: &[usize]) -> impl Iterator<Item = (usize, Command)> {
    let pairs = to.iter().flat_map(move |&to| (0..lanes).filter(move |lane| *lane != to).map(move |lane| (lane, to)));
    pairs.map(|(lane, to)| (lane, Command::Move(wanted(asked, to, table))))
}

/// Those that belong to lane `to` by this table, and were not asked before.
fn wanted(asked: &Arc<Mutex<Strays>>, to: usize, table: &Table) -> Move {
    let (table, chosen, stayed) = (table.clone(), asked.clone(), asked.clone());
    let choose = move |peer: &Peer| {
        let theirs = peer.flow.filter(|flow| table.lane(flow.bucket) == to).and_then(|_| ends(peer));
        theirs.is_some_and(|ends| lock(&chosen).choose(ends))
    };
    let stays = move |peer: &Peer, why: Stays| {
        // reason: none else was chosen.
        lock(&stayed).stays(ends(peer).expect("what has a flow has two ends"), why);
    };
    Move { to, choose: Box::new(choose), stays: Box::new(stays) }
}

fn ends(peer: &Peer) -> Option<Ends> {
    Some((peer.address.inet()?, peer.local.inet()?))
}

fn lock(asked: &Mutex<Strays>) -> MutexGuard<'_, Strays> {
    // What a panic left behind is whole enough: it ends the lane.
    asked.lock().unwrap_or_else(PoisonError::into_inner)
}

fn passed_over(answer: Result<(), Error>) -> Result<(), Error> {
    match answer {
        Err(Error::LaneEnded { .. } | Error::Lane { error: ServiceError::Draining, .. }) => Ok(()),
        answer => answer,
    }
}

#[cfg(test)]
mod simulated;

#[cfg(test)]
mod tests {
    use super::*;
    use corelane_seam::{Fault, Reason};

    fn ends(port: u16) -> Ends {
        (SocketAddr::from(([10, 0, 0, 1], port)), SocketAddr::from(([10, 0, 0, 2], 80)))
    }

    const FULL: Stays = Stays::System(Fault { reason: Reason::Busy, number: 0 });

    #[test]
    fn who_is_busy_is_asked_again_and_who_cannot_go_or_has_gone_is_not() {
        let mut asked = Strays::default();
        assert!((1..=3).all(|port| asked.choose(ends(port))) && !asked.choose(ends(3)));
        asked.stays(ends(1), Stays::Busy);
        asked.stays(ends(2), Stays::Service);
        assert_eq!(asked.next(), Next::WaitsForBusy);
        assert!(asked.choose(ends(1)) && !asked.choose(ends(2)) && !asked.choose(ends(3)), "the third came back");
        assert_eq!(asked.next(), Next::Ends, "it went");
    }

    #[test]
    fn who_finds_no_room_is_asked_again_at_once_if_others_went() {
        let mut asked = Strays::default();
        assert!((1..=3).all(|port| asked.choose(ends(port))));
        asked.stays(ends(2), Stays::Busy);
        asked.stays(ends(3), FULL);
        assert!(!asked.choose(ends(4)), "there is room for none");
        assert_eq!(asked.next(), Next::Asks);
        assert!(!asked.choose(ends(2)) && asked.choose(ends(3)), "who is busy is waited for first");
        asked.stays(ends(3), FULL);
        assert_eq!(asked.next(), Next::WaitsForRoom);
        assert!(asked.choose(ends(3)) && asked.choose(ends(4)) && !asked.choose(ends(2)));
        assert_eq!((asked.next(), asked.choose(ends(2)), asked.next()), (Next::WaitsForBusy, true, Next::Ends));
    }

    #[test]
    fn it_is_waited_some_times_and_so_long_in_all() {
        let mut waits = Waits::NONE;
        let busy = std::iter::from_fn(|| waits.before(Next::WaitsForBusy)).collect::<Vec<_>>();
        assert_eq!(busy, [WAIT_FOR_BUSY; WAITS_FOR_BUSY_MAX as usize]);
        let first = [(); 3].map(|()| waits.before(Next::WaitsForRoom).unwrap());
        assert_eq!(first, [1, 2, 4].map(Duration::from_millis));
        assert_eq!(waits.before(Next::Asks), Some(Duration::ZERO));
        let then = std::iter::from_fn(|| waits.before(Next::WaitsForRoom)).collect::<Vec<_>>();
        assert_eq!((then[0], *then.last().unwrap()), (WAIT_FOR_ROOM, WAIT_FOR_ROOM_MAX), "as soon as one went it begins anew");
        let all: Duration = first.iter().chain(&then).sum();
        assert!(all <= WAITS_FOR_ROOM_MAX && all + WAIT_FOR_ROOM_MAX > WAITS_FOR_ROOM_MAX, "{all:?}");
    }

    #[test]
    fn a_lane_that_drains_or_has_ended_is_passed_over_and_one_that_is_silent_is_named() {
        let draining = Error::Lane { lane: 1, error: ServiceError::Draining };
        assert_eq!(passed_over(Err(draining)).and(passed_over(Err(Error::LaneEnded { lane: 1 }))), Ok(()));
        assert_eq!(passed_over(Err(Error::LaneSilent { lane: 1 })), Err(Error::LaneSilent { lane: 1 }));
        let other = Error::Lane { lane: 1, error: ServiceError::NoSuchLane { lane: 1 } };
        assert_eq!(passed_over(Err(other.clone())), Err(other));
    }
}
