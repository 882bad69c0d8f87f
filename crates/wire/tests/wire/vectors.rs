//! Published bytes, read and written.

use crate::samples;
use corelane_wire::rpc::{
    self, Auth, AuthStatus, Call, Denial, Outcome, Owed, RecordLimits, Records, Reply, Step, Verdict, success_head, write_record,
};
use corelane_wire::xdr::{Encode, Writer};

/// What each is, and its bytes with the record mark.
pub fn all() -> Vec<(&'static str, Vec<u8>)> {
    let lines = include_str!("../data/onc-rpc.tsv").lines().filter(|line| !line.starts_with('#')).skip(1);
    let row = |line: &'static str| {
        let (what, hex) = line.split_once('\t').unwrap();
        let byte = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
        (what, (0..hex.len()).step_by(2).map(byte).collect())
    };
    lines.map(row).collect()
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
        "reply success, void" => accepted(Outcome::Success(&[])),
        "reply PROG_UNAVAIL" => accepted(Outcome::ProgramUnavailable),
        "reply PROG_MISMATCH low 3 high 4" => accepted(Outcome::ProgramMismatch { low: 3, high: 4 }),
        "reply PROC_UNAVAIL" => accepted(Outcome::ProcedureUnavailable),
        "reply GARBAGE_ARGS" => accepted(Outcome::GarbageArguments),
        "reply SYSTEM_ERR" => accepted(Outcome::SystemError),
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
