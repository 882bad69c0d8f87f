//! The echo service behind TLS, by rustls: `tls CERTIFICATES KEY`, both PEM. It says first by which name and protocol it was asked for. The service knows
//! nothing of TLS; what stands between it and the socket is [`Tls`].
use corelane::service::{Chain, Learned, PASS_BYTES, Passage, Progress, Segment, Side, Transform, TransformError};
use corelane::{Cx, Input, Lanes, Next, Output, Peer, Silent, StreamService};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};
use rustls::server::{NoServerSessionStorage, ServerConnection};
use rustls::{Error, ServerConfig};
use std::io::{self, Read, Write};
use std::sync::Arc;

/// Bytes of a record before its payload (RFC 8446, section 5.1).
const HEAD: usize = 5;
/// The most bytes of a record's payload (RFC 5246, section 6.2.3).
const PAYLOAD_MAX: usize = (16 << 10) + 2048;
/// Bytes of memory that are sent from at a time.
const WIRE_BYTES: usize = 16 << 10;
/// Bytes of the service in a record, which then fits into that.
const PART_MAX: usize = WIRE_BYTES - 256;

/// Says by which name and protocol it was asked for, then what it is told.
pub struct Echo;

impl StreamService for Echo {
    type Talk = Silent;
    /// What it says first, as long as it has not.
    type Session = Option<String>;

    fn open(&mut self, _cx: &mut Cx, peer: &Peer) -> Option<String> {
        let learned = peer.learned.as_deref()?;
        let protocol = learned.protocol.as_deref().map(String::from_utf8_lossy);
        let name = learned.server_name.as_deref().unwrap_or("nobody");
        Some(format!("{name} by {}\n", protocol.as_deref().unwrap_or("no protocol")))
    }

    fn receive(&mut self, _cx: &mut Cx, greeting: &mut Option<String>, input: &mut Input, output: &mut Output) -> Next {
        if let Some(text) = greeting.take()
            && output.write(text.as_bytes()).is_err()
        {
            return Next::Abort;
        }
        output.forward(input.take_all());
        Next::Continue
    }
}

/// A server's TLS on one connection.
pub struct Tls {
    rustls: ServerConnection,
    /// Bytes for the service that rustls holds, a record's at the most.
    readable: usize,
    is_open: bool,
    input_is_over: bool,
}

impl Tls {
    /// TLS as configured, for a connection that was accepted.
    pub fn new(config: Arc<ServerConfig>) -> Result<Self, Error> {
        let rustls = ServerConnection::new(config)?;
        Ok(Self { rustls, readable: 0, is_open: false, input_is_over: false })
    }

    /// Opens records for the service, in a handshake one; true if it has done its share.
    fn receive(&mut self, passage: &mut Passage<'_>) -> Result<bool, TransformError> {
        let mut taken = 0;
        while taken < PASS_BYTES && self.hand_over(passage) {
            let Some(bytes) = record_bytes(passage.received).filter(|_| !self.input_is_over) else { return Ok(false) };
            let ends = self.open_record(passage.received, bytes).map_err(|error| self.refuse(&error, passage))?;
            if ends {
                assert_eq!(self.readable, 0, "close_notify is a record of its own");
                self.input_is_over = true;
                passage.end_input();
            }
            if !self.is_open {
                return Ok(true);
            }
            taken += bytes;
        }
        Ok(taken >= PASS_BYTES)
    }

    /// Has rustls open the record at the front; true if that is the peer's close_notify.
    fn open_record(&mut self, received: &mut Chain, bytes: usize) -> Result<bool, Error> {
        let mut record = Front { chain: received, bytes };
        while record.bytes > 0 {
            self.rustls.read_tls(&mut record).map_err(|error| Error::General(error.to_string()))?;
            let state = self.rustls.process_new_packets()?;
            self.readable = state.plaintext_bytes_to_read();
            if state.peer_has_closed() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Gives the service what rustls has opened; false if there is no memory for it.
    fn hand_over(&mut self, passage: &mut Passage<'_>) -> bool {
        if self.readable > 0 {
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
            // reason: what is not in memory is a part of a file, and this service sends none.
            let bytes = passage.output.front().and_then(Segment::bytes).expect("a service behind TLS reads its files itself");
            let written = self.rustls.writer().write(&bytes[..bytes.len().min(PART_MAX)]);
            let written = written.map_err(|error| TransformError(error.to_string()))?;
            assert!(written > 0, "rustls holds nothing else, so it takes a record");
            passage.output.skip(written);
            sent += written;
        }
        Ok(false)
    }

    /// Gives the peer what rustls has made; false if there is no memory for all of it.
    fn say(&mut self, passage: &mut Passage<'_>) -> bool {
        while self.rustls.wants_write() {
            let Some(mut lease) = passage.arena.lease(WIRE_BYTES) else { return false };
            // reason: memory takes what fits.
            let said = self.rustls.write_tls(&mut lease.spare()).expect("memory can be written");
            lease.advance(said);
            passage.wire.push(lease.share());
        }
        true
    }

    /// The handshake is over: says what it was told.
    fn open(&mut self, passage: &mut Passage<'_>) {
        let mut learned = Learned::default();
        learned.server_name = self.rustls.server_name().map(String::from);
        learned.protocol = self.rustls.alpn_protocol().map(Vec::from);
        let certificates = self.rustls.peer_certificates().unwrap_or_default();
        learned.certificates = certificates.iter().map(|certificate| certificate.to_vec()).collect();
        passage.peer.learned = Some(Arc::new(learned));
        passage.open();
        self.is_open = true;
    }

    /// Tells the peer in an alert what is wrong with it, if there is memory for that.
    fn refuse(&mut self, error: &Error, passage: &mut Passage<'_>) -> TransformError {
        self.say(passage);
        TransformError(error.to_string())
    }
}

impl Transform for Tls {
    fn pass(&mut self, passage: &mut Passage<'_>) -> Result<Progress, TransformError> {
        let reads_on = self.receive(passage)?;
        if !self.is_open && !self.rustls.is_handshaking() {
            self.open(passage);
        }
        let writes_on = self.send(passage)?;
        if passage.finishing && passage.output.is_empty() {
            self.rustls.send_close_notify(); // the second time it does nothing
            self.say(passage);
        }
        Ok(if reads_on || writes_on { Progress::More } else { Progress::Idle })
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

/// How long the record at the front is, if it is whole. What begins none is shown to rustls as it is, which knows the alert for it.
fn record_bytes(received: &Chain) -> Option<usize> {
    let mut head = [0; HEAD];
    if received.copy_to(&mut head) < HEAD {
        return None;
    }
    let payload = usize::from(u16::from_be_bytes([head[3], head[4]]));
    let is_record = (20..=24).contains(&head[0]) && head[1] == 3 && payload <= PAYLOAD_MAX;
    let bytes = if is_record { HEAD + payload } else { HEAD };
    (received.len() >= bytes).then_some(bytes)
}

/// A server that shows these certificates and speaks `echo/1`. It resumes no session: lanes would have to share them.
pub fn config(certificates: Vec<CertificateDer<'static>>, key: PrivateKeyDer<'static>) -> Result<ServerConfig, Error> {
    let mut config = ServerConfig::builder().with_no_client_auth().with_single_cert(certificates, key)?;
    config.alpn_protocols = vec![b"echo/1".to_vec()];
    config.session_storage = Arc::new(NoServerSessionStorage {});
    Ok(config)
}

/// What makes TLS for each connection of a lane, which has a configuration of its own: lanes share no count.
pub fn behind(config: &ServerConfig) -> impl FnMut(Side, &Peer) -> Option<Box<dyn Transform>> + use<> {
    let config = Arc::new(config.clone());
    // reason: it fails only for a configuration without room for a record, and that has the usual room.
    move |_side, _peer| Some(Box::new(Tls::new(config.clone()).expect("a configuration that was built serves")))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args_os().skip(1);
    let (Some(certificates), Some(key)) = (arguments.next(), arguments.next()) else {
        return Err("usage: tls CERTIFICATES KEY (PEM files)".into());
    };
    let certificates = CertificateDer::pem_file_iter(certificates)?.collect::<Result<_, _>>()?;
    let config = config(certificates, PrivateKeyDer::from_pem_file(key)?)?;
    Lanes::per_core().serve("tcp://127.0.0.1:60443", |_lane| Echo)?.transform(move |_lane| behind(&config))?.run()?;
    Ok(())
}
