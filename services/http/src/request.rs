//! A request as an application sees it.

use corelane::service::Shared;
use corelane_wire::http1::{Fields, Method, Request as Head, percent};

/// A request. What it shows lies in the lane's memory, and is copied by whoever keeps it.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Its head as it was parsed.
    pub head: &'a Head<'a>,
    /// The whole content, once it was [collected](crate::Handled::Collect).
    content: Option<&'a Shared>,
    /// Whose it is, as far as that was looked for.
    whose: Whose,
}

/// Which of several applications answers a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// There is one, or nobody has looked.
    Anybody,
    /// The one of this number.
    Site(u16),
    /// None has this host, or its connection is for another: 421 (Misdirected Request).
    Nobody,
}

impl<'a> Request<'a> {
    pub(crate) fn new(head: &'a Head<'a>, content: Option<&'a Shared>, whose: Whose) -> Self {
        Self { head, content, whose }
    }

    pub(crate) fn whose(&self) -> Whose {
        self.whose
    }

    /// The same for an application within that which was asked.
    pub(crate) fn for_anybody(self) -> Self {
        Self { whose: Whose::Anybody, ..self }
    }

    /// The method.
    pub fn method(&self) -> Method<'a> {
        self.head.method
    }

    /// The path as it was sent, percent-encoded; `*` for OPTIONS of the server, empty for CONNECT.
    pub fn path(&self) -> &'a str {
        // reason: a target is visible ASCII, or the request was refused.
        std::str::from_utf8(self.head.target.path).expect("a target is ASCII")
    }

    /// What stands behind the question mark, as it was sent.
    pub fn query(&self) -> Option<&'a [u8]> {
        self.head.target.query
    }

    /// The first value that the query has for `name`, decoded as forms are (`+` is a space); none if it has none, or one that is not well encoded.
    pub fn query_value(&self, name: &str) -> Option<String> {
        let form = |text: &[u8]| percent::decode_form(text, &mut vec![0; text.len()]).map(<[u8]>::to_vec).ok();
        let (_, value) = percent::pairs(self.query()?).find(|(key, _)| form(key).is_some_and(|key| key == name.as_bytes()))?;
        String::from_utf8(form(value)?).ok()
    }

    /// Whom the client means, without a port: the target's host or that of the field Host.
    pub fn host(&self) -> Option<&'a [u8]> {
        self.head.authority.map(|authority| authority.host)
    }

    /// The value of the first field line of this name, in any case.
    pub fn field(&self, name: &str) -> Option<&'a [u8]> {
        self.head.fields.get(name)
    }

    /// All field lines.
    pub fn fields(&self) -> Fields<'a> {
        self.head.fields
    }

    /// The whole content: none until it was [collected](crate::Handled::Collect). A clone keeps it without copying.
    pub fn content(&self) -> Option<&'a Shared> {
        self.content
    }
}
