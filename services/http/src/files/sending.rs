//! The content of an answer, as there is room for it.

use super::entity::{Content, Entity};
use super::open_file::OpenFile;
use super::state::Files;
use super::warming::Warmth;
use crate::application::{Exchange, Goes, Produced};
use crate::{HttpCounter, Parts, Reply};
use corelane::Cx;
use corelane::service::{ConnectionId, FilePart, Refused, Shared};
use corelane_wire::http1::{self, Span};
use corelane_wire::xdr::Writer;
use std::cell::Cell;
use std::collections::VecDeque;
use std::rc::Rc;

/// Room for what stands before or behind one part of several; its media type comes on top.
const AROUND_BYTES: usize = 256;

/// What is still to be sent.
pub(super) struct Sending {
    entity: Rc<Entity>,
    pieces: VecDeque<Piece>,
    /// Of the first bytes that are still to be sent, if they lie in the file.
    warmth: Rc<Cell<Warmth>>,
    /// The connection that it is sent to, once it was handed something of an open file.
    reader: Option<ConnectionId>,
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
        Self::new(entity, [Piece::Span(span)].into())
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
        Self::new(entity, pieces)
    }

    fn new(entity: &Rc<Entity>, pieces: VecDeque<Piece>) -> Self {
        Self { entity: entity.clone(), pieces, warmth: Rc::new(Cell::new(Warmth::Unknown)), reader: None }
    }

    /// Writes what stands around parts.
    fn write(&mut self, parts: &mut Parts<'_>, text: Vec<u8>) -> Produced {
        if parts.write(&text).is_err() {
            self.pieces.push_front(Piece::Text(text));
        }
        Produced::More
    }

    /// Pushes bytes that lie in memory.
    fn push(&mut self, parts: &mut Parts<'_>, bytes: &Shared, span: Span) -> Produced {
        if parts.push(bytes.slice(span.begin as usize..span.end as usize)).is_err() {
            self.pieces.push_front(Piece::Span(span));
        }
        Produced::More
    }

    /// Pushes as much of a file as is warm, and asks for what follows.
    fn push_file(
        &mut self,
        files: &mut Files,
        cx: &mut Cx<'_>,
        parts: &mut Parts<'_>,
        open: &OpenFile,
        mut span: Span,
    ) -> Produced {
        let file = &open.file;
        if self.reader.is_none() || matches!(self.warmth.get(), Warmth::Warm(_)) {
            self.reader = Some(cx.id());
            open.note_reader(cx.id(), cx.now());
        }
        let produced = match self.warmth.get() {
            Warmth::Warm(0) => return Produced::End,
            Warmth::Warm(length) => {
                assert!(length <= span.bytes(), "no more is warm than was asked for");
                if parts.push(FilePart { file: file.clone(), offset: span.begin, length }).is_err() {
                    self.pieces.push_front(Piece::Span(span));
                    return Produced::More;
                }
                // Of a file that is far each part is read as it leaves, and not before.
                cx.count(HttpCounter::FilesCold, file.is_far().into());
                span.begin += length;
                self.warmth.set(Warmth::Unknown);
                if span.begin == span.end {
                    return Produced::More;
                }
                // While these leave the next ones are looked after.
                Produced::Drained
            }
            Warmth::Unknown | Warmth::Asked | Warmth::Waits => Produced::Wait,
        };
        if self.warmth.get() == Warmth::Unknown {
            files.warmings.warm(cx, &mut files.finder.tokens, (&self.entity, file), span, &self.warmth);
        }
        self.pieces.push_front(Piece::Span(span));
        produced
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        if let (Some(reader), Content::File(open)) = (self.reader, &self.entity.content) {
            open.forget_reader(reader);
        }
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

    fn produce(&mut self, files: &mut Files, cx: &mut Cx<'_>, parts: &mut Parts<'_>) -> Produced {
        let entity = self.entity.clone();
        match (self.pieces.pop_front(), &entity.content) {
            (None, _) => Produced::End,
            (Some(Piece::Text(text)), _) => self.write(parts, text),
            (Some(Piece::Span(span)), Content::Memory(bytes)) => self.push(parts, bytes, span),
            (Some(Piece::Span(span)), Content::File(open)) => self.push_file(files, cx, parts, open, span),
            (Some(Piece::Span(_)), Content::Empty) => unreachable!("nothing has no parts"),
        }
    }
}
