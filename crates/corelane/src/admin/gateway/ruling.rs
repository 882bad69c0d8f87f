//! The owner of a gateway's rules and routes, on the side of control.

use crate::lanes::frames::Placing;
use corelane_rules::{Error, Execution, RuleSet, Rules};
use corelane_stack::Route;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What a gateway's lanes have, as they were told it last. Requests are carried out one after the other.
pub(crate) struct Ruling {
    ruled: Mutex<Ruled>,
}

struct Ruled {
    rules: Rules,
    execution: Execution,
    /// What all lanes have, or will have when their turn ends.
    set: Arc<RuleSet>,
    interfaces: Vec<String>,
    routes: Vec<Route>,
}

impl Ruling {
    /// Of these rules, carried out so, and of these routes. Interfaces have their names in the order of their numbers, from 0.
    ///
    /// # Errors
    /// There are more interfaces than rules can tell apart.
    pub(crate) fn new(
        mut rules: Rules,
        execution: Execution,
        interfaces: Vec<String>,
        routes: Vec<Route>,
    ) -> Result<Self, Error> {
        rules.name_interfaces(interfaces.clone())?;
        let set = Arc::new(rules.compile(execution));
        Ok(Self { ruled: Mutex::new(Ruled { rules, execution, set, interfaces, routes }) })
    }

    /// The rules that lanes begin with.
    pub(crate) fn set(&self) -> Arc<RuleSet> {
        self.lock().set.clone()
    }

    /// Carries out a request of [`gateway`](crate::admin::gateway), which begins with that word; the answer is one line.
    ///
    /// # Errors
    /// What is wrong with it, and the remedy; then nothing has changed.
    pub(crate) fn answer(&self, request: &str, lanes: &Placing) -> Result<String, String> {
        let (_ruled, _lanes) = (self.lock(), lanes);
        Err(format!("not understood yet: {}", &request[..request.floor_char_boundary(32)]))
    }

    /// Puts the rules and routes of a configuration in force that was read again; counters stay with the rules that stay.
    ///
    /// # Errors
    /// What is wrong; then nothing has changed.
    pub(crate) fn replace(&self, rules: Rules, routes: Vec<Route>, lanes: &Placing) -> Result<(), String> {
        let _lanes = lanes;
        let mut ruled = self.lock();
        ruled.rules = rules;
        let (execution, interfaces) = (ruled.execution, ruled.interfaces.clone());
        ruled.rules.name_interfaces(interfaces).map_err(|why| why.to_string())?;
        ruled.set = Arc::new(ruled.rules.compile(execution));
        ruled.routes = routes;
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Ruled> {
        // A change is made beside what is there, and takes its place whole.
        self.ruled.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
