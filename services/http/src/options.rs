//! What can be chosen of HTTP.

use crate::hosts::check_host;
use crate::live::{FIELD, HOST, REDIRECT};
use crate::{Files, Forward, SITES_MAX};
use corelane::service::entry::choice::{Choice, Flag, Number, OneOf, Part, Text, Time, Use, any, joined};
use corelane_proxied::entry as proxied;
use corelane_tls::entry as tls;
use corelane_upstreams::entry as upstreams;
use std::time::Duration;

pub(crate) const REPLY: Number =
    Number::new("reply", "bytes", "instead of files answer every request with so many bytes of text, for measuring")
        .between(0, 1 << 20, 8)
        .when_chosen();

pub(crate) const ROOT: Text = Text::new("root", "DIR", is_root, "serve the files beneath this directory").reading();
pub(crate) const SITE: Text = Text::new(
    "site",
    "HOST:DIR,..",
    are_sites,
    "serve these hosts, such as shop.example or *.example, from directories of their own; all others have root=DIR, or are refused with 421",
)
.naming(|sites| sites_of(sites).map(|(_, root)| Use::Read(root.into())).collect());
pub(crate) const INDEX: Text =
    Text::new("index", "NAME", is_name, "show a directory by its file of this name [default: index.html]");
pub(crate) const LISTING: Flag = Flag::new("listing", "list directories that have no such file");
pub(crate) const ERRORS: Text = Text::new(
    "errors",
    "DIR",
    is_errors,
    "show pages of this directory for what is refused: 404.html, or 40x.html for all codes that begin with 40",
)
.reading();
pub(crate) const CACHE_BYTES: Number = Number::new(
    "cache-bytes",
    "bytes",
    "memory of each lane for small files, a quarter of it at the most",
)
.between(0, 16 << 30, Files::CACHE_BYTES as u64);

pub(crate) const HEAD_BYTES: Number = Number::new(
    "head-bytes",
    "bytes",
    "let the head of a request be so long, and its target half of that; a longer one is refused with 431, or 414",
)
.between(1 << 10, 64 << 10, 16 << 10);

pub(crate) const UPSTREAM_TIMEOUT: Time = Time::new(
    "upstream-timeout",
    "with to=HOST:PORT, how long an upstream may take for the whole head of its answer, and be silent behind it; then 504 is told",
)
.between(Duration::from_millis(100), Duration::from_secs(240), Forward::TIMEOUT);

pub(crate) const ABORT_ON_CLOSE: Flag = Flag::new(
    "abort-on-close",
    "with to=HOST:PORT, let a request go whose client closes its side before the answer, though it might still hear it",
);

/// What says how files are served.
pub(crate) const OF_FILES: [&str; 4] = [INDEX.name, LISTING.name, ERRORS.name, CACHE_BYTES.name];

pub(crate) const LOG: Text =
    Text::new("log", "FILE", any, "log each answer to this file; it is opened anew at SIGUSR1 and SIGHUP, and when it was moved")
        .writing();
pub(crate) const LOG_FORMAT: OneOf =
    OneOf::new("log-format", "FORMAT", &[COMBINED, JSON], "with log=FILE, how a line is written: json is an object");

/// What a site may have of its own.
const OF_SITE: [Choice; 10] = [
    Choice::Text(ROOT),
    Choice::Text(INDEX),
    Choice::Flag(LISTING),
    Choice::Text(ERRORS),
    Choice::Texts(FIELD),
    Choice::Texts(REDIRECT),
    Choice::Time(UPSTREAM_TIMEOUT),
    Choice::Flag(ABORT_ON_CLOSE),
    // Of a site behind TLS.
    tls::OPTIONS[0],
    tls::OPTIONS[1],
];

const OF_SITES: [Choice; OF_SITE.len() + upstreams::OPTIONS.len()] = joined(&OF_SITE, upstreams::OPTIONS);

const OWN: [Choice; 18] = [
    Choice::Text(ROOT),
    Choice::Text(SITE),
    Choice::Text(INDEX),
    Choice::Flag(LISTING),
    Choice::Text(ERRORS),
    Choice::Number(CACHE_BYTES),
    Choice::Number(REPLY),
    Choice::Number(HEAD_BYTES),
    Choice::Texts(FIELD),
    Choice::Texts(REDIRECT),
    Choice::Text(LOG),
    Choice::OneOf(LOG_FORMAT),
    proxied::OPTION,
    Choice::Time(UPSTREAM_TIMEOUT),
    Choice::Flag(ABORT_ON_CLOSE),
    tls::UPSTREAM_OPTIONS[0],
    tls::UPSTREAM_OPTIONS[1],
    Choice::Part(Part::new(HOST, &OF_SITES)),
];

/// Its own options, and those of upstreams.
pub(crate) const OPTIONS: [Choice; OWN.len() + upstreams::OPTIONS.len()] = joined(&OWN, upstreams::OPTIONS);

/// The formats of the log, as they are named.
const COMBINED: &str = "combined";
pub(crate) const JSON: &str = "json";

/// Hosts and their directories.
pub(crate) fn sites_of(text: &str) -> impl Iterator<Item = (&str, &str)> {
    // An IPv6 address has colons within its brackets.
    let split = |site: &'_ str| site.find("]:").map(|at| at + 1).or_else(|| site.find(':'));
    text.split(',').map(move |site| split(site).map_or((site, ""), |at| (&site[..at], &site[at + 1..])))
}

fn are_sites(text: &str) -> std::result::Result<(), String> {
    if sites_of(text).count() >= SITES_MAX {
        return Err(format!("there are {SITES_MAX} sites at the most"));
    }
    sites_of(text).try_for_each(|(host, root)| {
        if host.is_empty() {
            return Err("a host is missing: write site=HOST:DIR, with a comma between several".to_owned());
        }
        check_host(host).map_err(|error| error.to_string())?;
        if std::path::Path::new(root).is_dir() {
            return Ok(());
        }
        Err(match root {
            "" => format!("{host:?} has no directory: write site={host}:DIR with one that is there"),
            _ => format!("{root:?} is no directory: write site={host}:DIR with one that is there"),
        })
    })
}

fn is_root(text: &str) -> std::result::Result<(), String> {
    is_directory(text, ROOT.name)
}

fn is_errors(text: &str) -> std::result::Result<(), String> {
    is_directory(text, ERRORS.name)
}

fn is_directory(text: &str, option: &str) -> std::result::Result<(), String> {
    match std::path::Path::new(text).is_dir() {
        true => Ok(()),
        false => Err(format!("{text:?} is no directory: write {option}=DIR with one that is there")),
    }
}

fn is_name(text: &str) -> std::result::Result<(), String> {
    match text.contains('/') || text.starts_with('.') {
        true => Err(format!("{text:?} is no name of a file: write one without a slash, such as index.html")),
        false => Ok(()),
    }
}
