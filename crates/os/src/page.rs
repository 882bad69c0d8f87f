//! The memory behind a counter page: a file in shared memory that its process writes and others read, or heap
//! memory of the same shape for simulation.
//!
//! Sources: mmap(2), open(2), the XDG Base Directory Specification.
//!
//! The writer fills its file with zeros before mapping it, so a full file system is an error at creation and never
//! a fault in a lane. The reader maps what fstat(2) says is there. A file that its owner truncates *after* it was
//! opened raises SIGBUS in a reader that touches the lost part (mmap(2)); nothing here truncates a page.
#![allow(unsafe_code)]

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::{fmt, ptr};

/// Bytes that no two lanes may share: two cache lines, because the adjacent-line prefetcher fetches pairs.
pub const LINE_BYTES: usize = 128;

/// The largest page in 64-bit words: 64 MiB.
pub const WORDS_MAX: usize = 64 * 1024 * 1024 / WORD_BYTES;

/// What the name of a page file ends with.
pub const SUFFIX_PUBLISHED: &str = "page";

/// What it ends with until its process has filled it.
pub const SUFFIX_UNPUBLISHED: &str = "tmp";

const WORD_BYTES: usize = size_of::<u64>();

/// Makes the names of one process's pages differ.
static NEXT_NUMBER: AtomicU64 = AtomicU64::new(0);

/// Why page memory could not be made or read.
#[derive(Debug)]
#[non_exhaustive]
pub enum PageError {
    /// The environment: the directory cannot be made or read.
    Directory {
        /// The run directory.
        path: PathBuf,
        /// What the kernel answered.
        source: io::Error,
    },
    /// The environment: the run directory belongs to somebody else, who could replace the pages in it.
    ForeignDirectory {
        /// The run directory.
        path: PathBuf,
        /// The effective user of this process.
        expected_user: u32,
        /// The owner of the directory.
        got_user: u32,
    },
    /// The environment: the path is no directory, or others than its owner may write in it.
    UnsafeDirectory {
        /// The run directory.
        path: PathBuf,
        /// Its mode, with the file type (inode(7)).
        got_mode: u32,
    },
    /// The environment: a page file cannot be made, opened or mapped.
    File {
        /// The page file.
        path: PathBuf,
        /// What the kernel answered.
        source: io::Error,
    },
    /// The file: it is no page, because it is no regular file or its size is no page's.
    NoPage {
        /// The file.
        path: PathBuf,
        /// Its size in bytes; a page has 8 bytes to 64 MiB.
        got_bytes: u64,
    },
    /// The caller: a page of no words or of more than [`WORDS_MAX`].
    Words {
        /// The words asked for.
        got: usize,
    },
}

impl fmt::Display for PageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory { path, source } => {
                write!(f, "run directory {}: {source}; set CORELANE_RUN_DIR to a directory of your own", path.display())
            }
            Self::ForeignDirectory { path, expected_user, got_user } => write!(
                f,
                "run directory {} belongs to user {got_user}, not to user {expected_user}; set CORELANE_RUN_DIR to a \
                 directory of your own",
                path.display()
            ),
            Self::UnsafeDirectory { path, got_mode } => write!(
                f,
                "run directory {} has mode {got_mode:o}: it must be a directory that only its owner may write in; \
                 use `chmod 700`, or set CORELANE_RUN_DIR",
                path.display()
            ),
            Self::File { path, source } => {
                write!(f, "page {}: {source}; see that its file system has room and that you may use the file", path.display())
            }
            Self::NoPage { path, got_bytes } => write!(
                f,
                "{} is no page: it must be a regular file of {WORD_BYTES} to {} bytes, and this has {got_bytes}",
                path.display(),
                WORDS_MAX * WORD_BYTES
            ),
            Self::Words { got } => {
                write!(f, "a page of {got} words was asked for; 1 to {WORDS_MAX} are possible: ask for fewer lanes")
            }
        }
    }
}

impl std::error::Error for PageError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Directory { source, .. } | Self::File { source, .. } => Some(source),
            _ => None,
        }
    }
}

/// The directory that holds one user's pages. Only that user can write in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunDirectory {
    path: PathBuf,
}

impl RunDirectory {
    /// The directory for this process's pages, made if it is not there: the first that works of $CORELANE_RUN_DIR
    /// (and then no other), $XDG_RUNTIME_DIR/corelane, /run/user/UID/corelane, for root /run/corelane if /run is in memory, and
    /// /dev/shm/corelane-UID. Where somebody else has made the last, one with a number behind that name. `notes` is given what an operator
    /// should know of the choice.
    ///
    /// # Errors
    /// What [`RunDirectory::at`] says of the first of them.
    pub fn choose(notes: &mut Vec<String>) -> Result<Self, PageError> {
        let user = effective_user();
        let Some(path) = run_directory() else {
            let chosen = first_of(&places(user), notes);
            return chosen.or_else(|error| numbered(Path::new(SHARED_MEMORY), user, notes).ok_or(error));
        };
        if !path.exists() {
            notes.push(format!("CORELANE_RUN_DIR: there is no {}: it is made", path.display()));
        }
        Self::at(path)
    }

    /// All places where [`RunDirectory::choose`] can have put a page of this user, whatever the environment of the
    /// process that wrote it was. A place that does not exist is left out; for one that is not safe the error says why
    /// ([`RunDirectory::at`]), and does not hide the others: anybody can make a directory in /dev/shm.
    pub fn existing() -> Vec<Result<Self, PageError>> {
        let user = effective_user();
        let found = match run_directory() {
            Some(path) => vec![path],
            None => places(user).into_iter().chain(own_numbered(Path::new(SHARED_MEMORY), user)).collect(),
        };
        found.into_iter().filter(|place| place.exists()).map(Self::at).collect()
    }

    /// The directory at `path`, made with mode 0700 if it is not there. Its parent must exist. It should lie on a
    /// tmpfs: writing back a disk's pages would stall the lanes.
    ///
    /// # Errors
    /// [`PageError::Directory`], [`PageError::ForeignDirectory`], [`PageError::UnsafeDirectory`].
    pub fn at(path: impl Into<PathBuf>) -> Result<Self, PageError> {
        let path = path.into();
        match DirBuilder::new().mode(0o700).create(&path) {
            Err(source) if source.kind() != io::ErrorKind::AlreadyExists => {
                return Err(PageError::Directory { path, source });
            }
            _ => {}
        }
        // symlink_metadata: a link could be pointed elsewhere after the check. A real directory of our own cannot be
        // replaced by another user, neither in the sticky /dev/shm nor in our own XDG_RUNTIME_DIR.
        let found = match fs::symlink_metadata(&path) {
            Ok(found) => found,
            Err(source) => return Err(PageError::Directory { path, source }),
        };
        let user = effective_user();
        if found.uid() != user {
            return Err(PageError::ForeignDirectory { path, expected_user: user, got_user: found.uid() });
        }
        if !found.is_dir() || found.mode() & 0o022 != 0 {
            return Err(PageError::UnsafeDirectory { path, got_mode: found.mode() });
        }
        Ok(Self { path })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// The place that the environment names.
fn run_directory() -> Option<PathBuf> {
    std::env::var_os("CORELANE_RUN_DIR").filter(|path| !path.is_empty()).map(PathBuf::from)
}

/// Where every user may make a directory in memory.
const SHARED_MEMORY: &str = "/dev/shm";

/// Entries of it that are looked at to find directories of this user: anybody can make more.
const ENTRIES_MAX: usize = 65_536;

/// The places for pages, the best first.
fn places(user: u32) -> Vec<PathBuf> {
    // After `sudo` or `su` the variable may still name the directory of somebody else.
    let is_own = |path: &PathBuf| fs::metadata(path).is_ok_and(|found| found.uid() == user);
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(is_own);
    let of_user = Some(PathBuf::from(format!("/run/user/{user}"))).filter(is_own);
    let of_root = Some(PathBuf::from("/run")).filter(|run| user == 0 && is_in_memory(run));
    places_from([runtime, of_user, of_root], user)
}

fn places_from(runtimes: [Option<PathBuf>; 3], user: u32) -> Vec<PathBuf> {
    // The XDG specification has relative paths ignored.
    let runtimes = runtimes.into_iter().flatten().filter(|path| path.is_absolute()).map(|path| path.join("corelane"));
    let mut places: Vec<PathBuf> = runtimes.chain([named_after(Path::new(SHARED_MEMORY), user)]).collect();
    places.dedup();
    places
}

fn named_after(shared: &Path, user: u32) -> PathBuf {
    shared.join(format!("corelane-{user}"))
}

/// Whether a path lies on a tmpfs (statfs(2)).
fn is_in_memory(path: &Path) -> bool {
    rustix::fs::statfs(path).is_ok_and(|found| found.f_type == libc::TMPFS_MAGIC)
}

/// The first of the places that works. One that belongs to somebody else, or is open to others, is told.
fn first_of(places: &[PathBuf], notes: &mut Vec<String>) -> Result<RunDirectory, PageError> {
    let mut failed = None;
    for place in places {
        match RunDirectory::at(place) {
            Ok(directory) => {
                notes.extend(failed.as_ref().and_then(|error| passed_over(&directory, error)));
                return Ok(directory);
            }
            Err(error) => failed = failed.or(Some(error)),
        }
    }
    // reason: shared memory is always among the places, the last of them.
    Err(failed.expect("there is a place to try"))
}

fn passed_over(directory: &RunDirectory, error: &PageError) -> Option<String> {
    let path = directory.path.display();
    (!matches!(error, PageError::Directory { .. })).then(|| format!("page and control socket are in {path}, because: {error}"))
}

/// The directories of this user with a number behind their name.
fn own_numbered(shared: &Path, user: u32) -> Vec<PathBuf> {
    let prefix = format!("corelane-{user}-");
    let entries = fs::read_dir(shared).into_iter().flatten().take(ENTRIES_MAX).filter_map(Result::ok);
    let named = entries.filter(|entry| entry.file_name().as_encoded_bytes().starts_with(prefix.as_bytes()));
    let own = named.filter(|entry| entry.metadata().is_ok_and(|found| found.is_dir() && found.uid() == user));
    let mut found: Vec<PathBuf> = own.map(|entry| entry.path()).collect();
    found.sort();
    found
}

/// A directory of this user under a number, for want of the one with its name: an old one, or a new one, whose number nobody can have
/// foreseen.
fn numbered(shared: &Path, user: u32, notes: &mut Vec<String>) -> Option<RunDirectory> {
    let new = shared.join(format!("corelane-{user}-{}", crate::clock::wall_clock()));
    let chosen = own_numbered(shared, user).into_iter().chain([new]).find_map(|path| RunDirectory::at(path).ok())?;
    if let Err(error) = RunDirectory::at(named_after(shared, user)) {
        notes.extend(passed_over(&chosen, &error));
    }
    Some(chosen)
}

fn effective_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// The words of a page that this process writes. Zero at first; unmapped or freed on drop, and the file, once
/// published, stays for readers to find.
#[derive(Debug)]
pub struct PageMemory {
    words: NonNull<AtomicU64>,
    count: usize,
    backing: Backing,
}

#[derive(Debug)]
enum Backing {
    Heap,
    Shared { path: PathBuf, published: bool },
}

// SAFETY: the memory belongs to this value alone until it is dropped, and it is reached through atomics only.
unsafe impl Send for PageMemory {}
// SAFETY: as above; `words` hands out shared references to atomics, which any thread may use.
unsafe impl Sync for PageMemory {}

impl PageMemory {
    /// A file of `words` zeroed words in `directory`, mode 0600. Its name is `stem`, a number that no other page of this
    /// process has, and [`SUFFIX_UNPUBLISHED`] until [`PageMemory::publish`]; a page dropped before that is removed.
    ///
    /// # Errors
    /// [`PageError::Words`], [`PageError::File`] (no space, too many open files, no memory, `stem` holds a slash).
    pub fn create(directory: &RunDirectory, stem: &str, words: usize) -> Result<Self, PageError> {
        check_words(words)?;
        let number = NEXT_NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = directory.path.join(format!("{stem}-{number}.{SUFFIX_UNPUBLISHED}"));
        if path.parent() != Some(&directory.path) {
            return Err(PageError::File { path, source: io::ErrorKind::InvalidFilename.into() });
        }
        match make_and_map(&path, words * WORD_BYTES) {
            Ok(start) => {
                let published = false;
                let backing = Backing::Shared { path, published };
                Ok(Self { words: start, count: words, backing })
            }
            Err(source) => Err(PageError::File { path, source }),
        }
    }

    /// Zeroed words on the heap, aligned as in a file.
    ///
    /// # Errors
    /// [`PageError::Words`].
    pub fn heap(words: usize) -> Result<Self, PageError> {
        let layout = heap_layout(words)?;
        // SAFETY: `heap_layout` refuses a size of zero.
        let start = unsafe { alloc_zeroed(layout) };
        let Some(start) = NonNull::new(start.cast::<AtomicU64>()) else { std::alloc::handle_alloc_error(layout) };
        Ok(Self { words: start, count: words, backing: Backing::Heap })
    }

    /// Gives the file the name under which readers look for it: from then on all that was written is seen. Memory on
    /// the heap has no file, and nothing happens.
    ///
    /// # Errors
    /// [`PageError::File`].
    pub fn publish(&mut self) -> Result<(), PageError> {
        let Backing::Shared { path, published } = &mut self.backing else {
            return Ok(());
        };
        if !*published {
            assert!(path.extension().is_some_and(|suffix| suffix == SUFFIX_UNPUBLISHED), "a page is published once");
            let named = path.with_extension(SUFFIX_PUBLISHED);
            fs::rename(&path, &named).map_err(|source| PageError::File { path: named.clone(), source })?;
            (*path, *published) = (named, true);
        }
        Ok(())
    }

    /// The words.
    #[inline]
    pub fn words(&self) -> &[AtomicU64] {
        // SAFETY: `words` points at `count` words that live as long as `self`, aligned to at least `LINE_BYTES`, zeroed
        // at first (a valid AtomicU64), and reached by nobody except through atomics: other processes of this user, and
        // no others can open the file, map it for reading only (`PageView`).
        unsafe { std::slice::from_raw_parts(self.words.as_ptr(), self.count) }
    }

    /// The file; none for memory on the heap.
    pub fn path(&self) -> Option<&Path> {
        match &self.backing {
            Backing::Heap => None,
            Backing::Shared { path, .. } => Some(path),
        }
    }
}

impl Drop for PageMemory {
    fn drop(&mut self) {
        match &self.backing {
            Backing::Heap => {
                // reason: it was made with this layout.
                let layout = heap_layout(self.count).expect("what was possible is so still");
                // SAFETY: the pointer came from `alloc_zeroed` with this layout, and is freed once.
                unsafe { dealloc(self.words.as_ptr().cast(), layout) };
            }
            Backing::Shared { path, published } => {
                unmap(self.words, self.count * WORD_BYTES);
                if !published {
                    // A drop cannot report; a file left behind is found as stale.
                    let _ = fs::remove_file(path);
                }
            }
        }
    }
}

fn check_words(words: usize) -> Result<(), PageError> {
    if words == 0 || words > WORDS_MAX { Err(PageError::Words { got: words }) } else { Ok(()) }
}

fn heap_layout(words: usize) -> Result<Layout, PageError> {
    check_words(words)?;
    Layout::from_size_align(words * WORD_BYTES, LINE_BYTES).map_err(|_| PageError::Words { got: words })
}

fn make_and_map(path: &Path, bytes: usize) -> io::Result<NonNull<AtomicU64>> {
    // create_new is O_EXCL, which follows no link either.
    let mut options = OpenOptions::new();
    let mut file = options.read(true).write(true).create_new(true).mode(0o600).open(path)?;
    // Zeros are written, so that the file system gives the space now.
    let filled = fill(&mut file, bytes);
    let mapped = filled.and_then(|()| map(&file, bytes, libc::PROT_READ | libc::PROT_WRITE));
    if mapped.is_err() {
        // The error that matters is the first; a file left behind is found as stale.
        let _ = fs::remove_file(path);
    }
    mapped
}

fn fill(file: &mut File, bytes: usize) -> io::Result<()> {
    const PIECE: &[u8] = &[0; 16 << 10];
    (0..bytes).step_by(PIECE.len()).try_for_each(|done| file.write_all(&PIECE[..PIECE.len().min(bytes - done)]))
}

fn map(file: &File, bytes: usize, protection: libc::c_int) -> io::Result<NonNull<AtomicU64>> {
    assert!(bytes <= WORDS_MAX * WORD_BYTES, "a page has no more words than it may");
    // SAFETY: a new mapping at an address of the kernel's choice replaces no other; the descriptor is open.
    let start =
        unsafe { libc::mmap(ptr::null_mut(), bytes, protection, libc::MAP_SHARED | libc::MAP_POPULATE, file.as_raw_fd(), 0) };
    if start == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    assert!(start.addr().is_multiple_of(LINE_BYTES), "a mapping begins with a page of the machine");
    NonNull::new(start.cast()).ok_or_else(|| io::ErrorKind::AddrNotAvailable.into())
}

fn unmap(start: NonNull<AtomicU64>, bytes: usize) {
    // SAFETY: called by the drop of the only owner of this mapping, with the length it was mapped with.
    let result = unsafe { libc::munmap(start.as_ptr().cast(), bytes) };
    assert_eq!(result, 0, "munmap of a mapping of our own cannot fail");
}

/// The words of a page file, for reading only. Its process may go on writing, hang, or be gone.
#[derive(Debug)]
pub struct PageView {
    words: NonNull<AtomicU64>,
    /// Those that can be read: never more than are mapped.
    count: AtomicUsize,
    bytes: usize,
    file: File,
}

// SAFETY: the mapping belongs to this value alone until it is dropped, and it is only loaded from, atomically.
unsafe impl Send for PageView {}
// SAFETY: as above.
unsafe impl Sync for PageView {}

impl PageView {
    /// Maps the file at `path` as long as it is now; what it says about itself is not looked at.
    ///
    /// # Errors
    /// [`PageError::File`], and [`PageError::NoPage`] for anything but a regular file (links are not followed) of 8
    /// bytes to 64 MiB.
    pub fn open(path: &Path) -> Result<Self, PageError> {
        let failed = |source| PageError::File { path: path.to_owned(), source };
        // O_NONBLOCK: the open of a FIFO would wait for a writer.
        let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
        let file = OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(failed)?;
        let found = file.metadata().map_err(failed)?;
        let bytes = usize::try_from(found.len()).unwrap_or(usize::MAX);
        if !found.is_file() || !(WORD_BYTES..=WORDS_MAX * WORD_BYTES).contains(&bytes) {
            return Err(PageError::NoPage { path: path.to_owned(), got_bytes: found.len() });
        }
        let words = map(&file, bytes, libc::PROT_READ).map_err(failed)?;
        Ok(Self { words, count: AtomicUsize::new(bytes / WORD_BYTES), bytes, file })
    }

    /// How many whole words there are to be read.
    pub fn len(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Whether there are none: of a file that was cut off.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Looks how long the file is now. Of one that was cut off since it was opened, what is beyond its end is read no more: reading it would end this process
    /// (SIGBUS, mmap(2)).
    pub fn settle(&self) {
        let bytes = self.file.metadata().map_or(0, |found| found.len());
        let words = usize::try_from(bytes).unwrap_or(usize::MAX) / WORD_BYTES;
        self.count.fetch_min(words, Ordering::Relaxed);
    }

    /// Loads one word, relaxed: on memory mapped for reading the standard library vouches for no other load. A fence
    /// behind it gives acquire order. None beyond the end.
    pub fn load(&self, index: usize) -> Option<u64> {
        // SAFETY: `words` points at `count` mapped words, or more, that live as long as `self`; the slice does not leave this
        // function, so nobody stores through it.
        let words = unsafe { std::slice::from_raw_parts(self.words.as_ptr(), self.len()) };
        words.get(index).map(|word| word.load(Ordering::Relaxed))
    }
}

impl Drop for PageView {
    fn drop(&mut self) {
        unmap(self.words, self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scratch(name: &str) -> RunDirectory {
        let path = std::env::temp_dir().join(format!("corelane-os-page-{}-{name}", std::process::id()));
        RunDirectory::at(path).unwrap()
    }

    fn page(directory: &RunDirectory, words: usize) -> PageMemory {
        PageMemory::create(directory, "stem", words).unwrap()
    }

    fn suffixes(directory: &RunDirectory) -> Vec<String> {
        let entries = fs::read_dir(directory.path()).unwrap();
        let suffix = |path: PathBuf| path.extension().unwrap().to_str().unwrap().to_owned();
        entries.map(|entry| suffix(entry.unwrap().path())).collect()
    }

    #[test]
    fn environment_decides_the_place() {
        let shm = PathBuf::from("/dev/shm/corelane-7");
        let places = |runtimes: [Option<&str>; 3]| places_from(runtimes.map(|path| path.map(PathBuf::from)), 7);
        assert_eq!(places([None; 3]), std::slice::from_ref(&shm));
        assert_eq!(places([Some("relative"), None, None]), std::slice::from_ref(&shm));
        let (own, root) = (PathBuf::from("/run/user/7/corelane"), PathBuf::from("/run/corelane"));
        assert_eq!(places([Some("/run/user/7"), Some("/run/user/7"), None]), [own.clone(), shm.clone()]);
        assert_eq!(places([None, Some("/run/user/7"), Some("/run")]), [own, root, shm]);
    }

    #[test]
    fn a_place_that_another_user_took_is_left_to_them_and_one_with_a_number_made() {
        let directory = scratch("taken");
        let (shared, user) = (directory.path(), effective_user());
        let (taken, mut notes) = (named_after(shared, user), Vec::new());
        fs::create_dir(&taken).unwrap();
        // As good as another user's: others may write there.
        fs::set_permissions(&taken, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
        assert!(first_of(std::slice::from_ref(&taken), &mut notes).is_err() && notes.is_empty());
        // Another's with a number is no more ours.
        fs::write(shared.join(format!("corelane-{user}-0")), "no directory").unwrap();
        let chosen = numbered(shared, user, &mut notes).unwrap();
        assert!(chosen.path() != taken && chosen.path().starts_with(shared));
        assert!(
            matches!(&notes[..], [note] if note.contains(&*chosen.path().to_string_lossy()) && note.contains("mode")),
            "{notes:?}"
        );
        assert_eq!(own_numbered(shared, user), [chosen.path()], "readers find it");
        assert_eq!(numbered(shared, user, &mut Vec::new()).unwrap(), chosen, "and the next process takes it, too");
        let next = first_of(&[taken, shared.join("next")], &mut notes).unwrap();
        assert!(next.path().ends_with("next") && notes[1].contains("next"), "{notes:?}");
        fs::remove_dir_all(shared).unwrap();
    }

    #[test]
    fn modes_keep_others_out() {
        let directory = scratch("modes");
        assert_eq!(fs::metadata(directory.path()).unwrap().mode() & 0o777, 0o700);
        let page = page(&directory, 4);
        assert_eq!(fs::metadata(page.path().unwrap()).unwrap().mode() & 0o777, 0o600);
        drop(page);
        fs::remove_dir(directory.path()).unwrap();
    }

    #[test]
    fn unsafe_directories_are_refused() {
        let directory = scratch("unsafe");
        let link = directory.path().join("link");
        std::os::unix::fs::symlink(directory.path(), &link).unwrap();
        assert!(matches!(RunDirectory::at(&link), Err(PageError::UnsafeDirectory { .. })));
        let open = directory.path().join("open");
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, std::os::unix::fs::PermissionsExt::from_mode(0o770)).unwrap();
        assert!(matches!(RunDirectory::at(&open), Err(PageError::UnsafeDirectory { got_mode: 0o40770, .. })));
        let orphan = directory.path().join("missing/child");
        assert!(matches!(RunDirectory::at(&orphan), Err(PageError::Directory { .. })));
        if effective_user() != 0 {
            assert!(matches!(RunDirectory::at("/"), Err(PageError::ForeignDirectory { got_user: 0, .. })));
        } else {
            std::os::unix::fs::chown(&open, Some(65534), None).unwrap();
            let refused = RunDirectory::at(&open);
            assert!(matches!(refused, Err(PageError::ForeignDirectory { expected_user: 0, got_user: 65534, .. })));
        }
        fs::remove_dir_all(directory.path()).unwrap();
    }

    #[test]
    fn a_page_is_seen_once_published() {
        let directory = scratch("publish");
        let mut page = page(&directory, 40);
        assert_eq!(suffixes(&directory), [SUFFIX_UNPUBLISHED]);
        page.words()[39].store(7, Ordering::Relaxed);
        page.publish().unwrap();
        page.publish().unwrap();
        assert_eq!(suffixes(&directory), [SUFFIX_PUBLISHED]);
        let view = PageView::open(page.path().unwrap()).unwrap();
        page.words()[0].store(9, Ordering::Relaxed);
        assert_eq!((view.load(0), view.load(39), view.load(40)), (Some(9), Some(7), None));
        drop(page);
        assert_eq!(view.load(39), Some(7), "the file outlives its writer");
        fs::remove_dir_all(directory.path()).unwrap();
    }

    #[test]
    fn an_unpublished_page_leaves_no_file() {
        let directory = scratch("unpublished");
        let first = page(&directory, 1);
        let second = page(&directory, 1);
        assert_ne!(first.path(), second.path());
        drop((first, second));
        fs::remove_dir(directory.path()).unwrap();
    }

    #[test]
    fn memory_is_aligned_and_zero() {
        let directory = scratch("aligned");
        for memory in [page(&directory, 33), PageMemory::heap(33).unwrap()] {
            assert_eq!(memory.words().as_ptr() as usize % LINE_BYTES, 0);
            assert_eq!(memory.words().len(), 33);
            assert!(memory.words().iter().all(|word| word.load(Ordering::Relaxed) == 0));
        }
        fs::remove_dir(directory.path()).unwrap();
        assert!(matches!(PageMemory::heap(0), Err(PageError::Words { got: 0 })));
        assert!(matches!(PageMemory::heap(WORDS_MAX + 1), Err(PageError::Words { .. })));
    }

    #[test]
    fn what_is_no_page_is_refused() {
        let directory = scratch("foreign");
        let path = directory.path().join("file");
        fs::write(&path, [0; 7]).unwrap();
        assert!(matches!(PageView::open(&path), Err(PageError::NoPage { got_bytes: 7, .. })));
        File::options().write(true).open(&path).unwrap().set_len(WORDS_MAX as u64 * 8 + 1).unwrap();
        assert!(matches!(PageView::open(&path), Err(PageError::NoPage { .. })));
        fs::write(&path, [1; 21]).unwrap();
        assert_eq!(PageView::open(&path).unwrap().len(), 2);
        assert!(matches!(PageView::open(directory.path()), Err(PageError::NoPage { .. })));
        let link = directory.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(matches!(PageView::open(&link), Err(PageError::File { .. })));
        fs::remove_dir_all(directory.path()).unwrap();
    }

    #[test]
    fn a_stem_stays_in_its_directory() {
        let directory = scratch("stem");
        for stem in ["../out", "a/b", "/abs"] {
            let refused = PageMemory::create(&directory, stem, 1);
            assert!(matches!(refused, Err(PageError::File { .. })), "{stem}");
        }
        fs::remove_dir(directory.path()).unwrap();
    }

    #[test]
    fn a_failure_leaves_no_file() {
        let directory = scratch("mapped");
        let path = directory.path().join("file");
        assert!(make_and_map(&path, 0).is_err(), "an empty file cannot be mapped");
        fs::remove_dir(directory.path()).unwrap();
    }
}
