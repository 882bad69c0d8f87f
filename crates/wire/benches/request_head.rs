//! What heads of requests cost to read, and a short answer to write: prints nanoseconds, and asserts nothing.
//!
//! `cargo bench -p corelane-wire --bench request_head`; under `valgrind --tool=callgrind` the instructions are exact.

use corelane_wire::http1::{Limits, Requests, Scratch, Status, Step, write_response};
use corelane_wire::xdr::Writer;
use std::hint::black_box;
use std::time::Instant;

const ROUNDS: u32 = 200_000;

/// As wrk sends it.
const WRK: &[u8] = b"GET / HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n\r\n";

/// As a browser sends it.
const BROWSER: &[u8] = b"GET /a/picture.png HTTP/1.1\r\nHost: www.example.com\r\nConnection: keep-alive\r\n\
    User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36\r\n\
    Accept: image/avif,image/webp,image/apng,image/svg+xml,image/*,*/*;q=0.8\r\nReferer: https://www.example.com/a/\r\n\
    Accept-Encoding: gzip, deflate, br, zstd\r\nAccept-Language: en-GB,en;q=0.9\r\nIf-None-Match: \"66f1-123\"\r\n\r\n";

#[inline(never)]
fn parse(stream: &[u8]) -> usize {
    let mut scratch = Scratch::new();
    match Requests::new(Limits::default()).next(stream, &mut scratch) {
        Ok(Step::Request { head, bytes }) => bytes + head.fields.len(),
        _ => 0,
    }
}

#[inline(never)]
fn answer(memory: &mut [u8]) -> usize {
    let mut output = Writer::new(memory);
    let written = write_response(&mut output, Status::OK, |fields| {
        fields.field("Date", b"Sun, 06 Nov 1994 08:49:37 GMT")?;
        fields.number("Content-Length", 8)
    });
    written.map_or(0, |()| output.len())
}

fn measure(what: &str, mut work: impl FnMut() -> usize) {
    let started = Instant::now();
    let bytes: usize = (0..ROUNDS).map(|_| work()).sum();
    let nanoseconds = started.elapsed().as_nanos() as f64 / f64::from(ROUNDS);
    println!("{what}: {nanoseconds:.1} ns, {} bytes", bytes / ROUNDS as usize);
}

fn main() {
    let mut memory = [0; 256];
    measure("head of wrk", || parse(black_box(WRK)));
    measure("head of a browser", || parse(black_box(BROWSER)));
    measure("short answer", || answer(black_box(&mut memory)));
}
