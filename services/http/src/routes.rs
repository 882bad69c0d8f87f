//! Requests told apart by method and path.

use crate::application::{Application, Handled};
use crate::counters::NoCounter;
use crate::matched::Matched;
use crate::typed::{self, FromRequest, Read};
use crate::{Reply, Request};
use corelane::service::{Declaration, Outcome, OwnCounter, Refused};
use corelane::{Cx, Silent};
use corelane_wire::http1::{Method, Status};
use matchit::Router;
use std::marker::PhantomData;

/// Answers the requests of one route. `S` is what all handlers of a lane share, `C` what they count.
pub type Handler<S, C = NoCounter> =
    Box<dyn Fn(&mut S, &mut Cx<'_>, &Matched<'_, '_>, Reply<'_>) -> Result<Handled<Routes<S, C>>, Refused>>;

/// Hears the end of operations that handlers began.
type Completed<S> = Box<dyn Fn(&mut S, &mut Cx<'_>, u64, Outcome)>;

/// The handlers of one path, by method.
struct PathHandlers<S: 'static, C: OwnCounter> {
    path: String,
    handlers: Vec<(Method<'static>, Handler<S, C>)>,
}

/// An application of handlers, each for a method and a path.
///
/// A path names places with braces: `/users/{id}` has one segment there, `/files/{*rest}` all that follows; what is more exact goes first. HEAD is answered by the
/// handler of GET where it has none of its own, OPTIONS and methods that a path does not have by the application itself (RFC 9110 sections 9.3.7 and
/// 15.5.6), and methods that RFC 9110 does not name and no path has (section 15.6.2). The path is matched as it was sent.
///
/// `C` is what the handlers count ([`Application::COUNTERS`]); nothing, unless it is said ([`Routes::counting`]).
pub struct Routes<S: 'static, C: OwnCounter = NoCounter> {
    state: S,
    router: Router<usize>,
    places: Vec<PathHandlers<S, C>>,
    completed: Option<Completed<S>>,
    counts: PhantomData<C>,
}

impl<S: 'static> Routes<S> {
    /// No route; `state` is what the handlers of this lane share.
    pub fn new(state: S) -> Self {
        Self::counting(state)
    }
}

impl<S: 'static, C: OwnCounter> Routes<S, C> {
    /// [`Routes::new`] for handlers that count: `Routes::<_, Sold>::counting(state)`.
    pub fn counting(state: S) -> Self {
        Self { state, router: Router::new(), places: Vec::new(), completed: None, counts: PhantomData }
    }

    /// Has `handler` answer requests with `method` for `path`.
    ///
    /// # Panics
    /// If the path is no route, contradicts another one, or has a handler for the method.
    pub fn on<F>(&mut self, method: Method<'static>, path: &str, handler: F) -> &mut Self
    where
        F: Fn(&mut S, &mut Cx<'_>, &Matched<'_, '_>, Reply<'_>) -> Result<Handled<Self>, Refused> + 'static,
    {
        let place = self.place(path);
        let handlers = &mut self.places[place].handlers;
        assert!(handlers.iter().all(|(known, _)| *known != method), "{} {path} has a handler already", method.name());
        handlers.push((method, Box::new(handler)));
        self
    }

    /// [`Routes::on`] for GET, and so for HEAD.
    ///
    /// # Panics
    /// As for [`Routes::on`].
    pub fn get<F>(&mut self, path: &str, handler: F) -> &mut Self
    where
        F: Fn(&mut S, &mut Cx<'_>, &Matched<'_, '_>, Reply<'_>) -> Result<Handled<Self>, Refused> + 'static,
    {
        self.on(Method::Get, path, handler)
    }

    /// [`Routes::on`] for POST.
    ///
    /// # Panics
    /// As for [`Routes::on`].
    pub fn post<F>(&mut self, path: &str, handler: F) -> &mut Self
    where
        F: Fn(&mut S, &mut Cx<'_>, &Matched<'_, '_>, Reply<'_>) -> Result<Handled<Self>, Refused> + 'static,
    {
        self.on(Method::Post, path, handler)
    }

    /// [`Routes::on`] for a handler that is given what it wants of a request as a value of a type of its own: places of the path as a tuple, or whatever else [`FromRequest`] reads.
    ///
    /// What is unfit is answered with 400 (Bad Request) and what is wrong with it, and the handler is not called.
    ///
    /// ```
    /// use corelane_http::Routes;
    /// use corelane_http::http1::Method;
    ///
    /// let mut routes = Routes::new(());
    /// routes.typed(Method::Get, "/sum/{a}/{b}", |(), _cx, (a, b): (u32, u32), _request, reply| reply.text(&format!("{}\n", u64::from(a) + u64::from(b))));
    /// ```
    ///
    /// # Panics
    /// As for [`Routes::on`]; and if the path does not name as many places as a tuple has.
    pub fn typed<T, F>(&mut self, method: Method<'static>, path: &str, handler: F) -> &mut Self
    where
        T: FromRequest,
        F: Fn(&mut S, &mut Cx<'_>, T, &Matched<'_, '_>, Reply<'_>) -> Result<Handled<Self>, Refused> + 'static,
    {
        let places = path.replace("{{", "").matches('{').count();
        assert!(
            T::PLACES.is_none_or(|wanted| wanted == places),
            "{path} names {places} places, and not as many as its handler takes"
        );
        self.on(method, path, move |state, cx, request, reply| match typed::read(request) {
            Ok(Read::Whole(value)) => handler(state, cx, value, request, reply),
            Ok(Read::Content(collect)) => Ok(collect),
            Err(unfit) => unfit.answer(reply),
        })
    }

    /// Has `completed` called for each operation that a handler has begun and that has ended: a call on a helper thread ([`Cx::offload`]), a file. It is
    /// given the state, the operation's token and its outcome, and answers what the handler has held ([`Reply::hold`]). A second one takes the place of the first.
    pub fn on_completed(&mut self, completed: impl Fn(&mut S, &mut Cx<'_>, u64, Outcome) + 'static) -> &mut Self {
        self.completed = Some(Box::new(completed));
        self
    }

    /// Whether any path has this method, or everybody knows it (RFC 9110 section 9.1).
    fn knows(&self, method: Method<'_>) -> bool {
        !matches!(method, Method::Other(_)) || self.places.iter().any(|place| place.handler(method).is_some())
    }

    /// The place of a path; a new one if it has none.
    fn place(&mut self, path: &str) -> usize {
        if let Some(known) = self.places.iter().position(|place| place.path == path) {
            return known;
        }
        let place = self.places.len();
        if let Err(error) = self.router.insert(path, place) {
            panic!("{path:?} is no route: {error}");
        }
        self.places.push(PathHandlers { path: path.to_owned(), handlers: Vec::new() });
        place
    }
}

impl<S: 'static, C: OwnCounter> PathHandlers<S, C> {
    fn handler(&self, method: Method<'_>) -> Option<&Handler<S, C>> {
        let of = |wanted: Method<'_>| self.handlers.iter().find(|(known, _)| *known == wanted).map(|(_, handler)| handler);
        of(method).or_else(|| of(Method::Get).filter(|_| method == Method::Head))
    }

    /// The methods that it knows, for the field Allow.
    fn allowed(&self) -> String {
        let knows = |method: Method<'_>| self.handlers.iter().any(|(known, _)| *known == method);
        let own = self.handlers.iter().map(|(method, _)| method.name());
        let head = (knows(Method::Get) && !knows(Method::Head)).then_some("HEAD");
        let options = (!knows(Method::Options)).then_some("OPTIONS");
        own.chain(head).chain(options).collect::<Vec<_>>().join(", ")
    }
}

impl<S: 'static, C: OwnCounter> Application for Routes<S, C> {
    type Talk = Silent;

    const COUNTERS: &'static [Declaration] = C::DECLARED;

    fn request(&mut self, cx: &mut Cx<'_>, request: &Request<'_>, reply: Reply<'_>) -> Result<Handled<Self>, Refused> {
        if request.path() == "*" {
            return reply.answer(Status::NO_CONTENT).empty();
        }
        let Ok(found) = self.router.at(request.path()) else {
            return reply.status(if self.knows(request.method()) { Status::NOT_FOUND } else { Status::NOT_IMPLEMENTED });
        };
        let place = &self.places[*found.value];
        match place.handler(request.method()) {
            Some(handler) => handler(&mut self.state, cx, &Matched::new(request, found.params), reply),
            None if request.method() == Method::Options => {
                reply.answer(Status::NO_CONTENT).field("Allow", place.allowed()).empty()
            }
            None if !self.knows(request.method()) => reply.status(Status::NOT_IMPLEMENTED),
            None => reply.answer(Status::METHOD_NOT_ALLOWED).field("Allow", place.allowed()).explained(),
        }
    }

    fn completed(&mut self, cx: &mut Cx<'_>, token: u64, outcome: Outcome) {
        if let Some(completed) = &self.completed {
            completed(&mut self.state, cx, token, outcome);
        }
    }
}
