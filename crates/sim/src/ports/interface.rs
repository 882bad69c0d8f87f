//! Interfaces, as a test has them.

use crate::state::World;

/// One interface of a world. Cloning gives another name of the same.
#[derive(Clone)]
pub struct Interface {
    pub(super) world: World,
    pub(super) card: usize,
}

impl Interface {
    /// Its link-layer address.
    pub fn link_address(&self) -> [u8; 6] {
        self.world.0.borrow().wire.cards[self.card].link_address()
    }

    /// Takes it down, or up: while it is down its ports fail, and what arrives or leaves is lost.
    pub fn set_up(&self, is_up: bool) {
        self.world.0.borrow_mut().set_up(self.card, is_up);
    }

    /// Takes it away for ever.
    pub fn remove(&self) {
        let state = &mut *self.world.0.borrow_mut();
        state.wire.cards[self.card].is_gone = true;
        state.set_up(self.card, false);
    }

    /// Sends a frame from the test's own interface.
    pub fn send(&self, bytes: &[u8]) {
        self.world.0.borrow_mut().carry(self.card, bytes.to_vec());
    }

    /// What has arrived at the test's own interface since the last call of this.
    pub fn take(&self) -> Vec<Vec<u8>> {
        let state = &mut *self.world.0.borrow_mut();
        state.wire.cards[self.card].queues[0].arrived.drain(..).map(|arrived| arrived.bytes).collect()
    }
}

impl std::fmt::Debug for Interface {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Interface({})", self.card)
    }
}
