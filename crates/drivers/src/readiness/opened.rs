//! The ports that are open on a driver, and what is known of their readiness.

use corelane_seam::ordered::Ordered;
use corelane_seam::slab::Key;
use corelane_seam::{Attention, Handle, Port, PortEnd, PortId, PortTable};

/// What is known of a port's readiness.
pub(super) struct Watched {
    pub(super) frames: Option<Key>,
    pub(super) news: Option<Key>,
    /// An edge tells that there is a reason to look.
    pub(super) due: Attention,
}

/// A port that is closed but for its descriptors.
pub(super) struct Closing {
    /// What the source knows the copies by.
    pub(super) copies: Vec<u64>,
    pub(super) asked: Handle,
    /// Dropped when the copies are closed.
    pub(super) port: Box<dyn Port>,
}

/// The ports of a driver.
#[derive(Default)]
pub(super) struct Ports {
    pub(super) table: PortTable<Handle>,
    pub(super) watched: Ordered<PortId, Watched>,
    /// Whose an endpoint is, by what the source knows it by.
    pub(super) of_endpoint: Ordered<Key, PortId>,
    pub(super) closing: Vec<Closing>,
    pub(super) ended: Vec<PortEnd<Handle>>,
    /// There was other news than frames since somebody waited last.
    pub(super) has_news: bool,
    /// Place for the names of all, while they are attended to.
    pub(super) open: Vec<PortId>,
}

impl Ports {
    #[inline]
    pub(super) fn is_idle(&self) -> bool {
        self.table.is_empty() && self.closing.is_empty() && self.ended.is_empty()
    }

    /// Whose this endpoint is.
    pub(super) fn of(&self, endpoint: Key) -> PortId {
        // reason: an endpoint of a port goes with the port.
        *self.of_endpoint.get(endpoint).expect("a port's endpoint is known")
    }

    pub(super) fn note(&mut self, key: Key, noted: Attention) {
        let port = self.of(key);
        // reason: as above.
        let due = &mut self.watched.get_mut(port).expect("an open port is watched").due;
        (due.receive, due.send) = (due.receive | noted.receive, due.send | noted.send);
    }

    /// Whether a port is to be attended to without an event.
    pub(super) fn have_more(&self) -> bool {
        self.table.ids().any(|port| self.table.can_receive(port))
    }

    /// The earliest time at which one of them wants to be asked again.
    pub(super) fn wakes_at(&self) -> Option<u64> {
        let ending = self.closing.iter().filter_map(|closing| closing.port.wakes_at());
        self.table.wakes_at().into_iter().chain(ending).min()
    }

    pub(super) fn of_works(&self, is_gone: impl Fn(u8) -> bool) -> Vec<PortId> {
        self.table.of_works(is_gone)
    }
}
