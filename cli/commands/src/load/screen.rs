//! What a run shows while it goes on: a status screen on standard error, or lines where that is no terminal.
//!
//! Standard output is left to the result.

mod draw;
mod facts;
mod flow;
mod lines;
mod plot;
#[cfg(test)]
mod tests;

pub use lines::Lines;

use crate::terminal::{Tty, give_back, is_open};
use corelane_load::report::Progress;
use draw::draw;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;

/// The status screen. It owns the terminal as a [`Tty`] does, and until an end was asked for twice.
pub struct Screen {
    tty: Tty,
    /// The keyboard, read by hand: the library's reader can lose a key when the size changes, and wait inside one that is sent in
    /// several bytes.
    keys: File,
    end: bool,
}

impl Screen {
    /// Takes the terminal; none as [`Tty::open`], or if there is no keyboard.
    pub fn open() -> Option<Self> {
        let keys = keyboard().ok()?;
        Some(Self { tty: Tty::open()?, keys, end: false })
    }

    /// Shows how far the run is.
    pub fn show(&mut self, progress: &Progress) {
        self.tty.draw(|frame| draw(frame, progress));
    }

    /// Reads the keys: whether `q` or Ctrl-C was pressed. The second time the terminal is given back, and Ctrl-C is a signal again, so that nobody
    /// is held by a run that does not end.
    pub fn read_end(&mut self) -> bool {
        let mut bytes = [0; 64];
        while is_open() {
            let Ok(length @ 1..) = self.keys.read(&mut bytes) else { break };
            for _ in 0..requests(&bytes[..length]) {
                if self.end {
                    give_back();
                }
                self.end = true;
            }
        }
        self.end
    }
}

/// What open(2) calls `O_NONBLOCK`, on Linux for x86, ARM, RISC-V, POWER and s390.
const NONBLOCKING: i32 = 0o4000;

fn keyboard() -> io::Result<File> {
    File::options().read(true).custom_flags(NONBLOCKING).open("/dev/tty")
}

/// How often an end is asked for by what the keyboard sent at once. Function keys send an escape and letters.
fn requests(bytes: &[u8]) -> usize {
    const CONTROL_C: u8 = 3;
    const ESCAPE: u8 = 27;
    let letters = !bytes.contains(&ESCAPE);
    bytes.iter().filter(|&&byte| byte == CONTROL_C || byte == b'q' && letters).count()
}
