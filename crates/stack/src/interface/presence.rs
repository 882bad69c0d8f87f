//! How a stack introduces its addresses to the link, and what it does where somebody else has one (RFC 5227; RFC 4862, section 5.4; RFC 4861, section 7.2.6).
//!
//! ```text
//! the interface comes up: probing --three questions, 0.1 s apart, nobody answers--> announced at once, and 2 s later --> here
//!                             |                                                                                          |
//!                             |                     its link address changes: announced at once, and 2 s later <---------'
//!                             '--somebody has it--> taken: asked for every 10 s --nobody answers--> probing
//! announced, here --somebody claims it--> announced again, once in 10 s at the most
//! ```
//!
//! **The address is served from the start**, whatever probing says: a fail-over does not wait. Only to announce it waits, 0.3 s and not the seconds of the RFCs, which are
//! for links slower than those that lanes are for: an announcement takes an address from its owner, and a probe does not. Where somebody has it, nothing is announced, and
//! who asks is answered all the same: a forged word ends no service, but who looks after the program is told.
//!
//! **Readiness waits for half a minute at the most**, counted from when the interface came up, however long somebody says that he has an address: nobody can prove that he
//! is who he says, and a stranger who answers each question must not keep the program from its work.
//!
//! One lane of a program does this for all.

use corelane_wire::packet::ethernet::Mac;
use std::net::IpAddr;

/// Questions before an address is announced (RFC 5227, section 1.1), and nanoseconds between them.
const PROBES: u8 = 3;
const PROBES_APART: u64 = 100_000_000;
/// Announcements, and nanoseconds between them (RFC 5227, section 1.1).
const ANNOUNCEMENTS: u8 = 2;
const ANNOUNCEMENTS_APART: u64 = 2_000_000_000;
/// Nanoseconds between two announcements against somebody who claims an address (RFC 5227, section 2.4 (b)), and until somebody is asked whether he has one still; and
/// for how long he may be silent then.
const DEFENDS_AGAIN: u64 = 10_000_000_000;
const ASKS_AGAIN: u64 = 10_000_000_000;
const SILENCE: u64 = 1_000_000_000;
/// Nanoseconds for which an address that somebody has keeps the program from being ready, from when the interface came up: who has it rightly is asked three times, and
/// who looks after the program sees that it does not become ready.
const READY_AFTER: u64 = 30_000_000_000;

/// How far the introduction of an address is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Nothing can be said, for nothing leaves.
    Silent,
    /// So many questions were asked.
    Probing(u8),
    /// So many announcements were made.
    Announcing(u8),
    Here,
    /// Somebody else had it first; whether he was heard since he was asked last.
    Taken(bool),
}

/// An address of ours.
#[derive(Clone, Copy, Debug)]
struct Own {
    address: IpAddr,
    phase: Phase,
    /// When something is to be said next.
    due: Option<u64>,
    /// When it was last announced against somebody, and the record of that.
    defended: Option<u64>,
}

/// What is to be said of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Say {
    /// Has somebody this address?
    Probe(IpAddr),
    /// It is ours.
    Announce(IpAddr),
}

/// What the operator is to hear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Conflict {
    /// Somebody had the address before us.
    Taken(IpAddr, Mac),
    /// Somebody claims an address that we have.
    Claimed(IpAddr, Mac),
    /// He who had it is gone.
    Over(IpAddr),
}

/// What the operator hears beside the state of the port.
pub(crate) enum PresenceNews {
    /// Somebody else has an address of ours.
    Conflict(String),
    /// The link carries no packets of the length that the addresses ask for.
    Short(String),
    /// Something has changed, and all goes on.
    Change(String),
}

/// All addresses of an interface.
#[derive(Debug)]
pub(crate) struct Presence {
    own: Vec<Own>,
    is_up: bool,
    /// Until when an address that somebody has keeps the program from being ready; none once that is over.
    unready_until: Option<u64>,
}

impl Presence {
    pub fn new(addresses: impl Iterator<Item = IpAddr>) -> Self {
        let own = addresses.map(|address| Own { address, phase: Phase::Silent, due: None, defended: None });
        Self { own: own.collect(), is_up: false, unready_until: None }
    }

    /// Notes whether packets can leave; true if that has just begun, and all are introduced.
    pub fn note(&mut self, now: u64, is_up: bool) -> bool {
        if std::mem::replace(&mut self.is_up, is_up) == is_up {
            return false;
        }
        let begun = if is_up { (Phase::Probing(0), Some(now)) } else { (Phase::Silent, None) };
        self.own.iter_mut().for_each(|own| (own.phase, own.due) = begun);
        self.unready_until = is_up.then(|| now.saturating_add(READY_AFTER));
        is_up
    }

    /// Our link address is another: whoever knows the former one hears of it, for addresses that nobody else has.
    pub fn announce(&mut self, now: u64) {
        let known = self.own.iter_mut().filter(|own| matches!(own.phase, Phase::Announcing(_) | Phase::Here));
        known.for_each(|own| (own.phase, own.due) = (Phase::Announcing(0), Some(now)));
    }

    /// How many addresses somebody else had before us.
    pub fn taken(&self) -> u64 {
        self.own.iter().filter(|own| matches!(own.phase, Phase::Taken(_))).count() as u64
    }

    /// How many of them keep the program from being ready.
    pub fn unready(&self) -> u64 {
        if self.unready_until.is_some() { self.taken() } else { 0 }
    }

    /// Whether the time has just come from which on none does.
    pub fn note_ready(&mut self, now: u64) -> bool {
        self.unready_until.take_if(|until| *until <= now).is_some()
    }

    /// When something is to be said, or to be noted.
    pub fn due(&self) -> Option<u64> {
        self.own.iter().filter_map(|own| own.due).chain(self.unready_until.filter(|_| self.taken() > 0)).min()
    }

    /// What is to be said now; and what the operator hears.
    pub fn next(&mut self, now: u64) -> Option<(Say, Option<Conflict>)> {
        let own = self.own.iter_mut().find(|own| own.due.is_some_and(|due| due <= now))?;
        let address = own.address;
        let (phase, due, say, told) = match own.phase {
            Phase::Probing(asked) if asked < PROBES => (Phase::Probing(asked + 1), Some(PROBES_APART), Say::Probe(address), None),
            Phase::Taken(true) => (Phase::Taken(false), Some(SILENCE), Say::Probe(address), None),
            Phase::Taken(false) => (Phase::Probing(1), Some(PROBES_APART), Say::Probe(address), Some(Conflict::Over(address))),
            Phase::Probing(_) => (Phase::Announcing(1), Some(ANNOUNCEMENTS_APART), Say::Announce(address), None),
            Phase::Announcing(made) if made + 1 < ANNOUNCEMENTS => {
                (Phase::Announcing(made + 1), Some(ANNOUNCEMENTS_APART), Say::Announce(address), None)
            }
            Phase::Announcing(_) => (Phase::Here, None, Say::Announce(address), None),
            Phase::Silent | Phase::Here => unreachable!("{own:?} has nothing to say"),
        };
        (own.phase, own.due) = (phase, due.map(|after| now + after));
        Some((say, told))
    }

    /// Somebody says that he has an address of ours: what is said against it, and what the operator hears.
    pub fn contest(&mut self, now: u64, address: IpAddr, mac: Mac) -> (Option<Say>, Option<Conflict>) {
        let Some(own) = self.own.iter_mut().find(|own| own.address == address) else { return (None, None) };
        match own.phase {
            Phase::Silent => (None, None),
            Phase::Taken(_) => {
                (own.phase, own.due) = (Phase::Taken(true), Some(now + ASKS_AGAIN));
                (None, None)
            }
            Phase::Probing(_) => {
                (own.phase, own.due) = (Phase::Taken(true), Some(now + ASKS_AGAIN));
                (None, Some(Conflict::Taken(address, mac)))
            }
            Phase::Announcing(_) | Phase::Here if own.defended.is_none_or(|at| now >= at.saturating_add(DEFENDS_AGAIN)) => {
                own.defended = Some(now);
                (Some(Say::Announce(address)), Some(Conflict::Claimed(address, mac)))
            }
            Phase::Here => {
                // The other must not have the last word: who has heard him hears us when it is time.
                let again = own.defended.map_or(now, |at| at + DEFENDS_AGAIN);
                (own.phase, own.due, own.defended) = (Phase::Announcing(ANNOUNCEMENTS - 1), Some(again), Some(again));
                (None, None)
            }
            Phase::Announcing(_) => (None, None),
        }
    }
}

impl Conflict {
    /// What the operator reads, of an interface.
    pub fn told(&self, interface: &str) -> PresenceNews {
        match self {
            Self::Taken(address, mac) => PresenceNews::Conflict(format!(
                "{address} is another's at {interface}: {mac} answers for it, so it is not announced, and asked for every 10 s: give one of the two another \
                 address, or end the other"
            )),
            Self::Claimed(address, mac) => PresenceNews::Conflict(format!(
                "{address} at {interface} is claimed by {mac} as well: it was announced again: give one of the two another address"
            )),
            Self::Over(address) => PresenceNews::Change(format!("{address} at {interface} is nobody else's any more")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OTHER: Mac = Mac([2, 0, 0, 0, 0, 66]);
    const SECOND: u64 = 1_000_000_000;

    fn ip() -> IpAddr {
        [10, 0, 0, 2].into()
    }

    fn up() -> Presence {
        let mut presence = Presence::new([ip()].into_iter());
        assert!(presence.note(0, true) && !presence.note(1, true));
        presence
    }

    /// All that is said until that time, with the time of each.
    fn said(presence: &mut Presence, until: u64) -> Vec<(u64, Say)> {
        let mut all = Vec::new();
        while let Some(now) = presence.due().filter(|due| *due <= until) {
            presence.note_ready(now);
            all.extend(presence.next(now).map(|(say, _)| (now, say)));
        }
        all
    }

    #[test]
    fn an_address_is_probed_three_times_and_announced_twice() {
        let mut presence = up();
        let tenth = SECOND / 10;
        let probes = (0..3).map(|number| (number * tenth, Say::Probe(ip())));
        let announcements = [3 * tenth, 3 * tenth + 2 * SECOND].map(|at| (at, Say::Announce(ip())));
        assert_eq!(said(&mut presence, 100 * SECOND), probes.chain(announcements).collect::<Vec<_>>());
        presence.announce(200 * SECOND);
        let again = [200 * SECOND, 202 * SECOND].map(|at| (at, Say::Announce(ip())));
        assert_eq!(said(&mut presence, 300 * SECOND), again, "a link address that changes is told");
        assert!(!presence.note(400 * SECOND, false) && presence.note(401 * SECOND, true));
        assert_eq!(said(&mut presence, 500 * SECOND).len(), 5, "an interface that comes up begins anew");
    }

    #[test]
    fn one_that_somebody_has_is_not_announced_until_he_is_gone() {
        let mut presence = up();
        said(&mut presence, SECOND / 10);
        let (say, told) = presence.contest(SECOND / 10 + 1, ip(), OTHER);
        assert_eq!((say, told, presence.taken()), (None, Some(Conflict::Taken(ip(), OTHER)), 1));
        for _ in 1..5 {
            let mut now = presence.due().unwrap();
            if presence.note_ready(now) {
                now = presence.due().unwrap();
            }
            assert_eq!(presence.next(now), Some((Say::Probe(ip()), None)));
            assert_eq!(presence.contest(now + SILENCE - 1, ip(), OTHER), (None, None), "told once");
        }
        presence.announce(50 * SECOND);
        let said = said(&mut presence, 100 * SECOND);
        assert_eq!(said.iter().filter(|(_, say)| matches!(say, Say::Announce(_))).count(), 2, "{said:?}");
        assert_eq!(presence.taken(), 0);
    }

    /// However he answers, and whether he is silent now and then: half a minute after the interface came up, the program is ready.
    #[test]
    fn who_answers_for_ever_keeps_the_program_from_being_ready_for_half_a_minute() {
        for silent in [0, 3] {
            let (mut presence, mut unready) = (up(), Vec::new());
            for second in 0..200 {
                let now = second * SECOND;
                presence.note_ready(now);
                said(&mut presence, now);
                if (second + 5) % 10 >= silent {
                    presence.contest(now, ip(), OTHER);
                }
                unready.extend(Some(second).filter(|_| presence.unready() > 0));
            }
            assert!(!unready.is_empty() && unready.iter().all(|second| *second < 30), "{unready:?}");
            assert_eq!(presence.taken(), 1, "he is told of all the same");
            // It begins anew with the interface.
            assert!(!presence.note(200 * SECOND, false) && presence.note(201 * SECOND, true));
            said(&mut presence, 201 * SECOND);
            presence.contest(201 * SECOND, ip(), OTHER);
            assert_eq!((presence.unready(), presence.due()), (1, Some(211 * SECOND)));
            assert!(
                !presence.note_ready(230 * SECOND) && presence.note_ready(231 * SECOND) && !presence.note_ready(232 * SECOND)
            );
        }
    }

    #[test]
    fn one_that_is_claimed_is_defended_once_in_ten_seconds() {
        let mut presence = up();
        said(&mut presence, 10 * SECOND);
        let mut announced = Vec::new();
        for now in (10 * SECOND..=60 * SECOND).step_by(SECOND as usize / 10) {
            announced.extend(said(&mut presence, now).into_iter().map(|(at, _)| at));
            announced.extend(presence.contest(now, ip(), OTHER).0.map(|_| now));
        }
        announced.extend(said(&mut presence, 200 * SECOND).into_iter().map(|(at, _)| at));
        let each_ten = (1..=7).map(|number| 10 * number * SECOND).collect::<Vec<_>>();
        assert_eq!((announced, presence.taken(), presence.due()), (each_ten, 0, None), "and the last word is ours");
        assert_eq!(presence.contest(300 * SECOND, [10, 0, 0, 3].into(), OTHER), (None, None), "another address");
    }
}
