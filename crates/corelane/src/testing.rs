//! Services on simulated lanes, from numbered seeds: for tests of your own services. With the feature `testing`, which belongs to a crate's
//! `[dev-dependencies]`: a program without it links nothing of a simulation.
//!
//! Everything is the real thing (lanes, connections, memory, limits, drains) but the operating system, which a [`World`] plays in one thread: a
//! network with latency, clients, a model file system, helper threads, a clock that nobody waits for, and 25 kinds of [`Faults`]. All that happens
//! follows from a seed, so a failure can be shown again.
//!
//! # A bug, found
//!
//! A service that says of each line how long it is. It takes what has come for whole lines:
//!
//! ```
//! use corelane::testing::{Faults, simulate};
//! use corelane::{Cx, Input, Next, Output, Peer, StreamService};
//!
//! struct Lengths;
//!
//! impl StreamService for Lengths {
//!     type Session = ();
//!
//!     fn open(&mut self, _cx: &mut Cx, _peer: &Peer) {}
//!
//!     fn receive(&mut self, _cx: &mut Cx, _session: &mut (), input: &mut Input, output: &mut Output) -> Next {
//!         let text = input.take_all().to_vec();
//!         for line in text.split_inclusive(|&byte| byte == b'\n') {
//!             output.write(format!("{}\n", line.len()).as_bytes());
//!         }
//!         Next::Continue
//!     }
//! }
//!
//! let failure = simulate(100, Faults::all, |scene| {
//!     scene.serve(7, |_lane| Lengths);
//!     for _ in 0..5 {
//!         scene.connect(7).say("one\nthree\n").hear("4\n6\n");
//!     }
//! });
//! println!("{}", failure.unwrap_err());
//! ```
//!
//! Over a network a line may come in pieces. This is printed:
//!
//! ```text
//! ```
//!
//! The first line says what was wrong. The run has then been played again with fewer faults and one client, and still fails. The events are the last
//! before it did: time in nanoseconds, where, what. `examples/lengths.rs` has the mended service; it takes a line when its end has come.
//!
//! # What a scene can have
//!
//! * services over connections and datagrams, of several kinds beside each other ([`Scene::serve`], [`Scene::serve_datagrams`]), and clients that run
//!   on lanes themselves ([`Scene::client`]); lanes, memory and limits of your choice;
//! * clients over connections that speak in pieces, hear, pause, read slowly, finish, leave or break off ([`Script`]), and clients over datagrams that
//!   ask again ([`Questions`]);
//! * faults: all of them as a seed mixes them ([`Faults::all`]), or some by name and strength (`Faults { short_read: 100, ..Faults::none() }`);
//! * a drain while clients are at work ([`Scene::drain_after`]), files ([`World::write_file`]), and a look at counters and files when all is over
//!   ([`Scene::check`]).
//!
//! [`simulate`] says what is checked in every run. How many runs there are, and which, the environment can say: `CORELANE_SEED=n` plays one,
//! `CORELANE_SEEDS=n` those below n ([`seeds`]).
//!
//! # Playing by hand
//!
//! Where a script is not enough, a [`Rig`] lets a test step the world, play peers ([`World::connect`], [`World::listen`], [`World::bind`]) and read every
//! counter; [`for_seeds`] runs it for each seed.
pub use corelane_testing::*;
