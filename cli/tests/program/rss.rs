//! `corelane rss hash` and `plan`: published hashes, flows that go where they are wanted, and what is wrong with what was asked.

use crate::common::*;
use serde_json::Value;
use std::process::{Command, Output};

fn rss(arguments: &[&str]) -> Output {
    output(Command::new(PROGRAM).arg("rss").args(arguments))
}

fn text(arguments: &[&str]) -> String {
    let output = rss(arguments);
    assert!(output.status.success() && output.stderr.is_empty(), "{arguments:?}: {output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.lines().all(|line| line.len() <= 80), "{text}");
    text
}

fn json(arguments: &[&str]) -> Value {
    let output = rss(&[arguments, &["--json"]].concat());
    assert!(output.status.success() && output.stderr.is_empty(), "{arguments:?}: {output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Exit code 2 and one line that has all these words.
fn refuses(arguments: &[&str], words: &[&str]) {
    let output = rss(arguments);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {output:?}");
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.starts_with("corelane: ") && text.lines().count() == 1, "{arguments:?}: {text:?}");
    for word in words {
        assert!(text.contains(word), "{arguments:?}: {word:?} is not in {text:?}");
    }
    assert!(output.stdout.is_empty());
}

/// The flow id of a type in the first direction, or the second.
fn flow_id(computed: &Value, direction: usize, hash_type: &str) -> String {
    let hashes = computed["directions"][direction]["hashes"].as_array().unwrap();
    let hashed = hashes.iter().find(|hashed| hashed["type"] == hash_type);
    hashed.unwrap_or_else(|| panic!("no {hash_type} in {computed}"))["flow_id"].as_str().unwrap().to_owned()
}

/// Microsoft's verification suite: source, destination, by addresses, by addresses and ports.
const PUBLISHED: &[(&str, &str, &str, &str)] = &[
    ("66.9.149.187:2794", "161.142.100.80:1766", "0x323e8fc2", "0x51ccc178"),
    ("199.92.111.2:14230", "65.69.140.83:4739", "0xd718262a", "0xc626b0ea"),
    ("24.19.198.95:12898", "12.22.207.184:38024", "0xd2d0a5de", "0x5c2b394a"),
    ("[3ffe:2501:200:1fff::7]:2794", "[3ffe:2501:200:3::1]:1766", "0x2cc18cd5", "0x40207d3d"),
    ("[3ffe:501:8::260:97ff:fe40:efab]:14230", "[ff02::1]:4739", "0x0f0c461c", "0xdde51bbf"),
];

#[test]
fn published_hashes_come_out_in_both_directions() {
    for &(source, destination, addresses, ports) in PUBLISHED {
        let (there, back) = (json(&["hash", source, destination]), json(&["hash", destination, source]));
        let version = if source.starts_with('[') { "6" } else { "4" };
        assert_eq!(flow_id(&there, 0, &format!("ipv{version}")), addresses);
        assert_eq!(flow_id(&there, 0, &format!("tcp{version}")), ports);
        assert_eq!(flow_id(&there, 0, &format!("udp{version}")), ports);
        assert_eq!(flow_id(&back, 1, &format!("tcp{version}")), ports);
        assert_eq!(there["directions"][1], back["directions"][0]);
        assert_ne!(flow_id(&there, 1, &format!("tcp{version}")), ports);
    }
}

#[test]
fn text_has_bucket_and_lane_by_the_even_table() {
    let flow = ["hash", "66.9.149.187:2794", "161.142.100.80:1766"];
    let shown = text(&[&flow[..], &["--lanes", "5", "--buckets", "64"]].concat());
    // 0x323e8fc2 % 64 is 2, and 0x51ccc178 % 64 is 56: lanes 2 and 1 of five in turn.
    for line in
        ["66.9.149.187:2794 > 161.142.100.80:1766", "  ipv4  0x323e8fc2       2     2", "  tcp4  0x51ccc178      56     1"]
    {
        assert!(shown.lines().any(|shown| shown == line), "{line:?} is not in\n{shown}");
    }
    let without_ports = text(&["hash", "66.9.149.187", "161.142.100.80"]);
    assert!(without_ports.contains("ipv4  0x323e8fc2") && !without_ports.contains("tcp4"), "{without_ports}");
}

#[test]
fn another_key_gives_another_hash() {
    let symmetric = ["6d:5a"; 20].join(":");
    let computed = json(&["hash", "10.0.0.1:1000", "10.0.0.2:80", "--key", &symmetric]);
    assert_eq!(flow_id(&computed, 0, "tcp4"), flow_id(&computed, 1, "tcp4"));
    assert_ne!(flow_id(&computed, 0, "tcp4"), flow_id(&json(&["hash", "10.0.0.1:1000", "10.0.0.2:80"]), 0, "tcp4"));
}

/// The clients with which the original was shown to spread over eight buckets, in the buckets' order.
const EIGHT_CLIENTS: [&str; 8] =
    ["10.11.2.3", "10.11.2.2", "10.11.2.32", "10.11.2.33", "10.11.2.64", "10.11.2.65", "10.11.2.17", "10.11.2.18"];

fn sources(plan: &Value) -> Vec<String> {
    plan["flows"].as_array().unwrap().iter().map(|flow| flow["source"].as_str().unwrap().to_owned()).collect()
}

fn buckets(plan: &Value) -> Vec<u64> {
    plan["flows"].as_array().unwrap().iter().map(|flow| number(&flow["bucket"])).collect()
}

#[test]
fn the_originals_eight_clients_cover_eight_buckets() {
    for (bucket, client) in EIGHT_CLIENTS.iter().enumerate() {
        let computed = json(&["hash", client, "10.11.2.1", "--buckets", "8"]);
        assert_eq!(computed["directions"][0]["hashes"][0]["bucket"], bucket);
    }
    let mut clients = EIGHT_CLIENTS;
    clients.sort_unstable();
    let plan = json(&["plan", &clients.join(","), "10.11.2.1", "--buckets", "all", "--of", "8"]);
    assert_eq!((buckets(&plan), sources(&plan)), ((0..8).collect(), EIGHT_CLIENTS.map(String::from).to_vec()));
}

#[test]
fn addresses_of_a_prefix_lead_where_they_should() {
    let plan = json(&["plan", "10.11.2.77/24", "10.11.2.1", "--buckets", "7,0-3", "--of", "16", "--lanes", "3"]);
    assert_eq!(buckets(&plan), [7, 0, 1, 2, 3]);
    for (source, bucket) in sources(&plan).iter().zip(buckets(&plan)) {
        assert!(source.starts_with("10.11.2.") && source != "10.11.2.1", "{source}");
        let computed = json(&["hash", source, "10.11.2.1", "--buckets", "16", "--lanes", "3"]);
        assert_eq!(computed["directions"][0]["hashes"][0]["bucket"], bucket);
        assert_eq!(computed["directions"][0]["hashes"][0]["lane"], bucket % 3);
    }
    let v6 = json(&["plan", "2001:db8::/64", "2001:db8::1", "--buckets", "all"]);
    assert_eq!(buckets(&v6), (0..128).collect::<Vec<_>>());
    assert!(sources(&v6).iter().all(|source| source.starts_with("2001:db8::") && source != "2001:db8::"));
}

#[test]
fn ports_lead_where_they_should() {
    for (source, destination) in [("10.0.0.1", "10.0.0.2:80"), ("2001:db8::1", "[2001:db8::2]:80")] {
        let plan = json(&["plan", source, destination, "--buckets", "all", "--of", "8", "--ports", "40000-41000"]);
        assert_eq!(buckets(&plan), (0..8).collect::<Vec<_>>());
        for (source, bucket) in sources(&plan).iter().zip(buckets(&plan)) {
            let port: u32 = source.rsplit_once(':').unwrap().1.parse().unwrap();
            assert!((40_000..=41_000).contains(&port));
            let computed = json(&["hash", source, destination, "--buckets", "8"]);
            assert_eq!(computed["directions"][0]["hashes"][1]["bucket"], bucket);
        }
    }
    let shown = text(&["plan", "10.0.0.1", "10.0.0.2:80", "--buckets", "5"]);
    assert!(shown.starts_with("bucket  lane  source\n     5  ") && shown.lines().count() == 2, "{shown}");
}

#[test]
fn what_is_wrong_with_a_hash_is_named() {
    let cases: &[(&[&str], &[&str])] = &[
        (&["10.0.0.1", "::1"], &["10.0.0.1 and ::1 are not of one family"]),
        (&["10.0.0.1:80", "10.0.0.2"], &["one end has a port", "give both, or none"]),
        (&["10.0.0.256", "10.0.0.2"], &["\"10.0.0.256\" is not an address", "[2001:db8::1]:80"]),
        (&["10.0.0.1:99999", "10.0.0.2:1"], &["\"10.0.0.1:99999\" is not an address"]),
        (&["localhost", "10.0.0.2"], &["\"localhost\" is not an address"]),
        (&["10.0.0.1", "10.0.0.2", "--key", "6d:5a"], &["--key", "40 or 52 bytes, not 2"]),
        (&["10.0.0.1", "10.0.0.2", "--key", "6d5a"], &["--key", "two hexadecimal digits"]),
        (&["10.0.0.1", "10.0.0.2", "--key", &["00"; 40].join(":")], &["--key", "all bits of the key are equal"]),
        (&["10.0.0.1", "10.0.0.2", "--buckets", "100"], &["--buckets", "a power of two from 1 to 1024"]),
        (&["10.0.0.1", "10.0.0.2", "--buckets", "0"], &["--buckets", "a power of two"]),
        (&["10.0.0.1", "10.0.0.2", "--lanes", "0"], &["--lanes", "give at least one"]),
        (&["10.0.0.1", "10.0.0.2", "--lanes", "257"], &["--lanes", "256"]),
        (
            &["10.0.0.1", "10.0.0.2", "--lanes", "9", "--buckets", "8"],
            &["--lanes", "9 lanes are too many for a table of 8 buckets"],
        ),
    ];
    for (arguments, words) in cases {
        refuses(&[&["hash"], *arguments].concat(), words);
    }
}

#[test]
fn what_is_wrong_with_a_plan_is_named() {
    let cases: &[(&[&str], &[&str])] = &[
        (&["10.11.2.0/24", "::1"], &["not of one family"]),
        (&["10.11.2.2,::2", "10.11.2.1"], &["not of one family"]),
        (&["10.11.2.0/33", "10.11.2.1"], &["\"10.11.2.0/33\" is neither a prefix"]),
        (&["10.11.2.2,", "10.11.2.1"], &["\"\" is neither a prefix"]),
        (&["10.11.2.0/24", "10.11.2.1:80"], &["leave the port of the destination off"]),
        (&["10.11.2.2", "10.11.2.1"], &["give the destination a port"]),
        (&["10.11.2.2:1000", "10.11.2.1:80"], &["the source port is to be found: leave it off"]),
        (&["10.11.2.2", "10.11.2.1:80", "--ports", "9-3"], &["--ports", "\"9-3\" is not a range of ports"]),
        (&["10.11.2.2", "10.11.2.1:80", "--ports", "5"], &["none of 1 flows leads to bucket", "more --ports"]),
        (&["10.11.2.0/30", "10.11.2.1"], &["none of 1 flows leads to bucket", "wider SOURCE"]),
    ];
    for (arguments, words) in cases {
        refuses(&[&["plan", "--buckets", "all"], *arguments].concat(), words);
    }
    for (list, words) in [
        ("128", "there is no bucket 128: the table has 0 to 127"),
        ("3-1", "\"3-1\" is neither a bucket nor a range such as 0-3, or all"),
        ("", "\"\" is neither a bucket"),
        ("1,1", "bucket 1 is named twice"),
    ] {
        refuses(&["plan", "10.11.2.0/24", "10.11.2.1", "--buckets", list], &["--buckets", words]);
    }
}
