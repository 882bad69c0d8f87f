//! What a line has of a request that was sent on to another server.

/// To whom a request was sent on, and why it is this server that has answered, where it has.
#[derive(Default)]
pub(crate) struct Passed {
    is_passed: bool,
    /// The upstream as the operator wrote it; empty before one is chosen.
    upstream: Vec<u8>,
    /// A word of a fixed set: nothing that anybody has sent.
    why: Option<&'static str>,
}

impl Passed {
    /// It is sent on: to this one, if one is chosen.
    pub fn set(&mut self, upstream: Option<&str>, why: Option<&'static str>) {
        self.is_passed = true;
        self.upstream.clear();
        self.upstream.extend_from_slice(upstream.unwrap_or_default().as_bytes());
        self.why = why;
    }

    /// If it was sent on, this is why this server has answered.
    pub fn because(&mut self, why: &'static str) {
        self.why = Some(why).filter(|_| self.is_passed);
    }

    /// The next one is another request.
    pub fn clear(&mut self) {
        (self.is_passed, self.why) = (false, None);
    }

    /// Upstream, if one was chosen, and reason, if there is one; none of a request that was not sent on.
    pub fn shown(&self) -> Option<(Option<&[u8]>, Option<&'static str>)> {
        self.is_passed.then(|| (Some(&self.upstream[..]).filter(|name| !name.is_empty()), self.why))
    }
}
