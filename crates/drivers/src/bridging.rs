//! A bridge, where this kernel has what it takes.

use corelane_bridge::{Bridge, Error};
use std::fs;

/// Until 6.4 readers could miss what their connection had received before it entered, or what a program passed to them (the series "bpf sockmap fixes" of that version). Until 6.6 a piece had two
/// owners while the program looked at it ("Fix skb refcnt race after locking changes"), and nobody may shorten such a piece. Until 6.16 a piece of which the kernel's thread had sent a part was sent
/// again from its beginning ("fix duplicated data transmission"). Older series that are still mended may have all of that, but their release does not say so.
const LEAST: [u32; 2] = [6, 16];

/// For so many pairs.
///
/// # Errors
/// In words, why there is none.
pub(crate) fn make(pairs: usize) -> Result<Bridge, String> {
    // proc_sys_kernel(5).
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    if !is_new_enough(&release) {
        let [major, minor] = LEAST;
        return Err(format!("the kernel is {}, and it takes {major}.{minor}", release.trim()));
    }
    // The remedy is not that of steering, of which the error speaks.
    let words = |error| if let Error::BpfForbidden { call } = error { format!("{call} is forbidden") } else { error.to_string() };
    Bridge::new(pairs).map_err(words)
}

/// Makes a bridge for one pair, and drops it.
///
/// # Errors
/// In words, why the system makes none.
pub fn probe_bridge() -> Result<(), String> {
    make(1).map(drop)
}

/// A release that says nothing of itself is taken as new.
fn is_new_enough(release: &str) -> bool {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map_while(|text| text.parse().ok());
    match (numbers.next(), numbers.next()) {
        (Some(major), Some(minor)) => [major, minor] >= LEAST,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::is_new_enough;

    #[test]
    fn old_kernels_are_told_by_their_release() {
        for (release, is_new) in [
            ("6.18.3-x86_64\n", true),
            ("6.16.0", true),
            ("6.15.11", false),
            ("6.6.100", false),
            ("5.15.0-91-generic", false),
            ("7.0", true),
            ("", true),
        ] {
            assert_eq!(is_new_enough(release), is_new, "{release}");
        }
    }
}
