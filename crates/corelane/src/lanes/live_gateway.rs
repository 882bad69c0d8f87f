//! A gateway that runs, as others ask it and tell it: by requests at the control socket, and by a file that is read again. Without the feature `packets`,
//! `without::live_gateway` stands in its place.

pub(crate) use crate::admin::gateway::Ruling;
use crate::admin::gateway::{Offloaded, Shown};
use crate::error::Error;
use crate::lanes::builder::Lanes;
use crate::lanes::following::Following;
use crate::lanes::frames::{Gateway, Glances, Placing, Wires};
use crate::lanes::read_file::ReadFile;
use corelane_os::aside::Aside;
use corelane_stack::Route;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// Speaks to a gateway from other threads.
#[derive(Clone)]
pub struct LiveGateway {
    ruling: Arc<Ruling>,
    lanes: Arc<Placing>,
    /// As it was started: what does not change while it runs.
    began: Arc<Gateway>,
    /// The files of which it was made, as they were read last.
    files: Arc<Mutex<Vec<ReadFile>>>,
    glances: Arc<Glances>,
    /// Where its changes are prepared.
    aside: Aside,
    /// The thread that follows a table of the kernel's; it ends with the last of these.
    _following: Option<Arc<Following>>,
}

/// The owner of a gateway's rules, before its lanes are started; none where there is no gateway.
///
/// # Errors
/// [`Error::Setting`]: more interfaces than rules can name.
pub(crate) fn ruling(wires: &Wires) -> Result<Option<Arc<Ruling>>, Error> {
    let refused = |why: corelane_rules::Error| Error::Setting { name: "gateway", why: why.to_string() };
    let made = wires.gateway().map(|gateway| {
        Ruling::new(gateway.rules.clone(), gateway.execution, wires.interfaces(), gateway.routes.clone()).map(Arc::new)
    });
    made.transpose().map_err(refused)
}

impl LiveGateway {
    /// Of lanes that run; its changes are prepared aside.
    pub(crate) fn new(lanes: &Lanes, ruling: Option<Arc<Ruling>>, placing: Option<&Arc<Placing>>, aside: Aside) -> Option<Self> {
        let began = Arc::new(lanes.wires.gateway()?.clone());
        let (ruling, placing) = (ruling?, placing?.clone());
        if let Some(fast) = &placing.fast {
            ruling.offload(Box::new(Offloaded::new(fast.clone(), lanes.wires.addresses().collect())));
        }
        let following =
            began.follow.map(|table| Arc::new(Following::start(table, ruling.clone(), placing.clone(), aside.clone())));
        Some(Self {
            ruling,
            lanes: placing,
            _following: following,
            began,
            files: Arc::new(Mutex::new(lanes.files.clone())),
            glances: Arc::default(),
            aside,
        })
    }

    /// The file for what is counted over time, as it was at the start.
    #[must_use]
    pub fn graphs(&self) -> Option<&Path> {
        self.began.graphs.as_deref()
    }

    /// Whether its ports' programs forward by themselves, where they can carry out the rules.
    #[must_use]
    pub fn offloads(&self) -> bool {
        self.lanes.fast.is_some()
    }

    /// Carries out a request.
    ///
    /// # Errors
    /// What is wrong with it, and the remedy.
    pub(crate) fn answer(&self, request: &str) -> Result<String, String> {
        self.aside.run(|| self.ruling.answer(request, &*self.lanes))
    }

    /// All that packets meet at it just now, for those who watch: interfaces and rules up to [`SHOWN_MAX`](crate::admin::gateway::SHOWN_MAX), without times of last matches. Nobody is
    /// waited for: there is nothing while a change is under way, or while a lane hangs.
    #[must_use]
    pub fn shown(&self) -> Option<Shown> {
        self.ruling.shown(|rules| self.glances.take(&self.lanes, rules))
    }

    /// Puts into force what lanes say that were read anew: rules with their tables, and routes. Nothing happens where their files are as they were. Returns what became of it, in
    /// words: what else differs counts from the next start on.
    ///
    /// # Errors
    /// [`Error::Setting`]: routes that the running ports cannot have; then nothing has changed.
    pub fn follow(&self, anew: &Lanes) -> Result<Vec<String>, Error> {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(gateway) = anew.wires.gateway().filter(|_| *files != anew.files) else { return Ok(Vec::new()) };
        let routes = gateway.routes.iter().map(|route| self.own(gateway, route)).collect::<Result<Vec<_>, _>>()?;
        let after = Gateway { routes: routes.clone(), ..(*self.began).clone() };
        after.check().map_err(|why| refused(&why.to_string()))?;
        let replace = || self.ruling.replace(gateway.rules.clone(), routes, &*self.lanes);
        self.aside.run(replace).map_err(|why| refused(&why))?;
        files.clone_from(&anew.files);
        let mut words = vec!["the gateway has the rules, tables and routes of its file; those of commands are gone".to_owned()];
        words.extend(gateway.limits_of_each_lane(self.lanes.lanes));
        words.extend(self.waiting(gateway).map(|what| format!("{what} of the gateway's file count from the next start on")));
        Ok(words)
    }

    /// Parts that differ and cannot change.
    fn waiting(&self, gateway: &Gateway) -> impl Iterator<Item = &'static str> {
        let began = &self.began;
        let differs = [
            (began.ports != gateway.ports, "ports and networks"),
            (began.follow != gateway.follow, "changes of the table that is followed"),
            (began.nat != gateway.nat, "translations (nat)"),
            (began.polling != gateway.polling, "knobs of polling"),
            (began.graphs != gateway.graphs, "the file for graphs"),
            (began.execution != gateway.execution, "changes of the rules' execution"),
            (began.offloads != gateway.offloads, "changes of offload"),
        ];
        differs.into_iter().filter_map(|(differs, what)| differs.then_some(what))
    }

    /// A route, by the number that its interface has here.
    fn own(&self, gateway: &Gateway, route: &Route) -> Result<Route, Error> {
        let Some(number) = route.interface else { return Ok(*route) };
        let name = gateway.interfaces().nth(number).map_or("", |one| &one.name);
        let interface = self.began.interface(name).ok_or_else(|| {
            refused(&format!(
                "a route goes by {name}, which is new and counts from the next start on: leave the route out until then"
            ))
        })?;
        Ok(Route { interface: Some(interface), ..*route })
    }
}

fn refused(why: &str) -> Error {
    Error::Setting { name: "gateway", why: why.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin::gateway::{Beside, FastPath, InterfaceRow, Passed};
    use corelane_os::runner::thread_id;
    use corelane_os::scheduling::{Scheduling, cpus_of};
    use corelane_rules::{Count, Execution, Limits, RuleId, RuleSet, Rules};

    /// The CPUs of a thread, and its rank.
    type Standing = (Vec<usize>, Option<u32>);

    /// Those of each thread that has other rules put in force.
    #[derive(Clone, Default)]
    struct Seen(Arc<Mutex<Vec<Standing>>>);

    impl Beside for Seen {
        fn counts(&self, _: &[RuleId]) -> Vec<Count> {
            Vec::new()
        }

        fn add_traffic(&self, _: usize, _: &mut InterfaceRow) -> Passed {
            Passed::default()
        }

        fn zero(&mut self, _: &[RuleId]) {}

        fn follow(&mut self, _: &RuleSet) {
            let own = (cpus_of(thread_id()).unwrap(), Scheduling::of(thread_id()).unwrap().weight());
            self.0.lock().unwrap().push(own);
        }

        fn state(&self, _: Passed) -> FastPath {
            unreachable!("nobody asks for it")
        }
    }

    /// A gateway without lanes, whose changes are prepared as beside lanes on these CPUs.
    fn gateway(lanes: &[usize]) -> (LiveGateway, Seen) {
        let rules = Rules::new(true, Limits::default());
        let ruling = Ruling::new(rules, Execution::Tree, Vec::new(), Vec::new()).unwrap();
        let seen = Seen::default();
        ruling.offload(Box::new(seen.clone()));
        let gateway = LiveGateway {
            ruling: Arc::new(ruling),
            lanes: Arc::new(Placing::of_nobody()),
            began: Arc::new(Gateway::of(Vec::new())),
            files: Arc::default(),
            glances: Arc::default(),
            aside: Aside::of(lanes.iter().copied()),
            _following: None,
        };
        seen.0.lock().unwrap().clear();
        (gateway, seen)
    }

    /// The compilation of rules, and loading programs of them, take milliseconds: on a lane's CPU its ring would be full by then.
    #[test]
    fn a_change_is_prepared_where_no_lane_runs_and_behind_lanes() {
        let cpus = cpus_of(thread_id()).unwrap();
        for (lanes, expected) in [(&cpus[1..], (cpus[..1].to_vec(), Some(110))), (&cpus[..], (cpus.clone(), Some(110)))] {
            let (gateway, seen) = gateway(lanes);
            gateway.answer(r#"gateway {"change":{"commands":["add count ip from any to any"]}}"#).unwrap();
            assert_eq!(*seen.0.lock().unwrap(), std::slice::from_ref(&expected), "lanes on {lanes:?} of {cpus:?}");
        }
    }
}
