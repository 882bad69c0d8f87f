//! A request whose path a route has matched.

use crate::Request;
use crate::unfit::{Unfit, parsed_place};
use matchit::Params;
use std::fmt::Display;
use std::str::FromStr;

/// A request, and what its path has in the places that the route names.
pub struct Matched<'r, 'p> {
    /// The request.
    pub request: &'p Request<'r>,
    params: Params<'p, 'p>,
}

impl<'r, 'p> Matched<'r, 'p> {
    pub(crate) fn new(request: &'p Request<'r>, params: Params<'p, 'p>) -> Self {
        Self { request, params }
    }

    /// What the path has in this place, as it was sent, percent-encoded.
    ///
    /// # Panics
    /// If the route names no such place.
    pub fn param(&self, name: &str) -> &str {
        // reason: documented; a route and its handler are written together.
        self.params.get(name).expect("a route names the places that its handler asks for")
    }

    /// What the path has in this place, decoded, as a `T`.
    ///
    /// # Errors
    /// It is not well encoded, or no `T`: [`Unfit::answer`] tells the client.
    ///
    /// # Panics
    /// If the route names no such place.
    pub fn parse<T: FromStr<Err: Display>>(&self, name: &str) -> Result<T, Unfit> {
        parsed_place(name, self.param(name))
    }

    /// The places of the path, in their order: names, and what is in them as it was sent.
    pub(crate) fn places(&self) -> impl Iterator<Item = (&str, &str)> {
        self.params.iter()
    }
}

impl<'r> std::ops::Deref for Matched<'r, '_> {
    type Target = Request<'r>;

    fn deref(&self) -> &Request<'r> {
        self.request
    }
}
