//! tokio's runtime for what runs on a lane.

use tokio::runtime::Handle;

/// Has all that this lane runs be within this runtime of tokio's ([`Handle::enter`]), as long as the lane lives: handlers, the bodies of their answers as they are polled and
/// dropped, and tasks. So its timers, sockets, files and `tokio::spawn` can be used there. To be called on the lane, in the function that makes its service.
///
/// The runtime works on threads of its own, and must not be shut down before the lanes have ended.
pub fn enter(tokio: &Handle) {
    // The thread is the lane's alone, and ends with it: nothing runs there afterwards that would have to be outside.
    std::mem::forget(tokio.enter());
}
