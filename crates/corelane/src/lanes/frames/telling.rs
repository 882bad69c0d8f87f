//! News for all lanes: another table, another policy, channels of other processes.

use super::channels;
use super::insisting::Insisting;
use super::wires::Wires;
use crate::admin::gateway::InForce;
use crate::error::Error;
use corelane_isr::polling;
use corelane_lane::{Silence, Tell, Unheard};
use corelane_rss::Table;
use corelane_select::QueueSelector;
use corelane_stack::Policy;
use corelane_xdp::FastPath;
use std::any::Any;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Brings packets to the lanes of their buckets, and is told of another table.
pub(crate) struct Placing {
    /// The packet path of each lane.
    pub(super) tell: Tell<Policy>,
    pub(super) tables: Insisting,
    pub(crate) lanes: usize,
    /// The kernel's, where it chooses among queues of taps by our table.
    pub(super) selectors: Vec<QueueSelector>,
    /// The settings of polling that all lanes were told; none where they do not poll.
    pub(crate) polling: Option<Mutex<polling::Settings>>,
    /// The programs of a gateway's ports, where they forward by themselves.
    pub(crate) fast: Option<Arc<FastPath>>,
}

impl Placing {
    /// Of no lane.
    #[cfg(test)]
    pub(crate) fn of_nobody() -> Self {
        let tell = corelane_lane::Control::new(0).words().0;
        Self { tables: Insisting::new(tell.clone(), 0), tell, lanes: 0, selectors: Vec::new(), polling: None, fast: None }
    }

    /// Offers packets to other processes, if a port says where; what is returned is kept as long as the lanes run.
    pub(crate) fn offer(&self, wires: &Wires) -> Result<Option<Box<dyn Any + Send>>, Error> {
        let Some(path) = wires.channels() else { return Ok(None) };
        let offers = channels::offer(path, self.tell.clone(), self.lanes);
        let refused = |error| Error::Setting { name: "packet", why: format!("channels={}: {error}", path.display()) };
        offers.map(|offers| Some(Box::new(offers) as Box<dyn Any + Send>)).map_err(refused)
    }

    /// Puts another table in force.
    pub(crate) fn follow(&self, table: &Table) {
        // The lanes bring packets of the old table where the new one says. A packet that waits at a tap's old queue just now may be overtaken there by what
        // comes to its new one, as on a card whose table is rewritten.
        self.selectors.iter().for_each(|selector| drop(selector.rewrite(table)));
        (0..self.lanes).for_each(|lane| self.tables.order(lane, Policy::Table(table.clone())));
    }
}

/// How long lanes may take to put a change in force: each does it in its next turn.
const PATIENCE: Duration = Duration::from_secs(10);

impl Placing {
    /// Changes what packets may take of the lanes' time; what is refused is the same on all lanes.
    pub(crate) fn change_settings(&self, settings: &Mutex<polling::Settings>, change: polling::Change) -> Result<String, String> {
        // A thread that panicked with it has changed nothing.
        let mut settings = settings.lock().unwrap_or_else(PoisonError::into_inner);
        let mut changed = *settings;
        changed.change(change).map_err(|why| why.to_string())?;
        // Also where not all lanes have heard it yet: the next change is one of this.
        *settings = changed;
        self.tell_all(&Policy::Polling(changed))
    }

    /// Has all lanes do these one after the other, and waits until they are in force and the page says so. If one of them has no room for more, none is told anything; once they
    /// are told, none can miss a part.
    pub(crate) fn tell_all_or_none(&self, orders: &[Policy]) -> Result<InForce, String> {
        match self.begin_all_or_none(orders)?.recv_timeout(PATIENCE) {
            Err(RecvTimeoutError::Timeout) => Ok(InForce::Soon),
            // Nobody says anything: all have dropped the note.
            _ => Ok(InForce::Now),
        }
    }

    /// The same without a wait: whoever wants to know when it is in force waits until nobody is left who could say something.
    pub(crate) fn begin_all_or_none(&self, orders: &[Policy]) -> Result<Receiver<()>, String> {
        if let Some(lane) = (0..self.lanes).find(|lane| self.tables.owes(*lane) || !self.tell.has_room(*lane)) {
            return Err(format!("lane {lane} has not taken what it was told before, so nothing is changed: ask again"));
        }
        let (note, heard) = mpsc::channel::<()>();
        let note: Arc<dyn Any + Send + Sync> = Arc::new(note);
        for lane in 0..self.lanes {
            orders.iter().for_each(|order| self.tables.order(lane, order.clone()));
            self.tables.order(lane, Policy::Noted(note.clone()));
        }
        Ok(heard)
    }

    /// Tells all lanes, and waits until it is in force and the page says so.
    pub(crate) fn tell_all(&self, policy: &Policy) -> Result<String, String> {
        let (note, heard) = mpsc::channel::<()>();
        let note: Arc<dyn Any + Send + Sync> = Arc::new(note);
        for lane in 0..self.lanes {
            let told = self.tell.tell(lane, policy.clone()).and_then(|()| self.tell.tell(lane, Policy::Noted(note.clone())));
            match told {
                // A lane that has ended has no packets.
                Err(Unheard { why: Silence::Gone, .. }) | Ok(()) => {}
                Err(Unheard { why: Silence::Full, .. }) => {
                    return Err(format!(
                        "lane {lane} has not taken what it was told before; lanes below it have this change: ask again"
                    ));
                }
            }
        }
        drop(note);
        match heard.recv_timeout(PATIENCE) {
            Err(RecvTimeoutError::Timeout) => {
                Err("a lane has not taken the change yet, and will when its turn ends: `corelane stat` shows which".to_owned())
            }
            // Nobody says anything: all have dropped the note.
            _ => Ok(format!("{} lanes", self.lanes)),
        }
    }
}
