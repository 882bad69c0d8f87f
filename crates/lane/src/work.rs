//! What a lane runs: its works, each with a place of its own on the lane.

use crate::control::Counts;
use crate::kit::Kit;
use crate::mesh::Channels;
use crate::settings::Budget;
use corelane_seam::{Completion, Driver, Handle};
use corelane_watch::LaneCounter;
use std::any::Any;

/// What a lane runs, beside others: sorts completions, serves, and leaves operations in the kit's outbox. It never sees the type of
/// the driver.
///
/// A panic in one of these calls ends this work on this lane and no other: it is dropped, its sockets close, and its operations
/// end unseen. The lane ends with the last of the works that it lives for ([`Work::keeps_lane`]).
pub trait Work: 'static {
    /// Its name, for reports.
    fn name(&self) -> &'static str;

    /// Whether the lane lives for it. A work that only looks after others, such as control, ends with the lane instead.
    fn keeps_lane(&self) -> bool {
        true
    }

    /// Calls `each` with the work's ends of the channels to itself on other lanes, if it has any; the same ones in each call. It may have several,
    /// for messages of different types.
    fn meshes(&mut self, _each: &mut dyn FnMut(&mut dyn Channels)) {}

    /// Notes one completion; [`Work::serve`] works off what it means for a service.
    fn complete(&mut self, kit: &mut Kit, completion: Completion);

    /// Works off what the completions brought: hands each connection's bytes to its service, once. Called in each turn.
    fn serve(&mut self, kit: &mut Kit);

    /// A timer started with `handle` has come. It may have been stopped earlier in this turn: a work that stops timers can tell by the generation.
    fn expired(&mut self, _kit: &mut Kit, _handle: Handle) {}

    /// Takes up to `at_most` messages of each other lane from each of its meshes, and acts on them; returns how many. Called in each
    /// turn.
    fn take_messages(&mut self, _kit: &mut Kit, _at_most: usize) -> usize {
        0
    }

    /// Somebody outside the lanes has said something to this work or to another ([`Tell::tell`](crate::Tell::tell)): the work empties
    /// its [`Ear`](crate::Ear)s.
    fn hear(&mut self, _kit: &mut Kit, _driver: &mut dyn Driver) {}

    /// Submits what this turn made: at most one send a connection.
    fn flush(&mut self, kit: &mut Kit);

    /// Looks at what only the driver knows, before the driver carries out what was submitted.
    fn look(&mut self, _driver: &dyn Driver) {}

    /// Whether there is something to do in the next turn without another completion.
    fn has_work(&self) -> bool;

    /// Whether the completions just handed over left something to [serve](Work::serve) or [flush](Work::flush) in this turn. If not, and nothing
    /// else is to be done, the turn ends at once; so a work that must be served in each turn for other reasons says so here.
    fn has_news(&self) -> bool {
        true
    }

    /// Whether it has ended, by itself or in a drain: then it leaves the lane.
    fn has_ended(&self) -> bool;

    /// Begins to drain.
    fn drain(&mut self, kit: &mut Kit, driver: &mut dyn Driver);

    /// In a drain: whether it has nothing left to do, except what other lanes may still ask for. From then on only their messages may change
    /// that, which are counted: lanes agree on their end by it, so what comes from outside must not.
    fn is_quiet(&self, _kit: &mut Kit) -> bool {
        !self.has_work()
    }

    /// In a drain: no lane has anything left to do, so none will ask any more. What was kept for that may end now.
    fn all_are_quiet(&mut self, _kit: &mut Kit) {}

    /// It leaves the lane, for any reason but a panic: it drops what users gave to it, behind the fence.
    fn end(&mut self, _kit: &mut Kit) {}
}

/// The works of one lane, in the order in which they have their turns.
#[derive(Default)]
pub struct Works(pub(crate) Vec<(Box<dyn Seated>, Option<Budget>)>);

impl Works {
    /// One work alone.
    pub fn of(work: impl Work) -> Self {
        Self::default().and(work)
    }

    /// One more, with the lane's own settings as its budget.
    pub fn and(mut self, work: impl Work) -> Self {
        self.0.push((Box::new(SeatedWork { work }), None));
        self
    }

    /// One more, with a budget of its own. A work that is alone on its lane gets everything all the same.
    pub fn and_within(mut self, budget: Budget, work: impl Work) -> Self {
        self.0.push((Box::new(SeatedWork { work }), Some(budget)));
        self
    }
}

/// What a work says about itself after a call.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Said {
    /// It has something to do in the next turn, whatever comes.
    pub(crate) more: bool,
    /// It has sent messages that are not visible yet.
    pub(crate) sent: bool,
    pub(crate) ended: bool,
    /// Messages that it took.
    pub(crate) taken: u32,
}

impl Said {
    /// What two works say together.
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            more: self.more || other.more,
            sent: self.sent || other.sent,
            ended: self.ended || other.ended,
            taken: self.taken + other.taken,
        }
    }
}

/// A work, its type erased: one call a phase of a turn, however much there is.
pub(crate) trait Seated {
    fn work(&self) -> &dyn Work;
    fn work_mut(&mut self) -> &mut dyn Work;
    fn any(&self) -> &dyn Any;
    /// Hands over the first `at_most` of `inbox`, and has it serve. Returns true without serving if nothing came of what was handed over, and it
    /// `may_skip` that.
    fn serve(&mut self, kit: &mut Kit, inbox: &mut Vec<Completion>, at_most: usize, may_skip: bool) -> bool;
    /// Hands over the first `at_most` of the timers in `due`, and as many messages of each lane, and flushes.
    fn finish(&mut self, kit: &mut Kit, driver: &dyn Driver, due: &mut Vec<Handle>, at_most: usize) -> Said;
}

/// Calls that a lane seldom makes, or only to works that have channels.
impl dyn Seated + '_ {
    pub(crate) fn hear(&mut self, kit: &mut Kit, driver: &mut dyn Driver) -> Said {
        self.work_mut().hear(kit, driver);
        self.work_mut().look(driver);
        said(self.work_mut(), 0)
    }

    pub(crate) fn drain(&mut self, kit: &mut Kit, driver: &mut dyn Driver) -> Said {
        self.work_mut().drain(kit, driver);
        self.work_mut().look(driver);
        said(self.work_mut(), 0)
    }

    pub(crate) fn all_are_quiet(&mut self, kit: &mut Kit) -> Said {
        self.work_mut().all_are_quiet(kit);
        said(self.work_mut(), 0)
    }

    /// Whether there are other lanes that it could hear from.
    pub(crate) fn talks(&mut self) -> bool {
        let mut any = false;
        self.work_mut().meshes(&mut |mesh| any |= mesh.has_others());
        any
    }

    pub(crate) fn counts(&mut self) -> Counts {
        let mut counts = Counts::default();
        self.work_mut().meshes(&mut |mesh| counts = counts.and(mesh.counts()));
        counts
    }

    pub(crate) fn publish(&mut self) -> (u64, u64) {
        let (mut rung, mut spared) = (0, 0);
        self.work_mut().meshes(&mut |mesh| {
            let (more, fewer) = mesh.publish();
            (rung, spared) = (rung + more, spared + fewer);
        });
        (rung, spared)
    }

    pub(crate) fn before_sleep(&mut self) -> bool {
        let mut quiet = true;
        // All of them are told.
        self.work_mut().meshes(&mut |mesh| quiet &= mesh.before_sleep());
        quiet
    }

    pub(crate) fn awake(&mut self) {
        self.work_mut().meshes(&mut |mesh| mesh.awake());
    }
}

fn said<W: Work + ?Sized>(work: &mut W, taken: u32) -> Said {
    Said { more: work.has_work(), ended: work.has_ended(), sent: has_unpublished(work), taken }
}

fn has_unpublished<W: Work + ?Sized>(work: &mut W) -> bool {
    let mut any = false;
    work.meshes(&mut |mesh| any |= mesh.has_unpublished());
    any
}

/// A work as the lane calls it.
struct SeatedWork<W: Work> {
    work: W,
}

impl<W: Work> SeatedWork<W> {
    fn take_messages(&mut self, kit: &mut Kit, at_most: usize) -> u32 {
        let taken = self.work.take_messages(kit, at_most);
        if taken > 0 {
            kit.row.add(LaneCounter::MessagesReceived, taken as u64);
        }
        taken as u32
    }
}

impl<W: Work> Seated for SeatedWork<W> {
    fn work(&self) -> &dyn Work {
        &self.work
    }

    fn work_mut(&mut self) -> &mut dyn Work {
        &mut self.work
    }

    fn any(&self) -> &dyn Any {
        &self.work
    }

    fn serve(&mut self, kit: &mut Kit, inbox: &mut Vec<Completion>, at_most: usize, may_skip: bool) -> bool {
        if !inbox.is_empty() {
            for completion in inbox.drain(..at_most.min(inbox.len())) {
                self.work.complete(kit, completion);
            }
            if may_skip && !has_unpublished(&mut self.work) && !self.work.has_news() && kit.is_at_rest() {
                return true;
            }
        }
        self.work.serve(kit);
        false
    }

    fn finish(&mut self, kit: &mut Kit, driver: &dyn Driver, due: &mut Vec<Handle>, at_most: usize) -> Said {
        if !due.is_empty() {
            for handle in due.drain(..at_most.min(due.len())) {
                self.work.expired(kit, handle);
            }
        }
        let taken = self.take_messages(kit, at_most);
        self.work.flush(kit);
        self.work.look(driver);
        said(&mut self.work, taken)
    }
}
