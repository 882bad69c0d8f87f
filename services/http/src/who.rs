//! Who answers for a service, or for each of its sites, as it was chosen.

use crate::live::{FIELD, HOST, REDIRECT, rules};
use crate::options::{ABORT_ON_CLOSE, CACHE_BYTES, ERRORS, INDEX, LISTING, OF_FILES, REPLY, ROOT, SITE, UPSTREAM_TIMEOUT};
use crate::sited::Sited;
use crate::{Files, Forward, HostError, Hosts, Rules};
use corelane::lanes::calls_on_files;
use corelane::service::entry::Asked;
use corelane::{Error, Result};
use corelane_tls::entry as tls;
use corelane_upstreams::entry::{Behind, behind};
use std::time::Duration;

/// The most sites of a service that have options of their own: each has its upstreams, which are tended on each lane.
const SITES_MAX: usize = 256;

/// The most hosts of all of them.
const HOSTS_MAX: usize = 4_096;

/// What says how requests are sent on.
pub(crate) const OF_UPSTREAMS: [&str; 2] = [UPSTREAM_TIMEOUT.name, ABORT_ON_CLOSE.name];

/// Who answers.
pub(crate) enum Who {
    Upstreams(Passed),
    Files(Folder),
    /// All but redirects is not found.
    Nobody,
}

/// To whom requests are sent on, and how.
pub(crate) struct Passed {
    behind: Behind,
    /// How long they may take for the head of an answer, and be silent behind it.
    timeout: Duration,
    /// Whether a request is let go whose client closes its side.
    aborts: bool,
}

impl Passed {
    /// Whether TLS is spoken to any.
    pub fn speaks_tls(&self) -> bool {
        self.behind.targets.speak_tls()
    }

    /// What sends them on from a lane.
    pub fn on_lane(&self, lane: usize) -> Forward {
        Forward::new(&self.behind, lane).timeout(self.timeout).abort_on_close(self.aborts)
    }
}

/// How files are served.
#[derive(Clone)]
pub(crate) struct Folder {
    root: String,
    index: String,
    lists: bool,
    cache_bytes: usize,
    errors: Option<String>,
}

impl Folder {
    /// As it was chosen; `option` is at fault where no file can be served.
    pub fn chosen(asked: &Asked, option: &str) -> Result<Self> {
        let chosen = asked.chosen();
        calls_on_files().map_err(|why| asked.refuse(option, format!("no file can be served: {why}")))?;
        Ok(Self {
            root: chosen.text(&ROOT).unwrap_or_default().to_owned(),
            index: chosen.text(&INDEX).unwrap_or("index.html").to_owned(),
            lists: chosen.flag(&LISTING),
            cache_bytes: chosen.number(&CACHE_BYTES) as usize,
            errors: chosen.text(&ERRORS).map(str::to_owned),
        })
    }

    /// The files beneath its root.
    pub fn files(&self) -> Files {
        self.files_of(&self.root)
    }

    /// Those beneath another one.
    pub fn files_of(&self, root: &str) -> Files {
        let files = Files::new(root).index(&self.index).listing(self.lists).cache_bytes(self.cache_bytes);
        self.errors.iter().fold(files, |files, errors| files.errors(errors))
    }
}

/// Who answers as it was chosen; none where nobody is named.
///
/// # Errors
/// [`Error::Option`] for what means nothing beside the others.
pub(crate) fn who_answers(asked: &Asked) -> Result<Option<Who>> {
    let chosen = asked.chosen();
    if let Some(behind) = behind(asked)? {
        let others = [ROOT.name].into_iter().chain(OF_FILES);
        if let Some(option) = others.into_iter().find(|option| chosen.has(option)) {
            return Err(asked.refuse(option, "with to=HOST:PORT all requests are sent on: leave one of them out"));
        }
        let (timeout, aborts) = (chosen.time(&UPSTREAM_TIMEOUT), chosen.flag(&ABORT_ON_CLOSE));
        return Ok(Some(Who::Upstreams(Passed { behind, timeout, aborts })));
    }
    if let Some(option) = OF_UPSTREAMS.into_iter().find(|option| chosen.has(option)) {
        return Err(asked.refuse(option, "it means nothing without to=HOST:PORT"));
    }
    match (chosen.has(ROOT.name), OF_FILES.into_iter().find(|option| chosen.has(option))) {
        (true, _) => Folder::chosen(asked, ROOT.name).map(|folder| Some(Who::Files(folder))),
        // What is not sent elsewhere is not found.
        (false, None) if chosen.has(REDIRECT.name) => Ok(Some(Who::Nobody)),
        _ => Ok(None),
    }
}

/// A site with options of its own.
struct Site {
    /// The first one names it.
    hosts: Vec<String>,
    who: Who,
    rules: Rules,
    /// Which of the certificates it has.
    certificate: u16,
}

/// Several sites at one place. The first one answers for all hosts that no other has; without one there is nobody in its place.
pub(crate) struct Sites {
    all: Vec<Site>,
    has_others: bool,
    cache_bytes: usize,
}

impl Sites {
    /// As they were chosen.
    ///
    /// # Errors
    /// [`Error::Option`]: what is wrong, and of which site.
    pub fn chosen(asked: &Asked) -> Result<Self> {
        let chosen = asked.chosen();
        let alone = [SITE.name, REPLY.name].into_iter().find(|option| chosen.has(option));
        if let Some(option) = alone {
            return Err(
                asked.refuse(option, "it is for all hosts, or for folders alone: with host=NAME write root=DIR or to=HOST:PORT")
            );
        }
        let others = who_answers(asked)?;
        let has_others = others.is_some() || are_redirected(asked)?;
        // The one that is shown to clients that ask for none of these names.
        let of_parts = || chosen.parts().find_map(|(_, part)| tls::certificate(part));
        let mut certificates = vec![tls::certificate(chosen).or_else(of_parts)];
        let mut number = |certificate: Option<_>| {
            // One without is shown that, too.
            let certificate = certificate.or(certificates[0]);
            let known = certificates.iter().position(|known| *known == certificate);
            known.unwrap_or_else(|| {
                certificates.push(certificate);
                certificates.len() - 1
            }) as u16
        };
        let first =
            Site { hosts: Vec::new(), who: others.unwrap_or(Who::Nobody), rules: rules_of(asked)?, certificate: number(None) };
        let mut all = vec![first];
        for (hosts, part) in chosen.parts() {
            let asked = asked.within(part);
            let of_site = |error| match error {
                Error::Option { service, option, why } => Error::Option { service, option, why: format!("of {hosts}: {why}") },
                error => error,
            };
            let who = who_answers(&asked).map_err(of_site)?;
            let missing = || {
                asked.refuse(
                    HOST.name,
                    format!("nobody answers for {hosts}: write to=HOST:PORT, root=DIR or redirect=PATH=URL behind it"),
                )
            };
            let who = who.ok_or_else(missing)?;
            let rules = rules_of(&asked).map_err(of_site)?;
            let hosts = hosts.split(',').map(str::to_owned).collect();
            all.push(Site { hosts, who, rules, certificate: number(tls::certificate(part)) });
        }
        let hosts: usize = all.iter().map(|site| site.hosts.len()).sum();
        if all.len() > SITES_MAX || hosts > HOSTS_MAX {
            return Err(asked.refuse(
                HOST.name,
                format!("there are {SITES_MAX} sites with {HOSTS_MAX} hosts at the most: have another process serve the others"),
            ));
        }
        let sites = Self { all, has_others, cache_bytes: chosen.number(&CACHE_BYTES) as usize };
        sites.try_on_lane(0).map_err(|error| asked.refuse(HOST.name, error.to_string()))?;
        Ok(sites)
    }

    /// The rules of each.
    pub fn rules(&self) -> Vec<Rules> {
        self.all.iter().map(|site| site.rules.clone()).collect()
    }

    /// Whether TLS is spoken to upstreams of any.
    pub fn speak_tls(&self) -> bool {
        self.all.iter().any(|site| matches!(&site.who, Who::Upstreams(passed) if passed.speaks_tls()))
    }

    /// All of them on a lane.
    pub fn on_lane(&self, lane: usize) -> Hosts<Sited> {
        // reason: it was tried when they were chosen.
        self.try_on_lane(lane).expect("hosts that were fit are")
    }

    fn try_on_lane(&self, lane: usize) -> std::result::Result<Hosts<Sited>, HostError> {
        let beside = self.all.iter().filter(|site| matches!(site.who, Who::Files(_))).count();
        let mut hosts = Hosts::new(None::<fn(u64) -> Sited>).asking(Sited::ASK);
        for site in &self.all {
            let number = hosts.add_unnamed(|tokens| match &site.who {
                Who::Upstreams(passed) => {
                    let forward = passed.on_lane(lane).tokens(tokens);
                    Sited::Forward(site.hosts.first().into_iter().fold(forward, |forward, host| forward.of_site(host)))
                }
                Who::Files(folder) => Sited::Files(Box::new(folder.files().cache_bytes(self.cache_bytes).beside(beside, tokens))),
                Who::Nobody => Sited::Nobody,
            });
            site.hosts.iter().try_for_each(|host| hosts.name(host, number))?;
        }
        match self.all[0].who {
            // Redirects may come and go while it serves.
            Who::Nobody => hosts.have_others_redirected(self.has_others),
            Who::Upstreams(_) | Who::Files(_) => hosts.have_others(),
        }
        hosts.certificates(self.all.iter().map(|site| site.certificate).collect());
        Ok(hosts)
    }
}

/// Whether redirects alone are for all other hosts, where no one else answers for these.
fn are_redirected(asked: &Asked) -> Result<bool> {
    let chosen = asked.chosen();
    // That one is of the whole place.
    let mut of_files = OF_FILES.into_iter().filter(|name| *name != CACHE_BYTES.name);
    let of_files = of_files.find(|option| chosen.has(option));
    let is_redirected = chosen.has(REDIRECT.name) && of_files.is_none();
    let of_nobody = of_files.or_else(|| (chosen.has(FIELD.name) && !is_redirected).then_some(FIELD.name));
    of_nobody.map_or(Ok(is_redirected), |option| {
        let why = "it stands before the first host=, so it is for all other hosts, and nobody answers for these: write it behind host=, or say who does by root= or to=";
        Err(asked.refuse(option, why))
    })
}

fn rules_of(asked: &Asked) -> Result<Rules> {
    rules(asked.chosen()).map_err(|(option, why)| asked.refuse(option, why))
}
