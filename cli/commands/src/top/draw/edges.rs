//! What screens of figures have around these: the title, headings, and the keys at the foot.

use crate::top::state::{Face, State};
use crate::wrap::fit;
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};

const HINT: &str = "q ends  s sorts  / filters  c connections  u upstreams  space pauses  h help";
const HINT_OF_UPSTREAMS: &str = "q ends  / filters  u lanes  space pauses  n next  p processes  h help";
const HINT_OF_CONNECTIONS: &str = "q ends  s sorts  / filters  c lanes  space pauses  n next  p processes  h help";

/// The first line: `words`, and what keys have changed of what is shown.
pub fn title(state: &State, mut words: String, width: usize) -> Line<'static> {
    if state.is_paused() {
        words += "  PAUSED";
    }
    if !state.filter.is_empty() {
        words += &format!("  filter: {}", state.filter);
    }
    bold(fit(&words, width))
}

/// What stands out: a title, a heading, a prompt.
pub fn bold(words: String) -> Line<'static> {
    Line::styled(words, Modifier::BOLD)
}

/// A heading whose column of this name is marked, as what lines are sorted by.
pub fn heading(words: &str, marked: Option<&str>) -> Vec<Span<'static>> {
    let style = Style::new().add_modifier(Modifier::BOLD);
    let Some((name, at)) = marked.and_then(|name| Some((name, words.find(name)?))) else {
        return vec![Span::styled(words.to_owned(), style)];
    };
    let (before, rest) = words.split_at(at);
    let (name, after) = rest.split_at(name.len());
    vec![
        Span::styled(before.to_owned(), style),
        Span::styled(name.to_owned(), style.add_modifier(Modifier::REVERSED)),
        Span::styled(after.to_owned(), style),
    ]
}

/// The last line: what keys there are, or the text that is typed.
pub fn foot(state: &State) -> Line<'static> {
    match state.is_typing {
        true => Line::raw(format!("filter: {}_   Enter keeps it, Esc clears it", state.filter)),
        false if state.face == Face::Connections => Line::styled(HINT_OF_CONNECTIONS, Modifier::DIM),
        false if state.face == Face::Upstreams => Line::styled(HINT_OF_UPSTREAMS, Modifier::DIM),
        false => Line::styled(HINT, Modifier::DIM),
    }
}
