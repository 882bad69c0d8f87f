//! The same answer to every request: for measuring what all else costs.

use crate::application::{Application, Handled};
use crate::{Prepared, Reply, Request};
use corelane::service::Refused;
use corelane::{Cx, Silent};
use corelane_wire::http1::Status;

/// Answers every request with the same bytes of plain text.
#[derive(Clone, Debug)]
pub struct Fixed(Prepared);

impl Fixed {
    /// So many bytes of text.
    pub fn new(bytes: usize) -> Self {
        let text: Vec<u8> = b"corelane".iter().copied().cycle().take(bytes).collect();
        // reason: they are two tokens.
        Self(Prepared::new(Status::OK, &[("Content-Type", "text/plain")], &text).expect("the field can be sent"))
    }
}

impl Application for Fixed {
    type Talk = Silent;

    fn request(&mut self, _cx: &mut Cx<'_>, _request: &Request<'_>, reply: Reply<'_>) -> Result<Handled<Self>, Refused> {
        reply.prepared(&self.0)
    }
}
