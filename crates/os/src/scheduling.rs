//! How the scheduler takes threads, of this process or of the kernel (sched(7)): policy, nice value, CPUs, and the weight that follows from them.

use crate::cpus::{GROUPS, group_of};
use crate::errno::checked;
use crate::kernel_files::text;
use rustix::thread::{CpuSet, Pid, sched_getaffinity, sched_setaffinity};
use std::io;
use std::path::Path;

/// Weights of nice values from -20 on, as the fair scheduler has them: each is about 1.25 times the next (sched(7)).
const WEIGHTS: [u32; 40] = [
    88761, 71755, 56483, 46273, 36291, 29154, 23254, 18705, 14949, 11916, 9548, 7620, 6100, 4904, 3906, 3121, 2501, 1991, 1586,
    1277, 1024, 820, 655, 526, 423, 335, 272, 215, 172, 137, 110, 87, 70, 56, 45, 36, 29, 23, 18, 15,
];
/// The weight of a thread of SCHED_IDLE.
const IDLE_WEIGHT: u32 = 3;
/// The least and the greatest nice value.
const NICE: std::ops::RangeInclusive<i8> = -20..=19;

/// Policy and priority of one thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scheduling {
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    /// Runtime, deadline and period in nanoseconds, which only SCHED_DEADLINE has; the first is the slice of a fair thread, 0 if that is the scheduler's to say.
    deadline: [u64; 3],
}

impl Scheduling {
    /// The policy of ordinary threads (SCHED_OTHER), at this nice value.
    ///
    /// # Panics
    /// If the value is not -20 to 19.
    pub const fn nice(nice: i8) -> Self {
        assert!(*NICE.start() <= nice && nice <= *NICE.end(), "a nice value is -20 to 19");
        Self { policy: libc::SCHED_OTHER as u32, flags: 0, nice: nice as i32, priority: 0, deadline: [0; 3] }
    }

    /// The policy of threads that run when no other wants to, or nearly so (SCHED_IDLE).
    pub fn idle() -> Self {
        Self { policy: libc::SCHED_IDLE as u32, ..Self::nice(0) }
    }

    /// All that share a CPU by their weights, the heaviest first.
    pub fn all_fair() -> impl Iterator<Item = Self> {
        NICE.map(Self::nice).chain([Self::idle()])
    }

    /// The same, and nothing of it for threads and processes that one with it begins (SCHED_FLAG_RESET_ON_FORK).
    #[must_use]
    pub fn of_one_thread(self) -> Self {
        Self { flags: self.flags | libc::SCHED_FLAG_RESET_ON_FORK as u64, ..self }
    }

    /// The same for a fair thread, with a slice of so many nanoseconds, 100,000 to 100,000,000 (Linux 6.12; before that it is ignored). One that wakes with a shorter slice than
    /// the thread that runs need not wait for the end of that one's.
    #[must_use]
    pub const fn in_slices_of(self, nanoseconds: u64) -> Self {
        Self { deadline: [nanoseconds, 0, 0], ..self }
    }

    /// The part of a CPU that it has among others; none if it is not shared by weights (SCHED_FIFO, SCHED_RR, SCHED_DEADLINE).
    pub fn weight(self) -> Option<u32> {
        match self.policy as i32 {
            libc::SCHED_IDLE => Some(IDLE_WEIGHT),
            libc::SCHED_OTHER | libc::SCHED_BATCH => weight_of_nice(self.nice),
            _ => None,
        }
    }

    /// That of a thread (sched_getattr(2)).
    ///
    /// # Errors
    /// What the system says; ESRCH if there is none of that number.
    pub fn of(thread: u32) -> io::Result<Self> {
        // SAFETY: the structure is plain numbers, for which zeros are good.
        let mut attributes: libc::sched_attr = unsafe { std::mem::zeroed() };
        let bytes = size_of::<libc::sched_attr>();
        // SAFETY: the call writes at most so many bytes of the structure that it is given.
        let asked = unsafe { libc::syscall(libc::SYS_sched_getattr, thread, &raw mut attributes, bytes, 0) };
        checked(asked as isize).map_err(io::Error::from_raw_os_error)?;
        let libc::sched_attr { sched_policy, sched_flags, sched_nice, sched_priority, .. } = attributes;
        let is_deadline = sched_policy as i32 == libc::SCHED_DEADLINE;
        // Others are told their slice here, which would be fixed if it were given back.
        let deadline = [attributes.sched_runtime, attributes.sched_deadline, attributes.sched_period];
        let deadline = if is_deadline { deadline } else { [0; 3] };
        // The value that an idle thread had before is kept for it, and counts for nothing.
        let nice = if sched_policy as i32 == libc::SCHED_IDLE { 0 } else { sched_nice };
        Ok(Self { policy: sched_policy, flags: sched_flags, nice, priority: sched_priority, deadline })
    }

    /// Gives it to a thread (sched_setattr(2)). More than the thread has needs CAP_SYS_NICE, and so does the thread of another user.
    ///
    /// # Errors
    /// What the system says; ESRCH if there is none of that number.
    pub fn give_to(self, thread: u32) -> io::Result<()> {
        // SAFETY: the structure is plain numbers, for which zeros are good.
        let mut attributes: libc::sched_attr = unsafe { std::mem::zeroed() };
        attributes.size = size_of::<libc::sched_attr>() as u32;
        attributes.sched_policy = self.policy;
        attributes.sched_flags = self.flags;
        attributes.sched_nice = self.nice;
        attributes.sched_priority = self.priority;
        [attributes.sched_runtime, attributes.sched_deadline, attributes.sched_period] = self.deadline;
        // SAFETY: the call reads as many bytes of the structure as it says itself.
        let asked = unsafe { libc::syscall(libc::SYS_sched_setattr, thread, &raw const attributes, 0) };
        checked(asked as isize).map(drop).map_err(io::Error::from_raw_os_error)
    }
}

fn weight_of_nice(nice: i32) -> Option<u32> {
    WEIGHTS.get(usize::try_from(nice - i32::from(*NICE.start())).ok()?).copied()
}

/// The CPUs that a thread may run on, lowest first (sched_getaffinity(2)).
///
/// # Errors
/// What the system says; ESRCH if there is none of that number.
pub fn cpus_of(thread: u32) -> io::Result<Vec<usize>> {
    let set = sched_getaffinity(Some(pid(thread)?))?;
    Ok((0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect())
}

/// Has a thread run on these CPUs alone (sched_setaffinity(2)). The thread of another user needs CAP_SYS_NICE.
///
/// # Errors
/// What the system says; EINVAL if none of them is there.
pub fn bind(thread: u32, cpus: &[usize]) -> io::Result<()> {
    let mut set = CpuSet::new();
    cpus.iter().filter(|&&cpu| cpu < CpuSet::MAX_CPU).for_each(|&cpu| set.set(cpu));
    Ok(sched_setaffinity(Some(pid(thread)?), &set)?)
}

fn pid(thread: u32) -> io::Result<Pid> {
    let raw = i32::try_from(thread).ok().and_then(Pid::from_raw);
    raw.ok_or_else(|| io::Error::from_raw_os_error(libc::ESRCH))
}

/// The weight by which the threads of this process stand together against those of the kernel; none if each stands for itself.
///
/// The scheduler shares a CPU among groups first: control groups of the controller `cpu` (`cpu.weight`, `cpu.shares`), or sessions, where it groups by those
/// (autogroup, sched(7)). A group's weight is divided over the CPUs on which its threads want to run. This is the weight of the outermost group.
pub fn group_weight() -> Option<u32> {
    let groups = text("/proc/self/cgroup").ok()?;
    let own = groups.lines().filter_map(|line| group_of(line, "cpu", Path::new(GROUPS)));
    own.into_iter().find_map(|(root, folder)| outermost(&root, &folder)).or_else(session_weight)
}

/// The weight of the folder right below the root, or of the root itself where a container sees none above its own.
fn outermost(root: &Path, folder: &Path) -> Option<u32> {
    let number = |path: &Path| text(path.to_str()?).ok()?.trim().parse::<u32>().ok();
    // 100 is the usual weight of a group, and 1024 that of a thread.
    let weight = |group: &Path| number(&group.join("cpu.weight")).map(|weight| weight.saturating_mul(1024).div_ceil(100));
    // The machine's own root has no such file.
    weight(root).or_else(|| {
        let outermost = root.join(folder.strip_prefix(root).ok()?.components().next()?);
        number(&outermost.join("cpu.shares")).or_else(|| weight(&outermost))
    })
}

/// The weight of this process's session, where sessions are groups.
fn session_weight() -> Option<u32> {
    let is_on = text("/proc/sys/kernel/sched_autogroup_enabled").is_ok_and(|on| on.trim() != "0");
    let session = text("/proc/self/autogroup").ok().filter(|_| is_on)?;
    weight_of_nice(session.split_whitespace().last()?.parse().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runner::thread_id;

    #[test]
    fn weights_follow_nice_values_by_a_quarter_each() {
        let weights: Vec<u32> = Scheduling::all_fair().map(|one| one.weight().unwrap()).collect();
        assert!(weights.is_sorted_by(|heavier, lighter| heavier > lighter));
        assert_eq!((weights[20], weights[39], weights[40]), (1024, 15, 3));
        let ratios = weights[..40].windows(2).map(|pair| f64::from(pair[0]) / f64::from(pair[1]));
        assert!({ ratios }.all(|ratio| (1.18..1.29).contains(&ratio)), "{weights:?}");
    }

    #[test]
    fn what_is_given_to_a_thread_is_what_it_has() {
        std::thread::spawn(|| {
            let own = thread_id();
            let before = Scheduling::of(own).unwrap();
            for one in [Scheduling::nice(19), Scheduling::idle()] {
                one.give_to(own).unwrap();
                assert_eq!(Scheduling::of(own).unwrap(), one, "{before:?}");
            }
            let cpus = cpus_of(own).unwrap();
            bind(own, &cpus[..1]).unwrap();
            assert_eq!(cpus_of(own).unwrap(), cpus[..1]);
        })
        .join()
        .unwrap();
        let nobody = [Scheduling::of(u32::MAX).is_err(), cpus_of(u32::MAX).is_err(), bind(0, &[0]).is_err()];
        assert_eq!(nobody, [true; 3]);
    }

    #[test]
    fn what_is_shared_by_no_weight_has_none() {
        assert_eq!(Scheduling { policy: libc::SCHED_FIFO as u32, priority: 1, ..Scheduling::nice(0) }.weight(), None);
        assert_eq!(Scheduling { policy: libc::SCHED_BATCH as u32, ..Scheduling::nice(-1) }.weight(), Some(1277));
    }

    #[test]
    fn the_outermost_group_has_the_weight() {
        let root = std::env::temp_dir().join(format!("corelane-weight-{}", std::process::id()));
        let folder = root.join("outer/inner");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("cpu.weight"), "5\n").unwrap();
        assert_eq!(outermost(&root, &folder), None);
        std::fs::write(root.join("outer/cpu.weight"), "200\n").unwrap();
        assert_eq!((outermost(&root, &folder), outermost(&root, &root)), (Some(2048), None));
        std::fs::write(root.join("outer/cpu.shares"), "512\n").unwrap();
        assert_eq!(outermost(&root, &folder), Some(512));
        std::fs::write(root.join("cpu.weight"), "100\n").unwrap();
        assert_eq!((outermost(&root, &folder), outermost(&root, &root)), (Some(1024), Some(1024)), "as in a container");
        std::fs::remove_dir_all(&root).unwrap();
    }
}
