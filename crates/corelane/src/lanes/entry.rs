//! A service as it declares itself: its name, where it is served, its options, limits and counters. Help, errors, configuration and the counter
//! page follow from it, so that a program with a list of entries knows nothing of any one of them.
//!
//! How what comes next declares itself, which is what decided the shape:
//!
//! ```text
//! http     Scheme::connections::<Http>("http", 80, ..), the same with "https", 443: the scheme's function equips the transform;
//!          options root=DIR, index, reply=N, host=NAME:DIR,.., cert=FILE, key=FILE; not served unless it is named, for it needs a root;
//!          once_started: the thread that writes the access log and reloads certificates, kept as long as the lanes run
//! cache    connections and datagrams at one port; options memory=N, items=N; limits: a record is a value; gauges set by Cx::set_gauge
//! proxy    to=HOST:PORT,.. is a text that the entry checks; what it lacks is refused by the scheme's function (Asked::refuse)
//! ```

use crate::error::Error;
use crate::lanes::beside::{Beside, OnceStarted, Opened};
use crate::lanes::builder::{Declared, Lanes};
use crate::lanes::choice::{self, Choice, Chosen, Part};
use crate::lanes::read_file::ReadFile;
use crate::lanes::url::{self, Url};
use corelane_rss::Transport;
use corelane_svc::{DatagramService, Limits, StreamService, did_you_mean};
use corelane_watch::Declaration;

/// A service, declared once. A list of them is all that a program needs to know of its services.
///
/// ```
/// use corelane::{Cx, Input, Next, Output, Peer, Silent, StreamService};
/// use corelane::service::entry::choice::{Choice, Number};
/// use corelane::service::entry::{Asked, Entry, Scheme};
/// # struct Shop { price: u64 }
/// # impl StreamService for Shop {
/// #     type Talk = Silent;
/// #     type Session = ();
/// #     fn open(&mut self, _: &mut Cx, _: &Peer) {}
/// #     fn receive(&mut self, _: &mut Cx, _: &mut (), _: &mut Input, _: &mut Output) -> Next { Next::Continue }
/// # }
/// const PRICE: Number = Number::new("price", "cents", "what an apple costs").between(1, 1_000, 25);
///
/// static SHOP: Entry = Entry::new("shop", "sells apples", &[Scheme::connections::<Shop>("tcp", 7007, |lanes, asked| {
///     let price = asked.chosen().number(&PRICE);
///     lanes.serve(&asked.url().to_string(), move |_lane| Shop { price })
/// })])
/// .options(&[Choice::Number(PRICE)]);
///
/// let lanes = corelane::Lanes::per_core().serve_entry(&SHOP, "tcp://127.0.0.1?price=30")?;
/// # drop(lanes); Ok::<(), corelane::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Entry {
    name: &'static str,
    about: &'static str,
    schemes: &'static [Scheme],
    /// Its place is a file, and no URL.
    file: Option<AtFile>,
    options: &'static [Choice],
    /// Those that can change while it serves.
    live: &'static [Choice],
    /// The name of a table that says the same in a file.
    table: Option<&'static str>,
    limits: fn(&mut Limits),
    once_started: Option<OnceStarted>,
    is_default: bool,
}

/// Where a service can be served: what stands before `://`, and how that is done.
#[derive(Clone, Copy, Debug)]
pub struct Scheme {
    name: &'static str,
    transport: Transport,
    port: u16,
    options: &'static [Choice],
    is_default: bool,
    counters: &'static [Declaration],
    add: fn(Lanes, &Asked) -> Result<Lanes, Error>,
    /// Puts something before what was added.
    equip: fn(Lanes, &Asked) -> Result<Lanes, Error>,
}

/// A place that is a file, which says all that there is to say.
#[derive(Clone, Copy, Debug)]
pub struct AtFile {
    name: &'static str,
    add: fn(Lanes, &ReadFile) -> Result<Lanes, Error>,
}

impl AtFile {
    /// `name` stands for the file in help, such as `CONFIG.toml`. `add` has lanes be what the file says, and each file that it read beside it is kept with
    /// [`Lanes::of_file`].
    pub const fn new(name: &'static str, add: fn(Lanes, &ReadFile) -> Result<Lanes, Error>) -> Self {
        Self { name, add }
    }
}

/// A request for a service: where it is to be served, with what options.
#[derive(Clone, Debug)]
pub struct Asked {
    service: &'static str,
    url: Url,
    chosen: Chosen,
}

/// With nothing before its connections.
fn bare(lanes: Lanes, _: &Asked) -> Result<Lanes, Error> {
    Ok(lanes)
}

impl Scheme {
    /// Connections by TCP, at URLs that begin with `name://`, by default at `port`. `add` builds the service (with [`Lanes::serve`]) as it is asked for.
    pub const fn connections<S: StreamService>(
        name: &'static str,
        port: u16,
        add: fn(Lanes, &Asked) -> Result<Lanes, Error>,
    ) -> Self {
        Self { name, transport: Transport::Tcp, port, options: &[], is_default: true, counters: S::COUNTERS, add, equip: bare }
    }

    /// Datagrams by UDP, as [`Scheme::connections`] (with [`Lanes::serve_datagrams`]).
    pub const fn datagrams<S: DatagramService>(
        name: &'static str,
        port: u16,
        add: fn(Lanes, &Asked) -> Result<Lanes, Error>,
    ) -> Self {
        Self { name, transport: Transport::Udp, port, options: &[], is_default: true, counters: S::COUNTERS, add, equip: bare }
    }

    /// Serves it in this way only where somebody names it: it has to be told something.
    pub const fn when_named(self) -> Self {
        Self { is_default: false, ..self }
    }

    /// Options that only this way of being served has, beside the entry's.
    pub const fn options(self, options: &'static [Choice]) -> Self {
        Self { options, ..self }
    }

    /// Calls this when the service was added: it puts a transform before its connections ([`Lanes::transform`]), as `corelane_tls::entry::behind` does.
    pub const fn behind(self, equip: fn(Lanes, &Asked) -> Result<Lanes, Error>) -> Self {
        Self { equip, ..self }
    }
}

impl Scheme {
    fn describe_options(&self) -> String {
        if self.options.is_empty() {
            return String::new();
        }
        format!("    at {}:// also\n{}", self.name, choice::describe(self.options, "      "))
    }
}

impl Entry {
    /// A service with a name, what it does as the end of a line of help, and where it can be served.
    pub const fn new(name: &'static str, about: &'static str, schemes: &'static [Scheme]) -> Self {
        Self {
            name,
            about,
            schemes,
            file: None,
            options: &[],
            live: &[],
            table: None,
            limits: |_| {},
            once_started: None,
            is_default: false,
        }
    }

    /// A service that is asked for by a file and not by URLs: `NAME=CONFIG.toml`.
    pub const fn of_file(name: &'static str, about: &'static str, file: AtFile) -> Self {
        Self { file: Some(file), ..Self::new(name, about, &[]) }
    }

    /// Its options, written behind a URL as `?name=value&name=value`.
    pub const fn options(self, options: &'static [Choice]) -> Self {
        Self { options, ..self }
    }

    /// These of its options can change while it serves. It is told of all that are chosen by the words `options name=value&..`
    /// ([`StreamService::operate`](crate::StreamService::operate)), which answers `true` where it has them from then on, and `false` where they count from the next start on.
    pub const fn live(self, live: &'static [Choice]) -> Self {
        Self { live, ..self }
    }

    /// The names of the options that can change while it serves.
    pub fn live_options(&self) -> impl Iterator<Item = &'static str> {
        self.live.iter().map(Choice::name)
    }

    /// Tables of this name, in a file of settings, say what a [part](choice::Part) of its options says, each for the places at which it listens.
    pub const fn tables(self, name: &'static str) -> Self {
        Self { table: Some(name), ..self }
    }

    /// The name of its tables, if it has some.
    pub fn table(&self) -> Option<&'static str> {
        self.table
    }

    /// The part that its options have, if they have one.
    pub fn part(&self) -> Option<&'static Part> {
        self.options.iter().find_map(|choice| if let Choice::Part(part) = choice { Some(part) } else { None })
    }

    /// The names of its schemes, each with its port.
    pub fn schemes(&self) -> impl Iterator<Item = (&'static str, u16)> {
        self.schemes.iter().map(|scheme| (scheme.name, scheme.port))
    }

    /// The options that stand behind a URL; none for a URL at which it is not served.
    pub fn options_at(&self, url: &str) -> Option<Vec<Choice>> {
        let scheme = match url::unix(url) {
            Some((transport, _)) => self.schemes.iter().find(|known| known.transport == transport),
            None => url.split_once("://").and_then(|(name, _)| self.schemes.iter().find(|known| known.name == name)),
        };
        Some([self.options, scheme?.options].concat())
    }

    /// Changes the limits that it has unless others are set.
    pub const fn limits(self, limits: fn(&mut Limits)) -> Self {
        Self { limits, ..self }
    }

    /// Calls this once, outside of the lanes, when all of them listen: with every place where the service does.
    pub const fn once_started(self, call: fn(&[Opened<'_>]) -> Beside) -> Self {
        Self { once_started: Some(call), ..self }
    }

    /// Has it served where no service is named, too: at its schemes' ports, on loopback, without options.
    pub const fn by_default(self) -> Self {
        Self { is_default: true, ..self }
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The limits that it has unless others are set.
    pub fn default_limits(&self) -> Limits {
        let mut limits = Limits::default();
        (self.limits)(&mut limits);
        limits
    }

    /// Its counters beside those of all services, each once.
    pub fn counters(&self) -> Vec<Declaration> {
        let mut all: Vec<Declaration> = Vec::new();
        for counter in self.schemes.iter().flat_map(|scheme| scheme.counters) {
            if !all.contains(counter) {
                all.push(*counter);
            }
        }
        all
    }

    /// Where it is served if no service is named: on `host`, at the ports of its schemes.
    pub fn default_urls(&self, host: &str) -> Vec<String> {
        let schemes = self.schemes.iter().filter(|scheme| self.is_default && scheme.is_default);
        schemes.map(|scheme| format!("{}://{host}:{}", scheme.name, scheme.port)).collect()
    }

    /// All that a user can write of it, as lines of help.
    pub fn describe(&self) -> String {
        if let Some(file) = &self.file {
            return format!("  {0}: {1}; written as {0}={2}\n", self.name, self.about, file.name);
        }
        let schemes: Vec<String> =
            self.schemes.iter().map(|scheme| format!("{}:// at port {}", scheme.name, scheme.port)).collect();
        let options = choice::describe(self.options, "    ");
        let own: String = self.schemes.iter().map(Scheme::describe_options).collect();
        format!("  {}: {}; {}\n{options}{own}{}", self.name, self.about, schemes.join(", "), self.describe_limits())
    }

    /// The limits that differ from those of others.
    fn describe_limits(&self) -> String {
        let (own, usual) = (self.default_limits().describe(), Limits::default().describe());
        let differs = own.lines().zip(usual.lines()).filter(|(own, usual)| own != usual);
        differs.map(|(own, _)| format!("    limit {own}\n")).collect()
    }

    /// Reads a place: a URL, and options behind a question mark.
    fn read(&self, place: &str) -> Result<(&'static Scheme, Asked), Error> {
        self.read_any(place).map_err(|error| match error {
            Error::Url { text, why, .. } => Error::Url { text, why, expected: self.places("HOST:PORT", "PATH") },
            error => error,
        })
    }

    fn read_any(&self, place: &str) -> Result<(&'static Scheme, Asked), Error> {
        let (text, query) = place.split_once('?').map_or((place, None), |(url, query)| (url, Some(query)));
        let unfit = || Error::Transport { url: text.to_string(), expected: self.places("", "") };
        let (found, url, query) = match url::unix(text) {
            Some((transport, _)) => {
                let found = self.schemes.iter().find(|known| known.transport == transport).ok_or_else(unfit)?;
                let (url, query) = with_mode(text, query);
                (found, url.parse()?, query)
            }
            None => {
                let wrong = || url::unfit(text, "there is no ://");
                let (scheme, rest) = text.split_once("://").ok_or_else(wrong)?;
                let found = self.schemes.iter().find(|known| known.name == scheme).ok_or_else(unfit)?;
                (found, Url::of(found.transport, text, rest, found.port)?, query.map(str::to_owned))
            }
        };
        let query = query.as_deref();
        let options = [self.options, found.options].concat();
        let chosen = query.map_or(Ok(Chosen::default()), |query| Chosen::read(&options, query));
        let chosen = chosen.map_err(|choice::Wrong { option, why }| {
            let why = why + &self.elsewhere(found, &options, &option);
            Error::Option { service: self.name, option, why }
        })?;
        Ok((found, Asked { service: self.name, url, chosen }))
    }

    /// Where there is an option that a scheme has not, if there is.
    fn elsewhere(&self, found: &Scheme, options: &[Choice], option: &str) -> String {
        let has = |options: &[Choice]| options.iter().any(|choice| choice.name() == option);
        let others = self.schemes.iter().filter(|scheme| scheme.name != found.name && has(scheme.options));
        let names: Vec<String> = others.map(|scheme| format!("{}://", scheme.name)).collect();
        if names.is_empty() || has(options) { String::new() } else { format!("; at {} there is", names.join(" and ")) }
    }

    /// How it can be served, with what may stand behind each scheme.
    fn places(&self, port: &str, path: &str) -> String {
        let has = |transport| self.schemes.iter().any(|scheme| scheme.transport == transport);
        let unix =
            [(Transport::Tcp, "unix:"), (Transport::Udp, "unixgram:")].into_iter().filter(|(transport, _)| has(*transport));
        let names = self.schemes.iter().map(|scheme| format!("{}://{port}", scheme.name));
        names.chain(unix.map(|(_, name)| format!("{name}{path}"))).collect::<Vec<_>>().join(" or ")
    }
}

impl Asked {
    /// Where it is to be served.
    pub fn url(&self) -> &Url {
        &self.url
    }

    /// The choices among the entry's options.
    pub fn chosen(&self) -> &Chosen {
        &self.chosen
    }

    /// The same for what is chosen in one of its parts.
    #[must_use]
    pub fn within(&self, part: &Chosen) -> Self {
        Self { chosen: part.clone(), ..self.clone() }
    }

    /// The error of a choice that cannot be met, or is missing.
    pub fn refuse(&self, option: &str, why: impl Into<String>) -> Error {
        Error::Option { service: self.service, option: option.to_owned(), why: why.into() }
    }
}

/// A Unix socket's URL with the mode that the query asks for, and what else it asks for, of the service.
fn with_mode(text: &str, query: Option<&str>) -> (String, Option<String>) {
    let words = || query.into_iter().flat_map(|query| query.split('&'));
    let is_mode = |word: &&str| word.starts_with(url::MODE);
    let url = words().filter(is_mode).map(|mode| format!("?{mode}")).fold(text.to_owned(), |url, mode| url + &mode);
    let rest: Vec<&str> = words().filter(|word| !is_mode(word)).collect();
    (url, (!rest.is_empty()).then(|| rest.join("&")))
}

/// Finds what `SERVICE=URL` names in a list of entries, and returns it with the URL.
///
/// # Errors
/// [`Error::NoService`] for a name that none has, and for a text without a name.
pub fn find<'t>(entries: &[&'static Entry], text: &'t str) -> Result<(&'static Entry, &'t str), Error> {
    let unknown = || {
        let scheme = text.split_once('=').map_or("", |(name, _)| name);
        let nearest = did_you_mean(scheme, entries.iter().map(|entry| entry.name));
        let mut names = entries.iter().map(|entry| entry.name).collect::<Vec<_>>().join(", ") + &nearest;
        if let Some(entry) = entries.iter().find(|entry| entry.schemes.iter().any(|known| known.name == scheme)) {
            let name = entry.name;
            names += &format!("; to serve {name} at {scheme}:// write {name}={scheme}://HOST:PORT");
        }
        let example =
            entries.iter().find_map(|entry| Some(format!("{}={}", entry.name, entry.default_urls("127.0.0.1").first()?)));
        Error::NoService { text: text.to_owned(), names, example: example.unwrap_or_default() }
    };
    // An equals sign behind a URL is one of its options.
    let (name, place) = text.split_once('=').filter(|(name, _)| !name.contains(':')).ok_or_else(unknown)?;
    let entry = entries.iter().find(|entry| entry.name == name).ok_or_else(unknown)?;
    Ok((entry, place))
}

impl Lanes {
    /// Serves what an entry declares, at a place such as `tcp://HOST:PORT?name=value`. Its limits are the entry's own unless some were set.
    ///
    /// # Errors
    /// [`Error::Url`], [`Error::Transport`], [`Error::Option`], [`Error::Text`], and those of the entry itself.
    pub fn serve_entry(mut self, entry: &'static Entry, place: &str) -> Result<Self, Error> {
        if let Some(file) = &entry.file {
            let read = ReadFile::of(place.as_ref())?;
            return Ok((file.add)(self, &read)?.of_file(&read));
        }
        let (scheme, asked) = entry.read(place)?;
        let (limits, before) = (self.limits, self.services.len());
        self.limits = Some(limits.unwrap_or_else(|| entry.default_limits()));
        let lanes = (scheme.add)(self, &asked)?;
        let mut lanes = (scheme.equip)(lanes, &asked)?;
        lanes.limits = limits;
        for served in &mut lanes.services[before..] {
            served.url = served.url.take().map(|url| url.called(scheme.name));
            served.name = entry.name.to_owned();
            let (name, chosen) = (entry.name, asked.chosen.clone());
            served.declared = Some(Declared { name, chosen, once_started: entry.once_started });
        }
        Ok(lanes)
    }

    /// Notes that these lanes were made of a file as well: whoever confines the program lets it be read again.
    pub fn of_file(mut self, file: &ReadFile) -> Self {
        self.files.push(file.clone());
        self
    }
}
