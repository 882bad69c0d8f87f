//! Opening: a queue of each port for each lane.

use super::gateway::Port;
use super::insisting::Insisting;
use super::lane::LaneFrames;
use super::memory::{FRAME_BYTES, FRAMES_LEAST, frames_had, most};
use super::telling::Placing;
use super::wires::{Wires, refused};
use crate::admin::messages::Degraded;
use crate::error::Error;
use crate::lanes::driver::DriverKind;
use corelane_lane::{Control, Mesh};
use corelane_os::claim::claim;
use corelane_os::random::secret;
use corelane_os::rights::locked_bytes_max;
use corelane_rss::{FlowHasher, Table, Transport};
use corelane_rules::RuleSet;
use corelane_seam::{FrameMemory, Record};
use corelane_select::QueueSelector;
use corelane_stack::check_addresses;
use corelane_steer::Settings as Steering;
use corelane_xdp::{Choice, FastPath, KernelNews, Loss, Ours, Queue, afxdp, check_lanes, ports_for, taking_away, taps_for};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};

/// The parts for each lane, the one that speaks to all, and remarks for the operator.
pub(crate) type OpenedPorts = (Vec<LaneFrames>, Placing, Vec<Record>);

/// Refuses addresses that the kernel has as well: one alone answers for an address on the link.
pub(crate) fn refuse_shared_addresses(wires: &Wires) -> Result<(), Error> {
    let has_it = |ip: &IpAddr| claim(Transport::Udp, &SocketAddr::new(*ip, 0).into(), true, false).is_ok();
    match wires.addresses().find(has_it) {
        None => Ok(()),
        Some(ip) => {
            Err(refused(wires.asked_by(), corelane_xdp::Error::AddressTaken { address: ip, remedy: taking_away(ip).into() }))
        }
    }
}

fn has_afxdp() -> bool {
    let memory = FrameMemory::new(FRAMES_LEAST, FRAME_BYTES);
    memory.is_ok_and(|memory| afxdp::probe(&memory).is_ok())
}

/// Each lane has a queue of each interface, and each queue a lane, where AF_XDP is to be had.
pub(crate) fn refuse_lanes_without_queue(wires: &Wires, lanes: usize) -> Result<(), Error> {
    let mut ports = wires.ports().filter(|port| !port.is_tap).peekable();
    if ports.peek().is_none() || !has_afxdp() {
        return Ok(());
    }
    ports.try_for_each(|port| check_lanes(&port.device, lanes).map_err(|why| refused(wires.asked_by(), why)))
}

/// Bytes that a lane's rings of io_uring lock as well, and as many for those of the trial before, which the kernel takes back when it likes.
const RINGS_BYTES: usize = 384 * 1024;

/// A port as it was opened: its queues, who chooses among those of a tap, and who hears what the kernel does at its interface.
struct Opened {
    choice: Choice,
    selector: Option<QueueSelector>,
    news: KernelNews,
}

/// Opens a queue of each interface for each lane, which has this driver, and this user fraction where no port says anything else. Lanes begin with these rules.
pub(crate) fn open(
    (wires, rules): (&Wires, Option<Arc<RuleSet>>),
    control: &Arc<Control>,
    steering: &Steering,
    messages: usize,
    (driver, user_fraction): (DriverKind, u8),
) -> Result<OpenedPorts, Error> {
    let lanes = control.lanes();
    let table = steering.table(lanes)?;
    let hasher = Arc::new(FlowHasher::new(&steering.key, steering.types));
    let secret = secret().map_err(|error| Error::System { what: "asking for randomness (getrandom)", error })?;
    let polling = wires.polling(user_fraction)?;
    let settings = |lane: usize| {
        let mut settings =
            wires.settings(&hasher, &table, (lane, lanes), secret.wrapping_add(lane as u128)).with_polling(polling);
        settings.rules.clone_from(&rules);
        // One speaks for all.
        if lane == 0 { settings.with_introduction() } else { settings }
    };
    // Before anything is opened.
    check_addresses(&settings(0)).map_err(|why| refused(wires.asked_by(), why))?;
    let opened = wires.ports().map(|port| open_port(port, (&hasher, &table), lanes));
    let mut opened = opened.collect::<Result<Vec<_>, _>>().map_err(|why| refused(wires.asked_by(), why))?;
    let (fast, no_fast) = fast_path(wires, &mut opened).map_or_else(|why| (None, Some(why)), |fast| (fast, None));
    let beside = if driver == DriverKind::Uring { RINGS_BYTES } else { 0 };
    let (frames, fewer) = frames_of(wires, &opened, beside, lanes)?;
    let mut notes: Vec<Record> = wires.ports().zip(&opened).flat_map(|(port, opened)| notes_of(port, &opened.choice)).collect();
    notes.extend(fewer.into_iter().chain(no_fast.map(|why| Degraded::Packet.note(format_args!("gateway: no fast path: {why}")))));
    let limits = wires.gateway().and_then(|gateway| gateway.limits_of_each_lane(lanes));
    notes.extend(limits.map(|words| Degraded::LimitOfEachLane.note(words)));
    notes.extend(fast.iter().flat_map(|fast| fast.refusing()).map(|name| note_of_refusal(&name)));
    let meshes = Mesh::between(control, messages).into_iter().zip(Mesh::between(control, messages));
    let (tell, ears) = control.words();
    assert!(meshes.len() == lanes && ears.len() == lanes, "each lane has its mailboxes and an ear");
    let mut queues: Vec<_> = opened.iter_mut().map(|opened| std::mem::take(&mut opened.choice.queues).into_iter()).collect();
    let (selectors, news): (Vec<_>, Vec<_>) = opened.into_iter().map(|opened| (opened.selector, opened.news)).unzip();
    let mut news = wires.devices().map(Box::from).zip(news).collect();
    let each = meshes.zip(ears).enumerate().map(|(lane, ((crossing, homing), ear))| LaneFrames {
        lane,
        // reason: as many were opened of each port as there are lanes.
        queues: queues.iter_mut().map(|of_port| of_port.next().expect("each lane has a queue")).zip(frames.clone()).collect(),
        settings: settings(lane),
        crossing,
        homing,
        ear,
        news: std::mem::take(&mut news),
    });
    let each: Vec<LaneFrames> = each.collect();
    let (tables, selectors) = (Insisting::new(tell.clone(), lanes), selectors.into_iter().flatten().collect());
    Ok((each, Placing { tell, tables, lanes, selectors, polling: polling.map(Mutex::new), fast }, notes))
}

/// That an interface sends nothing of what programs redirect.
fn note_of_refusal(name: &str) -> Record {
    Degraded::Packet.note(format_args!(
        "packet {name}: it sends nothing that programs redirect, so lanes forward what leaves by it: for a veth, have its other end receive with \
         GRO (ethtool -K INTERFACE gro on) or by an XDP program; of a card, the driver cannot"
    ))
}

/// The fast path of a gateway's ports, if it is to have one.
fn fast_path(wires: &Wires, opened: &mut [Opened]) -> Result<Option<Arc<FastPath>>, corelane_xdp::Error> {
    let Some(gateway) = wires.gateway().filter(|gateway| gateway.offloads) else { return Ok(None) };
    // Ports of the gateway stand first; those of `--packet` are no part of it.
    let ports = &mut opened[..gateway.ports.len()];
    if !ports.iter().any(|opened| opened.choice.queues.iter().any(|queue| matches!(queue, Queue::Xdp(_)))) {
        return Ok(None);
    }
    let fast = FastPath::new()?;
    ports.iter_mut().try_for_each(|opened| opened.choice.offload(&fast))?;
    Ok(Some(fast))
}

fn open_port(port: &Port, (hasher, table): (&FlowHasher, &Table), lanes: usize) -> Result<Opened, corelane_xdp::Error> {
    let mut news = KernelNews::hear(port.addresses().collect())?;
    let ours = port.ours();
    let opened = match port.is_tap {
        true => taps_for(&port.device, &ours, (hasher, table), lanes),
        false => ports_for(&port.device, &ours, lanes).map(|choice| (choice, None)),
    };
    let (mut choice, selector) = opened?;
    assert!(choice.queues.len() == lanes, "each lane has a queue");
    if port.polls {
        choice.poll();
    }
    if let Some(family) = choice.forwards_beside() {
        news.hear_of_forwarding(&port.device, family);
    }
    Ok(Opened { choice, selector, news })
}

/// How many frames each lane has of each port, and what the operator should know.
fn frames_of(wires: &Wires, opened: &[Opened], beside: usize, lanes: usize) -> Result<(Vec<usize>, Vec<Record>), Error> {
    let choices: Vec<&Choice> = opened.iter().map(|opened| &opened.choice).collect();
    let asked: Vec<Option<usize>> = wires.ports().map(|port| port.frames).collect();
    let (mut frames, mut notes) = (Vec::new(), Vec::new());
    for (port, most) in wires.ports().zip(most(&choices, &asked, beside)) {
        let (had, fewer) = frames_had(port.frames, most).ok_or_else(|| {
            let bytes = asked.iter().map(|asked| asked.unwrap_or(FRAMES_LEAST)).sum::<usize>() * FRAME_BYTES * lanes;
            refused(wires.asked_by(), corelane_xdp::Error::LockedMemory { bytes, limit: locked_bytes_max() })
        })?;
        frames.push(had);
        notes.extend(fewer.map(|fewer| Degraded::Packet.note(format_args!("packet {}: {fewer}", port.device))));
    }
    Ok((frames, notes))
}

/// Remarks on what a port's lanes do without, and on what the kernel does.
fn notes_of(port: &Port, choice: &Choice) -> Vec<Record> {
    let lost = choice.lost.iter().map(|lost| code_of(lost).note(format_args!("packet {}: {lost}", port.device)));
    lost.chain(note_of_silence(port, choice)).collect()
}

/// Where lanes have all packets of an interface, the kernel hears none: nobody reaches it at the addresses that it has there.
fn note_of_silence(port: &Port, choice: &Choice) -> Option<Record> {
    let is_whole = port.ours() == Ours::All && choice.queues.iter().any(|queue| matches!(queue, Queue::Xdp(_)));
    let links = is_whole.then(corelane_machine::interfaces::list)?.ok()?;
    let link = links.into_iter().find(|link| link.name == port.device)?;
    let is_of_link = |address: &IpAddr| matches!(address, IpAddr::V6(v6) if v6.is_unicast_link_local());
    let addresses: Vec<IpAddr> = link.addresses.into_iter().filter(|address| !is_of_link(address)).collect();
    let first = *addresses.first()?;
    let all: Vec<String> = addresses.iter().map(IpAddr::to_string).collect();
    Some(Degraded::KernelSilent.note(format_args!(
        "packet {}: the kernel has {} there and hears nothing any more, for lanes have all packets of the interface: reach it by another, and take \
         the address away ({})",
        port.device,
        all.join(", "),
        taking_away(first)
    )))
}

/// The code of what an interface's ports lack.
fn code_of(lost: &Loss) -> Degraded {
    match lost {
        Loss::Forwarding { .. } => Degraded::KernelAnswers,
        _ => Degraded::Packet,
    }
}
