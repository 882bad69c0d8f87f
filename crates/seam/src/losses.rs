//! A port around a port that looks now and then what was lost at it, and what its interface is by now.

use crate::error::Fault;
use crate::frame::{Frame, FrameMemory};
use crate::learnt::Offload;
use crate::port::{Lost, Port, PortFacts, PortState, Taken, Worked};
use std::cell::Cell;
use std::os::fd::BorrowedFd;
use std::rc::Rc;

/// Nanoseconds between something that came or left and the look, so that there are ten a second at most, and none while nothing happens.
pub const LOOK_AFTER: u64 = 100_000_000;

/// A port's news beside its frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortNews {
    /// The losses, as of the last look.
    pub lost: Lost,
    /// Its facts: the interface's address and its longest packet may change.
    pub facts: PortFacts,
    /// The interface's state.
    pub state: PortState,
    /// How long it worked.
    pub worked: Worked,
}

/// Looks what was lost, soon after something came or left; and what the interface is, whenever the driver attends to it.
#[derive(Debug)]
pub struct LossPort {
    inner: Box<dyn Port>,
    news: Rc<Cell<PortNews>>,
    /// When it looks next.
    look_at: Option<u64>,
}

impl LossPort {
    /// Around `inner`; what it tells is read from the second value, on the same lane.
    pub fn new(inner: Box<dyn Port>) -> (Self, Rc<Cell<PortNews>>) {
        let (lost, facts, state) = (Lost::default(), inner.facts(), inner.state());
        let news = Rc::new(Cell::new(PortNews { lost, facts, state, worked: Worked::default() }));
        (Self { inner, news: news.clone(), look_at: None }, news)
    }

    /// Notes what the interface is.
    fn see(&self) {
        let (facts, state) = (self.inner.facts(), self.inner.state());
        self.news.set(PortNews { facts, state, ..self.news.get() });
    }

    /// Notes how long it has worked, if that is more than before.
    fn note_work(&self) {
        let (news, worked) = (self.news.get(), self.inner.worked());
        if worked != news.worked {
            self.news.set(PortNews { worked, ..news });
        }
    }

    fn look(&mut self) {
        let (before, lost) = (self.news.get().lost, self.inner.lost());
        let has_less = [
            lost.no_frame < before.no_frame,
            lost.ring_full < before.ring_full,
            lost.too_long < before.too_long,
            lost.send_lost < before.send_lost,
        ];
        assert!(!has_less.contains(&true), "{lost:?} after {before:?}: what was lost stays lost");
        self.news.set(PortNews { lost, ..self.news.get() });
    }
}

impl Port for LossPort {
    fn facts(&self) -> PortFacts {
        self.inner.facts()
    }

    fn memory(&self) -> &FrameMemory {
        self.inner.memory()
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.inner.descriptor()
    }

    fn news(&self) -> Option<BorrowedFd<'_>> {
        self.inner.news()
    }

    fn take_news(&mut self) {
        self.inner.take_news();
    }

    fn state(&self) -> PortState {
        self.inner.state()
    }

    fn offload(&self) -> Option<Rc<dyn Offload>> {
        self.inner.offload()
    }

    fn has_more(&self) -> bool {
        self.inner.has_more()
    }

    fn wakes_at(&self) -> Option<u64> {
        self.inner.wakes_at().into_iter().chain(self.look_at).min()
    }

    fn receive(&mut self, now: u64, at_most: usize, into: &mut Vec<Frame>) -> Result<(), Fault> {
        let before = into.len();
        let result = self.inner.receive(now, at_most, into);
        if into.len() > before {
            self.look_at.get_or_insert(now + LOOK_AFTER);
        }
        self.note_work();
        result
    }

    fn send(&mut self, now: u64, frames: &mut Vec<Frame>) -> Result<Taken, Fault> {
        self.look_at.get_or_insert(now + LOOK_AFTER);
        let result = self.inner.send(now, frames);
        self.note_work();
        result
    }

    /// Drivers ask for this whenever they attend to the port.
    fn released(&mut self, now: u64) -> u64 {
        if self.look_at.is_some_and(|time| time <= now) {
            self.look_at = None;
            self.look();
        }
        let released = self.inner.released(now);
        self.see();
        released
    }

    fn lost(&mut self) -> Lost {
        self.look();
        self.news.get().lost
    }

    fn end(&mut self, now: u64) -> bool {
        // From now on only the end is waited for.
        if self.look_at.take().is_some() {
            self.look();
        }
        self.inner.end(now)
    }
}
