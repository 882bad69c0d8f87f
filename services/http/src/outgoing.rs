//! Connections that an application has opened itself, on the lane of whoever asked: its way to another server.
//!
//! They are connections of the same service, so that whoever brings a request and whoever is asked for its answer are told of each other by [`Cx::resume`] and [`Cx::connection`].

use crate::application::Application;
use crate::service::Http;
use crate::session::{Active, Session};
use corelane::service::{Address, ConnectionId, Ending, Input, Output, ServiceError};
use corelane::{Cx, Next, Talk};

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

/// How an application opens one, whatever stands around that ([`Hosts`](crate::Hosts)).
pub(crate) type Dial<T> = fn(&mut Cx<'_, T>, Address, Box<dyn Outgoing<T>>) -> Result<ConnectionId, ServiceError>;

impl<A: Application> Http<A> {
    /// Opens a connection of this service.
    ///
    /// # Errors
    /// At the bound of connections.
    pub(crate) fn dial(
        cx: &mut Cx<'_, A::Talk>,
        to: Address,
        outgoing: Box<dyn Outgoing<A::Talk>>,
    ) -> Result<ConnectionId, ServiceError> {
        cx.connect(to, Session::<A> { active: Some(Box::new(Active::Outgoing(outgoing))), is_last: false })
    }
}
