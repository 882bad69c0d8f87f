//! How an application opens connections of its service.

use crate::application::Application;
use crate::outgoing::Outgoing;
use crate::session::Session;
use corelane::service::{Address, ConnectionId, ServiceError};
use corelane::{Cx, Silent};
use corelane_upstreams::{Tending, Upstream, Upstreams, tend};

/// How an application opens connections, and has its upstreams tended, whatever it stands within ([`Hosts`](crate::Hosts)): the sessions of a service are of one type, and it does not know which.
#[derive(Clone, Copy)]
pub(crate) struct Within {
    /// Opens a connection of this service. Fails at the bound of connections.
    pub dial: Dial,
    /// Returns the connections of checks that have begun.
    pub tend: fn(&mut Cx<'_>, &mut Upstreams, Tending, MakeCheck<'_>) -> Vec<ConnectionId>,
}

/// Opens a connection.
type Dial = fn(&mut Cx<'_>, Address, Box<dyn Outgoing<Silent>>) -> Result<ConnectionId, ServiceError>;

/// Makes the connection that checks an upstream.
pub(crate) type MakeCheck<'a> = &'a mut dyn FnMut(Upstream) -> Box<dyn Outgoing<Silent>>;

impl Within {
    pub fn of<A: Application<Talk = Silent>>() -> Self {
        Self {
            dial: |cx, to, outgoing| cx.connect(to, Session::<A>::opened(outgoing)),
            tend: |cx, upstreams, tending, make| tend(cx, upstreams, tending, |upstream| Session::<A>::opened(make(upstream))),
        }
    }
}
