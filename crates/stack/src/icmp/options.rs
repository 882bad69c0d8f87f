//! The options of IPv4: what is known of them here, and what a packet with others is (RFC 791, section 3.1; RFC 1122, sections 3.2.1.8 and 3.3.5).
//!
//! None is acted on. One that makes no sense is told of to the sender; a packet by a route that its sender has chosen is not taken, for who sends one is not
//! where he seems to be (RFC 7126, section 4.3): at its end it is dropped in silence, as by the kernel, and on its way its sender is told that we forward none.

/// Bytes of the header in front of the options.
const HEADER_BYTES: usize = 20;
const END: u8 = 0;
const FILL: u8 = 1;
const RECORD_ROUTE: u8 = 7;
const TIME_STAMP: u8 = 68;
const LOOSE_ROUTE: u8 = 131;
const STRICT_ROUTE: u8 = 137;
/// Bytes of an address.
const ADDRESS_BYTES: usize = 4;

/// Why a packet is not taken for its options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unfit {
    /// They make no sense at that byte of the packet.
    Wrong { at: usize },
    /// It is to go on by a route of its sender's.
    Route,
    /// It came by one.
    RouteEnded,
}

/// Looks at the options of a header, which has those bytes; why its packet is not to be taken, if so.
pub(crate) fn look(header: &[u8]) -> Option<Unfit> {
    let mut at = HEADER_BYTES;
    while let Some(&kind) = header.get(at) {
        match kind {
            END => break,
            FILL => at += 1,
            _ => match one(&header[at..]) {
                Ok(length) => at += length,
                Err(Unfit::Wrong { at: within }) => return Some(Unfit::Wrong { at: at + within }),
                Err(other) => return Some(other),
            },
        }
    }
    None
}

/// The option at the front of some bytes: its length.
fn one(bytes: &[u8]) -> Result<usize, Unfit> {
    let wrong = |at| Err(Unfit::Wrong { at });
    let length = bytes.get(1).map_or(0, |length| usize::from(*length));
    if length < 2 || length > bytes.len() {
        return wrong(0);
    }
    let (kind, option) = (bytes[0], &bytes[..length]);
    let (head, is_route) = match kind {
        RECORD_ROUTE => (3, false),
        LOOSE_ROUTE | STRICT_ROUTE => (3, true),
        TIME_STAMP => (4, false),
        // An option that nobody knows is passed over (RFC 1122, section 3.2.1.8).
        _ => return Ok(length),
    };
    if length < head {
        return wrong(1);
    }
    // It counts from 1, and points at what comes next, or behind the end.
    let pointer = usize::from(option[2]);
    if pointer <= head {
        return wrong(2);
    }
    match (is_route, pointer > length) {
        (true, true) => Err(Unfit::RouteEnded),
        (true, false) if pointer + ADDRESS_BYTES - 1 > length => wrong(2),
        (true, false) => Err(Unfit::Route),
        (false, _) => Ok(length),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_passed_over_refused_or_wrong() {
        let of = |options: &[u8]| look(&[&[0x45; HEADER_BYTES][..], options].concat());
        for (options, found) in [
            (&[][..], None),
            (&[1, 1, 1, 0], None),
            (&[148, 4, 0, 0], None),
            (&[0, 99, 0, 0], None),
            (&[7, 7, 4, 0, 0, 0, 0, 0], None),
            (&[68, 8, 5, 0, 0, 0, 0, 0], None),
            (&[1, 148, 4, 0], Some(Unfit::Wrong { at: 21 })),
            (&[148, 1, 0, 0], Some(Unfit::Wrong { at: 20 })),
            (&[148, 0, 0, 0], Some(Unfit::Wrong { at: 20 })),
            (&[1, 1, 1, 148], Some(Unfit::Wrong { at: 23 })),
            (&[7, 2, 0, 0], Some(Unfit::Wrong { at: 21 })),
            (&[7, 7, 3, 0, 0, 0, 0, 0], Some(Unfit::Wrong { at: 22 })),
            (&[68, 8, 4, 0, 0, 0, 0, 0], Some(Unfit::Wrong { at: 22 })),
            (&[131, 7, 8, 10, 0, 0, 9, 0], Some(Unfit::RouteEnded)),
            (&[137, 7, 4, 10, 0, 0, 9, 0], Some(Unfit::Route)),
            (&[1, 131, 7, 5, 10, 0, 0, 9], Some(Unfit::Wrong { at: 23 })),
        ] {
            assert_eq!(of(options), found, "{options:?}");
        }
    }
}
