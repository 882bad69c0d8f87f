//! Lines: the operations that wait at a socket, what they need of it, and how each is over.

use corelane_os::events::number;
use corelane_os::events::polling::Readiness;
use corelane_seam::slab::Key;
use std::os::fd::AsRawFd;

use super::operations::{Ending, Stage};
use super::origin::Origin;
use super::parts::State;
use crate::interest::{Source, Told};
use crate::operation::ReadyFor;
use crate::record::{Filter, Flags};

impl State {
    /// What those who stand first in an origin's lines wait for; who has a helper does not wait for the socket.
    pub(super) fn needed_by_lines(&self, origin: &Origin) -> Readiness {
        let Some(rest) = &origin.rest else { return Readiness::empty() };
        let waits = |way: ReadyFor| {
            let first = rest.lines[way as usize].front();
            first.is_some_and(|key| !matches!(self.operations.all[*key].stage, Stage::Helped(_)))
        };
        let needs = [(ReadyFor::In, Readiness::IN | Readiness::RDHUP), (ReadyFor::Out, Readiness::OUT)];
        needs.into_iter().filter(|(way, _)| waits(*way)).fold(Readiness::empty(), |all, (_, what)| all | what)
    }

    /// The operations of a socket that is gone are over, but for what a helper has: that is found out when it is done.
    pub(super) fn end_lines(&mut self, origin: Key) {
        let Some(rest) = &mut self.origins[origin].rest else { return };
        let lines = std::mem::take(&mut rest.lines);
        for key in lines.into_iter().flatten() {
            if !matches!(self.operations.all[key].stage, Stage::Helped(_)) {
                self.end_operation(key, Ending::of(number::ECANCELED));
            }
        }
    }

    /// The operation is over, and its end is to be told.
    pub(super) fn end_operation(&mut self, key: Key, ending: Ending) {
        let operation = &mut self.operations.all[key];
        assert!(!matches!(operation.stage, Stage::Ended(_)), "an operation ends once");
        let accepted = ending.accepted.as_ref().map(|accepted| i64::from(accepted.as_raw_fd()));
        let data = accepted.unwrap_or(i64::try_from(operation.done).unwrap_or(i64::MAX));
        let (ident, list, error) = (operation.ident, operation.list, ending.error);
        let flags = if error != 0 || ending.is_end { Flags::EOF } else { Flags::empty() };
        operation.stage = Stage::Ended(ending);
        self.tell_submitted(ident, Filter::Aio, Told { notes: error.unsigned_abs(), data, flags });
        if let Some(ident) = list {
            // reason: a list is there until the last of its operations is over.
            let list = self.operations.lists.get_mut(&ident).expect("an operation's list is there");
            list.left -= 1;
            list.failed += i64::from(error != 0);
            list.error = if list.error == 0 { error } else { list.error };
            self.end_list_if_done(ident);
        }
    }

    /// With the last of its operations a list is over.
    pub(super) fn end_list_if_done(&mut self, ident: u64) {
        if self.operations.lists.get(&ident).is_none_or(|list| list.left > 0) {
            return;
        }
        if let Some(list) = self.operations.lists.remove(&ident) {
            let flags = if list.failed > 0 { Flags::EOF } else { Flags::empty() };
            self.tell_submitted(ident, Filter::Lio, Told { notes: list.error.unsigned_abs(), data: list.failed, flags });
        }
    }

    fn tell_submitted(&mut self, ident: u64, filter: Filter, told: Told) {
        let key = self.keys[&(filter.number(), ident)];
        let interest = &mut self.interests[key];
        assert!(matches!(interest.source, Source::Submitted(None)), "an end is told once");
        interest.source = Source::Submitted(Some(told));
        if interest.is_heard() {
            self.ready.push(key.index);
        }
    }
}
