//! The thread that asks and keeps.

use corelane::admin::reports::{Level, Record};
use corelane_graphs::{Name, Reading, SERIES_MAX, Store};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The time between two questions.
pub const PERIOD: Duration = Duration::from_secs(10);

/// Whoever knows what is counted.
pub trait Source: Send {
    /// What is counted now, and what was changed since the last time.
    fn look(&mut self) -> Looked;
}

/// What a source knows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Looked {
    /// Of each series, what is read.
    pub readings: Vec<(Name, Reading)>,
    /// Changes, in words.
    pub changes: Vec<String>,
}

/// The thread. Dropping it ends it.
#[derive(Debug)]
pub struct Sampler {
    thread: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Sampler {
    /// Asks this source from now on, and keeps what it says in this file, which is made if there is none. While the file cannot be written to, or another process
    /// keeps it, that is said once and tried again.
    ///
    /// # Errors
    /// The system has no thread for it.
    pub fn start(file: &Path, mut source: impl Source + 'static) -> io::Result<Self> {
        let mut keeper = Keeper { path: file.to_owned(), store: None, said: None };
        let (end, ended) = channel::<()>();
        let thread = Builder::new().name("corelane-graphs".to_owned()).spawn(move || {
            loop {
                keeper.keep(&source.look(), since_1970());
                if ended.recv_timeout(PERIOD) != Err(RecvTimeoutError::Timeout) {
                    return;
                }
            }
        })?;
        Ok(Self { thread: Some((end, thread)) })
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        if let Some((end, thread)) = self.thread.take() {
            drop(end);
            // It has nothing to do but to end.
            let _ = thread.join();
        }
    }
}

fn since_1970() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// The file, as long as it can be written to.
#[derive(Debug)]
struct Keeper {
    path: PathBuf,
    store: Option<Store<File>>,
    /// What was said of it last, so that it is said once.
    said: Option<String>,
}

impl Keeper {
    fn keep(&mut self, looked: &Looked, now: Duration) {
        let said = match self.try_keep(looked, now) {
            Ok(0) => None,
            Ok(refused) => Some(format!(
                "{refused} series have no room today: {SERIES_MAX} are kept, and those that are gone make room tomorrow; remedy: fewer rules or interfaces"
            )),
            Err(why) => {
                self.store = None;
                Some(format!("{why}; remedy: until it is mended nothing is kept, and it is tried again"))
            }
        };
        let is_new = self.said != said;
        self.said = said;
        if let Some(words) = self.said.as_ref().filter(|_| is_new) {
            let words = format!("graphs: {}: {words}", self.path.display());
            corelane::admin::reports::line(Record::new(Level::Warn, words).of_program());
        }
    }

    /// Returns how many series have no room.
    fn try_keep(&mut self, looked: &Looked, now: Duration) -> Result<usize, String> {
        let store = match &mut self.store {
            Some(store) => store,
            none => none.insert(open(&self.path)?),
        };
        let words = |error: io::Error| error.to_string();
        for change in &looked.changes {
            store.note(now.as_secs(), change).map_err(words)?;
        }
        store.record(now.as_millis() as u64, &looked.readings).map_err(words)?;
        Ok(store.refused())
    }
}

/// The file for one process alone.
fn open(path: &Path) -> Result<Store<File>, String> {
    let file =
        File::options().read(true).write(true).create(true).truncate(false).open(path).map_err(|error| error.to_string())?;
    file.try_lock().map_err(|_| "another process keeps its graphs there".to_owned())?;
    Store::open(file).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use corelane_graphs::{Span, Subject, view};

    fn keeper(path: &Path) -> Keeper {
        Keeper { path: path.to_owned(), store: None, said: None }
    }

    fn looked(count: u64) -> Looked {
        let name = Name::new(Subject::Interface("vlan10".into()), "bytes in");
        Looked { readings: vec![(name, Reading::Counter(count))], changes: vec![format!("to {count}")] }
    }

    const NOW: u64 = 1_700_000_000;

    #[test]
    fn what_a_source_says_is_kept_for_one_process_and_then_for_the_next() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("graphs");
        let (mut first, mut second) = (keeper(&path), keeper(&path));
        for turn in 0..3 {
            first.keep(&looked(turn * 100), Duration::from_secs(NOW + turn * 10));
            second.keep(&looked(0), Duration::from_secs(NOW + turn * 10));
        }
        assert_eq!(first.said, None);
        assert!(second.said.as_ref().is_some_and(|why| why.starts_with("another process keeps its graphs there")));
        drop(first.store);
        for turn in 3..5 {
            second.keep(&looked(turn * 300), Duration::from_secs(NOW + turn * 10));
        }
        assert_eq!(second.said, None);
        let seen = view(&File::open(&path).unwrap(), Span::Day, NOW + 40).unwrap();
        assert_eq!((seen.curves[0].average[287].round(), seen.curves[0].most[287]), (17.0, 30.0));
        assert_eq!(seen.notes.len(), 5);
    }

    #[test]
    fn a_file_of_others_is_left_alone_and_told_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("graphs");
        std::fs::write(&path, "a letter").unwrap();
        let mut keeper = keeper(&path);
        keeper.keep(&looked(1), Duration::from_secs(NOW));
        assert!(keeper.said.as_ref().is_some_and(|why| why.contains("no file of graphs")), "{keeper:?}");
        assert_eq!(std::fs::read(&path).unwrap(), b"a letter");
    }

    #[test]
    fn a_sampler_asks_at_once_and_ends_when_it_is_dropped() {
        struct Once(Sender<()>);
        impl Source for Once {
            fn look(&mut self) -> Looked {
                let _ = self.0.send(());
                looked(1)
            }
        }
        let folder = tempfile::tempdir().unwrap();
        let (asked, was_asked) = channel();
        let sampler = Sampler::start(&folder.path().join("graphs"), Once(asked)).unwrap();
        was_asked.recv().unwrap();
        drop(sampler);
        assert!(was_asked.recv().is_err(), "the source has gone with its thread");
    }
}
