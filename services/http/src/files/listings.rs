//! Pages of directories while they are sent: each lies in memory once, whoever asks for it, and leaves as there is room.

use crate::application::{Application, Exchange, Goes, Produced};
use crate::{Parts, Reply};
use corelane::Cx;
use corelane::service::Refused;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::{Rc, Weak};

/// Bytes of a page; names for which there is no room are not listed.
pub(crate) const LISTING_BYTES_MAX: usize = 1 << 20;
/// Bytes of all pages that are being sent: readers may be slow, and directories change meanwhile. One more is answered with 503 (Service Unavailable).
pub(crate) const LISTINGS_BYTES_MAX: usize = 16 << 20;
/// Bytes of a page that are written at a time.
const PIECE_BYTES: usize = 16 << 10;

/// A page, as long as anybody is sent it.
pub(super) struct Page {
    text: String,
    /// Bytes of all that there are.
    alive: Rc<Cell<usize>>,
}

impl Page {
    pub fn text(&self) -> &str {
        &self.text
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        self.alive.set(self.alive.get() - self.text.len());
    }
}

/// The pages that are being sent.
#[derive(Default)]
pub(super) struct Listings {
    alive: Rc<Cell<usize>>,
    latest: BTreeMap<Vec<u8>, Weak<Page>>,
}

impl Listings {
    /// The page of the directory of this name, with this text: the one that others are sent, if it is the same. None if they are too many.
    pub fn page(&mut self, name: &[u8], text: String) -> Option<Rc<Page>> {
        let latest = self.latest.get(name).and_then(Weak::upgrade);
        if let Some(same) = latest.filter(|page| page.text == text) {
            return Some(same);
        }
        let alive = self.alive.get() + text.len();
        if alive > LISTINGS_BYTES_MAX {
            return None;
        }
        self.alive.set(alive);
        let page = Rc::new(Page { text, alive: self.alive.clone() });
        self.latest.retain(|_, page| page.strong_count() > 0);
        self.latest.insert(name.to_vec(), Rc::downgrade(&page));
        Some(page)
    }
}

/// What is still to be sent of a page.
pub(super) struct Rest {
    page: Rc<Page>,
    sent: usize,
}

impl Rest {
    pub fn of(page: &Rc<Page>) -> Self {
        Self { page: page.clone(), sent: 0 }
    }
}

impl<A: Application> Exchange<A> for Rest {
    fn go_on(&mut self, _application: &mut A, _cx: &mut Cx<'_, A::Talk>, _reply: Reply<'_>) -> Result<Goes, Refused> {
        unreachable!("its answer has begun")
    }

    fn produce(&mut self, _application: &mut A, _cx: &mut Cx<'_, A::Talk>, parts: &mut Parts<'_>) -> Produced {
        let rest = &self.page.text.as_bytes()[self.sent..];
        let piece = &rest[..rest.len().min(PIECE_BYTES)];
        if parts.write(piece).is_ok() {
            self.sent += piece.len();
        }
        Produced::More
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_lies_in_memory_once_and_all_are_bounded() {
        let mut listings = Listings::default();
        let text = |letter: &str| letter.repeat(LISTING_BYTES_MAX);
        let first = listings.page(b"a/", text("a")).unwrap();
        assert!(Rc::ptr_eq(&first, &listings.page(b"a/", text("a")).unwrap()), "the same is not kept twice");
        let of_others: Vec<_> = (1..16).map(|at: u8| listings.page(&[at], text("a")).unwrap()).collect();
        assert!(listings.page(b"b/", text("b")).is_none() && listings.page(b"a/", text("b")).is_none());
        assert!(listings.page(b"a/", text("a")).is_some(), "what is there may be sent to more");
        drop(of_others);
        let changed = listings.page(b"a/", text("b")).unwrap();
        assert_eq!((changed.text() == first.text(), listings.alive.get(), listings.latest.len()), (false, 2 << 20, 1));
        drop((first, changed));
        assert_eq!(listings.alive.get(), 0);
    }
}
