//! A gateway that is confined, and one that has given its rights up: both load rules anew.

use crate::common::*;
use crate::gateway::{CONFIGURATION, RULES, WIRES, can_run, ended, stations, write};
use crate::gateway_commands::{asked, json_of};
use crate::packet::ends;
use nix::sys::signal::Signal;
use nix::unistd::{Uid, chown};
use serde_json::Value;
use std::sync::Arc;

/// Ways of the fast path take a far end that receives with GRO.
const GRO: &str = "ethtool -K vb1 gro on && ethtool -K vb2 gro on";

/// Starts one as that user, in a folder of his, which has its files.
fn start(test: &str, user: u32) -> Option<Server> {
    if !can_run(test) || !have(test, &["ethtool"]) {
        return None;
    }
    let folder = Arc::new(Scratch::new());
    // By it he asks and tells.
    let _program = copy_for_all(&folder);
    chown(folder.path(), Some(Uid::from_raw(user)), None).unwrap();
    std::fs::write(folder.path().join("gw.toml"), CONFIGURATION).unwrap();
    std::fs::write(folder.path().join("gateway.rules"), RULES).unwrap();
    let script = format!("{WIRES} && {GRO} && exec \"$0\" \"$@\"");
    let (place, user) = (format!("gateway={}", folder.path().join("gw.toml").display()), user.to_string());
    let user = if user == "0" { vec![] } else { vec!["--user", &user] };
    let arguments = [&["--driver", "epoll", "--lanes", "1"], &user[..], &[&place]].concat();
    let wrapper = ["unshare", "--net", "sh", "-c", &script];
    Some(Server::start_as(Launch { wrapper: &wrapper, program: PROGRAM, arguments: &arguments, run: folder }))
}

fn fast_path(server: &Server) -> Value {
    json_of(server, &["status"])["fast_path"].clone()
}

/// Whether a datagram of `a` to that port of `b` comes: then it does before another that is sent behind it.
fn passes(server: &Server, port: u16) -> bool {
    let script = format!(
        r#"
came, tries = [], 0
while 9 not in came:
    tries += 1
    assert tries < 100
    for port in ({port}, 9):
        put("a", b"\x08\x00", datagram(stations["a"][2], stations["b"][2], (7, port), b"on"))
    came += [ports(one[3])[1] for one in heard(0.1) if one[0] == "b"]
print({port} in came)
"#
    );
    ended(stations(server, &script)) == "True"
}

/// Has the ways of both addresses learnt by the ports' programs.
fn learnt(server: &Server) {
    let before = fast_path(server)["forwarded"].as_u64().unwrap();
    until("programs forward", || passes(server, 9) && fast_path(server)["forwarded"].as_u64().unwrap() > before);
}

/// Refuses one port by a file that is read again, and one by command; what is refused at last, whoever forwards.
fn is_ruled_anew(server: &Server) {
    assert!(passes(server, 11) && passes(server, 12));
    write(&server.run.path().join("gateway.rules"), &format!("{RULES}add 50 deny udp from any to any 11 in\n"));
    server.signal(Signal::SIGHUP);
    until("the file's rules are in force", || asked(server, &["list"]).contains("00050 deny"));
    assert!(!passes(server, 11) && passes(server, 12) && passes(server, 9));
    asked(server, &["add", "60", "deny", "udp", "from", "any", "to", "any", "12", "in"]);
    assert!(!passes(server, 11) && !passes(server, 12) && passes(server, 9));
}

#[test]
fn a_confined_process_loads_rules_anew() {
    let test = "gateway_confined::a_confined_process_loads_rules_anew";
    let Some(server) = start(test, 0) else { return };
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
    assert!(status.contains("\nSeccomp:\t2\n"), "{status}");
    learnt(&server);
    is_ruled_anew(&server);
    // The programs have the rules of now.
    learnt(&server);
    let now = fast_path(&server);
    assert!(now["is_on"] == true && now["why_not"].is_null(), "{now}");
    ends(server);
}

#[test]
fn a_process_without_rights_leaves_packets_to_lanes_when_rules_change() {
    let test = "gateway_confined::a_process_without_rights_leaves_packets_to_lanes_when_rules_change";
    let Some(server) = start(test, ORDINARY_USER) else { return };
    assert_eq!(server.status("Uid"), u64::from(ORDINARY_USER));
    learnt(&server);
    is_ruled_anew(&server);
    let before = fast_path(&server);
    assert!(before["is_on"] == false && before["why_not"].is_string(), "{before}");
    assert!(passes(&server, 9));
    assert_eq!(fast_path(&server)["forwarded"], before["forwarded"], "lanes forward");
    ends(server);
}
