//! What a plan says of requests, and how the words of that are read.

use super::expect::Expect;
use crate::plan::Plan;

/// What a plan says of requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpSettings {
    /// The paths, at least one.
    pub wanted: Vec<Wanted>,
    /// What `Host` says.
    pub host: String,
    /// What `User-Agent` says; none leaves it out.
    pub agent: Option<String>,
    /// The method; none is GET, or POST where requests have content.
    pub method: Option<String>,
    /// Header lines by name and value.
    pub headers: Vec<(String, String)>,
    /// What the content of an answer must be, where its path says nothing else.
    pub expect: Expect,
    /// A status from 400 on is no failure.
    pub any_status: bool,
    /// The last request of a connection says so, where it is known.
    pub says_close: bool,
}

/// A path to ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The path, with its query.
    pub path: String,
    /// How often it is asked for, beside the others.
    pub weight: u32,
    /// What its content must be.
    pub expect: Option<Expect>,
}

impl Wanted {
    /// A path with the weight 1.
    pub fn new(path: &str) -> Self {
        Self { path: path.to_owned(), weight: 1, expect: None }
    }
}

impl Default for HttpSettings {
    fn default() -> Self {
        Self {
            wanted: vec![Wanted::new("/")],
            host: "localhost".to_owned(),
            agent: Some(concat!("corelane/", env!("CARGO_PKG_VERSION")).to_owned()),
            method: None,
            headers: Vec::new(),
            expect: Expect::First,
            any_status: false,
            says_close: true,
        }
    }
}

impl HttpSettings {
    /// What a plan says.
    pub fn in_plan(plan: &Plan) -> Self {
        plan.particulars.get()
    }

    /// The method of requests with a content of `size` bytes.
    pub fn method(&self, size: usize) -> &str {
        self.method.as_deref().unwrap_or(if size > 0 { "POST" } else { "GET" })
    }

    /// Whether such a request says how long its content is even if that is empty (RFC 9110 section 8.6).
    pub(super) fn has_content(&self, size: usize) -> bool {
        matches!(self.method(size), "POST" | "PUT" | "PATCH")
    }

    /// Whether the user gives a header line of this name.
    pub(super) fn says(&self, name: &str) -> bool {
        self.headers.iter().any(|(own, _)| own.eq_ignore_ascii_case(name))
    }

    /// What is called how, for a report.
    pub(super) fn call(&self, size: usize) -> String {
        match &self.wanted[..] {
            [only] => format!("{} {}", self.method(size), only.path),
            all => format!("{} of {} paths", self.method(size), all.len()),
        }
    }
}

/// Reads `/a`, `3 /a`, `/a any` or `3 /a 100:0123456789abcdef`.
pub fn wanted(text: &str) -> Result<Wanted, String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let (weight, rest) = match words.split_first() {
        Some((first, rest)) if first.bytes().all(|byte| byte.is_ascii_digit()) => (Some(first), rest),
        _ => (None, &words[..]),
    };
    let (path, expect) = match rest {
        [path] => (path, None),
        [path, expect] => (path, Some(expect.parse()?)),
        _ => return Err(format!("{text:?} is not [WEIGHT ]/PATH[ EXPECT]: write for example /a, or '3 /a any'")),
    };
    let weight = weight.map_or(Some(1), |digits| digits.parse().ok().filter(|&weight: &u32| weight > 0));
    let weight = weight.ok_or_else(|| format!("{text:?}: what stands before the path is its weight, a number from 1 on"))?;
    if !path.starts_with('/') || !path.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(format!(
            "{path:?} is no path: it must begin with a slash, and have percent-encoded what is not visible ASCII"
        ));
    }
    if path.contains('#') {
        return Err(format!("{path:?}: what follows # is not sent to servers: leave it out"));
    }
    Ok(Wanted { path: (*path).to_owned(), weight, expect })
}

/// Reads a list of paths, one a line.
pub fn list(text: &str) -> Result<Vec<Wanted>, String> {
    let mut list = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        if !line.trim().is_empty() && !line.trim_start().starts_with('#') {
            list.push(wanted(line).map_err(|why| format!("line {number}: {why}"))?);
        }
    }
    if list.is_empty() { Err("it names no path".to_owned()) } else { Ok(list) }
}

/// Whether a word may be the method.
pub fn check_method(text: &str) -> Result<(), String> {
    match text {
        "CONNECT" => Err("CONNECT asks for a tunnel, which is no answer".to_owned()),
        _ if text.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'-') => Ok(()),
        _ => Err(format!("{text:?} is no method: these are capital letters, such as GET")),
    }
}

/// Reads `Name: value`.
pub fn header(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once(':').ok_or_else(|| format!("{text:?} is not NAME: VALUE"))?;
    let (name, value) = (name.to_owned(), value.trim().to_owned());
    let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic() && !b"\"(),/:;<=>?@[\\]{}".contains(&byte));
    if !is_name || value.chars().any(|c| c.is_control() && c != '\t') {
        return Err(format!("{text:?} is no header line: write for example 'Accept: text/html'"));
    }
    let is_framing = ["content-length", "transfer-encoding"].iter().any(|own| name.eq_ignore_ascii_case(own));
    if is_framing { Err(format!("{name} follows from --size: leave it out")) } else { Ok((name, value)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_path_header_or_method_is_said() {
        for text in ["", "a", "0 /a", "x /a", "/a b c", "/a nothing", "/\u{e4}", "http://h/a", "/a#b", "3"] {
            assert!(wanted(text).is_err(), "{text:?}");
        }
        for text in ["a", ": b", "a b: c", "a: b\r\nc: d", "Content-Length: 5", "transfer-encoding: chunked"] {
            assert!(header(text).is_err(), "{text:?}");
        }
        assert_eq!(header("A:b: c "), Ok(("A".to_owned(), "b: c".to_owned())));
        assert!(check_method("GET").is_ok() && check_method("M-SEARCH").is_ok());
        assert!(check_method("get").is_err() && check_method("CONNECT").is_err());
    }
}
