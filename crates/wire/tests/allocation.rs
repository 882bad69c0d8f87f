//! Reading a call, a request or a packet, and writing a reply, allocates nothing.

use corelane_wire::http1::{
    Body, Coding, Condition, Date, Fields, Limits, Method, Part, Ranges, Refusal, Requests, Scratch, Status, Step, Validators,
    coding, condition, path, ranges, write_response,
};
use corelane_wire::packet::{Packet, UpperLayer};
use corelane_wire::rpc::{Call, Owed, Program, success_head, write_record};
use corelane_wire::xdr::{Encode, Writer};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use std::alloc::System;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const NFS: Program = Program { number: 100_003, low: 3, high: 3 };

/// The reply to `message` in `memory`, as a service without procedures but NULL gives it; its length.
fn serve(message: &[u8], memory: &mut [u8]) -> usize {
    let mut output = Writer::new(memory);
    let served = Call::parse(message).and_then(|call| {
        NFS.admit(&call)?;
        call.identity()?;
        if call.procedure == 0 { Ok(call.xid) } else { Err(call.procedure_unavailable()) }
    });
    let written = match served {
        Ok(xid) => write_record(&mut output, 0, |to| to.put(&success_head(xid))),
        Err(refusal) => match refusal.owed {
            Owed::Answer(reply) => write_record(&mut output, 0, |to| reply.encode(to)),
            Owed::Drop | Owed::Close => Ok(()),
        },
    };
    written.expect("the memory holds any reply without results");
    output.len()
}

/// What wrk sends, and what a browser that has been here before sends.
const REQUESTS: &[&str] = &[
    "GET / HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n\r\n",
    "GET /a%20b/../c HTTP/1.1\r\nHost: a\r\nUser-Agent: x\r\nAccept: */*\r\nAccept-Encoding: gzip, br;q=0.9\r\n\
     If-None-Match: \"a\", W/\"b\"\r\nIf-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT\r\nRange: bytes=0-1,4-\r\n\r\n",
    "PUT /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    "GET / HTTP/1.1\r\nHost : a\r\n\r\n",
];

/// The length of the answer to the request in `stream`, in memory.
fn answer(stream: &[u8], memory: &mut [u8]) -> Result<usize, Refusal> {
    let mut scratch = Scratch::new();
    let Step::Request { head, bytes } = Requests::new(Limits::default()).next(stream, &mut scratch)? else { return Ok(0) };
    let (mut name, mut content) = ([0; 64], 0);
    let path = path::normal(head.target.path, &mut name)?;
    let (mut body, mut rest) = (Body::new(head.framing, 1 << 20)?, &stream[bytes..]);
    while let Part::Data(range) = body.next(rest)? {
        content += range.len() as u64;
        rest = &rest[range.end..];
    }
    let mut output = Writer::new(memory);
    let status = chosen(head.fields, path);
    let written = write_response(&mut output, status, |fields| {
        fields.field("Content-Location", path)?;
        fields.date("Date", Date::from_unix_seconds(784_111_777))?;
        fields.number("Content-Length", content)
    });
    written.expect("the memory holds any head of these");
    Ok(output.len())
}

/// A status that hangs on all that a file service looks at.
fn chosen(fields: Fields<'_>, path: &[u8]) -> Status {
    let current =
        Validators { tag: None, modified: Some(Date::from_unix_seconds(784_111_777)), changed: None, is_modified_strong: true };
    let holds = condition(fields, Method::Get, Some(&current)) == Condition::Holds;
    let is_part = matches!(ranges(fields, 10), Ranges::Some(_)) && coding(fields, &[Coding::Gzip]) == Some(Coding::Gzip);
    match () {
        () if path == b"/" => Status::OK,
        () if is_part => Status::PARTIAL_CONTENT,
        () if holds => Status::CREATED,
        () => Status::NOT_MODIFIED,
    }
}

/// Answers every beginning of every request; bytes of all answers.
fn answer_all(memory: &mut [u8]) -> usize {
    let lengths = REQUESTS.iter().flat_map(|text| (0..=text.len()).map(|length| &text.as_bytes()[..length]));
    lengths.map(|stream| answer(stream, memory).unwrap_or(0)).sum()
}

/// Walks every beginning of every frame, through its tunnels, and writes its transport's header again; bytes written.
fn walk_all(frames: &[Vec<u8>], memory: &mut [u8]) -> usize {
    let mut written = 0;
    for frame in frames {
        for length in 0..=frame.len() {
            let mut next = Packet::of_frame(&frame[..length]).ok();
            while let Some(packet) = next {
                let mut output = Writer::new(memory);
                if let (UpperLayer::Udp(view), Some(flow)) = (packet.transport, packet.flow()) {
                    written += usize::from(view.header().emit(&flow.addresses, view.payload(), &mut output).is_ok());
                }
                next = packet.inner().ok().flatten().map(|(_, inner)| inner);
            }
        }
    }
    written
}

// One test in this program, so that no other thread allocates meanwhile.
#[test]
fn nothing_is_allocated_for_any_call_request_or_packet() {
    let seeds = concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/seeds/call");
    let calls: Vec<Vec<u8>> =
        std::fs::read_dir(seeds).unwrap().map(|entry| std::fs::read(entry.unwrap().path()).unwrap()).collect();
    let frames = concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/seeds/packet_frame");
    let frames: Vec<Vec<u8>> =
        std::fs::read_dir(frames).unwrap().map(|entry| std::fs::read(entry.unwrap().path()).unwrap()).collect();
    let mut memory = [0; 256];
    // The thread that began this test may still be about its own business: it is over before the last of these.
    let windows: [_; 3] = std::array::from_fn(|_| {
        let region = Region::new(ALLOCATOR);
        let mut written = 0;
        for call in &calls {
            for length in 0..=call.len() {
                written += serve(&call[..length], &mut memory);
            }
        }
        let answered = answer_all(&mut memory);
        let walked = walk_all(&frames, &mut memory);
        let allocations = region.change().allocations;
        assert!(written >= 28 * calls.len() && answered >= 4 * 80 && walked > 0);
        allocations
    });
    assert_eq!(windows.iter().min(), Some(&0), "{windows:?}");
}
