//! The driver again, simulated from one seed: a virtual clock, a network of hosts, a model file system, and faults.
//!
//! A [`World`] holds everything; [`World::driver`] makes the [`SimDriver`] of a lane, which implements
//! [`Driver`](corelane_seam::Driver) in full. All lanes of a world run in one thread, and everything that happens follows
//! from the seed and from what the lanes and the test do: the same seed gives the same [`World::log`].
//!
//! # How it is built
//!
//! Each line uses those above it alone:
//!
//! | what | where |
//! | --- | --- |
//! | what things are: the network, wires, files, and what a lane has | `net`, `wire`, `files`, `lane`; the books in `check`, the log, the clock |
//! | all of them together with chance, what may happen, and the ways to a lane and to a peer | `state` |
//! | what happens in the network and at interfaces | `traffic`, `ports` |
//! | what lanes and the test do there | `driver`, `peers` |
//! | who runs next, and what happens when | `world` |
//! | ports around any ports, for tests: they count, fail on purpose, capture | `wrapped`, `capture` |
//!
//! # Writing a test
//!
//! 1. Make a world with a seed and [`Faults`], a driver for each lane, and clients with [`World::connect`] or
//!    [`World::bind`]; [`World::named`] tells the address that stands for a Unix name there.
//! 2. Call [`World::step`] in a loop and do what it says: let that lane make one turn (which calls `collect` once), or
//!    react to the news of a client. A lane that wants to sleep simply returns from its turn; the world does not name it
//!    again before it has a reason to wake, and moves the clock when nobody has one.
//! 3. When `step` returns `None`, nobody has anything left to do. If the test is not done by then, a wake-up was lost.
//! 4. Close everything and ask [`World::check`] whether the contract was kept: it sees lost and double completions, memory
//!    that leaks or changes, lost bells and bytes. What the bytes should have been is for the test to know.
//!
//! A test that passes shows something only if it fails on a broken driver: [`World::plant`] breaks it.
//!
//! ```
//! use corelane_seam::{Arena, Driver, Handle, Listen, Op, Outcome, StreamOp, StreamOutcome, Tuning, Wait};
//! use corelane_sim::{Faults, Turn, World};
//!
//! let world = World::new(1, Faults::none());
//! let mut driver = world.driver(Arena::new(4 << 20)?, Tuning::default());
//! let address: std::net::SocketAddr = "10.0.0.1:7".parse()?;
//! let listener = driver.listen(&Listen { address: address.into(), backlog: 8, share_port: true, v6_only: false, stream: Default::default() })?;
//! driver.push(Handle::new(0, 0, 0), Op::Stream(StreamOp::Accept { listener }));
//! let client = world.connect("192.0.2.1:0".parse()?, address)?;
//! client.send(b"ignored: it is not open yet");
//!
//! let mut completions = Vec::new();
//! while let Some(turn) = world.step() {
//!     match turn {
//!         Turn::Lane(_) => driver.collect(Wait::Forever, 64, &mut completions),
//!         Turn::Peer(peer) => drop(peer.send(b"hello")),
//!         other => panic!("nobody asked for {other:?}"),
//!     }
//! }
//! // The lane has accepted, the client has sent, and now everybody waits for everybody.
//! let Outcome::Stream(StreamOutcome::Accepted { socket, .. }) = completions.remove(0).outcome else { panic!() };
//! assert_eq!(driver.readable_bytes(socket), 5);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod capture;
mod check;
mod clock;
mod disk;
mod driver;
mod faults;
mod files;
mod kind;
mod lane;
mod log;
mod net;
mod passing;
mod paths;
mod peers;
mod ports;
mod seeds;
mod state;
mod traffic;
mod wire;
mod world;
mod wrapped;

pub use capture::{CAPTURE_BYTES_MAX, Capture, CapturedPort};
pub use check::Violation;
pub use corelane_seam::Random;
pub use driver::SimDriver;
pub use faults::{FaultCounts, FaultKind, Faults, Planted};
pub use net::peers::Status;
pub use peers::{DatagramPeer, Peer};
pub use ports::{Interface, SimPort};
pub use seeds::{for_seeds, seeds};
pub use state::World;
pub use wire::{CardSetup, WireCounts, WireFaults};
pub use world::{Host, Report, Turn};
pub use wrapped::{CountedPort, DELAYED_MAX, FaultyPort, PortCounts, PortFaultCounts, PortFaults};
