//! A stack of ours as the relay between a real client of DHCP and a real server, each on the kernel at the far end of its own wire.

use crate::gateway::{FAR, OURS, stack_of, wires};
use corelane_drivers::EpollDriver;
use corelane_os::testing::network::{enter, on_thread};
use corelane_os::testing::skip;
use corelane_seam::{Driver, Wait};
use corelane_stack::Stack;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Turns in which a client may get his lease, each of a millisecond at most.
const TURNS: usize = 30_000;

/// Starts a program in the namespace of a far end.
fn started(end: &File, program: &str, arguments: &[&str]) -> Option<Child> {
    let here = File::open("/proc/thread-self/ns/net").unwrap();
    enter(end);
    let child = Command::new(program).args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
    enter(&here);
    child.ok()
}

/// A folder for the server's files, which goes with this.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        let path = std::env::temp_dir().join(format!("corelane-dhcp-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// The server's configuration: addresses of the client's network, which is not its own.
    fn configuration(&self) -> String {
        let file = |name: &str| self.0.join(name).display().to_string();
        let text = format!(
            "start 10.9.0.100\nend 10.9.0.110\ninterface far\npidfile {}\nlease_file {}\noption subnet 255.255.255.0\noption router {}\n",
            file("pid"),
            file("leases"),
            OURS[0]
        );
        std::fs::write(Path::new(&file("conf")), text).unwrap();
        std::fs::write(Path::new(&file("leases")), "").unwrap();
        file("conf")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// What a client says once it has its lease, or has none.
fn client(stack: &mut Stack<EpollDriver>, end: &File, more: &[&str]) -> Option<String> {
    let arguments = [&["-f", "-n", "-q", "-i", "far", "-s", "/bin/true", "-t", "20", "-T", "1"], more].concat();
    let mut child = started(end, "udhcpc", &arguments)?;
    for _ in 0..TURNS {
        stack.collect(Wait::Until(stack.now() + 1_000_000), 64, &mut Vec::new());
        if child.try_wait().unwrap().is_some() {
            break;
        }
    }
    let _ = child.kill();
    Some(String::from_utf8_lossy(&child.wait_with_output().unwrap().stderr).into_owned())
}

#[test]
fn a_real_client_gets_a_lease_of_a_real_server_through_us() {
    const NAME: &str = "relay::a_real_client_gets_a_lease_of_a_real_server_through_us";
    on_thread(NAME, || {
        let far = match wires([1500, 1500]) {
            Ok(far) => far,
            Err(why) => return skip(NAME, &why),
        };
        let folder = Folder::new();
        let Some(mut server) = started(&far[1], "udhcpd", &["-f", "-a", "0", &folder.configuration()]) else {
            return skip(NAME, "udhcpd is not installed");
        };
        let mut stack = stack_of(|settings, number| if number == 0 { settings.with_relay(FAR[1]) } else { settings });
        // To his own address, and to all of the link.
        let mut said = Vec::new();
        for more in [&[][..], &["-B"]] {
            match client(&mut stack, &far[0], more) {
                Some(words) => said.push(words),
                None => break,
            }
        }
        let _ = server.kill();
        let told = String::from_utf8_lossy(&server.wait_with_output().unwrap().stderr).into_owned();
        if said.is_empty() {
            return skip(NAME, "udhcpc is not installed");
        }
        let counts = *stack.counts();
        let has_lease = |words: &String| words.contains("lease of 10.9.0.10") && words.contains("obtained");
        assert!(said.iter().all(has_lease), "{said:?}, the server: {told}, {counts:?}");
        assert!(counts.relay_requests >= 4 && counts.relay_replies >= 4, "{counts:?}");
    });
}
