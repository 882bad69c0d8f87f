//! What a file is, by its name.

use std::path::Path;

/// The media type of a file with this name, by a table of many people's; that of text says UTF-8.
pub(super) fn media(name: &str) -> String {
    let guess = mime_guess::from_path(Path::new(name)).first_or_octet_stream();
    match guess.type_() == mime_guess::mime::TEXT && guess.get_param("charset").is_none() {
        true => format!("{guess}; charset=utf-8"),
        false => guess.to_string(),
    }
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
            ("index.html", "text/html; charset=utf-8", true),
            ("a.b.CSS", "text/css; charset=utf-8", true),
            ("x.js", "text/javascript; charset=utf-8", true),
            ("x.svg", "image/svg+xml", true),
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
