//! What is sent and what arrives, judged by a table.
#![forbid(unsafe_code)]

use corelane_rss::{Buckets, Table};
use corelane_steer::verify::{Batch, LaneSum, Misplaced, Verdict, read_log};

/// What a card with four queues and a broken classifier gave to its queues: the flow ids are right, the queues are not.
const MISROUTED: &str = "# as its driver printed it
flowid\tqueue_seen\tqueue_expected
0x21f7db62\t3\t2
0x21f7db62\t3\t2
0x21f7db62\t3\t2
0x21f7db62\t3\t2
0x21f7db62\t3\t2
0x335a5c03\t2\t3
0x335a5c03\t2\t3
0x335a5c03\t2\t3
0x335a5c03\t2\t3
";

fn four() -> Table {
    Table::even(Buckets::DEFAULT, 4).unwrap()
}

fn batch(bucket: usize, sent: u64, arrived: &[u64]) -> Batch {
    Batch { bucket: Buckets::DEFAULT.bucket(bucket).unwrap(), sent, arrived: arrived.to_vec() }
}

#[test]
fn the_misrouted_queues_are_found() {
    let batches = read_log(&four(), MISROUTED).unwrap();
    assert_eq!(batches, [batch(3, 4, &[0, 0, 4]), batch(98, 5, &[0, 0, 0, 5])]);
    let verdict = Verdict::of(&four(), &batches);
    assert_eq!((verdict.sent, verdict.arrived, verdict.lost, verdict.strays), (9, 9, 0, 9));
    assert!(!verdict.is_right());
    let found = |bucket, belongs_to, arrived_on, flows| {
        let bucket = Buckets::DEFAULT.bucket(bucket).unwrap();
        Misplaced { bucket, belongs_to, arrived_on, flows }
    };
    assert_eq!(verdict.misplaced, [found(3, 3, 2, 4), found(98, 2, 3, 5)]);
    let right = MISROUTED.replace("\t3\t2", "\t2\t2").replace("335a5c03\t2", "335a5c03\t3");
    let verdict = Verdict::of(&four(), &read_log(&four(), &right).unwrap());
    assert!(verdict.is_right() && verdict.sent == 9);
}

/// Two lanes whose sockets sit in each other's place.
#[test]
fn crossed_lanes_are_found() {
    let crossed = [1, 0, 2, 3];
    let to = |bucket: usize| {
        let mut arrived = vec![0; 4];
        arrived[crossed[bucket % 4]] = 2;
        batch(bucket, 2, &arrived)
    };
    let verdict = Verdict::of(&four(), &(0..128).map(to).collect::<Vec<_>>());
    assert_eq!((verdict.sent, verdict.arrived, verdict.lost, verdict.strays), (256, 256, 0, 128));
    assert!(verdict.misplaced.iter().all(|one| one.belongs_to < 2 && one.arrived_on == 1 - one.belongs_to && one.flows == 2));
    assert_eq!(verdict.lanes[0], LaneSum { sent: 64, arrived: 64, strays: 64 });
    assert_eq!(verdict.lanes[2], LaneSum { sent: 64, arrived: 64, strays: 0 });
}

#[test]
fn what_is_sent_arrives_or_is_lost() {
    let batches = [batch(0, 4, &[4]), batch(1, 4, &[1, 2]), batch(2, 4, &[3, 0, 4, 0]), batch(3, 4, &[])];
    let verdict = Verdict::of(&four(), &batches);
    assert_eq!((verdict.sent, verdict.arrived, verdict.lost, verdict.strays), (12, 7, 5, 1));
    assert_eq!(verdict.disturbed, [Buckets::DEFAULT.bucket(2).unwrap()]);
    assert_eq!(verdict.sent, verdict.arrived + verdict.lost);
    assert_eq!(verdict.lanes.iter().map(|lane| lane.arrived).sum::<u64>(), verdict.arrived);
    assert_eq!(verdict.lanes.iter().map(|lane| lane.sent).sum::<u64>(), verdict.sent);
    assert_eq!(verdict.lanes.iter().map(|lane| lane.strays).sum::<u64>(), verdict.strays);
    // A stray is the lane's on which it arrived.
    let lanes = [(4, 5, 1), (4, 2, 0), (0, 0, 0), (4, 0, 0)];
    assert_eq!(verdict.lanes, lanes.map(|(sent, arrived, strays)| LaneSum { sent, arrived, strays }));
    assert!(!Verdict::of(&four(), &batches[3..]).is_right(), "what is lost is not right");
    assert!(Verdict::of(&four(), &[]).is_right());
}

#[test]
fn what_is_no_log_is_named() {
    for (log, line) in [
        ("0x1 0\n0x1\n", 2),
        ("0x1 -1", 1),
        ("0x1 256", 1),
        ("0x123456789 1", 1),
        ("flowid queue\nflowid queue\n", 2),
        ("\n\n# x\n0x1 1\nx 1", 5),
    ] {
        assert_eq!(read_log(&four(), log).unwrap_err().line, line, "{log:?}");
    }
    let long = read_log(&four(), &format!("0x1 1\n{}", "é".repeat(9_999))).unwrap_err();
    assert!(long.to_string().len() < 300);
    assert_eq!(read_log(&four(), "flowid queue\n\n"), Ok(Vec::new()));
}
