//! Files that somebody else serves, who answers each call late: the lane serves others meanwhile, and what it sends of such a file it has read before.

use super::tools::Server;
use corelane::admin::watch::LaneCounter;
use corelane::testing::{MS, S};
use std::time::Duration;

/// How long each call takes.
const LATE: Duration = Duration::from_secs(3);

#[test]
fn whoever_serves_files_late_holds_up_those_alone_who_ask_for_them() {
    let mut server = Server::new(|files| files.listing(true).errors("pages"));
    let large: String = (0..70_000).map(|number| format!("{number:05}\n")).collect();
    server.world.write_file("site/large.bin", large.as_bytes());
    server.world.write_file("pages/404.html", b"<p>gone fishing");
    assert_eq!(server.get("/a.txt").content, "0123456789");
    server.world.far_files(Some(LATE));
    // The root is opened again there.
    server.rig.wait(2 * S);
    server.say("GET /a.txt HTTP/1.1\r\nHost: a\r\n\r\n");
    server.rig.wait(4 * LATE);
    assert!(server.read().ends_with("0123456789"));
    let paths = ["/large.bin", "/style.css", "/without/", "/nothing", "/with"];
    let askers: Vec<_> = (1..).zip(paths).map(|(number, path)| (server.rig.connect(number), path)).collect();
    server.rig.wait(20 * MS);
    for (asker, path) in &askers {
        asker.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes());
    }
    let mut heard = vec![String::new(); paths.len()];
    let mut quick = 0;
    for _ in 0..200 {
        server.rig.wait(500 * MS);
        for ((asker, _), heard) in askers.iter().zip(&mut heard) {
            *heard += &String::from_utf8(asker.read(usize::MAX)).unwrap();
        }
        // What needs no file is answered at once, on the same lane.
        assert_eq!(server.ask("OPTIONS", "*", "").status, 204);
        quick += usize::from(heard[0].len() < large.len());
    }
    assert!(quick > 20, "it was late: {quick}");
    let contents = [&large, "plain {}", "b.css", "gone fishing", "301 Moved Permanently"];
    for ((heard, content), path) in heard.iter().zip(contents).zip(paths) {
        assert!(heard.contains(content), "{path}: {heard:.300}");
    }
    assert!(server.rig.named("files_cold") > 0, "parts were read before they were sent");
    askers.iter().for_each(|(asker, _)| asker.close());
    server.end();
}

#[test]
fn a_list_of_many_names_is_put_together_by_a_helper() {
    let mut server = Server::new(|files| files.listing(true));
    for number in 0..300 {
        server.world.write_file(format!("site/many/{number:03}"), b"");
    }
    let before = server.rig.lane_count(LaneCounter::Offloads);
    assert!(server.get("/many/").content.contains("299"));
    assert_eq!(server.rig.lane_count(LaneCounter::Offloads) - before, 1);
    server.end();
}

#[test]
fn that_a_root_is_gone_is_told_once_and_that_it_is_back() {
    let mut server = Server::new(|files| files);
    server.get("/a.txt");
    server.world.forbid("site", true);
    for _ in 0..4 {
        server.rig.wait(2 * S);
        server.get("/style.css");
    }
    let told =
        |server: &Server, words: &str| server.rig.reports.borrow().iter().filter(|record| record.text.contains(words)).count();
    assert_eq!((server.status("/style.css"), told(&server, "the directory site cannot be opened")), (503, 1));
    server.world.forbid("site", false);
    server.rig.wait(2 * S);
    server.get("/style.css");
    server.rig.wait(2 * S);
    assert_eq!((server.status("/style.css"), told(&server, "can be opened again")), (200, 1));
    server.end();
}
