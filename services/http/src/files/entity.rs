//! What is sent of a file: its content, and the field lines about it, put together once.

use super::media::{is_compressible, media, own_coding};
use corelane::service::{File, FileFacts, Shared};
use corelane_wire::http1::{Coding, Date, Tag, Validators};
use std::time::Duration;

/// Where the bytes of a file are.
pub(super) enum Content {
    /// In the lane's memory.
    Memory(Shared),
    /// In the file.
    File(File),
    /// It has none.
    Empty,
}

/// A file as it was when it was opened.
pub(super) struct Entity {
    pub facts: FileFacts,
    pub content: Content,
    /// What it is, for each part of an answer with several.
    pub media: String,
    /// Whether there may be others beside it that are compressed.
    pub has_codings: bool,
    /// What stands between the quotes of its tag.
    tag: String,
    modified: Option<Date>,
    /// Time since 1970 when it was opened.
    opened: Duration,
    /// Field lines, with their line ends; those of 304 (Not Modified) first, and Content-Type last.
    lines: Vec<u8>,
    lines_of_304: usize,
    lines_without_type: usize,
}

impl Entity {
    /// Of a file with this name, whose bytes are in this coding. `now`: since 1970.
    pub fn new(name: &str, coding: Coding, facts: FileFacts, content: Content, now: Duration) -> Self {
        let media = media(name);
        let own = own_coding(name);
        let coding = if coding == Coding::Identity { own.unwrap_or(coding) } else { coding };
        let has_codings = own.is_none() && is_compressible(&media);
        let tag = tag(&facts);
        // One that lies ahead would keep clients from asking again (RFC 9110 section 8.8.2.1).
        let seconds = facts.modified.min(now).as_secs();
        let modified = (seconds > 0).then(|| Date::from_unix_seconds(seconds.try_into().unwrap_or(i64::MAX)));
        let mut lines = format!("ETag: \"{tag}\"\r\n").into_bytes();
        if let Some(modified) = modified {
            push(&mut lines, "Last-Modified", &modified.text());
        }
        if has_codings {
            push(&mut lines, "Vary", b"Accept-Encoding");
        }
        let lines_of_304 = lines.len();
        push(&mut lines, "Accept-Ranges", b"bytes");
        if coding != Coding::Identity {
            push(&mut lines, "Content-Encoding", coding.name().as_bytes());
        }
        let lines_without_type = lines.len();
        push(&mut lines, "Content-Type", media.as_bytes());
        Self { facts, content, media, has_codings, tag, modified, opened: now, lines, lines_of_304, lines_without_type }
    }

    /// Bytes of its content.
    pub fn length(&self) -> u64 {
        self.facts.length
    }

    /// All field lines.
    pub fn lines(&self) -> &[u8] {
        &self.lines
    }

    /// Those of an answer that says that the client's copy is good (RFC 9110 section 15.4.5).
    pub fn lines_of_304(&self) -> &[u8] {
        &self.lines[..self.lines_of_304]
    }

    /// Those of an answer with several parts, which has a type of its own.
    pub fn lines_without_type(&self) -> &[u8] {
        &self.lines[..self.lines_without_type]
    }

    /// What tells it from other states of the file. `now`: since 1970.
    pub fn validators(&self, now: Duration) -> Validators<'_> {
        let is_modified_strong = self.facts.modified + STRONG_AGE < now;
        let tag = Some(Tag { is_weak: false, opaque: self.tag.as_bytes() });
        Validators { tag, modified: self.modified, is_modified_strong }
    }

    /// Whether a file that is `facts` now is what it was, so that its content is. One that had just changed when it was opened may have changed again since
    /// with the same date: file systems note that by a clock with ticks. Its own date says nothing of that, which its owner may set.
    pub fn is_still(&self, facts: &FileFacts) -> bool {
        self.facts == *facts && facts.changed() + tick(facts.changed()) < self.opened
    }

    /// Bytes of memory that it keeps in use.
    pub fn charge(&self) -> usize {
        let content = if let Content::Memory(shared) = &self.content { shared.charged() } else { 0 };
        size_of::<Self>() + content + self.lines.len() + self.tag.len() + self.media.len()
    }
}

/// What tells a state of a file from all others: which file it is, its length, and when the system has last seen it change, which nobody can set.
fn tag(facts: &FileFacts) -> String {
    format!("{:x}-{:x}-{:x}-{:x}", facts.device, facts.number, facts.length, facts.changed().as_nanos())
}

/// After so long no other change can bear the same date, to the second (RFC 9110 section 8.8.2.2).
const STRONG_AGE: Duration = Duration::from_secs(2);

/// How long another change may bear the same date: file systems that write down whole seconds, or every other one (FAT, sshfs, old ext4), are known by that.
fn tick(changed: Duration) -> Duration {
    if changed.subsec_nanos() == 0 { STRONG_AGE } else { TICK }
}

/// No clock of a file system that notes fractions of seconds has longer ticks.
const TICK: Duration = Duration::from_millis(20);

fn push(lines: &mut Vec<u8>, name: &str, value: &[u8]) {
    for part in [name.as_bytes(), b": ", value, b"\r\n"] {
        lines.extend_from_slice(part);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_put_together_once() {
        let facts = FileFacts::of_file(26, Duration::new(784_111_777, 5)).numbered(1, 255);
        let entity = Entity::new("a/x.css", Coding::Brotli, facts, Content::Empty, Duration::from_secs(1 << 40));
        let text = |lines: &[u8]| String::from_utf8(lines.to_vec()).unwrap();
        let validators =
            "ETag: \"1-ff-1a-ae1b981bc490a05\"\r\nLast-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\nVary: Accept-Encoding\r\n";
        assert_eq!(text(entity.lines_of_304()), validators);
        let without_type = format!("{validators}Accept-Ranges: bytes\r\nContent-Encoding: br\r\n");
        assert_eq!(text(entity.lines_without_type()), without_type);
        assert_eq!(text(entity.lines()), format!("{without_type}Content-Type: text/css\r\n"));
    }

    /// An image that is compressed under its own name is told as such, and nothing lies beside it that could be chosen.
    #[test]
    fn a_compressed_image_says_its_coding() {
        let facts = FileFacts::of_file(26, Duration::ZERO);
        let lines = |name| Entity::new(name, Coding::Identity, facts, Content::Empty, Duration::from_secs(1)).lines;
        let [compressed, plain] = ["x.SVGZ", "x.svg"].map(|name| String::from_utf8(lines(name)).unwrap());
        assert!(compressed.contains("Content-Encoding: gzip\r\nContent-Type: image/svg+xml\r\n") && !compressed.contains("Vary"));
        assert!(plain.contains("Vary: Accept-Encoding\r\n") && !plain.contains("Content-Encoding"));
    }

    #[test]
    fn states_differ_in_each_that_nobody_can_set() {
        let (then, now) = (Duration::from_secs(1_000), Duration::from_secs(1_000_000));
        let facts = FileFacts::of_file(5, then).numbered(1, 2).changed_at(then);
        let entity = |facts| Entity::new("a", Coding::Identity, facts, Content::Empty, now);
        let others = [
            facts.numbered(3, 2),
            facts.numbered(1, 3),
            facts.changed_at(then * 2),
            FileFacts::of_file(6, then).numbered(1, 2).changed_at(then),
        ];
        for other in others {
            assert_ne!(entity(facts).tag, entity(other).tag);
            assert!(!entity(facts).is_still(&other));
        }
        assert!(entity(facts).is_still(&facts));
        let set_back = facts.changed_at(now - Duration::from_millis(5));
        assert!(!entity(set_back).is_still(&set_back), "it may change again in the same tick, and bear the same old date");
        // Where whole seconds are noted, or every other one, the same date may be borne for as long.
        for (seconds, is_settled) in [(1, false), (2, false), (3, true)] {
            let coarse = facts.changed_at(now - Duration::from_secs(seconds));
            assert_eq!(entity(coarse).is_still(&coarse), is_settled, "{seconds} seconds after a date without a fraction");
        }
    }

    #[test]
    fn a_date_that_lies_ahead_is_not_told() {
        let now = Duration::from_secs(784_111_777);
        let of = |modified| {
            let facts = FileFacts::of_file(0, modified);
            Entity::new("x.png", Coding::Identity, facts, Content::Empty, now)
        };
        let modified = |entity: &Entity| entity.validators(now).modified.map(Date::unix_seconds);
        assert_eq!(modified(&of(now * 2)), Some(784_111_777));
        assert_eq!(modified(&of(Duration::ZERO)), None);
        assert!(!of(now).validators(now).is_modified_strong && of(now / 2).validators(now).is_modified_strong);
        assert!(!String::from_utf8_lossy(of(now).lines()).contains("Vary"));
    }
}
