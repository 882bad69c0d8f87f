//! Tables as all subjects print them.

use std::fmt::Display;

use super::rounds::Rounds;

/// What stands in a row, and what its column is called; all rows of a table have the same columns.
pub type Column = (&'static str, String);

/// The table of a cell: its name and how many rounds it took, and a row for each that took part: its name below `head`, and what `columns` says of it.
pub fn of_rounds<W: Copy + Display, S>(
    rounds: &Rounds<W, S>,
    head: &'static str,
    columns: impl Fn(usize, W) -> Vec<Column>,
) -> String {
    let row = |(place, &who): (usize, &W)| [vec![(head, who.to_string())], columns(place, who)].concat();
    let rows: Vec<_> = rounds.who.iter().enumerate().map(row).collect();
    format!("{}, {} rounds\n{}", rounds.cell, rounds.rounds.len(), table(&rows))
}

/// A figure, if there is one.
pub fn number(value: impl Into<Option<f64>>, digits: usize) -> String {
    value.into().filter(|value| value.is_finite()).map_or_else(dash, |value| format!("{value:.digits$}"))
}

/// A share of one in hundredths, if there is one.
pub fn percent(share: impl Into<Option<f64>>) -> String {
    share.into().filter(|share| share.is_finite()).map_or_else(dash, |share| format!("{:.0} %", share * 100.0))
}

/// In place of a figure that there is not.
pub fn dash() -> String {
    "-".to_owned()
}

/// Lines of aligned columns below their names: the first to the left, the others to the right. Nothing without rows.
pub fn table(rows: &[Vec<Column>]) -> String {
    let heads = rows.first().map(|row| row.iter().map(|&(head, _)| head.to_owned()).collect());
    let lines: Vec<Vec<String>> =
        heads.into_iter().chain(rows.iter().map(|row| row.iter().map(|(_, text)| text.clone()).collect())).collect();
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..rows.first().map_or(0, Vec::len)).map(width).collect();
    let aligned = |line: &Vec<String>| {
        let padded = line.iter().zip(&widths).enumerate().map(|(column, (text, &width))| match column {
            0 => format!("{text:<width$}"),
            _ => format!("{text:>width$}"),
        });
        padded.collect::<Vec<_>>().join("  ") + "\n"
    };
    lines.iter().map(aligned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let row = |x: &str, y: &str| vec![("x", x.to_owned()), ("y", y.to_owned())];
        assert_eq!(table(&[row("a", "12345"), row("bcd", "1")]), "x        y\na    12345\nbcd      1\n");
        assert_eq!(table(&[]), "");
    }

    #[test]
    fn what_is_no_number_is_a_dash() {
        assert_eq!([number(1.25, 1), number(None, 1), number(f64::NAN, 1), percent(0.031)], ["1.2", "-", "-", "3 %"]);
    }
}
