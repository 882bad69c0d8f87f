//! What screens of figures have around these: the title, headings, and the keys at the foot.

use crate::top::state::State;
use crate::wrap::fit;
use ratatui::style::Modifier;
use ratatui::text::Line;

const HINT: &str = "q ends  s sorts  / filters  c connections  space pauses  p processes  h help";

/// The first line: `words`, and what keys have changed of what is shown.
pub fn title(state: &State, mut words: String) -> Line<'static> {
    if state.is_paused() {
        words += "  PAUSED";
    }
    if !state.filter.is_empty() {
        words += &format!("  filter: {}", state.filter);
    }
    bold(fit(&words, 80))
}

/// What stands out: a title, a heading, a prompt.
pub fn bold(words: String) -> Line<'static> {
    Line::styled(words, Modifier::BOLD)
}

/// The last line: what keys there are, or the text that is typed.
pub fn foot(state: &State) -> Line<'static> {
    match state.is_typing {
        true => Line::raw(format!("filter: {}_   Enter keeps it, Esc clears it", state.filter)),
        false => Line::styled(HINT, Modifier::DIM),
    }
}
