//! Upstreams as options of a service's entry: `?to=HOST:PORT,..&balance=least&check=5s`.

use crate::settings::{Balance, Check, Settings};
use crate::source::Source;
use crate::targets::{Place, Target, Targets};
use crate::tend::{address_key, flow_key};
use corelane::service::entry::Asked;
use corelane::service::entry::choice::{Choice, Chosen, Number, OneOf, Text, Time, Use};
use corelane::{Address, Error};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

const TO: Text = Text::new(
    "to",
    "HOST:PORT,..",
    are_targets,
    "upstreams: HOST:PORT, [IPv6]:PORT or unix:PATH, with tls:// before one that is spoken to by TLS, each with *WEIGHT behind it if it is to have more than others; \
     file:PATH for those in the lines of a file, srv:NAME for those of SRV records",
)
.naming(|text| text.parse().as_ref().map_or_else(|_| Vec::new(), uses));

/// The parts of the system that these upstreams take: a check warns of those that are not there, and a sandbox lets a process reach them.
pub fn uses(targets: &Targets) -> Vec<Use> {
    let names = targets.all().iter().map(|target| Use::Upstream(target.name().to_owned()));
    let of_source = |target: &Target| match target.place() {
        Place::Source(Source::File(path)) => vec![Use::Read(path.clone()), Use::ConnectedToAny],
        Place::Source(Source::Srv { .. }) => vec![Use::ConnectedToAny],
        Place::At(_) | Place::Named { .. } => Vec::new(),
    };
    let of_sources = targets.all().iter().flat_map(of_source);
    targets.ports().map(Use::Connected).chain(names).chain(of_sources).collect()
}

const IN_TURN: &str = "round-robin";
const LEAST: &str = "least";
const BY_ADDRESS: &str = "address";
const BY_FLOW: &str = "flow";

const BALANCE: OneOf = OneOf::new(
    "balance",
    "HOW",
    &[IN_TURN, LEAST, BY_ADDRESS, BY_FLOW],
    "which upstream is next: in turn, the one with least to do, or the same one for a client's address, or for a flow",
);

const FAILURES: Number =
    Number::new("failures", "failures", "eject an upstream after so many failures in a row; 0 never").between(0, 1_000, 5);

const EJECTION: Time = Time::new(
    "ejection",
    "how long the first ejection lasts; each further one twice as long, five minutes at the most",
)
.between(Duration::from_millis(100), Duration::from_secs(300), Duration::from_secs(10));

const SLOW_START: Time = Time::new("slow-start", "over how long an upstream that comes back gets its whole part").between(
    Duration::ZERO,
    Duration::from_secs(3_600),
    Duration::ZERO,
);

const CHECK: Time = Time::new("check", "connect to each upstream so often, and take only those that let us; 0s never").between(
    Duration::ZERO,
    Duration::from_secs(3_600),
    Duration::ZERO,
);

const CHECK_PATH: Text = Text::new(
    "check-path",
    "PATH",
    is_path,
    "with check=TIME, ask each upstream for this path by HTTP, and take only those that answer 2xx or 3xx",
);

const CHECK_WITHIN: Time = Time::new("check-within", "how long a check may take").between(
    Duration::from_millis(10),
    Duration::from_secs(60),
    Duration::from_secs(4),
);

const RESOLVE: Time = Time::new("resolve", "how often names of upstreams are resolved").between(
    Duration::from_secs(1),
    Duration::from_secs(86_400),
    Duration::from_secs(30),
);

const CONNECTIONS: Number = Number::new(
    "upstream-connections",
    "connections",
    "clients, or requests, that one upstream has under way at once on each lane; 0 for a quarter of connections_max where there are several, and no bound of a lone one; more get another upstream, or are refused",
)
.between(0, 1_000_000, 0);

/// The name of the option that bounds the uses of each upstream.
pub const CONNECTIONS_NAME: &str = CONNECTIONS.name;

/// The name of the option that names upstreams.
pub const TO_NAME: &str = TO.name;

/// The names of the options of checks.
pub const CHECK_NAMES: [&str; 3] = [CHECK.name, CHECK_PATH.name, CHECK_WITHIN.name];

/// All options.
pub const OPTIONS: &[Choice] = &[
    Choice::Text(TO),
    Choice::OneOf(BALANCE),
    Choice::Number(FAILURES),
    Choice::Time(EJECTION),
    Choice::Time(SLOW_START),
    Choice::Time(CHECK),
    Choice::Text(CHECK_PATH),
    Choice::Time(CHECK_WITHIN),
    Choice::Time(RESOLVE),
    Choice::Number(CONNECTIONS),
];

/// The option that names upstreams, for services that follow its changes ([`Upstreams::retarget`](crate::Upstreams::retarget)).
pub const TARGETS: Choice = Choice::Text(TO);

/// The upstreams that are chosen, if some are.
pub fn targets(chosen: &Chosen) -> Option<Targets> {
    chosen.text(&TO)?.parse().ok()
}

/// What is behind a service.
#[derive(Clone, Debug)]
pub struct Behind {
    /// Its upstreams.
    pub targets: Targets,
    /// How they are chosen.
    pub settings: Settings,
    /// The key of a client, for [`Upstreams::begin`](crate::Upstreams::begin).
    pub key: fn(&Address) -> u64,
}

/// What somebody chose; none where no upstream is named.
///
/// # Errors
/// [`Error::Option`], for options that mean nothing without upstreams.
pub fn behind(asked: &Asked) -> Result<Option<Behind>, Error> {
    let chosen = asked.chosen();
    let Some(text) = chosen.text(&TO) else {
        let without = OPTIONS.iter().find(|option| chosen.has(option.name()));
        return without.map_or(Ok(None), |option| Err(asked.refuse(option.name(), "it means nothing without to=HOST:PORT")));
    };
    let targets = text.parse().map_err(|error: crate::TargetError| asked.refuse(TO.name, error.to_string()))?;
    let of_checks = [CHECK_PATH.name, CHECK_WITHIN.name].into_iter().find(|option| chosen.has(option));
    if let Some(option) = of_checks.filter(|_| chosen.time(&CHECK).is_zero()) {
        return Err(asked.refuse(option, "it means nothing without check=TIME"));
    }
    Ok(Some(chosen_for(chosen, targets)))
}

/// The same; with these targets where none is named.
///
/// # Errors
/// As [`behind`], for a list that cannot be used.
pub fn behind_or(asked: &Asked, targets: Targets) -> Result<Behind, Error> {
    match asked.chosen().has(TO.name) {
        true => behind(asked).map(|found| found.unwrap_or_else(|| chosen_for(asked.chosen(), targets))),
        false => Ok(chosen_for(asked.chosen(), targets)),
    }
}

fn chosen_for(chosen: &Chosen, targets: Targets) -> Behind {
    let key = if chosen.one_of(&BALANCE) == BY_FLOW { flow_key } else { address_key };
    Behind { targets, settings: settings(chosen), key }
}

fn settings(chosen: &Chosen) -> Settings {
    let check = chosen.time(&CHECK);
    Settings {
        balance: match chosen.one_of(&BALANCE) {
            IN_TURN => Balance::RoundRobin,
            LEAST => Balance::Least,
            _ => Balance::Hash,
        },
        failures_max: chosen.number(&FAILURES) as u32,
        ejection: chosen.time(&EJECTION),
        slow_start: chosen.time(&SLOW_START),
        check: (!check.is_zero()).then(|| Check {
            within: chosen.time(&CHECK_WITHIN),
            path: chosen.text(&CHECK_PATH).map(Arc::from),
            ..Check::every(check)
        }),
        resolve_every: chosen.time(&RESOLVE),
        uses_max: NonZeroU32::new(chosen.number(&CONNECTIONS) as u32),
        ..Settings::new()
    }
}

fn is_path(text: &str) -> Result<(), String> {
    match text.starts_with('/') && text.bytes().all(|byte| byte.is_ascii_graphic()) {
        true => Ok(()),
        false => Err(format!("{text:?} is no path: write one that begins with /, such as /health")),
    }
}

fn are_targets(text: &str) -> Result<(), String> {
    text.parse::<Targets>().map(drop).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_chosen_is_set() {
        let of = |query: &str| settings(&Chosen::read(OPTIONS, query).unwrap());
        assert_eq!(of("to=a:1"), Settings::new());
        let all = of("to=a:1&balance=flow&failures=2&ejection=1s&slow-start=3s&check=4s&resolve=5s&upstream-connections=7");
        let seconds = Duration::from_secs;
        let expected = Settings {
            balance: Balance::Hash,
            failures_max: 2,
            ejection: seconds(1),
            slow_start: seconds(3),
            check: Some(Check::every(seconds(4))),
            resolve_every: seconds(5),
            uses_max: NonZeroU32::new(7),
            ..Settings::new()
        };
        assert_eq!(all, expected);
        assert_eq!((of("to=a:1&balance=least").balance, of("to=a:1&balance=address").balance), (Balance::Least, Balance::Hash));
        assert!(Chosen::read(OPTIONS, "to=a").unwrap_err().why.contains("write HOST:PORT"));
    }
}
