//! Rings that are handed to other processes: a consumer in C, one in Rust, and one that is killed.
#![allow(clippy::unwrap_used)] // all of this is tests

use corelane_channel::{CLIENTS_MAX, Offers, Opens, PACKET_BYTES_MAX, Producer, ring, take};
use std::io::{BufRead, BufReader, ErrorKind, Read};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

/// What is told of clients: a producer for each that comes, and the number of each that goes.
enum Told {
    Opened(u64, Producer),
    Closed(u64),
}

struct Test {
    numbers: AtomicU64,
    told: Mutex<Sender<Told>>,
}

impl Opens for Test {
    fn open(&self, request: &str) -> Result<(u64, Vec<OwnedFd>), String> {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        if request == "too many" {
            return Ok((number, (0..129).map(|_| ring(8).unwrap().1).collect()));
        }
        if request != "udp * *:7" {
            return Err(format!("{request:?} is not for sale: ask for udp * *:7"));
        }
        let (memory, file) = ring(8).unwrap();
        let producer = Producer::new(memory).unwrap();
        self.told.lock().unwrap().send(Told::Opened(number, producer)).unwrap();
        Ok((number, vec![file]))
    }

    fn close(&self, number: u64) {
        // Nobody listens any more when the test is over.
        let _ = self.told.lock().unwrap().send(Told::Closed(number));
    }
}

/// A socket in a directory of the test's own, which goes with it.
struct Rig {
    directory: PathBuf,
    offers: Option<Offers>,
    told: Receiver<Told>,
}

impl Drop for Rig {
    fn drop(&mut self) {
        // A test that has failed says why; that its directory stays is said by what looks for left-overs.
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

impl Rig {
    fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let directory = std::env::temp_dir().join(format!("corelane-channel-{}-{number}", std::process::id()));
        std::fs::create_dir(&directory).unwrap();
        let (sender, told) = channel();
        let opens = Test { numbers: AtomicU64::new(1), told: Mutex::new(sender) };
        let offers = Some(Offers::open(&directory.join("socket"), opens).unwrap());
        Self { directory, offers, told }
    }

    fn socket(&self) -> PathBuf {
        self.directory.join("socket")
    }

    fn opened(&self) -> (u64, Producer) {
        match self.told.recv().unwrap() {
            Told::Opened(number, producer) => (number, producer),
            Told::Closed(number) => panic!("channel {number} has closed"),
        }
    }

    fn closed(&self) -> u64 {
        match self.told.recv().unwrap() {
            Told::Closed(number) => number,
            Told::Opened(number, _) => panic!("channel {number} has opened"),
        }
    }

    fn ends(mut self) {
        drop(self.offers.take());
        assert!(!self.socket().exists());
    }
}

/// The consumer in C, compiled with all warnings as errors.
fn compiled(rig: &Rig) -> PathBuf {
    let (here, program) = (Path::new(env!("CARGO_MANIFEST_DIR")), rig.directory.join("consumer"));
    let mut compiler = Command::new("cc");
    compiler.args(["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Wconversion", "-Wno-sign-conversion", "-Werror", "-I"]);
    compiler.arg(here.join("include")).arg(here.join("tests/handed/consumer.c")).arg("-o").arg(&program);
    assert!(compiler.status().unwrap().success());
    program
}

fn has_compiler(test: &str) -> bool {
    let has = Command::new("cc").arg("--version").stdout(Stdio::null()).status().is_ok();
    if !has {
        corelane_os::testing::skip(test, "there is no C compiler");
    }
    has
}

/// A consumer that has its ring.
fn ready(program: &Path, arguments: &[&str]) -> (Child, BufReader<std::process::ChildStdout>) {
    let mut child = Command::new(program).args(arguments).stdout(Stdio::piped()).spawn().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    (child, output)
}

/// Puts so many packets in, whatever it takes until there is room; bytes, and their sum.
fn put(producer: &mut Producer, packets: usize) -> (usize, usize) {
    let (mut bytes, mut sum) = (0, 0);
    for number in 0..packets {
        let packet = vec![number as u8; 1 + number * 7 % PACKET_BYTES_MAX];
        while !producer.put(packet.chunks(100)) {
            std::thread::yield_now();
        }
        producer.publish();
        (bytes, sum) = (bytes + packet.len(), sum + packet.len() * usize::from(number as u8));
    }
    (bytes, sum)
}

#[test]
fn c_02_c_03_a_consumer_in_c_takes_all_packets_in_its_own_context() {
    if !has_compiler("c_02_c_03_a_consumer_in_c_takes_all_packets_in_its_own_context") {
        return;
    }
    let rig = Rig::new();
    let program = compiled(&rig);
    let socket = rig.socket();
    let (mut child, mut output) = ready(&program, &[socket.to_str().unwrap(), "udp * *:7"]);
    let (number, mut producer) = rig.opened();
    let (bytes, sum) = put(&mut producer, 3000);
    drop(producer);
    let mut said = String::new();
    output.read_to_string(&mut said).unwrap();
    assert_eq!(said, format!("3000 {bytes} {sum}\n"));
    assert!(child.wait().unwrap().success());
    assert_eq!(rig.closed(), number);
    let refused = Command::new(&program).args([socket.to_str().unwrap(), "tcp * *"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(3));
    assert!(String::from_utf8(refused.stderr).unwrap().starts_with("no: \"tcp * *\" is not for sale"), "the other side's words");
    rig.ends();
}

/// Compiles a file with a compiler, by that standard and with all warnings as errors, and links nothing.
fn compiles(compiler: &str, standard: &str, file: &Path) {
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("include");
    let mut command = Command::new(compiler);
    command.args([&format!("-std={standard}"), "-pedantic", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-I"]);
    let output = command.arg(&include).arg(file).output().unwrap();
    assert!(output.status.success(), "{compiler} {standard}: {}", String::from_utf8_lossy(&output.stderr));
}

/// By the standard alone, whatever was included before.
#[test]
fn the_header_is_strict_c_and_c_plus_plus() {
    const NAME: &str = "the_header_is_strict_c_and_c_plus_plus";
    if !has_compiler(NAME) {
        return;
    }
    let rig = Rig::new();
    let body =
        "#include <stdio.h>\n#include <corelane/channel.h>\nint main(void) { return sizeof(struct corelane_channel) > 99; }\n";
    let [c, cc] = ["behind.c", "behind.cc"].map(|name| rig.directory.join(name));
    [&c, &cc].into_iter().for_each(|file| std::fs::write(file, body).unwrap());
    let consumer = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/handed/consumer.c");
    for standard in ["c99", "c11", "gnu99"] {
        [&c, &consumer].into_iter().for_each(|file| compiles("cc", standard, file));
    }
    match Command::new("c++").arg("--version").stdout(Stdio::null()).status() {
        Ok(_) => ["c++11", "gnu++17"].into_iter().for_each(|standard| compiles("c++", standard, &cc)),
        Err(_) => corelane_os::testing::skip(NAME, "there is no C++ compiler"),
    }
    [c, cc].iter().for_each(|file| std::fs::remove_file(file).unwrap());
    rig.ends();
}

/// Where the process that is to be killed has its socket.
const DIRECTORY: &str = "CORELANE_TEST_SERVER";

/// Run by another test in a process of its own: it offers channels until it is killed.
#[test]
#[ignore = "runs in a process that another test kills"]
fn a_server_to_be_killed() {
    let Ok(directory) = std::env::var(DIRECTORY) else { return };
    let (sender, told) = channel();
    let opens = Test { numbers: AtomicU64::new(1), told: Mutex::new(sender) };
    let _offers = Offers::open(&Path::new(&directory).join("server"), opens).unwrap();
    // The producers live as long as the process.
    let mut producers = Vec::new();
    told.iter().for_each(|told| producers.push(told));
}

/// A process that is killed says nothing of its end; consumers that sleep see it all the same.
#[test]
fn c_03_consumers_in_c_and_in_rust_end_with_a_producer_that_is_killed() {
    if !has_compiler("c_03_consumers_in_c_and_in_rust_end_with_a_producer_that_is_killed") {
        return;
    }
    let rig = Rig::new();
    let program = compiled(&rig);
    let mut server = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "a_server_to_be_killed"])
        .env(DIRECTORY, &rig.directory)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let socket = rig.directory.join("server");
    while UnixStream::connect(&socket).is_err() {
        assert!(server.try_wait().unwrap().is_none(), "it offers until it is killed");
        std::thread::yield_now();
    }
    let (mut child, mut output) = ready(&program, &[socket.to_str().unwrap(), "udp * *:7"]);
    let mut taken = take(&socket, "udp * *:7").unwrap();
    let sleeper = std::thread::spawn(move || {
        while !taken.consumers[0].has_ended() {
            taken.consumers[0].wait(None);
        }
        taken.consumers[0].take(&mut [0; PACKET_BYTES_MAX])
    });
    server.kill().unwrap();
    server.wait().unwrap();
    assert_eq!(sleeper.join().unwrap(), Ok(None));
    let mut said = String::new();
    output.read_to_string(&mut said).unwrap();
    assert_eq!(said, "0 0 0\n");
    assert!(child.wait().unwrap().success());
    std::fs::remove_file(socket).unwrap();
    rig.ends();
}

/// A process without descriptors to spare is told so, and does not take a part of the lanes for all.
#[test]
fn a_consumer_in_c_without_free_descriptors_is_told_so() {
    if !has_compiler("a_consumer_in_c_without_free_descriptors_is_told_so") {
        return;
    }
    let rig = Rig::new();
    let program = compiled(&rig);
    let mut shell = Command::new("sh");
    // Its three, and the connection.
    shell.args(["-c", "ulimit -n 4 && exec \"$0\" \"$@\""]).arg(&program).args([rig.socket().to_str().unwrap(), "udp * *:7"]);
    let refused = shell.output().unwrap();
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(refused.status.code() == Some(3) && said.contains("Too many open files"), "{:?}: {said}", refused.status);
    let (number, _producer) = rig.opened();
    assert_eq!(rig.closed(), number);
    rig.ends();
}

#[test]
fn c_03_a_consumer_that_is_killed_loses_its_channel_and_holds_nobody_up() {
    if !has_compiler("c_03_a_consumer_that_is_killed_loses_its_channel_and_holds_nobody_up") {
        return;
    }
    let rig = Rig::new();
    let program = compiled(&rig);
    let (mut child, _output) = ready(&program, &[rig.socket().to_str().unwrap(), "udp * *:7", "hang"]);
    let (number, mut producer) = rig.opened();
    let put: Vec<bool> = (0..10).map(|_| producer.put([&[1_u8; 64][..]].into_iter())).collect();
    producer.publish();
    assert_eq!(put.iter().filter(|is_put| **is_put).count(), 8);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(rig.closed(), number);
    assert_eq!(producer.dropped(), 2);
    rig.ends();
}

#[test]
fn rust_takes_as_well_and_the_end_of_the_offer_ends_what_was_taken() {
    let rig = Rig::new();
    let mut taken = take(&rig.socket(), "udp * *:7").unwrap();
    let (_, mut producer) = rig.opened();
    let consumer = &mut taken.consumers[0];
    assert!(producer.put([&b"one"[..]].into_iter()));
    producer.publish();
    let mut bytes = [0; PACKET_BYTES_MAX];
    assert_eq!((consumer.take(&mut bytes), &bytes[..3]), (Ok(Some(3)), &b"one"[..]));
    let refused = take(&rig.socket(), "gre * *").unwrap_err();
    assert!(refused.kind() == ErrorKind::InvalidInput && refused.to_string().contains("ask for udp"), "{refused}");
    let socket = rig.socket();
    rig.ends();
    drop(producer);
    assert!(consumer.has_ended());
    assert_eq!((&*taken.connection).read(&mut [0; 1]).unwrap_or(0), 0, "the connection has ended, too");
    assert!(take(&socket, "udp * *:7").is_err());
}

#[test]
fn so_many_processes_and_no_more_have_channels() {
    let rig = Rig::new();
    let taken: Vec<_> = (0..CLIENTS_MAX).map(|_| take(&rig.socket(), "udp * *:7").unwrap()).collect();
    let refused = take(&rig.socket(), "udp * *:7").unwrap_err();
    assert!(refused.to_string().contains("as many processes"), "{refused}");
    let producers: Vec<_> = taken.iter().map(|_| rig.opened()).collect();
    drop(taken);
    let mut closed: Vec<u64> = producers.iter().map(|_| rig.closed()).collect();
    closed.sort_unstable();
    assert!(closed.iter().eq(producers.iter().map(|(number, _)| number)));
    rig.ends();
}

/// Nobody asked for channels to be offered there.
struct Nobody;

impl Opens for Nobody {
    fn open(&self, request: &str) -> Result<(u64, Vec<OwnedFd>), String> {
        panic!("{request:?} was asked of nobody");
    }

    fn close(&self, number: u64) {
        panic!("channel {number} was never open");
    }
}

#[test]
fn only_a_socket_that_was_left_behind_makes_room_and_only_its_own_goes() {
    let rig = Rig::new();
    let refused = |path: &Path| Offers::open(path, Nobody).err().unwrap().to_string();
    assert!(refused(&rig.socket()).contains(&format!("process {} of user", std::process::id())), "it is served");
    assert!(rig.socket().exists());
    let file = rig.directory.join("notes.txt");
    std::fs::write(&file, "kept").unwrap();
    let link = rig.directory.join("link");
    std::os::unix::fs::symlink(&file, &link).unwrap();
    for path in [&file, &link, &rig.directory] {
        let why = refused(path);
        assert!(why.contains("no socket: remove it, or choose another path"), "{}: {why}", path.display());
    }
    assert_eq!(std::fs::read(&file).unwrap(), b"kept");
    assert!(link.is_symlink());
    let dead = rig.directory.join("dead");
    drop(UnixListener::bind(&dead).unwrap());
    // A process that another test starts has a copy of the listener until it runs its own program.
    while UnixStream::connect(&dead).is_ok() {
        std::thread::yield_now();
    }
    let offers = Offers::open(&dead, Nobody).unwrap();
    // Somebody else's by the time it ends.
    std::fs::rename(&dead, rig.directory.join("elsewhere")).unwrap();
    std::fs::write(&dead, "another's").unwrap();
    drop(offers);
    assert_eq!(std::fs::read(&dead).unwrap(), b"another's");
    rig.ends();
}

#[test]
fn more_rings_than_can_be_handed_over_are_refused_and_closed() {
    let rig = Rig::new();
    let refused = take(&rig.socket(), "too many").unwrap_err();
    assert_eq!(refused.to_string(), "channels of more than 128 lanes cannot be handed over");
    assert_eq!(rig.closed(), 1);
    rig.ends();
}
