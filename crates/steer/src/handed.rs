//! Steering that goes over from one process to the next, as it is in force: nothing is loaded or attached anew, so nothing changes in the kernel, and
//! whoever dies in the middle leaves nothing to be mended.
//!
//! ```text
//! old: Steered::{in_force, hasher, table, maps, groups} + show(each lane's sockets)      new: Steered::inherit(Handed)
//! new: ready                                                                             old: Steered::hand_over(): lanes leave their sockets behind
//! ```

use crate::attach::Attached;
use crate::error::Error;
use crate::in_force::InForce;
use crate::server::Server;
use crate::steered::Steered;
use corelane_lane::Tell;
use corelane_rss::{FlowHasher, Table};
use corelane_select::{HandedMaps, HandedProgram, Means, Selector};
use corelane_svc::{Command, Steer, TransportAddress, Visit};
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// How another process steers, and what it does that by.
#[derive(Debug)]
pub struct Handed {
    /// What chooses its lanes.
    pub in_force: InForce,
    /// How it tells flows apart.
    pub hasher: FlowHasher,
    /// The table in force.
    pub table: Table,
    /// Its lanes.
    pub lanes: usize,
    /// With a program, its maps.
    pub maps: Option<HandedMaps>,
    /// The sockets of its places, where a program chooses among them.
    pub groups: Vec<HandedGroup>,
}

/// The sockets of one place of another process.
#[derive(Debug)]
pub struct HandedGroup {
    /// The place.
    pub at: TransportAddress,
    /// Its sockets in the kernel's order, each with its lane and cookie.
    pub members: Vec<(usize, u64)>,
    /// Its program, unless it is of the classic kind.
    pub program: Option<HandedProgram>,
}

/// The sockets of one place of this process, to be handed over.
#[derive(Debug)]
pub struct GroupShown<'a> {
    /// The place.
    pub at: TransportAddress,
    /// Its sockets in the kernel's order, each with its lane and cookie.
    pub members: Vec<(usize, u64)>,
    /// Its program and the map of its sockets, unless it is of the classic kind.
    pub program: Option<[BorrowedFd<'a>; 2]>,
}

impl Steered {
    /// Steers on as another process does, with its lanes, table and key. As [`Steered::new`], to be called before the first lane is made.
    ///
    /// # Errors
    /// [`Error::Refused`] for what cannot be what such a process hands over; those of [`Steered::new`] for places that it had not.
    #[doc(hidden)] // Whoever runs lanes calls it, and no program.
    pub fn inherit(handed: Handed, server: &Server, tell: Tell<Steer>) -> Result<Arc<Self>, Error> {
        let Handed { in_force, hasher, table, lanes, maps, groups } = handed;
        assert!(lanes == server.lanes, "lanes are handed over one by one");
        let means = match in_force {
            InForce::Program => Some(Means::Program),
            InForce::Classic => Some(Means::Classic),
            InForce::Nothing | InForce::Frames | InForce::Kernel => None,
        };
        let attached = match means {
            Some(means) => {
                let selector = Selector::inherit(&hasher, &table, lanes, maps)?;
                if selector.means() != means {
                    return Err(Error::NotSteered { in_force });
                }
                Some(attached(selector, server, groups)?)
            }
            None => None,
        };
        Ok(Self::in_force_already(attached, hasher, table, (in_force, lanes), tell))
    }

    /// Its maps; none unless a program with maps chooses.
    #[doc(hidden)] // Whoever runs lanes calls it, and no program.
    pub fn maps(&self) -> Option<[BorrowedFd<'_>; 2]> {
        self.attached.as_ref()?.selector.maps()
    }

    /// Its places where a program chooses among sockets.
    #[doc(hidden)] // Whoever runs lanes calls it, and no program.
    pub fn groups(&self) -> Vec<GroupShown<'_>> {
        let groups = self.attached.iter().flat_map(|attached| &attached.groups);
        groups.map(|(at, group)| GroupShown { at: *at, members: group.members(), program: group.program() }).collect()
    }

    /// Has a lane show the sockets at which it is served and flows come; returns when it has.
    ///
    /// # Errors
    /// [`Error::LaneSilent`], [`Error::LaneEnded`]; [`Error::Lane`] with what `visit` says.
    #[doc(hidden)] // Whoever runs lanes calls it, and no program.
    pub fn show(&self, lane: usize, visit: Visit) -> Result<(), Error> {
        let visit = std::cell::Cell::new(Some(visit));
        // reason: one lane is told once.
        self.tell.all(&[lane], || Command::Show(visit.take().expect("a lane is told once")))
    }

    /// Has all lanes leave their sockets behind, for the process that goes on with them; returns when they have. Nothing is steered from here any more.
    ///
    /// # Errors
    /// [`Error::LaneSilent`], [`Error::LaneEnded`], [`Error::Lane`]: of the first of them; the others have left all the same.
    #[doc(hidden)] // Whoever runs lanes calls it, and no program.
    pub fn hand_over(&self) -> Result<(), Error> {
        let all: Vec<usize> = (0..self.present().len()).collect();
        self.tell.all(&all, || Command::HandOver)
    }
}

/// What steers already at the places that were handed over, and what is to at the others.
fn attached(selector: Selector, server: &Server, groups: Vec<HandedGroup>) -> Result<Attached, Error> {
    let mut all = Vec::new();
    for HandedGroup { at, members, program } in groups.into_iter().filter(|group| server.places.contains(&group.at)) {
        all.push((at, selector.inherit_group(at.transport, &members, program)?));
    }
    for place in &server.places {
        if !all.iter().any(|(at, _)| at == place) {
            all.push((*place, selector.group(place.transport)?));
        }
    }
    Ok(Attached { selector, groups: all, takes_over: false })
}
