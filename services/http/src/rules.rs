//! What an operator has for paths, whatever application answers there: field lines of answers, and redirects.
//!
//! ```text
//! request --path--> Rules: which fields match (a bit each, in Facts) --> head of the answer, whichever that is
//!                          a redirect --> 308, and the application is not asked
//! ```

use crate::ours::is_ours;
use crate::request::Whose;
use corelane_wire::http1::{Authority, Request as Head, Status, check_field, percent};
use std::fmt;
use std::rc::Rc;

/// The most field lines, and the most redirects.
pub const RULES_MAX: usize = 60;

/// Bytes of all field lines together.
const BYTES_MAX: usize = 8 << 10;

/// Longer paths are matched as they were sent.
const PATH_BYTES_MAX: usize = 2 << 10;

/// Fields that say how content is to be read, which only its origin knows.
const OF_CONTENT: [&str; 6] = ["Content-Encoding", "Content-Range", "Keep-Alive", "TE", "Trailer", "Upgrade"];

/// Fields that say how long an answer is good, which is not meant for errors.
const OF_SUCCESS: [&str; 2] = ["Cache-Control", "Expires"];

/// Field lines of answers, and redirects, by path.
///
/// ```
/// use corelane_http::Rules;
///
/// let mut rules = Rules::new();
/// rules.field("/*", "Strict-Transport-Security: max-age=63072000")?.field("/assets/*", "Cache-Control: max-age=31536000")?;
/// rules.redirect("/old", "https://new.example/shop")?;
/// # Ok::<(), corelane_http::RuleError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    fields: Vec<Field>,
    redirects: Vec<Redirect>,
}

/// The rules of a service.
pub(crate) enum Book {
    /// For all requests.
    All(Rc<Rules>),
    /// For each of several applications, by its number.
    Each(Vec<Rules>),
}

impl Default for Book {
    fn default() -> Self {
        Self::All(Rc::default())
    }
}

impl Book {
    /// Those of one application, or of each.
    pub fn of_each(mut each: Vec<Rules>) -> Self {
        match each.len() {
            1 => Self::All(Rc::new(each.remove(0))),
            _ => Self::Each(each),
        }
    }

    /// Whether there is none in it.
    pub fn is_empty(&self) -> bool {
        match self {
            Self::All(rules) => rules.is_empty(),
            Self::Each(each) => each.iter().all(Rules::is_empty),
        }
    }

    /// Those for a request.
    #[inline]
    pub fn of(&self, whose: Whose) -> Option<&Rules> {
        match (self, whose) {
            (Self::All(rules), _) => Some(rules),
            (Self::Each(each), Whose::Site(site)) => each.get(usize::from(site)),
            (Self::Each(_), _) => None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Field {
    pattern: Pattern,
    name: String,
    line: Vec<u8>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Redirect {
    /// Without a slash at its end.
    from: String,
    to: To,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum To {
    /// The same over TLS, at this port.
    Https(u16),
    /// There, without a slash at its end; the rest of the path stands behind.
    Url(String),
}

/// A path, or one with something in the place of `*`.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Pattern {
    Exact(String),
    Around(String, String),
}

/// Rules that answers under way may have, which were asked for before the rules were changed.
pub(crate) const GENERATIONS: usize = 4;

/// Where the generation stands in [`Matched`].
const GENERATION_SHIFT: u32 = 62;

/// Which field lines an answer has: a bit for each, and above them of which generation of rules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Matched(u64);

/// What is wrong with a rule. The operator is at fault.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RuleError {
    /// The path or pattern that was written.
    Path(String),
    /// A line that is no field of an answer, and why.
    Field(String, String),
    /// A target that is none.
    Target(String),
    /// More than [`RULES_MAX`], or longer lines than 8 KiB together.
    Many,
}

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(text) => {
                write!(f, "{text:?} is no path: write one that begins with a slash, such as /assets/*, with one * at the most")
            }
            Self::Field(text, why) => write!(f, "{text:?}: {why}"),
            Self::Target(text) => write!(f, "{text:?} is no target: write https://HOST/PATH, http://HOST/PATH or /PATH"),
            Self::Many => {
                write!(f, "there are {RULES_MAX} of these at the most, and their lines have {BYTES_MAX} bytes together")
            }
        }
    }
}

impl std::error::Error for RuleError {}

impl Rules {
    /// None.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty() && self.redirects.is_empty()
    }

    /// Whether some requests are sent elsewhere.
    pub(crate) fn has_redirects(&self) -> bool {
        !self.redirects.is_empty()
    }

    /// Answers for paths of this pattern have this field line, `Name: value`, in the place of any of that name: of rules too, whose last one counts. `*` stands for any bytes. Paths are
    /// compared as they are once their percent-encoding is taken off. Cache-Control and Expires are left out of errors (4xx, 5xx).
    ///
    /// # Errors
    /// [`RuleError`].
    pub fn field(&mut self, pattern: &str, line: &str) -> Result<&mut Self, RuleError> {
        let pattern = Pattern::read(pattern)?;
        let (name, value) = read_field(line)?;
        let line = format!("{name}: {value}\r\n").into_bytes();
        let bytes: usize = self.fields.iter().map(|field| field.line.len()).sum();
        if self.fields.len() == RULES_MAX || bytes + line.len() > BYTES_MAX {
            return Err(RuleError::Many);
        }
        self.fields.push(Field { pattern, name: name.to_owned(), line });
        Ok(self)
    }

    /// Requests for `from`, and for all beneath it, are answered with 308 (Permanent Redirect) to `to` and what stands behind `from`, with the query.
    ///
    /// # Errors
    /// [`RuleError`].
    pub fn redirect(&mut self, from: &str, to: &str) -> Result<&mut Self, RuleError> {
        if !from.starts_with('/') || !from.bytes().all(is_visible) || from.contains(['*', '?', '#']) {
            return Err(RuleError::Path(from.to_owned()));
        }
        let is_path = to.starts_with('/') && !to.starts_with("//");
        if !(is_path || is_url(to)) || !to.bytes().all(is_visible) || to.contains(['?', '#']) {
            return Err(RuleError::Target(to.to_owned()));
        }
        self.add(from, To::Url(to.trim_end_matches('/').to_owned()))
    }

    /// All requests are answered with 308 (Permanent Redirect) to the same at `https://`, at this port.
    ///
    /// # Errors
    /// [`RuleError::Many`].
    pub fn to_https(&mut self, port: u16) -> Result<&mut Self, RuleError> {
        self.add("/", To::Https(port))
    }

    fn add(&mut self, from: &str, to: To) -> Result<&mut Self, RuleError> {
        if self.redirects.len() == RULES_MAX {
            return Err(RuleError::Many);
        }
        self.redirects.push(Redirect { from: from.trim_end_matches('/').to_owned(), to });
        // The longest one counts.
        self.redirects.sort_by_key(|redirect| std::cmp::Reverse(redirect.from.len()));
        Ok(self)
    }

    /// Which field lines the answer to a request for this path has.
    pub(crate) fn matched(&self, path: &[u8]) -> Matched {
        if self.fields.is_empty() {
            return Matched::default();
        }
        let mut memory = [0; PATH_BYTES_MAX];
        let path = percent::decode(path, &mut memory).unwrap_or(path);
        let bits = self.fields.iter().enumerate().filter(|(_, field)| field.pattern.matches(path));
        Matched(bits.fold(0, |bits, (at, _)| bits | 1 << at))
    }

    fn of(&self, Matched(bits): Matched) -> impl DoubleEndedIterator<Item = &Field> {
        self.fields.iter().enumerate().filter(move |(at, _)| bits >> at & 1 == 1).map(|(_, field)| field)
    }

    /// Adds those field lines to the head of an answer.
    pub(crate) fn write(&self, matched: Matched, status: Status, head: &mut Vec<u8>) {
        for field in self.of(matched).filter(|field| field.is_for(status)) {
            let is_last = self.of(matched).rfind(|other| other.name.eq_ignore_ascii_case(&field.name)) == Some(field);
            if is_last {
                head.extend_from_slice(&field.line);
            }
        }
    }

    /// Whether one of them has this name, so that no other line of it is sent.
    pub(crate) fn sets(&self, matched: Matched, status: Status, name: &[u8]) -> bool {
        self.of(matched).any(|field| field.is_for(status) && field.name.as_bytes().eq_ignore_ascii_case(name))
    }

    /// Where a request is sent instead.
    pub(crate) fn location(&self, head: &Head<'_>) -> Option<Vec<u8>> {
        let path = head.target.path;
        let is_of = |redirect: &&Redirect| {
            let rest = path.strip_prefix(redirect.from.as_bytes());
            path.first() == Some(&b'/') && rest.is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
        };
        let redirect = self.redirects.iter().find(is_of)?;
        let mut location = Vec::new();
        let rest = match &redirect.to {
            To::Https(port) => {
                location.extend_from_slice(&https(head.authority?, *port));
                path
            }
            To::Url(url) => {
                location.extend_from_slice(url.as_bytes());
                // A second slash at the beginning would name another host.
                let rest = path[redirect.from.len()..].iter().position(|byte| *byte != b'/');
                let begin = rest.map_or(path.len(), |at| redirect.from.len() + at);
                if begin < path.len() || path.ends_with(b"/") || url.is_empty() {
                    location.push(b'/');
                }
                &path[begin..]
            }
        };
        location.extend_from_slice(rest);
        head.target.query.into_iter().for_each(|query| [b"?", query].iter().for_each(|part| location.extend_from_slice(part)));
        Some(location)
    }
}

impl Matched {
    pub const NONE: Self = Self(0);

    /// Whether there are none, of whichever rules.
    pub fn is_none(self) -> bool {
        self.0 << (u64::BITS - GENERATION_SHIFT) == 0
    }

    /// The same, of this generation of rules.
    pub fn of(self, generation: usize) -> Self {
        assert!(generation < GENERATIONS, "two bits tell it");
        Self(self.0 | (generation as u64) << GENERATION_SHIFT)
    }

    /// The generation of its rules.
    pub fn generation(self) -> usize {
        (self.0 >> GENERATION_SHIFT) as usize
    }
}

impl Field {
    fn is_for(&self, status: Status) -> bool {
        status.code() < 400 || !OF_SUCCESS.iter().any(|name| self.name.eq_ignore_ascii_case(name))
    }
}

impl Pattern {
    fn read(text: &str) -> Result<Self, RuleError> {
        let wrong = || RuleError::Path(text.to_owned());
        if !text.starts_with('/') || text.chars().any(char::is_control) || text.matches('*').count() > 1 {
            return Err(wrong());
        }
        Ok(match text.split_once('*') {
            None => Self::Exact(text.to_owned()),
            Some((before, behind)) => Self::Around(before.to_owned(), behind.to_owned()),
        })
    }

    fn matches(&self, path: &[u8]) -> bool {
        match self {
            Self::Exact(exact) => path == exact.as_bytes(),
            Self::Around(before, behind) => {
                path.len() >= before.len() + behind.len()
                    && path.starts_with(before.as_bytes())
                    && path.ends_with(behind.as_bytes())
            }
        }
    }
}

/// The host that a client means, over TLS.
fn https(Authority { host, .. }: Authority<'_>, port: u16) -> Vec<u8> {
    let mut url = [b"https://", host].concat();
    if port != 443 {
        url.extend_from_slice(format!(":{port}").as_bytes());
    }
    url
}

fn is_visible(byte: u8) -> bool {
    byte.is_ascii_graphic()
}

fn is_url(text: &str) -> bool {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let host = rest.map(|rest| rest.split('/').next().unwrap_or_default());
    host.is_some_and(|host| {
        !host.is_empty() && Authority::parse(host.as_bytes()).is_some_and(|authority| !authority.host.is_empty())
    })
}

/// A field line as it may stand in an answer.
fn read_field(line: &str) -> Result<(&str, &str), RuleError> {
    let wrong = |why: &str| RuleError::Field(line.to_owned(), why.to_owned());
    let (name, value) = line.split_once(':').ok_or_else(|| wrong("it is no field: write Name: value"))?;
    let value = value.trim();
    check_field(name, value.as_bytes())
        .map_err(|_| wrong("a name has letters, digits and hyphens, and a value no control characters"))?;
    if is_ours(name) || OF_CONTENT.iter().any(|own| name.eq_ignore_ascii_case(own)) {
        return Err(wrong("this field is written by the server itself: leave it out"));
    }
    if name.eq_ignore_ascii_case("Strict-Transport-Security") && !has_max_age(value) {
        return Err(wrong("max-age=SECONDS is missing (RFC 6797 section 6.1)"));
    }
    if name.eq_ignore_ascii_case("Access-Control-Allow-Origin") && !(value == "*" || value == "null" || is_origin(value)) {
        return Err(wrong("it is *, null or one origin, such as https://app.example, without a path (Fetch section 3.2)"));
    }
    Ok((name, value))
}

fn has_max_age(value: &str) -> bool {
    let mut parts = value.split(';').map(|part| part.trim().to_ascii_lowercase());
    parts.any(|part| part.strip_prefix("max-age=").is_some_and(|age| age.trim_matches('"').parse::<u64>().is_ok()))
}

fn is_origin(value: &str) -> bool {
    is_url(value) && value.matches('/').count() == 2
}

#[cfg(test)]
mod tests {
    use super::*;
    use corelane_wire::http1::{Limits, Requests, Scratch, Step};

    fn location(rules: &Rules, target: &str) -> Option<String> {
        let text = format!("GET {target} HTTP/1.1\r\nHost: a.example:8080\r\n\r\n");
        let mut scratch = Scratch::new();
        let step = Requests::new(Limits::default()).next(text.as_bytes(), &mut scratch).unwrap();
        let Step::Request { head, .. } = step else { panic!("it is whole, and right: {step:?}") };
        rules.location(&head).map(|location| String::from_utf8(location).unwrap())
    }

    #[test]
    fn redirects_keep_what_stands_behind_and_name_no_other_host() {
        let mut rules = Rules::new();
        rules.redirect("/old", "https://new.example/shop/").unwrap().redirect("/old/deeper", "/here").unwrap();
        rules.redirect("/out/", "https://new.example").unwrap().redirect("/base", "/").unwrap();
        for (target, expected) in [
            ("/old", Some("https://new.example/shop")),
            ("/old/", Some("https://new.example/shop/")),
            ("/old/a%20b?c=1&d", Some("https://new.example/shop/a%20b?c=1&d")),
            ("/old/deeper/x", Some("/here/x")),
            ("/older", None),
            ("/", None),
            ("/out//evil.example/x", Some("https://new.example/evil.example/x")),
            ("/base//evil.example", Some("/evil.example")),
            ("/base", Some("/")),
        ] {
            assert_eq!(location(&rules, target).as_deref(), expected, "{target}");
        }
        let mut rules = Rules::new();
        rules.to_https(443).unwrap();
        assert_eq!(location(&rules, "//x?y").as_deref(), Some("https://a.example//x?y"));
        let mut rules = Rules::new();
        rules.to_https(8443).unwrap();
        assert_eq!(location(&rules, "/x").as_deref(), Some("https://a.example:8443/x"));
    }

    #[test]
    fn fields_are_those_of_the_path_and_the_last_of_a_name_counts() {
        let mut rules = Rules::new();
        rules.field("/*", "X-A: 1").unwrap().field("/*", "cache-control: no-store").unwrap();
        rules.field("/assets/*.js", "Cache-Control: max-age=60").unwrap().field("/one", "X-B: 2").unwrap();
        let of = |path: &str, status| {
            let (matched, mut head) = (rules.matched(path.as_bytes()), Vec::new());
            rules.write(matched, status, &mut head);
            String::from_utf8(head).unwrap()
        };
        let (ok, none) = (Status::OK, Status::NOT_FOUND);
        assert_eq!(of("/", ok), "X-A: 1\r\ncache-control: no-store\r\n");
        assert_eq!(of("/%61ssets/a.js", ok), "X-A: 1\r\nCache-Control: max-age=60\r\n");
        assert_eq!((of("/assets/a.js", none), of("/one", none)), ("X-A: 1\r\n".to_owned(), "X-A: 1\r\nX-B: 2\r\n".to_owned()));
        let matched = rules.matched(b"/");
        assert!(
            rules.sets(matched, ok, b"CACHE-CONTROL")
                && !rules.sets(matched, none, b"Cache-Control")
                && !rules.sets(matched, ok, b"X-B")
        );
    }

    #[test]
    fn what_is_no_rule_is_refused_with_the_remedy() {
        let of = |pattern: &str, line: &str| Rules::new().field(pattern, line).map(drop).map_err(|error| error.to_string());
        for (pattern, line, said) in [
            ("a", "X: 1", "begins with a slash"),
            ("/*/*", "X: 1", "one * at the most"),
            ("/", "X", "write Name: value"),
            ("/", "X Y: 1", "a name has letters"),
            ("/", "X: a\r\nY: b", "no control characters"),
            ("/", "content-length: 1", "written by the server itself"),
            ("/", "Content-Encoding: gzip", "written by the server itself"),
            ("/", "Strict-Transport-Security: includeSubDomains", "max-age=SECONDS is missing"),
            ("/", "Access-Control-Allow-Origin: https://a.example/x", "one origin"),
        ] {
            assert!(of(pattern, line).unwrap_err().contains(said), "{line}: {:?}", of(pattern, line));
        }
        assert_eq!(of("/", "Strict-Transport-Security: max-age=1; includeSubDomains"), Ok(()));
        assert_eq!(of("/", "Access-Control-Allow-Origin: https://a.example:8443"), Ok(()));
        for (from, to) in [
            ("a", "/b"),
            ("/a*", "/b"),
            ("/a", "b"),
            ("/a", "//evil"),
            ("/a", "ftp://b"),
            ("/a", "https://"),
            ("/a", "/b\r\nX: y"),
        ] {
            assert!(Rules::new().redirect(from, to).is_err(), "{from} {to}");
        }
        let mut many = Rules::new();
        (0..RULES_MAX).for_each(|_| assert!(many.field("/", "X: 1").is_ok()));
        assert_eq!(many.field("/", "X: 1"), Err(RuleError::Many));
        assert_eq!(Rules::new().field("/", &format!("X: {}", "x".repeat(BYTES_MAX))), Err(RuleError::Many));
    }
}
