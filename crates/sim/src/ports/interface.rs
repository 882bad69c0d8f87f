//! Interfaces, as a test has them.

use crate::state::World;
use crate::wire::Card;

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

    /// Pulls the plug, or puts it in: what is sent without a carrier is lost, and counted as lost.
    pub fn set_carrier(&self, has_carrier: bool) {
        self.change(|card| card.has_carrier = has_carrier);
    }

    /// Gives it another link-layer address.
    pub fn set_link_address(&self, address: [u8; 6]) {
        self.change(|card| card.address = Some(address));
    }

    /// Has it send and take frames of so many bytes at the most.
    pub fn set_frame_bytes_max(&self, bytes: usize) {
        self.change(|card| card.setup.frame_bytes_max = bytes);
    }

    /// Changes it, and gives the lanes of its ports a reason to look.
    fn change(&self, change: impl FnOnce(&mut Card)) {
        let state = &mut *self.world.0.borrow_mut();
        change(&mut state.wire.cards[self.card]);
        let is_up = state.wire.cards[self.card].is_up;
        state.set_up(self.card, is_up);
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
