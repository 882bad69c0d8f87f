//! What an intermediary passes on of a head, and what is between two ends of one connection alone (RFC 9110 section 7.6.1).

use super::Fields;

/// Fields of one connection, and of what the transfer is coded with on it, whoever names them. Content-Length is written anew by who frames the content, Trailer goes with the trailers, and
/// `HTTP2-Settings` with the Upgrade that it belongs to (RFC 7540 section 3.2.1).
const OF_ONE_CONNECTION: [&str; 12] = [
    "connection",
    "content-length",
    "http2-settings",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "proxy-authentication-info",
];

/// The field lines of a head that are for the far end: without those of one connection, and without those that Connection names.
///
/// A name that differs from one of them by an underscore for a hyphen is that one ([`is_alike`]).
pub fn end_to_end<'a>(fields: Fields<'a>) -> impl Iterator<Item = (&'a str, &'a [u8])> {
    let names_some = fields.get("connection").is_some();
    let is_named = move |name: &str| names_some && fields.list("connection").any(|option| is_alike(name.as_bytes(), option));
    let is_ours = |name: &str| OF_ONE_CONNECTION.iter().any(|known| is_alike(name.as_bytes(), known.as_bytes()));
    fields.iter().filter(move |(name, _)| !is_ours(name) && !is_named(name))
}

/// Whether two names of fields are one to a server that hands them on as variables, in which a hyphen becomes an underscore (RFC 3875 section 4.1.18).
pub fn is_alike(name: &[u8], other: &[u8]) -> bool {
    let plain = |byte: &u8| if *byte == b'_' { b'-' } else { byte.to_ascii_lowercase() };
    name.len() == other.len() && name.iter().map(plain).eq(other.iter().map(plain))
}

#[cfg(test)]
mod tests {
    use super::super::{Answer, Limits, Responses, Scratch};
    use super::*;

    fn passed(lines: &str) -> Vec<String> {
        let head = format!("HTTP/1.1 200 OK\r\n{lines}\r\n");
        let mut scratch = Scratch::new();
        let Answer::Response { head, .. } = Responses::new(Limits::default()).next(head.as_bytes(), &mut scratch).unwrap() else {
            panic!("it is whole")
        };
        end_to_end(head.fields).map(|(name, _)| name.to_owned()).collect()
    }

    #[test]
    fn what_is_of_one_connection_ends_there() {
        let all: String =
            OF_ONE_CONNECTION.iter().filter(|name| !name.contains("encoding")).map(|name| format!("{name}: 1\r\n")).collect();
        assert_eq!(passed(&format!("A: 1\r\n{all}Transfer_Encoding: chunked\r\nB: 2\r\n")), ["A", "B"]);
        assert_eq!(passed("Transfer-Encoding: chunked\r\nC: 1\r\n"), ["C"]);
    }

    #[test]
    fn what_connection_names_ends_there() {
        assert_eq!(
            passed("A: 1\r\nConnection: close, a , x-b\r\nX-B: 1\r\nX_b: 2\r\nX-C: 3\r\nConnection: x-c\r\nD: 4\r\n"),
            ["D"]
        );
        assert_eq!(passed("Close: 1\r\nA: 1\r\n"), ["Close", "A"]);
    }
}
