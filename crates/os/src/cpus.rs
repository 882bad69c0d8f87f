//! Which CPUs this process may use, and how many of them its control group pays for.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The CPUs that the calling thread may run on, lowest first (sched_getaffinity(2)).
///
/// # Errors
/// What the system says.
pub fn allowed() -> io::Result<Vec<usize>> {
    let set = sched_getaffinity(None)?;
    let cpus: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect();
    assert!(!cpus.is_empty(), "a thread that runs may run somewhere");
    Ok(cpus)
}

/// Binds the calling thread to one CPU (sched_setaffinity(2)).
///
/// # Errors
/// `InvalidInput` if there is no such CPU or it is not allowed to this process.
pub fn pin(cpu: usize) -> io::Result<()> {
    if cpu >= CpuSet::MAX_CPU {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    let mut set = CpuSet::new();
    set.set(cpu);
    Ok(sched_setaffinity(None, &set)?)
}

/// How many CPUs' worth of time the process's control groups allow (cgroups(7), `cpu.max` of version 2 and
/// `cpu.cfs_quota_us` of version 1, the least over all ancestors), rounded up; none if there is no limit.
pub fn group_limit() -> Option<usize> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    groups
        .lines()
        .filter_map(|line| group_of(line, "cpu", Path::new(GROUPS)))
        .filter_map(|(root, group)| limit_within(&root, &group))
        .min()
}

/// Where control groups are mounted.
pub(crate) const GROUPS: &str = "/sys/fs/cgroup";

/// The mount point and the folder of one line of /proc/self/cgroup, if it is about this controller.
pub(crate) fn group_of(line: &str, controller: &str, mount: &Path) -> Option<(PathBuf, PathBuf)> {
    let mut fields = line.splitn(3, ':');
    let (_, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
    let root = match controllers {
        "" => mount.to_path_buf(),
        _ if controllers.split(',').any(|name| name == controller) => mount.join(controller),
        _ => return None,
    };
    let folder = root.join(path.trim_start_matches('/'));
    Some((root, folder))
}

/// The least limit of the folder and its ancestors up to the mount point.
fn limit_within(root: &Path, folder: &Path) -> Option<usize> {
    folder.ancestors().take_while(|ancestor| ancestor.starts_with(root)).filter_map(limit_of).min()
}

fn limit_of(folder: &Path) -> Option<usize> {
    let two = fs::read_to_string(folder.join("cpu.max")).ok().and_then(|text| quota(&text));
    two.or_else(|| {
        let quota_us = fs::read_to_string(folder.join("cpu.cfs_quota_us")).ok()?;
        let period_us = fs::read_to_string(folder.join("cpu.cfs_period_us")).ok()?;
        quota(&format!("{} {}", quota_us.trim(), period_us.trim()))
    })
}

/// CPUs from `quota period` in microseconds, rounded up; none for `max` or -1.
fn quota(text: &str) -> Option<usize> {
    let mut words = text.split_whitespace();
    let quota: u64 = words.next()?.parse().ok()?;
    let period: u64 = words.next()?.parse().ok().filter(|&period| period > 0)?;
    usize::try_from(quota.div_ceil(period).max(1)).ok()
}

/// Reads a list of CPUs such as `0-3,8` (the format of /sys/devices/system/cpu/online).
///
/// # Errors
/// The part that is not a number or a range, in words.
pub fn parse_list(text: &str) -> Result<Vec<usize>, String> {
    let mut cpus = Vec::new();
    for part in text.split(',').map(str::trim) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let bounds = first.trim().parse::<usize>().ok().zip(last.trim().parse::<usize>().ok());
        match bounds.filter(|&(first, last)| first <= last && last < CpuSet::MAX_CPU) {
            Some((first, last)) => cpus.extend(first..=last),
            None => return Err(format!("{part:?} is not a CPU number below {} or a range of them like 0-3", CpuSet::MAX_CPU)),
        }
    }
    cpus.sort_unstable();
    cpus.dedup();
    assert!(!cpus.is_empty(), "each part of a list names a CPU, and a text has a part");
    Ok(cpus)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_and_bad_ones_named() {
        assert_eq!(parse_list("0-2, 5,1"), Ok(vec![0, 1, 2, 5]));
        for bad in ["", "a", "3-1", "1-", "99999", "0,,1"] {
            assert!(parse_list(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn quotas_round_up() {
        assert_eq!(quota("150000 100000"), Some(2));
        assert_eq!(quota("10000 100000\n"), Some(1));
        assert_eq!(quota("max 100000"), None);
        assert_eq!(quota("-1 100000"), None);
        assert_eq!(quota("1 0"), None);
    }

    #[test]
    fn the_least_limit_of_all_ancestors_counts() {
        let root = std::env::temp_dir().join(format!("corelane-cgroup-{}", std::process::id()));
        let folder = root.join("a/b");
        fs::create_dir_all(&folder).unwrap();
        fs::write(root.join("a/cpu.max"), "250000 100000").unwrap();
        fs::write(folder.join("cpu.max"), "max 100000").unwrap();
        let (mount, found) = group_of("0::/a/b", "cpu", &root).unwrap();
        assert_eq!(limit_within(&mount, &found), Some(3));
        assert!(group_of("4:memory:/x", "cpu", &root).is_none());
        fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn this_thread_may_run_somewhere_and_can_be_pinned_there() {
        let cpus = allowed().unwrap();
        std::thread::spawn(move || {
            pin(cpus[0]).unwrap();
            assert_eq!(allowed().unwrap(), vec![cpus[0]]);
            assert!(pin(usize::MAX).is_err());
        })
        .join()
        .unwrap();
    }
}
