//! Started by a service manager: what it is told, and the sockets that it hands over (sd_notify(3), sd_listen_fds(3)).

use crate::common::*;
use nix::fcntl::OFlag;
use nix::sys::ptrace;
use nix::sys::signal::Signal;
use nix::sys::stat::Mode;
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::{Pid, mkfifo};
use std::fs;
use std::io::Write;
use std::net::{TcpListener, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

on_each_driver!(
    the_manager_hears_of_readiness_reload_and_end,
    a_reload_is_over_when_all_has_been_read,
    a_lane_that_hangs_is_not_said_to_live,
    a_socket_that_is_handed_over_is_served_and_left_to_the_next,
    datagrams_of_a_socket_that_is_handed_over_are_answered,
);

/// The manager's end of a service: where it is told things.
struct Manager {
    socket: UnixDatagram,
    variable: String,
    _folder: Scratch,
}

impl Manager {
    fn new() -> Self {
        let folder = Scratch::new();
        let path = folder.path().join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Self { socket, variable: format!("NOTIFY_SOCKET={}", path.display()), _folder: folder }
    }

    /// The next that it is told.
    fn told(&self) -> String {
        let mut bytes = [0; 4096];
        let length = self.socket.recv(&mut bytes).expect("the service says something");
        String::from_utf8(bytes[..length].to_vec()).unwrap()
    }

    /// What it has been told already, if anything.
    fn told_already(&self) -> Option<String> {
        self.socket.set_nonblocking(true).unwrap();
        let mut bytes = [0; 4096];
        let told = self.socket.recv(&mut bytes).ok().map(|length| String::from_utf8(bytes[..length].to_vec()).unwrap());
        self.socket.set_nonblocking(false).unwrap();
        told
    }

    /// What it is told within `time`, if anything.
    fn told_within(&self, time: Duration) -> Option<String> {
        self.socket.set_read_timeout(Some(time)).unwrap();
        let mut bytes = [0; 4096];
        let told = self.socket.recv(&mut bytes).ok().map(|length| String::from_utf8(bytes[..length].to_vec()).unwrap());
        self.socket.set_read_timeout(Some(PATIENCE)).unwrap();
        told
    }
}

fn the_manager_hears_of_readiness_reload_and_end(driver: Driver) {
    let manager = Manager::new();
    let test = "supervised::the_manager_hears_of_readiness_reload_and_end";
    let Some(mut server) = driver.start_under(test, &["env", &manager.variable], &["--lanes", "2", TCP]) else { return };
    let ready = format!("READY=1\nSTATUS=serving: lanes 2, driver {}, steering ", driver.name());
    let told = manager.told();
    assert!(told.starts_with(&ready), "{told}");
    echo(&mut server.connect(), b"it was ready");
    let clock = || nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC).unwrap();
    let microseconds = || Duration::from(clock()).as_micros();
    let before = microseconds();
    server.signal(Signal::SIGHUP);
    let told = manager.told();
    let at: u128 = told.strip_prefix("RELOADING=1\nMONOTONIC_USEC=").and_then(|rest| rest.trim().parse().ok()).expect(&told);
    assert!((before..=microseconds()).contains(&at), "{told}");
    assert_eq!(manager.told(), "READY=1\n");
    server.signal(Signal::SIGTERM);
    assert_eq!(manager.told(), "STOPPING=1\nSTATUS=draining\n");
    assert_eq!(server.ended().code(), Some(0), "{}", server.words());
}

/// The settings lie in a pipe, so that reading them lasts until something is written.
fn a_reload_is_over_when_all_has_been_read(driver: Driver) {
    let (manager, folder) = (Manager::new(), Scratch::new());
    let path = folder.path().join("corelane.toml");
    let settings = format!("services = [\"{TCP}\"]\nlanes = 1\n");
    fs::write(&path, &settings).unwrap();
    let (test, file) = ("supervised::a_reload_is_over_when_all_has_been_read", path.to_str().unwrap());
    let Some(server) = driver.start_under(test, &["env", &manager.variable], &["--config", file]) else { return };
    assert!(manager.told().starts_with("READY=1\n"));
    fs::remove_file(&path).unwrap();
    mkfifo(&path, Mode::S_IRUSR | Mode::S_IWUSR).unwrap();
    for _ in 0..2 {
        server.signal(Signal::SIGHUP);
        assert!(manager.told().starts_with("RELOADING=1\n"));
        let mut pipe = None;
        until("it is read", || {
            // Refused while nobody reads (fifo(7)).
            pipe = fs::OpenOptions::new().write(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(&path).ok();
            pipe.is_some()
        });
        assert_eq!(manager.told_already(), None, "it is not over");
        pipe.unwrap().write_all(settings.as_bytes()).unwrap();
        assert_eq!(manager.told(), "READY=1\n");
    }
}

/// The thread of a lane.
fn thread_of(server: &Server, name: &str) -> Pid {
    let tasks = fs::read_dir(format!("/proc/{}/task", server.pid())).unwrap();
    // Another one may end meanwhile.
    let is_it = |path: &std::path::Path| fs::read_to_string(path.join("comm")).is_ok_and(|comm| comm.trim() == name);
    let path = tasks.filter_map(|task| Some(task.ok()?.path())).find(|path| is_it(path)).expect("the lane has a thread");
    Pid::from_raw(path.file_name().unwrap().to_str().unwrap().parse().unwrap())
}

/// Stops a lane's thread after some work; lets it go on if it sleeps already.
fn is_stopped_in_a_turn(server: &Server, lane: Pid) -> bool {
    // Whichever lane takes them, each looks for work after it.
    (0..8).for_each(|seed| echo(&mut server.connect(), &pattern(100, seed)));
    ptrace::attach(lane).expect("a process may trace its children");
    waitpid(lane, Some(WaitPidFlag::__WALL)).unwrap();
    let state = server.page()["lanes"][0]["state"].clone();
    let is_in_turn = state == "running" || state == "spinning";
    if !is_in_turn {
        ptrace::detach(lane, None).unwrap();
    }
    is_in_turn
}

fn a_lane_that_hangs_is_not_said_to_live(driver: Driver) {
    let manager = Manager::new();
    let test = "supervised::a_lane_that_hangs_is_not_said_to_live";
    let limit = Duration::from_millis(800);
    let watchdog = format!("WATCHDOG_USEC={}", limit.as_micros());
    // It looks for work for a second, and so is in a turn while it is stopped.
    let arguments = ["--lanes", "2", "--spin", "1s", TCP];
    let Some(server) = driver.start_under(test, &["env", &manager.variable, &watchdog], &arguments) else { return };
    let mut told: Vec<String> = (0..4).map(|_| manager.told()).collect();
    told.retain(|words| !words.starts_with("READY=1"));
    assert_eq!(told, ["WATCHDOG=1\n"; 3]);
    let lane = thread_of(&server, "lane-0");
    until("the lane is stopped in a turn", || is_stopped_in_a_turn(&server, lane));
    let stopped = Instant::now();
    // What is said from half of the limit on would be said of a lane that hangs; what was said before may be in the socket still.
    while stopped.elapsed() < limit {
        let _ = manager.told_within(limit / 8);
    }
    let told = manager.told_within(limit);
    // First: a thread that is held keeps its process from ending.
    ptrace::detach(lane, None).unwrap();
    assert_eq!(told, None);
    assert_eq!(manager.told(), "WATCHDOG=1\n", "it takes turns again");
    echo(&mut server.connect(), b"and serves");
}

/// Runs the program with what is its standard input as the socket that was handed over, by the name `web`.
const HANDS_OVER: [&str; 3] =
    ["sh", "-c", r#"exec 3<&0 </dev/null; LISTEN_PID=$$ LISTEN_FDS=${COUNT:-1} LISTEN_FDNAMES=${NAMES:-web} exec "$0" "$@""#];

/// A server that is given `socket`, to serve `place`.
fn served_with(driver: Driver, test: &str, socket: OwnedFd, place: &str) -> Option<Server> {
    // Skipped, and said so, where the machine refuses the driver.
    drop(driver.start(test, &["--lanes", "1", TCP])?);
    let arguments = ["--driver", driver.name(), "--lanes", "2", place];
    let launch = Launch { wrapper: &HANDS_OVER, program: PROGRAM, arguments: &arguments, run: Arc::new(Scratch::new()) };
    Some(Server::start_with(launch, Stdio::from(socket)))
}

fn a_socket_that_is_handed_over_is_served_and_left_to_the_next(driver: Driver) {
    let test = "supervised::a_socket_that_is_handed_over_is_served_and_left_to_the_next";
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    let place = format!("echo=tcp://{at}");
    let copy = || listener.try_clone().unwrap().into();
    let Some(mut server) = served_with(driver, test, copy(), &place) else { return };
    assert!(
        matches!(&server.notes[..], [note] if note.starts_with("[CL-0011] handed over: tcp://127.0.0.1:")),
        "{:?}",
        server.notes
    );
    let mut streams: Vec<_> = (0..20).map(|_| connect(at)).collect();
    (0..).zip(&mut streams).for_each(|(seed, stream)| echo(stream, &pattern(1000, seed)));
    assert_eq!(server.count("accepts"), 20);
    drop(streams);
    server.signal(Signal::SIGTERM);
    assert_eq!(server.ended().code(), Some(0), "{}", server.words());
    // It is still open, and who comes now waits for the next.
    let mut waits = connect(at);
    let mut next = served_with(driver, test, copy(), &place).expect("the first one could");
    echo(&mut waits, b"served by the next");
    drop(waits);
    next.signal(Signal::SIGTERM);
    assert_eq!(next.ended().code(), Some(0), "{}", next.words());
}

fn datagrams_of_a_socket_that_is_handed_over_are_answered(driver: Driver) {
    let test = "supervised::datagrams_of_a_socket_that_is_handed_over_are_answered";
    let socket = UdpSocket::bind("[::]:0").unwrap();
    let port = socket.local_addr().unwrap().port();
    let Some(server) = served_with(driver, test, socket.into(), &format!("echo=udp://[::]:{port}?reflect")) else { return };
    for seed in 0..20 {
        // From the address that was asked, which the socket has to tell of each.
        echo_datagram(&datagrams_to(([127, 0, 0, 1], port).into()), &pattern(1000, seed));
        echo_datagram(&datagrams_to((std::net::Ipv6Addr::LOCALHOST, port).into()), &pattern(1000, seed));
    }
    server.comes_to("datagrams_out", 40);
}

#[test]
fn a_unix_name_that_is_handed_over_stays() {
    let folder = Scratch::new();
    let path = folder.path().join("web.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let (test, place) = ("supervised::a_unix_name_that_is_handed_over_stays", format!("echo=unix:{}", path.display()));
    let Some(mut server) = served_with(Driver::Epoll, test, listener.try_clone().unwrap().into(), &place) else { return };
    assert_eq!(server.notes, [""; 0], "a Unix name has one socket in any case");
    let connects = || std::os::unix::net::UnixStream::connect(&path);
    drop(connects().unwrap());
    server.wait_for("accepts", |accepts| accepts == 1);
    server.signal(Signal::SIGTERM);
    assert_eq!(server.ended().code(), Some(0), "{}", server.words());
    assert!(connects().is_ok(), "the name is the manager's, and who comes waits for the next");
}

#[test]
fn what_is_handed_over_and_serves_nothing_is_an_error() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    let mut command = Command::new(HANDS_OVER[0]);
    command.args(&HANDS_OVER[1..]).args([PROGRAM, "serve", TCP]).stdin(Stdio::from(OwnedFd::from(listener)));
    let done = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap().wait_with_output().unwrap();
    let words = String::from_utf8(done.stderr).unwrap();
    assert_eq!(done.status.code(), Some(2), "{words}");
    for part in ["\"web\"", &at.to_string(), "name that address"] {
        assert!(words.contains(part), "{part}: {words}");
    }
}

#[test]
fn what_is_handed_over_and_is_no_socket_is_named() {
    let listener = || OwnedFd::from(TcpListener::bind("127.0.0.1:0").unwrap());
    let nothing = || OwnedFd::from(fs::File::open("/dev/null").unwrap());
    let cases = [
        (nothing(), "1", "web", "the socket \"web\" that was handed over cannot be served: it is no socket"),
        (listener(), "2", "web:more", "descriptor 4 was to be handed over and is not open"),
        (listener(), "1", "web:more", "cannot be taken (LISTEN_PID, LISTEN_FDS): "),
        (listener(), "65", "web", "more than 64 sockets were handed over"),
        (listener(), "-1", "web", "cannot be taken (LISTEN_PID, LISTEN_FDS): "),
        (listener(), "many", "web", "cannot be taken (LISTEN_PID, LISTEN_FDS): "),
    ];
    for (socket, count, names, why) in cases {
        let mut command = Command::new("timeout");
        command.arg("60").args(HANDS_OVER).args([PROGRAM, "serve", TCP]).env("COUNT", count).env("NAMES", names);
        command.stdin(Stdio::from(socket)).stdout(Stdio::piped()).stderr(Stdio::piped());
        let done = command.spawn().unwrap().wait_with_output().unwrap();
        let words = String::from_utf8(done.stderr).unwrap();
        assert_eq!((done.status.code(), words.lines().count()), (Some(2), 1), "{count}: {words}");
        assert!(words.contains(why), "{count}: {words}");
    }
}

/// What the package installs for the manager, with this program in its place.
fn unit(folder: &Scratch) -> std::path::PathBuf {
    let text = include_str!("../../../packaging/corelane.service").replace("/usr/bin/corelane", PROGRAM);
    let path = folder.path().join("corelane.service");
    fs::write(&path, text.replace("Documentation=file:///usr/share/doc/corelane/docs/configuration.md\n", "")).unwrap();
    path
}

#[test]
fn the_unit_is_right_and_lets_the_service_do_little() {
    let test = "supervised::the_unit_is_right_and_lets_the_service_do_little";
    if !have(test, &["systemd-analyze"]) {
        return;
    }
    let folder = Scratch::new();
    let path = unit(&folder);
    let verified = output(Command::new("systemd-analyze").args(["--man=no", "verify"]).arg(&path));
    let words = String::from_utf8(verified.stderr).unwrap();
    assert!(verified.status.success() && !words.contains("corelane.service"), "{words}");
    // Of 100 at the worst: what systemd calls OK. It serves as root where no user is set, and that alone counts for most of it.
    let judged =
        output(Command::new("systemd-analyze").args(["security", "--offline=true", "--threshold=35", "--no-pager"]).arg(&path));
    assert!(judged.status.success(), "{}", String::from_utf8_lossy(&judged.stdout));
}

/// Makes a socket for each family at one port, for each of two ports, and has the program serve with these: a socket unit with `BindIPv6Only=ipv6-only`.
const BOTH_FAMILIES: &str = r#"
import fcntl, os, socket, sys
kept, arguments = [], sys.argv[1:]
for name in ("ECHO", "METRICS"):
    while True:
        six, four = socket.socket(socket.AF_INET6), socket.socket(socket.AF_INET)
        six.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        six.bind(("::", 0))
        port = six.getsockname()[1]
        try:
            four.bind(("0.0.0.0", port))
            break
        except OSError:
            pass # somebody has it by the other family: another one is taken
    for one in (six, four):
        one.listen(64)
        kept.append(fcntl.fcntl(one, fcntl.F_DUPFD, 100))
    arguments = [one.replace(name, str(port)) for one in arguments]
for number, one in enumerate(kept):
    os.dup2(one, 3 + number)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS="4")
os.execv(arguments[0], arguments)
"#;

#[test]
fn sockets_for_both_families_serve_one_service_and_metrics() {
    if !have("supervised::sockets_for_both_families_serve_one_service_and_metrics", &["python3"]) {
        return;
    }
    let arguments = ["--lanes", "1", "--metrics", "[::]:METRICS", "echo=tcp://[::]:ECHO"];
    let server = Server::start_under(&["python3", "-c", BOTH_FAMILIES], &arguments);
    let ports: Vec<u16> = server.urls.iter().map(|url| url.rsplit(':').next().unwrap().parse().unwrap()).collect();
    assert!(ports.len() == 4 && ports[0] == ports[1] && ports[2] == ports[3], "{:?}", server.urls);
    for host in ["127.0.0.1", "::1"] {
        let host: std::net::IpAddr = host.parse().unwrap();
        echo(&mut connect((host, ports[0]).into()), b"by either family");
        let mut scraped = connect((host, ports[2]).into());
        scraped.write_all(b"GET /livez HTTP/1.0\r\n\r\n").unwrap();
        let (answer, _) = read_to_end(&mut scraped);
        assert!(answer.starts_with(b"HTTP/1.0 200"), "{host}");
    }
}
