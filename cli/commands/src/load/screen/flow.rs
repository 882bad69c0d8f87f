//! Figures beside each other in lines, where each is shown whole or not at all.

use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};

/// From this width on there is room for a column of labels.
const WIDE: usize = 60;

/// Where the figures begin beside a label, where there is room.
const INDENT: usize = 10;

/// Something short that is never cut.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    pub text: String,
    pub style: Style,
}

impl Field {
    /// A field that looks like all others.
    pub fn plain(text: impl Into<String>) -> Self {
        Self { text: text.into(), style: Style::new() }
    }

    /// A field that stands out.
    pub fn styled(text: impl Into<String>, style: impl Into<Style>) -> Self {
        Self { text: text.into(), style: style.into() }
    }

    fn span(&self) -> Span<'static> {
        Span::styled(self.text.clone(), self.style)
    }
}

/// The fields after their label in at most `most` lines of `width`. What finds no room is counted at the end.
pub fn flow(label: &str, fields: &[Field], width: usize, most: usize) -> Vec<Line<'static>> {
    let fit = |count: usize| {
        let mut shown = fields[..count].to_vec();
        if count < fields.len() {
            shown.push(Field::plain(format!("+{} more", fields.len() - count)));
        }
        pack(label, &shown, width).filter(|lines| lines.len() <= most)
    };
    (0..=fields.len()).rev().find_map(fit).unwrap_or_default()
}

/// The fields in as many lines as they need; none if one is wider than a line.
fn pack(label: &str, fields: &[Field], width: usize) -> Option<Vec<Line<'static>>> {
    let (indent, gap) = if width >= WIDE { (INDENT, 3) } else { (2, 2) };
    let indent = if label.is_empty() { 0 } else { indent };
    let mut line = Line::default();
    if !label.is_empty() {
        let text = if width >= WIDE { format!("{label:<INDENT$}") } else { format!("{label}  ") };
        line.push_span(Span::styled(text, Modifier::DIM));
    }
    let mut lines = Vec::new();
    let mut begun = false;
    for field in fields {
        let space = if begun { gap } else { 0 };
        if line.width() + space + field.span().width() > width && (begun || !lines.is_empty() || line.width() > indent) {
            lines.push(std::mem::replace(&mut line, Line::raw(" ".repeat(indent))));
        } else {
            line.push_span(" ".repeat(space));
        }
        line.push_span(field.span());
        begun = true;
        if line.width() > width {
            return None;
        }
    }
    lines.push(line);
    (lines.iter().all(|line| line.width() <= width)).then_some(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(label: &str, fields: &[&str], width: usize, most: usize) -> Vec<String> {
        let fields: Vec<Field> = fields.iter().map(|&text| Field::plain(text)).collect();
        flow(label, &fields, width, most).iter().map(Line::to_string).collect()
    }

    #[test]
    fn fields_flow_into_lines() {
        assert_eq!(texts("rate", &["one", "two", "three"], 14, 9), ["rate  one  two", "  three"]);
        let wide = texts("rate", &["x".repeat(40).as_str(), "two", "three"], 60, 9);
        assert_eq!(wide, [format!("rate      {}   two", "x".repeat(40)), "          three".to_owned()]);
        assert_eq!(texts("", &["one", "two"], 8, 9), ["one  two"]);
        assert_eq!(texts("rate", &["exactly8"], 14, 1), ["rate  exactly8"]);
    }

    #[test]
    fn what_finds_no_room_is_counted_and_nothing_is_cut() {
        assert_eq!(texts("", &["one", "two", "three", "four"], 14, 1), ["one  +3 more"]);
        assert_eq!(texts("", &["one", "123456789"], 8, 9), ["one", "+1 more"]);
        assert!(texts("rate", &["one"], 4, 9).is_empty());
        assert!(texts("rate", &["one"], 80, 0).is_empty());
        assert!(texts("", &["one"], 0, 3).is_empty());
    }
}
