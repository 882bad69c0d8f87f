//! What is written is what was read, and what is not well written is refused.

use corelane_rss::{Buckets, Error, HashType, HashTypes, Key, Protocol, Spread, Table};
use proptest::prelude::*;

use crate::common::{tuple, words};

fn table_error(text: &str) -> Error {
    text.parse::<Table>().unwrap_err()
}

#[test]
fn a_table_is_one_line_of_buckets_and_lanes() {
    let table = Table::even(Buckets::new(4).unwrap(), 2).unwrap();
    assert_eq!(table.to_string(), "0:0 1:1 2:0 3:1");
    assert_eq!(" 0:0\t1:1\n2:0  3:1\n".parse(), Ok(table));
    for wrong in ["0:0 2:1", "0:0 1:+1", "0:0 1:01", "0:0 1:", "0:0 1", "0:0 1:1:1", "0:0 01:1", "0:0 1:-1", "0:0 1:\u{661}"] {
        let got = wrong.split(' ').next_back().unwrap();
        assert_eq!(table_error(wrong), Error::TableText { bucket: 1, got: got.into() });
    }
    assert_eq!(table_error(""), Error::BucketCount { got: 0, most: 1024 });
    assert_eq!(table_error("0:0 1:0 2:0"), Error::BucketCount { got: 3, most: 1024 });
    assert_eq!(table_error("0:256"), Error::LaneRange { got: 256, most: 255 });
    assert_eq!(
        table_error(&format!("0:{}", "9".repeat(40))),
        Error::TableText { bucket: 0, got: format!("0:{}", "9".repeat(30)).into() }
    );
}

#[test]
fn a_table_without_end_is_not_read_to_the_end() {
    let long: String = (0..5000).map(|bucket| format!("{bucket}:0 ")).collect();
    assert_eq!(table_error(&long), Error::TableText { bucket: 1024, got: "1024:0".into() });
}

#[test]
fn a_key_is_hexadecimal_with_colons() {
    let text = Key::MICROSOFT.to_string();
    assert!(text.starts_with("6d:5a:56:da:25:5b:0e:c2:") && text.ends_with(":be:ac:01:fa"));
    assert_eq!(text.parse(), Ok(Key::MICROSOFT));
    assert_eq!(text.to_uppercase().parse(), Ok(Key::MICROSOFT));
    let error = |text: &str| text.parse::<Key>().unwrap_err();
    assert_eq!(error(""), Error::KeyText { at: 0 });
    assert_eq!(error(&text.replace(':', "")), Error::KeyText { at: 0 });
    assert_eq!(error(&text.replacen("56", "5", 1)), Error::KeyText { at: 2 });
    assert_eq!(error(&text.replacen("56", "+6", 1)), Error::KeyText { at: 2 });
    assert_eq!(error(&text[..text.len() - 3]), Error::KeyLength { got: 39 });
    assert_eq!(error(&format!("{text}:{text}")), Error::KeyLength { got: 80 });
    assert_eq!(error(&["00"; 40].join(":")), Error::KeyConstant);
}

#[test]
fn hash_types_have_names() {
    assert_eq!(HashTypes::DEFAULT.to_string(), "ipv4,tcp4,ipv6,tcp6,ipv6ex,tcp6ex");
    assert_eq!(HashTypes::NONE.to_string(), "none");
    assert_eq!(HashTypes::default().mask(), 0x7e);
    assert_eq!(HashTypes::ALL.iter().count(), 9);
    assert_eq!(HashTypes::from_mask(0x101), Err(Error::HashTypeBits { unknown: 0x101 }));
    assert_eq!("udp4,none".parse::<HashTypes>(), Err(Error::HashTypeName { got: "none".into() }));
    assert_eq!("TCP4".parse::<HashType>(), Err(Error::HashTypeName { got: "TCP4".into() }));
    let bits: Vec<u32> = HashType::ALL.iter().map(|hash_type| hash_type.bit()).collect();
    assert_eq!(bits, [1, 2, 3, 4, 5, 6, 7, 9, 10]);
    let with_ports: Vec<_> = HashType::ALL.into_iter().filter(|hash_type| hash_type.takes_ports()).collect();
    assert_eq!(with_ports.len(), 6);
    assert!(with_ports.iter().all(|hash_type| hash_type.name().contains("tcp") || hash_type.name().contains("udp")));
}

#[test]
fn spreads_have_three_forms() {
    for (text, spread) in [("even", Spread::Even), ("one:7", Spread::One(7)), ("weights:1,0,20", Spread::Weights(vec![1, 0, 20]))]
    {
        assert_eq!(text.parse(), Ok(spread.clone()));
        assert_eq!(spread.to_string(), text);
    }
    let many = format!("weights:{}", ["1"; 257].join(","));
    for wrong in
        ["", "odd", "even:1", "one", "one:", "one:256", "one:-1", "weights:", "weights:1,,2", "weights:4294967296", &many]
    {
        assert!(matches!(wrong.parse::<Spread>(), Err(Error::SpreadText { .. })), "{wrong}");
    }
}

#[test]
fn flows_are_readable() {
    assert_eq!(tuple("66.9.149.187:2794", "[::ffff:1.2.3.4]:5", Protocol::TCP).to_string(), "66.9.149.187:2794 > 1.2.3.4:5 tcp");
    assert_eq!(tuple("[::1]:1", "[::2]:0", Protocol(132)).to_string(), "[::1]:1 > [::2]:0 132");
}

#[test]
fn errors_say_what_to_do() {
    let errors = [
        table_error("0:0 1:x"),
        table_error("0:999"),
        Error::KeyIgnoresField { field: "IPv6 source", reached: 64, of: 128 },
        Error::Uncovered { place: 3, tried: 9 },
        "x".repeat(100).parse::<HashTypes>().unwrap_err(),
        Table::even(Buckets::DEFAULT, 200).unwrap_err(),
    ];
    for error in errors {
        let text = error.to_string();
        assert!(text.contains([':', ',']) && text.len() < 200, "{text}");
    }
}

proptest! {
    #[test]
    fn texts_are_read_as_they_were_written(seed: u64, long: bool, mask: u32, weights in prop::collection::vec(1..99_u32, 1..200)) {
        let key = Key::random(if long { 52 } else { 40 }, words(seed)).unwrap();
        prop_assert_eq!(key.to_string().parse(), Ok(key));
        let types = HashTypes::from_mask(mask & HashTypes::ALL.mask()).unwrap();
        prop_assert_eq!(types.to_string().parse(), Ok(types));
        let table = Table::weighted(Buckets::new(256).unwrap(), &weights).unwrap();
        prop_assert_eq!(table.to_string().parse(), Ok(table));
        let spread = Spread::Weights(weights);
        prop_assert_eq!(spread.to_string().parse(), Ok(spread));
    }
}
