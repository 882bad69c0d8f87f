//! How a program tells its lanes to end: first to drain, then to stop at once.

use corelane_seam::Bell;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};

/// What the lanes have been told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Order {
    /// Serve.
    Serve,
    /// Refuse new connections, answer what was asked, end.
    Drain,
    /// End at once.
    Stop,
}

/// The doorbell of a lane that may not have its driver yet: rings before it is set are not lost, because a lane looks
/// at its channels and its order before it first sleeps.
#[derive(Default)]
pub struct LaneBell(OnceLock<Arc<dyn Bell>>);

impl LaneBell {
    /// Connects the bell of the lane's driver; later calls change nothing.
    pub fn set(&self, bell: Arc<dyn Bell>) {
        let _ = self.0.set(bell);
    }
}

impl Bell for LaneBell {
    fn ring(&self) {
        if let Some(bell) = self.0.get() {
            bell.ring();
        }
    }
}

/// One program's order to all its lanes. Written when the program is told to end; lanes read it once a turn.
pub struct Control {
    order: AtomicU8,
    bells: Vec<Arc<LaneBell>>,
}

impl Control {
    /// For `lanes` lanes, all told to serve.
    pub fn new(lanes: usize) -> Arc<Self> {
        let bells = (0..lanes).map(|_| Arc::default()).collect();
        Arc::new(Self { order: AtomicU8::new(Order::Serve as u8), bells })
    }

    /// The order in force.
    pub fn order(&self) -> Order {
        match self.order.load(Ordering::Acquire) {
            0 => Order::Serve,
            1 => Order::Drain,
            _ => Order::Stop,
        }
    }

    /// Gives an order and wakes all lanes; an earlier order of a higher degree stays in force.
    pub fn give(&self, order: Order) {
        self.order.fetch_max(order as u8, Ordering::AcqRel);
        self.bells.iter().for_each(|bell| bell.ring());
    }

    /// The doorbell of lane `lane`.
    ///
    /// # Panics
    /// If there is no such lane.
    pub fn bell(&self, lane: usize) -> &Arc<LaneBell> {
        &self.bells[lane]
    }

    /// How many lanes there are.
    pub fn lanes(&self) -> usize {
        self.bells.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_is_never_taken_back() {
        let control = Control::new(2);
        assert_eq!(control.order(), Order::Serve);
        control.give(Order::Stop);
        control.give(Order::Drain);
        assert_eq!(control.order(), Order::Stop);
    }
}
