//! Calls over a connection: records, one behind the other, and the replies in whatever order they come.

use super::message::{Message, Said};
use super::numbers::Numbers;
use super::settings::{RpcSettings, Split};
use crate::kinds::Kind;
use crate::plan::Plan;
use crate::workload::{Answers, Workload};
use corelane::{Input, Output};
use corelane_wire::rpc::{RecordLimits, Records, Step, mark, write_split};
use corelane_wire::xdr::Writer;

/// A call of up to so many bytes is copied into the output as a whole; of a longer one only the head is.
const COPIED_MAX: usize = 1_024;

/// Bytes of the mark before a fragment.
const MARK: usize = 4;

/// What a reply may be longer than one that is right, so that it is read and judged rather than broken off.
const REPLY_SPARE: u32 = 1_024;

/// Calls over TCP.
pub struct RpcStream {
    message: Message,
    split: Split,
    /// Where records are put together: this call, and this record with its marks.
    record: Vec<u8>,
    marked: Vec<u8>,
}

/// One connection.
pub struct Stream {
    numbers: Numbers,
    records: Records,
    /// Fragments of the reply that is not complete.
    joined: Vec<u8>,
    /// What is held back because the stream leaves in pieces, and how much of it has left.
    held: Vec<u8>,
    gone: usize,
    is_leaving: bool,
}

impl RpcStream {
    /// The calls of a plan.
    pub fn new(plan: &Plan) -> Self {
        Self { message: Message::new(plan), split: RpcSettings::in_plan(plan).split, record: Vec::new(), marked: Vec::new() }
    }

    /// Writes one call, or nothing if the lane's memory does not suffice.
    fn write(&mut self, stream: &mut Stream, number: u64, output: &mut Output) -> bool {
        match self.split {
            Split::Whole if self.message.bytes() > COPIED_MAX => self.write_long(stream, number, output),
            Split::Whole | Split::Fragments(_) => {
                self.put_together(stream, number);
                output.write(&self.marked).is_ok()
            }
            Split::Bytes(_) => {
                self.put_together(stream, number);
                stream.held.extend(&self.marked);
                true
            }
        }
    }

    /// Writes a call of one fragment whose payload is not copied.
    fn write_long(&mut self, stream: &Stream, number: u64, output: &mut Output) -> bool {
        self.marked.resize(MARK + self.message.head_bytes(), 0);
        let (mark, head) = self.marked.split_at_mut(MARK);
        mark.copy_from_slice(&last_mark(self.message.bytes()));
        self.message.write_head(&stream.numbers, number, head);
        if output.write(&self.marked).is_err() {
            return false;
        }
        self.message.payload(&stream.numbers, number).for_each(|piece| output.push(piece));
        true
    }

    /// Puts a call and its marks together, in `marked`.
    fn put_together(&mut self, stream: &Stream, number: u64) {
        let bytes = self.message.bytes();
        let Split::Fragments(count) = self.split else {
            self.marked.resize(MARK + bytes, 0);
            let (mark, call) = self.marked.split_at_mut(MARK);
            mark.copy_from_slice(&last_mark(bytes));
            return self.message.write(&stream.numbers, number, call);
        };
        self.record.resize(bytes, 0);
        self.message.write(&stream.numbers, number, &mut self.record);
        let cuts = cuts(bytes, count as usize);
        self.marked.resize(bytes + MARK * (cuts.len() + 1), 0);
        let written = write_split(&mut Writer::new(&mut self.marked), &self.record, &cuts);
        debug_assert!(written.is_ok(), "there is room for each mark");
    }

    /// Takes the replies that are whole in `bytes`: how many bytes those are, and how many the next one needs at least.
    fn take(&self, stream: &mut Stream, bytes: &[u8], answers: &mut Answers<'_>) -> Result<(usize, usize), Kind> {
        let mut at = 0;
        loop {
            match stream.records.next(&bytes[at..]).map_err(|_| Kind::Mismatch)? {
                Step::Record(range) => {
                    self.judge(&stream.numbers, &bytes[at..][range.clone()], answers)?;
                    at += range.end;
                }
                Step::Join { fragment, is_last } => {
                    stream.joined.extend(&bytes[at..][fragment.clone()]);
                    at += fragment.end;
                    if is_last {
                        let reply = std::mem::take(&mut stream.joined);
                        self.judge(&stream.numbers, &reply, answers)?;
                    }
                }
                Step::More { missing, .. } => return Ok((at, bytes.len() - at + missing)),
            }
        }
    }

    fn judge(&self, numbers: &Numbers, reply: &[u8], answers: &mut Answers<'_>) -> Result<(), Kind> {
        match self.message.read(numbers, reply) {
            Said::Answered(number) => answers.numbered(number),
            Said::Failed(number, kind) => answers.refused(number, kind),
            Said::Nonsense => Err(Kind::Mismatch),
        }
    }

    fn limits(&self) -> RecordLimits {
        let bytes = self.message.reply_bytes() as u32 + REPLY_SPARE;
        RecordLimits { bytes, fragments: bytes }
    }
}

impl Workload for RpcStream {
    type Connection = Stream;

    fn connection(&mut self, number: u64) -> Stream {
        Stream {
            numbers: Numbers::new(number, 0),
            records: Records::new(self.limits()),
            joined: Vec::new(),
            held: Vec::new(),
            gone: 0,
            is_leaving: false,
        }
    }

    fn request(&mut self, stream: &mut Stream, first: u64, count: usize, output: &mut Output) -> usize {
        let (end, held) = (first + count as u64, stream.held.len());
        stream.numbers.made = first;
        while stream.numbers.made < end && self.write(stream, stream.numbers.made, output) {
            stream.numbers.made += 1;
        }
        self.go_on(stream, output);
        if !stream.is_leaving && !stream.held.is_empty() {
            // There was no memory for the next piece. Nobody would come back to these, where the call is another connection's: they are asked for again.
            stream.held.truncate(held);
            stream.numbers.made = first;
        }
        (stream.numbers.made - first) as usize
    }

    fn go_on(&mut self, stream: &mut Stream, output: &mut Output) {
        let Split::Bytes(bytes) = self.split else { return };
        stream.is_leaving &= !output.is_empty();
        let piece = &stream.held[stream.gone..];
        let piece = &piece[..piece.len().min(bytes as usize)];
        if stream.is_leaving || piece.is_empty() || output.write(piece).is_err() {
            return;
        }
        stream.gone += piece.len();
        stream.is_leaving = true;
        output.notify_drained();
        if stream.gone == stream.held.len() {
            stream.held.clear();
            stream.gone = 0;
        }
    }

    fn receive(&mut self, stream: &mut Stream, input: &mut Input, answers: &mut Answers<'_>) -> Result<(), Kind> {
        while !input.is_empty() {
            let (taken, next) = self.take(stream, input.first(), answers)?;
            input.skip(taken);
            // A reply that straddles is joined once it is there; if the lane has no memory for that, this is called again when it has.
            if next > input.len() || input.contiguous(next).is_none() {
                return Ok(());
            }
        }
        Ok(())
    }
}

fn last_mark(bytes: usize) -> [u8; MARK] {
    // A call is far shorter than a fragment may be.
    mark(bytes, true).unwrap_or_default()
}

/// Where a record of `bytes` is cut into `count` fragments: behind its first byte, before its last one, and evenly between.
fn cuts(bytes: usize, count: usize) -> Vec<usize> {
    let count = count.clamp(1, bytes);
    let (inner, parts) = (bytes.saturating_sub(2), count.saturating_sub(2).max(1));
    let even = (0..=parts).map(|part| 1 + inner * part / parts);
    even.take(count - 1).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_cut_behind_the_first_byte_before_the_last_and_evenly_between() {
        assert_eq!(cuts(40, 1), [0; 0]);
        assert_eq!(cuts(40, 2), [1]);
        assert_eq!(cuts(40, 3), [1, 39]);
        assert_eq!(cuts(40, 4), [1, 20, 39]);
        assert_eq!(cuts(5, 9), [1, 2, 3, 4]);
        for count in 1..=40 {
            let cuts = cuts(40, count);
            assert!(cuts.len() == count - 1 && cuts.is_sorted_by(|a, b| a < b), "{count}: {cuts:?}");
        }
    }
}
