//! `[graphs]` of a gateway's configuration: what is counted is kept over a restart, and shown at `/gateway` and in a page alone.

use crate::common::*;
use crate::gateway::{CONFIGURATION, Own, Traffic, start_own};
use crate::gateway_commands::gateway;
use crate::metrics::get;
use crate::packet::ends;
use nix::sys::signal::Signal;
use serde_json::Value;
use std::path::Path;
use std::time::Duration;

fn start_with_graphs(test: &str, folder: &Scratch, file: &Path) -> Option<Server> {
    let configuration = format!("{CONFIGURATION}\n[graphs]\nfile = {:?}\n", file.display());
    let arguments = ["--lanes", "1", "--dashboard", "127.0.0.1:0"];
    let own = Own { configuration: &configuration, arguments: &arguments, ..Own::default() };
    start_own(Driver::Epoll, test, folder, &own)
}

/// What a path of the dashboard's has.
fn shown(server: &Server, path: &str) -> String {
    let address = server.urls.last().unwrap().strip_prefix("http://").unwrap().trim_end_matches('/').parse().unwrap();
    let answer = in_network_of(server.pid(), || get(address, path));
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.0 200"), "{head}");
    body.to_owned()
}

fn day_of(server: &Server) -> Value {
    serde_json::from_str(&shown(server, "/gateway/day")).unwrap()
}

/// The most bytes a second that came in by a network in any interval, as far as it is known.
fn most_of(day: &Value, network: &str) -> Option<f64> {
    let of =
        |list: &'static str, key: &'static str, name: &str| day[list].as_array()?.iter().find(|one| one[key] == name).cloned();
    let network = of("interfaces", "name", network)?;
    let series = network["series"].as_array()?.iter().find(|one| one["what"] == "bytes in")?.clone();
    let most = series["m"].as_array().or(series["a"].as_array())?;
    most.iter().filter_map(Value::as_f64).reduce(f64::max)
}

/// When the gateway was started, as the notes have it.
fn starts(day: &Value) -> usize {
    day["notes"].as_array().unwrap().iter().filter(|note| note["text"] == "the gateway has started").count()
}

#[test]
fn graphs_are_kept_over_a_kill_and_a_restart() {
    let test = "gateway_graphs::graphs_are_kept_over_a_kill_and_a_restart";
    let (folder, kept) = (Scratch::new(), Scratch::new());
    let file = kept.path().join("graphs");
    let Some(mut server) = start_with_graphs(test, &folder, &file) else { return };
    let written = || std::fs::metadata(&file).and_then(|known| known.modified()).ok();
    until("the file is made", || written().is_some());
    // What is counted is known from the second reading on, ten seconds after the first.
    Traffic::begin(&server, &folder).end();
    let first = written().unwrap();
    until("it is written again", || written().is_some_and(|now| now > first + Duration::from_secs(5)));
    let mut day = Value::Null;
    until("it is known", || {
        day = day_of(&server);
        most_of(&day, "users10").is_some()
    });
    let most = most_of(&day, "users10").unwrap();
    assert!(most > 0.0 && starts(&day) == 1, "{day}");
    assert_eq!(day["rules"][0]["text"], "count udp from any to any in via users10", "{day}");
    server.signal(Signal::SIGKILL);
    server.ended();
    drop(server);
    let server = start_with_graphs(test, &folder, &file).unwrap();
    until("the start is noted", || starts(&day_of(&server)) == 2);
    assert_eq!(most_of(&day_of(&server), "users10"), Some(most), "what was known before is known");
    let page = shown(&server, "/gateway");
    assert!(page.contains("<title>") && page.contains("id=\"embedded\">null<"), "the page asks its server");
    let (out, wrong) = (kept.path().join("gateway.html"), folder.path().join("gw.toml"));
    let [graphs, out, wrong] = [&file, &out, &wrong].map(|path| path.to_str().unwrap());
    // While it runs, and when it has ended.
    let alone = || {
        assert_eq!(gateway(&server, &["graphs", graphs, "--out", out]).as_deref(), Ok(""));
        let page = std::fs::read_to_string(out).unwrap();
        assert!(page.contains("\"users10\"") && page.contains("the gateway has started") && !page.contains("embedded\">null<"));
        let all: Value = serde_json::from_str(&gateway(&server, &["--json", "graphs", graphs]).unwrap()).unwrap();
        assert_eq!((most_of(&all["day"], "users10"), starts(&all["day"])), (Some(most), 2));
        std::fs::remove_file(out).unwrap();
    };
    alone();
    let said = gateway(&server, &["graphs", wrong, "--out", out]).unwrap_err();
    assert!(said.contains("gw.toml: it is no file of graphs"), "{said}");
    server.signal(Signal::SIGTERM);
    until("it has ended", || std::net::TcpStream::connect(("127.0.0.1", 9)).is_err());
    alone();
    ends(server);
}
