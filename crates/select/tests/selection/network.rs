//! Networks and privileges of one thread.
//!
//! The kernel gives each thread its own network namespace and credentials, if it asks for them itself. So a test runs on a
//! thread of its own, and all that it made is gone when that ends and its sockets are closed.

use corelane_os::testing::network::{enter, ip, on_thread, unshared};
use corelane_os::testing::skip;
use std::fs::File;
use std::os::fd::AsRawFd;

pub use corelane_os::testing::network::{alone, sysctl};

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

/// Runs a test on a thread of its own, in the server's namespace, as root.
pub fn on_network(test: &str, body: impl FnOnce(&Network) + Send) {
    corelane_os::runner::raise_descriptor_limit();
    on_thread(test, || match Network::new() {
        Ok(network) => body(&network),
        Err(why) => skip(test, &why),
    });
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
