//! Which means is taken: the best that works here for all places, found out by making what it needs.

use crate::choice::{Settings, Steering};
use crate::error::Error;
use crate::in_force::InForce;
use crate::server::Server;
use corelane_rss::{FlowHasher, Table};
use corelane_select::holders::holders;
use corelane_select::{Group, Means, Selector, probe};
use corelane_svc::TransportAddress;

/// What steers, and what had to be done without.
pub(crate) struct Attachment {
    pub(crate) in_force: InForce,
    pub(crate) attached: Option<Attached>,
    /// Nothing is attached, and what others have attached at our places is to be taken away: it would never choose our sockets.
    pub(crate) detaches: bool,
    /// What was lost, why, and the remedy.
    pub(crate) note: Option<String>,
}

/// Programs ready to be attached.
pub(crate) struct Attached {
    pub(crate) selector: Selector,
    pub(crate) groups: Vec<(TransportAddress, Group)>,
    /// Sockets of another process are at our places, whose part is taken over.
    pub(crate) takes_over: bool,
}

impl Attachment {
    pub(crate) fn new(settings: &Settings, server: &Server, hasher: &FlowHasher, table: &Table) -> Result<Self, Error> {
        let joins = server.joins && server.places.iter().any(is_held);
        if server.places.is_empty() && server.over_frames && server.lanes > 1 {
            return Ok(Self { in_force: InForce::Frames, attached: None, detaches: false, note: None });
        }
        if server.places.is_empty() || (server.lanes == 1 && !joins) {
            return Ok(Self { in_force: InForce::Nothing, attached: None, detaches: false, note: None });
        }
        assert!(server.lanes > 0, "who serves has a lane");
        let attempt = |means| Attached::new(means, server, hasher, table, joins);
        match settings.steering {
            Steering::Kernel => Ok(Self::kernel(joins, None)),
            Steering::Program => Ok(Self::by(Means::Program, attempt(Means::Program)?, None)),
            Steering::Classic => Ok(Self::by(Means::Classic, attempt(Means::Classic)?, None)),
            Steering::Auto => Ok(attempt(Means::Program).map_or_else(
                |lost| Self::without_program(joins, &lost, attempt(Means::Classic)),
                |attached| Self::by(Means::Program, attached, None),
            )),
        }
    }

    fn without_program(joins: bool, lost: &Error, attached: Result<Attached, Error>) -> Self {
        let line = |error: &Error| error.to_string().lines().collect::<Vec<_>>().join(" ");
        match attached {
            Ok(attached) => {
                let note = format!("steering by a classic program, without counts: {}", line(lost));
                Self::by(Means::Classic, attached, Some(note))
            }
            Err(error) => {
                let note = format!("the kernel's own hash chooses lanes: {}; {}", line(&error), line(lost));
                Self::kernel(joins, Some(note))
            }
        }
    }

    fn by(means: Means, attached: Attached, note: Option<String>) -> Self {
        Self { in_force: InForce::of(means), attached: Some(attached), detaches: false, note }
    }

    fn kernel(detaches: bool, note: Option<String>) -> Self {
        Self { in_force: InForce::Kernel, attached: None, detaches, note }
    }
}

impl Attached {
    fn new(means: Means, server: &Server, hasher: &FlowHasher, table: &Table, takes_over: bool) -> Result<Self, Error> {
        if means == Means::Classic {
            // Its answers count from the first socket of the address, and others' are before ours.
            if let Some(place) = server.places.iter().find(|place| takes_over && is_held(place)) {
                let user = holders(place.transport, place.address).unwrap_or_default().first().map_or(0, |holder| holder.user);
                return Err(Error::Refused(corelane_select::Error::GroupShared { address: place.address, user }));
            }
            probe(means)?;
        }
        let selector = Selector::new(means, hasher, table, server.lanes)?;
        let groups = server.places.iter().map(|place| Ok((*place, selector.group(place.transport)?)));
        let groups: Vec<_> = groups.collect::<Result<_, Error>>()?;
        assert!(selector.means() == means && groups.len() == server.places.len(), "each place has its group");
        Ok(Self { selector, groups, takes_over })
    }

    /// The sockets of a place; none if the server did not name it, for what comes there comes as frames.
    pub(crate) fn find(&self, at: TransportAddress) -> Option<&Group> {
        self.groups.iter().find(|(place, _)| *place == at).map(|(_, group)| group)
    }

    /// The sockets of a place, which is one that the server named.
    pub(crate) fn group(&self, at: TransportAddress) -> &Group {
        // reason: only a socket of the kernel's is asked for, and lanes have those at the places that the server named, and at no other.
        self.find(at).expect("a lane's place is one of the server's")
    }
}

/// Whether sockets are at the place already.
fn is_held(place: &TransportAddress) -> bool {
    holders(place.transport, place.address).is_ok_and(|holders| !holders.is_empty())
}
