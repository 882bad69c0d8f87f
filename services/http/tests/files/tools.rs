//! A site, its server, and a client that asks one thing after the other.

use corelane::testing::{Faults, MS, Nobody, Peer, Rig, RigPlan, Status, World, patient};
use corelane_http::{Files, Http};

/// A server of `site` in a world without faults.
pub struct Server {
    pub world: World,
    pub rig: Rig,
    peer: Peer,
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    head: String,
    pub content: String,
}

impl Answer {
    pub fn of(text: &str) -> Self {
        let (head, content) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {text:?}"));
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Self { status, head: head.to_owned(), content: content.to_owned() }
    }

    /// The value of a field; empty if it is missing.
    pub fn field(&self, name: &str) -> &str {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        let mut values = lines.filter(|(of, _)| of.eq_ignore_ascii_case(name)).map(|(_, value)| value);
        let value = values.next().unwrap_or_default();
        assert_eq!(values.next(), None, "{name} twice in {}", self.head);
        value
    }
}

pub const SITE: &[(&str, &str)] = &[
    ("site/index.html", "<p>top"),
    ("site/a.txt", "0123456789"),
    ("site/empty.txt", ""),
    ("site/.secret", "secret"),
    ("site/.git/config", "secret"),
    ("site/with/index.html", "<p>with"),
    ("site/without/b.css", "b {}"),
    ("site/without/c d&'<.txt", "c"),
    ("site/style.css", "plain {}"),
    ("site/style.css.br", "<br>"),
    ("site/style.css.gz", "<gz>"),
    ("site/only.png", "png"),
    ("site/only.png.gz", "no"),
    ("outside.txt", "secret"),
];

pub fn fill(world: &World) {
    world.make_directory("site");
    for (path, bytes) in SITE {
        world.write_file(path, bytes.as_bytes());
    }
    world.make_link("site/inside", "a.txt", false);
    world.make_link("site/up", "../outside.txt", false);
    world.make_link("site/root", "/outside.txt", false);
    world.make_link("site/magic", "a.txt", true);
    world.make_link("site/down", "with", false);
}

impl Server {
    pub fn new(set: impl Fn(Files) -> Files + 'static) -> Self {
        Self::of(Faults::none(), &RigPlan::lanes(1).memory(16 << 20), set)
    }

    pub fn of(faults: Faults, plan: &RigPlan, set: impl Fn(Files) -> Files + 'static) -> Self {
        let world = World::new(1, faults);
        fill(&world);
        let mut rig = Rig::serving(&world, plan, patient(), move |_| Http::new(set(Files::new("site"))));
        let peer = rig.connect(0);
        rig.wait(20 * MS);
        Self { world, rig, peer }
    }

    /// Asks with these field lines.
    pub fn ask(&mut self, method: &str, path: &str, fields: &str) -> Answer {
        let lines: String = fields.lines().map(|line| format!("{}\r\n", line.trim())).collect();
        self.say(&format!("{method} {path} HTTP/1.1\r\nHost: a\r\n{lines}\r\n"));
        Answer::of(&self.hear())
    }

    pub fn say(&mut self, text: &str) {
        assert_eq!(self.peer.send(text.as_bytes()), text.len(), "room to ask {text:?}");
    }

    /// What has come.
    pub fn read(&mut self) -> String {
        String::from_utf8_lossy(&self.peer.read(usize::MAX)).into_owned()
    }

    /// Whether the server has ended the connection.
    pub fn has_ended(&self) -> bool {
        self.peer.status() != Status::Open
    }

    /// All that comes until nothing has for a while.
    pub fn hear(&mut self) -> String {
        let mut heard = Vec::new();
        for _ in 0..1_000 {
            self.rig.wait(MS);
            let more = self.peer.read(usize::MAX);
            if more.is_empty() && !heard.is_empty() {
                break;
            }
            heard.extend_from_slice(&more);
        }
        String::from_utf8_lossy(&heard).into_owned()
    }

    pub fn get(&mut self, path: &str) -> Answer {
        self.ask("GET", path, "")
    }

    pub fn status(&mut self, path: &str) -> u16 {
        self.get(path).status
    }

    /// Ends the lanes, which hold nothing then.
    pub fn end(mut self) {
        self.peer.close();
        self.rig.drain(&mut Nobody);
        assert_eq!((self.rig.named("panics"), self.world.open_files()), (0, 0));
    }
}
