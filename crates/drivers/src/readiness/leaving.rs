//! Connections that leave for another driver of the program, and come from one.

use super::endpoint::{Bridging, Endpoint, EndpointKind, Receiving, Sending};
use super::kept::{KeptSends, Standing};
use super::source::{Copies, ReadinessSource};
use super::state::ReadinessDriver;
use crate::crossing::Berthed;
use crate::means::Own;
use crate::notices::Notices;
use corelane_seam::slab::Key;
use corelane_seam::{Detached, Fault, Reason, Socket};

/// A connection on its way between two drivers.
struct OnItsWay {
    berthed: Berthed,
    /// If it was asked: how its sends were numbered, whether it sends so at all, and what was seen of that. The numbers are the socket's, so they go on.
    uncopied: Option<(Notices, Standing, Own)>,
}

impl<S: ReadinessSource> ReadinessDriver<S> {
    /// Puts a connection at rest on its way.
    pub(super) fn let_go(&mut self, key: Key) -> Result<Detached, Fault> {
        let endpoint = self.endpoints.get(key).ok_or(Fault::CANCELLED)?;
        assert!(endpoint.kind == EndpointKind::Stream, "only a connection goes to another driver");
        let is_read = |kept: &KeptSends| !kept.sends.is_empty();
        let at_rest =
            endpoint.receiving == Receiving::Bytes && endpoint.sending == Sending::Nothing && !self.file_sends.is_of(key.into());
        // Who takes it out of the kernel's table loses what has come for it.
        if endpoint.bridging != Bridging::No {
            return Err(Fault::of(Reason::Unsupported));
        }
        if !at_rest || self.kept.get(key).is_some_and(is_read) {
            return Err(Fault::of(Reason::UnderWay));
        }
        let crossing = self.crossing.as_ref().ok_or(Fault::of(Reason::Unsupported))?;
        let berthed = crossing.put(&endpoint.descriptor)?;
        self.counters.calls_work += 1;
        self.leave_list(key);
        let kept = self.kept.remove(key);
        let endpoint = self.endpoints.remove_at(key.index);
        if endpoint.is_watched {
            // The connection stays open, so its watching does not end with this descriptor.
            self.source.close(key.bits(), endpoint.descriptor, Copies::Others);
        }
        let uncopied = kept.map(|kept| (kept.notices, kept.standing, kept.own));
        Ok(Detached::new(OnItsWay { berthed, uncopied }))
    }

    /// Takes a connection that was on its way.
    pub(super) fn take_over(&mut self, detached: Detached) -> Result<Socket, (Fault, Detached)> {
        let OnItsWay { berthed, uncopied } =
            detached.known_by().map_err(|detached| (Fault::of(Reason::Unsupported), detached))?;
        self.counters.calls_work += 1;
        let descriptor = match berthed.take() {
            Ok(descriptor) => descriptor,
            Err((fault, berthed)) => return Err((fault, Detached::new(OnItsWay { berthed, uncopied }))),
        };
        let mut endpoint = Endpoint::new(descriptor, EndpointKind::Stream);
        // What has come meanwhile makes no edge here: so the first receive looks.
        endpoint.mark_news();
        let key = self.endpoints.insert(endpoint);
        if let Some((notices, standing, own)) = uncopied {
            self.kept.insert(key, KeptSends { notices, standing, own, ..KeptSends::default() });
        }
        Ok(key.into())
    }
}
