//! A connection that shows whether an upstream is well.

use super::hub::HubRef;
use crate::outgoing::Outgoing;
use corelane::service::{Ending, Input, Output, Owes};
use corelane::{Cx, Next, Silent};
use corelane_upstreams::{Checked, Probe, failure_to_connect};

/// Ends once it is known whether its upstream is well.
pub(super) struct Check {
    hub: HubRef,
    /// None once that was told.
    probe: Option<Probe>,
}

impl Check {
    pub fn new(hub: HubRef, probe: Probe) -> Self {
        Self { hub, probe: Some(probe) }
    }

    fn go_on(&mut self, cx: &mut Cx<'_>, found: Checked) -> Next {
        let Some(is_well) = found.is_well() else { return Next::Continue };
        self.tell(cx, is_well);
        // As for a proxy's: one that is well is left in order.
        if is_well == Some(true) { Next::Close } else { Next::Abort }
    }

    fn tell(&mut self, cx: &mut Cx<'_>, is_well: Option<bool>) {
        if let Some(probe) = self.probe.take() {
            let mut hub = self.hub.borrow_mut();
            hub.tended.checked(cx, probe.upstream(), is_well);
            hub.close_unserved(cx);
        }
    }
}

impl Outgoing<Silent> for Check {
    fn opened(&mut self, cx: &mut Cx<'_>, output: &mut Output) -> Next {
        // Its time is its own.
        output.peer_owes(Owes::Nothing);
        let Some(probe) = &mut self.probe else { return Next::Abort };
        let found = probe.opened(output);
        self.go_on(cx, found)
    }

    fn received(&mut self, cx: &mut Cx<'_>, input: &mut Input, _output: &mut Output) -> Next {
        let Some(probe) = &mut self.probe else { return Next::Abort };
        let found = probe.received(input);
        self.go_on(cx, found)
    }

    fn drained(&mut self, _cx: &mut Cx<'_>, _output: &mut Output) -> Next {
        Next::Continue
    }

    fn closed(&mut self, cx: &mut Cx<'_>, ending: Ending) {
        let Some(probe) = &self.probe else { return };
        let is_failure = match ending {
            Ending::Error => failure_to_connect(cx.fault()).is_some(),
            // Those that are broken off as a drain begins say nothing. With TLS it is the handshake that has failed.
            _ => {
                let hub = self.hub.borrow();
                let is_secured = hub.tended.upstreams.reach(probe.upstream()).is_some_and(|reach| reach.is_secured());
                !hub.tended.is_draining() && (probe.is_late(cx.now()) || is_secured)
            }
        };
        self.tell(cx, is_failure.then_some(false));
    }
}
