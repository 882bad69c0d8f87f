//! Lines of at most 80 columns of plain ASCII: lists that break between their parts, prose, tables.

/// The widest line.
pub const WIDTH: usize = 80;

/// Where the text begins that stands beside a label.
const INDENT: usize = 13;

/// A text that grows downwards.
#[derive(Debug, Default)]
pub struct Page {
    text: String,
    gap: bool,
}

impl Page {
    /// The text.
    pub fn finish(self) -> String {
        self.text
    }

    /// An empty line between what stands above and what comes below, if anything does.
    pub fn gap(&mut self) {
        self.gap = !self.text.is_empty();
    }

    /// A label, and beside it parts with commas between them; lines break between parts.
    pub fn list(&mut self, label: &str, parts: &[String]) {
        let parts: Vec<String> = parts.iter().filter(|part| !part.is_empty()).cloned().collect();
        self.beside(label, "", &fill(&parts, ",", WIDTH - INDENT));
    }

    /// A label, and beside it words.
    pub fn prose(&mut self, label: &str, text: &str) {
        self.beside(label, "", &words(text, WIDTH - INDENT));
    }

    /// A sentence of several, in line with what stands beside labels.
    pub fn item(&mut self, text: &str) {
        self.beside("", "- ", &words(text, WIDTH - INDENT - 2));
    }

    fn beside(&mut self, label: &str, mark: &str, lines: &[String]) {
        for (index, line) in lines.iter().enumerate() {
            let (label, mark) = if index == 0 { (label, mark) } else { ("", &"  "[..mark.len()]) };
            self.line(&format!("{label:<INDENT$}{mark}{line}"));
        }
    }

    /// Rows of cells, the first row naming the columns, the first column to the left and the others to the right.
    /// If that is too wide, each row becomes a list.
    pub fn table(&mut self, rows: &[Vec<String>]) {
        let rows: Vec<Vec<String>> = rows.iter().map(|row| row.iter().map(|cell| ascii(cell)).collect()).collect();
        let Some(header) = rows.first() else { return };
        let widest = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(String::len).max().unwrap_or(0);
        let widths: Vec<usize> = (0..header.len()).map(widest).collect();
        if widths.iter().map(|width| width + 2).sum::<usize>() <= WIDTH + 2 {
            rows.iter().for_each(|row| self.line(&aligned(row, &widths)));
        } else {
            rows[1..].iter().for_each(|row| self.row_as_list(header, row));
        }
    }

    fn row_as_list(&mut self, header: &[String], row: &[String]) {
        let parts: Vec<String> = header.iter().zip(row).map(|(name, cell)| format!("{name} {cell}").trim().to_owned()).collect();
        for (index, line) in fill(&parts, ",", WIDTH - 2).iter().enumerate() {
            self.line(&format!("{}{line}", if index == 0 { "" } else { "  " }));
        }
    }

    fn line(&mut self, line: &str) {
        if std::mem::take(&mut self.gap) {
            self.text.push('\n');
        }
        self.text.push_str(line.trim_end());
        self.text.push('\n');
    }
}

/// The first cell to the left, the others to the right.
fn aligned(row: &[String], widths: &[usize]) -> String {
    let mut line = String::new();
    for (index, (cell, &width)) in row.iter().zip(widths).enumerate() {
        line += &if index == 0 { format!("{cell:<width$}") } else { format!("  {cell:>width$}") };
    }
    line
}

/// Words in lines of at most `width`.
fn words(text: &str, width: usize) -> Vec<String> {
    fill(&text.split_whitespace().map(str::to_owned).collect::<Vec<_>>(), "", width)
}

/// A space at which no line breaks (U+00A0, no-break space).
const BOUND: &str = "\u{a0}";

/// Parts in lines of at most `width`, which break between parts; what is longer than a line is broken where the line ends.
fn fill(parts: &[String], separator: &str, width: usize) -> Vec<String> {
    let bound: Vec<String> = parts.iter().map(|part| ascii(part).replace(' ', BOUND)).collect();
    let options = textwrap::Options::new(width).word_separator(textwrap::WordSeparator::AsciiSpace);
    let options = options.word_splitter(textwrap::WordSplitter::NoHyphenation);
    let text = bound.join(&format!("{separator} "));
    textwrap::wrap(&text, options).iter().map(|line| line.replace(BOUND, " ")).collect()
}

/// The text with a `?` for whatever is no printable ASCII: names come from elsewhere and could steer the terminal.
fn ascii(text: &str) -> String {
    text.chars().map(|c| if c.is_ascii_graphic() || c == ' ' { c } else { '?' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owned(parts: &[&str]) -> Vec<String> {
        parts.iter().map(|&part| part.to_owned()).collect()
    }

    #[test]
    fn lists_break_between_parts() {
        let parts = owned(&["one two", "three", "four five"]);
        assert_eq!(fill(&parts, ",", 14), ["one two,", "three,", "four five"]);
        assert_eq!(fill(&parts, ",", 15), ["one two, three,", "four five"]);
        assert_eq!(fill(&[], ",", 15), [""]);
    }

    #[test]
    fn what_is_longer_than_a_line_is_broken() {
        assert_eq!(fill(&owned(&["a", "bcdefghij", "k"]), "", 4), ["a", "bcde", "fghi", "j k"]);
    }

    #[test]
    fn nothing_steers_the_terminal() {
        let mut page = Page::default();
        page.prose("la", "red \u{1b}[31m na\u{ef}ve");
        assert_eq!(page.finish(), "la           red ?[31m na?ve\n");
    }

    #[test]
    fn tables_align_or_become_lists() {
        let mut page = Page::default();
        page.table(&[owned(&["name", "a"]), owned(&["x", "100"])]);
        let long = "9".repeat(75);
        page.table(&[owned(&["", "b", "c"]), owned(&["y", &long, "1"])]);
        assert_eq!(page.finish(), format!("name    a\nx     100\ny,\n  b {long},\n  c 1\n"));
    }
}
