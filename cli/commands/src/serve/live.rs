//! Services whose options change while they serve: which of a file's differ in such options alone, and what they are told.

use super::settings::{SERVICES, Setting};
use corelane::lanes::LiveServices;
use corelane::service::entry::find;
use corelane_services as services;
use std::time::Duration;

/// How long the lanes may take to have what is new.
const PATIENCE: Duration = Duration::from_secs(5);

/// A service that is told other options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    number: usize,
    /// Its place among all that is set.
    at: usize,
    /// As it is set now.
    pub value: String,
    /// All of its options that can change while it serves.
    options: String,
}

/// The outcome of a change.
#[derive(Debug, PartialEq, Eq)]
pub enum Became {
    /// All lanes have it.
    InForce,
    /// This lane will have it when its turn ends.
    Late(usize),
    /// The service cannot follow it.
    Waits,
}

/// Options that no text of settings has.
const UNKNOWN: &str = "\n";

/// The services that run, in their order, as lanes have them.
#[derive(Debug)]
pub struct InForce(Vec<Parts>);

impl InForce {
    /// As they were set at the start.
    pub fn new(began: &[Setting]) -> Self {
        Self(served(began).into_iter().map(|(parts, _)| parts).collect())
    }

    /// The changes to what is set now of services that are as they began but for such options. Those that could not be followed before are among them again. `names` are those of the services that run.
    pub fn changes(&self, now: &[Setting], names: &[String]) -> Vec<Change> {
        let now = served(now);
        let mut changes = Vec::new();
        let mut number = 0;
        for (at, (running, (now, value))) in self.0.iter().zip(&now).enumerate() {
            // A file that says all that there is to say is none of them.
            if names.get(number).is_none_or(|name| name != running.name) {
                continue;
            }
            if running.place == now.place && running.live != now.live {
                changes.push(Change { number, at, value: (*value).to_owned(), options: now.live.clone() });
            }
            number += 1;
        }
        // Where there are others, nobody knows which is which.
        let are_same = self.0.len() == now.len() && number == names.len();
        if are_same { changes } else { Vec::new() }
    }

    /// Lanes have this one from now on.
    pub fn note(&mut self, change: &Change) {
        self.0[change.at].live.clone_from(&change.options);
    }

    /// Some lanes may have this one, or have it later: nobody knows, so the next change is told whatever it is.
    pub fn note_late(&mut self, change: &Change) {
        UNKNOWN.clone_into(&mut self.0[change.at].live);
    }

    /// Those that lanes have as they are set now.
    pub fn whole<'a>(&self, now: &'a [Setting]) -> Vec<&'a str> {
        let is_so = |(running, (now, value)): (&Parts, (Parts, &'a str))| (*running == now).then_some(value);
        self.0.iter().zip(served(now)).filter_map(is_so).collect()
    }
}

/// Each service, and how it is set.
fn served(settings: &[Setting]) -> Vec<(Parts, &str)> {
    let services = settings.iter().filter(|one| one.is(SERVICES)).map(Setting::value);
    services.filter_map(|value| Some((parts(value)?, value))).collect()
}

/// The parts of how a service is set.
#[derive(Debug, PartialEq, Eq)]
struct Parts {
    name: &'static str,
    /// Where it is served, and its options that do not change.
    place: String,
    /// Those that do.
    live: String,
}

fn parts(value: &str) -> Option<Parts> {
    let (entry, place) = find(services::ALL, value).ok()?;
    let (url, query) = place.split_once('?').unwrap_or((place, ""));
    let is_live = |pair: &&str| entry.live_options().any(|name| pair.split('=').next() == Some(name));
    let pairs = || query.split('&').filter(|pair| !pair.is_empty());
    // A part's beginning says whose the options behind it are, of both kinds.
    let begins = |pair: &&str| entry.part().is_some_and(|part| pair.split('=').next() == Some(part.text.name));
    let live: Vec<&str> = pairs().filter(is_live).collect();
    let fixed: Vec<&str> = pairs().filter(|pair| begins(pair) || !is_live(pair)).collect();
    Some(Parts { name: entry.name(), place: format!("{}={url}?{}", entry.name(), fixed.join("&")), live: live.join("&") })
}

impl Change {
    /// Has the service follow.
    pub fn put_into_force(&self, services: &LiveServices) -> Became {
        match services.ask_one(self.number, &format!("options {}", self.options), PATIENCE) {
            Err(lane) => Became::Late(lane),
            Ok(answers) if !answers.is_empty() && answers.iter().all(|answered| answered.answer == "true") => Became::InForce,
            Ok(_) => Became::Waits,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(before: &[&str], now: &[&str], names: &[&str]) -> Vec<(usize, String)> {
        let [before, now] = [before, now].map(|values| values.iter().map(|value| Setting::service(value)).collect::<Vec<_>>());
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        InForce::new(&before).changes(&now, &names).into_iter().map(|change| (change.number, change.options)).collect()
    }

    #[test]
    fn services_that_differ_in_such_options_alone_are_told() {
        let (a, b) = ("http=http://h:1?root=/&field=/*=A: 1", "http=http://h:1?root=/&field=/*=B: 2&redirect=/x=/y");
        let options = "field=/*=B: 2&redirect=/x=/y".to_owned();
        assert_eq!(found(&[a], &[b], &["http"]), [(0, options.clone())]);
        assert_eq!(
            found(&["gateway=/g.toml", "echo=tcp://h:2", a], &["gateway=/g.toml", "echo=tcp://h:2", b], &["echo", "http"]),
            [(1, options)]
        );
        assert_eq!(found(&["proxy=tcp://h:1?to=a:1"], &["proxy=tcp://h:1?to=b:1*2"], &["proxy"]), [(0, "to=b:1*2".to_owned())]);
        assert_eq!(found(&[b], &["http=http://h:1?root=/"], &["http"]), [(0, String::new())]);
        let none: [(usize, String); 0] = [];
        let (c, d) =
            ("http=http://h:1?host=a&to=b:1&check=1s&host=c&root=/", "http=http://h:1?host=a&to=d:1&check=1s&host=c&root=/");
        assert_eq!(found(&[c], &[d], &["http"]), [(0, "host=a&to=d:1&host=c".to_owned())]);
        assert_eq!(
            found(&[c], &["http=http://h:1?host=a&to=b:1&host=c&check=1s&root=/"], &["http"]),
            none,
            "one for another host"
        );
        assert_eq!(found(&[a], &[a], &["http"]), none);
        assert_eq!(found(&[a], &["http=http://h:1?root=/tmp&field=/*=A: 1"], &["http"]), none, "another root");
        assert_eq!(found(&[a], &[b, "echo=tcp://h:2"], &["http"]), none, "one more");
        assert_eq!(found(&[a], &[b], &["http", "echo"]), none, "others were started");
    }

    #[test]
    fn a_service_that_is_not_as_it_began_is_not_told() {
        let of = |values: [&str; 2]| values.map(Setting::service);
        let began = InForce::new(&of(["http=http://h:1?root=/", "http=http://h:2?root=/"]));
        let now = of(["http=http://h:2?root=/&field=/=A: 1", "http=http://h:1?root=/"]);
        let names = ["http".to_owned(), "http".to_owned()];
        assert_eq!(began.changes(&now, &names), [], "the one that runs first is another");
        let now = of(["http=http://h:1?root=/tmp", "http=http://h:2?root=/&field=/=A: 1"]);
        let told: Vec<usize> = began.changes(&now, &names).iter().map(|change| change.number).collect();
        assert_eq!(told, [1], "others are told all the same");
    }

    #[test]
    fn what_was_not_followed_is_told_again_and_what_was_is_not() {
        let of = |values: &[&str]| values.iter().map(|value| Setting::service(value)).collect::<Vec<_>>();
        let (began, changed) = ("http=http://h:1?root=/&field=/=A: 1", "http=http://h:1?root=/&field=/=B: 2");
        let (mut in_force, names) = (InForce::new(&of(&[began])), ["http".to_owned()]);
        let with_another = of(&[changed, "echo=tcp://h:2"]);
        assert_eq!((in_force.changes(&with_another, &names), in_force.whole(&with_another)), (vec![], vec![]));
        let now = of(&[changed]);
        let changes = in_force.changes(&now, &names);
        assert_eq!((changes.len(), in_force.changes(&now, &names)), (1, changes.clone()), "it waits still");
        in_force.note(&changes[0]);
        assert_eq!((in_force.changes(&now, &names), in_force.whole(&now)), (vec![], vec![changed]));
        let back = of(&[began]);
        assert_eq!(in_force.changes(&back, &names).len(), 1);
        assert_eq!(in_force.whole(&back), Vec::<&str>::new());
    }
}
