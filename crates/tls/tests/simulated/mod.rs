//! TLS on simulated lanes, both ends: real lanes, real rustls, a simulated network, clock and faults.
//!
//! Each run is made from one seed, so a failure names the seed that shows it again (`CORELANE_SEED=n`). Nothing of a run depends on this day or on this machine's
//! randomness: the day is the simulation's, the provider's randomness is the seed's, and what ring draws by itself (keys that are exchanged) has
//! one length, as signatures by Ed25519 have.

mod calls;
mod halves;
mod hostile;
mod identity;
mod paces;
mod provider;
mod sessions;

use corelane::testing as rig;
use corelane::testing::for_seeds;
