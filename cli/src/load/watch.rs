//! Shows a run while it lasts, and hears whether somebody wants its end.

use anyhow::Result;
use corelane::Signals;
use corelane_load::report::Progress;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// What SIGINT ends a program with that does not handle it, as shells show it.
const INTERRUPTED: i32 = 130;

/// The one who watches.
pub struct Watcher {
    told: Arc<AtomicBool>,
}

impl Watcher {
    /// From now on the first SIGINT or SIGTERM ends the run, with the report of what there is; the second one ends the program.
    pub fn open(_quiet: bool) -> Result<Self> {
        let signals = Signals::block()?;
        let told = Arc::new(AtomicBool::new(false));
        let heard = told.clone();
        thread::spawn(move || {
            while signals.wait().is_ok() {
                if heard.swap(true, Ordering::Relaxed) {
                    std::process::exit(INTERRUPTED);
                }
            }
        });
        Ok(Self { told })
    }

    /// Shows how far the run is.
    pub fn show(&mut self, _progress: &Progress) {}

    /// Whether the run is to end now.
    pub fn wants_end(&self) -> bool {
        self.told.load(Ordering::Relaxed)
    }
}
