//! A service that this program has never heard of: `stat` shows what it counts.

#[allow(dead_code)] // its main
#[path = "../../../crates/corelane/examples/shop.rs"]
mod shop;

use crate::common::*;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;

#[test]
fn stat_shows_the_counters_of_somebody_elses_service() {
    let lanes = corelane::Lanes::per_core().lanes(1).serve_entry(&shop::SHOP, "tcp://127.0.0.1:0?price=3&stock=10").unwrap();
    let running = lanes.start().unwrap();
    let mut stream = TcpStream::connect(running.address()).unwrap();
    stream.write_all(b"4\n7\n").unwrap();
    let mut answers = [0; 6];
    stream.read_exact(&mut answers).unwrap();
    assert_eq!(&answers, b"12\nno\n");
    let folder = running.page().expect("a page that others can read").parent().unwrap();
    let stat = |more: &[&str]| {
        let mut command = Command::new(PROGRAM);
        let shown =
            output(command.args(["stat", "--pid", &std::process::id().to_string()]).args(more).env("CORELANE_RUN_DIR", folder));
        assert!(shown.status.success(), "{shown:?}");
        String::from_utf8(shown.stdout).unwrap()
    };
    let words = stat(&["--all"]);
    for (name, value, unit) in [("apples_sold", 4, "apples"), ("orders_refused", 1, "requests"), ("apples_left", 6, "apples")] {
        let line = format!("  {name:<32}{value:>20} {unit}");
        assert!(words.lines().any(|shown| shown.trim_end() == line), "{line:?} is not in\n{words}");
    }
    let page: serde_json::Value = serde_json::from_str(&stat(&["--json"])).unwrap();
    assert_eq!(page["services"][0]["counters"]["apples_sold"], 4);
}
