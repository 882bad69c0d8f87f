//! What a packet costs that goes the fast path, beside one that is only redirected: CPU of the thread that receives, over wires of this machine.
//!
//! ```text
//! live frames (CPU 0) -> gen bare -> in bare: redirect --> out bare -> sink bare
//!                        gen fast -> in fast: the program, 160 rules that count -> out fast -> sink fast
//! ```
//!
//! As root: `unshare -n -m sh -c 'mount -t sysfs sys /sys; target/debug/examples/fast_path [rounds] [tags]'`. The receiving of `in` runs in a thread of the kernel of its own on CPU 1.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use corelane_os::clock;
use corelane_rules::language::command;
use corelane_rules::{Execution, Interface as Number, Limits, Rules};
use corelane_seam::{FrameMemory, LearntWay, LinkSide, Port, VlanTag};
use corelane_select::bpf::assembly::{Alu, Assembler, Register, Width};
use corelane_select::bpf::{Map, MapKind, Program, ProgramKind, XdpLink, XdpMode};
use corelane_xdp::{FastPath, Interface, Ours, ports_for};
use std::os::fd::AsFd;
use std::process::Command;

use Register::{R0, R1, R2, R3, R4, R6, R7};

const KINDS: [&str; 2] = ["bare", "fast"];
/// Frames that are emitted with one call, which a wire holds, and in a measurement.
const EMITTED: u32 = 192;
const FRAMES: u64 = 192 << 6;
const BYTES: usize = 510;

fn run(program: &str, arguments: &str) {
    let status = Command::new(program).args(arguments.split(' ')).status().unwrap();
    assert!(status.success(), "{program} {arguments}");
}

fn index(name: &str) -> u32 {
    Interface::find(name).unwrap().link.interface
}

/// Redirects all to one interface.
fn redirect(a: &mut Assembler, devices: &Map) {
    a.map(R1, devices.as_fd());
    a.alu(Alu::Move, R2, 0);
    a.alu(Alu::Move, R3, 1);
    a.call(51);
    a.exit();
}

fn device(name: &str) -> Map {
    let devices = Map::new(MapKind::Devices, 4, 1, "corelane_to").unwrap();
    devices.update(0, &index(name).to_ne_bytes()).unwrap();
    devices
}

/// Writes the frame anew, because a frame that comes back is as others have left it, and redirects it.
fn generator(frame: &[u8], devices: &Map) -> Program {
    let mut a = Assembler::new();
    let short = a.label();
    a.load(Width::Four, R6, R1, 0);
    a.load(Width::Four, R7, R1, 4);
    a.alu(Alu::Move, R4, R6);
    a.alu(Alu::Add, R4, 64);
    a.branch(corelane_select::bpf::assembly::When::Greater, R4, R7, short);
    for (at, word) in frame[..64].as_chunks::<8>().0.iter().enumerate() {
        a.wide(R4, u64::from_ne_bytes(*word));
        a.store(Width::Eight, R6, 8 * at as i16, R4);
    }
    redirect(&mut a, devices);
    a.place(short);
    a.alu(Alu::Move, R0, 0);
    a.exit();
    Program::load(ProgramKind::Xdp, &a.finish(), "corelane_gen").unwrap()
}

fn attach(program: &Program, name: &str) -> XdpLink {
    XdpLink::attach(program, index(name), XdpMode::Native).unwrap()
}

fn drop_all() -> Program {
    let mut a = Assembler::new();
    a.alu(Alu::Move, R0, 1);
    a.exit();
    Program::load(ProgramKind::Xdp, &a.finish(), "corelane_sink").unwrap()
}

/// Has an interface's receiving run in a thread at that CPU: its number.
fn thread_of(name: &str, cpu: usize) -> u32 {
    std::fs::write(format!("/sys/class/net/{name}/threaded"), "1").unwrap();
    let wanted = format!("napi/{name}-");
    let found = std::fs::read_dir("/proc").unwrap().filter_map(|entry| {
        let number: u32 = entry.ok()?.file_name().to_str()?.parse().ok()?;
        let comm = std::fs::read_to_string(format!("/proc/{number}/comm")).ok()?;
        comm.starts_with(&wanted).then_some(number)
    });
    let number = found.last().unwrap();
    run("taskset", &format!("-pc {cpu} {number}"));
    number
}

fn cpu_of(thread: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{thread}/schedstat")).unwrap();
    stat.split(' ').next().unwrap().parse().unwrap()
}

fn received(name: &str) -> u64 {
    std::fs::read_to_string(format!("/sys/class/net/{name}/statistics/rx_packets")).unwrap().trim().parse().unwrap()
}

fn posts(vlans: u16) -> Rules {
    let mut rules = Rules::new(true, Limits::default());
    rules.name_interfaces((1..=vlans).map(|vlan| format!("vlan{vlan}")).collect()).unwrap();
    for vlan in 1..=vlans {
        for rest in ["any to 10.0.0.0/8 in", "any to not 10.0.0.0/8 in", "10.0.0.0/8 to any out", "not 10.0.0.0/8 to any out"] {
            rules.apply(command(&format!("add count ip from {rest} via vlan{vlan}"), 1).unwrap()).unwrap();
        }
    }
    rules
}

fn tag(number: u16) -> [Option<VlanTag>; 2] {
    if number == 0 { [None; 2] } else { [Some(VlanTag { protocol: 0x8100, control: number }), None] }
}

fn frame(station: [u8; 6], vlan: u16) -> Vec<u8> {
    let mut header = vec![0x45, 0, 0, 0, 0, 1, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
    header[2..4].copy_from_slice(&((BYTES - 14) as u16).to_be_bytes());
    let sum: u32 = header.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1])).sum();
    header[10..12].copy_from_slice(&(!((sum & 0xffff) + (sum >> 16)) as u16).to_be_bytes());
    let tags = if vlan == 0 { Vec::new() } else { [[0x81, 0], vlan.to_be_bytes()].concat() };
    let mut frame = [station.to_vec(), vec![2; 6], tags, vec![8, 0], header, vec![0, 7, 0, 9, 1, 0xdc, 0, 0]].concat();
    frame.resize(BYTES + if vlan == 0 { 0 } else { 4 }, 0);
    frame
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let rounds: usize = arguments.get(1).map_or(15, |text| text.parse().unwrap());
    let (comes, leaves) = match arguments.get(2).map_or("", String::as_str) {
        "tags" => (7, 9),
        "pop" => (7, 0),
        _ => (0, 0),
    };
    for kind in KINDS {
        for (near, far) in [("gen", "in"), ("out", "sink")] {
            run("ip", &format!("link add {near}{kind} type veth peer name {far}{kind}"));
            run("ip", &format!("link set {near}{kind} up"));
            run("ip", &format!("link set {far}{kind} up"));
        }
    }
    let sink = drop_all();
    let _drops = KINDS.map(|kind| attach(&sink, &format!("sink{kind}")));
    let bare_to = device("outbare");
    let mut a = Assembler::new();
    redirect(&mut a, &bare_to);
    let bare = Program::load(ProgramKind::Xdp, &a.finish(), "corelane_bare").unwrap();
    let _bare = attach(&bare, "inbare");
    let _bare_out = attach(&bare, "outbare");
    let fast = FastPath::new().unwrap();
    let open = |name: &str| {
        let mut choice = ports_for(name, &Ours::All, 1).unwrap();
        choice.offload(&fast).unwrap();
        choice.queues.remove(0).port(FrameMemory::new(256, 2048).unwrap(), 128).unwrap()
    };
    let (mut inward, _outward) = (open("infast"), open("outfast"));
    let set = posts(40).compile(Execution::Tree);
    fast.put(&set, &[]).unwrap();
    let station = Interface::find("infast").unwrap().link.mac;
    let side = |interface, vlan, destination| LinkSide { interface, tags: tag(vlan), destination };
    let way = LearntWay {
        source: [10, 0, 0, 1].into(),
        destination: [10, 0, 0, 2].into(),
        comes: side(7, comes, station),
        leaves: side(9, leaves, [6; 6]),
        leaves_from: [4; 6],
        device: index("outfast"),
        mtu: 1500,
        hands_over_opening: false,
        until: u64::MAX,
    };
    let now = clock::now();
    assert!(inward.offload().unwrap().learn(now, &way));
    inward.released(now + 1_000_000_000);
    let threads = KINDS.map(|kind| thread_of(&format!("in{kind}"), 1));
    let _sinks = KINDS.map(|kind| thread_of(&format!("sink{kind}"), 0));
    run("taskset", &format!("-pc 0 {}", std::process::id()));
    let frame = frame(station, comes);
    let generators = KINDS.map(|kind| {
        let to = device(&format!("gen{kind}"));
        (generator(&frame, &to), to)
    });
    let mut rows = Vec::new();
    for round in 0..=rounds {
        let mut each = [0.0; 2];
        for at in if round % 2 == 0 { [0, 1] } else { [1, 0] } {
            let sink = format!("sink{}", KINDS[at]);
            let (cpu, before) = (cpu_of(threads[at]), received(&sink));
            let mut emitted = 0;
            while emitted < FRAMES {
                generators[at].0.emit(&frame, EMITTED).unwrap();
                emitted += u64::from(EMITTED);
                let end = clock::now() + 1_000_000;
                while received(&sink) - before < emitted && clock::now() < end {}
            }
            let packets = received(&sink) - before;
            each[at] = (cpu_of(threads[at]) - cpu) as f64 / packets as f64;
            if round == 1 {
                println!("{}: {packets} of {emitted} arrived", KINDS[at]);
            }
        }
        if round > 0 {
            rows.push((each[0], each[1], each[1] / each[0]));
        }
    }
    rows.sort_by(|a, b| a.2.total_cmp(&b.2));
    let middle = rows[rows.len() / 2];
    let median = |column: fn(&(f64, f64, f64)) -> f64| {
        let mut column: Vec<f64> = rows.iter().map(column).collect();
        column.sort_by(f64::total_cmp);
        column[column.len() / 2]
    };
    println!(
        "bare {:.0} ns, fast {:.0} ns a packet (medians); ratio {:.3}, from {:.3} to {:.3}",
        median(|row| row.0),
        median(|row| row.1),
        middle.2,
        rows[0].2,
        rows[rows.len() - 1].2
    );
    println!("counted: {:?}", fast.traffic(Number(7)).unwrap());
}
