//! Tables as all subjects print them.

use std::fmt::Display;

use super::rounds::Rounds;

/// The table of a cell: its name and how many rounds it took, and a row for each that took part, by its name and what `columns` says of it.
pub fn of_rounds<W: Copy + Display, S>(
    rounds: &Rounds<W, S>,
    heads: &[&str],
    columns: impl Fn(usize, W) -> Vec<String>,
) -> String {
    let row = |(place, &who): (usize, &W)| std::iter::once(who.to_string()).chain(columns(place, who)).collect();
    let rows: Vec<Vec<String>> = rounds.who.iter().enumerate().map(row).collect();
    format!("{}, {} rounds\n{}", rounds.cell, rounds.rounds.len(), table(heads, &rows))
}

/// A figure, if there is one.
pub fn number(value: Option<f64>, digits: usize) -> String {
    value.filter(|value| value.is_finite()).map_or_else(dash, |value| format!("{value:.digits$}"))
}

/// A share of one in hundredths, if there is one.
pub fn percent(share: Option<f64>) -> String {
    share.filter(|share| share.is_finite()).map_or_else(dash, |share| format!("{:.0} %", share * 100.0))
}

/// In place of a figure that there is not.
pub fn dash() -> String {
    "-".to_owned()
}

/// Lines of aligned columns: the first to the left, the others to the right.
pub fn table(heads: &[&str], rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([heads[column].len()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..heads.len()).map(width).collect();
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let padded = cells.zip(&widths).enumerate().map(|(column, (cell, &width))| match column {
            0 => format!("{cell:<width$}"),
            _ => format!("{cell:>width$}"),
        });
        padded.collect::<Vec<_>>().join("  ") + "\n"
    };
    let head = line(&mut heads.iter().copied());
    rows.iter().map(|row| line(&mut row.iter().map(String::as_str))).fold(head, |all, line| all + &line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let rows = [vec!["a".to_owned(), "12345".to_owned()], vec!["bcd".to_owned(), "1".to_owned()]];
        assert_eq!(table(&["x", "y"], &rows), "x        y\na    12345\nbcd      1\n");
    }
}
