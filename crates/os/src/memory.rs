//! How much memory the process's control groups allow it (cgroups(7)).

use crate::cpus::{GROUPS, group_of};
use std::fs;
use std::path::Path;

/// What version 1 writes where there is no limit is beyond this.
const UNLIMITED: u64 = 1 << 62;

/// The files that have a limit in bytes: two of version 2, of which the second slows down what exceeds it, and one of version 1.
const FILES: [&str; 3] = ["memory.max", "memory.high", "memory.limit_in_bytes"];

/// Bytes that the process may use by its control groups: the least limit over all ancestors; none if there is none.
pub fn group_limit() -> Option<u64> {
    limit_of(&fs::read_to_string("/proc/self/cgroup").ok()?, Path::new(GROUPS))
}

fn limit_of(groups: &str, mount: &Path) -> Option<u64> {
    let groups = groups.lines().filter_map(|line| group_of(line, "memory", mount));
    groups.filter_map(|(root, folder)| limit_within(&root, &folder)).min()
}

fn limit_within(root: &Path, folder: &Path) -> Option<u64> {
    let folders = folder.ancestors().take_while(|ancestor| ancestor.starts_with(root));
    folders.flat_map(|folder| FILES.map(|file| folder.join(file))).filter_map(|file| read(&file)).min()
}

/// The limit in a file; none for `max`, and for one without a meaning.
fn read(file: &Path) -> Option<u64> {
    fs::read_to_string(file).ok()?.trim().parse().ok().filter(|&bytes| bytes < UNLIMITED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_limit_of_all_ancestors_counts() {
        let mount = std::env::temp_dir().join(format!("corelane-memory-{}", std::process::id()));
        let two = mount.join("a/b");
        let one = mount.join("memory/x");
        fs::create_dir_all(&two).unwrap();
        fs::create_dir_all(&one).unwrap();
        let groups = "4:cpu,memory:/x\n0::/a/b\n";
        assert_eq!(limit_of(groups, &mount), None);
        fs::write(two.join("memory.max"), "max\n").unwrap();
        fs::write(one.join("memory.limit_in_bytes"), "9223372036854771712\n").unwrap();
        assert_eq!(limit_of(groups, &mount), None);
        fs::write(mount.join("a/memory.max"), "400000000\n").unwrap();
        assert_eq!(limit_of(groups, &mount), Some(400_000_000));
        fs::write(two.join("memory.high"), "300000000\n").unwrap();
        assert_eq!(limit_of(groups, &mount), Some(300_000_000));
        fs::write(one.join("memory.limit_in_bytes"), "200000000\n").unwrap();
        assert_eq!((limit_of(groups, &mount), limit_of("0::/a/b", &mount)), (Some(200_000_000), Some(300_000_000)));
        fs::remove_dir_all(&mount).unwrap();
    }
}
