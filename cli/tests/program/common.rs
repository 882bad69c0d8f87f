//! The program under test as a process of its own, and what every test needs around it.

use corelane::admin::watch::{Counter, Reader, Snapshot, Values};
use corelane::service::Random;
use corelane_testkit::is_installed;
pub use corelane_testkit::skip;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, mpsc};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How long anything may take before a test gives up on it: two shared CPUs under load are slow.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Every connection is served here unless a test says otherwise.
pub const TCP: &str = "echo=tcp://127.0.0.1:0";
/// Every datagram.
pub const UDP: &str = "echo=udp://127.0.0.1:0";

/// Makes a test of each function for each driver that the program knows by name.
macro_rules! on_each_driver {
    ($($name:ident),* $(,)?) => {
        mod on_epoll {
            $(#[test] fn $name() { super::$name(crate::common::Driver::Epoll); })*
        }
        mod on_uring {
            $(#[test] fn $name() { super::$name(crate::common::Driver::Uring); })*
        }
    };
}
pub(crate) use on_each_driver;

/// What the program is told to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Driver {
    Epoll,
    Uring,
}

impl Driver {
    pub fn name(self) -> &'static str {
        if self == Self::Epoll { "epoll" } else { "uring" }
    }

    /// The whole name of the test of this driver, of `MODULE::TEST`.
    pub fn case(self, test: &str) -> String {
        let (module, test) = test.split_once("::").expect("the test has a module");
        format!("{module}::on_{}::{test}", self.name())
    }

    /// Starts a server on this driver; none, and the test is skipped by name, where the machine refuses the driver.
    pub fn start(self, test: &str, arguments: &[&str]) -> Option<Server> {
        self.start_under(test, &[], arguments)
    }

    /// As [`Driver::start`], with the program run by `wrapper`, which must exec it.
    pub fn start_under(self, test: &str, wrapper: &[&str], arguments: &[&str]) -> Option<Server> {
        if let Some(why) = self.refusal() {
            skip(&self.case(test), why);
            return None;
        }
        Some(Server::start_under(wrapper, &[&["--driver", self.name()], arguments].concat()))
    }

    /// What the program says where it is refused the driver: found out once.
    fn refusal(self) -> Option<&'static str> {
        static URING: OnceLock<Option<String>> = OnceLock::new();
        if self == Self::Epoll {
            return None;
        }
        // A port that is served refuses the start, but the driver is chosen before.
        let port = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let place = format!("echo=tcp://{}", port.local_addr().expect("it is bound"));
        let ask = || {
            String::from_utf8_lossy(&output(Command::new(PROGRAM).args(["serve", "--driver", "uring", &place])).stderr)
                .into_owned()
        };
        URING.get_or_init(|| Some(ask()).filter(|words| !words.contains("cannot listen"))).as_deref()
    }
}

/// The program where the name `many.test` stands for [::1] and for 127.0.0.1, in this order. Takes root, `unshare` and `mount`.
pub fn where_many_test_has_two_addresses(folder: &Scratch) -> Command {
    let hosts = folder.path().join("hosts");
    fs::write(&hosts, "::1 many.test\n127.0.0.1 many.test\n").unwrap();
    let script = format!("mount --bind {} /etc/hosts && exec \"$0\" \"$@\"", hosts.display());
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", &script, PROGRAM]);
    command
}

/// Whether all these commands are installed; if not, the test is skipped by name.
pub fn have(test: &str, commands: &[&str]) -> bool {
    match commands.iter().find(|command| !is_installed(command)) {
        None => true,
        Some(command) => {
            skip(test, &format!("{command} is not installed"));
            false
        }
    }
}

/// Whether the test runs with root's rights; if not, it is skipped by name.
pub fn is_root(test: &str) -> bool {
    let root = nix::unistd::geteuid().is_root();
    if !root {
        skip(test, "it needs root");
    }
    root
}

/// Waits until `condition` holds.
///
/// # Panics
/// If it does not within [`PATIENCE`].
pub fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < deadline, "waited in vain until {what}");
        // reason: the condition is polled; nothing wakes us when it comes true.
        thread::sleep(Duration::from_millis(5));
    }
}

/// A folder of one test's own, gone when it ends.
pub struct Scratch(TempDir);

impl Scratch {
    pub fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder for temporary files"))
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }
}

/// Puts a file in place whole: who reads it meanwhile finds the one before.
pub fn put_whole(file: &Path, text: &str) {
    let next = file.with_extension("next");
    std::fs::write(&next, text).unwrap();
    std::fs::rename(&next, file).unwrap();
}

/// Where the program is.
pub const PROGRAM: &str = env!("CARGO_BIN_EXE_corelane");

/// A command that runs `program` by way of `wrapper`.
pub fn wrapped(wrapper: &[&str], program: &str) -> Command {
    let Some((first, rest)) = wrapper.split_first() else { return Command::new(program) };
    let mut command = Command::new(first);
    command.args(rest).arg(program);
    command
}

/// Runs a command to its end, with no input.
///
/// # Panics
/// If it has not ended within [`PATIENCE`]; it is ended then.
pub fn output(command: &mut Command) -> Output {
    output_within(command, PATIENCE)
}

/// [`output`] of a command that may take so long.
///
/// # Panics
/// If it has not ended within that time; it is ended then.
pub fn output_within(command: &mut Command, patience: Duration) -> Output {
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the command starts");
    let pid = Pid::from_raw(child.id() as i32);
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || sender.send(child.wait_with_output()));
    match receiver.recv_timeout(patience) {
        Ok(output) => output.expect("the output can be read"),
        Err(_) => {
            let _ = kill(pid, Signal::SIGKILL);
            panic!("{command:?} did not end");
        }
    }
}

/// `corelane serve` as a process, ready, and killed when dropped.
pub struct Server {
    pub child: Child,
    /// The URLs it prints, in its order.
    pub urls: Vec<String>,
    /// The lines about a gateway's ports, without their first word.
    pub ports: Vec<String>,
    /// The line about the driver, without its first word.
    pub driver_line: String,
    /// What it says of steering.
    pub steering: String,
    /// The line about the interface, without its first word; empty if there is none.
    pub interface_line: String,
    /// The notes it prints.
    pub notes: Vec<String>,
    pub run: Arc<Scratch>,
    /// By which it was started, and looks at it are.
    pub wrapper: Vec<String>,
    program: String,
    words: Arc<Mutex<String>>,
    /// What it prints after it is ready.
    pub lines: mpsc::Receiver<String>,
}

/// What a server is made of before it runs.
pub struct Launch<'a> {
    pub wrapper: &'a [&'a str],
    pub program: &'a str,
    pub arguments: &'a [&'a str],
    pub run: Arc<Scratch>,
}

impl Server {
    pub fn start(arguments: &[&str]) -> Self {
        Self::start_under(&[], arguments)
    }

    /// With the program run by `wrapper`, which must exec it.
    pub fn start_under(wrapper: &[&str], arguments: &[&str]) -> Self {
        Self::start_as(Launch { wrapper, program: PROGRAM, arguments, run: Arc::new(Scratch::new()) })
    }

    /// Starts the plan and waits until the server says that it is ready.
    ///
    /// # Panics
    /// If it does not; with what it says on its standard error.
    pub fn start_as(plan: Launch<'_>) -> Self {
        Self::start_with(plan, Stdio::null())
    }

    /// [`Server::start_as`], with this as its standard input.
    pub fn start_with(plan: Launch<'_>, input: Stdio) -> Self {
        let mut command = wrapped(plan.wrapper, plan.program);
        // What the tests are told by variables of their own is no setting of a server's.
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("CORELANE_")) {
            command.env_remove(name);
        }
        command.arg("serve").args(plan.arguments).env("CORELANE_RUN_DIR", plan.run.path());
        command.stdin(input).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the server starts");
        let words = collect(child.stderr.take().expect("standard error is a pipe"));
        let lines = lines(child.stdout.take().expect("standard output is a pipe"));
        let (urls, notes, wrapper) = (Vec::new(), Vec::new(), plan.wrapper.iter().map(|&word| word.to_owned()).collect());
        let (driver_line, interface_line, steering, program) =
            (String::new(), String::new(), String::new(), plan.program.to_owned());
        let mut server = Self {
            child,
            urls,
            ports: Vec::new(),
            driver_line,
            steering,
            interface_line,
            notes,
            run: plan.run,
            wrapper,
            program,
            words,
            lines,
        };
        while server.note_line(&server.lines.recv_timeout(PATIENCE).unwrap_or_default()) {}
        server
    }

    /// Whether another line is to come before the server is ready.
    fn note_line(&mut self, line: &str) -> bool {
        match line.split_once(' ') {
            Some(("echo" | "http" | "proxy" | "push" | "rpc" | "metrics" | "dashboard", url)) => self.urls.push(url.to_owned()),
            Some(("gateway", port)) => self.ports.push(port.to_owned()),
            Some(("driver", rest)) => rest.clone_into(&mut self.driver_line),
            Some(("steering", rest)) => rest.clone_into(&mut self.steering),
            Some(("interface", rest)) => rest.clone_into(&mut self.interface_line),
            Some(("note:", note)) => self.notes.push(note.to_owned()),
            _ if line == "ready" => return false,
            _ => panic!("the server says {line:?} instead of being ready; {}", self.words()),
        }
        true
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The driver in use.
    pub fn driver(&self) -> &str {
        self.driver_line.split(',').next().unwrap_or_default()
    }

    /// The address of the first URL of the scheme.
    pub fn address(&self, scheme: &str) -> SocketAddr {
        let url = self.urls.iter().find_map(|url| url.strip_prefix(scheme)?.strip_prefix("://"));
        url.and_then(|place| place.parse().ok()).expect("there is such a URL")
    }

    pub fn tcp(&self) -> SocketAddr {
        self.address("tcp")
    }

    pub fn udp(&self) -> SocketAddr {
        self.address("udp")
    }

    pub fn connect(&self) -> TcpStream {
        connect(self.tcp())
    }

    /// What the program has said on its standard error so far.
    pub fn words(&self) -> String {
        self.words.lock().expect("nobody panics here").clone()
    }

    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.pid() as i32), signal).expect("the server is there");
    }

    /// Waits for the end of the process.
    pub fn ended(&mut self) -> ExitStatus {
        let mut status = None;
        until("the server has ended", || {
            status = self.child.try_wait().expect("the child is ours");
            status.is_some()
        });
        status.expect("just seen")
    }

    /// `corelane stat` with these arguments, as the user that serves.
    pub fn stat(&self, arguments: &[&str]) -> Output {
        let wrapper: Vec<&str> = self.wrapper.iter().map(String::as_str).collect();
        let mut command = wrapped(&wrapper, &self.program);
        output(command.arg("stat").args(arguments).env("CORELANE_RUN_DIR", self.run.path()))
    }

    /// All that the page says.
    pub fn page(&self) -> Value {
        let output = self.stat(&["--json", "--pid", &self.pid().to_string()]);
        let text = String::from_utf8(output.stdout).expect("JSON is UTF-8");
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error} in {text:?}"))
    }

    /// What its page says, read here: starting the program to ask for one counter, again and again, would take the CPUs from who is waited for.
    fn snapshot(&self) -> Snapshot {
        let name = format!("{}-", self.pid());
        let is_its = |path: &PathBuf| path.file_name().is_some_and(|file| file.to_string_lossy().starts_with(&name));
        let files = fs::read_dir(self.run.path()).expect("the folder is there").map(|file| file.expect("it is read").path());
        let mut pages = files.filter(|path| is_its(path) && path.extension().is_some_and(|end| end == "page"));
        let path = pages.next().expect("it has a page");
        Reader::open(&path).expect("the page is whole").snapshot(0)
    }

    /// One counter of the services, over all of them and all lanes.
    pub fn count(&self, counter: &str) -> u64 {
        self.snapshot().services.iter().map(|service| value_of(&service.values, counter)).sum()
    }

    /// One counter of the lanes, over all of them.
    pub fn lane_count(&self, counter: &str) -> u64 {
        value_of(&self.snapshot().total, counter)
    }

    /// One counter of the packet path of each lane that has one.
    pub fn packet_counts(&self, counter: &str) -> Vec<u64> {
        let lanes = self.snapshot().lanes;
        lanes.iter().filter_map(|lane| lane.packets.as_ref()).map(|packets| value_of(&packets.values, counter)).collect()
    }

    /// Waits until a service counter has come to a value.
    pub fn wait_for(&self, counter: &str, is_enough: impl Fn(u64) -> bool) {
        until(&format!("{counter} is as it should be"), || is_enough(self.count(counter)));
    }

    /// Waits until a service counter is exactly so much: what a client has got is counted a moment later.
    pub fn comes_to(&self, counter: &str, expected: u64) {
        let mut count = 0;
        let has_come = || {
            count = self.count(counter);
            count >= expected
        };
        until(&format!("{counter} is {expected}"), has_come);
        assert_eq!(count, expected, "{counter}");
    }

    /// A line of /proc/PID/status, in its own unit.
    pub fn status(&self, field: &str) -> u64 {
        let path = format!("/proc/{}/status", self.pid());
        let text = fs::read_to_string(path).expect("the server is there");
        let line = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        line.and_then(|line| line.split_whitespace().next()?.parse().ok()).expect("the field is a number")
    }

    /// KiB that it is resident in, exactly: its status lags behind by what each thread has not told yet (proc_pid_smaps_rollup(5)). Pages of files are not
    /// among them: those come and go with the memory of the machine.
    pub fn resident_kib(&self) -> u64 {
        let path = format!("/proc/{}/smaps_rollup", self.pid());
        let text = fs::read_to_string(path).expect("the server is there");
        let kib = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)).expect("Linux 5.4 and later tell it");
            line.split_whitespace().next().and_then(|number| number.parse::<u64>().ok()).expect("the line is a number")
        };
        kib("Pss_Anon:") + kib("Pss_Shmem:")
    }

    /// Where its lanes may run: the name of each thread and its list of CPUs (proc_pid_status(5)).
    pub fn lane_cpus(&self) -> Vec<(String, String)> {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.pid())).expect("the server is there");
        let texts = tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("status")).ok());
        let field =
            |text: &str, name| text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().trim().to_owned();
        let named = texts.map(|text| (field(&text, "Name:"), field(&text, "Cpus_allowed_list:")));
        let mut lanes: Vec<_> = named.filter(|(name, _)| name.starts_with("lane-")).collect();
        lanes.sort();
        lanes
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            eprintln!("the server said: {:?}", self.words());
        }
    }
}

/// The value of the counter of this name.
fn value_of<C: Counter>(values: &Values<C>, name: &str) -> u64 {
    values.all().find(|one| one.name == name).unwrap_or_else(|| panic!("there is no counter {name}")).value
}

/// A whole number in JSON.
pub fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is not a whole number"))
}

/// Gathers what comes until the end.
fn collect(mut from: impl Read + Send + 'static) -> Arc<Mutex<String>> {
    let words = Arc::new(Mutex::new(String::new()));
    let gathered = words.clone();
    thread::spawn(move || {
        let mut bytes = [0; 4096];
        while let Ok(length @ 1..) = from.read(&mut bytes) {
            gathered.lock().expect("nobody panics here").push_str(&String::from_utf8_lossy(&bytes[..length]));
        }
    });
    words
}

/// The lines that come, one message each.
pub fn lines(from: impl Read + Send + 'static) -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(from).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    receiver
}

/// A connection that fails rather than hangs.
pub fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect_timeout(&address, PATIENCE).expect("the server accepts");
    patient(&stream);
    stream
}

/// Gives up on reads and writes after [`PATIENCE`].
pub fn patient(stream: &TcpStream) {
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout can be set");
    stream.set_write_timeout(Some(PATIENCE)).expect("a timeout can be set");
}

/// A datagram socket on loopback that talks to `address` only, and fails rather than hangs.
pub fn datagrams_to(address: SocketAddr) -> UdpSocket {
    let socket = UdpSocket::bind(if address.is_ipv4() { "127.0.0.1:0" } else { "[::1]:0" }).expect("a port is free");
    socket.connect(address).expect("the address can be reached");
    socket.set_read_timeout(Some(PATIENCE)).expect("a timeout can be set");
    socket
}

/// Bytes that differ everywhere and between seeds, so that a wrong order or a wrong connection shows.
pub fn pattern(length: usize, seed: u64) -> Vec<u8> {
    Random::new(seed).bytes(length)
}

/// Sends all of `data` and asserts that the same comes back.
pub fn echo(stream: &mut TcpStream, data: &[u8]) {
    let mut writer = stream.try_clone().expect("a socket can be shared");
    thread::scope(|scope| {
        let written = scope.spawn(move || writer.write_all(data));
        let mut back = vec![0; data.len()];
        stream.read_exact(&mut back).expect("the echo comes back");
        assert!(back == data, "{} bytes came back changed", data.len());
        written.join().expect("the writer ends").expect("all is taken");
    });
}

/// Sends one datagram and asserts that the same comes back.
pub fn echo_datagram(socket: &UdpSocket, data: &[u8]) {
    assert_eq!(socket.send(data).expect("the datagram leaves"), data.len());
    let mut back = vec![0; 65_536];
    let length = socket.recv(&mut back).expect("the echo comes back");
    assert!(back[..length] == *data, "a datagram of {} bytes came back changed", data.len());
}

/// Reads to the end of the stream, and tells whether it was an orderly one.
pub fn read_to_end(stream: &mut TcpStream) -> (Vec<u8>, Result<(), ErrorKind>) {
    let mut bytes = Vec::new();
    let result = stream.read_to_end(&mut bytes);
    (bytes, result.map(drop).map_err(|error| error.kind()))
}

/// Runs `body` in the network namespace of another process.
pub fn in_network_of<T: Send>(pid: u32, body: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        let inside = scope.spawn(move || {
            let namespace = fs::File::open(format!("/proc/{pid}/ns/net")).expect("the process is there");
            nix::sched::setns(namespace, nix::sched::CloneFlags::CLONE_NEWNET).expect("root may enter it");
            body()
        });
        inside.join().expect("the body does not panic")
    })
}

/// Runs a program in a network of its own, which has loopback only.
pub const IN_OWN_NETWORK: [&str; 5] = ["unshare", "--net", "sh", "-c", "ip link set lo up && exec \"$0\" \"$@\""];

/// A copy of the program that every user may run, in a folder that an ordinary user owns.
pub fn copy_for_all(folder: &Scratch) -> String {
    let program = folder.path().join("corelane");
    // By another process: what this one has open to be written, a child that another test begins just then has open too, and the kernel
    // does not execute it (ETXTBSY, execve(2)).
    let copied = Command::new("cp").arg(PROGRAM).arg(&program).status().expect("cp is on every machine");
    assert!(copied.success(), "there is room for a copy");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("the copy is ours");
    std::os::unix::fs::chown(folder.path(), Some(ORDINARY_USER), None).expect("root may give it away");
    program.to_str().expect("the path is UTF-8").to_owned()
}

/// Nobody: a user without any right.
pub const ORDINARY_USER: u32 = 65534;

/// Datagrams without end from one address to another, of many flows, in the network of a process, while the body runs.
pub fn flooded<T>(pid: u32, [from, to]: [&str; 2], body: impl FnOnce() -> T) -> T {
    let is_done = AtomicBool::new(false);
    let flood = || {
        in_network_of(pid, || {
            let sockets: Vec<UdpSocket> = (0..32).map(|_| UdpSocket::bind(from).unwrap()).collect();
            while !is_done.load(Ordering::Relaxed) {
                // An interface that is down takes none.
                sockets.iter().for_each(|socket| drop(socket.send_to(&[7; 64], to)));
            }
        });
    };
    thread::scope(|scope| {
        scope.spawn(flood);
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body));
        is_done.store(true, Ordering::Relaxed);
        done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}
