//! The service as `serve` knows it: the programs, where they are served, and what rpcbind is told of them.

use crate::registration::{Registered, Registration, RegistrationError};
use crate::{ECHO, Echo, NFS, Null, Rpc, RpcDatagrams};
use corelane::admin::messages::Degraded;
use corelane::admin::reports::{Level, Record};
use corelane::service::entry::choice::{Choice, Flag};
use corelane::service::entry::{Asked, Beside, Entry, Opened, Scheme};
use corelane::{Lanes, Result};
use corelane_tls::entry as tls;

/// Where RPC is served unless said otherwise.
pub const DEFAULT_PORT: u16 = 62049;
/// Where it is served behind TLS unless said otherwise.
pub const DEFAULT_TLS_PORT: u16 = 62443;

/// What is served: procedure 0 of NFS, and the echo program.
type Programs = (Null, Echo);

const REGISTER: Flag = Flag::new("register", "tell the rpcbind of this machine where the programs are, until the end");

/// ONC RPC over TCP, UDP, and TLS.
pub static ENTRY: Entry = Entry::new(
    "rpc",
    "ONC RPC, procedure 0 of NFS and an echo program",
    &[
        Scheme::connections::<Rpc<Programs>>("tcp", DEFAULT_PORT, connections),
        Scheme::datagrams::<RpcDatagrams<Programs>>("udp", DEFAULT_PORT, datagrams),
        tls::behind(Scheme::connections::<Rpc<Programs>>("tls", DEFAULT_TLS_PORT, veiled)),
    ],
)
.options(&[Choice::Flag(REGISTER)])
.once_started(register)
.by_default();

fn connections(lanes: Lanes, asked: &Asked) -> Result<Lanes> {
    lanes.serve(&asked.url().to_string(), |_lane| Rpc::new((Null, Echo)))
}

/// From the first byte on, as behind stunnel; who asks in plain whether there is TLS (RFC 9289) does so over TCP.
fn veiled(lanes: Lanes, asked: &Asked) -> Result<Lanes> {
    if asked.chosen().flag(&REGISTER) {
        return Err(
            asked.refuse(REGISTER.name, "rpcbind knows of no TLS: who asked it would speak in plain; register tcp:// or udp://")
        );
    }
    connections(lanes, asked)
}

fn datagrams(lanes: Lanes, asked: &Asked) -> Result<Lanes> {
    lanes.serve_datagrams(&asked.url().to_string(), |_lane| RpcDatagrams::new((Null, Echo)))
}

/// Tells rpcbind of every version of every program, at each place for which that was chosen. Without rpcbind the service runs on: who
/// knows its port needs none.
fn register(opened: &[Opened<'_>]) -> Beside {
    let chosen = opened.iter().filter(|opened| opened.chosen.flag(&REGISTER));
    let entries: Vec<Registered> = chosen.flat_map(|opened| all_versions(*opened)).collect();
    if entries.is_empty() {
        return Beside::default();
    }
    match Registration::register(&entries) {
        Ok(known) => {
            let words = format!("rpcbind knows of {} entries", known.entries().len());
            Beside::default().note(Record::new(Level::Warn, words)).keep(known)
        }
        Err(error) => {
            let note = Degraded::NotRegistered.note(format_args!("not registered: {error}; it is told as soon as it answers"));
            let later = Registration::later(&entries).ok().filter(|_| matches!(error, RegistrationError::Call { .. }));
            later.into_iter().fold(Beside::default().note(note), Beside::keep)
        }
    }
}

fn all_versions(opened: Opened<'_>) -> impl Iterator<Item = Registered> {
    let transport = opened.place.url.transport();
    let versions = [NFS, ECHO].into_iter().flat_map(|of| (of.low..=of.high).map(move |version| (of.number, version)));
    let address = opened.place.address().inet();
    versions.filter_map(move |(program, version)| Some(Registered { program, version, transport, address: address? }))
}
