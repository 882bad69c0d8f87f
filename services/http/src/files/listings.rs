//! Pages of directories while they are sent: each lies in memory once, whoever asks for it, and leaves as there is room.

use crate::application::{Application, Exchange, Goes, Produced};
use crate::{Parts, Reply};
use corelane::Cx;
use corelane::service::{PeerKey, Refused, Shares};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::{Rc, Weak};

/// Bytes of a page; names for which there is no room are not listed.
pub(crate) const LISTING_BYTES_MAX: usize = 1 << 20;
/// Bytes of all pages that are being sent: readers may be slow, and directories change meanwhile. Of these each peer has its share, and a short page is had besides
/// until half of the reserve is gone: so who reads nothing keeps short ones from nobody. One more is answered with 503 (Service Unavailable).
pub(crate) const LISTINGS_BYTES_MAX: usize = 16 << 20;
/// Bytes of a page that are written at a time.
const PIECE_BYTES: usize = 16 << 10;

/// A page, as long as anybody is sent it.
pub(super) struct Page {
    text: String,
    /// Who asked first.
    peer: Option<PeerKey>,
    /// Bytes of all that there are.
    alive: Rc<RefCell<Shares>>,
}

impl Page {
    pub fn text(&self) -> &str {
        &self.text
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        self.alive.borrow_mut().give_more_back(self.peer, bytes_of(&self.text));
    }
}

/// Bytes of a page, which are few.
fn bytes_of(text: &str) -> u32 {
    u32::try_from(text.len()).unwrap_or(u32::MAX)
}

/// The pages that are being sent.
pub(super) struct Listings {
    alive: Rc<RefCell<Shares>>,
    latest: BTreeMap<Vec<u8>, Weak<Page>>,
}

impl Default for Listings {
    fn default() -> Self {
        Self { alive: Rc::new(RefCell::new(Shares::new(LISTINGS_BYTES_MAX as u32))), latest: BTreeMap::new() }
    }
}

impl Listings {
    /// Whether there is room for a page that a peer, or this side, has asked for first.
    fn admits(&self, peer: Option<PeerKey>, bytes: u32) -> bool {
        let alive = self.alive.borrow();
        let share = alive.share();
        let has_room = share.left() >= bytes;
        let is_short = bytes <= share.small() && share.admits_few();
        has_room && (is_short || peer.is_none_or(|peer| alive.admits_more(peer, bytes)))
    }

    /// The page of the directory of this name, with this text, which `peer` has asked for: the one that others are sent, if it is the same. None if there is no room for it.
    pub fn page(&mut self, name: &[u8], text: String, peer: Option<PeerKey>) -> Option<Rc<Page>> {
        let latest = self.latest.get(name).and_then(Weak::upgrade);
        if let Some(same) = latest.filter(|page| page.text == text) {
            return Some(same);
        }
        let bytes = bytes_of(&text);
        if !self.admits(peer, bytes) {
            return None;
        }
        self.alive.borrow_mut().take_more(peer, bytes);
        let page = Rc::new(Page { text, peer, alive: self.alive.clone() });
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

    fn used(listings: &Listings) -> u32 {
        listings.alive.borrow().share().used
    }

    #[test]
    fn a_page_lies_in_memory_once_and_all_are_bounded() {
        let mut listings = Listings::default();
        let text = |letter: &str| letter.repeat(LISTING_BYTES_MAX);
        let first = listings.page(b"a/", text("a"), None).unwrap();
        assert!(Rc::ptr_eq(&first, &listings.page(b"a/", text("a"), None).unwrap()), "the same is not kept twice");
        let of_others: Vec<_> = (1..16).map(|at: u8| listings.page(&[at], text("a"), None).unwrap()).collect();
        assert!(listings.page(b"b/", text("b"), None).is_none() && listings.page(b"a/", text("b"), None).is_none());
        assert!(listings.page(b"a/", text("a"), None).is_some(), "what is there may be sent to more");
        drop(of_others);
        let changed = listings.page(b"a/", text("b"), None).unwrap();
        assert_eq!((changed.text() == first.text(), used(&listings), listings.latest.len()), (false, 2 << 20, 1));
        drop((first, changed));
        assert_eq!(used(&listings), 0);
    }

    #[test]
    fn a_peer_has_half_of_what_is_left_and_short_pages_besides() {
        let mut listings = Listings::default();
        let peer = |at: &str| Some(PeerKey::of(&at.parse().unwrap()));
        let (attacker, other) = (peer("192.0.2.1:1"), peer("192.0.2.2:1"));
        let mut names = 0_u32..;
        let mut page = |peer, bytes| listings.page(&names.next().unwrap().to_be_bytes(), "a".repeat(bytes), peer);
        let held: Vec<_> = (0..16).map_while(|_| page(attacker, LISTING_BYTES_MAX)).collect();
        assert_eq!(held.len(), 8, "half");
        assert!(page(other, LISTING_BYTES_MAX).is_some() && page(attacker, 20_000).is_some());
        let short: Vec<_> = (0..1_000).map_while(|_| page(attacker, 30_000)).collect();
        assert!(short.len() < 300 && page(other, 30_000).is_some(), "{} short ones leave others some", short.len());
    }
}
