//! The target of a request (RFC 9112 section 3.2).

use super::token::is_target;
use super::{Authority, Method, Refusal};

/// Which of the four forms a target has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// `/path?query`.
    Origin,
    /// `http://host/path?query`, or `https://`: what is sent to proxies, and must be understood by all (section 3.2.2).
    Absolute,
    /// `host:port`, for CONNECT alone.
    Authority,
    /// `*`, for OPTIONS alone.
    Asterisk,
}

/// A target, taken apart. Its bytes are visible ASCII; nothing is decoded (see [`path`](super::path) and [`percent`](super::percent)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target<'a> {
    /// Its form.
    pub form: Form,
    /// The path, which begins with a slash; `*` for [`Form::Asterisk`] (and for OPTIONS of a URI without a path); empty for [`Form::Authority`].
    pub path: &'a [u8],
    /// What stands behind the first question mark.
    pub query: Option<&'a [u8]>,
    /// The authority that it names itself; then Host is not looked at (section 3.2.2).
    pub authority: Option<Authority<'a>>,
    /// Whether it names the scheme `https` itself; what it names is to be had over TLS alone (RFC 9110 section 7.4).
    pub is_https: bool,
}

impl<'a> Target<'a> {
    /// Reads the target of a request with `method`.
    ///
    /// # Errors
    /// [`Refusal::Target`].
    pub fn parse(method: Method<'_>, bytes: &'a [u8]) -> Result<Self, Refusal> {
        if !bytes.iter().copied().all(is_target) {
            return Err(Refusal::Target);
        }
        let target = match method {
            Method::Connect => Self::connect(bytes),
            Method::Options if bytes == b"*" => {
                Some(Self { form: Form::Asterisk, path: bytes, query: None, authority: None, is_https: false })
            }
            _ if bytes.starts_with(b"/") => Some(Self::with_path(Form::Origin, None, bytes)),
            _ => Self::absolute(method, bytes),
        };
        target.ok_or(Refusal::Target)
    }

    fn with_path(form: Form, authority: Option<Authority<'a>>, bytes: &'a [u8]) -> Self {
        let (path, query) = match bytes.iter().position(|byte| *byte == b'?') {
            Some(at) => (&bytes[..at], Some(&bytes[at + 1..])),
            None => (bytes, None),
        };
        Self { form, path, query, authority, is_https: false }
    }

    /// `host:port`, both of them (section 3.2.3).
    fn connect(bytes: &'a [u8]) -> Option<Self> {
        let authority = Authority::parse(bytes).filter(|found| !found.host.is_empty() && found.port.is_some())?;
        Some(Self { form: Form::Authority, path: &[], query: None, authority: Some(authority), is_https: false })
    }

    fn absolute(method: Method<'_>, bytes: &'a [u8]) -> Option<Self> {
        let schemes: [&[u8]; 2] = [b"http://", b"https://"];
        let is_scheme = |scheme: &[u8]| bytes.get(..scheme.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(scheme));
        let scheme = schemes.iter().position(|scheme| is_scheme(scheme))?;
        let rest = &bytes[schemes[scheme].len()..];
        let end = rest.iter().position(|byte| matches!(byte, b'/' | b'?')).unwrap_or(rest.len());
        // A host must be named (RFC 9110 section 4.2.1).
        let authority = Authority::parse(&rest[..end]).filter(|found| !found.host.is_empty())?;
        let mut target = Self::with_path(Form::Absolute, Some(authority), &rest[end..]);
        target.is_https = scheme == 1;
        if target.path.is_empty() {
            target.path = if method == Method::Options && target.query.is_none() { b"*" } else { b"/" };
        }
        Some(target)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(method: &'static str, text: &'static str) -> Option<(Form, &'static str, Option<&'static str>)> {
        let text_of = |bytes| std::str::from_utf8(bytes).unwrap();
        let target = Target::parse(Method::of(method.as_bytes()).unwrap(), text.as_bytes()).ok()?;
        Some((target.form, text_of(target.path), target.query.map(text_of)))
    }

    #[test]
    fn the_four_forms() {
        assert_eq!(parse("GET", "/a?b?c"), Some((Form::Origin, "/a", Some("b?c"))));
        assert_eq!(parse("GET", "HTTP://h:80?q"), Some((Form::Absolute, "/", Some("q"))));
        assert_eq!(parse("GET", "https://[::1]/a"), Some((Form::Absolute, "/a", None)));
        assert_eq!(parse("OPTIONS", "http://h"), Some((Form::Absolute, "*", None)));
        assert_eq!(parse("OPTIONS", "*"), Some((Form::Asterisk, "*", None)));
        assert_eq!(parse("CONNECT", "h:443"), Some((Form::Authority, "", None)));
    }

    #[test]
    fn a_target_says_itself_that_it_is_https() {
        let is_https = |text: &'static str| Target::parse(Method::Get, text.as_bytes()).unwrap().is_https;
        assert!(is_https("HTTPS://h/") && is_https("https://h"));
        assert!(!is_https("http://h/") && !is_https("/https://h/"));
    }

    #[test]
    fn a_form_stands_with_its_methods() {
        let wrong = [("GET", "*"), ("GET", "h:443"), ("CONNECT", "/"), ("CONNECT", "h"), ("CONNECT", "h:"), ("CONNECT", ":443")];
        for (method, text) in wrong {
            assert_eq!(parse(method, text), None, "{method} {text}");
        }
        for text in ["", "a", "http:/a", "http://", "http:///a", "http://u@h/", "ftp://h/", "http://h:99999/", "/a#b", "/\u{e9}"]
        {
            assert_eq!(parse("GET", text), None, "{text}");
        }
    }
}
