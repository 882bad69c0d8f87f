//! Connections that have changed their protocol (RFC 9110 section 7.8): bytes pass between two of them, and nobody looks at these.

use crate::application::Application;
use crate::service::{Call, Http};
use crate::session::{Active, Look, Session};
use corelane::service::{ConnectionId, Input, Output, Owes};
use corelane::{Cx, Next, Talk};

impl<A: Application> Http<A> {
    /// Passes bytes on to the other connection of a tunnel.
    pub(crate) fn pass_on(
        &mut self,
        call: &mut Call<'_, '_, A::Talk>,
        session: &mut Session<A>,
        input: &mut Input,
        to: ConnectionId,
    ) -> Look {
        pass(call.cx, input, call.output, to);
        session.active = Some(self.spare.boxed(Active::Tunnel(to)));
        Look::Over(Next::Continue)
    }
}

/// Moves what has come to the other connection, with which this one is [coupled](Cx::pair): so it comes only as far as there is room.
pub(crate) fn pass(cx: &mut Cx<'_, impl Talk>, input: &mut Input, own: &mut Output, to: ConnectionId) {
    // It owes no request: the protocol is another one.
    own.peer_owes(Owes::Nothing);
    own.note_active();
    if let Some(output) = cx.connection(to) {
        output.note_active();
        output.forward(input.take_all());
    }
}
