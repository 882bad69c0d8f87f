//! Files: read beneath some directories, written beneath fewer, executed nowhere (landlock(7)).

use landlock::{
    ABI, Access, AccessFs, BitFlags, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetError, RulesetStatus, make_bitflags,
    path_beneath_rules,
};
use std::path::{Path, PathBuf};

/// Directories and files that are there; one that is not is as good as not named.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Paths {
    read: Vec<PathBuf>,
    written: Vec<PathBuf>,
}

impl Paths {
    /// What any program of ours reads: of the kernel what it tells of the machine, of the system what names and times mean, and itself, to name its
    /// functions when it breaks.
    pub fn of_system() -> Self {
        let read = [
            "/dev/null",
            "/dev/urandom",
            "/etc/gai.conf",
            "/etc/group",
            "/etc/host.conf",
            "/etc/hosts",
            "/etc/localtime",
            "/etc/nsswitch.conf",
            "/etc/passwd",
            "/etc/resolv.conf",
            "/etc/services",
            "/lib",
            "/lib64",
            "/proc",
            "/run/systemd/resolve",
            "/sys",
            "/usr",
        ];
        let read = read.into_iter().map(PathBuf::from).chain(std::env::current_exe());
        Self { read: read.collect(), written: vec!["/dev/null".into(), "/dev/net/tun".into()] }
    }

    /// May be read, with all that lies beneath.
    pub fn read(&mut self, path: impl Into<PathBuf>) {
        self.read.push(path.into());
    }

    /// May be written, made, renamed and removed, with all that lies beneath; and read.
    pub fn write(&mut self, path: impl Into<PathBuf>) {
        self.written.push(path.into());
    }

    /// What may be read so that the file or directory `path` may be, also after another was put in its place: where it lies, and where that lies to
    /// which a link leads by now.
    pub fn around(path: &Path) -> impl Iterator<Item = PathBuf> {
        let above = |path: &Path| match path.parent() {
            Some(above) if above.as_os_str().is_empty() => PathBuf::from("."),
            Some(above) => above.to_owned(),
            None => path.to_owned(),
        };
        [Some(above(path)), path.canonicalize().ok().map(|path| above(&path))].into_iter().flatten()
    }
}

/// Allows the calling thread, and all that it starts later, these files alone. False where the kernel has no landlock (5.13), or leaves it out.
///
/// # Errors
/// What the system says.
pub fn restrict(paths: &Paths) -> Result<bool, String> {
    enforce(paths).map(|status| status != RulesetStatus::NotEnforced).map_err(|error| error.to_string())
}

fn enforce(paths: &Paths) -> Result<RulesetStatus, RulesetError> {
    let read: BitFlags<AccessFs> = make_bitflags!(AccessFs::{ReadFile | ReadDir});
    // Newer kernels than the oldest that we support know more; what this one does not know is left out.
    let all = AccessFs::from_all(ABI::V3);
    let ruleset = Ruleset::default().handle_access(all)?.create()?;
    let ruleset = ruleset.add_rules(path_beneath_rules(&paths.read, read))?;
    let ruleset = ruleset.add_rules(path_beneath_rules(&paths.written, all & !BitFlags::from(AccessFs::Execute)))?;
    Ok(ruleset.restrict_self()?.ruleset)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::io::ErrorKind;
    use std::thread;
    use tempfile::TempDir;

    /// A folder with something to read, a place to write, and something else.
    fn folder() -> TempDir {
        let folder = tempfile::tempdir().unwrap();
        ["read", "written", "other"].iter().for_each(|name| fs::create_dir(folder.path().join(name)).unwrap());
        fs::write(folder.path().join("read/file"), "of the rules").unwrap();
        fs::write(folder.path().join("other/file"), "of nobody").unwrap();
        folder
    }

    #[test]
    fn a_thread_and_those_that_it_starts_open_what_the_rules_name() {
        let folder = folder();
        let at = |name: &str| folder.path().join(name);
        let mut paths = Paths::of_system();
        paths.read(at("read"));
        paths.write(at("written"));
        let restricted = thread::scope(|scope| {
            let confined = scope.spawn(|| {
                if !restrict(&paths).unwrap() {
                    return false;
                }
                let later = scope.spawn(|| {
                    assert_eq!(fs::read_to_string(at("read/file")).unwrap(), "of the rules");
                    let refused = [fs::read(at("other/file")).map(drop), fs::write(at("read/file"), "changed")];
                    assert_eq!(refused.map(|done| done.unwrap_err().kind()), [ErrorKind::PermissionDenied; 2]);
                    fs::write(at("written/file"), "made").unwrap();
                    fs::rename(at("written/file"), at("written/moved")).unwrap();
                    fs::remove_file(at("written/moved")).unwrap();
                    let _alone = crate::testing::network::alone();
                    let executed = std::process::Command::new("/bin/true").spawn();
                    assert_eq!(executed.unwrap_err().kind(), ErrorKind::PermissionDenied);
                });
                later.join().unwrap();
                true
            });
            confined.join().unwrap()
        });
        if !restricted {
            return crate::testing::skip(
                "confine::paths::tests::a_thread_and_those_that_it_starts_open_what_the_rules_name",
                "no landlock",
            );
        }
        assert_eq!(fs::read_to_string(at("other/file")).unwrap(), "of nobody", "other threads are as free as before");
    }

    #[test]
    fn what_is_put_in_a_place_later_lies_around_it() {
        let folder = folder();
        let link = folder.path().join("read/link");
        std::os::unix::fs::symlink(folder.path().join("other/file"), &link).unwrap();
        let around: Vec<_> = Paths::around(&link).collect();
        assert_eq!(around, [folder.path().join("read"), folder.path().join("other").canonicalize().unwrap()]);
        assert_eq!(Paths::around(Path::new("no-such-file-here")).collect::<Vec<_>>(), [PathBuf::from(".")]);
    }
}
