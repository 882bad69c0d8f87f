//! What a service counts and tells of its own.

use crate::rig::{MS, Nobody, Rig, RigPlan, S, patient};
use corelane_seam::Level;
use corelane_sim::{Faults, Status, World};
use corelane_svc::{Cx, Input, Next, Output, Peer, Services, Silent, StreamService};
use corelane_watch::{Declaration, Description, LaneName, OwnCounter, Page, ServiceCounter as C, ServiceName};

corelane_watch::counters! {
    /// What a letter box counts.
    enum Post {
        Letters "letters" Counter "letters" "Letters that were put in.";
        Fullness "fullness" Gauge "letters" "Letters that lie in it.";
    }
}

/// Counts bytes as letters, and says in its declaration that it does, or does not.
struct LetterBox<const DECLARES: bool>(u64);

impl<const DECLARES: bool> StreamService for LetterBox<DECLARES> {
    type Talk = Silent;
    type Session = ();

    const COUNTERS: &'static [Declaration] = if DECLARES { Post::DECLARED } else { &[] };

    fn open(&mut self, _cx: &mut Cx<'_>, _peer: &Peer) {}

    fn receive(&mut self, cx: &mut Cx<'_>, _session: &mut (), input: &mut Input, _output: &mut Output) -> Next {
        self.0 += input.len() as u64;
        cx.count(Post::Letters, input.len());
        cx.set_gauge(Post::Fullness, self.0);
        cx.count(C::RecordsTruncated, 1);
        cx.report(Level::Info, format_args!("{} letters came", self.0));
        (0..3).for_each(|_| cx.report_kind("letters", Level::Error, "one is torn"));
        input.skip(input.len());
        Next::Continue
    }
}

fn after_five_letters<const DECLARES: bool>() -> (Rig, Status) {
    let world = World::new(1, Faults::none());
    let mut rig = Rig::serving(&world, &RigPlan::lanes(1), patient(), |_| LetterBox::<DECLARES>(0));
    let peer = rig.connect(0);
    rig.pass(MS, &mut Nobody);
    assert_eq!(peer.send(b"five!"), 5);
    rig.pass(MS, &mut Nobody);
    let status = peer.status();
    (rig, status)
}

#[test]
fn it_counts_beside_what_all_services_do() {
    let (rig, status) = after_five_letters::<true>();
    assert_eq!((rig.named("letters"), rig.named("fullness"), rig.count(C::RecordsTruncated)), (5, 5, 1));
    assert_eq!((rig.count(C::BytesIn), status), (5, Status::Open));
}

#[test]
fn it_tells_the_operator_as_grave_as_it_says_and_of_a_kind_once_a_second() {
    let (mut rig, _) = after_five_letters::<true>();
    rig.pass(S, &mut Nobody);
    let reports = rig.reports.borrow();
    let told: Vec<_> = reports.iter().map(|record| (record.level, record.lane, record.to_string())).collect();
    let line = |level, words: &str| (level, Some(0), words.to_owned());
    let expected = [
        line(Level::Info, "lane 0, service 0: 5 letters came"),
        line(Level::Error, "lane 0, service 0: one is torn"),
        line(Level::Warn, "lane 0: 2 more lines on letters were left out"),
    ];
    assert_eq!(told, expected);
}

#[test]
fn what_is_not_declared_is_nobody_elses_word() {
    let (rig, status) = after_five_letters::<false>();
    assert_eq!((rig.count(C::Panics), rig.count(C::EndingsAborted), status != Status::Open), (1, 1, true));
    assert_eq!(rig.count(C::RecordsTruncated), 0);
    let reports = rig.reports.borrow();
    let words = ["the service \"0\" counts \"letters\"", "remedy: const COUNTERS", "Post::DECLARED"];
    assert!(words.iter().all(|word| reports[0].text.contains(word)), "{reports:?}");
}

#[test]
#[should_panic(expected = "declares 2 counters, and the page that it is to count in has 0")]
fn a_page_that_was_made_from_another_declaration_is_refused_at_the_start() {
    let services = vec![ServiceName { name: "letter box".into(), ..ServiceName::default() }];
    let page = Page::heap(&Description { services, lanes: vec![LaneName::default()], ..Description::default() }).unwrap();
    Services::new(1).add_stream(LetterBox::<true>(0), patient(), page.service(0, 0).unwrap());
}
