//! A gateway of both families by its file, and a service of its own at its addresses, on the same lanes.

use crate::common::*;
use crate::gateway::{CONFIGURATION, Own, ended, start_own, stations};
use crate::packet::ends;
use crate::packet_ports::WAYS;

/// Stations `a` and `b` by IPv6, and what is said there.
const V6: &str = r#"
inet = lambda text: socket.inet_pton(socket.AF_INET6, text)
homes = {"a": (inet("fd00:10::77"), inet("fd00:10::1")), "b": (inet("fd00:20::77"), inet("fd00:20::1"))}
KIND = b"\x86\xdd"

def pseudo(source, to, protocol, rest):
    return source + to + struct.pack("!II", len(rest), protocol) + rest

def packet6(source, to, protocol, rest, at, hops=64):
    found = sum_of(pseudo(source, to, protocol, rest)) or 0xffff
    rest = rest[:at] + struct.pack("!H", found) + rest[at + 2:]
    return struct.pack("!IHBB", 6 << 28, len(rest), protocol, hops) + source + to + rest

def datagram6(source, to, ports, data):
    return packet6(source, to, 17, struct.pack("!HHHH", *ports, 8 + len(data), 0) + data, 6)

# A solicitation or an advertisement of neighbour discovery.
def word(source, to, kind, flags, target, option, mac):
    return packet6(source, to, 58, struct.pack("!BBHI", kind, 0, 0, flags) + target + bytes([option, 1]) + mac, 2, 255)

# What comes meanwhile: to whom, protocol, hops, from whom, and what IP carries. Answers who asks for a station's address.
def heard6(patience):
    came, until = [], time.monotonic() + patience
    while not came and time.monotonic() < until:
        for _ in select.select([wires["vb1"]], [], [], 0.02)[0]:
            frame = hear("vb1")
            for name, (own, _) in homes.items():
                tags = tags_of(name)
                rest = frame[12 + len(tags):]
                if frame[6:12] != ours["vb1"] or not frame[12:].startswith(tags + KIND):
                    continue
                length, protocol, hops = struct.unpack("!HBB", rest[6:10])
                source, to, body = rest[10:26], rest[26:42], rest[42:42 + length]
                assert sum_of(pseudo(source, to, protocol, body)) == 0, rest.hex()
                if protocol == 58 and body[0] == 135 and body[8:24] == own:
                    put(name, KIND, word(own, source, 136, 0x60000000, own, 2, macs[name]))
                elif frame[:6] == macs[name]:
                    came.append((name, protocol, hops, source, body))
    return came

# Says it until something comes to the station that is so.
def asked6(say, name, protocol, source, is_it):
    for _ in range(100):
        say()
        for came in heard6(0.1):
            if (came[0], came[1], came[3]) == (name, protocol, source) and is_it(came[4]):
                return came
    raise Exception("nothing came")

# The gateway answers for its addresses.
for name, (own, gate) in homes.items():
    group = inet("ff02::1:ff00:1")
    solicit = bytes.fromhex("3333ff000001") + macs[name] + tags_of(name) + KIND + word(own, group, 135, 0, gate, 1, macs[name])
    answer = asked6(lambda: wires["vb1"].send(solicit), name, 58, gate, lambda body: body[0] == 136)
    assert answer[2] == 255 and answer[4][8:24] == gate and answer[4][24:] == b"\2\1" + ours["vb1"], answer

# A datagram goes each way, with one hop less.
for name, to in ["ab", "ba"]:
    mine, theirs = homes[name][0], homes[to][0]
    say = lambda: put(name, KIND, datagram6(mine, theirs, (7, 9), b"on by six!"))
    came = asked6(say, to, 17, mine, lambda body: body[8:] == b"on by six!")
    assert came[2] == 63 and ports(came[4]) == (7, 9), came

# The gateway's own service answers at its address of each family.
mine, gate = stations["a"][2:]
body = asked("a", datagram(mine, gate, (4000, 7007), b"echo?"), "a", 17, gate)
assert ports(body) == (7007, 4000) and body[8:] == b"echo?", body
mine, gate = homes["a"]
came = asked6(lambda: put("a", KIND, datagram6(mine, gate, (4000, 7007), b"six?")), "a", 17, gate, lambda body: True)
assert ports(came[4]) == (7007, 4000) and came[4][8:] == b"six?", came
# Who asks from another network is answered there.
mine, gate = stations["b"][2], stations["a"][3]
body = asked("b", datagram(mine, gate, (4001, 7007), b"from afar"), "b", 17, gate)
assert ports(body) == (7007, 4001) and body[8:] == b"from afar", body
print("both families")
"#;

#[test]
fn both_families_are_forwarded_and_a_service_answers_at_the_gateways_addresses() {
    let test = "gateway_own::both_families_are_forwarded_and_a_service_answers_at_the_gateways_addresses";
    let configuration = CONFIGURATION
        .replace("\"10.0.10.1/24\"", "\"10.0.10.1/24\", \"fd00:10::1/64\"")
        .replace("\"10.0.20.1/24\"", "\"10.0.20.1/24\", \"fd00:20::1/64\"");
    for way in WAYS {
        let folder = Scratch::new();
        let arguments = ["--lanes", "1", "echo=udp://10.0.10.1:7007?reflect", "echo=udp://[fd00:10::1]:7007?reflect"];
        let own = Own { way, configuration: &configuration, arguments: &arguments, ..Own::default() };
        let Some(server) = start_own(Driver::Epoll, test, &folder, &own) else { return };
        assert_eq!(ended(stations(&server, V6)), "both families", "{way}: {}", server.words());
        let counted = |name| server.packet_counts(name)[0];
        until("the lane has forwarded, and handed datagrams to the service", || {
            counted("packets_forwarded") >= 2 && counted("udp_delivered") >= 3
        });
        ends(server);
    }
}
