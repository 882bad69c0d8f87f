//! The header taken off, then the bytes handed over.

use corelane::Address;
use corelane::service::{Passage, Peer, Progress, Transform, TransformError, Unix};
use corelane_wire::proxy::{Ends, Fault, Step, V2_BYTES_MAX, parse};
use std::net::SocketAddr;
use std::sync::Arc;

/// Takes a PROXY header, and hands over to the transform behind it, if there is one.
pub(crate) struct Proxied {
    has_header: bool,
    inner: Option<Box<dyn Transform>>,
}

impl Proxied {
    pub fn new(inner: Option<Box<dyn Transform>>) -> Self {
        Self { has_header: false, inner }
    }

    /// Takes the header; false if it has not come yet.
    fn take_header(&mut self, passage: &mut Passage<'_>) -> Result<bool, Fault> {
        let mut memory = [0; V2_BYTES_MAX];
        let shown = passage.received.copy_to(&mut memory);
        let Step::Header { ends, bytes } = parse(&memory[..shown])? else { return Ok(false) };
        assert!(bytes <= shown, "a header is in what was shown");
        correct(passage.peer, ends);
        passage.received.skip(bytes);
        self.has_header = true;
        Ok(true)
    }
}

impl Transform for Proxied {
    fn pass(&mut self, passage: &mut Passage<'_>) -> Result<Progress, TransformError> {
        let goes_on = self.has_header || self.take_header(passage).map_err(|fault| TransformError(fault.to_string()))?;
        match &mut self.inner {
            _ if !goes_on => Ok(Progress::Idle),
            Some(inner) => inner.pass(passage),
            None => Plain.pass(passage),
        }
    }

    /// Behind the header no byte is changed here.
    fn passes_files(&self) -> bool {
        self.inner.as_ref().is_none_or(|inner| inner.passes_files())
    }

    /// Behind the header there is only what it hands over to, and that goes alone.
    fn pack(mut self: Box<Self>) -> Result<Box<dyn Transform + Send>, Box<dyn Transform>> {
        match self.inner.take() {
            _ if !self.has_header => unreachable!("a connection without its header is in its handshake, and stays"),
            None => Ok(Box::new(Plain)),
            Some(inner) => match inner.pack() {
                Ok(inner) => Ok(inner),
                Err(inner) => {
                    self.inner = Some(inner);
                    Err(self)
                }
            },
        }
    }
}

/// Changes nothing.
struct Plain;

impl Transform for Plain {
    fn pass(&mut self, passage: &mut Passage<'_>) -> Result<Progress, TransformError> {
        let Passage { received, input, output, wire, .. } = passage;
        input.append(received);
        wire.append(output);
        passage.open();
        if passage.peer_finished {
            passage.end_input();
        }
        Ok(Progress::Idle)
    }

    fn passes_files(&self) -> bool {
        true
    }

    fn pack(self: Box<Self>) -> Result<Box<dyn Transform + Send>, Box<dyn Transform>> {
        Ok(self)
    }
}

/// Notes who has connected to the proxy, and where. A name that no socket can have changes nothing.
fn correct(peer: &mut Peer, ends: Ends<'_>) {
    let unix = |name: &[u8]| match name {
        [] => Ok(Unix::UNNAMED),
        [0, hidden @ ..] => Unix::hidden(hidden),
        path => Unix::path(path),
    };
    match ends {
        Ends::OfSocket => {}
        Ends::Ip { source, destination } => {
            let [source, destination] = unmapped([source, destination]);
            (peer.address, peer.local) = (Address::Ip(source), Arc::new(Address::Ip(destination)));
        }
        Ends::Unix { source, destination } => {
            if let (Ok(source), Ok(destination)) = (unix(source), unix(destination)) {
                (peer.address, peer.local) = (Address::Unix(source), Arc::new(Address::Unix(destination)));
            }
        }
    }
}

/// The ends without the form that IPv4 has at a socket for both (RFC 4291, section 2.5.5.2), as a proxy tells them that listens with one. Nobody else is called so here.
fn unmapped(ends: [SocketAddr; 2]) -> [SocketAddr; 2] {
    let canonical = ends.map(|end| SocketAddr::new(end.ip().to_canonical(), end.port()));
    if canonical.iter().all(SocketAddr::is_ipv4) { canonical } else { ends }
}

/// Refuses who is no proxy that is believed.
pub(crate) struct Stranger;

impl Transform for Stranger {
    fn pass(&mut self, _passage: &mut Passage<'_>) -> Result<Progress, TransformError> {
        Err(TransformError("only the proxies that were named are served here".to_owned()))
    }
}
