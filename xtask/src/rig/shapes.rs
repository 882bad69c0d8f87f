//! What a rig can look like, as lines of ip(8) for each namespace.

use super::Arguments;

/// What to build.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Shape {
    /// Two namespaces and a wire: `near` in $NEAR with 10.9.0.1, `far` in $FAR with 10.9.0.2
    Wire,
    /// A bridge in $HUB, and so many namespaces on it: `eth0` in $END1 with 10.9.0.1, and so on
    Bridge,
    /// A tap in $NEAR with 10.9.0.1, whose other end is whoever opens it
    Tap,
    /// As a tap, and at its other end one of Debian's kernels in QEMU (package qemu-system-x86): `eth0` with 10.9.0.2 there, a virtio card with RSS
    Guest,
}

/// A namespace's index and its lines.
type Lines = (usize, Vec<String>);

impl Shape {
    /// The names of the namespaces, the command's first.
    pub fn spaces(self, ends: u8) -> Vec<String> {
        match self {
            Self::Wire => vec!["NEAR".to_owned(), "FAR".to_owned()],
            Self::Bridge => (1..=ends).map(|end| format!("END{end}")).chain(["HUB".to_owned()]).collect(),
            Self::Tap | Self::Guest => vec!["NEAR".to_owned()],
        }
    }

    /// What is to be done, in order; `place` says where a namespace is.
    pub fn lines(self, arguments: &Arguments, place: impl Fn(usize) -> String) -> Vec<Lines> {
        match self {
            Self::Wire => wire(arguments, &place(1)),
            Self::Bridge => bridge(arguments, place),
            Self::Tap | Self::Guest => tap(arguments),
        }
    }
}

fn wire(arguments: &Arguments, far: &str) -> Vec<Lines> {
    let queues = queues(arguments.queues);
    let link = format!("link add near{queues} type veth peer name far netns {far}{queues}");
    let mut near = vec!["link set lo up".to_owned(), link];
    near.extend(end("near", 1, arguments.vlan));
    let mut there = vec!["link set lo up".to_owned()];
    there.extend(end("far", 2, arguments.vlan));
    vec![(0, near), (1, there)]
}

fn end(name: &str, number: u8, vlan: Option<u16>) -> Vec<String> {
    let mut lines = vec![format!("addr add 10.9.0.{number}/24 dev {name}"), format!("link set {name} up")];
    if let Some(vlan) = vlan {
        lines.push(format!("link add link {name} name {name}.{vlan} type vlan id {vlan}"));
        lines.push(format!("addr add 10.9.1.{number}/24 dev {name}.{vlan}"));
        lines.push(format!("link set {name}.{vlan} up"));
    }
    lines
}

fn bridge(arguments: &Arguments, place: impl Fn(usize) -> String) -> Vec<Lines> {
    let (hub, queues) = (usize::from(arguments.ends), queues(arguments.queues));
    let mut lines = vec![(hub, vec!["link add hub type bridge mcast_snooping 0".to_owned(), "link set hub up".to_owned()])];
    for number in 1..=arguments.ends {
        let index = usize::from(number) - 1;
        let there = place(index);
        let joined = vec![
            format!("link add end{number}{queues} type veth peer name eth0 netns {there}{queues}"),
            format!("link set end{number} master hub up"),
        ];
        lines.push((hub, joined));
        let mut own = vec!["link set lo up".to_owned()];
        own.extend(end("eth0", number, arguments.vlan));
        lines.push((index, own));
    }
    lines
}

fn tap(arguments: &Arguments) -> Vec<Lines> {
    let several = if arguments.queues > 1 { " multi_queue" } else { "" };
    let mut lines = vec!["link set lo up".to_owned(), format!("tuntap add dev near mode tap{several}")];
    lines.extend(end("near", 1, arguments.vlan));
    vec![(0, lines)]
}

/// The interfaces that have an address by these lines, VLANs aside.
pub fn interfaces(lines: &[String]) -> impl Iterator<Item = &str> {
    let with_address = lines.iter().filter(|line| line.starts_with("addr add"));
    with_address.filter_map(|line| line.rsplit(' ').next()).filter(|name| !name.contains('.'))
}

fn queues(count: u16) -> String {
    format!(" numrxqueues {count} numtxqueues {count}")
}
