//! Options that can change while it serves: rules by path, and upstreams.

use crate::Rules;
use corelane::service::entry::choice::{Choice, Chosen, Text};
use corelane_upstreams::Targets;
use corelane_upstreams::entry as upstreams;

pub(crate) const FIELD: Text = Text::new(
    "field",
    "PATTERN=NAME:VALUE",
    is_field,
    "answers for these paths have this field line, such as /assets/*=Cache-Control:%20max-age=3600; may be repeated",
);
pub(crate) const REDIRECT: Text = Text::new(
    "redirect",
    "PATH=URL",
    is_redirect,
    "send requests for this path, and for all beneath it, to this URL (308); https or https:PORT sends all to the same over TLS; may be repeated",
);

/// What can change while it serves.
pub(crate) const LIVE: [Choice; 3] = [Choice::Texts(FIELD), Choice::Texts(REDIRECT), upstreams::TARGETS];

/// What of that is chosen: rules, and upstreams if there are some; none where it cannot be read.
pub(crate) fn live(options: &str) -> Option<(Rules, Option<Targets>)> {
    let chosen = if options.is_empty() { Chosen::default() } else { Chosen::read(&LIVE, options).ok()? };
    Some((rules(&chosen).ok()?, upstreams::targets(&chosen)))
}

/// What is asked of paths, whoever answers there; or which option is wrong, and why.
pub(crate) fn rules(chosen: &Chosen) -> Result<Rules, (&'static str, String)> {
    let mut rules = Rules::new();
    for text in chosen.texts(&FIELD) {
        add_field(&mut rules, text).map_err(|why| (FIELD.name, why))?;
    }
    for text in chosen.texts(&REDIRECT) {
        add_redirect(&mut rules, text).map_err(|why| (REDIRECT.name, why))?;
    }
    Ok(rules)
}

fn add_field(rules: &mut Rules, text: &str) -> Result<(), String> {
    let (pattern, line) = text.split_once('=').ok_or("write PATTERN=NAME: VALUE, such as /*=X-Frame-Options: DENY")?;
    rules.field(pattern, line).map(drop).map_err(|error| error.to_string())
}

fn add_redirect(rules: &mut Rules, text: &str) -> Result<(), String> {
    let added = match text.split_once('=') {
        Some((from, to)) => rules.redirect(from, to),
        None => rules.to_https(https_port(text).ok_or("write PATH=URL, https or https:PORT")?),
    };
    added.map(drop).map_err(|error| error.to_string())
}

/// The port of `https` or `https:PORT`.
pub(crate) fn https_port(text: &str) -> Option<u16> {
    match text.strip_prefix("https")? {
        "" => Some(443),
        port => port.strip_prefix(':')?.parse().ok().filter(|port| *port > 0),
    }
}

fn is_field(text: &str) -> Result<(), String> {
    add_field(&mut Rules::new(), text)
}

fn is_redirect(text: &str) -> Result<(), String> {
    add_redirect(&mut Rules::new(), text)
}
