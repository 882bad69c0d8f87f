//! The heads that are passed on, written anew from what was parsed: nothing of the bytes of a head goes on as it came.
//!
//! What a client says of who it is (Forwarded, X-Forwarded-For and the like) goes no further: here it is said what its connection says.

use corelane_wire::http1::{
    Authority, DIGITS_MAX, Fields, Framing, Request as Head, Response, Version, decimal, end_to_end, is_alike,
};
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr};

/// Fields of a request that are said anew, and those that a server might take for them.
const SAID_ANEW: [&str; 7] = ["host", "expect", "forwarded", "x-real-ip", "x-forwarded", "x-forwarded-for", "via"];
/// How others begin.
const SAID_ANEW_PREFIX: &[u8] = b"x-forwarded-";

/// Who asks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asker {
    /// The address of the client; none over a Unix socket.
    pub address: Option<IpAddr>,
    /// It asks over TLS.
    pub is_secured: bool,
}

/// Writes the head of the request that the upstream is sent. `name` stands for the host where the client names none.
pub(super) fn write_request(to: &mut Vec<u8>, head: &Head<'_>, asker: Asker, name: &str) {
    let authority = head.authority.filter(|authority| !authority.host.is_empty());
    put(to, &[head.method.name().as_bytes(), b" ", head.target.path]);
    if let Some(query) = head.target.query {
        put(to, &[b"?", query]);
    }
    put(to, &[b" HTTP/1.1\r\nHost: "]);
    put_host(to, authority, name);
    put(to, &[b"\r\n"]);
    for (name, value) in end_to_end(head.fields).filter(|(name, _)| !is_said_anew(name.as_bytes())) {
        put_line(to, name, value);
    }
    write_origin(to, head, authority, asker);
    match head.framing {
        Framing::None | Framing::UntilClose => {}
        Framing::Length(length) => put_line(to, "Content-Length", decimal(length, &mut [0; DIGITS_MAX])),
        Framing::Chunked => put_line(to, "Transfer-Encoding", b"chunked"),
    }
    if head.expects_continue {
        put_line(to, "Expect", b"100-continue");
    }
    if wants_upgrade(head) {
        put_line(to, "Connection", b"Upgrade");
        head.fields.all("upgrade").for_each(|value| put_line(to, "Upgrade", value));
    }
    put(to, &[b"\r\n"]);
}

/// Where the request has come from: RFC 7239, and what was said before that was written.
fn write_origin(to: &mut Vec<u8>, head: &Head<'_>, authority: Option<Authority<'_>>, asker: Asker) {
    let scheme: &[u8] = if asker.is_secured { b"https" } else { b"http" };
    head.fields.all("via").for_each(|value| put_line(to, "Via", value));
    put_line(to, "Via", if head.version == Version::Http10 { b"1.0 corelane" } else { b"1.1 corelane" });
    put(to, &[b"Forwarded: for="]);
    match asker.address {
        Some(IpAddr::V4(address)) => put_v4(to, address),
        Some(IpAddr::V6(address)) => put_text(to, format_args!("\"[{address}]\"")),
        None => put(to, &[b"unknown"]),
    }
    put(to, &[b";proto=", scheme]);
    if authority.is_some() {
        put(to, &[b";host=\""]);
        put_host(to, authority, "");
        put(to, &[b"\""]);
    }
    put(to, &[b"\r\n"]);
    if let Some(address) = asker.address {
        put(to, &[b"X-Forwarded-For: "]);
        match address {
            IpAddr::V4(address) => put_v4(to, address),
            IpAddr::V6(address) => put_text(to, format_args!("{address}")),
        }
        put(to, &[b"\r\n"]);
    }
    put_line(to, "X-Forwarded-Proto", scheme);
    if authority.is_some() {
        put(to, &[b"X-Forwarded-Host: "]);
        put_host(to, authority, "");
        put(to, &[b"\r\n"]);
    }
}

/// Whether a change of the protocol is passed on. HTTP/2 is none that is: its requests would pass unseen. Nor where content comes with it, behind which nobody knows what is meant.
pub(super) fn wants_upgrade(head: &Head<'_>) -> bool {
    let is_http2 = |option: &[u8]| option.eq_ignore_ascii_case(b"h2c") || option.eq_ignore_ascii_case(b"h2");
    let mut offers = head.fields.list("upgrade").peekable();
    head.upgrades && head.framing == Framing::None && offers.peek().is_some() && !offers.any(is_http2)
}

/// The protocols that a client asks for, with a comma behind each.
pub(super) fn offers(head: &Head<'_>) -> Vec<u8> {
    head.fields.list("upgrade").flat_map(|offer| [offer, b","]).flatten().copied().collect()
}

/// Whether a 101 (Switching Protocols) may be one: each protocol that it names was asked for (RFC 9110 section 7.8), and HTTP/1.0 has no such answer.
pub(super) fn is_switch(head: &Response<'_>, offers: &[u8]) -> bool {
    let mut chosen = head.fields.list("upgrade").peekable();
    let is_offered = |chosen: &[u8]| offers.split(|byte| *byte == b',').any(|offer| offer.eq_ignore_ascii_case(chosen));
    let is_told = head.fields.list("connection").any(|option| option.eq_ignore_ascii_case(b"upgrade"));
    head.version != Version::Http10 && is_told && chosen.peek().is_some() && chosen.all(is_offered)
}

/// Writes the field lines of an answer that are for the client, but those that the service writes itself. Upgrade is of one connection:
/// it goes on where the answer is about a change of the protocol.
pub(super) fn write_answer_lines(to: &mut Vec<u8>, fields: Fields<'_>, has_upgrade: bool) {
    to.clear();
    for (name, value) in end_to_end(fields).filter(|(name, _)| !name.eq_ignore_ascii_case("date")) {
        put_line(to, name, value);
    }
    if has_upgrade {
        fields.all("upgrade").for_each(|value| put_line(to, "Upgrade", value));
    }
}

fn is_said_anew(name: &[u8]) -> bool {
    let begins = name.len() > SAID_ANEW_PREFIX.len() && is_alike(&name[..SAID_ANEW_PREFIX.len()], SAID_ANEW_PREFIX);
    begins || SAID_ANEW.iter().any(|known| is_alike(name, known.as_bytes()))
}

fn put(to: &mut Vec<u8>, parts: &[&[u8]]) {
    parts.iter().for_each(|part| to.extend_from_slice(part));
}

fn put_line(to: &mut Vec<u8>, name: &str, value: &[u8]) {
    debug_assert!(!value.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0)), "what was parsed has no line end in a value");
    put(to, &[name.as_bytes(), b": ", value, b"\r\n"]);
}

fn put_host(to: &mut Vec<u8>, authority: Option<Authority<'_>>, name: &str) {
    let Some(Authority { host, port }) = authority else { return put(to, &[name.as_bytes()]) };
    put(to, &[host]);
    if let Some(port) = port {
        put(to, &[b":", decimal(port.into(), &mut [0; DIGITS_MAX])]);
    }
}

/// Formatting would take longer than all else that is said of a client.
fn put_v4(to: &mut Vec<u8>, address: Ipv4Addr) {
    let mut dot: &[u8] = b"";
    for octet in address.octets() {
        put(to, &[dot, decimal(octet.into(), &mut [0; DIGITS_MAX])]);
        dot = b".";
    }
}

fn put_text(to: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    // reason: memory takes what is written to it.
    to.write_fmt(text).expect("a vector takes all");
}

#[cfg(test)]
mod tests {
    use super::*;
    use corelane_wire::http1::{Limits, Requests, Scratch, Step};

    fn written(request: &str, address: &str, is_secured: bool) -> String {
        let mut scratch = Scratch::new();
        let step = Requests::new(Limits::default()).next(request.as_bytes(), &mut scratch).unwrap();
        let Step::Request { head, .. } = step else { panic!("it is whole, and right: {step:?}") };
        let mut to = Vec::new();
        write_request(&mut to, &head, Asker { address: address.parse().ok(), is_secured }, "up.example:80");
        String::from_utf8(to).unwrap()
    }

    const FROM: &str = "Via: 1.1 corelane\r\nForwarded: for=192.0.2.1;proto=http;host=\"a\"\r\nX-Forwarded-For: 192.0.2.1\r\nX-Forwarded-Proto: http\r\nX-Forwarded-Host: a\r\n";

    #[test]
    fn a_request_is_written_from_what_was_parsed() {
        let table = [
            (
                "GET /a/../b?c=%20 HTTP/1.1\r\nhOST: a\r\nAccept:  text/x \r\n\r\n",
                "GET /a/../b?c=%20 HTTP/1.1\r\nHost: a\r\nAccept: text/x\r\n",
                "",
            ),
            ("GET http://a HTTP/1.1\r\nHost: other\r\n\r\n", "GET / HTTP/1.1\r\nHost: a\r\n", ""),
            ("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", "OPTIONS * HTTP/1.1\r\nHost: a\r\n", ""),
            (
                "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length:  07\r\n\r\n",
                "PUT / HTTP/1.1\r\nHost: a\r\n",
                "Content-Length: 7\r\n",
            ),
            (
                "PUT / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nTransfer-Encoding: Chunked\r\n\r\n",
                "PUT / HTTP/1.1\r\nHost: a\r\n",
                "Transfer-Encoding: chunked\r\nExpect: 100-continue\r\n",
            ),
            (
                "GET / HTTP/1.1\r\nHost: a\r\nConnection: x, keep-alive\r\nX: 1\r\nKeep-Alive: 1\r\nTE: trailers\r\nTrailer: a\r\n\r\n",
                "GET / HTTP/1.1\r\nHost: a\r\n",
                "",
            ),
            (
                "GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: WebSocket\r\n\r\n",
                "GET / HTTP/1.1\r\nHost: a\r\n",
                "Connection: Upgrade\r\nUpgrade: WebSocket\r\n",
            ),
            (
                "GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade, http2-settings\r\nUpgrade: H2C\r\nHTTP2-Settings: A\r\n\r\n",
                "GET / HTTP/1.1\r\nHost: a\r\n",
                "",
            ),
            (
                "PUT / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: x\r\nContent-Length: 0\r\n\r\n",
                "PUT / HTTP/1.1\r\nHost: a\r\n",
                "Content-Length: 0\r\n",
            ),
        ];
        for (request, begin, end) in table {
            assert_eq!(written(request, "192.0.2.1", false), format!("{begin}{FROM}{end}\r\n"), "{request}");
        }
    }

    #[test]
    fn what_a_client_says_of_itself_goes_no_further() {
        let lines = "Forwarded: for=1\r\nX-Forwarded-For: 1\r\nX_Forwarded_For: 1\r\nx-forwarded-server: 1\r\nX-Real-IP: 1\r\nContent_Length: 9\r\nTransfer_Encoding: chunked\r\n";
        let text = written(
            &format!("GET / HTTP/1.1\r\nHost: a\r\n{lines}Connection: host, via, x-forwarded-for\r\n\r\n"),
            "192.0.2.1",
            false,
        );
        assert_eq!(text, format!("GET / HTTP/1.1\r\nHost: a\r\n{FROM}\r\n"));
    }

    #[test]
    fn who_asks_is_told_as_the_standard_writes_it() {
        let text = written("GET / HTTP/1.0\r\nVia: 1.0 b\r\n\r\n", "2001:db8::1", true);
        let from = "Via: 1.0 b\r\nVia: 1.0 corelane\r\nForwarded: for=\"[2001:db8::1]\";proto=https\r\nX-Forwarded-For: 2001:db8::1\r\nX-Forwarded-Proto: https\r\n";
        assert_eq!(text, format!("GET / HTTP/1.1\r\nHost: up.example:80\r\n{from}\r\n"));
        let text = written("GET / HTTP/1.1\r\nHost: [::1]:8080\r\n\r\n", "", false);
        assert!(
            text.contains("Host: [::1]:8080\r\n") && text.contains("Forwarded: for=unknown;proto=http;host=\"[::1]:8080\"\r\n"),
            "{text}"
        );
        assert!(!text.contains("X-Forwarded-For"), "{text}");
    }
}
