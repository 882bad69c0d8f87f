//! Large files that are open: one descriptor for each file, whoever is sent whatever state of it, and no more than there is room for, of which each peer has its share.

use super::cache::Cache;
use super::entity::{Content, Entity};
use super::open_file::OpenFile;
use corelane::Instant;
use corelane::service::{ConnectionId, File, PeerKey, Shares};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::{Rc, Weak};
use std::time::Duration;

/// Large files that may be open at once, where the lane can have four times as many descriptors, else a quarter of those; one more is answered with 503 (Service Unavailable).
pub(crate) const OPEN_FILES_MAX: usize = 1024;
/// The least, however few descriptors there are.
const OPEN_FILES_LEAST: usize = 4;
/// A connection to which a file is sent, and which was handed nothing of it for so long, may end for another of its peer.
const STANDSTILL: Duration = Duration::from_millis(500);

/// Those that are open.
pub(super) struct OpenFiles {
    all: Rc<RefCell<Shares>>,
    most: usize,
    /// In the order in which they were opened; some may have gone.
    opened: VecDeque<(Vec<u8>, Weak<Entity>)>,
}

impl OpenFiles {
    /// Of a lane that can have so many descriptors.
    pub fn new(descriptors: u64) -> Self {
        let quarter = usize::try_from(descriptors / 4).unwrap_or(usize::MAX);
        let most = quarter.clamp(OPEN_FILES_LEAST, OPEN_FILES_MAX);
        // reason: it is at most a thousand.
        let limit = u32::try_from(most).expect("files that are open are few");
        Self { all: Rc::new(RefCell::new(Shares::new(limit))), most, opened: VecDeque::new() }
    }

    fn admits(&self, peer: Option<PeerKey>) -> bool {
        let all = self.all.borrow();
        peer.map_or(all.share().left() > 0, |peer| all.admits(peer))
    }

    /// Takes in one that was opened for a peer; none if there is no place for it. Whoever is in the cache and sent to nobody leaves for it, if need be.
    pub fn take_in(&mut self, cache: &mut Cache, file: File, peer: Option<PeerKey>) -> Option<Rc<OpenFile>> {
        for _ in 0..self.opened.len() {
            if self.admits(peer) {
                break;
            }
            let Some((key, entity)) = self.opened.pop_front() else { break };
            match entity.strong_count() {
                0 => {}
                1 if cache.has(&key, &entity) => drop(cache.remove(&key)),
                _ => self.opened.push_back((key, entity)),
            }
        }
        self.admits(peer).then(|| Rc::new(OpenFile::new(file, peer, &self.all)))
    }

    /// The connections that are to end so that a peer has a place again: of its own files, or if it has none of anybody's, those to which the one is sent that has stood still longest.
    pub fn stalest(&self, peer: Option<PeerKey>, now: Instant) -> Vec<ConnectionId> {
        let has_some = peer.is_some_and(|peer| self.all.borrow().held(peer) > 0);
        let entities: Vec<Rc<Entity>> = self.opened.iter().filter_map(|(_, entity)| entity.upgrade()).collect();
        let open = entities.iter().filter_map(|entity| if let Content::File(open) = &entity.content { Some(open) } else { None });
        let stale = open.filter(|open| !has_some || open.peer == peer).filter_map(|open| Some((open.moved_at()?, open)));
        let stalest = stale.filter(|(moved, _)| *moved + STANDSTILL <= now).min_by_key(|(moved, _)| *moved);
        stalest.map_or(Vec::new(), |(_, open)| open.readers())
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
            let entity = entity(open.take_in(cache, File::new(0, 0), None)?);
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
        let used = |open: &OpenFiles| open.all.borrow().share().used;
        assert!(add(&[21], &mut open, &mut cache).is_none() && used(&open) == 4, "all are read");
        // A file that was replaced is read by some, and is in no cache any more.
        cache.remove(&[0]);
        assert!(add(&[22], &mut open, &mut cache).is_none());
        kept.remove(0);
        assert!(add(&[23], &mut open, &mut cache).is_some());
        drop((kept, cache));
        assert_eq!(used(&open), 0);
        for _ in 0..1_000 {
            drop(add(&[1], &mut open, &mut Cache::new(0)));
        }
        assert!(open.opened.len() <= 8 + 1);
    }
}
