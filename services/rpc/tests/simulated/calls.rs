//! Calls and replies as bytes, for those who play clients.

use corelane_rpc::{ECHO, NFS};
use corelane_wire::rpc::{Acceptance, Auth, CallHead, Reply, Verdict, write_record, write_split};
use corelane_wire::xdr::{Encode, Opaque, Writer};

/// The bytes of a value.
pub fn bytes(value: &impl Encode) -> Vec<u8> {
    let encoded = |memory: &mut [u8]| {
        let mut writer = Writer::new(memory);
        value.encode(&mut writer).map(|()| writer.written().to_vec())
    };
    let room = || std::iter::successors(Some(1 << 10), |room| Some(4 * room)).take_while(|room| *room <= 4 << 20);
    room().find_map(|room| encoded(&mut vec![0; room]).ok()).expect("a message is shorter than 4 MiB")
}

/// A call without credentials.
pub fn call(xid: u32, [program, version, procedure]: [u32; 3], arguments: &[u8]) -> Vec<u8> {
    let head = CallHead { xid, program, version, procedure, credential: Auth::NONE, verifier: Auth::NONE };
    [bytes(&head), arguments.to_vec()].concat()
}

/// The NULL call of NFS.
pub fn null(xid: u32) -> Vec<u8> {
    call(xid, [NFS.number, 3, 0], &[])
}

/// A call of the echo program.
pub fn echo(xid: u32, payload: &[u8]) -> Vec<u8> {
    call(xid, [ECHO.number, 1, 1], &opaque(payload))
}

pub fn opaque(data: &[u8]) -> Vec<u8> {
    bytes(&Opaque::<{ 1 << 20 }>::new(data).unwrap())
}

/// A reply with this outcome.
pub fn reply(xid: u32, outcome: Acceptance<'_>) -> Vec<u8> {
    bytes(&Reply { xid, verdict: Verdict::Accepted { verifier: Auth::NONE, outcome } })
}

/// A success.
pub fn success(xid: u32, results: &[u8]) -> Vec<u8> {
    reply(xid, Acceptance::Success(results))
}

/// A message as a record of one fragment.
pub fn record(message: &[u8]) -> Vec<u8> {
    let mut memory = vec![0; message.len() + 4];
    let mut writer = Writer::new(&mut memory);
    write_record(&mut writer, 0, |to| to.put(message)).unwrap();
    writer.written().to_vec()
}

/// A message as a record whose fragments end at `cuts`.
pub fn split(message: &[u8], cuts: &[usize]) -> Vec<u8> {
    let mut memory = vec![0; message.len() + 4 * (cuts.len() + 1)];
    let mut writer = Writer::new(&mut memory);
    write_split(&mut writer, message, cuts).unwrap();
    writer.written().to_vec()
}

/// Cuts a stream of records of one fragment each; what is left over was cut off.
pub fn messages(mut stream: &[u8]) -> (Vec<&[u8]>, &[u8]) {
    let mut messages = Vec::new();
    while let Some((mark, rest)) = stream.split_first_chunk::<4>() {
        let length = u32::from_be_bytes(*mark);
        assert!(length >> 31 == 1, "a reply is one fragment");
        let Some((message, rest)) = rest.split_at_checked((length & !(1 << 31)) as usize) else { break };
        messages.push(message);
        stream = rest;
    }
    (messages, stream)
}

/// The number of a message.
pub fn xid(message: &[u8]) -> u32 {
    u32::from_be_bytes(*message.first_chunk().unwrap())
}
