//! XDR as another implementation writes it: `xdrlib` of Python's own library, up to Python 3.12.

use corelane_wire::xdr::{Array, Encode, List, Opaque, Reader, Text, Writer};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use std::io::Write;
use std::process::{Command, Stdio};

const NAME: &str = "differential::python_writes_the_same_bytes";
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/xdr.py");
const VALUES: usize = 3_000;

/// A value of each kind that both implementations have.
#[derive(Debug)]
enum Value {
    Unsigned(u32),
    Signed(i32),
    Hyper(u64),
    SignedHyper(i64),
    Boolean(bool),
    Fixed([u8; 7]),
    Opaque(Vec<u8>),
    Text(String),
    Array(Vec<u32>),
    List(Vec<u32>),
}

fn values() -> impl Strategy<Value = Value> {
    prop_oneof![
        any::<u32>().prop_map(Value::Unsigned),
        any::<i32>().prop_map(Value::Signed),
        any::<u64>().prop_map(Value::Hyper),
        any::<i64>().prop_map(Value::SignedHyper),
        any::<bool>().prop_map(Value::Boolean),
        any::<[u8; 7]>().prop_map(Value::Fixed),
        vec(any::<u8>(), 0..50).prop_map(Value::Opaque),
        "[!-~]{0,50}".prop_map(Value::Text),
        vec(any::<u32>(), 0..20).prop_map(Value::Array),
        vec(any::<u32>(), 0..20).prop_map(Value::List),
    ]
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Value {
    /// The value as the script reads it: its kind and its text.
    fn line(&self) -> String {
        match self {
            Self::Unsigned(value) => format!("uint {value}"),
            Self::Signed(value) => format!("int {value}"),
            Self::Hyper(value) => format!("uhyper {value}"),
            Self::SignedHyper(value) => format!("hyper {value}"),
            Self::Boolean(value) => format!("bool {}", u8::from(*value)),
            Self::Fixed(value) => format!("fixed {}", hex(value)),
            Self::Opaque(value) => format!("opaque {}", hex(value)),
            Self::Text(value) => format!("string {}", hex(value.as_bytes())),
            Self::Array(value) => format!("array {}", joined(value)),
            Self::List(value) => format!("list {}", joined(value)),
        }
    }

    fn written(&self) -> Vec<u8> {
        let mut memory = [0; 256];
        let mut to = Writer::new(&mut memory);
        match self {
            Self::Unsigned(value) => to.u32(*value),
            Self::Signed(value) => value.encode(&mut to),
            Self::Hyper(value) => to.u64(*value),
            Self::SignedHyper(value) => value.encode(&mut to),
            Self::Boolean(value) => to.boolean(*value),
            Self::Fixed(value) => to.fixed(value),
            Self::Opaque(value) => to.opaque(value),
            Self::Text(value) => Text::<50>::new(value).unwrap().encode(&mut to),
            Self::Array(value) => Array::<_, 20>::new(value).unwrap().encode(&mut to),
            Self::List(value) => List::<_, 20>::new(value).unwrap().encode(&mut to),
        }
        .unwrap();
        to.written().to_vec()
    }

    fn is_read_from(&self, bytes: &[u8]) -> bool {
        let mut from = Reader::new(bytes);
        let same = match self {
            Self::Unsigned(value) => from.read() == Ok(*value),
            Self::Signed(value) => from.read() == Ok(*value),
            Self::Hyper(value) => from.read() == Ok(*value),
            Self::SignedHyper(value) => from.read() == Ok(*value),
            Self::Boolean(value) => from.read() == Ok(*value),
            Self::Fixed(value) => from.read() == Ok(*value),
            Self::Opaque(value) => from.read() == Ok(Opaque::<50>::new(value).unwrap()),
            Self::Text(value) => from.read() == Ok(Text::<50>::new(value).unwrap()),
            Self::Array(value) => from.read() == Ok(Array::<_, 20>::new(value).unwrap()),
            Self::List(value) => from.read() == Ok(List::<_, 20>::new(value).unwrap()),
        };
        same && from.finish().is_ok()
    }
}

fn joined(values: &[u32]) -> String {
    values.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
}

/// What the script makes of `lines`, a line of hexadecimal digits for each.
fn ask_python(lines: &str) -> Vec<String> {
    let mut python =
        Command::new("python3").args(["-W", "ignore", SCRIPT]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = python.stdin.take().unwrap();
    // The script reads all before it writes anything, so neither side waits for the other.
    input.write_all(lines.as_bytes()).unwrap();
    drop(input);
    let output = python.wait_with_output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

fn has_xdrlib() -> bool {
    let output = Command::new("python3").args(["-W", "ignore", "-c", "import xdrlib"]).output();
    output.is_ok_and(|output| output.status.success())
}

fn skip(reason: &str) {
    corelane_testkit::skip(NAME, reason);
}

#[test]
fn python_writes_the_same_bytes() {
    if !has_xdrlib() {
        return skip("there is no python3 with xdrlib, which Python has up to 3.12");
    }
    let mut runner = TestRunner::deterministic();
    let values: Vec<Value> = (0..VALUES).map(|_| values().new_tree(&mut runner).unwrap().current()).collect();
    let lines: String = values.iter().map(|value| value.line() + "\n").collect();
    let answers = ask_python(&lines);
    assert_eq!(answers.len(), values.len());
    for (value, answer) in values.iter().zip(answers) {
        let written = value.written();
        assert_eq!(hex(&written), answer, "{value:?}");
        assert!(value.is_read_from(&written), "{value:?}");
    }
}
