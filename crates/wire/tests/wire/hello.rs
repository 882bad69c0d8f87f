//! The name that a client of TLS asks for.

use corelane_wire::hello::{BYTES_MAX, Fault, HELLO_BYTES_MAX, NAME_BYTES_MAX, Step, server_name};
use proptest::prelude::*;

/// A message of TLS 1.2 or later with these extensions.
fn message(extensions: &[(u16, Vec<u8>)]) -> Vec<u8> {
    let mut body = vec![3, 3];
    body.extend([7; 32]);
    body.extend([1, 9, 0, 2, 0x13, 1, 1, 0]);
    let all: Vec<u8> = extensions
        .iter()
        .flat_map(|(kind, content)| {
            [kind.to_be_bytes().to_vec(), (content.len() as u16).to_be_bytes().to_vec(), content.clone()].concat()
        })
        .collect();
    body.extend((all.len() as u16).to_be_bytes());
    body.extend(all);
    let length = (body.len() as u32).to_be_bytes();
    [&[1][..], &length[1..], &body].concat()
}

fn name(name: &[u8]) -> (u16, Vec<u8>) {
    let length = name.len() as u16;
    (0, [&(length + 3).to_be_bytes()[..], &[0], &length.to_be_bytes(), name].concat())
}

/// In records of so many bytes.
fn records(message: &[u8], bytes: usize) -> Vec<u8> {
    message.chunks(bytes).flat_map(|part| [&[22, 3, 1][..], &(part.len() as u16).to_be_bytes(), part].concat()).collect()
}

fn found(bytes: &[u8]) -> Result<Option<String>, Option<Fault>> {
    let mut memory = [0; NAME_BYTES_MAX];
    match server_name(bytes, &mut memory) {
        Ok(Step::More) => Err(None),
        Ok(Step::Name(name)) => Ok(Some(name.to_owned())),
        Ok(Step::NoName) => Ok(None),
        Err(fault) => Err(Some(fault)),
    }
}

#[test]
fn a_name_is_found_in_any_records() {
    let message = message(&[(10, vec![0; 300]), name(b"Shop.Example."), (16, vec![1; 40])]);
    for bytes in [usize::MAX, 1 << 14, 100, 30] {
        assert_eq!(found(&records(&message, bytes.min(message.len()))), Ok(Some("shop.example".to_owned())), "{bytes}");
    }
    assert_eq!(found(&records(&message, 20)), Err(Some(Fault::TooLong)), "too many records");
}

#[test]
fn what_is_no_such_message_is_told_apart() {
    let whole = |extensions: &[(u16, Vec<u8>)]| records(&message(extensions), 1 << 14);
    let bare = [&[1, 0, 0, 42, 3, 3][..], &[0; 32], &[0, 0, 2, 0x13, 1, 1, 0]].concat();
    let table = [
        (b"GET / HTTP/1.1\r\n".to_vec(), Err(Some(Fault::NotTls))),
        (b"SSH-2.0-x\r\n".to_vec(), Err(Some(Fault::NotTls))),
        (vec![22, 3, 1, 0, 4, 2, 0, 0, 0], Err(Some(Fault::NotTls))),
        (Vec::new(), Err(None)),
        (whole(&[]), Ok(None)),
        (whole(&[(10, vec![0; 3])]), Ok(None)),
        (records(&bare[..45], 99), Err(None)),
        (records(&[&[1, 0, 0, 41][..], &bare[4..]].concat(), 99), Ok(None)),
        (vec![22, 3, 1, 0, 0], Err(Some(Fault::Malformed))),
        (vec![22, 3, 1, 0x40, 1], Err(Some(Fault::Malformed))),
        (vec![22, 3, 1, 0, 4, 1, 0, 0x40, 1], Err(Some(Fault::TooLong))),
        (whole(&[name(b"")]), Err(Some(Fault::Malformed))),
        (whole(&[name(b"a b")]), Err(Some(Fault::Malformed))),
        (whole(&[name(&[b'a'; 256])]), Err(Some(Fault::Malformed))),
        (whole(&[(0, vec![0, 4, 0, 0, 9, b'a'])]), Err(Some(Fault::Malformed))),
        (whole(&[(0, vec![])]), Err(Some(Fault::Malformed))),
        (whole(&[(0, vec![0, 4, 1, 0, 1, b'a'])]), Err(Some(Fault::Malformed))),
    ];
    for (at, (bytes, expected)) in table.into_iter().enumerate() {
        assert_eq!(found(&bytes), expected, "row {at}");
    }
    assert!(BYTES_MAX > HELLO_BYTES_MAX && found(&[22, 3, 1]) == Err(None));
}

/// More bytes change no verdict, and nothing is looked at beyond the bound.
fn judge(bytes: &[u8]) {
    let all = found(bytes);
    let first = (0..=bytes.len()).find(|&end| found(&bytes[..end]) != Err(None));
    match first {
        Some(end) => {
            assert!(end <= BYTES_MAX && found(&bytes[..end]) == all, "{:?} and then {all:?}", found(&bytes[..end]));
            assert!((end..=bytes.len()).all(|longer| found(&bytes[..longer]) == all));
        }
        None => assert!(all == Err(None) && bytes.len() < BYTES_MAX),
    }
}

proptest! {
    #[test]
    fn no_bytes_confuse_it(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        judge(&bytes);
        judge(&[&[22, 3, 1, 0, 190, 1, 0, 0, 180][..], &bytes].concat());
    }

    #[test]
    fn no_change_confuses_it(part in 30_usize..400, at: prop::sample::Index, byte: u8, cut: prop::sample::Index) {
        let mut bytes = records(&message(&[(10, vec![0; 40]), name(b"shop.example"), (16, vec![1; 9])]), part);
        judge(&bytes);
        let at = at.index(bytes.len());
        bytes[at] = byte;
        judge(&bytes);
        bytes.remove(cut.index(bytes.len()));
        judge(&bytes);
    }
}
