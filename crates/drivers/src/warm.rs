//! Bytes of files in the page cache: whether they are there, and how they get there.

use crate::answer::Answer;
use crate::open_file::OpenFile;
use crate::opening;
use corelane_os::errno;
use corelane_seam::FileFacts;
use rustix::fs::{Advice, fadvise};
use rustix::io::{Errno, ReadWriteFlags, preadv2, retry_on_intr};
use rustix::param::page_size;
use std::fs::File;
use std::io::IoSliceMut;
use std::num::NonZeroU64;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

/// From so many bytes one is read where only reading shows what is there: as much as the system reads ahead at once, unless told otherwise.
const PROBE_BYTES: usize = 128 << 10;
/// Bytes that a helper reads at once.
const HELPER_BYTES: usize = 256 << 10;

/// How many bytes from `offset` on a send would not wait for, if those are all that there are of the `length` asked for; and what the file is. None, without asking, for a file that is
/// [far](FileFacts::is_far), of which each question may wait.
pub(crate) fn resident(open: &OpenFile, offset: u64, length: u64) -> Option<(u64, FileFacts)> {
    if open.is_far {
        return None;
    }
    let file = &open.file;
    let facts = opening::facts(&file.metadata().ok()?)?;
    let bytes = facts.length.saturating_sub(offset).min(length);
    if bytes == 0 {
        return Some((0, facts));
    }
    let end = offset.checked_add(bytes)?;
    is_there(file, offset..end, pages_in_cache(file, offset, bytes)).then_some((bytes, facts))
}

/// Whether these bytes are in memory, of which so many pages are counted there, if the system counts.
fn is_there(file: &File, range: Range<u64>, counted: Option<u64>) -> bool {
    let last = range.end - 1;
    match counted {
        // One that is being read is in the cache before its bytes are; they come in order. Not every file system says so (tmpfs, overlayfs): then the count is all there is.
        Some(pages) => pages > last / page() - range.start / page() && comes_without_waiting(file, last).unwrap_or(true),
        None => range.step_by(PROBE_BYTES).chain([last]).all(|at| comes_without_waiting(file, at).unwrap_or(false)),
    }
}

fn page() -> u64 {
    page_size() as u64
}

/// How many pages of these bytes are in the cache (cachestat(2), since Linux 6.5); none where the system does not say, as for a file that another owns.
fn pages_in_cache(file: &File, offset: u64, bytes: u64) -> Option<u64> {
    let range = [offset, bytes];
    // Pages in the cache, dirty, being written, evicted, and evicted recently.
    let mut counts = [0_u64; 5];
    // SAFETY: the call reads two numbers and writes five, where they are.
    let result = unsafe { libc::syscall(SYS_CACHESTAT, file.as_raw_fd(), range.as_ptr(), counts.as_mut_ptr(), 0) };
    (result == 0).then_some(counts[0])
}

/// The same for all architectures (include/uapi/asm-generic/unistd.h).
const SYS_CACHESTAT: libc::c_long = 451;

/// Whether a byte can be read without waiting for a disk (preadv2(2), RWF_NOWAIT); none where the file system does not say.
fn comes_without_waiting(file: &File, offset: u64) -> Option<bool> {
    let mut byte = [0];
    match retry_on_intr(|| preadv2(file, &mut [IoSliceMut::new(&mut byte)], offset, ReadWriteFlags::NOWAIT)) {
        Err(Errno::OPNOTSUPP) => None,
        read => Some(read == Ok(1)),
    }
}

/// Reads them into the cache, and waits until they are there. Of a file that is far nothing stays there that a send could count on, so nothing is read.
///
/// # Errors
/// The system's.
pub(crate) fn warm(open: &OpenFile, offset: u64, length: u64) -> std::io::Result<Answer> {
    let OpenFile { file, is_far } = open;
    let read = if *is_far { None } else { Some(read_ahead(file, offset, length)?) };
    match opening::facts(&file.metadata()?) {
        Some(facts) => {
            let bytes = read.unwrap_or(facts.length.saturating_sub(offset).min(length));
            Ok(Answer::Warm { bytes, facts: facts.far(*is_far) })
        }
        None => Ok(Answer::Failed(opening::NOT_A_FILE)),
    }
}

/// Returns how many bytes there are.
fn read_ahead(file: &File, offset: u64, length: u64) -> std::io::Result<u64> {
    // All of it is asked of the disk at once; where that is not possible, piece by piece.
    let _ = fadvise(file, offset, NonZeroU64::new(length), Advice::WillNeed);
    let (mut memory, mut bytes) = (vec![0; HELPER_BYTES.min(length as usize)], 0);
    while bytes < length {
        let most = memory.len().min((length - bytes) as usize);
        match file.read_at(&mut memory[..most], offset + bytes) {
            Ok(0) => break,
            Ok(read) => bytes += read as u64,
            Err(error) if errno::of(&error) == libc::EINTR => {}
            Err(error) => return Err(error),
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_just_written_is_there_and_what_was_evicted_comes_back() {
        let path = std::env::temp_dir().join(format!("corelane-warm-{}", std::process::id()));
        let file = File::options().create_new(true).read(true).write(true).open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let open = OpenFile { file: file.try_clone().unwrap(), is_far: false };
        let resident = |offset, length| resident(&open, offset, length).map(|(bytes, _)| bytes);
        // A machine that is short of memory may evict what was just written.
        let stays = (0..100).any(|_| {
            file.write_all_at(&vec![7; 1 << 20], 0).unwrap();
            resident(0, 1 << 20) == Some(1 << 20)
        });
        assert!(stays);
        file.sync_all().unwrap();
        warm(&open, 0, 1 << 20).unwrap();
        assert!(matches!(resident(1000, 4 << 20), None | Some(1_047_576)), "up to the end");
        assert_eq!(resident(1 << 20, 5), Some(0));
        assert_eq!(resident(u64::MAX, 5), Some(0));
        let says = comes_without_waiting(&file, 0);
        // Without a count, one that says nothing is not taken to be there; with one, the count is believed.
        assert!(says.is_none() || is_there(&file, 0..1 << 20, None) || resident(0, 1 << 20).is_none());
        assert!(says.is_some() || is_there(&file, 0..1 << 20, Some(1 << 20)) && !is_there(&file, 0..1 << 20, None));
        assert!(!is_there(&file, 0..1 << 20, Some(1)), "a page is not all of them");
        fadvise(&file, 0, None, Advice::DontNeed).unwrap();
        // A file system in memory has no other place for them.
        let evicted = resident(0, 1 << 20).is_none();
        assert!(comes_without_waiting(&file, 0).is_none_or(|comes| comes != evicted), "both ways to see it agree");
        let comes_back = (0..100).any(|_| {
            assert!(matches!(warm(&open, 0, 4 << 20), Ok(Answer::Warm { bytes: 1_048_576, .. })));
            resident(0, 1 << 20) == Some(1 << 20)
        });
        assert!(comes_back);
    }
    #[test]
    fn of_what_is_far_nothing_is_asked_here_and_nothing_is_read() {
        let path = std::env::temp_dir().join(format!("corelane-far-{}", std::process::id()));
        let file = File::options().create_new(true).read(true).write(true).open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        file.write_all_at(&[7; 100], 0).unwrap();
        let far = OpenFile { file, is_far: true };
        assert!(resident(&far, 0, 10).is_none());
        let warm = warm(&far, 60, 50).unwrap();
        assert!(matches!(warm, Answer::Warm { bytes: 40, facts: FileFacts { length: 100, is_far: true, .. } }));
    }
}
