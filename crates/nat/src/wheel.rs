//! When sessions are looked at again: lists of them, one a second.
//!
//! A packet moves no session in these lists. When its second comes, a session that was used since is put into a later list. So each is looked at once in its timeout.

use crate::session::{NONE, Session};
use crate::settings::TIMEOUT_MAX;

/// Seconds in a round.
const ROUND: u32 = 8192;

/// The lists.
#[derive(Clone, Debug)]
pub(crate) struct Wheel {
    firsts: Vec<u32>,
    /// The second whose list is looked at next.
    at: u32,
}

impl Wheel {
    pub fn new() -> Self {
        const { assert!(TIMEOUT_MAX + 1 < ROUND) };
        Self { firsts: vec![NONE; ROUND as usize], at: 0 }
    }

    /// Whether something may be due.
    pub const fn is_due(&self, now: u32) -> bool {
        self.at <= now
    }

    /// Nothing is in any list: those of seconds that have passed need no look.
    pub fn skip_to(&mut self, now: u32) {
        self.at = self.at.max(now);
    }

    /// The first session of the list that is due, taken out of it; `None` after a step to the next second.
    pub fn next_due(&mut self, sessions: &mut [Session]) -> Option<u32> {
        let first = self.firsts[(self.at % ROUND) as usize];
        if first == NONE {
            self.at += 1;
            return None;
        }
        self.remove(sessions, first);
        Some(first)
    }

    /// A session is to be looked at in that second, or earlier, if that is more than a round ahead.
    pub fn insert(&mut self, sessions: &mut [Session], number: u32, due: u32) {
        let due = due.clamp(self.at, self.at + ROUND - 1);
        let next = std::mem::replace(&mut self.firsts[(due % ROUND) as usize], number);
        if next != NONE {
            sessions[next as usize].before = number;
        }
        let session = &mut sessions[number as usize];
        (session.due, session.next, session.before) = (due, next, NONE);
    }

    /// Takes a session out of its list.
    pub fn remove(&mut self, sessions: &mut [Session], number: u32) {
        let Session { due, next, before, .. } = sessions[number as usize];
        match before {
            NONE => {
                assert!(self.firsts[(due % ROUND) as usize] == number, "a session is in the list of its second");
                self.firsts[(due % ROUND) as usize] = next;
            }
            before => sessions[before as usize].next = next,
        }
        if next != NONE {
            sessions[next as usize].before = before;
        }
    }
}
