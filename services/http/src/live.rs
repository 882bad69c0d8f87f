//! Options that can change while it serves: rules by path, and upstreams.

use crate::Rules;
use crate::hosts::check_host;
use corelane::service::entry::choice::{Choice, Chosen, Part, Text};
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

/// What of a site, or of a service, can change while it serves.
const LIVE_OF_ALL: [Choice; 3] = [Choice::Texts(FIELD), Choice::Texts(REDIRECT), upstreams::TARGETS];

/// What begins the options of a site.
pub(crate) const HOST: Text =
    Text::new("host", "NAME,..", are_hosts, "begin the options of these hosts, such as shop.example or *.example");

/// What can change while it serves.
pub(crate) const LIVE: [Choice; 4] =
    [LIVE_OF_ALL[0], LIVE_OF_ALL[1], LIVE_OF_ALL[2], Choice::Part(Part::new(HOST, &LIVE_OF_ALL))];

/// What of that is chosen: rules, and upstreams if there are some, of all other hosts and then of each site; none where it cannot be read.
pub(crate) fn live(options: &str) -> Option<(Vec<Rules>, Vec<Option<Targets>>)> {
    let chosen = if options.is_empty() { Chosen::default() } else { Chosen::read(&LIVE, options).ok()? };
    let all = || [&chosen].into_iter().chain(chosen.parts().map(|(_, part)| part));
    let each = all().map(|chosen| rules(chosen).ok()).collect::<Option<Vec<Rules>>>()?;
    Some((each, all().map(upstreams::targets).collect()))
}

fn are_hosts(text: &str) -> Result<(), String> {
    text.split(',').try_for_each(|host| match host {
        "" => Err("a host is missing: write host=NAME, with a comma between several".to_owned()),
        host => check_host(host).map_err(|error| error.to_string()),
    })
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
