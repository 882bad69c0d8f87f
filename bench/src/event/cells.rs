//! What is measured of events: this file is the whole list.

/// The most descriptors of a cell.
pub const MOST: usize = 9_000;

/// A system of events under one kind of work.
#[derive(Debug)]
pub struct Cell {
    /// What `--only` and the tables call it.
    pub name: &'static str,
    /// The work.
    pub work: Work,
}

/// What a system does in a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Of so many registered sockets some become readable at a time, by another process.
    Sockets {
        /// All that are registered.
        registered: usize,
        /// Those that become readable.
        active: usize,
    },
    /// So many sockets are added, each by a call of its own, and removed again.
    Changes(usize),
    /// So many timers expire every 10 ms.
    Timers(usize),
}

/// The cell whose ratio to epoll may be 1.25, and where that ratio is to be the same whatever is registered: with 10 active ones.
pub const ALL_ACTIVE: &str = "event-2000-of-2000";
/// See [`ALL_ACTIVE`].
pub const FEWEST: &str = "event-10-of-10";
/// See [`ALL_ACTIVE`].
pub const MORE: [&str; 2] = ["event-10-of-2000", "event-10-of-9000"];

/// All cells.
pub const CELLS: &[Cell] = &[
    sockets("event-1-of-10", 1, 10),
    sockets(FEWEST, 10, 10),
    sockets(MORE[0], 10, 2_000),
    sockets(MORE[1], 10, MOST),
    sockets("event-20-of-2000", 20, 2_000),
    sockets(ALL_ACTIVE, 2_000, 2_000),
    sockets("event-90-of-9000", 90, MOST),
    sockets("event-9000-of-9000", MOST, MOST),
    Cell { name: "event-changes-2000", work: Work::Changes(2_000) },
    Cell { name: "event-timers-1000", work: Work::Timers(1_000) },
];

const fn sockets(name: &'static str, active: usize, registered: usize) -> Cell {
    Cell { name, work: Work::Sockets { registered, active } }
}

impl Work {
    /// The words for the program that measures.
    pub fn words(self, milliseconds: u128, writers_cpu: usize) -> Vec<String> {
        let words = match self {
            Work::Sockets { registered, active } => format!("sockets {registered} {active} {milliseconds} {writers_cpu}"),
            Work::Changes(registered) => format!("changes {registered} {milliseconds}"),
            Work::Timers(registered) => format!("timers {registered} {milliseconds}"),
        };
        words.split(' ').map(str::to_owned).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_told_its_work() {
        let words = |work: Work| work.words(300, 1).join(" ");
        assert_eq!(words(CELLS[0].work), "sockets 10 1 300 1");
        assert_eq!(words(Work::Changes(5)), "changes 5 300");
        assert_eq!(words(Work::Timers(7)), "timers 7 300");
    }

    #[test]
    fn a_cell_says_in_its_name_what_it_does_and_what_is_compared_differs_in_what_is_registered_alone() {
        for cell in CELLS {
            if let Work::Sockets { registered, active } = cell.work {
                assert_eq!(cell.name, format!("event-{active}-of-{registered}"));
            }
        }
        let active = |name: &str| match CELLS.iter().find(|cell| cell.name == name).expect("a cell").work {
            Work::Sockets { active, .. } => active,
            _ => 0,
        };
        assert_eq!([FEWEST, MORE[0], MORE[1]].map(active), [10; 3]);
    }
}
