//! What processes do: forks and programs, and children that are followed.

use corelane_os::events::connector::Deed;
use corelane_seam::slab::Key;

use super::parts::State;
use crate::interest::Source;
use crate::record::{Change, Filter, Flags, notes};

impl State {
    /// Hears of what processes have done.
    pub(super) fn hear_processes(&mut self) {
        let mut deeds = Vec::new();
        let Some(processes) = &self.heard_processes else { return };
        let dropped = processes.read(|deed| deeds.push(deed));
        for deed in deeds {
            match deed {
                Deed::Fork { parent, child } => self.forked(parent, child),
                Deed::Exec(process) => self.note_process(process, notes::EXEC),
                Deed::Exit { process, status } => self.exited(process, status),
            }
        }
        if dropped {
            let all: Vec<u32> = self.processes.keys().copied().collect();
            all.into_iter().for_each(|process| self.note_process(process, notes::TRACKERR));
        }
    }

    fn process_interest(&self, process: u32) -> Option<Key> {
        let origin = self.processes.get(&process)?;
        self.origins[*origin].interests.get(Filter::Process)
    }

    /// A process has done what `note` says, if somebody asks for that.
    fn note_process(&mut self, process: u32, note: u32) {
        let Some(key) = self.process_interest(process) else { return };
        let interest = &mut self.interests[key];
        let asked = interest.notes | if interest.notes & notes::TRACK != 0 { notes::TRACKERR } else { 0 };
        if let Source::Process { came, .. } = &mut interest.source
            && note & asked != 0
        {
            *came |= note & asked;
            if interest.is_heard() {
                self.ready.push(key.index);
            }
        }
    }

    /// A process has a child, which is followed if that was asked for.
    fn forked(&mut self, parent: u32, child: u32) {
        self.note_process(parent, notes::FORK);
        let Some(key) = self.process_interest(parent) else { return };
        let interest = &self.interests[key];
        if interest.notes & notes::TRACK == 0 || self.process_interest(child).is_some() {
            return;
        }
        let change = Change {
            flags: (interest.flags & !Flags::EOF) | Flags::ADD,
            notes: interest.notes,
            data: interest.data,
            cookie: interest.cookie,
            ext: interest.ext,
            ..Change::add(u64::from(child), Filter::Process)
        };
        match self.change(&change) {
            Ok(()) => self.follow_child(child, parent),
            // It may be gone by now, or there are too many.
            Err(_) => self.note_process(parent, notes::TRACKERR),
        }
    }

    /// A child is followed: that is told, with its parent.
    fn follow_child(&mut self, child: u32, parent: u32) {
        // reason: it was registered just now.
        let key = self.process_interest(child).expect("the child is followed");
        let interest = &mut self.interests[key];
        if let Source::Process { came, parent: known, .. } = &mut interest.source {
            *came |= notes::CHILD;
            *known = parent;
        }
        if interest.is_heard() {
            self.ready.push(key.index);
        }
    }

    /// A process has ended. If nobody asks for that it is followed no more.
    fn exited(&mut self, process: u32, with: i32) {
        let Some(key) = self.process_interest(process) else { return };
        let interest = &mut self.interests[key];
        if interest.notes & notes::EXIT != 0 {
            if let Source::Process { status, .. } = &mut interest.source {
                *status = Some(with);
            }
            // The kernel makes a process's descriptor readable before it tells this.
            if interest.is_heard() {
                self.ready.push(key.index);
            }
            return;
        }
        if interest.is_pending() {
            interest.flags |= Flags::ONESHOT;
        } else {
            self.drop_interest(key);
        }
    }
}
