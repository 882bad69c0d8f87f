//! All that can stop a program of lanes from starting, each with the remedy.

use corelane_lane::program::STOP_AFTER_WORD;
use corelane_seam::{Fault, Reason};
use std::fmt;
use std::io;

/// Why the lanes could not be started.
///
/// Its `Debug` form is its message, so that a `main` which returns it says what a user can act on.
#[non_exhaustive]
pub enum Error {
    /// The caller's URL cannot be read.
    Url {
        /// The text that was given.
        text: String,
        /// The fault of it.
        why: String,
        /// The form that it should have.
        expected: String,
    },
    /// The host's name is not known.
    Host {
        /// The name.
        host: String,
        /// The words of the resolver.
        why: String,
    },
    /// A service of the other kind is needed for this transport.
    Transport {
        /// The URL.
        url: String,
        /// The schemes that this service can be served with, with `://`.
        expected: String,
    },
    /// An option of a service is not declared, or cannot be as it was chosen.
    Option {
        /// The service.
        service: &'static str,
        /// The option.
        option: String,
        /// Its fault, and the remedy.
        why: String,
    },
    /// No service has this name.
    NoService {
        /// The text that was written.
        text: String,
        /// The names that there are.
        names: String,
        /// How it is written.
        example: String,
    },
    /// The system does not let us listen there.
    Listen {
        /// The URL.
        url: String,
        /// Why.
        fault: Fault,
        /// The process that has the port, if it does and that is known.
        holder: Option<String>,
    },
    /// This user may not read what a service is to serve, or it is not there.
    Unreadable {
        /// The service, or the file where that says what it is to be.
        service: String,
        /// Which file or directory, and the remedy.
        why: String,
    },
    /// Flows cannot be steered as asked.
    Steering(
        /// The obstacle, and the remedy.
        corelane_steer::Error,
    ),
    /// A lane could not be started as asked.
    Service(
        /// The obstacle.
        corelane_svc::Error,
    ),
    /// A file that a place names says what cannot be, or is no text.
    Text {
        /// The file, with line and column where something in it is at fault: FILE:LINE:COLUMN.
        at: String,
        /// The fault, and the remedy.
        why: String,
    },
    /// The settings cannot be met.
    Setting {
        /// Which one.
        name: &'static str,
        /// Its fault, and the remedy.
        why: String,
    },
    /// The driver that was asked for cannot be used, or none can.
    Driver(
        /// The words of each, and the remedy.
        String,
    ),
    /// The memory of a lane was refused.
    Memory(
        /// The arena's word.
        corelane_seam::Error,
    ),
    /// The counter page could not be made.
    Page(
        /// The page's word.
        corelane_watch::Error,
    ),
    /// The system refused something else.
    System {
        /// The call that it was asked for.
        what: &'static str,
        /// Its answer.
        error: io::Error,
    },
    /// The name of a Unix socket could not be taken.
    Name {
        /// Its URL.
        url: String,
        /// Why, and the remedy.
        why: String,
    },
    /// The user's code that builds the services on a lane panicked; the panic's own words are on standard error.
    Build {
        /// Which lane.
        lane: usize,
    },
    /// A lane ended with a panic: a broken invariant of Corelane itself.
    LanePanicked {
        /// Which lane.
        lane: usize,
        /// The panic's words, and where it was if [`set_panic_hook`](crate::admin::reports::set_panic_hook) was called before.
        words: String,
        /// Lanes that did not end when they were stopped after that: a service of theirs does not return.
        left_behind: usize,
    },
    /// The program was told twice to end, and some lanes have not: a service of theirs does not return.
    LanesHang {
        /// How many.
        lanes: usize,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Url { text, why, expected } => write!(f, "{text:?} is not the URL of a service: {why}; write {expected}"),
            Self::Host { host, why } => write!(f, "the host {host:?} is not known ({why}): check the name, or give an address"),
            Self::Transport { url, expected } => write!(f, "{url}: this service can only be served at {expected}"),
            Self::Option { service, option, why } => write!(f, "{service}: option {option:?}: {why}"),
            Self::NoService { text, names, example } => match text.split_once('=').filter(|(name, _)| !name.contains(':')) {
                Some((name, _)) => write!(f, "there is no service {name:?}: there are {names}"),
                None => write!(f, "{text:?} is not SERVICE=URL: write for example {example}"),
            },
            Self::Listen { url, fault, holder } => {
                write!(f, "cannot listen on {url}: {fault}{}", remedy(*fault, url, holder.as_deref()))
            }
            Self::Unreadable { service, why } => write!(f, "{service}: {why}"),
            Self::Name { url, why } => write!(f, "cannot be served at {url}: {why}"),
            Self::Steering(error) => write!(f, "steering: {error}"),
            Self::Service(error) => error.fmt(f),
            Self::Text { at, why } => write!(f, "{at}: {why}"),
            Self::Setting { name, why } => write!(f, "{name}: {why}"),
            Self::Driver(words) => write!(f, "driver: {words}"),
            Self::Memory(error) => error.fmt(f),
            Self::Page(error) => error.fmt(f),
            Self::System { what, error } => write!(f, "{what}: {error}{}", remedy_of_system(error)),
            Self::Build { lane } => write!(f, "building the services of lane {lane} panicked: see the message above"),
            Self::LanePanicked { lane, words, left_behind } => {
                let others = match left_behind {
                    0 => "the others were ended".to_owned(),
                    _ => format!("{left_behind} of the others did not end when they were stopped"),
                };
                write!(f, "lane {lane} panicked {words}; {others}; this is an error in Corelane, please report it")
            }
            Self::LanesHang { lanes } => {
                let which = if *lanes == 1 { "1 lane has".to_owned() } else { format!("{lanes} lanes have") };
                let seconds = STOP_AFTER_WORD / 1_000_000_000;
                write!(
                    f,
                    "{which} not ended {seconds} s after the second order to end: a call into a service does not return; --stall names its functions"
                )
            }
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// EMFILE of errno(3).
const TOO_MANY_OPEN: i32 = 24;

fn remedy_of_system(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::Unsupported => {
            "; let the container's seccomp profile, or what else guards the process, allow this call"
        }
        _ if error.raw_os_error() == Some(TOO_MANY_OPEN) => {
            "; raise the limit of descriptors (LimitNOFILE= of a unit, ulimit -n)"
        }
        io::ErrorKind::InvalidInput => "; has the process's affinity changed meanwhile? Start it again",
        _ => "",
    }
}

/// Whether the URL's port is one that needs a right of its own, as far as its number tells.
fn has_low_port(url: &str) -> bool {
    let port = url.rsplit(':').next().and_then(|port| port.parse::<u16>().ok());
    port.is_some_and(|port| (1..1024).contains(&port))
}

fn remedy(fault: Fault, url: &str, holder: Option<&str>) -> String {
    let Reason::AddressInUse = fault.reason else { return remedy_of(fault, url).to_owned() };
    let holder = holder.unwrap_or("another process");
    format!("; {holder} serves this port: stop it, choose another port, or use --join, if it is of the same user and shares it")
}

fn remedy_of(fault: Fault, url: &str) -> &'static str {
    match fault.reason {
        Reason::Permission if !has_low_port(url) => {
            "; let the container's seccomp profile, or what else guards the process, allow socket, setsockopt, bind and listen"
        }
        Reason::Permission => {
            "; ports below net.ipv4.ip_unprivileged_port_start (1024) need CAP_NET_BIND_SERVICE: choose a higher port"
        }
        Reason::AddressUnknown => "; see `ip address` for the addresses of this machine",
        _ => "",
    }
}

impl std::error::Error for Error {}

impl From<corelane_watch::Error> for Error {
    fn from(error: corelane_watch::Error) -> Self {
        Self::Page(error)
    }
}

impl From<corelane_steer::Error> for Error {
    fn from(error: corelane_steer::Error) -> Self {
        Self::Steering(error)
    }
}

impl From<corelane_seam::Error> for Error {
    fn from(error: corelane_seam::Error) -> Self {
        Self::Memory(error)
    }
}
