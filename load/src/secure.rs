//! Connections behind TLS: whom a load trusts, and what its handshakes come to. They are counted and timed apart from requests.

use crate::error::Error;
use crate::interval::Times;
use corelane_tls::{Caller, Client, Pem, Trust};
use std::path::PathBuf;

/// What a plan says of TLS.
#[derive(Clone, Debug)]
pub struct Secure {
    /// The client, whose files have been read: what becomes of them changes no run.
    pub client: Caller,
    /// Sessions go on where the server lets them.
    pub resumes: bool,
    /// The server's certificate is compared with nothing.
    pub trusts_anybody: bool,
}

/// What the user says of TLS.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wishes {
    /// The file of authorities; none for those of the system.
    pub authorities: Option<PathBuf>,
    /// Any certificate will do.
    pub trusts_anybody: bool,
    /// Each handshake is a full one.
    pub resumes_never: bool,
    /// What a server is shown that asks for a certificate: the files of the chain and of its key.
    pub certificate: Option<(PathBuf, PathBuf)>,
}

impl Secure {
    /// A client of the server called `host`, a name or an address, which speaks these protocols. Its files are read once, for all runs.
    ///
    /// # Errors
    /// [`Error::Setting`] with what is wrong with the files or with the name.
    pub fn new(wishes: &Wishes, host: &str, protocols: &[&[u8]]) -> Result<Self, Error> {
        let trust = match (&wishes.authorities, wishes.trusts_anybody) {
            (_, true) => Trust::Anybody,
            (Some(path), _) => Trust::Authorities(path.clone()),
            (None, _) => Trust::System,
        };
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let mut client = Client::new(trust).name(host).protocols(protocols).resumption(!wishes.resumes_never);
        if let Some((chain, key)) = &wishes.certificate {
            client = client.certificate(Pem::new(chain, key));
        }
        let client = client.load().map_err(|error| Error::Setting { name: "TLS", why: error.to_string() })?;
        Ok(Self { client, resumes: !wishes.resumes_never, trusts_anybody: wishes.trusts_anybody })
    }

    /// For a report.
    pub fn words(&self) -> String {
        let resumes = if self.resumes { "resuming sessions" } else { "full handshakes" };
        let trusts = if self.trusts_anybody { ", any certificate" } else { "" };
        format!("TLS, {resumes}{trusts}")
    }
}

/// The handshakes of a whole run: those before the window are among them.
#[derive(Clone, Debug, Default)]
pub struct HandshakesTimed {
    /// Those in which the server has proved who it is.
    pub full: u64,
    /// Those that went on with a session.
    pub resumed: u64,
    /// From asking for a connection until TLS stands on it, that of TCP included.
    pub times: Times,
}

impl HandshakesTimed {
    /// Adds all that another holds.
    pub fn merge(&mut self, other: &Self) {
        self.full += other.full;
        self.resumed += other.resumed;
        self.times.merge(&other.times);
    }
}
