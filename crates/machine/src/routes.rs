//! The routes of one table of the kernel, and what changes there (rtnetlink(7), ip-route(8)): for who sends packets himself and lets a routing daemon tell the kernel where to.
//!
//! ```text
//! notices (routes, links, addresses, next hops) --> table: what the kernel has --take--> difference to what was told --> Add, Delete
//!         `-- some lost, or what takes routes away in silence --> all is listed anew
//! ```
//!
//! The table is heard before it is listed, so no change is missed. Changes are told as the difference to what was told before: a route that comes and goes in between is not, and each is told once.
//!
//! Followed are routes to a router of the destination's family, up to 16 of one prefix; of several routes of a prefix that with the least metric. What leads to a link, to nobody (`blackhole`), through a tunnel or by
//! a router of another family is not, and where the kernel would use such a route there is none here. Weights of ways, kinds of traffic (`tos`) and sources (`from`) are not looked at.

mod event;
mod message;
mod table;

pub use event::{Route, RouteEvent};

use corelane_os::netlink::{Attributes, Notices, Request, word};
use message::{ROUTE_BYTES, TableRoute};
use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use table::{Place, Table, Way};

/// `struct ifinfomsg`.
const LINK_BYTES: usize = 16;
/// The groups that tell of what takes routes away or changes their ways, by their bits; that of next hops is the 32nd (Linux 5.3).
const GROUPS: i32 = libc::RTMGRP_IPV4_ROUTE | libc::RTMGRP_IPV6_ROUTE | libc::RTMGRP_LINK | libc::RTMGRP_IPV4_IFADDR | 1 << 31;
const NEW_NEXT_HOP: u16 = 104;
const DELETE_NEXT_HOP: u16 = 105;
/// How often a list is begun anew because something changed meanwhile, one time after the other.
const LISTS_MAX: usize = 3;

/// The kernel's interfaces: their names, and whether they are on.
type Links = BTreeMap<u32, (Arc<str>, bool)>;

/// What a follower has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FollowCounts {
    /// Prefixes that it knows of.
    pub prefixes: usize,
    /// Routes for which it had no room.
    pub refused: u64,
    /// How often it has listed the table, the first time among them.
    pub lists: u64,
}

/// Follows one table, of the network namespace that the thread had when this was made. Each prefix takes some 90 bytes.
#[derive(Debug)]
pub struct RouteFollower {
    notices: Notices,
    number: u32,
    table: Table,
    links: Links,
    is_to_be_listed: bool,
    lists: u64,
}

impl RouteFollower {
    /// Of the table with that number (254 is `main`), with at most so many prefixes.
    ///
    /// # Errors
    /// What the system says.
    pub fn new(number: u32, prefixes_max: usize) -> io::Result<Self> {
        let (table, links) = (Table::new(prefixes_max), Links::new());
        Ok(Self { notices: Notices::hear(GROUPS)?, number, table, links, is_to_be_listed: true, lists: 0 })
    }

    /// What has changed since this was asked last, some `at_most` of it (32 more, if many ways of one prefix change): there may be more as long as something comes. It waits
    /// for nothing but a list of the kernel's, which it asks for the first time, where notices were lost, and where interfaces change.
    ///
    /// # Errors
    /// What the system says; then nothing is told, and all is listed the next time.
    pub fn take(&mut self, at_most: usize) -> io::Result<Vec<RouteEvent>> {
        self.hear();
        if self.is_to_be_listed {
            self.list()?;
        }
        Ok(self.table.take(at_most))
    }

    /// What was counted.
    pub fn counts(&self) -> FollowCounts {
        FollowCounts { prefixes: self.table.len(), refused: self.table.refused, lists: self.lists }
    }

    fn hear(&mut self) {
        let Self { notices, number, table, links, is_to_be_listed, .. } = self;
        let heard = notices.take_flagged(|kind, flags, body| {
            *is_to_be_listed |= !understand((*number, table, links), kind, flags, body);
        });
        *is_to_be_listed |= heard.is_err();
    }

    /// Lists all that there is. What changes meanwhile is heard afterwards, and changes nothing that is right already.
    fn list(&mut self) -> io::Result<()> {
        self.is_to_be_listed = true;
        self.links.clear();
        let links = &mut self.links;
        Request::list(libc::RTM_GETLINK, &[0; LINK_BYTES]).ask_each(libc::NETLINK_ROUTE, |body| {
            note_link(links, libc::RTM_NEWLINK, body);
            Ok(())
        })?;
        for _ in 0..LISTS_MAX {
            self.lists += 1;
            self.table.begin();
            if self.list_family(libc::AF_INET)? & self.list_family(libc::AF_INET6)? {
                self.is_to_be_listed = false;
                break;
            }
        }
        Ok(())
    }

    /// Lists the routes of a family; whether the list is of one moment.
    fn list_family(&mut self, family: i32) -> io::Result<bool> {
        let mut head = [0; ROUTE_BYTES];
        head[0] = family as u8;
        let Self { number, table, links, .. } = self;
        Request::list(libc::RTM_GETROUTE, &head).list_each(libc::NETLINK_ROUTE, |body| {
            if let Some(told) = message::read(body)?.filter(|told| told.table == *number) {
                note(table, links, libc::RTM_NEWROUTE, libc::NLM_F_APPEND as u16, told);
            }
            Ok(())
        })
    }
}

impl AsFd for RouteFollower {
    /// Readable when there is something to take.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.notices.as_fd()
    }
}

/// Notes what a notice tells of the table with that number; false if not all is known by that.
fn understand((number, table, links): (u32, &mut Table, &mut Links), kind: u16, flags: u16, body: &[u8]) -> bool {
    match kind {
        libc::RTM_NEWROUTE | libc::RTM_DELROUTE => match message::read(body) {
            Ok(Some(told)) if told.table == number => note(table, links, kind, flags, told),
            Ok(_) => true,
            Err(_) => false,
        },
        libc::RTM_NEWLINK | libc::RTM_DELLINK => note_link(links, kind, body),
        libc::RTM_DELADDR | NEW_NEXT_HOP | DELETE_NEXT_HOP => false,
        _ => true,
    }
}

/// Notes that a route has come or gone; false if it is not known which.
fn note(table: &mut Table, links: &Links, kind: u16, flags: u16, told: TableRoute) -> bool {
    let TableRoute { prefix, metric, hops, .. } = told;
    let named = hops.iter().filter_map(|hop| {
        let (interface, _) = links.get(&hop.interface)?;
        Some(Way { router: hop.router, interface: interface.clone() })
    });
    let ways: Vec<_> = named.collect();
    if kind == libc::RTM_DELROUTE {
        return table.delete(prefix, metric, ways);
    }
    let has = |flag: i32| i32::from(flags) & flag != 0;
    // Of IPv6 a notice has all ways of the prefix with that metric, also where one was appended.
    let place = match prefix.address {
        IpAddr::V6(_) => Place::InsteadOfAll,
        IpAddr::V4(_) if has(libc::NLM_F_REPLACE) => Place::InsteadOfFirst,
        IpAddr::V4(_) if has(libc::NLM_F_APPEND) => Place::Last,
        IpAddr::V4(_) => Place::First,
    };
    table.add(prefix, metric, ways, place);
    true
}

/// Notes that an interface has come, changed or gone; false if routes may have gone with it, of which nothing is said, or have another interface's name now.
fn note_link(links: &mut Links, kind: u16, body: &[u8]) -> bool {
    let Some((index, flags)) = word(body, 4).zip(word(body, 8)) else { return false };
    // A bridge tells of its ports in the same words.
    if body.first() != Some(&(libc::AF_UNSPEC as u8)) {
        return true;
    }
    if kind == libc::RTM_DELLINK {
        return links.remove(&index).is_none();
    }
    let name = Attributes::behind(body, LINK_BYTES).ok().and_then(|attributes| attributes.text(libc::IFLA_IFNAME));
    let Some(name) = name else { return false };
    let is_up = flags & libc::IFF_UP as u32 != 0;
    match links.get(&index) {
        Some((known, was_up)) if **known == *name && *was_up == is_up => true,
        before => {
            let is_new = before.is_none();
            links.insert(index, (name.into(), is_up));
            is_new
        }
    }
}

#[cfg(test)]
mod tests;
