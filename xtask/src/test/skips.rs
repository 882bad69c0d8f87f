//! Tests that skip themselves while running.
//!
//! A test that finds out that this machine cannot run it appends one line `NAME<tab>REASON` to the file that the
//! environment variable `CORELANE_SKIPS` names, prints `skipped: NAME: REASON` and returns. To libtest it has passed;
//! here it is moved from the passed to the skipped and printed by name. Without the variable only the print remains.

//! A skip that `allowed` does not let is a failure.

mod allowed;

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::Context;

use super::tally::{Skip, Tally};

/// The environment variable that names the file.
pub const VARIABLE: &str = "CORELANE_SKIPS";

/// The file that tests append to.
pub struct Skips {
    path: PathBuf,
}

impl Skips {
    /// An empty list in a file under `target`.
    pub fn new(target: &Path) -> anyhow::Result<Self> {
        let path = target.join("skips");
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
    fn each_list_begins_empty() {
        let folder = folder("empty");
        std::fs::write(Skips::new(&folder).unwrap().path(), "a\tno nc\n").unwrap();
        let mut tally = Tally::passed(1);
        Skips::new(&folder).unwrap().apply(&mut tally).unwrap();
        assert_eq!(tally, Tally::passed(1));
        std::fs::remove_dir_all(folder).unwrap();
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
