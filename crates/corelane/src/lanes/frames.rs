//! Lanes that start at the frame: ports for each, and a stack of its own over them. Without the feature `packets`, `without::frames` stands in its place.
//!
//! ```text
//! --packet TEXT --text--> PacketPort --+
//!                                      +--Wires--> settings of each lane's stack --opening--> LaneFrames, one a lane; Placing, which tells all lanes
//! gateway=FILE  --entry-> Gateway -----+
//! ```

mod channels;
mod gateway;
mod insisting;
mod lane;
pub(crate) mod memory;
mod opening;
mod telling;
mod text;
mod wires;

pub(crate) use corelane_stack::Packets;
pub use gateway::{At, Gateway, NoGateway, Port};
pub(crate) use lane::{Homeward, LaneFrames, join};
pub(crate) use opening::{open, refuse_lanes_without_queue, refuse_shared_addresses};
pub(crate) use telling::Placing;
pub use text::PacketPort;
pub(crate) use wires::Wires;
