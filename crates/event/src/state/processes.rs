//! What only the kernel's process connector tells of processes, and for how many interests it is listened to.

use corelane_os::events::connector::{Connector, Deed};
use corelane_os::events::number;
use std::os::fd::RawFd;

use crate::record::notes;
use crate::refused::Refused;

/// What only the connector tells.
const TOLD: u32 = notes::FORK | notes::EXEC | notes::TRACK;

/// Whether who asks for these notes needs the connector.
pub fn needs_connector(asked: u32) -> bool {
    asked & TOLD != 0
}

/// The connector, and how many interests need it.
pub struct Processes {
    connector: Connector,
    interests: usize,
}

impl Processes {
    /// With a connector that nobody needs yet.
    pub fn new() -> Result<Self, Refused> {
        let connector = Connector::new().map_err(|error| match error {
            number::ENOTSUP => Refused::new(
                error,
                "forks and programs are not told to this process: run it outside of containers, as the superuser, or ask for NOTE_EXIT alone",
            ),
            error => Refused::system(error),
        })?;
        Ok(Self { connector, interests: 0 })
    }

    pub fn number(&self) -> RawFd {
        self.connector.number()
    }

    /// An interest asks for `after` where it asked for `before`. Whether any needs the connector still.
    pub fn count(&mut self, before: u32, after: u32) -> bool {
        self.interests += usize::from(needs_connector(after));
        self.interests -= usize::from(needs_connector(before));
        self.interests > 0
    }

    /// Calls `each` with what processes have done; returns whether some of it was dropped.
    pub fn read(&self, each: impl FnMut(Deed)) -> bool {
        self.connector.read(each)
    }
}
