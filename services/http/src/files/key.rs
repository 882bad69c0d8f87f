//! Under which keys the cache has what is sent.

use super::asked::CODINGS;
use super::place::Where;
use corelane_wire::http1::Coding;

/// The key under which the cache has what is sent for a name in a coding: the name itself for a file of the site, else one that no name of those can be.
pub(super) fn write(key: &mut Vec<u8>, at: Where, name: &[u8], coding: Coding) {
    key.clear();
    if at == Where::Errors {
        key.push(b'/');
    }
    key.extend_from_slice(name);
    if let Some((_, ending)) = CODINGS.iter().find(|(one, _)| *one == coding) {
        key.push(0);
        key.extend_from_slice(ending.as_bytes());
    }
}

/// Beneath which root lies what a key stands for: no name begins with a slash.
pub(super) fn place_of(key: &[u8]) -> Where {
    if key.starts_with(b"/") { Where::Errors } else { Where::Site }
}
