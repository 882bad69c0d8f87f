//! TLS as an option of a service's entry: a scheme of its own, such as `tls://`, with [options](OPTIONS) of its own. It is one line for any service that names no protocol:
//!
//! ```
//! use corelane::Lanes;
//! use corelane::service::entry::{Asked, Entry, Scheme};
//! use corelane_tls::entry as tls;
//! # use corelane::{Cx, Input, Next, Output, Peer, Silent, StreamService};
//! # struct Echo;
//! # impl StreamService for Echo {
//! #     type Talk = Silent;
//! #     type Session = ();
//! #     fn open(&mut self, _: &mut Cx, _: &Peer) {}
//! #     fn receive(&mut self, _: &mut Cx, _: &mut (), _: &mut Input, _: &mut Output) -> Next { Next::Continue }
//! # }
//!
//! fn echo(lanes: Lanes, asked: &Asked) -> corelane::Result<Lanes> {
//!     lanes.serve(&asked.url().to_string(), |_lane| Echo)
//! }
//!
//! static ENTRY: Entry = Entry::new("echo", "sends back what it gets", &[
//!     Scheme::connections::<Echo>("tcp", 7, echo),
//!     tls::behind(Scheme::connections::<Echo>("tls", 60443, echo)),
//! ]);
//!
//! let asked = |query: &str| Lanes::per_core().serve_entry(&ENTRY, &format!("tls://127.0.0.1{query}")).err().unwrap().to_string();
//! assert!(asked("").ends_with("write ?certificate=FILE&key=FILE behind the URL"));
//! assert!(asked("?certificate=none.pem").contains("none.pem: No such file"));
//! ```
//!
//! One with protocols tells them itself:
//!
//! ```text
//! fn https(lanes: Lanes, asked: &Asked) -> Result<Lanes> {
//!     tls::before(http(lanes, asked)?, asked, |server| server.protocols(&[b"http/1.1"]).plain_answer(bad_request))
//! }
//! Scheme::connections::<Http>("https", 443, https).options(tls::OPTIONS).when_named()
//! ```

use crate::identity::authorities;
use crate::{Client, Clients, Pem, Server, Trust};
use corelane::service::entry::choice::{Choice, Chosen, Flag, Text, any};
use corelane::service::entry::{Asked, Scheme};
use corelane::{Error, Lanes};
use std::collections::BTreeSet;
use std::path::Path;

const CERTIFICATE: Text = Text::new(
    "certificate",
    "FILE,..",
    any,
    "PEM files with the certificates to show, each the server's own first, then those that signed it; a client that asks for a name gets the first file \
     that has it, or the first of all",
)
.reading();
const KEY: Text = Text::new(
    "key",
    "FILE,..",
    any,
    "PEM files with the keys of these, in the same order; by default they are in the same files",
)
.reading();
const CLIENTS: Text =
    Text::new("clients", "FILE", any, "let in only clients whose certificate was signed by an authority in this PEM file")
        .reading();
const STRANGERS: Flag = Flag::new("strangers", "with clients=FILE, let in clients that show no certificate, too");

const UPSTREAM_CA: Text = Text::new(
    "upstream-ca",
    "FILE",
    any,
    "believe upstreams at tls:// whose certificate an authority in this PEM file has signed, or that stands in it; by default those that this system trusts",
)
.reading();
const UPSTREAM_NAME: Text = Text::new(
    "upstream-name",
    "NAME",
    any,
    "ask all upstreams at tls:// for this name, which their certificates must have; by default each for the name in its own address",
);

/// The options of a service that speaks TLS to servers behind it.
pub const UPSTREAM_OPTIONS: [Choice; 2] = [Choice::Text(UPSTREAM_CA), Choice::Text(UPSTREAM_NAME)];

/// Has the connections that the service that was added last opens by a name speak TLS, if `is_wanted`: some of its upstreams are to be spoken to so. `tune` adds what the service knows itself.
///
/// # Errors
/// [`Error::Option`] with what is wrong with a file or a name, or means nothing.
pub fn towards(lanes: Lanes, asked: &Asked, is_wanted: bool, tune: impl FnOnce(Client) -> Client) -> Result<Lanes, Error> {
    let chosen = asked.chosen();
    if !is_wanted {
        let without = UPSTREAM_OPTIONS.iter().find(|option| chosen.has(option.name()));
        return without
            .map_or(Ok(lanes), |option| Err(asked.refuse(option.name(), "it means nothing without to=tls://HOST:PORT")));
    }
    let trust = chosen.text(&UPSTREAM_CA).map_or(Trust::System, |path| Trust::Authorities(path.into()));
    let client = tune(Client::new(trust).for_named());
    let client = chosen.text(&UPSTREAM_NAME).into_iter().fold(client, Client::name);
    let at_fault = |error: &crate::Error| match error {
        crate::Error::Name { .. } => UPSTREAM_NAME.name,
        _ => UPSTREAM_CA.name,
    };
    client.load().map_err(|error| asked.refuse(at_fault(&error), error.to_string()))?.before(lanes)
}

/// The options of a scheme behind TLS.
pub const OPTIONS: &[Choice] = &[Choice::Text(CERTIFICATE), Choice::Text(KEY), Choice::Text(CLIENTS), Choice::Flag(STRANGERS)];

/// The same scheme behind TLS, with its [options](OPTIONS) in place of those that the scheme had; served only where it is named, for it needs files.
pub const fn behind(scheme: Scheme) -> Scheme {
    scheme.options(OPTIONS).when_named().behind(|lanes, asked| before(lanes, asked, |server| server))
}

/// The files with the certificates that are chosen, as they were written, with those of their keys.
pub fn certificate(chosen: &Chosen) -> Option<(&str, Option<&str>)> {
    chosen.text(&CERTIFICATE).map(|certificate| (certificate, chosen.text(&KEY)))
}

/// The option that names certificates or keys, if one of them is chosen.
pub fn certificate_option(chosen: &Chosen) -> Option<&'static str> {
    [CERTIFICATE.name, KEY.name].into_iter().find(|option| chosen.has(option))
}

/// Has the service that was added last speak TLS as it is asked for; `tune` adds what the service knows itself, such as its protocols.
///
/// # Errors
/// [`Error::Option`] with what is missing, or wrong with a file.
pub fn before(lanes: Lanes, asked: &Asked, tune: impl FnOnce(Server) -> Server) -> Result<Lanes, Error> {
    let server = tune(Server::new(files(asked)?).clients(clients(asked)?));
    let served = server.load().map_err(|error| asked.refuse(at_fault(asked, &error), error.to_string()))?;
    served.before(lanes)
}

/// The option that named what is wrong; the file of `clients` is looked at before.
fn at_fault(asked: &Asked, error: &crate::Error) -> &'static str {
    let names = |option: &Text, path: &Path| {
        all(asked)
            .any(|(_, chosen)| chosen.text(option).is_some_and(|files| files.split(',').any(|file| Path::new(file) == path)))
    };
    match error {
        crate::Error::File { path, .. } if names(&CERTIFICATE, path) => CERTIFICATE.name,
        crate::Error::File { path, .. } if names(&KEY, path) => KEY.name,
        crate::Error::Pair { .. } if all(asked).any(|(_, chosen)| chosen.has(KEY.name)) => KEY.name,
        _ => CERTIFICATE.name,
    }
}

/// What is chosen for all, and of each part: each may name certificates.
fn all(asked: &Asked) -> impl Iterator<Item = (Option<&str>, &Chosen)> {
    let chosen = asked.chosen();
    [(None, chosen)].into_iter().chain(chosen.parts().map(|(begins, part)| (Some(begins), part)))
}

/// The files of all, and then those of each part, once each.
fn files(asked: &Asked) -> Result<Vec<Pem>, Error> {
    let (mut files, mut seen) = (Vec::new(), BTreeSet::new());
    for (part, chosen) in all(asked) {
        let refuse = |option: &Text, why: &str| {
            let of_part = part.map_or_else(String::new, |part| format!("of {part}: "));
            asked.refuse(option.name, of_part + why)
        };
        let Some(certificates) = chosen.text(&CERTIFICATE) else {
            if chosen.has(KEY.name) {
                return Err(refuse(&CERTIFICATE, "it is missing: write certificate=FILE beside key=FILE"));
            }
            continue;
        };
        let keys = chosen.text(&KEY).unwrap_or(certificates);
        if certificates.split(',').count() != keys.split(',').count() {
            return Err(refuse(&KEY, "there must be as many files as for certificate, in the same order"));
        }
        let pairs = certificates.split(',').zip(keys.split(','));
        files.extend(pairs.filter(|pair| seen.insert(*pair)).map(|(certificates, key)| Pem::new(certificates, key)));
    }
    if files.is_empty() {
        return Err(asked.refuse(CERTIFICATE.name, "it is missing: write ?certificate=FILE&key=FILE behind the URL"));
    }
    Ok(files)
}

fn clients(asked: &Asked) -> Result<Clients, Error> {
    if let Some(path) = asked.chosen().text(&CLIENTS) {
        authorities(path.as_ref()).map_err(|error| asked.refuse(CLIENTS.name, error.to_string()))?;
    }
    match (asked.chosen().text(&CLIENTS), asked.chosen().flag(&STRANGERS)) {
        (None, false) => Ok(Clients::Anybody),
        (None, true) => Err(asked.refuse(STRANGERS.name, "it means nothing without clients=FILE: all are let in then")),
        (Some(path), false) => Ok(Clients::Known(path.into())),
        (Some(path), true) => Ok(Clients::Asked(path.into())),
    }
}
