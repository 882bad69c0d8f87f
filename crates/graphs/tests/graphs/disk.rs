//! A disk in memory, and names for series on it.

use corelane_graphs::{Disk, Name, Subject};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::io;

const PAGE: u64 = 4096;

/// Pages that were written, the length, and every write as it was made.
#[derive(Clone, Debug, Default)]
pub struct Pages {
    pages: BTreeMap<u64, Vec<u8>>,
    pub bytes: u64,
    pub written: Vec<(u64, Vec<u8>)>,
    /// Every write from now on is refused.
    pub is_full: Cell<bool>,
}

impl Pages {
    /// Writes without a word of it.
    pub fn put(&mut self, offset: u64, bytes: &[u8]) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let at = offset + (bytes.len() - rest.len()) as u64;
            let inside = (at % PAGE) as usize;
            let (part, behind) = rest.split_at(rest.len().min(PAGE as usize - inside));
            let page = self.pages.entry(at / PAGE).or_insert_with(|| vec![0; PAGE as usize]);
            page[inside..inside + part.len()].copy_from_slice(part);
            rest = behind;
        }
        self.bytes = self.bytes.max(offset + bytes.len() as u64);
    }

    /// Cuts the rest off.
    pub fn cut(&mut self, bytes: u64) {
        self.bytes = bytes;
        self.pages.retain(|page, _| page * PAGE < bytes);
        if let Some(last) = self.pages.get_mut(&(bytes / PAGE)) {
            last[(bytes % PAGE) as usize..].fill(0);
        }
    }
}

impl Disk for Pages {
    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        let length = self.bytes.saturating_sub(offset).min(into.len() as u64) as usize;
        let mut done = 0;
        while done < length {
            let at = offset + done as u64;
            let (page, inside) = (at / PAGE, (at % PAGE) as usize);
            let part = (length - done).min(PAGE as usize - inside);
            match self.pages.get(&page) {
                Some(bytes) => into[done..done + part].copy_from_slice(&bytes[inside..inside + part]),
                None => into[done..done + part].fill(0),
            }
            done += part;
        }
        Ok(length)
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        if self.is_full.get() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.put(offset, bytes);
        self.written.push((offset, bytes.to_vec()));
        Ok(())
    }

    fn set_len(&mut self, bytes: u64) -> io::Result<()> {
        if bytes < self.bytes {
            self.cut(bytes);
        }
        self.bytes = bytes;
        Ok(())
    }
}

/// Bytes that came in by an interface.
pub fn vlan(number: u64) -> Name {
    Name::new(Subject::Interface(format!("vlan{number:04}")), "bytes in")
}
