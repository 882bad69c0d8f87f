//! A step of a span: what was known of each series in it.

use crate::disk::Disk;
use crate::layout::{CELL_BYTES, ROW_HEAD_BYTES, SERIES_MAX, Span, is_whole, seal, u32_of, u64_of};
use std::io;

/// Of one series in one step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cell {
    /// The average; of counters, of each second.
    pub average: f32,
    /// The most of any interval between two readings.
    pub most: f32,
}

impl Cell {
    /// Nothing is known.
    pub const UNKNOWN: Self = Self { average: f32::NAN, most: f32::NAN };

    /// Whether something is known, and could have been counted.
    pub fn is_known(self) -> bool {
        self.average.is_finite() && self.most.is_finite() && self.average >= 0.0 && self.most >= 0.0
    }
}

/// A step.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Its first second, since 1970.
    pub at: u64,
    /// Seconds of it that are known.
    pub seconds: f32,
    /// Of each column.
    pub cells: Vec<Cell>,
}

/// The most seconds that a row may say it knows: an interval counts where it ends.
pub fn seconds_max(span: Span) -> f32 {
    2.0 * span.step() as f32
}

/// The last second that milliseconds can count.
const AT_MAX: u64 = u64::MAX / 1000;

impl Row {
    /// The row of the step that begins then; none if it was never written, or torn.
    pub fn read(disk: &impl Disk, span: Span, at: u64) -> io::Result<Option<Self>> {
        let place = at / span.step() % span.rows();
        // Somebody may write it just now: then it is whole the next time.
        let row = match Self::read_place(disk, span, place)? {
            None => Self::read_place(disk, span, place)?,
            row => row,
        };
        Ok(row.filter(|row| row.at == at))
    }

    /// Whatever row is at this place of the ring.
    pub fn read_place(disk: &impl Disk, span: Span, place: u64) -> io::Result<Option<Self>> {
        let offset = span.row_at(place);
        let mut bytes = vec![0; ROW_HEAD_BYTES];
        disk.read_at(offset, &mut bytes)?;
        let (at, columns) = (u64_of(&bytes, 8), u32_of(&bytes, 20) as usize);
        if columns > SERIES_MAX || at > AT_MAX || at % span.step() != 0 || at / span.step() % span.rows() != place {
            return Ok(None);
        }
        bytes.resize(ROW_HEAD_BYTES + columns * CELL_BYTES, 0);
        disk.read_at(offset + ROW_HEAD_BYTES as u64, &mut bytes[ROW_HEAD_BYTES..])?;
        let seconds = f32::from_bits(u32_of(&bytes, 16));
        let could_be = seconds > 0.0 && seconds <= seconds_max(span);
        if !could_be || !is_whole(&bytes, offset) {
            return Ok(None);
        }
        let cell = |raw: &[u8]| {
            let cell = Cell { average: f32::from_bits(u32_of(raw, 0)), most: f32::from_bits(u32_of(raw, 4)) };
            if cell.is_known() { cell } else { Cell::UNKNOWN }
        };
        let cells = bytes[ROW_HEAD_BYTES..].chunks_exact(CELL_BYTES).map(cell).collect();
        Ok(Some(Self { at, seconds, cells }))
    }

    /// When the last step of a day begins that is there.
    pub fn last(disk: &impl Disk) -> io::Result<Option<u64>> {
        let mut last = None;
        for place in 0..Span::Day.rows() {
            last = last.max(Self::read_place(disk, Span::Day, place)?.map(|row| row.at));
        }
        Ok(last)
    }

    /// Puts it into its place.
    pub fn write(&self, disk: &mut impl Disk, span: Span) -> io::Result<()> {
        assert!(self.cells.len() <= SERIES_MAX && self.at.is_multiple_of(span.step()), "a row fits into its place");
        let offset = span.row_at(self.at / span.step() % span.rows());
        let mut bytes = vec![0; ROW_HEAD_BYTES];
        bytes[8..16].copy_from_slice(&self.at.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.seconds.min(seconds_max(span)).to_le_bytes());
        bytes[20..24].copy_from_slice(&(self.cells.len() as u32).to_le_bytes());
        for cell in &self.cells {
            bytes.extend(cell.average.to_le_bytes());
            bytes.extend(cell.most.to_le_bytes());
        }
        seal(&mut bytes, offset);
        disk.write_at(offset, &bytes)
    }
}
