//! `--user`: begun by root, served by somebody else.

use crate::common::*;
use nix::sys::signal::Signal;
use nix::unistd::{Uid, chown};
use std::fs;
use std::process::Command;
use std::sync::Arc;

on_each_driver!(every_thread_is_the_user_and_may_nothing);

/// A server that root starts for nobody, with a folder that is nobody's.
pub fn of_nobody(driver: Driver, places: &[&str]) -> Server {
    let folder = Arc::new(Scratch::new());
    chown(folder.path(), Some(Uid::from_raw(ORDINARY_USER)), None).unwrap();
    let arguments = [&["--driver", driver.name(), "--lanes", "2", "--user", "nobody:nogroup"], places].concat();
    Server::start_as(Launch { wrapper: &[], program: PROGRAM, arguments: &arguments, run: folder })
}

/// The threads of a process: what proc(5) tells of each. Those of the kernel's for a ring act with the rights of who asks them.
fn threads(server: &Server) -> Vec<String> {
    let tasks = fs::read_dir(format!("/proc/{}/task", server.pid())).unwrap();
    let all = tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("status")).ok());
    all.filter(|status| !status.starts_with("Name:\tiou-")).collect()
}

fn every_thread_is_the_user_and_may_nothing(driver: Driver) {
    let test = "user::every_thread_is_the_user_and_may_nothing";
    if !is_root(&driver.case(test)) || !have(&driver.case(test), &["setpriv"]) {
        return;
    }
    let Some(roots) = driver.start(test, &["--lanes", "2", TCP, UDP]) else { return };
    let (low, folder) = (format!("echo=tcp://127.77.0.{}:997", 1 + driver as u8), Scratch::new());
    fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    let named = format!("echo=unix:{}/x.sock?mode=0600", folder.path().display());
    let mut server = of_nobody(driver, &[&low, UDP, &named]);
    assert_eq!(server.steering, roots.steering, "what steers was made before");
    let threads = threads(&server);
    assert!(threads.iter().filter(|status| status.starts_with("Name:\tlane-")).count() == 2 && threads.len() > 4, "{threads:?}");
    let none = "0000000000000000";
    for status in &threads {
        for (field, value) in [("CapInh", none), ("CapPrm", none), ("CapEff", none), ("CapBnd", none), ("CapAmb", none)] {
            assert!(status.contains(&format!("\n{field}:\t{value}\n")), "{field}: {status}");
        }
        let id = ORDINARY_USER;
        for field in ["Uid", "Gid"] {
            assert!(status.contains(&format!("\n{field}:\t{id}\t{id}\t{id}\t{id}\n")), "{field}: {status}");
        }
        assert!(status.contains(&format!("\nGroups:\t{id} \n")) && status.contains("\nNoNewPrivs:\t1\n"), "{status}");
    }
    for seed in 0..20 {
        echo(&mut server.connect(), &pattern(10_000, seed));
        echo_datagram(&datagrams_to(server.udp()), &pattern(1000, seed));
    }
    let program = copy_for_all(&server.run);
    let mut stat = Command::new("setpriv");
    stat.args(["--reuid=65534", "--regid=65534", "--clear-groups", &program, "stat", "--pid", &server.pid().to_string()]);
    let shown = output(stat.env("CORELANE_RUN_DIR", server.run.path()));
    assert!(shown.status.success(), "its page is the user's: {shown:?}");
    server.signal(Signal::SIGTERM);
    assert_eq!(server.ended().code(), Some(0), "{}", server.words());
    assert!(!folder.path().join("x.sock").exists(), "what it made it can remove");
}

/// What the program says when it refuses to start.
fn refused(command: &mut Command) -> String {
    let done = output(command);
    assert_eq!(done.status.code(), Some(2), "{done:?}");
    String::from_utf8(done.stderr).unwrap()
}

#[test]
fn who_is_not_root_cannot_become_another() {
    let test = "user::who_is_not_root_cannot_become_another";
    if !is_root(test) || !have(test, &["setpriv"]) {
        return;
    }
    let folder = Arc::new(Scratch::new());
    let program = copy_for_all(&folder);
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups", &program, "serve", "--user", "daemon", TCP]);
    let words = refused(&mut command);
    assert!(words.contains("--user: only root can become daemon"), "{words}");
    let mut lacks = Command::new("setpriv");
    lacks.args(["--bounding-set=-setuid", "--inh-caps=-setuid", PROGRAM, "serve", "--user", "nobody", TCP]);
    let words = refused(&mut lacks);
    assert!(words.contains("CAP_SETUID"), "{words}");
}

#[test]
fn nobody_is_served_as_who_is_not_there() {
    let words = refused(Command::new(PROGRAM).args(["serve", "--user", "no-such-user-here", TCP]));
    assert!(words.contains("there is no user \"no-such-user-here\"") && words.contains("useradd"), "{words}");
}

#[test]
fn a_number_is_a_user_with_an_entry_or_without_also_where_nobody_is_known() {
    let test = "user::a_number_is_a_user_with_an_entry_or_without_also_where_nobody_is_known";
    if !is_root(test) || !have(test, &["unshare", "mount"]) {
        return;
    }
    let script = "mount -t tmpfs none /etc && exec \"$@\"";
    let nobody_is_known = ["unshare", "--mount", "sh", "-c", script, "sh"];
    for (wrapper, user, id) in [
        (&[][..], "7777777", "7777777"),
        (&[], "65534:7777777", "65534"),
        (&nobody_is_known, "65534", "65534"),
        (&nobody_is_known, "65534:65534", "65534"),
    ] {
        let folder = Arc::new(Scratch::new());
        chown(folder.path(), Some(Uid::from_raw(id.parse().unwrap())), None).unwrap();
        let arguments = ["--lanes", "1", "--user", user, TCP];
        let server = Server::start_as(Launch { wrapper, program: PROGRAM, arguments: &arguments, run: folder });
        let field = format!("\nUid:\t{id}\t{id}\t{id}\t{id}\n");
        assert!(threads(&server).iter().all(|status| status.contains(&field)), "{user}");
        echo(&mut server.connect(), b"nobody has a name");
    }
    let mut unknown = wrapped(&nobody_is_known, PROGRAM);
    let words = refused(unknown.args(["serve", "--user", "nobody", TCP]));
    assert!(words.contains("there is no user \"nobody\"") && words.contains("or a number"), "{words}");
}
