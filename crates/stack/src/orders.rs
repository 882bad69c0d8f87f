//! What the work beside the driver was told and the driver's face carries out, because what changes belongs to it.
//!
//! Orders are carried out as they came, between two packets. Of many changes of routes each part of a turn does some, so that none holds the lane.

use crate::settings::RouteChange;
use crate::view::Look;
use corelane_rules::{RuleId, RuleSet};
use std::any::Any;
use std::collections::VecDeque;
use std::sync::Arc;

/// Orders that wait at the most. Whoever gives them waits for each ([`Policy::Noted`](crate::Policy::Noted)), so there are few.
const ORDERS_MAX: usize = 1024;

/// One of them.
#[derive(Debug)]
pub(crate) enum Order {
    Rules(Arc<RuleSet>),
    ZeroRules(Arc<[RuleId]>),
    ResetLog(Arc<[RuleId]>),
    /// Changes of which so many are done.
    Routes(Arc<[RouteChange]>, usize),
    Look(Arc<dyn Look>),
    Noted(Arc<dyn Any + Send + Sync>),
}

/// Those that wait, and what is to be dropped once what came before it is in the page.
#[derive(Debug, Default)]
pub(crate) struct Orders {
    waiting: VecDeque<Order>,
    noted: Vec<Arc<dyn Any + Send + Sync>>,
}

impl Orders {
    /// One more; false if there are too many.
    #[must_use]
    pub fn give(&mut self, order: Order) -> bool {
        let has_room = self.waiting.len() < ORDERS_MAX;
        if has_room {
            self.waiting.push_back(order);
        }
        has_room
    }

    /// The next to be carried out.
    pub fn take(&mut self) -> Option<Order> {
        self.waiting.pop_front()
    }

    /// One that is not done yet goes on before all others.
    pub fn put_back(&mut self, order: Order) {
        self.waiting.push_front(order);
    }

    /// All before this is carried out.
    pub fn note(&mut self, note: Arc<dyn Any + Send + Sync>) {
        self.noted.push(note);
    }

    /// What is to be dropped once the page is written.
    pub fn take_noted(&mut self) -> Vec<Arc<dyn Any + Send + Sync>> {
        std::mem::take(&mut self.noted)
    }

    /// Whether something waits.
    pub fn are_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Whether something is to be dropped.
    pub fn has_noted(&self) -> bool {
        !self.noted.is_empty()
    }

    /// Nothing is carried out any more; whoever waits for something learns so by its drop.
    pub fn end(&mut self) {
        *self = Self::default();
    }
}
