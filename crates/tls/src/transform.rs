//! rustls between a socket and a service.

use crate::words;
use corelane::service::{Chain, Learned, PASS_BYTES, Passage, Progress, Segment, Transform, TransformError};
use rustls::{Connection, Error, HandshakeKind};
use std::io::{self, Read, Write};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

/// Bytes of a record before its payload (RFC 8446, section 5.1).
const HEAD: usize = 5;
/// The bytes with which a record may begin (RFC 8446, section 5.1).
const RECORDS: RangeInclusive<u8> = 20..=24;
/// The most bytes of a record's payload (RFC 5246, section 6.2.3).
const PAYLOAD_MAX: usize = (16 << 10) + 2048;
/// Bytes of the service in a record, which then fits into 16 KiB of memory.
const PART_MAX: usize = (16 << 10) - SEAL_BYTES;
/// The most that sealing adds to a record: its head, a nonce, its type and a tag (RFC 8446 section 5.2, RFC 5288). An alert is no longer.
const SEAL_BYTES: usize = 64;
/// The bytes that a step of a handshake is thought to say.
const STEP_BYTES: usize = 4 << 10;
/// The least that is asked for where that is not lent: what is sealed leaves in pieces then.
const PIECE_BYTES: usize = 1 << 10;

/// The answer, in plain, to who speaks in plain; given the time since 1970.
pub type PlainAnswer = fn(Duration) -> Vec<u8>;

/// One side's TLS on one connection.
pub struct Tls {
    rustls: Connection,
    plain_answer: Option<PlainAnswer>,
    /// The name that a client asks for.
    asks_for: Option<String>,
    /// What is said in plain before all else.
    preface: Vec<u8>,
    /// Bytes for the service that rustls holds, a record's at the most.
    readable: usize,
    /// About how many bytes rustls holds for the peer once it does. Where it holds more, more memory is asked for.
    unsaid: usize,
    phase: Phase,
    input_is_over: bool,
    /// The first byte began no record.
    is_spoken_to_in_plain: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Nothing has come.
    New,
    Handshake,
    Open,
}

impl Tls {
    /// TLS by what rustls was configured for: a [`ServerConnection`](rustls::ServerConnection) for who was accepted, a
    /// [`ClientConnection`](rustls::ClientConnection) for who was connected to. Neither may bound what rustls buffers to less than a record.
    pub fn new(rustls: Connection) -> Self {
        Self {
            rustls,
            plain_answer: None,
            asks_for: None,
            preface: Vec::new(),
            readable: 0,
            unsaid: STEP_BYTES,
            phase: Phase::New,
            input_is_over: false,
            is_spoken_to_in_plain: false,
        }
    }

    /// Sets the answer, in plain, to who begins with a letter: no message of TLS does.
    pub(crate) fn plain_answer(self, answer: Option<PlainAnswer>) -> Self {
        Self { plain_answer: answer, ..self }
    }

    /// The name by which a client asks for the server.
    pub(crate) fn asks_for(self, name: String) -> Self {
        Self { asks_for: Some(name), ..self }
    }

    /// Sets what is said in plain before all else.
    pub(crate) fn preface(self, preface: Vec<u8>) -> Self {
        Self { preface, ..self }
    }

    /// Whether the handshake is over.
    pub(crate) fn is_open(&self) -> bool {
        self.phase == Phase::Open
    }

    /// Whether the handshake is over, and rustls holds nothing for either side.
    pub(crate) fn rests(&self) -> bool {
        self.is_open() && self.readable == 0 && !self.rustls.wants_write()
    }

    /// Opens records for the service, in a handshake one; true if it has done its share.
    fn receive(&mut self, passage: &mut Passage<'_>) -> Result<bool, TransformError> {
        self.look_at_first(passage)?;
        let mut taken = 0;
        while taken < PASS_BYTES && self.hand_over(passage) {
            let Some(bytes) = record_bytes(passage.received).filter(|_| !self.input_is_over) else { return Ok(false) };
            let ends = self.open_record(passage.received, bytes).map_err(|error| self.refuse(&error, passage))?;
            if ends {
                assert_eq!(self.readable, 0, "close_notify is a record of its own");
                self.input_is_over = true;
                passage.end_input();
            }
            if self.phase != Phase::Open {
                return Ok(true);
            }
            taken += bytes;
        }
        Ok(taken >= PASS_BYTES)
    }

    /// Answers who speaks in plain.
    fn look_at_first(&mut self, passage: &mut Passage<'_>) -> Result<(), TransformError> {
        let mut first = [0];
        if self.phase != Phase::New || passage.received.copy_to(&mut first) == 0 {
            return Ok(());
        }
        self.phase = Phase::Handshake;
        self.is_spoken_to_in_plain = !RECORDS.contains(&first[0]);
        match self.plain_answer.take() {
            Some(answer) if first[0].is_ascii_alphabetic() => {
                let answer = answer(passage.time_of_day);
                // Without memory for it the connection ends without an answer.
                if let Some(mut lease) = passage.arena.lease(answer.len()) {
                    lease.append(&answer);
                    passage.wire.push(lease.share());
                }
                Err(self.told_in_plain())
            }
            _ => Ok(()),
        }
    }

    /// Has rustls open the record at the front; true if that is the peer's close_notify.
    fn open_record(&mut self, received: &mut Chain, bytes: usize) -> Result<bool, Error> {
        let mut record = Front { chain: received, bytes };
        while record.bytes > 0 {
            self.rustls.read_tls(&mut record).map_err(|error| Error::General(error.to_string()))?;
            let state = self.rustls.process_new_packets()?;
            self.readable = state.plaintext_bytes_to_read();
            assert!(self.readable <= PAYLOAD_MAX, "a record is opened when the one before was handed over");
            if state.peer_has_closed() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Gives the service what rustls has opened; false if there is no memory for it.
    fn hand_over(&mut self, passage: &mut Passage<'_>) -> bool {
        if self.readable > 0 {
            assert!(self.phase == Phase::Open, "nothing is handed over before the peer is known");
            let Some(mut lease) = passage.arena.lease(self.readable) else { return false };
            let bytes = &mut lease.spare()[..self.readable];
            // reason: rustls has said that it holds so many.
            self.rustls.reader().read_exact(bytes).expect("what was opened can be read");
            lease.advance(self.readable);
            passage.input.push(lease.share());
            self.readable = 0;
        }
        true
    }

    /// Makes records of the service's bytes; true if it has done its share.
    fn send(&mut self, passage: &mut Passage<'_>) -> Result<bool, TransformError> {
        let mut sent = 0;
        while self.say(passage) && !passage.output.is_empty() {
            if sent >= PASS_BYTES {
                return Ok(true);
            }
            // reason: parts of files are read before they come here.
            let bytes = passage.output.front().and_then(Segment::bytes).expect("what is to be sealed is in memory");
            let written = self.rustls.writer().write(&bytes[..bytes.len().min(PART_MAX)]);
            let written = written.map_err(|error| TransformError(error.to_string()))?;
            assert!(written > 0, "rustls holds nothing else, so it takes a record");
            passage.output.skip(written);
            self.unsaid = written + SEAL_BYTES;
            sent += written;
        }
        Ok(false)
    }

    /// Gives the peer what rustls has made; false if there is no memory for all of it.
    fn say(&mut self, passage: &mut Passage<'_>) -> bool {
        if !self.preface.is_empty() {
            let Some(mut lease) = passage.arena.lease(self.preface.len()) else { return false };
            lease.append(&std::mem::take(&mut self.preface));
            passage.wire.push(lease.share());
        }
        while self.rustls.wants_write() {
            let Some(mut lease) = passage.arena.lease_upto(self.unsaid, PIECE_BYTES) else { return false };
            // reason: memory takes what fits.
            let said = self.rustls.write_tls(&mut lease.spare()).expect("memory can be written");
            assert!(said > 0, "who wants to write does: else this would go on for ever");
            lease.advance(said);
            passage.wire.push(lease.share());
            self.unsaid = STEP_BYTES;
        }
        true
    }

    /// Says the last word: that our side ends here. A word for which it is refused memory is said in a later call.
    fn take_leave(&mut self, passage: &mut Passage<'_>) {
        if !self.rustls.wants_write() {
            self.unsaid = SEAL_BYTES;
        }
        self.rustls.send_close_notify(); // the second time it does nothing
        self.say(passage);
    }

    /// The handshake is over: says what it was told.
    fn open(&mut self, passage: &mut Passage<'_>) {
        assert!(
            self.phase != Phase::Open && !self.rustls.is_handshaking(),
            "a connection opens once, when its handshake is over"
        );
        assert!(self.readable == 0, "the record that ends the handshake brings nothing for the service");
        let mut learned = Learned::default();
        learned.server_name = match &self.rustls {
            Connection::Server(server) => server.server_name().map(String::from),
            Connection::Client(_) => self.asks_for.take(),
        };
        learned.resumed = self.rustls.handshake_kind() == Some(HandshakeKind::Resumed);
        learned.protocol = self.rustls.alpn_protocol().map(Vec::from);
        let certificates = self.rustls.peer_certificates().unwrap_or_default();
        learned.certificates = certificates.iter().map(|certificate| certificate.to_vec()).collect();
        passage.peer.learned = Some(Arc::new(learned));
        passage.open();
        self.phase = Phase::Open;
    }

    /// Tells the peer in an alert what is wrong with it, if there is memory for that.
    fn refuse(&mut self, error: &Error, passage: &mut Passage<'_>) -> TransformError {
        self.say(passage);
        if self.is_spoken_to_in_plain { self.told_in_plain() } else { TransformError(words::said(error, self.them())) }
    }

    fn told_in_plain(&self) -> TransformError {
        TransformError(format!("{} speaks in plain, and TLS is spoken here", self.them()))
    }

    /// The other end, in words.
    fn them(&self) -> &'static str {
        match self.rustls {
            Connection::Client(_) => "the server",
            Connection::Server(_) => "the client",
        }
    }
}

impl Transform for Tls {
    fn pass(&mut self, passage: &mut Passage<'_>) -> Result<Progress, TransformError> {
        let reads_on = self.receive(passage)?;
        if self.phase != Phase::Open && !self.rustls.is_handshaking() {
            self.open(passage);
        }
        let writes_on = self.send(passage)?;
        if passage.finishing && passage.output.is_empty() {
            self.take_leave(passage);
        }
        Ok(if reads_on || writes_on { Progress::More } else { Progress::Idle })
    }

    /// rustls keeps nothing that is a lane's, so it goes as it is.
    fn pack(self: Box<Self>) -> Result<Box<dyn Transform + Send>, Box<dyn Transform>> {
        if self.rests() { Ok(self) } else { Err(self) }
    }
}

/// The first bytes of a chain, to be read.
struct Front<'a> {
    chain: &'a mut Chain,
    bytes: usize,
}

impl Read for Front<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let most = to.len().min(self.bytes);
        let copied = self.chain.copy_to(&mut to[..most]);
        self.chain.skip(copied);
        self.bytes -= copied;
        Ok(copied)
    }
}

/// How long the record at the front is, if it is whole. Bytes that begin none are shown to rustls as they are, which knows the alert for them.
fn record_bytes(received: &Chain) -> Option<usize> {
    let mut head = [0; HEAD];
    if received.copy_to(&mut head) < HEAD {
        return None;
    }
    let payload = usize::from(u16::from_be_bytes([head[3], head[4]]));
    let is_record = RECORDS.contains(&head[0]) && head[1] == 3 && payload <= PAYLOAD_MAX;
    let bytes = if is_record { HEAD + payload } else { HEAD };
    (received.len() >= bytes).then_some(bytes)
}
