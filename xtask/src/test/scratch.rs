//! A folder for the temporary files of one test program: what it leaves there is noticed, and goes.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::Context;

use super::tally::Tally;
use super::verdict::Verdict;

/// The environment variable that names the folder (tempnam(3), `std::env::temp_dir`).
pub const VARIABLE: &str = "TMPDIR";

/// An empty folder, which goes with this.
pub struct Scratch(PathBuf);

impl Scratch {
    /// A new folder where temporary files are. Its name is short: the names of sockets in it have little room (unix(7)). Other users may look into it, as servers do that tests start for them;
    /// that is why it is none of `tempfile`.
    pub fn new() -> anyhow::Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("corelane-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).with_context(|| format!("cannot make {}", path.display()))?;
        Ok(Self(path))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// A program that passed and left something here has failed after all. One that failed may not have come to remove what it made.
    pub fn apply(&self, verdict: &mut Verdict) -> anyhow::Result<()> {
        let left = self.left()?;
        if verdict.tally.failed == 0 && !left.is_empty() {
            verdict.tally.add(Tally::failed(1));
            verdict.output.push_str(&format!("left behind in {VARIABLE}: {}; a test removes what it makes\n", left.join(", ")));
        }
        Ok(())
    }

    /// The names of what lies here.
    fn left(&self) -> anyhow::Result<Vec<String>> {
        let names = std::fs::read_dir(&self.0).and_then(|entries| {
            let name = |entry: std::io::Result<std::fs::DirEntry>| Ok(entry?.file_name().to_string_lossy().into_owned());
            entries.map(name).collect::<std::io::Result<Vec<String>>>()
        });
        names.with_context(|| format!("cannot read {}", self.0.display()))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What cannot be removed, such as a mount, was named.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_new_and_goes_with_what_lies_in_it() {
        let (one, other) = (Scratch::new().unwrap(), Scratch::new().unwrap());
        std::fs::create_dir(one.path().join("deep")).unwrap();
        std::fs::write(one.path().join("deep/page"), "").unwrap();
        let mut verdicts = [Verdict::one(true, String::new()), Verdict::one(true, String::new())];
        one.apply(&mut verdicts[0]).unwrap();
        other.apply(&mut verdicts[1]).unwrap();
        assert_eq!(verdicts.map(|verdict| verdict.tally.failed), [1, 0]);
        let paths = [&one, &other].map(|scratch| scratch.path().to_owned());
        drop((one, other));
        assert!(paths.iter().all(|path| !path.exists()));
    }
}
