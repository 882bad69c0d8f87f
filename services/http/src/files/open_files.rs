//! Large files that are open: one descriptor for each file, whoever is sent whatever state of it, and no more than there is room for.

use super::cache::Cache;
use super::entity::Entity;
use super::open_file::OpenFile;
use corelane::service::File;
use std::cell::Cell;
use std::collections::VecDeque;
use std::rc::{Rc, Weak};

/// Large files that may be open at once, where the lane can have four times as many descriptors, else a quarter of those; one more is answered with 503 (Service Unavailable).
pub(crate) const OPEN_FILES_MAX: usize = 1024;
/// The least, however few descriptors there are.
const OPEN_FILES_LEAST: usize = 4;

/// Those that are open.
pub(super) struct OpenFiles {
    count: Rc<Cell<usize>>,
    most: usize,
    /// In the order in which they were opened; some may have gone.
    opened: VecDeque<(Vec<u8>, Weak<Entity>)>,
}

impl OpenFiles {
    /// Of a lane that can have so many descriptors.
    pub fn new(descriptors: u64) -> Self {
        let quarter = usize::try_from(descriptors / 4).unwrap_or(usize::MAX);
        Self { count: Rc::default(), most: quarter.clamp(OPEN_FILES_LEAST, OPEN_FILES_MAX), opened: VecDeque::new() }
    }

    /// Takes in one that was opened; none if there is no place for it. Whoever is in the cache and sent to nobody leaves for it, if need be.
    pub fn take_in(&mut self, cache: &mut Cache, file: File) -> Option<Rc<OpenFile>> {
        for _ in 0..self.opened.len() {
            if self.count.get() < self.most {
                break;
            }
            let Some((key, entity)) = self.opened.pop_front() else { break };
            match entity.strong_count() {
                0 => {}
                1 if cache.has(&key, &entity) => drop(cache.remove(&key)),
                _ => self.opened.push_back((key, entity)),
            }
        }
        (self.count.get() < self.most).then(|| Rc::new(OpenFile::new(file, &self.count)))
    }

    /// Notes a state of one that was taken in, which may be in the cache under this key.
    pub fn note(&mut self, key: &[u8], entity: &Rc<Entity>) {
        if self.opened.len() >= 2 * self.most {
            self.opened.retain(|(_, entity)| entity.strong_count() > 0);
        }
        self.opened.push_back((key.to_vec(), Rc::downgrade(entity)));
    }
}

#[cfg(test)]
mod tests {
    use super::super::cache::{Known, Seen};
    use super::*;
    use corelane::service::FileFacts;
    use std::time::Duration;

    #[test]
    fn who_is_sent_to_nobody_leaves_for_another_and_who_is_read_stays() {
        let (mut open, mut cache) = (OpenFiles::new(0), Cache::new(1 << 20));
        let entity = |open| Rc::new(Entity::of_open(FileFacts::of_file(1 << 20, Duration::ZERO), open, Duration::ZERO));
        let add = |key: &[u8], open: &mut OpenFiles, cache: &mut Cache| {
            let entity = entity(open.take_in(cache, File::new(0, 0))?);
            open.note(key, &entity);
            cache.put(key, Known::File(entity.clone()), Seen::at(0, None));
            Some(entity)
        };
        let read: Vec<_> = (0..3_u8).map(|key| add(&[key], &mut open, &mut cache).unwrap()).collect();
        for key in 3..20 {
            assert!(add(&[key], &mut open, &mut cache).is_some(), "the last is read by nobody");
        }
        let mut kept: Vec<_> = read;
        kept.push(add(&[20], &mut open, &mut cache).unwrap());
        assert!(add(&[21], &mut open, &mut cache).is_none() && open.count.get() == 4, "all are read");
        // A file that was replaced is read by some, and is in no cache any more.
        cache.remove(&[0]);
        assert!(add(&[22], &mut open, &mut cache).is_none());
        kept.remove(0);
        assert!(add(&[23], &mut open, &mut cache).is_some());
        drop((kept, cache));
        assert_eq!(open.count.get(), 0);
        for _ in 0..1_000 {
            drop(add(&[1], &mut open, &mut Cache::new(0)));
        }
        assert!(open.opened.len() <= 8 + 1);
    }
}
