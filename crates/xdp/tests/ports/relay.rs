//! A stack of ours as the relay between a real client of DHCP and a real server, each on the kernel at the far end of its own wire.

use crate::gateway::{FAR, OURS, stack_of, wires};
use crate::wire::run;
use corelane_drivers::EpollDriver;
use corelane_os::testing::network::{enter, on_thread, sysctl};
use corelane_os::testing::skip;
use corelane_seam::{Driver, Wait};
use corelane_stack::{Settings, Stack};
use std::fs::File;
use std::net::{IpAddr, Ipv6Addr};
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
        let path = std::env::temp_dir().join(format!("corelane-dhcp-{}-{:?}", std::process::id(), std::thread::current().id()));
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
    heard(stack, started(end, "udhcpc", &arguments)?)
}

/// What a program says until it ends, for which the stack works meanwhile.
fn heard(stack: &mut Stack<EpollDriver>, mut child: Child) -> Option<String> {
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
        let has_lease = |words: &String| words.contains("lease of 10.9.0.1") && words.contains("obtained");
        assert!(said.iter().all(has_lease), "{said:?}, the server: {told}, {counts:?}");
        assert!(counts.relay_requests >= 4 && counts.relay_replies >= 4, "{counts:?}");
    });
}

/// Our addresses of IPv6, and that of the server.
const OURS_V6: [Ipv6Addr; 2] = [Ipv6Addr::new(0xfd09, 0, 0, 0, 0, 0, 0, 2), Ipv6Addr::new(0xfd0a, 0, 0, 0, 0, 0, 0, 2)];
const SERVER_V6: Ipv6Addr = Ipv6Addr::new(0xfd0a, 0, 0, 0, 0, 0, 0, 0x77);

/// A stack that relays for IPv6, with an address of the clients' link.
fn relaying_v6(settings: Settings, number: usize) -> Settings {
    let settings = settings.with_network(IpAddr::V6(OURS_V6[number]), 64);
    match number {
        0 => settings.with_network("fe80::2".parse().unwrap(), 64).with_relay(SERVER_V6),
        _ => settings,
    }
}

/// The far ends speak IPv6, and the server's knows the way to the clients' network.
fn speak_v6(far: &[File; 2]) {
    let here = File::open("/proc/thread-self/ns/net").unwrap();
    for (number, end) in far.iter().enumerate() {
        enter(end);
        sysctl("net/ipv6/conf/far/accept_dad", "0");
        sysctl("net/ipv6/conf/far/disable_ipv6", "0");
        match number {
            0 => run(&["addr add fe80::77/64 dev far nodad"]),
            _ => run(&[&format!("addr add {SERVER_V6}/64 dev far nodad"), &format!("route add fd09::/64 via {}", OURS_V6[1])]),
        }
    }
    enter(&here);
}

#[test]
fn a_real_client_of_ipv6_gets_a_lease_of_a_real_server_through_us() {
    const NAME: &str = "relay::a_real_client_of_ipv6_gets_a_lease_of_a_real_server_through_us";
    on_thread(NAME, || {
        let far = match wires([1500, 1500]) {
            Ok(far) => far,
            Err(why) => return skip(NAME, &why),
        };
        speak_v6(&far);
        let folder = Folder::new();
        let file = |name: &str| folder.0.join(name).display().to_string();
        let leases = format!("--dhcp-leasefile={}", file("leases"));
        let pid = format!("--pid-file={}", file("pid"));
        let ordinary = ["--no-daemon", "--conf-file=/dev/null", "--user=root", "--port=0", "--interface=far", "--log-dhcp"];
        let of_folder = ["--dhcp-range=fd09::100,fd09::1ff,64,1h", &leases, &pid];
        let Some(server) = started(&far[1], "dnsmasq", &[&ordinary[..], &of_folder].concat()) else {
            return skip(NAME, "dnsmasq is not installed");
        };
        let mut stack = stack_of(relaying_v6);
        let (own_leases, own_pid) = (file("client.leases"), file("client.pid"));
        let arguments = ["-6", "-1", "-d", "-sf", "/bin/true", "-lf", &own_leases, "-pf", &own_pid, "-cf", "/dev/null", "far"];
        let mut client = started(&far[0], "dhclient", &arguments);
        let lease = client.as_mut().map(|client| written_lease(&mut stack, client, &own_leases));
        let ends = |mut child: Child| {
            let _ = child.kill();
            String::from_utf8_lossy(&child.wait_with_output().unwrap().stderr).into_owned()
        };
        let (told, said) = (ends(server), client.map(ends));
        let (Some(lease), Some(said)) = (lease, said) else { return skip(NAME, "dhclient is not installed") };
        let counts = *stack.counts();
        assert!(lease.contains("iaaddr fd09::1"), "{lease}, the client: {said}, the server: {told}, {counts:?}");
        // Solicit, advertise, request, reply.
        assert!(counts.relay_requests >= 2 && counts.relay_replies >= 2, "{counts:?}");
    });
}

/// The lease that a client writes down; it goes on with it then.
fn written_lease(stack: &mut Stack<EpollDriver>, client: &mut Child, file: &str) -> String {
    let mut lease = String::new();
    for _ in 0..TURNS {
        stack.collect(Wait::Until(stack.now() + 1_000_000), 64, &mut Vec::new());
        lease = std::fs::read_to_string(file).unwrap_or_default();
        if lease.contains("iaaddr") || client.try_wait().unwrap().is_some() {
            break;
        }
    }
    lease
}

/// A card lets through the groups that it was told of: a stack that has all packets has those of every group.
#[test]
fn who_has_all_packets_has_those_of_every_group() {
    const NAME: &str = "relay::who_has_all_packets_has_those_of_every_group";
    on_thread(NAME, || {
        let _far = match wires([1500, 1500]) {
            Ok(far) => far,
            Err(why) => return skip(NAME, &why),
        };
        let are_let_through = || {
            let shown = Command::new("ip").args(["-d", "link", "show", "near0"]).output().unwrap().stdout;
            String::from_utf8_lossy(&shown).contains("allmulti 1")
        };
        assert!(!are_let_through());
        let stack = stack_of(|settings, _| settings);
        assert!(are_let_through());
        drop(stack);
        assert!(!are_let_through(), "it ends with the stack");
    });
}
