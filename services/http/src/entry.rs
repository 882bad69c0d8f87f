//! The service as `serve` knows it.

use crate::live::{LIVE, REDIRECT, https_port, rules};
use crate::options::{HEAD_BYTES, JSON, LOG, LOG_FORMAT, OF_FILES, OPTIONS, REPLY, ROOT, SITE, sites_of};
use crate::rules::Book;
use crate::who::{Folder, OF_UPSTREAMS, Sites, Who, who_answers};
use crate::{AccessLog, Application, Files, Fixed, HostError, Hosts, Http, LogFormat, Routes, Settings};
use corelane::service::entry::choice::Choice;
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

/// HTTP/1.1, in plain and behind TLS.
pub static ENTRY: Entry = Entry::new(
    "http",
    "HTTP/1.1",
    &[
        Scheme::connections::<Http<Fixed>>("http", DEFAULT_PORT, |lanes, asked| proxied::before(unveiled(lanes, asked)?, asked)),
        Scheme::connections::<Http<Fixed>>("https", DEFAULT_TLS_PORT, |lanes, asked| {
            proxied::before(veiled(lanes, asked)?, asked)
        })
        .options(tls::OPTIONS),
    ],
)
.options(&OPTIONS)
.live(&LIVE)
.tables("site")
.limits(|limits| limits.idle_limit = IDLE_LIMIT);

/// How long a client may keep a connection without a request.
const IDLE_LIMIT: Duration = Duration::from_secs(75);

fn plain(lanes: Lanes, asked: &Asked) -> Result<Lanes> {
    let log = access_log(asked)?;
    let lanes = if asked.chosen().parts().next().is_some() {
        serve_sites(lanes, asked, log.clone())
    } else {
        serve_one(lanes, asked, log.clone())
    }?;
    Ok(log.into_iter().fold(lanes, |lanes, log| log.beside(lanes)))
}

/// Serves one application, whatever the host.
fn serve_one(lanes: Lanes, asked: &Asked, log: Option<AccessLog>) -> Result<Lanes> {
    let chosen = asked.chosen();
    if chosen.has(REPLY.name) && !chosen.has(upstreams::TO_NAME) {
        if chosen.has(ROOT.name) || chosen.has(SITE.name) {
            return Err(asked.refuse(REPLY.name, "files are served where there is a root: leave one of them out"));
        }
        if let Some(option) = OF_FILES.into_iter().find(|option| chosen.has(option)) {
            return Err(asked.refuse(option, "it is for files, and means nothing with reply=BYTES"));
        }
        no_upstreams(asked)?;
        let bytes = chosen.number(&REPLY) as usize;
        return serve(lanes, asked, log, move |_| Fixed::new(bytes));
    }
    if let Some(sites) = chosen.text(&SITE).filter(|_| !chosen.has(upstreams::TO_NAME)) {
        no_upstreams(asked)?;
        return serve_folders(lanes, asked, log, sites);
    }
    if let Some(option) = [SITE.name, REPLY.name].into_iter().find(|option| chosen.has(option)) {
        return Err(asked.refuse(option, "with to=HOST:PORT all requests are sent on: leave one of them out"));
    }
    match who_answers(asked)? {
        Some(Who::Upstreams(passed)) => {
            let speaks_tls = passed.speaks_tls();
            let lanes = serve(lanes, asked, log, move |lane| passed.on_lane(lane))?;
            tls::towards(lanes, asked, speaks_tls, |client| client.protocols(&[b"http/1.1"]))
        }
        Some(Who::Files(folder)) => {
            no_upstreams(asked)?;
            serve(lanes, asked, log, move |_| folder.files())
        }
        Some(Who::Nobody) => {
            no_upstreams(asked)?;
            serve(lanes, asked, log, |_| Routes::new(()))
        }
        None => Err(asked.refuse(
            ROOT.name,
            "it is missing: write ?root=DIR to serve the files beneath a directory, or ?to=HOST:PORT to send requests on",
        )),
    }
}

/// Refuses what is of upstreams where there are none.
fn no_upstreams(asked: &Asked) -> Result<()> {
    let mut of_upstreams = OF_UPSTREAMS.into_iter().chain(tls::UPSTREAM_OPTIONS.iter().map(Choice::name));
    match of_upstreams.find(|option| asked.chosen().has(option)) {
        Some(option) => Err(asked.refuse(option, "it means nothing without to=HOST:PORT")),
        None => Ok(()),
    }
}

/// Serves folders of several hosts.
fn serve_folders(lanes: Lanes, asked: &Asked, log: Option<AccessLog>, sites: &str) -> Result<Lanes> {
    let folder = Folder::chosen(asked, SITE.name)?;
    let root = asked.chosen().text(&ROOT).map(str::to_owned);
    let sites: Vec<(String, String)> = sites_of(sites).map(|(host, root)| (host.to_owned(), root.to_owned())).collect();
    let beside = sites.len() + usize::from(root.is_some());
    let hosts = move || -> std::result::Result<Hosts<Files>, HostError> {
        let mut hosts = Hosts::new(root.as_deref().map(|root| |tokens| folder.files_of(root).beside(beside, tokens)));
        for (host, root) in &sites {
            hosts.add(host, |tokens| folder.files_of(root).beside(beside, tokens))?;
        }
        Ok(hosts)
    };
    hosts().map_err(|error| asked.refuse(SITE.name, error.to_string()))?;
    // reason: it was tried just now.
    serve(lanes, asked, log, move |_| hosts().expect("hosts that were fit are"))
}

/// Serves several sites, each with what it has of its own.
fn serve_sites(lanes: Lanes, asked: &Asked, log: Option<AccessLog>) -> Result<Lanes> {
    let sites = Sites::chosen(asked)?;
    let (rules, speak_tls) = (sites.rules(), sites.speak_tls());
    let settings = settings(asked.chosen().number(&HEAD_BYTES) as usize);
    let served = move |lane| {
        let http = Http::new(sites.on_lane(lane)).settings(settings).book(Book::of_each(rules.clone()));
        log.iter().fold(http, Http::log)
    };
    let lanes = lanes.serve(&asked.url().to_string(), served)?;
    tls::towards(lanes, asked, speak_tls, |client| client.protocols(&[b"http/1.1"]))
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

fn unveiled(lanes: Lanes, asked: &Asked) -> Result<Lanes> {
    match asked.chosen().parts().find_map(|(host, site)| Some((host, tls::certificate_option(site)?))) {
        Some((host, option)) => Err(asked.refuse(option, format!("of {host}: it means nothing without TLS: serve at https://"))),
        None => plain(lanes, asked),
    }
}

fn veiled(lanes: Lanes, asked: &Asked) -> Result<Lanes> {
    let all = [asked.chosen()].into_iter().chain(asked.chosen().parts().map(|(_, site)| site));
    if all.flat_map(|chosen| chosen.texts(&REDIRECT)).any(|text| https_port(text).is_some()) {
        return Err(asked.refuse(REDIRECT.name, "this is over TLS already: requests would go round and round"));
    }
    tls::before(plain(lanes, asked)?, asked, |server| server.protocols(&[b"http/1.1"]).plain_answer(plain_answer))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_of_a_timeout_says_what_it_bounds() {
        let all = ENTRY.options_at("http://").unwrap();
        let help = all.iter().find(|choice| choice.name() == "upstream-timeout").unwrap().help();
        assert!(help.contains("for the whole head of its answer, and be silent behind it"), "{help}");
    }

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
