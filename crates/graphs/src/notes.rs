//! What was changed, and when.

use crate::disk::Disk;
use crate::layout::{NOTE_BYTES, NOTES_MAX, is_whole, note_at, seal, u64_of};
use crate::name::cut;
use std::io;

/// The longest text of a note, in bytes; what is longer is cut.
pub const NOTE_BYTES_MAX: usize = 224;

// Checksum 8, number 8, second 8, length 1, then the text.
const TEXT_AT: usize = 25;
const _: () = assert!(TEXT_AT + NOTE_BYTES_MAX <= NOTE_BYTES, "a note fits");

/// A change.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Note {
    /// When, in seconds since 1970.
    pub at: u64,
    /// In words.
    pub text: String,
}

/// Writes the note that is the so manieth.
pub fn write(disk: &mut impl Disk, number: u64, note: &Note) -> io::Result<()> {
    let (place, text) = (note_at(number), cut(&note.text, NOTE_BYTES_MAX));
    let mut bytes = [0; NOTE_BYTES];
    bytes[8..16].copy_from_slice(&number.to_le_bytes());
    bytes[16..24].copy_from_slice(&note.at.to_le_bytes());
    bytes[24] = text.len() as u8;
    bytes[TEXT_AT..][..text.len()].copy_from_slice(text.as_bytes());
    seal(&mut bytes, place);
    disk.write_at(place, &bytes)
}

/// All notes that are whole, each with its number.
pub fn read(disk: &impl Disk) -> io::Result<Vec<(u64, Note)>> {
    let mut all = vec![0; NOTES_MAX * NOTE_BYTES];
    disk.read_at(note_at(0), &mut all)?;
    let places = (0..NOTES_MAX as u64).map(note_at);
    Ok(all.chunks_exact(NOTE_BYTES).zip(places).filter_map(|(bytes, place)| decode(bytes, place)).collect())
}

fn decode(bytes: &[u8], place: u64) -> Option<(u64, Note)> {
    let (number, length) = (u64_of(bytes, 8), usize::from(bytes[24]));
    if !is_whole(bytes, place) || length > NOTE_BYTES_MAX {
        return None;
    }
    let text = std::str::from_utf8(&bytes[TEXT_AT..TEXT_AT + length]).ok()?.to_owned();
    Some((number, Note { at: u64_of(bytes, 16), text }))
}
