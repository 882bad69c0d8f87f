//! Interests that are registered anew, each with what there is to tell of it already.

use corelane_os::events::number;

use super::changing::MISSING;
use super::parts::State;
use super::timers::Timers;
use crate::record::{Change, Event, Manner};
use crate::refused::{REPLACED, Refused};

const KNOWN: Refused = Refused::new(number::EEXIST, "this is registered: the caller modifies it, or removes it first");

impl State {
    /// Registers what is not registered yet, in a manner of its own. The event, if it is ready by now and that is to be told at once.
    pub fn introduce(&mut self, change: &Change, manner: Manner) -> Result<Option<Event>, Refused> {
        if self.find(change)?.is_some() {
            return Err(KNOWN);
        }
        self.add_in(change, manner)
    }

    /// Replaces what is registered.
    pub fn modify(&mut self, change: &Change, manner: Manner) -> Result<Option<Event>, Refused> {
        let key = self.find(change)?.ok_or(MISSING)?;
        self.check_not_submitted(key)?;
        self.drop_interest(key);
        self.add_in(change, manner)
    }

    fn add_in(&mut self, change: &Change, manner: Manner) -> Result<Option<Event>, Refused> {
        let entered = match self.add(change, manner) {
            Err(REPLACED) => self.add(change, manner),
            entered => entered,
        };
        let told = entered.map(|key| if manner.contains(Manner::QUEUED) { None } else { self.tell_new(key) });
        self.timers.iter_mut().for_each(Timers::settle);
        self.settle_bell();
        told
    }
}
