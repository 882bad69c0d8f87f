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

use corelane_os::errno::fault;
use nix::unistd::{Gid, Group, Uid, getgrouplist, setegid, seteuid, setgroups, setresgid, setresuid};
use rustix::io::Errno;
use rustix::process::{DumpableBehavior, Gid as RawGid, Uid as RawUid, set_dumpable_behavior};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, capability_is_in_bounding_set, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities, set_no_new_privs, set_thread_groups, set_thread_res_gid,
    set_thread_res_uid,
};
use std::ffi::CString;
use std::fs;

/// What making sockets, steering programs, ports and locked memory takes, looking on at what the kernel loses of ports, and weighing its threads, until all is made.
const TO_BEGIN: CapabilitySet = CapabilitySet::NET_BIND_SERVICE
    .union(CapabilitySet::NET_ADMIN)
    .union(CapabilitySet::NET_RAW)
    .union(CapabilitySet::IPC_LOCK)
    .union(CapabilitySet::SYS_NICE)
    .union(CapabilitySet::BPF)
    .union(CapabilitySet::PERFMON);

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
    /// Looks up `NAME` with all its groups, or `NAME:GROUP` with that one alone. Both may be numbers, of which nobody need know (passwd(5), group(5)): a user
    /// without an entry, and without a group here, has the group of the same number alone.
    ///
    /// # Errors
    /// There is no such user, or group; or it is root.
    pub fn find(text: &str) -> Result<Self, String> {
        let (name, group) = text.split_once(':').map_or((text, None), |(name, group)| (name, Some(group)));
        let user = find_user(name)?;
        if user.uid.is_root() {
            return Err(format!("{name:?} is root: name a user with fewer rights"));
        }
        let (gid, groups) = match group {
            Some(group) => {
                let gid = find_group(group)?;
                (gid, vec![gid])
            }
            None => (user.gid, user.entry.map_or(Ok(vec![user.gid]), |name| groups_of(&name, user.gid))?),
        };
        Ok(Self { name: name.to_owned(), uid: user.uid, gid, groups })
    }

    /// Calls this on a thread of its own that is this user, and has no right of root; the process stays as it is. Who is not root is nobody else, and calls
    /// it as it is.
    ///
    /// # Errors
    /// What the system says of the thread, or of becoming the user.
    pub fn acting<T: Send>(&self, call: impl FnOnce() -> T + Send) -> Result<T, String> {
        if !Uid::effective().is_root() {
            return Ok(call());
        }
        std::thread::scope(|scope| {
            let apart = std::thread::Builder::new().name("as-user".to_owned());
            let acting = apart.spawn_scoped(scope, || self.become_alone().map(|()| call()));
            let acting = acting.map_err(|error| format!("a thread to look as {} is refused: {error}", self.name))?;
            acting.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// Has the calling thread alone be this user, with all ids, which takes all capabilities along.
    fn become_alone(&self) -> Result<(), String> {
        let (uid, gid) = (RawUid::from_raw(self.uid.as_raw()), RawGid::from_raw(self.gid.as_raw()));
        let groups: Vec<RawGid> = self.groups.iter().map(|group| RawGid::from_raw(group.as_raw())).collect();
        let became = set_thread_groups(&groups)
            .and_then(|()| set_thread_res_gid(gid, gid, gid))
            .and_then(|()| set_thread_res_uid(uid, uid, uid));
        became.map_err(|error| {
            format!(
                "becoming {} is refused ({}): give the program CAP_SETUID and CAP_SETGID",
                self.name,
                fault(error.raw_os_error())
            )
        })
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

/// A user as it was found: with the name of its entry, if it has one.
struct FoundUser {
    uid: Uid,
    gid: Gid,
    entry: Option<String>,
}

/// By name first, for a name may have digits alone; then by number.
fn find_user(name: &str) -> Result<FoundUser, String> {
    let of_entry = |user: nix::unistd::User| FoundUser { uid: user.uid, gid: user.gid, entry: Some(user.name) };
    let look_up =
        |looked: nix::Result<Option<nix::unistd::User>>| known(looked).map_err(|why| format!("looking up user {name:?}: {why}"));
    if let Some(user) = look_up(nix::unistd::User::from_name(name))? {
        return Ok(of_entry(user));
    }
    let Some(number) = id(name) else {
        return Err(format!("there is no user {name:?}: make it (useradd --system), or name another, or a number"));
    };
    let entry = look_up(nix::unistd::User::from_uid(Uid::from_raw(number)))?;
    Ok(entry.map_or(FoundUser { uid: Uid::from_raw(number), gid: Gid::from_raw(number), entry: None }, of_entry))
}

fn find_group(name: &str) -> Result<Gid, String> {
    let found = known(Group::from_name(name)).map_err(|why| format!("looking up group {name:?}: {why}"))?;
    let gid = found.map(|group| group.gid).or_else(|| id(name).map(Gid::from_raw));
    gid.ok_or_else(|| format!("there is no group {name:?}: make it (groupadd --system), or name another, or a number"))
}

/// What was found, if anything was. Where there are no files to look it up in, nobody is known: these errors say so too (getpwnam(3), getgrnam(3)).
fn known<T>(looked: nix::Result<Option<T>>) -> nix::Result<Option<T>> {
    match looked {
        Err(nix::Error::ENOENT | nix::Error::ESRCH | nix::Error::EBADF | nix::Error::EPERM) => Ok(None),
        looked => looked,
    }
}

/// The number of a user or group that a text is; the last one stands for none (setresuid(2)).
fn id(text: &str) -> Option<u32> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|&number| is_number && number != u32::MAX)
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
        for (text, words) in [("0", "fewer rights"), ("4294967295", "useradd"), ("-1", "useradd"), ("nobody:", "groupadd")] {
            let why = User::find(text).unwrap_err();
            assert!(why.contains(words), "{text}: {why}");
        }
    }

    #[test]
    fn a_number_without_an_entry_is_a_user_with_that_group_alone() {
        let of = |text: &str| User::find(text).map(|user| (user.uid.as_raw(), user.gid.as_raw(), user.groups.len()));
        assert_eq!(of("7777777"), Ok((7_777_777, 7_777_777, 1)));
        assert_eq!(of("7777777:8888888"), Ok((7_777_777, 8_888_888, 1)));
        let nobody = User::find("nobody").unwrap();
        assert_eq!(User { name: nobody.name.clone(), ..User::find(&nobody.uid.to_string()).unwrap() }, nobody);
    }

    #[test]
    fn a_thread_acts_as_the_user_and_the_others_do_not() {
        if !Uid::effective().is_root() {
            return corelane_os::testing::skip("user::tests::a_thread_acts_as_the_user_and_the_others_do_not", "it needs root");
        }
        let acted = User::find("7777777").unwrap().acting(|| {
            let status = fs::read_to_string("/proc/thread-self/status").unwrap();
            assert!(status.contains("\nCapEff:\t0000000000000000\n"), "{status}");
            fs::metadata("/proc/thread-self").map(|facts| std::os::unix::fs::MetadataExt::uid(&facts))
        });
        assert_eq!(acted.unwrap().unwrap(), 7_777_777);
        assert!(Uid::effective().is_root());
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
