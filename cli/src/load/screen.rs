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

use corelane_load::report::Progress;
use draw::draw;
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend as Output; // tidy: allow(backend) the library's own name
use ratatui::crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode};
use ratatui::crossterm::{cursor, execute};
use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Read, Stderr};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether the terminal is ours: that of the one [`Screen`], until it was given back by whoever came first.
static OPEN: AtomicBool = AtomicBool::new(false);

/// The status screen. It owns the terminal until it is dropped, the program panics, or an end was asked for twice.
///
/// The terminal is in raw mode meanwhile (termios(3)), so Ctrl-C is a key here and no signal. Signals that others send are not
/// caught: the caller blocks them, so that it drops this before it ends.
pub struct Screen {
    terminal: Terminal<Output<BufWriter<Stderr>>>,
    /// The keyboard, read by hand: the library's reader can lose a key when the size changes, and wait inside one that is sent in
    /// several bytes.
    keys: File,
    end: bool,
}

impl Screen {
    /// Takes the terminal that standard error is. None if it is no terminal, can do nothing (`TERM=dumb`), belongs to another
    /// job at present, or to another `Screen`.
    pub fn open() -> Option<Self> {
        let able = std::env::var_os("TERM").is_some_and(|name| !name.is_empty() && name != "dumb");
        if !able || !io::stderr().is_terminal() || !in_foreground() || OPEN.swap(true, Ordering::SeqCst) {
            return None;
        }
        give_back_on_panic();
        let screen = begin();
        if screen.is_err() {
            give_back();
        }
        screen.ok()
    }

    /// Shows how far the run is.
    pub fn show(&mut self, progress: &Progress) {
        if OPEN.load(Ordering::SeqCst) && self.terminal.draw(|frame| draw(frame, progress)).is_err() {
            give_back();
        }
    }

    /// Whether `q` or Ctrl-C was pressed. The second time the terminal is given back, and Ctrl-C is a signal again, so that nobody
    /// is held by a run that does not end.
    pub fn wants_end(&mut self) -> bool {
        let mut bytes = [0; 64];
        while OPEN.load(Ordering::SeqCst) {
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

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}

/// What open(2) calls `O_NONBLOCK`, on Linux for x86, ARM, RISC-V, POWER and s390.
const NONBLOCKING: i32 = 0o4000;

fn begin() -> io::Result<Screen> {
    let keys = File::options().read(true).custom_flags(NONBLOCKING).open("/dev/tty")?;
    enable_raw_mode()?;
    execute!(io::stderr(), EnterAlternateScreen)?;
    let mut terminal = Terminal::new(Output::new(BufWriter::new(io::stderr())))?;
    terminal.hide_cursor()?;
    Ok(Screen { terminal, keys, end: false })
}

/// How often an end is asked for by what the keyboard sent at once. Function keys send an escape and letters.
fn requests(bytes: &[u8]) -> usize {
    const CONTROL_C: u8 = 3;
    const ESCAPE: u8 = 27;
    let letters = !bytes.contains(&ESCAPE);
    bytes.iter().filter(|&&byte| byte == CONTROL_C || byte == b'q' && letters).count()
}

/// Makes the terminal what it was, if a [`Screen`] has it: for those who end the program without dropping that. Errors are passed over,
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
