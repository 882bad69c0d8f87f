//! The service as `serve` knows it.

use crate::{AccessLog, Fixed, Http, LogFormat};
use corelane::service::entry::choice::{Choice, Number, Text};
use corelane::service::entry::{Asked, Entry, Scheme};
use corelane::{Lanes, Result};
use corelane_tls::entry as tls;
use std::time::Duration;

/// Where HTTP is served unless said otherwise.
pub const DEFAULT_PORT: u16 = 8080;
/// Where it is served behind TLS unless said otherwise.
pub const DEFAULT_TLS_PORT: u16 = 8443;

const REPLY: Number =
    Number::new("reply", "bytes", "answer every request with so many bytes of text, for measuring").between(0, 1 << 20, 8);

const LOG: Text =
    Text::new("log", "FILE", any, "log each answer to this file; it is opened anew at SIGHUP, and when it was moved");
const LOG_FORMAT: Text =
    Text::new("log-format", "FORMAT", known_format, "with log=FILE: combined, or json for an object a line [default: combined]");

/// HTTP/1.1, in plain and behind TLS.
pub static ENTRY: Entry = Entry::new(
    "http",
    "HTTP/1.1",
    &[
        Scheme::connections::<Http<Fixed>>("http", DEFAULT_PORT, plain),
        Scheme::connections::<Http<Fixed>>("https", DEFAULT_TLS_PORT, veiled).options(tls::OPTIONS),
    ],
)
.options(&[Choice::Number(REPLY), Choice::Text(LOG), Choice::Text(LOG_FORMAT)])
.limits(|limits| limits.idle_limit = IDLE_LIMIT);

/// How long a client may keep a connection without a request.
const IDLE_LIMIT: Duration = Duration::from_secs(75);

fn plain(lanes: Lanes, asked: &Asked) -> Result<Lanes> {
    let (bytes, log) = (asked.chosen().number(&REPLY) as usize, access_log(asked)?);
    let of_lanes = log.clone();
    let logs = move |http: Http<_>| of_lanes.iter().fold(http, Http::log);
    let lanes = lanes.serve(&asked.url().to_string(), move |_lane| logs(Http::new(Fixed::new(bytes))))?;
    Ok(log.into_iter().fold(lanes, |lanes, log| log.beside(lanes)))
}

/// What is asked of a log, if one is.
fn access_log(asked: &Asked) -> Result<Option<AccessLog>> {
    let format = asked.chosen().text(&LOG_FORMAT);
    let Some(path) = asked.chosen().text(&LOG) else {
        return match format {
            Some(_) => Err(asked.refuse(LOG_FORMAT.name, "it means nothing without log=FILE")),
            None => Ok(None),
        };
    };
    let format = if format == Some(JSON) { LogFormat::Json } else { LogFormat::Combined };
    AccessLog::open(path, format).map(Some).map_err(|error| asked.refuse(LOG.name, format!("{path} cannot be opened: {error}")))
}

/// The formats of the log, as they are named.
const COMBINED: &str = "combined";
const JSON: &str = "json";

fn known_format(name: &str) -> std::result::Result<(), String> {
    match name {
        COMBINED | JSON => Ok(()),
        _ => Err(format!("{name:?} is neither {COMBINED} nor {JSON}")),
    }
}

/// Whether a file can be opened shows when it is.
fn any(_: &str) -> std::result::Result<(), String> {
    Ok(())
}

/// What a client is told that speaks HTTP without TLS where TLS is spoken.
const PLAIN_ANSWER: &[u8] =
    b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\nContent-Length: 69\r\n\r\n\
    400 Bad Request\nTLS is spoken at this port: use https:// to reach it\n";

fn veiled(lanes: Lanes, asked: &Asked) -> Result<Lanes> {
    tls::before(plain(lanes, asked)?, asked, |server| server.protocols(&[b"http/1.1"]).plain_answer(PLAIN_ANSWER))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_in_plain_is_whole() {
        let text = std::str::from_utf8(PLAIN_ANSWER).unwrap();
        let (head, content) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("Content-Length: {}", content.len())), "{} bytes", content.len());
    }
}
