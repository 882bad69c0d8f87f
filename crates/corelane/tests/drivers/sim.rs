//! The rig of the simulated driver, prompt or late.

use crate::rig::{Rig, Side};
use corelane_seam::{Arena, Driver, FrameMemory, Port, Tuning, Unix};
use corelane_sim::{CardSetup, Faults, SimDriver, SimPort, World};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

const REAL: &str = "it polls descriptors that its world made";
const KEEPS: &str = "its system keeps what it is told to, or by chance: runs from seeds have that";
const NO_BLOCK: &str = "it never blocks: the world gives no turn until the time";

/// Of the cases below, those that hold for a late driver as well as for a prompt one.
const ALWAYS: usize = 26;
const CANNOT: [(&str, &str); ALWAYS + 4] = [
    ("a_sockets_descriptor_can_be_told", "it has no descriptors"),
    ("a_descriptor_becomes_readable_and_writable", REAL),
    ("the_end_of_a_descriptor_is_readable", REAL),
    ("a_poll_can_be_cancelled", REAL),
    ("the_polls_of_a_work_that_left_end", REAL),
    ("urgent_data_hides_nothing", "its peers are drivers"),
    ("a_question_takes_one_wait_one_receive_and_one_send", "it makes no system calls"),
    ("a_connection_that_asks_once_costs_no_wait", "it makes no system calls"),
    ("a_question_on_a_connection_takes_one_wait_one_receive_and_one_send", "it makes no system calls"),
    ("other_news_of_a_port_end_a_wait", REAL),
    ("what_came_in_a_rest_is_there_behind_it", "bytes are on their way until nobody has anything to do"),
    ("what_is_no_file_is_refused_at_once", "its model of a file system has files, directories and links only"),
    ("a_departure_waits_for_room", "it has no links with a rate"),
    ("where_notices_were_lost_nothing_is_watched_any_more", "its notices are lost in runs from seeds"),
    ("a_wait_lasts_until_its_time", NO_BLOCK),
    ("a_wait_ends_with_a_completion_only", NO_BLOCK),
    (
        "at_the_limit_of_descriptors_accepting_stops_and_goes_on",
        "its lanes have tables of their own: cases of the simulator fill them",
    ),
    ("a_short_question_waits_for_no_round_of_what_others_have_left", "in which order it serves is drawn from the seed"),
    ("a_large_send_is_released_behind_its_end", KEEPS),
    ("a_short_send_is_copied_and_released_at_once", KEEPS),
    ("memory_is_used_again_only_when_it_is_released", KEEPS),
    ("sends_in_flight_are_released_in_their_order", KEEPS),
    ("a_close_waits_for_what_the_system_reads_and_loses_nothing", KEEPS),
    ("a_reset_gives_back_what_nobody_reads", KEEPS),
    ("a_driver_may_go_while_the_system_reads_its_memory", KEEPS),
    ("where_the_system_cannot_a_large_send_is_copied", KEEPS),
    ("echoes_cycle_through_little_memory", "memory that is released late adds to the cycle"),
    ("in_whatever_order_nobody_is_forgotten", "whether a send waits is known at once only while they are prompt"),
    ("a_slow_reader_gets_every_byte", "the case reads only while sends are prompt"),
    ("one_collect_hands_out_few_batches", "completions that come late come together"),
];

/// With `LATE`, completions and releases come late and out of order, as far as the contract allows.
pub struct SimRig<const LATE: bool> {
    drivers: [SimDriver; 2],
    arenas: [Arena; 2],
    world: World,
}

impl<const LATE: bool> Rig for SimRig<LATE> {
    const CANNOT: &'static [(&'static str, &'static str)] = if LATE { &CANNOT } else { CANNOT.split_at(ALWAYS).0 };

    fn new(tuning: Tuning, memory: usize) -> Self {
        let arenas = [(); 2].map(|()| Arena::new(memory).unwrap());
        let often = if LATE { 300 } else { 0 };
        let late = Faults {
            late_completion: often,
            reordered_completion: often,
            late_release: often,
            delayed_bell: often,
            ..Faults::none()
        };
        let world = World::new(1, late);
        let drivers = arenas.clone().map(|arena| world.driver(arena, tuning));
        Self { drivers, arenas, world }
    }

    fn driver(&mut self, side: Side) -> &mut dyn Driver {
        &mut self.drivers[side as usize]
    }

    fn arena(&self, side: Side) -> &Arena {
        &self.arenas[side as usize]
    }

    fn address(&self, _side: Side) -> SocketAddr {
        "127.0.0.1:0".parse().unwrap()
    }

    fn address_v6(&self, _side: Side) -> SocketAddr {
        "[::1]:0".parse().unwrap()
    }

    fn other_address(&self) -> SocketAddr {
        "127.0.0.2:0".parse().unwrap()
    }

    fn path(&self, name: &str) -> PathBuf {
        Path::new("/").join(name)
    }

    fn make_directory(&self, name: &str) {
        self.world.make_directory(self.path(name));
    }

    fn make_link(&self, name: &str, to: &Path) {
        self.world.make_link(self.path(name), to, false);
    }

    fn rename(&self, from: &str, to: &str) {
        self.world.rename(self.path(from), self.path(to));
    }

    fn make_forbidden(&mut self, name: &str) {
        self.world.write_file(self.path(name), b"secret");
        self.world.forbid(self.path(name), true);
    }

    fn break_disk(&mut self, is_broken: bool) {
        self.world.break_disk(is_broken);
    }

    fn magic_link(&self) -> (PathBuf, &'static str) {
        self.world.write_file("/program", b"its bytes");
        self.world.make_link("/proc/self/exe", "/program", true);
        ("/proc/self".into(), "exe")
    }

    fn user(&self) -> u32 {
        1000
    }

    /// Nothing is made before its drivers, which take a stale name themselves.
    fn take(&mut self, _side: Side, _name: &Unix) {}

    fn remove(&mut self, _name: &Unix) {}

    fn ports(&mut self, memory: [FrameMemory; 2], mtu: usize) -> Result<[Box<dyn Port>; 2], String> {
        let cards = [(); 2].map(|()| self.world.interface(CardSetup { frame_bytes_max: mtu + 14, ..CardSetup::default() }));
        self.world.join(&[&cards[0], &cards[1]]);
        let [server, client] = memory;
        // No fewer than the longest packet takes.
        let ring = if mtu > 1500 { 32 } else { 16 };
        let open = |side: Side, memory| {
            let (index, lane) = (side as usize, self.drivers[side as usize].lane());
            Box::new(SimPort::open(&cards[index], 0, lane, memory, ring).unwrap())
        };
        Ok([open(Side::Server, server), open(Side::Client, client)])
    }

    /// A collect of this driver never blocks, so the time for which both were allowed to wait passes here.
    fn pass(&mut self) {
        self.world.pass(Duration::from_micros(400));
    }
}
