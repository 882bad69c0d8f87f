//! Shows a run while it lasts, and hears whether somebody wants its end.

use super::file;
use super::screen::{Lines, Screen};
use crate::exit::Exit;
use crate::terminal::give_back;
use anyhow::Result;
use corelane::lanes::Signals;
use corelane_load::report::Progress;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// The one who watches.
pub struct Watcher {
    face: Face,
    told: Arc<AtomicBool>,
}

enum Face {
    Screen(Screen),
    Lines(Lines),
    Nothing,
}

impl Watcher {
    /// From now on the first SIGINT or SIGTERM ends the run, with the report of what there is; the second one ends the program.
    pub fn open(quiet: bool) -> Result<Self> {
        let signals = Signals::block()?;
        let told = Arc::new(AtomicBool::new(false));
        let heard = told.clone();
        thread::spawn(move || {
            while signals.wait_for_end().is_ok() {
                if heard.swap(true, Ordering::Relaxed) {
                    give_back();
                    file::give_up();
                    std::process::exit(Exit::Interrupted.code().into());
                }
            }
        });
        let face = match quiet {
            true => Face::Nothing,
            false => Screen::open().map_or_else(|| Face::Lines(Lines::default()), Face::Screen),
        };
        Ok(Self { face, told })
    }

    /// Shows how far the run is.
    pub fn show(&mut self, progress: &Progress) {
        match &mut self.face {
            Face::Screen(screen) => {
                screen.show(progress);
                self.told.fetch_or(screen.read_end(), Ordering::Relaxed);
            }
            Face::Lines(lines) => lines.show(progress),
            Face::Nothing => {}
        }
    }

    /// Whether the run is to end now.
    pub fn wants_end(&self) -> bool {
        self.told.load(Ordering::Relaxed)
    }
}
