//! How an application opens connections of its service.

use crate::outgoing::Outgoing;
use corelane::service::{ConnectionId, ServiceError};
use corelane::{Cx, Talk};
use corelane_upstreams::{Probe, Reach, Tended};
use std::fmt;

/// How an application opens connections, and has its upstreams tended, whatever it stands within ([`Hosts`](crate::Hosts)): the sessions of a service are of one type, and it does not know which.
pub struct Within<T: Talk> {
    /// Opens a connection of this service. Fails at the bound of connections.
    pub(crate) dial: Dial<T>,
    /// Tends upstreams by connections of this service.
    pub(crate) tend: Tend<T>,
}

/// Opens a connection.
type Dial<T> = fn(&mut Cx<'_, T>, Reach, Box<dyn Outgoing<T>>) -> Result<ConnectionId, ServiceError>;

/// Tends upstreams.
type Tend<T> = fn(&mut Cx<'_, T>, &mut Tended, MakeCheck<'_, T>);

/// Makes the connection that checks an upstream.
pub(crate) type MakeCheck<'a, T> = &'a mut dyn FnMut(Probe) -> Box<dyn Outgoing<T>>;

impl<T: Talk> Clone for Within<T> {
    fn clone(&self) -> Self {
        Self { dial: self.dial, tend: self.tend }
    }
}

impl<T: Talk> fmt::Debug for Within<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Within").finish_non_exhaustive()
    }
}
