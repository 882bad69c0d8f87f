//! A server's TLS: whom it shows which certificate, what it speaks, whom it lets in.

use crate::lane::Accepts;
use crate::program::{Settings, SharedServer};
use crate::provider::usual;
use crate::transform::PlainAnswer;
use crate::{Clients, Error, Pem, Watch};
use corelane::Lanes;
use corelane::admin::messages::Degraded;
use corelane::admin::reports;
use corelane::service::entry::Beside;
use corelane::service::{Peer, Side, Transform};
use rustls::crypto::CryptoProvider;
use std::sync::Arc;

/// How a server speaks TLS, before its files are read.
#[derive(Clone, Debug)]
pub struct Server(Settings);

impl Server {
    /// A server with these identities. A client that asks for a name is shown the first whose certificate has the name and whose signatures the client
    /// verifies (RFC 8446, section 4.4.2.2), so certificates of ECDSA and of RSA may stand side by side. A client that asks for no name, or for another,
    /// is shown the first of all that it verifies. It lets everybody in, speaks no protocol by name, and its cryptography is ring's.
    pub fn new(files: impl IntoIterator<Item = Pem>) -> Self {
        let provider = Arc::new(usual());
        let files = files.into_iter().collect();
        Self(Settings { files, clients: Clients::Anybody, protocols: Vec::new(), plain_answer: None, provider })
    }

    /// The protocols that it speaks, the most wanted first (ALPN, RFC 7301); who speaks some and none of these is refused.
    pub fn protocols(mut self, names: &[&[u8]]) -> Self {
        self.0.protocols = names.iter().map(|name| name.to_vec()).collect();
        self
    }

    /// Whom it lets in.
    pub fn clients(mut self, clients: Clients) -> Self {
        self.0.clients = clients;
        self
    }

    /// The answer, in plain, to who speaks no TLS but begins with a letter, as HTTP does: a whole answer (`HTTP/1.1 400 Bad Request`, with `Connection: close`) at that
    /// time since 1970. The connection then finishes in order, and what else comes is discarded, so that the answer is not lost by a reset. By default an alert of TLS.
    pub fn plain_answer(mut self, answer: PlainAnswer) -> Self {
        self.0.plain_answer = Some(answer);
        self
    }

    /// Another provider of cryptography and randomness. Of the suites that both sides have, the first in its order is spoken: by default AES-128-GCM, where the machine has instructions for AES.
    pub fn provider(mut self, provider: CryptoProvider) -> Self {
        self.0.provider = Arc::new(provider);
        self
    }

    /// Reads the files.
    ///
    /// # Errors
    /// [`Error`]: what is wrong with which file.
    pub fn load(&self) -> Result<Served, Error> {
        SharedServer::load(self.0.clone()).map(|program| Served(Arc::new(program)))
    }

    /// Reads the files, has the service that was added last speak TLS, and looks after the files as long as the lanes run.
    ///
    /// # Errors
    /// Those of [`Server::load`] as [`corelane::Error::Setting`], and those of [`Lanes::transform`].
    pub fn before(&self, lanes: Lanes) -> Result<Lanes, corelane::Error> {
        let wrong = |error: Error| corelane::Error::Setting { name: "TLS", why: error.to_string() };
        self.load().map_err(wrong)?.before(lanes)
    }
}

/// A server whose files have been read. A clone is the same one.
#[derive(Clone)]
pub struct Served(Arc<SharedServer>);

impl Served {
    /// Has the service that was added last speak TLS, and looks after the files as long as the lanes run.
    ///
    /// # Errors
    /// Those of [`Lanes::transform`].
    pub fn before(self, lanes: Lanes) -> Result<Lanes, corelane::Error> {
        let lane = self.clone();
        let (giving, taking) = (self.clone(), self.clone());
        let lanes = lanes.keepsake(move || giving.0.keepsake(), move |name, keys| taking.0.inherit(name, keys));
        let lanes = lanes.transform(move |_lane| lane.lane())?;
        Ok(lanes.beside(move || {
            let notes = self.notes().into_iter().map(|note| Degraded::CertificateOutOfDate.note(note));
            let notes = notes.fold(Beside::default(), Beside::note);
            notes.keep(self.watch())
        }))
    }

    /// The function that makes the transforms of one lane.
    pub fn lane(&self) -> impl FnMut(Side, &Peer) -> Option<Box<dyn Transform>> + use<> {
        let mut lane = Accepts::new(self.0.clone());
        move |side, _peer| (side == Side::Server).then(|| lane.accept())
    }

    /// Reads the files again: connections that are accepted from now on have what is in them, and the others go on with what they had. Sessions
    /// that began before are not resumed.
    ///
    /// # Errors
    /// Those of [`Server::load`]; the server goes on with what it had.
    pub fn reload(&self) -> Result<(), Error> {
        self.0.reload()
    }

    /// Remarks on the certificates, for whoever serves: that one has expired, or is not valid yet.
    pub fn notes(&self) -> Vec<String> {
        self.0.notes()
    }

    /// Looks after the files from a thread of its own, until what is returned is dropped: what changes is read within a second or two, and what is wrong with it
    /// is reported.
    pub fn watch(&self) -> Watch {
        let served = self.clone();
        Watch::begin(self.0.settings.paths().cloned().collect(), move || served.reload_and_report())
    }

    fn reload_and_report(&self) {
        match self.reload() {
            Ok(()) => {
                reports::say("TLS: new certificates are shown from now on");
                self.notes().iter().for_each(|note| Degraded::CertificateOutOfDate.say(note));
            }
            Err(error) => Degraded::CertificatesKept.say(format_args!("TLS: what was there before is kept: {error}")),
        }
    }
}
