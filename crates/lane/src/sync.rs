//! The primitives that the marked cells stand on: those of the standard library, or loom's, so that loom explores the
//! shipped source.

#[cfg(loom)]
pub(crate) use loom::{
    cell::UnsafeCell,
    sync::{
        Arc,
        atomic::{self, Ordering},
    },
};
#[cfg(not(loom))]
pub(crate) use std::sync::{
    Arc,
    atomic::{self, Ordering},
};

/// The standard cell with the face of loom's, which sees where an access begins and ends.
#[cfg(not(loom))]
#[derive(Debug)]
pub(crate) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

#[cfg(not(loom))]
impl<T> UnsafeCell<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(std::cell::UnsafeCell::new(value))
    }

    pub(crate) fn with<R>(&self, read: impl FnOnce(*const T) -> R) -> R {
        read(self.0.get())
    }

    pub(crate) fn with_mut<R>(&self, write: impl FnOnce(*mut T) -> R) -> R {
        write(self.0.get())
    }
}

/// What the loom tests of this crate share.
#[cfg(test)]
#[cfg(loom)]
pub(crate) mod model {
    use corelane_seam::Bell;
    use loom::sync::{Condvar, Mutex};

    /// A bell that stays rung until somebody waits for it, as an event descriptor does. A lost doorbell leaves the
    /// waiting thread blocked for ever, which loom reports.
    #[derive(Default)]
    pub(crate) struct ModelBell {
        rung: Mutex<bool>,
        changed: Condvar,
    }

    impl ModelBell {
        pub(crate) fn wait(&self) {
            let mut rung = self.rung.lock().unwrap();
            while !*rung {
                rung = self.changed.wait(rung).unwrap();
            }
            *rung = false;
        }
    }

    impl Bell for ModelBell {
        fn ring(&self) {
            *self.rung.lock().unwrap() = true;
            self.changed.notify_one();
        }
    }
}
