//! Published bytes, read and written.

use crate::samples;
use corelane_wire::rpc::{
    self, Acceptance, Auth, AuthStatus, Call, Denial, Owed, Program, RecordLimits, Records, Reply, Step, Verdict, success_head,
    write_record,
};
use corelane_wire::rpcbind::{self, PortRequest, ServiceRequest};
use corelane_wire::xdr::{Encode, Reader, Writer};

/// What each is, and its bytes with the record mark.
pub fn all() -> Vec<(&'static str, Vec<u8>)> {
    let lines = include_str!("../data/onc-rpc.tsv").lines().filter(|line| !line.starts_with('#')).skip(1);
    let row = |line: &'static str| {
        let (what, hex) = line.split_once('\t').unwrap();
        (what, bytes(hex))
    };
    lines.map(row).collect()
}

fn bytes(hex: &str) -> Vec<u8> {
    let byte = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
    (0..hex.len()).step_by(2).map(byte).collect()
}

/// The message in a stream of one record.
fn message(stream: &[u8]) -> &[u8] {
    let mut records = Records::new(RecordLimits { bytes: 100, fragments: 1 });
    let Ok(Step::Record(range)) = records.next(stream) else { panic!("not one record") };
    assert_eq!(range, 4..stream.len());
    &stream[range]
}

fn stream(value: &impl Encode) -> Vec<u8> {
    let mut memory = [0; 64];
    let mut writer = Writer::new(&mut memory);
    write_record(&mut writer, 0, |to| value.encode(to)).unwrap();
    writer.written().to_vec()
}

/// The value that a line of the file describes in words.
fn described(what: &str) -> Verdict<'static> {
    let accepted = |outcome| Verdict::Accepted { verifier: Auth::NONE, outcome };
    let denied = |status| Verdict::Denied(Denial::Authentication(status));
    match what {
        "reply success, void" => accepted(Acceptance::Success(&[])),
        "reply PROG_UNAVAIL" => accepted(Acceptance::ProgramUnavailable),
        "reply PROG_MISMATCH low 3 high 4" => accepted(Acceptance::ProgramMismatch { low: 3, high: 4 }),
        "reply PROC_UNAVAIL" => accepted(Acceptance::ProcedureUnavailable),
        "reply GARBAGE_ARGS" => accepted(Acceptance::GarbageArguments),
        "reply SYSTEM_ERR" => accepted(Acceptance::SystemError),
        "reply denied RPC_MISMATCH low 2 high 2" => Verdict::Denied(Denial::RpcMismatch { low: 2, high: 2 }),
        "reply denied AUTH_ERROR AUTH_BADCRED" => denied(AuthStatus::BadCredential),
        "reply denied AUTH_ERROR AUTH_REJECTEDCRED" => denied(AuthStatus::RejectedCredential),
        "reply denied AUTH_ERROR AUTH_BADVERF" => denied(AuthStatus::BadVerifier),
        "reply denied AUTH_ERROR AUTH_REJECTEDVERF" => denied(AuthStatus::RejectedVerifier),
        "reply denied AUTH_ERROR AUTH_TOOWEAK" => denied(AuthStatus::TooWeak),
        other => panic!("no value for {other}"),
    }
}

#[test]
fn replies_go_both_ways() {
    let replies: Vec<_> = all().into_iter().filter(|(what, _)| what.starts_with("reply")).collect();
    assert_eq!(replies.len(), 12);
    for (what, bytes) in replies {
        let reply = Reply { xid: 0x1122_3344, verdict: described(what) };
        assert_eq!(Reply::parse(message(&bytes)), Ok(reply), "{what}");
        assert_eq!(stream(&reply), bytes, "{what}");
    }
}

#[test]
fn the_call_goes_both_ways() {
    let (what, bytes) = all().swap_remove(0);
    assert_eq!(what, "call NULL nfs v3, no auth, with record mark");
    let head = samples::head(100_003, 3, rpc::NULL);
    let call = Call::parse(message(&bytes)).unwrap();
    assert_eq!((call.xid, call.program, call.version, call.procedure), (head.xid, head.program, head.version, head.procedure));
    assert_eq!((call.credential, call.verifier, call.arguments), (Auth::NONE, Auth::NONE, &[][..]));
    assert_eq!(stream(&head), bytes);
}

#[test]
fn the_head_of_a_success_is_a_whole_void_reply() {
    let (_, bytes) = all().swap_remove(1);
    assert_eq!(success_head(0x1122_3344), message(&bytes));
}

#[test]
fn a_reply_that_comes_as_a_call_is_dropped() {
    for (what, bytes) in all().iter().filter(|(what, _)| what.starts_with("reply")) {
        assert_eq!(Call::parse(message(bytes)).unwrap_err().owed, Owed::Drop, "{what}");
    }
}

/// The calls and replies of a real client and server: what each is, call, reply.
fn heard() -> Vec<(&'static str, Vec<u8>, Vec<u8>)> {
    let lines = include_str!("../data/rpcbind.tsv").lines().filter(|line| !line.starts_with('#')).skip(1);
    let row = |line: &'static str| {
        let mut cells = line.split('\t');
        let mut cell = || cells.next().unwrap();
        (cell(), bytes(cell()), bytes(cell()))
    };
    lines.map(row).collect()
}

const RPCBIND: Program = Program { number: rpcbind::PROGRAM, low: 2, high: 4 };

fn success(reply: &[u8]) -> &[u8] {
    match Reply::parse(reply).unwrap().verdict {
        Verdict::Accepted { verifier: Auth::NONE, outcome: Acceptance::Success(results) } => results,
        other => panic!("{other:?}"),
    }
}

/// Whether `results` are a value of this type and nothing else, and are written so.
macro_rules! are {
    ($results:expr, $type:ty) => {{
        let mut reader = Reader::new($results);
        let value: $type = reader.read().unwrap();
        reader.finish().is_ok() && samples::bytes(&value) == $results
    }};
}

#[test]
fn what_a_real_client_asks_and_a_real_server_replies_is_understood() {
    let rows = heard().into_iter().filter(|(what, ..)| !what.starts_with("refused"));
    let mut seen = 0;
    for (what, call, reply) in rows {
        let call = Call::parse(&call).unwrap();
        RPCBIND.admit(&call).unwrap();
        call.identity().unwrap();
        let results = success(&reply);
        let is_right = match (call.version, call.procedure) {
            (_, 0) => results.is_empty(),
            (_, 1 | 2) => are!(results, bool),
            (2, 3) => are!(results, u32),
            (_, 3) => are!(results, rpcbind::UniversalAddress<'_>),
            (2, 4) => are!(results, rpcbind::Mappings<'_>),
            (_, 4) => are!(results, rpcbind::Services<'_>),
            other => panic!("{other:?}"),
        };
        assert!(is_right, "{what}");
        let procedure = if call.version == 2 {
            PortRequest::parse(&call).unwrap().procedure()
        } else {
            let request = ServiceRequest::parse(&call).unwrap();
            let arguments = if request == ServiceRequest::Null { call.arguments } else { &samples::bytes(&request) };
            assert_eq!(arguments, call.arguments, "{what}");
            request.procedure()
        };
        assert_eq!(procedure, call.procedure);
        seen += 1;
    }
    assert_eq!(seen, 12);
}

#[test]
fn a_dump_holds_what_the_server_has_registered() {
    let (_, _, reply) = heard().into_iter().find(|(what, ..)| *what == "dump services").unwrap();
    let services: rpcbind::Services<'_> = Reader::new(success(&reply)).read().unwrap();
    assert_eq!(services.len(), 12);
    let address = |netid| services.iter().find(|service| service.netid.as_str() == netid).unwrap().address;
    assert_eq!(rpcbind::address::parse(address("tcp6")), Ok("[::]:111".parse().unwrap()));
    assert_eq!(rpcbind::address::parse(address("udp")), Ok("0.0.0.0:111".parse().unwrap()));
    assert_eq!(address("local").as_str(), "/run/rpcbind.sock");
}

#[test]
fn what_is_refused_is_refused_with_the_same_bytes() {
    let rows = heard().into_iter().filter(|(what, ..)| what.starts_with("refused"));
    let mut seen = 0;
    for (what, call, reply) in rows {
        let call = Call::parse(&call).unwrap();
        let refused = call.identity().and_then(|_| RPCBIND.admit(&call)).and_then(|()| PortRequest::parse(&call).map(drop));
        let Owed::Answer(answer) = refused.unwrap_err().owed else { panic!("{what}") };
        assert_eq!(samples::bytes(&answer), reply, "{what}");
        seen += 1;
    }
    assert_eq!(seen, 7);
}
