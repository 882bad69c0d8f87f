//! A card that sends from the sender's own pages: of a virtual machine, whose other end is the kernel around it. There the kernel says of each byte that it was not copied, and
//! what reaches the other end shows it too.
//!
//! ```text
//! this test --> xtask rig guest --> QEMU, and in it this test again: it sends at 10.9.0.2, writes what is released, and says what was counted
//!     \-- in the rig's namespace, at the card's other end: reads slowly, and looks at each byte
//! ```
//!
//! `cargo xtask rig guest -- true` has to be run once, which fetches a kernel. A GB by each driver:
//!
//! ```text
//! CORELANE_CARD_BYTES=1000000000 cargo test --package corelane-drivers --test all card:: -- --nocapture
//! ```

use crate::sender::{MEMORY, Reader, SEND, Sender, Tally, WRITTEN, at, blocks, memory, sealed, with_epoll, with_uring, write};
use corelane_os::sockets;
use corelane_os::testing::{network, skip, wait_for};
use corelane_seam::{Address, Arena, Chain, Driver, Listen, SendCounters, StreamOptions, Tuning, Wait};
use rustix::net::{AddressFamily, Protocol, RecvFlags, SocketType, sockopt};
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::num::NonZeroU32;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

/// Names the card in a guest.
const CARD: &str = "CORELANE_CARD";
/// How many bytes each driver sends.
const AMOUNT: &str = "CORELANE_CARD_BYTES";
/// So many unless it is told.
const BYTES: u64 = 16 << 20;
/// Where the sender is.
const HERE: &str = "10.9.0.2:0";
/// The kernel of the guest.
const KERNEL: &str = "6.18";
/// What the reader's system keeps for it: much less than the sender's, which so has much that has not left.
const WINDOW: u32 = 32 << 10;
/// What the sender's system takes of it at once.
const QUEUE: u32 = 200 << 10;
/// How long the other end waits for a byte, or for a word.
const PATIENCE: Duration = Duration::from_secs(100);
/// What the sender says in front of where it can be reached, and when it is to be read.
const LISTENS: &str = "card: listens at ";
const READ: &str = "card: to be read";

/// What is sent, in this order, and whether the other end is to read what was sent.
const CASES: [(fn(), bool); 9] = [
    (by_epoll, true),
    (by_uring, true),
    (sealed_by_epoll, true),
    (sealed_by_uring, true),
    (as_epoll_chooses, true),
    (as_uring_chooses, true),
    (little_room, true),
    (overheard, true),
    (written_early, false),
];

#[test]
fn what_a_card_reads_is_not_copied_and_released_when_it_was_read() {
    const NAME: &str = "card::what_a_card_reads_is_not_copied_and_released_when_it_was_read";
    if std::env::var(CARD).is_ok() {
        return CASES.iter().for_each(|(send, _)| send());
    }
    let Some(xtask) = program() else {
        return skip(
            NAME,
            &format!("it needs qemu-system-x86, and `cargo xtask rig guest --kernel {KERNEL} -- true` once, as root"),
        );
    };
    // A thread of its own, for it goes to another namespace.
    std::thread::scope(|scope| scope.spawn(|| Guest::start(&xtask, NAME).read_all()).join())
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
}

/// The program that starts guests, if it can here without taking anything from elsewhere.
fn program() -> Option<PathBuf> {
    // Beside the folder in which the build has put this program.
    let xtask = std::env::current_exe().unwrap().parent()?.with_file_name("xtask");
    let boot = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/guest/boot");
    let begins = format!("vmlinuz-{KERNEL}.");
    let has_kernel = std::fs::read_dir(boot).ok()?.any(|entry| entry.unwrap().file_name().to_string_lossy().starts_with(&begins));
    let alone = network::alone();
    let has_qemu = Command::new("qemu-system-x86_64").arg("--version").output().is_ok();
    drop(alone);
    (xtask.is_file() && has_kernel && has_qemu && rustix::process::geteuid().is_root()).then_some(xtask)
}

/// A guest with the sender.
struct Guest {
    rig: Child,
    lines: Receiver<String>,
    faults: Vec<String>,
}

impl Drop for Guest {
    fn drop(&mut self) {
        // No harm if it has ended.
        let _ = self.rig.kill();
        let _ = self.rig.wait();
    }
}

impl Guest {
    /// Starts it, and moves this thread to the card's other end.
    fn start(xtask: &Path, test: &str) -> Self {
        let mut command = Command::new(xtask);
        command.args(["rig", "guest", "--kernel", KERNEL, "--"]).arg(std::env::current_exe().unwrap());
        command.args([test, "--exact", "--nocapture", "--test-threads=1"]);
        let alone = network::alone();
        let mut rig = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(alone);
        let (tell, lines) = channel();
        let said = BufReader::new(rig.stdout.take().unwrap());
        // It ends with the guest, or with whom it tells.
        std::thread::spawn(move || said.lines().all(|line| tell.send(line.unwrap()).is_ok()));
        let mut words = BufReader::new(rig.stderr.take().unwrap());
        let guest = Self { rig, lines, faults: Vec::new() };
        // NEAR: nsenter --net=$NEAR COMMAND (/proc/NUMBER/fd/NUMBER)
        let place = words
            .by_ref()
            .lines()
            .map(Result::unwrap)
            .find_map(|line| Some(line.split_once("(/proc/")?.1.trim_end_matches(')').to_owned()));
        network::enter(&File::open(Path::new("/proc").join(place.expect("the rig says where it is"))).unwrap());
        // Whatever QEMU says is for whom it has failed.
        std::thread::spawn(move || words.lines().for_each(|line| eprintln!("{}", line.unwrap())));
        guest
    }

    /// Reads what is sent in each case.
    fn read_all(mut self) {
        let mut cases = CASES.iter().map(|(_, is_right)| *is_right);
        let mut peer = None;
        loop {
            let line = match self.lines.recv_timeout(PATIENCE) {
                Ok(line) => line,
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => panic!("the guest says nothing any more; what it has said is above"),
            };
            println!("{line}");
            // The harness has begun the first line.
            if let Some((_, address)) = line.split_once(LISTENS) {
                peer = Some(connect(&address.parse().unwrap()));
            } else if line == READ {
                let is_right = cases.next().expect("no more than there are");
                self.read(peer.take().expect("it was connected before"), is_right);
            }
        }
        assert!(self.faults.is_empty(), "{:#?}", self.faults);
        assert_eq!((cases.count(), self.rig.wait().unwrap().code()), (0, Some(0)), "what the guest has said is above");
    }

    fn read(&mut self, peer: OwnedFd, is_right: bool) {
        let mut reader = Reader::new(peer);
        let has_ended = loop {
            match reader.take(RecvFlags::empty()) {
                Some(0) => break true,
                Some(_) => {}
                None => break false,
            }
        };
        println!(
            "card: {} bytes were read, {}",
            reader.read,
            if reader.is_corrupt { "not those that were sent" } else { "as they were sent" }
        );
        if !has_ended {
            self.faults.push(format!("behind {} bytes no more came, and no end", reader.read));
            // The rest of what it says is still read.
            self.rig.kill().unwrap();
        }
        if reader.is_corrupt == is_right {
            let expected = if is_right { "what was sent" } else { "something that was written" };
            self.faults.push(format!("{expected} was to be read in the {} bytes", reader.read));
        }
    }
}

/// A connection to the sender, with little room.
fn connect(to: &Address) -> OwnedFd {
    let options = StreamOptions::default().receive_buffer_bytes(WINDOW);
    let socket = sockets::connecting(to, None, &options).unwrap();
    if !sockets::connect(socket.as_fd(), to).unwrap() {
        wait_for(socket.as_fd(), libc::POLLOUT);
    }
    sockets::pending_error(socket.as_fd()).unwrap();
    rustix::io::ioctl_fionbio(&socket, false).unwrap();
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Recv, Some(PATIENCE)).unwrap();
    socket
}

// In the guest.

/// Whatever is asked goes uncopied.
fn always() -> Tuning {
    Tuning::default().zero_copy_bytes(1).zero_copy_always(true)
}

fn amount() -> u64 {
    std::env::var(AMOUNT).map_or(BYTES, |text| text.parse().unwrap())
}

/// A sender to whom somebody has come, and whose system takes so many bytes at once.
fn joined<D: Driver>(driver: D, arena: Arena, queue: u32) -> Sender<D> {
    let stream = StreamOptions::default().send_buffer_bytes(queue);
    let listen = Listen { stream, ..at(HERE) };
    Sender::joined(driver, arena, &listen, |address| println!("{LISTENS}{address}")).0
}

/// Sends what `make` makes, and waits until it is released.
fn send<D: Driver>(sender: &mut Sender<D>, bytes: u64, mut make: impl FnMut(&Arena, u64) -> Option<Chain>) {
    while sender.tally.bytes < bytes {
        sender.step(bytes, &mut make, Wait::Forever);
    }
    sender.settle();
}

/// Ends the connection, and says what was counted.
fn end<D: Driver>(name: &str, sender: Sender<D>) -> (Tally, SendCounters) {
    let (tally, sends) = (sender.tally, sender.driver.counters().sends);
    let driver = sender.driver.name();
    sender.close();
    let Tally { bytes, kept_bytes, kept, released, .. } = tally;
    let plain = bytes - kept_bytes;
    println!(
        "card: {driver}, {name}: {kept_bytes} bytes were kept for the kernel, {plain} released at once; {kept} sends, {released} released"
    );
    println!("card: {sends:?}");
    assert_eq!((kept, sends.withheld_bytes), (released, 0));
    (tally, sends)
}

/// Whether nothing was copied, for no reason.
fn nothing_is_copied((tally, sends): (Tally, SendCounters)) -> bool {
    sends == SendCounters { uncopied: sends.uncopied, ..SendCounters::default() }
        && (tally.sends, tally.bytes) == (tally.kept, tally.kept_bytes)
        && sends.uncopied == tally.sends
}

fn by_driver<D: Driver>(make: impl Fn(Arena, Tuning) -> D) {
    let (arena, _) = memory();
    let mut sender = joined(make(arena.clone(), always()), arena, QUEUE);
    println!("{READ}");
    send(&mut sender, amount(), blocks);
    assert!(nothing_is_copied(end("always", sender)));
}

fn by_epoll() {
    by_driver(with_epoll);
}

fn by_uring() {
    by_driver(with_uring);
}

/// A short piece, for which a socket always has room.
fn piece(arena: &Arena, place: u64) -> Option<Chain> {
    let (mut bytes, mut chain) = ([0; 4096], Chain::new());
    write(place, &mut bytes);
    chain.push(arena.copy_of(&bytes)?.share());
    Some(chain)
}

/// Sealed memory leaves by sendfile(2), and the driver waits for no notice. The card reads its pages after that, so the system has to keep them.
fn sealed_by_driver<D: Driver>(make: impl Fn(Arena, Tuning) -> D) {
    let (arena, _) = memory();
    let mut sender = joined(make(arena.clone(), Tuning::default()), arena, QUEUE);
    println!("{READ}");
    send(&mut sender, amount(), sealed);
    let (tally, sends) = end("sealed", sender);
    assert_eq!((sends, tally.kept), (SendCounters { sealed: sends.sealed, ..SendCounters::default() }, 0));
    assert!(sends.sealed >= tally.bytes / SEND as u64);
}

fn sealed_by_epoll() {
    sealed_by_driver(with_epoll);
}

fn sealed_by_uring() {
    sealed_by_driver(with_uring);
}

/// A driver that chooses asks once, and all behind the notice goes uncopied.
fn as_driver_chooses<D: Driver>(make: impl Fn(Arena, Tuning) -> D) {
    let (arena, _) = memory();
    let mut sender = joined(make(arena.clone(), Tuning::default().zero_copy_bytes(1)), arena, QUEUE);
    println!("{READ}");
    send(&mut sender, 1, piece);
    send(&mut sender, 32 * SEND as u64, blocks);
    assert!(nothing_is_copied(end("as it chooses", sender)));
}

fn as_epoll_chooses() {
    as_driver_chooses(with_epoll);
}

fn as_uring_chooses() {
    as_driver_chooses(with_uring);
}

/// Where there is room for few notices (ENOBUFS), what finds none is copied, and the rest is not.
fn little_room() {
    let path = "net/core/optmem_max";
    let before = std::fs::read_to_string(Path::new("/proc/sys").join(path)).unwrap();
    network::sysctl(path, "1500");
    let (arena, _) = memory();
    // One notice is of 512 KiB at the most (the kernel's msg_zerocopy_realloc), and this is room for several.
    network::sysctl("net/core/wmem_max", "1048576");
    let mut sender = joined(with_epoll(arena.clone(), always()), arena, 1 << 20);
    let bytes = 32 * SEND as u64;
    while sender.driver.counters().sends.copied_full == 0 {
        let soon = sender.soon();
        sender.step(bytes, &mut blocks, soon);
    }
    println!("{READ}");
    send(&mut sender, bytes, blocks);
    network::sysctl(path, before.trim());
    let (tally, sends) = end("with room for few notices", sender);
    assert!(sends.copied_full > 0 && sends.copied_anyway == 0);
    assert!(tally.kept > 0 && tally.kept_bytes < tally.bytes);
}

/// As long as somebody looks at what all interfaces send, the kernel copies it: that is told, and the next sends are plain.
fn overheard() {
    const ALL_FRAMES: u16 = libc::ETH_P_ALL as u16;
    let frames = Protocol::from_raw(NonZeroU32::new(ALL_FRAMES.to_be().into()).unwrap());
    let _all = rustix::net::socket(AddressFamily::PACKET, SocketType::RAW, Some(frames)).unwrap();
    let (arena, _) = memory();
    let mut sender = joined(with_epoll(arena.clone(), Tuning::default().zero_copy_bytes(1)), arena, QUEUE);
    println!("{READ}");
    send(&mut sender, 1, piece);
    send(&mut sender, 8 * SEND as u64, blocks);
    let (tally, sends) = end("overheard", sender);
    assert_eq!((sends.uncopied, sends.copied_anyway, tally.kept), (1, 1, 1));
    assert!(sends.copied_seen >= tally.sends - 1);
}

/// A driver that released at the end of a send would be caught: the other end reads what is written then.
fn written_early() {
    let (arena, file) = memory();
    let mut sender = joined(with_epoll(arena.clone(), always()), arena, QUEUE);
    let bytes = 4 * SEND as u64;
    // Nobody reads, so this is more than the other end has room for.
    while sender.driver.unsent_bytes(sender.socket) < Some(4 * WINDOW as usize) {
        let soon = sender.soon();
        sender.step(bytes, &mut blocks, soon);
    }
    File::from(file).write_all_at(&[WRITTEN; MEMORY], 0).unwrap();
    println!("{READ}");
    send(&mut sender, bytes, blocks);
    end("written early", sender);
}
