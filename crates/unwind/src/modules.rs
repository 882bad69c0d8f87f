//! The files with code that a process has mapped, and where.

use corelane_os::kernel_files::text;
use framehop::{ExplicitModuleSectionInfo, Module};
use object::read::{Object, ObjectSection, ObjectSegment, ReadCache};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::PathBuf;

/// Files at the most: a process with more has others' code in it, of which nothing is told.
const FILES_MAX: usize = 256;

/// A file with code that is mapped.
#[derive(Debug)]
pub struct Mapped {
    pub path: PathBuf,
    /// The addresses from its first byte to the last that is mapped.
    pub range: Range<u64>,
    /// The least address that the file states for itself.
    least: u64,
    sections: Option<ExplicitModuleSectionInfo<Vec<u8>>>,
}

impl Mapped {
    /// The address in the file's own numbers.
    pub fn stated(&self, address: u64) -> u64 {
        assert!(self.range.contains(&address), "an address of this file");
        address - self.range.start + self.least
    }

    pub fn for_unwinder(&self) -> Option<Module<Vec<u8>>> {
        let sections = self.sections.clone()?;
        Some(Module::new(self.path.display().to_string(), self.range.clone(), self.range.start, sections))
    }
}

/// The files of a process, lowest addresses first.
pub fn mapped(process: u32) -> io::Result<Vec<Mapped>> {
    let maps = text(&format!("/proc/{process}/maps"))?;
    let mut files: Vec<(PathBuf, Range<u64>)> = Vec::new();
    for (path, range) in maps.lines().filter_map(line) {
        if let Some((_, known)) = files.last_mut().filter(|(last, _)| *last == path) {
            known.end = range.end;
        } else if files.len() < FILES_MAX {
            files.push((path, range));
        }
    }
    Ok(files.into_iter().map(|(path, range)| read(process, path, range)).collect())
}

/// The file and the addresses of `START-END rwxp OFFSET DEVICE INODE /PATH`.
fn line(text: &str) -> Option<(PathBuf, Range<u64>)> {
    let path = &text[text.find('/')?..];
    let (start, end) = text.split_whitespace().next()?.split_once('-')?;
    let number = |digits| u64::from_str_radix(digits, 16).ok();
    Some((PathBuf::from(path), number(start)?..number(end)?))
}

/// Without sections, where the file cannot be read or is none of ours.
fn read(process: u32, path: PathBuf, range: Range<u64>) -> Mapped {
    // The file that runs, even where it was replaced or lies in another container.
    let running = PathBuf::from(format!("/proc/{process}/exe"));
    let is_running = std::fs::read_link(&running).is_ok_and(|runs| runs == path);
    let path = if is_running { running } else { path };
    let (least, sections) = sections(&path).map_or((0, None), |(least, sections)| (least, Some(sections)));
    Mapped { path, range, least, sections }
}

fn sections(path: &PathBuf) -> Option<(u64, ExplicitModuleSectionInfo<Vec<u8>>)> {
    let cache = ReadCache::new(File::open(path).ok()?);
    let file = object::File::parse(&cache).ok()?;
    let least = file.segments().map(|segment| segment.address()).min()?;
    let section = |name| file.section_by_name(name);
    let at = |name| section(name).map(|section| section.address()..section.address() + section.size());
    let data = |name| section(name)?.data().ok().map(<[u8]>::to_vec);
    let found = ExplicitModuleSectionInfo {
        base_svma: least,
        text_svma: at(".text"),
        got_svma: at(".got"),
        eh_frame_svma: at(".eh_frame"),
        eh_frame: data(".eh_frame"),
        eh_frame_hdr_svma: at(".eh_frame_hdr"),
        eh_frame_hdr: data(".eh_frame_hdr"),
        ..ExplicitModuleSectionInfo::default()
    };
    Some((least, found))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_without_a_file_are_passed_over() {
        let text = "55d0c000-55d0d000 r-xp 00002000 fe:01 12 /usr/bin/a b\n7ffc0-7ffd0 rw-p 0 00:00 0 [stack]\n";
        let found: Vec<_> = text.lines().filter_map(line).collect();
        assert_eq!(found, [("/usr/bin/a b".into(), 0x55d0_c000..0x55d0_d000)]);
    }

    #[test]
    fn this_program_has_tables() {
        let modules = mapped(std::process::id()).unwrap();
        assert!(modules.iter().any(|module| module.path.ends_with("exe") && module.for_unwinder().is_some()), "{modules:?}");
    }
}
