//! What can be tuned.

use std::fmt;

/// One thing that can be tuned: its name and the values that may be tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dimension {
    /// What it is called.
    pub name: &'static str,
    /// What may be tried, in any order.
    pub values: Vec<u32>,
    /// What is set now; it is one of the values, listed or not.
    pub start: u32,
    /// Where to look first.
    pub first: Towards,
    /// What its values are, as far as the tuner has to know.
    pub bears: Bears,
}

/// Towards greater or smaller values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Towards {
    /// Greater.
    Up,
    /// Smaller.
    Down,
}

impl Towards {
    pub(super) const fn other(self) -> Self {
        match self {
            Self::Up => Self::Down,
            Self::Down => Self::Up,
        }
    }
}

/// What a dimension's values are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bears {
    /// The share of the CPU that programs keep, per cent.
    UserShare,
    /// The most that the measured burst can be: another value changes nothing unless the burst comes near.
    Burst,
    /// Nothing that the tuner knows of.
    Nothing,
}

impl Dimension {
    /// It with its values in order, and none that keeps less for programs than is asked for; nothing where none is left.
    pub(super) fn allowed(mut self, user_share: Option<u32>) -> Option<Self> {
        self.values.push(self.start);
        self.values.sort_unstable();
        self.values.dedup();
        if self.bears == Bears::UserShare {
            self.values.retain(|value| user_share.is_none_or(|least| *value >= least));
        }
        (!self.values.is_empty()).then_some(self)
    }

    /// Where the start is among the values, or the one above it where it is not allowed.
    pub(super) fn place(&self) -> usize {
        self.values.partition_point(|value| *value < self.start)
    }

    /// The value so many steps further.
    pub(super) fn further(&self, at: usize, way: Towards, steps: usize) -> Option<usize> {
        let to = match way {
            Towards::Up => at.checked_add(steps),
            Towards::Down => at.checked_sub(steps),
        };
        to.filter(|to| *to < self.values.len())
    }
}

/// A value for each dimension, in their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings(pub(super) Vec<(&'static str, u32)>);

impl Settings {
    /// What a dimension is to be set to, if there is one of this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<u32> {
        self.0.iter().find(|(other, _)| *other == name).map(|(_, value)| *value)
    }
}

impl fmt::Display for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (name, value)) in self.0.iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            write!(f, "{comma}{name} {value}")?;
        }
        Ok(())
    }
}
