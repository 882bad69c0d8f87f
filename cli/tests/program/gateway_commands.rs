//! `corelane gateway`: what a running gateway is asked and told, while packets go through it.

use crate::common::*;
use crate::gateway::{Traffic, ended, start, stations};
use crate::metrics::get;
use crate::packet::{ends, of_lanes};
use serde_json::{Value, json};
use std::process::Command;

on_each_driver!(a_gateway_is_shown_and_changed_by_command, a_thousand_rules_and_ten_thousand_routes_change_under_traffic);

/// Has the operator's command carried out; what it printed, or said.
pub fn gateway(server: &Server, arguments: &[&str]) -> Result<String, String> {
    // Who has given root's rights up is asked by his like, who needs a copy of the program.
    let user = server.status("Uid").to_string();
    let (who, copy) = ([format!("--reuid={user}"), format!("--regid={user}")], server.run.path().join("corelane"));
    let mut command = Command::new(if user == "0" { PROGRAM } else { "setpriv" });
    if user != "0" {
        command.args(who).arg("--clear-groups").arg(copy);
    }
    let done = output(command.arg("gateway").args(arguments).env("CORELANE_RUN_DIR", server.run.path()));
    let text = |bytes| String::from_utf8(bytes).unwrap().trim_end().to_owned();
    if done.status.success() { Ok(text(done.stdout)) } else { Err(text(done.stderr)) }
}

pub fn asked(server: &Server, arguments: &[&str]) -> String {
    gateway(server, arguments).unwrap_or_else(|said| panic!("{arguments:?}: {said}"))
}

pub fn json_of(server: &Server, arguments: &[&str]) -> Value {
    serde_json::from_str(&asked(server, &[&["--json"], arguments].concat())).unwrap()
}

/// Ten datagrams from station to station, of which all come.
const TEN: &str = r#"
sent = begun()
for number in range(9):
    tell(b"%d" % number)
    assert heard(30)
print(sent + 9)
"#;

fn a_gateway_is_shown_and_changed_by_command(driver: Driver) {
    let test = "gateway_commands::a_gateway_is_shown_and_changed_by_command";
    let folder = Scratch::new();
    let Some(server) = start(driver, test, &folder, "", &["--metrics", "127.0.0.1:0"]) else { return };
    let sent: u64 = ended(stations(&server, TEN)).parse().unwrap();
    metrics_tell_it(&server, sent);
    rules_are_shown_and_changed(&server, sent);
    sets_and_tables_are_changed(&server);
    scripts_are_carried_out_whole(&server, &folder);
    routes_are_changed(&server, &folder);
    packets_are_traced(&server);
    traffic_is_shown(&server, sent);
    losses_are_shown(&server);
    own_packets_are_judged(&server);
    ends(server);
    no_gateway_is_told_so(driver, test);
}

fn metrics_tell_it(server: &Server, sent: u64) {
    let address = server.urls.last().unwrap().strip_prefix("http://").unwrap().parse().unwrap();
    let read = || in_network_of(server.pid(), || get(address, "/metrics"));
    // Lanes that are too busy to answer at once are left out of an answer.
    let mut text = String::new();
    until("the lanes have answered", || {
        text = read();
        text.contains("corelane_gateway_rules 3")
    });
    for line in [
        &format!("corelane_gateway_rule_packets_total{{rule=\"100\",comment=\"\"}} {sent}"),
        "corelane_gateway_interface_packets_total{interface=\"outside\",direction=\"in\"} 0",
        "corelane_gateway_rules 3",
        "corelane_gateway_routes 1",
        "corelane_gateway_nat_sessions 0",
        "# TYPE corelane_gateway_rule_bytes_total counter",
    ] {
        assert!(text.lines().any(|told| told == line), "{line}: {text}");
    }
}

fn rules_are_shown_and_changed(server: &Server, sent: u64) {
    let rows = json_of(server, &["show"]);
    assert_eq!((rows[0]["number"].as_u64(), rows[0]["packets"].as_u64()), (Some(100), Some(sent)), "{rows}");
    assert!(rows[0]["idle_nanoseconds"].as_u64().is_some_and(|idle| idle < 60_000_000_000), "{rows}");
    let width = (sent * 2).to_string().len();
    let shown = asked(server, &["show"]);
    let first = shown.lines().next().unwrap();
    assert!(first.starts_with("00100 ") && first.ends_with(" count udp from any to any in via users10"), "{shown}");
    assert!(first.contains(&format!(" {sent:>width$} ")) && shown.lines().count() == 3, "{shown}");
    assert_eq!(asked(server, &["list", "200"]), "00200 deny udp from any to any dst-port 99 in");
    let words = "add 150 count ip from any to 10.0.20.0/24 out xmit users20 // both".split(' ').collect::<Vec<_>>();
    assert_eq!(asked(server, &words), "00150 count ip from any to 10.0.20.0/24 out xmit users20 // both");
    let added = json_of(server, &["add", "count", "ip", "from", "any", "to", "any"]);
    assert_eq!(
        added,
        json!({
            "added": 1, "lines": ["00300 count ip from any to any"], "rules": 5, "is_in_force": true
        })
    );
    assert_eq!(asked(server, &["delete", "300"]), "");
    assert_eq!(
        asked(server, &["show", "-T", "150"]),
        "00150 0 0          0 count ip from any to 10.0.20.0/24 out xmit users20 // both"
    );
    assert_eq!(json_of(server, &["show"])[0]["packets"], sent, "others count on");
    assert_eq!(asked(server, &["zero", "100"]), "Entry 100 cleared.");
    assert_eq!(json_of(server, &["show", "100"])[0]["packets"], 0);
    assert_eq!(asked(server, &["resetlog"]), "Logging counts reset.");
    assert_eq!(asked(server, &["resetlog", "100", "65535"]), "Entry 100 logging count reset.\nEntry 65535 logging count reset.");
    assert_eq!(asked(server, &["zero"]), "Accounting cleared.");
    for (arguments, words) in [
        (&["add", "100", "cuont", "ip", "from", "any", "to", "any"][..], "column 9: \"cuont\" is nothing that a rule does"),
        (&["delete", "300"], "no rule has the number 300"),
        (&["show", "300"], "no rule has the number 300"),
        (&["add", "100", "skipto", "50", "ip", "from", "any", "to", "any"], "name a number above the rule's own"),
        (&["zero", "7"], "no rule has the number 7"),
    ] {
        let said = gateway(server, arguments).unwrap_err();
        assert!(said.contains(words), "{arguments:?}: {said}");
    }
}

fn sets_and_tables_are_changed(server: &Server) {
    asked(server, &["add", "400", "set", "3", "deny", "ip", "from", "table(bad)", "to", "any"]);
    asked(server, &["set", "disable", "3"]);
    assert!(asked(server, &["set", "show"]).starts_with("disable 3 enable 0 1 2 4 "));
    assert!(
        !asked(server, &["list"]).contains("00400") && asked(server, &["list", "-S"]).contains("# DISABLED 00400 set 3 deny")
    );
    asked(server, &["set", "enable", "3"]);
    asked(server, &["table", "bad", "add", "198.51.100.0/24", "7", "2001:db8::/32"]);
    assert_eq!(asked(server, &["table", "bad", "list"]), "198.51.100.0/24 7\n2001:db8::/32 0");
    assert_eq!(asked(server, &["table", "all", "info"]), "--- table(bad): type addr, 2 keys");
    assert_eq!(json_of(server, &["table", "all", "list"])["bad"][0], json!({ "key": "198.51.100.0/24", "value": 7 }));
    asked(server, &["table", "bad", "delete", "198.51.100.0/24"]);
    assert_eq!(asked(server, &["table", "bad", "list"]), "2001:db8::/32 0");
    let said = gateway(server, &["table", "bad", "destroy"]).unwrap_err();
    assert!(said.contains("rule 400 names table bad; delete the rule first"), "{said}");
    asked(server, &["delete", "set", "3"]);
    asked(server, &["table", "bad", "destroy"]);
    assert!(gateway(server, &["table", "bad", "list"]).unwrap_err().contains("no table has the name bad"));
}

fn scripts_are_carried_out_whole(server: &Server, folder: &Scratch) {
    let path = folder.path().join("rules.sh");
    let path = path.to_str().unwrap();
    let before = asked(server, &["list"]);
    let script = "#!/bin/sh\nfwcmd=\"/sbin/ipfw -q\"\n$fwcmd add 500 count tcp from any to any \\\n  80\n$fwcmd add 600 count ip from any to me\n";
    std::fs::write(path, script).unwrap();
    let checked = asked(server, &["import", "--check", path]);
    assert!(checked.ends_with("00600 count ip from any to me\n2 rules would be added, 6 in all"), "{checked}");
    assert_eq!(asked(server, &["list"]), before);
    assert!(asked(server, &["import", path]).ends_with("2 rules added, 6 in all"));
    std::fs::write(path, "ipfw flush\nif true; then\n").unwrap();
    let said = gateway(server, &["import", path]).unwrap_err();
    assert!(said.contains("rules.sh: the text, line 2, column 1: "), "{said}");
    assert_eq!(asked(server, &["list"]).lines().count(), 6, "nothing was flushed");
    asked(server, &["delete", "500", "600"]);
    assert!(gateway(server, &["import", "/nowhere"]).unwrap_err().contains("reading /nowhere: "));
}

fn routes_are_changed(server: &Server, folder: &Scratch) {
    assert_eq!(asked(server, &["route", "show"]), "0.0.0.0/0 via 192.0.2.1");
    assert_eq!(asked(server, &["route", "add", "10.9.0.0/16", "via", "10.0.10.77"]), "1 added, 2 routes in all");
    assert_eq!(
        asked(server, &["route", "add", "10.9.0.0/16", "via", "10.0.10.77", "interface", "users10"]),
        "1 added, 3 routes in all"
    );
    assert_eq!(
        json_of(server, &["route", "show", "10.0.0.0/8"])[1],
        json!({
            "prefix": "10.9.0.0/16", "router": "10.0.10.77", "interface": "users10", "is_followed": false
        })
    );
    let way = asked(server, &["route", "get", "10.9.1.1"]);
    assert!(way.starts_with("10.9.1.1 via 10.0.10.77 interface users10, neighbour "), "{way}");
    let way = json_of(server, &["route", "get", "10.0.20.77"]);
    assert_eq!(
        (&way["interface"], &way["router"], &way["link_address"]),
        (&json!("users20"), &Value::Null, &json!("02:00:00:00:00:01"))
    );
    assert_eq!(asked(server, &["route", "get", "10.0.10.1"]), "10.0.10.1 is the gateway's own");
    assert_eq!(asked(server, &["route", "delete", "10.9.0.0/16"]), "2 deleted, 1 routes in all");
    let file = folder.path().join("routes");
    std::fs::write(&file, "# ours\n10.8.0.0/16 via 10.0.10.77\n10.7.0.0/16 via 172.16.0.1\n").unwrap();
    let file = file.to_str().unwrap();
    for (arguments, words) in [
        (&["route", "import", file][..], "routes: line 3: the router 172.16.0.1 is in no network"),
        (&["route", "add", "10.0.10.0/24", "via", "192.0.2.1"], "10.0.10.0/24 is a network of the gateway's own"),
        (&["route", "add", "10.8.1.0/16", "via", "192.0.2.1"], "write 10.8.0.0/16"),
        (&["route", "delete", "10.9.0.0/16"], "there is no route 10.9.0.0/16"),
    ] {
        let said = gateway(server, arguments).unwrap_err();
        assert!(said.contains(words), "{arguments:?}: {said}");
    }
    assert_eq!(asked(server, &["route", "show"]), "0.0.0.0/0 via 192.0.2.1");
}

fn packets_are_traced(server: &Server) {
    let lines = asked(server, &["trace", "in", "via", "users10", "udp", "10.0.10.77:7", ">", "10.0.20.77:99"]);
    let lines: Vec<&str> = lines.lines().collect();
    assert_eq!(lines[0], "00100 count udp from any to any in via users10: matches");
    assert!(
        lines.contains(&"verdict: deny by rule 200") && lines.last().unwrap().starts_with("carried out by tree: "),
        "{lines:?}"
    );
    let said = gateway(server, &["trace", "in", "via", "users30", "udp"]).unwrap_err();
    assert!(said.contains("there is no interface \"users30\"; name one of va1, users10, users20, outside"), "{said}");
    assert_eq!(json_of(server, &["show", "100"])[0]["packets"], 0, "a trace counts nothing");
}

fn traffic_is_shown(server: &Server, sent: u64) {
    let rows = json_of(server, &["interfaces"]);
    let row = rows.as_array().unwrap().iter().find(|row| row["name"] == "users10").unwrap();
    let packets = row["packets_in"].as_u64().unwrap();
    assert!((10..=sent).contains(&packets) && row["bytes_in"].as_u64().unwrap() >= 29 * packets, "{rows}");
    assert!(asked(server, &["interfaces"]).lines().any(|line| line.starts_with("users20 ")));
    let totals = json_of(server, &["status"]);
    let parts = ["lanes", "interfaces", "rules", "routes", "tables", "states"].map(|part| totals[part].as_u64().unwrap());
    assert_eq!(parts, [1, 4, 4, 1, 0, 0], "{totals}");
    assert!(totals["translated"]["sessions"].is_u64() && totals["execution"] == "tree", "{totals}");
    assert!(asked(server, &["status"]).starts_with("1 lane, 4 interfaces, 1 route\n4 rules, carried out by tree;"));
}

/// One of each from users10: refused by a rule, from elsewhere, with a wrong sum; and one for a port that nobody has.
const LOST: &str = r#"
mine, far = stations["a"][2], stations["b"][2]
put("a", b"\x08\x00", datagram(mine, far, (7, 99), b"refused"))
put("a", b"\x08\x00", datagram("10.0.20.99", far, (7, 9), b"forged"))
wrong = bytearray(datagram(mine, far, (7, 9), b"damaged"))
wrong[10] ^= 255
put("a", b"\x08\x00", bytes(wrong))
assert asked("a", datagram(mine, stations["a"][3], (7, 9), b"port"), "a", 1, stations["a"][3])[:2] == b"\x03\x03"
print("lost")
"#;

/// By interface and by reason, however it is asked for; lanes and programs together.
fn losses_are_shown(server: &Server) {
    let of = |server: &Server, name: &str| {
        let rows = json_of(server, &["interfaces"]);
        rows.as_array().unwrap().iter().find(|row| row["name"] == name).unwrap().clone()
    };
    let before = of(server, "users10");
    assert_eq!(ended(stations(server, LOST)), "lost");
    let after = of(server, "users10");
    let more = |reason: &str| after[reason].as_u64().unwrap() - before[reason].as_u64().unwrap();
    assert_eq!(["refused", "errors", "unsent"].map(more), [1, 1, 0], "{after}");
    // The last is said again until it is answered.
    assert!((2..20).contains(&more("drops")), "{after}");
    assert!(after["redirect_lost"].is_null() && after["not_ours"].is_u64(), "{after}");
    assert_eq!(of(server, "users20")["errors"], 0);
    let table = asked(server, &["interfaces"]);
    let head: Vec<&str> = table.lines().next().unwrap().split_whitespace().collect();
    let line = table.lines().find(|line| line.starts_with("users10 ")).unwrap();
    let cells: Vec<&str> = line.split_whitespace().collect();
    let cell = |column: &str| cells[head.iter().position(|name| *name == column).unwrap()];
    assert_eq!(["refused", "errors", "lost"].map(cell), [&after["refused"].to_string(), "1", "-"], "{table}");
    let totals = json_of(server, &["status"]);
    assert_eq!(totals["losses"]["errors"], 1, "{totals}");
    let status = asked(server, &["status"]);
    assert!(status.lines().any(|line| line.contains(" packets dropped, 1 with errors, 1 refused by rules, ")), "{status}");
    let address = server.urls.last().unwrap().strip_prefix("http://").unwrap().parse().unwrap();
    let read = || in_network_of(server.pid(), || get(address, "/metrics"));
    for reason in ["refused", "error"] {
        let line = format!("corelane_gateway_interface_drops_total{{interface=\"users10\",reason=\"{reason}\"}} 1");
        // Lanes that are too busy to answer at once are left out of an answer.
        until(&line, || read().lines().any(|told| told == line));
    }
}

/// What the gateway itself says passes the rules before it leaves; what keeps a link going does not.
fn own_packets_are_judged(server: &Server) {
    asked(server, &["add", "500", "count", "icmp", "from", "me", "to", "any", "out", "xmit", "users10", "icmptypes", "0"]);
    let ping = r#"
mine, gateway = stations["a"][2:]
assert asked("a", echo(mine, gateway, 1), "a", 1, gateway)[0] == 0
quiet()
print("answered")
"#;
    let echoes = |server: &Server| of_lanes(server, "echoes_answered")[0];
    let before = echoes(server);
    assert_eq!(ended(stations(server, ping)), "answered");
    let counted = json_of(server, &["show", "500"])[0]["packets"].as_u64().unwrap();
    assert!(counted > 0, "an answer leaves by the rules");
    until("what was answered is counted", || echoes(server) - before == counted);
    asked(server, &["add", "50", "deny", "ip", "from", "me", "to", "any", "out"]);
    let silent = r#"
mine, gateway = stations["a"][2:]
put("a", b"\x08\x00", echo(mine, gateway, 2))
assert not heard(0.3)
put("a", b"\x08\x06", bytes.fromhex("0001080006040001") + macs["a"] + socket.inet_aton(mine) + bytes(6) + socket.inet_aton(gateway))
came = b""
while came[12:14] != b"\x81\x00" or came[16:18] != b"\x08\x06":
    came = hear("vb1")
print(came[24:26].hex())
"#;
    assert_eq!(ended(stations(server, silent)), "0002", "no ping is answered, and ARP is");
    assert_eq!(json_of(server, &["show", "50"])[0]["packets"], 1);
    asked(server, &["delete", "50", "500"]);
}

fn no_gateway_is_told_so(driver: Driver, test: &str) {
    let Some(plain) = driver.start(test, &["--lanes", "1", "echo=udp://127.0.0.1:0"]) else { return };
    let said = gateway(&plain, &["show"]).unwrap_err();
    assert!(said.contains("this process is no gateway: start one with `serve gateway=CONFIG.toml`"), "{said}");
    ends(plain);
}

/// So often all of it changes.
const ROUNDS: usize = 3;

fn a_thousand_rules_and_ten_thousand_routes_change_under_traffic(driver: Driver) {
    let test = "gateway_commands::a_thousand_rules_and_ten_thousand_routes_change_under_traffic";
    let folder = Scratch::new();
    let Some(server) = start(driver, test, &folder, "", &[]) else { return };
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (script, there, gone) = (path("rules.sh"), path("there"), path("gone"));
    let traffic = Traffic::begin(&server, &folder);
    let networks = || (0..10_000).map(|number| format!("10.{}.{}.0/24", 100 + number / 256, number % 256));
    std::fs::write(&there, networks().map(|network| format!("{network} via 192.0.2.1\n")).collect::<String>()).unwrap();
    std::fs::write(&gone, networks().map(|network| format!("delete {network}\n")).collect::<String>()).unwrap();
    for round in 0..ROUNDS {
        let delete = if round > 0 { "ipfw -q delete 1000-1999\n" } else { "" };
        let rules =
            (0..1_000).map(|number| format!("ipfw -q add {} count udp from any to any {}\n", 1_000 + number, round * 7 + number));
        std::fs::write(&script, rules.fold(delete.to_owned(), |all, rule| all + &rule)).unwrap();
        assert!(asked(&server, &["import", &script]).ends_with("1000 rules added, 1003 in all"));
        assert_eq!(asked(&server, &["route", "import", &there]), "10000 added, 10001 routes in all");
        assert_eq!(asked(&server, &["route", "import", &gone]), "10000 deleted, 1 routes in all");
    }
    let sent = traffic.end();
    let rows = json_of(&server, &["show"]);
    assert_eq!((rows[0]["packets"].as_u64(), rows.as_array().unwrap().len()), (Some(sent), 1_003), "no count is lost");
    ends(server);
}
