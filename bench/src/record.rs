//! What is kept of a bench: `bench/results/SUBJECT.txt`, and the plot of its verdicts beside it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use anyhow::{Context, Result, ensure};

use super::judged::Judged;
use super::plot;

/// The folder of all records, from the root of the workspace.
const FOLDER: &str = "bench/results";

/// Writes the record of `subject`, and its plot: what was asked for, when, of which build, and then `body`.
///
/// # Errors
/// When git does not know the build, or nothing can be written.
pub fn write(root: &Path, subject: &str, body: &str) -> Result<()> {
    let today = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    let head = format!("{}\n{}; build {}\n\n", asked(std::env::args().skip(1)), &today[..10], build(root)?);
    let path = root.join(FOLDER).join(format!("{subject}.txt"));
    fs::write(&path, head + body).with_context(|| path.display().to_string())?;
    draw(&path)
}

/// Draws the plots of all records.
///
/// # Errors
/// When a record cannot be read, or a plot cannot be written.
pub fn draw_all(root: &Path) -> Result<()> {
    records(root)?.iter().try_for_each(|path| draw(path))
}

/// The paths of all records, by name.
fn records(root: &Path) -> Result<Vec<PathBuf>> {
    let folder = root.join(FOLDER);
    let entries = fs::read_dir(&folder).with_context(|| folder.display().to_string())?;
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    paths.retain(|path| path.extension().is_some_and(|ending| ending == "txt"));
    paths.sort();
    Ok(paths)
}

/// Draws a record's plot beside it, if the record has verdicts.
fn draw(path: &Path) -> Result<()> {
    match plot_of(path)? {
        Some(svg) => {
            let path = path.with_extension("svg");
            fs::write(&path, svg).with_context(|| path.display().to_string())
        }
        None => Ok(()),
    }
}

fn plot_of(path: &Path) -> Result<Option<String>> {
    let judged = Judged::all(&fs::read_to_string(path).with_context(|| path.display().to_string())?);
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    Ok((!judged.is_empty()).then(|| plot::svg(&name, &judged)))
}

/// The command as it was given to cargo, which passes on what is behind `bench`; of a path its last part, since folders are of one machine.
fn asked(words: impl Iterator<Item = String>) -> String {
    let last = |word: String| match Path::new(&word).file_name() {
        Some(name) => name.to_string_lossy().into_owned(),
        None => word,
    };
    ["cargo xtask bench".to_owned()].into_iter().chain(words.map(last)).collect::<Vec<_>>().join(" ")
}

/// The commit that was built, and whether the working tree had changes.
fn build(root: &Path) -> Result<String> {
    let mut command = Command::new("git");
    command.args(["describe", "--always", "--dirty", "--abbrev=8"]).current_dir(root);
    let output = command.output().context("cannot start git: install it")?;
    ensure!(output.status.success(), "git describe failed, run inside a checkout: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bars::{Limit, Word};
    use crate::judged::limit_of;

    fn root() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
    }

    fn all_judged() -> Vec<Judged> {
        let paths = records(&root()).expect("the records");
        paths.iter().flat_map(|path| Judged::all(&fs::read_to_string(path).expect("a record"))).collect()
    }

    /// A row of the table in BENCHMARKS.md.
    struct Row {
        line: String,
        cell: String,
        /// The figure that was judged; none where a row stands for several.
        value: Option<f64>,
        interval: Option<[f64; 2]>,
        limit: Limit,
        word: Word,
    }

    impl Row {
        fn of(line: &str) -> Option<Self> {
            let columns: Vec<&str> = line.strip_prefix("| ")?.strip_suffix(" |")?.split(" | ").collect();
            let &[cell, ours, _peer, ratio, interval, bar, verdict] = &columns[..] else { return None };
            let word = [(Word::Met, "met"), (Word::Missed, "**missed**"), (Word::Open, "open")];
            let (word, _) = *word.iter().find(|(_, text)| *text == verdict)?;
            let figure = if ratio == "–" { ours } else { ratio };
            let numbers: Vec<f64> = interval.split(" to ").filter_map(|number| number.parse().ok()).collect();
            let limit = limit_of(&mut bar.split_whitespace().collect())?;
            Some(Self {
                line: line.to_owned(),
                cell: cell.split([':', ',']).next()?.to_owned(),
                value: figure.parse().ok(),
                interval: <[f64; 2]>::try_from(numbers).ok(),
                limit,
                word,
            })
        }

        fn is_of(&self, judged: &Judged) -> bool {
            self.cell == judged.cell
                && self.value == Some(judged.value)
                && self.interval == judged.interval
                && self.limit == judged.limit
                && self.word == judged.word
        }
    }

    /// A text of the root, which has so many lines at the most.
    fn text(name: &str, most: usize) -> String {
        let text = fs::read_to_string(root().join(name)).expect("a text");
        let lines = text.lines().count();
        assert!(lines <= most, "{name} has {lines} lines, {most} at the most");
        text
    }

    fn rows() -> Vec<Row> {
        let text = text("BENCHMARKS.md", 150);
        text.lines().filter_map(Row::of).collect()
    }

    #[test]
    fn the_first_page_has_a_hundred_lines_and_five_limits() {
        let page = text("README.md", 100);
        let (_, limits) = page.split_once("Five limits to know first").expect("README.md names limits");
        assert_eq!(limits.lines().filter(|line| line.starts_with("* ")).count(), 5);
    }

    #[test]
    fn each_row_of_the_table_is_a_recorded_verdict() {
        let (rows, recorded) = (rows(), all_judged());
        assert!(rows.len() > 60, "{} rows", rows.len());
        for row in rows.iter().filter(|row| row.value.is_some()) {
            assert!(recorded.iter().any(|judged| row.is_of(judged)), "no record says: {}", row.line);
        }
    }

    #[test]
    fn each_cell_with_a_bar_that_was_not_met_is_such_a_row() {
        let rows = rows();
        for judged in all_judged().iter().filter(|judged| judged.word != Word::Met) {
            let is_told = rows.iter().any(|row| row.cell == judged.cell && row.limit == judged.limit && row.word == judged.word);
            assert!(is_told, "BENCHMARKS.md says nothing of {judged:?}");
        }
    }

    #[test]
    fn each_record_has_the_plot_of_its_verdicts() {
        for path in records(&root()).expect("the records") {
            let Some(svg) = plot_of(&path).expect("a record") else { continue };
            let drawn = fs::read_to_string(path.with_extension("svg")).unwrap_or_default();
            assert!(drawn == svg, "{}: `cargo xtask bench plot` draws it anew", path.display());
        }
    }

    #[test]
    fn a_record_names_the_command_and_a_path_by_its_last_part() {
        let words = ["echo", "--record", "--beside", "../old/target/corelane"].map(str::to_owned);
        assert_eq!(asked(words.into_iter()), "cargo xtask bench echo --record --beside corelane");
    }
}
