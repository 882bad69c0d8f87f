//! Files that change, come and go, while they are asked for and sent.

use super::tools::Server;
use corelane::testing::{MS, S};
use std::time::Duration;

#[test]
fn a_change_is_seen_within_a_second() {
    let mut server = Server::new(|files| files);
    let first = server.get("/a.txt");
    server.world.write_file("site/a.txt", b"9876543210");
    server.rig.wait(S + MS);
    let second = server.get("/a.txt");
    assert_eq!(second.content, "9876543210");
    assert_ne!(first.field("etag"), second.field("etag"));
    server.world.remove_file("site/a.txt");
    server.rig.wait(S + MS);
    assert_eq!(server.status("/a.txt"), 404);
    server.world.write_file("site/a.txt", b"third");
    assert_eq!(server.get("/a.txt").content, "third", "what is not there is not remembered");
    server.end();
}

#[test]
fn a_file_compressed_later_is_seen_within_a_second() {
    let mut server = Server::new(|files| files);
    let ask = |server: &mut Server| server.ask("GET", "/without/b.css", "Accept-Encoding: gzip").content;
    assert_eq!(ask(&mut server), "b {}");
    server.world.write_file("site/without/b.css.gz", b"<gz>");
    server.rig.wait(S + MS);
    assert_eq!(ask(&mut server), "<gz>");
    server.world.remove_file("site/without/b.css.gz");
    server.rig.wait(S + MS);
    assert_eq!(ask(&mut server), "b {}");
    server.end();
}

const LARGE: usize = 3_000_000;

/// A server with a large file on a slow disk.
fn with_large_file() -> Server {
    let server = Server::new(|files| files);
    server.world.write_file("site/large.bin", &[b'1'; LARGE]);
    server.world.slow_disk(50 * MS);
    server
}

/// Asks for the large file, and hears until some of it has come.
fn begin(server: &mut Server) -> String {
    server.say("GET /large.bin HTTP/1.1\r\nHost: a\r\n\r\n");
    let heard = server.hear();
    assert!(heard.starts_with("HTTP/1.1 200 OK\r\n") && heard.contains(&format!("Content-Length: {LARGE}\r\n")), "{heard:.200}");
    assert!(heard.len() < LARGE, "it has not all come yet");
    heard
}

/// The disk answers when it likes, and clients come and go meanwhile: what waits for it is bounded.
#[test]
fn of_more_windows_than_may_be_asked_for_the_rest_is_asked_for_afterwards() {
    const CLIENTS: usize = 1500;
    const AT_ONCE: usize = 1024;
    const LEAVE: usize = 100;
    let mut server = with_large_file();
    server.world.slow_disk(S);
    let mut clients = Vec::new();
    for many in 0..CLIENTS / 100 {
        clients.extend((0..100).map(|number| server.rig.connect(1 + many * 100 + number)));
        server.rig.wait(20 * MS);
    }
    for client in &clients {
        client.send(b"GET /large.bin HTTP/1.1\r\nHost: a\r\nRange: bytes=0-9\r\n\r\n");
    }
    server.rig.wait(500 * MS);
    // Some leave: of those that were asked for, and of those that wait.
    clients.drain(AT_ONCE + 100..AT_ONCE + 100 + LEAVE).for_each(|client| client.reset());
    let mut answered = 0;
    let mut answers = |server: &mut Server, nanoseconds| {
        server.rig.wait(nanoseconds);
        let heard = clients.iter().filter(|client| client.read(usize::MAX).ends_with(b"1111111111")).count();
        answered += heard;
        answered
    };
    assert_eq!(answers(&mut server, Duration::ZERO), 0);
    let first = answers(&mut server, S);
    assert!((AT_ONCE - LEAVE..=AT_ONCE).contains(&first), "{first} at once");
    assert_eq!(answers(&mut server, S), CLIENTS - LEAVE);
    server.end();
}

#[test]
fn a_cold_disk_holds_nobody_else_up() {
    let mut server = with_large_file();
    server.get("/a.txt");
    let other = server.rig.connect(1);
    server.rig.wait(20 * MS);
    server.say("GET /large.bin HTTP/1.1\r\nHost: a\r\n\r\n");
    server.rig.wait(10 * MS);
    assert!(server.rig.ask(&other, "GET /a.txt HTTP/1.1\r\nHost: a\r\n\r\n").ends_with("0123456789"));
    let mut heard = server.hear();
    while heard.len() < LARGE {
        heard += &server.hear();
    }
    assert!(heard.split_once("\r\n\r\n").unwrap().1 == "1".repeat(LARGE));
    assert_eq!(server.rig.named("files_cold"), 3);
    other.close();
    server.end();
}

#[test]
fn a_file_that_is_replaced_or_deleted_while_it_is_sent_is_sent_as_it_was() {
    for deleted in [false, true] {
        let mut server = with_large_file();
        let mut heard = begin(&mut server);
        server.world.remove_file("site/large.bin");
        if !deleted {
            server.world.write_file("site/large.bin", &[b'2'; LARGE]);
        }
        while heard.len() < LARGE {
            heard += &server.hear();
        }
        assert!(heard.split_once("\r\n\r\n").unwrap().1 == "1".repeat(LARGE));
        let next = server.ask("HEAD", "/large.bin", "");
        assert_eq!(next.status, if deleted { 404 } else { 200 });
        server.end();
    }
}

#[test]
fn a_file_that_becomes_shorter_while_it_is_sent_ends_the_connection() {
    let mut server = with_large_file();
    let mut heard = begin(&mut server);
    server.world.write_file("site/large.bin", b"short");
    for _ in 0..10 {
        server.rig.wait(100 * MS);
        heard += &server.read();
    }
    assert!(heard.len() < LARGE && server.has_ended(), "the length that was announced cannot be kept");
    assert_eq!(server.rig.named("answers_cut_short"), 1);
    server.end();
}

#[test]
fn a_client_that_never_reads_takes_no_memory() {
    let mut server = with_large_file();
    server.world.write_file("site/large.bin", &[b'1'; 64 << 20]);
    server.say("GET /large.bin HTTP/1.1\r\nHost: a\r\n\r\n");
    server.rig.wait(10 * S);
    assert!(server.rig.arenas[0].used() < 64 << 10, "{} bytes", server.rig.arenas[0].used());
    assert!(server.rig.named("files_cold") < 8, "nor is the file read ahead for it");
    server.end();
}

#[test]
fn names_that_are_not_there_are_not_remembered() {
    let mut server = Server::new(|files| files);
    server.get("/a.txt");
    let used = server.rig.arenas[0].used();
    for number in 0..2_000 {
        assert_eq!(server.status(&format!("/nothing/{number}")), 404);
    }
    assert_eq!((server.rig.arenas[0].used(), server.world.open_files()), (used, 1), "the root is open, and nothing else");
    server.end();
}

#[test]
fn a_full_table_of_descriptors_is_said() {
    let mut server = Server::new(|files| files);
    // Once more when its directory is watched: then it need not be looked at again.
    server.get("/a.txt");
    server.get("/a.txt");
    let open = server.world.open_descriptors(0);
    server.world.limit_descriptors(0, open);
    let answer = server.get("/style.css");
    assert_eq!((answer.status, answer.field("retry-after")), (503, "1"));
    assert_eq!(server.status("/a.txt"), 200, "what is in memory is served");
    server.world.limit_descriptors(0, open + 2);
    assert_eq!(server.status("/style.css"), 200);
    server.end();
}

/// The file is read after it was opened: what comes between is not to stand under the tag of what was before.
#[test]
fn bytes_never_stand_under_the_tag_of_the_state_before() {
    for pause in 0..40 {
        let mut server = Server::new(|files| files);
        let opened = |server: &Server| server.world.log().iter().filter(|line| line.contains(" opened")).count();
        let before = opened(&server);
        server.say("GET /a.txt HTTP/1.1\r\nHost: a\r\n\r\n");
        while opened(&server) == before {
            server.rig.wait(MS / 100);
        }
        server.rig.wait(pause * MS / 50);
        server.world.write_file("site/a.txt", b"abcdefghij");
        let first = super::tools::Answer::of(&server.hear());
        server.rig.wait(2 * S);
        let second = server.get("/a.txt");
        assert_eq!(second.content, "abcdefghij");
        let is_same = first.field("etag") == second.field("etag");
        assert_eq!(
            is_same,
            first.content == second.content,
            "changed {pause} later: {} under {}",
            first.content,
            first.field("etag")
        );
        server.end();
    }
}

#[test]
fn who_asks_at_once_waits_for_one_lookup() {
    let mut server = Server::new(|files| files);
    let others: Vec<_> = (1..10).map(|number| server.rig.connect(number)).collect();
    server.rig.wait(20 * MS);
    let opened = |server: &Server| server.world.log().iter().filter(|line| line.contains(" opened")).count();
    let before = opened(&server);
    let request = "GET /a.txt HTTP/1.1\r\nHost: a\r\n\r\n";
    others.iter().for_each(|other| assert_eq!(other.send(request.as_bytes()), request.len()));
    server.rig.wait(50 * MS);
    for other in &others {
        assert!(String::from_utf8(other.read(usize::MAX)).unwrap().ends_with("0123456789"));
        other.close();
    }
    assert_eq!(opened(&server) - before, 2, "once to be read, and once more to see that it was no other meanwhile");
    server.end();
}

/// What a lookup finds, or does not, beneath a directory in whose place another was put meanwhile is not kept for what lies beneath that.
#[test]
fn what_was_found_beneath_the_root_before_is_not_kept() {
    for before in 0..60 {
        let mut server = Server::new(|files| files.errors("pages"));
        server.world.write_file("pages/50x.html", b"<p>cannot");
        for (path, bytes) in [("empty.txt", "no more"), ("without/b.css", "b {}"), ("without/b.css.gz", "<gz>")] {
            server.world.write_file(format!("new/{path}"), bytes.as_bytes());
        }
        server.world.write_file("new pages/404.html", b"<p>gone fishing");
        // Each run has times of its own.
        (0..before).for_each(|_| assert_eq!(server.status("/nothing"), 404));
        server.rig.wait(S + 10 * MS);
        for (name, new) in [("site", "new"), ("pages", "new pages")] {
            server.world.rename(name, format!("{name} before"));
            server.world.rename(new, name);
        }
        // The root is opened again while they are looked for.
        let questions = [
            ("/empty.txt", "", "no more"),
            ("/without/b.css", "Accept-Encoding: gzip", "<gz>"),
            ("/nothing", "", "<p>gone fishing"),
        ];
        let peers = [1, 2, 3].map(|number| server.rig.connect(number));
        server.rig.wait(20 * MS);
        for ((path, fields, _), peer) in questions.iter().zip(&peers) {
            let request =
                format!("GET {path} HTTP/1.1\r\nHost: a\r\n{fields}{}\r\n", if fields.is_empty() { "" } else { "\r\n" });
            assert_eq!(peer.send(request.as_bytes()), request.len());
        }
        server.rig.wait(100 * MS);
        peers.iter().for_each(|peer| peer.close());
        for (path, fields, content) in questions {
            assert_eq!(server.ask("GET", path, fields).content, content, "{path}, {before} requests before");
        }
        server.end();
    }
}
