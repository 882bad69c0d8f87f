//! How the world outside of the lanes speaks to a program of lanes that runs.

use crate::error::Error;
use crate::lanes::builder::Served;
use crate::lanes::ended::{Ended, Ends};
use corelane_lane::{Control, Order};
use corelane_svc::{Exchange, Remote, Talk};
use std::sync::Arc;

/// Speaks to a program of lanes from any thread, and from any runtime's tasks. Clones speak to the same; it may outlive the lanes, and then
/// says so.
#[derive(Clone)]
pub struct Outside {
    control: Arc<Control>,
    exchange: Exchange,
    ends: Arc<Ends>,
    /// The services by number: name, and how many questions from outside may wait on a lane.
    services: Arc<[(String, u32)]>,
}

impl Outside {
    pub(crate) fn new(control: &Arc<Control>, exchange: &Exchange, ends: &Arc<Ends>, served: &[Served]) -> Self {
        let services = served.iter().map(|served| (served.name.clone(), served.limits.asks_max)).collect();
        Self { control: control.clone(), exchange: exchange.clone(), ends: ends.clone(), services }
    }

    /// Has the lanes refuse new connections, answer what was asked, and end.
    pub fn drain(&self) {
        self.control.give(Order::Drain);
    }

    /// Has the lanes end at once.
    pub fn stop(&self) {
        self.control.give(Order::Stop);
    }

    /// The end of the lanes, to be awaited or waited for.
    pub fn ended(&self) -> Ended {
        Ended::of(&self.ends)
    }

    /// Speaks to the service of this name ([`Lanes::named`](crate::Lanes::named), else its type's name), which talks in `T`.
    ///
    /// # Errors
    /// [`Error::Setting`] if there is no such service, or it does not talk so.
    pub fn service<T: Talk>(&self, name: &str) -> Result<Remote<T>, Error> {
        let mut named = self.services.iter().zip(0..).filter(|((known, _), _)| known == name);
        named.find_map(|((_, asks_max), number)| self.exchange.remote(number, *asks_max)).ok_or_else(|| {
            let names: Vec<&str> = self.services.iter().map(|(name, _)| name.as_str()).collect();
            let talk = std::any::type_name::<T>();
            Error::Setting { name: "services", why: format!("{name:?} does not talk as {talk}; there are {}", names.join(", ")) }
        })
    }
}
