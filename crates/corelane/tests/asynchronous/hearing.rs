//! Messages to asynchronous services: heard once and in order, or dropped and told; and what such a service counts of its own.

use crate::aio_parts::run;
use corelane::aio::{self, Connection, Lane};
use corelane::service::{Origin, Says, ServiceCounter};
use corelane::testing::{Faults, MS, Nobody, Rig, RigPlan, World, patient};
use corelane_watch::LaneCounter;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

corelane::counters! {
    /// What the ears count.
    pub enum Heard {
        Messages "messages_heard" Counter "messages" "Messages that were heard.";
        Last "message_last" Gauge "messages" "The number of the last one.";
    }
}

type Talk = Says<u64>;

/// Sends each line's number to the lane that it names by its rest, and says so.
async fn pass_on(lane: Lane<Talk>, connection: Connection) -> aio::Result<()> {
    let mut wanted = 1;
    while connection.fill(wanted).await? {
        let line = connection.input(|input| {
            let length = input.position(b'\n')? + 1;
            Some(input.take_shared(length)?.to_vec())
        });
        let Some(line) = line else {
            wanted = connection.input(|input| input.len()) + 1;
            continue;
        };
        wanted = 1;
        let number: u64 = String::from_utf8_lossy(&line).trim().parse().unwrap();
        let to = number as usize % lane.lanes();
        lane.later(move |cx| {
            cx.send(to, number).unwrap();
            cx.count_requests(1);
        });
        connection.write(b"sent\n").await?;
    }
    Ok(())
}

/// Of each lane what it has heard of each, in order.
type Book = Rc<RefCell<Vec<(usize, usize, u64)>>>;

fn ears(book: &Book) -> aio::Serve<Talk, Heard> {
    let book = book.clone();
    aio::each(pass_on).counting::<Heard>().hearing(async move |lane, from, number| {
        let Origin::Lane(from) = from else { panic!("nobody speaks from outside") };
        book.borrow_mut().push((lane.number(), from, number));
        lane.later(move |cx| {
            cx.count(Heard::Messages, 1);
            cx.set_gauge(Heard::Last, number);
        });
    })
}

/// Each client speaks to one lane, and that lane sends in order: so what is heard of one client is in order as well.
#[test]
fn messages_are_heard_once_and_in_order_whatever_happens() {
    const CLIENTS: u64 = 8;
    const LINES: u64 = 20;
    run(75, Faults::all, |scene| {
        let book = Book::default();
        let served = book.clone();
        scene.serve(7, move |_lane| ears(&served));
        for client in 0..CLIENTS {
            let script = scene.connect(7);
            for line in 0..LINES {
                script.say(format!("{}\n", client * 1000 + line)).hear("sent\n");
            }
            script.finish();
        }
        scene.check(move |rig| {
            let book = book.borrow();
            let (sent, heard) = (rig.count(ServiceCounter::Requests), rig.named("messages_heard"));
            if heard != book.len() as u64 || heard != sent || sent == 0 {
                return Err(format!("of {sent} messages {} were heard, and {heard} counted", book.len()));
            }
            for client in 0..CLIENTS {
                for lane in 0..2 {
                    let of_client = book.iter().filter(|(at, _, number)| *at == lane && number / 1000 == client);
                    let numbers: Vec<u64> = of_client.map(|(_, _, number)| *number).collect();
                    if !numbers.is_sorted_by(|one, next| one < next) || numbers.iter().any(|number| number % 2 != lane as u64) {
                        return Err(format!("lane {lane} heard {numbers:?} of client {client}"));
                    }
                }
            }
            Ok(())
        });
    });
}

/// One lane that serves this at the usual port, with so many tasks.
fn with_tasks<C: corelane::service::OwnCounter>(tasks_max: usize, make: impl Fn() -> aio::Serve<Talk, C>) -> Rig {
    let mut plan = RigPlan::lanes(1);
    plan.settings.tasks_max = tasks_max;
    Rig::serving(&World::new(1, Faults::none()), &plan, patient(), |_| make())
}

#[test]
fn a_message_to_a_service_that_hears_none_is_counted_and_told() {
    let mut rig = with_tasks(100, || aio::each(pass_on));
    let peer = rig.connect(0);
    rig.wait(MS);
    assert_eq!(rig.ask(&peer, "1\n2\n3\n"), "sent\nsent\nsent\n");
    assert_eq!(rig.count(ServiceCounter::MessagesDropped), 3);
    let reports = rig.reports.borrow().clone();
    let told: Vec<&String> = reports.iter().map(|record| &record.text).filter(|words| words.contains("hears none")).collect();
    assert_eq!(told.len(), 1, "{reports:?}");
    assert!(told[0].contains("lane 0, service 0") && told[0].contains("Serve::hearing"), "{reports:?}");
    peer.finish();
    rig.close(&mut Nobody);
}

#[test]
fn a_message_for_which_there_is_no_task_is_counted() {
    let heard = Rc::new(Cell::new(0));
    let count = heard.clone();
    // One task accepts, one serves the connection, and one hears for ever.
    let mut rig = with_tasks(3, move || {
        let count = count.clone();
        aio::each(pass_on).hearing(async move |_lane, _from, _number| {
            count.set(count.get() + 1);
            std::future::pending().await
        })
    });
    let peer = rig.connect(0);
    rig.wait(MS);
    assert_eq!(rig.ask(&peer, "1\n2\n3\n"), "sent\nsent\nsent\n");
    assert_eq!((heard.get(), rig.count(ServiceCounter::MessagesDropped)), (1, 2));
    assert_eq!(rig.lane_count(LaneCounter::TasksMaxHits), 2);
    peer.finish();
    rig.close(&mut Nobody);
}

#[test]
fn who_panics_as_it_hears_is_counted_and_others_are_heard() {
    let heard = Rc::new(Cell::new(0));
    let count = heard.clone();
    let mut rig = with_tasks(100, move || {
        let count = count.clone();
        aio::each(pass_on).hearing(async move |_lane, _from, number| {
            assert_ne!(number, 2, "as it was told");
            count.set(count.get() + number);
        })
    });
    let peer = rig.connect(0);
    rig.wait(MS);
    assert_eq!(rig.ask(&peer, "1\n2\n3\n"), "sent\nsent\nsent\n");
    assert_eq!((heard.get(), rig.lane_count(LaneCounter::TasksPanicked)), (4, 1));
    peer.finish();
    rig.close(&mut Nobody);
}
