//! Where a thread of any process is, again and again while it runs: the system copies its registers and its stack by its own clock
//! (perf_event_open(2)). The thread does nothing for it, and is not asked.
//!
//! Stacks are copied rather than walked, because programs built for release keep no frame pointers.

use corelane_os::halt::{Registers, Stack};
use corelane_os::kernel_files;
use perf_event::data::Record;
use perf_event::events::Software;
use perf_event::{Builder, SampleFlag, Sampler};
use std::io;

/// Bytes of a stack that are copied at the most: a sample has to stay below 64 KiB.
const STACK_BYTES_MAX: u32 = 32 << 10;
/// Memory in which samples wait to be read: as much as every user may have for each CPU (`kernel.perf_event_mlock_kb`), less the page
/// before it.
const WAITING_BYTES: usize = 512 << 10;

/// The registers of [`Registers`], lowest number first (`asm/perf_regs.h`).
#[cfg(target_arch = "x86_64")]
const REGISTERS: [u32; 3] = [6, 7, 8]; // bp, sp, ip
#[cfg(target_arch = "aarch64")]
const REGISTERS: [u32; 4] = [29, 30, 31, 32]; // x29, lr, sp, pc

/// What a sample tells of where it was taken (`PERF_RECORD_MISC_CPUMODE_MASK`), and that it was in the kernel.
const MODE: u16 = 7;
const IN_KERNEL: u16 = 1;

/// A thread that is sampled, until this is dropped.
pub struct Sampling {
    sampler: Sampler,
    sees_kernel: bool,
    lost: u64,
}

/// Where a thread was.
pub struct Sample {
    /// Its registers and its stack.
    pub stack: Stack,
    /// Whether it was in a call of the system's.
    pub in_kernel: bool,
}

impl Sampling {
    /// Samples a thread so many times for each second that it runs (gettid(2)); also what it does in the kernel, where that may be seen.
    ///
    /// # Errors
    /// In words, with a remedy: `PermissionDenied`, `NotFound` for a thread that has ended, `Unsupported` where the kernel has no such call, or
    /// what the system says.
    pub fn of(thread: u32, hertz: u64) -> io::Result<Self> {
        match open(thread, hertz, true) {
            Ok(sampler) => Ok(Self { sampler, sees_kernel: true, lost: 0 }),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                let sampler = open(thread, hertz, false).map_err(|error| in_words(thread, &error))?;
                Ok(Self { sampler, sees_kernel: false, lost: 0 })
            }
            Err(error) => Err(in_words(thread, &error)),
        }
    }

    /// Whether samples are taken in the kernel, too.
    pub fn sees_kernel(&self) -> bool {
        self.sees_kernel
    }

    /// Samples that found no room: they were not read in time.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Calls `take` with each sample that waits.
    pub fn drain(&mut self, mut take: impl FnMut(Sample)) {
        while let Some(record) = self.sampler.next_record() {
            let in_kernel = record.misc() & MODE == IN_KERNEL;
            match record.parse_record() {
                Ok(Record::Sample(sample)) => {
                    let registers = sample.regs_user().and_then(|registers| registers_of(&registers.regs));
                    let Some((registers, bytes)) = registers.zip(sample.stack_user()) else { continue };
                    take(Sample { stack: Stack { registers, bytes: bytes.to_vec() }, in_kernel });
                }
                Ok(Record::Lost(lost)) => self.lost += lost.lost,
                _ => {}
            }
        }
    }
}

fn open(thread: u32, hertz: u64, with_kernel: bool) -> io::Result<Sampler> {
    let gone = || io::Error::from_raw_os_error(libc::ESRCH);
    let mut builder = Builder::new(Software::CPU_CLOCK);
    builder.observe_pid(thread.try_into().map_err(|_| gone())?).any_cpu();
    builder.exclude_kernel(!with_kernel).exclude_hv(true).sample_frequency(hertz);
    builder.sample(SampleFlag::REGS_USER | SampleFlag::STACK_USER);
    builder.sample_regs_user(REGISTERS.iter().map(|number| 1 << number).sum()).sample_stack_user(STACK_BYTES_MAX);
    let mut sampler = builder.build()?.sampled(WAITING_BYTES)?;
    sampler.enable()?;
    Ok(sampler)
}

/// None for a thread that has none, because it is the kernel's.
fn registers_of(told: &[u64]) -> Option<Registers> {
    #[cfg(target_arch = "x86_64")]
    let &[fp, sp, ip] = told else { return None };
    #[cfg(target_arch = "x86_64")]
    let lr = 0;
    #[cfg(target_arch = "aarch64")]
    let &[fp, lr, sp, ip] = told else { return None };
    Some(Registers { ip, sp, fp, lr })
}

fn in_words(thread: u32, error: &io::Error) -> io::Error {
    let (kind, words) = match (error.kind(), error.raw_os_error()) {
        (io::ErrorKind::PermissionDenied, _) => {
            let allows = kernel_files::text("/proc/sys/kernel/perf_event_paranoid");
            let allows = allows.map_or_else(|error| error.to_string(), |value| value.trim().to_owned());
            let words = format!(
                "thread {thread} may not be sampled (kernel.perf_event_paranoid is {allows}): run as the user whose process it is and set \
                 kernel.perf_event_paranoid to 2 or less, or have CAP_PERFMON; a container's filter has to allow perf_event_open"
            );
            (io::ErrorKind::PermissionDenied, words)
        }
        (_, Some(libc::ESRCH)) => (io::ErrorKind::NotFound, format!("thread {thread} has ended")),
        (_, Some(libc::ENOSYS | libc::EOPNOTSUPP | libc::ENOENT)) => {
            (io::ErrorKind::Unsupported, format!("this kernel samples no threads (perf_event_open(2)): {error}"))
        }
        (kind, _) => (kind, format!("sampling thread {thread}: {error}")),
    };
    io::Error::new(kind, words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc::channel;

    #[test]
    fn a_thread_that_computes_is_sampled_with_its_stack() {
        static ENDS: AtomicBool = AtomicBool::new(false);
        let (tell, told) = channel();
        let thread = std::thread::spawn(move || {
            let here = 0;
            tell.send((corelane_os::runner::thread_id(), std::ptr::from_ref(&here).addr() as u64)).unwrap();
            while !ENDS.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        let (id, within) = told.recv().unwrap();
        let mut sampling = Sampling::of(id, 1_000).unwrap();
        let mut found = Vec::new();
        let give_up = corelane_os::clock::now() + 30_000_000_000;
        while found.len() < 10 && corelane_os::clock::now() < give_up {
            sampling.drain(|sample| found.push(sample));
        }
        ENDS.store(true, Ordering::Relaxed);
        thread.join().unwrap();
        assert!(found.len() >= 10, "nothing is sampled");
        let holds = |sample: &Sample| sample.stack.word(within & !7).is_some();
        assert!(found.iter().all(|sample| sample.stack.registers.ip > 0 && holds(sample)), "the stack is not the thread's");
    }

    #[test]
    fn errors_say_what_is_to_be_done() {
        let error = Sampling::of(u32::MAX, 100).err().unwrap();
        assert_eq!((error.kind(), error.to_string().contains("has ended")), (io::ErrorKind::NotFound, true), "{error}");
        let words = |errno| in_words(7, &io::Error::from_raw_os_error(errno)).to_string();
        assert!(words(libc::EACCES).contains("kernel.perf_event_paranoid is"), "{}", words(libc::EACCES));
        assert!(words(libc::EPERM).contains("CAP_PERFMON"));
        assert!(words(libc::ENOSYS).contains("this kernel samples no threads"));
        assert!(words(libc::EMFILE).starts_with("sampling thread 7: "));
    }
}
