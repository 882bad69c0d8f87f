//! Programs of lanes: what they are to be ([`Lanes`]: services, places, CPUs, driver, bounds), and while they run ([`Running`]).

#[cfg(feature = "control")]
mod asked;
pub(crate) mod beside;
mod bridges;
pub(crate) mod builder;
#[cfg(feature = "packets")]
mod changes;
pub(crate) mod choice;
pub(crate) mod claims;
mod drained;
pub(crate) mod driver;
mod ended;
pub(crate) mod ending;
pub(crate) mod entry;
mod equipped;
#[cfg(feature = "packets")]
mod following;
#[cfg(feature = "packets")]
pub(crate) mod frames;
#[cfg(feature = "packets")]
pub mod gateway;
mod handed;
#[cfg_attr(not(feature = "take-over"), allow(dead_code))] // only who takes over asks for them
mod keepsake;
mod lane_start;
mod listeners;
mod live;
#[cfg(feature = "packets")]
mod live_gateway;
mod live_services;
mod moves;
pub(crate) mod needs;
#[cfg_attr(not(feature = "take-over"), allow(dead_code))] // only who takes over asks for them
mod others;
mod outside;
pub(crate) mod page;
pub(crate) mod pages;
pub(crate) mod place;
pub(crate) mod plan;
mod prepared;
pub(crate) mod read_file;
#[cfg(feature = "packets")]
pub(crate) mod receiving;
mod run;
#[cfg(feature = "profile")]
mod stalls;
mod start;
#[cfg(feature = "take-over")]
mod take_over;
pub(crate) mod unbroken;
#[cfg(feature = "uring")]
mod uring;
mod url;
mod wakes;
mod without;

pub use builder::Lanes;
pub use claims::{can_listen, holder};
pub use corelane_lane::LaneSettings;
pub use corelane_os::aside::Aside;
pub use corelane_os::cpus::parse_list as parse_cpus;
pub use corelane_os::handed::{Handed, take as take_handed};
pub use corelane_os::runner::has_own_descriptors;
pub use corelane_os::signals::Signals;
pub use corelane_rss::Transport;
pub use corelane_seam::Tuning as DriverSettings;
pub use drained::Drained;
pub use driver::{DriverChoice, DriverKind, calls_on_files};
pub use ended::Ended;
#[cfg(feature = "packets")]
pub use frames::PacketPort;
pub use live::LiveLimits;
#[cfg(feature = "packets")]
pub use live_gateway::LiveGateway;
pub use live_services::{Answered, LiveServices};
pub use moves::Moves;
pub use outside::Outside;
pub use place::Place;
pub use plan::lanes_for_this_machine;
#[cfg(feature = "packets")]
pub use receiving::UserFraction;
pub use run::Running;
pub use url::Url;
#[cfg(not(feature = "control"))]
use without::asked;
#[cfg(all(feature = "control", not(feature = "packets")))]
use without::changes;
#[cfg(not(feature = "profile"))]
use without::stalls;
#[cfg(not(feature = "take-over"))]
use without::take_over;
#[cfg(not(feature = "uring"))]
use without::uring;
#[cfg(not(feature = "packets"))]
pub(crate) use without::{frames, live_gateway, receiving};
