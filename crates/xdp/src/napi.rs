//! What the kernel receives an interface's packets by (NAPI, `Documentation/networking/napi.rst`), as it is told over netlink: of the thread's network namespace,
//! where /sys shows that of whoever has mounted it.

use crate::errors::Error;
use crate::polling::{FAMILY, ID, INTERFACE, NAPI_GET, NAPI_SET};
use corelane_os::errno;
use corelane_os::kernel_files::text;
use corelane_os::netlink::generic::{Family, ask, attributes};
use std::fs;
use std::io;

/// The thread that runs it, and whether one does (`NETDEV_A_NAPI_PID`, `NETDEV_A_NAPI_THREADED`).
const THREAD: u16 = 4;
const THREADED: u16 = 8;

/// One receiver of an interface: mostly that of one queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Napi {
    pub id: u32,
    /// The kernel's thread that receives, if one does, by its number in the first PID namespace.
    pub thread: Option<u32>,
    /// How it is set, if the kernel tells (Linux 6.17): 0 for no thread.
    pub threaded: Option<u32>,
}

/// Those of an interface, in the order in which they were made: that of the queues. One that is down has none.
///
/// # Errors
/// [`Error::Absent`] before Linux 6.8, and what else [`Error::of`] has.
pub fn of(interface: u32, name: &str) -> Result<Vec<Napi>, Error> {
    let found = list(Some(interface)).map_err(|error| refused(&error, name))?;
    Ok(found.into_iter().map(|(_, napi)| napi).collect())
}

/// Those of all interfaces in this network namespace, each with its interface's number.
///
/// # Errors
/// As [`of`].
pub fn all() -> Result<Vec<(u32, Napi)>, Error> {
    list(None).map_err(|error| refused(&error, ""))
}

fn refused(error: &io::Error, name: &str) -> Error {
    match errno::of(error) {
        // Of a family, or a question, that the kernel does not know.
        libc::ENOENT | libc::EOPNOTSUPP => OLD,
        number => Error::of("netlink NAPI_GET", number, name),
    }
}

/// What a kernel lacks that is too old.
const OLD: Error =
    Error::Absent { what: "word of the kernel on its receiving threads (NAPI_GET)", remedy: "use Linux 6.8 or later" };

fn list(interface: Option<u32>) -> io::Result<Vec<(u32, Napi)>> {
    let all = Family::find(FAMILY)?.list(NAPI_GET);
    let request = match interface {
        Some(number) => all.attribute(INTERFACE, &number.to_ne_bytes()),
        None => all,
    };
    let mut found = Vec::new();
    for body in ask(request)? {
        let told = attributes(&body)?;
        let Some((id, interface)) = told.number(ID).zip(told.number(INTERFACE)) else { continue };
        found.push((interface, Napi { id, thread: told.number(THREAD), threaded: told.number(THREADED) }));
    }
    found.sort_unstable_by_key(|(_, napi)| napi.id);
    Ok(found)
}

/// Has a thread of the kernel's own receive, or none (Linux 6.17). Needs CAP_NET_ADMIN.
///
/// # Errors
/// What [`Error::of`] has.
pub fn set_threaded(id: u32, threaded: u32, name: &str) -> Result<(), Error> {
    let set = || {
        let request = Family::find(FAMILY)?.one(NAPI_SET).attribute(ID, &id.to_ne_bytes());
        ask(request.attribute(THREADED, &threaded.to_ne_bytes()))
    };
    set().map(drop).map_err(|error| Error::of("netlink NAPI_SET", errno::of(&error), name))
}

/// What the kernel shows of an interface, in the network namespace of /sys.
pub fn folder(name: &str) -> String {
    format!("/sys/class/net/{name}")
}

/// The file there that says whether threads receive.
pub const SETTING: &str = "threaded";

/// The setting of a whole interface, for kernels that have none of each receiver (before Linux 6.17).
pub struct Setting<'a> {
    name: &'a str,
    file: String,
}

impl<'a> Setting<'a> {
    /// That of the interface of this name and number.
    ///
    /// # Errors
    /// [`Error::Absent`] if /sys shows another network namespace.
    pub fn of(name: &'a str, interface: u32) -> Result<Self, Error> {
        let folder = folder(name);
        let number = text(&format!("{folder}/ifindex")).ok().and_then(|number| number.trim().parse().ok());
        match number == Some(interface) {
            true => Ok(Self { name, file: format!("{folder}/{SETTING}") }),
            false => Err(Error::Absent {
                what: "/sys of this network namespace, which sets threads before Linux 6.17",
                remedy: "mount it there (mount -t sysfs sysfs /sys), or use Linux 6.17 or later",
            }),
        }
    }

    /// Whether threads receive.
    ///
    /// # Errors
    /// What [`Error::of`] has.
    pub fn is_on(&self) -> Result<bool, Error> {
        let told = text(&self.file).map_err(|error| self.refused(&error))?;
        Ok(told.trim() != "0")
    }

    /// Has threads receive, or none. Needs CAP_NET_ADMIN, and the file.
    ///
    /// # Errors
    /// What [`Error::of`] has.
    pub fn set(&self, is_on: bool) -> Result<(), Error> {
        fs::write(&self.file, if is_on { "1" } else { "0" }).map_err(|error| self.refused(&error))
    }

    fn refused(&self, error: &io::Error) -> Error {
        Error::of("writing to /sys/class/net/*/threaded", errno::of(error), self.name)
    }
}

/// The first PID namespace, as /proc names it (`PROC_PID_INIT_INO`).
const FIRST_NAMESPACE: &str = "pid:[4026531836]";

/// Looks whether the number is that of the receiver's thread here: a process in a PID namespace of its own sees none of the kernel's threads, and somebody else under
/// that number. In the first one it is, also where /proc hides threads of others (`hidepid`, proc(5)).
///
/// # Errors
/// [`Error::ThreadHidden`].
pub fn check_thread(napi: Napi, thread: u32, name: &str) -> Result<(), Error> {
    let is_first = fs::read_link("/proc/self/ns/pid").is_ok_and(|namespace| namespace.as_os_str() == FIRST_NAMESPACE);
    let is_its = is_first || is_of(napi, &text(&format!("/proc/{thread}/comm")).unwrap_or_default());
    if is_its { Ok(()) } else { Err(Error::ThreadHidden { name: name.into(), thread }) }
}

/// Whether a thread of this name is a receiver's: `napi/NAME-ID`. The interface may have had another name.
fn is_of(napi: Napi, thread: &str) -> bool {
    thread.trim_end().strip_prefix("napi/").is_some_and(|rest| rest.ends_with(&format!("-{}", napi.id)))
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::link::Interface;
    use corelane_os::testing::network::{ip, on_thread, unshared};
    use corelane_os::testing::skip;
    use rustix::thread::{UnshareFlags, unshare_unsafe};
    use std::process::Command;

    /// Runs a test at `near`, an end of a wire by this number; `show` has /sys show its network namespace.
    pub fn at_near(test: &str, body: impl FnOnce(u32, &dyn Fn()) + Send) {
        on_thread(test, || {
            // SAFETY: no other thread shares what this changes.
            let apart = || unsafe { unshare_unsafe(UnshareFlags::NEWNS) }.map_err(|error| error.to_string());
            if let Err(why) = unshared().and_then(|_| apart()) {
                return skip(test, &why);
            }
            ip(&["link add near type veth peer name far".into(), "link set near up".into()]).unwrap();
            let show = || {
                for words in [&["--make-rprivate", "/"][..], &["-t", "sysfs", "sysfs", "/sys"]] {
                    assert!(Command::new("mount").args(words).status().unwrap().success());
                }
            };
            body(Interface::find("near").unwrap().link.interface, &show);
        });
    }

    /// Has `near` receive as a card does, without a program.
    pub fn receive_as_a_card() {
        assert!(Command::new("ethtool").args(["-K", "near", "gro", "on"]).status().unwrap().success());
    }

    #[test]
    fn the_thread_of_somebody_else_is_left_alone() {
        let napi = Napi { id: 7, thread: None, threaded: Some(1) };
        assert!(is_of(napi, "napi/eth1-7\n") && is_of(napi, "napi/a-b-7\n"));
        for other in ["", "bash\n", "napi/eth1-17\n", "napi/eth1-8\n", "eth1-7"] {
            assert!(!is_of(napi, other), "{other:?}");
        }
    }

    #[test]
    fn a_setting_is_of_this_network_namespace() {
        const TEST: &str = "napi::tests::a_setting_is_of_this_network_namespace";
        at_near(TEST, |near, show| {
            assert!(Setting::of("near", near).is_err(), "/sys shows the namespace of before");
            show();
            assert!(Setting::of("near", near + 1).is_err());
            let setting = Setting::of("near", near).unwrap();
            assert_eq!(setting.is_on(), Ok(false));
            assert!(setting.set(true).is_err(), "nothing receives there in a thread");
            receive_as_a_card();
            for is_on in [true, false] {
                setting.set(is_on).unwrap();
                assert_eq!(setting.is_on(), Ok(is_on));
                assert_eq!(of(near, "near").unwrap()[0].thread.is_some(), is_on);
            }
            // Threads that were set one by one are taken back together.
            let napi = of(near, "near").unwrap()[0];
            set_threaded(napi.id, 1, "near").unwrap();
            setting.set(false).unwrap();
            assert_eq!(of(near, "near").unwrap()[0].thread, None);
        });
    }
}
