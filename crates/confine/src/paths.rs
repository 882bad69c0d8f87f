//! Files: read beneath some directories, written beneath fewer, executed nowhere (landlock(7)). And whom else the program reaches, where the kernel can say so:
//! TCP ports (Linux 6.7), processes by signals and abstract Unix names (6.12).

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, NetPort, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetError, RulesetStatus,
    Scope, make_bitflags, path_beneath_rules,
};
use std::path::{Path, PathBuf};

/// Directories and files that are there; one that is not is as good as not named.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Paths {
    read: Vec<PathBuf>,
    written: Vec<PathBuf>,
    /// TCP ports that may be connected to, at any address.
    ports: Vec<u16>,
    /// All of them may be.
    connects_anywhere: bool,
    /// Abstract Unix names of others may be sent to.
    reaches_names: bool,
}

/// The port of name servers, which a resolver asks by TCP where an answer is long (RFC 7766).
const DOMAIN_PORT: u16 = 53;

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
        let written = vec!["/dev/null".into(), "/dev/net/tun".into()];
        Self { read: read.collect(), written, ports: vec![DOMAIN_PORT], connects_anywhere: false, reaches_names: false }
    }

    /// Abstract Unix names of other programs may be connected to, and answered.
    pub fn reach_names(&mut self) {
        self.reaches_names = true;
    }

    /// This TCP port may be connected to, at any address.
    pub fn connect_to(&mut self, port: u16) {
        self.ports.push(port);
    }

    /// All TCP ports may be connected to, at any address.
    pub fn connect_anywhere(&mut self) {
        self.connects_anywhere = true;
    }

    /// May be read, with all that lies beneath.
    pub fn read(&mut self, path: impl Into<PathBuf>) {
        self.read.push(path.into());
    }

    /// May be written, made, renamed and removed, with all that lies beneath; and read.
    pub fn write(&mut self, path: impl Into<PathBuf>) {
        self.written.push(path.into());
    }

    /// What may be used so that `path` may be.
    ///
    /// Of a directory that is itself and what lies beneath, and no more. If `path` is a link to a directory, it is where that one lies, so that the link may be
    /// moved to another one there. Of a file it is where the file lies, and where that lies to which a link leads by now, so that another file may be put in
    /// its place. The root directory is never among them, for with it everything would be allowed: what lies there is allowed alone.
    pub fn around(path: &Path) -> impl Iterator<Item = PathBuf> {
        let real = path.canonicalize().ok();
        let is_directory = real.as_deref().is_some_and(Path::is_dir);
        let (named, target) = if is_directory && !path.is_symlink() {
            (real, None)
        } else if is_directory {
            (None, real.map(|real| beside(&real)))
        } else {
            (Some(beside(path)), real.map(|real| beside(&real)))
        };
        [named, target].into_iter().flatten()
    }

    /// Whether nothing could be made anew at `path` without everything being allowed: it lies in the root directory.
    pub fn is_at_root(path: &Path) -> bool {
        beside(path) == path
    }
}

/// The directory in which `path` lies; `path` itself, if that is the root directory.
fn beside(path: &Path) -> PathBuf {
    let above = match path.parent() {
        Some(above) if above.as_os_str().is_empty() => Path::new("."),
        Some(above) => above,
        None => return path.to_owned(),
    };
    let is_root = above.canonicalize().is_ok_and(|above| above.parent().is_none());
    if is_root { path.to_owned() } else { above.to_owned() }
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
    let names = if paths.reaches_names { BitFlags::EMPTY } else { Scope::AbstractUnixSocket.into() };
    let mut ruleset = Ruleset::default().handle_access(all)?;
    if !paths.connects_anywhere {
        ruleset = ruleset.handle_access(AccessNet::ConnectTcp)?;
    }
    let ruleset = ruleset.scope(names | Scope::Signal)?.create()?;
    let ports = paths.ports.iter().filter(|_| !paths.connects_anywhere);
    let ports = ports.map(|port| Ok::<_, RulesetError>(NetPort::new(*port, AccessNet::ConnectTcp)));
    let ruleset = ruleset.add_rules(ports)?;
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
                    let _alone = corelane_os::testing::network::alone();
                    let executed = std::process::Command::new("/bin/true").spawn();
                    assert_eq!(executed.unwrap_err().kind(), ErrorKind::PermissionDenied);
                });
                later.join().unwrap();
                true
            });
            confined.join().unwrap()
        });
        if !restricted {
            return corelane_os::testing::skip(
                "paths::tests::a_thread_and_those_that_it_starts_open_what_the_rules_name",
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

    #[test]
    fn of_a_directory_nothing_beside_it_is_allowed_unless_a_link_leads_there() {
        let folder = folder();
        let (read, link) = (folder.path().join("read").canonicalize().unwrap(), folder.path().join("current"));
        assert_eq!(Paths::around(&folder.path().join("read")).collect::<Vec<_>>(), std::slice::from_ref(&read));
        std::os::unix::fs::symlink(&read, &link).unwrap();
        assert_eq!(Paths::around(&link).collect::<Vec<_>>(), [folder.path().canonicalize().unwrap()]);
    }

    #[test]
    fn whatever_is_named_the_root_directory_is_not_allowed() {
        for path in ["/usr", "/etc", "/no-such-file-here", "/.."] {
            let around: Vec<_> = Paths::around(Path::new(path)).collect();
            assert!(path == "/.." || !around.contains(&PathBuf::from("/")), "{path}: {around:?}");
        }
        assert!(Paths::is_at_root(Path::new("/log")) && !Paths::is_at_root(Path::new("/var/log")));
        // What is asked for by name is had.
        assert_eq!(Paths::around(Path::new("/")).collect::<Vec<_>>(), [PathBuf::from("/")]);
    }

    #[test]
    fn others_are_not_reached_by_tcp_nor_by_abstract_names() {
        use std::os::linux::net::SocketAddrExt;
        use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        let hidden = SocketAddr::from_abstract_name(format!("corelane-confine-{}", std::process::id())).unwrap();
        let _names = UnixListener::bind_addr(&hidden).unwrap();
        let reached = |paths: &Paths| {
            thread::scope(|scope| {
                let confined = scope.spawn(|| {
                    let is_confined = restrict(paths).unwrap();
                    (is_confined, std::net::TcpStream::connect(at).is_ok(), UnixStream::connect_addr(&hidden).is_ok())
                });
                confined.join().unwrap()
            })
        };
        let mut paths = Paths::of_system();
        let (is_confined, by_tcp, by_name) = reached(&paths);
        if !is_confined {
            return corelane_os::testing::skip(
                "paths::tests::others_are_not_reached_by_tcp_nor_by_abstract_names",
                "no landlock",
            );
        }
        paths.reach_names();
        paths.ports.push(at.port());
        assert_eq!(reached(&paths), (true, true, true), "what is allowed is reached");
        // Linux 6.12 and later have both.
        let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
        let mut numbers = release.split('.').map_while(|number| number.parse::<u32>().ok());
        if (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= (6, 12) {
            assert!(!by_tcp && !by_name, "by TCP {by_tcp}, by name {by_name}");
        }
    }
}
