//! `[routes]` of a gateway's configuration: packets go as a table of the kernel's says, while that changes.

use crate::common::*;
use crate::gateway::{CONFIGURATION, Own, WIRES, ended, start_own, stations};
use crate::gateway_commands::asked;
use crate::packet::ends;
use crate::packet_ports::run;
use std::process::Child;

/// What `b` sends there comes to `a`, which is a router to it, or to `o`, by the gateway's own route and translated.
fn comes_to(server: &Server, far: &str, station: &str) {
    let script = format!(
        r#"
mine = stations["b"][2]
quiet()
print(asked("b", datagram(mine, {far:?}, (7, 9), b"on"), {station:?}, 17, {{"a": mine, "o": "192.0.2.2"}}[{station:?}])[8:])
"#
    );
    let script: Child = stations(server, &script);
    assert_eq!(ended(script), "b'on'", "{far} by {station}");
}

#[test]
fn packets_go_as_the_kernels_table_says() {
    let test = "gateway_routes::packets_go_as_the_kernels_table_says";
    let folder = Scratch::new();
    let configuration = format!("{CONFIGURATION}\n[routes]\nfollow = {{ table = 100 }}\n");
    // The kernel's interface has another name than the network that the router is in.
    let by_a = "via 10.0.10.77 dev va1 onlink table 100";
    let wires = format!("{WIRES} && ip route add 10.31.0.0/16 {by_a}");
    let own = Own { wires: &wires, configuration: &configuration, arguments: &["--lanes", "1"], ..Own::default() };
    let Some(server) = start_own(Driver::Epoll, test, &folder, &own) else { return };
    let has = |routes: &[&str]| {
        let all = [&["0.0.0.0/0 via 192.0.2.1"], routes].concat().join("\n");
        until(&all, || asked(&server, &["route", "show"]) == all);
    };
    has(&["10.31.0.0/16 via 10.0.10.77 followed"]);
    comes_to(&server, "10.31.0.5", "a");
    comes_to(&server, "10.30.0.5", "o");
    run(&server, &format!("ip route add 10.30.0.0/16 {by_a}"));
    has(&["10.30.0.0/16 via 10.0.10.77 followed", "10.31.0.0/16 via 10.0.10.77 followed"]);
    comes_to(&server, "10.30.0.5", "a");
    run(&server, "ip route delete 10.30.0.0/16 table 100");
    has(&["10.31.0.0/16 via 10.0.10.77 followed"]);
    comes_to(&server, "10.30.0.5", "o");
    // Nobody is there, so the route is left out, and told once.
    run(&server, "ip route add 10.32.0.0/16 via 10.77.0.1 dev va1 onlink table 100");
    until("it is told", || server.words().contains("[CL-0036] 1 routes of the kernel's table 100 are left out"));
    comes_to(&server, "10.32.0.5", "o");
    comes_to(&server, "10.31.0.5", "a");
    ends(server);
}
