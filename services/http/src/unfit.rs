//! What of a request does not parse, and how the client is told.

use crate::Reply;
use crate::outcome::Answered;
use corelane::service::Refused;
use corelane_wire::http1::{Status, percent};
use std::fmt::{self, Display};
use std::str::FromStr;

/// What of a request is not what it should be: the client is at fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unfit {
    what: String,
    why: String,
}

impl Unfit {
    /// `what` of the request, such as `the field X-Count`, and why it is unfit, such as `is no number`. The client is shown both.
    pub fn new(what: impl Display, why: impl Display) -> Self {
        Self { what: what.to_string(), why: why.to_string() }
    }

    /// Tells the client: 400 (Bad Request), and this in a line of plain text.
    ///
    /// # Errors
    /// What was refused; nothing was written then.
    pub fn answer<H: From<Answered>>(&self, reply: Reply<'_>) -> Result<H, Refused> {
        let words = format!("400 Bad Request: {self}\n");
        reply.answer(Status::BAD_REQUEST).media("text/plain; charset=utf-8").bytes(words.as_bytes())
    }
}

impl Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.why)
    }
}

impl std::error::Error for Unfit {}

/// A text of a request as a `T`.
pub(crate) fn parsed<T: FromStr<Err: Display>>(what: impl Fn() -> String, text: &[u8]) -> Result<T, Unfit> {
    let text = std::str::from_utf8(text).map_err(|_| Unfit::new(what(), "is no UTF-8"))?;
    text.parse().map_err(|error: T::Err| Unfit::new(what(), error))
}

/// What stands in a place of the path, decoded, as a `T`.
pub(crate) fn parsed_place<T: FromStr<Err: Display>>(name: &str, text: &str) -> Result<T, Unfit> {
    let what = || format!("{{{name}}} of the path");
    let mut memory = vec![0; if text.contains('%') { text.len() } else { 0 }];
    let text = percent::decode(text.as_bytes(), &mut memory).map_err(|_| Unfit::new(what(), "is not well encoded"))?;
    parsed(what, text)
}
