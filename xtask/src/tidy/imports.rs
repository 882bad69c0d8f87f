//! What a file imports.

use super::source::Source;

/// Every path that the `use` whose tree starts at `start` brings in, with the token that it ends at.
pub fn imported(source: &Source, start: usize) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut outer: Vec<String> = Vec::new();
    let mut path = String::new();
    let mut leaf = None;
    for index in start..source.tokens() {
        match source.word(index) {
            "::" => leaf = None,
            "{" => outer.push(path.clone()),
            "," | "}" | ";" => {
                found.extend(leaf.take().map(|at| (at, path.clone())));
                if source.word(index) == "}" {
                    outer.pop();
                }
                path = outer.last().cloned().unwrap_or_default();
            }
            "as" | "self" | "_" => leaf = leaf.or(Some(index)),
            _ if source.word(index - 1) == "as" => {}
            word => {
                path = if path.is_empty() { word.to_owned() } else { format!("{path}::{word}") };
                leaf = Some(index);
            }
        }
        if source.word(index) == ";" {
            break;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn imports_are_taken_apart() {
        let source = Source::new("a.rs", "use std::{fs, time::{self, Instant as I}, a::b::*};");
        let paths: Vec<_> = imported(&source, 1).into_iter().map(|(_, path)| path).collect();
        assert_eq!(paths, ["std::fs", "std::time", "std::time::Instant", "std::a::b::*"]);
    }
}
