//! A thread of its own for what tries a driver out.

use crate::errors::Error;
use corelane_os::errno;

/// Tries something that may make a ring on a thread of its own. The kernel ends a ring some time after it was dropped, and
/// interrupts the thread that made it: calls of that thread that wait would fail with EINTR though no signal came.
///
/// # Errors
/// Those of `probe`; [`Error::Refused`] if the system gives no thread.
///
/// # Panics
/// If `probe` does.
pub fn apart<T: Send>(probe: impl FnOnce() -> Result<T, Error> + Send) -> Result<T, Error> {
    let refused = |error: std::io::Error| Error::Refused { call: "clone", fault: errno::fault(errno::of(&error)) };
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("corelane-probe".into()).spawn_scoped(scope, probe).map_err(refused)?;
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}
