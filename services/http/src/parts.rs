//! The content of an answer, in parts.

use crate::facts::Framing;
use corelane::Output;
use corelane::service::{Refused, Segment};
use corelane_wire::http1::CHUNK_END;

/// Most hexadecimal digits of a chunk's size, with its line end.
const CHUNK_LINE_BYTES: usize = 18;

/// Where an exchange writes the content of the answer that it began.
pub struct Parts<'o> {
    output: &'o mut Output,
    framing: &'o mut Framing,
    /// Bytes of content that were written.
    sent: &'o mut u64,
    has_all_content: bool,
    /// Why the answer is broken off, for the log.
    why: Option<&'static str>,
}

impl<'o> Parts<'o> {
    pub(crate) fn new(output: &'o mut Output, framing: &'o mut Framing, sent: &'o mut u64, has_all_content: bool) -> Self {
        Self { output, framing, sent, has_all_content, why: None }
    }

    /// The answer is broken off for this, which the log is to have.
    pub(crate) fn because(&mut self, why: &'static str) {
        self.why = Some(why);
    }

    pub(crate) fn why(&self) -> Option<&'static str> {
        self.why
    }

    /// Whether the request's content has come to its end: more of it may not be asked for ([`Produced::Content`](crate::Produced::Content)).
    pub fn has_all_content(&self) -> bool {
        self.has_all_content
    }

    /// Bytes that are still owed, where a length was announced.
    pub fn left(&self) -> Option<u64> {
        match *self.framing {
            Framing::Length(left) => Some(left),
            Framing::Chunked | Framing::UntilClose => None,
        }
    }

    /// Asks for room to write: false if there is none; then what is not written now is asked for again when there is.
    pub fn ask_room(&mut self) -> bool {
        self.output.ask_room()
    }

    /// Copies `bytes` behind what was written before; nothing if there are none.
    ///
    /// # Errors
    /// What was refused; nothing was written then: return [`Produced::More`](crate::Produced::More), and be called again.
    ///
    /// # Panics
    /// With more bytes than were announced.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), Refused> {
        if bytes.is_empty() {
            return Ok(());
        }
        let mut line = [0; CHUNK_LINE_BYTES];
        let (before, behind) = self.around(bytes.len(), &mut line);
        let mut writer = self.output.writer();
        [before, bytes, behind].iter().try_for_each(|part| writer.put(part))?;
        writer.finish()?;
        self.count(bytes.len());
        Ok(())
    }

    /// Puts a segment behind what was written before, without copying it: lane memory, a part of a file.
    ///
    /// # Errors
    /// As for [`Parts::write`].
    ///
    /// # Panics
    /// As for [`Parts::write`].
    pub fn push(&mut self, segment: impl Into<Segment>) -> Result<(), Refused> {
        let segment = segment.into();
        let bytes = segment.len();
        if bytes == 0 {
            return Ok(());
        }
        let mut line = [0; CHUNK_LINE_BYTES];
        let (before, behind) = self.around(bytes, &mut line);
        self.output.write(before)?;
        self.output.push(segment);
        if !behind.is_empty() {
            self.output.push(behind);
        }
        self.count(bytes);
        Ok(())
    }

    /// What stands before and behind a part (RFC 9112 section 7.1).
    fn around<'l>(&self, bytes: usize, line: &'l mut [u8; CHUNK_LINE_BYTES]) -> (&'l [u8], &'static [u8]) {
        match *self.framing {
            Framing::Chunked => (chunk_line(bytes, line), CHUNK_END),
            Framing::Length(left) => {
                assert!(bytes as u64 <= left, "{bytes} bytes of content, where {left} more were announced");
                (&[], &[])
            }
            Framing::UntilClose => (&[], &[]),
        }
    }

    fn count(&mut self, bytes: usize) {
        *self.sent += bytes as u64;
        if let Framing::Length(left) = self.framing {
            *left -= bytes as u64;
        }
    }
}

fn chunk_line(bytes: usize, line: &mut [u8; CHUNK_LINE_BYTES]) -> &[u8] {
    let mut writer = corelane_wire::xdr::Writer::new(line);
    // reason: 64 bits are 16 digits.
    corelane_wire::http1::write_chunk_begin(&mut writer, bytes as u64).expect("there is room for the longest size");
    let written = writer.len();
    &line[..written]
}
