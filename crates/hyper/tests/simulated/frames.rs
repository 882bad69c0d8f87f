//! HTTP/2 by hand (RFC 9113): frames as no client would send them, and those that come.

use corelane::testing::{MS, Peer, Rig};

pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
pub const RST_STREAM: u8 = 3;
pub const SETTINGS: u8 = 4;
pub const PING: u8 = 6;
pub const GOAWAY: u8 = 7;
pub const WINDOW_UPDATE: u8 = 8;
pub const CONTINUATION: u8 = 9;

pub const ACK: u8 = 1;
pub const END_STREAM: u8 = 1;
pub const END_HEADERS: u8 = 4;
pub const PADDED: u8 = 8;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// The head of `GET path` on a stream, and nothing behind it.
pub fn get(stream: u32, path: &str) -> Vec<u8> {
    head(0x82, END_STREAM, stream, path)
}

/// The head of `POST path` on a stream; its content is to come.
pub fn post(stream: u32, path: &str) -> Vec<u8> {
    head(0x83, 0, stream, path)
}

fn head(method: u8, flags: u8, stream: u32, path: &str) -> Vec<u8> {
    // HPACK (RFC 7541, appendix A): the method; http; the path and the authority as they are, not kept.
    let length = u8::try_from(path.len()).unwrap();
    let block = [&[method, 0x86, 0x04, length], path.as_bytes(), &[0x01, 1, b'x']].concat();
    frame(HEADERS, flags | END_HEADERS, stream, &block)
}

/// How a client begins: with these settings.
pub fn beginning(settings: &[(u16, u32)]) -> Vec<u8> {
    let settings: Vec<u8> =
        settings.iter().flat_map(|(name, value)| [name.to_be_bytes().as_slice(), &value.to_be_bytes()].concat()).collect();
    [PREFACE, &frame(SETTINGS, 0, 0, &settings)].concat()
}

/// One frame that has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Came {
    pub kind: u8,
    pub flags: u8,
    pub stream: u32,
    pub payload: Vec<u8>,
}

/// What comes for a peer, frame by frame.
pub struct Frames {
    pub peer: Peer,
    bytes: Vec<u8>,
}

impl Frames {
    /// A client that has begun.
    pub fn begin(rig: &mut Rig, number: usize, settings: &[(u16, u32)]) -> Self {
        let peer = rig.connect(number);
        rig.wait(MS);
        let beginning = beginning(settings);
        assert_eq!(peer.send(&beginning), beginning.len());
        Self { peer, bytes: Vec::new() }
    }

    pub fn say(&self, bytes: &[u8]) {
        assert_eq!(self.peer.send(bytes), bytes.len(), "there is room for little");
    }

    /// All that has come whole some milliseconds from now.
    pub fn hear(&mut self, rig: &mut Rig) -> Vec<Came> {
        rig.wait(5 * MS);
        self.bytes.extend(self.peer.read(usize::MAX));
        let mut came = Vec::new();
        while let Some((head, rest)) = self.bytes.split_first_chunk::<9>() {
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
            let Some(payload) = rest.get(..length) else { break };
            let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
            came.push(Came { kind: head[3], flags: head[4], stream, payload: payload.to_vec() });
            self.bytes.drain(..9 + length);
        }
        came
    }
}

/// Bytes of data on a stream.
pub fn data(came: &[Came], stream: u32) -> Vec<u8> {
    came.iter().filter(|frame| frame.kind == DATA && frame.stream == stream).flat_map(|frame| frame.payload.clone()).collect()
}

pub fn has_ended(came: &[Came], stream: u32) -> bool {
    came.iter().any(|frame| frame.stream == stream && frame.kind <= HEADERS && frame.flags & END_STREAM != 0)
}

/// The last GOAWAY: the last stream that is answered, and why.
pub fn goaway(came: &[Came]) -> Option<(u32, u32)> {
    let frame = came.iter().rfind(|frame| frame.kind == GOAWAY)?;
    let number = |at: usize| u32::from_be_bytes(frame.payload[at..at + 4].try_into().unwrap());
    Some((number(0), number(4)))
}
