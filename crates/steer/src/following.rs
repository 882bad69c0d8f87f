//! Connections follow their buckets: after a change of the table each lane sends those of its idle ones that belong elsewhere to the lane that has their buckets now.
//!
//! ```text
//! table in force --> each lane is asked for what is another's --> idle ones go          (moves_away, moves_here)
//!                                                             \-> busy ones are asked again, some times, and stay (moves_refused)
//! ```

use crate::error::Error;
use crate::telling::Telling;
use corelane_rss::Table;
use corelane_svc::{Command, Error as ServiceError, Move, Peer, Stays};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Connections that go at once: fewer than the words that may wait for a lane ([`WORDS_MAX`](corelane_lane::WORDS_MAX)).
const AT_ONCE: usize = 256;
/// How often it is waited for connections that are busy, and for a lane that takes none, and how long each time.
const WAITS_FOR_BUSY_MAX: u32 = 16;
const WAITS_FOR_ROOM_MAX: u32 = 500;
const WAIT: Duration = Duration::from_millis(10);

/// The two ends of a connection.
type Ends = (SocketAddr, SocketAddr);

/// What is known of connections that belong to one lane, and were on others.
#[derive(Default)]
struct Asked {
    /// Each is asked once, unless it was busy: what cannot go now never can, and what has come back found no place.
    all: BTreeSet<Ends>,
    busy: BTreeSet<Ends>,
    /// Of this round: those that went, and whether there are more than can go at once.
    gone: usize,
    is_full: bool,
}

/// What is done after a round.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    Ends,
    Asks,
    /// Some are busy.
    WaitsForBusy,
    /// None could go, as many were on their way as may be.
    WaitsForRoom,
}

impl Asked {
    fn choose(&mut self, ends: Ends) -> bool {
        if self.all.contains(&ends) {
            return false;
        }
        if self.gone == AT_ONCE {
            self.is_full = true;
            return false;
        }
        self.gone += 1;
        self.all.insert(ends)
    }

    fn stays(&mut self, ends: Ends, why: Stays) {
        self.gone -= 1;
        self.is_full |= why.is_for_all();
        // For whom there was no room is asked behind others: it may be the only one that cannot go now.
        if why.is_for_all() || matches!(why, Stays::Busy | Stays::Waiting | Stays::Handshake) {
            self.busy.insert(ends);
        }
    }

    fn next(&mut self) -> Next {
        let next = match (self.is_full, self.gone, self.busy.is_empty()) {
            (false, _, true) => Next::Ends,
            (false, _, false) => Next::WaitsForBusy,
            (true, 0, _) => Next::WaitsForRoom,
            (true, _, _) => Next::Asks,
        };
        if next != Next::Asks {
            self.all.retain(|ends| !self.busy.contains(ends));
            self.busy.clear();
        }
        (self.gone, self.is_full) = (0, false);
        next
    }
}

/// Has idle connections of all `lanes` go to those of them in `to`, as far as they are theirs by the table. A lane that drains or has ended keeps what it has.
///
/// # Errors
/// [`Error::LaneSilent`].
pub(crate) fn follow(tell: &Telling, table: &Table, lanes: usize, to: impl Iterator<Item = usize>) -> Result<(), Error> {
    // Nobody speaks here, so to listen is to wait.
    let (_silent, nothing) = channel::<()>();
    for to in to {
        let others: Vec<usize> = (0..lanes).filter(|lane| *lane != to).collect();
        let (asked, mut for_busy, mut for_room) = (Arc::<Mutex<Asked>>::default(), 0, 0);
        loop {
            let ask = || Command::Move(wanted(&asked, to, table));
            tell.ask(&others, ask).into_iter().try_for_each(|answer| passed_over(answer.heard()))?;
            let next = lock(&asked).next();
            match next {
                Next::Ends => break,
                Next::Asks => for_room = 0,
                Next::WaitsForBusy => for_busy += 1,
                Next::WaitsForRoom => for_room += 1,
            }
            if for_busy > WAITS_FOR_BUSY_MAX || for_room > WAITS_FOR_ROOM_MAX {
                break;
            }
            if next != Next::Asks {
                let _ = nothing.recv_timeout(WAIT);
            }
        }
    }
    Ok(())
}

/// Those that belong to lane `to` by this table, and were not asked before.
fn wanted(asked: &Arc<Mutex<Asked>>, to: usize, table: &Table) -> Move {
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

fn lock(asked: &Mutex<Asked>) -> MutexGuard<'_, Asked> {
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
mod tests {
    use super::*;
    use corelane_seam::{Fault, Reason};

    fn ends(port: u16) -> Ends {
        (SocketAddr::from(([10, 0, 0, 1], port)), SocketAddr::from(([10, 0, 0, 2], 80)))
    }

    const FULL: Stays = Stays::System(Fault { reason: Reason::Busy, number: 0 });

    #[test]
    fn who_is_busy_is_asked_again_and_who_cannot_go_or_has_gone_is_not() {
        let mut asked = Asked::default();
        assert!((1..=3).all(|port| asked.choose(ends(port))) && !asked.choose(ends(3)));
        asked.stays(ends(1), Stays::Busy);
        asked.stays(ends(2), Stays::Service);
        assert_eq!(asked.next(), Next::WaitsForBusy);
        assert!(asked.choose(ends(1)) && !asked.choose(ends(2)) && !asked.choose(ends(3)), "the third came back");
        assert_eq!(asked.next(), Next::Ends, "it went");
    }

    #[test]
    fn while_there_is_no_room_nothing_is_waited_for_unless_none_went() {
        let mut asked = Asked::default();
        assert!(asked.choose(ends(1)) && asked.choose(ends(2)));
        asked.stays(ends(2), FULL);
        assert_eq!(asked.next(), Next::Asks);
        assert!(!asked.choose(ends(2)) && asked.choose(ends(3)), "others come first");
        asked.stays(ends(3), FULL);
        assert_eq!(asked.next(), Next::WaitsForRoom);
        assert!(asked.choose(ends(2)) && asked.choose(ends(3)));
        assert_eq!(asked.next(), Next::Ends);
    }

    #[test]
    fn so_many_go_at_once() {
        let mut asked = Asked::default();
        let chosen = |asked: &mut Asked| (0..1_000).filter(|port| asked.choose(ends(*port))).count();
        assert_eq!([(); 3].map(|()| (chosen(&mut asked), asked.next())), [(); 3].map(|()| (AT_ONCE, Next::Asks)));
        assert_eq!((chosen(&mut asked), asked.next()), (1_000 - 3 * AT_ONCE, Next::Ends));
    }
}
