//! What goes wrong, whose fault it is, and the remedy.

use std::fmt;

/// Where something stands in a text; both numbers begin with 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The line.
    pub line: usize,
    /// The column, in characters.
    pub column: usize,
}

/// What goes wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// A text says what the language does not have. Its author is at fault.
    Syntax {
        /// Where.
        place: Place,
        /// What is wrong.
        what: String,
        /// What to write.
        remedy: String,
    },
    /// A rule jumps to where it stands, or to an earlier rule.
    Backwards {
        /// The rule.
        from: u16,
        /// The number that it jumps to.
        to: u16,
    },
    /// A number that names no rule.
    NoRule {
        /// The number.
        number: u16,
    },
    /// Rule 65535, which every packet meets last, is neither added nor deleted.
    LastRule,
    /// A name that names no table.
    NoTable {
        /// The name.
        name: String,
    },
    /// A table of this name holds keys of the other kind.
    OtherTable {
        /// The name.
        name: String,
        /// What it holds.
        holds: &'static str,
    },
    /// A table that is to be made is there already.
    TableExists {
        /// The name.
        name: String,
    },
    /// A table is named by a rule, and cannot go.
    TableInUse {
        /// The name.
        name: String,
        /// The first rule that names it.
        rule: u16,
    },
    /// A key that a table does not have.
    NoKey {
        /// The name of the table.
        name: String,
        /// The key.
        key: String,
    },
    /// A set of rules outside of 0 to 31, or one that is not the caller's to change.
    NoSet {
        /// The number of the set.
        set: u8,
    },
    /// There is no room for more.
    Full {
        /// Of what.
        what: &'static str,
        /// How many there may be.
        most: usize,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Syntax { place, what, remedy } => {
                write!(f, "the text, line {}, column {}: {what}; {remedy}", place.line, place.column)
            }
            Self::Backwards { from, to } => write!(
                f,
                "rule {from} jumps to {to}, which is not behind it; rules are read forwards, so name a number above {from}"
            ),
            Self::NoRule { number } => write!(f, "no rule has the number {number}; `list` shows those that are there"),
            Self::LastRule => {
                write!(
                    f,
                    "rule 65535 is the last one for every packet; it is set with the rules' default, and others are 1 to 65534"
                )
            }
            Self::NoTable { name } => write!(f, "no table has the name {name}; make it with `table {name} create`"),
            Self::OtherTable { name, holds } => write!(f, "table {name} holds {holds}; use another table"),
            Self::TableExists { name } => write!(f, "table {name} exists; empty it with `table {name} flush`"),
            Self::TableInUse { name, rule } => write!(f, "rule {rule} names table {name}; delete the rule first"),
            Self::NoKey { name, key } => write!(f, "table {name} does not have {key}; `table {name} list` shows what it has"),
            Self::NoSet { set } => {
                write!(f, "set {set} is not one that can be changed; sets are 0 to 31, and set 31 is never switched off")
            }
            Self::Full { what, most } => write!(f, "there is room for {most} {what}; take some away, or raise the limit"),
        }
    }
}

impl std::error::Error for Error {}
