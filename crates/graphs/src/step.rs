//! Sums of what was read, or of finer steps, that become a row.

use crate::row::{Cell, Row};

#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    /// Each value times the seconds for which it holds.
    weighed: f64,
    seconds: f64,
    most: f64,
}

/// A step that goes on.
#[derive(Debug)]
pub struct Step {
    /// Its first second.
    pub at: u64,
    seconds: f64,
    sums: Vec<Sum>,
}

impl Step {
    pub const fn new(at: u64) -> Self {
        Self { at, seconds: 0.0, sums: Vec::new() }
    }

    /// So many seconds are known.
    pub fn watched(&mut self, seconds: f64) {
        self.seconds += seconds;
    }

    /// A value held for so many seconds.
    pub fn add(&mut self, column: usize, seconds: f64, average: f64, most: f64) {
        if self.sums.len() <= column {
            self.sums.resize(column + 1, Sum::default());
        }
        let sum = &mut self.sums[column];
        sum.weighed += average * seconds;
        sum.seconds += seconds;
        sum.most = sum.most.max(most);
    }

    /// What a row says is known.
    pub fn add_row(&mut self, row: &Row) {
        let seconds = f64::from(row.seconds);
        self.watched(seconds);
        for (column, cell) in row.cells.iter().enumerate().filter(|(_, cell)| cell.is_known()) {
            self.add(column, seconds, cell.average.into(), cell.most.into());
        }
    }

    /// As it is now; none if nothing is known.
    pub fn row(&self) -> Option<Row> {
        let cell = |sum: &Sum| match sum.seconds > 0.0 {
            true => Cell { average: (sum.weighed / sum.seconds) as f32, most: sum.most as f32 },
            false => Cell::UNKNOWN,
        };
        let cells = self.sums.iter().map(cell).collect();
        (self.seconds > 0.0).then_some(Row { at: self.at, seconds: self.seconds as f32, cells })
    }
}
