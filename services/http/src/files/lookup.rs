//! What lies at a name: opened beneath one of the roots, read if it is small, and kept by the cache.

use super::asked::CODINGS;
use super::cache::{Cache, Known, Seen};
use super::directories::{Directory, directory_of};
use super::entity::{Content, Entity};
use super::listings::{Listings, Page};
use super::open_files::OpenFiles;
use super::place::Where;
use super::tokens::Tokens;
use super::trees::Trees;
use super::{key, page};
use crate::HttpCounter;
use corelane::Cx;
use corelane::service::{
    ConnectionId, Fault, File, FileFacts, FileName, FileOutcome, Lease, OpenOptions, Outcome, PeerKey, Reason, Refused, Shared,
    Shares,
};
use corelane_wire::http1::{Coding, Status};
use std::cell::{OnceCell, RefCell};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

/// The longest file that is kept in memory: 256 KiB.
pub(crate) const SMALL_BYTES: u64 = 256 << 10;
/// Names of a directory that are listed at the most.
pub(crate) const LISTED_MAX: usize = 10_000;
/// A page of more names than this takes a millisecond or several, which are a helper's and not the lane's.
const LISTED_AT_ONCE: usize = 256;
/// How often a lookup begins anew when the file changes under it, or a name on the way to it.
const TRIES: u8 = 4;

const READ: OpenOptions = OpenOptions::new().read(true);

/// What was found at a name.
#[derive(Clone)]
pub(super) enum Found {
    /// A file.
    File(Rc<Entity>),
    /// A directory, asked for without the slash behind it.
    Directory,
    /// A directory without an index: what it holds, as a page.
    Listing(Rc<Page>),
    /// None of these.
    Not(Status),
}

/// The end of a lookup, for all that wait for it.
#[derive(Default)]
pub(super) struct Promise {
    found: OnceCell<Found>,
    waiting: RefCell<Vec<ConnectionId>>,
}

impl Promise {
    /// What was found, if it is known.
    pub fn found(&self) -> Option<&Found> {
        self.found.get()
    }

    /// Has the connection resumed when it is.
    pub fn wait(&self, id: ConnectionId) {
        self.waiting.borrow_mut().push(id);
    }
}

/// Lookups under way.
struct Lookups {
    all: BTreeMap<u64, Lookup>,
    by_key: BTreeMap<Vec<u8>, u64>,
    /// Of each peer, those that it asked for first.
    peers: Shares,
}

impl Lookups {
    fn new(most: usize) -> Self {
        // reason: it is a thousand.
        let limit = u32::try_from(most).expect("lookups are few");
        Self { all: BTreeMap::new(), by_key: BTreeMap::new(), peers: Shares::new(limit) }
    }

    /// Whether a peer, or this side, may have one more.
    fn admits(&self, peer: Option<PeerKey>) -> bool {
        peer.map_or(self.peers.share().left() > 0, |peer| self.peers.admits(peer))
    }
}

/// Lookups under way at once, at the most: clients may have gone that asked for them. Of these each peer has its share, for one alone could use them up where the disk is slow. One more is answered
/// with 503 (Service Unavailable).
pub(crate) const LOOKUPS_MAX: usize = 1024;

struct Lookup {
    key: Vec<u8>,
    at: Where,
    name: Vec<u8>,
    coding: Coding,
    step: LookupStep,
    tries: u8,
    /// The root that it looks beneath ([`Root::generation`](super::root::Root::generation)), and when it was begun there, since 1970.
    beneath: u64,
    begun: Duration,
    /// The directory of the file, if it stood as the file was opened, through no link.
    stood: Option<Rc<Directory>>,
    promise: Rc<Promise>,
    /// Who asked first.
    peer: Option<PeerKey>,
}

/// What a lookup waits for.
enum LookupStep {
    /// The root to be opened.
    Root,
    /// The file to be opened.
    File,
    /// The directory of this name to be opened, since there is no file. Of the fault of that.
    Directory(Fault),
    /// What the directory holds.
    List,
    /// The page of that.
    Page,
    /// The file to be read, of which so many bytes are there.
    Read(File, FileFacts, u64),
    /// The file to be opened again: whether it is what it was before it was read.
    Proof(FileFacts, Shared),
}

fn path(name: &[u8]) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(name))
}

impl Lookup {
    fn is_directory(&self) -> bool {
        self.name.is_empty() || self.name.ends_with(b"/")
    }

    /// The file that is meant.
    fn file(&self, index: &str) -> Vec<u8> {
        let mut file = self.name.clone();
        if self.is_directory() {
            file.extend_from_slice(index.as_bytes());
        }
        file
    }

    /// The directory that is meant.
    fn directory(&self) -> &[u8] {
        match self.name.strip_suffix(b"/").unwrap_or(&self.name) {
            b"" => b".",
            name => name,
        }
    }

    /// The file in its coding.
    fn coded_file(&self, index: &str) -> Vec<u8> {
        let mut file = self.file(index);
        let ending = CODINGS.iter().find(|(coding, _)| *coding == self.coding).map_or("", |(_, ending)| ending);
        file.extend_from_slice(ending.as_bytes());
        file
    }
}

/// Finds what lies at names, in trees that it keeps open.
pub(super) struct Finder {
    pub trees: Trees,
    pub tokens: Tokens,
    /// The file that a directory is shown by.
    pub index: String,
    /// Whether directories that have none are listed.
    pub lists: bool,
    pub cache: Cache,
    pub open_files: OpenFiles,
    lookups: Lookups,
    listings: Listings,
}

impl Finder {
    pub fn new(trees: Trees, index: String, cache: Cache) -> Self {
        let (lookups, listings) = (Lookups::new(LOOKUPS_MAX), Listings::default());
        let open_files = OpenFiles::new(0);
        Self { trees, tokens: Tokens::starting_at(0), index, lists: false, cache, open_files, lookups, listings }
    }

    /// Opens all roots.
    pub fn open_roots(&mut self, cx: &mut Cx<'_>) {
        for at in self.trees.places() {
            self.trees.at_mut(at).root.open(cx, self.tokens.of_root(at));
        }
    }

    /// Opens a root again, if that is long ago.
    pub fn look_after_root(&mut self, cx: &mut Cx<'_>, at: Where) {
        self.trees.at_mut(at).root.look_after(cx, self.tokens.of_root(at));
    }

    /// What lies at `name` in `coding`: known at once, or by a lookup that is under way then.
    pub fn look_up(&mut self, cx: &mut Cx<'_>, at: Where, name: &[u8], coding: Coding) -> Result<Found, Rc<Promise>> {
        let mut key = Vec::new();
        key::write(&mut key, at, name, coding);
        match self.cache.get(&key, cx.now().nanoseconds()) {
            Some(Known::File(entity)) => return Ok(Found::File(entity.clone())),
            Some(Known::Nothing) => return Ok(Found::Not(Status::NOT_FOUND)),
            None => {}
        }
        if let Some(lookup) = self.lookups.by_key.get(&key) {
            return Err(self.lookups.all[lookup].promise.clone());
        }
        let root = &self.trees.at(at).root;
        let (has_root, beneath) = (root.directory().is_some() || root.is_opening(), root.generation());
        let id = cx.id();
        let peer = cx.peer_address(id).map(PeerKey::of);
        if !has_root || !self.lookups.admits(peer) {
            return Ok(Found::Not(Status::SERVICE_UNAVAILABLE));
        }
        let (promise, name) = (Rc::<Promise>::default(), name.to_vec());
        let token = self.tokens.next();
        self.lookups.by_key.insert(key.clone(), token);
        self.lookups.peers.take(peer);
        let (step, begun) = (LookupStep::Root, cx.time_of_day());
        let lookup =
            Lookup { key, at, name, coding, step, tries: 0, beneath, begun, stood: None, promise: promise.clone(), peer };
        self.begin(cx, token, lookup);
        Err(promise)
    }

    /// A root was opened, or is not there: lookups that wait for it go on.
    fn root_opened(&mut self, cx: &mut Cx<'_>, at: Where, outcome: Outcome) {
        let tree = self.trees.at_mut(at);
        if tree.root.opened(cx, outcome) {
            tree.directories.end_all(cx.now().nanoseconds());
            // What lies beneath the other root is as it was.
            self.cache.forget(|key| key::place_of(key) == at);
        }
        let waits =
            |(token, lookup): (&u64, &Lookup)| (matches!(lookup.step, LookupStep::Root) && lookup.at == at).then_some(*token);
        let waiting: Vec<u64> = self.lookups.all.iter().filter_map(waits).collect();
        for token in waiting {
            let lookup = self.take(token);
            self.begin(cx, token, lookup);
        }
    }

    /// Takes what came of a root, a directory or a lookup.
    pub fn went_on(&mut self, cx: &mut Cx<'_>, token: u64, outcome: Outcome) {
        if let Some(at) = self.trees.places().find(|at| self.tokens.of_root(*at) == token) {
            return self.root_opened(cx, at, outcome);
        }
        match self.trees.places().find(|at| self.trees.at(*at).directories.have_asked(token)) {
            Some(at) => {
                let tree = self.trees.at_mut(at);
                tree.directories.went_on(cx, &mut self.tokens, tree.root.directory(), token, outcome);
            }
            None => self.lookup_went_on(cx, token, outcome),
        }
    }

    fn lookup_went_on(&mut self, cx: &mut Cx<'_>, token: u64, outcome: Outcome) {
        let lookup = self.take(token);
        match (&lookup.step, outcome) {
            (LookupStep::File, Outcome::File(FileOutcome::Opened { file, facts })) => {
                self.file_opened(cx, token, lookup, file, facts)
            }
            (LookupStep::File, Outcome::Failed(fault)) => self.no_file(cx, token, lookup, fault),
            (LookupStep::Directory(_), Outcome::File(FileOutcome::Opened { file, .. })) => {
                self.directory_opened(cx, token, lookup, &file)
            }
            (LookupStep::Directory(because), Outcome::Failed(fault)) => {
                let fault = if fault.reason == Reason::NotFound { *because } else { fault };
                self.end(cx, lookup, Found::Not(status_of(fault)));
            }
            (LookupStep::Proof(before, content), Outcome::File(FileOutcome::Opened { facts, .. })) if *before == facts => {
                let content = Content::Memory(content.clone());
                self.found(cx, lookup, facts, content);
            }
            (LookupStep::Proof(..), _) => self.begin(cx, token, lookup),
            (LookupStep::List, Outcome::File(FileOutcome::Listed { names, is_whole })) => {
                self.listed(cx, token, lookup, names, is_whole)
            }
            (LookupStep::Page, Outcome::Offloaded(text)) => {
                // reason: nothing else was asked for.
                let text = text.0.downcast::<String>().expect("a page is text");
                self.page_is_put_together(cx, lookup, *text);
            }
            (LookupStep::List | LookupStep::Page, Outcome::Failed(fault)) => self.end(cx, lookup, Found::Not(status_of(fault))),
            (LookupStep::Read(..), Outcome::File(FileOutcome::Filled { lease, fault })) => {
                self.take_read(cx, token, lookup, lease, fault)
            }
            _ => unreachable!("an operation ends as one of its kind"),
        }
    }

    fn take(&mut self, token: u64) -> Lookup {
        // reason: a lookup is there until it ends, and each step of it ends once.
        self.lookups.all.remove(&token).expect("a lookup goes on that is under way")
    }

    fn waits(&mut self, token: u64, lookup: Lookup, step: LookupStep) {
        let before = self.lookups.all.insert(token, Lookup { step, ..lookup });
        assert!(before.is_none(), "a lookup waits for one thing");
    }

    /// Opens the file, or waits for the root.
    fn begin(&mut self, cx: &mut Cx<'_>, token: u64, mut lookup: Lookup) {
        let root = &self.trees.at(lookup.at).root;
        if root.directory().is_none() {
            return match root.is_opening() {
                true => self.waits(token, lookup, LookupStep::Root),
                false => self.end(cx, lookup, Found::Not(Status::SERVICE_UNAVAILABLE)),
            };
        }
        if lookup.tries == TRIES {
            return self.end(cx, lookup, Found::Not(Status::SERVICE_UNAVAILABLE));
        }
        lookup.tries += 1;
        (lookup.beneath, lookup.begun) = (root.generation(), cx.time_of_day());
        lookup.stood = self.trees.at(lookup.at).directories.standing(directory_of(&lookup.file(&self.index)));
        self.open_file(cx, token, lookup, LookupStep::File);
    }

    /// Opens the file. Where its directory's notices are to tell of changes, symbolic links are not followed: notices do not tell of changes of a link's target.
    fn open_file(&mut self, cx: &mut Cx<'_>, token: u64, lookup: Lookup, step: LookupStep) {
        // reason: it was looked whether it is there, and it goes only for another one.
        let root = self.trees.at(lookup.at).root.directory().expect("files are opened beneath a root");
        let options = READ.no_links(lookup.stood.is_some());
        cx.open_beneath(root, path(&lookup.coded_file(&self.index)), options, token);
        self.waits(token, lookup, step);
    }

    /// There is no file; perhaps there is a directory.
    fn no_file(&mut self, cx: &mut Cx<'_>, token: u64, lookup: Lookup, fault: Fault) {
        let may_be_directory = match fault.reason {
            Reason::Busy => return self.begin(cx, token, lookup),
            Reason::Outside if lookup.stood.is_some() => {
                return match self.trees.at(lookup.at).root.directory() {
                    Some(_) => self.open_file(cx, token, Lookup { stood: None, ..lookup }, LookupStep::File),
                    None => self.begin(cx, token, lookup),
                };
            }
            Reason::NotAFile => true,
            Reason::NotFound => lookup.is_directory(),
            _ => false,
        };
        match self.trees.at(lookup.at).root.directory() {
            Some(root) if may_be_directory && lookup.coding == Coding::Identity => {
                cx.open_beneath(root, path(lookup.directory()), READ.directory(true), token);
                self.waits(token, lookup, LookupStep::Directory(fault));
            }
            _ => self.end(cx, lookup, Found::Not(status_of(fault))),
        }
    }

    fn directory_opened(&mut self, cx: &mut Cx<'_>, token: u64, lookup: Lookup, directory: &File) {
        match (lookup.is_directory(), self.lists) {
            (false, _) => self.end(cx, lookup, Found::Directory),
            (true, false) => self.end(cx, lookup, Found::Not(Status::FORBIDDEN)),
            (true, true) => {
                cx.list_directory(directory, LISTED_MAX, token);
                self.waits(token, lookup, LookupStep::List);
            }
        }
    }

    fn listed(&mut self, cx: &mut Cx<'_>, token: u64, lookup: Lookup, names: Vec<FileName>, is_whole: bool) {
        let name = lookup.name.clone();
        if names.len() <= LISTED_AT_ONCE {
            return self.page_is_put_together(cx, lookup, page::of_directory(&name, names, is_whole));
        }
        cx.offload(move || page::of_directory(&name, names, is_whole), token);
        self.waits(token, lookup, LookupStep::Page);
    }

    fn page_is_put_together(&mut self, cx: &mut Cx<'_>, lookup: Lookup, text: String) {
        let page = self.listings.page(&lookup.name, text, lookup.peer);
        self.end(cx, lookup, page.map_or(Found::Not(Status::SERVICE_UNAVAILABLE), Found::Listing));
    }

    fn file_opened(&mut self, cx: &mut Cx<'_>, token: u64, lookup: Lookup, file: File, facts: FileFacts) {
        if let Some(Known::File(before)) = self.cache.peek(&lookup.key)
            && before.is_still(&facts)
            && !before.is_outdated()
        {
            let before = before.clone();
            return self.found_file(cx, lookup, before);
        }
        match (facts.length, self.memory_for(cx, facts.length)) {
            (0, _) => self.found(cx, lookup, facts, Content::Empty),
            (length, Some(lease)) => {
                cx.read_file(&file, 0, lease, length as usize, token);
                self.waits(token, lookup, LookupStep::Read(file, facts, 0));
            }
            (_, None) => self.opened_large(cx, lookup, file, facts),
        }
    }

    /// A file is open that is sent from there: once for all states of it that are.
    fn opened_large(&mut self, cx: &mut Cx<'_>, lookup: Lookup, file: File, facts: FileFacts) {
        let before = match self.cache.peek(&lookup.key) {
            Some(Known::File(before)) => before.open_file(&facts),
            _ => None,
        };
        match before.or_else(|| self.open_files.take_in(&mut self.cache, file, lookup.peer)) {
            Some(open) => self.found(cx, lookup, facts, Content::File(open)),
            None => {
                cx.count(HttpCounter::OpenFilesMaxHits, 1);
                // Who asks again finds a place.
                for id in self.open_files.stalest(lookup.peer, cx.now()) {
                    cx.abort(id);
                }
                self.end(cx, lookup, Found::Not(Status::SERVICE_UNAVAILABLE));
            }
        }
    }

    /// Memory for a small file. Others leave the cache for it, if they must.
    fn memory_for(&mut self, cx: &mut Cx<'_>, length: u64) -> Option<Lease> {
        if length > SMALL_BYTES || length == 0 {
            return None;
        }
        let bytes = length as usize;
        match cx.lease(bytes) {
            Err(Refused::Memory) => {
                self.cache.shrink_to(self.cache.bytes() / 2);
                cx.lease(bytes).ok()
            }
            lease => lease.ok(),
        }
    }

    fn take_read(&mut self, cx: &mut Cx<'_>, token: u64, lookup: Lookup, lease: Lease, fault: Option<Fault>) {
        let LookupStep::Read(file, facts, before) = &lookup.step else { unreachable!("it is read") };
        let (file, facts, before, read) = (file.clone(), *facts, *before, lease.len() as u64);
        assert!(read <= facts.length, "no more is read than was asked for");
        match fault {
            Some(fault) => self.end(cx, lookup, Found::Not(status_of(fault))),
            None if read == facts.length => self.prove(cx, token, lookup, facts, lease.share()),
            // It became shorter.
            None if read == before => self.begin(cx, token, lookup),
            None => {
                cx.read_file(&file, read, lease, facts.length as usize, token);
                self.waits(token, lookup, LookupStep::Read(file, facts, read));
            }
        }
    }

    /// Looks whether the file is still what it was as it was opened: what was read may be of another state.
    fn prove(&mut self, cx: &mut Cx<'_>, token: u64, lookup: Lookup, facts: FileFacts, content: Shared) {
        let root = &self.trees.at(lookup.at).root;
        if root.directory().is_none() || lookup.beneath != root.generation() {
            return self.begin(cx, token, lookup);
        }
        self.open_file(cx, token, lookup, LookupStep::Proof(facts, content));
    }

    fn found(&mut self, cx: &mut Cx<'_>, lookup: Lookup, facts: FileFacts, content: Content) {
        let file = lookup.file(&self.index);
        let is_open = matches!(content, Content::File(..));
        let entity = Rc::new(Entity::new(&String::from_utf8_lossy(&file), lookup.coding, facts, content, lookup.begun));
        if is_open {
            self.open_files.note(&lookup.key, &entity);
        }
        self.found_file(cx, lookup, entity);
    }

    fn found_file(&mut self, cx: &mut Cx<'_>, lookup: Lookup, entity: Rc<Entity>) {
        // Unless it lies beneath a root that has been replaced.
        if lookup.beneath == self.trees.at(lookup.at).root.generation() {
            let seen = self.seen(cx, &lookup, entity.facts.names);
            self.cache.put(&lookup.key, Known::File(entity.clone()), seen);
        }
        self.end(cx, lookup, Found::File(entity));
    }

    /// For how long that is true which was seen of a file with so many names: of what happens to it by another name, its directory is not told.
    fn seen(&mut self, cx: &mut Cx<'_>, lookup: &Lookup, names: u32) -> Seen {
        let now = cx.now().nanoseconds();
        match &lookup.stood {
            Some(directory) if directory.stands() && names <= 1 => Seen::vouched(now, directory.clone()),
            _ => {
                let file = lookup.file(&self.index);
                let tree = self.trees.at_mut(lookup.at);
                let directory = tree.directories.watched(cx, &mut self.tokens, tree.root.directory(), directory_of(&file));
                Seen::at(now, directory)
            }
        }
    }

    fn end(&mut self, cx: &mut Cx<'_>, lookup: Lookup, found: Found) {
        self.lookups.peers.give_back(lookup.peer);
        let under_way = self.lookups.by_key.remove(&lookup.key);
        assert!(under_way.is_some(), "a lookup ends once");
        if let Found::Not(status) = &found {
            match (lookup.at, lookup.coding, *status) {
                (Where::Site, Coding::Identity, _) => drop(self.cache.remove(&lookup.key)),
                // What is not beside one file, and pages that the operator has not, are not looked for each time.
                (_, _, Status::NOT_FOUND) if lookup.beneath == self.trees.at(lookup.at).root.generation() => {
                    let seen = self.seen(cx, &lookup, 0);
                    self.cache.put(&lookup.key, Known::Nothing, seen);
                }
                _ => {}
            }
        }
        let first = lookup.promise.found.set(found);
        assert!(first.is_ok(), "a lookup ends once");
        for id in lookup.promise.waiting.take() {
            cx.resume(id);
        }
    }
}

/// What a client is told of a fault.
fn status_of(fault: Fault) -> Status {
    match fault.reason {
        Reason::NotFound | Reason::Outside => Status::NOT_FOUND,
        Reason::NotAFile | Reason::Permission => Status::FORBIDDEN,
        Reason::NoDescriptor | Reason::NoMemory | Reason::Busy | Reason::Cancelled => Status::SERVICE_UNAVAILABLE,
        // A name longer than one may be (ENAMETOOLONG), or that its file system cannot have (EINVAL, EILSEQ).
        Reason::Other if matches!(fault.number, 36 | 22 | 84) => Status::NOT_FOUND,
        _ => Status::INTERNAL_SERVER_ERROR,
    }
}
