//! What is sent of a file: its content, and the field lines about it, put together once.

use super::media::{is_compressible, media, own_coding};
use super::open_file::OpenFile;
use corelane::service::{FileFacts, Shared};
use corelane_wire::http1::{Coding, Date, Tag, Validators};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;
use twox_hash::XxHash3_128;

/// Where the bytes of a file are.
pub(super) enum Content {
    /// In the lane's memory.
    Memory(Shared),
    /// In the file.
    File(Rc<OpenFile>),
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
    /// Other bytes may have the same tag.
    is_weak: bool,
    modified: Option<Date>,
    /// The second behind that in which the system last saw it change.
    changed: Date,
    /// The file was found to be another one since.
    is_outdated: Cell<bool>,
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
        let (tag, is_weak) = tag(coding, &facts, &content, now);
        // One that lies ahead would keep clients from asking again (RFC 9110 section 8.8.2.1).
        let seconds = facts.modified.min(now).as_secs();
        let date = |seconds: u64| Date::from_unix_seconds(seconds.try_into().unwrap_or(i64::MAX));
        let modified = (seconds > 0).then(|| date(seconds));
        let changed = date(facts.changed().as_secs() + 1);
        let weak = if is_weak { "W/" } else { "" };
        let mut lines = format!("ETag: {weak}\"{tag}\"\r\n").into_bytes();
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
        Self {
            facts,
            content,
            media,
            has_codings,
            tag,
            is_weak,
            modified,
            changed,
            is_outdated: Cell::new(false),
            opened: now,
            lines,
            lines_of_304,
            lines_without_type,
        }
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
        let is_modified_strong = self.facts.modified.max(self.facts.changed()) + STRONG_AGE < now;
        let tag = Some(Tag { is_weak: self.is_weak, opaque: self.tag.as_bytes() });
        Validators { tag, modified: self.modified, changed: Some(self.changed), is_modified_strong }
    }

    /// Whether what is sent of it next may go out under its tag, if the file has so many bytes and this date now: a weak one promises no state. Where it may not, this is outdated from now on.
    pub fn keeps_its_word(&self, length: u64, modified: Duration) -> bool {
        let is_same = (length, modified) == (self.facts.length, self.facts.modified);
        self.is_outdated.set(self.is_outdated.get() || !is_same);
        is_same || self.is_weak
    }

    /// Its file as it is open, if `facts` are of the same one, in whatever state.
    pub fn open_file(&self, facts: &FileFacts) -> Option<Rc<OpenFile>> {
        match &self.content {
            Content::File(open) if self.facts.are_of(facts) => Some(open.clone()),
            _ => None,
        }
    }

    /// Whether the file was found to be another one since.
    pub fn is_outdated(&self) -> bool {
        self.is_outdated.get()
    }

    /// Whether this, which is `plain` in a coding, was made of another state of it: it bears an older date. Some programs give it that of `plain` to the second.
    pub fn is_older_than(&self, plain: &Self) -> bool {
        let (own, of_plain) = (self.facts.modified, plain.facts.modified);
        if own.subsec_nanos() == 0 { own.as_secs() < of_plain.as_secs() } else { own < of_plain }
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

/// What tells a state of a file from all others, the same on each server that has the file, and whether it is weak (RFC 9110 section 8.8.1).
///
/// Bytes in memory are named by their hash, which tells them from all that nobody has made to have the same. A file that is not read has its length and date. No other state has these if
/// the date is the system's own (nobody has set it, or the file would have changed after it) and lies back so far that the file is not being written; else they are weak.
fn tag(coding: Coding, facts: &FileFacts, content: &Content, now: Duration) -> (String, bool) {
    let coding = if coding == Coding::Identity { String::new() } else { format!("-{}", coding.name()) };
    let of_bytes = |bytes: &[u8]| (format!("{:032x}{coding}", XxHash3_128::oneshot(bytes)), false);
    match content {
        Content::Memory(bytes) => of_bytes(bytes),
        Content::Empty => of_bytes(&[]),
        Content::File(..) => {
            let is_known = facts.modified == facts.changed() && facts.changed() + QUIET < now;
            (format!("{:x}-{:x}{coding}", facts.length, facts.modified.as_nanos()), !is_known)
        }
    }
}

/// A file that has not changed for so long is not being written: its state is promised while it is sent.
const QUIET: Duration = Duration::from_secs(60);

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
impl Entity {
    /// One that lies in its file.
    pub fn of_open(facts: FileFacts, open: Rc<OpenFile>, now: Duration) -> Self {
        Self::new("a", Coding::Identity, facts, Content::File(open), now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corelane::service::File;
    use std::cell::RefCell;

    /// Of a file that is not read.
    fn unread(facts: FileFacts, now: Duration) -> Entity {
        let all = Rc::new(RefCell::new(corelane::service::Shares::new(1)));
        let open = OpenFile::new(File::new(0, 0), None, &all);
        Entity::of_open(facts, Rc::new(open), now)
    }

    #[test]
    fn lines_are_put_together_once() {
        let facts = FileFacts::of_file(0, Duration::new(784_111_777, 5)).numbered(1, 255);
        let entity = Entity::new("a/x.css", Coding::Brotli, facts, Content::Empty, Duration::from_secs(1 << 40));
        let text = |lines: &[u8]| String::from_utf8(lines.to_vec()).unwrap();
        let validators = "ETag: \"99aa06d3014798d86001c324468d497f-br\"\r\nLast-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\nVary: Accept-Encoding\r\n";
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

    /// Two servers of one tree have copies: other files at other times, of the same bytes and dates.
    #[test]
    fn what_is_not_read_is_named_by_length_and_date_and_strongly_where_these_say_all() {
        let (then, now) = (Duration::new(1_000, 7), Duration::from_secs(1_000_000));
        let facts = FileFacts::of_file(300_000, then).numbered(1, 2);
        let tag = |facts, now| {
            let entity = unread(facts, now);
            (entity.tag.clone(), entity.is_weak)
        };
        let (strong, is_weak) = tag(facts, now);
        assert_eq!((strong.as_str(), is_weak), ("493e0-e8d4a51007", false));
        // Somebody has set the date of the copy, so it might be that of other bytes.
        assert_eq!(tag(facts.numbered(3, 4).changed_at(then * 2), now), (strong.clone(), true));
        assert_eq!(tag(facts, then + QUIET), (strong.clone(), true), "it may be written to just now");
        assert_eq!(tag(facts, then + QUIET + Duration::from_nanos(1)), (strong.clone(), false));
        for other in [FileFacts::of_file(300_001, then), FileFacts::of_file(300_000, then + Duration::from_nanos(1))] {
            assert_ne!(tag(other, now).0, strong);
        }
        let (quiet, busy) = (unread(facts, now), unread(facts, then));
        assert!(quiet.keeps_its_word(300_000, then) && !quiet.is_outdated());
        assert!(!quiet.keeps_its_word(300_001, then) && quiet.is_outdated(), "it has grown: what it is now it did not promise");
        assert!(busy.keeps_its_word(300_001, then * 2) && busy.is_outdated(), "it promised no state");
    }

    #[test]
    fn what_was_compressed_before_the_last_change_is_older() {
        let of = |seconds, nanoseconds| unread(FileFacts::of_file(1, Duration::new(seconds, nanoseconds)), Duration::ZERO);
        for (coded, plain, is_older) in [
            ((10, 5), (10, 5), false),
            ((10, 5), (10, 6), true),
            ((10, 0), (10, 6), false),
            ((9, 0), (10, 0), true),
            ((11, 0), (10, 9), false),
        ] {
            assert_eq!(of(coded.0, coded.1).is_older_than(&of(plain.0, plain.1)), is_older, "{coded:?} {plain:?}");
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
