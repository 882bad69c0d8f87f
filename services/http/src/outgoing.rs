//! Connections that an application has opened itself, on the lane of whoever asked: its way to another server.
//!
//! They are connections of the same service, so that whoever brings a request and whoever is asked for its answer are told of each other by [`Cx::resume`] and [`Cx::connection`].

use crate::application::Application;
use crate::session::Session;
use corelane::service::{Address, ConnectionId, Ending, Input, Output, ServiceError};
use corelane::{Cx, Next, Silent, Talk};
use corelane_upstreams::{Tending, Upstream, Upstreams, tend};

/// A connection that was opened, and what is kept for it.
pub(crate) trait Outgoing<T: Talk>: 'static {
    /// It is open.
    fn opened(&mut self, cx: &mut Cx<'_, T>, output: &mut Output) -> Next;

    /// Bytes have come, or the other end has finished, or [`Cx::resume`] was called for it.
    fn received(&mut self, cx: &mut Cx<'_, T>, input: &mut Input, output: &mut Output) -> Next;

    /// All has left that was written before it was asked for.
    fn drained(&mut self, cx: &mut Cx<'_, T>, output: &mut Output) -> Next;

    /// It has ended; the last call.
    fn closed(&mut self, cx: &mut Cx<'_, T>, ending: Ending);
}

/// How an application opens connections, and has its upstreams tended, whatever it stands within ([`Hosts`](crate::Hosts)): the sessions of a service are of one type, and it does not know which.
#[derive(Clone, Copy)]
pub(crate) struct Within {
    /// Opens a connection of this service. Fails at the bound of connections.
    pub dial: fn(&mut Cx<'_>, Address, Box<dyn Outgoing<Silent>>) -> Result<ConnectionId, ServiceError>,
    pub tend: fn(&mut Cx<'_>, &mut Upstreams, Tending, MakeCheck<'_>),
}

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
