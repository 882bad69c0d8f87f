//! A program that root starts and that serves as somebody else (credentials(7), capabilities(7)).
//!
//! ```text
//! root, one thread --User::begin--> effective user, a few capabilities: makes all sockets, files, threads
//!                  --Beginning::finish--> that user on every thread, no capability, no way back
//! ```
//!
//! Capabilities and securebits belong to threads, and the kernel's calls change the calling one alone. So what can be given up before there are other
//! threads is given up then, and inherited: the way back by an executed file (`no_new_privs`), the bounding and the ambient set. The rest goes with
//! the last user id of root, which takes all capabilities of a thread along; that call is the C library's, which carries it out on every thread
//! (nptl(7)). Threads of the kernel for a ring (`iou-wrk`) are not the C library's: they act with the rights of who submitted, for each operation.

use crate::errno::fault;
use nix::unistd::{Gid, Group, Uid, getgrouplist, setegid, seteuid, setgroups, setresgid, setresuid};
use rustix::io::Errno;
use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, capability_is_in_bounding_set, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities, set_no_new_privs,
};
use std::ffi::CString;
use std::fs;

/// What making sockets, steering programs, ports and locked memory takes, until all is made.
const TO_BEGIN: CapabilitySet = CapabilitySet::NET_BIND_SERVICE
    .union(CapabilitySet::NET_ADMIN)
    .union(CapabilitySet::NET_RAW)
    .union(CapabilitySet::IPC_LOCK)
    .union(CapabilitySet::BPF);

/// Capabilities that a kernel may have: the sets are words of so many bits.
const CAPABILITIES_MAX: u32 = 64;

/// Somebody whom this program can become.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    name: String,
    uid: Uid,
    gid: Gid,
    groups: Vec<Gid>,
}

/// A program that acts as a user, and still may what its beginning takes.
#[must_use = "until it is finished, root can be had back"]
#[derive(Debug)]
pub struct Beginning(User);

impl User {
    /// Looks up `NAME` with all its groups, or `NAME:GROUP` with that one alone.
    ///
    /// # Errors
    /// There is no such user, or group; or it is root.
    pub fn find(text: &str) -> Result<Self, String> {
        let (name, group) = text.split_once(':').map_or((text, None), |(name, group)| (name, Some(group)));
        let found = nix::unistd::User::from_name(name).map_err(|error| format!("looking up user {name:?}: {error}"))?;
        let user = found.ok_or_else(|| format!("there is no user {name:?}: make it (useradd --system), or name another"))?;
        if user.uid.is_root() {
            return Err(format!("{name:?} is root: name a user with fewer rights"));
        }
        let (gid, groups) = match group {
            Some(group) => {
                let gid = find_group(group)?;
                (gid, vec![gid])
            }
            None => (user.gid, groups_of(name, user.gid)?),
        };
        Ok(Self { name: name.to_owned(), uid: user.uid, gid, groups })
    }

    /// Acts as this user from now on, with no more than what a beginning takes. To be called before there are other threads.
    ///
    /// # Errors
    /// Which right is missing, and the remedy.
    pub fn begin(self) -> Result<Beginning, String> {
        if !Uid::effective().is_root() {
            return Err(format!("only root can become {}: start as root, or leave it out", self.name));
        }
        assert!(threads() == 1, "what the calling thread gives up, those that it starts do not have");
        let why = |what: &'static str| {
            move |error: Errno| format!("{what} is refused ({}): give the program this capability", fault(error.raw_os_error()))
        };
        let of_nix = |error: nix::Error| Errno::from_raw_os_error(error as i32);
        set_no_new_privs(true).map_err(why("to be without new privileges (prctl(2))"))?;
        clear_bounding_set().map_err(why("to empty the bounding set (CAP_SETPCAP)"))?;
        clear_ambient_capability_set().map_err(why("to empty the ambient set"))?;
        let kept = capabilities(None).map_err(why("to read capabilities"))?.permitted & TO_BEGIN;
        setgroups(&self.groups).and_then(|()| setegid(self.gid)).map_err(of_nix).map_err(why("to change groups (CAP_SETGID)"))?;
        seteuid(self.uid).map_err(of_nix).map_err(why("to change the user (CAP_SETUID)"))?;
        let sets = CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() };
        set_capabilities(None, sets).map_err(why("to give up capabilities"))?;
        let_look_at_itself();
        Ok(Beginning(self))
    }
}

impl Beginning {
    /// Gives up all that root had, on every thread, and looks whether that is so.
    ///
    /// # Errors
    /// Which thread has kept what.
    pub fn finish(self) -> Result<(), String> {
        let User { name, uid, gid, .. } = self.0;
        let changed = setresgid(gid, gid, gid).and_then(|()| setresuid(uid, uid, uid));
        changed.map_err(|error| format!("becoming {name} for good is refused: {error}"))?;
        let_look_at_itself();
        check(uid, gid)
    }
}

/// Who has changed its user may not look into its own /proc/self/fd, which a Unix socket's mode needs. What it holds is this user's by now.
fn let_look_at_itself() {
    let set = set_dumpable_behavior(DumpableBehavior::Dumpable);
    assert!(set.is_ok(), "the value is a valid one (prctl(2), PR_SET_DUMPABLE)");
}

fn find_group(name: &str) -> Result<Gid, String> {
    let found = Group::from_name(name).map_err(|error| format!("looking up group {name:?}: {error}"))?;
    let group = found.ok_or_else(|| format!("there is no group {name:?}: make it (groupadd --system), or name another"))?;
    Ok(group.gid)
}

fn groups_of(name: &str, gid: Gid) -> Result<Vec<Gid>, String> {
    let name_for_c = CString::new(name).map_err(|_| format!("{name:?} is no name"))?;
    getgrouplist(&name_for_c, gid).map_err(|error| format!("looking up the groups of {name:?}: {error}"))
}

fn clear_bounding_set() -> Result<(), Errno> {
    let all = (0..CAPABILITIES_MAX).map(|bit| CapabilitySet::from_bits_retain(1 << bit));
    for one in all {
        match capability_is_in_bounding_set(one) {
            Ok(true) => remove_capability_from_bounding_set(one)?,
            Ok(false) => {}
            // The kernel knows no more of them.
            Err(Errno::INVAL) => break,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Threads of this process.
fn threads() -> usize {
    fs::read_dir("/proc/self/task").map_or(1, Iterator::count)
}

/// Finds no thread that has another user, another group or any capability (proc_pid_status(5)).
fn check(uid: Uid, gid: Gid) -> Result<(), String> {
    let unreadable = |error| format!("threads cannot be checked: /proc/self/task: {error}: mount proc(5)");
    for task in fs::read_dir("/proc/self/task").map_err(unreadable)? {
        // A thread may end meanwhile.
        let Ok(status) = fs::read_to_string(task.map_err(unreadable)?.path().join("status")) else { continue };
        if let Some(line) = kept(&status, uid, gid) {
            return Err(format!("a thread has kept rights of root: {line}: this is an error of this program"));
        }
    }
    Ok(())
}

/// The line of a thread's status that tells of more than this user has.
fn kept(status: &str, uid: Uid, gid: Gid) -> Option<&str> {
    let field = |line: &str, name: &str| line.strip_prefix(name).map(str::to_owned);
    if status.lines().any(|line| field(line, "Name:\t").is_some_and(|name| name.starts_with("iou-"))) {
        return None;
    }
    let all_are = |values: String, id: u32| values.split_whitespace().all(|value| value.parse() == Ok(id));
    status.lines().find(|line| {
        let is_wrong = |name, id| field(line, name).is_some_and(|values| !all_are(values, id));
        let has_some = |name| field(line, name).is_some_and(|values| values.trim().chars().any(|digit| digit != '0'));
        let sets = ["CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:"];
        is_wrong("Uid:", uid.as_raw()) || is_wrong("Gid:", gid.as_raw()) || sets.into_iter().any(has_some)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_not_there_or_is_root_is_refused_with_words() {
        for (text, words) in
            [("nobody-of-this-name", "useradd"), ("nobody:no-group-of-this-name", "groupadd"), ("root", "fewer rights")]
        {
            let why = User::find(text).unwrap_err();
            assert!(why.contains(words), "{why}");
        }
        assert!(User::find("nobody").is_ok());
    }

    #[test]
    fn a_thread_that_kept_something_is_found() {
        let status =
            |uids: &str, effective: &str| format!("Name:\tlane-0\nUid:\t{uids}\nGid:\t7\t7\t7\t7\nCapEff:\t{effective}\n");
        let kept_of = |status: &str| kept(status, Uid::from_raw(7), Gid::from_raw(7)).map(str::to_owned);
        let none = "0000000000000000";
        assert_eq!(kept_of(&status("7\t7\t7\t7", none)), None);
        assert_eq!(kept_of(&status("7\t7\t0\t7", none)).as_deref(), Some("Uid:\t7\t7\t0\t7"));
        assert!(kept_of(&status("7\t7\t7\t7", "0000000000000400")).unwrap().starts_with("CapEff"));
        assert_eq!(kept_of(&status("0\t0\t0\t0", none).replace("lane-0", "iou-wrk-1")), None, "it is the kernel's");
    }
}
