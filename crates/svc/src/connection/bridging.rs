//! Whether the system itself passes on what a connection receives to the other of its pair (`Op::Bridge`), and what it tells of that.
//!
//! ```text
//! no --its service asks--> wished --neither has a send under way--> asked --its time is over--> looked --nothing was passed on meanwhile--> it ends
//!                             ^-----------its service asks-----------/  ^----something was------/
//! ```

/// How far it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Bridging {
    #[default]
    No,
    Wished,
    /// It may be so: nobody says whether it is.
    Asked,
    /// The same, and it was asked what was passed on, before a limit ends it.
    Looked,
}

impl Bridging {
    /// Its time is not over after all.
    pub(super) fn go_on(&mut self) {
        if *self == Self::Looked {
            *self = Self::Asked;
        }
    }
}
