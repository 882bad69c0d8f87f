//! Rows of what the originals did, and where each is shown: K of kevent of 2007, Q of kqueue(2). A row of kqueue is shown by the cases of this suite that name it.

use std::path::Path;

use libtest_mimic::Failed;

use crate::GROUPS;

/// The last rule of kqueue(2) that cases name; the one after it asks for the suite itself.
const LAST_RULE: u32 = 23;

const KEVENT: &str = "../kevent/tests/all/rows.rs";
const IN_C: &str = "tests/programs/main.rs";

/// A row of kevent, the file with its tests, and how their names begin.
const ROWS: &[(&str, &str, &str)] = &[
    ("K-01 lists of origins", KEVENT, "k_01_"),
    ("K-01 work for an event", IN_C, "an_event_takes_as_much_work_with_2000_descriptors_as_with_10"),
    ("K-02 look-up", KEVENT, "k_02_"),
    ("K-03 record", KEVENT, "k_03_"),
    ("K-04 types", KEVENT, "k_04_"),
    ("K-05 masks", KEVENT, "k_04_k_05_"),
    ("K-06 ONESHOT", KEVENT, "k_06_oneshot_"),
    ("K-06 WAKEUP_ALL", KEVENT, "k_06_one_queue_is_woken_and_with_wakeup_all_"),
    ("K-06 ET", KEVENT, "k_06_et_"),
    ("K-06 LAST_CHECK", KEVENT, "k_06_last_check_"),
    ("K-06 ALWAYS_QUEUE", KEVENT, "k_06_always_queue_"),
    ("K-07 return flags", KEVENT, "k_04_k_05_k_07_"),
    ("K-08 init", KEVENT, "k_08_"),
    ("K-09 ADD", KEVENT, "k_09_"),
    ("K-10 MODIFY and REMOVE", KEVENT, "k_10_"),
    ("K-11 READY", KEVENT, "k_11_"),
    ("K-12 get_events", KEVENT, "k_12_"),
    ("K-13 wait", KEVENT, "k_13_"),
    ("K-14 commit", KEVENT, "k_14_"),
    ("K-15 ring", KEVENT, "k_15_"),
    ("K-15 cancellation", IN_C, "a_thread_that_is_cancelled_while_it_waits_loses_no_event_of_the_ring"),
    ("K-16 pollable", KEVENT, "k_16_"),
    ("K-17 teardown", KEVENT, "k_17_"),
    ("K-18 statistics", KEVENT, "k_18_"),
    ("K-19 lost events", KEVENT, "k_19_"),
    ("K-20 sockets", KEVENT, "k_20_sockets_"),
    ("K-20 pipes", KEVENT, "k_20_pipes_"),
    ("K-21 poll", KEVENT, "k_21_"),
    ("K-22 timers", KEVENT, "k_22_"),
    ("K-23 directories", KEVENT, "k_23_"),
    ("K-24 signals", KEVENT, "k_24_"),
    ("K-25 evtest", IN_C, "evtest_tells_a_line_for_each_wake_and_event"),
    ("K-30 evserver", IN_C, "evserver_answers_on_every_system_of_events"),
    ("K-31 httperf's figures", "../../cli/commands/src/load/styles/httperf.rs", "the_page_has_every_figure_in_its_place"),
    ("K-31 httperf's errors", "../../cli/commands/src/load/styles/httperf.rs", "each_kind_of_error_has_its_field"),
    ("A-01 operations", KEVENT, "a_01_"),
];

/// Each row has a test of its name, and each rule of kqueue(2) a case.
pub fn are_shown() -> Result<(), Failed> {
    let missing: Vec<_> = ROWS.iter().filter(|(_, file, name)| !has_test(file, name)).map(|(row, ..)| *row).collect();
    let rules = (1..=LAST_RULE).map(|number| format!("Q-{number:02}"));
    let unseen: Vec<_> =
        rules.filter(|rule| GROUPS.iter().all(|(_, cases)| cases.iter().all(|case| case.rule != rule))).collect();
    if missing.is_empty() && unseen.is_empty() {
        return Ok(());
    }
    Err(Failed::from(format!("no test shows {missing:?}, and no case {unseen:?}")))
}

fn has_test(file: &str, name: &str) -> bool {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    text.split("#[test]\n").skip(1).any(|rest| rest.trim_start().trim_start_matches("fn ").starts_with(name))
}
