//! The service as `serve` knows it.

use crate::{Fixed, Http};
use corelane::service::entry::choice::{Choice, Number};
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

/// HTTP/1.1, in plain and behind TLS.
pub static ENTRY: Entry = Entry::new(
    "http",
    "HTTP/1.1",
    &[
        Scheme::connections::<Http<Fixed>>("http", DEFAULT_PORT, plain),
        Scheme::connections::<Http<Fixed>>("https", DEFAULT_TLS_PORT, veiled).options(tls::OPTIONS),
    ],
)
.options(&[Choice::Number(REPLY)])
.limits(|limits| limits.idle_limit = IDLE_LIMIT);

/// How long a client may keep a connection without a request.
const IDLE_LIMIT: Duration = Duration::from_secs(75);

fn plain(lanes: Lanes, asked: &Asked) -> Result<Lanes> {
    let bytes = asked.chosen().number(&REPLY) as usize;
    lanes.serve(&asked.url().to_string(), move |_lane| Http::new(Fixed::new(bytes)))
}

/// What a client is told that speaks HTTP without TLS where TLS is spoken.
const PLAIN_ANSWER: &[u8] =
    b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\nContent-Length: 67\r\n\r\n\
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
