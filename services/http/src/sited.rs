//! What answers for a site beside others: one of the applications that a service may have.

use crate::application::{Application, Exchange, Flow, Goes, Handled, Produced};
use crate::hosts::{Ask, ask};
use crate::within::Within;
use crate::{Files, Forward, Parts, Reply, Request};
use corelane::service::{Outcome, Refused, Shared};
use corelane::{Cx, Silent};
use corelane_upstreams::{Targets, Upstreams};
use corelane_wire::http1::Status;

/// What answers for a site.
pub(crate) enum Sited {
    Forward(Forward),
    /// Boxed: the other kinds are small.
    Files(Box<Files>),
    /// All but redirects is not found.
    Nobody,
}

impl Sited {
    /// Has one asked within [`Hosts`](crate::Hosts): a request that is sent on has an exchange of its own, and nothing is allocated around it.
    pub const ASK: Ask<Self> = |site, cx, (request, reply), number| match site {
        Self::Forward(forward) => forward.pass_on(cx, request, reply),
        site => ask(site, cx, (request, reply), number),
    };

    /// The one of these that is an application.
    fn files(&mut self) -> &mut Files {
        match self {
            Self::Files(files) => files,
            // reason: an exchange of files is begun by files, and a site stays what it is.
            Self::Forward(_) | Self::Nobody => unreachable!("files have begun it"),
        }
    }
}

impl Application for Sited {
    type Talk = Silent;

    fn request(&mut self, cx: &mut Cx<'_>, request: &Request<'_>, reply: Reply<'_>) -> Result<Handled<Self>, Refused> {
        match self {
            Self::Forward(forward) => forward.pass_on(cx, request, reply),
            Self::Files(files) => Ok(match files.request(cx, request, reply)? {
                Handled::Answered(answered) => Handled::Answered(answered),
                Handled::Collect(most) => Handled::Collect(most),
                Handled::Begin(exchange, first) => Handled::Begin(Box::new(OfFiles(exchange)), first),
            }),
            Self::Nobody => reply.status(Status::NOT_FOUND),
        }
    }

    fn started(&mut self, cx: &mut Cx<'_>) {
        match self {
            Self::Forward(forward) => forward.started(cx),
            Self::Files(files) => files.started(cx),
            Self::Nobody => {}
        }
    }

    fn completed(&mut self, cx: &mut Cx<'_>, token: u64, outcome: Outcome) {
        match self {
            Self::Forward(forward) => forward.completed(cx, token, outcome),
            Self::Files(files) => files.completed(cx, token, outcome),
            Self::Nobody => {}
        }
    }

    fn alarm(&mut self, cx: &mut Cx<'_>, token: u64) {
        match self {
            Self::Forward(forward) => forward.alarm(cx, token),
            Self::Files(files) => files.alarm(cx, token),
            Self::Nobody => {}
        }
    }

    fn stand_within(&mut self, within: Within<Silent>) {
        match self {
            Self::Forward(forward) => forward.stand_within(within),
            Self::Files(files) => files.stand_within(within),
            Self::Nobody => {}
        }
    }

    fn drain_began(&mut self, cx: &mut Cx<'_>) {
        match self {
            Self::Forward(forward) => forward.drain_began(cx),
            Self::Files(files) => files.drain_began(cx),
            Self::Nobody => {}
        }
    }

    fn ending(&mut self, cx: &mut Cx<'_>) {
        match self {
            Self::Forward(forward) => forward.ending(cx),
            Self::Files(files) => files.ending(cx),
            Self::Nobody => {}
        }
    }

    fn upstreams(&mut self, see: &mut dyn FnMut(&mut Upstreams)) {
        if let Self::Forward(forward) = self {
            forward.upstreams(see);
        }
    }

    fn upstreams_changed(&mut self, cx: &mut Cx<'_>) {
        if let Self::Forward(forward) = self {
            forward.upstreams_changed(cx);
        }
    }

    fn can_retarget(&mut self, targets: Option<&Targets>) -> bool {
        match self {
            Self::Forward(forward) => forward.can_retarget(targets),
            Self::Files(_) | Self::Nobody => targets.is_none(),
        }
    }

    fn retarget(&mut self, cx: &mut Cx<'_>, targets: Option<&Targets>) -> bool {
        match self {
            Self::Forward(forward) => forward.retarget(cx, targets),
            Self::Files(_) | Self::Nobody => targets.is_none(),
        }
    }
}

/// An exchange of files.
struct OfFiles(Box<dyn Exchange<Files>>);

impl Exchange<Sited> for OfFiles {
    fn content(&mut self, site: &mut Sited, cx: &mut Cx<'_>, piece: Shared) -> Flow {
        self.0.content(site.files(), cx, piece)
    }

    fn takes_content(&mut self, site: &mut Sited, cx: &mut Cx<'_>) -> bool {
        self.0.takes_content(site.files(), cx)
    }

    fn content_ended(&mut self, site: &mut Sited, cx: &mut Cx<'_>) {
        self.0.content_ended(site.files(), cx);
    }

    fn go_on(&mut self, site: &mut Sited, cx: &mut Cx<'_>, reply: Reply<'_>) -> Result<Goes, Refused> {
        self.0.go_on(site.files(), cx, reply)
    }

    fn produce(&mut self, site: &mut Sited, cx: &mut Cx<'_>, parts: &mut Parts<'_>) -> Produced {
        self.0.produce(site.files(), cx, parts)
    }

    fn gone(&mut self, site: &mut Sited, cx: &mut Cx<'_>) {
        self.0.gone(site.files(), cx);
    }
}
