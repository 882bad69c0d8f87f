//! Services on simulated lanes, from numbered seeds: for tests of your own services. With the feature `testing`, which belongs to a crate's
//! `[dev-dependencies]`: a program without it links nothing of a simulation.
//!
//! Everything is the real thing (lanes, connections, memory, limits, drains) but the operating system, which a [`World`] plays in one thread: a
//! network with latency, clients, a model file system, helper threads, a clock that nobody waits for, and [`Faults`] of many kinds. All that happens
//! follows from a seed, so a failure can be shown again.
//!
//! # A bug, found
//!
//! A service that says of each line how long it is. It takes what has come for whole lines:
//!
//! ```
//! use corelane::testing::{Faults, simulate};
//! use corelane::{Cx, Input, Next, Output, Peer, Silent, StreamService};
//!
//! struct Lengths;
//!
//! impl StreamService for Lengths {
//!     type Talk = Silent;
//!     type Session = ();
//!
//!     fn open(&mut self, _cx: &mut Cx, _peer: &Peer) {}
//!
//!     fn receive(&mut self, _cx: &mut Cx, _session: &mut (), input: &mut Input, output: &mut Output) -> Next {
//!         let bytes = input.len();
//!         let Some(text) = input.contiguous(bytes) else { return Next::Continue };
//!         for line in text.split_inclusive(|&byte| byte == b'\n') {
//!             if writeln!(output, "{}", line.len()).is_err() {
//!                 return Next::Abort;
//!             }
//!         }
//!         input.skip(bytes);
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
//! seed 1: client 1 heard "2\n2\n4\n2\n" where "4\n6\n" was due
//! it takes client 1 alone and these faults in 1,000 opportunities: short_read 75
//! before it, at 1000320061 ns and after 13 turns:
//!     1000243924 lane 0 sent 1/0:0.0
//!     1000243924 lane 0 received 1/0:0.0
//!     1000243924 lane 0 pushes 1/0:0.0
//!     1000243924 lane 0 pushes 1/0:0.0
//!     1000243924 lane 0 turns
//!     1000245423 lane 0 sent 1/0:0.0
//!     1000245423 lane 0 turns
//!     1000245976 lane 0 sleeps
//!     1000320061 stream 4.0 gets 2
//!     1000320061 stream 4.0 gets 4
//!     1000320061 stream 4.0 gets 2
//!     1000320061 peer 0 reads 8
//! CORELANE_SEED=1 shows this again
//! ```
//!
//! The first line says what was wrong. The run has then been played again with fewer clients and faults, as long as it failed: the second line has what
//! is needed. The events are the last before it: time in nanoseconds, where, what. `examples/lengths.rs` has the mended service, which takes a line when
//! its end has come.
//!
//! # What a scene can have
//!
//! * services over connections and datagrams, of several kinds beside each other ([`Scene::serve`], [`Scene::serve_datagrams`]), and clients that run
//!   on lanes themselves ([`Scene::client`]); lanes, memory and limits of your choice, and what else lanes and drivers are set to ([`Scene::settings`],
//!   [`Scene::tuning`]);
//! * transforms, such as TLS, before the connections of a service ([`Scene::serve_behind`]) or of a client on lanes ([`Scene::client_behind`]);
//! * Unix sockets instead of the network ([`Scene::family`]);
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
