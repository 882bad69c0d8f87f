//! Services whose options change while they serve: which of a file's differ in such options alone, and what they are told.

use super::settings::Setting;
use corelane::lanes::LiveServices;
use corelane::service::entry::find;
use corelane_services as services;
use std::time::Duration;

/// The key of what is served.
pub const SERVICES: &str = "services";

/// How long the lanes may take to have what is new.
const PATIENCE: Duration = Duration::from_secs(5);

/// A service that is told other options.
#[derive(Debug, PartialEq, Eq)]
pub struct Change {
    number: usize,
    /// As it is set now.
    pub value: String,
    /// All of its options that can change while it serves.
    options: String,
}

/// What became of a change.
#[derive(Debug, PartialEq, Eq)]
pub enum Became {
    /// All lanes have it.
    InForce,
    /// This lane will have it when its turn ends.
    Late(usize),
    /// The service cannot follow it.
    Waits,
}

/// The changes from these settings to those, where nothing but such options differs. `names` are those of the services that run.
pub fn changes(before: &[Setting], now: &[Setting], names: &[String]) -> Vec<Change> {
    let [before, now] = [before, now].map(|settings| settings.iter().filter(|one| one.is(SERVICES)).collect::<Vec<_>>());
    let mut changes = Vec::new();
    let mut number = 0;
    for (before, now) in before.iter().zip(&now) {
        let (Some(before), Some(now_parts)) = (parts(before.value()), parts(now.value())) else { return Vec::new() };
        if before.place != now_parts.place {
            return Vec::new();
        }
        // A file that says all that there is to say is none of them.
        if names.get(number).is_none_or(|name| name != before.name) {
            continue;
        }
        if before.live != now_parts.live {
            changes.push(Change { number, value: now.value().to_owned(), options: now_parts.live });
        }
        number += 1;
    }
    // Where there are others, nobody knows which is which.
    if before.len() == now.len() && number == names.len() { changes } else { Vec::new() }
}

/// What is set of a service.
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
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    let (live, fixed): (Vec<&str>, Vec<&str>) = pairs.partition(is_live);
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
        changes(&before, &now, &names).into_iter().map(|change| (change.number, change.options)).collect()
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
        assert_eq!(found(&[a], &[a], &["http"]), none);
        assert_eq!(found(&[a], &["http=http://h:1?root=/tmp&field=/*=A: 1"], &["http"]), none, "another root");
        assert_eq!(found(&[a], &[b, "echo=tcp://h:2"], &["http"]), none, "one more");
        assert_eq!(found(&[a], &[b], &["http", "echo"]), none, "others were started");
    }
}
