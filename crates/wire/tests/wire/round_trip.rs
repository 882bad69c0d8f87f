//! What is written is read as the same value, and takes the bytes that its RFC says.

use corelane_wire::nfs3;
use corelane_wire::rpc::{
    self, Acceptance, Auth, AuthStatus, AuthSys, Call, CallHead, Denial, Flavour, Identity, RecordLimits, Records, Reply, Step,
    Verdict, write_split,
};
use corelane_wire::rpcbind::{Mapping, Mappings, PortRequest, Service, ServiceRequest, Services};
use corelane_wire::xdr::{Array, Encode, List, Opaque, Reader, Text, Writer, padding};
use proptest::collection::vec;
use proptest::prelude::*;

fn written(value: &dyn Encode) -> Vec<u8> {
    let mut memory = vec![0; 1 << 16];
    let mut writer = Writer::new(&mut memory);
    value.encode(&mut writer).unwrap();
    writer.written().to_vec()
}

/// Asserts that `$value` is read from what it writes, and that nothing is left.
macro_rules! same {
    ($value:expr) => {{
        let value = $value;
        let bytes = written(&value);
        let mut reader = Reader::new(&bytes);
        prop_assert_eq!(reader.read(), Ok(value));
        prop_assert_eq!(reader.finish(), Ok(()));
        bytes
    }};
}

fn time() -> impl Strategy<Value = nfs3::Time> {
    any::<(u32, u32)>().prop_map(|(seconds, nanoseconds)| nfs3::Time { seconds, nanoseconds })
}

fn set_time() -> impl Strategy<Value = nfs3::SetTime> {
    prop_oneof![Just(nfs3::SetTime::Keep), Just(nfs3::SetTime::Now), time().prop_map(nfs3::SetTime::To)]
}

fn set_attributes() -> impl Strategy<Value = nfs3::SetAttributes> {
    let fields = (any::<[Option<u32>; 3]>(), any::<Option<u64>>(), set_time(), set_time());
    fields.prop_map(|([mode, uid, gid], size, accessed, modified)| nfs3::SetAttributes {
        mode,
        uid,
        gid,
        size,
        accessed,
        modified,
    })
}

fn denial() -> impl Strategy<Value = Denial> {
    prop_oneof![
        any::<(u32, u32)>().prop_map(|(low, high)| Denial::RpcMismatch { low, high }),
        prop::sample::select(AuthStatus::ALL).prop_map(Denial::Authentication),
    ]
}

fn mapping() -> impl Strategy<Value = Mapping> {
    any::<[u32; 4]>().prop_map(|[program, version, protocol, port]| Mapping { program, version, protocol, port })
}

proptest! {
    #[test]
    fn opaque_data_and_text(data in vec(any::<u8>(), 0..300), text in "[ -~]{0,300}") {
        let bytes = same!(Opaque::<300>::new(&data).unwrap());
        prop_assert_eq!(bytes.len(), 4 + data.len() + padding(data.len()));
        same!(Text::<300>::new(&text).unwrap());
    }

    #[test]
    fn arrays_lists_and_optional_data(numbers in vec(any::<u64>(), 0..50), one in any::<Option<u32>>()) {
        prop_assert_eq!(same!(Array::<u64, 50>::new(&numbers).unwrap()).len(), 4 + 8 * numbers.len());
        prop_assert_eq!(same!(List::<u64, 50>::new(&numbers).unwrap()).len(), 4 + 12 * numbers.len());
        same!(one);
    }

    #[test]
    fn callers(stamp: u32, name in vec(any::<u8>(), 0..=255), uid: u32, gid: u32, gids in vec(any::<u32>(), 0..=16)) {
        let (machine_name, gids) = (Opaque::new(&name).unwrap(), Array::new(&gids).unwrap());
        let caller = AuthSys { stamp, machine_name, uid, gid, gids };
        same!(caller);
        let mut memory = [0; rpc::BODY_BYTES_MAX as usize];
        let credential = caller.credential(&mut memory).unwrap();
        let head = CallHead { xid: 1, program: 2, version: 3, procedure: 4, credential, verifier: Auth::NONE };
        let message = written(&head);
        prop_assert_eq!(Call::parse(&message).unwrap().identity(), Ok(Identity::Sys(caller)));
    }

    #[test]
    fn calls(
        [xid, program, version, procedure] in any::<[u32; 4]>(),
        [first, second] in any::<[u32; 2]>(),
        credential in vec(any::<u8>(), 0..=400),
        verifier in vec(any::<u8>(), 0..=400),
        arguments in vec(any::<u8>(), 0..100),
    ) {
        let credential = Auth { flavour: Flavour(first), body: Opaque::new(&credential).unwrap() };
        let verifier = Auth { flavour: Flavour(second), body: Opaque::new(&verifier).unwrap() };
        let head = CallHead { xid, program, version, procedure, credential, verifier };
        let message = [&written(&head)[..], &arguments].concat();
        let call = Call { xid, program, version, procedure, credential, verifier, arguments: &arguments };
        prop_assert_eq!(Call::parse(&message), Ok(call));
    }

    #[test]
    fn replies(xid: u32, low: u32, high: u32, body in vec(any::<u8>(), 0..=400), results in vec(any::<u8>(), 0..100), denial in denial()) {
        let verifier = Auth { flavour: Flavour(low), body: Opaque::new(&body).unwrap() };
        for outcome in [Acceptance::Success(&results), Acceptance::ProgramMismatch { low, high }, Acceptance::GarbageArguments] {
            let reply = Reply { xid, verdict: Verdict::Accepted { verifier, outcome } };
            let message = written(&reply);
prop_assert_eq!(Reply::parse(&message), Ok(reply));
        }
        let reply = Reply { xid, verdict: Verdict::Denied(denial) };
        let message = written(&reply);
prop_assert_eq!(Reply::parse(&message), Ok(reply));
    }

    #[test]
    fn records_in_any_pieces_and_any_split(
        sent in vec((vec(any::<u8>(), 0..60), vec(0..60_usize, 0..7)), 0..6),
        splits in vec(1..20_usize, 1..9),
    ) {
        let mut memory = [0; 1024];
        let mut writer = Writer::new(&mut memory);
        for (record, cuts) in &sent {
            write_split(&mut writer, record, cuts).unwrap();
        }
        let received = received(writer.written(), &splits);
        prop_assert_eq!(received, sent.into_iter().map(|(record, _)| record).collect::<Vec<_>>());
    }

    #[test]
    fn ports(mappings in vec(mapping(), 0..20)) {
        same!(Mappings::new(&mappings).unwrap());
        for Mapping { program, version, protocol, port } in mappings {
            let get = PortRequest::GetPort { program, version, protocol };
            for request in [get, PortRequest::Set(Mapping { program, version, protocol, port }), PortRequest::Unset { program, version }] {
                let arguments = written(&request);
                prop_assert_eq!(PortRequest::parse(&call(request.procedure(), &arguments)), Ok(request));
            }
        }
    }

    #[test]
    fn services(program: u32, version: u32, netid in "[ -~]{0,32}", address in "[ -~]{0,128}", owner in "[ -~]{0,255}", count in 0..9_usize) {
        let (netid, address, owner) = (Text::new(&netid).unwrap(), Text::new(&address).unwrap(), Text::new(&owner).unwrap());
        let service = Service { program, version, netid, address, owner };
        let services = vec![service; count];
same!(Services::new(&services).unwrap());
        for request in [ServiceRequest::Set(service), ServiceRequest::Unset(service), ServiceRequest::GetAddress(service)] {
            let arguments = written(&request);
            prop_assert_eq!(ServiceRequest::parse(&call(request.procedure(), &arguments)), Ok(request));
        }
    }

    #[test]
    fn files(attributes in set_attributes(), guard in prop::option::of(time()), handle in vec(any::<u8>(), 0..=64), name in vec(any::<u8>(), 0..300)) {
        let (object, name) = (Opaque::new(&handle).unwrap(), Opaque::new(&name).unwrap());
        same!(nfs3::SetAttributesArguments { object, attributes, guard });
        let place = nfs3::LookupArguments { directory: object, name };
        same!(nfs3::CreateArguments { place, how: nfs3::CreateHow::Guarded(attributes) });
        let entry = nfs3::EntryPlus { file_id: 1, name, cookie: 2, attributes: None, handle: Some(object) };
        let entries = [entry; 3];
        let entries = List::new(&entries).unwrap();
        same!(nfs3::DirectoryPlus { attributes: None, verifier: [7; 8], entries, is_end: true });
    }

    #[test]
    fn data_that_goes_another_way_reads_as_if_it_had_not(data in vec(any::<u8>(), 0..300), is_end: bool) {
        let count = data.len() as u32;
        let head = nfs3::ReadHead { attributes: None, count, is_end, length: count };
        let parts = [&written(&nfs3::Status::Ok)[..], &written(&head), &data, &[0; 3][..padding(data.len())]].concat();
        let whole = nfs3::ReadResult::Ok(nfs3::Read { attributes: None, count, is_end, data: Opaque::new(&data).unwrap() });
        prop_assert_eq!(parts, written(&whole));
    }
}

fn call(procedure: u32, arguments: &[u8]) -> Call<'_> {
    let (credential, verifier) = (Auth::NONE, Auth::NONE);
    Call { xid: 1, program: 100_000, version: 2, procedure, credential, verifier, arguments }
}

/// The records in `stream`, whose bytes come in pieces as long as `splits` says in turn.
fn received(stream: &[u8], splits: &[usize]) -> Vec<Vec<u8>> {
    let mut records = Records::new(RecordLimits { bytes: 60, fragments: 8 });
    let (mut whole, mut joined, mut input) = (Vec::new(), Vec::new(), Vec::new());
    let (mut rest, mut splits) = (stream, splits.iter().cycle());
    loop {
        match records.next(&input).unwrap() {
            Step::More { .. } if rest.is_empty() => break,
            Step::More { .. } => {
                let (piece, later) = rest.split_at(rest.len().min(*splits.next().unwrap()));
                input.extend(piece);
                rest = later;
            }
            Step::Record(range) => {
                whole.push(input[range.clone()].to_vec());
                input.drain(..range.end);
            }
            Step::Join { fragment, is_last } => {
                joined.extend(&input[fragment.clone()]);
                input.drain(..fragment.end);
                if is_last {
                    whole.push(std::mem::take(&mut joined));
                }
            }
        }
    }
    assert!(input.is_empty());
    whole
}

#[test]
fn every_status_and_every_procedure_has_its_number() {
    for status in nfs3::Status::ALL {
        assert_eq!(nfs3::Status::from_number(status.number()), Ok(*status));
    }
    let numbers: Vec<u32> = nfs3::Procedure::ALL.iter().map(|procedure| procedure.number()).collect();
    assert_eq!(numbers, (0..22).collect::<Vec<_>>());
    assert_eq!(nfs3::Status::ALL.len(), 29);
}

#[test]
fn a_failure_that_says_it_went_well_is_not_written() {
    let result = nfs3::GetAttributesResult::Failed(nfs3::Status::Ok, ());
    assert!(result.encode(&mut Writer::new(&mut [0; 64])).is_err());
}
