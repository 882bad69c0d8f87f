//! No process takes over from another.

use super::lacking;
use crate::error::Error;
use crate::lanes::builder::Lanes;
use crate::lanes::ending::Lives;
use crate::lanes::keepsake::Keepsake;
use crate::lanes::others::Others;
use crate::lanes::place::{Names, Place};
use corelane_os::named::NamedSocket;
use corelane_rss::Transport;
use corelane_seam::{Address, Unix};
use corelane_steer::{Handed, Steered};
use std::io;
#[cfg(feature = "control")]
use std::io::Write;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
#[cfg(feature = "control")]
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

pub(crate) enum Taken {}

impl Taken {
    pub(crate) fn from(_: &Path) -> Result<Self, Error> {
        Err(lacking("take-over", "take-over"))
    }

    pub(crate) fn process(&self) -> u32 {
        match *self {}
    }

    pub(crate) fn fit(&self, _: &Lanes) -> Result<Lanes, Error> {
        match *self {}
    }

    pub(crate) fn has(&self, _: Transport, _: &Address) -> bool {
        match *self {}
    }

    pub(crate) fn has_shared(&self, _: Transport, _: &Address) -> bool {
        match *self {}
    }

    pub(crate) fn shared(&mut self, _: Transport, _: &Address) -> Option<(NamedSocket, bool)> {
        match *self {}
    }

    pub(crate) fn take_steering(&mut self) -> Option<Handed> {
        match *self {}
    }

    pub(crate) fn numbers(&self) -> Vec<(usize, Address, i32)> {
        match *self {}
    }

    pub(crate) fn take_listeners(&mut self) -> Vec<(SocketAddr, OwnedFd)> {
        match *self {}
    }

    pub(crate) fn decide<E: From<Error>>(&self, _: impl FnOnce() -> Result<(), E>) -> Result<(), E> {
        match *self {}
    }

    pub(crate) fn own(&mut self, _: &Names, _: &[Unix]) {
        match *self {}
    }
}

pub(crate) struct Giver;

/// The answer to a process that asks to take over: a message of `take_over::message`.
#[cfg(feature = "control")]
const REFUSED: &str = r#"{"descriptors":0,"message":"refused","why":"the running program was built without the feature \"take-over\" of corelane: restart without --take-over"}"#;

impl Giver {
    pub(crate) fn new(
        _: Arc<Steered>,
        _: Vec<Place>,
        _: (Names, Others),
        _: Vec<Keepsake>,
        _: Arc<Passage>,
        _: Lives,
        _: (&Path, Duration),
    ) -> Self {
        Self
    }

    #[cfg(feature = "control")]
    pub(crate) fn unless_giving(&self, _: bool, answer: impl FnOnce() -> Result<String, String>) -> Result<String, String> {
        answer()
    }

    #[cfg(feature = "control")]
    pub(crate) fn serve(&self, mut stream: &UnixStream, _: &str) {
        // Whom this is for may be who has gone.
        let _ = stream.write_all(format!("{REFUSED}\n").as_bytes());
    }
}

pub(crate) struct Passage;

impl Passage {
    pub(crate) fn new() -> io::Result<Arc<Self>> {
        Ok(Arc::new(Self))
    }
}
