//! Network namespaces of one thread.
//!
//! The kernel gives each thread its own, if it asks for it itself. So a test runs on a thread of its own, and all that it made is gone
//! when that ends and its sockets are closed.

use super::skip;
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};
use std::fs::File;
use std::io::Write;
use std::os::fd::AsFd;
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Held by a test that starts a program, while that begins: until then it has a copy of each socket and lock, and what is closed here goes on being there.
/// A test that needs it gone holds this as well, or waits for it.
pub fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs a test on a thread of its own, as root and alone, unless this machine cannot.
pub fn on_thread(test: &str, body: impl FnOnce() + Send) {
    if !rustix::process::geteuid().is_root() {
        return skip(test, "it needs root");
    }
    // The look for ip(8) starts a program too.
    let _alone = alone();
    if Command::new("ip").arg("-V").output().is_err() {
        return skip(test, "ip (iproute2) is not installed");
    }
    std::thread::scope(|scope| scope.spawn(body).join()).unwrap_or_else(|panic| std::panic::resume_unwind(panic));
}

/// Gives this thread a new, empty network namespace.
///
/// # Errors
/// Why not, in words.
pub fn unshared() -> Result<File, String> {
    // SAFETY: no other thread shares what this changes.
    unsafe { unshare_unsafe(UnshareFlags::NEWNET) }.map_err(|error| format!("no network namespace: {error}"))?;
    Ok(File::open("/proc/thread-self/ns/net").unwrap())
}

/// The same without IPv6: the kernel says nothing by itself on a new interface.
///
/// # Errors
/// Why not, in words.
pub fn unshared_and_quiet() -> Result<File, String> {
    let namespace = unshared()?;
    sysctl("net/ipv6/conf/default/disable_ipv6", "1");
    Ok(namespace)
}

/// Moves this thread to another namespace.
pub fn enter(namespace: &File) {
    move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
}

/// Runs lines of ip(8) in the namespace of this thread.
///
/// # Errors
/// Its words.
pub fn ip(lines: &[String]) -> Result<(), String> {
    let mut command = Command::new("ip");
    let piped = command.args(["-batch", "-"]).stdin(Stdio::piped()).stderr(Stdio::piped());
    let mut child = piped.spawn().map_err(|error| error.to_string())?;
    child.stdin.take().unwrap().write_all(lines.join("\n").as_bytes()).map_err(|error| error.to_string())?;
    let output = child.wait_with_output().map_err(|error| error.to_string())?;
    let words = String::from_utf8_lossy(&output.stderr);
    if output.status.success() { Ok(()) } else { Err(format!("ip {lines:?}: {words}")) }
}

/// Sets a sysctl of the namespace of this thread.
pub fn sysctl(path: &str, value: &str) {
    std::fs::write(format!("/proc/sys/{path}"), value).unwrap();
}
