//! Several applications at one place, told apart by the host that a request is for.
//!
//! ```text
//! request -> Names: shop.example, else *.example with the most labels, else the default -> the site's application; none: 421 (Misdirected Request)
//! exchange -> OfSite: the site goes with it            token -> its upper 16 bits are the site
//! ```

mod names;

use crate::application::{Application, Exchange, Flow, Goes, Handled, Minds, Produced};
use crate::request::Whose;
use crate::within::Within;
use crate::{Parts, Reply, Request};
use corelane::service::{Declaration, Outcome, Refused, Shared};
use corelane::{Cx, Silent};
use corelane_upstreams::{Targets, Upstreams};
use corelane_wire::http1::Status;
use names::Names;
pub use names::{HostError, check_host};

/// The most sites of one place.
pub const SITES_MAX: usize = 1 << 16;
/// The bits of a token that are the site's own.
const TOKEN_BITS: u32 = 48;

/// One application of several, chosen by the host that a request names (RFC 9110 section 7.2), without its port: an exact name goes before `*.example`, which stands
/// for all that ends so, and that before the default. Upper case and a dot at the end mean nothing. Where there is no default, requests for other hosts, and those that
/// name none, are answered with 421 (Misdirected Request).
///
/// Each application is told where its tokens begin: it adds that to those that it gives away ([`Cx::start_alarm`], [`Cx::open_file`] and the like), of less than 2^48, and
/// gets them back as it gave them.
///
/// ```
/// use corelane_http::{Fixed, Hosts, Http};
///
/// let mut hosts = Hosts::new(Some(|_tokens| Fixed::new(8)));
/// hosts.add("shop.example", |_tokens| Fixed::new(16))?.add("*.shop.example", |_tokens| Fixed::new(32))?;
/// let service = Http::new(hosts);
/// # let _: &Http<Hosts<Fixed>> = &service;
/// # Ok::<(), corelane_http::HostError>(())
/// ```
pub struct Hosts<A: Application<Talk = Silent>> {
    sites: Vec<A>,
    names: Names,
    /// The first site is for all other hosts as long as it redirects, and for nobody otherwise.
    redirects_others: bool,
    /// Which certificate each has, by number, if they have several: the first one is shown to clients that ask for nobody's name.
    certificates: Vec<u16>,
    /// Has a site asked.
    ask: Ask<A>,
}

/// Has a site asked, with its number. Its exchange knows that number, or no site.
pub(crate) type Ask<A> = fn(&mut A, &mut Cx<'_>, (&Request<'_>, Reply<'_>), usize) -> Result<Handled<Hosts<A>>, Refused>;

/// With the number beside its exchange.
pub(crate) fn ask<A: Application<Talk = Silent>>(
    site: &mut A,
    cx: &mut Cx<'_>,
    (request, reply): (&Request<'_>, Reply<'_>),
    number: usize,
) -> Result<Handled<Hosts<A>>, Refused> {
    Ok(match site.request(cx, request, reply)? {
        Handled::Answered(answered) => Handled::Answered(answered),
        Handled::Collect(most) => Handled::Collect(most),
        Handled::Begin(exchange, first) => Handled::Begin(Box::new(OfSite { site: number, exchange }), first),
    })
}

impl<A: Application<Talk = Silent>> Hosts<A> {
    /// No host but the default, if there is one.
    pub fn new(default: Option<impl FnOnce(u64) -> A>) -> Self {
        let (sites, names, certificates) = (Vec::new(), Names::default(), Vec::new());
        let mut hosts = Self { sites, names, redirects_others: false, certificates, ask };
        if let Some(make) = default {
            hosts.names.default = Some(hosts.make(make));
        }
        hosts
    }

    /// Has what `make` makes answer requests for a host: a name, an address (IPv6 in brackets), or `*.` and a name.
    ///
    /// # Errors
    /// [`HostError`]: what is wrong with the name.
    ///
    /// # Panics
    /// With more than [`SITES_MAX`].
    pub fn add(&mut self, host: &str, make: impl FnOnce(u64) -> A) -> Result<&mut Self, HostError> {
        self.names.add(host, self.sites.len())?;
        self.make(make);
        Ok(self)
    }

    /// Sites are asked so.
    pub(crate) fn asking(self, ask: Ask<A>) -> Self {
        Self { ask, ..self }
    }

    /// Adds a site that no host has yet, for [`Hosts::name`].
    pub(crate) fn add_unnamed(&mut self, make: impl FnOnce(u64) -> A) -> usize {
        self.make(make)
    }

    /// Gives a host to a site.
    pub(crate) fn name(&mut self, host: &str, site: usize) -> Result<(), HostError> {
        self.names.add(host, site)
    }

    /// All other hosts have the first site.
    pub(crate) fn have_others(&mut self) {
        self.names.default = Some(0);
    }

    /// They have it as long as it has redirects, as it does now, or does not.
    pub(crate) fn have_others_redirected(&mut self, are_redirected: bool) {
        self.redirects_others = true;
        self.names.default = are_redirected.then_some(0);
    }

    /// Sites have these certificates, by number, in the order of sites: a request for one on a connection that was opened for another is refused where they differ (RFC 9110 section 15.5.20).
    pub(crate) fn certificates(&mut self, numbers: Vec<u16>) {
        assert!(numbers.len() == self.sites.len(), "each site has one");
        let differ = numbers.iter().any(|number| *number != numbers[0]);
        self.certificates = if differ { numbers } else { Vec::new() };
    }

    /// Whether the client has asked, in TLS, for a name that has another certificate than this site.
    fn is_misdirected(&self, cx: &mut Cx<'_>, host: Option<&[u8]>, site: usize) -> bool {
        if self.certificates.is_empty() {
            return false;
        }
        let learned = cx.peer(cx.id()).and_then(|peer| peer.learned);
        let Some(asked) = learned.as_ref().and_then(|learned| learned.server_name.as_deref()) else { return false };
        if host.is_some_and(|host| host.eq_ignore_ascii_case(asked.as_bytes())) {
            return false;
        }
        let shown = self.names.site(Some(asked.as_bytes())).map_or(self.first_certificate(), |site| self.certificates[site]);
        shown != self.certificates[site]
    }

    /// The one that is shown to clients that ask for no name of a site.
    fn first_certificate(&self) -> u16 {
        self.certificates.iter().copied().min().unwrap_or(0)
    }

    fn find(&self, cx: &mut Cx<'_>, host: Option<&[u8]>) -> Whose {
        match self.names.site(host) {
            Some(site) if !self.is_misdirected(cx, host, site) => Whose::Site(site as u16),
            _ => Whose::Nobody,
        }
    }

    fn make(&mut self, make: impl FnOnce(u64) -> A) -> usize {
        let site = self.sites.len();
        assert!(site < SITES_MAX, "there are {SITES_MAX} sites at the most");
        self.sites.push(make((site as u64) << TOKEN_BITS));
        site
    }

    /// Whom a token belongs to.
    fn of_token(&mut self, token: u64) -> &mut A {
        let site = (token >> TOKEN_BITS) as usize;
        assert!(site < self.sites.len(), "token {token:#x} is of no site: one has not added where its tokens begin");
        &mut self.sites[site]
    }
}

impl<A: Application<Talk = Silent>> Application for Hosts<A> {
    type Talk = Silent;

    const COUNTERS: &'static [Declaration] = A::COUNTERS;

    fn request(&mut self, cx: &mut Cx<'_>, request: &Request<'_>, reply: Reply<'_>) -> Result<Handled<Self>, Refused> {
        let whose = if request.whose() == Whose::Anybody { self.find(cx, request.host()) } else { request.whose() };
        let Whose::Site(site) = whose else { return reply.status(Status::MISDIRECTED_REQUEST) };
        let site = usize::from(site);
        (self.ask)(&mut self.sites[site], cx, (&request.for_anybody(), reply), site)
    }

    fn whose(&self, cx: &mut Cx<'_>, host: Option<&[u8]>) -> Whose {
        self.find(cx, host)
    }

    fn retarget_each(&mut self, cx: &mut Cx<'_>, targets: &[Option<Targets>]) -> bool {
        if let [None] = targets {
            return true;
        }
        let all = || targets.iter().map(Option::as_ref);
        let can = targets.len() == self.sites.len()
            && self.sites.iter_mut().zip(all()).all(|(site, targets)| site.can_retarget(targets));
        // All of them, or none.
        can && self.sites.iter_mut().zip(all()).fold(true, |can, (site, targets)| site.retarget(cx, targets) && can)
    }

    fn redirect_each(&mut self, redirects: &[bool]) {
        if self.redirects_others {
            self.have_others_redirected(redirects.first() == Some(&true));
        }
    }

    fn started(&mut self, cx: &mut Cx<'_>) {
        self.sites.iter_mut().for_each(|site| site.started(cx));
    }

    fn completed(&mut self, cx: &mut Cx<'_>, token: u64, outcome: Outcome) {
        self.of_token(token).completed(cx, token, outcome);
    }

    fn alarm(&mut self, cx: &mut Cx<'_>, token: u64) {
        self.of_token(token).alarm(cx, token);
    }

    fn stand_within(&mut self, within: Within<Silent>) {
        self.sites.iter_mut().for_each(|site| site.stand_within(within.clone()));
    }

    fn drain_began(&mut self, cx: &mut Cx<'_>) {
        self.sites.iter_mut().for_each(|site| site.drain_began(cx));
    }

    fn ending(&mut self, cx: &mut Cx<'_>) {
        self.sites.iter_mut().for_each(|site| site.ending(cx));
    }

    fn upstreams(&mut self, see: &mut dyn FnMut(&mut Upstreams)) {
        self.sites.iter_mut().for_each(|site| site.upstreams(see));
    }

    fn upstreams_changed(&mut self, cx: &mut Cx<'_>) {
        self.sites.iter_mut().for_each(|site| site.upstreams_changed(cx));
    }
}

/// An exchange, and whose it is.
struct OfSite<A: Application> {
    site: usize,
    exchange: Box<dyn Exchange<A>>,
}

impl<A: Application<Talk = Silent>> Exchange<Hosts<A>> for OfSite<A> {
    fn content(&mut self, hosts: &mut Hosts<A>, cx: &mut Cx<'_>, piece: Shared) -> Flow {
        self.exchange.content(&mut hosts.sites[self.site], cx, piece)
    }

    fn takes_content(&mut self, hosts: &mut Hosts<A>, cx: &mut Cx<'_>) -> bool {
        self.exchange.takes_content(&mut hosts.sites[self.site], cx)
    }

    fn content_ended(&mut self, hosts: &mut Hosts<A>, cx: &mut Cx<'_>) {
        self.exchange.content_ended(&mut hosts.sites[self.site], cx);
    }

    fn go_on(&mut self, hosts: &mut Hosts<A>, cx: &mut Cx<'_>, reply: Reply<'_>) -> Result<Goes, Refused> {
        self.exchange.go_on(&mut hosts.sites[self.site], cx, reply)
    }

    fn produce(&mut self, hosts: &mut Hosts<A>, cx: &mut Cx<'_>, parts: &mut Parts<'_>) -> Produced {
        self.exchange.produce(&mut hosts.sites[self.site], cx, parts)
    }

    fn minds(&self) -> Minds {
        self.exchange.minds()
    }

    fn gone(&mut self, hosts: &mut Hosts<A>, cx: &mut Cx<'_>) {
        self.exchange.gone(&mut hosts.sites[self.site], cx);
    }
}
