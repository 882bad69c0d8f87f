use super::queue;
use corelane_event::{Change, Filter, Flags, notes};
use std::time::{Duration, Instant, SystemTime};

const ENOMEM: i32 = 12;
const EINVAL: i32 = 22;

#[test]
fn a_timer_goes_off_again_and_again() {
    let queue = queue();
    queue.ok(Change { data: 5, ..Change::add(3, Filter::Timer) }.cookie(9));
    for _ in 0..3 {
        let event = queue.one();
        assert!(event.data >= 1 && event.cookie == 9 && event.flags == Flags::CLEAR, "{event:?}");
    }
}

#[test]
fn what_went_by_untold_is_counted() {
    let queue = queue();
    let start = Instant::now();
    queue.ok(Change::every(3, Duration::from_millis(2)));
    let other = super::queue();
    other.ok(Change::after(1, Duration::from_millis(50)));
    assert_eq!(other.one().data, 1);
    let event = queue.one();
    let most = start.elapsed().as_millis() as i64 / 2;
    assert!((20..=most).contains(&event.data), "{event:?}, at most {most}");
}

#[test]
fn once_means_once() {
    let queue = queue();
    queue.ok(Change::after(3, Duration::from_millis(1)));
    let event = queue.one();
    assert_eq!((event.data, queue.registered()), (1, 0));
}

#[test]
fn units_and_instants() {
    let queue = queue();
    let timer = |notes, data| Change { notes, data, ..Change::add(1, Filter::Timer) };
    assert_eq!(queue.refused(timer(0, -1)), EINVAL);
    assert_eq!(queue.refused(timer(notes::SECONDS | notes::MSECONDS, 1)), EINVAL);
    queue.ok(timer(notes::USECONDS, 300).once());
    assert_eq!(queue.one().data, 1);
    let soon = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap() + Duration::from_millis(20);
    queue.ok(timer(notes::ABSTIME | notes::NSECONDS, soon.as_nanos() as i64).once());
    assert_eq!(queue.one().data, 1);
    assert!(SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap() >= soon);
}

#[test]
fn added_again_it_begins_anew_and_forgets_what_it_did_not_tell() {
    let queue = queue();
    queue.ok(Change::every(1, Duration::from_millis(1)));
    let other = super::queue();
    other.ok(Change::after(1, Duration::from_millis(10)));
    other.one();
    queue.ok(Change::every(1, Duration::from_secs(3600)));
    assert!(queue.now().is_empty());
    queue.ok(Change::every(1, Duration::from_millis(1)));
    assert_eq!(queue.one().ident, 1);
    assert_eq!(queue.registered(), 1);
}

#[test]
fn disabled_it_goes_on_and_enabled_it_tells() {
    let queue = queue();
    queue.ok(Change { flags: Flags::ADD | Flags::DISABLE, ..Change::every(1, Duration::from_millis(1)) });
    queue.ok(Change::after(2, Duration::from_millis(10)));
    assert_eq!(queue.one().ident, 2);
    queue.ok(Change::enable(1, Filter::Timer));
    assert!(queue.one().data >= 9);
    queue.ok(Change::delete(1, Filter::Timer));
    assert!(queue.now().is_empty());
}

#[test]
fn there_are_at_most_4096() {
    let queue = queue();
    for timer in 0..4096 {
        queue.ok(Change::every(timer, Duration::from_secs(3600)));
    }
    assert_eq!(queue.refused(Change::every(4096, Duration::from_secs(1))), ENOMEM);
    queue.ok(Change::every(4095, Duration::from_secs(60)));
    queue.ok(Change::delete(0, Filter::Timer));
    queue.ok(Change::after(4096, Duration::from_millis(1)));
    assert_eq!(queue.one().ident, 4096);
}
