//! What lies where in the file, and how each part is sealed. All numbers are little-endian.

use crate::disk::Disk;
use crate::error::Error;
use twox_hash::XxHash64;

/// The version of the file that this program makes and reads.
pub const VERSION: u32 = 1;

/// Series that a file holds.
pub const SERIES_MAX: usize = 4088;

/// Notes that a file holds; the oldest make room.
pub const NOTES_MAX: usize = 1024;

const MAGIC: [u8; 8] = *b"CLGRAPHS";
const HEAD_BYTES: usize = 64;

/// Where names begin: the head has a page for itself.
pub const NAMES_AT: u64 = 4096;
/// A name of a series with its place.
pub const NAME_BYTES: usize = 256;
const NOTES_AT: u64 = NAMES_AT + (SERIES_MAX * NAME_BYTES) as u64;
/// A note.
pub const NOTE_BYTES: usize = 256;
// The next multiple of a page.
const ROWS_AT: u64 = (NOTES_AT + (NOTES_MAX * NOTE_BYTES) as u64).next_multiple_of(4096);
/// What a row has before its cells.
pub const ROW_HEAD_BYTES: usize = 64;
/// A cell: its average and the most.
pub const CELL_BYTES: usize = 8;
const ROW_BYTES: u64 = (ROW_HEAD_BYTES + SERIES_MAX * CELL_BYTES) as u64;

/// The length of a file, in bytes. It is sparse: what was never written takes no room.
pub const FILE_BYTES: u64 = ROWS_AT + (Span::Day.rows() + Span::Week.rows() + Span::Year.rows()) * ROW_BYTES;

const _: () = assert!(ROW_BYTES.is_multiple_of(4096), "a row begins where a page does");

/// What a graph spans.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Span {
    /// 24 hours in steps of five minutes.
    Day,
    /// Seven days in steps of half an hour.
    Week,
    /// 366 days in steps of a day, which begins at 0:00 UTC.
    Year,
}

impl Span {
    /// All of them, from the finest on.
    pub const ALL: [Self; 3] = [Self::Day, Self::Week, Self::Year];

    /// The length of a step, in seconds.
    #[must_use]
    pub const fn step(self) -> u64 {
        match self {
            Self::Day => 300,
            Self::Week => 1800,
            Self::Year => 86_400,
        }
    }

    /// Steps in the span.
    #[must_use]
    pub const fn rows(self) -> u64 {
        match self {
            Self::Day => 288,
            Self::Week => 336,
            Self::Year => 366,
        }
    }

    /// In a word.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Day => "day",
            Self::Week => "week",
            Self::Year => "year",
        }
    }

    /// The step that a second lies in: its first second.
    pub const fn begin(self, second: u64) -> u64 {
        second - second % self.step()
    }

    /// Where the row at this place of the ring lies.
    pub fn row_at(self, place: u64) -> u64 {
        assert!(place < self.rows(), "a row lies in its ring");
        let before: u64 = Self::ALL.iter().filter(|finer| **finer < self).map(|finer| finer.rows()).sum();
        ROWS_AT + (before + place) * ROW_BYTES
    }
}

/// Where a note lies that is the so manieth.
pub const fn note_at(number: u64) -> u64 {
    NOTES_AT + (number % NOTES_MAX as u64) * NOTE_BYTES as u64
}

/// The head of each file of this version.
fn head() -> [u8; HEAD_BYTES] {
    let mut head = [0; HEAD_BYTES];
    head[8..16].copy_from_slice(&MAGIC);
    let shape = Span::ALL.iter().flat_map(|span| [span.step() as u32, span.rows() as u32]);
    let numbers = [VERSION, SERIES_MAX as u32, NOTES_MAX as u32].into_iter().chain(shape);
    for (number, to) in numbers.zip(head[16..].chunks_exact_mut(4)) {
        to.copy_from_slice(&number.to_le_bytes());
    }
    seal(&mut head, 0);
    head
}

/// Whether the file has a head: false if it is empty, or was torn when it was made.
///
/// # Errors
/// It is another's.
pub fn has_head(disk: &impl Disk) -> Result<bool, Error> {
    let (own, mut found) = (head(), [0; HEAD_BYTES]);
    let bytes = disk.read_at(0, &mut found)?;
    if found[..bytes] == own[..bytes] {
        return Ok(bytes == HEAD_BYTES);
    }
    if bytes < HEAD_BYTES || found[8..16] != MAGIC {
        return Err(Error::NotOurs);
    }
    match u32_of(&found, 16) {
        VERSION => Err(Error::Shape),
        found => Err(Error::Version { found, known: VERSION }),
    }
}

/// Makes the file what it is, if it is new, and as long as it is, if it was cut.
pub fn prepare(disk: &mut impl Disk) -> Result<(), Error> {
    if !has_head(disk)? {
        disk.write_at(0, &head())?;
    }
    Ok(disk.set_len(FILE_BYTES)?)
}

/// Writes the checksum of what follows it into the first eight bytes.
pub fn seal(bytes: &mut [u8], place: u64) {
    let sum = sum(bytes, place);
    bytes[..8].copy_from_slice(&sum.to_le_bytes());
}

/// Whether these bytes were sealed for this place.
pub fn is_whole(bytes: &[u8], place: u64) -> bool {
    u64_of(bytes, 0) == sum(bytes, place)
}

fn sum(bytes: &[u8], place: u64) -> u64 {
    XxHash64::oneshot(place, &bytes[8..])
}

pub fn u64_of(bytes: &[u8], at: usize) -> u64 {
    let mut raw = [0; 8];
    raw.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(raw)
}

pub fn u32_of(bytes: &[u8], at: usize) -> u32 {
    let mut raw = [0; 4];
    raw.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(raw)
}
