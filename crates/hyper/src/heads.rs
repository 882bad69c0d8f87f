//! Heads that have not come whole wait in the lane's memory, for which their client pays; hyper gets them when they are, or when it is to refuse them.
//!
//! hyper's own buffers are the process's, and nobody's. A client that begins a head and does not end it would hold up to 400 KiB there.

/// Bytes of a head of HTTP/1 with which hyper refuses it (431), and the most that it buffers of a connection.
pub(crate) const HEAD_BYTES_MAX: usize = 64 << 10;
/// Bytes of such a head that hyper gets as they come: its buffer has that size before anything comes.
const FIRST_BYTES: usize = 8 << 10;

/// Bytes of an HTTP/2 frame's head (RFC 9113 section 4.1): its length, its kind, flags, and stream.
const FRAME_HEAD_BYTES: usize = 9;
/// The longest frame that is taken (SETTINGS_MAX_FRAME_SIZE, section 6.5.2).
const FRAME_BYTES_MAX: usize = 16 << 10;
/// Frames of one head that h2 takes: one more ends the connection.
const FRAMES_MAX: usize = 7;
/// How a client begins (section 3.4).
const PREFACE_BYTES: usize = 24;
const HEADERS: u8 = 1;
const CONTINUATION: u8 = 9;
const END_HEADERS: u8 = 4;

/// Whether the bytes in the input may be handed over, or more are waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// So many bytes may be.
    Pass(usize),
    /// None before the input has so many.
    Await(usize),
}

/// Heads of HTTP/1, one behind the other.
#[derive(Debug, Default)]
pub(crate) struct TextHeads {
    /// Bytes of the head under way that were handed over.
    passed: usize,
    /// Those behind them that were looked through.
    looked: usize,
    /// It is more than empty lines.
    has_begun: bool,
    /// How far the end of a line, and an empty one behind it, have come.
    ends: Ends,
}

/// The kind of the last bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Ends {
    #[default]
    Nothing,
    /// The end of a line.
    Line,
    /// That, and a carriage return.
    Return,
    /// An empty line behind another one.
    All,
}

impl Ends {
    fn and(self, byte: u8) -> Self {
        match (self, byte) {
            (Self::All, _) => Self::All,
            (Self::Line | Self::Return, b'\n') => Self::All,
            (_, b'\n') => Self::Line,
            (Self::Line, b'\r') => Self::Return,
            _ => Self::Nothing,
        }
    }
}

impl TextHeads {
    /// Looks at what lies there while no request is in hand: so all of it is the next one's head, and what follows that.
    pub fn look<'a>(&mut self, pieces: impl Iterator<Item = &'a [u8]> + Clone) -> Look {
        let bytes: usize = pieces.clone().map(<[u8]>::len).sum();
        let first = FIRST_BYTES.saturating_sub(self.passed);
        if bytes <= first {
            return Look::Pass(bytes);
        }
        let end = self.find_end(pieces);
        let is_too_long = self.passed + bytes >= HEAD_BYTES_MAX;
        match end {
            Some(end) => Look::Pass(end.max(first)),
            None if is_too_long => Look::Pass(bytes),
            None if first > 0 => Look::Pass(first),
            None => Look::Await(bytes + 1),
        }
    }

    /// Where the head ends, if that has come.
    fn find_end<'a>(&mut self, pieces: impl Iterator<Item = &'a [u8]>) -> Option<usize> {
        let mut before = 0;
        for piece in pieces {
            let seen = self.looked.saturating_sub(before).min(piece.len());
            for byte in &piece[seen..] {
                if self.ends == Ends::All {
                    return Some(self.looked);
                }
                self.see(*byte);
                self.looked += 1;
            }
            before += piece.len();
        }
        (self.ends == Ends::All).then_some(self.looked)
    }

    /// The next byte is this one.
    fn see(&mut self, byte: u8) {
        self.has_begun |= !matches!(byte, b'\r' | b'\n');
        self.ends = if self.has_begun { self.ends.and(byte) } else { Ends::Nothing };
    }

    /// These were handed over, of what lay there.
    pub fn pass(&mut self, bytes: &[u8]) {
        self.passed += bytes.len();
        let known = self.looked.min(bytes.len());
        self.looked -= known;
        let unseen = &bytes[known..];
        self.has_begun |= unseen.iter().any(|byte| !matches!(byte, b'\r' | b'\n'));
        if self.looked == 0 {
            // Bytes that went unseen decide by the last of them. An end that went is hyper's, and what comes behind it without a request begins anew.
            let last = &unseen[unseen.len().saturating_sub(3)..];
            let ends = last.iter().fold(self.ends, |ends, byte| ends.and(*byte));
            self.ends = if ends == Ends::All { Ends::Line } else { ends };
        }
    }

    /// A request is in hand, or was: the next head has not begun.
    pub fn begin_anew(&mut self) {
        *self = Self::default();
    }
}

/// Frames of HTTP/2, of which those of a head go together.
#[derive(Debug)]
pub(crate) struct FramedHeads {
    /// Bytes of a frame that are still to come and may be handed over.
    left: usize,
}

impl FramedHeads {
    pub fn new() -> Self {
        Self { left: PREFACE_BYTES }
    }

    /// Looks at what lies there. Bytes that may be handed over are, before this is called again.
    pub fn look<'a>(&mut self, pieces: impl Iterator<Item = &'a [u8]> + Clone) -> Look {
        let bytes: usize = pieces.clone().map(<[u8]>::len).sum();
        let mut at = self.left;
        while at < bytes {
            let end = match frame_at(pieces.clone(), at) {
                None => Err(at + FRAME_HEAD_BYTES),
                Some(Frame { kind: HEADERS, .. }) => head_end(pieces.clone(), at, bytes),
                Some(Frame { length, .. }) => Ok(at + FRAME_HEAD_BYTES + length),
            };
            match end {
                Ok(end) => at = end,
                Err(wanted) if at == 0 => return Look::Await(wanted),
                Err(_) => {
                    self.left = 0;
                    return Look::Pass(at);
                }
            }
        }
        self.left = at - bytes;
        Look::Pass(bytes)
    }
}

/// A frame's head.
struct Frame {
    length: usize,
    kind: u8,
    flags: u8,
}

/// The one that begins at `at`; none if it has not come whole.
fn frame_at<'a>(pieces: impl Iterator<Item = &'a [u8]>, at: usize) -> Option<Frame> {
    let mut head = [0; FRAME_HEAD_BYTES];
    let (mut skip, mut come) = (at, 0);
    for piece in pieces {
        let there = &piece[skip.min(piece.len())..];
        skip -= skip.min(piece.len());
        let taken = there.len().min(FRAME_HEAD_BYTES - come);
        head[come..come + taken].copy_from_slice(&there[..taken]);
        come += taken;
        if come == FRAME_HEAD_BYTES {
            let [high, middle, low, kind, flags, ..] = head;
            return Some(Frame { length: u32::from_be_bytes([0, high, middle, low]) as usize, kind, flags });
        }
    }
    None
}

/// Where the head ends that begins at `at`, or how many bytes there must be before that is known. One that h2 refuses anyway ends where that shows.
fn head_end<'a>(pieces: impl Iterator<Item = &'a [u8]> + Clone, at: usize, bytes: usize) -> Result<usize, usize> {
    let mut end = at;
    for number in 0..FRAMES_MAX {
        let Some(Frame { length, kind, flags }) = frame_at(pieces.clone(), end) else { return Err(end + FRAME_HEAD_BYTES) };
        let goes_on = number == 0 || kind == CONTINUATION;
        if !goes_on || length > FRAME_BYTES_MAX {
            return Ok(bytes);
        }
        end += FRAME_HEAD_BYTES + length;
        if end > bytes {
            return Err(end);
        }
        if flags & END_HEADERS != 0 {
            break;
        }
    }
    Ok(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(length: usize, kind: u8, flags: u8) -> Vec<u8> {
        [&(length as u32).to_be_bytes()[1..], &[kind, flags, 0, 0, 0, 1], &vec![7; length]].concat()
    }

    /// The bytes handed over as these come in pieces of this size: after which byte how many were.
    fn passed(said: &[u8], piece: usize, mut look: impl FnMut(&[&[u8]]) -> Look) -> Vec<(usize, usize)> {
        let (mut gone, mut all) = (0, Vec::new());
        for come in (0..said.len()).step_by(piece).map(|at| (at + piece).min(said.len())) {
            while gone < come {
                let there: Vec<&[u8]> = said[gone..come].chunks(3).collect();
                match look(&there) {
                    Look::Pass(bytes) => {
                        assert!(bytes > 0 && bytes <= come - gone);
                        gone += bytes;
                        all.push((come, gone));
                    }
                    Look::Await(wanted) => {
                        assert!(wanted > come - gone, "more is waited for than there is");
                        break;
                    }
                }
            }
        }
        all
    }

    #[test]
    fn a_head_in_frames_is_handed_over_whole_and_all_else_as_it_comes() {
        let block = [frame(300, HEADERS, 0), frame(0, CONTINUATION, 0), frame(50, CONTINUATION, END_HEADERS)].concat();
        let ping = frame(8, 6, 0);
        let said = [&[1; PREFACE_BYTES][..], &ping, &block, &frame(400, 0, 0), &ping, &frame(20, HEADERS, END_HEADERS)].concat();
        let begins = PREFACE_BYTES + ping.len();
        let ends = begins + block.len();
        for piece in [1, 7, 100, said.len()] {
            let mut heads = FramedHeads::new();
            let passed = passed(&said, piece, |there| heads.look(there.iter().copied()));
            assert_eq!(passed.last().unwrap().1, said.len(), "all is handed over in the end");
            for (come, gone) in passed {
                assert!(gone <= begins || come >= ends, "in pieces of {piece}: {gone} of {come}");
            }
        }
    }

    #[test]
    fn what_h2_refuses_is_handed_over_for_that() {
        let endless: Vec<u8> =
            [frame(10, HEADERS, 0)].into_iter().chain((0..20).map(|_| frame(10, CONTINUATION, 0))).flatten().collect();
        let broken = [frame(10, HEADERS, 0), frame(8, 6, 0)].concat();
        let long = [&(1_u32 << 20).to_be_bytes()[1..], &[HEADERS, 0, 0, 0, 0, 1, 1, 2, 3]].concat();
        for (said, most) in [(endless, FRAMES_MAX * 19), (broken.clone(), broken.len()), (long, 12)] {
            let mut heads = FramedHeads { left: 0 };
            let held = passed(&said, 1, |there| heads.look(there.iter().copied()));
            assert!(held.first().is_some_and(|(come, _)| *come <= most), "{held:?}");
        }
    }

    fn text(said: &[u8], piece: usize) -> Vec<(usize, usize)> {
        let (mut heads, mut gone) = (TextHeads::default(), 0);
        passed(said, piece, |there| {
            let look = heads.look(there.iter().copied());
            if let Look::Pass(bytes) = look {
                heads.pass(&said[gone..gone + bytes]);
                gone += bytes;
            }
            look
        })
    }

    #[test]
    fn of_a_long_head_the_rest_is_handed_over_with_its_end() {
        for (before, end) in [("", "\r\n\r\n"), ("\r\n\r\n", "\r\n\r\n"), ("\n", "\n\n"), ("", "\n\r\n")] {
            let head = format!("{before}GET / HTTP/1.1\r\nA: {}{end}", "a".repeat(30_000));
            let said = format!("{head}POST");
            for piece in [1, 5, 4_096, 8_193, said.len()] {
                let passed = text(said.as_bytes(), piece);
                assert!(passed.last().unwrap().1 >= head.len(), "in pieces of {piece}: {passed:?}");
                for (come, gone) in passed {
                    assert!(gone <= FIRST_BYTES || come >= head.len(), "in pieces of {piece}: {gone} of {come}");
                }
            }
        }
        let short = b"GET / HTTP/1.1\r\nA: b\r\n";
        assert_eq!(text(short, 4).len(), short.len().div_ceil(4), "a short one as it comes");
    }

    #[test]
    fn a_head_that_is_too_long_is_handed_over_to_be_refused() {
        for said in [vec![b'a'; HEAD_BYTES_MAX], b"\r\n".repeat(HEAD_BYTES_MAX / 2)] {
            let all = text(&said, 1_000);
            assert!(all.iter().all(|(come, gone)| *gone <= FIRST_BYTES || *come == HEAD_BYTES_MAX), "{all:?}");
        }
    }

    #[test]
    fn an_end_is_found_where_its_first_bytes_went_before() {
        for before in 0..6 {
            let mut said = vec![b'a'; FIRST_BYTES - before];
            said.extend(b"\r\n\r\n");
            said.extend(vec![b'b'; 2_000]);
            let ends = FIRST_BYTES - before + 4;
            let all = text(&said, 1);
            assert_eq!(all.last().unwrap().1, ends.max(FIRST_BYTES), "{before} bytes before");
        }
    }
}
