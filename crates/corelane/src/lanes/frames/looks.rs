//! Lanes that run, told and looked at through their packet paths. Each answers between two packets, so it copies what it is asked for and no more.

use super::telling::Placing;
use crate::admin::gateway::{
    Counted, Found, InForce, InterfaceRow, Lanes, Losses, Seen, Sighted, Totals, Translated, add_row, add_totals,
};
use corelane_rules::{Count, Facts, RuleId};
use corelane_stack::{Look, Policy, Route, View};
use std::fmt;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Routes that a lane is asked about at once.
const ROUTES_EACH: usize = 500;

/// Somebody who looks at each lane and keeps what he has seen.
struct Eye<F, T> {
    see: F,
    seen: Mutex<Vec<T>>,
}

impl<F, T> fmt::Debug for Eye<F, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Eye").finish_non_exhaustive()
    }
}

impl<F: Fn(&View<'_>) -> Option<T> + Send + Sync, T: Send> Look for Eye<F, T> {
    fn look(&self, view: &View<'_>) {
        let seen = (self.see)(view);
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).extend(seen);
    }
}

/// The view of each lane, of those that show something.
fn look<T: Send + 'static>(
    placing: &Placing,
    see: impl Fn(&View<'_>) -> Option<T> + Send + Sync + 'static,
) -> Result<Vec<T>, String> {
    let eye = Arc::new(Eye { see, seen: Mutex::new(Vec::new()) });
    match placing.tell_all_or_none(&[Policy::Look(eye.clone())])? {
        InForce::Now => Ok(std::mem::take(&mut *eye.seen.lock().unwrap_or_else(PoisonError::into_inner))),
        InForce::Soon => Err("a lane has not answered: `corelane stat` shows which; ask again".to_owned()),
    }
}

/// The view of the first lane that comes to it.
fn look_once<T: Send + 'static>(placing: &Placing, see: impl Fn(&View<'_>) -> T + Send + Sync + 'static) -> Result<T, String> {
    let is_taken = AtomicBool::new(false);
    let seen = look(placing, move |view| (!is_taken.swap(true, Ordering::Relaxed)).then(|| see(view)))?;
    seen.into_iter().next().ok_or_else(|| "all lanes have ended".to_owned())
}

/// How long somebody who watches waits for lanes.
const GLANCE: Duration = Duration::from_millis(100);

/// Looks of somebody who watches, and must not wait for a lane that hangs: he sees nothing then, and asks it no more until it has answered.
#[derive(Debug, Default)]
pub(crate) struct Glances(Mutex<Option<Receiver<()>>>);

impl Glances {
    /// The counts of these rules, in their order; and what was forwarded, and what there is.
    pub(crate) fn take(&self, placing: &Placing, rules: Vec<RuleId>) -> Option<(Counted, Seen)> {
        let mut waits = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if waits.as_ref().is_some_and(is_under_way) {
            return None;
        }
        let asked: Arc<[RuleId]> = rules.into();
        let of = asked.clone();
        let see = move |view: &View<'_>| Some((counts_of(view, &of), seen_of(view)));
        let eye = Arc::new(Eye { see, seen: Mutex::new(Vec::new()) });
        let heard = placing.begin_all_or_none(&[Policy::Look(eye.clone())]).ok()?;
        if heard.recv_timeout(GLANCE) == Err(RecvTimeoutError::Timeout) {
            *waits = Some(heard);
            return None;
        }
        *waits = None;
        let seen = std::mem::take(&mut *eye.seen.lock().unwrap_or_else(PoisonError::into_inner));
        let (counts, totals): (Vec<_>, Vec<_>) = seen.into_iter().unzip();
        Some((summed(asked.len(), counts), added_up(totals)))
    }
}

/// Whether somebody still could say something.
fn is_under_way(heard: &Receiver<()>) -> bool {
    heard.try_recv() == Err(TryRecvError::Empty)
}

/// The lane's clock, and what rules have counted there.
fn counts_of(view: &View<'_>, rules: &[RuleId]) -> (u64, Vec<Count>) {
    let records = view.records();
    (view.now, rules.iter().map(|rule| records.count(*rule)).collect())
}

fn summed(rules: usize, lanes: Vec<(u64, Vec<Count>)>) -> Counted {
    let mut all = Counted { counts: vec![Count::default(); rules], now: 0 };
    for (now, counts) in lanes {
        all.now = all.now.max(now);
        all.counts.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
    }
    all
}

fn added_up(lanes: Vec<Seen>) -> Seen {
    let mut all = Seen::default();
    for (rows, totals) in lanes {
        all.0.resize_with(rows.len().max(all.0.len()), InterfaceRow::default);
        all.0.iter_mut().zip(&rows).for_each(|(row, other)| add_row(row, other));
        add_totals(&mut all.1, totals);
    }
    all
}

impl Lanes for Placing {
    fn tell(&self, orders: &[Policy]) -> Result<InForce, String> {
        self.tell_all_or_none(orders)
    }

    fn counts(&self, rules: &[RuleId]) -> Result<Counted, String> {
        let asked: Arc<[RuleId]> = rules.into();
        Ok(summed(rules.len(), look(self, move |view| Some(counts_of(view, &asked)))?))
    }

    fn could_lead(&self, routes: &[Route]) -> Result<Vec<Result<bool, String>>, String> {
        let mut all = Vec::with_capacity(routes.len());
        for some in routes.chunks(ROUTES_EACH) {
            let some = some.to_vec();
            let see = move |view: &View<'_>| -> Vec<Result<bool, String>> {
                some.iter().map(|route| view.could_lead(route).map_err(|why| why.to_string())).collect()
            };
            all.extend(look_once(self, see)?);
        }
        Ok(all)
    }

    fn sight(&self, facts: &Facts) -> Result<Sighted, String> {
        let facts = *facts;
        let see = move |view: &View<'_>| {
            let state = view.records().state_of(&facts, view.now).map(|rule| (view.lane, rule));
            let (source_is_ours, destination_is_ours) = (view.is_own(facts.source.into()), view.is_own(facts.destination.into()));
            Some(Sighted { source_is_ours, destination_is_ours, state })
        };
        let seen = look(self, see)?.into_iter();
        Ok(seen.reduce(|one, other| Sighted { state: one.state.or(other.state), ..one }).unwrap_or_default())
    }

    fn way(&self, to: IpAddr) -> Result<(bool, Option<Found>), String> {
        look_once(self, move |view: &View<'_>| {
            let way = view.way(to);
            (view.is_own(to), way.map(|(interface, hop)| found(view, interface, hop)))
        })
    }

    fn totals(&self) -> Result<Seen, String> {
        Ok(added_up(look(self, |view| Some(seen_of(view)))?))
    }
}

/// A lane's knowledge of who gets packets.
fn found(view: &View<'_>, interface: usize, hop: IpAddr) -> Found {
    let known = view.neighbour(interface, hop).map(|(state, mac)| (state, mac.map(|mac| mac.to_string())));
    (interface, hop, known)
}

/// A lane's counts at an interface, as they are told.
fn losses_of(losses: &corelane_stack::Losses) -> Losses {
    let corelane_stack::Losses { refused, errors, not_ours, drops, unsent, .. } = *losses;
    Losses { refused, errors, not_ours, drops, unsent }
}

/// One lane's view of its interfaces and bounds.
fn seen_of(view: &View<'_>) -> Seen {
    let each = view.traffic().iter().zip(view.losses()).zip(view.neighbours()).zip(view.devices());
    let rows = each.map(|(((traffic, losses), (neighbours, asked)), device)| InterfaceRow {
        name: String::new(),
        packets_in: traffic.packets_in,
        bytes_in: traffic.bytes_in,
        packets_out: traffic.packets_out,
        bytes_out: traffic.bytes_out,
        losses: losses_of(losses),
        redirect_lost: None,
        neighbours,
        asked,
        device,
    });
    let translated = view.nat().zip(view.nat_in_use()).map(|(counts, (sessions, ports))| Translated {
        packets: counts.translated,
        sessions,
        ports,
        begun: counts.begun,
        refused_unfit: counts.refused_unfit,
        refused_sessions: counts.refused_sessions,
        refused_source: counts.refused_source,
        refused_ports: counts.refused_ports,
    });
    let records = view.records();
    let totals = Totals {
        lanes: 1,
        states: records.states(),
        states_refused: records.states_refused(),
        lines_refused: records.lines_refused(),
        translated,
        ..Totals::default()
    };
    (rows.collect(), totals)
}
