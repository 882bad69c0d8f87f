//! SIGHUP: the settings are read again. What can change while lanes serve does; of the rest is said that it counts from the next start on.
//!
//! ```text
//! file, environment --settings::again--> what differs from before: limits of time --LiveLimits--> lanes, with their next turn
//! a gateway's file ---> lanes anew ------> what differs from before: rules, routes --LiveGateway--> lanes, between two packets
//! field=, redirect=, to=, sni= of a URL -> what differs from what is in force --LiveServices--> services, each lane with its next turn
//!                                                                  log-level ---> the thread that writes lines
//!                                                                  all else ------> words, with its place
//! ```

use super::live::{Became, InForce};
use super::log::Log;
use super::rule;
use super::settings::{self, SERVICES, Setting};
use anyhow::{Result, anyhow};
use corelane::admin::messages::Degraded;
use corelane::admin::reports::{self, Level, Record};
use corelane::lanes::{Aside, LiveGateway, LiveLimits, LiveServices, Running};
use corelane::service::Limits;
use corelane::service::entry::choice::Use;
use corelane::{Error, Lanes};
use corelane_services as services;
use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

/// The key of the level of the log.
const LOG_LEVEL: &str = "log-level";

/// The settings that were read and are in force, and what changes them.
pub struct Reload {
    /// Changed by the one thread that hears signals.
    before: Mutex<Before>,
    limits: LiveLimits,
    gateway: Option<LiveGateway>,
    log: Log,
    /// Where files are read and understood.
    aside: Aside,
    services: LiveServices,
    /// Where the sandbox is: the ports to which this process may connect. Files may be open to the next start that are not to this process, too.
    confined: Option<BTreeSet<u16>>,
}

/// The settings as they were before a change.
struct Before {
    /// Those that were read the last time: words are said of what differs from them.
    read: Vec<Setting>,
    /// Those that services have. One that could not follow lacks some of what was read.
    services: InForce,
}

impl Reload {
    /// For a program that began with these settings.
    pub fn new(began: Vec<Setting>, running: &Running, log: Log, confined: Option<BTreeSet<u16>>) -> Self {
        Self {
            before: Mutex::new(Before { services: InForce::new(&began), read: began }),
            limits: running.limits(),
            gateway: running.gateway(),
            log,
            aside: running.aside(),
            services: running.services(),
            confined,
        }
    }

    /// What else may be in the way of new files.
    fn within(&self, may_name_files: bool) -> &'static str {
        if self.confined.is_some() && may_name_files {
            " (the sandbox lets this process open the files of its start alone: `corelane serve --check` sees others)"
        } else {
            ""
        }
    }

    /// Reads again, and says what came of it. Where anything is wrong nothing changes.
    pub fn again(&self) {
        // Nothing is changed in two steps.
        let mut before = self.before.lock().unwrap_or_else(PoisonError::into_inner);
        let Before { read, services } = &mut *before;
        match self.aside.run(|| self.put_into_force(read, services)) {
            Ok(now) => *read = now,
            Err(why) => Degraded::SettingsKept.say(format_args!("SIGHUP: what was there before is kept: {why:#}")),
        }
    }

    fn put_into_force(&self, before: &[Setting], services: &mut InForce) -> Result<Vec<Setting>> {
        let (mut arguments, now) = settings::again()?;
        // Who was taken over from is gone.
        arguments.take_over = None;
        let (limits, log_level) = (arguments.limits.clone(), arguments.log_level);
        let differs: Vec<(&Setting, bool)> = Setting::differing(before, &now).collect();
        let differs_in_services = differs.iter().any(|(setting, _)| setting.is(SERVICES));
        let is_unreadable = |why: &anyhow::Error| matches!(why.downcast_ref(), Some(Error::Unreadable { .. }));
        let lanes = rule::lanes(arguments, &now)
            .map_err(|why| anyhow!("{why:#}{}", self.within(differs_in_services || is_unreadable(&why))))?;
        if let Some(gateway) = &self.gateway {
            gateway.follow(&lanes)?.iter().for_each(|words| say(words));
        }
        let is_live_limit = |setting: &Setting| setting.limit().is_some_and(is_live);
        let limits: Vec<&String> = limits.iter().filter(|limit| is_live(limit)).collect();
        if differs.iter().any(|(setting, _)| is_live_limit(setting)) {
            self.limits.change(|name, began| from_now_on(name, began, &limits));
            say("the limits of time are changed");
        }
        if differs.iter().any(|(setting, _)| setting.is(LOG_LEVEL)) {
            self.log.set(log_level);
            say("the level of the log is changed");
        }
        self.change_services(services, &now, &lanes);
        let followed = services.whole(&now);
        let is_followed = |setting: &Setting| setting.is(SERVICES) && followed.contains(&setting.value());
        let waits = |setting: &Setting| !(is_live_limit(setting) || setting.is(LOG_LEVEL) || is_followed(setting));
        for (setting, is_set) in differs.into_iter().filter(|(setting, _)| waits(setting)) {
            let gone = if is_set { "" } else { " is gone, which" };
            let whole = || vec![format!("{setting}{gone}")];
            for words in setting.differs(if is_set { before } else { &now }).unwrap_or_else(whole) {
                say(&format!("{words} counts from the next start on"));
            }
        }
        Ok(now)
    }
}

impl Reload {
    /// Tells services of options that they can follow, and notes which do.
    fn change_services(&self, services: &mut InForce, now: &[Setting], lanes: &Lanes) {
        let changes = services.changes(now, self.services.names());
        let strange = self.confined.as_ref().and_then(|allowed| ports(lanes).into_iter().find(|port| !allowed.contains(port)));
        if let Some(port) = strange.filter(|_| !changes.is_empty()) {
            say(&format!(
                "the sandbox lets this process connect to the ports of its start alone, and {port} is none of them: no service is changed"
            ));
            return;
        }
        for change in &changes {
            let whose = now.iter().find(|setting| setting.value() == change.value).map_or_else(String::new, Setting::called);
            match change.put_into_force(&self.services) {
                Became::InForce => {
                    services.note(change);
                    say(&format!("the options of {whose} are changed"));
                }
                Became::Late(lane) => {
                    services.note_late(change);
                    say(&format!("the options of {whose} are changed, on lane {lane} when its turn ends"));
                }
                Became::Waits => {}
            }
        }
    }
}

/// The ports to which services of these lanes connect.
pub fn ports(lanes: &Lanes) -> BTreeSet<u16> {
    if lanes.uses().contains(&Use::ConnectedToAny) {
        return (1..=u16::MAX).collect();
    }
    lanes.uses().into_iter().filter_map(|used| if let Use::Connected(port) = used { Some(port) } else { None }).collect()
}

fn say(words: &str) {
    reports::line(Record::new(Level::Info, format!("SIGHUP: {words}")).of_program());
}

/// What a service of this name has where nothing is set.
fn default_of(name: &str) -> Option<Limits> {
    services::ALL.iter().find(|entry| entry.name() == name).map(|entry| entry.default_limits())
}

/// The limits of a service that began with these: what nothing sets any more is as where nothing ever was set.
fn from_now_on(name: &str, began: Limits, set: &[&String]) -> Limits {
    of_service(default_of(name).unwrap_or(began), set).unwrap_or(began)
}

fn of_service(mut limits: Limits, set: &[&String]) -> Result<Limits> {
    set.iter().try_for_each(|limit| limits.set(limit)).map_err(|why| anyhow!("limit: {why}"))?;
    Ok(limits)
}

/// Whether `NAME=VALUE` sets a limit that can change while lanes serve.
fn is_live(limit: impl AsRef<str>) -> bool {
    limit.as_ref().split_once('=').is_some_and(|(name, _)| Limits::LIVE.contains(&name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_that_nothing_sets_any_more_has_its_default_again() {
        let (idle, read) = ("idle_limit=1ms".to_owned(), "read_limit=2ms".to_owned());
        for entry in services::ALL {
            let defaults = entry.default_limits();
            let began = from_now_on(entry.name(), defaults, &[&idle, &read]);
            assert_ne!((began.idle_limit, began.read_limit), (defaults.idle_limit, defaults.read_limit));
            let now = from_now_on(entry.name(), began, &[&read]);
            assert_eq!((now.idle_limit, now.read_limit), (defaults.idle_limit, began.read_limit));
            assert_eq!(from_now_on(entry.name(), began, &[]), defaults);
        }
    }
}
