//! The same answer to every request: for measuring what all else costs.

use crate::application::{Application, Handled};
use crate::{Reply, Request};
use corelane::service::Refused;
use corelane::{Cx, Silent};
use corelane_wire::http1::Status;

/// Answers every request with the same bytes of plain text.
#[derive(Clone, Debug)]
pub struct Fixed(Vec<u8>);

impl Fixed {
    /// So many bytes of text.
    pub fn new(bytes: usize) -> Self {
        Self(b"corelane".iter().copied().cycle().take(bytes).collect())
    }
}

impl Application for Fixed {
    type Talk = Silent;

    fn request(&mut self, _cx: &mut Cx<'_>, _request: &Request<'_>, reply: Reply<'_>) -> Result<Handled<Self>, Refused> {
        reply.answer(Status::OK).media("text/plain").bytes(&self.0)
    }
}
