//! How much of what is said in HTTP/2 is content (RFC 9113 section 4.1): PING and the like are said for their own sake, and keep nothing open.

/// Bytes of a frame's head: its length, its kind, flags, and stream.
const HEAD_BYTES: usize = 9;
/// The kind of a frame with content (section 6.1).
const DATA: u8 = 0;
/// Bytes with which a client begins (section 3.4).
const PREFACE_BYTES: usize = 24;

/// One direction of a connection, frame by frame.
#[derive(Debug)]
pub(crate) struct Frames {
    head: [u8; HEAD_BYTES],
    /// Bytes of the head that have come.
    come: usize,
    /// Bytes that are left of what is under way, and whether they are content.
    left: usize,
    is_content: bool,
}

impl Frames {
    pub fn of_client() -> Self {
        Self { left: PREFACE_BYTES, ..Self::of_server() }
    }

    pub fn of_server() -> Self {
        Self { head: [0; HEAD_BYTES], come: 0, left: 0, is_content: false }
    }

    /// Takes the next bytes; returns how many of them are content.
    pub fn content(&mut self, mut bytes: &[u8]) -> usize {
        let mut content = 0;
        while !bytes.is_empty() {
            let taken = match self.left {
                0 => self.take_head(bytes),
                left => {
                    let taken = left.min(bytes.len());
                    self.left -= taken;
                    content += if self.is_content { taken } else { 0 };
                    taken
                }
            };
            bytes = &bytes[taken..];
        }
        content
    }

    fn take_head(&mut self, bytes: &[u8]) -> usize {
        let taken = (HEAD_BYTES - self.come).min(bytes.len());
        self.head[self.come..self.come + taken].copy_from_slice(&bytes[..taken]);
        self.come += taken;
        if self.come == HEAD_BYTES {
            let [high, middle, low, kind, ..] = self.head;
            self.left = u32::from_be_bytes([0, high, middle, low]) as usize;
            (self.is_content, self.come) = (kind == DATA, 0);
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_is_told_from_the_rest_however_it_comes() {
        let ping = [&[0, 0, 8, 6, 0, 0, 0, 0, 0][..], &[7; 8]].concat();
        let data = [&[0, 1, 4, 0, 1, 0, 0, 0, 1][..], &[7; 260]].concat();
        let nothing = [0, 0, 0, 0, 1, 0, 0, 0, 3];
        let said = [&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], &ping, &data, &nothing, &ping, &data].concat();
        for piece in [1, 2, 9, 25, 300, said.len()] {
            let mut frames = Frames::of_client();
            let content: usize = said.chunks(piece).map(|bytes| frames.content(bytes)).sum();
            assert_eq!((content, frames.left, frames.come), (520, 0, 0), "in pieces of {piece}");
        }
    }
}
