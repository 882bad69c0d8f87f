//! A legal message of each kind, for each parser: what mutations start from.

use corelane_wire::nfs3::{self, Procedure};
use corelane_wire::rpc::{self, Acceptance, Auth, AuthStatus, AuthSys, CallHead, Denial, Reply, Verdict};
use corelane_wire::rpcbind::{self, Mapping, Service};
use corelane_wire::xdr::{Array, Encode, List, Opaque, Text, Writer};

/// A message and what it is.
#[derive(Clone)]
pub struct Sample {
    /// Which of the parsers reads it.
    pub parser: &'static str,
    /// What it is; a file's name.
    pub name: String,
    /// The message.
    pub bytes: Vec<u8>,
}

/// All.
pub fn all() -> Vec<Sample> {
    let mut samples = Vec::new();
    let mut add = |parser, name: &str, bytes| samples.push(Sample { parser, name: name.to_owned(), bytes });
    calls(&mut add);
    replies(&mut add);
    streams(&mut add);
    registries(&mut add);
    nfs3_arguments(&mut add);
    nfs3_results(&mut add);
    proxies(&mut add);
    samples.extend(crate::http1::samples::all());
    samples.extend(crate::packet::samples::all());
    samples
}

/// Headers of both versions, with a checksum as well.
fn proxies(add: Add<'_>) {
    add("proxy", "tcp4", b"PROXY TCP4 192.0.2.1 192.0.2.2 56324 443\r\n".to_vec());
    add("proxy", "tcp6", b"PROXY TCP6 2001:db8::1 ::1 1 2\r\n".to_vec());
    add("proxy", "unknown", b"PROXY UNKNOWN x\r\n".to_vec());
    let version_2 = |command: u8, family: u8, block: &[u8]| {
        let length = u16::try_from(block.len()).unwrap().to_be_bytes();
        [b"\r\n\r\n\0\r\nQUIT\n", &[command, family][..], &length, block].concat()
    };
    let ends = [192, 0, 2, 1, 192, 0, 2, 2, 0xdc, 4, 1, 0xbb];
    add("proxy", "local", version_2(0x20, 0, b""));
    add("proxy", "v4", version_2(0x21, 0x11, &ends));
    add("proxy", "checksum", version_2(0x21, 0x11, &[&ends[..], b"\x03\0\x04\0\0\0\0\x04\0\x01x"].concat()));
    add("proxy", "v6", version_2(0x21, 0x21, &[1; 36]));
    add("proxy", "unix", version_2(0x21, 0x31, &[b"/a".as_slice(), &[0; 214]].concat()));
}

type Add<'a> = &'a mut dyn FnMut(&'static str, &str, Vec<u8>);

/// The bytes of `value`.
pub fn bytes(value: &dyn Encode) -> Vec<u8> {
    let mut memory = [0; 4096];
    let mut writer = Writer::new(&mut memory);
    value.encode(&mut writer).unwrap();
    writer.written().to_vec()
}

fn opaque<const MAX: u32>(data: &[u8]) -> Opaque<'_, MAX> {
    Opaque::new(data).unwrap()
}

fn text<const MAX: u32>(text: &str) -> Text<'_, MAX> {
    Text::new(text).unwrap()
}

/// A call with empty credential and verifier.
pub fn head(program: u32, version: u32, procedure: u32) -> CallHead<'static> {
    CallHead { xid: 0x1122_3344, program, version, procedure, credential: Auth::NONE, verifier: Auth::NONE }
}

fn caller() -> AuthSys<'static> {
    AuthSys { stamp: 7, machine_name: opaque(b"client"), uid: 1000, gid: 100, gids: Array::new(&[4, 24, 27]).unwrap() }
}

fn calls(add: Add<'_>) {
    add("call", "null", bytes(&head(nfs3::PROGRAM, 3, 0)));
    let mut memory = [0; 400];
    let credential = caller().credential(&mut memory).unwrap();
    let arguments = nfs3::AccessArguments { object: opaque(b"handle"), access: 0x3f };
    add("call", "auth-sys", [bytes(&CallHead { credential, ..head(nfs3::PROGRAM, 3, 4) }), bytes(&arguments)].concat());
    let gss = Auth { flavour: rpc::Flavour::RPCSEC_GSS, body: opaque(&[0, 0, 0, 1, 0, 0, 0, 0]) };
    add("call", "gss", bytes(&CallHead { credential: gss, verifier: gss, ..head(nfs3::PROGRAM, 3, 1) }));
    let largest = Auth { flavour: rpc::Flavour(77), body: opaque(&[9; 400]) };
    add("call", "unknown-400", bytes(&CallHead { credential: largest, ..head(1, 2, 3) }));
    add("auth_sys", "client", bytes(&caller()));
    add("auth_sys", "bare", bytes(&AuthSys { machine_name: Opaque::EMPTY, gids: Array::new(&[]).unwrap(), ..caller() }));
}

/// Every reply without results, and one with.
pub fn every_reply() -> Vec<Reply<'static>> {
    let outcomes = [
        Acceptance::Success(&[]),
        Acceptance::Success(&[0, 0, 8, 1]),
        Acceptance::ProgramUnavailable,
        Acceptance::ProgramMismatch { low: 3, high: 4 },
        Acceptance::ProcedureUnavailable,
        Acceptance::GarbageArguments,
        Acceptance::SystemError,
    ];
    let accepted = outcomes.map(|outcome| Verdict::Accepted { verifier: Auth::NONE, outcome });
    let authentication = AuthStatus::ALL.iter().copied().map(Denial::Authentication);
    let denials = authentication.chain([Denial::RpcMismatch { low: 2, high: 2 }]).map(Verdict::Denied);
    accepted.into_iter().chain(denials).map(|verdict| Reply { xid: 0x1122_3344, verdict }).collect()
}

fn replies(add: Add<'_>) {
    for (index, reply) in every_reply().iter().enumerate() {
        add("reply", &format!("{index:02}"), bytes(reply));
    }
    let verifier = Auth { flavour: rpc::Flavour::SHORT, body: opaque(b"token") };
    let verdict = Verdict::Accepted { verifier, outcome: Acceptance::Success(b"data") };
    add("reply", "short-verifier", bytes(&Reply { xid: 1, verdict }));
}

fn streams(add: Add<'_>) {
    let null = bytes(&head(nfs3::PROGRAM, 3, 0));
    let stream = |cuts: &[usize]| {
        let mut memory = [0; 256];
        let mut writer = Writer::new(&mut memory);
        rpc::write_split(&mut writer, &null, cuts).unwrap();
        rpc::write_split(&mut writer, &null, &[]).unwrap();
        writer.written().to_vec()
    };
    add("record", "whole", stream(&[]));
    add("record", "three", stream(&[1, 39]));
    add("record", "empty-fragments", stream(&[0, 0, 20, 20, 40, 40]));
    add("record", "longest", vec![0x7f, 0xff, 0xff, 0xff]);
}

fn registries(add: Add<'_>) {
    let mapping = Mapping { program: nfs3::PROGRAM, version: 3, protocol: rpcbind::PROTOCOL_TCP, port: 2049 };
    let service =
        Service { program: nfs3::PROGRAM, version: 3, netid: text("tcp6"), address: text("::1.8.1"), owner: text("superuser") };
    for procedure in 0..=5 {
        let call = |version| bytes(&head(rpcbind::PROGRAM, version, procedure));
        add("rpcbind", &format!("port-{procedure}"), [call(2), bytes(&mapping)].concat());
        add("rpcbind", &format!("service-{procedure}"), [call(4), bytes(&service)].concat());
    }
    add("rpcbind", "mappings", bytes(&List::<_, 2>::new(&[mapping, mapping]).unwrap()));
    add("rpcbind", "services", bytes(&List::<_, 2>::new(&[service, service]).unwrap()));
    for (name, address) in [("v4", "192.0.2.1.8.1"), ("v6", "fe80::1:2.3.4"), ("mapped", "::ffff:192.0.2.1.8.1")] {
        add("universal_address", name, address.as_bytes().to_vec());
    }
}

const TIME: nfs3::Time = nfs3::Time { seconds: 1_700_000_000, nanoseconds: 5 };
const SET: nfs3::SetAttributes = nfs3::SetAttributes {
    mode: Some(0o644),
    uid: None,
    gid: Some(100),
    size: Some(1 << 40),
    accessed: nfs3::SetTime::Now,
    modified: nfs3::SetTime::To(TIME),
};
const DEVICE: nfs3::Device = nfs3::Device { major: 8, minor: 1 };

fn nfs3_arguments(add: Add<'_>) {
    let file: nfs3::Handle<'_> = opaque(b"thirty-two bytes name this file.");
    let place = nfs3::LookupArguments { directory: file, name: opaque(b"name") };
    let mut add = |procedure: Procedure, name: &str, value: &dyn Encode| {
        let bytes = [vec![procedure as u8], bytes(value)].concat();
        add("nfs3_arguments", &format!("{:02}{name}", procedure.number()), bytes);
    };
    let (offset, count, cookie, verifier) = (1 << 33, 5, 9, *b"verifier");
    add(Procedure::GetAttributes, "", &file);
    add(Procedure::SetAttributes, "", &nfs3::SetAttributesArguments { object: file, attributes: SET, guard: Some(TIME) });
    add(Procedure::Lookup, "", &place);
    add(Procedure::Access, "", &nfs3::AccessArguments { object: file, access: 0x1f });
    add(Procedure::Read, "", &nfs3::ReadArguments { file, offset, count });
    let stable = nfs3::Stability::Data;
    add(Procedure::Write, "", &nfs3::WriteArguments { file, offset, count, stable, data: opaque(b"bytes") });
    for (name, how) in [
        ("-unchecked", nfs3::CreateHow::Unchecked(SET)),
        ("-guarded", nfs3::CreateHow::Guarded(SET)),
        ("-exclusive", nfs3::CreateHow::Exclusive(verifier)),
    ] {
        add(Procedure::Create, name, &nfs3::CreateArguments { place, how });
    }
    add(Procedure::MakeDirectory, "", &nfs3::MakeDirectoryArguments { place, attributes: SET });
    add(Procedure::SymbolicLink, "", &nfs3::SymbolicLinkArguments { place, attributes: SET, target: opaque(b"../there") });
    for (name, node) in [
        ("-character", nfs3::NodeData::Character(SET, DEVICE)),
        ("-block", nfs3::NodeData::Block(SET, DEVICE)),
        ("-socket", nfs3::NodeData::Socket(SET)),
        ("-pipe", nfs3::NodeData::Pipe(SET)),
        ("-other", nfs3::NodeData::Other(nfs3::FileType::Regular)),
    ] {
        add(Procedure::MakeNode, name, &nfs3::MakeNodeArguments { place, node });
    }
    add(Procedure::Rename, "", &nfs3::RenameArguments { from: place, to: place });
    add(Procedure::Link, "", &nfs3::LinkArguments { file, place });
    add(Procedure::ReadDirectory, "", &nfs3::ReadDirectoryArguments { directory: file, cookie, verifier, count: 4096 });
    let plus = nfs3::ReadDirectoryPlusArguments { directory: file, cookie, verifier, directory_count: 512, count_max: 4096 };
    add(Procedure::ReadDirectoryPlus, "", &plus);
    add(Procedure::Commit, "", &nfs3::CommitArguments { file, offset, count });
}

const ATTRIBUTES: nfs3::Attributes = nfs3::Attributes {
    file_type: nfs3::FileType::Regular,
    mode: 0o644,
    links: 1,
    uid: 1000,
    gid: 100,
    size: 5,
    used: 4096,
    device: DEVICE,
    file_system: 0xfeed,
    file_id: 42,
    accessed: TIME,
    modified: TIME,
    changed: TIME,
};
const BEFORE: nfs3::WeakAttributes = nfs3::WeakAttributes { size: 4, modified: TIME, changed: TIME };
const WEAK: nfs3::Weak = nfs3::Weak { before: Some(BEFORE), after: Some(ATTRIBUTES) };

fn nfs3_results(add: Add<'_>) {
    let mut add = |procedure: Procedure, name: &str, value: &dyn Encode| {
        let bytes = [vec![procedure as u8], bytes(value)].concat();
        add("nfs3_results", &format!("{:02}{name}", procedure.number()), bytes);
    };
    let some = Some(ATTRIBUTES);
    let (file, verifier): (nfs3::Handle<'_>, _) = (opaque(b"handle"), *b"verifier");
    add(Procedure::GetAttributes, "", &nfs3::GetAttributesResult::Ok(ATTRIBUTES));
    add(Procedure::GetAttributes, "-stale", &nfs3::GetAttributesResult::Failed(nfs3::Status::Stale, ()));
    add(Procedure::SetAttributes, "", &nfs3::SetAttributesResult::Ok(WEAK));
    add(Procedure::SetAttributes, "-guard", &nfs3::SetAttributesResult::Failed(nfs3::Status::NotSynchronized, WEAK));
    let lookup = nfs3::Lookup { object: file, attributes: some, directory: None };
    add(Procedure::Lookup, "", &nfs3::LookupResult::Ok(lookup));
    add(Procedure::Lookup, "-missing", &nfs3::LookupResult::Failed(nfs3::Status::NoEntry, some));
    add(Procedure::Access, "", &nfs3::AccessResult::Ok((some, 0x1f)));
    add(Procedure::ReadLink, "", &nfs3::ReadLinkResult::Ok(nfs3::ReadLink { attributes: None, target: opaque(b"there") }));
    let read = nfs3::Read { attributes: some, count: 5, is_end: true, data: opaque(b"bytes") };
    add(Procedure::Read, "", &nfs3::ReadResult::Ok(read));
    let write = nfs3::Write { file: WEAK, count: 5, committed: nfs3::Stability::File, verifier };
    add(Procedure::Write, "", &nfs3::WriteResult::Ok(write));
    let create = nfs3::Create { object: Some(file), attributes: some, directory: WEAK };
    for procedure in [Procedure::Create, Procedure::MakeDirectory, Procedure::SymbolicLink, Procedure::MakeNode] {
        add(procedure, "", &nfs3::CreateResult::Ok(create));
    }
    add(Procedure::Remove, "", &nfs3::RemoveResult::Ok(WEAK));
    add(Procedure::RemoveDirectory, "-full", &nfs3::RemoveResult::Failed(nfs3::Status::NotEmpty, WEAK));
    add(Procedure::Rename, "", &nfs3::RenameResult::Ok(nfs3::Rename { from: WEAK, to: WEAK }));
    add(Procedure::Link, "", &nfs3::LinkResult::Ok(nfs3::Link { attributes: some, directory: WEAK }));
    add(Procedure::Commit, "", &nfs3::CommitResult::Ok(nfs3::Commit { file: WEAK, verifier }));
    directories(&mut add);
    limits(&mut add);
}

type AddResult<'a> = &'a mut dyn FnMut(Procedure, &str, &dyn Encode);

fn directories(add: AddResult<'_>) {
    let (attributes, verifier) = (Some(ATTRIBUTES), *b"verifier");
    let entry = nfs3::Entry { file_id: 42, name: opaque(b"name"), cookie: 1 };
    let entries = [entry, nfs3::Entry { name: opaque(b"longer name"), ..entry }];
    let entries = List::new(&entries).unwrap();
    let directory = nfs3::Directory { attributes, verifier, entries, is_end: true };
    add(Procedure::ReadDirectory, "", &nfs3::ReadDirectoryResult::Ok(directory));
    let entry = nfs3::EntryPlus { file_id: 42, name: opaque(b"name"), cookie: 1, attributes, handle: Some(opaque(b"handle")) };
    let entries = [entry, nfs3::EntryPlus { attributes: None, handle: None, ..entry }];
    let entries = List::new(&entries).unwrap();
    let directory = nfs3::DirectoryPlus { attributes: None, verifier, entries, is_end: false };
    add(Procedure::ReadDirectoryPlus, "", &nfs3::ReadDirectoryPlusResult::Ok(directory));
}

fn limits(add: AddResult<'_>) {
    let attributes = None;
    let file_system = nfs3::FileSystem {
        attributes,
        bytes: 1 << 40,
        bytes_free: 1 << 39,
        bytes_available: 1 << 38,
        files: 1000,
        files_free: 900,
        files_available: 800,
        unchanging_seconds: 0,
    };
    add(Procedure::FileSystem, "", &nfs3::FileSystemResult::Ok(file_system));
    let information = nfs3::Information {
        attributes,
        read_max: 1 << 20,
        read_preferred: 1 << 20,
        read_multiple: 4096,
        write_max: 1 << 20,
        write_preferred: 1 << 20,
        write_multiple: 4096,
        directory_preferred: 1 << 16,
        file_max: 1 << 60,
        time_grain: nfs3::Time { seconds: 0, nanoseconds: 1 },
        properties: 0x1b,
    };
    add(Procedure::Information, "", &nfs3::InformationResult::Ok(information));
    let path_limits = nfs3::PathLimits {
        attributes,
        links_max: 32_000,
        name_max: 255,
        no_truncation: true,
        chown_restricted: true,
        case_insensitive: false,
        case_preserving: true,
    };
    add(Procedure::PathLimits, "", &nfs3::PathLimitsResult::Ok(path_limits));
}
