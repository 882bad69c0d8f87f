//! The thread that wakes the tasks of the world outside. A lane cannot: its descriptors may be its own, and a runtime's waker writes to a
//! descriptor, which is nobody's there, or somebody else's.

use crate::lanes::unbroken::unbroken;
use corelane_svc::WakeOutside;
use std::io;
use std::sync::Arc;
use std::sync::mpsc;
use std::task::Waker;
use std::thread::Builder;

/// Starts the thread, which has the descriptors of the caller and ends when nobody can have anything woken any more. As many wakers as there are
/// waits can be with it.
///
/// # Errors
/// What the system says of the thread.
pub(crate) fn start() -> io::Result<WakeOutside> {
    let (sender, receiver) = mpsc::channel::<Waker>();
    // A waker is the code of others: its panic ends nobody else's wait.
    let wake = |waker: Waker| drop(unbroken(|| waker.wake()));
    Builder::new().name("corelane-wakes".to_owned()).spawn(move || receiver.into_iter().for_each(wake))?;
    Ok(Arc::new(move |waker| {
        // It is there for as long as this is.
        let _ = sender.send(waker);
    }))
}
