//! What processes and threads use: processor time, waiting for a processor, memory, descriptors (proc(5)).

use crate::clock::{self, nanoseconds_of_ticks};
use crate::kernel_files::{bytes, is_gone, lacking, numbers, text};
use crate::runner::thread_id;
use std::collections::BTreeMap;
use std::io;

/// One process, told apart by its start from a later one with the same number.
///
/// Only processes that this one's /proc shows can be asked about; it may hide those of other users (`hidepid`, proc(5)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process {
    id: u32,
    start_ticks: u64,
}

/// What a process, or a tree of them, holds at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Footprint {
    /// Processes that run; one that has ended and was not waited for yet holds nothing.
    pub processes: u64,
    /// Their threads.
    pub threads: u64,
    /// Resident memory. What several processes share is counted in each. Exact where `proportional_bytes` is known, else it
    /// lags by some pages for each thread. Zero of a process whose first thread has ended before the others.
    pub resident_bytes: u64,
    /// Resident memory, with what is shared divided among those that share it (`Pss`); none if it is not for this user.
    pub proportional_bytes: Option<u64>,
    /// Entries of all descriptor tables: a thread may have one of its own, and what it took from the first one counts in both.
    /// None if it is not for this user, or the system has no kcmp(2).
    pub descriptors: Option<u64>,
}

/// What a thread has used since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadTimes {
    /// Time on a processor, up to this moment.
    pub cpu_nanoseconds: u64,
    /// Time in which it could have run, and waited for a processor; the wait that goes on at this moment is not in it.
    pub run_delay_nanoseconds: u64,
}

/// What a process and its descendants have used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TreeTimes {
    /// Time on a processor; see [`ProcessTree`] for what it covers.
    pub cpu_nanoseconds: u64,
    /// Time in which threads could have run, and waited for a processor; covered in the same way, for each thread.
    pub run_delay_nanoseconds: u64,
    /// Descendants that were read before and have ended since: what each did after its last reading is missing above.
    pub ended: u64,
    /// Time on a processor of *all* descendants that have ended and were waited for, up to the first process, as the kernel
    /// has added it up, in steps of its clock ticks, 10 ms (cutime and cstime, proc_pid_stat(5)). It includes those that were
    /// never read, and is not part of `cpu_nanoseconds`: where it grows by more than was read of the ended, that is missing.
    pub waited_nanoseconds: u64,
}

/// A process and its descendants, followed from reading to reading.
///
/// A descendant is known from the first reading that finds it, and stays one when its parent ends. The times never go back:
/// what was read of a process stays counted after its end. **Not covered** are what a process did between its last reading and its
/// end, and those that started and ended between two readings; `ended` and `waited_nanoseconds` of [`TreeTimes`] show both.
/// Threads of a process that runs are all covered by the processor time, also after their end; by the run delay up to their last reading.
/// A thread of another process that runs at this moment is covered up to the kernel's last timer interrupt, some milliseconds at most.
#[derive(Clone, Debug)]
pub struct ProcessTree {
    root: Process,
    members: Vec<Member>,
    /// Processor time of the members that have ended.
    ended_cpu_nanoseconds: u64,
    /// Run delay that was seen of all threads.
    run_delay_nanoseconds: u64,
    ended: u64,
}

/// A process of a tree, with what its last reading showed.
#[derive(Clone, Debug)]
struct Member {
    process: Process,
    cpu_nanoseconds: u64,
    /// By thread id.
    run_delays: BTreeMap<u32, u64>,
}

/// What of /proc/PID/stat matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stat {
    parent: u32,
    has_ended: bool,
    waited_ticks: u64,
    threads: u64,
    start_ticks: u64,
}

impl Process {
    /// The process that has the number `id` now.
    ///
    /// # Errors
    /// `NotFound` if there is none, `PermissionDenied` if /proc hides it.
    pub fn find(id: u32) -> io::Result<Self> {
        let process = Self { id, start_ticks: stat_of(id)?.start_ticks };
        // A thread's number has no clock of a process, but for the thread itself.
        let is_thread = id == thread_id() && id != std::process::id();
        if is_thread { Err(no_process(id)) } else { process.clock().map(|_| process) }
    }

    /// Its number.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Processor time of all its threads since its start, those that have ended included (clock_getcpuclockid(3)).
    ///
    /// A thread of another process that runs at this moment is counted up to the kernel's last timer interrupt.
    ///
    /// # Errors
    /// `NotFound` if it has ended and was waited for, or its number has gone to another process.
    pub fn cpu_nanoseconds(&self) -> io::Result<u64> {
        let used = self.clock()?;
        self.stat().map(|_| used)
    }

    /// Its resident memory, in bytes, as the kernel counts it at hand: it lags by some pages for each thread (`VmRSS`, proc_pid_status(5)).
    ///
    /// # Errors
    /// `NotFound` as for [`Process::cpu_nanoseconds`].
    pub fn resident_bytes(&self) -> io::Result<u64> {
        let resident = self.file("status").map(|status| bytes_after(&status, "VmRSS:"))?;
        self.stat().map(|_| resident.unwrap_or(0))
    }

    /// What it holds now. It goes through all descriptors and page tables: a millisecond and more for a large process.
    ///
    /// # Errors
    /// `NotFound` as for [`Process::cpu_nanoseconds`].
    pub fn footprint(&self) -> io::Result<Footprint> {
        let (resident_bytes, proportional_bytes) = self.memory()?;
        let descriptors = permitted(self.descriptors())?;
        // Last, so that it vouches for all the rest.
        let stat = self.stat()?;
        if stat.has_ended {
            return Ok(Footprint::NOTHING);
        }
        assert!(stat.threads > 0, "a process that runs has a thread");
        Ok(Footprint { processes: 1, threads: stat.threads, resident_bytes, proportional_bytes, descriptors })
    }

    /// Its own line of /proc. What was read before, by number, was this process's if this succeeds.
    fn stat(&self) -> io::Result<Stat> {
        let stat = stat_of(self.id)?;
        if stat.start_ticks == self.start_ticks { Ok(stat) } else { Err(self.taken()) }
    }

    fn clock(&self) -> io::Result<u64> {
        clock::cpu_of_process(self.id).ok_or_else(|| no_process(self.id))
    }

    fn taken(&self) -> io::Error {
        let words = format!("process {} has ended and its number has gone to another process: find it again", self.id);
        io::Error::new(io::ErrorKind::NotFound, words)
    }

    /// Resident and proportional bytes.
    fn memory(&self) -> io::Result<(u64, Option<u64>)> {
        // It is gone before its process is, too: with the memory.
        let rollup = skip_gone(permitted(self.file("smaps_rollup")))?.flatten();
        if let Some((resident, proportional)) = rollup.as_deref().and_then(rolled_up) {
            return Ok((resident, Some(proportional)));
        }
        let resident = self.file("status").map(|status| bytes_after(&status, "VmRSS:"))?;
        Ok((resident.unwrap_or(0), None))
    }

    fn file(&self, name: &str) -> io::Result<String> {
        text(&format!("/proc/{}/{name}", self.id))
    }

    fn descriptors(&self) -> io::Result<u64> {
        let (mut tables, mut entries) = (Vec::new(), 0);
        for thread in threads_of(self.id)? {
            if !shares_table(thread, &tables)? {
                entries += skip_gone(numbers(&format!("/proc/{}/task/{thread}/fd", self.id)))?.map_or(0, |found| found.len());
                tables.push(thread);
            }
        }
        Ok(entries as u64)
    }
}

impl Footprint {
    const NOTHING: Self = Self { processes: 0, threads: 0, resident_bytes: 0, proportional_bytes: Some(0), descriptors: Some(0) };

    fn plus(self, other: Self) -> Self {
        let sum = |one: Option<u64>, other: Option<u64>| Some(one? + other?);
        Self {
            processes: self.processes + other.processes,
            threads: self.threads + other.threads,
            resident_bytes: self.resident_bytes + other.resident_bytes,
            proportional_bytes: sum(self.proportional_bytes, other.proportional_bytes),
            descriptors: sum(self.descriptors, other.descriptors),
        }
    }
}

/// What a thread of this process has used (sched-stats in the kernel's documentation, pthread_getcpuclockid(3)).
///
/// # Errors
/// `NotFound` if this process has no such thread, or the kernel counts no run delay (CONFIG_SCHED_INFO).
pub fn thread_times(thread: u32) -> io::Result<ThreadTimes> {
    let path = format!("/proc/self/task/{thread}/schedstat");
    let run_delay_nanoseconds = run_delay_in(&path)?;
    let cpu_nanoseconds = clock::cpu_of_thread(thread).ok_or_else(|| {
        io::Error::new(io::ErrorKind::NotFound, format!("this process has no thread {thread}: it may have ended"))
    })?;
    Ok(ThreadTimes { cpu_nanoseconds, run_delay_nanoseconds })
}

impl ProcessTree {
    /// The tree of the process that has the number `id` now.
    ///
    /// # Errors
    /// Those of [`Process::find`]; `Unsupported` where the kernel counts no run delay.
    pub fn of(id: u32) -> io::Result<Self> {
        run_delay_in("/proc/thread-self/schedstat").map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => io::Error::new(io::ErrorKind::Unsupported, NO_RUN_DELAY),
            _ => error,
        })?;
        let root = Process::find(id)?;
        Ok(Self { root, members: vec![Member::new(root)], ended_cpu_nanoseconds: 0, run_delay_nanoseconds: 0, ended: 0 })
    }

    /// What it has used so far. It reads one file of each process of the machine, and one of each thread of the tree.
    ///
    /// # Errors
    /// `NotFound` when the first process has ended and was waited for, even if descendants go on, or when its number has
    /// gone to another process; `PermissionDenied` if /proc hides what it needs.
    pub fn times(&mut self) -> io::Result<TreeTimes> {
        self.refresh()?;
        for member in &mut self.members {
            let delay = skip_gone(member.update())?;
            self.run_delay_nanoseconds += delay.unwrap_or(0);
        }
        let waited_ticks = self.root.stat()?.waited_ticks;
        let running: u64 = self.members.iter().map(|member| member.cpu_nanoseconds).sum();
        assert!(self.members.iter().any(|member| member.process == self.root), "the first process runs, and is one of them");
        Ok(TreeTimes {
            cpu_nanoseconds: self.ended_cpu_nanoseconds + running,
            run_delay_nanoseconds: self.run_delay_nanoseconds,
            ended: self.ended,
            waited_nanoseconds: nanoseconds_of_ticks(waited_ticks),
        })
    }

    /// What it holds now; the cost is that of [`Process::footprint`] for each process of the tree.
    ///
    /// # Errors
    /// Those of [`ProcessTree::times`].
    pub fn footprint(&mut self) -> io::Result<Footprint> {
        self.refresh()?;
        let mut sum = Footprint::NOTHING;
        for member in &self.members {
            sum = sum.plus(skip_gone(member.process.footprint())?.unwrap_or(Footprint::NOTHING));
        }
        self.root.stat().map(|_| sum)
    }

    /// Lets go of members that are gone and takes in new descendants.
    fn refresh(&mut self) -> io::Result<()> {
        let stats = all_stats()?;
        self.root.stat()?;
        let stays = |process: Process| stats.get(&process.id).is_some_and(|stat| stat.start_ticks == process.start_ticks);
        for member in self.members.extract_if(.., |member| !stays(member.process)) {
            self.ended += 1;
            self.ended_cpu_nanoseconds += member.cpu_nanoseconds;
        }
        let known: Vec<u32> = self.members.iter().map(|member| member.process.id).collect();
        for id in descendants(&known, &stats) {
            assert!(!known.contains(&id), "a process is a member once");
            self.members.push(Member::new(Process { id, start_ticks: stats[&id].start_ticks }));
        }
        Ok(())
    }
}

const NO_RUN_DELAY: &str = "this kernel counts no run delay: it needs CONFIG_SCHED_INFO";

impl Member {
    fn new(process: Process) -> Self {
        Self { process, cpu_nanoseconds: 0, run_delays: BTreeMap::new() }
    }

    /// Reads it; returns the run delay that has come since the last reading.
    fn update(&mut self) -> io::Result<u64> {
        let used = self.process.clock()?;
        let delays = run_delays_of(self.process.id)?;
        self.process.stat()?;
        self.cpu_nanoseconds = self.cpu_nanoseconds.max(used);
        assert!(self.cpu_nanoseconds >= used, "times never go back");
        let before = std::mem::replace(&mut self.run_delays, delays);
        Ok(growth(&before, &self.run_delays))
    }
}

/// What has come since `before`. A thread whose figure went back is a new one with an old number.
fn growth(before: &BTreeMap<u32, u64>, now: &BTreeMap<u32, u64>) -> u64 {
    let grown = |(thread, now): (&u32, &u64)| match before.get(thread) {
        Some(before) if before <= now => now - before,
        _ => *now,
    };
    now.iter().map(grown).sum()
}

/// Those of `stats` that descend from `known` and are not among them.
fn descendants(known: &[u32], stats: &BTreeMap<u32, Stat>) -> Vec<u32> {
    let mut family = known.to_vec();
    let mut next = 0;
    while let Some(&parent) = family.get(next) {
        let children = stats.iter().filter(|(_, stat)| stat.parent == parent).map(|(&id, _)| id);
        let new: Vec<u32> = children.filter(|id| !family.contains(id)).collect();
        family.extend(new);
        next += 1;
    }
    family.split_off(known.len())
}

/// Every process that /proc shows to this user.
fn all_stats() -> io::Result<BTreeMap<u32, Stat>> {
    let mut stats = BTreeMap::new();
    for id in numbers("/proc")? {
        if let Some(stat) = skip_gone(permitted(stat_of(id)))?.flatten() {
            stats.insert(id, stat);
        }
    }
    Ok(stats)
}

fn stat_of(id: u32) -> io::Result<Stat> {
    let path = format!("/proc/{id}/stat");
    let line = bytes(&path).map_err(|error| if is_gone(&error) { no_process(id) } else { error })?;
    parse_stat(&line).ok_or_else(|| lacking(&path, "22 fields"))
}

fn no_process(id: u32) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, format!("there is no process {id}: it may have ended, or be a thread's number"))
}

fn threads_of(id: u32) -> io::Result<Vec<u32>> {
    numbers(&format!("/proc/{id}/task"))
}

/// The run delay of each thread of a process.
fn run_delays_of(id: u32) -> io::Result<BTreeMap<u32, u64>> {
    let mut delays = BTreeMap::new();
    for thread in threads_of(id)? {
        if let Some(delay) = skip_gone(run_delay_in(&format!("/proc/{id}/task/{thread}/schedstat")))? {
            delays.insert(thread, delay);
        }
    }
    Ok(delays)
}

fn run_delay_in(path: &str) -> io::Result<u64> {
    run_delay(&text(path)?).ok_or_else(|| lacking(path, "three numbers"))
}

/// Whether a thread uses the same descriptor table as one of `others` (kcmp(2)).
fn shares_table(thread: u32, others: &[u32]) -> io::Result<bool> {
    const KCMP_FILES: i32 = 2;
    for &other in others {
        // SAFETY: takes no pointers.
        match unsafe { libc::syscall(libc::SYS_kcmp, thread, other, KCMP_FILES, 0, 0) } {
            0 => return Ok(true),
            1.. => {}
            _ => return is_same_table(io::Error::last_os_error()),
        }
    }
    Ok(false)
}

/// What a failed comparison means: one of the two threads has ended, and with it its use of the table; or it is refused.
fn is_same_table(error: io::Error) -> io::Result<bool> {
    match error.raw_os_error() {
        Some(libc::ESRCH) => Ok(true),
        Some(libc::EPERM | libc::EACCES | libc::ENOSYS) => Err(io::Error::from(io::ErrorKind::PermissionDenied)),
        _ => Err(error),
    }
}

/// None for what has ended meanwhile.
fn skip_gone<T>(answer: io::Result<T>) -> io::Result<Option<T>> {
    match answer {
        Err(error) if is_gone(&error) => Ok(None),
        answer => answer.map(Some),
    }
}

/// None for what is not for this user.
fn permitted<T>(answer: io::Result<T>) -> io::Result<Option<T>> {
    match answer {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(None),
        answer => answer.map(Some),
    }
}

/// The fields of /proc/PID/stat. The second, the name, may hold blanks, parentheses, and bytes that are no text.
fn parse_stat(stat: &[u8]) -> Option<Stat> {
    let name_end = stat.iter().rposition(|&byte| byte == b')')?;
    let rest = std::str::from_utf8(stat.get(name_end + 1..)?).ok()?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    // Numbered as in proc_pid_stat(5).
    let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
    let threads = number(20)?;
    Some(Stat {
        parent: u32::try_from(number(4)?).ok()?,
        // A first thread that has ended while others go on is shown as Z, too.
        has_ended: matches!(*fields.first()?, "Z" | "X") && threads <= 1,
        waited_ticks: number(16)?.saturating_add(number(17)?),
        threads,
        start_ticks: number(22)?,
    })
}

/// The second number of schedstat; the first is time on a processor, the third counts time slices.
fn run_delay(schedstat: &str) -> Option<u64> {
    schedstat.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// `Rss` and `Pss` of smaps_rollup in bytes.
fn rolled_up(rollup: &str) -> Option<(u64, u64)> {
    Some((bytes_after(rollup, "Rss:")?, bytes_after(rollup, "Pss:")?))
}

/// The bytes in a line `name N kB`.
fn bytes_after(text: &str, name: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runner::own_descriptors;
    use crate::testing::network::alone;
    use rustix::process::{Pid, Signal, Uid};
    use rustix::thread::set_thread_res_uid;
    use std::fs::File;
    use std::io::{BufRead, BufReader, ErrorKind, Write};
    use std::os::unix::process::CommandExt;
    use std::process::{Child, ChildStdout, Command, Stdio};
    use std::sync::mpsc;

    /// A program with its descendants; dropping it ends them all.
    struct Program {
        child: Child,
        out: BufReader<ChildStdout>,
    }

    impl Program {
        fn start(script: &str) -> Self {
            let mut command = Command::new("sh");
            command.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).process_group(0);
            // What this test itself was started with does not go on to the program.
            let close_others = || {
                // SAFETY: takes no pointers.
                let answer = unsafe { libc::syscall(libc::SYS_close_range, 3, u32::MAX, libc::CLOSE_RANGE_CLOEXEC) };
                if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
            };
            let _alone = alone();
            // SAFETY: a system call without pointers is all that happens between fork and exec.
            let mut child = unsafe { command.pre_exec(close_others) }.spawn().unwrap();
            let out = BufReader::new(child.stdout.take().unwrap());
            Self { child, out }
        }

        fn tell(&mut self) {
            self.child.stdin.as_mut().unwrap().write_all(b"go on\n").unwrap();
        }

        fn line(&mut self) -> String {
            let mut line = String::new();
            assert_ne!(self.out.read_line(&mut line).unwrap(), 0, "it still talks");
            line.trim().to_owned()
        }
    }

    impl Drop for Program {
        fn drop(&mut self) {
            // The child leads this group; it was not waited for, or the group still has its number.
            let _ = rustix::process::kill_process_group(Pid::from_child(&self.child), Signal::KILL);
            let _ = self.child.wait();
        }
    }

    #[test]
    fn stat_survives_any_name_and_any_garbage() {
        let tail = "S 12 1 1 0 -1 0 0 0 0 0 5 6 7 8 20 0 3 0 4242 0 0";
        let expected = Stat { parent: 12, has_ended: false, waited_ticks: 15, threads: 3, start_ticks: 4242 };
        for name in ["cat", "a b", "a) Z (b", ")", ""] {
            assert_eq!(parse_stat(format!("17 ({name}) {tail}").as_bytes()), Some(expected));
        }
        assert_eq!(parse_stat(&[b"17 (\xff\xfe) ", tail.as_bytes()].concat()), Some(expected));
        let zombie = |threads| format!("17 (x) Z 12 1 1 0 -1 0 0 0 0 0 5 6 7 8 20 0 {threads} 0 4242 0 0");
        assert!(parse_stat(zombie(1).as_bytes()).unwrap().has_ended);
        assert!(!parse_stat(zombie(2).as_bytes()).unwrap().has_ended, "its other threads go on");
        for garbage in ["", ")", "17 (x", "17 (x) S", "17 (x) S 1 2", &tail.replace("4242", "x"), &tail.replace("12", "-1")] {
            assert_eq!(parse_stat(garbage.as_bytes()), None, "{garbage:?}");
        }
        assert_eq!(parse_stat(b"17 (x) \xff"), None);
    }

    #[test]
    fn figures_are_found_and_garbage_is_none() {
        assert_eq!(run_delay("123456 78 9\n"), Some(78));
        assert!(["", "1", "1 x 3", "1 -2 3"].iter().all(|garbage| run_delay(garbage).is_none()));
        let rollup = "00-ff ---p 0 00:00 0   [rollup]\nRss:    20 kB\nPss:   7 kB\nPss_Dirty:   1 kB\n";
        assert_eq!(rolled_up(rollup), Some((20 * 1024, 7 * 1024)));
        assert_eq!(bytes_after("Name:\tVmRSS:\nVmRSS:\t    5 kB\n", "VmRSS:"), Some(5 * 1024));
        for garbage in
            ["", "Rss:", "Rss: 1 kB", "Rss: x kB\nPss: 1 kB", "Rss: 1\nPss: 1", &format!("Rss: {} kB\nPss: 1 kB", u64::MAX)]
        {
            assert_eq!(rolled_up(garbage), None, "{garbage:?}");
        }
    }

    #[test]
    fn a_run_delay_that_goes_back_is_that_of_a_new_thread() {
        let before = BTreeMap::from([(1, 10), (2, 20), (3, 30)]);
        let now = BTreeMap::from([(1, 15), (2, 4), (9, 100)]);
        assert_eq!(growth(&before, &now), 5 + 4 + 100);
    }

    #[test]
    fn descendants_are_found_whatever_their_numbers() {
        let stat = |parent| Stat { parent, has_ended: false, waited_ticks: 0, threads: 1, start_ticks: 0 };
        let stats = BTreeMap::from([(1, stat(0)), (2, stat(9)), (5, stat(1)), (7, stat(5)), (9, stat(7)), (8, stat(8))]);
        assert_eq!(descendants(&[5], &stats), [7, 9, 2]);
        assert_eq!(descendants(&[5, 9], &stats), [7, 2]);
        assert_eq!(descendants(&[8], &stats), [], "a loop has an end");
    }

    #[test]
    fn what_ended_children_used_stays_counted() {
        let burn = "while :; do :; done & echo up; read x; kill $!; wait; echo waited; read x";
        let mut program = Program::start(burn);
        let mut tree = ProcessTree::of(program.child.id()).unwrap();
        assert_eq!(program.line(), "up");
        let mut before = tree.times().unwrap();
        assert_eq!((before.ended, before.waited_nanoseconds), (0, 0));
        while before.cpu_nanoseconds < 60_000_000 {
            let now = tree.times().unwrap();
            assert!(now.cpu_nanoseconds >= before.cpu_nanoseconds && now.run_delay_nanoseconds >= before.run_delay_nanoseconds);
            before = now;
        }
        assert!(tree.root.cpu_nanoseconds().unwrap() < 60_000_000, "it was the child that used it");
        program.tell();
        assert_eq!(program.line(), "waited");
        let after = tree.times().unwrap();
        assert!(after.cpu_nanoseconds >= before.cpu_nanoseconds && after.run_delay_nanoseconds >= before.run_delay_nanoseconds);
        assert_eq!(after.ended, 1);
        assert!(after.waited_nanoseconds >= 50_000_000, "the kernel has added up the child, too: {after:?}");
        program.tell();
        program.child.wait().unwrap();
        let error = tree.times().unwrap_err();
        assert!(error.kind() == ErrorKind::NotFound && error.to_string().contains("no process"), "{error}");
    }

    #[test]
    fn children_that_were_never_read_show_up_as_waited_for() {
        let count = "read x; (i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done); echo waited; read x";
        let mut program = Program::start(count);
        let mut tree = ProcessTree::of(program.child.id()).unwrap();
        let before = tree.times().unwrap();
        program.tell();
        assert_eq!(program.line(), "waited");
        let after = tree.times().unwrap();
        assert_eq!(after.ended, 0);
        assert!(after.waited_nanoseconds > before.waited_nanoseconds, "{after:?}");
    }

    #[test]
    fn an_orphan_stays_in_the_tree() {
        let orphan = "sh -c 'sleep 600 & echo up; read x'; echo gone; read x";
        let mut program = Program::start(orphan);
        assert_eq!(program.line(), "up");
        let mut tree = ProcessTree::of(program.child.id()).unwrap();
        let footprint = tree.footprint().unwrap();
        assert_eq!((footprint.processes, footprint.threads), (3, 3));
        program.tell();
        assert_eq!(program.line(), "gone");
        assert_eq!(tree.footprint().unwrap().processes, 2);
        assert_eq!(tree.times().unwrap().ended, 1);
    }

    #[test]
    fn a_footprint_is_that_of_the_process() {
        let mut program = Program::start("exec cat");
        program.tell();
        assert_eq!(program.line(), "go on");
        let process = Process::find(program.child.id()).unwrap();
        let footprint = process.footprint().unwrap();
        assert_eq!((footprint.processes, footprint.threads, footprint.descriptors), (1, 1, Some(3)));
        assert!(footprint.resident_bytes > 100_000);
        assert!((1..=footprint.resident_bytes).contains(&footprint.proportional_bytes.unwrap()));
        let status = process.file("status").unwrap();
        let lagging = bytes_after(&status, "VmRSS:").unwrap();
        assert!(footprint.resident_bytes.abs_diff(lagging) < footprint.resident_bytes, "the same thing in the same unit");
        drop(program.child.stdin.take());
        assert_eq!(program.out.read_line(&mut String::new()).unwrap(), 0, "its descriptors are closed");
        let ended = std::iter::repeat_with(|| process.footprint().unwrap()).find(|footprint| footprint.processes == 0);
        assert_eq!(ended, Some(Footprint::NOTHING));
        assert!(process.cpu_nanoseconds().unwrap() > 0, "until it is waited for");
        program.child.wait().unwrap();
        assert_eq!(process.footprint().unwrap_err().kind(), ErrorKind::NotFound);
    }

    #[test]
    fn each_descriptor_table_is_counted() {
        const FILES: usize = 200;
        let files: Vec<File> = (0..FILES).map(|_| File::open("/dev/null").unwrap()).collect();
        let ((told, tell), (go_on, wait)) = (mpsc::channel(), mpsc::channel());
        let thread = std::thread::spawn(move || {
            told.send(thread_id()).unwrap();
            wait.recv().unwrap();
            own_descriptors().unwrap();
            told.send(thread_id()).unwrap();
            wait.recv().unwrap();
        });
        let (this, other) = (thread_id(), tell.recv().unwrap());
        assert!(shares_table(other, &[this]).unwrap());
        go_on.send(()).unwrap();
        assert_eq!(tell.recv().unwrap(), other);
        assert!(!shares_table(other, &[this]).unwrap());
        let footprint = Process::find(std::process::id()).unwrap().footprint().unwrap();
        assert!(footprint.descriptors.unwrap() >= 2 * FILES as u64, "{footprint:?}");
        go_on.send(()).unwrap();
        drop(files);
        thread.join().unwrap();
    }

    #[test]
    fn a_thread_knows_its_times() {
        let before = thread_times(thread_id()).unwrap();
        while thread_times(thread_id()).unwrap().cpu_nanoseconds < before.cpu_nanoseconds + 20_000_000 {}
        let of_all = Process::find(std::process::id()).unwrap().cpu_nanoseconds().unwrap();
        assert!(of_all >= before.cpu_nanoseconds + 20_000_000);
        assert_eq!(thread_times(1).unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(thread_times(u32::MAX).unwrap_err().kind(), ErrorKind::NotFound);
    }

    #[test]
    fn a_process_keeps_the_time_of_threads_that_ended() {
        let this = Process::find(std::process::id()).unwrap();
        let before = this.cpu_nanoseconds().unwrap();
        let burn = || while thread_times(thread_id()).unwrap().cpu_nanoseconds < 20_000_000 {};
        std::thread::spawn(burn).join().unwrap();
        assert!(this.cpu_nanoseconds().unwrap() >= before + 20_000_000);
    }

    #[test]
    fn a_number_without_its_process_is_an_error() {
        for id in [0, u32::MAX] {
            let error = Process::find(id).unwrap_err();
            assert!(error.kind() == ErrorKind::NotFound && error.to_string().contains(&format!("no process {id}")), "{error}");
        }
        let (told, tell) = mpsc::channel();
        let (end, ended) = mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            told.send(thread_id()).unwrap();
            ended.recv().unwrap_err();
            Process::find(thread_id()).map_err(|error| error.kind())
        });
        assert_eq!(Process::find(tell.recv().unwrap()).unwrap_err().kind(), ErrorKind::NotFound);
        drop(end);
        assert_eq!(thread.join().unwrap(), Err(ErrorKind::NotFound));
        let this = Process::find(std::process::id()).unwrap();
        assert_eq!(this.id(), std::process::id());
        let earlier = Process { start_ticks: this.start_ticks - 1, ..this };
        let mut tree = ProcessTree::of(this.id).unwrap();
        tree.root = earlier;
        for error in [earlier.cpu_nanoseconds().unwrap_err(), earlier.footprint().unwrap_err(), tree.times().unwrap_err()] {
            assert!(error.kind() == ErrorKind::NotFound && error.to_string().contains("another process"), "{error}");
        }
    }

    #[test]
    fn what_is_not_for_this_user_is_none() {
        if !rustix::process::geteuid().is_root() {
            return eprintln!("not tried: only root can become another user");
        }
        let mut program = Program::start("exec cat");
        program.tell();
        program.line();
        let id = program.child.id();
        std::thread::spawn(move || {
            let nobody = Uid::from_raw(65_534);
            set_thread_res_uid(nobody, nobody, nobody).unwrap();
            let mut tree = ProcessTree::of(id).unwrap();
            assert!(tree.times().unwrap().cpu_nanoseconds > 0);
            let footprint = tree.footprint().unwrap();
            assert_eq!((footprint.processes, footprint.proportional_bytes, footprint.descriptors), (1, None, None));
            assert!(footprint.resident_bytes > 100_000);
        })
        .join()
        .unwrap();
    }
}
