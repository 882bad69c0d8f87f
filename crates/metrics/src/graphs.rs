//! Graphs of a gateway: a page in the browser, or a file with the same.
//!
//! [`Sampler`] is a thread beside the lanes that asks a [`Source`] every ten seconds and keeps what it says in a file ([`corelane_graphs`]). Whoever looks reads the
//! file: the server of the dashboard, at `/gateway`, or a command, also when the process has ended.

mod json;
mod sampler;

pub use corelane_graphs::{Name, Reading, Span, Subject};
pub use sampler::{Looked, PERIOD, Sampler, Source};

use corelane_graphs::{Error, last_known, view};
use std::fs::File;
use std::path::Path;

/// The page: all of it in one file, so that it needs nothing from elsewhere. It asks its server, unless something is embedded.
pub(crate) const PAGE: &str = include_str!("graphs/page.html");

/// What stands in the page where nothing is embedded.
const EMBEDDED: &str = "<script type=\"application/json\" id=\"embedded\">null</script>";

/// What a file knows of the span that ends at this second since 1970, as JSON.
///
/// # Errors
/// Those of [`view`]: it is no file of graphs, or cannot be read.
pub fn json(file: &Path, span: Span, now: u64) -> Result<Vec<u8>, Error> {
    Ok(json::write(&view(&File::open(file)?, span, now)?, now))
}

/// What a file knows of all spans, as one object of JSON. They end at this second since 1970, or with the last that is known if that was before.
///
/// # Errors
/// As of [`json`].
pub fn all_json(file: &Path, now: u64) -> Result<String, Error> {
    let until = last_known(&File::open(file)?)?.map_or(now, |last| last.min(now));
    let mut all = String::from("{");
    for span in Span::ALL {
        let one = json(file, span, until)?;
        all += if span == Span::Day { "\"" } else { ",\"" };
        all += &format!("{}\":{}", span.name(), String::from_utf8_lossy(&one));
    }
    Ok(all + "}")
}

/// A page with all that a file knows, which needs no server.
///
/// # Errors
/// As of [`json`].
pub fn document(file: &Path, now: u64) -> Result<String, Error> {
    // What a name says ends no element.
    let all = all_json(file, now)?.replace('<', "\\u003c");
    assert!(PAGE.contains(EMBEDDED), "the page has a place for it");
    Ok(PAGE.replacen(EMBEDDED, &EMBEDDED.replace("null", &all), 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use corelane_graphs::Store;

    #[test]
    fn what_a_name_says_ends_no_element_and_a_process_that_has_ended_shows_its_last_day() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("graphs");
        let file = File::options().read(true).write(true).create(true).truncate(false).open(&path).unwrap();
        let mut store = Store::open(file).unwrap();
        let name =
            Name::new(Subject::Rule { number: 7, text: "count // </script><script>executed=1</script>".into() }, "packets");
        for turn in 0..2 {
            store.record(1_700_000_000_000 + turn * 10_000, &[(name.clone(), Reading::Counter(turn * 55))]).unwrap();
        }
        let page = document(&path, 1_700_000_000 + 86_400 * 30).unwrap();
        assert_eq!(page.matches("<script").count(), PAGE.matches("<script").count());
        assert!(page.contains("\\u003c/script>") && page.contains("\"a\":[5.5]"), "the last day is there");
        let all: serde_json::Value = serde_json::from_str(&all_json(&path, 1_700_000_000 + 10).unwrap()).unwrap();
        assert_eq!(all["day"]["rules"][0]["number"], 7);
        assert_eq!(all["year"]["rows"], 366);
        assert!(json(Path::new("/nowhere"), Span::Day, 0).is_err());
    }
}
