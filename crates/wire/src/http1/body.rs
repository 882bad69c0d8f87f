//! Content, told apart from its framing (RFC 9112 sections 6.3 and 7).

use super::chunk::Chunks;
use super::part::Part;
use super::{Framing, Refusal};

/// Finds the content of one message in a stream, in any pieces. It keeps no bytes and copies none.
#[derive(Clone, Copy, Debug)]
pub struct Body {
    state: State,
    /// Bytes of content that may still come.
    allowed: u64,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Length(u64),
    Chunked(Chunks),
    UntilClose,
    Ended,
}

impl Body {
    /// Starts behind a head. `limit`: most bytes of content.
    ///
    /// # Errors
    /// [`Refusal::ContentTooLong`], which closes: nothing of the content was read.
    pub fn new(framing: Framing, limit: u64) -> Result<Self, Refusal> {
        let state = match framing {
            Framing::None | Framing::Length(0) => State::Ended,
            Framing::Length(length) if length > limit => return Err(Refusal::ContentTooLong),
            Framing::Length(length) => State::Length(length),
            Framing::Chunked => State::Chunked(Chunks::default()),
            Framing::UntilClose => State::UntilClose,
        };
        Ok(Self { state, allowed: limit })
    }

    /// Whether the message has ended: the next bytes are another's.
    pub const fn is_ended(&self) -> bool {
        matches!(self.state, State::Ended)
    }

    /// Bytes that are known to come, of the content or of its present chunk; for those who have them received straight into place.
    pub const fn announced(&self) -> u64 {
        match &self.state {
            State::Length(left) => *left,
            State::Chunked(chunks) => chunks.left(),
            State::UntilClose | State::Ended => 0,
        }
    }

    /// Counts `bytes` of content that were received straight into place, of those [`announced`](Self::announced).
    ///
    /// # Panics
    /// If they are more.
    pub fn advance(&mut self, bytes: u64) {
        assert!(bytes <= self.announced(), "{bytes} bytes of content where {} were announced", self.announced());
        match &mut self.state {
            State::Length(left) => *left -= bytes,
            State::Chunked(chunks) => chunks.advance(bytes),
            State::UntilClose | State::Ended => {}
        }
        self.end_if_empty();
    }

    fn end_if_empty(&mut self) {
        if matches!(self.state, State::Length(0)) {
            self.state = State::Ended;
        }
    }

    /// Looks at the front of `bytes`.
    ///
    /// # Errors
    /// A refusal that closes: where the next message begins is not known then. Show nothing more.
    #[inline]
    pub fn next(&mut self, bytes: &[u8]) -> Result<Part, Refusal> {
        match &mut self.state {
            State::Ended => Ok(Part::End(0)),
            _ if bytes.is_empty() => Ok(Part::More(0)),
            State::Length(left) => {
                let length = (bytes.len() as u64).min(*left);
                *left -= length;
                self.end_if_empty();
                Ok(Part::Data(0..length as usize))
            }
            State::UntilClose => {
                let length = bytes.len() as u64;
                self.allowed = self.allowed.checked_sub(length).ok_or(Refusal::ContentTooLong)?;
                Ok(Part::Data(0..bytes.len()))
            }
            State::Chunked(chunks) => {
                let part = chunks.next(bytes, &mut self.allowed)?;
                if matches!(part, Part::Trailers(_) | Part::End(_)) {
                    self.state = State::Ended;
                }
                Ok(part)
            }
        }
    }

    /// The stream has ended (RFC 9112 section 8).
    ///
    /// # Errors
    /// [`Refusal::CutShort`]: what came is not the whole content.
    pub fn finish(&mut self) -> Result<(), Refusal> {
        match self.state {
            State::UntilClose | State::Ended => {
                self.state = State::Ended;
                Ok(())
            }
            State::Length(_) | State::Chunked(_) => Err(Refusal::CutShort),
        }
    }
}
