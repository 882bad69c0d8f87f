//! tokio's runtime for what runs on a lane.

use corelane::lanes::has_own_descriptors;
use tokio::runtime::Handle;

/// Has all that this lane runs be within this runtime of tokio's ([`Handle::enter`]), as long as the lane lives: handlers, the bodies of their answers as they are polled and
/// dropped, and tasks. So its timers, sockets, files and `tokio::spawn` can be used there. To be called on the lane, in the function that makes its service.
///
/// The runtime works on threads of its own, and must not be shut down before the lanes have ended.
///
/// # Panics
/// On a lane with a table of descriptors of its own, as lanes have by default: a file or a socket that a thread of tokio's has opened would be closed there by its number, which is another's there. So such a
/// program says [`own_descriptors(false)`](corelane::Lanes::own_descriptors).
pub fn enter(tokio: &Handle) {
    assert!(
        !has_own_descriptors(),
        "this lane has descriptors of its own, among which tokio's files and sockets are not: build the lanes with Lanes::own_descriptors(false)"
    );
    // The thread is the lane's alone, and ends with it: nothing runs there afterwards that would have to be outside.
    std::mem::forget(tokio.enter());
}
