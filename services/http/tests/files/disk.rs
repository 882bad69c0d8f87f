//! A disk that fails (EIO) while files are asked for and sent.

use super::tools::{Answer, Server};
use corelane::testing::{MS, S};

const LARGE: usize = 3_000_000;

fn large() -> String {
    (0..LARGE / 10).map(|number| format!("{number:09}\n")).collect()
}

#[test]
fn what_cannot_be_read_is_said_until_it_can() {
    let mut server = Server::new(|files| files.listing(true).errors("pages"));
    server.world.write_file("pages/500.html", b"<p>the disk");
    server.world.write_file("pages/404.html", b"<p>gone fishing");
    // Until its directory is watched, and it need not be looked at again.
    for _ in 0..3 {
        server.rig.wait(S + 10 * MS);
        assert_eq!(server.get("/nothing").content, "<p>gone fishing");
        assert_eq!(server.get("/a.txt").content, "0123456789");
    }
    server.world.break_disk(true);
    for path in ["/style.css", "/with/", "/without/"] {
        for _ in 0..2 {
            let answer = server.get(path);
            assert_eq!(answer.status, 500, "{path}");
            assert!(
                answer.content.contains("<h1>500 Internal Server Error</h1>"),
                "nor can its page be read: {}",
                answer.content
            );
        }
    }
    assert_eq!(server.get("/a.txt").content, "0123456789", "what is in memory needs no disk");
    assert_eq!(server.get("/nothing").content, "<p>gone fishing", "nor does its page");
    server.world.break_disk(false);
    for (path, content) in [("/style.css", "plain {}"), ("/with/", "<p>with")] {
        let answer = server.get(path);
        assert_eq!((answer.status, answer.content.as_str()), (200, content), "{path}: a fault is not remembered");
    }
    assert_eq!((server.status("/without/"), server.get("/nothing").content.as_str()), (200, "<p>gone fishing"));
    server.end();
}

/// Of what was promised a part is missing: the connection says so by its end, and others go on.
fn breaks_in_the_middle(server: &mut Server, mut heard: String) {
    assert!(heard.starts_with("HTTP/1.1 200 OK\r\n") && heard.contains(&format!("Content-Length: {LARGE}\r\n")), "{heard:.200}");
    server.world.break_disk(true);
    let other = server.rig.connect(1);
    for _ in 0..10 {
        server.rig.wait(100 * MS);
        heard += &server.read();
    }
    let content = &Answer::of(&heard).content;
    assert!(!content.is_empty() && content.len() < LARGE && large().starts_with(content), "{} bytes", content.len());
    assert!(server.has_ended());
    assert!(server.rig.ask(&other, "GET /a.txt HTTP/1.1\r\nHost: a\r\n\r\n").ends_with("0123456789"));
    other.close();
}

#[test]
fn a_disk_that_fails_before_the_next_part_ends_the_connection() {
    let mut server = Server::new(|files| files);
    server.get("/a.txt");
    server.world.write_file("site/large.bin", large().as_bytes());
    server.world.slow_disk(50 * MS);
    server.say("GET /large.bin HTTP/1.1\r\nHost: a\r\n\r\n");
    // It has heard the first part, and the next one is being read.
    let mut heard = server.hear();
    while Answer::of(&heard).content.is_empty() {
        heard += &server.hear();
    }
    breaks_in_the_middle(&mut server, heard);
    assert_eq!(server.rig.named("answers_cut_short"), 1);
    server.end();
}

#[test]
fn a_disk_that_fails_while_a_part_leaves_ends_the_connection() {
    let mut server = Server::new(|files| files);
    server.get("/a.txt");
    server.world.write_file("site/large.bin", large().as_bytes());
    server.say("GET /large.bin HTTP/1.1\r\nHost: a\r\n\r\n");
    // It has not read yet, so the part that was read ahead waits for room.
    server.rig.wait(20 * MS);
    let heard = server.read();
    breaks_in_the_middle(&mut server, heard);
    server.end();
}
