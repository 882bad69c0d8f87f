//! A request as its line will show it.

use super::format::Sent;
use super::passed::Passed;
use corelane::Instant;
use corelane::service::{Arena, Lease};

/// What is kept of a request. Its texts lie in the lane's memory, for which the connection pays: a client that is not answered yet may have sent long ones.
pub(crate) struct KeptLine {
    pub began: Instant,
    pub peer: Vec<u8>,
    /// What was asked for, and behind that the fields; none if the lane lent no memory for them.
    texts: Option<Lease>,
    /// Bytes of the first of the two.
    request_bytes: usize,
    /// What was sent so far; none before an answer has begun.
    pub sent: Option<Sent>,
    /// To whom it was sent on, if it was.
    pub passed: Passed,
}

impl Default for KeptLine {
    fn default() -> Self {
        let began = Instant::from_nanoseconds(0);
        Self { began, peer: Vec::new(), texts: None, request_bytes: 0, sent: None, passed: Passed::default() }
    }
}

impl KeptLine {
    /// Keeps a request that has come now.
    pub fn begin(&mut self, now: Instant, peer: &[u8]) {
        self.peer.clear();
        self.peer.extend_from_slice(peer);
        (self.began, self.sent) = (now, None);
        self.passed.clear();
        self.let_go();
    }

    /// Keeps its texts, of which the first `request_bytes` are what was asked for; whether there was memory for them.
    pub fn keep_texts(&mut self, arena: &Arena, texts: &[u8], request_bytes: usize) -> bool {
        assert!(request_bytes <= texts.len(), "what was asked for is a part of the texts");
        self.texts = arena.lease_or_none(texts.len());
        self.request_bytes = request_bytes;
        self.texts.iter_mut().for_each(|lease| lease.append(texts));
        self.texts.is_some()
    }

    /// What was asked for, and the fields.
    pub fn texts(&self) -> Option<(&[u8], &[u8])> {
        self.texts.as_deref().map(|texts| texts.split_at(self.request_bytes))
    }

    /// Its line is written: the memory goes home.
    pub fn let_go(&mut self) {
        self.texts = None;
    }
}
