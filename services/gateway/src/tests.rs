use super::*;
use corelane::lanes::Transport;
use corelane::lanes::gateway::rules::Execution;
use corelane::lanes::gateway::{Advertised, MssClamp, Network, ReversePath, Tags};
use std::net::IpAddr;

/// A gateway with everything that there is.
const WHOLE: &str = r#"
[[port]]
interface = "eth1"
poll = true
frames = 512

[[port.network]]
vlan = 10
name = "users10"
addresses = ["10.0.10.1/24", "fe80::1/64"]
mtu = 1400
reverse_path = "loose"
mss = "mtu"
proxy = ["10.0.20.0/24"]
advertise = { lifetime = 60, interval = 10 }
neighbours = 5000

[[port.network]]
vlan = "100.20"
addresses = ["10.0.20.1/24"]
forward = false
mss = 1300

[[port.network]]
addresses = ["10.0.1.1/24"]

[[port]]
tap = "tap0"

[[port.network]]
addresses = ["192.0.2.2/24"]

[polling]
user_frac = 30

[[route]]
to = "default"
via = "192.0.2.1"

[[route]]
to = "10.30.0.0/16"
via = "10.0.10.9"
interface = "users10"

[rules]
default = "deny"
execution = "skipto"
list = ["table lan add 10.0.0.0/8", "add 100 allow ip from table(lan) to any in via users10"]

[nat]
interfaces = ["tap0"]
ports = "2000-60000"
mapping = "dependent"
sessions = 1000
sessions_each = 10
timeouts = { udp = 30 }

[[nat.forward]]
protocol = "tcp"
port = "8000-8010"
to = "10.0.10.5:80"

[[nat.forward]]
protocol = "udp"
port = 53
to = "10.0.10.6"
"#;

fn read_text(text: &str) -> Result<Gateway> {
    read(&ReadFile::of_text("gw.toml", text)).map(|(gateway, _)| gateway)
}

#[test]
fn all_that_can_be_said_of_ports_is_read() {
    let gateway = read_text(WHOLE).unwrap();
    let [trunk, outside] = &gateway.ports[..] else { panic!("{:?}", gateway.ports) };
    assert_eq!((&*trunk.device, trunk.is_tap, trunk.polls, trunk.frames), ("eth1", false, true, Some(512)));
    assert_eq!((&*outside.device, outside.is_tap, outside.polls, outside.frames), ("tap0", true, false, None));
    let names: Vec<_> = gateway.interfaces().map(|one| (&*one.name, one.tags)).collect();
    let expected = [("eth1", Tags::None), ("users10", Tags::One(10)), ("eth1.100.20", Tags::Two(100, 20)), ("tap0", Tags::None)];
    assert_eq!(names, expected, "that without tags is the first, wherever it stands");
    let [_, users, other] = &trunk.interfaces[..] else { panic!("{:?}", trunk.interfaces) };
    let address = |text: &str, bits| Network { address: text.parse().unwrap(), bits };
    assert_eq!(users.networks, [address("10.0.10.1", 24), address("fe80::1", 64)]);
    assert_eq!((users.mtu, users.reverse_path, users.mss), (Some(1400), ReversePath::Loose, MssClamp::ToMtu));
    assert_eq!((&users.proxies[..], users.neighbours_max), (&[address("10.0.20.0", 24)][..], Some(5000)));
    assert_eq!(users.advertises, Some(Advertised { lifetime: 60, interval: 10, ..Advertised::default() }));
    assert!(users.forwards && !other.forwards);
    assert_eq!((other.reverse_path, other.mss, other.advertises), (ReversePath::Strict, MssClamp::To(1300), None));
    assert_eq!(gateway.polling, ["user_frac=30".parse().unwrap()]);
}

#[test]
fn routes_rules_and_translation_are_read() {
    let gateway = read_text(WHOLE).unwrap();
    let routes: Vec<_> = gateway.routes.iter().map(|one| (one.destination, one.bits, one.router, one.interface)).collect();
    let v4 = |text: &str| text.parse::<IpAddr>().unwrap();
    let expected = [(v4("0.0.0.0"), 0, v4("192.0.2.1"), None), (v4("10.30.0.0"), 16, v4("10.0.10.9"), Some(1))];
    assert_eq!(routes, expected);
    assert_eq!(gateway.execution, Execution::Skipto);
    let rules: Vec<String> = gateway.rules.all().map(|(_, number, rule)| format!("{number} {rule}")).collect();
    assert_eq!(rules, ["100 allow ip from table(lan) to any in via users10", "65535 deny ip from any to any"]);
    assert_eq!(gateway.rules.tables().map(|(name, table)| (name, table.len())).collect::<Vec<_>>(), [("lan", 1)]);
    let nat = gateway.nat.unwrap();
    assert_eq!((&nat.interfaces[..], &nat.settings.externals[..]), (&[3][..], &[[192, 0, 2, 2].into()][..]));
    assert_eq!((nat.settings.ports.clone(), nat.settings.sessions, nat.settings.sessions_each), (2000..=60000, 1000, 10));
    assert_eq!((nat.settings.timeouts.udp, nat.settings.timeouts.echo), (30, 60));
    let [web, names] = &nat.settings.forwards[..] else { panic!("{:?}", nat.settings.forwards) };
    assert_eq!((web.transport, web.ports.clone(), web.inside_port), (Transport::Tcp, 8000..=8010, 80));
    assert_eq!((names.transport, names.inside, names.inside_port), (Transport::Udp, [10, 0, 10, 6].into(), 53));
}

#[test]
fn what_nobody_says_is_as_documented() {
    let gateway = read_text("[[port]]\ninterface = \"eth1\"\n[[port.network]]\naddresses = [\"10.0.0.1/24\"]\n").unwrap();
    let one = gateway.interfaces().next().unwrap();
    assert_eq!((one.forwards, one.reverse_path, one.mss, one.mtu), (true, ReversePath::Strict, MssClamp::Off, None));
    assert_eq!((gateway.ports[0].polls, gateway.ports[0].frames), (false, None));
    assert!(gateway.routes.is_empty() && gateway.nat.is_none() && gateway.polling.is_empty());
    assert_eq!(gateway.execution, Execution::Tree);
    let rules: Vec<String> = gateway.rules.all().map(|(_, _, rule)| rule.to_string()).collect();
    assert_eq!(rules, ["allow ip from any to any"]);
}

/// What is wrong, where, once this stands in the place of that.
fn wrong(from: &str, to: &str) -> String {
    assert!(WHOLE.contains(from), "{from}");
    read_text(&WHOLE.replacen(from, to, 1)).map_or_else(|why| why.to_string(), |_| "nothing".to_owned())
}

#[test]
fn what_cannot_be_is_told_with_its_place_and_the_remedy() {
    let mut missed = Vec::new();
    for (from, to, place, words) in [
        ("vlan = 10", "vlam = 10", "8:1", "a network has no \"vlam\" (did you mean vlan?): its keys are vlan, name"),
        ("[polling]", "[poling]", "33:2", "the file has no \"poling\" (did you mean polling?)"),
        ("interface = \"eth1\"", "", "2:1", "a port has no interface: write interface = \"eth1\""),
        ("tap = \"tap0\"", "tap = \"tap0\"\ninterface = \"eth2\"", "28:7", "leave out one of the two"),
        ("poll = true", "poll = 1", "4:8", "an integer is neither true nor false"),
        ("frames = 512", "frames = 1", "5:10", "1 is out of range: write a number of frames from 256 to 65536"),
        ("vlan = 10", "vlan = 4095", "8:8", "\"4095\": a VLAN has a number from 1 to 4094"),
        ("vlan = \"100.20\"", "vlan = 10", "18:1", "users10 has these VLAN tags already"),
        ("vlan = \"100.20\"", "", "24:1", "a second network without a vlan"),
        ("name = \"users10\"", "name = \"users 10\"", "9:8", "\"users 10\" is no name of a network"),
        ("vlan = \"100.20\"", "vlan = 20\nname = \"users10\"", "18:1", "there are two interfaces named users10"),
        ("\"10.0.10.1/24\",", "\"10.0.10.1\",", "10:14", "\"10.0.10.1\" cannot be read"),
        ("10.0.10.1/24", "10.0.10.255/24", "10:14", "10.0.10.255 is no address of one host"),
        ("\"10.0.20.1/24\"", "\"10.0.10.1/24\"", "20:14", "10.0.10.1 is given to two interfaces"),
        (", \"fe80::1/64\"", ", \"10.0.10.1/24\"", "10:30", "10.0.10.1 stands there twice"),
        (", \"fe80::1/64\"", "", "7:1", "users10 cannot say that it is a router"),
        ("mtu = 1400", "mtu = 1279", "7:1", "an MTU of 1279 is too short for IPv6"),
        ("mtu = 1400", "mtu = 67", "11:7", "67 is out of range: write a number of bytes from 68 to 65535"),
        (
            "\"loose\"",
            "\"lose\"",
            "12:16",
            "there is no \"lose\" (did you mean loose?): write \"strict\" or \"loose\" or \"off\"",
        ),
        ("mss = \"mtu\"", "mss = 47", "13:7", "47 is out of range"),
        ("10.0.20.0/24", "10.0.20.0/33", "14:10", "10.0.20.0/33 is no network"),
        ("interval = 10", "interval = 3", "15:41", "3 is out of range: write a number of seconds from 4 to 1800"),
        ("tap = \"tap0\"", "tap = \"tap0\"\npoll = true", "27:1", "the tap tap0 is not polled"),
        ("tap = \"tap0\"", "interface = \"eth1\"", "51:15", "there is no network \"tap0\""),
        ("user_frac = 30", "user_fraq = 30", "34:1", "user_fraq"),
        ("via = \"192.0.2.1\"", "via = \"192.0.3.1\"", "36:1", "the router 192.0.3.1 is in no network"),
        ("via = \"192.0.2.1\"", "via = \"fe80::9\"\ninterface = \"tap0\"", "36:1", "the router fe80::9 is in no network"),
        ("to = \"default\"", "to = \"all\"", "37:6", "\"all\" cannot be read: write a network"),
        ("to = \"10.30.0.0/16\"", "to = \"fd30::/16\"", "42:7", "10.0.10.9 is of another family than the network"),
        ("interface = \"users10\"", "interface = \"user10\"", "43:13", "there is no network \"user10\" (did you mean users10?)"),
        ("\"deny\"", "\"drop\"", "46:11", "there is no \"drop\": write \"allow\" or \"deny\""),
        ("add 100 allow", "add 100 alow", "48:46", "\"alow\" is nothing that a rule does"),
        ("add 100 allow", "add 100 skipto 50", "48:53", "skipto 50, which is not behind it"),
        ("[\"tap0\"]", "[]", "50:1", "no outside interface has an address of IPv4"),
        ("ports = \"2000-60000\"", "ports = \"0-1\"", "52:9", "\"0-1\" cannot be read"),
        ("sessions = 1000", "sessions = 0", "54:12", "0 is out of range"),
        ("timeouts = { udp = 30 }", "timeouts = { dns = 30 }", "56:14", "timeouts has no \"dns\""),
        ("port = 53", "port = \"53-\"", "65:8", "\"53-\" are no ports"),
        ("protocol = \"udp\"\nport = 53", "protocol = \"tcp\"\nport = 8005", "63:1", "have a port in common"),
        ("to = \"10.0.10.6\"", "to = \"192.0.2.2\"", "63:1", "it leads from an external address to another"),
        ("[rules]", "[rules", "45:7", "unclosed table"),
    ] {
        let told = wrong(from, to);
        if !(told.starts_with(&format!("gw.toml:{place}: ")) && told.contains(words)) {
            missed.push(format!("{to} at {place}: {told}"));
        }
    }
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

#[test]
fn servers_of_dhcp_and_the_table_that_is_followed_are_read() {
    const TEXT: &str = r#"
[[port]]
interface = "eth1"

[[port.network]]
addresses = ["10.0.1.1/24", "fd00:1::1/64"]
relay = ["10.0.2.5", "192.0.2.7", "fd00:2::5"]

[routes]
follow = { table = 100 }
"#;
    let gateway = read_text(TEXT).unwrap();
    let servers = ["10.0.2.5", "192.0.2.7", "fd00:2::5"].map(|server| server.parse::<IpAddr>().unwrap());
    assert_eq!(gateway.ports[0].interfaces[0].relay, servers);
    assert_eq!(gateway.follow, Some(100));
    for (from, to, place, words) in [
        ("\"10.0.2.5\"", "\"dhcp.example\"", "7:10", "\"dhcp.example\" cannot be read: write servers of DHCP"),
        ("[\"10.0.2.5\", \"192.0.2.7\", \"fd00:2::5\"]", "\"10.0.2.5\"", "7:9", "a string is no list: write servers of DHCP"),
        ("10.0.2.5", "10.0.1.1", "5:1", "eth1 cannot relay DHCP"),
        ("10.0.2.5", "255.255.255.255", "5:1", "eth1 cannot relay DHCP"),
        ("\"10.0.1.1/24\", ", "", "5:1", "eth1 cannot relay DHCP: give it an address of IPv4"),
        (
            "fd00:1::1/64",
            "fe80::1/64",
            "5:1",
            "eth1 cannot relay DHCP: give it an address of IPv4 for servers of IPv4, one of IPv6 (not fe80::)",
        ),
        ("fd00:2::5", "fe80::5", "5:1", "hosts (not fe80::)"),
        ("100", "0", "10:20", "0 is out of range: write a number of a table of the kernel's from 1 to 4294967295"),
        ("table = 100", "", "10:10", "follow has no table: write table = 100"),
        ("follow = { table = 100 }", "", "9:1", "routes has no follow: write follow = { table = 100 }"),
        ("table = 100", "table = 100, metric = 1", "10:25", "follow has no \"metric\""),
    ] {
        assert!(TEXT.contains(from), "{from}");
        let told = read_text(&TEXT.replacen(from, to, 1)).unwrap_err().to_string();
        assert!(told.starts_with(&format!("gw.toml:{place}: ")) && told.contains(words), "{to} at {place}: {told}");
    }
}

#[test]
fn a_file_of_rules_is_read_from_beside_and_its_faults_have_its_places() {
    let folder = tempfile::tempdir().unwrap();
    let rules = folder.path().join("gateway.rules");
    let text =
        "[[port]]\ninterface = \"eth1\"\n[[port.network]]\naddresses = [\"10.0.0.1/24\"]\n[rules]\nfile = \"gateway.rules\"\n";
    let file = ReadFile::of_text(folder.path().join("gw.toml"), text);
    let told = || read(&file).map(|(gateway, rules)| (gateway.rules, rules.unwrap())).map_err(|why| why.to_string());
    let missing = told().unwrap_err();
    assert!(missing.starts_with(&*rules.to_string_lossy()) && missing.contains("cannot be read"), "{missing}");
    std::fs::write(&rules, "# counted\n\nadd 100 count ip from any to any\n  add deny tcp from any to any\n").unwrap();
    let (read, named) = told().unwrap();
    let lines: Vec<String> = read.all().map(|(_, number, rule)| format!("{number} {rule}")).collect();
    assert_eq!(lines, ["100 count ip from any to any", "200 deny tcp from any to any", "65535 allow ip from any to any"]);
    assert_eq!(named.path(), rules);
    std::fs::write(&rules, "#!/bin/sh\nfw=ipfw\n$fw add 100 count ip from any to any\n").unwrap();
    assert_eq!(told().unwrap().0.all().len(), 2, "a shell script of such commands is read as one");
    for (text, place, words) in [
        ("add 100 count ip from any to any\nadd 200 denny ip from any to any\n", "2:9", "\"denny\" is nothing that a rule does"),
        ("\n# all\nadd 200 skipto 100 ip from any to any\n", "3:16", "is not behind it"),
        (
            "#!/bin/sh\nipfw add 100 count ip from any to any\nipfw add 200 skipto 100 ip from any to any\n",
            "3:21",
            "is not behind it",
        ),
        ("#!/bin/sh\nreboot\n", "2:1", "no command of ipfw"),
    ] {
        std::fs::write(&rules, text).unwrap();
        let why = told().unwrap_err();
        assert!(why.starts_with(&format!("{}:{place}: ", rules.display())) && why.contains(words), "{why}");
    }
}

#[test]
fn no_text_panics_whatever_is_cut_or_changed() {
    let bytes = WHOLE.as_bytes();
    for at in 0..bytes.len() {
        let cut = String::from_utf8_lossy(&bytes[..at]);
        let _ = read_text(&cut);
        let mut other = bytes.to_vec();
        other[at] = b"=[\"0x.{-"[at % 8];
        let _ = read_text(&String::from_utf8_lossy(&other));
    }
}
