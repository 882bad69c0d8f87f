//! What breaks a rule, and where.

use std::fmt;

/// Name of a rule, as findings print it.
pub type Rule = &'static str;

/// One place that breaks a rule.
#[derive(Debug, PartialEq)]
pub struct Finding {
    pub path: String,
    pub line: usize,
    pub rule: Rule,
    pub what: String,
    pub remedy: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, line, rule, what, remedy } = self;
        write!(f, "{path}:{line}: {rule}: {what}; {remedy}")
    }
}

/// Whether `text` holds `tidy: allow(word)` followed by a reason.
pub fn allows(text: &str, word: &str) -> bool {
    let reason = text.split_once(&format!("tidy: allow({word})")).map(|(_, reason)| reason);
    reason.is_some_and(|reason| reason.contains(char::is_alphanumeric))
}
