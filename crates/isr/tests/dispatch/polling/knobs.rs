//! The knobs: names, ranges, words.

use corelane_isr::polling::{Knob, Knobs, Original};

#[test]
fn d_02_the_knobs_have_the_original_names_defaults_and_ranges() {
    let knobs = Knobs::default();
    let found = Knob::ALL.map(|knob| (knob.name(), knobs.get(knob), knobs.range(knob, 2500)));
    let expected = [
        ("user_frac", 50, 0..=99),
        ("burst_max", 150, 10..=20_000),
        ("each_burst", 5, 1..=150),
        ("reg_frac", 20, 1..=2500),
        ("idle_poll", 0, 0..=1),
    ];
    assert_eq!(found, expected);
    assert_eq!(Original::new(2500, knobs).unwrap().variables().burst, 5);
}

#[test]
fn d_02_what_is_out_of_range_is_refused_in_words_and_changes_nothing() {
    let mut knobs = Knobs::DEFAULT;
    for knob in Knob::ALL {
        let (least, most) = knobs.range(knob, 1000).into_inner();
        for value in [i64::from(least) - 1, i64::from(most) + 1, i64::MIN, i64::MAX, 1 << 32] {
            let error = knobs.set(knob, value, 1000).unwrap_err();
            assert_eq!(error.to_string(), format!("{knob} is {least} to {most}, not {value}"));
            assert_eq!(knobs, Knobs::DEFAULT);
        }
        for value in [least, most] {
            let mut knobs = knobs;
            knobs.set(knob, value.into(), 1000).unwrap();
            assert_eq!(knobs.get(knob), value);
        }
    }
    assert_eq!(Original::new(0, knobs).unwrap_err().to_string(), "hz is 1 to 1000000, not 0");
    let wrong = Knobs { each_burst: 151, ..knobs };
    assert_eq!(Original::new(1000, wrong).unwrap_err().to_string(), "each_burst is 1 to 150, not 151");
    let slow = Original::new(19, knobs).unwrap_err();
    assert_eq!(slow.to_string(), "reg_frac is 1 to 19, not 20");
}

#[test]
fn d_02_each_burst_becomes_ten_where_burst_max_gets_below_it() {
    let mut knobs = Knobs::DEFAULT;
    knobs.set(Knob::EachBurst, 100, 1000).unwrap();
    knobs.set(Knob::BurstMax, 100, 1000).unwrap();
    assert_eq!(knobs.each_burst, 100, "not below");
    knobs.set(Knob::BurstMax, 99, 1000).unwrap();
    assert_eq!((knobs.burst_max, knobs.each_burst), (99, 10));
}

/// What was found under other knobs comes into the range of the new ones at once.
#[test]
fn d_02_burst_and_status_follow_lowered_knobs() {
    let mut original = Original::new(1000, Knobs::DEFAULT).unwrap();
    original.register(1).unwrap();
    for tick in 1..100_u64 {
        let mut again = original.tick(tick * 1000);
        while again {
            original.poll(tick * 1000);
            again = original.end(tick * 1000);
        }
    }
    assert_eq!(original.variables().burst, 104);
    original.set(Knob::BurstMax, 40).unwrap();
    assert_eq!(original.variables().burst, 40);
    original.set(Knob::RegFrac, 1).unwrap();
    assert!(original.tick(1_000_000) && original.poll(1_000_000).checks_status);
}
