//! What must hold for any text. The fuzzer and the tests run the same function.

use std::str::FromStr;

use corelane_rss::{Error, HashTypes, Key, Spread, Table};

/// Text in any of the forms: what is read is written so that it is read again as the same.
pub fn target(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    again::<Key>(text);
    again::<Table>(text);
    again::<HashTypes>(text);
    again::<Spread>(text);
}

fn again<T: FromStr<Err = Error> + ToString + PartialEq>(text: &str) {
    match text.parse::<T>() {
        Ok(value) => assert!(value.to_string().parse() == Ok(value), "{text}"),
        Err(error) => assert!(error.to_string().len() < 300, "{error}"),
    }
}
