//! A pseudo terminal (pty(7)) of 80 by 24 with a program in it, and a terminal emulator at its other end.
#![allow(dead_code, reason = "not every user of this needs all of it")]

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::pty::{Winsize, openpty};
use nix::sys::termios::{LocalFlags, tcgetattr};
use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// How long anything may take before a test gives up on it.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Runs the program in the foreground, and prints the terminal's modes before and after.
pub const FOREGROUND: &str = r#"stty -g; "$@"; code=$?; stty -g; exit $code"#;
/// The same as a job in the background.
pub const BACKGROUND: &str = r#"set -m; stty -g; "$@" & wait $!; code=$?; stty -g; exit $code"#;

/// A terminal with a program in it.
pub struct Terminal {
    child: Child,
    ours: File,
    theirs: OwnedFd,
    pub emulator: vt100::Parser,
}

/// What a program left behind.
pub struct Ended {
    pub status: ExitStatus,
    /// Standard output.
    pub output: String,
    /// Whether modes, cursor and screen are what they were before.
    pub restored: bool,
}

impl Terminal {
    /// Starts a program by one of the scripts above.
    pub fn start(command: &[OsString], script: &str) -> Self {
        let size = Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
        let pair = openpty(&size, None).unwrap();
        let end = || Stdio::from(pair.slave.try_clone().unwrap());
        let child = Command::new("setsid")
            .args(["--ctty", "sh", "-c", script, "sh"])
            .args(command)
            .env("TERM", "xterm-256color")
            .stdin(end())
            .stdout(Stdio::piped())
            .stderr(end())
            .spawn()
            .unwrap();
        Self { child, ours: pair.master.into(), theirs: pair.slave, emulator: vt100::Parser::default() }
    }

    /// Reads what the program writes until the screen is as wanted.
    pub fn wait_for(&mut self, what: &str, wanted: impl Fn(&vt100::Screen) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !wanted(self.emulator.screen()) {
            assert!(Instant::now() < deadline, "waiting for {what}:\n{}", self.emulator.screen().contents());
            self.read();
        }
    }

    /// Feeds the emulator with what there is, or comes soon.
    pub fn read(&mut self) -> bool {
        let mut ends = [PollFd::new(self.ours.as_fd(), PollFlags::POLLIN)];
        poll(&mut ends, PollTimeout::from(20u8)).unwrap();
        let readable = ends[0].any().unwrap_or(false);
        let mut bytes = [0; 4096];
        let length = if readable { self.ours.read(&mut bytes).unwrap_or(0) } else { 0 };
        self.emulator.process(&bytes[..length]);
        length > 0
    }

    /// Waits for the whole status screen.
    pub fn wait_for_screen(&mut self) {
        self.wait_for("the screen", |screen| screen.alternate_screen() && screen.contents().contains("q or Ctrl-C"));
    }

    /// Gives the terminal another size.
    pub fn resize(&mut self, rows: u16, columns: u16) {
        self.emulator.screen_mut().set_size(rows.try_into().unwrap(), columns.try_into().unwrap());
        let name = nix::unistd::ttyname(&self.theirs).unwrap();
        let (rows, columns) = (rows.to_string(), columns.to_string());
        let stty = Command::new("stty").arg("-F").arg(name).args(["cols", &columns, "rows", &rows]).status().unwrap();
        assert!(stty.success());
    }

    /// Types.
    pub fn press(&mut self, keys: &[u8]) {
        self.ours.write_all(keys).unwrap();
    }

    /// Whether each key reaches the program at once, Ctrl-C included.
    pub fn is_raw(&self) -> bool {
        !tcgetattr(&self.theirs).unwrap().local_flags.intersects(LocalFlags::ICANON | LocalFlags::ECHO | LocalFlags::ISIG)
    }

    /// Waits for the end of the program.
    pub fn ended(&mut self) -> Ended {
        let deadline = Instant::now() + PATIENCE;
        let status = loop {
            self.read();
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(Instant::now() < deadline, "the program does not end:\n{}", self.emulator.screen().contents());
        };
        while self.read() {}
        let mut output = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut output).unwrap();
        let restored = output.lines().next() == output.lines().last() && !self.emulator.screen().alternate_screen();
        Ended { status, output, restored: restored && !self.emulator.screen().hide_cursor() }
    }
}

impl Drop for Terminal {
    /// A test that failed leaves no program behind: the end of the terminal ends all in it.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
