//! Which series has which column.

use crate::disk::Disk;
use crate::layout::{NAME_BYTES, NAMES_AT, SERIES_MAX, Span};
use crate::name::{Series, decode, encode};
use crate::row::Row;
use std::collections::BTreeMap;
use std::io;

/// A series at its column.
#[derive(Clone, Debug)]
pub struct Owner {
    pub series: Series,
    /// The second in which it got the column: what rows before that say is another's.
    pub born: u64,
}

/// Of each column.
pub type Owners = Vec<Option<Owner>>;

/// Of each series.
pub type Columns = BTreeMap<Series, usize>;

/// All columns.
#[derive(Debug)]
pub struct Catalogue {
    owners: Owners,
    columns: Columns,
    /// The last second in which a column had a value, as far as it is known; 0 if never.
    seen: Vec<u64>,
}

/// The names that a file holds, by column, and the column of each. A file that has one twice was not made by this program: the last counts.
pub fn read_owners(disk: &impl Disk) -> io::Result<(Owners, Columns)> {
    let mut all = vec![0; SERIES_MAX * NAME_BYTES];
    disk.read_at(NAMES_AT, &mut all)?;
    let (mut owners, mut columns) = (vec![None; SERIES_MAX], Columns::new());
    for (column, bytes) in all.chunks_exact(NAME_BYTES).enumerate() {
        let Some((series, born)) = decode(bytes, name_at(column)) else { continue };
        if let Some(before) = columns.insert(series.clone(), column) {
            owners[before] = None;
        }
        owners[column] = Some(Owner { series, born });
    }
    Ok((owners, columns))
}

fn name_at(column: usize) -> u64 {
    NAMES_AT + (column * NAME_BYTES) as u64
}

impl Catalogue {
    pub fn read(disk: &impl Disk) -> io::Result<Self> {
        let (owners, columns) = read_owners(disk)?;
        let mut seen = vec![0; SERIES_MAX];
        for place in 0..Span::Year.rows() {
            let Some(row) = Row::read_place(disk, Span::Year, place)? else { continue };
            for (seen, _) in seen.iter_mut().zip(&row.cells).filter(|(_, cell)| cell.is_known()) {
                *seen = row.at.max(*seen);
            }
        }
        Ok(Self { owners, columns, seen })
    }

    /// The column of a series that is seen now; a new one if it has none. None if there is no room today.
    pub fn column(&mut self, disk: &mut impl Disk, series: &Series, now: u64) -> io::Result<Option<usize>> {
        let column = match self.columns.get(series) {
            Some(&column) if self.owners[column].as_ref().is_some_and(|owner| owner.born <= now) => column,
            // The clock was ahead: what is read from now on is its own as well.
            Some(&column) => {
                self.give(disk, column, series, now)?;
                column
            }
            None => match self.room(now) {
                Some(column) => {
                    self.give(disk, column, series, now)?;
                    column
                }
                None => return Ok(None),
            },
        };
        self.seen[column] = now;
        Ok(Some(column))
    }

    /// A column that nobody has, or that had no value for longest and none today: so no step of today, of any span, has another's value.
    fn room(&mut self, now: u64) -> Option<usize> {
        // The clock may have been wrong.
        self.seen.iter_mut().for_each(|seen| *seen = now.min(*seen));
        let today = Span::Year.begin(now);
        let free = (0..SERIES_MAX).filter(|&column| self.seen[column] < today);
        free.min_by_key(|&column| (self.owners[column].is_some(), self.seen[column]))
    }

    fn give(&mut self, disk: &mut impl Disk, column: usize, series: &Series, now: u64) -> io::Result<()> {
        if let Some(before) = self.owners[column].take() {
            self.columns.remove(&before.series);
        }
        let place = name_at(column);
        disk.write_at(place, &encode(series, now, place))?;
        self.owners[column] = Some(Owner { series: series.clone(), born: now });
        self.columns.insert(series.clone(), column);
        Ok(())
    }
}
