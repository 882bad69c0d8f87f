//! Peers that are slow, odd or hostile, byte by byte: each is told in an alert what was wrong (RFC 8446, section 6), and costs no more than its part.

use crate::simulated::calls::Echo;
use crate::simulated::identity::{certificate, server};
use crate::simulated::rig::{Faults, MS, Nobody, Peer, Rig, RigPlan, Status, World, address, patient};
use corelane::admin::watch::ServiceCounter as C;
use corelane::service::{PASS_BYTES, Passage, Progress, Transform, TransformError};
use corelane::{Cx, Input, Next, Output, Silent, StreamService};
use corelane_tls::rustls::client::ClientConnection;
use corelane_tls::rustls::crypto::ring;
use corelane_tls::rustls::{ClientConfig, DEFAULT_VERSIONS, RootCertStore, SupportedProtocolVersion};
use std::cell::RefCell;
use std::io::{Read, Write};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Alerts by their numbers.
const UNEXPECTED_MESSAGE: u8 = 10;
const DECODE_ERROR: u8 = 50;

fn rig(handshakes_max: u32) -> Rig {
    let world = World::new(1, Faults::none());
    let served = server().protocols(&[b"echo/1"]).load().unwrap();
    let limits = patient().handshake_limit(Duration::from_secs(10)).handshakes_max(handshakes_max);
    Rig::new(&world, &RigPlan::lanes(1).memory(2 << 20), |roster| {
        roster.serve_behind(address(), limits, Echo, served.lane());
    })
}

/// Who believes that certificate, by these versions alone.
pub fn configured(versions: &[&'static SupportedProtocolVersion]) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(certificate()).unwrap();
    let builder = ClientConfig::builder_with_details(Arc::new(ring::default_provider()), Arc::new(Then));
    let mut config = builder.with_protocol_versions(versions).unwrap().with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"echo/1".to_vec()];
    Arc::new(config)
}

pub fn client_of(config: &Arc<ClientConfig>) -> ClientConnection {
    ClientConnection::new(config.clone(), "one.test".try_into().unwrap()).unwrap()
}

fn client() -> ClientConnection {
    client_of(&configured(DEFAULT_VERSIONS))
}

/// A day on which the certificate is valid.
#[derive(Debug)]
struct Then;

impl corelane_tls::rustls::time_provider::TimeProvider for Then {
    fn current_time(&self) -> Option<corelane_tls::rustls::pki_types::UnixTime> {
        Some(corelane_tls::rustls::pki_types::UnixTime::since_unix_epoch(Duration::from_secs(1_767_300_000)))
    }
}

/// Says all that rustls has to say, in pieces, and hears what comes.
pub fn exchange(rig: &mut Rig, peer: &Peer, tls: &mut ClientConnection, piece: usize) {
    let mut said = Vec::new();
    tls.write_tls(&mut said).unwrap();
    for part in said.chunks(piece) {
        assert_eq!(peer.send(part), part.len());
        rig.wait(MS / 10);
    }
    rig.wait(MS);
    let heard = peer.read(usize::MAX);
    let mut heard = &heard[..];
    while !heard.is_empty() {
        tls.read_tls(&mut heard).unwrap();
        tls.process_new_packets().unwrap();
    }
}

/// A connection that is open.
pub fn connect(rig: &mut Rig, number: usize) -> Peer {
    let peer = rig.connect(number);
    rig.wait(MS);
    peer
}

/// A connection whose handshake is over.
fn opened(rig: &mut Rig, piece: usize) -> (Peer, ClientConnection) {
    let (peer, mut tls) = (connect(rig, 1), client());
    while tls.is_handshaking() || tls.wants_write() {
        exchange(rig, &peer, &mut tls, piece);
    }
    (peer, tls)
}

/// Everything that is there is read: what `bytes` are answered with, and whether an end follows in order.
fn answer(rig: &mut Rig, bytes: &[u8]) -> (Vec<u8>, Status) {
    let peer = connect(rig, 2);
    assert_eq!(peer.send(bytes), bytes.len());
    rig.wait(5 * MS);
    (peer.read(usize::MAX), peer.status())
}

/// The peer ends the connection as well.
pub fn leave(rig: &mut Rig, peer: &Peer) {
    peer.close();
    rig.wait(5 * MS);
}

fn end(mut rig: Rig) {
    rig.close(&mut Nobody);
}

#[test]
fn who_speaks_byte_by_byte_is_understood() {
    let mut rig = rig(1_000);
    let (peer, mut tls) = opened(&mut rig, 1);
    tls.writer().write_all(b"a word").unwrap();
    exchange(&mut rig, &peer, &mut tls, 1);
    let mut heard = [0; 6];
    tls.reader().read_exact(&mut heard).unwrap();
    assert_eq!(&heard, b"a word");
    tls.send_close_notify();
    exchange(&mut rig, &peer, &mut tls, 1);
    assert!(matches!(tls.reader().read(&mut heard), Ok(0)), "the server takes leave, too");
    leave(&mut rig, &peer);
    assert_eq!((rig.count(C::EndingsEndOfStream), rig.count(C::StreamsCut)), (1, 0));
    end(rig);
}

#[test]
fn who_speaks_no_tls_is_told_in_an_alert() {
    let too_long = [&[22, 3, 1, 0xff, 0xff][..], &[0; 100]].concat();
    // A message of the handshake that would be 16 MiB long, for which rustls has no alert; and one that is no hello.
    let endless = [22, 3, 1, 0, 6, 1, 0xff, 0xff, 0xff, 3, 3];
    let no_hello = [22, 3, 1, 0, 4, 20, 0, 0, 0];
    let data_first = [23, 3, 3, 0, 1, 7];
    for (bytes, alert, words) in [
        (&too_long[..], Some(DECODE_ERROR), "the client has sent a record that is longer than one may be"),
        (&endless, None, "the client has sent what is no message of TLS: HandshakePayloadTooLarge"),
        (&no_hello, Some(UNEXPECTED_MESSAGE), "the client breaks the rules of TLS: "),
        (&data_first, Some(UNEXPECTED_MESSAGE), "the client breaks the rules of TLS: "),
    ] {
        let mut rig = rig(1_000);
        let (said, status) = answer(&mut rig, bytes);
        // An alert (21), fatal (2), of a version that does not matter.
        let told = said.first().map(|kind| (*kind, said[3..].to_vec()));
        assert_eq!(told, alert.map(|alert| (21, vec![0, 2, 2, alert])), "{words}");
        assert_eq!(status, Status::Ended, "{words}");
        let reports = rig.reports.borrow().clone();
        assert!(reports.iter().any(|record| record.text.contains(words)), "{reports:?}");
        assert_eq!(rig.count(C::TransformRefusals), 1);
        end(rig);
    }
}

/// A record behind the handshake that was not sealed by the peer, or is longer than one may be: an alert, which nobody else can read, and an end.
#[test]
fn what_is_put_between_is_refused() {
    for forged in [&[23, 3, 3, 0, 30][..], &[23, 3, 3, 0x48, 1]] {
        let mut rig = rig(1_000);
        let (peer, mut tls) = opened(&mut rig, usize::MAX);
        peer.send(&[forged, &[9; 60]].concat());
        rig.wait(5 * MS);
        let heard = peer.read(usize::MAX);
        let error = tls.read_tls(&mut &heard[..]).map(|_| tls.process_new_packets());
        assert!(matches!(error, Ok(Err(corelane_tls::rustls::Error::AlertReceived(_)))), "{error:?}");
        assert_eq!(peer.status(), Status::Ended);
        leave(&mut rig, &peer);
        assert_eq!((rig.count(C::EndingsAborted), rig.count(C::TransformRefusals)), (1, 1));
        end(rig);
    }
}

/// Who says a part of a hello and no more is left in time, and meanwhile holds little; at the bound of handshakes others get a place after a second.
#[test]
fn hellos_that_never_end_are_bounded_in_number_memory_and_time() {
    let mut rig = rig(20);
    let mut hello = Vec::new();
    client().write_tls(&mut hello).unwrap();
    let slow: Vec<_> = (0..50).map(|number| connect(&mut rig, number)).collect();
    slow.iter().for_each(|peer| assert_eq!(peer.send(&hello[..hello.len() - 1]), hello.len() - 1));
    rig.wait(MS);
    assert_eq!(rig.count(C::HandshakesUnderWay), 20);
    assert!(rig.arenas[0].used() < 20 * (64 << 10), "{} bytes", rig.arenas[0].used());
    // The backlog is worked off as handshakes end that stand still, and one that goes on comes to its end.
    let (peer, mut tls) = (connect(&mut rig, 99), client());
    for _ in 0..20_000 {
        if !tls.is_handshaking() && !tls.wants_write() {
            break;
        }
        exchange(&mut rig, &peer, &mut tls, usize::MAX);
    }
    assert!(!tls.is_handshaking(), "it waits for ever behind those who stand still");
    rig.wait(60_000 * MS);
    assert_eq!((rig.count(C::HandshakesUnderWay), rig.connections()), (0, 1));
    leave(&mut rig, &peer);
    end(rig);
}

/// Bytes that are said at once: many times what one pass is to move.
const FLOOD_BYTES: usize = 8 * PASS_BYTES;
static FLOOD: [u8; FLOOD_BYTES] = [7; FLOOD_BYTES];
/// The most bytes in a record (RFC 8446, section 5.1): a pass ends with the one that reaches its bound.
const RECORD_MAX: usize = 16 << 10;
/// What stands around them, at the most.
const RECORD_MORE: usize = 256;

/// Says a flood to who says anything.
struct Floods;

impl StreamService for Floods {
    type Talk = Silent;
    type Session = ();

    fn open(&mut self, _cx: &mut Cx<'_>, _peer: &corelane::Peer) {}

    fn receive(&mut self, _cx: &mut Cx<'_>, (): &mut (), input: &mut Input, output: &mut Output) -> Next {
        let _ = input.take_all();
        output.push(&FLOOD[..]);
        Next::Continue
    }
}

/// What each call has done.
#[derive(Default)]
struct Shares {
    /// Bytes of the service that it has sealed.
    sealed: Vec<usize>,
    /// Bytes of records that it has opened, and that lay there before.
    opened: Vec<(usize, usize)>,
}

/// TLS, and what each of its calls does.
struct Watched {
    tls: Box<dyn Transform>,
    shares: Rc<RefCell<Shares>>,
    /// Once the handshake is over, it is not called before so many bytes have come.
    hoards: usize,
}

impl Transform for Watched {
    fn pass(&mut self, passage: &mut Passage<'_>) -> Result<Progress, TransformError> {
        let (output, received) = (passage.output.len(), passage.received.len());
        if passage.peer.learned.is_some() && received < self.hoards {
            return Ok(Progress::Idle);
        }
        self.hoards = if passage.peer.learned.is_some() { 0 } else { self.hoards };
        let progress = self.tls.pass(passage)?;
        let left = passage.output.len();
        if left < output {
            assert!(left == 0 || progress == Progress::More, "what is left is not forgotten");
            self.shares.borrow_mut().sealed.push(output - left);
        }
        let opened = received - passage.received.len();
        if opened > 0 {
            let may_be_begun = passage.received.len() < RECORD_MAX + RECORD_MORE;
            assert!(may_be_begun || progress == Progress::More, "what is left is not forgotten");
            self.shares.borrow_mut().opened.push((opened, received));
        }
        Ok(progress)
    }
}

/// Lanes that serve `service` so.
fn watched<S: StreamService<Talk = Silent> + 'static>(service: impl Fn() -> S, hoards: usize) -> (Rig, Rc<RefCell<Shares>>) {
    let world = World::new(1, Faults::none());
    let served = server().protocols(&[b"echo/1"]).load().unwrap();
    let shares = Rc::<RefCell<Shares>>::default();
    let rig = Rig::new(&world, &RigPlan::lanes(1).memory(8 << 20), |roster| {
        let (mut make, shares) = (served.lane(), shares.clone());
        let watched = move |side, peer: &_| {
            let tls = make(side, peer)?;
            Some(Box::new(Watched { tls, shares: shares.clone(), hoards }) as Box<dyn Transform>)
        };
        roster.serve_behind(address(), patient().record_max(FLOOD_BYTES), service(), watched);
    });
    (rig, shares)
}

/// Hears so many bytes of the service.
fn hear(rig: &mut Rig, peer: &Peer, tls: &mut ClientConnection, bytes: usize) {
    let mut heard = 0;
    for _ in 0..1_000 {
        rig.wait(MS);
        let came = peer.read(usize::MAX);
        let mut came = &came[..];
        while !came.is_empty() {
            tls.read_tls(&mut came).unwrap();
            let mut opened = vec![0; tls.process_new_packets().unwrap().plaintext_bytes_to_read()];
            tls.reader().read_exact(&mut opened).unwrap();
            heard += opened.len();
        }
    }
    assert_eq!(heard, bytes);
}

/// A cipher costs the lane's own time: who is told much at once has a share of each turn.
#[test]
fn what_is_said_at_once_is_sealed_in_shares() {
    let (mut rig, shares) = watched(|| Floods, 0);
    let (peer, mut tls) = opened(&mut rig, usize::MAX);
    let mut question = Vec::new();
    tls.writer().write_all(b"?").unwrap();
    tls.write_tls(&mut question).unwrap();
    assert_eq!(peer.send(&question), question.len());
    hear(&mut rig, &peer, &mut tls, FLOOD_BYTES);
    let shares = shares.take().sealed;
    assert_eq!(shares.iter().sum::<usize>(), FLOOD_BYTES);
    assert!(shares.iter().all(|&bytes| bytes < PASS_BYTES + RECORD_MAX), "{shares:?}");
    leave(&mut rig, &peer);
    end(rig);
}

/// Hears what is said, and says nothing.
struct Hears(Rc<RefCell<usize>>);

impl StreamService for Hears {
    type Talk = Silent;
    type Session = ();

    fn open(&mut self, _cx: &mut Cx<'_>, _peer: &corelane::Peer) {}

    fn receive(&mut self, _cx: &mut Cx<'_>, (): &mut (), input: &mut Input, _output: &mut Output) -> Next {
        *self.0.borrow_mut() += input.len();
        input.skip(input.len());
        Next::Continue
    }
}

#[test]
fn what_comes_at_once_is_opened_in_shares() {
    let heard = Rc::<RefCell<usize>>::default();
    let (mut rig, shares) = watched(|| Hears(heard.clone()), FLOOD_BYTES / 2);
    let (peer, mut tls) = opened(&mut rig, usize::MAX);
    let (mut said, mut wire) = (0, Vec::new());
    while said < FLOOD_BYTES || !wire.is_empty() {
        said += tls.writer().write(&FLOOD[said..]).unwrap();
        while tls.wants_write() {
            tls.write_tls(&mut wire).unwrap();
        }
        let sent = peer.send(&wire);
        wire.drain(..sent);
        rig.wait(MS / 10);
    }
    rig.wait(100 * MS);
    assert_eq!(*heard.borrow(), FLOOD_BYTES);
    let shares = shares.take().opened;
    assert!(shares.iter().any(|&(_, there)| there >= FLOOD_BYTES / 2), "much lay there at once: {shares:?}");
    assert!(shares.iter().all(|&(bytes, _)| bytes < PASS_BYTES + RECORD_MAX + RECORD_MORE), "{shares:?}");
    leave(&mut rig, &peer);
    end(rig);
}
