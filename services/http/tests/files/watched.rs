//! Small files whose directories are watched: what is told is seen at once, what is not within a minute, and meanwhile nobody looks.

use super::tools::{Answer, Server};
use corelane::testing::{FaultKind, Faults, MS, RigPlan, S, Tuning};
use std::time::Duration;

/// A server in whose memory these files are, with their directories watched.
fn with(files: &[&str]) -> Server {
    let mut server = Server::new(|files| files);
    settle(&mut server, files);
    server
}

/// Asks until all directories are watched, and each file was looked at since.
fn settle(server: &mut Server, files: &[&str]) {
    for _ in 0..3 {
        for file in files {
            assert_eq!(server.status(file), 200, "{file}");
        }
        server.rig.wait(S + 10 * MS);
    }
}

fn opened(server: &Server) -> usize {
    server.world.log().iter().filter(|line| line.contains(" opened")).count()
}

/// Asks, and says how many files and directories were opened for that; the root is opened once a second.
fn opens(server: &mut Server, path: &str) -> (usize, Answer) {
    server.get("/empty.txt");
    let before = opened(server);
    let answer = server.get(path);
    (opened(server) - before, answer)
}

/// Time for a notice to come.
fn soon(server: &mut Server) {
    server.rig.wait(5 * MS);
}

#[test]
fn nobody_looks_as_long_as_nothing_is_told() {
    let mut server = with(&["/a.txt", "/with/", "/empty.txt"]);
    assert_eq!(server.world.watched_directories(), 2);
    for _ in 0..5 {
        server.rig.wait(10 * S);
        for path in ["/a.txt", "/with/"] {
            let (opened, answer) = opens(&mut server, path);
            assert_eq!((opened, answer.status), (0, 200), "{path}");
        }
    }
    server.rig.wait(11 * S);
    assert_eq!(opens(&mut server, "/a.txt").0, 1, "once a minute it is looked at");
    server.rig.wait(50 * S);
    assert_eq!(opens(&mut server, "/a.txt").0, 0);
    server.end();
}

type Change = fn(&Server);

/// Another directory comes to the place of the file's.
fn put_instead(server: &Server) {
    server.world.rename("site/sub/deep", "site/sub/else");
    server.world.rename("instead", "site/sub/deep");
}

#[test]
fn what_is_told_is_seen_at_once() {
    let changes: [(&str, Change, u16, &str); 10] = [
        ("written", |server| server.world.write_file("site/sub/deep/x.txt", b"new"), 200, "new"),
        ("replaced", |server| server.world.rename("other.txt", "site/sub/deep/x.txt"), 200, "other"),
        ("removed", |server| server.world.remove_file("site/sub/deep/x.txt"), 404, ""),
        ("forbidden", |server| server.world.forbid("site/sub/deep/x.txt", true), 403, ""),
        ("above forbidden", |server| server.world.forbid("site/sub/deep", true), 200, "old"),
        ("moved away", |server| server.world.rename("site/sub/deep", "site/sub/else"), 404, ""),
        ("a directory in the place of its own", put_instead, 200, "instead"),
        (
            "one in the place of that above",
            |server| {
                server.world.rename("site/sub", "elsewhere");
                server.world.write_file("site/sub/deep/x.txt", b"above");
            },
            200,
            "above",
        ),
        (
            "a link in its place",
            |server| {
                server.world.remove_file("site/sub/deep/x.txt");
                server.world.make_link("site/sub/deep/x.txt", "/outside.txt", false);
            },
            404,
            "",
        ),
        (
            "a link in the place of its directory",
            |server| {
                server.world.rename("site/sub/deep", "site/sub/else");
                server.world.make_link("site/sub/deep", "../../instead", false);
            },
            404,
            "",
        ),
    ];
    for (what, change, status, content) in changes {
        let mut server = Server::new(|files| files);
        server.world.write_file("site/sub/deep/x.txt", b"old");
        server.world.write_file("instead/x.txt", b"instead");
        server.world.write_file("other.txt", b"other");
        settle(&mut server, &["/sub/deep/x.txt"]);
        assert_eq!(server.world.watched_directories(), 3);
        change(&server);
        soon(&mut server);
        let answer = server.get("/sub/deep/x.txt");
        assert_eq!(answer.status, status, "{what}");
        assert!(status != 200 || answer.content == content, "{what}: {}", answer.content);
        server.end();
    }
}

#[test]
fn another_root_of_the_same_name_is_seen_within_a_second() {
    let mut server = with(&["/a.txt"]);
    server.world.rename("site", "before");
    server.world.write_file("site/a.txt", b"another");
    server.rig.wait(S + 10 * MS);
    server.get("/empty.txt");
    assert_eq!(server.get("/a.txt").content, "another");
    server.world.write_file("site/a.txt", b"and it is watched");
    server.rig.wait(S + 10 * MS);
    settle(&mut server, &["/a.txt"]);
    server.world.write_file("site/a.txt", b"at once");
    soon(&mut server);
    assert_eq!(server.get("/a.txt").content, "at once");
    server.end();
}

#[test]
fn a_file_compressed_later_is_seen_at_once() {
    let mut server = with(&["/without/b.css"]);
    let ask = |server: &mut Server| server.ask("GET", "/without/b.css", "Accept-Encoding: gzip").content;
    for _ in 0..2 {
        assert_eq!(ask(&mut server), "b {}");
        server.rig.wait(2 * S);
    }
    server.world.write_file("site/without/b.css.gz", b"<gz>");
    soon(&mut server);
    assert_eq!(ask(&mut server), "<gz>");
    server.end();
}

#[test]
fn what_lies_behind_a_link_is_looked_at_each_second() {
    let mut server = Server::new(|files| files);
    server.world.make_link("site/across", "without/b.css", false);
    settle(&mut server, &["/inside", "/down/", "/across"]);
    for (link, file) in [("/inside", "site/a.txt"), ("/down/", "site/with/index.html"), ("/across", "site/without/b.css")] {
        server.get(link);
        server.world.write_file(file, b"changed");
        server.rig.wait(S + 10 * MS);
        assert_eq!(server.get(link).content, "changed", "{link}");
    }
    server.end();
}

#[test]
fn a_file_with_another_name_is_looked_at_each_second() {
    let mut server = Server::new(|files| files);
    server.world.name_file("elsewhere/b.txt", "site/a.txt");
    settle(&mut server, &["/a.txt"]);
    server.world.write_file("elsewhere/b.txt", b"by its other name");
    server.rig.wait(S + 10 * MS);
    assert_eq!(server.get("/a.txt").content, "by its other name");
    server.end();
}

#[test]
fn what_nobody_tells_is_seen_within_a_minute() {
    let mut server = with(&["/a.txt"]);
    // Of neither its directory is told.
    server.world.name_file("elsewhere/b.txt", "site/a.txt");
    server.world.write_file("elsewhere/b.txt", b"by its other name");
    soon(&mut server);
    assert_eq!(server.get("/a.txt").content, "0123456789");
    server.rig.wait(60 * S);
    assert_eq!(server.get("/a.txt").content, "by its other name");
    server.end();
}

#[test]
fn a_date_that_was_set_back_hides_nothing() {
    let mut server = with(&["/a.txt"]);
    let before = server.get("/a.txt");
    server.world.write_file("site/a.txt", b"abcdefghij");
    server.world.set_modified("site/a.txt", Duration::ZERO);
    soon(&mut server);
    let after = server.get("/a.txt");
    assert_eq!(after.content, "abcdefghij");
    assert_ne!(before.field("etag"), after.field("etag"));
    settle(&mut server, &["/a.txt"]);
    // The same once more, so that but for the time that nobody can set all is the same.
    server.world.write_file("site/a.txt", b"ABCDEFGHIJ");
    server.world.set_modified("site/a.txt", Duration::ZERO);
    soon(&mut server);
    let last = server.get("/a.txt");
    assert_eq!(last.content, "ABCDEFGHIJ");
    assert_ne!(last.field("etag"), after.field("etag"));
    server.end();
}

#[test]
fn a_refused_watch_is_counted_and_files_are_looked_at_each_second() {
    let refused = Faults::none().with(FaultKind::RefusedFileWatch, 1_000);
    let no_watches = Tuning::default().watches_max(0);
    for (faults, tuning) in [(refused, Tuning::default()), (Faults::none(), no_watches)] {
        let plan = RigPlan::lanes(1).tuning(tuning);
        let mut server = Server::of(faults, &plan, |files| files);
        settle(&mut server, &["/a.txt"]);
        let refused = server.rig.lane_count(corelane::admin::watch::LaneCounter::WatchesRefused);
        assert!((1..=6).contains(&refused), "{refused}");
        assert_eq!(server.world.watched_directories(), 0);
        server.world.write_file("site/a.txt", b"changed");
        server.rig.wait(S + 10 * MS);
        assert_eq!(server.get("/a.txt").content, "changed");
        assert_eq!(server.rig.reports.borrow().iter().filter(|record| record.text.contains("not watched")).count(), 1);
        server.end();
    }
}

#[test]
fn a_directory_where_something_happens_all_the_time_is_watched_four_times_a_second() {
    let mut server = with(&["/a.txt"]);
    let watched = |server: &Server| server.world.log().iter().filter(|line| line.contains(" watched")).count();
    let before = watched(&server);
    for _ in 0..500 {
        server.world.write_file("site/log", b"line");
        server.rig.wait(10 * MS);
        assert_eq!(server.get("/a.txt").content, "0123456789");
    }
    let watches = watched(&server) - before;
    assert!((8..=32).contains(&watches), "{watches} in more than five seconds");
    server.end();
}

/// Each is seen as soon as it is told, four of them within a second; what then happens is seen within a second.
#[test]
fn changes_that_follow_each_other_are_seen_at_once() {
    let mut server = with(&["/a.txt"]);
    for round in 0..3 {
        for number in 0..5 {
            let content = format!("{round}.{number}");
            server.world.write_file("site/a.txt", content.as_bytes());
            soon(&mut server);
            let seen = server.get("/a.txt").content;
            match number {
                0..4 => assert_eq!(seen, content, "a change that is told"),
                _ => assert_eq!(seen, format!("{round}.3"), "the directory rests"),
            }
        }
        server.rig.wait(S + 10 * MS);
        assert_eq!(server.get("/a.txt").content, format!("{round}.4"));
        settle(&mut server, &["/a.txt"]);
    }
    server.end();
}

#[test]
fn directories_are_watched_as_long_as_their_files_are_kept() {
    let mut server = Server::new(|files| files.cache_bytes(20_000));
    for number in 0..200 {
        server.world.write_file(format!("site/{number}/x.txt"), b"x");
    }
    for number in 0..200 {
        assert_eq!(server.get(&format!("/{number}/x.txt")).content, "x");
    }
    server.rig.wait(10 * MS);
    let watched = server.world.watched_directories();
    assert!((2..=40).contains(&watched), "{watched}");
    server.end();
}

#[test]
fn what_lies_too_deep_is_looked_at_each_second() {
    let mut server = Server::new(|files| files);
    let path = format!("{}x.txt", "d/".repeat(20));
    server.world.write_file(format!("site/{path}"), b"first");
    settle(&mut server, &[&format!("/{path}")]);
    assert_eq!(server.world.watched_directories(), 0);
    server.world.write_file(format!("site/{path}"), b"second");
    server.rig.wait(S + 10 * MS);
    assert_eq!(server.get(&format!("/{path}")).content, "second");
    server.end();
}
