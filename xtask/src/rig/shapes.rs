//! What a rig can look like, as it is asked for, and as lines of ip(8) for each namespace.

/// Queues of an interface at the most.
const QUEUES_MAX: u16 = 64;
/// Ends of a bridge at the most.
const ENDS_MAX: u8 = 32;

/// What a rig is to be.
#[derive(clap::Args)]
pub struct Network {
    /// What to build
    #[arg(value_enum)]
    pub shape: Shape,
    /// Queues of each interface
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=i64::from(QUEUES_MAX)))]
    pub queues: u16,
    /// A VLAN of this number on the wire, 10.9.1.0/24
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=4094))]
    pub vlan: Option<u16>,
    /// Ends of a bridge
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=i64::from(ENDS_MAX)))]
    pub ends: u8,
}

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

impl Network {
    /// The names of the namespaces, the command's first.
    pub fn spaces(&self) -> Vec<String> {
        match self.shape {
            Shape::Wire => vec!["NEAR".to_owned(), "FAR".to_owned()],
            Shape::Bridge => (1..=self.ends).map(|end| format!("END{end}")).chain(["HUB".to_owned()]).collect(),
            Shape::Tap | Shape::Guest => vec!["NEAR".to_owned()],
        }
    }

    /// What is to be done, in order; `place` says where a namespace is.
    pub fn lines(&self, place: impl Fn(usize) -> String) -> Vec<Lines> {
        match self.shape {
            Shape::Wire => wire(self, &place(1)),
            Shape::Bridge => bridge(self, place),
            Shape::Tap | Shape::Guest => tap(self),
        }
    }
}

fn wire(network: &Network, far: &str) -> Vec<Lines> {
    let queues = queues(network.queues);
    let link = format!("link add near{queues} type veth peer name far netns {far}{queues}");
    let mut near = vec!["link set lo up".to_owned(), link];
    near.extend(end("near", 1, network.vlan));
    let mut there = vec!["link set lo up".to_owned()];
    there.extend(end("far", 2, network.vlan));
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

fn bridge(network: &Network, place: impl Fn(usize) -> String) -> Vec<Lines> {
    let (hub, queues) = (usize::from(network.ends), queues(network.queues));
    let mut lines = vec![(hub, vec!["link add hub type bridge mcast_snooping 0".to_owned(), "link set hub up".to_owned()])];
    for number in 1..=network.ends {
        let index = usize::from(number) - 1;
        let there = place(index);
        let joined = vec![
            format!("link add end{number}{queues} type veth peer name eth0 netns {there}{queues}"),
            format!("link set end{number} master hub up"),
        ];
        lines.push((hub, joined));
        let mut own = vec!["link set lo up".to_owned()];
        own.extend(end("eth0", number, network.vlan));
        lines.push((index, own));
    }
    lines
}

fn tap(network: &Network) -> Vec<Lines> {
    let several = if network.queues > 1 { " multi_queue" } else { "" };
    let mut lines = vec!["link set lo up".to_owned(), format!("tuntap add dev near mode tap{several}")];
    lines.extend(end("near", 1, network.vlan));
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
