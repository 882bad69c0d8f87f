//! Which lanes a program has, and on which CPUs: what was set, the machine, and a plan of both.

use crate::admin::messages::Degraded;
use crate::error::Error;
use crate::lanes::builder::{Lanes, Served};
use corelane_lane::LaneSettings;
use corelane_os::cpus;
use corelane_rss::MOST_LANES;
use corelane_rss::Transport;
use corelane_seam::parcel::AbroadLimits;
use corelane_seam::{Address, Record};
use corelane_steer::{LanePlan, Topology, Warning, Wish, plan};
use std::io;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::time::Duration;

/// How many lanes [`Lanes::per_core`] makes: one for each CPU that affinity allows, no more than the control group pays for.
///
/// # Errors
/// What the system says of the affinity.
pub fn lanes_for_this_machine() -> Result<usize, Error> {
    Ok(Topology::read(&[], None).map_err(affinity)?.lanes_by_default())
}

fn affinity(error: io::Error) -> Error {
    Error::System { what: "asking for the CPUs of this process", error }
}

/// Refuses what no plan can be made of.
pub(crate) fn check(lanes: &Lanes) -> Result<(), Error> {
    if let Some(asked) = &lanes.cpus {
        check_cpus(asked, &cpus::allowed().map_err(affinity)?)?;
    }
    check_limits(lanes, lanes.settings.memory_bytes)?;
    check_spin(lanes.settings.spin)?;
    check_parcels(lanes.parcels)?;
    lanes.stall.map_or(Ok(()), check_stall)?;
    let serves = !lanes.wires.is_empty() || lanes.services.iter().any(|service| service.url.is_some());
    // Flows are given to lanes by a table, which names so many; clients need a row each on the page.
    let most = if serves { MOST_LANES } else { corelane_watch::LANES_MAX };
    match lanes.lanes {
        Some(count) if !(1..=most).contains(&count) => {
            let why = format!("{count} is not a number of lanes: use 1 to {most}");
            Err(Error::Setting { name: "lanes", why })
        }
        _ => Ok(()),
    }
}

/// The longest time that a lane may be told to spin: whoever has less to do than once a second has no use for a CPU of its own.
const SPIN_MAX: Duration = Duration::from_secs(1);

fn check_spin(spin: Duration) -> Result<(), Error> {
    if spin <= SPIN_MAX {
        return Ok(());
    }
    Err(Error::Setting { name: "spin", why: format!("{spin:?} is too long: use 0 to {SPIN_MAX:?}") })
}

fn check_parcels(limits: AbroadLimits) -> Result<(), Error> {
    let (parcels, most) = (limits.parcels_max, AbroadLimits::PARCELS_MOST);
    if (1..=most).contains(&parcels) {
        return Ok(());
    }
    Err(Error::Setting { name: "parcels", why: format!("{parcels} parcels of a lane's memory cannot be away: use 1 to {most}") })
}

/// Times that may be taken for a stall: a shorter turn may be the system's doing, and after a longer one nobody asks any more.
const STALLS: RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_secs(3600);

fn check_stall(limit: Duration) -> Result<(), Error> {
    if STALLS.contains(&limit) {
        return Ok(());
    }
    Err(Error::Setting { name: "stall", why: format!("{limit:?} is no limit for a turn: use 10 ms to an hour") })
}

/// Refuses limits that lanes with so much memory each cannot keep.
pub(crate) fn check_limits(lanes: &Lanes, memory_bytes: usize) -> Result<(), Error> {
    let check = |served: &Served| served.limits.check(memory_bytes).map_err(|why| Error::Setting { name: "limits", why });
    lanes.services.iter().try_for_each(check)
}

fn check_cpus(asked: &[usize], allowed: &[usize]) -> Result<(), Error> {
    let why = match asked.iter().find(|cpu| !allowed.contains(cpu)) {
        None if asked.is_empty() => "the list is empty: name at least one".to_string(),
        None => return Ok(()),
        Some(cpu) => {
            format!("CPU {cpu} is not among those that this process may use ({allowed:?}): name others, or widen its affinity")
        }
    };
    Err(Error::Setting { name: "cpus", why })
}

/// The plan for lanes that [`check`] has passed, which serve these addresses.
pub(crate) fn of(lanes: &Lanes, places: &[(Transport, Address)]) -> Result<(Topology, LanePlan), Error> {
    let addresses: Vec<IpAddr> = places.iter().filter_map(|(_, address)| address.ip()).collect();
    // Of several ports the first: the plan is of one card.
    let named = lanes.wires.devices().next();
    let topology = Topology::read(&addresses, named).map_err(affinity)?;
    let serves = |transport| places.iter().any(|(served, address)| *served == transport && address.ip().is_some());
    let wish = Wish { lanes: lanes.lanes, cpus: lanes.cpus.clone(), tcp: serves(Transport::Tcp), udp: serves(Transport::Udp) };
    let plan = plan(&topology, &wish);
    if !places.is_empty() || !lanes.wires.is_empty() {
        lanes.steering.table(plan.lanes.len())?;
    }
    Ok((topology, plan))
}

/// The least memory that a lane is given because the control group allows little.
const LANE_MEMORY_MIN: usize = 4 << 20;

/// Bytes to which a lane's memory is rounded down.
const LANE_MEMORY_STEP: usize = 1 << 20;

/// Makes the memory of `lanes` lanes fit in a half of what the control group allows, unless it was `asked` for; the rest is for the process itself
/// and for the kernel's buffers. Returns what the operator should know.
pub(crate) fn fit_memory(asked: bool, lanes: usize, memory_bytes: &mut usize, limit: Option<u64>) -> Option<String> {
    let half = usize::try_from(limit? / 2).unwrap_or(usize::MAX);
    if memory_bytes.checked_mul(lanes).is_some_and(|all| all <= half) {
        return None;
    }
    let mib = |bytes: usize| bytes >> 20;
    let fitting = (half / lanes / LANE_MEMORY_STEP * LANE_MEMORY_STEP).max(LANE_MEMORY_MIN);
    let what = format!(
        "memory: {lanes} x {} MiB are more than a half of the {} MiB of the control group",
        mib(*memory_bytes),
        mib(half) * 2
    );
    let done = match (asked, fitting * lanes <= half) {
        (true, _) => "kept, because it was asked for: the kernel may end the process".to_owned(),
        (false, true) => format!("each lane takes {} MiB", mib(fitting)),
        (false, false) => format!("each lane takes the least, {} MiB: the kernel may end the process", mib(fitting)),
    };
    if !asked {
        *memory_bytes = fitting.min(*memory_bytes);
    }
    Some(format!("{what}: {done}; remedy: a higher memory.max, fewer lanes, or --memory"))
}

impl Lanes {
    /// The plan of [`Lanes::start`]: the machine as it was found, and the lanes on it. Nothing is started or taken.
    ///
    /// # Errors
    /// [`Error::Setting`], [`Error::Host`], or what the system says of the affinity.
    pub fn plan(&self) -> Result<(Topology, LanePlan), Error> {
        check(self)?;
        let mut places = Vec::new();
        for url in self.services.iter().filter_map(|service| service.url.as_ref()) {
            places.extend(url.resolve()?.into_iter().map(|address| (url.transport(), address)));
        }
        of(self, &places)
    }
}

/// Remarks on a plan, for the operator. Lanes that share a CPU do not spin.
/// Together they take no more memory than the control group allows.
pub(crate) fn notes_of(plan: &LanePlan, memory_is_asked: bool, settings: &mut LaneSettings) -> Vec<Record> {
    let mut notes: Vec<Record> = plan.warnings.iter().map(|warning| Degraded::from(warning).note(warning)).collect();
    let shares_cpus = |warning: &Warning| matches!(warning, Warning::MoreLanesThanCpus { .. });
    if !settings.spin.is_zero() && plan.warnings.iter().any(shares_cpus) {
        settings.spin = Duration::ZERO;
        notes.push(Degraded::NoSpin.note("more lanes than CPUs: no lane spins; remedy: fewer lanes, or no spin time"));
    }
    let limit = corelane_os::memory::group_limit();
    let fitted = fit_memory(memory_is_asked, plan.lanes.len(), &mut settings.memory_bytes, limit);
    notes.extend(fitted.map(|note| Degraded::LessMemory.note(note)));
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Cx, Input, Next, Output, Peer, Silent, StreamService};

    struct Nothing;

    impl StreamService for Nothing {
        type Talk = Silent;
        type Session = ();

        fn open(&mut self, _: &mut Cx<'_>, _: &Peer) {}

        fn receive(&mut self, _: &mut Cx<'_>, _: &mut (), _: &mut Input, _: &mut Output) -> Next {
            Next::Close
        }
    }

    /// The memory of a lane in MiB, and the words, of so many lanes of 64 MiB in a group with so many MiB.
    fn fitted(asked: bool, lanes: usize, limit: Option<u64>) -> (usize, String) {
        let mut bytes = 64 << 20;
        let words = fit_memory(asked, lanes, &mut bytes, limit.map(|mib| mib << 20)).unwrap_or_default();
        assert_eq!(bytes % LANE_MEMORY_STEP, 0);
        (bytes >> 20, words)
    }

    #[test]
    fn lanes_take_a_half_of_what_the_group_allows() {
        for (lanes, limit) in [(9, None), (4, Some(512)), (1, Some(128))] {
            assert_eq!(fitted(false, lanes, limit), (64, String::new()));
        }
        let (mib, words) = fitted(false, 4, Some(511));
        assert!(
            mib == 63 && words.contains("4 x 64 MiB") && words.contains("each lane takes 63 MiB; remedy: "),
            "{mib}: {words}"
        );
        let (mib, words) = fitted(false, 8, Some(20));
        assert!(mib == 4 && words.contains("takes the least, 4 MiB: the kernel may end"), "{mib}: {words}");
    }

    #[test]
    fn what_is_out_of_range_is_refused_with_the_range_that_holds() {
        let refused = |lanes: Lanes| match check(&lanes) {
            Err(Error::Setting { name, why }) => format!("{name}: {why}"),
            other => format!("{other:?}"),
        };
        let serving = |count| Lanes::per_core().lanes(count).serve("tcp://127.0.0.1:0", |_| Nothing).unwrap();
        let client = |count| Lanes::per_core().lanes(count).client(|_| Nothing);
        for count in [0, MOST_LANES + 1] {
            assert_eq!(refused(serving(count)), format!("lanes: {count} is not a number of lanes: use 1 to 256"));
        }
        assert_eq!((refused(serving(MOST_LANES)), refused(client(1024))), ("Ok(())".into(), "Ok(())".into()));
        assert_eq!(refused(client(1025)), "lanes: 1025 is not a number of lanes: use 1 to 1024");
        assert_eq!(refused(serving(1).spin(Duration::from_secs(1))), "Ok(())");
        let too_long = refused(serving(1).spin(Duration::from_micros(1_000_001)));
        assert_eq!(too_long, "spin: 1.000001s is too long: use 0 to 1s");
        assert!(refused(serving(1).spin(Duration::MAX)).starts_with("spin: "));
    }

    #[test]
    fn what_was_asked_for_is_kept_with_a_warning() {
        let (mib, words) = fitted(true, 4, Some(511));
        assert!(mib == 64 && words.contains("kept, because it was asked for") && words.contains("--memory"), "{mib}: {words}");
        assert_eq!(fit_memory(true, 2, &mut (usize::MAX / 2 + 1), Some(u64::MAX / 4)).map(|words| words.is_empty()), Some(false));
    }
}
