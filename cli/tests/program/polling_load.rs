//! Lanes that take packets in by themselves: while nothing comes, under a flood, and where rights are missing.

use crate::common::*;
use crate::packet::{V4, WIRE, can_run, comes_back, echoes, ends, exec_in, of_lanes};
use crate::packet_ports::run;
use crate::polling::polling;
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, Uid, chown};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream, UdpSocket};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

on_each_driver!(
    a_card_that_polls_is_one_processs_alone,
    a_lane_that_polls_is_not_run_while_nothing_comes,
    a_lane_that_was_stopped_under_a_flood_goes_on,
    a_service_that_has_a_lane_for_too_long_is_named,
    an_interface_that_polls_goes_down_under_load_and_comes_up,
    lanes_of_one_interface_poll_side_by_side,
    services_at_the_kernels_sockets_leave_other_programs_theirs,
    services_at_the_kernels_sockets_are_served_under_a_flood,
    what_polling_lacks_is_said,
    x_17_tuning_that_is_stopped_leaves_what_was_set,
    x_17_what_tuning_found_is_in_force
);

const POLLING: &str = "va,ip=10.9.0.2/24,ip=fd09::2/64,poll";
/// The same, of a lane that leaves most of its CPU to other programs.
const RESTING: &str = "va,ip=10.9.0.2/24,ip=fd09::2/64,poll,user_frac=90,other_programs=1";
/// For how long a lane that has nothing to do is looked at.
const IDLE: Duration = Duration::from_secs(2);
/// Requests that a service is asked beside a flood.
const REQUESTS: u64 = 50;

/// A file of each lane's thread of a process (proc_pid_task(5)).
fn of_lane_threads(pid: u32, file: &str) -> Vec<String> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap().map(|task| task.unwrap().path());
    let lanes = tasks.filter(|task| fs::read_to_string(task.join("comm")).is_ok_and(|name| name.starts_with("lane-")));
    lanes.map(|lane| fs::read_to_string(lane.join(file)).unwrap()).collect()
}

/// Clock ticks of the CPU that lanes of a process have used (proc_pid_stat(5)), each a hundredth of a second.
fn ticks(pid: u32) -> u64 {
    let of = |stat: String| -> u64 {
        let behind_name = stat.rsplit_once(')').unwrap().1;
        behind_name.split_whitespace().skip(11).take(2).map(|ticks| ticks.parse::<u64>().unwrap()).sum()
    };
    of_lane_threads(pid, "stat").into_iter().map(of).sum()
}

/// How often lanes of a process went to sleep.
fn sleeps(pid: u32) -> u64 {
    let of = |status: String| {
        status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:")?.trim().parse::<u64>().ok())
    };
    of_lane_threads(pid, "status").into_iter().filter_map(of).sum()
}

/// A server whose user may nothing once it serves, or as it was started.
fn idle_server(driver: Driver, test: &str, user: &[&str]) -> Server {
    let folder = Arc::new(Scratch::new());
    chown(folder.path(), Some(Uid::from_raw(ORDINARY_USER)), None).unwrap();
    let script = exec_in(WIRE, "");
    let arguments = [&["--driver", driver.name(), "--lanes", "1", "--packet", POLLING, V4], user].concat();
    let wrapper = ["unshare", "--net", "sh", "-c", &script];
    let server = Server::start_as(Launch { wrapper: &wrapper, program: PROGRAM, arguments: &arguments, run: folder });
    assert!(comes_back(server.pid(), "10.9.0.1:0", PATIENCE), "{test}: {}", server.words());
    server
}

fn a_lane_that_polls_is_not_run_while_nothing_comes(driver: Driver) {
    let test = "polling_load::a_lane_that_polls_is_not_run_while_nothing_comes";
    if !can_run(&driver.case(test)) {
        return;
    }
    // Also one that may not tell the kernel any more that it receives again.
    for user in [&[][..], &["--user", "nobody:nogroup"]] {
        let server = idle_server(driver, test, user);
        let pid = server.pid();
        // What the kernel says of itself at a new wire ends, on a busy machine late. A resting lane wakes for the state of its interface alone; one that looks without
        // sleep takes a whole CPU, for ever. Time in a wake is not judged: other programs may have some of it.
        until(&format!("the lane of {user:?} rests"), || {
            let before = (ticks(pid), sleeps(pid));
            // reason: nothing is to happen meanwhile.
            thread::sleep(IDLE);
            sleeps(pid) - before.1 <= 8 && ticks(pid) - before.0 <= 20
        });
        assert!(comes_back(pid, "10.9.0.1:0", PATIENCE), "{user:?}: and is there at once");
        ends(server);
    }
}

/// Datagrams without end from the far end, of many flows, while the body runs.
fn flooded<T>(pid: u32, body: impl FnOnce() -> T) -> T {
    let is_done = AtomicBool::new(false);
    let flood = || {
        in_network_of(pid, || {
            let sockets: Vec<UdpSocket> = (0..32).map(|_| UdpSocket::bind("10.9.0.1:0").unwrap()).collect();
            while !is_done.load(Ordering::Relaxed) {
                // An interface that is down takes none.
                sockets.iter().for_each(|socket| drop(socket.send_to(&[7; 64], "10.9.0.2:60007")));
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

fn an_interface_that_polls_goes_down_under_load_and_comes_up(driver: Driver) {
    let test = "polling_load::an_interface_that_polls_goes_down_under_load_and_comes_up";
    let Some(server) = echoes(driver, test, "", POLLING) else { return };
    flooded(server.pid(), || {
        for round in 1..=3 {
            let before = server.packet_counts("frames_in")[0];
            until("frames come", || server.packet_counts("frames_in")[0] > before + 1000);
            run(&server, "ip link set va down");
            until("it is said", || server.words().matches("interface va is down").count() == round);
            run(&server, "ip link set va up");
            until("it is said", || server.words().matches("interface va is up again").count() == round);
            // A knob is changed while packets come.
            let user_frac = 20 * round as u64;
            let shown = polling(&server, &["--set", &format!("user_frac={user_frac}")]).unwrap();
            assert_eq!(shown["settings"]["user_frac"].as_u64(), Some(user_frac));
            let said = polling(&server, &["--set", "user_frac=100"]).unwrap_err();
            assert!(said.contains("user_frac is 0 to 99, not 100"), "{said}");
            assert_eq!(polling(&server, &[]).unwrap()["settings"], shown["settings"], "what is out of range changes nothing");
        }
    });
    // The neighbour is asked for anew.
    until("it is reached", || comes_back(server.pid(), "10.9.0.1:0", Duration::from_millis(100)));
    ends(server);
}

/// A second process is refused at once, under a flood as well, and the first goes on.
fn a_card_that_polls_is_one_processs_alone(driver: Driver) {
    let test = "polling_load::a_card_that_polls_is_one_processs_alone";
    let Some(server) = echoes(driver, test, "", POLLING) else { return };
    flooded(server.pid(), || {
        let before = of_lanes(&server, "frames_in")[0];
        for user_frac in [30, 10] {
            let port = format!("va,ip=10.9.0.3/24,poll,user_frac={user_frac}");
            let said = in_network_of(server.pid(), || {
                let mut second = Command::new(PROGRAM);
                second.args(["serve", "--driver", driver.name(), "--lanes", "1"]);
                second.args(["--packet", &port, "echo=udp://10.9.0.3:60007?reflect"]);
                let refused = output(&mut second);
                assert!(!refused.status.success(), "{refused:?}");
                String::from_utf8(refused.stderr).unwrap()
            });
            assert!(said.contains("va has an XDP program already") && said.contains("or use another interface"), "{said}");
        }
        until("frames come", || of_lanes(&server, "frames_in")[0] > before + 1000);
    });
    until("it is reached", || comes_back(server.pid(), "10.9.0.1:0", Duration::from_millis(100)));
    ends(server);
}

/// Frames that the far end of the wire has sent, or had no room for (proc_pid_net(5)).
fn sent(pid: u32) -> u64 {
    in_network_of(pid, || {
        let table = fs::read_to_string("/proc/thread-self/net/dev").unwrap();
        let far = table.lines().find_map(|line| line.trim().strip_prefix("vb:")).unwrap();
        let sending: Vec<u64> = far.split_whitespace().skip(8).map(|count| count.parse().unwrap()).collect();
        sending[1] + sending[3]
    })
}

fn a_lane_that_was_stopped_under_a_flood_goes_on(driver: Driver) {
    let test = "polling_load::a_lane_that_was_stopped_under_a_flood_goes_on";
    for controller in ["timed", "original"] {
        let Some(server) = echoes(driver, test, "", &format!("{POLLING},controller={controller}")) else { return };
        flooded(server.pid(), || {
            let frames_in = || server.packet_counts("frames_in")[0];
            let before = frames_in();
            until("frames come", || frames_in() > before + 1000);
            server.signal(Signal::SIGSTOP);
            // Far more than all rings hold: some half a second of the flood.
            let (stopped, before) = (of_lanes(&server, "frames_in")[0], sent(server.pid()));
            until("a flood comes meanwhile", || sent(server.pid()) > before + 200_000);
            server.signal(Signal::SIGCONT);
            until("frames come again", || frames_in() > stopped + 1000);
        });
        until("it is reached", || comes_back(server.pid(), "10.9.0.1:0", Duration::from_millis(100)));
        ends(server);
    }
}

/// Connects to a service at the kernel's sockets of the server's network, and asks it without end while the body runs; what is answered is thrown away.
fn asked<T>(server: &Server, to: &str, question: &[u8], body: impl FnOnce() -> T) -> T {
    let asking = in_network_of(server.pid(), || TcpStream::connect(to).unwrap());
    let mut answers = asking.try_clone().unwrap();
    thread::scope(|scope| {
        scope.spawn(|| std::io::copy(&mut answers, &mut std::io::sink()));
        scope.spawn(|| while (&asking).write_all(question).is_ok() {});
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body));
        asking.shutdown(Shutdown::Both).unwrap();
        done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// A lane with this port that polls, and with a service at the kernel's sockets.
fn serves_beside(driver: Driver, test: &str, port: &str, service: &str) -> Option<Server> {
    if !can_run(&driver.case(test)) {
        return None;
    }
    let script = exec_in(WIRE, "");
    let wrapper = ["unshare", "--net", "sh", "-c", &script];
    driver.start_under(test, &wrapper, &["--lanes", "1", "--packet", port, V4, service])
}

/// Thousands of questions come at once, and are answered in one call, which takes milliseconds.
fn a_service_that_has_a_lane_for_too_long_is_named(driver: Driver) {
    let test = "polling_load::a_service_that_has_a_lane_for_too_long_is_named";
    let Some(server) = serves_beside(driver, test, POLLING, "rpc=tcp://127.0.0.1:60111") else { return };
    // A call of the procedure that does nothing (RFC 5531 section 9), behind its record's mark.
    let question = [1_u32 << 31 | 40, 9, 0, 2, 100_003, 3, 0, 0, 0, 0, 0].map(u32::to_be_bytes).concat();
    let questions = question.repeat(20_000);
    flooded(server.pid(), || {
        asked(&server, "127.0.0.1:60111", &questions, || {
            let of_rpc = |shown: &Value| {
                let turns = shown["long_turns"].as_array().unwrap().iter().find(|one| one["service"] == "rpc")?.clone();
                Some((turns["lane"].as_u64()?, turns["turns"].as_u64()?, turns["milliseconds_each"].as_f64()?))
            };
            until("it is counted", || of_rpc(&polling(&server, &[]).unwrap()).is_some());
            let (lane, turns, each) = of_rpc(&polling(&server, &[]).unwrap()).unwrap();
            assert!(lane == 0 && turns > 0 && each > 0.25, "{turns} of {each} ms");
            until("it is told", || server.words().contains("[CL-0043]") && server.words().contains("(rpc) took "));
        });
    });
    let stat = String::from_utf8(server.stat(&[]).stdout).unwrap();
    // Lines are cut where they are full.
    let stat = stat.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(stat.contains("long turns while packets waited: ") && stat.contains("rpc of lane 0: "), "{stat}");
    let text = output(Command::new(PROGRAM).arg("polling").env("CORELANE_RUN_DIR", server.run.path()));
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(text.contains("lane  long turns  each ms  service") && text.contains("  rpc"), "{text}");
    ends(server);
}

/// Clients at the kernel's sockets wait while the lane rests. Without end to what they ask, it would use all of its CPU and never sleep.
fn services_at_the_kernels_sockets_leave_other_programs_theirs(driver: Driver) {
    let test = "polling_load::services_at_the_kernels_sockets_leave_other_programs_theirs";
    let Some(server) = serves_beside(driver, test, RESTING, "echo=tcp://127.0.0.1:60007") else { return };
    asked(&server, "127.0.0.1:60007", &[7; 4096], || {
        let requests = || server.count("bytes_in");
        until("it answers", || requests() > 1 << 20);
        let slept = || server.lane_count("sleep_nanoseconds") / 10_000_000;
        let before = (ticks(server.pid()), slept());
        until("it has slept for a second", || slept() >= before.1 + 100);
        let (used, slept) = (ticks(server.pid()) - before.0, slept() - before.1);
        assert!(used * 100 / (used + slept) <= 25, "{used} ticks of CPU beside {slept} of sleep: a tenth is the lane's");
    });
    ends(server);
}

/// Packets use up the lane's part each time. Counted is how often they were held, and the lane rested, for each request that was answered.
fn services_at_the_kernels_sockets_are_served_under_a_flood(driver: Driver) {
    let test = "polling_load::services_at_the_kernels_sockets_are_served_under_a_flood";
    let Some(server) = serves_beside(driver, test, RESTING, "echo=tcp://127.0.0.1:60007") else { return };
    flooded(server.pid(), || {
        let held = || server.packet_counts("network_held")[0];
        until("packets are held", || held() > 10);
        let mut stream = in_network_of(server.pid(), || TcpStream::connect("127.0.0.1:60007").unwrap());
        // A client that waits for a CPU lets the lane rest between its requests, so the best of several looks counts.
        until("few rests go by for each request", || {
            let before = held();
            for _ in 0..REQUESTS {
                stream.write_all(&[7; 64]).unwrap();
                stream.read_exact(&mut [0; 64]).unwrap();
            }
            held() - before <= 10 * REQUESTS
        });
    });
    ends(server);
}

fn lanes_of_one_interface_poll_side_by_side(driver: Driver) {
    let test = "polling_load::lanes_of_one_interface_poll_side_by_side";
    if !can_run(&driver.case(test)) {
        return;
    }
    let wire = WIRE.replace(
        "va type veth peer name vb",
        "va numrxqueues 2 numtxqueues 2 type veth peer name vb numrxqueues 2 numtxqueues 2",
    );
    let script = exec_in(&wire, "");
    let wrapper = ["unshare", "--net", "sh", "-c", &script];
    let port = format!("{POLLING},user_frac=30");
    let Some(server) = driver.start_under(test, &wrapper, &["--lanes", "2", "--packet", &port, V4]) else { return };
    flooded(server.pid(), || {
        let before = server.packet_counts("udp_delivered");
        until("both lanes have flows of theirs", || {
            server.packet_counts("udp_delivered").iter().zip(&before).all(|(now, before)| *now > before + 1000)
        });
        let network = |shown: &Value| [0, 1].map(|lane| shown["lanes"][lane]["network_percent"].as_f64().unwrap());
        until("both lanes give packets time", || network(&polling(&server, &[]).unwrap()).iter().all(|share| *share > 1.0));
        // A change under the flood is in force on both.
        polling(&server, &["--set", "user_frac=60"]).unwrap();
        assert_eq!(of_lanes(&server, "polling_user_frac"), [60, 60]);
        let shown = polling(&server, &[]).unwrap();
        assert!(network(&shown).iter().all(|share| (0.0..=100.0).contains(share)), "{shown}");
        let told = told_of_each_lane(&server);
        assert!(told.contains("user_frac 60") && told.contains(" 1:"), "each lane has its shares: {told}");
    });
    ends(server);
}

/// The line that `stat` prints of lanes that poll, once it knows their shares.
fn told_of_each_lane(server: &Server) -> String {
    let mut command = Command::new(PROGRAM);
    command.args(["stat", "--every", "200ms"]).env("CORELANE_RUN_DIR", server.run.path());
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let told = lines.by_ref().take(500).find(|line| line.contains("network/user of lane 0:"));
    child.kill().unwrap();
    child.wait().unwrap();
    told.expect("it is told within five hundred lines")
}

fn what_polling_lacks_is_said(driver: Driver) {
    let test = "polling_load::what_polling_lacks_is_said";
    if !can_run(&driver.case(test)) {
        return;
    }
    let under = |rights: &str| exec_in(WIRE, &format!("setpriv --bounding-set={rights}"));
    let mut command = Command::new("unshare");
    command.args(["--net", "sh", "-c", &under("-sys_nice"), PROGRAM, "serve", "--driver", driver.name(), "--lanes", "1"]);
    let refused = output(command.args(["--packet", &format!("{POLLING},other_programs=1"), V4]));
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(!refused.status.success() && said.contains("putting a lane before other programs"), "{said}");
    assert!(said.contains("CAP_SYS_NICE"), "{said}");
    // Without polling lanes serve all the same.
    let script = under("-net_admin");
    let wrapper = ["unshare", "--net", "sh", "-c", &script];
    let Some(server) = driver.start_under(test, &wrapper, &["--lanes", "1", "--packet", POLLING, V4]) else { return };
    let note = server.notes.iter().find(|note| note.contains("lanes do not poll"));
    assert!(note.is_some_and(|note| note.contains("CAP_NET_ADMIN")), "{:?}", server.notes);
    assert!(comes_back(server.pid(), "10.9.0.1:0", PATIENCE));
    ends(server);
}

/// Tuning, with what it prints.
fn tuning(server: &Server, least: &str) -> Command {
    let mut command = Command::new(PROGRAM);
    command.args(["polling", &format!("--tune={least}")]).env("CORELANE_RUN_DIR", server.run.path());
    command
}

fn user_frac(server: &Server) -> u64 {
    server.packet_counts("polling_user_frac")[0]
}

fn x_17_tuning_that_is_stopped_leaves_what_was_set(driver: Driver) {
    let test = "polling_load::x_17_tuning_that_is_stopped_leaves_what_was_set";
    let Some(server) = echoes(driver, test, "", &format!("{POLLING},user_frac=30,each_burst=48")) else { return };
    let before = polling(&server, &[]).unwrap()["settings"].clone();
    flooded(server.pid(), || {
        let mut child = tuning(&server, "50").stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        // What keeps less for services than was asked for is left at once.
        until("it tries something", || user_frac(&server) >= 50);
        kill(Pid::from_raw(child.id() as i32), Signal::SIGINT).unwrap();
        assert!(!child.wait().unwrap().success());
        let said: Vec<String> = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap).collect();
        assert!(said.iter().any(|line| line.contains("what was set before is set again")), "{said:?}");
    });
    assert_eq!(polling(&server, &[]).unwrap()["settings"], before);
    ends(server);
}

fn x_17_what_tuning_found_is_in_force(driver: Driver) {
    let test = "polling_load::x_17_what_tuning_found_is_in_force";
    // It takes most of a minute, and asks lanes alike whatever they ask.
    if driver != Driver::Epoll {
        return;
    }
    let Some(server) = echoes(driver, test, "", &format!("{POLLING},user_frac=30")) else { return };
    let said = flooded(server.pid(), || {
        let done = output_within(&mut tuning(&server, "50"), Duration::from_secs(180));
        assert!(done.status.success(), "{done:?}");
        String::from_utf8(done.stdout).unwrap()
    });
    let tried = said.lines().take_while(|line| !line.is_empty()).filter(|line| line.contains("user_frac")).count();
    let best = said.lines().rev().find(|line| line.contains("user_frac ") && line.contains(": ")).unwrap_or_default();
    let user: Option<u64> =
        best.split_once("user_frac ").and_then(|(_, rest)| rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok());
    assert!(tried >= 2 && user.is_some_and(|user| user >= 50), "{said}");
    until(&format!("the best is in force: {said}"), || Some(user_frac(&server)) == user);
    ends(server);
}
