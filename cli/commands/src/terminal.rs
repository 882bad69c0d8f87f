//! The terminal that standard error is, for those who draw on all of it.

use ratatui::backend::CrosstermBackend as Output; // tidy: allow(backend) the library's own name
use ratatui::crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode};
use ratatui::crossterm::{cursor, execute};
use ratatui::{Frame, Terminal};
use std::io::{self, BufWriter, IsTerminal, Stderr};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether the terminal is ours: that of the one [`Tty`], until it was given back by whoever came first.
static OPEN: AtomicBool = AtomicBool::new(false);

/// The whole terminal, owned until this is dropped, the program panics, or somebody gives it back.
///
/// It is in raw mode meanwhile (termios(3)), so Ctrl-C is a key here and no signal. Signals that others send are not
/// caught: the caller blocks them, so that it drops this before it ends.
pub struct Tty(Terminal<Output<BufWriter<Stderr>>>);

impl Tty {
    /// Takes the terminal that standard error is. None if it is no terminal, can do nothing (`TERM=dumb`), belongs to another
    /// job at present, or to another `Tty`.
    pub fn open() -> Option<Self> {
        let able = std::env::var_os("TERM").is_some_and(|name| !name.is_empty() && name != "dumb");
        if !able || !io::stderr().is_terminal() || !in_foreground() || OPEN.swap(true, Ordering::SeqCst) {
            return None;
        }
        give_back_on_panic();
        let tty = begin();
        if tty.is_err() {
            give_back();
        }
        tty.ok()
    }

    /// Draws all of it anew; what has not changed is not written. Where that fails the terminal is given back.
    pub fn draw(&mut self, draw: impl FnOnce(&mut Frame)) {
        if is_open() && self.0.draw(draw).is_err() {
            give_back();
        }
    }
}

impl Drop for Tty {
    fn drop(&mut self) {
        give_back();
    }
}

fn begin() -> io::Result<Tty> {
    enable_raw_mode()?;
    execute!(io::stderr(), EnterAlternateScreen)?;
    let mut terminal = Terminal::new(Output::new(BufWriter::new(io::stderr())))?;
    terminal.hide_cursor()?;
    Ok(Tty(terminal))
}

/// Whether a [`Tty`] has the terminal.
pub fn is_open() -> bool {
    OPEN.load(Ordering::SeqCst)
}

/// Makes the terminal what it was, if a [`Tty`] has it: for those who end the program without dropping that. Errors are passed over,
/// as a terminal that is gone needs nothing.
pub fn give_back() {
    if OPEN.swap(false, Ordering::SeqCst) {
        let _ = execute!(io::stderr(), LeaveAlternateScreen, cursor::Show);
        let _ = disable_raw_mode();
    }
}

/// A panic of any thread gives the terminal back before it is reported, or nobody could read the report.
fn give_back_on_panic() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let report = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            give_back();
            report(panic);
        }));
    });
}

/// Whether the terminal listens to this process's group (proc_pid_stat(5)): a job in the background that sets a terminal's mode is
/// stopped (SIGTTOU).
fn in_foreground() -> bool {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    is_foreground(&stat)
}

fn is_foreground(stat: &str) -> bool {
    let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let field = |index: usize| after_name.split_whitespace().nth(index);
    field(2).is_some() && field(2) == field(5)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_group_in_the_foreground_is_told_from_others() {
        assert!(is_foreground("12 (a) b) c) S 11 12 11 34816 12 4194304 0"));
        assert!(!is_foreground("12 (cat) S 11 12 11 34816 11 4194304 0"));
        assert!(!is_foreground("12 (cat) S 11 12 11 0 -1 4194304 0"));
        assert!(!is_foreground(""));
    }
}
