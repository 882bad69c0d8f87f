//! Load on Unix sockets: what a run counts is what the server counts.

use super::*;

on_each_driver!(every_workload_goes_over_unix_sockets);

fn every_workload_goes_over_unix_sockets(driver: Driver) {
    let folder = Scratch::new();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let places = [
        format!("echo=unix:{}", at("echo")),
        format!("echo=unixgram:{}", at("datagrams")),
        format!("rpc=unix:{}", at("rpc")),
        format!("rpc=unixgram:{}", at("calls")),
    ];
    let arguments: Vec<&str> = ["--lanes", "2"].into_iter().chain(places.iter().map(String::as_str)).collect();
    let Some(server) = driver.start("load::unix::every_workload_goes_over_unix_sockets", &arguments) else { return };
    for (what, more) in [
        (vec!["echo".to_owned(), format!("unix:{}", at("echo"))], &["--connections", "20", "--depth", "4"][..]),
        (vec![format!("unix:{}", at("echo"))], &["--rate", "5000", "--size", "3000"]),
        (vec!["udp".to_owned(), format!("unixgram:{}", at("datagrams"))], &["--connections", "3", "--depth", "4"]),
        (vec![format!("unixgram:{}", at("datagrams"))], &["--singles"]),
        (vec!["rpc".to_owned(), format!("unix:{}", at("rpc"))], &["--connections", "5", "--depth", "8"]),
        (vec!["rpc".to_owned(), format!("unixgram:{}", at("calls"))], &["--size", "500"]),
    ] {
        let what: Vec<&str> = what.iter().map(String::as_str).collect();
        let fixed = ["--json", "--quiet", "--driver", driver.name(), "--requests", "1000", "--timeout", "20s"];
        let mut command = load_command(&[], &server.run, &[&fixed, &what[..], more].concat());
        let run = Run::of(&output(&mut command));
        run.met(&[]).doubted(&[]);
        assert_eq!(run.report.requests, 1000, "{what:?}");
    }
    let echo = format!("unix:{}", at("echo"));
    says(&[], &["echo", &echo, "--source", "127.0.0.1"], 2, &["source", "leave it out"]);
    says(&[], &["echo", &format!("unix:{}", at("nobody")), "--requests", "1"], 1, &["cannot be reached: not found"]);
}
