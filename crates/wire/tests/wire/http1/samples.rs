//! Seeds of the fuzz targets: a message of each kind.

use crate::samples::Sample;

/// What clients send.
const REQUESTS: &[&str] = &[
    "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /a%20b/../c?d=e HTTP/1.1\r\nHost: [::1]:80\r\n\r\nGET / HTTP/1.0\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello",
    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5;a=b\r\nhello\r\n0\r\nX: y\r\n\r\n",
    "OPTIONS * HTTP/1.1\r\nHost:\r\n\r\n",
    "CONNECT a:443 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
    "GET http://a/ HTTP/1.1\r\nHost: b\r\nExpect: 100-continue\r\n\r\n",
];

/// What servers send.
pub const ANSWERS: &[&str] = &[
    "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
    "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\nHTTP/1.1 304\r\nContent-Length: 9\r\n\r\n",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\nHTTP/1.0 404 \r\n\r\nuntil the end",
    "HTTP/1.1 101 Switching Protocols\r\nUpgrade: a\r\n\r\nno HTTP",
    "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
    "HTTP/1.1 200 OK\nContent-Length: 0\n\n",
];

/// Field lines.
const FIELDS: &[&str] = &[
    "Range: bytes=0-1, 5-, -3\nIf-Range: \"a\"",
    "If-None-Match: W/\"a\", \"b\"\nIf-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT",
    "If-Match: *\nIf-Unmodified-Since: Sunday, 06-Nov-94 08:49:37 GMT",
    "Accept-Encoding: br;q=0.5, gzip, *;q=0",
];

/// Paths, hosts, dates, tags and forms.
const NAMES: &[&str] = &[
    "a/./b/%2e%2e/c//d/..",
    "a=1&b=%2B+c",
    "[2001:db8::1]:8080",
    "Sun Nov  6 08:49:37 1994",
    "Sunday, 06-Nov-94 08:49:37 GMT",
    "W/\"a\"",
];

/// All of them.
pub fn all() -> Vec<Sample> {
    let of = |parser: &'static str, texts: &[&str]| -> Vec<Sample> {
        let sample =
            |(index, text): (usize, &&str)| Sample { parser, name: format!("{index:02}"), bytes: text.as_bytes().to_vec() };
        texts.iter().enumerate().map(sample).collect()
    };
    let answers: Vec<_> =
        ANSWERS.iter().zip(["0", "1", "2"].iter().cycle()).map(|(text, method)| format!("{method}{text}")).collect();
    let answers: Vec<_> = answers.iter().map(String::as_str).collect();
    [of("http1_request", REQUESTS), of("http1_response", &answers), of("http1_fields", FIELDS), of("http1_names", NAMES)].concat()
}
