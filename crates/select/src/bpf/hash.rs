//! Values by keys of any bytes.

use super::{Command, CreateMap, NAME_BYTES, cpus_possible, create, element, named};
use crate::errors::Error;
use corelane_seam::{Fault, Reason};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// A kind of such a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum HashKind {
    /// A value for each key, for all CPUs.
    Plain = 1,
    /// A value of its own for each CPU.
    PerCpu = 5,
    /// Where it is full, one that was not looked up lately gives way (`BPF_MAP_TYPE_LRU_HASH`). What gives way may be overwritten while a program still reads it.
    Recent = 9,
}

/// A bounded map from keys to values, whose memory is taken at once.
#[derive(Debug)]
pub struct Hash {
    descriptor: OwnedFd,
    key_bytes: usize,
    value_bytes: usize,
    /// Bytes of what a look-up brings, and an update takes.
    found_bytes: usize,
}

impl Hash {
    /// Room for so many values of so many bytes. The name is as for [`super::Map::new`].
    ///
    /// # Errors
    /// As for [`super::Map::new`].
    ///
    /// # Panics
    /// If the name is longer.
    pub fn new(kind: HashKind, (key_bytes, value_bytes): (usize, usize), entries: usize, name: &str) -> Result<Self, Error> {
        assert!(key_bytes > 0 && value_bytes > 0 && entries > 0 && name.len() < NAME_BYTES, "a map holds something");
        let attribute = CreateMap {
            kind: kind as u32,
            key_bytes: key_bytes as u32,
            value_bytes: value_bytes as u32,
            most_entries: entries as u32,
            name: named(name),
            ..CreateMap::default()
        };
        let found_bytes = match kind {
            HashKind::PerCpu => value_bytes.next_multiple_of(8) * cpus_possible().len(),
            HashKind::Plain | HashKind::Recent => value_bytes,
        };
        Ok(Self { descriptor: create(&attribute)?, key_bytes, value_bytes, found_bytes })
    }

    /// Writes one value; with values by CPU, all of them are the same then.
    ///
    /// # Errors
    /// What the system says; `Other` with E2BIG where there is no room.
    ///
    /// # Panics
    /// If key or value have not the map's sizes.
    pub fn update(&self, key: &[u8], value: &[u8]) -> Result<(), Fault> {
        assert!(key.len() == self.key_bytes && value.len() == self.value_bytes, "as long as the map's");
        let mut each = value.to_vec();
        each.resize(self.value_bytes.next_multiple_of(8), 0);
        let all = each.repeat(self.found_bytes.div_ceil(each.len()));
        assert!(all.len() >= self.found_bytes, "a value for each CPU");
        // SAFETY: the key is as long as the map's, and there are as many bytes as the kernel reads.
        unsafe { element(&self.descriptor, Command::MapUpdate, key, all.as_ptr().expose_provenance() as u64) }
    }

    /// Takes one out.
    ///
    /// # Errors
    /// What the system says; `NotFound` where there is none.
    ///
    /// # Panics
    /// If the key has not the map's size.
    pub fn delete(&self, key: &[u8]) -> Result<(), Fault> {
        assert!(key.len() == self.key_bytes, "as long as the map's");
        // SAFETY: the key is as long as the map's, and the command has no value.
        unsafe { element(&self.descriptor, Command::MapDelete, key, 0) }
    }

    /// Reads one value; with values by CPU those of all possible CPUs, each filled up to 8 bytes. None if there is none.
    ///
    /// # Errors
    /// What the system says.
    ///
    /// # Panics
    /// If the key has not the map's size.
    pub fn lookup(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Fault> {
        assert!(key.len() == self.key_bytes, "as long as the map's");
        let mut value = vec![0; self.found_bytes];
        let to = value.as_mut_ptr().expose_provenance() as u64;
        // SAFETY: the key is as long as the map's, and there is room for what the kernel writes.
        match unsafe { element(&self.descriptor, Command::MapLookup, key, to) } {
            Ok(()) => Ok(Some(value)),
            Err(fault) if fault.reason == Reason::NotFound => Ok(None),
            Err(fault) => Err(fault),
        }
    }
}

impl AsFd for Hash {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bpf::probe;

    fn may(test: &str) -> bool {
        let able = probe();
        if let Err(error) = &able {
            corelane_os::testing::skip(test, &error.to_string());
        }
        able.is_ok()
    }

    #[test]
    fn values_are_found_by_their_keys() {
        if !may("values_are_found_by_their_keys") {
            return;
        }
        let map = Hash::new(HashKind::Recent, (16, 12), 8, "corelane_test").unwrap();
        map.update(&[1; 16], &[2; 12]).unwrap();
        assert_eq!(map.lookup(&[1; 16]), Ok(Some(vec![2; 12])));
        assert_eq!(map.lookup(&[2; 16]), Ok(None));
        let by_cpu = Hash::new(HashKind::PerCpu, (4, 12), 1, "corelane_test").unwrap();
        by_cpu.update(&[1; 4], &[2; 12]).unwrap();
        let found = by_cpu.lookup(&[1; 4]).unwrap().unwrap();
        assert_eq!(found.len(), 16 * cpus_possible().len());
        assert!(found.chunks(16).all(|one| one[..12] == [2; 12]), "a value for each CPU");
        assert_eq!(by_cpu.update(&[2; 4], &[2; 12]).unwrap_err().number, libc::E2BIG);
    }

    /// A thousand keys that nobody asks for do not drive out one that is asked for now and then.
    #[test]
    fn what_is_looked_up_stays_while_others_come_and_go() {
        use crate::bpf::assembly::{Alu, Assembler, Register, When, Width};
        use crate::bpf::{Program, ProgramKind};
        if !may("what_is_looked_up_stays_while_others_come_and_go") {
            return;
        }
        const ENTRIES: u32 = 1024;
        let map = Hash::new(HashKind::Recent, (4, 4), ENTRIES as usize, "corelane_test").unwrap();
        // A look-up by a process does not count, one by a program does.
        let mut a = Assembler::new();
        a.load(Width::Four, Register::R2, Register::R1, 0);
        a.load(Width::Four, Register::R3, Register::R1, 4);
        let absent = a.label();
        a.alu(Alu::Move, Register::R4, Register::R2);
        a.alu(Alu::Add, Register::R4, 14);
        a.branch(When::Greater, Register::R4, Register::R3, absent);
        a.load(Width::Four, Register::R5, Register::R2, 0);
        a.store(Width::Four, Register::R10, -4, Register::R5);
        a.map(Register::R1, map.as_fd());
        a.alu(Alu::Move, Register::R2, Register::R10);
        a.alu(Alu::Add, Register::R2, -4);
        a.call(1);
        a.branch(When::Equal, Register::R0, 0, absent);
        a.alu(Alu::Move, Register::R0, 2);
        a.exit();
        a.place(absent);
        a.alu(Alu::Move, Register::R0, 1);
        a.exit();
        let program = Program::load(ProgramKind::Xdp, &a.finish(), "corelane_test").unwrap();
        let is_there = |key: u32| {
            let mut frame = [0; 14];
            frame[..4].copy_from_slice(&key.to_ne_bytes());
            program.answer(&frame) == Ok(2)
        };
        let honest: Vec<u32> = (0..64).collect();
        let enter = |key: u32| map.update(&key.to_ne_bytes(), &[0; 4]).unwrap();
        honest.iter().for_each(|key| enter(*key));
        let mut lost = 0;
        for spoofed in 0..20 * ENTRIES {
            enter(1_000_000 + spoofed);
            if spoofed.is_multiple_of(64) {
                // Each is used once for 64 that nobody uses, and learnt again when it is not there.
                for key in &honest {
                    if !is_there(*key) {
                        lost += 1;
                        enter(*key);
                    }
                }
            }
        }
        println!("{lost} of {} look-ups found nothing", 64 * 20 * ENTRIES / 64);
        assert!(lost < 20 * ENTRIES / 20, "{lost}");
    }
}
