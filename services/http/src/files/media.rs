//! What a file is, by its name.

use corelane_wire::http1::Coding;
use std::path::Path;

/// The media type of a file with this name, by a table of many people's. That of plain text says UTF-8, for nothing else does; what HTML, XML and CSS are written in stands in them, and what is said here
/// would be believed instead (RFC 7303 section 3.2).
pub(super) fn media(name: &str) -> String {
    let guess = mime_guess::from_path(Path::new(name)).first_or_octet_stream();
    match guess.essence_str() == "text/plain" && guess.get_param("charset").is_none() {
        true => format!("{guess}; charset=utf-8"),
        false => guess.to_string(),
    }
}

/// The coding that a file's own name says it is in, where its media type does not say so: images of SVG are compressed under a name of their own.
pub(super) fn own_coding(name: &str) -> Option<Coding> {
    let extension = Path::new(name).extension()?;
    extension.eq_ignore_ascii_case("svgz").then_some(Coding::Gzip)
}

/// Whether files of this type are worth compressing, so that some may lie beside them that are.
pub(super) fn is_compressible(media: &str) -> bool {
    const OTHERS: [&str; 7] = [
        "application/javascript",
        "application/json",
        "application/wasm",
        "application/xml",
        "application/x-javascript",
        "font/otf",
        "font/ttf",
    ];
    media.starts_with("text/") || media.ends_with("+xml") || media.ends_with("+json") || OTHERS.contains(&media)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_by_name() {
        for (name, expected, compressible) in [
            ("index.html", "text/html", true),
            ("a.b.CSS", "text/css", true),
            ("x.js", "text/javascript", true),
            ("x.xml", "text/xml", true),
            ("x.txt", "text/plain; charset=utf-8", true),
            ("x.svg", "image/svg+xml", true),
            ("x.svgz", "image/svg+xml", true),
            ("x.json", "application/json", true),
            ("x.wasm", "application/wasm", true),
            ("x.png", "image/png", false),
            ("x.tar.gz", "application/gzip", false),
            ("README", "application/octet-stream", false),
        ] {
            assert_eq!((media(name).as_str(), is_compressible(&media(name))), (expected, compressible), "{name}");
        }
    }
}
