//! A thread that follows a table of the kernel's: it hears of the routes, and has the lanes of a gateway told. It looks four times a second; a lane does nothing for it.

use crate::admin::gateway::Ruling;
use crate::admin::messages::Degraded;
use crate::lanes::frames::Placing;
use corelane_machine::routes::{RouteEvent, RouteFollower};
use corelane_os::aside::Aside;
use corelane_os::report;
use std::fmt::Display;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(250);
/// Routes that are followed at most, and changes that lanes are told at once.
const PREFIXES_MAX: usize = 1_000_000;
const CHANGES_MAX: usize = 10_000;

/// The thread; it ends when this is dropped.
pub(crate) struct Following {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Following {
    /// Follows a table of the thread's network namespace. A fault is told to the operator, and the call is tried again.
    pub(crate) fn start(table: u32, ruling: Arc<Ruling>, lanes: Arc<Placing>, aside: Aside) -> Self {
        let (stop, stopped) = channel::<()>();
        let body = move || {
            aside.take();
            let mut follow =
                Follow { table, follower: None, untold: Vec::new(), trouble: String::new(), left_out: 0, refused: 0 };
            while stopped.recv_timeout(PAUSE) == Err(RecvTimeoutError::Timeout) {
                follow.look(|told| ruling.follow(told, &*lanes));
            }
        };
        let thread = Builder::new().name("corelane-routes".to_owned()).spawn(body);
        if let Err(error) = &thread {
            tell(format!("the kernel's table {table} is not followed: the thread for it cannot be started: {error}"));
        }
        Self { stop: Some(stop), thread: thread.ok() }
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // It waits for nobody for long.
            let _ = thread.join();
        }
    }
}

fn tell(words: impl Display) {
    report::line(Degraded::RoutesLeftOut.note(words));
}

struct Follow {
    table: u32,
    /// Made at the first look, on the thread.
    follower: Option<RouteFollower>,
    /// News that lanes could not be told.
    untold: Vec<RouteEvent>,
    /// The fault that the operator was told last.
    trouble: String,
    /// Routes that the gateway could not take, and those that the follower had no room for.
    left_out: usize,
    refused: u64,
}

impl Follow {
    /// Has lanes told what has changed since the last look; what is wrong is told once, as long as it is the same.
    fn look(&mut self, mut put: impl FnMut(&[RouteEvent]) -> Result<usize, String>) {
        let (before, refused) = (self.left_out, self.refused);
        let trouble = match self.follow(&mut put) {
            Ok(()) => String::new(),
            Err(why) => format!("the kernel's table {} is not followed just now: {why}", self.table),
        };
        if !trouble.is_empty() && trouble != self.trouble {
            tell(&trouble);
        }
        self.trouble = trouble;
        let (more, without_room) = (self.left_out - before, self.refused - refused);
        if more > 0 {
            let table = self.table;
            tell(format!(
                "{more} routes of the kernel's table {table} are left out: their routers are in no network of the gateway's, or their networks have too many routes"
            ));
        }
        if without_room > 0 {
            tell(format!(
                "{without_room} routes of the kernel's table {} are left out: {PREFIXES_MAX} may be followed",
                self.table
            ));
        }
    }

    fn follow(&mut self, put: &mut impl FnMut(&[RouteEvent]) -> Result<usize, String>) -> Result<(), String> {
        let words = |error: io::Error| error.to_string();
        let follower = match &mut self.follower {
            Some(follower) => follower,
            none => none.insert(RouteFollower::new(self.table, PREFIXES_MAX).map_err(words)?),
        };
        loop {
            if self.untold.is_empty() {
                self.untold = follower.take(CHANGES_MAX).map_err(words)?;
                self.refused = follower.counts().refused;
            }
            if self.untold.is_empty() {
                return Ok(());
            }
            self.left_out += put(&self.untold)?;
            self.untold.clear();
        }
    }
}
