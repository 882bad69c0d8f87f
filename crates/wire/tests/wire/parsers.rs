//! Every parser with what must hold for any bytes: the fuzz targets and the tests of hostile bytes run these.
//!
//! What was read is written again, takes as many bytes, and reads as the same value. What is owed to a peer can be sent and
//! is understood by it.

#[path = "http1/parsers.rs"]
pub mod http1;
#[path = "packet/parsers.rs"]
pub mod packet;

pub use http1::{http1_fields, http1_names, http1_request, http1_response};
pub use packet::{dhcp, dhcpv6, packet_frame, packet_headers};

use corelane_wire::Error;
use corelane_wire::nfs3::{self, Procedure};
use corelane_wire::proxy;
use corelane_wire::rpc::{self, Call, CallHead, Owed, RecordLimits, Records, Reply, Step};
use corelane_wire::rpcbind::{Mappings, PortRequest, ServiceRequest, Services, UniversalAddress, address};
use corelane_wire::xdr::{Encode, Reader, Writer};

/// Reads bytes; panics where something does not hold.
pub type Parser = fn(&[u8]);

/// All, by the names of their fuzz targets.
pub const ALL: &[(&str, Parser)] = &[
    ("call", call),
    ("reply", reply),
    ("record", record),
    ("auth_sys", auth_sys),
    ("rpcbind", rpcbind),
    ("universal_address", universal_address),
    ("nfs3_arguments", nfs3_arguments),
    ("nfs3_results", nfs3_results),
    ("http1_request", http1_request),
    ("http1_response", http1_response),
    ("http1_fields", http1_fields),
    ("http1_names", http1_names),
    ("proxy", proxy),
    ("packet_frame", packet_frame),
    ("packet_headers", packet_headers),
    ("dhcp", dhcp),
    ("dhcpv6", dhcpv6),
];

/// Reads a value, writes it, and reads that.
macro_rules! there_and_back {
    ($type:ty, $bytes:expr) => {{
        let bytes: &[u8] = $bytes;
        let mut reader = Reader::new(bytes);
        if let Ok(value) = reader.read::<$type>() {
            let read = bytes.len() - reader.rest().len();
            let written = written(&value, read);
            assert_eq!(written.len(), read, "{value:?}");
            let mut reader = Reader::new(&written);
            assert_eq!(reader.read::<$type>(), Ok(value));
            assert_eq!(reader.finish(), Ok(()));
        }
    }};
}

/// The bytes of `value`, which has `room` at most.
fn written(value: &impl Encode, room: usize) -> Vec<u8> {
    let mut memory = vec![0; room];
    let mut writer = Writer::new(&mut memory);
    value.encode(&mut writer).expect("what was read fits where it was");
    writer.written().to_vec()
}

/// The header of a proxy: the verdict is the same for the bytes that it is about, and is not known before.
pub fn proxy(bytes: &[u8]) {
    let verdict = proxy::parse(bytes);
    if let Ok(proxy::Step::Header { bytes: length, .. }) = verdict {
        assert!(length <= bytes.len() && length <= proxy::V2_BYTES_MAX);
        assert_eq!(proxy::parse(&bytes[..length]), verdict);
        assert_eq!(proxy::parse(&bytes[..length - 1]), Ok(proxy::Step::More));
    }
    // What is refused is so with all that follows; what may become a header is refused by nothing that it begins with.
    let parts = (0..bytes.len().min(256)).map(|length| proxy::parse(&bytes[..length]));
    for part in parts {
        assert!(part == Ok(proxy::Step::More) || part == verdict, "{part:?}, then {verdict:?}");
    }
    if verdict == Ok(proxy::Step::More) {
        assert!(bytes.len() < proxy::V2_BYTES_MAX);
    }
}

/// The whole of a call message.
pub fn call(bytes: &[u8]) {
    match Call::parse(bytes) {
        Ok(call) => {
            let Call { xid, program, version, procedure, credential, verifier, arguments } = call;
            let head = CallHead { xid, program, version, procedure, credential, verifier };
            let again = [&written(&head, bytes.len())[..], arguments].concat();
            assert_eq!(Call::parse(&again), Ok(call));
            assert_eq!(again.len(), bytes.len());
            let refusals = [call.procedure_unavailable(), call.system_error()];
            refusals.into_iter().chain(call.identity().err()).for_each(|refusal| owed(bytes, refusal.owed));
        }
        Err(refusal) => owed(bytes, refusal.owed),
    }
}

/// What is owed for `call`, if it is an answer, is understood by the caller.
fn owed(call: &[u8], owed: Owed) {
    if let Owed::Answer(answer) = owed {
        let message = written(&answer, 64);
        assert_eq!(Reply::parse(&message), Ok(answer));
        assert_eq!(message[..4], call[..4], "the caller's number");
    }
}

/// The whole of a reply message.
pub fn reply(bytes: &[u8]) {
    if let Ok(reply) = Reply::parse(bytes) {
        let again = written(&reply, bytes.len());
        assert_eq!(Reply::parse(&again), Ok(reply));
    }
}

const LIMITS: RecordLimits = RecordLimits { bytes: 512, fragments: 8 };

/// A stream of records, shown whole and byte by byte.
pub fn record(bytes: &[u8]) {
    let at_once = records(bytes, usize::MAX);
    assert_eq!(records(bytes, 1), at_once);
    assert_eq!(records(bytes, 7), at_once);
    assert!(at_once.0.iter().all(|record| record.len() <= LIMITS.bytes as usize));
}

/// The records in `bytes`, of which `more` come at a time, and what ended them.
fn records(bytes: &[u8], more: usize) -> (Vec<Vec<u8>>, Option<Error>) {
    let mut records = Records::new(LIMITS);
    let (mut whole, mut joined) = (Vec::new(), Vec::new());
    let (mut from, mut there) = (0, 0);
    loop {
        match records.next(&bytes[from..there]) {
            Err(error) => return (whole, Some(error)),
            Ok(Step::More { .. }) if there == bytes.len() => return (whole, None),
            Ok(Step::More { begun, missing }) => {
                assert!(missing > 0 && begun.end == there - from);
                there = there.saturating_add(more).min(bytes.len());
            }
            Ok(Step::Record(range)) => {
                whole.push(bytes[from..][range.clone()].to_vec());
                from += range.end;
            }
            Ok(Step::Join { fragment, is_last }) => {
                joined.extend(&bytes[from..][fragment.clone()]);
                from += fragment.end;
                if is_last {
                    whole.push(std::mem::take(&mut joined));
                }
            }
        }
    }
}

/// The body of an AUTH_SYS credential.
pub fn auth_sys(bytes: &[u8]) {
    there_and_back!(rpc::AuthSys<'_>, bytes);
}

/// A call of rpcbind, and the lists that it returns.
pub fn rpcbind(bytes: &[u8]) {
    there_and_back!(Mappings<'_>, bytes);
    there_and_back!(Services<'_>, bytes);
    let Ok(call) = Call::parse(bytes) else { return };
    match PortRequest::parse(&call) {
        Ok(request) => {
            let arguments = written(&request, bytes.len());
            assert_eq!(PortRequest::parse(&Call { arguments: &arguments, ..call }), Ok(request));
            assert_eq!(request.procedure(), call.procedure);
        }
        Err(refusal) => owed(bytes, refusal.owed),
    }
    match ServiceRequest::parse(&call) {
        Ok(request) => {
            let arguments = written(&request, bytes.len());
            assert_eq!(ServiceRequest::parse(&Call { arguments: &arguments, ..call }), Ok(request));
            assert_eq!(request.procedure(), call.procedure);
        }
        Err(refusal) => owed(bytes, refusal.owed),
    }
}

/// A universal address as text.
pub fn universal_address(bytes: &[u8]) {
    let Some(text) = std::str::from_utf8(bytes).ok().and_then(|text| UniversalAddress::new(text).ok()) else { return };
    if let Ok(socket) = address::parse(text) {
        let mut memory = [0; address::BYTES_MAX];
        let again = address::write(socket, &mut memory).expect("every address fits");
        assert_eq!(address::parse(again), Ok(socket));
    }
}

/// The number of a procedure in one byte, then its arguments.
pub fn nfs3_arguments(bytes: &[u8]) {
    let Some((procedure, bytes)) = procedure(bytes) else { return };
    match procedure {
        Procedure::Null => there_and_back!((), bytes),
        Procedure::GetAttributes | Procedure::ReadLink => there_and_back!(nfs3::Handle<'_>, bytes),
        Procedure::FileSystem | Procedure::Information | Procedure::PathLimits => there_and_back!(nfs3::Handle<'_>, bytes),
        Procedure::SetAttributes => there_and_back!(nfs3::SetAttributesArguments<'_>, bytes),
        Procedure::Lookup | Procedure::Remove | Procedure::RemoveDirectory => {
            there_and_back!(nfs3::LookupArguments<'_>, bytes)
        }
        Procedure::Access => there_and_back!(nfs3::AccessArguments<'_>, bytes),
        Procedure::Read => there_and_back!(nfs3::ReadArguments<'_>, bytes),
        Procedure::Write => there_and_back!(nfs3::WriteArguments<'_>, bytes),
        Procedure::Create => there_and_back!(nfs3::CreateArguments<'_>, bytes),
        Procedure::MakeDirectory => there_and_back!(nfs3::MakeDirectoryArguments<'_>, bytes),
        Procedure::SymbolicLink => there_and_back!(nfs3::SymbolicLinkArguments<'_>, bytes),
        Procedure::MakeNode => there_and_back!(nfs3::MakeNodeArguments<'_>, bytes),
        Procedure::Rename => there_and_back!(nfs3::RenameArguments<'_>, bytes),
        Procedure::Link => there_and_back!(nfs3::LinkArguments<'_>, bytes),
        Procedure::ReadDirectory => there_and_back!(nfs3::ReadDirectoryArguments<'_>, bytes),
        Procedure::ReadDirectoryPlus => there_and_back!(nfs3::ReadDirectoryPlusArguments<'_>, bytes),
        Procedure::Commit => there_and_back!(nfs3::CommitArguments<'_>, bytes),
    }
}

/// The number of a procedure in one byte, then its results.
pub fn nfs3_results(bytes: &[u8]) {
    let Some((procedure, bytes)) = procedure(bytes) else { return };
    match procedure {
        Procedure::Null => there_and_back!((), bytes),
        Procedure::GetAttributes => there_and_back!(nfs3::GetAttributesResult, bytes),
        Procedure::SetAttributes => there_and_back!(nfs3::SetAttributesResult, bytes),
        Procedure::Lookup => there_and_back!(nfs3::LookupResult<'_>, bytes),
        Procedure::Access => there_and_back!(nfs3::AccessResult, bytes),
        Procedure::ReadLink => there_and_back!(nfs3::ReadLinkResult<'_>, bytes),
        Procedure::Read => there_and_back!(nfs3::ReadResult<'_>, bytes),
        Procedure::Write => there_and_back!(nfs3::WriteResult, bytes),
        Procedure::Create | Procedure::MakeDirectory | Procedure::SymbolicLink | Procedure::MakeNode => {
            there_and_back!(nfs3::CreateResult<'_>, bytes)
        }
        Procedure::Remove | Procedure::RemoveDirectory => there_and_back!(nfs3::RemoveResult, bytes),
        Procedure::Rename => there_and_back!(nfs3::RenameResult, bytes),
        Procedure::Link => there_and_back!(nfs3::LinkResult, bytes),
        Procedure::ReadDirectory => there_and_back!(nfs3::ReadDirectoryResult<'_>, bytes),
        Procedure::ReadDirectoryPlus => there_and_back!(nfs3::ReadDirectoryPlusResult<'_>, bytes),
        Procedure::FileSystem => there_and_back!(nfs3::FileSystemResult, bytes),
        Procedure::Information => there_and_back!(nfs3::InformationResult, bytes),
        Procedure::PathLimits => there_and_back!(nfs3::PathLimitsResult, bytes),
        Procedure::Commit => there_and_back!(nfs3::CommitResult, bytes),
    }
}

fn procedure(bytes: &[u8]) -> Option<(Procedure, &[u8])> {
    let (number, bytes) = bytes.split_first()?;
    Some((Procedure::from_number(u32::from(*number)).ok()?, bytes))
}
