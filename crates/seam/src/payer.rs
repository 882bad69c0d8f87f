//! Names of those who pay.

/// Names who pays for a block. The lane pays for what nobody else does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Payer(pub(crate) u32);

impl Payer {
    /// The lane itself: it may take all there is.
    pub const LANE: Self = Self(0);

    pub(crate) fn number(self) -> u32 {
        self.0
    }

    pub(crate) fn numbered(number: u32) -> Self {
        Self(number)
    }
}
