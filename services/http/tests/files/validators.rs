//! What tells a state of a file from others: tags and dates that mean what they say, whatever happens to the file.

use super::tools::{Answer, Server};
use corelane::testing::{MS, S};
use std::time::Duration;

const LARGE: usize = 300_000;

/// A server of these files, which were put there so late, and then given the date that they have on all servers.
fn with(files: &[(&str, &[u8])], late: Duration) -> Server {
    let mut server = Server::new(|files| files);
    server.world.write_file("site/of this server alone", b"");
    server.rig.wait(late);
    for (name, bytes) in files {
        server.world.write_file(format!("site/{name}"), bytes);
        server.world.set_modified(format!("site/{name}"), 5 * S);
    }
    server.rig.wait(S);
    server
}

#[test]
fn two_servers_of_one_tree_agree() {
    let large = vec![b'1'; LARGE];
    let files =
        [("small.css", &b"small {}"[..]), ("small.css.gz", b"<gz>"), ("large.css", &large), ("large.css.br", &large[1..])];
    let [mut one, mut other] = [MS, 700 * MS].map(|late| with(&files, late));
    for (path, coding, is_weak) in [
        ("/small.css", "identity", false),
        ("/small.css", "gzip", false),
        ("/large.css", "identity", true),
        ("/large.css", "br", true),
    ] {
        let ask = |server: &mut Server, field: &str| server.ask("GET", path, &format!("Accept-Encoding: {coding}\n{field}"));
        let tag = ask(&mut one, "").field("etag").to_owned();
        assert_eq!(tag, ask(&mut other, "").field("etag"), "{path} in {coding}");
        // Somebody has set the dates, and might have set them for other bytes.
        assert_eq!(tag.starts_with("W/"), is_weak, "{path}: {tag}");
        assert_eq!(ask(&mut other, &format!("If-None-Match: {tag}")).status, 304, "{path}");
    }
    [one, other].into_iter().for_each(Server::end);
}

#[test]
fn a_file_that_is_rolled_back_is_another_one() {
    let mut server = Server::new(|files| files);
    server.rig.wait(10 * S);
    server.world.write_file("site/new.txt", b"the new state");
    let new = server.get("/new.txt").field("last-modified").to_owned();
    server.rig.wait(10 * S);
    // What was before is put back, with the date that it had.
    server.world.write_file("site/new.txt", b"the old state");
    server.world.set_modified("site/new.txt", 5 * S);
    server.rig.wait(2 * S);
    let old = server.get("/new.txt").field("last-modified").to_owned();
    assert!(!old.is_empty() && old != new, "{old}");
    assert_eq!(server.ask("GET", "/new.txt", &format!("If-Modified-Since: {new}")).content, "the old state");
    assert_eq!(server.ask("GET", "/new.txt", &format!("If-Unmodified-Since: {new}")).status, 412);
    assert_eq!(server.ask("GET", "/new.txt", &format!("If-Modified-Since: {old}")).status, 304, "its own date names it");
    let late = "Fri, 31 Dec 2100 23:59:59 GMT";
    assert_eq!(server.ask("GET", "/new.txt", &format!("If-Modified-Since: {late}")).status, 304, "it has not changed since");
    server.end();
}

#[test]
fn a_backslash_in_a_tag_hides_no_other() {
    let mut server = Server::new(|files| files);
    let tag = server.get("/a.txt").field("etag").to_owned();
    assert_eq!(server.ask("GET", "/a.txt", &format!(r#"If-None-Match: "x\", {tag}"#)).status, 304);
    assert_eq!(server.ask("GET", "/a.txt", &format!(r#"If-Match: "x\\\", {tag}"#)).status, 200);
    server.end();
}

#[test]
fn what_was_compressed_before_the_last_change_is_not_sent() {
    let mut server = Server::new(|files| files);
    let ask = |server: &mut Server| server.ask("GET", "/style.css", "Accept-Encoding: gzip").content;
    assert_eq!(ask(&mut server), "<gz>");
    server.rig.wait(2 * S);
    server.world.write_file("site/style.css", b"newer {}");
    server.rig.wait(S + MS);
    for _ in 0..3 {
        assert_eq!(ask(&mut server), "newer {}");
        server.rig.wait(S + MS);
    }
    server.world.write_file("site/style.css.gz", b"<newer>");
    server.rig.wait(S + MS);
    assert_eq!(ask(&mut server), "<newer>");
    server.end();
}

/// Asks for a large file on a slow disk, and changes it in place when some of it has come; what came in all.
fn changed_meanwhile(is_dated: bool) -> (Server, Answer) {
    let mut server = Server::new(|files| files);
    server.world.write_file("site/large.bin", &[b'1'; 3_000_000]);
    if is_dated {
        server.world.set_modified("site/large.bin", 5 * S);
    }
    server.world.slow_disk(50 * MS);
    server.say("GET /large.bin HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut heard = server.hear();
    while Answer::of(&heard).content.is_empty() {
        heard += &server.hear();
    }
    server.world.write_file("site/large.bin", &[b'2'; 3_000_000]);
    for _ in 0..20 {
        server.rig.wait(100 * MS);
        heard += &server.read();
    }
    (server, Answer::of(&heard))
}

#[test]
fn no_other_bytes_leave_under_a_strong_tag() {
    let (server, answer) = changed_meanwhile(false);
    assert!(answer.field("etag").starts_with('"'), "{}", answer.field("etag"));
    assert!(!answer.content.contains('2') && answer.content.len() < 3_000_000 && server.has_ended());
    assert_eq!(server.rig.named("answers_cut_short"), 1);
    server.end();
    let (server, answer) = changed_meanwhile(true);
    assert!(answer.field("etag").starts_with("W/\""), "{}", answer.field("etag"));
    assert!(answer.content.len() == 3_000_000 && !server.has_ended(), "a weak tag promises no state");
    server.end();
}

#[test]
fn a_large_file_is_open_once_whoever_is_sent_whatever_state_of_it() {
    const READERS: usize = 60;
    const LENGTH: usize = 3_000_000;
    let mut server = Server::new(|files| files);
    server.get("/a.txt");
    let before = server.world.open_files();
    let readers: Vec<_> = (1..=READERS).map(|number| server.rig.connect(number)).collect();
    for state in 0..3 {
        server.world.write_file("site/large.bin", &vec![b'1'; LENGTH + state]);
        // Its owner has dated it, so its tag is weak and promises no state.
        server.world.set_modified("site/large.bin", 5 * S);
        server.rig.wait(2 * S);
        for reader in &readers[state * READERS / 3..(state + 1) * READERS / 3] {
            reader.send(b"GET /large.bin HTTP/1.1\r\nHost: a\r\n\r\n");
        }
        server.rig.wait(2 * S);
        // It is looked at again now and then, which takes one more for a moment; and its directory is watched.
        let open = server.world.open_files() - before;
        assert!((1..=3).contains(&open), "{open} files are open");
    }
    for reader in &readers {
        let mut heard = 0;
        while heard < LENGTH {
            server.rig.wait(MS);
            heard += reader.read(usize::MAX).len();
        }
        reader.close();
    }
    assert_eq!((server.rig.named("answers_cut_short"), server.rig.named("open_files_max_hits")), (0, 0));
    server.end();
}
