//! Tests that skip themselves while running.
//!
//! A test that finds out that this machine cannot run it appends one line `NAME<tab>REASON` to the file that the
//! environment variable `CORELANE_SKIPS` names, prints `skipped: NAME: REASON` and returns. To libtest it has passed;
//! here it is moved from the passed to the skipped and printed by name. Without the variable only the print remains.

//! A skip that `allowed` does not let is a failure.

mod allowed;

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::Context;

use super::tally::{Skip, Tally};

/// The environment variable that names the file.
pub const VARIABLE: &str = "CORELANE_SKIPS";

/// The file that the tests of one program append to, which goes with this. Another program may run at the same time, with a file of its own.
pub struct Skips {
    path: PathBuf,
}

impl Skips {
    /// An empty list in a new file under `target`.
    pub fn new(target: &Path) -> anyhow::Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let path = target.join(format!("skips-{}", NEXT.fetch_add(1, Ordering::Relaxed)));
        std::fs::create_dir_all(target)
            .and_then(|()| std::fs::write(&path, ""))
            .with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Self { path })
    }

    /// Where the list is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Moves the tests that were noted since [`Skips::new`] from the passed to the skipped of `tally`.
    pub fn apply(&self, tally: &mut Tally) -> anyhow::Result<()> {
        let noted = noted(&self.read()?);
        // A program that died has noted tests and never counted its passes.
        tally.passed = tally.passed.saturating_sub(u64::try_from(noted.len())?);
        for skip in noted {
            match allowed::fault(&skip) {
                Some(fault) => {
                    println!("failed: {} was skipped ({}), {fault}", skip.name, skip.reason);
                    tally.failed += 1;
                }
                None => tally.skipped.push(skip),
            }
        }
        Ok(())
    }

    fn read(&self) -> anyhow::Result<String> {
        match std::fs::read_to_string(&self.path) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(String::new()),
            read => read.with_context(|| format!("cannot read {}", self.path.display())),
        }
    }
}

impl Drop for Skips {
    fn drop(&mut self) {
        // A test may have removed it.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// The tests in `list`, each once.
fn noted(list: &str) -> Vec<Skip> {
    let mut skips: Vec<Skip> = Vec::new();
    for line in list.lines() {
        let (name, reason) = line.split_once('\t').unwrap_or((line, "no reason given"));
        if !skips.iter().any(|skip| skip.name == name) {
            skips.push(Skip { name: name.to_owned(), reason: reason.to_owned() });
        }
    }
    skips
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("corelane-skips-{}-{name}", std::process::id()))
    }

    #[test]
    fn noted_tests_move_from_passed_to_skipped() {
        let folder = folder("moved");
        let skips = Skips::new(&folder).unwrap();
        std::fs::write(skips.path(), "a\tno-nc is not installed\nb\tno-bpf is not installed\na\tno-nc is not installed\n")
            .unwrap();
        let mut tally = Tally::passed(5);
        skips.apply(&mut tally).unwrap();
        assert_eq!(tally.passed, 3);
        assert_eq!(tally.skipped[1], Skip { name: "b".into(), reason: "no-bpf is not installed".into() });
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn programs_that_run_at_once_have_a_list_each_and_none_is_left() {
        let folder = folder("each");
        let (one, other) = (Skips::new(&folder).unwrap(), Skips::new(&folder).unwrap());
        std::fs::write(one.path(), "a\tno-nc is not installed\n").unwrap();
        let mut tallies = [Tally::passed(1), Tally::passed(1)];
        other.apply(&mut tallies[1]).unwrap();
        one.apply(&mut tallies[0]).unwrap();
        assert_eq!((tallies[0].passed, tallies[0].skipped.len()), (0, 1));
        assert_eq!(tallies[1], Tally::passed(1));
        drop((one, other));
        std::fs::remove_dir(folder).unwrap();
    }

    #[test]
    fn a_program_that_died_keeps_its_failure() {
        let folder = folder("died");
        let skips = Skips::new(&folder).unwrap();
        std::fs::write(skips.path(), "a\tno-nc is not installed\n").unwrap();
        let mut tally = Tally::failed(1);
        skips.apply(&mut tally).unwrap();
        assert_eq!((tally.passed, tally.failed, tally.skipped.len()), (0, 1, 1));
        std::fs::remove_dir_all(folder).unwrap();
    }
}
