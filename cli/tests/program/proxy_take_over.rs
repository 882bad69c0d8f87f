//! A process that proxies is followed by another one under load: nobody sees a cut.

use crate::common::*;
use crate::take_over::{Load, connects};
use std::cell::RefCell;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};

on_each_driver!(nobody_is_cut_off_by_a_restart,);

/// How often a process is followed by another.
const RESTARTS: usize = 4;

const FILE: usize = 20_000;

/// Follows a proxy, with the same options at the same addresses.
fn follow(driver: Driver, server: &Server, options: &[String; 3]) -> Server {
    let places: Vec<String> = server
        .urls
        .iter()
        .map(|url| {
            let (service, options) = match url.split_once(':').unwrap().0 {
                "tcp" => ("proxy", &options[0]),
                "http" => ("http", &options[1]),
                _ => ("proxy", &options[2]),
            };
            format!("{service}={}?{options}", url.split('?').next().unwrap())
        })
        .collect();
    let take_over = format!("--take-over={}", server.pid());
    let fixed = ["--driver", driver.name(), &take_over, "--limit", "drain_limit=10m"];
    let all: Vec<&str> = fixed.into_iter().chain(places.iter().map(String::as_str)).collect();
    Server::start_as(Launch { wrapper: &[], program: PROGRAM, arguments: &all, run: server.run.clone() })
}

thread_local! {
    /// The connection that a client of HTTP keeps.
    static KEPT: RefCell<Option<BufReader<TcpStream>>> = const { RefCell::new(None) };
}

/// Asks for the file on the connection that is kept, or on a new one where the last answer has ended that.
fn gets(at: SocketAddr) -> Result<(), String> {
    let mut stream = KEPT.take().unwrap_or_else(|| BufReader::new(connect(at)));
    let said = stream.get_mut().write_all(b"GET /file HTTP/1.1\r\nHost: a\r\n\r\n");
    said.map_err(|error| format!("asking: {error}"))?;
    let (mut line, mut is_last, mut first) = (String::new(), false, String::new());
    while line != "\r\n" {
        line.clear();
        let read = stream.read_line(&mut line).map_err(|error| format!("the head: {error}"))?;
        if read == 0 {
            return Err(format!("the connection has ended before the answer: {first:?}"));
        }
        is_last |= line.eq_ignore_ascii_case("connection: close\r\n");
        first = if first.is_empty() { line.clone() } else { first };
    }
    let mut content = vec![0; FILE];
    stream.read_exact(&mut content).map_err(|error| format!("{first:?}, the content: {error}"))?;
    if !first.starts_with("HTTP/1.1 200 ") || content != pattern(FILE, 5) {
        return Err(format!("answered with {first:?}"));
    }
    if !is_last {
        KEPT.set(Some(stream));
    }
    Ok(())
}

fn exchanges(at: SocketAddr) -> Result<(), String> {
    let socket: UdpSocket = datagrams_to(at);
    let (asked, mut answer) = (pattern(64, 3), [0; 100]);
    socket.send(&asked).map_err(|error| error.to_string())?;
    let length = socket.recv(&mut answer).map_err(|error| format!("no answer: {error}"))?;
    if answer[..length] == asked { Ok(()) } else { Err("another answer".to_owned()) }
}

fn nobody_is_cut_off_by_a_restart(driver: Driver) {
    let test = "proxy_take_over::nobody_is_cut_off_by_a_restart";
    let folder = Scratch::new();
    fs::write(folder.path().join("file"), pattern(FILE, 5)).unwrap();
    let site = format!("http=http://127.0.0.1:0?root={}", folder.path().display());
    let behind = Server::start(&["--lanes", "1", TCP, UDP, &site]);
    let to = |scheme: &str| format!("to={}", behind.address(scheme));
    let options = [to("tcp"), to("http"), to("udp")];
    let places = [
        format!("proxy=tcp://127.0.0.1:0?{}", options[0]),
        format!("http=http://127.0.0.1:0?{}", options[1]),
        format!("proxy=udp://127.0.0.1:0?{}", options[2]),
    ];
    let [tcp, http, udp] = places.each_ref().map(String::as_str);
    let Some(mut server) = driver.start(test, &["--lanes", "2", "--limit", "drain_limit=10m", tcp, http, udp]) else { return };
    let (tcp, http, udp) = (server.tcp(), server.address("http"), server.udp());
    let loads =
        [Load::begin(2, move || connects(tcp)), Load::begin(2, move || gets(http)), Load::begin(1, move || exchanges(udp))];
    loads.iter().for_each(Load::goes_on);
    for restart in 0..RESTARTS {
        // A pair that lives goes on in the process that has it, until one of both ends it.
        let mut pair = server.connect();
        echo(&mut pair, &pattern(1_000, 1));
        let new = follow(driver, &server, &options);
        assert_eq!((new.tcp(), new.address("http"), new.udp()), (tcp, http, udp));
        loads.iter().for_each(Load::goes_on);
        echo(&mut pair, &pattern(100_000, 2));
        assert!(server.count("accepts") > 0, "the one before serves its pair still, in restart {restart}");
        drop(pair);
        assert_eq!(server.ended().code(), Some(0), "{}", server.words());
        assert!(server.words().contains(&format!("process {} has taken over", new.pid())), "{}", server.words());
        loads.iter().for_each(Load::goes_on);
        server = new;
    }
    loads.into_iter().for_each(Load::ends_whole);
}
