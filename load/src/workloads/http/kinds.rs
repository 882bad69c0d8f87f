//! How answers can be wrong.

use crate::kinds::{Kind, OwnKind};

macro_rules! own_kinds {
    ($($name:ident = $place:literal $word:literal $meaning:literal;)*) => {
        $(#[doc = concat!("`", $word, "`: ", $meaning, ".")]
        pub const $name: Kind = Kind::Own(&OwnKind { place: $place, name: $word, meaning: $meaning });)*

        /// All of them.
        pub const KINDS: &[Kind] = &[$($name,)*];
    };
}

own_kinds! {
    CLIENT_ERROR = 0 "http_4xx" "the server answered with a status from 400 to 499; with --any-status that is a right answer";
    SERVER_ERROR = 1 "http_5xx" "the server answered with a status from 500 to 599; with --any-status that is a right answer";
    CONTENT = 2 "http_content" "the content of a 2xx answer has another length or hash than --expect says";
    MALFORMED = 3 "http_malformed" "what came breaks RFC 9112, or its head is over 16 KiB; the connection is broken off";
    CUT = 4 "http_cut" "the server ended the connection in the middle of an answer";
    UNASKED = 5 "http_unasked" "bytes came that answer no request; the connection is broken off";
}
