//! Which change is tried next.

/// One change: a dimension, and whether it goes the way that is looked at second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Move {
    pub(super) dimension: usize,
    pub(super) is_second: bool,
    /// How far.
    pub(super) steps: usize,
}

/// Each dimension's two ways, the first dimension's first. A way that did not help is closed until something else did.
#[derive(Clone, Debug)]
pub(super) struct Moves {
    /// By dimension and way: at which best it was closed.
    closed: Vec<[u32; 2]>,
    /// Whether it was closed because it harmed.
    harmed: Vec<[bool; 2]>,
    /// The best settings are so many improvements away from the start, and one.
    best: u32,
    /// The way that is being gone: twice the dimension, and the way.
    at: usize,
    steps: usize,
}

impl Moves {
    pub(super) fn new(dimensions: usize) -> Self {
        Self { closed: vec![[0; 2]; dimensions], harmed: vec![[false; 2]; dimensions], best: 1, at: 0, steps: 1 }
    }

    /// What is to be tried: the way that is being gone, or the first open one; nothing where all are closed.
    pub(super) fn current(&mut self) -> Option<Move> {
        if !self.is_open(self.at) {
            self.at = (0..2 * self.closed.len()).find(|at| self.is_open(*at))?;
            self.steps = 1;
        }
        Some(Move { dimension: self.at / 2, is_second: self.at % 2 == 1, steps: self.steps })
    }

    fn is_open(&self, at: usize) -> bool {
        self.closed.get(at / 2).is_some_and(|ways| ways[at % 2] != self.best)
    }

    /// It helped: the same again, and not the way back.
    pub(super) fn helped(&mut self) {
        self.best += 1;
        self.steps = 1;
        self.closed[self.at / 2][1 - self.at % 2] = self.best;
        self.harmed[self.at / 2][1 - self.at % 2] = true;
    }

    /// It did not help. Where it did not harm either, one further may.
    pub(super) fn did_not_help(&mut self, harmed: bool) {
        if self.steps == 1 && !harmed {
            self.steps = 2;
        } else {
            self.closed[self.at / 2][self.at % 2] = self.best;
            self.harmed[self.at / 2][self.at % 2] = harmed;
        }
    }

    /// What neither helped nor harmed is open again.
    pub(super) fn open_again(&mut self) {
        for (closed, harmed) in self.closed.iter_mut().flatten().zip(self.harmed.iter().flatten()) {
            if !harmed {
                *closed = 0;
            }
        }
        self.at = 0;
        self.steps = 1;
    }

    /// Takes up a way, unless it is closed.
    pub(super) fn prefer(&mut self, dimension: usize, is_second: bool) {
        let at = 2 * dimension + usize::from(is_second);
        if self.at != at && self.is_open(at) {
            (self.at, self.steps) = (at, 1);
        }
    }
}
