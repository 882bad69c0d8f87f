//! Calls: those that serving takes, and no others (seccomp(2)).
//!
//! Allowed is what moves bytes, waits, keeps time and memory, and opens files and sockets of the families that services have. Refused is what serving
//! never does: to execute, to trace, to become another user, to mount, to load a program into the kernel, to make another ring or another namespace.

use rustix::process::getpid;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    apply_filter_all_threads,
};
use std::collections::BTreeMap;

// tidy: allow(backend) the library's name for what is wrong with a filter
use seccompiler::BackendError as FilterError;

/// Calls that are allowed whatever their arguments.
const ANY: &[i64] = &[
    // Memory.
    libc::SYS_brk,
    libc::SYS_madvise,
    libc::SYS_membarrier,
    libc::SYS_mlock,
    libc::SYS_mmap,
    libc::SYS_mprotect,
    libc::SYS_mremap,
    libc::SYS_msync,
    libc::SYS_munlock,
    libc::SYS_munmap,
    // Threads, and what they are told.
    libc::SYS_capget,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_futex,
    libc::SYS_getcpu,
    libc::SYS_getegid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getgroups,
    libc::SYS_getpid,
    libc::SYS_getppid,
    libc::SYS_getpriority,
    libc::SYS_getrandom,
    libc::SYS_getrlimit,
    libc::SYS_getrusage,
    libc::SYS_gettid,
    libc::SYS_getuid,
    libc::SYS_kcmp,
    libc::SYS_prctl,
    libc::SYS_prlimit64,
    libc::SYS_restart_syscall,
    libc::SYS_rseq,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigpending,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_rt_tgsigqueueinfo,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_getattr,
    libc::SYS_sched_getparam,
    libc::SYS_sched_getscheduler,
    libc::SYS_sched_setaffinity,
    libc::SYS_sched_yield,
    libc::SYS_set_robust_list,
    libc::SYS_sigaltstack,
    libc::SYS_sysinfo,
    libc::SYS_tgkill,
    libc::SYS_uname,
    // Time.
    libc::SYS_clock_getres,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_gettimeofday,
    libc::SYS_nanosleep,
    libc::SYS_timer_create,
    libc::SYS_timer_delete,
    libc::SYS_timer_settime,
    libc::SYS_timerfd_create,
    libc::SYS_timerfd_gettime,
    libc::SYS_timerfd_settime,
    // Waiting.
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_eventfd2,
    libc::SYS_inotify_add_watch,
    libc::SYS_inotify_init1,
    libc::SYS_inotify_rm_watch,
    libc::SYS_io_uring_enter,
    libc::SYS_pipe2,
    libc::SYS_ppoll,
    libc::SYS_pselect6,
    libc::SYS_signalfd4,
    // Bytes.
    libc::SYS_close,
    libc::SYS_close_range,
    libc::SYS_copy_file_range,
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_fcntl,
    libc::SYS_ioctl,
    libc::SYS_lseek,
    libc::SYS_pread64,
    libc::SYS_preadv,
    libc::SYS_preadv2,
    libc::SYS_pwrite64,
    libc::SYS_pwritev,
    libc::SYS_pwritev2,
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_sendfile,
    libc::SYS_splice,
    libc::SYS_write,
    libc::SYS_writev,
    // Files; which ones is for other rules to say.
    CACHESTAT,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_fadvise64,
    libc::SYS_fallocate,
    libc::SYS_fchdir,
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    libc::SYS_fdatasync,
    libc::SYS_flock,
    libc::SYS_fstat,
    libc::SYS_fstatfs,
    libc::SYS_fsync,
    libc::SYS_ftruncate,
    libc::SYS_getcwd,
    libc::SYS_getdents64,
    libc::SYS_memfd_create,
    libc::SYS_mkdirat,
    libc::SYS_newfstatat,
    libc::SYS_openat,
    libc::SYS_openat2,
    libc::SYS_readlinkat,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_statfs,
    libc::SYS_statx,
    libc::SYS_umask,
    libc::SYS_unlinkat,
    // Sockets.
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_bind,
    libc::SYS_connect,
    libc::SYS_getpeername,
    libc::SYS_getsockname,
    libc::SYS_getsockopt,
    libc::SYS_listen,
    libc::SYS_recvfrom,
    libc::SYS_recvmmsg,
    libc::SYS_recvmsg,
    libc::SYS_sendmmsg,
    libc::SYS_sendmsg,
    libc::SYS_sendto,
    libc::SYS_setsockopt,
    libc::SYS_shutdown,
    libc::SYS_socketpair,
];

/// Older forms of some, which the C library of this architecture uses.
#[cfg(target_arch = "x86_64")]
const OLDER: &[i64] = &[
    libc::SYS_access,
    libc::SYS_arch_prctl,
    libc::SYS_chmod,
    libc::SYS_dup2,
    libc::SYS_epoll_wait,
    libc::SYS_lstat,
    libc::SYS_mkdir,
    libc::SYS_open,
    libc::SYS_poll,
    libc::SYS_readlink,
    libc::SYS_rename,
    libc::SYS_rmdir,
    libc::SYS_stat,
    libc::SYS_time,
    libc::SYS_unlink,
];
#[cfg(not(target_arch = "x86_64"))]
const OLDER: &[i64] = &[];

/// cachestat(2), of kernel 6.5.
const CACHESTAT: i64 = 451;

/// Families of sockets that are opened while serving: those of services, and the kernel's news (netlink(7)). Ports of interfaces are made before.
const FAMILIES: [i32; 4] = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];

/// What is asked of maps and programs that are there (bpf(2)): BPF_MAP_LOOKUP_ELEM, BPF_MAP_UPDATE_ELEM, BPF_MAP_DELETE_ELEM, BPF_MAP_GET_NEXT_KEY,
/// BPF_OBJ_GET_INFO_BY_FD.
const BPF_COMMANDS: &[i32] = &[1, 2, 3, 4, 15];

/// To give a program that was loaded before to an interface (BPF_LINK_CREATE).
const BPF_COMMANDS_RECEIVING: &[i32] = &[28];

/// To load other rules as a program, and put it in the place of the one before (BPF_PROG_LOAD, BPF_LINK_UPDATE).
const BPF_COMMANDS_FORWARDING: &[i32] = &[5, 29];

/// What a program does beside serving, for which it needs more calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Beside {
    /// The kernel's receiving of an interface is governed anew when that comes up again: its threads are weighed, and a program that was loaded before is given to it.
    pub receiving: bool,
    /// Ports' programs forward by themselves, and others take their place when rules change.
    pub forwarding: bool,
}

/// A thread has nothing of its own that a process would have: CLONE_NEW*, each a namespace.
const NAMESPACES: u64 = 0x7e02_0000;

/// Allows all threads of this process, and those that they start, the calls that serving takes, and what it does beside; others fail with EPERM.
///
/// # Errors
/// Why the system does not take the filter.
pub fn restrict(beside: Beside) -> Result<(), String> {
    let words = |error: &dyn std::fmt::Display| error.to_string();
    // The first leaves the call by which the second is given.
    let filters = [without_clone3(), only(ANY.iter().chain(OLDER), beside)];
    for filter in filters {
        let filter = filter.map_err(|error| words(&error))?;
        apply_filter_all_threads(&filter).map_err(|error| words(&error))?;
    }
    Ok(())
}

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// A filter refuses what it does not allow.
fn filter(rules: Rules, otherwise: SeccompAction, named: SeccompAction) -> Result<BpfProgram, FilterError> {
    let architecture = std::env::consts::ARCH.try_into()?;
    SeccompFilter::new(rules, otherwise, named, architecture)?.try_into()
}

fn only<'a>(any: impl Iterator<Item = &'a i64>, beside: Beside) -> Result<BpfProgram, FilterError> {
    let mut rules: Rules = any.map(|&call| (call, Vec::new())).collect();
    if beside.receiving {
        rules.insert(libc::SYS_sched_setattr, Vec::new());
    } else if beside.forwarding {
        // A thread that prepares a change of rules goes behind all others by itself, and no other thread's rank is changed.
        rules.insert(libc::SYS_sched_setattr, among(&[0])?);
    }
    rules.insert(libc::SYS_socket, among(&FAMILIES)?);
    let more = [(beside.receiving, BPF_COMMANDS_RECEIVING), (beside.forwarding, BPF_COMMANDS_FORWARDING)];
    let more = more.into_iter().filter_map(|(may, commands)| may.then_some(commands));
    rules.insert(libc::SYS_bpf, among(&more.fold(BPF_COMMANDS.to_vec(), |all, commands| [all.as_slice(), commands].concat()))?);
    // A stalled lane's stack is copied by its own process; nobody else's memory is read.
    rules.insert(libc::SYS_process_vm_readv, among(&[getpid().as_raw_nonzero().get()])?);
    let no_namespace = SeccompCondition::new(0, SeccompCmpArgLen::Qword, SeccompCmpOp::MaskedEq(NAMESPACES), 0)?;
    rules.insert(libc::SYS_clone, vec![SeccompRule::new(vec![no_namespace])?]);
    // It is refused by the other filter, in the one way after which the C library tries the other call.
    rules.insert(libc::SYS_clone3, Vec::new());
    filter(rules, SeccompAction::Errno(libc::EPERM as u32), SeccompAction::Allow)
}

/// What a new thread may have is behind a pointer, where no filter sees it.
fn without_clone3() -> Result<BpfProgram, FilterError> {
    let rules = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
    filter(rules, SeccompAction::Allow, SeccompAction::Errno(libc::ENOSYS as u32))
}

/// One rule for each value of a call's first argument.
fn among(values: &[i32]) -> Result<Vec<SeccompRule>, FilterError> {
    let one = |value: &i32| {
        let condition = SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, value.cast_unsigned().into())?;
        SeccompRule::new(vec![condition])
    };
    values.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use corelane_os::testing::{call, in_child};
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn what_serving_never_does_is_refused_and_nobody_is_killed() {
        let refused = [
            (libc::SYS_execve, 0),
            (libc::SYS_ptrace, 0),
            (libc::SYS_process_vm_readv, 1),
            (libc::SYS_mount, 0),
            (libc::SYS_setuid, 0),
            (libc::SYS_unshare, i64::from(libc::CLONE_NEWUSER)),
            (libc::SYS_setns, -1),
            (libc::SYS_io_uring_setup, 1),
            (libc::SYS_bpf, 5),
            (libc::SYS_bpf, 28),
            (libc::SYS_sched_setattr, 0),
            (libc::SYS_socket, i64::from(libc::AF_PACKET)),
            (libc::SYS_clone, i64::from(libc::CLONE_NEWUSER)),
        ];
        let all = in_child(|| {
            assert_eq!(restrict(Beside::default()), Ok(()));
            for (number, first) in refused {
                assert_eq!(call(number, first), Err(libc::EPERM), "call {number}");
            }
            // A thread that is started later is as little free; the C library makes it by the call that is left to it.
            let later = std::thread::spawn(|| call(libc::SYS_execve, 0));
            later.join().unwrap() == Err(libc::EPERM) && serves()
        });
        assert!(all);
        let receives = in_child(|| {
            assert_eq!(restrict(Beside { receiving: true, ..Beside::default() }), Ok(()));
            // Neither names what is to be set.
            call(libc::SYS_sched_setattr, 0) == Err(libc::EINVAL) && call(libc::SYS_bpf, 5) == Err(libc::EPERM) && serves()
        });
        assert!(receives);
        let forwards = in_child(|| {
            assert_eq!(restrict(Beside { forwarding: true, ..Beside::default() }), Ok(()));
            let refused = [(libc::SYS_bpf, 28), (libc::SYS_sched_setattr, 1)];
            let refused = refused.iter().all(|(number, first)| call(*number, *first) == Err(libc::EPERM));
            // A thread's own rank is its own to change; here nothing says to which.
            let own = call(libc::SYS_sched_setattr, 0) == Err(libc::EINVAL);
            refused && own && [5, 29].iter().all(|command| call(libc::SYS_bpf, *command) != Err(libc::EPERM)) && serves()
        });
        assert!(forwards);
    }

    fn serves() -> bool {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        client.write_all(b"served").unwrap();
        let mut back = [0; 6];
        server.read_exact(&mut back).unwrap();
        back == *b"served"
    }
}
