//! The options of HTTP, and what they and the URL come to.

use super::expect::Expect;
use super::settings::{self, HttpSettings, Wanted};
use crate::error::Error;
use crate::place::Destination;
use corelane::service::entry::choice::{Chosen, Flag, Text};

pub const PATH: Text = Text::new(
    "path",
    "[WEIGHT ]/PATH[ EXPECT]",
    |text| settings::wanted(text).map(drop),
    "a path instead of the URL's, asked for by its weight [default: 1], with its content as for --expect; may be repeated",
);

pub const PATHS: Text = Text::new(
    "paths",
    "FILE",
    |text| settings::list(text).map(drop),
    "a file of paths, each on a line as for --path; what begins with # is passed over",
);

pub const METHOD: Text = Text::new(
    "method",
    "NAME",
    settings::check_method,
    "the method, in capitals; --size gives its request a content of so many bytes [default: GET, with --size POST]",
);

pub const HEADER: Text = Text::new(
    "header",
    "NAME: VALUE",
    |text| settings::header(text).map(drop),
    "a header line of each request, instead of the generator's own of that name; may be repeated",
);

pub const EXPECT: Text = Text::new(
    "expect",
    "HOW",
    |text| text.parse::<Expect>().map(drop),
    "content of 2xx answers: as the first of its path on each lane (first), BYTES, BYTES:HASH (XXH64), or any [default: first]",
);

pub const ANY_STATUS: Flag = Flag::new("any-status", "count 4xx and 5xx as right answers, not as failures");

/// What was chosen, at a place.
pub fn read(chosen: &Chosen, place: &Destination) -> Result<HttpSettings, Error> {
    let wrong = |name, why| Error::Setting { name, why };
    let mut list: Vec<Wanted> = Vec::new();
    for text in chosen.texts(&PATH) {
        list.push(settings::wanted(text).map_err(|why| wrong("path", why))?);
    }
    if let Some(text) = chosen.text(&PATHS) {
        list.extend(settings::list(text).map_err(|why| wrong("paths", why))?);
    }
    if !list.is_empty() && !matches!(place.path.as_str(), "" | "/") {
        return Err(wrong("path", format!("{} has a path of its own: leave that out, or name it with the others", place.url)));
    }
    if list.is_empty() {
        let slash = if place.path.starts_with('/') { "" } else { "/" };
        list.push(Wanted::new(&format!("{slash}{}", place.path)));
    }
    let headers: Result<Vec<_>, String> = chosen.texts(&HEADER).map(settings::header).collect();
    let expect = chosen.text(&EXPECT).map_or(Ok(Expect::First), str::parse);
    Ok(HttpSettings {
        wanted: list,
        host: place.authority.clone(),
        method: chosen.text(&METHOD).map(str::to_owned),
        headers: headers.map_err(|why| wrong("header", why))?,
        expect: expect.map_err(|why| wrong("expect", why))?,
        any_status: chosen.flag(&ANY_STATUS),
        ..HttpSettings::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workloads::http::ENTRY;

    fn chosen(url: &str, options: &[(&str, &str)]) -> Result<HttpSettings, Error> {
        let mut chosen = Chosen::default();
        for (name, value) in options {
            chosen.choose(ENTRY.options, name, Some(value)).unwrap();
        }
        read(&chosen, &ENTRY.place(Some(url))?)
    }

    #[test]
    fn the_url_alone_says_what_is_asked_for() {
        for (url, host, path) in [
            ("http://127.0.0.1", "127.0.0.1", "/"),
            ("http://127.0.0.1:8080/a/b?c=d", "127.0.0.1:8080", "/a/b?c=d"),
            ("http://[::1]:80?x", "[::1]:80", "/?x"),
            ("unix:/run/x.sock", "localhost", "/"),
        ] {
            let settings = chosen(url, &[]).unwrap();
            assert_eq!((settings.host.as_str(), settings.wanted), (host, vec![Wanted::new(path)]), "{url}");
        }
        assert_eq!(ENTRY.place(Some("http://127.0.0.1/a")).unwrap().url, "http://127.0.0.1:8080/a");
        assert!(chosen("http://127.0.0.1/a#b", &[]).unwrap_err().to_string().contains('#'));
    }

    #[test]
    fn paths_have_weights_and_contents() {
        let found = chosen("http://127.0.0.1/", &[("path", "/a"), ("path", "3 /b any"), ("path", "/c 7")]).unwrap().wanted;
        let wanted = [(1, "/a", None), (3, "/b", Some(Expect::Any)), (1, "/c", Some(Expect::Length(7)))];
        let wanted = wanted.map(|(weight, path, expect)| Wanted { path: path.to_owned(), weight, expect });
        assert_eq!(found, wanted);
        let both = chosen("http://127.0.0.1/x", &[("path", "/a")]).unwrap_err().to_string();
        assert!(both.contains("http://127.0.0.1:8080/x") && both.contains("leave that out"), "{both}");
    }

    #[test]
    fn a_list_is_read_line_by_line() {
        let found = chosen("http://127.0.0.1", &[("paths", "# all\n/a\n\n  2 /b\n"), ("path", "/c")]).unwrap().wanted;
        assert_eq!(found.iter().map(|wanted| wanted.path.as_str()).collect::<Vec<_>>(), ["/c", "/a", "/b"]);
        assert!(settings::list("/a\nb\n").unwrap_err().starts_with("line 2: "));
        assert!(settings::list("# none\n").unwrap_err().contains("names no path"));
    }
}
