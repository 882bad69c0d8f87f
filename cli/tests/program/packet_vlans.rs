//! Services at VLANs of one interface, and packets that go on from one of its networks to another.

use crate::common::*;
use crate::packet::{WIRE, can_run, ends, exec_in};
use crate::packet_ports::{WAYS, run_script};

on_each_driver!(vlans_of_an_interface_are_served_and_forwarded_among);

/// Two stations behind one trunk, played by the wire's far end: A in VLAN 10, and B in VLAN 20 or in 100.20.
const STATIONS: &str = r#"
ours = bytes.fromhex(sys.argv[1].replace(":", ""))
wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
wire.bind(("vb", 0))
wire.setsockopt(263, 1, struct.pack("iHH8s", socket.if_nametoindex("vb"), 1, 0, bytes(8)))  # SOL_PACKET, PACKET_ADD_MEMBERSHIP, promiscuous
wire.setsockopt(263, 8, 1)  # PACKET_AUXDATA
wire.settimeout(0.05)
stations = {"a": ([10], "10.0.10.77"), "b": ([20], "10.0.20.77"), "c": ([100, 20], "10.0.30.77")}
macs = {name: bytes([2, 0, 0, 0, 0, number]) for number, name in enumerate(stations)}

def tags_of(name):
    numbers = stations[name][0]
    kinds = [0x8100] if len(numbers) == 1 else [0x88a8, 0x8100]
    return b"".join(struct.pack("!HH", *tag) for tag in zip(kinds, numbers))

# A frame as it was on the wire: the kernel takes the first tag out.
def hear():
    data, extra, _, _ = wire.recvmsg(4000, 200)
    for level, kind, value in extra:
        status, _, _, _, _, control, protocol = struct.unpack("IIIHHHH", value[:20])
        if status & 16:  # TP_STATUS_VLAN_VALID
            data = data[:12] + struct.pack("!HH", protocol, control) + data[12:]
    return data

def put(name, kind, packet, to=ours):
    wire.send(to + macs[name] + tags_of(name) + kind + packet)

def datagram(source, to, ports, hops, data):
    head = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 28 + len(data), 0, 0, hops, 17, 0, socket.inet_aton(source), socket.inet_aton(to))
    return head[:10] + struct.pack("!H", sum_of(head)) + head[12:] + struct.pack("!HHHH", *ports, 8 + len(data), 0) + data

# What was due before may come once more: an answer that was late was asked for twice.
had = []

# Answers who asks for a station's address; asks until this datagram comes to one: to whom, from whom, hops left, data. Nothing else may come.
def until_heard(ask, due):
    for _ in range(200):
        ask()
        try:
            while True:
                frame = hear()
                for name, (_, address) in stations.items():
                    tags, own = tags_of(name), socket.inet_aton(address)
                    rest = frame[12 + len(tags):]
                    if frame[6:12] != ours or not frame[12:].startswith(tags):
                        continue
                    if rest[:2] == b"\x08\x06" and rest[8:10] == b"\0\1" and rest[26:30] == own:
                        put(name, b"\x08\x06", bytes.fromhex("0001080006040002") + macs[name] + own + rest[10:20])
                    elif rest[:2] == b"\x08\x00" and frame[:6] == macs[name] and rest[11] == 17 and rest[18:22] == own:
                        assert sum_of(rest[2:22]) == 0, rest.hex()
                        came = (name, socket.inet_ntoa(rest[14:18]), rest[10], rest[30:])
                        if came == due:
                            had.append(due)
                            return
                        assert came in had, came
        except TimeoutError:
            pass
    raise SystemExit("nothing came")

say = lambda name, to, data, ports=(5000, 60007): lambda: put(name, b"\x08\x00", datagram(stations[name][1], to, ports, 64, data))
# A service at an address of each VLAN.
until_heard(say("a", "10.0.10.1", b"one"), ("a", "10.0.10.1", 64, b"one"))
until_heard(say("c", "10.0.30.1", b"two"), ("c", "10.0.30.1", 64, b"two"))
# From station to station.
for sender, receiver in ["ab", "bc", "ca"]:
    until_heard(say(sender, stations[receiver][1], b"on", (7, 9)), (receiver, stations[sender][1], 63, b"on"))
# A VLAN that nobody has, and a source that is elsewhere.
stations["d"] = ([30], "10.0.10.78")
macs["d"] = bytes([2, 0, 0, 0, 0, 9])
say("d", "10.0.10.1", b"none")()
put("a", b"\x08\x00", datagram("10.0.20.99", "10.0.20.77", (7, 9), 64, b"forged"))
until_heard(say("a", "10.0.10.1", b"last"), ("a", "10.0.10.1", 64, b"last"))
print("served")
"#;

fn vlans_of_an_interface_are_served_and_forwarded_among(driver: Driver) {
    let test = "packet_vlans::vlans_of_an_interface_are_served_and_forwarded_among";
    if !can_run(&driver.case(test)) {
        return;
    }
    for way in WAYS {
        let script = exec_in(WIRE, way);
        let wrapper = ["unshare", "--net", "sh", "-c", &script];
        let port = "va,ip=10.9.0.2/24,vlan=10,ip=10.0.10.1/24,vlan=20,ip=10.0.20.1/24,vlan=100.20,ip=10.0.30.1/24,forward";
        let services = ["echo=udp://10.0.10.1:60007?reflect", "echo=udp://10.0.30.1:60007?reflect"];
        let arguments = [&["--lanes", "1", "--packet", port][..], &services].concat();
        let Some(server) = driver.start_under(test, &wrapper, &arguments) else { return };
        assert_eq!(run_script(&server, STATIONS, ""), "served", "{way}");
        let counted = |name| server.packet_counts(name)[0];
        let has_counted =
            || counted("vlan_unknown") == 1 && counted("forward_reverse_path") == 1 && counted("packets_forwarded") >= 3;
        until("what went on, and what did not, is counted", has_counted);
        ends(server);
    }
}
