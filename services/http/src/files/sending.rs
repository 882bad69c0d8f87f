//! The content of an answer, as there is room for it.

use super::Files;
use super::entity::{Content, Entity};
use crate::application::{Exchange, Goes, Produced};
use crate::{Parts, Reply};
use corelane::Cx;
use corelane::service::{FilePart, Refused};
use corelane_wire::http1::{self, Span};
use corelane_wire::xdr::Writer;
use std::collections::VecDeque;
use std::rc::Rc;

/// Bytes of a file that are handed over at once, at the most.
const WINDOW_BYTES: u64 = 1 << 20;
/// Room for what stands before or behind one part of several; its media type comes on top.
const AROUND_BYTES: usize = 256;

/// What is still to be sent.
pub(super) struct Sending {
    entity: Rc<Entity>,
    pieces: VecDeque<Piece>,
}

enum Piece {
    /// What stands around parts.
    Text(Vec<u8>),
    /// Bytes of the file.
    Span(Span),
}

impl Sending {
    /// One part of a file.
    pub fn of(entity: &Rc<Entity>, span: Span) -> Self {
        Self { entity: entity.clone(), pieces: [Piece::Span(span)].into() }
    }

    /// Several parts, with what stands around them.
    pub fn parts(entity: &Rc<Entity>, parts: &http1::Parts<'_>, spans: &[Span]) -> Self {
        let room = AROUND_BYTES + entity.media.len();
        let mut pieces = VecDeque::with_capacity(2 * spans.len() + 1);
        for span in spans {
            pieces.push_back(text(room, |to| parts.write_begin(to, *span)));
            pieces.push_back(Piece::Span(*span));
        }
        pieces.push_back(text(room, |to| parts.write_end(to)));
        Self { entity: entity.clone(), pieces }
    }

    /// Writes one piece, or a window of it.
    fn step(&mut self, parts: &mut Parts<'_>, piece: Piece) -> Result<Produced, Refused> {
        let span = match piece {
            Piece::Text(text) => {
                let written = parts.write(&text);
                if written.is_err() {
                    self.pieces.push_front(Piece::Text(text));
                }
                return written.map(|()| Produced::More);
            }
            Piece::Span(span) => span,
        };
        let end = span.end.min(span.begin + WINDOW_BYTES);
        let pushed = match &self.entity.content {
            Content::Memory(bytes) => parts.push(bytes.slice(span.begin as usize..end as usize)),
            Content::File(file) => parts.push(FilePart { file: file.clone(), offset: span.begin, length: end - span.begin }),
            Content::Empty => unreachable!("nothing has no parts"),
        };
        let begin = if pushed.is_ok() { end } else { span.begin };
        if begin < span.end {
            self.pieces.push_front(Piece::Span(Span { begin, end: span.end }));
        }
        pushed.map(|()| if begin < span.end { Produced::Drained } else { Produced::More })
    }
}

fn text(room: usize, write: impl FnOnce(&mut Writer<'_>) -> Result<(), corelane_wire::Error>) -> Piece {
    let mut memory = vec![0; room];
    let mut writer = Writer::new(&mut memory);
    // reason: a boundary and three numbers are shorter than that.
    write(&mut writer).expect("there is room for it");
    let length = writer.len();
    memory.truncate(length);
    Piece::Text(memory)
}

impl Exchange<Files> for Sending {
    fn go_on(&mut self, _files: &mut Files, _cx: &mut Cx<'_>, _reply: Reply<'_>) -> Result<Goes, Refused> {
        unreachable!("its answer has begun")
    }

    fn produce(&mut self, _files: &mut Files, _cx: &mut Cx<'_>, parts: &mut Parts<'_>) -> Produced {
        let Some(piece) = self.pieces.pop_front() else { return Produced::End };
        // What was refused is asked for again when there is memory.
        self.step(parts, piece).unwrap_or(Produced::More)
    }
}
