//! What a file knows of a span.

use crate::catalogue::read_owners;
use crate::disk::Disk;
use crate::error::Error;
use crate::layout::{Span, has_head};
use crate::name::{Kind, Name};
use crate::notes::{self, Note};
use crate::row::{Cell, Row};

/// A series over a span.
#[derive(Clone, Debug)]
pub struct Curve {
    /// Of whom, and what.
    pub name: Name,
    /// Of counters, all values are of each second.
    pub kind: Kind,
    /// The average of each step; what is unknown is no number.
    pub average: Vec<f32>,
    /// The most of any interval in each step; what is unknown is no number.
    pub most: Vec<f32>,
}

/// A span.
#[derive(Clone, Debug)]
pub struct View {
    /// Which.
    pub span: Span,
    /// The first second of the first step, since 1970.
    pub from: u64,
    /// Steps.
    pub rows: usize,
    /// Each series of which something is known in it, by name.
    pub curves: Vec<Curve>,
    /// What was changed in it, the oldest first.
    pub notes: Vec<Note>,
}

/// What a file knows of the span that ends now, in seconds since 1970. Another process may write to the file meanwhile: a step that is written just then may be
/// missing.
///
/// # Errors
/// It is another's, or the system's.
pub fn view(disk: &impl Disk, span: Span, now: u64) -> Result<View, Error> {
    if !has_head(disk)? {
        return Err(Error::NotOurs);
    }
    let rows = span.rows() as usize;
    let from = span.begin(now).saturating_sub((span.rows() - 1) * span.step());
    let unknown = || vec![f32::NAN; rows];
    let mut curves: Vec<Option<Curve>> = Vec::new();
    let (owners, _) = read_owners(disk)?;
    for index in 0..rows {
        let Some(row) = Row::read(disk, span, from + index as u64 * span.step())? else { continue };
        curves.resize(curves.len().max(row.cells.len()), None);
        for ((cell, curve), owner) in row.cells.iter().zip(&mut curves).zip(&owners) {
            let Some(owner) = owner.as_ref().filter(|owner| cell.is_known() && row.at >= span.begin(owner.born)) else {
                continue;
            };
            let Cell { average, most } = *cell;
            let curve = curve.get_or_insert_with(|| {
                let (name, kind) = (owner.series.name.clone(), owner.series.kind);
                Curve { name, kind, average: unknown(), most: unknown() }
            });
            (curve.average[index], curve.most[index]) = (average, most);
        }
    }
    let mut curves: Vec<Curve> = curves.into_iter().flatten().collect();
    curves.sort_by(|one, other| (&one.name, one.kind).cmp(&(&other.name, other.kind)));
    let mut notes = notes::read(disk)?;
    notes.retain(|(_, note)| note.at >= from && note.at <= now);
    notes.sort_by_key(|(number, note)| (note.at, *number));
    Ok(View { span, from, rows, curves, notes: notes.into_iter().map(|(_, note)| note).collect() })
}

/// The last second of the last step of which anything is known; none if nothing is.
///
/// # Errors
/// It is another's, or the system's.
pub fn last_known(disk: &impl Disk) -> Result<Option<u64>, Error> {
    if !has_head(disk)? {
        return Err(Error::NotOurs);
    }
    Ok(Row::last(disk)?.map(|at| at + Span::Day.step() - 1))
}
