//! Small pages of our own: what went wrong, and what lies in a directory.

use super::listings::LISTING_BYTES_MAX;
use corelane::service::{FileKind, FileName};
use corelane_wire::http1::{Status, percent};
use corelane_wire::xdr::Writer;
use std::os::unix::ffi::OsStrExt;

/// What a page has at the most behind its names.
const END_BYTES: usize = 128;

pub(super) const HTML: &str = "text/html; charset=utf-8";

/// The page of a status.
pub(super) fn of_status(status: Status) -> String {
    let (code, phrase) = (status.code(), status.phrase());
    format!("<!doctype html>\n<meta charset=\"utf-8\">\n<title>{code} {phrase}</title>\n<h1>{code} {phrase}</h1>\n")
}

/// The page of a directory; `name` is that of the request, empty for the root.
pub(super) fn of_directory(name: &[u8], mut names: Vec<FileName>, is_whole: bool) -> String {
    // Hidden names come last: where there is one, all others are there.
    let shows_all = is_whole || names.last().is_some_and(|last| last.name.as_bytes().starts_with(b"."));
    names.retain(|entry| !entry.name.as_bytes().starts_with(b"."));
    assert!(names.is_sorted(), "names come in order");
    let title = escaped(name);
    let mut page = format!("<!doctype html>\n<meta charset=\"utf-8\">\n<title>/{title}</title>\n<h1>/{title}</h1>\n<ul>\n");
    if !name.is_empty() {
        page.push_str("<li><a href=\"../\">../</a>\n");
    }
    let mut shown = 0;
    for entry in &names {
        let slash = if entry.kind == Some(FileKind::Directory) { "/" } else { "" };
        let name = entry.name.as_bytes();
        // With the dot a name that has a colon is no scheme.
        let line = format!("<li><a href=\"./{}{slash}\">{}{slash}</a>\n", reference(name), escaped(name));
        if page.len() + line.len() > LISTING_BYTES_MAX - END_BYTES {
            break;
        }
        page.push_str(&line);
        shown += 1;
    }
    page.push_str("</ul>\n");
    if !shows_all || shown < names.len() {
        page.push_str(&format!("<p>These are the first {shown} by name; the others are not shown.\n"));
    }
    page.shrink_to_fit();
    page
}

/// A path as it may stand in a reference and in Location.
pub(super) fn reference(path: &[u8]) -> String {
    let mut memory = vec![0; path.len() * 3];
    let mut writer = Writer::new(&mut memory);
    // reason: no byte takes more than three.
    percent::write_path(&mut writer, path).expect("there is room for all of it encoded");
    // What HTML gives a meaning; the others are encoded.
    String::from_utf8_lossy(writer.written()).replace('&', "%26").replace('\'', "%27")
}

/// Text in HTML; what is no UTF-8 is shown as such.
fn escaped(text: &[u8]) -> String {
    let mut escaped = String::new();
    for character in String::from_utf8_lossy(text).chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            control if control.is_control() => escaped.push('\u{fffd}'),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;

    fn entry(name: &[u8], kind: Option<FileKind>) -> FileName {
        FileName { name: OsStr::from_bytes(name).to_owned(), kind }
    }

    #[test]
    fn a_directory_is_shown_in_order_and_escaped() {
        let mut names = vec![
            entry(b"b\"><script>", Some(FileKind::Regular)),
            entry(b"a&'\n%\xff", Some(FileKind::Regular)),
            entry(b".hidden", Some(FileKind::Regular)),
            entry(b"javascript:x", Some(FileKind::Directory)),
            entry(b"link", None),
        ];
        names.sort();
        let page = of_directory(b"<top>/", names, true);
        let lines: Vec<&str> = page.lines().filter(|line| line.starts_with("<li>")).collect();
        assert_eq!(
            lines,
            [
                "<li><a href=\"../\">../</a>",
                "<li><a href=\"./a%26%27%0A%25%FF\">a&amp;&#39;\u{fffd}%\u{fffd}</a>",
                "<li><a href=\"./b%22%3E%3Cscript%3E\">b&quot;&gt;&lt;script&gt;</a>",
                "<li><a href=\"./javascript:x/\">javascript:x/</a>",
                "<li><a href=\"./link\">link</a>",
            ]
        );
        assert!(page.contains("<title>/&lt;top&gt;/</title>") && !page.contains("not shown"));
        let top = of_directory(b"", vec![entry(b"a", None)], false);
        assert!(!top.contains("../") && top.contains("These are the first 1 by name"));
        let hidden = of_directory(b"", vec![entry(b"a", None), entry(b".a", None)], false);
        assert!(!hidden.contains("not shown"), "all that may be shown is");
    }

    #[test]
    fn a_page_has_room_for_so_many_names() {
        let long = |at: usize| entry(format!("{at:05}{}", "a".repeat(250)).as_bytes(), None);
        let page = of_directory(b"", (0..10_000).map(long).collect(), true);
        let shown = page.lines().filter(|line| line.starts_with("<li>")).count();
        assert!(page.len() <= LISTING_BYTES_MAX && page.len() > LISTING_BYTES_MAX - 1_000, "{} bytes", page.len());
        assert!(page.ends_with(&format!("These are the first {shown} by name; the others are not shown.\n")));
    }

    #[test]
    fn a_status_has_a_page() {
        assert!(of_status(Status::NOT_FOUND).contains("<h1>404 Not Found</h1>"));
    }
}
