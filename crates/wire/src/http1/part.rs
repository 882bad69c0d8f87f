//! What is found in the stream of a message's content.

use std::ops::Range;

/// What stands at the front of the bytes shown. Ranges are indices into these; drop the bytes up to their end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// Content, at least one byte of it; what stands before is framing.
    Data(Range<usize>),
    /// Field lines behind the content, with their empty line, for [`trailers`](super::trailers); what stands before is framing. Only where there are any.
    Trailers(Range<usize>),
    /// No content: drop so many bytes, and show the rest again with more.
    More(usize),
    /// The message has ended: drop so many bytes; the next message begins behind.
    End(usize),
}
