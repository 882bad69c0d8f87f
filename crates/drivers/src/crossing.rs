//! How connections cross from one lane's table of descriptors to another's: as messages to a socket that is in both (SCM_RIGHTS, unix(7)).
//!
//! A number means nothing in another table, so no thread but its own may close what stands there. A berth is a pair of sockets that was made before the tables
//! were: each table has a copy of it under the same number. What lies in a berth is open in no table, and any thread of the program can take it out, or
//! close it.

use crate::errors::Error;
use corelane_os::errno::{fault, of};
use corelane_os::passing;
use corelane_seam::{Fault, Reason};
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Connections that may be between two tables at once: each takes two descriptors of every table. One that finds no berth stays, and may go later.
const BERTHS: usize = 8;

/// The berths of one program, made before its lanes take tables of their own, and kept by their maker until the lanes have ended.
pub struct Crossing {
    berths: [(OwnedFd, OwnedFd); BERTHS],
    free: Mutex<Vec<u8>>,
}

impl Crossing {
    /// For the lanes of a program.
    ///
    /// # Errors
    /// [`Error::Refused`] if the system gives no descriptors (socketpair(2)).
    pub fn shared() -> Result<Arc<Self>, Error> {
        let refused = |error: io::Error| Error::Refused { call: "socketpair", fault: fault(of(&error)) };
        let mut berths = Vec::with_capacity(BERTHS);
        for _ in 0..BERTHS {
            berths.push(passing::pair().map_err(refused)?);
        }
        let free = Mutex::new((0..BERTHS as u8).rev().collect());
        // reason: as many were made just now.
        let berths = berths.try_into().unwrap_or_else(|_| unreachable!("each berth was made"));
        Ok(Arc::new(Self { berths, free }))
    }

    fn free(&self) -> MutexGuard<'_, Vec<u8>> {
        // What a panic left behind is whole: nothing is changed in two steps.
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a copy of a socket into a berth. The caller closes its own.
    ///
    /// # Errors
    /// `Busy` if no berth is free; the system's (sendmsg(2)).
    pub(crate) fn put(self: &Arc<Self>, socket: impl AsFd) -> Result<Berthed, Fault> {
        let berth = self.free().pop().ok_or(Fault::of(Reason::Busy))?;
        // From here on its drop frees the berth.
        let mut berthed = Berthed { crossing: self.clone(), berth, is_full: false };
        let (outside, _) = &self.berths[usize::from(berth)];
        let sent = passing::send(outside.as_fd(), &[0], &[socket.as_fd()]).map_err(|error| fault(of(&error)))?;
        assert!(sent == 1, "an empty berth has room");
        berthed.is_full = true;
        Ok(berthed)
    }
}

/// A socket in a berth. Dropping it closes the socket.
pub(crate) struct Berthed {
    crossing: Arc<Crossing>,
    berth: u8,
    is_full: bool,
}

impl Berthed {
    /// Takes the socket out, into the calling thread's table.
    ///
    /// # Errors
    /// It stays: `NoDescriptor` where that table is full; others of the system's (recvmsg(2)).
    pub(crate) fn take(mut self) -> Result<OwnedFd, (Fault, Self)> {
        // What does not fit into a table is lost as it is received, so whether it fits is found out before: this lane alone opens in its table.
        match self.has_room().and_then(|()| self.empty()) {
            Ok(socket) => Ok(socket),
            Err(fault) => Err((fault, self)),
        }
    }

    fn has_room(&self) -> Result<(), Fault> {
        let (_, inside) = &self.crossing.berths[usize::from(self.berth)];
        inside.try_clone().map(drop).map_err(|error| fault(of(&error)))
    }

    fn empty(&mut self) -> Result<OwnedFd, Fault> {
        let (_, inside) = &self.crossing.berths[usize::from(self.berth)];
        match passing::receive(inside.as_fd(), &mut [0]) {
            Ok((_, mut with)) => {
                self.is_full = false;
                with.pop().ok_or(Fault::of(Reason::NoDescriptor))
            }
            // In a table that others use as well somebody was faster, and the system has closed it.
            Err(error) if error.kind() == ErrorKind::InvalidData => {
                self.is_full = false;
                Err(Fault::of(Reason::NoDescriptor))
            }
            Err(error) => Err(fault(of(&error))),
        }
    }
}

impl Drop for Berthed {
    fn drop(&mut self) {
        if self.is_full {
            // Where the table is full, the system closes what it has no number for: it is closed in any case.
            let _ = self.empty();
        }
        // What could not be taken out stays, and so does its berth: the next one there would be taken for it.
        if !self.is_full {
            self.crossing.free().push(self.berth);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corelane_os::testing::network::alone;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    fn is_closed(peer: &UnixStream) -> bool {
        peer.set_nonblocking(true).unwrap();
        matches!((&mut &*peer).read(&mut [0]), Ok(0))
    }

    #[test]
    fn what_is_put_in_is_taken_out_by_another_table_and_closed_by_any() {
        // No child of this process has a copy of what is closed here.
        let _alone = alone();
        let crossing = Crossing::shared().unwrap();
        let (own, peer) = UnixStream::pair().unwrap();
        let berthed = crossing.put(&own).unwrap();
        drop(own);
        assert!(!is_closed(&peer), "it lies in the berth");
        let peer = std::thread::spawn(move || {
            corelane_os::runner::own_descriptors().unwrap();
            let mut own = UnixStream::from(berthed.take().ok().unwrap());
            own.write_all(b"x").unwrap();
            drop(own);
            peer
        });
        let mut peer = peer.join().unwrap();
        assert_eq!(peer.read(&mut [0; 2]).unwrap(), 1);
        assert!(is_closed(&peer), "no table has it any more");
        let (own, peer) = UnixStream::pair().unwrap();
        let berthed = crossing.put(&own).unwrap();
        drop(own);
        drop(berthed);
        assert!(is_closed(&peer) && crossing.free().len() == BERTHS);
    }

    #[test]
    fn there_are_so_many_berths_and_each_is_free_again() {
        let crossing = Crossing::shared().unwrap();
        let (own, _peer) = UnixStream::pair().unwrap();
        for _ in 0..3 {
            let mut berthed: Vec<_> = (0..BERTHS).map(|_| crossing.put(&own).unwrap()).collect();
            assert_eq!(crossing.put(&own).err(), Some(Fault::of(Reason::Busy)));
            assert!(berthed.pop().unwrap().take().is_ok() && crossing.put(&own).is_ok());
        }
        assert_eq!(crossing.free().len(), BERTHS);
    }
}
