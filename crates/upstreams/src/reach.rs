//! How an upstream is connected to.

use corelane::service::{ConnectionId, Learned, ServiceError, Talk};
use corelane::{Address, Cx};
use std::sync::Arc;

/// Where an upstream is, and by which name it is asked for.
#[derive(Clone, Debug)]
pub struct Reach {
    /// Its address.
    pub address: Address,
    /// Its name in TLS; none where it is spoken to in plain.
    pub(crate) name: Option<Arc<Learned>>,
}

impl Reach {
    /// Whether TLS is spoken to it.
    pub fn is_secured(&self) -> bool {
        self.name.is_some()
    }

    /// Has what an upstream behind TLS is sent begin with these bytes, in plain, such as a PROXY header. One that is spoken to in plain is sent them by the service.
    #[must_use]
    pub fn preface(mut self, bytes: &[u8]) -> Self {
        if let Some(name) = self.name.as_mut().filter(|_| !bytes.is_empty()) {
            Arc::make_mut(name).preface = bytes.to_vec();
        }
        self
    }

    /// Opens a connection to it: TLS is for the transform of the service's connections, which is told the name ([`Cx::connect_named`]).
    ///
    /// # Errors
    /// As for [`Cx::connect`].
    pub fn dial<T: Talk, S: 'static>(self, cx: &mut Cx<'_, T>, session: S) -> Result<ConnectionId, ServiceError> {
        match self.name {
            Some(name) => cx.connect_named(self.address, name, session),
            None => cx.connect(self.address, session),
        }
    }
}

/// What a target is asked for by.
pub(crate) fn named(name: &str) -> Arc<Learned> {
    let mut learned = Learned::default();
    learned.server_name = Some(name.to_owned());
    Arc::new(learned)
}
