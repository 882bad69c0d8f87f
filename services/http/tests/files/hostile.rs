//! Clients that mean harm, and ask for files: what they hold is bounded, and others are served meanwhile.

use super::tools::{Answer, Server};
use corelane::admin::watch::LaneCounter;
use corelane::testing::{MS, S};

/// Long lists of names, for which many ask and which nobody reads.
#[test]
fn who_reads_no_list_of_names_holds_little() {
    let mut server = Server::new(|files| files.listing(true));
    for number in 0..5_000 {
        server.world.write_file(format!("site/many/{number:05}{}", "a".repeat(200)), b"");
    }
    let readers: Vec<_> = (1..=20).map(|number| server.rig.connect(number)).collect();
    server.rig.wait(MS);
    for reader in &readers {
        reader.send(b"GET /many/ HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    for _ in 0..5 {
        server.rig.wait(S);
        assert_eq!(server.get("/a.txt").content, "0123456789", "others are served");
    }
    let held = server.rig.lane_count(LaneCounter::MemoryUsed);
    assert!(held <= 20 * 2 * (256 << 10), "{held} bytes for 20 readers");
    let mut heard = Vec::new();
    for _ in 0..2_000 {
        heard.extend(readers[0].read(usize::MAX));
        server.rig.wait(MS);
    }
    let list = Answer::of(&String::from_utf8(heard).unwrap());
    assert_eq!((list.status, list.field("content-length")), (200, list.content.len().to_string().as_str()));
    assert!(list.content.starts_with("<!doctype html>") && list.content.ends_with("the others are not shown.\n"));
    readers.iter().for_each(|reader| reader.reset());
    let head = server.ask("HEAD", "/many/", "");
    assert_eq!((head.status, head.field("content-length")), (200, list.content.len().to_string().as_str()));
    server.end();
}

/// Each answer holds its file open until it has left.
#[test]
fn who_asks_for_many_large_files_and_reads_none_holds_few_open() {
    let mut server = Server::new(|files| files);
    server.world.write_file("site/large.bin", &[b'1'; 300_000]);
    server.get("/a.txt");
    server.say(&"GET /large.bin HTTP/1.1\r\nHost: a\r\n\r\n".repeat(200));
    server.rig.wait(5 * S);
    let (open, begun) = (server.world.open_files(), server.rig.named("answers_2xx"));
    assert!(open <= 2 && begun < 20, "{open} files are open, the root among them, for {begun} answers");
    server.end();
}
