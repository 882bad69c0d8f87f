//! A connection that shows whether an upstream takes one.

use super::hub::HubRef;
use crate::outgoing::Outgoing;
use corelane::service::{Ending, Input, Output};
use corelane::{Cx, Next, Silent};
use corelane_upstreams::{Upstream, failure_to_connect};

/// Ends once it is open.
pub(super) struct Check {
    hub: HubRef,
    /// None once its end was told.
    upstream: Option<Upstream>,
}

impl Check {
    pub fn new(hub: HubRef, upstream: Upstream) -> Self {
        Self { hub, upstream: Some(upstream) }
    }

    fn tell(&mut self, cx: &mut Cx<'_>, is_well: Option<bool>) {
        if let Some(upstream) = self.upstream.take() {
            self.hub.borrow_mut().checked(cx, upstream, is_well);
        }
    }
}

impl Outgoing<Silent> for Check {
    fn opened(&mut self, cx: &mut Cx<'_>, _output: &mut Output) -> Next {
        self.tell(cx, Some(true));
        Next::Abort
    }

    fn received(&mut self, _cx: &mut Cx<'_>, _input: &mut Input, _output: &mut Output) -> Next {
        Next::Abort
    }

    fn drained(&mut self, _cx: &mut Cx<'_>, _output: &mut Output) -> Next {
        Next::Abort
    }

    fn closed(&mut self, cx: &mut Cx<'_>, ending: Ending) {
        let is_failure = match ending {
            Ending::Error => failure_to_connect(cx.fault()).is_some(),
            // With TLS it is the handshake that has failed; those that are broken off as a drain begins say nothing.
            _ => {
                let hub = self.hub.borrow();
                let reach = self.upstream.and_then(|upstream| hub.upstreams.reach(upstream));
                !hub.is_draining && reach.is_some_and(|reach| reach.is_secured())
            }
        };
        self.tell(cx, is_failure.then_some(false));
    }
}
