//! What only one service counts: declared once, with that service, and named in the page, so that readers which do not know the service
//! read it too.

use crate::catalogue::{Counter, Declaration, Kind, ServiceCounter};
use crate::layout::{COUNTER_NAME_BYTES_MAX, COUNTER_UNIT_BYTES_MAX, OWN_COUNTERS_MAX};

/// A counter of a service's own: an enum that [`counters!`](crate::counters) makes.
pub trait OwnCounter: Copy + 'static {
    /// What is said of each, in the order of their words in a row.
    const DECLARED: &'static [Declaration];
    /// Where their words begin in a row: behind those of the service, if an application of it counts them.
    const FIRST: usize;

    /// Which one of the declared this is.
    fn index(self) -> usize;
}

/// Declares what a service counts beside what all services have: an enum to count with, whose names, kinds (`Counter` or `Gauge`), units and
/// meanings stand in the page, in `corelane stat` and in COUNTERS.md. Names are in snake case, of at most 32 bytes, and none that another counter
/// has; units have at most 11 bytes; meanings are one sentence. What is not so is an error when it is compiled.
///
/// What an application counts that a service calls stands `behind` that service's counters: `pub enum Sold behind HttpCounter { .. }`.
///
/// ```
/// # mod corelane { pub use corelane_watch::counters; pub mod service { pub use corelane_watch::OwnCounter; } }
/// corelane::counters! {
///     /// What the shop counts.
///     pub enum Sold {
///         Apples "apples_sold" Counter "apples" "Apples that were paid for.";
///         Baskets "baskets_open" Gauge "baskets" "Baskets that nobody has paid for yet.";
///     }
/// }
/// use corelane::service::OwnCounter;
/// assert_eq!(Sold::DECLARED[Sold::Baskets.index()].name, "baskets_open");
/// ```
/// ```compile_fail,E0080
/// # mod corelane { pub use corelane_watch::counters; }
/// corelane::counters! {
///     /// A name that all services have already.
///     pub enum Twice {
///         Accepts "accepts" Counter "connections" "Connections accepted.";
///     }
/// }
/// ```
#[macro_export]
macro_rules! counters {
    (
        $(#[$doc:meta])* $visibility:vis enum $name:ident $(behind $before:ty)? {
            $($variant:ident $text:literal $kind:ident $unit:literal $meaning:literal;)*
        }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        $visibility enum $name {
            $(#[doc = $meaning] $variant,)*
        }

        impl $crate::OwnCounter for $name {
            const DECLARED: &'static [$crate::Declaration] =
                &[$($crate::Declaration {
                    name: $text,
                    kind: $crate::Kind::$kind,
                    unit: $unit,
                    meaning: $meaning,
                    place: <Self as $crate::OwnCounter>::FIRST + Self::$variant as usize,
                }),*];
            const FIRST: usize = 0 $(+ <$before as $crate::OwnCounter>::FIRST + <$before as $crate::OwnCounter>::DECLARED.len())?;

            #[inline(always)]
            fn index(self) -> usize {
                self as usize
            }
        }

        const _: () = $crate::check_declared(<$name as $crate::OwnCounter>::DECLARED, <$name as $crate::OwnCounter>::FIRST);
    };
}

/// The counters of a service, and behind them those of the application that it calls: what such a service declares.
///
/// ```
/// # mod corelane { pub use corelane_watch::counters; pub mod service { pub use corelane_watch::{Declaration, Joined, OwnCounter}; } }
/// use corelane::service::{Declaration, Joined, OwnCounter};
///
/// corelane::counters! {
///     /// What the market counts.
///     enum Market {
///         Visits "visits" Counter "requests" "Visits.";
///     }
/// }
/// corelane::counters! {
///     /// What a stall on it counts.
///     enum Stall behind Market {
///         Apples "apples_sold" Counter "apples" "Apples that were paid for.";
///     }
/// }
/// const ALL: &Joined = &Joined::new(Market::DECLARED, Stall::DECLARED);
/// assert_eq!(ALL.declared()[1].name, "apples_sold");
/// ```
/// ```compile_fail,E0080
/// # mod corelane { pub use corelane_watch::counters; pub mod service { pub use corelane_watch::{Joined, OwnCounter}; } }
/// corelane::counters! {
///     /// What counts beside others, and does not say behind which.
///     enum Alone {
///         Apples "apples_sold" Counter "apples" "Apples that were paid for.";
///     }
/// }
/// use corelane::service::{Joined, OwnCounter};
/// const ALL: &Joined = &Joined::new(Alone::DECLARED, Alone::DECLARED);
/// ```
#[derive(Debug)]
pub struct Joined {
    declared: [Declaration; OWN_COUNTERS_MAX],
    count: usize,
}

impl Joined {
    /// Those of the `service`, and those of its `application`.
    ///
    /// # Panics
    /// If the application's are not declared `behind` the service's, if two have one name, or with more than a row has room for: in a constant an error of the compiler.
    pub const fn new(service: &[Declaration], application: &[Declaration]) -> Self {
        let count = service.len() + application.len();
        assert!(count <= OWN_COUNTERS_MAX, "a service and its application have too many counters");
        let none = Declaration { name: "", kind: Kind::Counter, unit: "", meaning: "", place: 0 };
        let mut declared = [none; OWN_COUNTERS_MAX];
        let mut i = 0;
        while i < count {
            declared[i] = if i < service.len() { service[i] } else { application[i - service.len()] };
            i += 1;
        }
        check_declared(declared.split_at(count).0, 0);
        Self { declared, count }
    }

    /// All of them.
    pub const fn declared(&self) -> &[Declaration] {
        self.declared.split_at(self.count).0
    }
}

/// Panics, which is an error of the compiler in a constant, at what [`counters!`](crate::counters) does not allow.
#[doc(hidden)]
pub const fn check_declared(declared: &[Declaration], first: usize) {
    assert!(declared.len() <= OWN_COUNTERS_MAX, "a service has too many counters of its own");
    let mut i = 0;
    while i < declared.len() {
        check_one(&declared[i]);
        assert!(
            declared[i].place == first + i,
            "an application's counters are declared behind those of the service that calls it"
        );
        assert!(!has(ServiceCounter::DECLARED, declared[i].name), "all services have a counter of this name");
        assert!(!has(declared.split_at(i).0, declared[i].name), "two counters have one name");
        i += 1;
    }
}

const fn check_one(declaration: &Declaration) {
    let (name, unit) = (declaration.name.as_bytes(), declaration.unit.as_bytes());
    assert!(!name.is_empty() && name.len() <= COUNTER_NAME_BYTES_MAX, "the name of a counter is too long, or there is none");
    assert!(!unit.is_empty() && unit.len() <= COUNTER_UNIT_BYTES_MAX, "the unit of a counter is too long, or there is none");
    assert!(!matches!(declaration.kind, Kind::Mark), "marks are of lanes: use Counter or Gauge");
    let mut i = 0;
    while i < name.len() {
        assert!(matches!(name[i], b'a'..=b'z' | b'0'..=b'9' | b'_'), "the name of a counter is not in snake case");
        i += 1;
    }
}

const fn has(declared: &[Declaration], name: &str) -> bool {
    let mut i = 0;
    while i < declared.len() {
        if is_same(declared[i].name.as_bytes(), name.as_bytes()) {
            return true;
        }
        i += 1;
    }
    false
}

const fn is_same(a: &[u8], b: &[u8]) -> bool {
    let mut i = 0;
    while i < a.len() && i < b.len() && a[i] == b[i] {
        i += 1;
    }
    i == a.len() && i == b.len()
}
