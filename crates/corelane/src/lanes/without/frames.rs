//! No lane starts at the frame.

use crate::error::Error;
use crate::lanes::driver::DriverKind;
use corelane_lane::{Control, Mesh, Works};
#[cfg(feature = "control")]
use corelane_rss::Table;
use corelane_seam::parcel::{Parcel, ParcelHome};
use corelane_seam::{Arena, Driver, Record, Tuning};
use corelane_steer::Settings as Steering;
use corelane_watch::PacketsRow;
use std::any::Any;
use std::iter::Empty;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

/// No port of frames.
#[derive(Clone, Default)]
pub(crate) struct Wires(());

impl Wires {
    pub(crate) fn is_empty(&self) -> bool {
        true
    }

    pub(crate) fn devices(&self) -> Empty<&str> {
        std::iter::empty()
    }

    pub(crate) fn device_of(&self, _: IpAddr) -> Option<&str> {
        None
    }

    pub(crate) fn addresses(&self) -> Empty<IpAddr> {
        std::iter::empty()
    }

    pub(crate) fn channels(&self) -> Option<&Path> {
        None
    }

    pub(crate) fn described(&self) -> Vec<String> {
        Vec::new()
    }

    pub(crate) fn check(&self) -> Result<(), Error> {
        Ok(())
    }
}

pub(crate) fn refuse_shared_addresses(_: &Wires) -> Result<(), Error> {
    Ok(())
}

pub(crate) fn refuse_lanes_without_queue(_: &Wires, _: usize) -> Result<(), Error> {
    Ok(())
}

pub(crate) enum LaneFrames {}

pub(crate) enum Packets {}

pub(crate) type Homeward = (ParcelHome, Mesh<Parcel>);

impl LaneFrames {
    pub(crate) fn put_on<D: Driver>(self, _: D, _: &Arena, _: Tuning) -> Result<(D, Packets, Homeward), Error> {
        match self {}
    }
}

pub(crate) fn join(_: Works, packets: Packets, _: PacketsRow) -> Works {
    match packets {}
}

pub(crate) enum Placing {}

impl Placing {
    pub(crate) fn offer(&self, _: &Wires) -> Result<Option<Box<dyn Any + Send>>, Error> {
        match *self {}
    }

    #[cfg(feature = "control")]
    pub(crate) fn follow(&self, _: &Table) {
        match *self {}
    }
}

pub(crate) type OpenedPorts = (Vec<LaneFrames>, Placing, Vec<Record>);

pub(crate) fn open(
    _: (&Wires, Option<Arc<()>>),
    _: &Arc<Control>,
    _: &Steering,
    _: usize,
    _: (DriverKind, u8),
) -> Result<OpenedPorts, Error> {
    unreachable!("there is no port to be opened")
}
