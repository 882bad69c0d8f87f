//! Calls that a port around a port passes on as they are.

/// Passes on what a wrapper leaves as it is: what the port is and its end, `and when` it acts.
macro_rules! of_inner {
    () => {
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

        fn worked(&self) -> Worked {
            self.inner.worked()
        }

        fn lost(&mut self) -> Lost {
            self.inner.lost()
        }

        fn end(&mut self, now: u64) -> bool {
            self.inner.end(now)
        }
    };
    (and when) => {
        of_inner!();

        fn wakes_at(&self) -> Option<u64> {
            self.inner.wakes_at()
        }

        fn released(&mut self, now: u64) -> u64 {
            self.inner.released(now)
        }
    };
}
pub(crate) use of_inner;
