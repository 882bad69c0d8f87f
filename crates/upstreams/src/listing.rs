//! What sources of upstreams say. They are looked at again and again, by helper threads.

use crate::source::{LISTED_MAX, Source};
use crate::srv;
use crate::targets::{Target, TargetError};
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

/// The most bytes of a file.
const FILE_BYTES_MAX: u64 = 64 << 10;

/// How often a file is looked at.
const FILE_EVERY: Duration = Duration::from_secs(1);

/// What a source says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    /// The upstreams; none if nothing has changed. Or why there are none, with the place of a mistake.
    pub targets: Result<Option<Vec<Target>>, String>,
    /// By which it is known again.
    pub stamp: Option<u64>,
    /// When to look at it again, if somebody knows better than the settings.
    pub again: Option<Duration>,
}

impl Listing {
    /// Asks a source. Waits for a disk, or for seconds: for helper threads. `known` is the stamp of the last answer, and `is_tls` says that those that it names are spoken to by TLS.
    pub fn of(source: &Source, known: Option<u64>, is_tls: bool) -> Self {
        match source {
            Source::File(path) => read_file(path, known, is_tls),
            Source::Srv { name, server } => match srv::ask(name, *server) {
                Err(why) => Self { targets: Err(format!("{source}: {why}")), stamp: None, again: None },
                Ok((found, ttl)) => {
                    let target = |one: &srv::Record| {
                        let target = Target::of_word(&format!("{}:{}*{}", one.host, one.port, one.weight), is_tls);
                        target.map(|target| target.of_priority(one.priority)).map_err(|error| format!("{source}: {error}"))
                    };
                    let targets = found.iter().map(target).collect::<Result<Vec<_>, String>>();
                    Self { targets: targets.map(Some), stamp: None, again: Some(ttl) }
                }
            },
        }
    }
}

fn read_file(path: &Path, known: Option<u64>, is_tls: bool) -> Listing {
    let read = || -> Result<(String, u64), String> {
        let failed = |error: std::io::Error| format!("{}: {error}", path.display());
        // Opening a pipe would wait for whoever writes to it.
        if !path.metadata().map_err(failed)?.is_file() {
            return Err(format!("{} is no file", path.display()));
        }
        let file = File::open(path).map_err(failed)?;
        let facts = file.metadata().map_err(failed)?;
        let mut hasher = DefaultHasher::new();
        (facts.ino(), facts.dev(), facts.len(), facts.mtime(), facts.mtime_nsec(), facts.ctime(), facts.ctime_nsec())
            .hash(&mut hasher);
        let stamp = hasher.finish();
        if known == Some(stamp) {
            return Ok((String::new(), stamp));
        }
        let mut text = String::new();
        file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text).map_err(failed)?;
        Ok((text, stamp))
    };
    let (targets, stamp) = match read() {
        Err(why) => (Err(why), None),
        Ok((_, stamp)) if known == Some(stamp) => (Ok(None), Some(stamp)),
        Ok((text, stamp)) => (read_lines(&path.display().to_string(), &text, is_tls).map(Some), Some(stamp)),
    };
    Listing { targets, stamp, again: Some(FILE_EVERY) }
}

/// The upstreams of a file's text, one a line; what is wrong is said with line and column.
fn read_lines(path: &str, text: &str, is_tls: bool) -> Result<Vec<Target>, String> {
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(format!("{path}: it has more than {FILE_BYTES_MAX} bytes: name another file"));
    }
    let mut targets: Vec<Target> = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let words = line.split('#').next().unwrap_or_default();
        let word = words.trim();
        if word.is_empty() {
            continue;
        }
        let column = words[..words.len() - words.trim_start().len()].chars().count() + 1;
        let wrong = |why: &str| format!("{path}:{number}:{column}: {word:?}: {why}");
        let target = Target::of_word(word, is_tls).map_err(|TargetError { why, .. }| wrong(&why))?;
        if targets.iter().any(|known| known.name() == target.name()) {
            return Err(wrong("it is named twice: give it a weight instead, as in HOST:PORT*2"));
        }
        if targets.len() == LISTED_MAX {
            return Err(wrong(&format!("there are {LISTED_MAX} upstreams at the most")));
        }
        targets.push(target);
    }
    if targets.is_empty() { Err(format!("{path}: no upstream is named: write HOST:PORT in a line")) } else { Ok(targets) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_with_weights_and_comments_and_mistakes_have_their_place() {
        let text = "# a list\n10.0.0.1:80*3\n\n  app.test:8080   # the second\n[::1]:1\nunix:/run/app\n";
        let found = read_lines("f", text, false).unwrap();
        let found: Vec<_> = found.iter().map(|target| (target.name(), target.weight())).collect();
        assert_eq!(found, [("10.0.0.1:80", 3), ("app.test:8080", 1), ("[::1]:1", 1), ("unix:/run/app", 1)]);
        assert_eq!(read_lines("f", "a.test:1", true).unwrap()[0].tls(), Some("a.test"));
        let many: String = (1..=LISTED_MAX + 1).map(|port| format!("a:{port}\n")).collect();
        for (text, said) in [
            ("a:1\n  b\n", "f:2:3: \"b\": write HOST:PORT"),
            ("a:1\na:1*2", "f:2:1: \"a:1*2\": it is named twice"),
            ("file:/x", "f:1:1: \"file:/x\": a source names no other one"),
            ("tls://a:1", "f:1:1: \"tls://a:1\": write tls:// before the source"),
            ("# none\n", "f: no upstream is named"),
            (&many, "f:257:1: \"a:257\": there are 256 upstreams at the most"),
            (&"#".repeat(65 << 10), "more than 65536 bytes"),
        ] {
            let why = read_lines("f", text, false).unwrap_err();
            assert!(why.starts_with(said) || why.contains("bytes") && said.contains("bytes"), "{why}");
        }
    }
}
