//! `relay` of a gateway's network: a real client of DHCP has its address from a real server, which is elsewhere.

use crate::common::*;
use crate::gateway::{Own, start_own};
use crate::packet::{ends, of_lanes};
use std::process::{Child, Command, Stdio};

const CONFIGURATION: &str = r#"
[[port]]
interface = "va1"

[[port.network]]
name = "clients"
addresses = ["10.9.0.1/24"]
relay = ["10.8.0.2"]

[[port]]
interface = "va2"

[[port.network]]
name = "servers"
addresses = ["10.8.0.1/24"]
"#;

/// The client's wire has no address, and the server's leads back by the gateway.
const WIRES: &str = "ip link set lo up && for n in 1 2; do ip link add va$n type veth peer name vb$n && ip link set va$n up && ip link set vb$n up; done \
    && ip addr add 10.8.0.2/24 dev vb2 && ip route add 10.9.0.0/24 via 10.8.0.1";

/// What udhcpd(8) gives: addresses of a network that is not its own.
fn settings(folder: &Scratch) -> String {
    let file = |name: &str| folder.path().join(name).display().to_string();
    let settings = format!(
        "start 10.9.0.100\nend 10.9.0.109\ninterface vb2\npidfile {}\nlease_file {}\noption subnet 255.255.255.0\noption router 10.9.0.1\n",
        file("pid"),
        file("leases")
    );
    std::fs::write(file("udhcpd.conf"), settings).unwrap();
    std::fs::write(file("leases"), "").unwrap();
    file("udhcpd.conf")
}

/// Starts a program where the gateway is.
fn started(server: &Server, program: &str, arguments: &[&str]) -> Child {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    in_network_of(server.pid(), || command.spawn().unwrap())
}

fn said(child: Child) -> String {
    String::from_utf8(child.wait_with_output().unwrap().stderr).unwrap()
}

#[test]
fn a_client_gets_a_lease_of_a_server_elsewhere() {
    let test = "gateway_relay::a_client_gets_a_lease_of_a_server_elsewhere";
    if !have(test, &["udhcpc", "udhcpd"]) {
        return;
    }
    let folder = Scratch::new();
    let own = Own { wires: WIRES, configuration: CONFIGURATION, arguments: &["--lanes", "1"], ..Own::default() };
    let Some(server) = start_own(Driver::Epoll, test, &folder, &own) else { return };
    let mut dhcp = started(&server, "udhcpd", &["-f", "-a", "0", &settings(&folder)]);
    let client = said(started(&server, "udhcpc", &["-f", "-n", "-q", "-i", "vb1", "-s", "/bin/true", "-t", "20", "-T", "1"]));
    dhcp.kill().unwrap();
    let dhcp = said(dhcp);
    assert!(client.contains("lease of 10.9.0.10") && client.contains("obtained"), "{client}; the server: {dhcp}");
    let counted = ["relay_requests", "relay_replies", "relay_refused"].map(|counter| of_lanes(&server, counter)[0]);
    assert!(counted[0] >= 2 && counted[1] >= 2 && counted[2] == 0, "{counted:?}");
    ends(server);
}
