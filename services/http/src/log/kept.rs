//! A request as its line will show it.

use super::format::Sent;
use corelane::Instant;

/// What is kept of a request.
pub(crate) struct KeptLine {
    pub began: Instant,
    pub peer: Vec<u8>,
    pub request: Vec<u8>,
    pub fields: Vec<u8>,
    /// What was sent so far; none before an answer has begun.
    pub sent: Option<Sent>,
}

impl Default for KeptLine {
    fn default() -> Self {
        let began = Instant::from_nanoseconds(0);
        Self { began, peer: Vec::new(), request: Vec::new(), fields: Vec::new(), sent: None }
    }
}

impl KeptLine {
    pub fn begin(&mut self, now: Instant, peer: &[u8], write: impl FnOnce(&mut Vec<u8>, &mut Vec<u8>)) {
        let Self { began, peer: of, request, fields, sent } = self;
        [&mut *of, request, fields].into_iter().for_each(|text| text.clear());
        (*began, *sent) = (now, None);
        of.extend_from_slice(peer);
        write(request, fields);
    }
}
