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

#[derive(Clone)]
pub(crate) enum PacketPort {}

impl PacketPort {
    pub(crate) fn interface(&self) -> &str {
        match *self {}
    }

    pub(crate) fn has(&self, _: IpAddr) -> bool {
        match *self {}
    }

    pub(crate) fn channels(&self) -> Option<&Path> {
        match *self {}
    }

    pub(crate) fn addresses(&self) -> Empty<IpAddr> {
        match *self {}
    }
}

pub(crate) fn refuse_shared_addresses(port: &PacketPort) -> Result<(), Error> {
    match *port {}
}

pub(crate) fn refuse_lanes_without_queue(port: &PacketPort, _: usize) -> Result<(), Error> {
    match *port {}
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
    pub(crate) fn offer(&self, _: &PacketPort) -> Result<Option<Box<dyn Any + Send>>, Error> {
        match *self {}
    }

    #[cfg(feature = "control")]
    pub(crate) fn follow(&self, _: &Table) {
        match *self {}
    }
}

pub(crate) type OpenedPort = (Vec<LaneFrames>, Placing, Vec<Record>);

pub(crate) fn open(
    port: &PacketPort,
    _: &Arc<Control>,
    _: &Steering,
    _: usize,
    _: (DriverKind, u8),
) -> Result<OpenedPort, Error> {
    match *port {}
}
