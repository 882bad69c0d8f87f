//! NFS version 3 (RFC 1813) against the trait: its 22 procedures as signatures, and two that work: READ, whose data leaves as a
//! part of a file, and WRITE, whose data goes to the file from where it was received.

use crate::calls::{bytes, call, messages, record};
use crate::rig::{MS, Nobody, Rig, RigPlan, patient};
use corelane::Cx;
use corelane::admin::watch::ServiceCounter as C;
use corelane::service::{File, FileOutcome, FilePart, OpenOptions, Outcome};
use corelane::testing::{Faults, World};
use corelane_rpc::{Answered, Call, Held, Program, Rpc, Unanswered};
use corelane_wire::nfs3::{self, *};
use corelane_wire::rpc;
use corelane_wire::xdr::{Encode, Opaque};
use std::collections::BTreeMap;

const FILE: u32 = 0;

/// One file.
#[derive(Default)]
struct Files {
    file: Option<File>,
    writes: BTreeMap<u32, (Held, u32)>,
    next: u32,
}

const AFTER: Option<Attributes> = None;
const WEAK: Weak = Weak { before: None, after: None };

/// What every procedure but two answers here.
const fn none<T, F>(rest: F) -> nfs3::Results<T, F> {
    nfs3::Results::Failed(Status::NotSupported, rest)
}

macro_rules! signatures {
    ($($name:ident($($arguments:ty)?) -> $results:ty, $rest:expr;)*) => {
        impl Files {
            $(fn $name(&mut self, $(_: $arguments)?) -> $results {
                none($rest)
            })*
        }
    };
}

signatures! {
    get_attributes(Handle<'_>) -> GetAttributesResult, ();
    set_attributes(SetAttributesArguments<'_>) -> SetAttributesResult, WEAK;
    access(AccessArguments<'_>) -> AccessResult, AFTER;
    create(CreateArguments<'_>) -> CreateResult<'_>, WEAK;
    make_directory(MakeDirectoryArguments<'_>) -> CreateResult<'_>, WEAK;
    symbolic_link(SymbolicLinkArguments<'_>) -> CreateResult<'_>, WEAK;
    make_node(MakeNodeArguments<'_>) -> CreateResult<'_>, WEAK;
    remove(LookupArguments<'_>) -> RemoveResult, WEAK;
    remove_directory(LookupArguments<'_>) -> RemoveResult, WEAK;
    rename(RenameArguments<'_>) -> RenameResult, Rename { from: WEAK, to: WEAK };
    link(LinkArguments<'_>) -> LinkResult, Link { attributes: AFTER, directory: WEAK };
    read_directory(ReadDirectoryArguments<'_>) -> ReadDirectoryResult<'_>, AFTER;
    read_directory_plus(ReadDirectoryPlusArguments<'_>) -> ReadDirectoryPlusResult<'_>, AFTER;
    file_system(Handle<'_>) -> FileSystemResult, AFTER;
    information(Handle<'_>) -> InformationResult, AFTER;
    path_limits(Handle<'_>) -> PathLimitsResult, AFTER;
    commit(CommitArguments<'_>) -> CommitResult, WEAK;
}

impl Files {
    /// Results may be views of the arguments, or of the program's own memory.
    fn lookup<'a>(&'a self, arguments: &LookupArguments<'a>) -> LookupResult<'a> {
        match self.file {
            Some(_) => nfs3::Results::Ok(Lookup { object: arguments.directory, attributes: AFTER, directory: AFTER }),
            None => none(AFTER),
        }
    }

    fn read_link(&self, _: Handle<'_>) -> ReadLinkResult<'static> {
        let target = Opaque::new(b"elsewhere").unwrap();
        nfs3::Results::Ok(ReadLink { attributes: AFTER, target })
    }

    fn read(&mut self, cx: &mut Cx<'_>, call: Call<'_>) -> Result<Answered, Unanswered> {
        let ReadArguments { offset, count, .. } = call.arguments()?;
        let Some(file) = self.file.clone() else { return Ok(call.answer(cx, &none::<ReadHead, _>(AFTER))) };
        let head: nfs3::Results<_, Option<Attributes>> =
            nfs3::Results::Ok(ReadHead { attributes: AFTER, count, is_end: false, length: count });
        Ok(call.answer_with_data(cx, &head, FilePart { file, offset, length: u64::from(count) }))
    }

    fn write(&mut self, cx: &mut Cx<'_>, call: Call<'_>) -> Result<Answered, Unanswered> {
        let WriteArguments { offset, data, .. } = call.arguments()?;
        let Some((file, kept)) = self.file.clone().zip(call.keep(data.bytes())) else { return Err(call.system_error()) };
        let (held, answered) = call.hold(cx)?;
        self.next += 1;
        self.writes.insert(self.next, (held, data.bytes().len() as u32));
        cx.write_file(&file, offset, kept, Self::token(self.next));
        Ok(answered)
    }
}

impl Program for Files {
    const PROGRAM: rpc::Program = rpc::Program { number: nfs3::PROGRAM, low: nfs3::VERSION, high: nfs3::VERSION };

    fn started(&mut self, cx: &mut Cx<'_>) {
        let options = OpenOptions::new().read(true).write(true).create(true).truncate(true);
        cx.open_file("/file".into(), options, Self::token(FILE));
    }

    fn call(&mut self, cx: &mut Cx<'_>, call: Call<'_>) -> Result<Answered, Unanswered> {
        let Ok(procedure) = Procedure::from_number(call.procedure()) else { return Err(call.procedure_unavailable()) };
        match procedure {
            Procedure::Null => call.serve(cx, |()| ()),
            Procedure::GetAttributes => call.serve(cx, |arguments| self.get_attributes(arguments)),
            Procedure::SetAttributes => call.serve(cx, |arguments| self.set_attributes(arguments)),
            Procedure::Lookup => call.serve(cx, |arguments| self.lookup(&arguments)),
            Procedure::Access => call.serve(cx, |arguments| self.access(arguments)),
            Procedure::ReadLink => call.serve(cx, |arguments| self.read_link(arguments)),
            Procedure::Read => self.read(cx, call),
            Procedure::Write => self.write(cx, call),
            Procedure::Create => call.serve(cx, |arguments| self.create(arguments)),
            Procedure::MakeDirectory => call.serve(cx, |arguments| self.make_directory(arguments)),
            Procedure::SymbolicLink => call.serve(cx, |arguments| self.symbolic_link(arguments)),
            Procedure::MakeNode => call.serve(cx, |arguments| self.make_node(arguments)),
            Procedure::Remove => call.serve(cx, |arguments| self.remove(arguments)),
            Procedure::RemoveDirectory => call.serve(cx, |arguments| self.remove_directory(arguments)),
            Procedure::Rename => call.serve(cx, |arguments| self.rename(arguments)),
            Procedure::Link => call.serve(cx, |arguments| self.link(arguments)),
            Procedure::ReadDirectory => call.serve(cx, |arguments| self.read_directory(arguments)),
            Procedure::ReadDirectoryPlus => call.serve(cx, |arguments| self.read_directory_plus(arguments)),
            Procedure::FileSystem => call.serve(cx, |arguments| self.file_system(arguments)),
            Procedure::Information => call.serve(cx, |arguments| self.information(arguments)),
            Procedure::PathLimits => call.serve(cx, |arguments| self.path_limits(arguments)),
            Procedure::Commit => call.serve(cx, |arguments| self.commit(arguments)),
        }
    }

    fn is_once_only(&self, _version: u32, procedure: u32) -> bool {
        use Procedure::*;
        let once = [SetAttributes, Create, MakeDirectory, SymbolicLink, MakeNode, Remove, RemoveDirectory, Rename, Link];
        once.iter().any(|once| once.number() == procedure)
    }

    fn completed(&mut self, cx: &mut Cx<'_>, token: u32, outcome: Outcome) {
        match outcome {
            Outcome::File(FileOutcome::Opened { file, .. }) if token == FILE => self.file = Some(file),
            Outcome::File(FileOutcome::Written { bytes, .. }) => {
                let Some((held, count)) = self.writes.remove(&token) else { return };
                assert_eq!(bytes, count as usize);
                let write = Write { file: WEAK, count, committed: Stability::Unstable, verifier: [7; 8] };
                held.answer(cx, &nfs3::Results::<_, Weak>::Ok(write));
            }
            other => panic!("{other:?}"),
        }
    }
}

fn nfs(xid: u32, procedure: Procedure, arguments: &impl Encode) -> Vec<u8> {
    record(&call(xid, [nfs3::PROGRAM, 3, procedure.number()], &bytes(arguments)))
}

fn serving() -> (Rig, corelane::testing::Peer) {
    let world = World::new(1, Faults::none());
    let limits = patient().record_max((1 << 20) + 4096).output_high(2 << 20);
    let mut rig = Rig::serving(&world, &RigPlan::lanes(1), limits, |_| Rpc::new((Files::default(),)));
    let peer = rig.connect(0);
    rig.wait(5 * MS);
    (rig, peer)
}

/// Sends all, piece by piece, and hands out what came back.
fn exchange(rig: &mut Rig, peer: &corelane::testing::Peer, mut stream: &[u8]) -> Vec<u8> {
    let mut got = Vec::new();
    for _ in 0..10_000 {
        let sent = peer.send(stream);
        stream = &stream[sent..];
        rig.wait(5 * MS);
        let came = peer.read(usize::MAX);
        if stream.is_empty() && came.is_empty() {
            return got;
        }
        got.extend(came);
    }
    panic!("it never ends");
}

#[test]
fn a_megabyte_is_written_from_where_it_was_received_and_read_as_a_part_of_the_file() {
    let (mut rig, peer) = serving();
    let data: Vec<u8> = (0..1 << 20).map(|at: u32| ((at * 7) >> 3) as u8).collect();
    let file = Handle::new(b"file").unwrap();
    let (count, opaque) = (data.len() as u32, Opaque::new(&data).unwrap());
    let write = WriteArguments { file, offset: 0, count, stable: Stability::File, data: opaque };
    let got = exchange(&mut rig, &peer, &nfs(1, Procedure::Write, &write));
    let rpc::Verdict::Accepted { outcome: rpc::Acceptance::Success(results), .. } =
        rpc::Reply::parse(messages(&got).0[0]).unwrap().verdict
    else {
        panic!("refused")
    };
    let result: WriteResult = corelane_wire::xdr::Reader::new(results).read().unwrap();
    assert!(matches!(result, nfs3::Results::Ok(Write { count: 0x10_0000, .. })));
    let copied = rig.count(C::BytesCopied);
    assert!(copied <= 1 << 17, "{copied} bytes of a megabyte were copied");
    let read = |offset, count| nfs(2, Procedure::Read, &ReadArguments { file, offset, count });
    for (offset, count) in [(0, 1 << 20), (5, 70_001), (9, 0)] {
        let got = exchange(&mut rig, &peer, &read(offset as u64, count as u32));
        let (replies, rest) = messages(&got);
        let wanted = &data[offset..(offset + count).min(data.len())];
        let head = [&[0_u8; 8][..], &(count as u32).to_be_bytes(), &[0; 4]].concat();
        let whole = [&rpc::success_head(2)[..], &head, &crate::calls::opaque(wanted)].concat();
        assert!(replies[0] == whole && rest.is_empty(), "{offset} {count}: {} of {} bytes", replies[0].len(), whole.len());
    }
    assert_eq!(rig.count(C::BytesCopied), copied, "nothing is copied to be read");
    peer.close();
    rig.close(&mut Nobody);
}

#[test]
fn every_procedure_is_reached_with_its_own_arguments() {
    let (mut rig, peer) = serving();
    let calls: Vec<u8> = Procedure::ALL
        .iter()
        .flat_map(|procedure| record(&call(procedure.number(), [nfs3::PROGRAM, 3, procedure.number()], &[0xff; 4])))
        .collect();
    let got = exchange(&mut rig, &peer, &calls);
    let outcome = |message| match rpc::Reply::parse(message).unwrap().verdict {
        rpc::Verdict::Accepted { outcome, .. } => outcome,
        denied => panic!("{denied:?}"),
    };
    let outcomes: Vec<_> = messages(&got).0.into_iter().map(outcome).collect();
    assert_eq!(outcomes.len(), 22);
    assert_eq!(outcomes[0], rpc::Acceptance::Success(&[]));
    assert!(outcomes[1..].iter().all(|outcome| *outcome == rpc::Acceptance::GarbageArguments));
    let handle = Handle::new(b"link").unwrap();
    let got = exchange(&mut rig, &peer, &nfs(1, Procedure::ReadLink, &handle));
    assert!(messages(&got).0[0].ends_with(b"elsewhere\0\0\0"));
    peer.close();
    rig.close(&mut Nobody);
}
