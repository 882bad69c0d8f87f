//! Requests begun, and begun once more; and what else upstreams want done.

use super::check::Check;
use super::fault::Fault;
use super::head::{Asker, offers, wants_upgrade, write_request};
use super::hub::{Hub, HubRef};
use super::link::Link;
use super::up::Up;
use super::way::Facts;
use crate::counters::HttpCounter;
use corelane::Cx;
use corelane::service::{Address, Lease, Outcome};
use corelane_wire::http1::Request as Head;

/// Begins a request of the client at `from`: its head is sent, or will be once a link is open.
///
/// # Errors
/// Why it cannot be; nothing is kept of it then.
pub(super) fn begin(shared: &HubRef, cx: &mut Cx<'_>, head: &Head<'_>, (from, asker): (&Address, Asker)) -> Result<usize, Fault> {
    let mut hub = shared.borrow_mut();
    let number = hub.add_way(cx, Facts::of(head), from)?;
    let Hub { ways, tended, text, .. } = &mut *hub;
    let (way, upstreams) = (ways.get(number), &tended.upstreams);
    if wants_upgrade(head) {
        way.offers = offers(head);
    }
    let name = way.upstream.map_or_else(|| upstreams.awaited_name(), |upstream| upstreams.name(upstream));
    let name = name.filter(|name| !name.starts_with("unix:")).unwrap_or("localhost");
    let name = name.trim_start_matches("tls://");
    text.clear();
    write_request(text, head, asker, name);
    // This call is for the client, which pays.
    way.head = cx.arena().copy_of(text).map(Lease::share);
    if way.head.is_none() {
        hub.release(cx, number);
        return Err(Fault::Memory);
    }
    if way.upstream.is_none() {
        hub.early.push(number);
        return Ok(number);
    }
    start(shared, &mut hub, cx, number, true).map(|()| number).inspect_err(|_| hub.release(cx, number))
}

/// Sends on what has waited for names, as far as there are upstreams now.
fn serve_early(shared: &HubRef, cx: &mut Cx<'_>) {
    let mut hub = shared.borrow_mut();
    for number in std::mem::take(&mut hub.early) {
        let fault = match hub.place(cx.now(), number) {
            true => start(shared, &mut hub, cx, number, true).err(),
            false if hub.tended.upstreams.awaits_names(0) => {
                hub.early.push(number);
                continue;
            }
            false => {
                let client = hub.way(number).caller.client;
                Some(hub.why_nobody(client))
            }
        };
        // It has content, or words for its client.
        let way = hub.way(number);
        way.fault = fault;
        cx.resume(way.client);
    }
}

/// Sends a request, over a link that is there if `may_reuse`.
fn start(shared: &HubRef, hub: &mut Hub, cx: &mut Cx<'_>, number: usize, may_reuse: bool) -> Result<(), Fault> {
    let way = hub.ways.get(number);
    // reason: it is chosen before.
    let upstream = way.upstream.expect("what is sent has an upstream");
    while may_reuse && let Some(up_number) = hub.take_idle(cx, upstream) {
        let (up, way) = (hub.ups.get(up_number), hub.ways.get(number));
        // One that closes is told so itself.
        let Some(output) = up.id.and_then(|id| cx.connection(id)) else { continue };
        // reason: it is kept until the answer has begun.
        let head = way.head.clone().expect("what is sent has its head");
        hub.tended.upstreams.note_bytes(upstream, head.len(), 0);
        output.push(head);
        up.begin(output, number, true);
        way.up = Some(up_number);
        // The client takes what comes on it, or does not.
        up.id.into_iter().for_each(|id| cx.charge_to(id, way.client));
        cx.count(HttpCounter::ForwardsReused, 1);
        return Ok(());
    }
    // reason: it is in use.
    let reach = hub.tended.upstreams.reach(upstream).expect("an upstream that was taken is there");
    let up = hub.ups.add(|_| Some(Up::opening(upstream, number)));
    match (hub.within.dial)(cx, reach, Box::new(Link::new(shared.clone(), up))) {
        Ok(id) => {
            hub.ups.get(up).id = Some(id);
            let way = hub.ways.get(number);
            way.up = Some(up);
            cx.charge_to(id, way.client);
            Ok(())
        }
        Err(_) => {
            hub.ups.remove(up);
            Err(Fault::Full)
        }
    }
}

/// Sends a request once more where that does no harm: nothing of it was acted upon.
///
/// # Errors
/// The fault, where it is final.
pub(super) fn again(shared: &HubRef, hub: &mut Hub, cx: &mut Cx<'_>, number: usize, fault: Fault) -> Result<(), Fault> {
    let now = cx.now();
    let Hub { ways, tended, .. } = &mut *hub;
    let (way, upstreams) = (ways.get(number), &mut tended.upstreams);
    assert!(way.up.is_none(), "what has failed carries nothing");
    let reuses = match fault {
        Fault::Unreachable | Fault::Unheard | Fault::Untrusted if !way.tried.is_full() => {
            let other = upstreams.begin(now, way.caller, &way.tried).ok_or(fault)?;
            // reason: it could not be connected to.
            let failed = way.upstream.replace(other).expect("what is tried has an upstream");
            upstreams.retried(failed);
            upstreams.end(failed, way.caller.client);
            way.tried.add(other);
            true
        }
        // An upstream may close what is idle just as it is used (RFC 9112 section 9.3.1).
        Fault::Stale if way.facts.is_idempotent && !way.content_began && std::mem::take(&mut way.may_repeat) => false,
        _ => return Err(fault),
    };
    (way.active_at, way.began_at) = (now, now);
    cx.count(HttpCounter::ForwardsRetried, 1);
    start(shared, hub, cx, number, reuses)
}

/// Does what the upstreams want done: names are resolved, checks begun. Who has waited for that goes on, and links that nobody will use end.
pub(super) fn tend(shared: &HubRef, cx: &mut Cx<'_>) {
    tend_upstreams(shared, cx);
    serve_early(shared, cx);
    shared.borrow_mut().close_unserved(cx);
}

fn tend_upstreams(shared: &HubRef, cx: &mut Cx<'_>) {
    let mut hub = shared.borrow_mut();
    let Hub { tended, within, .. } = &mut *hub;
    (within.tend)(cx, tended, &mut |probe| Box::new(Check::new(shared.clone(), probe)));
}

/// A helper thread has asked for a name.
pub(super) fn resolved(shared: &HubRef, cx: &mut Cx<'_>, token: u64, outcome: Outcome) {
    shared.borrow_mut().tended.completed(cx, token, outcome);
    tend(shared, cx);
}
