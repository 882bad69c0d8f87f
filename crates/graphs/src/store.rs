//! The store: takes readings, and keeps what graphs need.

use crate::catalogue::Catalogue;
use crate::disk::Disk;
use crate::error::Error;
use crate::layout::{self, SERIES_MAX, Span};
use crate::name::{Name, Reading, Series};
use crate::notes::{self, Note};
use crate::row::Row;
use crate::step::Step;
use std::collections::BTreeMap;
use std::io;

/// The longest time between two readings of which something is known, in milliseconds.
pub const HOLE_MILLISECONDS: u64 = 120_000;

/// A file that is written to. Only one process may do so at a time: who opens the file sees to that.
#[derive(Debug)]
pub struct Store<D> {
    disk: D,
    catalogue: Catalogue,
    step: Option<Step>,
    /// What was read of counters last, by column.
    before: Vec<Option<u64>>,
    /// When that was, in milliseconds since 1970.
    last: Option<u64>,
    next_note: u64,
    refused: usize,
}

impl<D: Disk> Store<D> {
    /// Opens a file, or makes it one if it is empty. What a kill has left unfinished is finished.
    ///
    /// # Errors
    /// It is another's, or the system's.
    pub fn open(mut disk: D) -> Result<Self, Error> {
        layout::prepare(&mut disk)?;
        if let Some(last) = Row::last(&disk)? {
            consolidate(&mut disk, last)?;
        }
        let next_note = notes::read(&disk)?.iter().map(|(number, _)| number.saturating_add(1)).max().unwrap_or(0);
        let catalogue = Catalogue::read(&disk)?;
        Ok(Self { disk, catalogue, step: None, before: vec![None; SERIES_MAX], last: None, next_note, refused: 0 })
    }

    /// Takes what was read at this time, in milliseconds since 1970. Of one name, counters are added and the greatest gauge counts.
    ///
    /// # Errors
    /// The system's. The next call goes on.
    pub fn record(&mut self, at: u64, readings: &[(Name, Reading)]) -> io::Result<()> {
        let passed = self.last.and_then(|last| at.checked_sub(last)).filter(|passed| (1..=HOLE_MILLISECONDS).contains(passed));
        let known = self.take(at / 1000, &merged(readings), passed.map(|passed| passed as f64 / 1000.0));
        self.last = Some(at);
        let known = known?;
        let Some(seconds) = passed.map(|passed| passed as f64 / 1000.0) else { return Ok(()) };
        // What happened up to the last moment of a step belongs to it.
        let step = self.step_of(Span::Day.begin((at - 1) / 1000))?;
        step.watched(seconds);
        known.into_iter().for_each(|(column, value)| step.add(column, seconds, value, value));
        let row = step.row();
        row.map_or(Ok(()), |row| row.write(&mut self.disk, Span::Day))
    }

    /// Says that something was changed, at this second since 1970.
    ///
    /// # Errors
    /// The system's; then it is not noted.
    pub fn note(&mut self, at: u64, text: &str) -> io::Result<()> {
        notes::write(&mut self.disk, self.next_note, &Note { at, text: text.to_owned() })?;
        self.next_note = self.next_note.saturating_add(1);
        Ok(())
    }

    /// Series for which there was no room, of those that were read last.
    #[must_use]
    pub const fn refused(&self) -> usize {
        self.refused
    }

    /// Where the bytes lie.
    #[must_use]
    pub const fn disk(&self) -> &D {
        &self.disk
    }

    /// The values of these readings by column, as far as they are known after so many seconds.
    fn take(&mut self, now: u64, readings: &BTreeMap<Series, Reading>, seconds: Option<f64>) -> io::Result<Vec<(usize, f64)>> {
        // Whatever is not read now begins anew when it is back.
        let before = std::mem::replace(&mut self.before, vec![None; SERIES_MAX]);
        let mut known = Vec::new();
        self.refused = 0;
        for (series, reading) in readings {
            let Some(column) = self.catalogue.column(&mut self.disk, series, now)? else {
                self.refused += 1;
                continue;
            };
            let value = match *reading {
                Reading::Counter(count) => {
                    self.before[column] = Some(count);
                    let grown = before[column].and_then(|before| count.checked_sub(before));
                    grown.zip(seconds).map(|(grown, seconds)| grown as f64 / seconds)
                }
                Reading::Gauge(value) => {
                    Some(value).filter(|value| value.is_finite() && *value >= 0.0 && *value <= f32::MAX.into())
                }
            };
            known.extend(value.map(|value| (column, value)));
        }
        Ok(known)
    }

    /// The step that begins then: the one that goes on, or the next, with what the file has of it already.
    fn step_of(&mut self, at: u64) -> io::Result<&mut Step> {
        let ended = self.step.take_if(|step| step.at != at);
        if let Some(ended) = ended {
            consolidate(&mut self.disk, ended.at)?;
        }
        match &mut self.step {
            Some(step) => Ok(step),
            none => {
                let mut step = Step::new(at);
                if let Some(row) = Row::read(&self.disk, Span::Day, at)? {
                    step.add_row(&row);
                }
                Ok(none.insert(step))
            }
        }
    }
}

fn merged(readings: &[(Name, Reading)]) -> BTreeMap<Series, Reading> {
    let mut merged = BTreeMap::new();
    for (name, reading) in readings {
        let series = Series { name: name.clone(), kind: reading.kind() };
        merged.entry(series).and_modify(|sum| *sum = both(*sum, *reading)).or_insert(*reading);
    }
    merged
}

fn both(one: Reading, other: Reading) -> Reading {
    match (one, other) {
        (Reading::Counter(one), Reading::Counter(other)) => Reading::Counter(one.wrapping_add(other)),
        (Reading::Gauge(one), Reading::Gauge(other)) => Reading::Gauge(one.max(other)),
        // reason: a series is of one kind.
        _ => unreachable!("readings of one series are of its kind"),
    }
}

/// Makes the steps of coarser spans in which this second lies, from the finer ones.
fn consolidate(disk: &mut impl Disk, second: u64) -> io::Result<()> {
    for (finer, coarser) in [(Span::Day, Span::Week), (Span::Week, Span::Year)] {
        let mut step = Step::new(coarser.begin(second));
        for part in 0..coarser.step() / finer.step() {
            if let Some(row) = Row::read(disk, finer, step.at + part * finer.step())? {
                step.add_row(&row);
            }
        }
        if let Some(row) = step.row() {
            row.write(disk, coarser)?;
        }
    }
    Ok(())
}
