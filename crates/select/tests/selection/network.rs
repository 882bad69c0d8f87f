//! Networks and privileges of one thread.
//!
//! The kernel gives each thread its own network namespace and credentials, if it asks for them itself. So a test runs on a
//! thread of its own, and all that it made is gone when that ends and its sockets are closed.

use corelane_os::testing::skip;
use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// With which rights a test selects sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rights {
    Root,
    /// An ordinary user with CAP_BPF alone.
    BpfAlone,
    /// An ordinary user.
    None,
}

const NOBODY: libc::c_long = 65_534;
const CAP_BPF: u32 = 39;

/// Two namespaces and a wire between them. The thread is in the server's.
pub struct Network {
    server: File,
    client: File,
}

/// Addresses of the server, and how many the client has, from .1 and ::1 on.
pub const SERVER_V4: &str = "10.77.0.1";
pub const SERVER_V6: &str = "fd77::1";
pub const CLIENTS: usize = 16;
const SERVER_LINK: &str = "02:00:00:00:00:01";
const CLIENT_LINK: &str = "02:00:00:00:00:02";

/// Only one test runs at a time: a program that another one starts would hold a copy of each socket until it is there, and what
/// was closed here would go on being selected.
pub fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs a test on a thread of its own, in the server's namespace, as root.
pub fn on_network(test: &str, body: impl FnOnce(&Network) + Send) {
    // SAFETY: the call takes no memory.
    if unsafe { libc::geteuid() } != 0 {
        return skip(test, "it needs root");
    }
    if Command::new("ip").arg("-V").output().is_err() {
        return skip(test, "ip (iproute2) is not installed");
    }
    let _alone = alone();
    corelane_os::runner::raise_descriptor_limit();
    let run = || match Network::new() {
        Ok(network) => body(&network),
        Err(why) => skip(test, &why),
    };
    std::thread::scope(|scope| scope.spawn(run).join()).unwrap_or_else(|panic| std::panic::resume_unwind(panic));
}

impl Network {
    fn new() -> Result<Self, String> {
        let client = unshared()?;
        let server = unshared()?;
        let there = format!("/proc/{}/fd/{}", std::process::id(), client.as_raw_fd());
        ip(&[
            "link set lo up".to_owned(),
            format!("link add wire address {SERVER_LINK} type veth peer name wire address {CLIENT_LINK} netns {there}"),
            format!("addr add {SERVER_V4}/16 dev wire"),
            format!("addr add {SERVER_V6}/64 dev wire nodad"),
            "link set wire up".to_owned(),
        ])?;
        let network = Self { server, client };
        let clients = (1..=CLIENTS).flat_map(|client| [format!("10.77.1.{client}/16"), format!("fd77::1:{client:x}/64")]);
        let clients: Vec<String> = clients.collect();
        // Both ends know each other: what is sent while a link address is asked for may be lost.
        let known = |address: &str, link| format!("neigh add {address} lladdr {link} dev wire nud permanent");
        ip(&clients.iter().map(|client| known(client.split('/').next().unwrap(), CLIENT_LINK)).collect::<Vec<_>>())?;
        network.on_client_side(|| {
            let mut lines: Vec<String> = clients.iter().map(|client| format!("addr add {client} dev wire nodad")).collect();
            lines.push("link set wire up".to_owned());
            lines.extend([SERVER_V4, SERVER_V6].map(|server| known(server, SERVER_LINK)));
            ip(&lines)
        })?;
        Ok(network)
    }

    /// Runs something on the client's side. Sockets stay where they are made.
    pub fn on_client_side<R>(&self, body: impl FnOnce() -> R) -> R {
        enter(&self.client);
        let result = body();
        enter(&self.server);
        result
    }
}

fn unshared() -> Result<File, String> {
    // SAFETY: the call takes no memory.
    match unsafe { libc::unshare(libc::CLONE_NEWNET) } {
        0 => Ok(File::open("/proc/thread-self/ns/net").unwrap()),
        _ => Err(format!("no network namespace: {}", std::io::Error::last_os_error())),
    }
}

fn enter(namespace: &File) {
    // SAFETY: the call takes no memory.
    assert_eq!(unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) }, 0);
}

/// Runs ip(8) in the namespace of this thread.
fn ip(lines: &[String]) -> Result<(), String> {
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

impl Rights {
    /// Lets this thread have no other rights, for good.
    pub fn take(self) {
        let capabilities = match self {
            Self::Root => return,
            Self::BpfAlone => 1_u64 << CAP_BPF,
            Self::None => 0,
        };
        // The kernel's `_LINUX_CAPABILITY_VERSION_3`, this thread, and effective, permitted and inheritable sets in halves.
        let header = [0x2008_0522_u32, 0];
        let (low, high) = (capabilities as u32, (capabilities >> 32) as u32);
        let sets = [low, low, 0, high, high, 0];
        // SAFETY: raw calls, which concern this thread alone; header and sets are readable and of the size that the version has.
        unsafe {
            assert_eq!(libc::prctl(libc::PR_SET_KEEPCAPS, 1, 0, 0, 0), 0);
            assert_eq!(libc::syscall(libc::SYS_setgroups, 0, std::ptr::null::<u32>()), 0);
            assert_eq!(libc::syscall(libc::SYS_setresgid, NOBODY, NOBODY, NOBODY), 0);
            assert_eq!(libc::syscall(libc::SYS_setresuid, NOBODY, NOBODY, NOBODY), 0);
            assert_eq!(libc::syscall(libc::SYS_capset, header.as_ptr(), sets.as_ptr()), 0);
        }
    }
}
