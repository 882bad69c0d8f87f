//! The service as `serve` knows it.

use crate::hosts::check_host;
use crate::live::{FIELD, LIVE, REDIRECT, https_port, rules};
use crate::{AccessLog, Application, Files, Fixed, Forward, HostError, Hosts, Http, LogFormat, Routes, SITES_MAX, Settings};
use corelane::lanes::calls_on_files;
use corelane::service::entry::choice::{Choice, Flag, Number, OneOf, Text, Time, Use};
use corelane::service::entry::{Asked, Entry, Scheme};
use corelane::{Lanes, Result};
use corelane_proxied::entry as proxied;
use corelane_tls::entry as tls;
use corelane_upstreams::entry as upstreams;
use corelane_wire::http1::{Date, Limits, Status, write_response};
use corelane_wire::xdr::Writer;
use std::time::Duration;

/// Where HTTP is served unless said otherwise.
pub const DEFAULT_PORT: u16 = 8080;
/// Where it is served behind TLS unless said otherwise.
pub const DEFAULT_TLS_PORT: u16 = 8443;

const REPLY: Number =
    Number::new("reply", "bytes", "instead of files answer every request with so many bytes of text, for measuring")
        .between(0, 1 << 20, 8)
        .when_chosen();

const ROOT: Text = Text::new("root", "DIR", is_root, "serve the files beneath this directory").reading();
const SITE: Text = Text::new(
    "site",
    "HOST:DIR,..",
    are_sites,
    "serve these hosts, such as shop.example or *.example, from directories of their own; all others have root=DIR, or are refused with 421",
)
.naming(|sites| sites_of(sites).map(|(_, root)| Use::Read(root.into())).collect());
const INDEX: Text = Text::new("index", "NAME", is_name, "show a directory by its file of this name [default: index.html]");
const LISTING: Flag = Flag::new("listing", "list directories that have no such file");
const ERRORS: Text = Text::new(
    "errors",
    "DIR",
    is_errors,
    "show pages of this directory for what is refused: 404.html, or 40x.html for all codes that begin with 40",
)
.reading();
const CACHE_BYTES: Number = Number::new(
    "cache-bytes",
    "bytes",
    "memory of each lane for small files, a quarter of it at the most",
)
.between(0, 16 << 30, Files::CACHE_BYTES as u64);

const HEAD_BYTES: Number = Number::new(
    "head-bytes",
    "bytes",
    "let the head of a request be so long, and its target half of that; a longer one is refused with 431, or 414",
)
.between(1 << 10, 64 << 10, 16 << 10);

const UPSTREAM_TIMEOUT: Time = Time::new(
    "upstream-timeout",
    "with to=HOST:PORT, how long an upstream that owes an answer may be silent; then the client is told 504",
)
.between(Duration::from_millis(100), Duration::from_secs(240), Forward::TIMEOUT);

const ABORT_ON_CLOSE: Flag = Flag::new(
    "abort-on-close",
    "with to=HOST:PORT, let a request go whose client closes its side before the answer, though it might still hear it",
);

/// What says how files are served.
const OF_FILES: [&str; 4] = [INDEX.name, LISTING.name, ERRORS.name, CACHE_BYTES.name];

const LOG: Text =
    Text::new("log", "FILE", any, "log each answer to this file; it is opened anew at SIGUSR1 and SIGHUP, and when it was moved")
        .writing();
const LOG_FORMAT: OneOf =
    OneOf::new("log-format", "FORMAT", &[COMBINED, JSON], "with log=FILE, how a line is written: json is an object");

const OWN: [Choice; 17] = [
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
];

/// Its own options, and those of upstreams.
const OPTIONS: [Choice; OWN.len() + upstreams::OPTIONS.len()] = {
    let mut all = [OWN[0]; OWN.len() + upstreams::OPTIONS.len()];
    let mut at = 0;
    while at < all.len() {
        all[at] = if at < OWN.len() { OWN[at] } else { upstreams::OPTIONS[at - OWN.len()] };
        at += 1;
    }
    all
};

/// HTTP/1.1, in plain and behind TLS.
pub static ENTRY: Entry = Entry::new(
    "http",
    "HTTP/1.1",
    &[
        Scheme::connections::<Http<Fixed>>("http", DEFAULT_PORT, |lanes, asked| proxied::before(plain(lanes, asked)?, asked)),
        Scheme::connections::<Http<Fixed>>("https", DEFAULT_TLS_PORT, |lanes, asked| {
            proxied::before(veiled(lanes, asked)?, asked)
        })
        .options(tls::OPTIONS),
    ],
)
.options(&OPTIONS)
.live(&LIVE)
.limits(|limits| limits.idle_limit = IDLE_LIMIT);

/// How long a client may keep a connection without a request.
const IDLE_LIMIT: Duration = Duration::from_secs(75);

fn plain(lanes: Lanes, asked: &Asked) -> Result<Lanes> {
    let (chosen, log) = (asked.chosen(), access_log(asked)?);
    let has_files = chosen.has(ROOT.name) || chosen.has(SITE.name);
    if let Some(behind) = upstreams::behind(asked)? {
        let lanes = forward(lanes, asked, log.clone(), behind)?;
        return Ok(log.into_iter().fold(lanes, |lanes, log| log.beside(lanes)));
    }
    let of_upstreams =
        [UPSTREAM_TIMEOUT.name, ABORT_ON_CLOSE.name, tls::UPSTREAM_OPTIONS[0].name(), tls::UPSTREAM_OPTIONS[1].name()];
    if let Some(option) = of_upstreams.into_iter().find(|option| chosen.has(option)) {
        return Err(asked.refuse(option, "it means nothing without to=HOST:PORT"));
    }
    let lanes = match (has_files, chosen.has(REPLY.name)) {
        (true, false) => serve_files(lanes, asked, log.clone()),
        (false, true) => {
            if let Some(option) = OF_FILES.into_iter().find(|option| chosen.has(option)) {
                return Err(asked.refuse(option, "it is for files, and means nothing with reply=BYTES"));
            }
            let bytes = chosen.number(&REPLY) as usize;
            serve(lanes, asked, log.clone(), move |_| Fixed::new(bytes))
        }
        // What is not sent elsewhere is not found.
        (false, false) if chosen.has(REDIRECT.name) => serve(lanes, asked, log.clone(), |_| Routes::new(())),
        (true, true) => Err(asked.refuse(REPLY.name, "files are served where there is a root: leave one of them out")),
        (false, false) => Err(asked.refuse(
            ROOT.name,
            "it is missing: write ?root=DIR to serve the files beneath a directory, or ?to=HOST:PORT to send requests on",
        )),
    }?;
    Ok(log.into_iter().fold(lanes, |lanes, log| log.beside(lanes)))
}

/// Serves the files of one directory, or of several hosts.
fn serve_files(lanes: Lanes, asked: &Asked, log: Option<AccessLog>) -> Result<Lanes> {
    let chosen = asked.chosen();
    let option = if chosen.has(ROOT.name) { ROOT.name } else { SITE.name };
    calls_on_files().map_err(|why| asked.refuse(option, format!("no file can be served: {why}")))?;
    let root = chosen.text(&ROOT).map(str::to_owned);
    let index = chosen.text(&INDEX).unwrap_or("index.html").to_owned();
    let (lists, bytes) = (chosen.flag(&LISTING), chosen.number(&CACHE_BYTES) as usize);
    let errors = chosen.text(&ERRORS).map(str::to_owned);
    let files = move |root: &str| {
        let files = Files::new(root).index(&index).listing(lists).cache_bytes(bytes);
        errors.iter().fold(files, |files, errors| files.errors(errors))
    };
    let Some(sites) = chosen.text(&SITE) else {
        // reason: one of both is there.
        let root = root.expect("without sites there is a root");
        return serve(lanes, asked, log, move |_| files(&root));
    };
    let sites: Vec<(String, String)> = sites_of(sites).map(|(host, root)| (host.to_owned(), root.to_owned())).collect();
    let beside = sites.len() + usize::from(root.is_some());
    let hosts = move || -> std::result::Result<Hosts<Files>, HostError> {
        let mut hosts = Hosts::new(root.as_deref().map(|root| |tokens| files(root).beside(beside, tokens)));
        for (host, root) in &sites {
            hosts.add(host, |tokens| files(root).beside(beside, tokens))?;
        }
        Ok(hosts)
    };
    hosts().map_err(|error| asked.refuse(SITE.name, error.to_string()))?;
    // reason: it was tried just now.
    serve(lanes, asked, log, move |_| hosts().expect("hosts that were fit are"))
}

/// Sends all requests on to other servers.
fn forward(lanes: Lanes, asked: &Asked, log: Option<AccessLog>, behind: upstreams::Behind) -> Result<Lanes> {
    let chosen = asked.chosen();
    let others = [ROOT.name, SITE.name, REPLY.name].into_iter().chain(OF_FILES);
    if let Some(option) = others.into_iter().find(|option| chosen.has(option)) {
        return Err(asked.refuse(option, "with to=HOST:PORT all requests are sent on: leave one of them out"));
    }
    let (timeout, aborts) = (chosen.time(&UPSTREAM_TIMEOUT), chosen.flag(&ABORT_ON_CLOSE));
    let speak_tls = behind.targets.speak_tls();
    let lanes = serve(lanes, asked, log, move |lane| Forward::new(&behind, lane).timeout(timeout).abort_on_close(aborts))?;
    tls::towards(lanes, asked, speak_tls, |client| client.protocols(&[b"http/1.1"]))
}

/// Hosts and their directories.
fn sites_of(text: &str) -> impl Iterator<Item = (&str, &str)> {
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

/// Serves an application, one for each lane.
fn serve<A: Application>(
    lanes: Lanes,
    asked: &Asked,
    log: Option<AccessLog>,
    application: impl Fn(usize) -> A + Send + Sync + 'static,
) -> Result<Lanes> {
    let settings = settings(asked.chosen().number(&HEAD_BYTES) as usize);
    let rules = rules(asked.chosen()).map_err(|(option, why)| asked.refuse(option, why))?;
    let served = move |lane| {
        let http = Http::new(application(lane)).settings(settings).rules(rules.clone());
        log.iter().fold(http, Http::log)
    };
    lanes.serve(&asked.url().to_string(), served)
}

/// The bounds for heads of so many bytes.
fn settings(head_bytes: usize) -> Settings {
    Settings::new().head(Limits { head_bytes, target_bytes: head_bytes / 2, ..Limits::default() })
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

/// What is asked of a log, if one is.
fn access_log(asked: &Asked) -> Result<Option<AccessLog>> {
    let Some(path) = asked.chosen().text(&LOG) else {
        return match asked.chosen().has(LOG_FORMAT.name) {
            true => Err(asked.refuse(LOG_FORMAT.name, "it means nothing without log=FILE")),
            false => Ok(None),
        };
    };
    let format = if asked.chosen().one_of(&LOG_FORMAT) == JSON { LogFormat::Json } else { LogFormat::Combined };
    AccessLog::open(path, format).map(Some).map_err(|error| asked.refuse(LOG.name, format!("{path} cannot be opened: {error}")))
}

/// The formats of the log, as they are named.
const COMBINED: &str = "combined";
const JSON: &str = "json";

/// Whether a file can be opened shows when it is.
fn any(_: &str) -> std::result::Result<(), String> {
    Ok(())
}

/// What a client is told that speaks HTTP without TLS where TLS is spoken, at this time since 1970.
fn plain_answer(now: Duration) -> Vec<u8> {
    let words = "400 Bad Request\nTLS is spoken at this port: use https:// to reach it\n";
    let date = Date::from_unix_seconds(i64::try_from(now.as_secs()).unwrap_or(i64::MAX));
    let mut memory = vec![0; 512];
    let mut writer = Writer::new(&mut memory);
    let head = write_response(&mut writer, Status::BAD_REQUEST, |fields| {
        fields.date("Date", date)?;
        fields.field("Connection", b"close")?;
        fields.field("Content-Type", b"text/plain")?;
        fields.number("Content-Length", words.len() as u64)
    });
    let written = head.and_then(|()| writer.put(words.as_bytes()));
    assert!(written.is_ok(), "there is room for all of it");
    let bytes = writer.len();
    memory.truncate(bytes);
    memory
}

fn veiled(lanes: Lanes, asked: &Asked) -> Result<Lanes> {
    if asked.chosen().texts(&REDIRECT).any(|text| https_port(text).is_some()) {
        return Err(asked.refuse(REDIRECT.name, "this is over TLS already: requests would go round and round"));
    }
    tls::before(plain(lanes, asked)?, asked, |server| server.protocols(&[b"http/1.1"]).plain_answer(plain_answer))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_served_is_said() {
        let of = |place: &str| Lanes::per_core().serve_entry(&ENTRY, place).map(drop).map_err(|error| error.to_string());
        for right in [
            "to=127.0.0.1:1,a.test:2*3&upstream-timeout=2s&balance=least",
            "reply=0",
            "root=/",
            "root=/&index=a.html&listing&errors=/&cache-bytes=0",
            "redirect=https",
            "root=/&redirect=/a=https://b.example&redirect=/c=/d&field=/*=X-A: 1&field=/b=X-B:%202",
        ] {
            assert_eq!(of(&format!("http://127.0.0.1:0?{right}")), Ok(()), "{right}");
        }
        for (wrong, said) in [
            ("", "?root=DIR"),
            ("?listing", "?root=DIR"),
            ("?root=/&reply=8", "leave one of them out"),
            ("?root=/&to=a:1", "leave one of them out"),
            ("?listing&to=a:1", "leave one of them out"),
            ("?to=a", "write HOST:PORT"),
            ("?root=/&upstream-ca=/x", "means nothing without to=HOST:PORT"),
            ("?to=a:1&upstream-ca=/x", "means nothing without to=tls://"),
            ("?root=/&upstream-timeout=1s", "means nothing without to=HOST:PORT"),
            ("?root=/nowhere/at/all", "is no directory"),
            ("?root=/&errors=/nowhere", "write errors=DIR"),
            ("?root=/&index=a/b", "without a slash"),
            ("?root=/&index=..", "without a slash"),
            ("?site=shop.example", "\"shop.example\" has no directory: write site=shop.example:DIR"),
            ("?site=shop.example:", "\"shop.example\" has no directory: write site=shop.example:DIR"),
            ("?site=shop.example:/nowhere/at/all", "\"/nowhere/at/all\" is no directory: write site=shop.example:DIR"),
            ("?root=/&field=/*", "write PATTERN=NAME: VALUE"),
            ("?root=/&field=/*=Content-Length: 1", "written by the server itself"),
            ("?root=/&redirect=/a=b", "is no target"),
            ("?redirect=http", "write PATH=URL, https or https:PORT"),
            ("?site=", "has no value: write site=HOST:DIR"),
            ("?site=shop.example:/,", "a host is missing: write site=HOST:DIR"),
        ] {
            let error = of(&format!("http://127.0.0.1:0{wrong}")).unwrap_err();
            assert!(error.contains(said), "{wrong}: {error}");
        }
    }

    #[test]
    fn heads_are_bounded_by_their_option() {
        assert_eq!(settings(HEAD_BYTES.default as usize), Settings::new());
        let of = |bytes: &str| {
            Lanes::per_core().serve_entry(&ENTRY, &format!("http://127.0.0.1:0?reply=8&head-bytes={bytes}")).map(drop)
        };
        assert!(of("1024").is_ok() && of("64KiB").is_ok());
        for wrong in ["1023", "65KiB"] {
            assert!(of(wrong).unwrap_err().to_string().contains("head-bytes"), "{wrong}");
        }
    }

    #[test]
    fn help_names_no_default_that_is_none() {
        let help = ENTRY.describe();
        assert!(help.contains("text, for measuring; 0 to 1MiB\n"), "{help}");
    }

    #[test]
    fn the_answer_in_plain_is_whole() {
        let text = String::from_utf8(plain_answer(Duration::from_secs(784_111_777))).unwrap();
        let (head, content) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("Content-Length: {}", content.len())), "{} bytes", content.len());
        assert!(head.contains("\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\nConnection: close\r\n"), "{head}");
    }
}
