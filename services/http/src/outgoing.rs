//! Connections that an application has opened itself, on the lane of whoever asked: its way to another server.
//!
//! They are connections of the same service, so that whoever brings a request and whoever is asked for its answer are told of each other by [`Cx::resume`] and [`Cx::connection`].

use corelane::service::{ConnectionId, Ending, Input, Output};
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

/// One of two that have changed their protocol together has ended: what is no end in order is none for the other either.
pub(crate) fn end_other(cx: &mut Cx<'_, impl Talk>, ending: Ending, other: ConnectionId) {
    if matches!(ending, Ending::Error | Ending::Aborted) {
        cx.abort(other);
    }
}
