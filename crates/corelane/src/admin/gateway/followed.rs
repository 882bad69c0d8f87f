//! Routes that follow a table of the kernel's, beside those of the gateway's own. Lanes have both; a deletion takes all ways by its router, so what the others have by it is told again.

use super::routes::{Change, Done, Routes};
use corelane_stack::{ROUTES_MAX, Route, RouteChange, WAYS_MAX};
use std::net::IpAddr;

impl Routes {
    /// Carries out changes of a table that is followed, those that can be: a route for which there is no room among these and the others, or that is deleted without having been
    /// taken, is passed over. Returns how it is undone, and how many routes there was no room for.
    pub(super) fn follow(&mut self, changes: &[RouteChange], others: &Self) -> (Done, usize) {
        let (mut done, mut refused) = (Done::new(), 0);
        for change in changes {
            let one = match *change {
                RouteChange::Add(route) => {
                    let ways = self.ways_to(route.destination, route.bits).chain(others.ways_to(route.destination, route.bits));
                    if ways.count() >= WAYS_MAX || self.len() + others.len() >= ROUTES_MAX {
                        refused += 1;
                        continue;
                    }
                    Change::Add(route)
                }
                RouteChange::Delete { destination, bits, router } => {
                    if self.by(destination, bits, router).next().is_none() {
                        continue;
                    }
                    Change::Delete { destination, bits, router: Some(router) }
                }
            };
            refused += usize::from(self.change_one(&one, &mut done).is_err());
        }
        self.note(&done);
        (done, refused)
    }

    /// The orders to lanes for changes of these routes: behind each deletion the routes that the others have by that router.
    pub(super) fn beside(orders: Vec<RouteChange>, others: &Self) -> Vec<RouteChange> {
        if others.len() == 0 {
            return orders;
        }
        let again = |order: &RouteChange| match *order {
            RouteChange::Add(_) => Vec::new(),
            RouteChange::Delete { destination, bits, router } => others.by(destination, bits, router).collect(),
        };
        orders
            .into_iter()
            .flat_map(|order| std::iter::once(order).chain(again(&order).into_iter().map(RouteChange::Add)))
            .collect()
    }

    /// The first network that has more ways by these and the others than there may be.
    pub(super) fn too_many(orders: &[RouteChange], own: &Self, others: &Self) -> Option<(IpAddr, u8)> {
        let count = |to: IpAddr, bits| own.ways_to(to, bits).chain(others.ways_to(to, bits)).count();
        orders.iter().find_map(|order| match *order {
            RouteChange::Add(Route { destination, bits, .. }) => {
                (count(destination, bits) > WAYS_MAX).then_some((destination, bits))
            }
            RouteChange::Delete { .. } => None,
        })
    }

    fn by(&self, destination: IpAddr, bits: u8, router: IpAddr) -> impl Iterator<Item = Route> {
        self.ways_to(destination, bits).filter(move |route| route.router == router)
    }
}
