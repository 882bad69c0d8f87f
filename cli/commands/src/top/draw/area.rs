//! The room that there is.

/// A terminal, or a part of it, in columns and lines.
#[derive(Clone, Copy)]
pub struct Area {
    pub width: usize,
    pub rows: usize,
}
