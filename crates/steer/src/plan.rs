//! From a machine to lanes on CPUs: a pure function.
//!
//! Unless CPUs are named, they are taken in this order: those on the memory node of the interface first; then one of each core
//! before a second of any; then those on which the interface delivers packets; then by number. Lanes are numbered by CPU.

use crate::topology::Topology;
use crate::warning::Warning;
use corelane_machine::ethtool::FlowKind;
use corelane_machine::interfaces::Interface;
use corelane_machine::interrupts::Interrupt;
use corelane_machine::topology::Cpu;

/// What the user of a plan asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wish {
    /// How many lanes; by default [`Topology::lanes_by_default`], of the CPUs that are named.
    pub lanes: Option<usize>,
    /// Only these CPUs, lane by lane in this order. Those that the topology does not have are left out: refusing them is the caller's.
    pub cpus: Option<Vec<usize>>,
    /// Whether connections are served.
    pub tcp: bool,
    /// Whether datagrams are.
    pub udp: bool,
}

/// Where a lane is to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedLane {
    /// Its CPU; other lanes may have the same.
    pub cpu: Cpu,
    /// The receive queues of the interface whose packets come in on that CPU. Of lanes that share a CPU, the first has them.
    pub queues: Vec<usize>,
}

/// Lanes, and what their user should know of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LanePlan {
    /// In their order.
    pub lanes: Vec<PlannedLane>,
    /// What stands in the way.
    pub warnings: Vec<Warning>,
}

/// Plans the lanes. There are none if the topology has no CPU that is wished for, or 0 lanes are.
pub fn plan(topology: &Topology, wish: &Wish) -> LanePlan {
    let cpus = candidates(topology, wish);
    let paid = cpus.len().min(topology.paid_cpus.unwrap_or(usize::MAX));
    let count = wish.lanes.unwrap_or(paid);
    let cpus = chosen(cpus, count, wish.cpus.is_some());
    let queues = Queues::of(topology.interface.as_ref());
    let mut lanes: Vec<PlannedLane> = Vec::new();
    for &cpu in cpus.iter().cycle().take(count) {
        let is_first = !lanes.iter().take(cpus.len()).any(|lane| lane.cpu == cpu);
        lanes.push(PlannedLane { cpu, queues: if is_first { queues.on(cpu.number) } else { Vec::new() } });
    }
    assert!(lanes.is_empty() || lanes.len() == count, "as many lanes as were wished for, or no CPU for any");
    let warnings = warnings(topology, wish, &lanes, paid);
    LanePlan { lanes, warnings }
}

/// The CPUs that may be used, the best ones first.
fn candidates(topology: &Topology, wish: &Wish) -> Vec<Cpu> {
    let known = |number: &usize| topology.cpus.iter().find(|cpu| cpu.number == *number).copied();
    if let Some(named) = &wish.cpus {
        return named.iter().filter_map(known).collect();
    }
    let interface = topology.interface.as_ref();
    let near = interface.and_then(|interface| interface.node);
    let queues = Queues::of(interface);
    let rank = |cpu: &Cpu| {
        let siblings_before =
            topology.cpus.iter().filter(|other| other.first_sibling == cpu.first_sibling && other.number < cpu.number).count();
        (near.is_some_and(|node| node != cpu.node), siblings_before, queues.on(cpu.number).is_empty(), cpu.number)
    };
    let mut cpus = topology.cpus.clone();
    cpus.sort_by_cached_key(rank);
    cpus
}

/// The first of them, as many as there are lanes; by number, unless the user has ordered them.
fn chosen(mut cpus: Vec<Cpu>, lanes: usize, is_ordered: bool) -> Vec<Cpu> {
    cpus.truncate(lanes);
    assert!(cpus.len() <= lanes, "a CPU that is chosen has a lane");
    if !is_ordered {
        cpus.sort_by_key(|cpu| cpu.number);
    }
    cpus
}

/// The receive queues of an interface, as far as it is known where their packets come in.
struct Queues<'a>(Vec<(usize, &'a Interrupt)>);

impl<'a> Queues<'a> {
    fn of(interface: Option<&'a Interface>) -> Self {
        let interrupts = interface.map(|interface| &interface.interrupts[..]).unwrap_or_default();
        let receiving = interrupts.iter().filter_map(|interrupt| {
            let queue = interrupt.queue.filter(|queue| queue.receives)?;
            Some((queue.number, interrupt))
        });
        Self(receiving.collect())
    }

    /// Those whose packets come in on a CPU, and there only.
    fn on(&self, cpu: usize) -> Vec<usize> {
        let mut found: Vec<usize> =
            self.0.iter().filter(|(_, interrupt)| interrupt.cpus == [cpu]).map(|(queue, _)| *queue).collect();
        found.sort_unstable();
        found.dedup();
        found
    }

    /// The interrupts that are delivered on none of these CPUs.
    fn off(&self, cpus: &[usize]) -> Vec<&'a Interrupt> {
        let is_off = |interrupt: &Interrupt| !interrupt.cpus.is_empty() && !interrupt.cpus.iter().any(|cpu| cpus.contains(cpu));
        self.0.iter().map(|(_, interrupt)| *interrupt).filter(|interrupt| is_off(interrupt)).collect()
    }
}

fn warnings(topology: &Topology, wish: &Wish, lanes: &[PlannedLane], paid: usize) -> Vec<Warning> {
    let count = lanes.len();
    let mut cpus: Vec<usize> = lanes.iter().map(|lane| lane.cpu.number).collect();
    cpus.sort_unstable();
    cpus.dedup();
    let able = cpus.len().min(paid);
    let mut found = Vec::new();
    if count > able {
        found.push(Warning::MoreLanesThanCpus { lanes: count, cpus: able });
    }
    // An interface without a device and with a single queue takes packets in on the CPU of whoever sends them.
    if let Some(interface) = topology.interface.as_ref().filter(|interface| interface.device || interface.rx_queues() > 1) {
        let of_interface = [too_few_queues(interface, count), too_few_entries(interface), addresses_only(interface, wish)];
        found.extend(of_interface.into_iter().flatten());
        found.extend(sent_on(interface, &cpus));
        found.extend(interrupts_elsewhere(interface, &cpus));
    }
    found
}

fn too_few_queues(interface: &Interface, lanes: usize) -> Option<Warning> {
    let queues = interface.rx_queues();
    let channels = interface.channels.unwrap_or_default();
    let (setting, most) = if channels.combined_max > 0 { ("combined", channels.combined_max) } else { ("rx", channels.rx_max) };
    let (name, queues_max) = (interface.link.name.clone(), queues.max(most as usize));
    (queues < lanes).then_some(Warning::FewerQueuesThanLanes { interface: name, queues, queues_max, setting, lanes })
}

fn too_few_entries(interface: &Interface) -> Option<Warning> {
    let (entries, queues) = (interface.rss.as_ref()?.table.len(), interface.rx_queues());
    let name = interface.link.name.clone();
    (entries > 0 && entries < queues).then_some(Warning::FewerEntriesThanQueues { interface: name, entries, queues })
}

/// One client, or a few behind one address, then come to one queue.
fn addresses_only(interface: &Interface, wish: &Wish) -> Option<Warning> {
    let is_wished = |kind| match kind {
        FlowKind::TcpV4 | FlowKind::TcpV6 => wish.tcp,
        FlowKind::UdpV4 | FlowKind::UdpV6 => wish.udp,
    };
    let fields = interface.rss.as_ref()?.fields.iter();
    let lacking = fields.filter(|(kind, fields)| is_wished(*kind) && !fields.has_ports());
    let flows: Vec<FlowKind> = lacking.map(|(kind, _)| *kind).collect();
    let matters = interface.rx_queues() > 1 && !flows.is_empty();
    matters.then(|| Warning::AddressesOnly { interface: interface.link.name.clone(), flows })
}

fn sent_on(interface: &Interface, lane_cpus: &[usize]) -> Option<Warning> {
    let meets = |to: &[usize]| to.iter().any(|cpu| lane_cpus.contains(cpu));
    let (mut queues, mut cpus) = (Vec::new(), Vec::new());
    for (queue, to) in interface.rps_cpus.iter().enumerate().filter(|(_, to)| meets(to)) {
        queues.push(queue);
        cpus.extend_from_slice(to);
    }
    cpus.sort_unstable();
    cpus.dedup();
    (!queues.is_empty()).then(|| Warning::PacketsSentOn { interface: interface.link.name.clone(), queues, cpus })
}

fn interrupts_elsewhere(interface: &Interface, lane_cpus: &[usize]) -> Option<Warning> {
    let off = Queues::of(Some(interface)).off(lane_cpus);
    let interrupts: Vec<u32> = off.iter().map(|interrupt| interrupt.number).collect();
    let mut cpus: Vec<usize> = off.iter().flat_map(|interrupt| interrupt.cpus.iter().copied()).collect();
    cpus.sort_unstable();
    cpus.dedup();
    (!interrupts.is_empty()).then(|| Warning::InterruptsElsewhere { interface: interface.link.name.clone(), interrupts, cpus })
}
