//! What a plan says of calls, and the options that say it.

use crate::plan::Plan;
use corelane::service::entry::choice::{Chosen, Text};
use corelane_wire::rpc::NULL;

/// The procedure that gives its bytes back.
const ECHO: u32 = 1;

/// What is called without a payload unless said otherwise: NFS version 3 (RFC 1813 section 1), whose null procedure any server of it has.
pub const NULL_PROGRAM: Program = Program { number: 100_003, version: 3 };

/// What is called with one: a number that RFC 5531 section 8.3 leaves to users.
pub const ECHO_PROGRAM: Program = Program { number: 0x2000_0007, version: 1 };

/// A program and its version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Program {
    /// Its number.
    pub number: u32,
    /// Its version.
    pub version: u32,
}

/// Who calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Caller {
    /// Nobody: AUTH_NONE.
    #[default]
    Nobody,
    /// A user of a machine: AUTH_SYS (RFC 5531 appendix A), without further groups.
    User {
        /// Name of the machine; what is over 255 bytes is cut.
        machine: String,
        /// Number of the user.
        uid: u32,
        /// Number of the user's group.
        gid: u32,
    },
}

/// How records are taken apart on their way, for those who test how a server puts them together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Split {
    /// Not at all: one fragment a record, and as many records as there are in one send.
    #[default]
    Whole,
    /// So many fragments a record: the first and the last of one byte, the others alike. Fewer where it has fewer bytes.
    Fragments(u32),
    /// The stream of bytes leaves in pieces of so many, each with a send of its own.
    Bytes(u32),
}

/// Most fragments of a record, and most bytes of a piece of the stream.
pub const SPLIT_MAX: u32 = 1_024;

/// What a plan says of calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RpcSettings {
    /// What is called; none leaves it to whether there is a payload: [`ECHO_PROGRAM`] or [`NULL_PROGRAM`].
    pub program: Option<Program>,
    /// Who calls.
    pub caller: Caller,
    /// How records are taken apart.
    pub split: Split,
}

impl RpcSettings {
    pub(super) fn of(chosen: &Chosen) -> Self {
        Self {
            program: chosen.text(&PROGRAM).and_then(|text| program(text).ok()),
            caller: Caller::Nobody,
            split: chosen.text(&SPLIT).and_then(|text| split(text).ok()).unwrap_or_default(),
        }
    }

    /// What a plan says.
    pub fn in_plan(plan: &Plan) -> Self {
        plan.particulars.get()
    }

    /// What is called with payloads of `size` bytes.
    pub fn program(&self, size: usize) -> Program {
        self.program.unwrap_or(if size == 0 { NULL_PROGRAM } else { ECHO_PROGRAM })
    }

    /// What is called how, for a report.
    pub(super) fn call(&self, size: usize) -> String {
        let Program { number, version } = self.program(size);
        let procedure = procedure(size);
        let split = match self.split {
            Split::Whole => String::new(),
            Split::Fragments(count) => format!(" in fragments: {count}"),
            Split::Bytes(count) => format!(" in bytes a send: {count}"),
        };
        let caller = if self.caller == Caller::Nobody { "" } else { " as AUTH_SYS" };
        format!("program {number} version {version} procedure {procedure}{caller}{split}")
    }
}

/// What is called with payloads of `size` bytes.
pub fn procedure(size: usize) -> u32 {
    if size == 0 { NULL } else { ECHO }
}

pub const PROGRAM: Text = Text::new(
    "program",
    "PROGRAM:VERSION",
    |text| program(text).map(drop),
    "what is called [default: 100003:3, NFS; with --size 536870919:1, an echo program]",
);

pub const SPLIT: Text = Text::new(
    "split",
    "N|bytes",
    |text| split(text).map(drop),
    "send each record in N fragments; or (bytes, bytes=N) all records in pieces of 1 or N bytes, each by its own send",
);

/// Reads `100003:3`.
fn program(text: &str) -> Result<Program, String> {
    let parts = text.split_once(':').and_then(|(number, version)| Some((number.parse().ok()?, version.parse().ok()?)));
    let (number, version) = parts.ok_or_else(|| format!("{text:?} is not PROGRAM:VERSION: write for example 100003:3"))?;
    Ok(Program { number, version })
}

/// Reads `3`, `bytes` or `bytes=100`.
fn split(text: &str) -> Result<Split, String> {
    let wrong = |_| format!("{text:?} is neither a number of fragments, nor bytes, nor bytes=N");
    match text.strip_prefix("bytes") {
        None => text.parse().map(Split::Fragments).map_err(wrong),
        Some("") => Ok(Split::Bytes(1)),
        Some(rest) => rest.strip_prefix('=').unwrap_or(text).parse().map(Split::Bytes).map_err(wrong),
    }
}
