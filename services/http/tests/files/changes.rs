//! Files that change, come and go, while they are asked for and sent.

use crate::tools::Server;
use corelane::testing::{MS, S};

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
